//! Columns that tell rows apart and measure nothing: left out where a file says so, told where it
//! only looks so.

use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use eigenstream::{ArrowTable, Dataset, Fit, Hsic, Note, Scan};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn wave(n: usize, step: f64) -> ArrayRef {
    doubles((0..n).map(|i| (i as f64 * step).sin()).collect())
}

/// A file as pandas writes it, with these columns as its index.
fn pandas(dir: &Workdir, name: &str, index: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let about = format!(r#"{{"index_columns": [{index}], "columns": []}}"#);
    let about = vec![KeyValue::new("pandas".to_string(), about)];
    let properties = WriterProperties::builder().set_key_value_metadata(Some(about)).build();
    let file = File::create(dir.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_pandas_index_is_no_feature_unless_it_is_named() {
    let dir = Workdir::new();
    let (x, y) = (wave(20, 0.7), wave(20, 1.9));
    let day = ints((0..20).map(|i| i * i));
    let columns = vec![("x", x.clone()), ("y", y.clone()), ("day", day.clone())];
    pandas(&dir, "named.parquet", r#""day""#, columns);
    let run = dir.ok(&["fit", "named.parquet", "-o", "m"]);
    assert!(run.stderr.contains("features: 2 of 3 columns: x, y"), "{}", run.stderr);
    assert!(run.stderr.contains("not day (pandas index)"), "{}", run.stderr);
    let run = dir.ok(&["scan", "named.parquet", "-o", "s"]);
    assert!(run.stderr.contains("not day (pandas index)"), "{}", run.stderr);
    let run = dir.ok(&["fit", "named.parquet", "--columns", "x,day", "-o", "m"]);
    assert!(run.stderr.contains("features: 2 of 3 columns: x, day"), "{}", run.stderr);

    let level = vec![("x", x.clone()), ("__index_level_0__", day)];
    pandas(&dir, "level.parquet", r#"{"kind": "range"}"#, level.clone());
    let run = dir.ok(&["plan", "level.parquet"]);
    assert!(run.stdout.contains("not __index_level_0__ (pandas index)"), "{}", run.stdout);

    // A frame whose index is a range has no column for it; one that was filtered has.
    pandas(&dir, "range.parquet", r#"{"kind": "range"}"#, vec![("x", x)]);
    let run = dir.ok(&["fit", "range.parquet", "level.parquet", "-o", "m"]);
    assert!(run.stderr.contains("features: 1 of 1 column: x"), "{}", run.stderr);
    dir.ok(&["fit", "level.parquet", "range.parquet", "-o", "m"]);
}

#[test]
fn a_pandas_index_in_memory_is_no_feature_either() {
    let columns = [("x", wave(20, 0.7)), ("day", ints((0..20).map(|i| i * i)))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let about = [("pandas".to_string(), r#"{"index_columns": ["day"]}"#.to_string())];
    let schema = batch.schema().as_ref().clone().with_metadata(HashMap::from(about));
    let table = ArrowTable::from(batch.with_schema(Arc::new(schema)).unwrap());
    let plan = Fit::pca().plan(&table).unwrap();
    assert_eq!(plan.features().names().collect::<Vec<_>>(), ["x"]);
    assert_eq!(plan.columns().passed_over, [("day".to_string(), "pandas index".to_string())]);
}

#[test]
fn a_feature_that_numbers_rows_is_told() {
    let dir = Workdir::new();
    let table = |name: &str, from: i64| {
        let columns = vec![
            ("n".to_string(), ints(from..from + 40)),
            ("user_id".to_string(), ints((0..40).map(|i| from + (i * 7 + 3) % 40 * 11))),
            ("shuffled".to_string(), ints((0..40).map(|i| from + (i * 7 + 3) % 40))),
            ("store_id".to_string(), ints((0..40).map(|i| i % 4))),
            ("x".to_string(), wave(40, 0.7 + from as f64)),
        ];
        dir.table(name, columns, 10);
    };
    table("a.parquet", 0);
    table("b.parquet", 40);
    let said = "note: n, user_id are features, though their numbers look like those of rows; \
                --exclude leaves them out";
    for command in ["fit", "scan"] {
        let run = dir.ok(&[command, "a.parquet", "b.parquet", "-o", "out"]);
        assert!(run.stderr.contains(said), "{command}: {}", run.stderr);
    }
    let run = dir.ok(&["plan", "a.parquet", "b.parquet"]);
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let run = dir.ok(&["hsic", "a.parquet", "--label", "x"]);
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let run = dir.ok(&["fit", "a.parquet", "--exclude", "n,user_id", "-o", "m"]);
    assert!(!run.stderr.contains("look like"), "{}", run.stderr);
    let run = dir.ok(&["fit", "a.parquet", "--columns", "n,x", "-o", "m"]);
    assert!(!run.stderr.contains("look like"), "{}", run.stderr);
}

#[test]
fn the_library_tells_of_row_numbers_too() {
    let columns = [("n", ints(5..45)), ("x", wave(40, 0.7)), ("y", wave(40, 1.9))];
    let table = ArrowTable::from(RecordBatch::try_from_iter(columns).unwrap());
    let note = Note::IdFeatures(vec!["n".into()]);
    assert!(Fit::pca().plan(&table).unwrap().notes().contains(&note));
    assert!(Scan::new().plan(&table).unwrap().notes().contains(&note));
    assert!(Hsic::new(["y"]).plan(&table, None).unwrap().notes().contains(&note));
    let floats = ArrowTable::from(ndarray::Array2::from_shape_fn((40, 1), |(i, _)| i as f64));
    assert!(Fit::pca().plan(&floats).unwrap().notes().is_empty());
    let dir = Workdir::new();
    dir.table("f.parquet", vec![("f".into(), doubles((0..40).map(f64::from).collect()))], 40);
    let files = Dataset::from_paths(&[dir.path("f.parquet").to_str().unwrap()]).unwrap();
    assert!(Fit::pca().plan(&files).unwrap().notes().is_empty());
}
