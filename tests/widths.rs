//! A number of another width, or a text stored otherwise, is the same column: over files, at
//! transform, as label, weight and kept column. Only a change of kind is refused.

use crate::workdir::{Workdir, doubles, names};
use arrow_array::types::{Float32Type, Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeListArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, ListArray,
    StringArray,
};
use arrow_schema::{DataType, Field};
use std::sync::Arc;

const ROWS: usize = 30;

fn value(row: usize, column: usize) -> i32 {
    ((row * 7 + column * 11 + row * row % 5) % 23) as i32 - 9
}

fn whole(column: usize) -> Vec<i32> {
    (0..ROWS).map(|row| value(row, column)).collect()
}

fn int32(column: usize) -> ArrayRef {
    Arc::new(Int32Array::from(whole(column)))
}

fn int64(column: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(whole(column).into_iter().map(i64::from)))
}

fn float64(column: usize) -> ArrayRef {
    doubles(whole(column).into_iter().map(f64::from).collect())
}

fn float32(column: usize) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(whole(column).into_iter().map(|v| v as f32)))
}

fn decimal(column: usize) -> ArrayRef {
    let digits = whole(column).into_iter().map(|v| i128::from(v) * 100);
    let array = Decimal128Array::from_iter_values(digits);
    Arc::new(array.with_precision_and_scale(12, 2).unwrap())
}

fn table(dir: &Workdir, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let columns = columns.into_iter().map(|(name, array)| (name.to_string(), array));
    dir.table(name, columns.collect(), 16);
}

fn components(dir: &Workdir, model: &str) -> serde_json::Value {
    let page = dir.json(&["inspect", model]);
    serde_json::json!([page["components"], page["eigenvalues"], page["mean"]])
}

#[test]
fn numbers_of_any_width_are_one_column() {
    let dir = Workdir::new();
    // The same rows, of one width and of several.
    table(&dir, "plain/a.parquet", vec![("x", float64(0)), ("y", float64(1)), ("z", float64(2))]);
    table(&dir, "plain/b.parquet", vec![("x", float64(3)), ("y", float64(4)), ("z", float64(5))]);
    table(&dir, "mixed/a.parquet", vec![("x", int32(0)), ("y", float32(1)), ("z", float64(2))]);
    table(&dir, "mixed/b.parquet", vec![("z", decimal(5)), ("x", int64(3)), ("y", float64(4))]);
    dir.ok(&["fit", "plain", "-k", "3", "-o", "plain.st", "--quiet"]);
    let run = dir.ok(&["fit", "mixed", "-k", "3", "-o", "mixed.st"]);
    let told = "of several widths, and read as one column each: x (Int32, Int64), \
                y (Float32, Float64), z (Float64, Decimal128(12, 2))";
    assert_eq!(run.stderr.matches("of several widths").count(), 1, "{}", run.stderr);
    let flat = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    // The order in which they are met is that of the second file.
    assert!(flat.contains("x (Int32, Int64)") && flat.contains("y (Float32, Float64)"), "{flat}");
    assert!(flat.contains("z (Float64, Decimal128(12, 2))"), "{flat} {told}");
    assert_eq!(components(&dir, "plain.st"), components(&dir, "mixed.st"));

    // Every form and both directions, and a model of the one on files of the other.
    for form in ["dual", "randomized"] {
        dir.ok(&["fit", "mixed", "-k", "2", "--form", form, "-o", "m", "--quiet"]);
    }
    let run = dir.ok(&["transform", "plain.st", "mixed", "-o", "a.parquet"]);
    assert!(run.stderr.contains("was Float64, is Int64"), "{}", run.stderr);
    dir.ok(&["transform", "mixed.st", "plain", "-o", "b.parquet", "--quiet"]);
    let scores = names("pc", 1, 3);
    assert_eq!(dir.numbers("a.parquet", &scores), dir.numbers("b.parquet", &scores));
}

#[test]
fn vectors_of_any_width_are_one_column() {
    let dir = Workdir::new();
    let singles: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        (0..ROWS).map(|r| Some((0..3).map(move |j| Some(value(r, j) as f32)))),
        3,
    ));
    let row = |r: usize| Some((0..3).map(move |j| Some(f64::from(value(r, j + 3)))));
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>((0..ROWS).map(row)));
    let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(
        (0..ROWS).map(|r| Some((0..3).map(move |j| Some(f64::from(value(r, j)))))),
        3,
    ));
    table(&dir, "mixed/a.parquet", vec![("v", singles)]);
    table(&dir, "mixed/b.parquet", vec![("v", lists.clone())]);
    table(&dir, "plain/a.parquet", vec![("v", fixed)]);
    table(&dir, "plain/b.parquet", vec![("v", lists)]);
    for data in ["mixed", "plain"] {
        dir.ok(&["fit", data, "-k", "3", "-o", &format!("{data}.st"), "--quiet"]);
    }
    assert_eq!(components(&dir, "mixed.st"), components(&dir, "plain.st"));
    // A kept vector comes out in one type.
    let keep = ["transform", "plain.st", "mixed", "--keep", "v", "-o", "out.parquet", "--quiet"];
    dir.ok(&keep);
    let kept = dir.read("out.parquet");
    let kept_type = kept.schema().field(0).data_type().clone();
    assert!(matches!(&kept_type, DataType::List(item) if *item.data_type() == DataType::Float64));
    assert_eq!(kept.num_rows(), 2 * ROWS);
}

#[test]
fn labels_and_weights_and_kept_columns_may_be_stored_otherwise() {
    let dir = Workdir::new();
    let text: Vec<String> = (0..ROWS).map(|r| format!("c{}", r % 3)).collect();
    let dictionary: DictionaryArray<Int32Type> = text.iter().map(String::as_str).collect();
    let kinds: [ArrayRef; 3] = [
        Arc::new(StringArray::from(text.clone())),
        Arc::new(LargeStringArray::from(text.clone())),
        Arc::new(dictionary),
    ];
    let classes = |r: usize| (r % 3) as i64;
    let numbers: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(classes))),
        doubles((0..ROWS).map(|r| classes(r) as f64).collect()),
        Arc::new(Int8Array::from_iter_values((0..ROWS).map(|r| classes(r) as i8))),
    ];
    for (i, (kind, number)) in kinds.into_iter().zip(numbers).enumerate() {
        let name = format!("mixed/{i}.parquet");
        let columns = vec![
            ("x", float64(2 * i)),
            ("y", float64(2 * i + 1)),
            ("kind", kind.clone()),
            ("number", number.clone()),
        ];
        table(&dir, &name, columns);
        let name = format!("plain/{i}.parquet");
        let kind = Arc::new(StringArray::from(text.clone()));
        let number = Arc::new(Int64Array::from_iter_values((0..ROWS).map(classes)));
        let columns = vec![("x", float64(2 * i)), ("y", float64(2 * i + 1)), ("kind", kind as _)];
        table(&dir, &name, [columns, vec![("number", number as _)]].concat());
    }
    let both = |options: &[&str]| {
        let of = |data: &str| {
            let args = ["fit", data, "--columns", "x,y", "-o", "m", "--quiet"];
            dir.ok(&[&args[..], options].concat());
            let page = dir.json(&["inspect", "m"]);
            serde_json::json!([page["components"], page["eigenvalues"], page["label"]])
        };
        assert_eq!(of("mixed"), of("plain"), "{options:?}");
    };
    both(&["--method", "spca", "--label", "kind"]);
    both(&["--method", "spca", "--label", "number", "--classes"]);
    both(&["--method", "spca", "--label", "number"]);
    both(&["--weight", "number"]);
    dir.ok(&["fit", "mixed", "--columns", "x,y", "-o", "m", "--quiet"]);
    let args = ["transform", "m", "mixed", "--keep", "kind,number", "-o", "out.parquet", "--quiet"];
    dir.ok(&args);
    let kept = dir.read("out.parquet");
    assert_eq!(kept.schema().field(0).data_type(), &DataType::LargeUtf8);
    assert_eq!(kept.schema().field(1).data_type(), &DataType::Float64);
    let all: Vec<String> = [text.clone(), text.clone(), text].concat();
    let expected: ArrayRef = Arc::new(LargeStringArray::from(all));
    assert_eq!(kept.column(0), &expected);
    let numbers = (0..3 * ROWS).map(|i| classes(i % ROWS) as f64);
    let expected: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers));
    assert_eq!(kept.column(1), &expected);
}

#[test]
fn groups_of_numbers_are_those_of_any_width() {
    let dir = Workdir::new();
    table(&dir, "d/a.parquet", vec![("x", float64(0)), ("day", int32(1))]);
    table(&dir, "d/b.parquet", vec![("x", float64(2)), ("day", float64(1))]);
    dir.ok(&["scan", "d", "--by", "day", "--columns", "x", "-o", "by", "--quiet"]);
    let groups = std::fs::read_dir(dir.path("by")).unwrap().count();
    let mut days = whole(1);
    days.sort_unstable();
    days.dedup();
    assert_eq!(groups, days.len());
}

#[test]
fn a_change_of_kind_is_refused() {
    let dir = Workdir::new();
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..ROWS).map(|r| Some(r % 2 == 0))));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|r| r.to_string())));
    table(&dir, "a.parquet", vec![("x", float64(0)), ("y", int64(1)), ("z", float64(2))]);
    table(&dir, "b.parquet", vec![("x", float64(0)), ("y", text), ("z", float64(5))]);
    table(&dir, "c.parquet", vec![("x", float64(0)), ("y", flags), ("z", float64(5))]);
    for (file, kind) in [("b.parquet", "Utf8"), ("c.parquet", "Boolean")] {
        let said = dir.fails(1, &["fit", "a.parquet", file, "-o", "m"]);
        let problem = format!("column 'y': is {kind} here but Int64 in a.parquet");
        assert!(said.contains(file) && said.contains(&problem), "{said}");
        dir.ok(&["fit", "a.parquet", "-o", "m", "--quiet"]);
        let said = dir.fails(1, &["transform", "m", file, "-o", "out"]);
        assert!(said.contains(&format!("is {kind} here but was Int64")), "{said}");
    }
    // Columns that take no part may be anything.
    dir.ok(&["fit", "a.parquet", "b.parquet", "--exclude", "y", "-o", "m", "--quiet"]);
}

#[test]
fn a_column_that_may_be_null_in_a_later_file_is_kept_as_one() {
    let dir = Workdir::new();
    let batch = |field: Field, array: ArrayRef, name: &str| {
        let fields = vec![Field::new("x", DataType::Float64, false), field];
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        let batch = arrow_array::RecordBatch::try_new(schema, vec![float64(0), array]).unwrap();
        let file = std::fs::File::create(dir.path(name)).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    };
    let holes = (0..ROWS).map(|r| (r % 4 > 0).then_some(r as i64));
    batch(Field::new("id", DataType::Int32, false), int32(1), "a.parquet");
    batch(
        Field::new("id", DataType::Int64, true),
        Arc::new(Int64Array::from_iter(holes)),
        "b.parquet",
    );
    dir.ok(&["fit", "a.parquet", "--columns", "x", "-o", "m", "--quiet"]);
    let files = ["transform", "m", "a.parquet", "b.parquet", "--keep", "id", "-o", "out.parquet"];
    dir.ok(&files);
    let kept = dir.read("out.parquet");
    assert_eq!((kept.num_rows(), kept.column(0).null_count()), (2 * ROWS, 8));
}
