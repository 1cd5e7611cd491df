//! Class numbers that are taken as numbers are told: 2 is not twice as far from 0 as 1 is.

use crate::theory::rows;
use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use std::sync::Arc;

const N: usize = 90;

/// x0 … x3 and labels of several kinds, in two files of several row groups.
fn data() -> Workdir {
    let dir = Workdir::new();
    for (name, range) in [("d/a.parquet", 0..40), ("d/b.parquet", 40..N)] {
        let x = rows(N, 4);
        let class = |i: usize| (i * 7 + i / 5) % 3;
        let part = |f: &dyn Fn(usize) -> f64| doubles(range.clone().map(f).collect());
        let ints = |f: &dyn Fn(usize) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(range.clone().map(f)))
        };
        let text = StringArray::from_iter_values(range.clone().map(|i| format!("c{}", class(i))));
        let mut columns: Vec<(String, ArrayRef)> =
            (0..4).map(|j| (format!("x{j}"), part(&|i| x[[i, j]] + class(i) as f64))).collect();
        columns.push(("class".into(), ints(&|i| class(i) as i64)));
        columns.push(("whole".into(), part(&|i| 10.0 * class(i) as f64 - 10.0)));
        columns.push(("two".into(), ints(&|i| (class(i) % 2) as i64)));
        columns.push(("many".into(), ints(&|i| (i % 21) as i64)));
        columns.push(("rare".into(), ints(&|i| (i % 19) as i64)));
        columns.push(("half".into(), part(&|i| class(i) as f64 / 2.0)));
        columns.push(("id".into(), ints(&|i| i as i64)));
        columns.push(("text".into(), Arc::new(text)));
        dir.table(name, columns, 16);
    }
    dir
}

const SAID: &str = "note: label 'class' has 3 distinct whole numbers (0, 1, 2) and is taken as a \
                    number, so that 0 is farther from 2 than from 1; ";

/// How often that is said, and all that was.
fn told(dir: &Workdir, args: &[&str]) -> (usize, String) {
    let run = dir.ok(args);
    (run.stderr.matches("distinct whole numbers").count(), run.stderr)
}

fn fit<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["fit", "d", "--columns", "x*", "-o", "m"], options].concat()
}

#[test]
fn few_whole_numbers_as_a_number_are_told_with_the_way_out() {
    let dir = data();
    for options in [
        &["--method", "spca", "--label", "class"][..],
        &["--method", "spca", "--label", "class", "--label-kernel", "linear"],
        &["--method", "spca", "--label", "class", "--label-kernel", "rbf"],
        &["--method", "spca", "--label", "text,class", "--label-kernel", "linear"],
        &["--method", "kspca", "--label", "class"],
        &["--method", "kspca", "--label", "class", "--label-kernel", "rbf"],
        &["--score-by", "class", "--keep-features", "3"],
        &["--score-by", "class", "--keep-features", "3", "--method", "spca", "--label", "class"],
        &["--score-by", "class", "--keep-features", "3", "--method", "kpca"],
        &["--method", "spca", "--label", "class", "--threads", "1"],
        &["--method", "spca", "--label", "class", "--nulls", "drop"],
    ] {
        let (times, said) = told(&dir, &fit(options));
        assert_eq!(times, 1, "{options:?}: {said}");
        let whole = format!("{SAID}--classes takes them as classes\n");
        assert!(said.contains(&whole), "{options:?}: {said}");
    }
    let (_, said) = told(&dir, &fit(&["--method", "spca", "--label", "whole"]));
    let whole = "label 'whole' has 3 distinct whole numbers (-10, 0, 10) and is taken as a number, \
                 so that -10 is farther from 10 than from 0; --classes takes";
    assert!(said.contains(whole), "{said}");
    let both = ["--method", "spca", "--label", "class,whole"];
    assert_eq!(told(&dir, &fit(&both)).0, 2);
}

#[test]
fn what_is_no_class_number_or_is_taken_as_one_is_not_told() {
    let dir = data();
    for options in [
        &["--method", "spca", "--label", "class", "--classes"][..],
        &["--method", "spca", "--label", "class", "--label-kernel", "delta"],
        &["--method", "spca", "--label", "class", "--label-kernel", "identity"],
        &["--method", "kspca", "--label", "class", "--classes"],
        &["--method", "spca", "--label", "text"],
        &["--method", "spca", "--label", "half"],
        &["--method", "spca", "--label", "many"],
        &["--method", "spca", "--label", "rare"],
        &["--method", "spca", "--label", "id"],
        // Two numbers are as two classes.
        &["--method", "spca", "--label", "two"],
        &["--score-by", "class", "--classes", "--keep-features", "3"],
        &[],
    ] {
        let (times, said) = told(&dir, &fit(options));
        assert_eq!(times, 0, "{options:?}: {said}");
    }
}

#[test]
fn hsic_tells_class_numbers() {
    let dir = data();
    let hsic = ["hsic", "d", "--columns", "x*", "--label", "class"];
    for options in
        [&[][..], &["--permutations", "5"], &["--kernel", "rbf"], &["--label-kernel", "rbf"]]
    {
        let (times, said) = told(&dir, &[&hsic, options].concat());
        assert_eq!(times, 1, "{options:?}: {said}");
    }
    dir.ok(&fit(&[]));
    assert_eq!(told(&dir, &["hsic", "d", "--model", "m", "--label", "class"]).0, 1);
    assert_eq!(told(&dir, &[&hsic[..], &["--classes"]].concat()).0, 0);
}

#[test]
fn states_remember_class_numbers() {
    let dir = data();
    let scan = |data: &str, state: &str| {
        told(&dir, &["scan", data, "--columns", "x*", "--label", "class", "-o", state])
    };
    let remedy = format!("{SAID}a scan with --classes takes them as classes\n");
    for (file, state) in [("d/a.parquet", "a"), ("d/b.parquet", "b"), ("d", "all")] {
        let (times, said) = scan(file, state);
        assert_eq!(times, 1, "{said}");
        assert!(said.contains(&remedy), "{said}");
    }
    dir.ok(&["merge", "a", "b", "-o", "merged"]);
    let solve = |state: &str, options: &[&str]| {
        let fixed = ["solve", state, "-o", "m"];
        told(&dir, &fixed.iter().chain(options).copied().collect::<Vec<_>>())
    };
    for state in ["all", "merged"] {
        for options in [
            &["--method", "spca"][..],
            &["--score-by", "class", "--keep-features", "2"],
            &["--method", "spca", "--score-by", "class", "--keep-features", "2"],
        ] {
            let (times, said) = solve(state, options);
            assert_eq!(times, 1, "{state} {options:?}: {said}");
            assert!(said.contains(&remedy), "{said}");
        }
        assert_eq!(solve(state, &[]).0, 0, "pca looks at no label");
    }
    // Which of them are left is not known.
    dir.ok(&["subtract", "merged", "b", "-o", "less"]);
    assert_eq!(solve("less", &["--method", "spca"]).0, 0);
    let by_state = ["--method", "spca", "--label", "class", "--state", "kept"];
    assert_eq!(told(&dir, &fit(&by_state)).0, 1);
    let classes = ["scan", "d", "--columns", "x*", "--label", "class", "--classes", "-o", "c"];
    assert_eq!(told(&dir, &classes).0, 0);
    assert_eq!(solve("c", &["--method", "spca"]).0, 0);
}
