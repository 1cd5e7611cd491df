//! States: a fit is scan + solve, byte for byte; sums add up, come apart, and stop and go on.

use crate::theory::rows;
use crate::workdir::{Workdir, array, close, doubles, matrix};
use arrow_array::{ArrayRef, Float64Array, StringArray};
use ndarray::{Array1, Array2, Axis, s};
use serde_json::Value;
use std::sync::Arc;

fn model(dir: &Workdir, name: &str) -> Vec<u8> {
    std::fs::read(dir.path(name)).unwrap()
}

/// Four files of rows with a class, a number and a weight.
fn labelled(rows: &str) -> Workdir {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        rows,
        "--columns",
        "5",
        "--files",
        "4",
        "--row-group",
        "700",
        "-o",
        "d",
    ]);
    dir
}

/// Four files of rows with missing cells and a number.
fn holes(dir: &Workdir) {
    let x = rows(2_000, 4);
    for f in 0..4 {
        let part = x.slice(s![500 * f..500 * (f + 1), ..]);
        let cell = |i: usize, j: usize| ((i * 5 + j * 3 + f) % 23 != 7).then(|| part[[i, j]]);
        let column =
            |j: usize| Arc::new(Float64Array::from_iter((0..500).map(|i| cell(i, j)))) as ArrayRef;
        let mut columns: Vec<(String, ArrayRef)> =
            (0..4).map(|j| (format!("x{j}"), column(j))).collect();
        columns
            .push(("y".into(), doubles((0..500).map(|i| part[[i, 0]] + (i % 7) as f64).collect())));
        dir.table(&format!("h/part-00{f}.parquet"), columns, 130);
    }
}

fn run(dir: &Workdir, words: &str) {
    dir.ok(&words.split(' ').chain(["--quiet"]).collect::<Vec<_>>());
}

#[test]
fn a_fit_is_a_scan_and_a_solve_byte_for_byte() {
    let dir = labelled("9000");
    dir.ok(&[
        "generate",
        "nulls",
        "--rows",
        "5000",
        "--columns",
        "6",
        "--files",
        "2",
        "--row-group",
        "900",
        "-o",
        "n",
    ]);
    holes(&dir);
    dir.ok(&[
        "generate",
        "wide",
        "--rows",
        "2500",
        "--columns",
        "1030",
        "--files",
        "2",
        "--row-group",
        "500",
        "-o",
        "w",
    ]);
    let x = "d --columns x*";
    // (data and what the scan is told, what solve and fit are told, what only fit is told)
    for (scan, both, fit) in [
        (x, "-k 3", ""),
        (x, "-k all --standardize", ""),
        (x, "-k 0.9 --no-center", ""),
        ("d --columns x* --weight weight", "-k 3", ""),
        ("n --exclude id --nulls drop", "-k 4", ""),
        ("n --exclude id --nulls mean", "-k 4 --standardize", ""),
        ("w", "-k 4", "--form primal"),
        ("d --columns x* --label label_string", "--method spca -k 2", ""),
        (
            "d --columns x* --label label_string",
            "--method spca -k 2 --with-variance --standardize --no-center",
            "",
        ),
        ("d --columns x* --label label_int", "--method spca -k 1", ""),
        ("d --columns x* --label label_int --classes", "--method spca -k 3 --form primal", ""),
        (
            "d --columns x* --label label_string,label_int",
            "--method spca -k 3 --label-kernel linear",
            "",
        ),
        ("n --exclude id,x0 --nulls drop --label x0", "--method spca", ""),
        ("h --columns x* --nulls mean --label y", "--method spca --with-variance", ""),
        ("h --columns x* --nulls drop --label y", "--method spca --no-center", ""),
        ("h --columns x* --nulls mean --label y", "-k 2 --no-center", ""),
        // K_y = I: H centres what is decomposed, whatever is projected; the model names the label.
        (
            "d --columns x* --label label_string",
            "--method spca --label-kernel identity --no-center -k 2",
            "",
        ),
        (
            "d --columns x* --label label_string --weight weight",
            "--method spca --label-kernel identity --standardize -k all",
            "",
        ),
        ("h --columns x* --nulls mean --label y", "--method spca --label-kernel identity", ""),
        ("w", "-k 2 --no-center --standardize", "--form primal"),
        ("w --label x0 --columns x*", "--method spca --with-variance", ""),
    ] {
        run(&dir, &format!("scan {scan} -o s.state"));
        run(&dir, &format!("solve s.state {both} -o a"));
        run(&dir, format!("fit {scan} {both} {fit} -o b").replace("  ", " ").as_str());
        assert!(model(&dir, "a") == model(&dir, "b"), "{scan} | {both}");
        let again = format!("fit {scan} {both}");
        run(&dir, &format!("{again} --checkpoint c --checkpoint-seconds 0 -o c.model"));
        assert!(model(&dir, "c.model") == model(&dir, "b"), "by a checkpoint: {scan} | {both}");
        assert!(!dir.path("c").exists(), "a checkpoint goes when its work is done");
        run(&dir, &format!("{again} --state t.state -o t.model"));
        assert!(model(&dir, "t.model") == model(&dir, "b"), "by a state: {scan} | {both}");
        std::fs::remove_file(dir.path("t.state")).unwrap();
    }
    // By groups: the state of a group is that of its rows alone.
    run(&dir, "scan d --columns x* --by label_bool --label label_int -o groups");
    run(&dir, "solve groups --method spca -o models");
    let mut rows = 0;
    for value in ["true", "false"] {
        let name = format!("models/label_bool={value}.safetensors");
        let about = dir.json(&["inspect", &name]);
        rows += about["n_rows"].as_u64().unwrap();
        run(&dir, &format!("solve groups/label_bool={value}.state --method spca -o one"));
        assert!(model(&dir, "one") == model(&dir, &name), "{value}");
    }
    assert_eq!(rows, 9000);
    // Scored at any Q.
    run(&dir, "scan d --columns x* --label label_int -o s.state");
    for q in ["1", "3", "5"] {
        run(&dir, &format!("solve s.state --score-by label_int --keep-features {q} -k 2 -o a"));
        run(
            &dir,
            &format!("fit d --columns x* --score-by label_int --keep-features {q} -k 2 -o b"),
        );
        assert!(model(&dir, "a") == model(&dir, "b"), "{q} features");
    }
    let scored = "--score-by label_string --keep-features 3 -k 2";
    run(&dir, &format!("fit d --columns x* {scored} -o b"));
    for way in ["--checkpoint c", "--state scored.state"] {
        run(&dir, &format!("fit d --columns x* {scored} {way} -o a"));
        assert!(model(&dir, "a") == model(&dir, "b"), "scored by {way}");
    }
    // Same bytes for any threads and memory.
    run(&dir, "scan d --columns x* --label label_string --threads 1 --memory 90MB -o t.state");
    run(&dir, "scan d --columns x* --label label_string --threads 5 --memory 2GB -o u.state");
    assert!(model(&dir, "t.state") == model(&dir, "u.state"));
}

#[test]
fn a_fit_by_way_of_a_state_is_refused_before_a_row_is_read() {
    let dir = labelled("900");
    let said = dir.fails(2, &["fit", "d", "--method", "spca", "--state", "s", "-o", "m"]);
    assert_eq!(said, "fit: --method spca needs labels; name their column with --label");
    assert_eq!(dir.list(), ["d"], "no state either");
    let words = ["fit", "d", "--columns", "x*", "--state", "s", "-o", "m", "--label", "label_int"];
    dir.ok(&words);
    let before = model(&dir, "s");
    let said = dir.fails(2, &["fit", "d", "--method", "kpca", "--state", "s", "-o", "m"]);
    assert!(said.contains("kernel methods compare rows"), "{said}");
    assert!(model(&dir, "s") == before);
}

/// A state has one label: features scored by another are refused before a row is read.
#[test]
fn features_scored_by_another_label_are_no_fit_of_a_state() {
    let dir = labelled("900");
    let words = "fit d --columns x* --method spca --label label_string --score-by label_int \
                 --keep-features 2 -o m";
    let words: Vec<&str> = words.split_whitespace().collect();
    dir.ok(&words);
    std::fs::remove_file(dir.path("m")).unwrap();
    for way in [["--state", "s"], ["--checkpoint", "c"]] {
        let said = dir.fails(2, &[&words[..], &way].concat());
        assert!(said.contains("was scanned with label label_string"), "{said}");
        assert_eq!(dir.list(), ["d"], "{way:?}");
    }
}

#[test]
fn no_result_of_a_fit_replaces_its_input() {
    let dir = labelled("900");
    let input = "d/part-001.parquet";
    let before = model(&dir, input);
    for words in [
        format!("fit d -o {input}"),
        format!("fit d -o {input} --state s"),
        format!("fit d -o {input} --checkpoint c"),
        format!("fit d -o m --state {input}"),
        format!("fit d -o m --checkpoint {input}"),
    ] {
        let said = dir.fails(2, &words.split(' ').collect::<Vec<_>>());
        assert!(said.contains("would replace the input"), "{words}: {said}");
        assert!(model(&dir, input) == before, "{words}");
    }
    assert_eq!(dir.list(), ["d"]);
}

#[test]
fn a_fit_tells_the_same_by_whatever_way() {
    let dir = labelled("900");
    let words =
        "fit d -k 2 --columns x* --label label_int --with-variance --label-gamma 2 --json -o m";
    let words: Vec<&str> = words.split(' ').collect();
    let plain = dir.ok(&words);
    for way in [["--checkpoint", "c"], ["--state", "s"]] {
        let other = dir.ok(&words.iter().copied().chain(way).collect::<Vec<_>>());
        let notes = |said: &str| -> Vec<String> {
            let lines = said.lines().filter(|l| l.starts_with("note: "));
            lines.map(str::to_string).collect()
        };
        assert_eq!(notes(&other.stderr), notes(&plain.stderr), "{way:?}");
        assert_eq!(notes(&plain.stderr).len(), 3, "{}", plain.stderr);
        let keys = |json: &str| -> Vec<String> {
            let value: Value = serde_json::from_str(json).unwrap();
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&other.stdout), keys(&plain.stdout), "{way:?}");
        assert!(keys(&plain.stdout).contains(&"seconds".to_string()));
    }
}

#[test]
fn too_high_a_threshold_fails_alike() {
    let dir = labelled("900");
    let score = ["--score-by", "label_int", "--score-threshold", "9"];
    let fit = ["fit", "d", "--columns", "x*", "-o", "m"];
    let by_fit = dir.fails(1, &[&fit[..], &score].concat());
    run(&dir, "scan d --columns x* --label label_int -o s");
    let by_solve = dir.fails(1, &[&["solve", "s", "-o", "m"][..], &score].concat());
    let problem = "no feature scores as much as --score-threshold; the best scores";
    assert!(by_fit.contains(problem) && by_solve.contains(problem), "{by_fit} {by_solve}");
}

#[test]
fn a_scan_tells_what_it_leaves_out() {
    let dir = Workdir::new();
    dir.ok(&["generate", "nulls", "--rows", "3000", "--columns", "4", "--files", "2", "-o", "n"]);
    let scan = dir.ok(&["scan", "n", "--exclude", "id", "--nulls", "drop", "-o", "s.state"]).stderr;
    let fit = dir.ok(&["fit", "n", "--exclude", "id", "--nulls", "drop", "-o", "m"]).stderr;
    let note = fit.lines().find(|l| l.contains("dropped for")).unwrap();
    assert!(scan.contains(note) && scan.contains("features: 4 of 5 columns"), "{scan}");
    let solve = dir.ok(&["solve", "s.state", "--columns", "x0", "-o", "m"]).stderr;
    assert!(
        solve.contains(
            "were dropped for nulls in any feature of the state, also those that are left out here"
        ),
        "{solve}"
    );
    // A state for each of a few rows.
    dir.ok(&["generate", "nulls", "--rows", "60", "--columns", "4", "--files", "1", "-o", "few"]);
    let by = dir
        .ok(&[
            "scan",
            "few",
            "--exclude",
            "id",
            "--nulls",
            "drop",
            "--by",
            "id",
            "-o",
            "by",
            "--columns",
            "x0,x1",
        ])
        .stderr;
    assert!(by.contains("dropped for"), "{by}");
}

#[test]
fn a_subset_of_the_columns_is_a_fit_of_them() {
    let dir = labelled("4000");
    run(&dir, "scan d --columns x* --label label_string -o s.state");
    for (some, options) in [("x0,x2,x4", "-k 2"), ("x1,x2", "--method spca -k 2 --standardize")] {
        run(&dir, &format!("solve s.state --columns {some} {options} -o a"));
        run(&dir, &format!("fit d --columns {some} --label label_string {options} -o b"));
        let (a, b) = (dir.json(&["inspect", "a"]), dir.json(&["inspect", "b"]));
        assert_eq!(a["features"], b["features"]);
        let largest = array(&b["eigenvalues"])[0];
        close(&array(&a["eigenvalues"]), &array(&b["eigenvalues"]), 1e-12, largest);
        close(&matrix(&a["components"]), &matrix(&b["components"]), 1e-9, 1.0);
    }
    run(&dir, "solve s.state --exclude x3 -o a");
    assert_eq!(
        dir.json(&["inspect", "a"])["features"],
        serde_json::json!(["x0", "x1", "x2", "x4"])
    );
    assert!(
        dir.fails(2, &["solve", "s.state", "--columns", "y*", "-o", "a"])
            .contains("no column 'y*'")
    );
}

fn same_model(a: &Value, b: &Value, tolerance: f64) {
    let largest = array(&b["eigenvalues"])[0];
    close(&array(&a["eigenvalues"]), &array(&b["eigenvalues"]), tolerance, largest);
    close(&array(&a["mean"]), &array(&b["mean"]), tolerance, 10.0);
    close(&matrix(&a["components"]), &matrix(&b["components"]), tolerance.sqrt(), 1.0);
    assert_eq!((&a["n_rows"], &a["nulls"]["missing"]), (&b["n_rows"], &b["nulls"]["missing"]));
}

#[test]
#[ignore = "slow: make test-slow"]
fn states_add_up_and_come_apart() {
    let dir = labelled("6000");
    dir.ok(&[
        "generate",
        "nulls",
        "--rows",
        "4000",
        "--columns",
        "5",
        "--files",
        "4",
        "--row-group",
        "500",
        "-o",
        "n",
    ]);
    holes(&dir);
    dir.ok(&[
        "generate",
        "wide",
        "--rows",
        "3000",
        "--columns",
        "1030",
        "--files",
        "4",
        "--row-group",
        "500",
        "-o",
        "w",
    ]);
    for (data, options, methods) in [
        (
            "d",
            "--columns x* --label label_string --weight weight",
            &["-k 3", "--method spca -k 3"][..],
        ),
        ("d", "--columns x* --label label_int", &["-k 3 --standardize", "--method spca"]),
        ("d", "--columns x* --label label_string --folds 3", &["-k 3"]),
        ("n", "--exclude id,x0 --nulls drop --label x0", &["-k 3", "--method spca"]),
        ("h", "--columns x* --nulls mean --label y", &["-k 3", "--method spca"]),
        ("w", "", &["-k 3"]),
    ] {
        let scan = |files: &str, to: &str| {
            run(&dir, format!("scan {files} {options} -o {to}").replace("  ", " ").trim())
        };
        (0..4).for_each(|i| scan(&format!("{data}/part-00{i}.parquet"), &format!("p{i}.state")));
        scan(
            &format!("{data}/part-000.parquet {data}/part-001.parquet {data}/part-002.parquet"),
            "three.state",
        );
        scan(data, "all.state");
        run(&dir, "merge p0.state p1.state p2.state p3.state -o merged.state");
        run(&dir, "subtract merged.state p3.state -o less.state");
        run(&dir, "merge less.state p3.state -o again.state");
        for method in methods {
            let solve = |state: &str| {
                run(&dir, &format!("solve {state} {method} -o m"));
                dir.json(&["inspect", "m"])
            };
            same_model(&solve("merged.state"), &solve("all.state"), 1e-11);
            same_model(&solve("less.state"), &solve("three.state"), 1e-10);
            same_model(&solve("again.state"), &solve("all.state"), 1e-10);
            let lost = solve("less.state")["certificate"]["lost_digits"].as_f64().unwrap();
            assert!(lost < 1.0, "{lost}");
        }
        // All of it taken out leaves nothing, and what is nothing is told.
        run(&dir, "subtract p0.state p0.state -o none.state");
        let said = dir.fails(1, &["solve", "none.state", "-o", "m"]);
        assert!(
            said.contains("0 rows left, but a variance needs at least 2")
                || said.contains("column"),
            "{said}"
        );
    }
}

#[test]
fn lost_digits_are_told() {
    let dir = Workdir::new();
    let x = rows(400, 3);
    dir.matrix("large.parquet", &(&x * 1e6), 100);
    dir.matrix("small.parquet", &x, 100);
    dir.matrix("huge.parquet", &(&x * 1e9), 100);
    run(&dir, "scan huge.parquet small.parquet -o a.state");
    run(&dir, "scan huge.parquet -o b.state");
    run(&dir, "subtract a.state b.state -o c.state");
    let said = dir.fails(2, &["solve", "c.state", "-o", "m"]);
    assert!(said.contains("nothing can be made of what is left; scan again"), "{said}");
    run(&dir, "scan large.parquet small.parquet -o all.state");
    run(&dir, "scan large.parquet -o large.state");
    let run = dir.ok(&["subtract", "all.state", "large.state", "-o", "rest.state"]);
    assert!(
        run.stderr.contains("warning: what is left is so little of what was there that about 12 of 16 digits are lost"),
        "{}",
        run.stderr
    );
    let run = dir.ok(&["solve", "rest.state", "-o", "m"]);
    assert!(
        run.stderr.contains("warning: subtractions have cost this state about 12 of 16 digits"),
        "{}",
        run.stderr
    );
    let lost = dir.json(&["inspect", "m"])["certificate"]["lost_digits"].as_f64().unwrap();
    assert!((11.5..12.5).contains(&lost), "{lost}");
    // inspect shows a state, too.
    let page = dir.ok(&["inspect", "rest.state"]).stdout;
    assert!(
        page.starts_with("state: 400 rows × 3 features from 1 file")
            && page.contains("digits lost"),
        "{page}"
    );
    assert_eq!(dir.json(&["inspect", "rest.state"])["tally"]["rows"], 400);
    // A state that was never cut has no such line.
    dir.ok(&["solve", "all.state", "-o", "m"]);
    assert!(dir.json(&["inspect", "m"])["certificate"].get("lost_digits").is_none());
}

#[test]
fn the_ledger_counts_nothing_twice() {
    let dir = labelled("2000");
    let fails = |code: i32, words: &str| dir.fails(code, &words.split(' ').collect::<Vec<_>>());
    run(&dir, "scan d/part-000.parquet --columns x* -o a.state");
    run(&dir, "scan d/part-001.parquet --columns x* -o b.state");
    assert_eq!(
        fails(1, "merge a.state a.state -o x"),
        "merge: d/part-000.parquet: is in the state already; --skip-known passes it over"
    );
    run(&dir, "merge a.state a.state b.state --skip-known -o ab.state");
    assert_eq!(dir.json(&["scan", "d", "--columns", "x*", "-o", "all.state"])["rows"], 2000);
    // The same rows under another name are the same file.
    std::fs::copy(dir.path("d/part-000.parquet"), dir.path("copy.parquet")).unwrap();
    run(&dir, "scan copy.parquet --columns x* -o copy.state");
    assert_eq!(
        fails(1, "merge a.state copy.state -o x"),
        "merge: copy.parquet: is in the state already as d/part-000.parquet; --skip-known passes it over"
    );
    assert!(fails(1, "scan copy.parquet d --columns x* -o x").contains("is the same as"));
    assert_eq!(
        fails(1, "subtract a.state b.state -o x"),
        "subtract: d/part-001.parquet: was never added to the state, so it cannot be taken out"
    );
    // A new file under a known name.
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        "300",
        "--columns",
        "5",
        "--files",
        "1",
        "--seed",
        "9",
        "-o",
        "e",
    ]);
    std::fs::copy(dir.path("e/part-000.parquet"), dir.path("d/part-000.parquet")).unwrap();
    run(&dir, "scan d/part-000.parquet --columns x* -o new.state");
    for merge in ["merge a.state new.state -o both", "merge a.state new.state --skip-known -o both"]
    {
        run(&dir, merge);
        assert_eq!(dir.json(&["inspect", "both"])["tally"]["rows"], 500 + 300);
    }
    std::fs::copy(dir.path("ab.state"), dir.path("live.state")).unwrap();
    let said = dir.ok(&[
        "fit",
        "d",
        "--columns",
        "x*",
        "--state",
        "live.state",
        "--skip-known",
        "-o",
        "m",
    ]);
    assert!(said.stderr.contains("d/part-000.parquet is in the state with other content"));
    assert!(said.stderr.contains("subtract"), "{}", said.stderr);
    // Some of a state's inputs are known: it cannot be taken apart.
    run(&dir, "scan d --columns x* -o d.state");
    let said = fails(2, "merge b.state d.state --skip-known -o x");
    assert!(
        said.contains("1 of its 4 inputs are in the state already (d/part-001.parquet)"),
        "{said}"
    );
    assert!(
        fails(1, "subtract a.state new.state -o x").contains("is in the state with other content")
    );
    // States of other things.
    run(&dir, "scan d/part-002.parquet --columns x0,x1 -o few.state");
    assert_eq!(
        fails(2, "merge b.state few.state -o x"),
        "merge: few.state: the states have different features ('x2' is in one of them only), so they cannot go together"
    );
    run(&dir, "scan d/part-002.parquet --columns x* --label label_int -o label.state");
    assert!(fails(2, "merge b.state label.state -o x").contains("different labels"));
    assert!(
        fails(2, "solve b.state --method spca -o x")
            .contains("this state has no labels; scan with --label")
    );
    assert!(
        fails(2, "solve b.state --score-by x0 --keep-features 2 -o x")
            .contains("no labels to score by")
    );
    assert!(fails(2, "solve b.state --form dual -o x").contains("--form dual needs the rows"));
    assert!(
        fails(2, "solve label.state --score-by y --keep-features 2 -o x")
            .contains("was scanned with label label_int")
    );
    assert!(fails(2, "solve b.state --method kpca -o x").contains("kernel methods compare rows"));
    assert!(fails(1, "solve m.parquet -o x").contains("cannot open m.parquet"));
    run(&dir, "solve b.state -o m");
    assert!(fails(1, "solve m -o x").contains(
        "m: is not an eigenstream state (it holds a model); make one with eigenstream scan"
    ));
    assert!(
        fails(1, "transform b.state d -o x.parquet")
            .contains("is not an eigenstream model (it holds a state)")
    );
    run(
        &dir,
        "scan d/part-003.parquet --columns x* --label label_int --for scored -o scored.state",
    );
    assert!(
        fails(2, "merge label.state scored.state -o x").contains("different statistics (--for)")
    );
    assert!(
        fails(2, "subtract label.state scored.state -o x").contains("different statistics (--for)")
    );
    // What is removed or replaced in the end is no result.
    assert!(
        fails(2, "scan d --columns x* --checkpoint new.c -o new.c")
            .contains("is what is written in the end, too")
    );
    assert!(
        fails(2, "fit d --columns x* --checkpoint ./new.c -o new.c")
            .contains("is what is written in the end, too")
    );
    assert!(
        fails(2, "fit d --columns x* --checkpoint t.state --state t.state -o m2")
            .contains("is what is written in the end, too")
    );
    assert!(fails(2, "solve b.state -o b.state").contains("would be replaced by its model"));
    assert!(
        fails(2, "fit d --columns x* --state b.state -o ./b.state")
            .contains("would be replaced by its model")
    );
    assert!(
        fails(2, "solve scored.state -o x")
            .contains("this state has no covariance; scan with --for pca")
    );
    assert!(fails(2, "scan d --columns x* --for spca -o x").contains("need labels"));
    assert!(!dir.path("x").exists() && !dir.path("x.parquet").exists());
}

#[test]
fn a_state_takes_new_files_as_they_come() {
    let dir = labelled("5000");
    for i in 0..4 {
        run(
            &dir,
            &format!(
                "fit d/part-00{i}.parquet --columns x* --label label_string --state s.state -k 3 -o m"
            ),
        );
    }
    run(&dir, "fit d --columns x* --label label_string -k 3 -o all");
    assert!(
        model(&dir, "m") == model(&dir, "all"),
        "in the order of the files, the bytes of one fit"
    );
    let run_again = dir.ok(&[
        "fit",
        "d",
        "--columns",
        "x*",
        "--label",
        "label_string",
        "--state",
        "s.state",
        "--skip-known",
        "-k",
        "3",
        "-o",
        "m2",
    ]);
    assert!(
        run_again.stderr.contains("4 files in the state already, passed over"),
        "{}",
        run_again.stderr
    );
    assert!(model(&dir, "m2") == model(&dir, "all"));
    let said = dir.fails(2, &["fit", "d", "--method", "kpca", "--state", "t.state", "-o", "m"]);
    assert!(said.contains("kernel methods compare rows"), "{said}");
}

#[test]
fn groups_are_scanned_in_one_pass_within_the_memory() {
    let dir = Workdir::new();
    let n = 6_000;
    let x = rows(n, 30);
    let group = |i: usize| format!("g{}", (i * 7919) % 40);
    let mut columns: Vec<(String, ArrayRef)> = x
        .columns()
        .into_iter()
        .enumerate()
        .map(|(j, c)| (format!("x{j}"), doubles(c.to_vec())))
        .collect();
    columns.push(("g".into(), Arc::new(StringArray::from_iter_values((0..n).map(group)))));
    columns.push(("y".into(), doubles((0..n).map(|i| (i % 11) as f64).collect())));
    dir.table("d.parquet", columns, 500);
    run(&dir, "scan d.parquet --columns x* --label y --by g -o by");
    run(&dir, "solve by -k 3 -o models");
    assert_eq!(std::fs::read_dir(dir.path("models")).unwrap().count(), 40);
    for g in [0, 7, 39] {
        let members: Vec<usize> = (0..n).filter(|i| group(*i) == format!("g{g}")).collect();
        let part = x.select(Axis(0), &members);
        dir.matrix("part.parquet", &part, 10_000);
        run(&dir, "fit part.parquet -k 3 -o m");
        let (a, b) = (
            dir.json(&["inspect", &format!("models/g=g{g}.safetensors")]),
            dir.json(&["inspect", "m"]),
        );
        let largest = array(&b["eigenvalues"])[0];
        close(&array(&a["eigenvalues"]), &array(&b["eigenvalues"]), 1e-11, largest);
        assert_eq!(a["n_rows"], members.len());
    }
    // A group of one row has no model, and the others do.
    dir.matrix("one.parquet", &x.slice(s![..3, ..]).to_owned(), 3);
    let mut columns: Vec<(String, ArrayRef)> =
        (0..2).map(|j| (format!("x{j}"), doubles(x.slice(s![..5, j]).to_vec()))).collect();
    columns.push(("g".into(), Arc::new(StringArray::from(vec!["a", "a", "b", "a", "a"]))));
    dir.table("few.parquet", columns, 5);
    run(&dir, "scan few.parquet --columns x* --by g -o few");
    let told = dir.ok(&["solve", "few", "-o", "few.models"]);
    assert!(
        told.stderr.contains("note: few/g=b.state: no model: few.parquet: 1 row left"),
        "{}",
        told.stderr
    );
    assert_eq!(std::fs::read_dir(dir.path("few.models")).unwrap().count(), 1);
    // What does not fit is put away and taken out again, and nobody can tell.
    let run = dir.ok(&[
        "scan",
        "d.parquet",
        "--columns",
        "x*",
        "--label",
        "y",
        "--by",
        "g",
        "-o",
        "small",
        "--memory",
        "36MB",
    ]);
    assert!(run.stderr.contains("groups did not fit the memory together"), "{}", run.stderr);
    for g in 0..40 {
        let name = format!("g=g{g}.state");
        assert!(
            model(&dir, &format!("by/{name}")) == model(&dir, &format!("small/{name}")),
            "{name}"
        );
    }
    std::fs::create_dir(dir.path("empty")).unwrap();
    let said = dir.fails(2, &["solve", "empty", "-o", "none"]);
    assert_eq!(said, "solve: empty has no *.state files; scan with --by makes some");
}

/// Rows of the test, their label, and the fold of each as the program shares them out.
fn in_folds(dir: &Workdir, n: usize, folds: usize) -> (Array2<f64>, Array1<f64>, Vec<usize>) {
    let mut x = rows(n, 6);
    let y: Array1<f64> =
        (0..n).map(|i| 0.8 * x[[i, 1]] - 0.5 * x[[i, 4]] + ((i * 37) % 19) as f64 / 9.0).collect();
    x.column_mut(0).mapv_inplace(|v| 5.0 * v);
    let mut columns: Vec<(String, ArrayRef)> = x
        .columns()
        .into_iter()
        .enumerate()
        .map(|(j, c)| (format!("x{j}"), doubles(c.to_vec())))
        .collect();
    columns.push(("y".into(), doubles(y.to_vec())));
    dir.table("d.parquet", columns, 50);
    let said = dir.json(&[
        "scan",
        "d.parquet",
        "--columns",
        "x*",
        "--label",
        "y",
        "--folds",
        &folds.to_string(),
        "-o",
        "f.state",
    ]);
    let hash = said["about"]["ledger"][0]["footer_hash"].as_str().unwrap();
    let hash = u64::from_str_radix(hash, 16).unwrap();
    let fold = (0..n).map(|i| eigenstream::internals::fold_of(0, hash, i as u64, folds)).collect();
    (x, y, fold)
}

/// The label's squared error on the rows left out, row by row, for scoring with q features and k
/// components.
fn left_out(
    x: &Array2<f64>,
    y: &Array1<f64>,
    fold: &[usize],
    out: usize,
    q: usize,
    k: usize,
) -> (f64, f64) {
    let pick = |inside: bool| {
        (0..fold.len()).filter(|i| (fold[*i] != out) == inside).collect::<Vec<usize>>()
    };
    let (train, test) = (pick(true), pick(false));
    let (xt, yt) = (x.select(Axis(0), &train), y.select(Axis(0), &train));
    let (mean, ybar) = (xt.mean_axis(Axis(0)).unwrap(), yt.mean().unwrap());
    let (xc, yc) = (&xt - &mean, &yt - ybar);
    let score = |j: usize| (xc.column(j).dot(&yc) / xc.column(j).dot(&xc.column(j)).sqrt()).abs();
    let mut order: Vec<usize> = (0..x.ncols()).collect();
    order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
    let mut kept = order[..q].to_vec();
    kept.sort_unstable();
    let part = xc.select(Axis(1), &kept);
    let (_, vectors) = crate::oracle::eigh(part.t().dot(&part));
    let u = vectors.slice(s![..;-1, ..]).slice(s![..k.min(q), ..]).to_owned();
    let z = part.dot(&u.t());
    // The scores are uncorrelated, so each has its own slope.
    let beta = z.t().dot(&yc) / z.map_axis(Axis(0), |score| score.dot(&score));
    let left_out = (x.select(Axis(0), &test) - &mean).select(Axis(1), &kept);
    let tested = left_out.dot(&u.t()).dot(&beta) + ybar;
    let truth = y.select(Axis(0), &test);
    let square = |a: Array1<f64>| a.dot(&a);
    (square(&truth - &tested), square(&truth - ybar))
}

#[test]
fn folds_choose_as_row_by_row_cross_validation_does() {
    let dir = Workdir::new();
    let (x, y, fold) = in_folds(&dir, 240, 4);
    let said = dir.json(&["solve", "f.state", "--score-by", "y", "--folds", "-k", "2", "-o", "m"]);
    let tried = said["folds"]["tried"].as_array().unwrap();
    assert_eq!(tried.len(), 4, "1, 2, 4 and 6 features");
    let mut best = (0, f64::INFINITY);
    for pair in tried {
        let q = pair[0].as_u64().unwrap() as usize;
        let parts: Vec<(f64, f64)> = (0..4).map(|out| left_out(&x, &y, &fold, out, q, 2)).collect();
        let expected =
            parts.iter().map(|p| p.0).sum::<f64>() / parts.iter().map(|p| p.1).sum::<f64>();
        assert!(
            (pair[1].as_f64().unwrap() / expected - 1.0).abs() < 1e-9,
            "{q}: {pair} against {expected}"
        );
        best = if expected < best.1 { (q, expected) } else { best };
    }
    assert_eq!(said["folds"]["best"].as_u64(), Some(best.0 as u64));
    assert_eq!(said["n_features"].as_u64(), Some(best.0 as u64));
    let said = dir.json(&["solve", "f.state", "--method", "spca", "--folds", "-k", "3", "-o", "m"]);
    assert_eq!(
        said["folds"]["tried"].as_array().unwrap().len(),
        1,
        "one number is told by one direction"
    );
    // Folds are shared out by the file, so parts scanned alone make the same ones.
    run(&dir, "solve f.state -k 3 -o a");
    run(&dir, "fit d.parquet --columns x* -k 3 -o b");
    same_model(&dir.json(&["inspect", "a"]), &dir.json(&["inspect", "b"]), 1e-11);
    let said = dir.fails(2, &["solve", "f.state", "--folds", "-o", "m"]);
    assert!(
        said.contains("--folds chooses features with --score-by, or components with --method spca"),
        "{said}"
    );
}

#[test]
fn a_checkpoint_is_of_one_scan_only() {
    let dir = Workdir::new();
    // Many units, so that a kill finds the scan in the middle.
    dir.ok(&[
        "generate",
        "labels",
        "--rows",
        "4000",
        "--columns",
        "5",
        "--files",
        "200",
        "-o",
        "d",
    ]);
    run(&dir, "scan d/part-000.parquet --columns x* -o whole.state");
    let said =
        dir.fails(1, &["scan", "d", "--columns", "x*", "--checkpoint", "whole.state", "-o", "s"]);
    assert!(
        said.contains(
            "is a state, not the checkpoint of a scan; remove it, or name another --checkpoint"
        ),
        "{said}"
    );
    // A checkpoint in the middle, as a kill leaves it.
    crate::faults::checkpoint_of(
        &dir,
        "scan d --columns x* --checkpoint c --checkpoint-seconds 0 -o s",
    );
    let said = dir.fails(1, &["scan", "d", "--columns", "x0,x1", "--checkpoint", "c", "-o", "s"]);
    assert!(
        said.contains("is the checkpoint of another scan, or of files that have changed since"),
        "{said}"
    );
    let said = dir.fails(2, &["solve", "c", "-o", "m"]);
    assert!(said.contains("this is the checkpoint of a scan that is not done"), "{said}");
    assert!(
        dir.fails(2, &["merge", "whole.state", "c", "-o", "m"])
            .contains("checkpoint of a scan that is not done")
    );
    // It is in the middle, and going on from it gives what a scan gives that nobody stopped.
    let again = dir.ok(&["scan", "d", "--columns", "x*", "--checkpoint", "c", "-o", "s"]);
    let told = again.stderr.split("going on after ").nth(1).unwrap();
    let done: usize = told.split(" of 200 units").next().unwrap().parse().unwrap();
    assert!(done > 0 && done < 200, "{}", again.stderr);
    run(&dir, "scan d --columns x* -o whole");
    let bytes = |name: &str| std::fs::read(dir.path(name)).unwrap();
    assert!(bytes("s") == bytes("whole"), "after {done} of 200 units");
}
