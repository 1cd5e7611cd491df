//! Values from scikit-learn and numpy: `fixtures/golden/make.py` made them.

use crate::workdir::{Workdir, array, close, fixture, matrix, names};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("golden/golden.json")).unwrap()).unwrap()
}

fn fit(data: &str, options: &[&str]) -> (Workdir, Value) {
    let dir = Workdir::new();
    let data = fixture(&format!("golden/{data}.parquet"));
    let args: Vec<&str> = ["fit", &data, "-o", "m"].iter().chain(options).copied().collect();
    dir.ok(&args);
    let model = dir.json(&["inspect", "m"]);
    (dir, model)
}

/// Variances to 1e-11 of the first; components to 1e-9, since their error is that of the variances over the gaps.
fn compare(model: &Value, expected: &Value, k: usize) {
    let variance = array(&expected["explained_variance"]);
    close(&array(&model["explained_variance"])[..k], &variance[..k], 1e-12, variance[0]);
    close(
        &array(&model["explained_variance_ratio"])[..k],
        &array(&expected["explained_variance_ratio"])[..k],
        1e-12,
        1.0,
    );
    close(
        &matrix(&model["components"]),
        matrix(&expected["components"]).slice(ndarray::s![..k, ..]),
        1e-9,
        1.0,
    );
}

#[test]
fn pca_matches_scikit_learn() {
    let (dir, model) = fit("plain", &["--exclude", "id,w", "-k", "all"]);
    let golden = golden();
    compare(&model, &golden["pca"], 7);
    close(&array(&model["mean"]), &array(&golden["pca"]["mean"]), 1e-13, 100.0);
    assert_eq!((model["n_rows"].as_u64(), model["rank"].as_u64()), (Some(200), Some(7)));
    dir.ok(&["transform", "m", &fixture("golden/plain.parquet"), "-o", "s.parquet"]);
    let scores = dir.numbers("s.parquet", &names("pc", 1, 7));
    close(scores.slice(ndarray::s![..5, ..]), &matrix(&golden["pca"]["scores_head"]), 1e-9, 10.0);
}

#[test]
fn the_rules_match_scikit_learn() {
    let golden = golden();
    let (_dir, model) = fit("plain", &["--exclude", "id,w", "-k", "mle"]);
    assert_eq!(model["n_components"], golden["mle"]);
    let (_dir, model) = fit("plain", &["--exclude", "id,w", "-k", "0.9"]);
    assert_eq!(model["n_components"], golden["ratio_0.9"]);
    let rules = model["selection"]["rules"].as_array().unwrap();
    let answer =
        |rule: &str| rules.iter().find(|r| r["rule"] == rule).unwrap()["components"].clone();
    assert_eq!(
        (answer("mle"), answer("0.9"), answer("all")),
        (golden["mle"].clone(), golden["ratio_0.9"].clone(), 7.into())
    );
    assert_eq!(model["spectrum"].as_array().unwrap().len(), 7, "the whole spectrum is kept");
}

#[test]
fn reconstruction_and_diagnostics_match() {
    let expected = &golden()["reconstruct3"];
    let (dir, _) = fit("plain", &["--exclude", "id,w", "-k", "5"]);
    let data = fixture("golden/plain.parquet");
    dir.ok(&["reconstruct", "m", &data, "-k", "3", "-o", "r.parquet"]);
    let rows = dir.numbers("r.parquet", &names("x", 0, 7));
    close(rows.slice(ndarray::s![..5, ..]), &matrix(&expected["head"]), 1e-10, 10.0);
    dir.ok(&["transform", "m", &data, "-k", "3", "--diagnostics", "-o", "s.parquet"]);
    let found = dir.numbers("s.parquet", &["reconstruction_error".into(), "hotelling_t2".into()]);
    close(&found.column(0).to_vec()[..5], &array(&expected["error_head"]), 1e-10, 1.0);
    close(&found.column(1).to_vec()[..5], &array(&expected["t2_head"]), 1e-9, 1.0);
}

#[test]
fn standardized_lsa_and_weighted_match() {
    let golden = golden();
    let (_dir, model) = fit("plain", &["--exclude", "id,w", "-k", "all", "--standardize"]);
    compare(&model, &golden["standardize"], 7);
    close(&array(&model["scale"]), &array(&golden["standardize"]["scale"]), 1e-13, 10.0);
    let (_dir, model) = fit("plain", &["--exclude", "id,w", "-k", "all", "--no-center"]);
    let expected = array(&golden["lsa"]["eigenvalues"]);
    close(&array(&model["eigenvalues"]), &expected, 1e-13, expected[0]);
    close(&matrix(&model["components"]), &matrix(&golden["lsa"]["components"]), 1e-8, 1.0);
    let (_dir, model) = fit("plain", &["--exclude", "id", "--weight", "w", "-k", "all"]);
    compare(&model, &golden["weight"], 7);
    assert_eq!(model["weight"]["kind"], "frequency");
}

#[test]
fn missing_values_match() {
    let golden = golden();
    let (_dir, model) = fit("holes", &["--exclude", "id", "-k", "all", "--nulls", "drop"]);
    compare(&model, &golden["drop"], 7);
    assert_eq!(model["n_rows"], golden["drop"]["rows"]);
    assert_eq!(
        model["nulls"]["rows_dropped"].as_u64().unwrap() + model["n_rows"].as_u64().unwrap(),
        200
    );
    let (_dir, model) = fit("holes", &["--exclude", "id", "-k", "all", "--nulls", "mean"]);
    compare(&model, &golden["impute"], 7);
    assert_eq!(model["nulls"]["missing"], golden["impute"]["missing"]);
}

#[test]
fn a_mean_of_1e8_costs_no_digits() {
    let expected = &golden()["offset"];
    let (_dir, model) = fit("offset", &["-k", "all"]);
    compare(&model, expected, 5);
    let smallest = array(&expected["explained_variance"])[4];
    close(&array(&model["explained_variance"])[4..], [smallest].iter(), 1e-12, smallest);
}

#[test]
fn vector_columns_and_mixed_precision_match() {
    let expected = &golden()["vectors"];
    let (_dir, model) = fit("vectors", &["-k", "4"]);
    compare(&model, expected, 4);
    assert_eq!(model["features"][11], "v[11]");
    let (_dir, mixed) = fit("vectors", &["-k", "4", "--precision", "mixed"]);
    let variance = array(&expected["explained_variance"]);
    close(&array(&mixed["explained_variance"]), &variance, 1e-6, variance[0]);
    assert!(mixed["certificate"]["mixed_error"].as_f64().unwrap() < 1e-6);
    assert!(model["certificate"]["mixed_error"].is_null());
}

#[test]
fn kernel_pca_matches_scikit_learn() {
    let golden: Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("golden/kernel.json")).unwrap())
            .unwrap();
    let cases: [(&str, &[&str]); 6] = [
        ("rbf", &["--gamma", "0.1"]),
        ("poly", &["--kernel", "poly", "--gamma", "0.2", "--coef0", "1", "--degree", "2"]),
        ("sigmoid", &["--kernel", "sigmoid", "--gamma", "0.05", "--coef0", "0.1"]),
        ("cosine", &["--kernel", "cosine", "--form", "exact"]),
        ("linear", &["--kernel", "linear", "--form", "exact"]),
        ("rbf", &["--gamma", "0.1", "--landmarks", "200"]),
    ];
    for (name, options) in cases {
        let fixed = ["--exclude", "id,w", "--method", "kpca", "--standardize", "-k", "4"];
        let (dir, model) = fit("plain", &fixed.iter().chain(options).copied().collect::<Vec<_>>());
        let expected = array(&golden[name]["eigenvalues"]);
        close(&array(&model["eigenvalues"])[..4], &expected, 1e-9, expected[0]);
        dir.ok(&["transform", "m", &fixture("golden/plain.parquet"), "-o", "s.parquet"]);
        let scores = dir.numbers("s.parquet", &names("pc", 1, 4));
        let head = matrix(&golden[name]["scores_head"]);
        for (a, b) in scores.slice(ndarray::s![..5, ..]).columns().into_iter().zip(head.columns()) {
            // Landmarks are signed by their components.
            let sign = if model["form"] == "exact" { 1.0 } else { a.dot(&b).signum() };
            close(&(&a * sign), b, 1e-7, 1.0);
        }
    }
}

/// Three of the 64 pixels of scikit-learn's digits never vary: `fixtures/golden/digits.py`.
#[test]
fn minka_s_rule_takes_the_directions_that_vary() {
    let text = std::fs::read_to_string(fixture("golden/digits.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let (_, model) = fit("digits", &["-k", "mle"]);
    assert_eq!((&model["n_components"], golden["mle"].as_u64()), (&golden["mle"], Some(61)));
    let variance = array(&golden["explained_variance"]);
    close(&array(&model["explained_variance"]), &variance, 1e-12, variance[0]);
}
