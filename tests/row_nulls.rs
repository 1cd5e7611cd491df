//! `transform --nulls` and `reconstruct --nulls`: what a second pass makes of incomplete rows.

use crate::workdir::{Workdir, close, doubles};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use eigenstream::{ArrowTable, Fit, Note, Quiet, RowNulls, Transform};
use std::sync::Arc;

/// Rows 3, 7 and 41 of 50 miss something, and all from 20 to 29.
fn is_incomplete(row: usize) -> bool {
    [3, 7, 41].contains(&row) || (20..30).contains(&row)
}

fn value(row: usize, step: f64) -> f64 {
    (row as f64 * step).sin() + 3.0
}

/// whole.parquet, and holes.parquet of the same rows with holes, in row groups of ten.
fn tables() -> Workdir {
    let dir = Workdir::new();
    let steps = [0.7, 1.9, 2.3];
    let column = |j: usize, holes: bool| -> ArrayRef {
        let cell = |row: usize| {
            let hole = holes && is_incomplete(row) && row % 3 == j;
            // NaN is missing, too.
            if hole && row == 7 { Some(f64::NAN) } else { (!hole).then(|| value(row, steps[j])) }
        };
        Arc::new(Float64Array::from_iter((0..50).map(cell)))
    };
    for (name, holes) in [("whole.parquet", false), ("holes.parquet", true)] {
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
        let features = (0..3).map(|j| (format!("x{j}"), column(j, holes)));
        dir.table(name, std::iter::once(("id".to_string(), id)).chain(features).collect(), 10);
    }
    dir
}

/// The numbers of complete rows are those of the table without holes, the others null.
fn aligned(found: &RecordBatch, whole: &RecordBatch) {
    assert_eq!(found.num_rows(), whole.num_rows());
    for (field, array) in found.schema().fields().iter().zip(found.columns()) {
        let expected = whole.column_by_name(field.name()).unwrap();
        let is_id = field.name() == "id";
        assert!(field.is_nullable(), "{field}");
        for row in 0..found.num_rows() {
            let null = is_incomplete(row) && !is_id;
            assert_eq!(array.is_null(row), null, "{} of row {row}", field.name());
            if let (false, Some(a)) = (null || is_id, array.as_primitive_opt::<Float64Type>()) {
                let b = expected.as_primitive::<Float64Type>();
                close(&[a.value(row)], &[b.value(row)], 1e-13, 10.0);
            }
        }
    }
}

#[test]
fn null_keeps_rows_aligned_whatever_is_computed() {
    let dir = tables();
    let fits = [
        "--standardize",
        "--method kpca --kernel rbf --gamma 0.3",
        "--method kpca --kernel cosine",
    ];
    for options in fits {
        let fit = format!("fit whole.parquet --exclude id -k 2 {options} -o m");
        dir.ok(&fit.split(' ').collect::<Vec<_>>());
        let more: &[&str] = match options {
            "--standardize" => &["--diagnostics", "--residuals"],
            _ => &["--diagnostics"],
        };
        let transform = |data: &str, out: &str, nulls: &[&str]| {
            let args = ["transform", "m", data, "--keep", "id", "-o", out];
            dir.ok(&[&args, more, nulls].concat())
        };
        transform("whole.parquet", "w.parquet", &[]);
        let run = transform("holes.parquet", "h.parquet", &["--nulls", "null"]);
        let said = "note: 13 rows of 50 kept with nulls, for missing values (--nulls null)";
        assert!(run.stderr.contains(said), "{options}: {}", run.stderr);
        assert!(run.stderr.contains("h.parquet: 50 rows"), "{options}: {}", run.stderr);
        aligned(&dir.read("h.parquet"), &dir.read("w.parquet"));
    }
}

#[test]
fn null_holds_for_lists_and_the_way_back() {
    let dir = tables();
    dir.ok(&["fit", "whole.parquet", "--exclude", "id", "-k", "2", "-o", "m"]);
    let list = ["--layout", "list", "--residuals", "--nulls", "null"];
    dir.ok(&[&["transform", "m", "holes.parquet", "-o", "l.parquet"], &list[..]].concat());
    let batch = dir.read("l.parquet");
    for row in 0..50 {
        assert_eq!(batch.column(0).is_null(row), is_incomplete(row));
        assert_eq!(batch.column(1).is_null(row), is_incomplete(row));
    }
    dir.ok(&["reconstruct", "m", "whole.parquet", "--keep", "id", "-o", "w.parquet"]);
    let restored = |data: &str, option: &[&str]| {
        let args = ["reconstruct", "m", data, "--nulls", "null", "-o", "r.parquet"];
        dir.ok(&[&args, option].concat());
        aligned(&dir.read("r.parquet"), &dir.read("w.parquet"));
    };
    restored("holes.parquet", &["--keep", "id"]);
    // Scores that are null are rows that are null.
    dir.ok(&["transform", "m", "holes.parquet", "--nulls", "null", "-o", "s.parquet"]);
    restored("s.parquet", &["--from-scores"]);
    restored("l.parquet", &["--from-scores"]);
    let of_scores = ["reconstruct", "m", "s.parquet", "--from-scores", "-o", "x.parquet"];
    let refused = dir.fails(1, &of_scores);
    assert!(refused.ends_with("leave the row out, or choose --nulls null or drop"), "{refused}");
    let refused = dir.fails(2, &[&of_scores[..], &["--nulls", "mean"]].concat());
    assert!(refused.contains("--nulls mean is for rows"), "{refused}");
}

#[test]
fn a_policy_that_is_given_overrides_the_models() {
    let dir = tables();
    dir.ok(&["fit", "holes.parquet", "--exclude", "id", "--nulls", "drop", "-o", "m"]);
    let run = dir.ok(&["transform", "m", "holes.parquet", "-o", "s.parquet"]);
    assert!(
        run.stderr.contains("13 rows of 50 dropped for nulls, as in the fit"),
        "{}",
        run.stderr
    );
    let fit = ["fit", "whole.parquet", "--exclude", "id", "-o", "m"];
    dir.ok(&fit);
    let transform = ["transform", "m", "holes.parquet", "-o", "s.parquet"];
    let refused = dir.fails(1, &transform);
    let advice = "the model was fitted with --nulls error; clean the row, or choose --nulls null, \
                  which keeps it without scores, drop or mean";
    assert!(refused.ends_with(advice), "{refused}");
    let run = dir.ok(&[&transform[..], &["--nulls", "drop"]].concat());
    assert!(
        run.stderr.contains("13 rows of 50 dropped for nulls (--nulls drop)"),
        "{}",
        run.stderr
    );
    assert_eq!(dir.read("s.parquet").num_rows(), 37);
    let run = dir.ok(&[&transform[..], &["--nulls", "mean"]].concat());
    let said = "13 missing values filled with the training mean (--nulls mean)";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert_eq!(dir.read("s.parquet").num_rows(), 50);
    let json = dir.json(&[&transform[..], &["--nulls", "null"]].concat());
    assert_eq!((&json["rows_null"], &json["rows_written"]), (&13.into(), &50.into()));
    dir.ok(&[&fit[..3], &["id", "--nulls", "mean", "-o", "m"]].concat());
    let refused = dir.fails(1, &[&transform[..], &["--nulls", "error"]].concat());
    assert!(refused.ends_with("clean the row, or choose --nulls null, drop or mean"), "{refused}");
}

#[test]
fn the_library_keeps_rows_in_a_batch() {
    let rows = ndarray::Array2::from_shape_fn((20, 2), |(i, j)| value(i, 0.7 + j as f64));
    let model = Fit::pca().plan(&ArrowTable::from(rows)).unwrap().run(&Quiet).unwrap();
    assert!(model.header.n_rows == 20);
    let x = doubles((0..20).map(|i| value(i, 0.7)).collect());
    let batch = RecordBatch::try_from_iter([("a", x)]).unwrap();
    let model = Fit::pca().plan(&ArrowTable::from(batch)).unwrap().run(&Quiet).unwrap();
    let holes: ArrayRef = Arc::new(Float64Array::from(vec![Some(3.0), None, Some(3.5)]));
    let batch = RecordBatch::try_from_iter([("a", holes)]).unwrap();
    let scores = model.transform_with(&Transform::default().nulls(RowNulls::Null), &batch).unwrap();
    let nulls: Vec<bool> = (0..3).map(|row| scores.column(0).is_null(row)).collect();
    assert_eq!(nulls, [false, true, false]);
    let sentence = Note::RowsNull { null: 1, rows: 3 }.to_string();
    assert_eq!(sentence, "1 row of 3 kept with nulls, for missing values (nulls=null)");
}
