//! Primal, dual and randomized are three ways to the same numbers.

use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles, matrix, names};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array};
use arrow_schema::{DataType, Field};
use ndarray::{Array1, Array2, Axis, s};
use serde_json::Value;
use std::sync::Arc;

/// A table with a weight, in two files: scalar columns, or a vector column and one scalar.
fn table(x: &Array2<f64>, vectors: bool) -> Workdir {
    let dir = Workdir::new();
    let half = x.nrows() / 2;
    for (name, range) in [("d/a.parquet", 0..half), ("d/b.parquet", half..x.nrows())] {
        let part = x.slice(s![range.clone(), ..]);
        let mut columns: Vec<(String, ArrayRef)> =
            vec![("w".into(), doubles(range.map(|i| (i % 4) as f64).collect()))];
        let number = |v: &f64| (!v.is_nan()).then_some(*v);
        let scalar = |j: usize| -> ArrayRef {
            Arc::new(part.column(j).iter().map(number).collect::<Float64Array>())
        };
        if vectors {
            let width = x.ncols() - 1;
            let item = Arc::new(Field::new_list_field(DataType::Float64, true));
            let values: Float64Array = part.slice(s![.., ..width]).iter().map(number).collect();
            columns.push((
                "v".into(),
                Arc::new(FixedSizeListArray::new(item, width as i32, Arc::new(values), None)),
            ));
            columns.push(("last".into(), scalar(width)));
        } else {
            columns.extend((0..x.ncols()).map(|j| (format!("x{j}"), scalar(j))));
        }
        dir.table(name, columns, 7);
    }
    dir
}

/// The model and the scores and reconstruction of all rows.
struct Fit {
    model: Value,
    scores: Array2<f64>,
    rows: Vec<Vec<f64>>,
}

fn fit(dir: &Workdir, form: &str, k: &str, options: &[&str]) -> Fit {
    let fixed = [
        "fit",
        "d",
        "-o",
        "m",
        "--form",
        form,
        "-k",
        k,
        "--exclude",
        "w",
        "--tolerance",
        "1e-11",
        "--quiet",
    ];
    let args: Vec<&str> = fixed.iter().chain(options).copied().collect();
    dir.ok(&args);
    let model = dir.json(&["inspect", "m"]);
    assert_eq!(model["form"], form);
    let kept = model["n_components"].as_u64().unwrap() as usize;
    dir.ok(&["transform", "m", "d", "-o", "s.parquet", "--quiet"]);
    let scores = dir.numbers("s.parquet", &names("pc", 1, kept));
    dir.ok(&["reconstruct", "m", "d", "-o", "r.parquet", "--quiet"]);
    let batch = dir.read("r.parquet");
    let numbers = |c: &ArrayRef| match c.data_type() {
        DataType::FixedSizeList(..) => {
            use arrow_array::cast::AsArray;
            c.as_fixed_size_list()
                .values()
                .as_primitive::<arrow_array::types::Float64Type>()
                .values()
                .to_vec()
        }
        _ => {
            use arrow_array::cast::AsArray;
            c.as_primitive::<arrow_array::types::Float64Type>().values().to_vec()
        }
    };
    Fit { model, scores, rows: batch.columns().iter().map(numbers).collect() }
}

/// To 1e-9 relative: eigenvalues each to itself, components, scores and reconstructions to their
/// scale.
fn agree(a: &Fit, b: &Fit) {
    let (x, y) = (array(&a.model["eigenvalues"]), array(&b.model["eigenvalues"]));
    assert_eq!(x.len(), y.len());
    for (i, (x, y)) in x.iter().zip(&y).enumerate() {
        assert!((x - y).abs() <= 1e-9 * y, "eigenvalue {i}: {x} against {y}");
    }
    close(&matrix(&a.model["components"]), &matrix(&b.model["components"]), 1e-9, 1.0);
    for name in ["mean", "explained_variance_ratio"] {
        close(&array(&a.model[name]), &array(&b.model[name]), 1e-12, 100.0);
    }
    let total = |name: &str| (a.model[name].as_f64().unwrap(), b.model[name].as_f64().unwrap());
    let (x, y) = total("total_variance");
    assert!((x - y).abs() <= 1e-12 * y);
    for name in ["n_rows", "left_out", "nulls", "weight"] {
        assert_eq!(a.model[name], b.model[name]);
    }
    close(&a.scores, &b.scores, 1e-9, 100.0);
    a.rows.iter().zip(&b.rows).for_each(|(x, y)| close(x, y, 1e-9, 100.0));
}

const OPTIONS: [&[&str]; 7] = [
    &[],
    &["--standardize"],
    &["--no-center"],
    &["--no-center", "--standardize"],
    &["--weight", "w"],
    &["--weight", "w", "--standardize"],
    &["--weight", "w", "--no-center"],
];

#[test]
fn all_forms_agree() {
    // Wide, tall and square; a constant column among them.
    for (n, d) in [(14, 40), (60, 9), (12, 12)] {
        let mut x = rows(n, d);
        x.column_mut(3).fill(2.5);
        for vectors in [false, true] {
            let dir = table(&x, vectors);
            for options in if n == d { &OPTIONS[..2] } else { &OPTIONS[..] } {
                let k = if n < d { "9" } else { "6" };
                let primal = fit(&dir, "primal", k, options);
                agree(&fit(&dir, "dual", k, options), &primal);
                agree(&fit(&dir, "randomized", k, options), &primal);
            }
        }
    }
}

#[test]
fn all_components_agree_too() {
    for (n, d) in [(14, 40), (60, 9)] {
        let dir = table(&rows(n, d), n < d);
        let primal = fit(&dir, "primal", "all", &[]);
        let dual = fit(&dir, "dual", "all", &[]);
        assert_eq!(primal.model["rank"].as_u64(), Some((n - 1).min(d) as u64));
        agree(&dual, &primal);
        assert!(dual.model["certificate"]["orthogonality"].as_f64().unwrap() < 1e-13);
    }
}

#[test]
fn all_forms_treat_missing_values_alike() {
    let mut x = rows(30, 45);
    for i in [2, 9, 20] {
        x[[i, (i * 7) % 45]] = f64::NAN;
        x[[i, 44]] = f64::NAN;
    }
    for vectors in [false, true] {
        let dir = table(&x, vectors);
        for nulls in ["drop", "mean"] {
            for options in [OPTIONS[0], OPTIONS[3], OPTIONS[5]] {
                let options: Vec<&str> =
                    options.iter().copied().chain(["--nulls", nulls]).collect();
                let primal = fit(&dir, "primal", "8", &options);
                agree(&fit(&dir, "dual", "8", &options), &primal);
                agree(&fit(&dir, "randomized", "8", &options), &primal);
            }
        }
        for form in ["primal", "dual", "randomized"] {
            let said = dir.fails(1, &["fit", "d", "--form", form, "--exclude", "w", "-o", "m"]);
            assert!(
                said.contains("is null or NaN; choose --nulls drop or --nulls mean"),
                "{form}: {said}"
            );
        }
    }
}

#[test]
fn a_mean_of_1e8_costs_no_form_its_digits() {
    let x = rows(20, 50);
    let far = table(&(&x + 1e8), false);
    let moved = |x: f64| x + 1e8 - 1e8; // what the far table really holds
    let near = table(&x.mapv(moved), false);
    for form in ["primal", "dual", "randomized"] {
        let (a, b) = (fit(&far, form, "5", &[]), fit(&near, form, "5", &[]));
        close(
            &array(&a.model["eigenvalues"]),
            &array(&b.model["eigenvalues"]),
            1e-11,
            array(&b.model["eigenvalues"])[0],
        );
        close(&a.scores, &b.scores, 1e-9, 100.0);
    }
}

#[test]
fn f32_products_are_near_in_every_form() {
    let x = rows(40, 100).mapv(|v| f64::from(v as f32));
    let dir = Workdir::new();
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let values: Float32Array = x.iter().map(|v| Some(*v as f32)).collect();
    let vector: ArrayRef = Arc::new(FixedSizeListArray::new(item, 100, Arc::new(values), None));
    dir.table("d/a.parquet", vec![("v".into(), vector)], 15);
    for form in ["primal", "dual", "randomized"] {
        let run = |precision: &str| {
            let args = [
                "fit",
                "d",
                "--form",
                form,
                "-k",
                "3",
                "--precision",
                precision,
                "--tolerance",
                "1e-5",
                "-o",
                "m",
                "--quiet",
            ];
            dir.ok(&args);
            dir.json(&["inspect", "m"])
        };
        let (exact, mixed) = (run("exact"), run("mixed"));
        let (a, b) = (array(&exact["eigenvalues"]), array(&mixed["eigenvalues"]));
        close(&a, &b, 1e-5, a[0]);
        assert_eq!((&exact["precision"], &mixed["precision"]), (&"exact".into(), &"mixed".into()));
        let error = mixed["certificate"]["mixed_error"]
            .as_f64()
            .unwrap_or_else(|| panic!("{form}: {mixed:#}"));
        assert!(error < 1e-6 && exact["certificate"]["mixed_error"].is_null(), "{form}: {error}");
    }
}

/// The seed's dual equations, written out on a dense matrix.
#[test]
fn the_dual_form_is_the_seeds() {
    let (train, new) = (rows(9, 25), rows(13, 25));
    let dir = table(&train, false);
    let dual = fit(&dir, "dual", "5", &[]);
    let mean: Array1<f64> = train.mean_axis(Axis(0)).unwrap();
    // X̆ is d × n in the seed: rows are its columns.
    let x = (&train - &mean).reversed_axes();
    let (values, vectors) = crate::oracle::eigh(x.t().dot(&x));
    let k = 5;
    let v = Array2::from_shape_fn((9, k), |(i, c)| vectors[[8 - c, i]]);
    let sigma = Array1::from_shape_fn(k, |c| values[8 - c].sqrt());
    let u = x.dot(&v) / &sigma;
    let sign = Array1::from_shape_fn(k, |c| {
        u.column(c).iter().fold(0.0f64, |m, e| if e.abs() > m.abs() { *e } else { m }).signum()
    });
    // Projection of the training data ΣVᵀ.
    close(&dual.scores, &(&v * &sigma * &sign), 1e-9, 100.0);
    // Its reconstruction X̆VVᵀ + μ.
    let back = x.dot(&v).dot(&v.t()).reversed_axes() + &mean;
    dual.rows.iter().zip(back.columns()).for_each(|(a, b)| close(a, b, 1e-9, 100.0));
    // Out of sample: Σ⁻¹VᵀX̆ᵀx̆, and X̆VΣ⁻²VᵀX̆ᵀx̆ + μ.
    dir.matrix("new.parquet", &new, 5);
    dir.ok(&["transform", "m", "new.parquet", "-o", "s.parquet"]);
    let z = dir.numbers("s.parquet", &names("pc", 1, k));
    let t = (&new - &mean).reversed_axes();
    let expected = v.t().dot(&x.t()).dot(&t).reversed_axes() / &sigma * &sign;
    close(&z, &expected, 1e-9, 100.0);
    dir.ok(&["reconstruct", "m", "new.parquet", "-o", "r.parquet"]);
    let scaled = &v / &(&sigma * &sigma);
    let expected = x.dot(&scaled).dot(&v.t()).dot(&x.t()).dot(&t).reversed_axes() + &mean;
    close(&dir.numbers("r.parquet", &names("x", 0, 25)), &expected, 1e-9, 100.0);
}

#[test]
fn every_form_gives_the_same_bytes_for_any_threads_and_memory() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "wide",
        "--rows",
        "300",
        "--columns",
        "1300",
        "--files",
        "3",
        "--row-group",
        "40",
        "-o",
        "wide",
    ]);
    dir.ok(&[
        "generate",
        "embedding",
        "--rows",
        "600",
        "--columns",
        "200",
        "--row-group",
        "90",
        "-o",
        "vectors",
    ]);
    for (data, exclude) in [("wide", "none*"), ("vectors", "id")] {
        let exclude = if data == "wide" { vec![] } else { vec!["--exclude", exclude] };
        for form in ["primal", "dual", "randomized"] {
            let model = |threads: &str, memory: &str| {
                let fixed = [
                    "fit",
                    data,
                    "--form",
                    form,
                    "-k",
                    "4",
                    "-o",
                    "m",
                    "--quiet",
                    "--tolerance",
                    "1e-3",
                ];
                let more = ["--threads", threads, "--memory", memory];
                let args: Vec<&str> = fixed.iter().chain(&more).chain(&exclude).copied().collect();
                dir.ok(&args);
                std::fs::read(dir.path("m")).unwrap()
            };
            let one = model("1", "2GB");
            for (threads, memory) in [("2", "400MB"), ("5", "1GB")] {
                assert!(model(threads, memory) == one, "{data}, {form}, {threads} threads");
            }
        }
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn many_scalar_columns_are_read_in_groups() {
    let dir = Workdir::new();
    let (n, d) = (12, 50_000);
    let cell = |i: usize, j: usize| ((i * 7919 + j * 31) % 1013) as f32 + i as f32;
    let column = |j: usize| -> ArrayRef {
        Arc::new((0..n).map(|i| Some(cell(i, j))).collect::<Float32Array>())
    };
    dir.table("d.parquet", (0..d).map(|j| (format!("g{j}"), column(j))).collect(), 100);
    let plan = dir.json(&["plan", "d.parquet", "--memory", "1GB"]);
    assert_eq!((plan["form"].as_str(), plan["fits"].as_bool()), (Some("dual"), Some(true)));
    dir.ok(&["fit", "d.parquet", "--memory", "1GB", "-k", "3", "-o", "m", "--quiet"]);
    let model = dir.json(&["inspect", "m"]);
    let x = Array2::from_shape_fn((n, d), |(i, j)| f64::from(cell(i, j)));
    let x = &x - &x.mean_axis(Axis(0)).unwrap();
    let (values, _) = crate::oracle::eigh(x.dot(&x.t()));
    let expected: Vec<f64> = values.iter().rev().take(3).copied().collect();
    close(&array(&model["eigenvalues"]), &expected, 1e-12, expected[0]);
}

/// S of rows in memory, and how far a model's components are from being its eigenvectors.
fn true_residual(x: &Array2<f64>, model: &Value) -> f64 {
    let x = x - &x.mean_axis(Axis(0)).unwrap();
    let s = x.t().dot(&x);
    let (values, u) = (array(&model["eigenvalues"]), matrix(&model["components"]));
    let mut residual = u.dot(&s);
    residual
        .rows_mut()
        .into_iter()
        .zip(u.rows())
        .zip(&values)
        .for_each(|((mut r, u), l)| r.scaled_add(-l, &u));
    residual.rows().into_iter().map(|r| r.dot(&r).sqrt() / values[0]).fold(0.0, f64::max)
}

#[test]
fn a_randomized_model_is_as_good_as_it_says() {
    let x = rows(400, 150);
    let dir = Workdir::new();
    dir.matrix("d.parquet", &x, 64);
    let mut passes = Vec::new();
    for tolerance in ["1e-2", "1e-5", "1e-9"] {
        dir.ok(&[
            "fit",
            "d.parquet",
            "--form",
            "randomized",
            "-k",
            "6",
            "--tolerance",
            tolerance,
            "--quiet",
            "-o",
            "m",
        ]);
        let model = dir.json(&["inspect", "m"]);
        let certificate = &model["certificate"];
        let (said, asked) =
            (certificate["max_residual"].as_f64().unwrap(), tolerance.parse::<f64>().unwrap());
        assert!(said <= asked, "{said} against {asked}");
        let truth = true_residual(&x, &model);
        assert!((truth - said).abs() <= 1e-3 * said + 1e-12, "says {said}, is {truth}");
        assert!(array(&certificate["iteration"]["eigenvalue_errors"]).iter().all(|e| *e <= asked));
        assert!(certificate["iteration"]["unconverged"].as_array().unwrap().is_empty());
        assert!(
            certificate["trace_error"].is_null() && model["rank"].is_null(),
            "not all eigenvalues are known"
        );
        passes.push(certificate["iteration"]["passes"].as_u64().unwrap());
    }
    assert!(passes[0] < passes[1] && passes[1] < passes[2], "{passes:?}");
}

#[test]
fn another_seed_gives_the_same_numbers_and_another_model() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(300, 130), 64);
    let fit = |seed: &str| {
        let fixed = [
            "fit",
            "d.parquet",
            "--form",
            "randomized",
            "-k",
            "5",
            "--tolerance",
            "1e-10",
            "--seed",
            seed,
            "-o",
            "m",
        ];
        dir.ok(&fixed);
        let model = dir.json(&["inspect", "m"]);
        assert_eq!(model["seed"].as_u64(), Some(seed.parse().unwrap()));
        (array(&model["eigenvalues"]), std::fs::read(dir.path("m")).unwrap())
    };
    let (a, again, b) = (fit("7"), fit("7"), fit("8"));
    assert!(a == again && a.1 != b.1);
    close(&a.0, &b.0, 1e-10, a.0[0]);
}

#[test]
fn what_does_not_converge_is_refused_named_and_allowed() {
    let dir = Workdir::new();
    // All variances alike: no gap anywhere.
    let x = rows(1600, 1500) / Array1::from_shape_fn(1500, |j| 1.0 + j as f64);
    dir.matrix("d.parquet", &x, 800);
    let memory = ["--memory", "94MB", "--threads", "1"];
    let base =
        ["fit", "d.parquet", "--form", "randomized", "-k", "4", "--max-passes", "2", "-o", "m"];
    let base: Vec<&str> = base.iter().chain(&memory).copied().collect();
    let said = dir.fails(1, &base);
    assert!(
        said.starts_with("fit: after 2 passes components ")
            && said.contains(" miss the tolerance 1e-6 (largest residual"),
        "{said}"
    );
    assert!(said.contains("--max-passes") && said.contains("--allow-unconverged"), "{said}");
    assert_eq!(dir.list(), ["d.parquet"], "no model is written");
    let allowed: Vec<&str> = base.iter().copied().chain(["--allow-unconverged"]).collect();
    let run = dir.ok(&allowed);
    assert!(run.stderr.contains("warning: after 2 passes components "), "{}", run.stderr);
    let model = dir.json(&["inspect", "m"]);
    let missed = model["certificate"]["iteration"]["unconverged"].as_array().unwrap();
    assert!(
        !missed.is_empty() && missed.iter().all(|i| (1..=4).contains(&i.as_u64().unwrap())),
        "{missed:?}"
    );
    assert!(
        dir.ok(&["inspect", "m"]).stdout.contains("miss the tolerance"),
        "a person is told too"
    );
    // Where the exact form fits, it takes over.
    let exact =
        ["fit", "d.parquet", "--form", "randomized", "-k", "4", "--max-passes", "2", "-o", "e"];
    let run = dir.ok(&exact);
    assert!(run.stderr.contains("the primal form fits and takes over"), "{}", run.stderr);
    assert_eq!(dir.json(&["inspect", "e"])["form"], "primal");
}

#[test]
fn rules_work_where_they_can_in_every_form() {
    let x = rows(40, 90);
    let dir = Workdir::new();
    dir.matrix("d.parquet", &x, 64);
    let kept = |form: &str, k: &str| {
        dir.ok(&["fit", "d.parquet", "--form", form, "-k", k, "-o", "m", "--quiet"]);
        dir.json(&["inspect", "m"])["n_components"].as_u64().unwrap()
    };
    for k in ["0.5", "0.9", "elbow", "all"] {
        assert_eq!(kept("primal", k), kept("dual", k), "{k}");
    }
    for k in ["0.3", "0.5", "0.8"] {
        assert_eq!(kept("primal", k), kept("randomized", k), "{k}");
    }
    for form in ["primal", "dual"] {
        let said = dir.fails(2, &["fit", "d.parquet", "--form", form, "-k", "mle", "-o", "m"]);
        assert!(
            said.contains("Minka's rule needs more rows than features (40 rows, 90 features)"),
            "{said}"
        );
    }
    for rule in ["mle", "elbow", "all"] {
        let said =
            dir.fails(2, &["fit", "d.parquet", "--form", "randomized", "-k", rule, "-o", "m"]);
        assert_eq!(
            said,
            format!(
                "fit: --form randomized cannot: -k {rule} needs the whole spectrum, and it finds the leading components only; give a number of components"
            )
        );
    }
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(90, 40), 64);
    let mle = |form: &str| {
        dir.ok(&["fit", "d.parquet", "--form", form, "-k", "mle", "-o", "m", "--quiet"]);
        dir.json(&["inspect", "m"])["n_components"].clone()
    };
    assert_eq!(
        mle("primal"),
        mle("dual"),
        "with more rows than features the dual form has Minka's rule too"
    );
}

#[test]
fn a_rank_below_what_is_asked_is_told_in_every_form() {
    let factors = rows(30, 3);
    let x = factors.dot(&rows(3, 120));
    let dir = Workdir::new();
    dir.matrix("d.parquet", &x, 64);
    for form in ["primal", "dual", "randomized"] {
        let run = dir.ok(&["fit", "d.parquet", "--form", form, "-k", "8", "-o", "m"]);
        assert!(
            run.stderr.contains("note: kept 3 of 8 components: the data has rank 3"),
            "{form}: {}",
            run.stderr
        );
        let model = dir.json(&["inspect", "m"]);
        assert_eq!(
            (model["rank"].as_u64(), model["n_components"].as_u64()),
            (Some(3), Some(3)),
            "{form}"
        );
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn few_of_many_eigenpairs_in_memory_are_those_of_all() {
    use eigenstream::internals::{Accumulate, Scaling, TiledCovariance, solve};
    use eigenstream::{Block, Components};
    let mut sums = TiledCovariance::new(2100, 2);
    sums.update(Block::dense(rows(400, 2100)));
    let sums = sums.finish();
    let scaling = Scaling { center: true, standardize: false };
    let (_, few) = solve(sums.clone(), scaling, Components::Count(12), 2).unwrap();
    let (_, all) = solve(sums, scaling, Components::All, 2).unwrap();
    assert_eq!(
        (few.rank, few.eigenvalues.len()),
        (None, 12),
        "only the leading ones were computed"
    );
    assert_eq!(all.rank, Some(399));
    for i in 0..12 {
        assert!((few.eigenvalues[i] / all.eigenvalues[i] - 1.0).abs() < 1e-12, "eigenvalue {i}");
    }
    assert!(few.certificate.max_residual < 1e-11 && few.certificate.trace_error.is_none());
    let said =
        few.rules.answers(Components::Count(12)).into_iter().find(|a| a.rule == "all").unwrap();
    assert_eq!(said.reason.as_deref(), Some("only the 12 leading eigenvalues were computed"));
}
