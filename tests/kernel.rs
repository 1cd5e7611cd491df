//! Kernel PCA and kernel supervised PCA against the dense n × n formulas of the tutorial.

use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles, matrix, names};
use arrow_array::{ArrayRef, FixedSizeListArray, Float64Array, StringArray};
use arrow_schema::{DataType, Field};
use ndarray::{Array1, Array2, ArrayView1, Axis, s};
use serde_json::Value;
use std::sync::Arc;

const N: usize = 90;
const D: usize = 4;

pub type Plain = dyn Fn(ArrayView1<'_, f64>, ArrayView1<'_, f64>) -> f64;

fn squared(x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum()
}

pub fn rbf(gamma: f64) -> Box<Plain> {
    Box::new(move |x, y| (-gamma * squared(x, y)).exp())
}

/// Indefinite on most rows.
fn sigmoid() -> Box<Plain> {
    Box::new(|x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>| (0.05 * x.dot(&y) - 1.0).tanh())
}

pub fn gram(x: &Array2<f64>, y: &Array2<f64>, k: &Plain) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| k(x.row(i), y.row(j)))
}

fn eigh(a: &Array2<f64>) -> (Vec<f64>, Array2<f64>) {
    let symmetric = ((a + &a.t()) / 2.0).as_standard_layout().into_owned();
    let (values, vectors) = crate::oracle::eigh(symmetric);
    (values.iter().rev().copied().collect(), vectors.slice(s![..;-1, ..]).to_owned())
}

/// The seed's HKH: eigenvalues, and ΣVᵀ with the largest entry of each row of Vᵀ positive.
fn dense(k: &Array2<f64>, components: usize) -> (Vec<f64>, Array2<f64>) {
    let n = k.nrows();
    let h = Array2::eye(n) - 1.0 / n as f64;
    let (values, vectors) = eigh(&h.dot(k).dot(&h));
    let mut scores = vectors.slice(s![..components, ..]).to_owned();
    for (mut row, value) in scores.rows_mut().into_iter().zip(&values) {
        let largest = row.iter().fold(0.0f64, |m, v| if v.abs() > m.abs() { *v } else { m });
        row *= largest.signum() * value.max(0.0).sqrt();
    }
    (values, scores)
}

fn fit(dir: &Workdir, options: &[&str]) -> Value {
    let args: Vec<&str> = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--quiet"]
        .iter()
        .chain(options)
        .copied()
        .collect();
    dir.ok(&args);
    dir.json(&["inspect", "m"])
}

/// rows × k.
pub fn scores(dir: &Workdir, data: &str, k: usize) -> Array2<f64> {
    dir.ok(&["transform", "m", data, "-o", "s.parquet", "--quiet"]);
    dir.numbers("s.parquet", &names("pc", 1, k))
}

fn data() -> (Workdir, Array2<f64>) {
    let (dir, x) = (Workdir::new(), rows(N, D));
    dir.matrix("d.parquet", &x, 17);
    (dir, x)
}

#[test]
fn every_kernel_is_the_dense_formula() {
    let (dir, x) = data();
    let dot = |x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>| x.dot(&y);
    let cases: [(&[&str], Box<Plain>, &str); 9] = [
        (&["--gamma", "0.1"], rbf(0.1), "exact"),
        (&["--sigma", "2"], rbf(0.125), "exact"),
        (&["--kernel", "rbf"], rbf(0.25), "exact"),
        (
            &["--kernel", "poly", "--gamma", "0.1", "--coef0", "1"],
            Box::new(move |x, y| (0.1 * dot(x, y) + 1.0).powi(3)),
            "exact",
        ),
        (
            &["--kernel", "poly", "--degree", "2"],
            Box::new(move |x, y| (0.25 * dot(x, y)).powi(2)),
            "exact",
        ),
        (
            &["--kernel", "linear", "--coef0", "3", "--form", "exact"],
            Box::new(move |x, y| dot(x, y) + 3.0),
            "exact",
        ),
        (&["--kernel", "linear", "--coef0", "3"], Box::new(move |x, y| dot(x, y) + 3.0), "primal"),
        (
            &["--kernel", "cosine", "--form", "exact"],
            Box::new(move |x, y| dot(x, y) / (dot(x, x) * dot(y, y)).sqrt()),
            "exact",
        ),
        (
            &["--kernel", "cosine"],
            Box::new(move |x, y| dot(x, y) / (dot(x, x) * dot(y, y)).sqrt()),
            "primal",
        ),
    ];
    for (options, plain, form) in cases {
        let options: Vec<&str> =
            ["--method", "kpca", "-k", "3"].iter().chain(options).copied().collect();
        let model = fit(&dir, &options);
        let (values, expected) = dense(&gram(&x, &x, &*plain), 3);
        close(&array(&model["eigenvalues"]), &values[..3], 1e-12, values[0]);
        let found = scores(&dir, "d.parquet", 3);
        // A linear map is signed by its components, a kernel by its coefficients.
        for (i, column) in found.columns().into_iter().enumerate() {
            let sign = if form == "exact" { 1.0 } else { column.dot(&expected.row(i)).signum() };
            close(&(&column * sign), expected.row(i), 1e-8, values[0].sqrt());
        }
        let variance = array(&model["explained_variance"]);
        close(
            &variance,
            &values[..3].iter().map(|v| v / (N - 1) as f64).collect::<Vec<_>>(),
            1e-12,
            variance[0],
        );
        let total: f64 = values.iter().sum();
        let share: f64 = array(&model["explained_variance_ratio"]).iter().sum();
        assert!((share - values[..3].iter().sum::<f64>() / total).abs() < 1e-12, "{options:?}");
        assert_eq!(
            (model["form"].as_str(), model["method"].as_str()),
            (Some(form), Some("kpca")),
            "{options:?}"
        );
        assert_eq!(model["components"].is_null(), form == "exact");
        assert!(model["certificate"]["max_residual"].as_f64().unwrap() < 1e-12);
    }
}

#[test]
fn with_a_linear_kernel_kpca_is_pca() {
    let (dir, _) = data();
    let pca = fit(&dir, &["-k", "3", "--standardize"]);
    let expected = scores(&dir, "d.parquet", 3);
    let run = dir.ok(&[
        "fit",
        "d.parquet",
        "--method",
        "kpca",
        "--kernel",
        "linear",
        "--standardize",
        "-k",
        "3",
        "-o",
        "m",
    ]);
    assert!(
        run.stderr.contains("with a linear kernel kernel PCA is PCA, and is fitted as such"),
        "{}",
        run.stderr
    );
    let model = dir.json(&["inspect", "m"]);
    for name in
        ["components", "eigenvalues", "explained_variance_ratio", "mean", "scale", "total_variance"]
    {
        assert_eq!(model[name], pca[name], "{name}");
    }
    assert_eq!(model["kernel"]["name"], "linear");
    dir.ok(&["reconstruct", "m", "d.parquet", "-o", "r.parquet", "--quiet"]);
    let exact = fit(
        &dir,
        &["--method", "kpca", "--kernel", "linear", "--standardize", "-k", "3", "--form", "exact"],
    );
    close(&array(&exact["eigenvalues"]), &array(&pca["eigenvalues"]), 1e-12, 100.0);
    let found = scores(&dir, "d.parquet", 3);
    for (a, b) in found.columns().into_iter().zip(expected.columns()) {
        close(&(&a * a.dot(&b).signum()), b, 1e-9, 3.0);
    }
    // Any form of PCA.
    for form in ["dual", "randomized"] {
        let model = fit(
            &dir,
            &["--method", "kpca", "--kernel", "linear", "--standardize", "-k", "3", "--form", form],
        );
        close(&array(&model["eigenvalues"]), &array(&pca["eigenvalues"]), 1e-9, 100.0);
    }
}

#[test]
fn new_rows_are_centred_by_the_training_kernel() {
    let (dir, x) = data();
    let (train, new) = (x.slice(s![..60, ..]).to_owned(), x.slice(s![60.., ..]).to_owned());
    dir.matrix("d.parquet", &train, 60);
    dir.matrix("new.parquet", &new, 8);
    let model = fit(&dir, &["--method", "kpca", "--gamma", "0.05", "-k", "4"]);
    let k = gram(&train, &train, &*rbf(0.05));
    let h = Array2::eye(60) - 1.0 / 60.0;
    let (values, vectors) = eigh(&h.dot(&k).dot(&h));
    // k̆ = k − K1/n − 1(1ᵀk)/n + 1(1ᵀK1)/n², then Σ⁻¹Vᵀk̆ (seed, centring the kernel for
    // out-of-sample data).
    let cross = gram(&train, &new, &*rbf(0.05));
    let means = k.mean_axis(Axis(1)).unwrap();
    let centred = Array2::from_shape_fn(cross.raw_dim(), |(i, j)| {
        cross[[i, j]] - means[i] - cross.column(j).mean().unwrap() + means.mean().unwrap()
    });
    let mut expected = vectors.slice(s![..4, ..]).dot(&centred);
    expected.rows_mut().into_iter().zip(&values).for_each(|(mut row, v)| row /= v.sqrt());
    let found = scores(&dir, "new.parquet", 4);
    for (a, b) in found.columns().into_iter().zip(expected.rows()) {
        close(&(&a * a.dot(&b).signum()), b, 1e-9, 1.0);
    }
    assert_eq!(model["kernel"]["rows"], 60);
    // The distance from what the components tell, where the kernel maps to.
    dir.ok(&["transform", "m", "new.parquet", "--diagnostics", "-o", "s.parquet", "--quiet"]);
    let error = dir.numbers("s.parquet", &["reconstruction_error".into(), "hotelling_t2".into()]);
    for (j, row) in error.rows().into_iter().enumerate() {
        let length = 1.0 - 2.0 * cross.column(j).mean().unwrap() + means.mean().unwrap();
        let told: f64 = expected.column(j).iter().map(|z| z * z).sum();
        assert!((row[0] - (length - told).sqrt()).abs() < 1e-9, "row {j}");
        let t2: f64 = expected.column(j).iter().zip(&values).map(|(z, v)| z * z / (v / 59.0)).sum();
        assert!((row[1] / t2 - 1.0).abs() < 1e-8);
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn krylov_on_tiles_finds_what_the_dense_matrix_has() {
    let dir = Workdir::new();
    let x = rows(1_700, 3);
    dir.matrix("d.parquet", &x, 400);
    for (options, plain) in [
        (vec!["--gamma", "0.2"], rbf(0.2)),
        (vec!["--kernel", "sigmoid", "--gamma", "0.05", "--coef0", "-1"], sigmoid()),
    ] {
        let options: Vec<&str> =
            ["--method", "kpca", "-k", "5"].iter().chain(&options).copied().collect();
        let model = fit(&dir, &options);
        let (values, expected) = dense(&gram(&x, &x, &*plain), 5);
        let found = array(&model["eigenvalues"]);
        found
            .iter()
            .zip(&values)
            .for_each(|(a, b)| assert!((a / b - 1.0).abs() < 1e-10, "{a} against {b}"));
        let iteration = &model["certificate"]["iteration"];
        assert!(iteration["passes"].as_u64().unwrap() <= 12, "{iteration}");
        assert!(model["certificate"]["max_residual"].as_f64().unwrap() <= 1e-8);
        let transformed = scores(&dir, "d.parquet", 5);
        close(transformed.t(), &expected, 1e-7, values[0].sqrt());
        // The scores of the training rows are ΣVᵀ, which the coefficients Σ⁻¹Vᵀ tell too.
        let mut own = matrix(&model["coefficients"]);
        own.rows_mut().into_iter().zip(&found).for_each(|(mut row, v)| row *= *v);
        close(transformed.t(), &own, 1e-8, found[0].sqrt());
        // The variance of what is positive; of an indefinite kernel as far as its negative
        // eigenvalues were seen.
        let positive: f64 = values.iter().filter(|v| **v > 0.0).sum();
        let total = model["total_variance"].as_f64().unwrap() * 1699.0;
        assert!(
            total <= positive * (1.0 + 1e-10)
                && total >= values.iter().sum::<f64>() * (1.0 - 1e-10),
            "{total} of {positive}"
        );
    }
    // A share of the variance is found too, and rules that need every eigenvalue hold the matrix.
    let model = fit(&dir, &["--method", "kpca", "--gamma", "0.2", "-k", "0.5"]);
    let (values, _) = dense(&gram(&x, &x, &*rbf(0.2)), 1);
    let total: f64 = values.iter().sum();
    let expected = (1..).find(|k| values[..*k].iter().sum::<f64>() >= 0.5 * total).unwrap();
    assert_eq!(model["n_components"].as_u64(), Some(expected as u64));
}

#[test]
fn negative_eigenvalues_are_dropped_and_counted() {
    let (dir, x) = data();
    let (values, _) = dense(&gram(&x, &x, &*sigmoid()), 1);
    let least = 90.0 * f64::EPSILON * values[0];
    let (positive, negative) = (
        values.iter().filter(|v| **v > least).count(),
        values.iter().filter(|v| **v < -least).count(),
    );
    assert!(negative > 5);
    let options = [
        "--method", "kpca", "--kernel", "sigmoid", "--gamma", "0.05", "--coef0", "-1", "-k", "all",
    ];
    let model = fit(&dir, &options);
    assert_eq!(model["kernel"]["negative_eigenvalues"].as_u64(), Some(negative as u64));
    assert_eq!(model["n_components"].as_u64(), Some(positive as u64));
    let args: Vec<&str> = ["fit", "d.parquet", "-o", "m"].iter().chain(&options).copied().collect();
    let said = dir.ok(&args).stderr;
    assert!(
        said.contains(&format!(
            "{negative} negative eigenvalues dropped: the kernel is not positive semidefinite"
        )),
        "{said}"
    );
}

/// ΔᵀHKHΔ of an indefinite kernel may have a negative trace and positive eigenvalues all the same.
#[test]
fn kspca_takes_the_positive_eigenvalues_of_an_indefinite_kernel() {
    let n = 40;
    let cell = |(i, j): (usize, usize)| {
        ((i * 5003 + j * 7877 + i * i * 17) % 1009) as f64 / 252.0 - 1009.0 / 504.0
    };
    let class = |i: usize| (i * 3 + i * i / 4) % 5;
    let x = Array2::from_shape_fn((n, 4), cell);
    let delta = Array2::from_shape_fn((n, 5), |(i, c)| f64::from(u8::from(class(i) == c)));
    let h = Array2::<f64>::eye(n) - 1.0 / n as f64;
    let k = x.dot(&x.t()).mapv(|t| (0.5 * t + 2.0).tanh());
    let m = h.dot(&delta);
    let (values, _) = crate::oracle::eigh(m.t().dot(&k).dot(&m));
    let size = values.iter().fold(0.0f64, |a, v| a.max(v.abs()));
    let positive: Vec<f64> = values.iter().rev().copied().filter(|v| *v > 1e-9 * size).collect();
    let negative = values.iter().filter(|v| **v < -1e-9 * size).count();
    assert!(values.sum() < 0.0 && !positive.is_empty() && negative > 0, "{values}");
    let dir = Workdir::new();
    let mut columns: Vec<(String, ArrayRef)> =
        (0..4).map(|j| (format!("x{j}"), doubles(x.column(j).to_vec()))).collect();
    let names = (0..n).map(|i| format!("c{}", class(i)));
    columns.push(("y".into(), Arc::new(StringArray::from_iter_values(names))));
    dir.table("d.parquet", columns, 17);
    for form in ["dual", "direct"] {
        let run = dir.ok(&[
            "fit",
            "d.parquet",
            "--method",
            "kspca",
            "--label",
            "y",
            "--kernel",
            "sigmoid",
            "--gamma",
            "0.5",
            "--coef0",
            "2",
            "--form",
            form,
            "-o",
            "m",
        ]);
        let told = format!("{negative} negative eigenvalue");
        assert!(run.stderr.contains(&told), "{}", run.stderr);
        assert!(run.stderr.contains("shares are of what is positive"), "{}", run.stderr);
        let model = dir.json(&["inspect", "m"]);
        assert_eq!(model["kernel"]["negative_eigenvalues"].as_u64(), Some(negative as u64));
        assert_eq!(model["n_components"].as_u64(), Some(positive.len() as u64));
        close(&array(&model["eigenvalues"]), &positive, 1e-10, size);
        let share: f64 = array(&model["label"]["hsic_share"]).iter().sum();
        assert!((share - 1.0).abs() < 1e-10, "{share}");
    }
}

#[test]
fn a_weight_of_three_is_three_rows_to_a_kernel_too() {
    let x = rows(60, 3);
    let counts: Vec<usize> = (0..60).map(|i| i % 4).collect();
    let repeated: Vec<usize> = counts.iter().enumerate().flat_map(|(i, c)| vec![i; *c]).collect();
    let class = |i: usize| format!("c{}", i % 3);
    let table = |which: &[usize], weights: Option<Vec<f64>>| {
        let dir = Workdir::new();
        let part = x.select(Axis(0), which);
        let mut columns: Vec<(String, ArrayRef)> = part
            .columns()
            .into_iter()
            .enumerate()
            .map(|(j, c)| (format!("x{j}"), doubles(c.to_vec())))
            .collect();
        columns.push((
            "y".into(),
            Arc::new(StringArray::from_iter_values(which.iter().map(|i| class(*i)))),
        ));
        columns.extend(weights.map(|w| ("w".to_string(), doubles(w))));
        dir.table("d.parquet", columns, 13);
        dir
    };
    let plain = table(&repeated, None);
    let all: Vec<usize> = (0..60).collect();
    let weighted = table(&all, Some(counts.iter().map(|c| *c as f64).collect()));
    dir_compare(&plain, &weighted, &["--method", "kpca", "--gamma", "0.1", "-k", "3"], &repeated);
    dir_compare(
        &plain,
        &weighted,
        &["--method", "kpca", "--gamma", "0.1", "-k", "3", "--standardize"],
        &repeated,
    );
    dir_compare(
        &plain,
        &weighted,
        &["--method", "kspca", "--label", "y", "--gamma", "0.1", "-k", "2"],
        &repeated,
    );
    dir_compare(
        &plain,
        &weighted,
        &["--method", "kpca", "--gamma", "0.1", "-k", "3", "--landmarks", "200"],
        &repeated,
    );
    dir_compare(
        &plain,
        &weighted,
        &["--method", "kpca", "--kernel", "cosine", "-k", "2"],
        &repeated,
    );
    let model = fit(&weighted, &["--method", "kpca", "--gamma", "0.1", "-k", "3", "--weight", "w"]);
    assert_eq!(model["kernel"]["rows"], 45, "rows without weight are not compared with");
}

fn dir_compare(plain: &Workdir, weighted: &Workdir, options: &[&str], repeated: &[usize]) {
    let one = fit(plain, options);
    let with: Vec<&str> = options.iter().copied().chain(["--weight", "w"]).collect();
    let two = fit(weighted, &with);
    let k = one["n_components"].as_u64().unwrap() as usize;
    let values = array(&one["eigenvalues"]);
    // Landmarks are other rows of the same set, so the last digits are those of another whitening.
    close(&values[..k], &array(&two["eigenvalues"])[..k], 1e-7, values[0]);
    close(
        &array(&one["explained_variance_ratio"]),
        &array(&two["explained_variance_ratio"]),
        1e-7,
        1.0,
    );
    let a = scores(plain, "d.parquet", k);
    let b = scores(weighted, "d.parquet", k).select(Axis(0), repeated);
    for (a, b) in a.columns().into_iter().zip(b.columns()) {
        close(&(&a * a.dot(&b).signum()), b, 1e-6, a.iter().fold(0.0f64, |m, v| m.max(v.abs())));
    }
}

/// Rows with classes and a number, some of them twice, so that K is singular.
fn labelled() -> (Workdir, Array2<f64>, Vec<usize>, Vec<f64>) {
    let mut x = rows(70, 3);
    for i in 0..20 {
        let copy = x.row(i).to_owned();
        x.row_mut(50 + i).assign(&copy);
    }
    let class: Vec<usize> = (0..70).map(|i| (i * 7 + i / 5) % 4).collect();
    let y: Vec<f64> = (0..70).map(|i| ((i * 13) % 9) as f64 - 2.0).collect();
    let dir = Workdir::new();
    let mut columns: Vec<(String, ArrayRef)> = x
        .columns()
        .into_iter()
        .enumerate()
        .map(|(j, c)| (format!("x{j}"), doubles(c.to_vec())))
        .collect();
    columns.push((
        "text".into(),
        Arc::new(StringArray::from_iter_values(class.iter().map(|c| format!("class {c}")))),
    ));
    columns.push(("y".into(), doubles(y.clone())));
    dir.table("d.parquet", columns, 11);
    (dir, x, class, y)
}

/// K H K_y H K θ = λ K θ with ΘᵀKΘ = I, K cut to its rank: λ, and Θᵀk of the training rows.
pub fn generalised(
    k: &Array2<f64>,
    ky: &Array2<f64>,
    components: usize,
) -> (Vec<f64>, Array2<f64>) {
    let n = k.nrows();
    let h = Array2::eye(n) - 1.0 / n as f64;
    let (values, vectors) = eigh(k);
    let rank = values.iter().filter(|v| **v > 1e-12 * values[0]).count();
    // θ = Q Λ^−½ z, so that θᵀKθ = zᵀz and the problem is Λ^½Qᵀ (HK_yH) QΛ^½ z = λ z.
    let mut root = vectors.slice(s![..rank, ..]).to_owned();
    root.rows_mut().into_iter().zip(&values).for_each(|(mut row, v)| row *= v.sqrt());
    let (lambda, z) = eigh(&root.dot(&h).dot(ky).dot(&h).dot(&root.t()));
    (lambda, z.slice(s![..components, ..]).dot(&root))
}

#[test]
fn both_forms_of_kspca_are_the_generalised_problem() {
    let (dir, x, class, y) = labelled();
    let kernel =
        |f: &dyn Fn(usize, usize) -> f64| Array2::from_shape_fn((70, 70), |(i, j)| f(i, j));
    let delta = kernel(&|i, j| f64::from(u8::from(class[i] == class[j])));
    let linear = kernel(&|i, j| y[i] * y[j]);
    let near = kernel(&|i, j| (-0.3 * (y[i] - y[j]).powi(2)).exp());
    let k = gram(&x, &x, &*rbf(0.1));
    let cases: [(&[&str], &Array2<f64>, usize); 5] = [
        (&["--label", "text"], &delta, 3),
        (&["--label", "text", "--label-kernel", "linear"], &delta, 3),
        (&["--label", "y"], &linear, 1),
        (&["--label", "y", "--label-kernel", "rbf", "--label-gamma", "0.3"], &near, 4),
        (&["--label", "text,y", "--label-kernel", "linear"], &(&delta + &linear), 4),
    ];
    for (options, ky, rank) in cases {
        let (lambda, expected) = generalised(&k, ky, rank);
        for form in ["dual", "direct"] {
            let components = rank.to_string();
            let fixed = ["--method", "kspca", "--gamma", "0.1", "--form", form, "-k", &components];
            let model = fit(&dir, &fixed.iter().chain(options).copied().collect::<Vec<_>>());
            close(&array(&model["eigenvalues"])[..rank], &lambda[..rank], 1e-9, lambda[0]);
            let found = scores(&dir, "d.parquet", rank);
            for (a, b) in found.columns().into_iter().zip(expected.rows()) {
                close(&(&a * a.dot(&b).signum()), b, 1e-7, 1.0);
            }
            // ΘᵀKΘ = I.
            let theta = matrix(&model["coefficients"]);
            close(&theta.dot(&k).dot(&theta.t()), &Array2::eye(rank), 1e-9, 1.0);
            assert_eq!(model["form"], form);
            assert!(model["certificate"]["orthogonality"].as_f64().unwrap() < 1e-9);
            assert!(
                model["certificate"]["max_residual"].as_f64().unwrap() < 1e-10,
                "{}",
                model["certificate"]
            );
            let hsic = lambda[..rank].iter().sum::<f64>() / (69.0 * 69.0);
            assert!((model["hsic"].as_f64().unwrap() / hsic - 1.0).abs() < 1e-9);
            let total: f64 = lambda.iter().sum();
            let share: f64 = array(&model["label"]["hsic_share"]).iter().sum();
            assert!((share - lambda[..rank].iter().sum::<f64>() / total).abs() < 1e-9);
            let z = found.columns().into_iter().map(|c| c.var(1.0)).collect::<Vec<_>>();
            close(&array(&model["explained_variance"]), &z, 1e-9, z[0]);
        }
    }
    // What the model says of its scores is what hsic measures, and centroids are means.
    let model = fit(&dir, &["--method", "kspca", "--gamma", "0.1", "--label", "text", "-k", "3"]);
    let said = dir.json(&["hsic", "d.parquet", "--label", "text", "--model", "m"]);
    assert!((said["hsic"].as_f64().unwrap() / model["hsic"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let z = scores(&dir, "d.parquet", 3);
    for (c, report) in model["label"]["classes"].as_array().unwrap().iter().enumerate() {
        let members: Vec<usize> = (0..70).filter(|i| class[*i] == c).collect();
        assert_eq!(report["class"][0], format!("class {c}"));
        close(
            &array(&report["centroid"]),
            &z.select(Axis(0), &members).mean_axis(Axis(0)).unwrap(),
            1e-9,
            1.0,
        );
    }
    // With K_y = I it is kernel PCA.
    let identity = fit(
        &dir,
        &[
            "--method",
            "kspca",
            "--gamma",
            "0.1",
            "--label",
            "text",
            "--label-kernel",
            "identity",
            "-k",
            "3",
        ],
    );
    let kpca = fit(&dir, &["--method", "kpca", "--gamma", "0.1", "-k", "3"]);
    assert_eq!(identity["eigenvalues"], kpca["eigenvalues"]);
}

#[test]
fn features_are_scored_before_the_kernel_sees_them() {
    let (dir, ..) = labelled();
    let scored = fit(
        &dir,
        &[
            "--method",
            "kpca",
            "--gamma",
            "0.1",
            "-k",
            "2",
            "--score-by",
            "y",
            "--keep-features",
            "2",
        ],
    );
    let kept: Vec<&str> =
        scored["features"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(kept.len(), 2);
    let z = scores(&dir, "d.parquet", 2);
    let args = [
        "fit",
        "d.parquet",
        "--columns",
        &kept.join(","),
        "--method",
        "kpca",
        "--gamma",
        "0.1",
        "-k",
        "2",
        "-o",
        "m",
        "--quiet",
    ];
    dir.ok(&args);
    assert_eq!(dir.json(&["inspect", "m"])["eigenvalues"], scored["eigenvalues"]);
    assert_eq!(scores(&dir, "d.parquet", 2), z);
    // The default γ is that of the features that are left.
    let scored = fit(
        &dir,
        &["--method", "kspca", "--label", "text", "--score-by", "text", "--keep-features", "2"],
    );
    assert_eq!(scored["kernel"]["gamma"].as_f64(), Some(0.5));
}

#[test]
fn missing_values_scales_and_vectors_are_as_everywhere() {
    let x = rows(50, 3);
    let holes = |i: usize, j: usize| (i * 3 + j) % 17 == 5;
    let cells = |j: usize| -> Vec<Option<f64>> {
        (0..50).map(|i| (!holes(i, j)).then(|| x[[i, j]])).collect()
    };
    let dir = Workdir::new();
    let columns = (0..3)
        .map(|j| (format!("x{j}"), Arc::new(Float64Array::from(cells(j))) as ArrayRef))
        .collect();
    dir.table("d.parquet", columns, 9);
    let means: Vec<f64> = (0..3)
        .map(|j| {
            let present: Vec<f64> = cells(j).into_iter().flatten().collect();
            present.iter().sum::<f64>() / present.len() as f64
        })
        .collect();
    let filled =
        Array2::from_shape_fn((50, 3), |(i, j)| if holes(i, j) { means[j] } else { x[[i, j]] });
    let whole: Vec<usize> = (0..50).filter(|i| (0..3).all(|j| !holes(*i, j))).collect();
    let dropped = x.select(Axis(0), &whole);
    let scaled = |x: &Array2<f64>| (x - &x.mean_axis(Axis(0)).unwrap()) / &x.std_axis(Axis(0), 1.0);
    for (options, rows) in [
        (vec!["--nulls", "mean"], filled.clone()),
        (vec!["--nulls", "drop"], dropped.clone()),
        (vec!["--nulls", "drop", "--standardize"], scaled(&dropped)),
    ] {
        let fixed = ["--method", "kpca", "--gamma", "0.1", "-k", "3"];
        let model = fit(&dir, &fixed.iter().chain(&options).copied().collect::<Vec<_>>());
        let (values, expected) = dense(&gram(&rows, &rows, &*rbf(0.1)), 3);
        close(&array(&model["eigenvalues"]), &values[..3], 1e-11, values[0]);
        close(scores(&dir, "d.parquet", 3).t(), &expected, 1e-9, values[0].sqrt());
    }
    // --nulls mean with landmarks and the cosine kernel, which look at the means first.
    let landmarks = fit(
        &dir,
        &["--method", "kpca", "--gamma", "0.1", "-k", "3", "--nulls", "mean", "--landmarks", "50"],
    );
    let (values, _) = dense(&gram(&filled, &filled, &*rbf(0.1)), 3);
    close(&array(&landmarks["eigenvalues"])[..3], &values[..3], 1e-8, values[0]);
    let cosine = fit(
        &dir,
        &["--method", "kpca", "--kernel", "cosine", "-k", "2", "--nulls", "mean", "--standardize"],
    );
    let z = scaled(&filled);
    let (values, _) = dense(&gram(&z, &z, &|x, y| x.dot(&y) / (x.dot(&x) * y.dot(&y)).sqrt()), 2);
    // Its deviations are over the present cells.
    assert!((array(&cosine["eigenvalues"])[0] / values[0] - 1.0).abs() < 0.05);
    // A vector column is its elements.
    let list = FixedSizeListArray::new(
        Arc::new(Field::new_list_field(DataType::Float64, false)),
        3,
        Arc::new(Float64Array::from(x.iter().copied().collect::<Vec<_>>())),
        None,
    );
    dir.table("d.parquet", vec![("x".into(), Arc::new(list))], 20);
    let model = fit(&dir, &["--method", "kpca", "--gamma", "0.1", "-k", "3"]);
    let (values, expected) = dense(&gram(&x, &x, &*rbf(0.1)), 3);
    close(&array(&model["eigenvalues"]), &values[..3], 1e-11, values[0]);
    close(scores(&dir, "d.parquet", 3).t(), &expected, 1e-9, values[0].sqrt());
}

#[test]
fn a_large_mean_does_not_take_the_digits_of_a_distance() {
    let (dir, x) = data();
    let near = fit(&dir, &["--method", "kpca", "--gamma", "0.1", "-k", "3"]);
    let z = scores(&dir, "d.parquet", 3);
    dir.matrix("d.parquet", &(&x + 1e6), 17);
    let far = fit(&dir, &["--method", "kpca", "--gamma", "0.1", "-k", "3"]);
    close(&array(&near["eigenvalues"]), &array(&far["eigenvalues"]), 1e-8, 10.0);
    close(&scores(&dir, "d.parquet", 3), &z, 1e-7, 1.0);
}

#[test]
fn bytes_do_not_depend_on_threads_or_memory() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        "2200",
        "--columns",
        "5",
        "--files",
        "3",
        "--row-group",
        "300",
        "-o",
        "d",
    ]);
    for options in [
        vec!["--method", "kpca", "-k", "3"],
        vec!["--method", "kspca", "--label", "label_string", "-k", "3"],
        vec!["--method", "kpca", "-k", "3", "--landmarks", "60", "--preimage", "ridge"],
        vec!["--method", "kpca", "-k", "3", "--random-features", "80"],
        vec!["--method", "kpca", "-k", "3", "--kernel", "cosine"],
    ] {
        let mut first: Option<(Vec<u8>, Vec<u8>)> = None;
        for resources in [
            ["--threads", "1", "--memory", "1GB"],
            ["--threads", "2", "--memory", "200MB"],
            ["--threads", "7", "--memory", "2GB"],
        ] {
            let fixed = ["fit", "d", "--columns", "x*", "-o", "m", "--quiet"];
            dir.ok(&fixed.iter().chain(&options).chain(&resources).copied().collect::<Vec<_>>());
            dir.ok(&[
                "transform",
                "m",
                "d",
                "-o",
                "s.parquet",
                "--quiet",
                resources[0],
                resources[1],
            ]);
            let bytes = (
                std::fs::read(dir.path("m")).unwrap(),
                std::fs::read(dir.path("s.parquet")).unwrap(),
            );
            assert!(
                first.get_or_insert_with(|| bytes.clone()) == &bytes,
                "{options:?} {resources:?}"
            );
        }
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn landmarks_and_random_features_come_near_and_say_how_near() {
    let dir = Workdir::new();
    let x = rows(600, 3);
    dir.matrix("d/a.parquet", &x.slice(s![..250, ..]).to_owned(), 100);
    dir.matrix("d/b.parquet", &x.slice(s![250.., ..]).to_owned(), 90);
    let (values, expected) = dense(&gram(&x, &x, &*rbf(0.1)), 3);
    let run = |options: &[&str]| {
        let fixed = ["fit", "d", "--method", "kpca", "--gamma", "0.1", "-k", "3", "-o", "m"];
        let run = dir.ok(&fixed.iter().chain(options).copied().collect::<Vec<_>>());
        (run.stderr, dir.json(&["inspect", "m"]))
    };
    // All rows as landmarks are no approximation.
    let (_, all) = run(&["--landmarks", "600", "--landmark-choice", "uniform"]);
    close(&array(&all["eigenvalues"])[..3], &values[..3], 1e-9, values[0]);
    let z = scores(&dir, "d", 3);
    for (a, b) in z.columns().into_iter().zip(expected.rows()) {
        close(&(&a * a.dot(&b).signum()), b, 1e-7, values[0].sqrt());
    }
    let error = |model: &Value| model["kernel"]["approximation"]["error"].as_f64().unwrap();
    assert!(error(&all) < 1e-8);
    for choice in ["uniform", "kmeans++"] {
        let mut last = f64::INFINITY;
        for m in ["10", "40", "160"] {
            let (said, model) = run(&["--landmarks", m, "--landmark-choice", choice]);
            assert!(
                said.contains(&format!("{m} landmarks (rank ")) && said.contains("sampled rows"),
                "{said}"
            );
            assert!(error(&model) < last, "{choice} {m}: {} after {last}", error(&model));
            last = error(&model);
            assert_eq!(model["kernel"]["approximation"]["choice"], choice);
            assert_eq!(
                (model["form"].as_str(), model["seed"].as_u64()),
                (Some("landmarks"), Some(0))
            );
        }
        assert!(last < 1e-3, "{choice}: {last}");
    }
    let (_, model) = run(&["--landmarks", "160"]);
    close(&array(&model["eigenvalues"])[..3], &values[..3], 1e-5, values[0]);
    let (said, few) = run(&["--random-features", "100"]);
    assert!(said.contains("100 random features"), "{said}");
    let (_, many) = run(&["--random-features", "3000"]);
    assert!(
        error(&many) < 0.5 * error(&few) && error(&many) < 0.1,
        "{} {}",
        error(&few),
        error(&many)
    );
    close(&array(&many["eigenvalues"])[..3], &values[..3], 0.1, values[0]);
    let z = scores(&dir, "d", 3);
    assert!(z.column(0).dot(&expected.row(0)).abs() / values[0] > 0.98);
    let (_, again) = run(&["--random-features", "3000", "--seed", "5"]);
    assert_ne!(again["eigenvalues"], many["eigenvalues"]);
}

#[test]
fn the_median_heuristic_is_the_median_of_a_sample() {
    let (dir, x) = data();
    let mut distances: Vec<f64> = (0..N)
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| squared(x.row(i), x.row(j)))
        .collect();
    distances.sort_by(f64::total_cmp);
    let middle = distances.len() / 2;
    let expected = if distances.len() % 2 == 1 {
        0.5 / distances[middle]
    } else {
        1.0 / (distances[middle - 1] + distances[middle])
    };
    for options in [
        vec!["--method", "kpca"],
        vec!["--method", "kpca", "--landmarks", "20"],
        vec!["--method", "kpca", "--random-features", "20"],
    ] {
        let args: Vec<&str> = options.iter().copied().chain(["--gamma", "median"]).collect();
        let model = fit(&dir, &args);
        let gamma = model["kernel"]["gamma"].as_f64().unwrap();
        assert!((gamma / expected - 1.0).abs() < 1e-12, "{gamma} against {expected}");
        assert_eq!(model["kernel"]["gamma_from"], "median");
    }
    let said = dir.json(&[
        "hsic",
        "d.parquet",
        "--columns",
        "x*",
        "--exclude",
        "x3",
        "--label",
        "x3",
        "--kernel",
        "rbf",
        "--gamma",
        "median",
    ]);
    assert_eq!(said["kernel"]["name"], "rbf");
    assert_eq!(dir.json(&["inspect", "m"])["kernel"]["gamma_from"], "median");
}

/// A circle of radius 2 with noise, and one without.
fn ring(n: usize, noise: f64) -> Array2<f64> {
    let bumps = rows(n, 2);
    Array2::from_shape_fn((n, 2), |(i, j)| {
        let angle = std::f64::consts::TAU * (i as f64 * 0.618_033_988_7).fract();
        2.0 * if j == 0 { angle.cos() } else { angle.sin() } + noise * (bumps[[i, j]] - j as f64)
    })
}

fn off_the_ring(x: &Array2<f64>) -> f64 {
    (x.rows().into_iter().map(|r| (r.dot(&r).sqrt() - 2.0).powi(2)).sum::<f64>() / x.nrows() as f64)
        .sqrt()
}

#[test]
fn a_noisy_ring_is_denoised_by_its_preimages() {
    let dir = Workdir::new();
    let (noisy, fresh) = (ring(300, 0.25), ring(140, 0.25));
    dir.matrix("d.parquet", &noisy, 100);
    dir.matrix("new.parquet", &fresh, 30);
    let before = off_the_ring(&fresh);
    let model =
        fit(&dir, &["--method", "kpca", "--gamma", "0.25", "-k", "6", "--preimage", "ridge"]);
    assert!(model["kernel"]["preimage"]["loss"].as_f64().unwrap() < 0.01, "{}", model["kernel"]);
    let said = dir.fails(2, &["reconstruct", "m", "d.parquet", "-o", "r.parquet"]);
    assert_eq!(
        said,
        "reconstruct: a kernel model has no reconstruction: its components live where the kernel maps to, not among the features; --preimage fixed-point (rbf) comes near, and --preimage ridge if it was fitted with it"
    );
    // Mika's iteration leaves the noise behind; the learned map brings rows back as they were.
    for (way, told) in [
        ("fixed-point", "mean squared distance"),
        ("ridge", "% of the rows' spread is not brought back"),
    ] {
        let run = dir.ok(&[
            "reconstruct",
            "m",
            "new.parquet",
            "--preimage",
            way,
            "-o",
            "r.parquet",
            "--json",
        ]);
        assert!(run.stderr.contains(told), "{}", run.stderr);
        let loss =
            serde_json::from_str::<Value>(&run.stdout).unwrap()["preimage_loss"].as_f64().unwrap();
        assert!(loss > 0.0 && loss < 0.05, "{way}: {loss}");
        dir.ok(&["transform", "m", "new.parquet", "-o", "s.parquet", "--quiet"]);
        dir.ok(&[
            "reconstruct",
            "m",
            "s.parquet",
            "--from-scores",
            "--preimage",
            way,
            "-o",
            "f.parquet",
            "--quiet",
        ]);
        for file in ["r.parquet", "f.parquet"] {
            let found = dir.numbers(file, &names("x", 0, 2));
            match way {
                "ridge" => close(&found, &fresh, 0.1, 1.0),
                _ => assert!(
                    off_the_ring(&found) < 0.5 * before,
                    "{file}: {} after {before}",
                    off_the_ring(&found)
                ),
            }
        }
    }
    // A standardized model goes back to the units of the data.
    let scaled = noisy.clone() * ndarray::array![100.0, 0.01] + ndarray::array![5.0, -3.0];
    dir.matrix("d.parquet", &scaled, 100);
    fit(&dir, &["--method", "kpca", "--gamma", "0.5", "-k", "6", "--standardize"]);
    dir.ok(&[
        "reconstruct",
        "m",
        "d.parquet",
        "--preimage",
        "fixed-point",
        "-o",
        "r.parquet",
        "--quiet",
    ]);
    let back = (dir.numbers("r.parquet", &names("x", 0, 2)) - ndarray::array![5.0, -3.0])
        / ndarray::array![100.0, 0.01];
    assert!(off_the_ring(&back) < 0.5 * off_the_ring(&noisy));
}

#[test]
fn preimages_of_landmarks_and_of_other_kernels() {
    let dir = Workdir::new();
    let noisy = ring(300, 0.25);
    dir.matrix("d.parquet", &noisy, 100);
    let before = off_the_ring(&noisy);
    let landmarks = [
        "--method",
        "kpca",
        "--gamma",
        "0.25",
        "-k",
        "6",
        "--landmarks",
        "60",
        "--preimage",
        "ridge",
    ];
    fit(&dir, &landmarks);
    dir.ok(&["reconstruct", "m", "d.parquet", "--preimage", "ridge", "-o", "r.parquet", "--quiet"]);
    close(&dir.numbers("r.parquet", &names("x", 0, 2)), &noisy, 0.1, 1.0);
    dir.ok(&[
        "reconstruct",
        "m",
        "d.parquet",
        "--preimage",
        "fixed-point",
        "-o",
        "r.parquet",
        "--quiet",
    ]);
    let after = off_the_ring(&dir.numbers("r.parquet", &names("x", 0, 2)));
    assert!(after < 0.5 * before, "{after} after {before}");
    assert_eq!(
        dir.fails(
            2,
            &["reconstruct", "m", "d.parquet", "--preimage", "ridge", "-k", "2", "-o", "r.parquet"]
        ),
        "reconstruct: the learned pre-image needs all components of its model; leave -k out, or fit with fewer"
    );
    let back = |options: &[&str], way: &str| {
        fit(&dir, options);
        dir.fails(2, &["reconstruct", "m", "d.parquet", "--preimage", way, "-o", "r.parquet"])
    };
    let poly = ["--method", "kpca", "--kernel", "poly", "-k", "2"];
    assert!(
        back(&poly, "fixed-point")
            .contains("--preimage fixed-point is for the rbf kernel over rows")
    );
    assert!(
        back(&poly, "ridge").contains("has learned no pre-image; fit it with --preimage ridge")
    );
    assert!(
        back(&["--method", "kpca", "--kernel", "cosine"], "ridge")
            .contains("forgets the length of a row")
    );
    assert!(
        back(&["--method", "kpca", "--random-features", "50"], "fixed-point")
            .contains("for the rbf kernel over rows")
    );
    assert!(back(&["-k", "2"], "ridge").contains("this one is reconstructed exactly without it"));
    fit(
        &dir,
        &["--method", "kpca", "--kernel", "poly", "--coef0", "1", "-k", "4", "--preimage", "ridge"],
    );
    dir.ok(&["reconstruct", "m", "d.parquet", "--preimage", "ridge", "-o", "r.parquet", "--quiet"]);
}

#[test]
fn bad_input_gets_a_sentence() {
    let (dir, x) = data();
    let misused = |options: &[&str]| {
        let args: Vec<&str> = ["fit", "d.parquet", "-o", "m", "--method", "kpca"]
            .iter()
            .chain(options)
            .copied()
            .collect();
        let run = dir.run(&args);
        assert_eq!(run.code, Some(2), "{options:?}: {}", run.stderr);
        run.stderr
    };
    for (options, words) in [
        (&["--kernel", "gauss"][..], "[possible values: linear, poly, rbf, sigmoid, cosine, "),
        (&["--gamma", "0"], "it must be a number greater than 0, or median"),
        (&["--gamma", "-1"], "it must be a number greater than 0, or median"),
        (&["--gamma", "NaN"], "it must be a number greater than 0, or median"),
        (&["--gamma", "inf"], "it must be a number greater than 0, or median"),
        (&["--sigma", "0"], "it must be a number greater than 0"),
        (&["--gamma", "1", "--sigma", "1"], "--gamma and --sigma say the same thing; give one"),
        (&["--kernel", "poly", "--degree", "2.5"], "a degree is a whole number from 1 to 100"),
        (&["--kernel", "poly", "--degree", "0"], "a degree is a whole number from 1 to 100"),
        (&["--coef0", "NaN"], "it must be a number"),
        (&["--kernel", "poly", "--sigma", "1"], "--sigma is of the rbf kernel"),
        (&["--kernel", "poly", "--gamma", "median"], "--gamma median is about distances"),
        (&["--no-center"], "--no-center does not go with --method kpca"),
        (&["--form", "direct"], "--form direct is of kspca"),
        (&["--form", "primal"], "a rbf kernel has no primal form"),
        (&["--landmarks", "5", "--random-features", "5"], "cannot be used with"),
        (&["--landmarks", "5", "--form", "exact"], "are forms of their own"),
        (
            &["--kernel", "poly", "--random-features", "5"],
            "--random-features stand for the rbf kernel, not for poly",
        ),
        (&["--kernel", "cosine", "--preimage", "ridge"], "forgets the length of a row"),
    ] {
        let said = misused(options);
        assert!(said.contains(words), "{options:?}: {said}");
    }
    let fails = |code: i32, options: &[&str]| {
        dir.fails(
            code,
            &["fit", "d.parquet", "-o", "m"].iter().chain(options).copied().collect::<Vec<_>>(),
        )
    };
    assert!(
        fails(2, &["--landmarks", "5"])
            .contains("--landmarks stands for a kernel; use it with --method kpca")
    );
    assert!(fails(2, &["--form", "exact"]).contains("are of kernels"));
    assert_eq!(
        fails(2, &["--method", "kspca"]),
        "fit: --method kspca needs labels; name their column with --label"
    );
    assert!(
        fails(2, &["--method", "kspca", "--label", "x0", "--landmarks", "3"])
            .contains("are for kpca")
    );
    assert!(
        fails(2, &["--method", "kspca", "--label", "x0", "--form", "primal"])
            .contains("has a dual and a direct form")
    );
    // A row without a length, named.
    let mut zero = x.clone();
    zero.row_mut(40).fill(0.0);
    dir.matrix("d.parquet", &zero, 17);
    for form in ["auto", "exact"] {
        let said = fails(1, &["--method", "kpca", "--kernel", "cosine", "--form", form]);
        assert!(
            said.starts_with("fit: d.parquet: row 40 (counted from 0): has no direction"),
            "{form}: {said}"
        );
    }
    dir.matrix("d.parquet", &x, 17);
    fit(&dir, &["--method", "kpca", "--kernel", "cosine"]);
    dir.matrix("z.parquet", &zero, 17);
    let said = dir.fails(1, &["transform", "m", "z.parquet", "-o", "s.parquet"]);
    assert!(
        said.starts_with("transform: z.parquet: row 40 (counted from 0): has no direction"),
        "{said}"
    );
    // One row; one class; a constant label; all rows the same; a kernel that overflows.
    dir.matrix("d.parquet", &x.slice(s![..1, ..]).to_owned(), 1);
    assert!(
        fails(1, &["--method", "kpca"]).contains("1 row left, but a variance needs at least 2")
    );
    let table = |label: ArrayRef| {
        let mut columns: Vec<(String, ArrayRef)> = x
            .columns()
            .into_iter()
            .enumerate()
            .map(|(j, c)| (format!("x{j}"), doubles(c.to_vec())))
            .collect();
        columns.push(("y".into(), label));
        dir.table("d.parquet", columns, 20);
    };
    table(Arc::new(StringArray::from(vec!["a"; N])));
    let said = fails(1, &["--method", "kspca", "--label", "y"]);
    assert_eq!(
        said,
        "fit: d.parquet: label 'y' has one class only (a); kernel supervised PCA needs two at least"
    );
    table(doubles(vec![2.5; N]));
    assert!(fails(1, &["--method", "kspca", "--label", "y"]).contains("label 'y' is constant"));
    dir.matrix("d.parquet", &Array2::from_elem((20, 2), 3.0), 20);
    assert!(fails(1, &["--method", "kpca"]).contains("all rows look the same to the kernel"));
    assert!(fails(1, &["--method", "kpca", "--standardize"]).contains("every feature is constant"));
    dir.matrix("d.parquet", &(&x * 1e60), 20);
    assert!(
        fails(1, &["--method", "kpca", "--kernel", "poly", "--degree", "9"])
            .contains("the kernel overflows")
    );
    // More components than there are.
    dir.matrix("d.parquet", &x.slice(s![..5, ..]).to_owned(), 5);
    let run = dir.ok(&["fit", "d.parquet", "--method", "kpca", "-k", "9", "-o", "m"]);
    assert!(
        run.stderr
            .contains("note: kept 4 of 9 components: the kernel has rank 4 (5 rows × 4 features)"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("note: gamma is 1/4 unless --gamma says otherwise"));
    let run = dir.ok(&["fit", "d.parquet", "--kernel", "rbf", "-o", "m"]);
    assert!(
        run.stderr.contains("note: --kernel has no effect without --method kpca or kspca"),
        "{}",
        run.stderr
    );
    let run = dir.ok(&["fit", "d.parquet", "--method", "kpca", "--degree", "2", "-o", "m"]);
    assert!(run.stderr.contains("--degree has no effect on the rbf kernel"), "{}", run.stderr);
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_plan_tells_what_a_kernel_fit_holds_and_writes() {
    let dir = Workdir::new();
    dir.ok(&["generate", "labels", "--rows", "6000", "--columns", "8", "--files", "2", "-o", "d"]);
    let options: [&[&str]; 4] = [
        &["--method", "kpca", "-k", "4"],
        &["--method", "kspca", "--label", "label_string", "-k", "3"],
        &["--method", "kpca", "-k", "4", "--landmarks", "100"],
        &["--method", "kpca", "-k", "4", "--random-features", "300"],
    ];
    for options in options {
        fn args<'a>(command: &[&'a str], options: &[&'a str]) -> Vec<&'a str> {
            [command, &["--columns", "x*"], options].concat()
        }
        let plan = dir.json(&args(&["plan", "d"], options));
        let held =
            crate::memory::peak_of(&dir, &args(&["fit", "d", "-o", "m", "--quiet"], options), true);
        let planned = plan["peak_bytes"].as_u64().unwrap();
        assert!(
            held <= planned + crate::memory::SLACK,
            "{options:?}: planned {planned}, held {held}"
        );
        let size = std::fs::metadata(dir.path("m")).unwrap().len();
        let told = plan["model_bytes"].as_u64().unwrap();
        assert!(size >= told / 2 && size < told + 20_000, "{options:?}: told {told}, is {size}");
        // A megabyte less than the least is refused, and what the refusal asks for is enough.
        let least =
            dir.json(&args(&["plan", "d", "--threads", "1"], options))["peak_bytes"].as_u64();
        let least = least.unwrap();
        let small = format!("{}MB", least / 1_000_000 - 1);
        let said = dir.fails(1, &args(&["fit", "d", "-o", "none", "--memory", &small], options));
        assert!(!dir.path("none").exists());
        let allow = said.split("allow --memory ").nth(1).unwrap_or_else(|| panic!("{said}"));
        let allow = allow.split("MB").next().unwrap();
        let enough = allow.parse::<u64>().unwrap() * 1_000_000;
        assert!(enough >= least && enough < least + 2_000_000, "{least}: {said}");
        let allow = format!("{allow}MB");
        let fit = args(&["fit", "d", "-o", "m", "--quiet", "--memory", &allow], options);
        let held = crate::memory::peak_of(&dir, &fit, true);
        assert!(held <= enough + crate::memory::SLACK, "{options:?}: {enough}, held {held}");
    }
    let wide = Workdir::new();
    wide.ok(&[
        "generate",
        "embedding",
        "--rows",
        "1600",
        "--columns",
        "300",
        "--row-group",
        "200",
        "-o",
        "d",
    ]);
    let plan = wide.json(&["plan", "d", "--exclude", "id", "--method", "kpca"]);
    assert_eq!(plan["kernel"]["spilled"], true);
    assert!(plan["disk_bytes"].as_u64().unwrap() > 8 * 1600 * 800);
    wide.ok(&[
        "fit",
        "d",
        "--exclude",
        "id",
        "--method",
        "kpca",
        "-k",
        "3",
        "-o",
        "m",
        "--temp-dir",
        ".",
        "--quiet",
    ]);
    assert_eq!(wide.list(), ["d", "m"], "tiles leave nothing behind");
}

#[test]
fn python_needs_nothing_of_ours_to_score_a_row() {
    // What docs/data.md says of a kernel model, word for word in arithmetic.
    let (dir, x) = data();
    fit(&dir, &["--method", "kpca", "--gamma", "0.2", "-k", "2"]);
    let bytes = std::fs::read(dir.path("m")).unwrap();
    let tensors = safetensors_of(&bytes);
    let (rows, coefficients) = (&tensors["train_rows"], &tensors["coefficients"]);
    let offset = Array1::from_iter(tensors["offset"].iter().copied());
    let expected = gram(&x, rows, &*rbf(0.2)).dot(&coefficients.t()) - &offset;
    close(&scores(&dir, "d.parquet", 2), &expected, 1e-12, 1.0);
    let means = Array1::from_iter(tensors["kernel_means"].iter().copied());
    close(&means, &gram(&x, rows, &*rbf(0.2)).mean_axis(Axis(0)).unwrap(), 1e-13, 1.0);
}

fn safetensors_of(bytes: &[u8]) -> std::collections::HashMap<String, Array2<f64>> {
    let tensors = safetensors::SafeTensors::deserialize(bytes).unwrap();
    let numbers = |data: &[u8]| {
        data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
    };
    let shape = |s: &[usize]| if s.len() == 2 { (s[0], s[1]) } else { (1, s[0]) };
    let matrix = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        (
            name.to_string(),
            Array2::from_shape_vec(shape(view.shape()), numbers(view.data())).unwrap(),
        )
    };
    tensors.iter().map(matrix).collect()
}

#[test]
fn scores_of_small_components_are_as_long_as_their_eigenvalues_say() {
    for (n, d, gamma) in [(60, 1, "0.001"), (300, 3, "0.05"), (1_700, 1, "0.01")] {
        let dir = Workdir::new();
        dir.matrix("d.parquet", &rows(n, d), 100);
        let k = if n > 1_500 { "12" } else { "all" };
        let model = fit(&dir, &["--method", "kpca", "--gamma", gamma, "-k", k]);
        let values = array(&model["eigenvalues"]);
        let z = scores(&dir, "d.parquet", values.len());
        for (i, (column, value)) in z.columns().into_iter().zip(&values).enumerate() {
            let length = column.dot(&column) / value;
            // Rounding of K, over what is left of it in this component.
            let noise = n as f64 * f64::EPSILON * (n as f64).sqrt() / value;
            assert!(
                (length - 1.0).abs() < 1e-6 + 100.0 * noise.min(0.05),
                "{n} rows, component {i} of {value:e}: {length}"
            );
        }
    }
}

#[test]
fn rounding_is_no_component() {
    let dir = Workdir::new();
    let far = rows(50, 2) + 1e5;
    dir.matrix("d.parquet", &far, 50);
    for kernel in
        [&["--kernel", "linear"][..], &["--kernel", "poly", "--degree", "1", "--gamma", "1"]]
    {
        let model = fit(
            &dir,
            &["--method", "kpca", "--form", "exact"]
                .iter()
                .chain(kernel)
                .copied()
                .collect::<Vec<_>>(),
        );
        assert!(model["n_components"].as_u64().unwrap() <= 2, "{kernel:?}");
        assert_eq!(model["kernel"]["negative_eigenvalues"], 0, "{kernel:?}");
    }
    let (near, ..) = labelled();
    let fails = |options: &[&str]| {
        near.fails(
            1,
            &["fit", "d.parquet", "--columns", "x*", "-o", "m"]
                .iter()
                .chain(options)
                .copied()
                .collect::<Vec<_>>(),
        )
    };
    assert!(
        fails(&["--method", "kpca", "--gamma", "1e-17"])
            .contains("all rows look the same to the kernel")
    );
    assert!(
        fails(&["--method", "kspca", "--label", "text", "--gamma", "1e-300"])
            .contains("the kernel sees nothing that depends on")
    );
    let said =
        near.fails(2, &["fit", "d.parquet", "--method", "kpca", "--sigma", "1e-160", "-o", "m"]);
    assert!(said.contains("gamma = 1/(2 sigma²) is no number"), "{said}");
}

#[test]
fn shares_of_an_indefinite_kernel_are_of_what_is_positive() {
    let (dir, x) = data();
    let (values, _) = dense(&gram(&x, &x, &*sigmoid()), 1);
    let positive: f64 = values.iter().filter(|v| **v > 1e-12 * values[0]).sum();
    let options = ["--method", "kpca", "--kernel", "sigmoid", "--gamma", "0.05", "--coef0", "-1"];
    let all = fit(&dir, &options.iter().copied().chain(["-k", "all"]).collect::<Vec<_>>());
    let share: f64 = array(&all["explained_variance_ratio"]).iter().sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let most = fit(&dir, &options.iter().copied().chain(["-k", "0.99"]).collect::<Vec<_>>());
    let expected = (1..).find(|k| values[..*k].iter().sum::<f64>() >= 0.99 * positive).unwrap();
    assert_eq!(most["n_components"].as_u64(), Some(expected as u64));
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_share_that_products_do_not_reach_is_found_by_the_whole_matrix() {
    let dir = Workdir::new();
    let x = rows(1_600, 4);
    dir.matrix("d.parquet", &x, 400);
    let args = ["fit", "d.parquet", "--method", "kpca", "--gamma", "2", "-k", "0.8", "-o", "m"];
    let run = dir.ok(&args);
    assert!(run.stderr.contains("the whole matrix fits and is decomposed"), "{}", run.stderr);
    let model = dir.json(&["inspect", "m"]);
    let share: f64 = array(&model["explained_variance_ratio"]).iter().sum();
    assert!((0.8..0.801).contains(&share), "{share}");
    let said = dir.fails(
        1,
        &[
            "fit",
            "d.parquet",
            "--method",
            "kpca",
            "--max-passes",
            "2",
            "--memory",
            "60MB",
            "-o",
            "m",
        ],
    );
    assert!(
        said.contains("miss the tolerance") && said.contains("to decompose the whole matrix"),
        "{said}"
    );
}

#[test]
fn hotelling_counts_from_the_mean_score() {
    let (dir, ..) = labelled();
    let model = fit(&dir, &["--method", "kspca", "--gamma", "0.1", "--label", "text", "-k", "3"]);
    let z = scores(&dir, "d.parquet", 3);
    dir.ok(&["transform", "m", "d.parquet", "--diagnostics", "-o", "t.parquet", "--quiet"]);
    let t2 = dir.numbers("t.parquet", &["hotelling_t2".into()]);
    let (mean, variance) = (z.mean_axis(Axis(0)).unwrap(), array(&model["explained_variance"]));
    for (row, t2) in z.rows().into_iter().zip(&t2) {
        let expected: f64 =
            row.iter().zip(&mean).zip(&variance).map(|((z, m), v)| (z - m) * (z - m) / v).sum();
        assert!((t2 / expected - 1.0).abs() < 1e-8);
    }
}

#[test]
fn matrices_that_are_given_on_the_command_line() {
    let (dir, x, class, _) = labelled();
    let k = gram(&x, &x, &*rbf(0.1));
    dir.matrix("k.parquet", &k, 20);
    let ky = Array2::from_shape_fn((70, 70), |(i, j)| f64::from(u8::from(class[i] == class[j])));
    dir.matrix("ky.parquet", &ky, 30);
    let direct = fit(&dir, &["--method", "kpca", "--gamma", "0.1", "-k", "3"]);
    let z = scores(&dir, "d.parquet", 3);
    let by_matrix = ["fit", "k.parquet", "--method", "kpca", "--kernel", "precomputed", "-k", "3"];
    dir.ok(&by_matrix.iter().chain(&["-o", "m", "--quiet"]).copied().collect::<Vec<_>>());
    let given = dir.json(&["inspect", "m"]);
    let values = array(&direct["eigenvalues"]);
    close(&array(&given["eigenvalues"])[..3], &values[..3], 1e-12, values[0]);
    assert_eq!(given["kernel"]["name"], "precomputed");
    close(&scores(&dir, "k.parquet", 3), &z, 1e-9, 1.0);
    assert!(dir.ok(&by_matrix_plan()).stdout.contains("small enough to hold"));
    // Labels by their kernel.
    let by_column = fit(&dir, &["--method", "spca", "--label", "text", "-k", "3"]);
    let by_data =
        ["--method", "spca", "--label-kernel", "precomputed", "--label-data", "ky.parquet"];
    let found = fit(&dir, &by_data.iter().chain(&["-k", "3"]).copied().collect::<Vec<_>>());
    let values = array(&by_column["eigenvalues"]);
    close(&array(&found["eigenvalues"])[..3], &values[..3], 1e-10, values[0]);
    assert_eq!(found["label"]["kernel"], "precomputed");
    let hsic = |more: &[&str]| {
        let base = ["hsic", "d.parquet", "--columns", "x*"];
        dir.json(&base.iter().chain(more).copied().collect::<Vec<_>>())["hsic"].as_f64().unwrap()
    };
    let (a, b) = (hsic(&["--label", "text"]), hsic(&by_data[2..]));
    assert!((a / b - 1.0).abs() < 1e-10, "{a} {b}");
    let said = dir.fails(
        2,
        &["fit", "d.parquet", "--method", "spca", "--label-data", "ky.parquet", "-o", "m"],
    );
    assert!(said.contains("--label-kernel precomputed"), "{said}");
}

fn by_matrix_plan() -> Vec<&'static str> {
    vec!["plan", "k.parquet", "--method", "kpca", "--kernel", "precomputed", "-k", "3"]
}
