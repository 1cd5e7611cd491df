//! States that live for months: columns move, widen and are added, and a state goes on.

use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, StringArray};
use std::sync::Arc;

const ROWS: usize = 40;

fn wave(step: f64) -> Vec<f64> {
    (0..ROWS).map(|i| (i as f64 * step).sin() * 4.0).collect()
}

fn kind(day: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| format!("k{}", (i + day) % 3))))
}

fn count(day: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| ((i * 3 + day) % 4) as i64)))
}

/// A day as the first one was.
fn day(dir: &Workdir, name: &str, n: usize) {
    let step = 0.3 + 0.17 * n as f64;
    let columns = vec![
        ("x", doubles(wave(step))),
        ("y", doubles(wave(2.1 * step))),
        ("z", doubles(wave(3.7 * step))),
        ("kind", kind(n)),
        ("count", count(n)),
    ];
    dir.table(name, columns.into_iter().map(|(n, a)| (n.to_string(), a)).collect(), 16);
}

/// The same day with columns in another order, of other widths, and one more.
fn moved_day(dir: &Workdir, name: &str, n: usize) {
    let step = 0.3 + 0.17 * n as f64;
    let wide: Vec<f32> = wave(3.7 * step).iter().map(|v| *v as f32).collect();
    let narrow = (0..ROWS).map(|i| ((i * 3 + n) % 4) as i32);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("new", doubles(wave(0.9))),
        ("z", Arc::new(Float32Array::from(wide))),
        ("count", Arc::new(Int32Array::from_iter_values(narrow))),
        ("x", doubles(wave(step))),
        ("kind", kind(n)),
        ("y", doubles(wave(2.1 * step))),
    ];
    dir.table(name, columns.into_iter().map(|(n, a)| (n.to_string(), a)).collect(), 16);
}

fn numbers(dir: &Workdir, model: &str) -> Vec<f64> {
    let page = dir.json(&["inspect", model]);
    let mut all = crate::workdir::array(&page["eigenvalues"]);
    all.extend(crate::workdir::array(&page["mean"]));
    all.extend(crate::workdir::matrix(&page["components"]));
    all
}

fn near(a: &[f64], b: &[f64]) {
    let largest = b.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    crate::workdir::close(a, b, 1e-12, largest);
}

#[test]
fn states_match_columns_by_name() {
    let dir = Workdir::new();
    day(&dir, "a.parquet", 0);
    day(&dir, "b.parquet", 1);
    // The same rows as b, their columns in another order.
    let step = 0.3 + 0.17;
    let columns = vec![
        ("count", count(1)),
        ("z", doubles(wave(3.7 * step))),
        ("kind", kind(1)),
        ("x", doubles(wave(step))),
        ("y", doubles(wave(2.1 * step))),
    ];
    dir.table("turned.parquet", columns.into_iter().map(|(n, a)| (n.into(), a)).collect(), 16);
    for options in [
        &["--columns", "x,y,z"][..],
        &["--columns", "x,y,z", "--label", "kind"],
        &["--columns", "x,y,z", "--label", "count"],
        &["--columns", "x,y,z", "--nulls", "mean", "--weight", "count"],
        &["--columns", "x,y,z", "--folds", "3"],
    ] {
        for name in ["a", "b", "turned"] {
            let (data, state) = (format!("{name}.parquet"), format!("{name}.state"));
            dir.ok(&[&["scan", &data, "-o", &state, "--quiet"][..], options].concat());
        }
        dir.ok(&["merge", "a.state", "b.state", "-o", "plain.state", "--quiet"]);
        dir.ok(&["merge", "a.state", "turned.state", "-o", "by_name.state", "--quiet"]);
        let method = if options.contains(&"--label") { "spca" } else { "pca" };
        for state in ["plain", "by_name"] {
            let (from, to) = (format!("{state}.state"), format!("{state}.st"));
            dir.ok(&["solve", &from, "--method", method, "-k", "2", "-o", &to, "--quiet"]);
        }
        near(&numbers(&dir, "by_name.st"), &numbers(&dir, "plain.st"));
        // What was added under another order is taken out again.
        dir.ok(&["subtract", "by_name.state", "turned.state", "-o", "left.state", "--quiet"]);
        dir.ok(&["solve", "left.state", "-k", "2", "-o", "left.st", "--quiet"]);
        dir.ok(&["solve", "a.state", "-k", "2", "-o", "a.st", "--quiet"]);
        let (left, first) = (numbers(&dir, "left.st"), numbers(&dir, "a.st"));
        crate::workdir::close(&left, &first, 1e-10, first[0]);
    }
}

#[test]
fn a_refusal_names_the_column_and_both_types() {
    let dir = Workdir::new();
    day(&dir, "a.parquet", 0);
    let flags = arrow_array::BooleanArray::from_iter((0..ROWS).map(|i| Some(i % 2 == 0)));
    let columns: Vec<(&str, ArrayRef)> =
        vec![("x", Arc::new(flags)), ("y", doubles(wave(0.2))), ("z", doubles(wave(0.4)))];
    dir.table("b.parquet", columns.into_iter().map(|(n, a)| (n.into(), a)).collect(), 16);
    for name in ["a", "b"] {
        let (data, state) = (format!("{name}.parquet"), format!("{name}.state"));
        dir.ok(&["scan", &data, "--columns", "x,y,z", "-o", &state, "--quiet"]);
    }
    let said = dir.fails(2, &["merge", "a.state", "b.state", "-o", "c.state"]);
    assert!(said.contains("a column 'x' each, but of Float64 and Boolean"), "{said}");
    let said = dir.fails(1, &["fit", "b.parquet", "--state", "a.state", "-o", "m"]);
    assert!(said.contains("column 'x': is Boolean here but was Float64"), "{said}");
}

#[test]
fn a_fit_that_adds_to_a_state_takes_its_options_from_it() {
    let dir = Workdir::new();
    day(&dir, "a.parquet", 0);
    day(&dir, "b.parquet", 1);
    moved_day(&dir, "moved.parquet", 1);
    let first = ["fit", "a.parquet", "--columns", "x,y,z", "--label", "kind", "--weight", "count"];
    let rest = ["--nulls", "drop", "--method", "spca", "--state", "s", "-o", "m", "--quiet"];
    dir.ok(&[&first[..], &rest[..]].concat());
    std::fs::copy(dir.path("s"), dir.path("t")).unwrap();

    // Nothing is said of columns, labels, weights and nulls: the state knows.
    let run = dir.ok(&["fit", "moved.parquet", "--method", "spca", "--state", "s", "-o", "m1"]);
    assert!(run.stderr.contains("not in the state, and passed over: new"), "{}", run.stderr);
    assert!(run.stderr.contains("z (was Float64, is Float32)"), "{}", run.stderr);
    // The same day as it should have been; the same command as on the first day is fine.
    let again = ["fit", "b.parquet", "--columns", "x,y,z", "--label", "kind", "--weight", "count"];
    let rest = ["--nulls", "drop", "--method", "spca", "--state", "t", "-o", "m2", "--quiet"];
    dir.ok(&[&again[..], &rest[..]].concat());
    let (moved, plain) = (numbers(&dir, "m1"), numbers(&dir, "m2"));
    crate::workdir::close(&moved, &plain, 1e-6, plain[0]);
    let page = dir.json(&["inspect", "m1"]);
    assert_eq!(
        (&page["nulls"]["policy"], &page["weight"]["column"]),
        (&"drop".into(), &"count".into())
    );
    assert_eq!(page["n_rows"], 2 * ROWS as u64);
}

#[test]
fn options_that_are_not_the_states_are_refused_with_what_it_has() {
    let dir = Workdir::new();
    day(&dir, "a.parquet", 0);
    day(&dir, "b.parquet", 1);
    let first = ["fit", "a.parquet", "--columns", "x,y,z", "--label", "kind", "--method", "spca"];
    dir.ok(&[&first[..], &["--state", "s", "-o", "m", "--quiet"]].concat());
    let before = std::fs::read(dir.path("s")).unwrap();
    let refused = |options: &[&str], expected: &str| {
        let args = ["fit", "b.parquet", "--method", "spca", "--state", "s", "-o", "m"];
        let said = dir.fails(2, &[&args[..], options].concat());
        assert!(said.contains(expected), "{options:?}: {said}");
    };
    refused(&["--weight", "count"], "--weight count: the state has no weights");
    refused(&["--label", "count"], "--label count: the state has label kind");
    refused(&["--nulls", "mean"], "--nulls mean: the state has --nulls error");
    refused(&["--columns", "x,y"], "leave 'z' out, but the state is of x, y, z");
    refused(&["--exclude", "z"], "leave 'z' out, but the state is of x, y, z");
    refused(&["--columns", "x,y,z,count"], "names 'count', but the state is of x, y, z");
    assert_eq!(std::fs::read(dir.path("s")).unwrap(), before, "nothing was added");

    // Numbers as classes, or not.
    let numbers =
        ["fit", "a.parquet", "--columns", "x,y,z", "--label", "count", "--method", "spca"];
    dir.ok(&[&numbers[..], &["--state", "n", "-o", "m", "--quiet"]].concat());
    let said = dir.fails(
        2,
        &["fit", "b.parquet", "--method", "spca", "--classes", "--state", "n", "-o", "m"],
    );
    assert!(said.contains("the state has label count as numbers"), "{said}");
    dir.ok(&[&numbers[..], &["--classes", "--state", "c", "-o", "m", "--quiet"]].concat());
    dir.ok(&["fit", "b.parquet", "--method", "spca", "--state", "c", "-o", "m", "--quiet"]);
    assert_eq!(dir.json(&["inspect", "m"])["label"]["classes"].as_array().unwrap().len(), 4);
}

#[test]
fn a_state_of_folds_goes_on() {
    let dir = Workdir::new();
    day(&dir, "a.parquet", 0);
    day(&dir, "b.parquet", 1);
    let scan = |data: &[&str], out: &str| {
        let options = ["--columns", "x,y,z", "--folds", "3", "--seed", "5", "-o", out, "--quiet"];
        dir.ok(&[&["scan"], data, &options[..]].concat());
    };
    scan(&["a.parquet"], "s");
    scan(&["a.parquet", "b.parquet"], "both");
    dir.ok(&["fit", "b.parquet", "--state", "s", "-o", "m", "--quiet"]);
    dir.ok(&["solve", "both", "-o", "n", "--quiet"]);
    assert_eq!(dir.json(&["inspect", "s"])["folds"], dir.json(&["inspect", "both"])["folds"]);
    near(&numbers(&dir, "m"), &numbers(&dir, "n"));
}

#[test]
fn any_name_can_be_named() {
    let dir = Workdir::new();
    let odd = ["a,b", "x y", "q\"t", "l\nm", "s*r", "d.t", "br[0]", "it's"];
    let mut columns: Vec<(String, ArrayRef)> = odd
        .iter()
        .enumerate()
        .map(|(i, name)| (name.to_string(), doubles(wave(0.3 + 0.2 * i as f64))))
        .collect();
    columns.push(("sir".into(), doubles(wave(5.0))));
    columns.push(("w".into(), count(3)));
    dir.table("odd.parquet", columns, 16);
    for name in odd {
        let quoted = serde_json::to_string(name).unwrap();
        dir.ok(&["fit", "odd.parquet", "--columns", &quoted, "-o", "m", "--quiet"]);
        let page = dir.json(&["inspect", "m"]);
        assert_eq!(page["features"], serde_json::json!([name]));
        let both = format!("w,{quoted}");
        dir.ok(&["transform", "m", "odd.parquet", "--keep", &both, "-o", "o.parquet", "--quiet"]);
        assert_eq!(dir.read("o.parquet").schema().field(1).name(), name);
        let args = ["fit", "odd.parquet", "--columns", "sir", "--score-by", &quoted];
        dir.ok(&[&args[..], &["--keep-features", "1", "-o", "m", "--quiet"]].concat());
    }
    // A glob where there are no quotes, and globs in every option that names columns.
    dir.ok(&["fit", "odd.parquet", "--columns", "s*r", "-o", "m", "--quiet"]);
    assert_eq!(dir.json(&["inspect", "m"])["features"], serde_json::json!(["s*r"]), "a name first");
    dir.ok(&["fit", "odd.parquet", "--columns", "s?r", "--weight", "w*", "-o", "m", "--quiet"]);
    assert_eq!(dir.json(&["inspect", "m"])["features"], serde_json::json!(["s*r", "sir"]));
    let said = dir.fails(2, &["fit", "odd.parquet", "--weight", "s?r", "-o", "m"]);
    assert!(said.contains("--weight is one column, but 's?r' matches s*r, sir"), "{said}");
    let run = dir.run(&["fit", "odd.parquet", "--columns", "\"a", "-o", "m"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("as JSON writes text"), "{}", run.stderr);
}
