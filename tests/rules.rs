//! How many components the rules keep, in every form and method.

use crate::theory::rows;
use crate::workdir::{Workdir, array, fixture};
use serde_json::Value;

fn fitted(dir: &Workdir, k: &str, options: &[&str]) -> Value {
    let fixed = ["fit", "d.parquet", "-o", "m", "--quiet", "-k", k];
    dir.ok(&fixed.iter().chain(options).copied().collect::<Vec<_>>());
    dir.json(&["inspect", "m"])
}

fn kept(dir: &Workdir, k: &str, options: &[&str]) -> usize {
    fitted(dir, k, options)["n_components"].as_u64().unwrap() as usize
}

fn answer(model: &Value, rule: &str) -> Option<u64> {
    let rules = model["selection"]["rules"].as_array().unwrap();
    let said = rules.iter().find(|r| r["rule"] == rule);
    said.unwrap_or_else(|| panic!("no {rule} in {rules:?}"))["components"].as_u64()
}

/// `value>T` and `ratio>R` that keep k, between the k-th value and the next.
fn thresholds(model: &Value, k: usize) -> [String; 2] {
    ["explained_variance", "explained_variance_ratio"].map(|name| {
        let values = array(&model[name]);
        let least = (values[k - 1] + values[k]) / 2.0;
        let rule = if name.ends_with("ratio") { "ratio" } else { "value" };
        format!("{rule}>{least}")
    })
}

#[test]
fn thresholds_keep_the_same_in_every_form() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(40, 90), 64);
    for options in [&[][..], &["--standardize"], &["--no-center"]] {
        let all = fitted(&dir, "all", options);
        for k in [1, 4, 9] {
            for rule in thresholds(&all, k) {
                for form in ["primal", "dual", "randomized"] {
                    let options: Vec<&str> =
                        options.iter().copied().chain(["--form", form]).collect();
                    let model = fitted(&dir, &rule, &options);
                    assert_eq!(model["n_components"], k, "{rule} {options:?}");
                    assert_eq!(model["selection"]["asked"], rule);
                    assert_eq!(answer(&model, &rule), Some(k as u64), "{options:?}");
                }
            }
        }
    }
}

/// 300 features, so that the basis is less than the whole space.
#[test]
fn a_search_finds_all_that_exceed_a_threshold() {
    let dir = Workdir::new();
    let mut x = rows(700, 300);
    x.columns_mut().into_iter().enumerate().for_each(|(j, mut c)| c *= 0.9f64.powi(j as i32));
    dir.matrix("d.parquet", &x, 200);
    let all = fitted(&dir, "40", &[]);
    let randomized = ["--form", "randomized"];
    for k in [3, 30] {
        for rule in thresholds(&all, k) {
            let model = fitted(&dir, &rule, &randomized);
            assert_eq!(model["n_components"], k, "{rule}");
            assert_eq!(model["rank"], Value::Null, "only the leading ones are known");
            assert_eq!(answer(&model, &rule), Some(k as u64));
            assert_eq!(array(&model["eigenvalues"]).len(), k);
        }
    }
}

#[test]
fn value_above_one_of_standardized_features_is_kaisers_rule() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(300, 12), 100);
    let all = fitted(&dir, "all", &["--standardize"]);
    let above = array(&all["explained_variance"]).iter().filter(|v| **v > 1.0).count();
    assert!((1..11).contains(&above));
    assert_eq!(kept(&dir, "value>1", &["--standardize"]), above);
}

#[test]
fn thresholds_of_supervised_and_kernel_methods_are_of_what_they_report() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(120, 9), 50);
    let labels = ["--label", "x6,x7,x8"];
    for method in ["spca", "kspca"] {
        let options = [&["--method", method], &labels[..]].concat();
        let all = fitted(&dir, "all", &options);
        let (values, shares) = (array(&all["eigenvalues"]), array(&all["label"]["hsic_share"]));
        assert_eq!(values.len(), 3);
        for k in 1..3 {
            let value = format!("value>{}", (values[k - 1] + values[k]) / 2.0);
            let ratio = format!("ratio>{}", (shares[k - 1] + shares[k]) / 2.0);
            assert_eq!(kept(&dir, &value, &options), k, "{method} {value}");
            assert_eq!(kept(&dir, &ratio, &options), k, "{method} {ratio}");
        }
    }
    let approximations = [&[][..], &["--landmarks", "60"], &["--random-features", "60"]];
    for more in approximations {
        let options = [&["--method", "kpca", "--gamma", "0.01"], more].concat();
        let all = fitted(&dir, "20", &options);
        for rule in thresholds(&all, 5) {
            assert_eq!(kept(&dir, &rule, &options), 5, "{more:?} {rule}");
        }
    }
    // Weights count as rows.
    let weighted = ["--weight", "x0w"];
    let x = rows(80, 4);
    let mut columns: Vec<(String, _)> =
        (0..4).map(|j| (format!("x{j}"), crate::workdir::doubles(x.column(j).to_vec()))).collect();
    let weights = (0..80).map(|i| (1 + i % 3) as f64).collect();
    columns.push(("x0w".into(), crate::workdir::doubles(weights)));
    let dir = Workdir::new();
    dir.table("d.parquet", columns, 30);
    for method in ["pca", "kpca"] {
        let options = [&["--method", method], &weighted[..]].concat();
        let all = fitted(&dir, "4", &options);
        for rule in thresholds(&all, 2) {
            assert_eq!(kept(&dir, &rule, &options), 2, "{method} {rule}");
        }
    }
}

#[test]
fn a_search_among_tiles_finds_all_that_exceed_a_threshold() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(1_600, 3), 400);
    let options = ["--method", "kpca", "--gamma", "0.05"];
    let all = fitted(&dir, "12", &options);
    for rule in thresholds(&all, 7) {
        let model = fitted(&dir, &rule, &options);
        assert_eq!(model["n_components"], 7, "{rule}");
        assert!(model["certificate"]["iteration"].is_object(), "found by products");
    }
}

#[test]
fn a_state_takes_thresholds_as_a_fit_does() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(100, 6), 50);
    let model = fitted(&dir, "all", &[]);
    let [value, _] = thresholds(&model, 2);
    dir.ok(&["fit", "d.parquet", "-k", &value, "-o", "fitted"]);
    dir.ok(&["scan", "d.parquet", "-o", "s"]);
    dir.ok(&["solve", "s", "-k", &value, "-o", "solved"]);
    let bytes = |name: &str| std::fs::read(dir.path(name)).unwrap();
    assert_eq!(bytes("fitted"), bytes("solved"));
}

#[test]
fn a_threshold_that_nothing_exceeds_tells_the_largest() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(120, 90), 50);
    let largest = array(&fitted(&dir, "1", &[])["explained_variance"])[0];
    for form in ["primal", "dual", "randomized"] {
        let said =
            dir.fails(1, &["fit", "d.parquet", "--form", form, "-k", "value>1e9", "-o", "n"]);
        let start = "fit: d.parquet: no component has what -k 'value>1000000000' asks for: \
                     the largest value is ";
        let number = said.strip_prefix(start).unwrap_or_else(|| panic!("{form}: {said}"));
        let number: f64 = number.replace(',', "").parse().unwrap();
        assert!((number / largest - 1.0).abs() < 1e-3, "{number} of {largest}");
    }
    let said =
        dir.fails(1, &["fit", "d.parquet", "--method", "kpca", "-k", "ratio>0.99", "-o", "n"]);
    assert!(said.starts_with("fit: d.parquet: no component has what -k 'ratio>0.99'"), "{said}");
    dir.ok(&["scan", "d.parquet", "-o", "s"]);
    let said = dir.fails(1, &["solve", "s", "-k", "ratio>0.99", "-o", "n"]);
    assert!(said.starts_with("solve: d.parquet: no component has what"), "{said}");
    for (k, words) in [
        ("value", "a threshold is missing; in quotes, 'value>0.1'"),
        ("value>x", "a threshold of values is a number from 0 on"),
        ("ratio>1", "a threshold of ratios is at least 0 and less than 1"),
        ("share>1", "thresholds are 'value>T' and 'ratio>R'"),
    ] {
        let run = dir.run(&["fit", "d.parquet", "-k", k, "-o", "n"]);
        assert_eq!(run.code, Some(2), "{k}");
        assert!(run.stderr.contains(words), "{k}: {}", run.stderr);
    }
    assert!(!dir.list().contains(&"n".to_string()));
}

/// The largest relative drop is the one before the last of 29: of 8e-4 to 3e-5, say.
#[test]
fn the_elbow_of_a_smooth_kernel_is_not_in_its_tail() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(30, 3), 50);
    for gamma in ["0.05", "0.2"] {
        let elbow = kept(&dir, "elbow", &["--method", "kpca", "--gamma", gamma]);
        assert!((2..=10).contains(&elbow), "gamma {gamma}: {elbow}");
    }
}

#[test]
fn what_older_models_call_elbow_is_named() {
    let dir = Workdir::new();
    let old = fixture("models/v1/pca.safetensors");
    let page = dir.ok(&["inspect", &old]).stdout;
    assert!(page.contains("elbow (largest relative drop) → "), "{page}");
    dir.matrix("d.parquet", &rows(30, 3), 50);
    let model = fitted(&dir, "elbow", &[]);
    let rules = model["selection"]["rules"].as_array().unwrap();
    assert_eq!(rules.iter().find(|r| r["rule"] == "elbow").unwrap()["by"], "chord");
    assert!(dir.ok(&["inspect", "m"]).stdout.contains(" elbow → "));
}
