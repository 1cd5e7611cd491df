//! Directories named `key=value` and fields of structs are columns, and any name can be named.

use crate::workdir::{Workdir, doubles};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use eigenstream::{ArrowTable, Fit, Quiet, Transform};
use std::sync::Arc;

const ROWS: usize = 20;

fn wave(step: f64) -> ArrayRef {
    doubles((0..ROWS).map(|i| (i as f64 * step).sin()).collect())
}

/// Four files below `name`, of two years and two regions.
fn hive(dir: &Workdir, name: &str) {
    for (i, (year, region)) in
        [(2023, "eu"), (2023, "us%2Fca"), (2024, "eu"), (2024, "us%2Fca")].iter().enumerate()
    {
        let path = format!("{name}/year={year}/region={region}/part.parquet");
        let step = 0.4 + 0.3 * i as f64;
        let columns = vec![("x".to_string(), wave(step)), ("y".to_string(), wave(2.0 * step))];
        dir.table(&path, columns, 7);
    }
}

/// The same rows with the keys as columns.
fn flat(dir: &Workdir, name: &str) {
    for (i, (year, region)) in
        [(2023, "eu"), (2023, "us/ca"), (2024, "eu"), (2024, "us/ca")].iter().enumerate()
    {
        let step = 0.4 + 0.3 * i as f64;
        let year: ArrayRef = Arc::new(Int64Array::from(vec![*year; ROWS]));
        let region: ArrayRef = Arc::new(StringArray::from(vec![*region; ROWS]));
        let columns = vec![("x", wave(step)), ("y", wave(2.0 * step)), ("year", year)];
        let columns = [columns, vec![("region", region)]].concat();
        let columns = columns.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
        dir.table(&format!("{name}/{i}.parquet"), columns, 7);
    }
}

fn about(dir: &Workdir, model: &str) -> serde_json::Value {
    let page = dir.json(&["inspect", model]);
    serde_json::json!([page["features"], page["components"], page["eigenvalues"], page["label"]])
}

#[test]
fn partition_keys_are_labels_weights_features_and_kept() {
    let dir = Workdir::new();
    hive(&dir, "hive");
    flat(&dir, "flat");
    let compare = |options: &[&str]| {
        let of = |data: &str| {
            let model = format!("{data}.st");
            dir.ok(&[&["fit", data, "-o", &model, "--quiet"][..], options].concat());
            about(&dir, &model)
        };
        assert_eq!(of("hive"), of("flat"), "{options:?}");
    };
    compare(&["--columns", "x,y", "--method", "spca", "--label", "region"]);
    compare(&["--columns", "x,y", "--method", "spca", "--label", "region,year"]);
    compare(&["--columns", "x,y", "--weight", "year"]);
    compare(&["--columns", "x,y,year"]);
    compare(&["--columns", "x,y,year", "--form", "dual"]);
    compare(&["--columns", "x,y", "--score-by", "year", "--keep-features", "1"]);

    // They are no features unless named, and that is told.
    let run = dir.ok(&["fit", "hive", "-o", "m"]);
    assert!(run.stderr.contains("features: 2 of 4 columns: x, y"), "{}", run.stderr);
    assert!(run.stderr.contains("not year, region (partition key)"), "{}", run.stderr);

    dir.ok(&["scan", "hive", "--by", "region", "-o", "by", "--quiet"]);
    assert_eq!(std::fs::read_dir(dir.path("by")).unwrap().count(), 2);

    let transform = |options: &[&str]| {
        let args = ["transform", "m", "hive", "-o", "out.parquet", "--quiet"];
        dir.ok(&[&args[..], options].concat());
        dir.read("out.parquet")
    };
    let kept = transform(&["--keep", "year,region"]);
    let years = kept.column(0).as_primitive::<Int64Type>();
    assert_eq!((years.value(0), years.value(4 * ROWS - 1)), (2023, 2024));
    assert_eq!(kept.column(1).as_string::<i32>().value(ROWS), "us/ca");
    let all = transform(&["--keep-all"]);
    let schema = all.schema();
    let fields: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(fields, ["x", "y", "year", "region", "pc1", "pc2"]);
    let globbed = transform(&["--keep", "[xy],r*"]);
    assert_eq!(globbed.schema().field(2).name(), "region");
}

#[test]
fn a_key_that_a_file_lacks_is_refused_where_it_matters() {
    let dir = Workdir::new();
    hive(&dir, "hive");
    dir.table("other.parquet", vec![("x".into(), wave(0.9)), ("y".into(), wave(0.2))], 7);
    dir.ok(&["fit", "hive", "other.parquet", "-o", "m", "--quiet"]);
    let said = dir.fails(
        1,
        &["fit", "hive", "other.parquet", "--label", "year", "--method", "spca", "-o", "m"],
    );
    assert!(said.contains("other.parquet: column 'year': is missing here"), "{said}");
    // A directory in the middle of the layout is a part of it.
    let run = dir.ok(&[
        "fit",
        "hive/year=2024",
        "--columns",
        "x,y,year",
        "--method",
        "spca",
        "--label",
        "region",
        "-o",
        "m",
    ]);
    assert!(run.stderr.contains("features: 3 of 4 columns"), "{}", run.stderr);
}

fn nested(null_rows: bool) -> ArrayRef {
    let inner: ArrayRef = Arc::new(StructArray::from(vec![(
        Arc::new(Field::new("depth", DataType::Float64, true)),
        wave(1.3),
    )]));
    let fields = vec![
        Field::new("width", DataType::Float64, true),
        Field::new("kind", DataType::Utf8, true),
        Field::new("inner", inner.data_type().clone(), true),
    ];
    let kinds: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| format!("k{}", i % 2))));
    let nulls = null_rows.then(|| NullBuffer::from_iter((0..ROWS).map(|i| i != 3)));
    Arc::new(StructArray::new(fields.into(), vec![wave(0.7), kinds, inner], nulls))
}

#[test]
fn fields_of_structs_are_columns() {
    let dir = Workdir::new();
    let table = |name: &str, null_rows: bool| {
        let columns = vec![("x".to_string(), wave(0.4)), ("size".to_string(), nested(null_rows))];
        dir.table(name, columns, 7);
    };
    table("s.parquet", false);
    table("holes.parquet", true);
    let kinds: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| format!("k{}", i % 2))));
    let columns = [("x", wave(0.4)), ("width", wave(0.7)), ("depth", wave(1.3)), ("kind", kinds)];
    let columns = columns.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
    dir.table("plain.parquet", columns, 7);

    let components = |data: &str, columns: &str, label: &str| {
        let args = ["fit", data, "--columns", columns, "--label", label, "-o", "m", "--quiet"];
        dir.ok(&[&args[..], &["--method", "spca", "--with-variance"]].concat());
        let page = dir.json(&["inspect", "m"]);
        serde_json::json!([page["components"], page["eigenvalues"], page["mean"]])
    };
    let expected = components("plain.parquet", "x,width,depth", "kind");
    let named = "x,size.width,size.inner.depth";
    assert_eq!(components("s.parquet", named, "size.kind"), expected);
    assert_eq!(components("s.parquet", "x,size.*", "size.kind"), expected);

    // Not by default, and told how they are named.
    let run = dir.ok(&["fit", "s.parquet", "-o", "m"]);
    let told = "not size (a struct; its fields are named like size.width)";
    assert!(run.stderr.contains(told), "{}", run.stderr);

    // A null struct has no fields.
    let said = dir.fails(1, &["fit", "holes.parquet", "--columns", named, "-o", "m"]);
    assert!(said.contains("column 'size.width', row 3"), "{said}");
    let run = dir.ok(&["fit", "holes.parquet", "--columns", named, "--nulls", "drop", "-o", "m"]);
    assert!(run.stderr.contains("1 row of 20 dropped"), "{}", run.stderr);

    let args = ["transform", "m", "holes.parquet", "--keep", "size.kind,size", "-o", "out.parquet"];
    dir.ok(&[&args[..], &["--nulls", "null"]].concat());
    let kept = dir.read("out.parquet");
    assert_eq!(kept.schema().field(0).name(), "size.kind");
    assert_eq!((kept.column(0).null_count(), kept.column(1).null_count()), (1, 1));
    let said = dir.fails(2, &["fit", "s.parquet", "--columns", "size.widht", "-o", "m"]);
    assert!(said.contains("did you mean 'size.width'?"), "{said}");
}

#[test]
fn fields_of_structs_in_memory_are_columns_too() {
    let table = ArrowTable::from(
        arrow_array::RecordBatch::try_from_iter([("x", wave(0.4)), ("size", nested(true))])
            .unwrap(),
    );
    let fit = Fit::pca().columns(["x", "size.width"]).nulls(eigenstream::Nulls::Drop);
    let model = fit.plan(&table).unwrap().run(&Quiet).unwrap();
    assert_eq!(model.header.n_rows, ROWS as u64 - 1);
    let mut scores = Vec::new();
    let keep = Transform::default().keep(["size.kind"]);
    keep.plan(&model, &table).unwrap().run(&mut scores, &Quiet).unwrap();
    assert_eq!(scores[0].schema().field(0).name(), "size.kind");
}
