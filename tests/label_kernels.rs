//! Kernels over labels beside delta, linear and rbf of numbers: poly, cosine, any of them over
//! classes, and random features that were asked for; against the dense n × n formulas.

use crate::kernel::{generalised, gram, rbf, scores};
use crate::supervised::{agrees, dense, fit, indicator, kernel};
use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles, matrix};
use arrow_array::{ArrayRef, BooleanArray, StringArray};
use ndarray::{Array2, s};
use std::sync::Arc;

const N: usize = 60;
const D: usize = 7;

/// Rows that move with a class and with two numbers, neither of them 0.
struct Labelled {
    x: Array2<f64>,
    class: Vec<usize>,
    y: [Vec<f64>; 2],
}

fn labelled() -> Labelled {
    let mut x = rows(N, D);
    let class: Vec<usize> = (0..N).map(|i| (i * 3 + i / 7) % 4).collect();
    let y: [Vec<f64>; 2] = [
        (0..N).map(|i| ((i * 13) % 5) as f64 - 1.7).collect(),
        (0..N).map(|i| ((i * 7 + i / 6) % 4) as f64 / 2.0 - 0.6).collect(),
    ];
    for i in 0..N {
        x[[i, class[i]]] += 3.0;
        x[[i, 5]] += 0.7 * y[0][i];
        x[[i, 4]] += y[0][i] * y[1][i];
        x[[i, 6]] += y[0][i].powi(2);
    }
    Labelled { x, class, y }
}

/// Options, K_y, and the directions that it can tell.
type Case<'a> = (&'a [&'a str], Array2<f64>, usize);

impl Labelled {
    fn dir(&self) -> Workdir {
        let text: Vec<String> = self.class.iter().map(|c| format!("class {c}")).collect();
        let mut columns: Vec<(String, ArrayRef)> =
            (0..D).map(|j| (format!("x{j}"), doubles(self.x.column(j).to_vec()))).collect();
        columns.push(("text".into(), Arc::new(StringArray::from(text))));
        columns.push(("int".into(), doubles(self.class.iter().map(|c| *c as f64 + 3.0).collect())));
        let flag = BooleanArray::from_iter(self.class.iter().map(|c| Some(c % 2 == 0)));
        columns.push(("flag".into(), Arc::new(flag)));
        columns.push(("a".into(), doubles(self.y[0].clone())));
        columns.push(("b".into(), doubles(self.y[1].clone())));
        let dir = Workdir::new();
        dir.table("d.parquet", columns, 11);
        dir
    }

    /// aᵀa' + bᵀb', of so many of them.
    fn dot(&self, columns: usize, i: usize, j: usize) -> f64 {
        self.y[..columns].iter().map(|y| y[i] * y[j]).sum()
    }

    fn equal(&self, i: usize, j: usize) -> f64 {
        indicator(self.class[i] == self.class[j])
    }

    /// Every kernel against its formula over rows of numbers, classes one-hot.
    fn cases(&self) -> Vec<Case<'static>> {
        let poly = |columns, gamma: f64, c: f64, p| {
            kernel(N, |i, j| (gamma * self.dot(columns, i, j) + c).powi(p))
        };
        let cosine = |columns| {
            let length = |i| f64::sqrt(self.dot(columns, i, i));
            kernel(N, |i, j| self.dot(columns, i, j) / length(i) / length(j))
        };
        let far = |i: usize, j: usize| 2.0 * (1.0 - self.equal(i, j));
        let flags = |i: usize, j: usize| 2.0 * indicator(self.class[i] % 2 != self.class[j] % 2);
        let apart = |i: usize, j: usize| (self.y[0][i] - self.y[0][j]).powi(2);
        // γ yᵀy' over one-hot classes and a number.
        let mixed = |i: usize, j: usize| self.equal(i, j) + self.dot(1, i, j);
        vec![
            (&["--label", "a", "--label-kernel", "poly"], poly(1, 1.0, 0.0, 3), 1),
            (
                &["--label", "a", "--label-kernel", "poly", "--label-coef0", "1.5"],
                poly(1, 1.0, 1.5, 3),
                3,
            ),
            (
                &["--label", "a,b", "--label-kernel", "poly", "--label-degree", "2"],
                poly(2, 0.5, 0.0, 2),
                3,
            ),
            (
                &[
                    "--label",
                    "a,b",
                    "--label-kernel",
                    "poly",
                    "--label-degree",
                    "2",
                    "--label-coef0",
                    "0.8",
                    "--label-gamma",
                    "0.3",
                ],
                poly(2, 0.3, 0.8, 2),
                5,
            ),
            (&["--label", "a", "--label-kernel", "cosine"], cosine(1), 1),
            (&["--label", "a,b", "--label-kernel", "cosine"], cosine(2), 2),
            (
                &["--label", "text", "--label-kernel", "rbf", "--label-gamma", "0.3"],
                kernel(N, |i, j| (-0.3 * far(i, j)).exp()),
                3,
            ),
            (
                &["--label", "int", "--classes", "--label-kernel", "rbf"],
                kernel(N, |i, j| (-far(i, j)).exp()),
                3,
            ),
            (
                &["--label", "flag", "--label-kernel", "rbf"],
                kernel(N, |i, j| (-flags(i, j)).exp()),
                1,
            ),
            (
                &["--label", "text", "--label-kernel", "poly", "--label-coef0", "2"],
                kernel(N, |i, j| (self.equal(i, j) + 2.0).powi(3)),
                3,
            ),
            (
                &["--label", "text", "--label-kernel", "cosine"],
                kernel(N, |i, j| self.equal(i, j)),
                3,
            ),
            (
                &["--label", "text,a", "--label-kernel", "rbf", "--label-gamma", "0.3"],
                kernel(N, |i, j| (-0.3 * (far(i, j) + apart(i, j))).exp()),
                D,
            ),
            (
                &["--label", "text,flag", "--label-kernel", "rbf"],
                kernel(N, |i, j| (-0.5 * (far(i, j) + flags(i, j))).exp()),
                3,
            ),
            (
                &["--label", "text,a", "--label-kernel", "poly", "--label-degree", "2"],
                kernel(N, |i, j| (0.5 * mixed(i, j)).powi(2)),
                D,
            ),
            (
                &["--label", "text,a", "--label-kernel", "cosine"],
                kernel(N, |i, j| mixed(i, j) / (mixed(i, i) * mixed(j, j)).sqrt()),
                5,
            ),
        ]
    }
}

#[test]
fn spca_is_the_dense_formula_in_both_forms() {
    let data = labelled();
    let dir = data.dir();
    for (options, k, rank) in data.cases() {
        for form in ["primal", "dual"] {
            println!("{options:?} {form}");
            let more = ["--form", form, "-k", "all", "--with-variance"];
            let model = fit(&dir, &options.iter().copied().chain(more).collect::<Vec<_>>());
            agrees(&model, &data.x, &k);
            assert_eq!(model["rank"].as_u64(), Some(rank as u64));
            let name = options.iter().position(|o| *o == "--label-kernel").unwrap() + 1;
            assert_eq!(model["label"]["kernel"], options[name]);
        }
    }
}

#[test]
fn kspca_is_the_generalised_problem_in_both_forms() {
    let data = labelled();
    let dir = data.dir();
    let k = gram(&data.x, &data.x, &*rbf(0.05));
    for (options, ky, rank) in data.cases() {
        let rank = rank.min(3);
        let (lambda, expected) = generalised(&k, &ky, rank);
        for form in ["dual", "direct"] {
            println!("{options:?} {form}");
            let components = rank.to_string();
            let fixed = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--quiet"];
            let kspca = ["--method", "kspca", "--gamma", "0.05", "--form", form, "-k", &components];
            dir.ok(&fixed.iter().chain(&kspca).chain(options).copied().collect::<Vec<_>>());
            let model = dir.json(&["inspect", "m"]);
            close(&array(&model["eigenvalues"])[..rank], &lambda[..rank], 1e-9, lambda[0]);
            let found = scores(&dir, "d.parquet", rank);
            for (a, b) in found.columns().into_iter().zip(expected.rows()) {
                close(&(&a * a.dot(&b).signum()), b, 1e-7, 1.0);
            }
            let hsic = lambda[..rank].iter().sum::<f64>() / ((N - 1) * (N - 1)) as f64;
            assert!((model["hsic"].as_f64().unwrap() / hsic - 1.0).abs() < 1e-9);
        }
    }
}

/// Streamed, shuffled, and pair by pair.
#[test]
fn hsic_is_the_trace_formula() {
    let data = labelled();
    let dir = data.dir();
    let h = Array2::eye(N) - 1.0 / N as f64;
    let trace = |k: &Array2<f64>, l: &Array2<f64>| {
        k.dot(&h).dot(l).dot(&h).diag().sum() / ((N - 1) * (N - 1)) as f64
    };
    let near = gram(&data.x, &data.x, &*rbf(0.02));
    let linear = data.x.dot(&data.x.t());
    for (options, l, _) in data.cases() {
        let hsic = |more: &[&str]| {
            let fixed = ["hsic", "d.parquet", "--columns", "x*"];
            dir.json(&fixed.iter().chain(options).chain(more).copied().collect::<Vec<_>>())
        };
        let close = |found: f64, expected: f64| {
            let error = (found / expected - 1.0).abs();
            assert!(error < 1e-11, "{options:?}: {found} against {expected}");
        };
        let kernel = ["--kernel", "rbf", "--gamma", "0.02"];
        close(hsic(&[])["hsic"].as_f64().unwrap(), trace(&linear, &l));
        close(hsic(&kernel)["hsic"].as_f64().unwrap(), trace(&near, &l));
        let shuffled = hsic(&["--permutations", "9"]);
        close(shuffled["hsic"].as_f64().unwrap(), trace(&linear, &l));
        assert_eq!(array(&shuffled["shuffled"]).len(), 9);
        // The same shuffles by the kernel matrix: a linear kernel is one of degree 1.
        let one = ["--kernel", "poly", "--gamma", "1", "--degree", "1", "--permutations", "9"];
        let pairs = hsic(&one);
        crate::workdir::close(
            &array(&pairs["shuffled"]),
            &array(&shuffled["shuffled"]),
            1e-9,
            shuffled["hsic"].as_f64().unwrap(),
        );
    }
    let of = ["hsic", "d.parquet", "--columns", "x*", "--label", "a", "--label-kernel", "poly"];
    let said = &dir.json(&of)["label"];
    assert_eq!((said["gamma"].as_f64(), said["coef0"].as_f64()), (Some(1.0), Some(0.0)));
    assert_eq!(said["degree"].as_u64(), Some(3));
}

#[test]
fn weights_count_rows_as_often_as_they_say() {
    let data = labelled();
    let weight: Vec<usize> = (0..N).map(|i| (i * 5) % 4).collect();
    let repeated: Vec<usize> = (0..N).flat_map(|i| std::iter::repeat_n(i, weight[i])).collect();
    let n = repeated.len();
    let x = data.x.select(ndarray::Axis(0), &repeated);
    let dir = data.dir();
    let mut columns: Vec<(String, ArrayRef)> =
        (0..D).map(|j| (format!("x{j}"), doubles(data.x.column(j).to_vec()))).collect();
    columns.push(("a".into(), doubles(data.y[0].clone())));
    columns.push(("b".into(), doubles(data.y[1].clone())));
    columns.push(("w".into(), doubles(weight.iter().map(|w| *w as f64).collect())));
    dir.table("d.parquet", columns, 13);
    for (options, k, _) in data.cases().into_iter().filter(|c| c.0[1] == "a,b") {
        let k = kernel(n, |i, j| k[[repeated[i], repeated[j]]]);
        let options: Vec<&str> = options.iter().copied().chain(["--weight", "w"]).collect();
        agrees(&fit(&dir, &options), &x, &k);
    }
}

#[test]
fn random_features_that_are_asked_for_stand_for_few_labels() {
    let data = labelled();
    let dir = data.dir();
    let near = kernel(N, |i, j| (-0.3 * (data.y[0][i] - data.y[0][j]).powi(2)).exp());
    let (values, vectors) = dense(&data.x, &near);
    let options = ["--label", "a", "--label-kernel", "rbf", "--label-gamma", "0.3", "-k", "2"];
    let asked = |n: &str| {
        let more = ["--label-features", n];
        fit(&dir, &options.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let model = asked("20000");
    assert_eq!(model["label"]["features"].as_u64(), Some(20_000));
    assert!(model["label"]["approximation"].as_f64().unwrap() < 0.01);
    assert_eq!(model["seed"].as_u64(), Some(0));
    let found = array(&model["eigenvalues"]);
    assert!((found[0] / values[0] - 1.0).abs() < 0.05, "{} against {}", found[0], values[0]);
    assert!((found[0] / values[0] - 1.0).abs() > 1e-9, "features, not the kernel");
    assert!(matrix(&model["components"]).row(0).dot(&vectors.row(0)).abs() > 0.99);
    // K_y of r features has rank r.
    assert_eq!(asked("1")["n_components"].as_u64(), Some(1));
    let exact = fit(&dir, &options);
    assert_eq!(exact["label"]["features"], serde_json::Value::Null);
    assert!((array(&exact["eigenvalues"])[0] / values[0] - 1.0).abs() < 1e-12);
    let fixed = ["fit", "d.parquet", "--columns", "x*", "-o", "m"];
    let run = |more: &[&str]| dir.ok(&fixed.iter().chain(more).copied().collect::<Vec<_>>());
    let spca = ["--method", "spca", "--label", "a", "--label-kernel", "rbf"];
    let said = run(&[&spca[..], &["--label-features", "400"]].concat()).stderr;
    assert!(
        said.contains(
            "note: as --label-features asks, the rbf kernel over labels is approximated by 400 \
             random features (an entry is off by about 5.0e-2)\n"
        ),
        "{said}"
    );
    // The kernel method too.
    let kspca = ["--method", "kspca", "--gamma", "0.05", "-k", "2", "--label", "a"];
    let near_labels = ["--label-kernel", "rbf", "--label-gamma", "0.3"];
    run(&[&kspca[..], &near_labels, &["--label-features", "8000"]].concat());
    let model = dir.json(&["inspect", "m"]);
    assert_eq!(model["label"]["features"].as_u64(), Some(8000));
    let (lambda, _) = generalised(&gram(&data.x, &data.x, &*rbf(0.05)), &near, 2);
    assert!((array(&model["eigenvalues"])[0] / lambda[0] - 1.0).abs() < 0.05);
}

#[test]
fn what_labels_and_their_kernel_come_to_is_told() {
    let data = labelled();
    let dir = data.dir();
    let with = |more: &[&str]| {
        let fixed = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--method", "spca"];
        let args: Vec<&str> = fixed.iter().chain(more).copied().collect();
        dir.ok(&args).stderr
    };
    let text = ["--label", "text", "--label-kernel", "rbf"];
    let delta = "note: labels are classes, over which the rbf kernel is the delta kernel times \
                 0.86466: the directions are the same\n";
    let said = with(&text);
    assert!(said.contains(delta), "{said}");
    let page = dir.ok(&["inspect", "m"]).stdout;
    assert!(page.contains("label text: rbf kernel, gamma 1, 4 classes\n"), "{page}");
    let hsic = dir.ok(&[&["hsic", "d.parquet", "--columns", "x*"], &text[..]].concat()).stderr;
    assert!(hsic.contains(delta), "{hsic}");
    let said = with(&[&text[..], &["--label-features", "9"]].concat());
    assert!(
        said.contains("note: --label-features has no effect on labels that are classes"),
        "{said}"
    );
    let idle = ["--label-features 9", "--label-coef0 1", "--label-degree 2", "--label-gamma 2"];
    for option in idle {
        let given: Vec<&str> = option.split(' ').collect();
        let said = with(&[&["--label", "a", "--label-kernel", "cosine"], &given[..]].concat());
        assert!(said.contains(&format!("note: {} has no effect without", given[0])), "{said}");
    }
    // Directions along the axes are whole numbers that no label has.
    let mut axes = labelled();
    for i in 0..N {
        (axes.y[0][i], axes.y[1][i]) = [(2.5, 0.0), (0.0, 1.5), (-0.5, 0.0)][i % 3];
    }
    let cosine = ["--columns", "x*", "--label", "a,b", "--label-kernel", "cosine"];
    let told = axes.dir().ok(&[&["hsic", "d.parquet"], &cosine[..]].concat()).stderr;
    assert!(!told.contains("whole numbers"), "{told}");
    let args = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--label-features", "9"];
    assert!(dir.ok(&args).stderr.contains("--label-features has no effect without --label-kernel"));
    let poly = ["--label", "a", "--label-kernel", "poly", "--label-coef0", "1", "-k", "5"];
    let said = with(&poly);
    assert!(
        said.contains("kept 3 of 5 components: 3 label features can be told by at most 3 direc"),
        "{said}"
    );
    let page = dir.ok(&["inspect", "m"]).stdout;
    assert!(page.contains("label a: poly kernel, gamma 1, coef0 1, degree 3\n"), "{page}");
    let plan = ["plan", "d.parquet", "--columns", "x*", "--method", "spca"];
    let page = dir.ok(&[&plan[..], &poly].concat()).stdout;
    assert!(page.contains("a, poly kernel, gamma 1, coef0 1, degree 3\n"), "{page}");
    assert!(page.contains("sums of 3 label features × 7 features"), "{page}");
}

#[test]
fn what_no_kernel_can_do_gets_a_sentence() {
    let data = labelled();
    let dir = data.dir();
    let fails = |code, more: &str| {
        let fixed = ["fit", "d.parquet", "--columns", "x*", "-o", "m", "--method", "spca"];
        dir.fails(code, &fixed.into_iter().chain(more.split(' ')).collect::<Vec<_>>())
    };
    let said = fails(2, "--label a --label-kernel poly --label-coef0 -1");
    assert!(said.contains("--label-coef0 must be 0 or more"), "{said}");
    let said = fails(2, "--label a,b,int --label-kernel poly --label-degree 40 --label-coef0 1");
    assert!(
        said.contains("of degree 40 over 3 labels has more than 10,000 monomials; choose"),
        "{said}"
    );
    let said = fails(1, "--label int --label-kernel poly --label-degree 100 --label-gamma 1e9");
    assert!(said.contains("the poly kernel over it is beyond doubles; scale it down"), "{said}");
    let said = fails(1, "--label int --label-kernel cosine");
    assert!(said.contains("label 'int' is the same everywhere to the cosine kernel"), "{said}");
    let mut zero = labelled();
    (zero.y[0][17], zero.y[1][17]) = (0.0, 0.0);
    zero.y[0][3] = 0.0;
    let dir = zero.dir();
    let args = ["--columns", "x*", "--label", "a,b", "--label-kernel", "cosine"];
    for (command, more) in [
        ("fit", &["-o", "m", "--method", "spca"][..]),
        ("fit", &["-o", "m", "--method", "kspca", "--gamma", "0.1"]),
        ("hsic", &[]),
        ("hsic", &["--kernel", "rbf", "--gamma", "0.1"]),
    ] {
        let all = [&[command, "d.parquet"], &args[..], more].concat();
        let said = dir.fails(1, &all);
        let place = format!("{command}: d.parquet: column 'a, b', row 17 (counted from 0): is 0");
        assert!(said.starts_with(&place), "{said}");
    }
    dir.ok(&["scan", "d.parquet", "--columns", "x*", "--label", "a", "-o", "s"]);
    for kernel in ["rbf", "poly", "cosine"] {
        let said =
            dir.fails(2, &["solve", "s", "--method", "spca", "--label-kernel", kernel, "-o", "m"]);
        assert!(
            said.contains(&format!("the {kernel} kernel over labels needs the rows")),
            "{said}"
        );
    }
}

/// Classes beside numbers: up to 1,000 of them are factored; HSIC compares any number by pairs.
#[test]
fn many_distinct_labels_of_classes_and_numbers_are_refused() {
    let n = 1_200;
    let x = rows(n, 3);
    let y: Vec<f64> = (0..n).map(|i| x[[i, 1]] + 0.001 * i as f64).collect();
    let text = |i: usize| ["p", "q"][(i / 3) % 2];
    let mut columns: Vec<(String, ArrayRef)> =
        (0..3).map(|j| (format!("x{j}"), doubles(x.column(j).to_vec()))).collect();
    columns.push(("y".into(), doubles(y.clone())));
    columns.push(("c".into(), Arc::new(StringArray::from_iter_values((0..n).map(text)))));
    let dir = Workdir::new();
    dir.table("d.parquet", columns, 400);
    let labels = ["--columns", "x*", "--label", "c,y", "--label-kernel", "rbf"];
    for more in [&["--method", "spca"][..], &["--method", "kspca", "--gamma", "0.1"]] {
        let said = dir.fails(1, &[&["fit", "d.parquet", "-o", "m"], &labels[..], more].concat());
        assert!(
            said.contains("labels 'c, y' have more than 1,000 distinct values, as many as the rbf"),
            "{said}"
        );
    }
    let found = dir.json(&[&["hsic", "d.parquet"], &labels[..]].concat());
    let l = kernel(n, |i, j| {
        (-0.5 * (2.0 * indicator(text(i) != text(j)) + (y[i] - y[j]).powi(2))).exp()
    });
    let (values, _) = dense(&x, &l);
    let expected = values.iter().sum::<f64>() / ((n - 1) * (n - 1)) as f64;
    assert!((found["hsic"].as_f64().unwrap() / expected - 1.0).abs() < 1e-10);
    // Any number of classes in one column is delta, as many as there is room for.
    let one = ["fit", "d.parquet", "-o", "m", "--method", "spca", "--columns", "x*", "--quiet"];
    let rbf = ["--label", "y", "--classes", "--label-kernel", "rbf", "-k", "2"];
    dir.ok(&[&one[..], &rbf].concat());
    let (scaled, delta) = (dir.json(&["inspect", "m"]), {
        dir.ok(&[&one[..], &["--label", "y", "--classes", "-k", "2"]].concat());
        dir.json(&["inspect", "m"])
    });
    let scale = 1.0 - f64::exp(-2.0);
    for (a, b) in array(&scaled["eigenvalues"]).iter().zip(array(&delta["eigenvalues"])) {
        assert!((a / b / scale - 1.0).abs() < 1e-12);
    }
    let u = |model| matrix(&model).slice(s![..2, ..]).to_owned();
    close(&u(scaled["components"].clone()), &u(delta["components"].clone()), 1e-9, 1.0);
}
