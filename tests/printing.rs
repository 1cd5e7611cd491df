//! What people read: notes that say how data was taken, tables that stand, names that cannot move a
//! cursor.

use crate::theory::rows;
use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use std::sync::Arc;

const N: usize = 60;

fn args(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// x0 … x3, a number, few whole numbers, and text.
fn labelled() -> Workdir {
    let dir = Workdir::new();
    let x = rows(N, 4);
    let mut all: Vec<(String, ArrayRef)> = (0..4)
        .map(|j| {
            let shifted = (0..N).map(|i| x[[i, j]] + (i % 3) as f64 * (j + 1) as f64).collect();
            (format!("x{j}"), doubles(shifted))
        })
        .collect();
    all.push(("y".into(), doubles((0..N).map(|i| x[[i, 0]] + 0.1 * i as f64).collect())));
    all.push(("c".into(), Arc::new(Int64Array::from_iter_values((0..N as i64).map(|i| i % 3)))));
    let text = (0..N).map(|i| ["a", "b"][i % 2]);
    all.push(("s".into(), Arc::new(StringArray::from_iter_values(text))));
    dir.table("d.parquet", all, 25);
    dir
}

#[test]
fn the_rank_of_class_numbers_names_the_way_to_more() {
    let dir = labelled();
    let fit = "fit d.parquet --columns x* -o m --label c --method";
    for method in ["spca", "kspca"] {
        let said = dir.ok(&args(&format!("{fit} {method}"))).stderr;
        let capped = "kept 1 of 10 components: 1 numeric label can be told by at most 1 direction; \
                      as --classes they would allow more\n";
        assert!(said.contains(capped), "{said}");
    }
    let said = dir.ok(&args("fit d.parquet --columns x* -o m --label y --method spca")).stderr;
    assert!(said.contains("at most 1 direction\n"), "no class numbers: {said}");
}

#[test]
fn numbers_beside_text_say_how_they_are_read() {
    let dir = labelled();
    let fit = "fit d.parquet --columns x* -o m --method spca --label s,y";
    let together = "note: labels s (text) and y (a number) are read together as classes: rows are \
                    of one class where all of them are equal\n";
    assert!(dir.ok(&args(fit)).stderr.contains(together));
    assert!(dir.ok(&args("scan d.parquet --label s,y -o st")).stderr.contains(together));
    assert!(dir.ok(&args("hsic d.parquet --label s,y")).stderr.contains(together));
    let apart = "note: of the labels, s is read as classes and y as a number\n";
    for kernel in ["linear", "rbf"] {
        let said = dir.ok(&args(&format!("{fit} --label-kernel {kernel}"))).stderr;
        assert!(said.contains(apart), "{kernel}: {said}");
    }
    for silent in ["--classes", "--label-kernel identity"] {
        let said = dir.ok(&args(&format!("{fit} {silent}"))).stderr;
        assert!(!said.contains("as classes"), "{silent}: {said}");
    }
}

#[test]
fn what_is_not_centred_has_mean_squares_and_no_variance() {
    let dir = labelled();
    let said = dir.ok(&args("fit d.parquet --columns x* --no-center -k 2 -o m")).stderr;
    assert!(said.contains("% of the mean square, 60 rows"), "{said}");
    let page = dir.ok(&["inspect", "m"]).stdout;
    assert!(page.contains("mean square  ") && page.contains("total mean square "), "{page}");
    assert!(page.contains("the next with mean square "), "{page}");
    assert!(!page.contains("variance"), "{page}");
    let json = dir.json(&["inspect", "m"]);
    assert_eq!(json["variance_kind"], "mean_square");
    assert!(json["explained_variance"].is_array() && json["total_variance"].is_number());
    dir.ok(&args("fit d.parquet --columns x* -k 2 -o m --quiet"));
    assert_eq!(dir.json(&["inspect", "m"])["variance_kind"], "variance");
    assert!(dir.ok(&["inspect", "m"]).stdout.contains("variance"));
}

#[test]
fn scales_that_hide_components_are_told() {
    let dir = Workdir::new();
    let x = rows(N, 5);
    let scaled = |j: usize| doubles((0..N).map(|i| x[[i, j]] * 10f64.powi(5 * j as i32)).collect());
    let all = (0..5).map(|j| (format!("x{j}"), scaled(j))).collect();
    dir.table("d.parquet", all, 30);
    for k in ["all", "5"] {
        let said = dir.ok(&["fit", "d.parquet", "-k", k, "-o", "m"]).stderr;
        assert!(said.contains("note: 'x4' varies ") && said.contains("e20 times"), "{said}");
        assert!(said.contains("as widely as 'x0', whose directions are lost"), "{said}");
        assert!(said.contains("--standardize gives features the same scale"), "{said}");
        let said = dir.ok(&["fit", "d.parquet", "-k", k, "-o", "m", "--standardize"]).stderr;
        assert!(!said.contains("times as widely"), "{said}");
    }
    // A feature that is the sum of others is lost for another reason.
    let sum = (0..N).map(|i| x[[i, 0]] + x[[i, 1]]).collect();
    let all = vec![
        ("a".into(), doubles(x.column(0).to_vec())),
        ("b".into(), doubles(x.column(1).to_vec())),
        ("c".into(), doubles(sum)),
        ("one".into(), doubles(vec![0.1; N])),
    ];
    dir.table("d.parquet", all, 30);
    let said = dir.ok(&["fit", "d.parquet", "-k", "all", "-o", "m"]).stderr;
    assert!(said.contains("rank 2 of 4 features") && !said.contains("--standardize"), "{said}");
}

/// What would end a line or move the cursor, in names of columns and classes.
const EVIL: [&str; 3] = ["a\nb\u{1b}[31m", "tab\tret\r\u{9b}2J", "名前\u{202e}x"];

fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'))
}

fn evil() -> Workdir {
    let dir = Workdir::new();
    let x = rows(N, 4);
    let mut all: Vec<(String, ArrayRef)> = EVIL
        .iter()
        .enumerate()
        .map(|(j, name)| (name.to_string(), doubles(x.column(j).to_vec())))
        .collect();
    let holes = (0..N).map(|i| if i % 9 == 0 { f64::NAN } else { x[[i, 3]] });
    all.push(("h\u{1b}]0;t\u{7}".into(), doubles(holes.collect())));
    let class = (0..N).map(|i| ["k\n1", "k\u{1b}[1m2", "名"][i % 3]);
    all.push(("l\u{1b}c".into(), Arc::new(StringArray::from_iter_values(class))));
    all.push(("w\u{7}".into(), doubles(vec![2.0; N])));
    dir.table("d\u{1b}[1m.parquet", all, 20);
    dir
}

#[test]
fn no_name_reaches_the_terminal_as_it_is() {
    let dir = evil();
    let file = "d\u{1b}[1m.parquet";
    let label = ["--label", "l\u{1b}c", "--nulls", "drop"];
    let weight = ["--weight", "w\u{7}"];
    let runs: Vec<Vec<&str>> = vec![
        [&["plan", file, "--method", "spca"], &label[..], &weight].concat(),
        [&["fit", file, "--method", "spca", "-o", "m\u{1b}"], &label[..], &weight].concat(),
        [&["fit", file, "--standardize", "-o", "p", "--nulls", "mean"], &weight[..]].concat(),
        [&["scan", file, "-o", "s"], &label[..]].concat(),
        [&["hsic", file], &label[..]].concat(),
        vec!["fit", file, "-o", "x"],
        vec!["fit", file, "-o", "x", "--columns", "a\u{1b}"],
        vec!["fit", file, "-o", "x", "--method", "spca", "--label", "tab\tret\r\u{9b}"],
        vec!["inspect", "m\u{1b}"],
        vec!["inspect", "p"],
        vec!["inspect", "s"],
        vec!["inspect", "m\u{1b}", "--features"],
        vec!["inspect", "m\u{1b}", "--json"],
        vec!["inspect", "none\u{1b}"],
        vec!["transform", "p", file, "-o", "o\u{1b}.parquet"],
    ];
    for run in runs {
        let done = dir.run(&run);
        assert!(done.code.is_some(), "{run:?}");
        for text in [&done.stdout, &done.stderr] {
            assert!(is_harmless(text), "{run:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("b\\u{1b}")), "{run:?}: {text}");
        }
    }
    let names = dir.ok(&["inspect", "m\u{1b}", "--features"]).stdout;
    assert_eq!(names.lines().count(), 4, "{names}");
}

#[test]
fn tables_stand_whatever_the_names_and_numbers_are() {
    let dir = Workdir::new();
    let x = rows(N, 3);
    let huge = |j: usize, by: f64| doubles(x.column(j).iter().map(|v| v * by).collect());
    let name = "n".repeat(300);
    let class = (0..N).map(|i| ["名前".repeat(3), "k".repeat(300), "b".into()][i % 3].clone());
    dir.table(
        "d.parquet",
        vec![
            ("名".into(), huge(0, 1e150)),
            (name.clone(), huge(1, 1e-3)),
            ("c".into(), huge(2, -1e140)),
            ("l".into(), Arc::new(StringArray::from_iter_values(class))),
        ],
        20,
    );
    dir.ok(&args("fit d.parquet --method spca --label l --with-variance -o m --quiet"));
    let page = dir.ok(&["inspect", "m"]).stdout;
    let table = |head: &str, lines: usize| -> Vec<usize> {
        let rows = page.lines().skip_while(|line| !line.contains(head)).take(lines);
        rows.map(unicode_width::UnicodeWidthStr::width).collect()
    };
    let ends = table("class centroids", 4);
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}\n{page}");
    assert!(page.lines().all(|line| line.chars().count() < 300), "names are cut: {page}");
    assert!(dir.ok(&["inspect", "m", "--features"]).stdout.contains(&name), "but not there");
    dir.ok(&args("fit d.parquet -o m --quiet --columns c,名"));
    let page = dir.ok(&["inspect", "m"]).stdout;
    let rows: Vec<&str> = page.lines().skip_while(|l| !l.contains("scree")).take(2).collect();
    let until = |line: &str, what: &str| line.find(what).map(|at| line[..at].chars().count());
    assert_eq!(until(rows[0], "scree"), until(rows[1], "█"), "{page}");
}
