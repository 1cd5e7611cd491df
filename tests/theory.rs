//! What must hold of any PCA, whatever the data.

use crate::workdir::{Workdir, array, close, matrix, names};
use ndarray::{Array2, Axis};

/// Correlated rows of rank d with distinct variances.
pub fn rows(n: usize, d: usize) -> Array2<f64> {
    let noise = |i: usize, j: usize| {
        let h = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ (j as u64 + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let h = (h ^ (h >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((h ^ (h >> 29)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    Array2::from_shape_fn((n, d), |(i, j)| {
        (1.0 + j as f64) * noise(i, j) + 2.0 * noise(i, d) + j as f64
    })
}

fn fitted(x: &Array2<f64>, options: &[&str]) -> (Workdir, serde_json::Value) {
    let dir = Workdir::new();
    dir.matrix("d.parquet", x, 100);
    let args: Vec<&str> =
        ["fit", "d.parquet", "-o", "m", "-k", "all"].iter().chain(options).copied().collect();
    dir.ok(&args);
    let model = dir.json(&["inspect", "m"]);
    (dir, model)
}

const FORMS: [&[&str]; 4] =
    [&[], &["--standardize"], &["--no-center"], &["--no-center", "--standardize"]];

#[test]
fn components_are_orthonormal_and_certified() {
    for options in FORMS {
        let (_dir, model) = fitted(&rows(500, 8), options);
        let u = matrix(&model["components"]);
        close(&u.dot(&u.t()), &Array2::eye(8), 8.0 * 8.0 * f64::EPSILON, 1.0);
        for name in ["max_residual", "orthogonality", "trace_error"] {
            assert!(model["certificate"][name].as_f64().unwrap() < 1e-14, "{name} {options:?}");
        }
        let ratios: f64 = array(&model["explained_variance_ratio"]).iter().sum();
        assert!((ratios - 1.0).abs() < 1e-14);
    }
}

#[test]
fn all_components_give_the_data_back() {
    let x = rows(300, 6);
    for options in FORMS {
        let (dir, _) = fitted(&x, options);
        dir.ok(&["reconstruct", "m", "d.parquet", "-o", "r.parquet"]);
        close(&dir.numbers("r.parquet", &names("x", 0, 6)), &x, 64.0 * f64::EPSILON, 10.0);
        dir.ok(&["transform", "m", "d.parquet", "-o", "s.parquet"]);
        dir.ok(&["reconstruct", "m", "s.parquet", "--from-scores", "-o", "r2.parquet"]);
        close(&dir.numbers("r2.parquet", &names("x", 0, 6)), &x, 64.0 * f64::EPSILON, 10.0);
        dir.ok(&[
            "transform",
            "m",
            "d.parquet",
            "--layout",
            "list",
            "--prefix",
            "z",
            "-o",
            "l.parquet",
        ]);
        dir.ok(&[
            "reconstruct",
            "m",
            "l.parquet",
            "--from-scores",
            "--prefix",
            "z",
            "-o",
            "r3.parquet",
        ]);
        close(&dir.numbers("r3.parquet", &names("x", 0, 6)), &x, 64.0 * f64::EPSILON, 10.0);
    }
}

#[test]
fn variances_of_scores_are_the_eigenvalues() {
    let (dir, model) = fitted(&rows(400, 5), &[]);
    dir.ok(&["transform", "m", "d.parquet", "-o", "s.parquet"]);
    let z = dir.numbers("s.parquet", &names("pc", 1, 5));
    let variance = array(&model["explained_variance"]);
    close(&z.mean_axis(Axis(0)).unwrap(), &[0.0; 5], 1e-13, 10.0);
    close(
        &(z.t().dot(&z) / 399.0),
        &Array2::from_diag(&ndarray::Array1::from_vec(variance.clone())),
        1e-12,
        variance[0],
    );
}

#[test]
fn standardized_variances_sum_to_the_number_of_features() {
    let (_dir, model) = fitted(&rows(400, 5), &["--standardize"]);
    assert!((model["total_variance"].as_f64().unwrap() - 5.0).abs() < 1e-13);
}

#[test]
fn row_order_and_file_layout_change_only_rounding() {
    let x = rows(1000, 6);
    let mut y = x.clone();
    y.invert_axis(Axis(0));
    let y = y.as_standard_layout().into_owned();
    let (_a, one) = fitted(&x, &[]);
    let dir = Workdir::new();
    dir.matrix("d/a.parquet", &y.slice(ndarray::s![..300, ..]).to_owned(), 7);
    dir.matrix("d/b.parquet", &y.slice(ndarray::s![300.., ..]).to_owned(), 1000);
    dir.ok(&["fit", "d", "-k", "all", "-o", "m"]);
    let two = dir.json(&["inspect", "m"]);
    let largest = array(&one["eigenvalues"])[0];
    close(&array(&one["eigenvalues"]), &array(&two["eigenvalues"]), 1e-13, largest);
    close(&matrix(&one["components"]), &matrix(&two["components"]), 1e-10, 1.0);
}

#[test]
fn a_weight_of_three_is_three_rows() {
    let x = rows(60, 4);
    let counts: Vec<usize> = (0..60).map(|i| i % 4).collect();
    let repeated: Vec<usize> = counts.iter().enumerate().flat_map(|(i, c)| vec![i; *c]).collect();
    let (_a, one) = fitted(&x.select(Axis(0), &repeated), &[]);
    let dir = Workdir::new();
    let mut columns: Vec<_> = x
        .columns()
        .into_iter()
        .enumerate()
        .map(|(j, c)| (format!("x{j}"), crate::workdir::doubles(c.to_vec())))
        .collect();
    columns.push(("w".into(), crate::workdir::doubles(counts.iter().map(|c| *c as f64).collect())));
    dir.table("d.parquet", columns, 13);
    dir.ok(&["fit", "d.parquet", "--weight", "w", "-k", "all", "-o", "m"]);
    let two = dir.json(&["inspect", "m"]);
    let largest = array(&one["explained_variance"])[0];
    close(&array(&one["explained_variance"]), &array(&two["explained_variance"]), 1e-13, largest);
    assert_eq!(two["n_rows"], 60);
    assert_eq!(two["weight"]["sum"].as_f64().unwrap(), repeated.len() as f64);
}
