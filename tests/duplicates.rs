//! The same content under two names counts twice only where that is asked for.

use crate::workdir::{Workdir, doubles};
use eigenstream::{Dataset, Fit, Hsic, Quiet, Scan};

/// a.parquet, a copy of it, and two empty files.
fn copies() -> Workdir {
    let dir = Workdir::new();
    let wave = |step: f64, n: usize| doubles((0..n).map(|i| (i as f64 * step).sin()).collect());
    let table = |name: &str, n: usize| {
        dir.table(name, vec![("x".into(), wave(0.7, n)), ("y".into(), wave(1.9, n))], 50);
    };
    table("a.parquet", 50);
    table("none.parquet", 0);
    std::fs::copy(dir.path("a.parquet"), dir.path("b.parquet")).unwrap();
    std::fs::copy(dir.path("none.parquet"), dir.path("nothing.parquet")).unwrap();
    dir
}

#[test]
fn a_copy_is_refused_by_every_command_that_counts_rows() {
    let dir = copies();
    let fails = |words: &str| dir.fails(1, &words.split(' ').collect::<Vec<_>>());
    let said = "b.parquet: is the same as a.parquet; its rows would count twice; leave one out, or \
                say --allow-duplicates if they should";
    assert_eq!(fails("fit a.parquet b.parquet -o m"), format!("fit: {said}"));
    assert_eq!(fails("plan a.parquet b.parquet"), format!("plan: {said}"));
    assert_eq!(fails("hsic a.parquet b.parquet --label y"), format!("hsic: {said}"));
    let state = "b.parquet: is the same as a.parquet; a state counts nothing twice, leave one out";
    assert_eq!(fails("scan a.parquet b.parquet -o s"), format!("scan: {state}"));
    let by_state = "fit a.parquet b.parquet --allow-duplicates --state s -o m";
    assert_eq!(fails(by_state), format!("fit: {state}"));
    assert_eq!(dir.list(), ["a.parquet", "b.parquet", "none.parquet", "nothing.parquet"]);
}

#[test]
fn a_copy_counts_twice_where_that_is_allowed() {
    let dir = copies();
    let twice = dir.json(&["fit", "a.parquet", "b.parquet", "--allow-duplicates", "-o", "m"]);
    assert_eq!(twice["n_rows"], 100);
    dir.ok(&["plan", "a.parquet", "b.parquet", "--allow-duplicates"]);
    let hsic = ["hsic", "a.parquet", "b.parquet", "--label", "y", "--allow-duplicates"];
    assert_eq!(dir.json(&hsic)["n_rows"], 100);
    // Scores are of rows, whatever else there is.
    dir.ok(&["transform", "m", "a.parquet", "b.parquet", "-o", "s.parquet"]);
    assert_eq!(dir.read("s.parquet").num_rows(), 100);
}

#[test]
fn empty_files_are_only_themselves() {
    let dir = copies();
    let fit = dir.json(&["fit", "a.parquet", "none.parquet", "nothing.parquet", "-o", "m"]);
    assert_eq!(fit["n_rows"], 50);
}

#[test]
fn the_library_has_the_same_rule() {
    let dir = copies();
    let path = |name: &str| dir.path(name).to_str().unwrap().to_string();
    let table = Dataset::from_paths(&[path("a.parquet"), path("b.parquet")]).unwrap();
    let refused = |e: eigenstream::Error| assert!(e.to_string().contains("is the same as"), "{e}");
    refused(Fit::pca().plan(&table).err().unwrap());
    refused(Hsic::new(["y"]).plan(&table, None).err().unwrap());
    refused(Scan::new().plan(&table).err().unwrap());
    let fit = Fit { allow_duplicates: true, ..Fit::pca() };
    assert_eq!(fit.plan(&table).unwrap().run(&Quiet).unwrap().header.n_rows, 100);
}
