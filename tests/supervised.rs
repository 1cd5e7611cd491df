//! Supervised PCA, scoring and HSIC against the dense n × n formulas of the tutorial.

use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles, matrix, names};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, StringArray};
use ndarray::{Array1, Array2, Axis, s};
use serde_json::{Value, json};
use std::sync::Arc;

const N: usize = 60;
const D: usize = 7;

/// Rows whose class moves some of their features, and a numeric label that moves others.
struct Labelled {
    x: Array2<f64>,
    class: Vec<usize>,
    y: Vec<f64>,
}

fn labelled() -> Labelled {
    let mut x = rows(N, D);
    let class: Vec<usize> = (0..N).map(|i| (i * 7 + i / 5) % 4).collect();
    let y: Vec<f64> = (0..N).map(|i| ((i * 13) % 9) as f64 - 2.0).collect();
    for i in 0..N {
        x[[i, class[i]]] += 3.0;
        x[[i, 5]] += 0.7 * y[i];
    }
    Labelled { x, class, y }
}

impl Labelled {
    fn columns(&self) -> Vec<(String, ArrayRef)> {
        let text: Vec<String> = self.class.iter().map(|c| format!("class {c}")).collect();
        let mut columns: Vec<(String, ArrayRef)> =
            (0..D).map(|j| (format!("x{j}"), doubles(self.x.column(j).to_vec()))).collect();
        columns.push(("text".into(), Arc::new(StringArray::from(text.clone()))));
        let dictionary: DictionaryArray<Int32Type> =
            text.iter().map(|t| Some(t.as_str())).collect();
        columns.push(("dictionary".into(), Arc::new(dictionary)));
        columns.push((
            "int".into(),
            Arc::new(Int64Array::from_iter_values(self.class.iter().map(|c| *c as i64))),
        ));
        columns.push((
            "flag".into(),
            Arc::new(BooleanArray::from_iter(self.class.iter().map(|c| Some(c % 2 == 0)))),
        ));
        columns.push(("y".into(), doubles(self.y.clone())));
        columns
    }

    fn dir(&self) -> Workdir {
        let dir = Workdir::new();
        dir.table("d.parquet", self.columns(), 11);
        dir
    }
}

/// K_y from a function of two rows.
pub fn kernel(n: usize, k: impl Fn(usize, usize) -> f64) -> Array2<f64> {
    Array2::from_shape_fn((n, n), |(i, j)| k(i, j))
}

pub fn indicator(equal: bool) -> f64 {
    f64::from(u8::from(equal))
}

/// The seed's XHK_yHXᵀ, with rows of x as the seed's columns, and its eigenpairs, leading first.
pub fn dense(x: &Array2<f64>, k: &Array2<f64>) -> (Vec<f64>, Array2<f64>) {
    let n = x.nrows();
    let h = Array2::eye(n) - 1.0 / n as f64;
    let a = x.t().dot(&h).dot(k).dot(&h).dot(x);
    let (values, vectors) = crate::oracle::eigh((&a + &a.t()) / 2.0);
    (values.iter().rev().copied().collect(), vectors.slice(s![..;-1, ..]).to_owned())
}

pub fn fit(dir: &Workdir, options: &[&str]) -> Value {
    let fixed = ["fit", "d.parquet", "--method", "spca", "--columns", "x*", "-o", "m", "--quiet"];
    let args: Vec<&str> = fixed.iter().chain(options).copied().collect();
    dir.ok(&args);
    dir.json(&["inspect", "m"])
}

/// Eigenvalues, components up to sign, and HSIC of a model against the dense formula.
pub fn agrees(model: &Value, x: &Array2<f64>, k: &Array2<f64>) {
    let (values, vectors) = dense(x, k);
    let found = array(&model["eigenvalues"]);
    for (f, e) in found.iter().zip(&values) {
        assert!((f - e).abs() <= 1e-10 * values[0], "eigenvalue {f} against {e}");
    }
    let u = matrix(&model["components"]);
    for (i, row) in u.rows().into_iter().enumerate() {
        assert!((row.dot(&vectors.row(i)).abs() - 1.0).abs() < 1e-9, "component {i}");
    }
    let freedom = (x.nrows() - 1) as f64;
    let hsic = found.iter().sum::<f64>() / (freedom * freedom);
    assert!((model["hsic"].as_f64().unwrap() - hsic).abs() <= 1e-12 * hsic);
    let total: f64 = values.iter().sum();
    close(
        &array(&model["label"]["hsic_share"]),
        &found.iter().map(|v| v / total).collect::<Vec<_>>(),
        1e-10,
        1.0,
    );
    for name in ["max_residual", "orthogonality"] {
        assert!(model["certificate"][name].as_f64().unwrap() < 1e-12, "{name}");
    }
}

#[test]
fn every_label_kernel_is_the_dense_formula_in_both_forms() {
    let data = labelled();
    let dir = data.dir();
    let class = kernel(N, |i, j| indicator(data.class[i] == data.class[j]));
    let flag = kernel(N, |i, j| indicator(data.class[i] % 2 == data.class[j] % 2));
    let pair =
        kernel(N, |i, j| indicator(data.class[i] == data.class[j] && data.y[i] == data.y[j]));
    let linear = kernel(N, |i, j| data.y[i] * data.y[j]);
    let both = kernel(N, |i, j| data.y[i] * data.y[j] + (data.class[i] * data.class[j]) as f64);
    let rbf = kernel(N, |i, j| (-0.3 * (data.y[i] - data.y[j]).powi(2)).exp());
    // One-hot beside a number: the kernels add up.
    let mixed = &class + &linear;
    let cases: [(&[&str], &Array2<f64>, usize); 12] = [
        (&["--label", "text,y", "--label-kernel", "linear"], &mixed, 4),
        (&["--label", "text,flag", "--label-kernel", "linear"], &(&class + &flag), 3),
        (&["--label", "text"], &class, 3),
        (&["--label", "dictionary"], &class, 3),
        (&["--label", "int", "--classes"], &class, 3),
        (&["--label", "int", "--label-kernel", "delta"], &class, 3),
        (&["--label", "text", "--label-kernel", "linear"], &class, 3),
        (&["--label", "flag"], &flag, 1),
        (&["--label", "text,y"], &pair, D),
        (&["--label", "y"], &linear, 1),
        (&["--label", "y,int"], &both, 2),
        (&["--label", "y", "--label-kernel", "rbf", "--label-gamma", "0.3"], &rbf, D),
    ];
    for (options, k, rank) in cases {
        for form in ["primal", "dual", "auto"] {
            let options: Vec<&str> = options.iter().copied().chain(["--form", form]).collect();
            let model = fit(&dir, &options);
            assert!(form == "auto" || model["form"] == form, "{options:?}");
            assert_eq!(model["n_components"].as_u64(), Some(rank as u64), "{options:?}");
            assert_eq!(
                (model["method"].as_str(), model["label"]["columns"][0].as_str()),
                (Some("spca"), options.get(1).map(|l| l.split(',').next().unwrap()))
            );
            agrees(&model, &data.x, k);
        }
    }
}

#[test]
fn with_the_identity_kernel_it_is_pca() {
    let data = labelled();
    let dir = data.dir();
    for form in ["primal", "dual", "randomized"] {
        let spca = fit(&dir, &["--label", "text", "--label-kernel", "identity", "--form", form]);
        agrees(&spca, &data.x, &Array2::eye(N));
        dir.ok(&["fit", "d.parquet", "--columns", "x*", "--form", form, "-o", "p", "--quiet"]);
        let pca = dir.json(&["inspect", "p"]);
        for name in [
            "eigenvalues",
            "components",
            "mean",
            "explained_variance",
            "explained_variance_ratio",
            "total_variance",
        ] {
            assert_eq!(spca[name], pca[name], "{name}");
        }
        // H centres all the same where scores are not centred.
        let raw = fit(
            &dir,
            &["--label", "text", "--label-kernel", "identity", "--form", form, "--no-center"],
        );
        assert_eq!(
            (&raw["eigenvalues"], &raw["components"], &raw["hsic"]),
            (&spca["eigenvalues"], &spca["components"], &spca["hsic"])
        );
        assert_eq!(raw["center"], false);
    }
}

#[test]
fn scores_and_reconstructions_are_the_seeds_with_and_without_centring() {
    let data = labelled();
    let dir = data.dir();
    let new = rows(9, D) * 1.5;
    dir.matrix("new.parquet", &new, 4);
    let mean = data.x.mean_axis(Axis(0)).unwrap();
    for form in ["primal", "dual"] {
        for centred in [true, false] {
            let mut options = vec!["--label", "text", "--form", form];
            if !centred {
                options.push("--no-center");
            }
            let model = fit(&dir, &options);
            let u = matrix(&model["components"]);
            let shift = if centred { mean.clone() } else { Array1::zeros(D) };
            // Labels are irrelevant at transform: the new rows have none.
            for (file, x) in [("d.parquet", &data.x), ("new.parquet", &new)] {
                dir.ok(&["transform", "m", file, "-o", "s.parquet"]);
                let z = (x - &shift).dot(&u.t());
                close(&dir.numbers("s.parquet", &names("pc", 1, 3)), &z, 1e-12, 100.0);
                dir.ok(&["reconstruct", "m", file, "-o", "r.parquet"]);
                close(
                    &dir.numbers("r.parquet", &names("x", 0, D)),
                    &(z.dot(&u) + &shift),
                    1e-12,
                    100.0,
                );
            }
            // Centroids are the mean scores of the classes.
            let z = (&data.x - &shift).dot(&u.t());
            for class in model["label"]["classes"].as_array().unwrap() {
                let c: usize = class["class"][0].as_str().unwrap()[6..].parse().unwrap();
                let members: Vec<usize> = (0..N).filter(|i| data.class[*i] == c).collect();
                assert_eq!(class["weight"].as_f64(), Some(members.len() as f64));
                close(
                    &array(&class["centroid"]),
                    &z.select(Axis(0), &members).mean_axis(Axis(0)).unwrap(),
                    1e-12,
                    100.0,
                );
            }
        }
    }
}

#[test]
fn standardizing_divides_before_the_labels_are_asked() {
    let mut data = labelled();
    data.x.column_mut(6).fill(4.0);
    let dir = data.dir();
    let model = fit(&dir, &["--label", "text", "--standardize"]);
    assert_eq!(model["left_out"], serde_json::json!(["x6"]));
    let x = data.x.slice(s![.., ..6]);
    let deviation = x.std_axis(Axis(0), 1.0);
    agrees(
        &model,
        &(&x / &deviation),
        &kernel(N, |i, j| indicator(data.class[i] == data.class[j])),
    );
}

#[test]
fn weights_count_rows_as_often_as_they_say() {
    let data = labelled();
    let dir = Workdir::new();
    let weights: Vec<usize> = (0..N).map(|i| i % 3).collect();
    let mut columns = data.columns();
    columns.push(("w".into(), doubles(weights.iter().map(|w| *w as f64).collect())));
    dir.table("d.parquet", columns, 11);
    let repeated: Vec<usize> = (0..N).flat_map(|i| std::iter::repeat_n(i, weights[i])).collect();
    let x = data.x.select(Axis(0), &repeated);
    let class =
        kernel(x.nrows(), |i, j| indicator(data.class[repeated[i]] == data.class[repeated[j]]));
    agrees(&fit(&dir, &["--label", "text", "--weight", "w"]), &x, &class);
    // A class whose rows all weigh nothing is none.
    let mut columns = data.columns();
    columns.push(("w".into(), doubles(data.class.iter().map(|c| indicator(*c != 3)).collect())));
    dir.table("d.parquet", columns, 11);
    let model = fit(&dir, &["--label", "text", "--weight", "w"]);
    assert_eq!(
        (model["label"]["n_classes"].as_u64(), model["n_components"].as_u64()),
        (Some(3), Some(2))
    );
    let mut columns = data.columns();
    columns.push(("w".into(), doubles(weights.iter().map(|w| *w as f64).collect())));
    dir.table("d.parquet", columns, 11);
    let linear = kernel(x.nrows(), |i, j| data.y[repeated[i]] * data.y[repeated[j]]);
    agrees(&fit(&dir, &["--label", "y", "--weight", "w"]), &x, &linear);
}

#[test]
fn missing_features_and_labels_follow_the_policy() {
    let mut data = labelled();
    let holes = [(3, 1), (17, 5), (40, 0), (41, 0)];
    let mut columns = data.columns();
    for j in [0, 1, 5] {
        let cell = |i: usize| (!holes.contains(&(i, j))).then_some(data.x[[i, j]]);
        columns[j].1 = Arc::new((0..N).map(cell).collect::<Float64Array>());
    }
    let text = |i: usize| (i != 8).then(|| format!("class {}", data.class[i]));
    let y = |i: usize| if i == 9 { f64::NAN } else { data.y[i] };
    columns.push(("gaps".into(), Arc::new((0..N).map(text).collect::<StringArray>())));
    columns.push(("nan".into(), doubles((0..N).map(y).collect())));
    let dir = Workdir::new();
    dir.table("d.parquet", columns, 11);
    // --nulls mean fills features; both the classes' sums and the cross co-moment.
    for j in 0..D {
        let present: Vec<f64> =
            (0..N).filter(|i| !holes.contains(&(*i, j))).map(|i| data.x[[i, j]]).collect();
        let mean = present.iter().sum::<f64>() / present.len() as f64;
        holes.iter().filter(|(_, c)| *c == j).for_each(|(i, _)| data.x[[*i, j]] = mean);
    }
    let class = |keep: &[usize]| {
        kernel(keep.len(), |i, j| indicator(data.class[keep[i]] == data.class[keep[j]]))
    };
    let linear = |keep: &[usize]| kernel(keep.len(), |i, j| data.y[keep[i]] * data.y[keep[j]]);
    let all: Vec<usize> = (0..N).collect();
    agrees(&fit(&dir, &["--label", "text", "--nulls", "mean"]), &data.x, &class(&all));
    agrees(&fit(&dir, &["--label", "y", "--nulls", "mean"]), &data.x, &linear(&all));
    // --nulls drop leaves out rows without a label too.
    for (label, gap) in [("gaps", 8), ("nan", 9)] {
        let keep: Vec<usize> = all
            .iter()
            .copied()
            .filter(|i| *i != gap && !holes.iter().any(|(row, _)| row == i))
            .collect();
        let model = fit(&dir, &["--label", label, "--nulls", "drop"]);
        let k = if label == "gaps" { class(&keep) } else { linear(&keep) };
        agrees(&model, &data.x.select(Axis(0), &keep), &k);
        assert_eq!(
            (model["label"]["unlabelled"].as_u64(), model["n_rows"].as_u64()),
            (Some(1), Some(keep.len() as u64))
        );
        for nulls in ["error", "mean"] {
            let args = [
                "fit",
                "d.parquet",
                "--method",
                "spca",
                "--columns",
                "x2,x3",
                "--label",
                label,
                "--nulls",
                nulls,
                "-o",
                "m",
            ];
            assert_eq!(
                dir.fails(1, &args),
                format!(
                    "fit: d.parquet: column '{label}', row {gap} (counted from 0): has no label; --nulls drop leaves such rows out, and no other policy invents one"
                )
            );
        }
    }
}

#[test]
fn many_distinct_labels_are_approximated_and_told() {
    let n = 1500;
    let x = rows(n, 4);
    let y: Vec<f64> = (0..n).map(|i| x[[i, 2]] + 0.001 * i as f64).collect();
    let dir = Workdir::new();
    let mut columns: Vec<(String, ArrayRef)> =
        (0..4).map(|j| (format!("x{j}"), doubles(x.column(j).to_vec()))).collect();
    columns.push(("y".into(), doubles(y.clone())));
    dir.table("d.parquet", columns, 400);
    let base = [
        "fit",
        "d.parquet",
        "--method",
        "spca",
        "--columns",
        "x*",
        "--label",
        "y",
        "--label-kernel",
        "rbf",
        "-o",
        "m",
    ];
    let told = dir.ok(&base).stderr;
    assert!(
        told.contains(
            "more than 1000 distinct labels, so the rbf kernel over them is approximated by 1000 \
             random features (an entry is off by about 3.2e-2); one more pass"
        ),
        "{told}"
    );
    assert_eq!(dir.json(&["inspect", "m"])["label"]["features"].as_u64(), Some(1000));
    let args: Vec<&str> =
        base.iter().copied().chain(["--label-features", "4000", "--label-gamma", "0.5"]).collect();
    let run = dir.ok(&args);
    assert!(
        run.stderr.contains(
            "as --label-features asks, the rbf kernel over labels is approximated by 4000 random \
             features"
        ),
        "{}",
        run.stderr
    );
    let model = dir.json(&["inspect", "m"]);
    assert_eq!(model["label"]["features"].as_u64(), Some(4000));
    assert_eq!(model["seed"].as_u64(), Some(0), "random features have a seed");
    assert!((model["label"]["approximation"].as_f64().unwrap() - 4000f64.powf(-0.5)).abs() < 1e-15);
    let (values, vectors) = dense(&x, &kernel(n, |i, j| (-0.5 * (y[i] - y[j]).powi(2)).exp()));
    let first = array(&model["eigenvalues"])[0];
    assert!((first / values[0] - 1.0).abs() < 0.1, "{first} against {}", values[0]);
    assert!(matrix(&model["components"]).row(0).dot(&vectors.row(0)).abs() > 0.999);
    let again = dir.run(&args);
    assert_eq!(again.code, Some(0));
    assert_eq!(dir.json(&["inspect", "m"])["components"], model["components"], "seeded");
}

#[test]
fn what_the_labels_cannot_give_is_said() {
    let data = labelled();
    let dir = data.dir();
    let base = ["fit", "d.parquet", "--method", "spca", "--columns", "x*", "-o", "m"];
    let with = |more: &[&'static str]| {
        base.iter().copied().chain(more.iter().copied()).collect::<Vec<&str>>()
    };
    let run = dir.ok(&with(&["--label", "text", "-k", "6"]));
    assert!(
        run.stderr
            .contains("note: kept 3 of 6 components: 4 classes differ in at most 3 directions"),
        "{}",
        run.stderr
    );
    let run = dir.ok(&with(&["--label", "y", "-k", "6"]));
    assert!(
        run.stderr.contains(
            "note: kept 1 of 6 components: 1 numeric label can be told by at most 1 direction"
        ),
        "{}",
        run.stderr
    );
    let fails = |code, more: &[&'static str]| dir.fails(code, &with(more));
    assert_eq!(fails(2, &[]), "fit: --method spca needs labels; name their column with --label");
    assert!(fails(2, &["--label", "txet"]).contains("no column 'txet'; did you mean 'text'?"));
    assert!(
        fails(2, &["--label", "text", "--form", "randomized"]).contains("a primal and a dual form")
    );
    assert!(
        fails(2, &["--label", "text", "-k", "mle"]).contains("Minka's rule is about variances")
    );
    dir.table(
        "one.parquet",
        vec![
            ("x0".into(), doubles(vec![1.0, 2.0, 3.0])),
            ("c".into(), Arc::new(StringArray::from(vec!["a"; 3]))),
        ],
        9,
    );
    let said = dir.fails(1, &["fit", "one.parquet", "--method", "spca", "--label", "c", "-o", "m"]);
    assert_eq!(
        said,
        "fit: one.parquet: label 'c' has one class only (a); supervised PCA needs two at least"
    );
    let flat = vec![
        ("x0".into(), doubles(vec![1.0, 2.0, 1.0, 2.0])),
        ("c".into(), Arc::new(StringArray::from(vec!["a", "a", "b", "b"])) as ArrayRef),
    ];
    dir.table("flat.parquet", flat, 9);
    let said =
        dir.fails(1, &["fit", "flat.parquet", "--method", "spca", "--label", "c", "-o", "m"]);
    assert!(said.contains("no feature depends on label 'c'"), "{said}");
}

#[test]
fn a_label_that_names_each_row_is_refused_within_its_memory() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "lowrank",
        "--rows",
        "400000",
        "--columns",
        "20",
        "--files",
        "2",
        "--row-group",
        "20000",
        "-o",
        "d",
    ]);
    let args = [
        "fit",
        "d",
        "--method",
        "spca",
        "--label",
        "id",
        "--classes",
        "--memory",
        "150MB",
        "--threads",
        "2",
        "-o",
        "m",
    ];
    let plan = dir.json(&[
        "plan",
        "d",
        "--method",
        "spca",
        "--label",
        "id",
        "--classes",
        "--memory",
        "150MB",
        "--threads",
        "2",
    ]);
    let room = plan["label"]["most_classes"].as_u64().unwrap();
    let said = dir.fails(1, &args);
    assert!(
        said.starts_with(&format!(
            "fit: label 'id' has more than {room} classes, which is all there is room for; a label that names each row is an id"
        )),
        "{said}"
    );
    assert!(said.contains("allow more --memory (704.0 kB for 1,000 classes)"), "{said}");
    let held = crate::memory::peak_of(&dir, &args, false);
    assert!(held <= 150_000_000 + crate::memory::SLACK, "{held}");
    assert_eq!(dir.list(), ["d"]);
}

#[test]
fn the_variance_is_gathered_when_asked() {
    let data = labelled();
    let dir = data.dir();
    let plain = fit(&dir, &["--label", "text"]);
    assert!(plain["explained_variance"].is_null() && plain["explained_variance_ratio"].is_null());
    let run = dir.ok(&["transform", "m", "d.parquet", "--diagnostics", "-o", "s.parquet"]);
    assert!(run.stderr.contains("note: hotelling_t2 is left out"), "{}", run.stderr);
    assert!(run.stderr.contains("fit it with --with-variance"), "{}", run.stderr);
    assert!(dir.read("s.parquet").column_by_name("hotelling_t2").is_none());
    let error = |name: &str| dir.numbers(name, &["reconstruction_error".to_string()]);
    let without = error("s.parquet");
    fit(&dir, &["--label", "text", "--with-variance"]);
    dir.ok(&["transform", "m", "d.parquet", "--diagnostics", "-o", "s.parquet"]);
    close(&without, &error("s.parquet"), 1e-12, 10.0);
    assert!(dir.read("s.parquet").column_by_name("hotelling_t2").is_some());
    for (label, nulls) in [("text", "error"), ("text", "mean"), ("y", "error")] {
        let model = fit(&dir, &["--label", label, "--with-variance", "--nulls", nulls]);
        dir.ok(&["transform", "m", "d.parquet", "--diagnostics", "-o", "s.parquet"]);
        let k = model["n_components"].as_u64().unwrap() as usize;
        let z = dir.numbers("s.parquet", &names("pc", 1, k));
        close(&array(&model["explained_variance"]), &z.var_axis(Axis(0), 1.0), 1e-10, 100.0);
        let total = data.x.var_axis(Axis(0), 1.0).sum();
        assert!((model["total_variance"].as_f64().unwrap() - total).abs() < 1e-10 * total);
        assert!(dir.ok(&["inspect", "m"]).stdout.contains("of variance"));
    }
}

#[test]
fn the_same_bytes_for_any_threads() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        "60000",
        "--columns",
        "6",
        "--files",
        "3",
        "--row-group",
        "4000",
        "-o",
        "d",
    ]);
    for options in [
        &["--label", "label_string"][..],
        &["--label", "label_int"],
        &["--label", "weight", "--label-kernel", "rbf"],
        &["--label", "weight,label_int", "--label-kernel", "poly", "--label-coef0", "1"],
    ] {
        let model = |threads: &str, memory: &str| {
            let fixed = [
                "fit",
                "d",
                "--method",
                "spca",
                "--columns",
                "x*",
                "-o",
                "m",
                "--quiet",
                "--threads",
                threads,
                "--memory",
                memory,
            ];
            let args: Vec<&str> = fixed.iter().chain(options).copied().collect();
            dir.ok(&args);
            std::fs::read(dir.path("m")).unwrap()
        };
        let one = model("1", "1GB");
        assert!(model("2", "200MB") == one && model("5", "1GB") == one, "{options:?}");
    }
}

#[test]
fn features_are_scored_as_the_seed_does() {
    let data = labelled();
    let dir = data.dir();
    let mean = data.x.mean_axis(Axis(0)).unwrap();
    let y = Array1::from_vec(data.y.clone());
    let seed =
        |x: &Array2<f64>| x.t().dot(&y) / x.mapv(|v| v * v).sum_axis(Axis(0)).mapv(f64::sqrt);
    let centred = &data.x - &mean;
    let between = Array1::from_shape_fn(D, |j| {
        let class = |c: usize| {
            let members: Vec<f64> =
                (0..N).filter(|i| data.class[*i] == c).map(|i| centred[[i, j]]).collect();
            members.iter().sum::<f64>().powi(2) / members.len() as f64
        };
        ((0..4).map(class).sum::<f64>() / centred.column(j).mapv(|v| v * v).sum()).sqrt()
    });
    let cases: [(&[&str], Array1<f64>); 5] = [
        (&["--score-by", "y"], seed(&centred)),
        (&["--score-by", "y", "--score", "signed"], seed(&centred)),
        (&["--score-by", "y", "--no-center"], seed(&data.x)),
        (&["--score-by", "text"], between.clone()),
        (&["--score-by", "int", "--classes"], between.clone()),
    ];
    for (options, expected) in &cases {
        let signed = options.contains(&"signed");
        let rank = |j: &usize| if signed { expected[*j] } else { expected[*j].abs() };
        let mut order: Vec<usize> = (0..D).collect();
        order.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        let mut best = order[..4].to_vec();
        best.sort_unstable();
        let kept: Vec<String> = best.iter().map(|j| format!("x{j}")).collect();
        for form in ["primal", "dual", "randomized"] {
            let base = [
                "fit",
                "d.parquet",
                "--columns",
                "x*",
                "--keep-features",
                "4",
                "-k",
                "3",
                "--form",
                form,
                "-o",
                "m",
                "--quiet",
            ];
            let args: Vec<&str> = base.iter().chain(*options).copied().collect();
            dir.ok(&args);
            let model = dir.json(&["inspect", "m"]);
            let scoring = &model["selection"]["scoring"];
            let found: Vec<f64> =
                names("x", 0, D).iter().map(|n| scoring["scores"][n].as_f64().unwrap()).collect();
            close(&found, expected, 1e-12, 10.0);
            assert_eq!(scoring["features"], serde_json::json!(kept), "{options:?}");
            assert!((scoring["cut"].as_f64().unwrap() - rank(&order[3])).abs() < 1e-12);
            // Then it is PCA of the kept columns, by whichever pass.
            let columns = kept.join(",");
            let plain = [
                "fit",
                "d.parquet",
                "--columns",
                &columns,
                "-k",
                "3",
                "--form",
                form,
                "-o",
                "p",
                "--quiet",
            ];
            let no_center = options.contains(&"--no-center");
            let plain: Vec<&str> =
                plain.iter().copied().chain(no_center.then_some("--no-center")).collect();
            dir.ok(&plain);
            let pca = dir.json(&["inspect", "p"]);
            close(
                &array(&model["eigenvalues"]),
                &array(&pca["eigenvalues"]),
                1e-12,
                array(&pca["eigenvalues"])[0],
            );
            close(&matrix(&model["components"]), &matrix(&pca["components"]), 1e-9, 1.0);
            // The kept columns are all that transform needs.
            let needed = kept
                .iter()
                .map(|n| (n.clone(), doubles(data.x.column(n[1..].parse().unwrap()).to_vec())));
            dir.table("kept.parquet", needed.collect(), 20);
            dir.ok(&["transform", "m", "kept.parquet", "-o", "s.parquet"]);
        }
    }
    // Two classes: the numeric score's magnitude over the norm of the centred label.
    let flag = Array1::from_iter(data.class.iter().map(|c| indicator(c % 2 == 0)));
    let share = flag.mean().unwrap();
    let norm = (N as f64 * share * (1.0 - share)).sqrt();
    dir.ok(&[
        "fit",
        "d.parquet",
        "--columns",
        "x*",
        "--score-by",
        "flag",
        "--keep-features",
        "2",
        "-o",
        "m",
        "--quiet",
    ]);
    let found = dir.json(&["inspect", "m"])["selection"]["scoring"]["scores"].clone();
    let numeric =
        centred.t().dot(&flag) / centred.mapv(|v| v * v).sum_axis(Axis(0)).mapv(f64::sqrt);
    for j in 0..D {
        assert!((found[format!("x{j}")].as_f64().unwrap() - numeric[j].abs() / norm).abs() < 1e-12);
    }
}

#[test]
fn scoring_goes_in_front_of_spca_and_cuts_by_threshold() {
    let data = labelled();
    let dir = data.dir();
    let model = fit(&dir, &["--label", "text", "--score-by", "text", "--score-threshold", "0.3"]);
    let kept: Vec<usize> = model["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f.as_str().unwrap()[1..].parse().unwrap())
        .collect();
    assert!(!kept.is_empty() && kept.len() < D, "{kept:?}");
    let scores = &model["selection"]["scoring"]["scores"];
    for j in 0..D {
        assert_eq!(kept.contains(&j), scores[format!("x{j}")].as_f64().unwrap() >= 0.3);
    }
    agrees(
        &model,
        &data.x.select(Axis(1), &kept),
        &kernel(N, |i, j| indicator(data.class[i] == data.class[j])),
    );
    let base = ["fit", "d.parquet", "--columns", "x*", "-o", "m"];
    let fails = |code, more: &[&'static str]| {
        dir.fails(code, &base.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    assert!(
        fails(1, &["--score-by", "text", "--score-threshold", "1.5"])
            .contains("no feature scores as much as --score-threshold; the best scores 0.")
    );
    assert_eq!(
        fails(2, &["--score-by", "text"]),
        "fit: --score-by needs --keep-features Q or --score-threshold T"
    );
    assert!(fails(2, &["--keep-features", "3"]).contains("need a label to score by"));
    assert!(
        fails(2, &["--score-by", "text", "--keep-features", "3", "--score-threshold", "1"])
            .contains("give one")
    );
}

#[test]
fn raw_scores_go_before_a_centred_method_and_into_a_file() {
    use arrow_array::cast::AsArray;
    let data = labelled();
    let dir = data.dir();
    let y = Array1::from_vec(data.y.clone());
    let raw = data.x.t().dot(&y) / data.x.mapv(|v| v * v).sum_axis(Axis(0)).mapv(f64::sqrt);
    let scored = ["--score-by", "y", "--score-center", "no", "--keep-features", "3"];
    let read = |path: &str| {
        let batch = dir.read(path);
        let kept = batch.column_by_name("kept").unwrap().as_boolean();
        let features = batch.column_by_name("feature").unwrap().as_string::<i32>();
        let rows: Vec<(String, bool)> = features
            .iter()
            .zip(kept)
            .map(|(name, kept)| (name.unwrap().to_string(), kept.unwrap()))
            .collect();
        assert_eq!(rows.iter().map(|r| r.0.clone()).collect::<Vec<_>>(), names("x", 0, D));
        let kept: Vec<String> = rows.into_iter().filter(|r| r.1).map(|r| r.0).collect();
        (dir.numbers(path, &["score".into()]).column(0).to_vec(), kept)
    };
    for method in ["pca", "kpca"] {
        let base = ["fit", "d.parquet", "--columns", "x*", "-k", "2", "--method", method];
        let out = ["-o", "m", "--scores-out", "scores.parquet", "--quiet"];
        dir.ok(&base.iter().chain(&scored).chain(&out).copied().collect::<Vec<_>>());
        let (found, kept) = read("scores.parquet");
        close(&found, &raw, 1e-12, 10.0);
        let model = dir.json(&["inspect", "m"]);
        assert_eq!(model["selection"]["scoring"]["features"], serde_json::json!(kept));
        assert_eq!(model["selection"]["scoring"]["center"], false);
        assert_eq!(model["center"], true);
    }
    // The same from a state.
    dir.ok(&["scan", "d.parquet", "--columns", "x*", "--label", "y", "-o", "s", "--quiet"]);
    let solve = ["solve", "s", "-o", "n", "--scores-out", "of_state.parquet", "--quiet"];
    dir.ok(&solve.iter().chain(&scored).copied().collect::<Vec<_>>());
    close(&read("of_state.parquet").0, &raw, 1e-12, 10.0);
    let fails = |more: &[&'static str]| {
        let base = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--keep-features", "3"];
        dir.fails(2, &base.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    assert!(fails(&["--score-by", "text", "--score-center", "no"]).contains("read as classes"));
    assert!(fails(&["--score-by", "y", "--scores-out", "m"]).contains("replaced by the model"));
    assert!(fails(&["--score-by", "y", "--scores-out", "d.parquet"]).contains("d.parquet"));
    let base = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--scores-out", "s.parquet"];
    assert!(dir.fails(2, &base).contains("name it with --score-by"));
}

#[test]
fn hsic_is_the_trace_formula() {
    let data = labelled();
    let dir = data.dir();
    let h = Array2::eye(N) - 1.0 / N as f64;
    let trace = |k: &Array2<f64>, l: &Array2<f64>| {
        k.dot(&h).dot(l).dot(&h).diag().sum() / ((N - 1) * (N - 1)) as f64
    };
    let dot = |i: usize, j: usize| data.x.row(i).dot(&data.x.row(j));
    let distance = |i: usize, j: usize| (&data.x.row(i) - &data.x.row(j)).mapv(|v| v * v).sum();
    let linear = kernel(N, dot);
    let class = kernel(N, |i, j| indicator(data.class[i] == data.class[j]));
    let y = kernel(N, |i, j| data.y[i] * data.y[j]);
    let near = kernel(N, |i, j| (-(data.y[i] - data.y[j]).powi(2)).exp());
    let rbf = kernel(N, |i, j| (-0.02 * distance(i, j)).exp());
    let poly = kernel(N, |i, j| (0.1 * dot(i, j) + 1.0).powi(2));
    let sigmoid = kernel(N, |i, j| (0.01 * dot(i, j) - 0.2).tanh());
    let cosine = kernel(N, |i, j| dot(i, j) / (dot(i, i) * dot(j, j)).sqrt());
    let mixed = &class + &y;
    let cases: [(&[&str], &Array2<f64>, &Array2<f64>); 13] = [
        (&["--label", "text,y", "--label-kernel", "linear"], &linear, &mixed),
        (
            &[
                "--label",
                "text,y",
                "--label-kernel",
                "linear",
                "--kernel",
                "rbf",
                "--gamma",
                "0.02",
            ],
            &rbf,
            &mixed,
        ),
        (&["--label", "text"], &linear, &class),
        (&["--label", "y"], &linear, &y),
        (&["--label", "y", "--label-kernel", "rbf"], &linear, &near),
        (&["--label", "y", "--label-kernel", "identity"], &linear, &Array2::eye(N)),
        (&["--label", "text", "--permutations", "3"], &linear, &class),
        (&["--label", "text", "--kernel", "rbf", "--gamma", "0.02"], &rbf, &class),
        (
            &["--label", "y", "--kernel", "rbf", "--sigma", "5", "--label-kernel", "rbf"],
            &rbf,
            &near,
        ),
        (&["--label", "int", "--classes", "--kernel", "rbf", "--gamma", "0.02"], &rbf, &class),
        (
            &[
                "--label", "y", "--kernel", "poly", "--gamma", "0.1", "--coef0", "1", "--degree",
                "2",
            ],
            &poly,
            &y,
        ),
        (
            &["--label", "y", "--kernel", "sigmoid", "--gamma", "0.01", "--coef0", "-0.2"],
            &sigmoid,
            &y,
        ),
        (&["--label", "text", "--kernel", "cosine"], &cosine, &class),
    ];
    for (options, k, l) in cases {
        let args: Vec<&str> =
            ["hsic", "d.parquet", "--columns", "x*"].iter().chain(options).copied().collect();
        let said = dir.json(&args);
        let (found, expected) = (said["hsic"].as_f64().unwrap(), trace(k, l));
        assert!((found / expected - 1.0).abs() < 1e-11, "{options:?}: {found} against {expected}");
        assert_eq!(said["n_rows"].as_u64(), Some(N as u64));
    }
    // Of a model's scores: what the model says of itself.
    let model = fit(&dir, &["--label", "text", "-k", "2"]);
    let said = dir.json(&["hsic", "d.parquet", "--label", "text", "--model", "m"]);
    assert!((said["hsic"].as_f64().unwrap() / model["hsic"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(said["n_features"].as_u64(), Some(2));
}

#[test]
fn shuffled_labels_tell_dependence_from_chance() {
    let data = labelled();
    let dir = data.dir();
    let p = |label: &str, kernel: &str, seed: &str| {
        let args = [
            "hsic",
            "d.parquet",
            "--columns",
            "x*",
            "--label",
            label,
            "--kernel",
            kernel,
            "--permutations",
            "99",
            "--seed",
            seed,
        ];
        dir.json(&args)
    };
    for kernel in ["linear", "rbf"] {
        let dependent = p("text", kernel, "1");
        assert_eq!(dependent["p_value"].as_f64(), Some(0.01), "{dependent}");
        assert_eq!(p("text", kernel, "1")["shuffled"], dependent["shuffled"], "seeded");
        assert_ne!(p("text", kernel, "2")["shuffled"], dependent["shuffled"]);
    }
    // A label that has nothing to do with the rows.
    let mut columns = data.columns();
    let noise = rows(N, 1).column(0).to_vec();
    columns.push(("noise".into(), doubles(noise.iter().map(|v| (v * 1e6).fract()).collect())));
    dir.table("n.parquet", columns, 20);
    let said = dir.json(&[
        "hsic",
        "n.parquet",
        "--columns",
        "x*",
        "--label",
        "noise",
        "--permutations",
        "99",
    ]);
    assert!(said["p_value"].as_f64().unwrap() > 0.05, "{said}");
    let said = dir.fails(
        1,
        &[
            "hsic",
            "n.parquet",
            "--columns",
            "x*",
            "--label",
            "text",
            "--kernel",
            "rbf",
            "--memory",
            "1MB",
        ],
    );
    assert!(
        said.contains("pairs of rows")
            && said.contains("or approximate with --landmarks, which holds no row"),
        "{said}"
    );
    let said = dir
        .fails(1, &["hsic", "n.parquet", "--columns", "x*", "--label", "text", "--memory", "1MB"]);
    assert!(said.contains("budget is 1.0 MB; allow --memory "), "{said}");
    let run =
        dir.run(&["hsic", "n.parquet", "--label", "text", "--kernel", "rbf", "--gamma", "-1"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("it must be a number greater than 0"), "{}", run.stderr);
    let said =
        dir.fails(2, &["hsic", "n.parquet", "--label", "text", "--kernel", "poly", "--sigma", "2"]);
    assert_eq!(said, "hsic: --sigma is of the rbf kernel; poly and sigmoid take --gamma");
}

#[test]
fn hsic_takes_weights_scales_and_what_stands_for_its_kernels() {
    let dir = Workdir::new();
    dir.ok(&["generate", "labels", "--rows", "400", "--columns", "4", "-o", "d", "--quiet"]);
    let fixed = ["hsic", "d", "--columns", "x*", "--label", "label_string"];
    let hsic = |more: &[&str]| dir.json(&[&fixed[..], more].concat());
    let rbf = ["--kernel", "rbf", "--gamma", "0.1", "--standardize", "--weight", "weight"];
    let exact = hsic(&rbf);
    let near = hsic(&[&rbf[..], &["--landmarks", "400"]].concat());
    let (a, b) = (exact["hsic"].as_f64().unwrap(), near["hsic"].as_f64().unwrap());
    assert!((a / b - 1.0).abs() < 1e-6, "{a} against {b}");
    assert_eq!((&near["weight"], &near["standardize"]), (&json!("weight"), &json!(true)));
    assert_eq!(near["approximation"]["kind"], "landmarks");
    assert!(exact["approximation"].is_null());
    assert_ne!(exact["total_weight"].as_f64(), Some(400.0));
    let random = hsic(&[&rbf[..], &["--random-features", "50"]].concat());
    assert_eq!(random["approximation"]["size"], 50);
    let fixed = ["hsic", "d", "--columns", "x[0-2]", "--label", "x3", "--label-kernel", "rbf"];
    let features = dir.json(&[&fixed[..], &["--label-features", "60"]].concat());
    assert_eq!(features["label"]["features"], 60);
    let told = dir.ok(&[&fixed[..], &["--landmark-choice", "uniform"]].concat()).stderr;
    assert!(told.contains("--landmark-choice has no effect without --landmarks"), "{told}");
    let said = dir.fails(2, &[&fixed[..], &["--exact", "--label-features", "9"]].concat());
    assert!(
        said.contains("--label-features stand for the kernel over labels and --exact"),
        "{said}"
    );
    let weighted = ["--weight", "weight", "--permutations", "9"];
    let said = dir.fails(2, &[&fixed[..], &weighted].concat());
    assert!(said.contains("leave --permutations out, or write its rows out"), "{said}");
}
