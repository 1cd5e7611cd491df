//! `--precision full`: the last digit, against arithmetic of 60 digits (`fixtures/golden/full.py`),
//! and all that a sum must do.

use crate::workdir::{Workdir, array, close, doubles, fixture, matrix};
use ndarray::{Array2, s};
use serde_json::Value;

fn golden(case: &str) -> Value {
    let text = std::fs::read_to_string(fixture("golden/full.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[case].clone()
}

fn data(name: &str) -> String {
    fixture(&format!("golden/{name}.parquet"))
}

/// A model, as `inspect --json` has it.
fn fitted(file: &str, options: &[&str]) -> Value {
    let dir = Workdir::new();
    let data = data(file);
    dir.ok(&[&["fit", &data, "-o", "m", "-k", "all"], options].concat());
    dir.json(&["inspect", "m"])
}

/// The relative error of each eigenvalue.
fn errors(model: &Value, expected: &Value) -> Vec<f64> {
    let (found, truth) = (array(&model["eigenvalues"]), array(&expected["eigenvalues"]));
    found.iter().zip(&truth).map(|(f, t)| (f / t - 1.0).abs()).collect()
}

fn worst(errors: &[f64]) -> f64 {
    errors.iter().copied().fold(0.0, f64::max)
}

/// Each case with its file and options.
const CASES: [(&str, &str, &[&str]); 7] = [
    ("cancer", "breast_cancer", &["--exclude", "w"]),
    ("cancer_standardized", "breast_cancer", &["--exclude", "w", "--standardize"]),
    ("cancer_weighted", "breast_cancer", &["--weight", "w"]),
    ("cancer_uncentred", "breast_cancer", &["--exclude", "w", "--no-center"]),
    ("six", "six", &[]),
    ("six_uncentred", "six", &["--no-center"]),
    ("rotated", "rotated", &[]),
];

#[test]
fn every_eigenvalue_is_right_to_its_last_digits() {
    for (case, file, options) in CASES {
        let expected = golden(case);
        let model = fitted(file, &[options, &["--precision", "full"]].concat());
        let found = errors(&model, &expected);
        assert_eq!(found.len(), array(&expected["eigenvalues"]).len(), "{case}: all components");
        // Deviations that no column shows are known to eps of the largest, and no better.
        let bound = if case == "rotated" { 1e-3 } else { 3e-14 };
        assert!(worst(&found) < bound, "{case}: {:e}", worst(&found));
        assert_eq!(model["rank"], expected["rules"]["all"], "{case}");
    }
    let model = fitted("six", &["--no-center"]);
    assert_eq!(model["rank"], 1, "what products know of it");
}

/// Whatever a certificate says is known to 1e-6, is.
#[test]
fn what_is_called_accurate_is() {
    for (case, file, options) in CASES {
        let expected = golden(case);
        for precision in ["exact", "full"] {
            let model = fitted(file, &[options, &["--precision", precision]].concat());
            let accurate = model["certificate"]["accurate_components"].as_u64().unwrap() as usize;
            let found = errors(&model, &expected);
            assert!(worst(&found[..accurate]) < 1e-6, "{case}, {precision}: {found:?}");
            let most = match (case, precision) {
                ("rotated", "exact") => 4..6,
                ("rotated", _) => 8..11,
                ("six_uncentred", "exact") => 1..2,
                ("cancer", "exact") => 5..20,
                ("cancer_weighted" | "cancer_uncentred", "exact") => 4..20,
                _ => found.len()..found.len() + 1,
            };
            assert!(most.contains(&accurate), "{case}, {precision}: {accurate}");
        }
    }
}

/// Shares, Minka, elbow and rank, wherever exact can know: not where components are below what it
/// keeps.
#[test]
fn the_rules_agree_with_exact_and_with_many_digits() {
    for (case, file, options) in CASES {
        let expected = golden(case);
        let shares = array(&expected["shares"]);
        for precision in ["exact", "full"] {
            let model = fitted(file, &[options, &["--precision", precision]].concat());
            let found = array(&model["explained_variance_ratio"]);
            close(&found, &shares[..found.len()], 1e-13, 1.0);
            let knows_all = found.len() == shares.len();
            assert!(knows_all || precision == "exact", "{case}");
            for (rule, answer) in expected["rules"].as_object().unwrap() {
                let rules = model["selection"]["rules"].as_array().unwrap();
                let said = rules.iter().find(|r| r["rule"] == rule.as_str()).unwrap();
                let needs_all = rule == "mle" || rule == "all";
                assert!(
                    said["components"] == *answer || (needs_all && !knows_all),
                    "{case}, {precision}, {rule}: {said} for {answer}"
                );
            }
        }
    }
    for file in ["plain", "offset"] {
        let exact = fitted(file, &[]);
        let full = fitted(file, &["--precision", "full"]);
        assert_eq!(exact["selection"]["rules"], full["selection"]["rules"], "{file}");
        close(&array(&exact["eigenvalues"]), &array(&full["eigenvalues"]), 1e-13, 1e6);
        close(&matrix(&exact["components"]), &matrix(&full["components"]), 1e-7, 1.0);
    }
}

/// Scores have the variance that is told of them, along the smallest component too.
#[test]
fn small_components_are_directions_of_their_variance() {
    let dir = Workdir::new();
    let data = data("breast_cancer");
    let options = ["--exclude", "w", "-k", "all", "--precision", "full"];
    dir.ok(&[&["fit", &data, "-o", "m"], &options[..]].concat());
    dir.ok(&["transform", "m", &data, "-o", "z.parquet"]);
    let z = dir.numbers("z.parquet", &crate::workdir::names("pc", 1, 30));
    let model = dir.json(&["inspect", "m"]);
    let eigenvalues = array(&model["eigenvalues"]);
    for (j, column) in z.columns().into_iter().enumerate() {
        let found = column.dot(&column) / eigenvalues[j];
        assert!((found - 1.0).abs() < 1e-6, "pc{}: {found} of its variance", j + 1);
    }
    assert!(model["certificate"]["max_residual"].as_f64().unwrap() < 1e-14);
    assert!(model["certificate"]["orthogonality"].as_f64().unwrap() < 1e-13);
    assert_eq!(model["precision"], "full");
    let page = dir.ok(&["inspect", "m"]).stdout;
    assert!(page.contains("centred, full precision;"), "{page}");
    assert!(page.contains("eigenvalues known to 1e-6 of their own size: all that are kept"));
}

#[test]
fn exact_says_what_it_does_not_know_and_who_does() {
    let dir = Workdir::new();
    let (cancer, six) = (data("breast_cancer"), data("six"));
    let note = "eigenvalues not known to 1e-6 of their own size";
    let run = dir.ok(&["fit", &cancer, "--exclude", "w", "-o", "m", "-k", "all"]);
    assert!(run.stderr.contains(note) && run.stderr.contains("--precision full"), "{}", run.stderr);
    let page = dir.ok(&["inspect", "m"]).stdout;
    assert!(page.contains("eigenvalues known to 1e-6 of their own size: the first "), "{page}");
    let few = dir.ok(&["fit", &cancer, "--exclude", "w", "-o", "m", "-k", "3"]);
    assert!(!few.stderr.contains(note), "{}", few.stderr);
    let all = dir.ok(&["fit", &six, "-o", "m", "-k", "all"]);
    assert!(!all.stderr.contains(note), "{}", all.stderr);
    let mean = dir.ok(&["fit", &six, "-o", "m", "-k", "all", "--no-center"]);
    assert!(mean.stderr.contains("components 2 to 6: products"), "{}", mean.stderr);
    let full = ["fit", &data("rotated"), "-o", "m", "-k", "all", "--precision", "full"];
    let run = dir.ok(&full);
    assert!(run.stderr.contains("near the rounding of the numbers themselves"), "{}", run.stderr);
}

fn rows(n: usize, d: usize) -> Array2<f64> {
    let cell = |(i, j): (usize, usize)| {
        let wave = ((i * (j + 2)) as f64 * 0.37).sin() + ((i * 7 + j * 3) % 11) as f64 * 0.1;
        1e6 + wave * 1e-3f64.powi(j as i32 % 3)
    };
    Array2::from_shape_fn((n, d), cell)
}

/// A model of all rows, split into days, with a label and a weight.
fn days(dir: &Workdir) -> Array2<f64> {
    let x = rows(900, 5);
    let column = |x: &Array2<f64>, j: usize| doubles(x.column(j).to_vec());
    for (day, at) in [(0, s![..300, ..]), (1, s![300..700, ..]), (2, s![700.., ..])] {
        let part = x.slice(at).to_owned();
        let mut columns: Vec<_> = (0..5).map(|j| (format!("x{j}"), column(&part, j))).collect();
        let label = part.rows().into_iter().map(|r| (r[0] * 3.0).floor() % 2.0).collect();
        let weight = (0..part.nrows()).map(|i| (i % 3) as f64).collect();
        columns.push(("y".into(), doubles(label)));
        columns.push(("w".into(), doubles(weight)));
        dir.table(&format!("d{day}.parquet"), columns, 100);
    }
    x
}

const FULL: [&str; 4] = ["--precision", "full", "--exclude", "y,w"];

fn bytes(dir: &Workdir, name: &str) -> Vec<u8> {
    std::fs::read(dir.path(name)).unwrap()
}

#[test]
fn states_checkpoints_and_threads_give_the_bytes_of_a_fit() {
    let dir = Workdir::new();
    days(&dir);
    let files = ["d0.parquet", "d1.parquet", "d2.parquet"];
    let fit = |more: &[&str], out: &str| {
        dir.ok(&[&["fit"], &files[..], &["-o", out, "-k", "all"], &FULL, more].concat());
        bytes(&dir, out)
    };
    let model = fit(&[], "m");
    assert_eq!(fit(&["--threads", "1"], "one"), model);
    assert_eq!(fit(&["--threads", "3", "--memory", "1GB"], "three"), model);
    assert_eq!(fit(&["--checkpoint", "c"], "checkpoint"), model);
    assert_eq!(fit(&["--state", "s"], "state"), model);
    dir.ok(&[&["scan"], &files[..], &["-o", "all.state"], &FULL].concat());
    dir.ok(&["solve", "all.state", "-o", "solved", "-k", "all"]);
    assert_eq!(bytes(&dir, "solved"), model);
    // In two steps, going on from a state.
    dir.ok(&[&["fit", "d0.parquet", "-o", "m0", "--state", "days"], &FULL[..]].concat());
    let two = ["fit", "d1.parquet", "d2.parquet", "-o", "two", "-k", "all", "--state", "days"];
    dir.ok(&[&two, &FULL[..]].concat());
    assert_eq!(bytes(&dir, "two"), model);
}

#[test]
fn states_merge_and_are_not_subtracted() {
    let dir = Workdir::new();
    days(&dir);
    for day in ["d0", "d1", "d2"] {
        let (data, state) = (format!("{day}.parquet"), format!("{day}.state"));
        dir.ok(&[&["scan", &data, "-o", &state], &FULL[..]].concat());
    }
    dir.ok(&["merge", "d0.state", "d1.state", "d2.state", "-o", "all.state"]);
    dir.ok(&["solve", "all.state", "-o", "m", "-k", "all"]);
    let all = ["fit", "d0.parquet", "d1.parquet", "d2.parquet", "-o", "f", "-k", "all"];
    dir.ok(&[&all, &FULL[..]].concat());
    let (merged, whole) = (dir.json(&["inspect", "m"]), dir.json(&["inspect", "f"]));
    let (a, b) = (array(&merged["eigenvalues"]), array(&whole["eigenvalues"]));
    for (a, b) in a.iter().zip(&b) {
        assert!((a / b - 1.0).abs() < 1e-12, "{a:e} against {b:e}");
    }
    let refused = dir.fails(2, &["subtract", "all.state", "d1.state", "-o", "less.state"]);
    assert!(refused.contains("nothing can be taken out of sums of --precision full"), "{refused}");
    assert!(refused.contains("merge those that stay"), "{refused}");
    dir.ok(&["scan", "d1.parquet", "-o", "exact.state", "--exclude", "y,w"]);
    let refused = dir.fails(2, &["merge", "all.state", "exact.state", "-o", "x.state"]);
    assert!(refused.contains("different --precision"), "{refused}");
}

#[test]
fn weights_count_rows_and_groups_and_folds_share_them_out() {
    let dir = Workdir::new();
    let x = days(&dir);
    let weighted =
        ["fit", "d0.parquet", "-o", "w", "-k", "all", "--weight", "w", "--precision", "full"];
    dir.ok(&[&weighted[..], &["--exclude", "y"]].concat());
    let repeated: Vec<usize> = (0..300).flat_map(|i| std::iter::repeat_n(i, i % 3)).collect();
    dir.matrix("r.parquet", &x.select(ndarray::Axis(0), &repeated), 50);
    dir.ok(&["fit", "r.parquet", "-o", "r", "-k", "all", "--precision", "full"]);
    let (w, r) = (dir.json(&["inspect", "w"]), dir.json(&["inspect", "r"]));
    for (a, b) in array(&w["eigenvalues"]).iter().zip(&array(&r["eigenvalues"])) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a:e} against {b:e}");
    }
    let by = ["scan", "d0.parquet", "-o", "groups", "--by", "y", "--precision", "full"];
    dir.ok(&[&by[..], &["--exclude", "w"]].concat());
    dir.ok(&["solve", "groups", "-o", "models", "-k", "2"]);
    let folds = ["scan", "d0.parquet", "-o", "f.state", "--folds", "4", "--label", "y"];
    dir.ok(&[&folds[..], &["--precision", "full", "--exclude", "w"]].concat());
    dir.ok(&["solve", "f.state", "-o", "c", "--score-by", "y", "--folds"]);
    dir.ok(&["solve", "f.state", "-o", "v", "--method", "spca", "--with-variance"]);
    let model = dir.json(&["inspect", "v"]);
    assert!(array(&model["explained_variance_ratio"])[0] > 0.0);
}

#[test]
fn features_that_score_are_those_of_a_fit_of_them() {
    let dir = Workdir::new();
    days(&dir);
    let scored = ["--precision", "full", "--exclude", "w", "--score-by", "y", "--keep-features"];
    dir.ok(&[&["fit", "d0.parquet", "-o", "m", "-k", "all"], &scored[..], &["3"]].concat());
    let model = dir.json(&["inspect", "m"]);
    let kept: Vec<&str> =
        model["features"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(kept.len(), 3);
    let columns = kept.join(",");
    let plain = ["fit", "d0.parquet", "-o", "p", "-k", "all", "--precision", "full", "--columns"];
    dir.ok(&[&plain[..], &[&columns]].concat());
    let scan = ["scan", "d0.parquet", "-o", "s", "--precision", "full", "--label", "y"];
    dir.ok(&[&scan[..], &["--exclude", "w"]].concat());
    dir.ok(&["solve", "s", "-o", "q", "-k", "all", "--score-by", "y", "--keep-features", "3"]);
    let (plain, solved) = (dir.json(&["inspect", "p"]), dir.json(&["inspect", "q"]));
    for other in [plain, solved] {
        for (a, b) in array(&model["eigenvalues"]).iter().zip(&array(&other["eigenvalues"])) {
            assert!((a / b - 1.0).abs() < 1e-12, "{a:e} against {b:e}");
        }
    }
}

/// Cells at the mean are those of rows that had the mean written into them.
#[test]
fn missing_cells_take_means_in_two_passes() {
    let dir = Workdir::new();
    let mut x = rows(400, 4);
    let holes: Vec<(usize, usize)> = (0..400).step_by(7).map(|i| (i, i % 4)).collect();
    let with_holes = |x: &Array2<f64>, j: usize| -> arrow_array::ArrayRef {
        let cell = |i| (!holes.contains(&(i, j))).then(|| x[[i, j]]);
        std::sync::Arc::new((0..400).map(cell).collect::<arrow_array::Float64Array>())
    };
    let columns = (0..4).map(|j| (format!("x{j}"), with_holes(&x, j))).collect();
    dir.table("holes.parquet", columns, 90);
    let fit = ["fit", "holes.parquet", "-o", "m", "-k", "all", "--precision", "full"];
    dir.ok(&[&fit[..], &["--nulls", "mean"]].concat());
    dir.ok(&[&["fit", "holes.parquet", "-o", "e", "-k", "all"], &["--nulls", "mean"][..]].concat());
    let plan = ["plan", "holes.parquet", "--precision", "full", "--nulls", "mean"];
    assert!(dir.ok(&plan).stdout.contains("passes    2 over"), "{}", dir.ok(&plan).stdout);
    for j in 0..4 {
        let present = (0..400).filter(|i| !holes.contains(&(*i, j)));
        let count = present.clone().count() as f64;
        // Around 1e6, so that the mean has the digits of the rows' differences.
        let mean = 1e6 + present.map(|i| x[[i, j]] - 1e6).sum::<f64>() / count;
        holes.iter().filter(|(_, k)| *k == j).for_each(|(i, _)| x[[*i, j]] = mean);
    }
    dir.matrix("filled.parquet", &x, 90);
    dir.ok(&["fit", "filled.parquet", "-o", "f", "-k", "all", "--precision", "full"]);
    let [m, f, e] = ["m", "f", "e"].map(|name| array(&dir.json(&["inspect", name])["eigenvalues"]));
    for ((m, f), e) in m.iter().zip(&f).zip(&e) {
        assert!((m / f - 1.0).abs() < 1e-7 && (m / e - 1.0).abs() < 1e-7, "{m:e}, {f:e}, {e:e}");
    }
    let drop = ["--precision", "full", "--nulls", "drop", "-k", "all"];
    dir.ok(&[&["fit", "holes.parquet", "-o", "d"], &drop[..]].concat());
    assert_eq!(dir.json(&["inspect", "d"])["n_rows"], 400 - holes.len());
    let scan = ["scan", "holes.parquet", "-o", "s", "--precision", "full", "--nulls", "mean"];
    let refused = dir.fails(2, &scan);
    assert!(refused.contains("takes two passes, and a scan is one"), "{refused}");
    let refused = dir.fails(1, &["fit", "holes.parquet", "-o", "x", "--precision", "full"]);
    assert!(refused.contains("--nulls drop"), "{refused}");
}

#[test]
fn what_has_no_factor_is_refused() {
    let dir = Workdir::new();
    days(&dir);
    let refused = |more: &[&str], why: &str| {
        let fit = ["fit", "d0.parquet", "-o", "m", "--precision", "full"];
        let said = dir.fails(2, &[&fit[..], more].concat());
        assert!(said.contains(why), "{said}");
    };
    refused(&["--form", "dual"], "does not go with --form dual");
    refused(&["--form", "randomized"], "does not go with --form randomized");
    refused(&["--method", "kpca"], "kernels are computed in f64");
    refused(&["--method", "spca", "--label", "y"], "only for --with-variance");
    let scan = ["scan", "d0.parquet", "-o", "s", "--label", "y", "--for", "spca"];
    let said = dir.fails(2, &[&scan[..], &["--precision", "full"]].concat());
    assert!(said.contains("keeps a factor of the covariance"), "{said}");
    let said = dir.fails(2, &["scan", "d0.parquet", "-o", "s", "--precision", "mixed"]);
    assert!(said.contains("does not go with states"), "{said}");
    dir.ok(&["fit", "d0.parquet", "-o", "b", "--exclude", "y,w"]);
    refused(&["--basis", "b"], "--precision does not go with --basis");
    // spca with variances, and the linear sides of it.
    let spca = ["fit", "d0.parquet", "-o", "v", "--method", "spca", "--label", "y"];
    dir.ok(&[&spca[..], &["--with-variance", "--precision", "full"]].concat());
    dir.ok(&[&spca[..], &["--with-variance"]].concat());
}
