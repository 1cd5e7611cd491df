//! `transform --residuals`: what the components leave, x − x̂, beside the scores.

use crate::theory::rows;
use crate::workdir::{Workdir, close, doubles, names};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, Float64Array};
use arrow_schema::{DataType, Field};
use ndarray::{Array2, Axis, concatenate, s};
use std::sync::Arc;

const D: usize = 7;

/// Columns x0 … x4, the last constant, and a vector column v of two; in two row groups.
fn table(x: &Array2<f64>, missing: bool) -> Workdir {
    let dir = Workdir::new();
    let number = |(i, v): (usize, &f64)| (!missing || i % 9 != 4).then_some(*v);
    let mut columns: Vec<(String, ArrayRef)> =
        (0..5).map(|j| (format!("x{j}"), doubles(x.column(j).to_vec()))).collect();
    columns[2].1 = Arc::new(x.column(2).iter().enumerate().map(number).collect::<Float64Array>());
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    let vectors = Float64Array::from_iter_values(x.slice(s![.., 5..]).iter().copied());
    let vectors = FixedSizeListArray::new(item, 2, Arc::new(vectors), None);
    columns.push(("v".into(), Arc::new(vectors)));
    columns.push(("id".into(), doubles((0..x.nrows()).map(|i| i as f64).collect())));
    columns.push(("kind".into(), doubles((0..x.nrows()).map(|i| (i % 3) as f64).collect())));
    dir.table("d.parquet", columns, 40);
    dir
}

fn data() -> Array2<f64> {
    let mut x = rows(70, D);
    x.column_mut(4).fill(3.5);
    x
}

/// The features of a file under these names, vectors spread.
fn features(dir: &Workdir, name: &str, prefix: &str) -> Array2<f64> {
    let scalars = dir.numbers(name, &names(&format!("{prefix}x"), 0, 5));
    let batch = dir.read(name);
    let list = batch.column_by_name(&format!("{prefix}v")).unwrap();
    let list = list.as_any().downcast_ref::<FixedSizeListArray>().unwrap();
    concatenate![Axis(1), scalars, flat(list)]
}

fn flat(list: &FixedSizeListArray) -> Array2<f64> {
    let values = numbers(list.values());
    Array2::from_shape_vec((list.len(), values.len() / list.len()), values).unwrap()
}

fn numbers(values: &ArrayRef) -> Vec<f64> {
    if let Some(values) = values.as_any().downcast_ref::<Float64Array>() {
        return values.values().to_vec();
    }
    let single = values.as_any().downcast_ref::<Float32Array>().unwrap();
    single.values().iter().map(|v| f64::from(*v)).collect()
}

const FIT: [&str; 7] = ["fit", "d.parquet", "-o", "m", "--exclude", "id,kind", "--quiet"];

fn fit(dir: &Workdir, options: &[&str]) {
    dir.ok(&FIT.iter().chain(options).copied().collect::<Vec<_>>());
}

/// The law: residual + reconstruction = row, on the rows of the fit and on others.
#[test]
fn residuals_and_reconstruction_are_the_row() {
    let x = data();
    let dir = table(&x, false);
    let mut new = x.mapv(|v| 1.5 * v - 2.0);
    new.column_mut(4).fill(9.0);
    let other = table(&new, false);
    std::fs::copy(other.path("d.parquet"), dir.path("new.parquet")).unwrap();
    for options in [
        &["-k", "2"][..],
        &["-k", "2", "--standardize"],
        &["-k", "2", "--no-center"],
        &["-k", "2", "--no-center", "--standardize"],
        &["-k", "2", "--form", "dual"],
        &["-k", "2", "--method", "kpca", "--kernel", "linear"],
        &["--method", "spca", "--label", "kind"],
        &["--method", "spca", "--label", "kind", "--no-center"],
    ] {
        fit(&dir, options);
        for (file, rows) in [("d.parquet", &x), ("new.parquet", &new)] {
            let all = ["transform", "m", file, "--residuals", "--diagnostics", "--keep", "id"];
            dir.ok(&[&all[..], &["-o", "s.parquet", "--quiet"]].concat());
            dir.ok(&["reconstruct", "m", file, "-o", "r.parquet", "--quiet"]);
            let residual = features(&dir, "s.parquet", "residual_");
            let sum = &residual + &features(&dir, "r.parquet", "");
            // A constant that was left out of the model comes back as what it was in the fit.
            close(&sum, rows, 1e-13, 100.0);
            if !options.contains(&"--standardize") {
                let error = dir.numbers("s.parquet", &["reconstruction_error".to_string()]);
                let length = residual.map_axis(Axis(1), |r| r.dot(&r).sqrt());
                close(&error.column(0).to_owned(), &length, 1e-13, 100.0);
            }
        }
    }
}

#[test]
fn residuals_follow_layout_type_and_components() {
    let x = data();
    let dir = table(&x, false);
    fit(&dir, &["-k", "4", "--standardize"]);
    dir.ok(&["transform", "m", "d.parquet", "--residuals", "-k", "1", "-o", "a.parquet"]);
    let list = ["--residuals", "-k", "1", "--layout", "list", "--dtype", "f32"];
    dir.ok(&[&["transform", "m", "d.parquet", "-o", "b.parquet"], &list[..]].concat());
    let batch = dir.read("b.parquet");
    let names: Vec<String> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["pc", "residual"]);
    let residual = batch.column(1).as_any().downcast_ref::<FixedSizeListArray>().unwrap();
    close(&flat(residual), &features(&dir, "a.parquet", "residual_"), 1e-7, 10.0);
    let schema = dir.read("a.parquet").schema();
    let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let residuals = ["residual_x0", "residual_x1", "residual_x2", "residual_x3", "residual_x4"];
    assert_eq!(names, [&["pc1"], &residuals[..], &["residual_v"]].concat());
    // All columns are kept beside them; a name that is taken is refused.
    dir.ok(&["transform", "m", "d.parquet", "--residuals", "--keep-all", "-o", "c.parquet"]);
    let said = dir.fails(
        2,
        &[
            "transform",
            "m",
            "d.parquet",
            "--residuals",
            "--layout",
            "list",
            "--prefix",
            "residual",
            "-o",
            "e.parquet",
        ],
    );
    assert!(said.contains("two columns 'residual'"), "{said}");
}

#[test]
fn residuals_of_incomplete_rows_follow_the_policy() {
    let x = data();
    let dir = table(&x, true);
    let gaps = (0..x.nrows()).filter(|i| i % 9 == 4).count();
    for policy in ["drop", "mean"] {
        fit(&dir, &["-k", "2", "--nulls", policy]);
        dir.ok(&["transform", "m", "d.parquet", "--residuals", "-o", "s.parquet", "--quiet"]);
        dir.ok(&["reconstruct", "m", "d.parquet", "-o", "r.parquet", "--quiet"]);
        let sum = features(&dir, "s.parquet", "residual_") + features(&dir, "r.parquet", "");
        let kept: Vec<usize> = (0..x.nrows()).filter(|i| policy == "mean" || i % 9 != 4).collect();
        let mut expected = x.select(Axis(0), &kept);
        if policy == "mean" {
            let present = (0..x.nrows()).filter(|i| i % 9 != 4);
            let mean = present.map(|i| x[[i, 2]]).sum::<f64>() / (x.nrows() - gaps) as f64;
            (0..x.nrows()).filter(|i| i % 9 == 4).for_each(|i| expected[[i, 2]] = mean);
        }
        close(&sum, &expected, 1e-13, 100.0);
    }
}

#[test]
fn a_large_mean_does_not_take_the_digits_of_a_residual() {
    let x = data();
    let dir = table(&x, false);
    fit(&dir, &["-k", "2"]);
    dir.ok(&["transform", "m", "d.parquet", "--residuals", "-o", "s.parquet", "--quiet"]);
    let near = features(&dir, "s.parquet", "residual_");
    let shifted = x.mapv(|v| (v * 1048576.0).round() / 1048576.0 + 1048576.0);
    let dir = table(&shifted, false);
    fit(&dir, &["-k", "2"]);
    dir.ok(&["transform", "m", "d.parquet", "--residuals", "-o", "s.parquet", "--quiet"]);
    let far = features(&dir, "s.parquet", "residual_");
    close(&near, &far, 1e-5, 1.0);
}

#[test]
fn kernel_models_have_no_residuals() {
    let dir = table(&data(), false);
    fit(&dir, &["--method", "kpca", "-k", "2"]);
    let said = dir.fails(2, &["transform", "m", "d.parquet", "--residuals", "-o", "s.parquet"]);
    assert_eq!(
        said,
        "transform: a kernel model has no residuals: its components live where the kernel maps \
         to, not among the features; --diagnostics tells how long they are there"
    );
    fit(&dir, &["--method", "kpca", "--kernel", "cosine", "-k", "2"]);
    let said = dir.fails(2, &["transform", "m", "d.parquet", "--residuals", "-o", "s.parquet"]);
    assert!(said.contains("the cosine kernel forgets the length of a row"), "{said}");
    assert!(!dir.list().contains(&"s.parquet".to_string()));
}
