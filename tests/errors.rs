//! Bad input: one sentence with file, column and row where known, and what to do. No output file,
//! no panic.

use crate::theory::rows;
use crate::workdir::{Workdir, doubles};
use arrow_array::*;
use ndarray::Array2;
use std::sync::Arc;

/// A directory with d.parquet (50 × 3) and its model m.
fn with_model() -> Workdir {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(50, 3), 20);
    dir.ok(&["fit", "d.parquet", "-o", "m"]);
    dir
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Workdir {
    let dir = Workdir::new();
    dir.table("d.parquet", columns.into_iter().map(|(n, a)| (n.to_string(), a)).collect(), 3);
    dir
}

const FIT: [&str; 4] = ["fit", "d.parquet", "-o", "m"];

#[test]
fn files_that_are_not_there_or_not_parquet() {
    let dir = Workdir::new();
    assert_eq!(
        dir.fails(1, &["fit", "gone.parquet", "-o", "m"]),
        "fit: cannot open gone.parquet: No such file or directory (os error 2)"
    );
    assert_eq!(
        dir.fails(1, &["fit", "*.parquet", "-o", "m"]),
        "fit: *.parquet: no file matches this glob"
    );
    std::fs::create_dir(dir.path("empty")).unwrap();
    assert_eq!(
        dir.fails(1, &["fit", "empty", "-o", "m"]),
        "fit: empty: no .parquet file in this directory or below it"
    );
    std::fs::write(dir.path("t.parquet"), "a,b\n1,2\n3,4\n5,6\n").unwrap();
    let csv = dir.fails(1, &["fit", "t.parquet", "-o", "m"]);
    assert_eq!(
        csv,
        "fit: t.parquet: is not a Parquet file (it does not end with PAR1); it may be cut short or of another format"
    );
    std::fs::write(dir.path("t.parquet"), "PAR1").unwrap();
    assert!(dir.fails(1, &["fit", "t.parquet", "-o", "m"]).contains("has only 4 bytes"));
    assert_eq!(dir.list(), ["empty", "t.parquet"]);
}

#[test]
fn truncated_and_damaged_files() {
    let dir = with_model();
    let bytes = std::fs::read(dir.path("d.parquet")).unwrap();
    std::fs::write(dir.path("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(
        dir.fails(1, &["fit", "cut.parquet", "-o", "new"])
            .contains("cut.parquet: is not a Parquet file")
    );
    let mut damaged = bytes.clone();
    damaged[4..300].fill(0xAA);
    std::fs::write(dir.path("bad.parquet"), &damaged).unwrap();
    let said = dir.fails(1, &["fit", "bad.parquet", "-o", "new"]);
    assert!(
        said.starts_with(
            "fit: bad.parquet: row group 0: cannot be decoded, the file is damaged or cut short"
        ),
        "{said}"
    );
    let said = dir.fails(1, &["transform", "m", "bad.parquet", "-o", "new"]);
    assert!(said.starts_with("transform: bad.parquet: row group 0: cannot be decoded"), "{said}");
    assert_eq!(dir.list(), ["bad.parquet", "cut.parquet", "d.parquet", "m"]);
}

#[test]
fn too_few_rows_or_columns() {
    for (n, words) in [
        (0, "d.parquet: there are no rows to fit"),
        (1, "d.parquet: 1 row left, but a variance needs at least 2"),
    ] {
        let dir = Workdir::new();
        dir.matrix("d.parquet", &rows(n, 3), 20);
        assert_eq!(dir.fails(1, &FIT), format!("fit: {words}"));
        assert_eq!(dir.list(), ["d.parquet"]);
    }
    let dir = table(vec![("s", Arc::new(StringArray::from(vec!["a", "b"])))]);
    assert_eq!(
        dir.fails(1, &FIT),
        "fit: d.parquet: no numeric column to work on; columns are s (Utf8)"
    );
    let dir = table(vec![("x", doubles(vec![4.0; 9])), ("y", doubles(vec![1.5; 9]))]);
    assert!(dir.fails(1, &FIT).contains("every feature is constant"));
    assert!(
        dir.fails(1, &["fit", "d.parquet", "--standardize", "-o", "m"])
            .contains("every feature is constant")
    );
    assert_eq!(dir.list(), ["d.parquet"]);
}

#[test]
fn wrong_numbers_of_components() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(50, 3), 20);
    for (k, words) in [
        ("0", "0 components are none at all"),
        ("1.5", "is neither a number"),
        ("-2", "'-2' is neither a number of components, a ratio between 0 and 1"),
        ("lots", "mle, elbow nor all"),
    ] {
        let run = dir.run(&["fit", "d.parquet", &format!("-k={k}"), "-o", "m"]);
        assert_eq!(run.code, Some(2), "{k}");
        assert!(run.stderr.contains(words), "{k}: {}", run.stderr);
        assert_eq!(dir.list(), ["d.parquet"]);
    }
    let run = dir.run(&["fit", "d.parquet", "-k", "-2", "-o", "m"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("unexpected argument '-2'"), "{}", run.stderr);
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(4, 5), 20);
    let said = dir.fails(2, &["fit", "d.parquet", "-k", "mle", "-o", "m"]);
    assert_eq!(
        said,
        "fit: -k mle cannot choose: Minka's rule needs more rows than features (4 rows, 5 features); give a number of components"
    );
}

#[test]
fn numbers_that_are_none() {
    let holes = |hole: f64| {
        let mut x = vec![1.0, 2.0, 4.0, 8.0, 16.0];
        x[3] = hole;
        x
    };
    let dir =
        table(vec![("a", doubles(vec![3.0, 1.0, 4.0, 1.0, 5.0])), ("b", doubles(holes(f64::NAN)))]);
    let said = dir.fails(1, &FIT);
    assert_eq!(
        said,
        "fit: d.parquet: column 'b', row 3 (counted from 0): is null or NaN; choose --nulls drop or --nulls mean, or --exclude the column"
    );
    for policy in ["error", "drop", "mean"] {
        let dir = table(vec![
            ("a", doubles(vec![3.0, 1.0, 4.0, 1.0, 5.0])),
            ("b", doubles(holes(f64::NEG_INFINITY))),
        ]);
        let said = dir.fails(1, &["fit", "d.parquet", "--nulls", policy, "-o", "m"]);
        assert!(
            said.starts_with("fit: d.parquet: column 'b', row 3 (counted from 0): is infinite"),
            "{said}"
        );
        assert_eq!(dir.list(), ["d.parquet"]);
    }
    let none: ArrayRef = Arc::new(Float64Array::from(vec![None; 5]));
    let dir = table(vec![("a", doubles(vec![3.0, 1.0, 4.0, 1.0, 5.0])), ("gone", none)]);
    let said = dir.fails(1, &["fit", "d.parquet", "--nulls", "mean", "-o", "m"]);
    assert_eq!(
        said,
        "fit: d.parquet: column 'gone' is null in every row and has no mean; leave it out with --exclude"
    );
    let said = dir.fails(1, &["fit", "d.parquet", "--nulls", "drop", "-o", "m"]);
    assert_eq!(
        said,
        "fit: d.parquet: 0 rows left (5 rows dropped for nulls, 5 of them in column 'gone'), but a variance needs at least 2"
    );
    let dir =
        table(vec![("a", doubles(vec![1e200, -1e200, 3.0])), ("b", doubles(vec![1.0, 2.0, 4.0]))]);
    assert!(
        dir.fails(1, &FIT).contains("column 'a' has values so large that their squares overflow")
    );
    let dir = table(vec![
        ("a", doubles(vec![1.0, -3.0, 3.0])),
        ("b", doubles(vec![1e-160, 2e-160, 4e-160])),
    ]);
    assert!(
        dir.fails(1, &FIT)
            .contains("column 'b' has values so small that their squares lose digits")
    );
}

#[test]
fn lists_of_varying_length() {
    let list = ListArray::from_iter_primitive::<arrow_array::types::Float64Type, _, _>(vec![
        Some(vec![Some(1.0), Some(2.0)]),
        Some(vec![Some(3.0), Some(4.0)]),
        Some(vec![Some(3.0)]),
        Some(vec![Some(3.0), Some(5.0), Some(6.0)]),
    ]);
    let dir = table(vec![("v", Arc::new(list))]);
    let said = dir.fails(1, &FIT);
    assert!(
        said.starts_with("fit: d.parquet: column 'v', row 2 (counted from 0): has 1 elements where 2 are expected"),
        "{said}"
    );
}

#[test]
fn files_whose_schemas_differ() {
    let dir = Workdir::new();
    let x = rows(20, 3);
    dir.matrix("d/a.parquet", &x, 10);
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 20]));
    let column = |j: usize| (format!("x{j}"), doubles(x.column(j).to_vec()));
    dir.table("d/b.parquet", vec![column(0), ("x1".into(), flags), column(2)], 10);
    let said = dir.fails(1, &["fit", "d", "-o", "m"]);
    assert_eq!(
        said,
        "fit: d/b.parquet: column 'x1': is Boolean here but Float64 in d/a.parquet; give it one type, or leave it out"
    );
    dir.ok(&["fit", "d", "--exclude", "x1", "-o", "m"]);
    dir.table("d/b.parquet", vec![column(0), column(2)], 10);
    assert_eq!(
        dir.fails(1, &["fit", "d", "-o", "n"]),
        "fit: d/b.parquet: column 'x1': is missing here but is in d/a.parquet; add it, or leave it out"
    );
    dir.table(
        "d/b.parquet",
        vec![column(0), column(1), column(2), ("x9".into(), doubles(vec![0.0; 20]))],
        10,
    );
    let said = dir.fails(1, &["fit", "d", "-o", "n"]);
    assert!(
        said.starts_with("fit: d/b.parquet: column 'x9': is not in d/a.parquet; choose the features with --columns"),
        "{said}"
    );
    dir.ok(&["fit", "d", "--columns", "x?", "-o", "m"]);
    assert_eq!(dir.list(), ["d", "m"]);
}

#[test]
fn columns_that_are_not_there() {
    let dir = Workdir::new();
    let column = |name: &str| (name.to_string(), doubles(vec![1.0, 2.0, 4.0]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    dir.table("d.parquet", vec![column("height"), column("width"), ("name".into(), text)], 10);
    let fails = |args: &[&str]| dir.fails(2, &FIT.iter().chain(args).copied().collect::<Vec<_>>());
    assert_eq!(
        fails(&["--columns", "heigth,width"]),
        "fit: d.parquet: no column 'heigth'; did you mean 'height'?"
    );
    assert_eq!(
        fails(&["--exclude", "colour"]),
        "fit: d.parquet: no column 'colour'; columns are height, width, name"
    );
    assert_eq!(
        fails(&["--weight", "widht"]),
        "fit: d.parquet: no column 'widht'; did you mean 'width'?"
    );
    assert!(
        fails(&["--columns", "z*"])
            .starts_with("fit: no column matches 'z*'; columns are height (Float64)")
    );
    assert!(
        fails(&["--weight", "name"])
            .contains("--weight 'name' is Utf8; weights are one number per row")
    );
    let said = dir.fails(1, &["fit", "d.parquet", "--columns", "height,name", "-o", "m"]);
    assert_eq!(said, "fit: d.parquet: column 'name': is Utf8, not numeric");
    dir.ok(&FIT);
    assert_eq!(
        dir.fails(2, &["transform", "m", "d.parquet", "--keep", "nmae", "-o", "s"]),
        "transform: d.parquet: no column 'nmae'; did you mean 'name'?"
    );
    assert_eq!(dir.list(), ["d.parquet", "m"]);
}

#[test]
fn weights_that_are_none() {
    for (weight, words) in [(-1.0, "is -1"), (f64::NAN, "is NaN"), (f64::INFINITY, "is inf")] {
        let dir = table(vec![
            ("a", doubles(vec![1.0, 2.0, 4.0, 9.0])),
            ("w", doubles(vec![1.0, 0.0, weight, 2.0])),
        ]);
        let said = dir.fails(1, &["fit", "d.parquet", "--weight", "w", "-o", "m"]);
        assert_eq!(
            said,
            format!(
                "fit: d.parquet: column 'w', row 2 (counted from 0): {words}; a weight must be a number ≥ 0"
            )
        );
    }
    let dir = table(vec![("a", doubles(vec![1.0, 2.0, 4.0])), ("w", doubles(vec![0.2, 0.3, 0.5]))]);
    assert!(
        dir.fails(1, &["fit", "d.parquet", "--weight", "w", "-o", "m"])
            .contains("must sum to more than 1; scale them")
    );
}

#[test]
fn models_that_are_none() {
    let dir = with_model();
    let fails = |model: &str| dir.fails(1, &["transform", model, "d.parquet", "-o", "s.parquet"]);
    assert_eq!(
        fails("gone"),
        "transform: cannot open gone: No such file or directory (os error 2)"
    );
    assert!(fails("d.parquet").starts_with("transform: d.parquet: is not an eigenstream model"));
    let bytes = std::fs::read(dir.path("m")).unwrap();
    std::fs::write(dir.path("cut"), &bytes[..bytes.len() - 9]).unwrap();
    assert!(
        fails("cut").starts_with("transform: cut: is not an eigenstream model"),
        "{}",
        fails("cut")
    );
    let newer = String::from_utf8_lossy(&bytes[8..]).find("\\\"format\\\":3").unwrap() + 8 + 11;
    let mut changed = bytes.clone();
    changed[newer] = b'9';
    std::fs::write(dir.path("newer"), changed).unwrap();
    assert_eq!(
        fails("newer"),
        format!(
            "transform: newer: has format 9, newer than the 3 that eigenstream {} reads; use a newer eigenstream",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert!(dir.fails(1, &["inspect", "cut"]).starts_with("inspect: cut: is not"));
    assert_eq!(dir.list(), ["cut", "d.parquet", "m", "newer"]);
}

#[test]
fn data_that_does_not_fit_the_model() {
    let dir = with_model();
    let x = rows(10, 3);
    let column = |j: usize| (format!("x{j}"), doubles(x.column(j).to_vec()));
    dir.table("less.parquet", vec![column(0), column(2)], 10);
    let said = dir.fails(1, &["transform", "m", "less.parquet", "-o", "s"]);
    assert_eq!(said, "transform: less.parquet: has no column 'x1', which the model needs");
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1"; 10]));
    dir.table("other.parquet", vec![column(0), ("x1".into(), text), column(2)], 10);
    let said = dir.fails(1, &["transform", "m", "other.parquet", "-o", "s"]);
    assert_eq!(
        said,
        "transform: other.parquet: column 'x1': is Utf8 here but was Float64 when the model was fitted; cast it, or fit again"
    );
    let mut holes = x.clone();
    holes[[4, 2]] = f64::NAN;
    dir.matrix("holes.parquet", &holes, 10);
    let said = dir.fails(1, &["transform", "m", "holes.parquet", "-o", "s.parquet"]);
    assert!(
        said.starts_with("transform: holes.parquet: column 'x2', row 4 (counted from 0): is null or NaN; the model was fitted"),
        "{said}"
    );
    dir.ok(&["transform", "m", "d.parquet", "-k", "2", "-o", "two.parquet"]);
    let said = dir.fails(1, &["reconstruct", "m", "two.parquet", "--from-scores", "-o", "s"]);
    assert_eq!(
        said,
        "reconstruct: two.parquet: column 'pc3': is not here; give -k 2 to use the 2 scores that are"
    );
    std::fs::remove_file(dir.path("two.parquet")).unwrap();
    let said = dir.fails(1, &["reconstruct", "m", "d.parquet", "--from-scores", "-o", "s"]);
    assert!(
        said.starts_with("reconstruct: d.parquet: column 'pc1': is not here; --from-scores needs the score columns"),
        "{said}"
    );
    assert_eq!(dir.list(), ["d.parquet", "holes.parquet", "less.parquet", "m", "other.parquet"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let dir = with_model();
    assert!(
        dir.fails(1, &["fit", "d.parquet", "-o", "no/such/m"])
            .contains("its directory no/such does not exist; create it first")
    );
    std::fs::create_dir(dir.path("sub")).unwrap();
    assert_eq!(
        dir.fails(2, &["fit", "d.parquet", "-o", "sub"]),
        "fit: sub is a directory; name a file"
    );
    assert!(
        dir.fails(2, &["transform", "m", "d.parquet", "-o", "d.parquet"])
            .contains("would replace the input")
    );
    std::fs::create_dir(dir.path("in")).unwrap();
    std::fs::copy(dir.path("d.parquet"), dir.path("in/d.parquet")).unwrap();
    assert!(
        dir.fails(2, &["transform", "m", "in", "-o", "in"]).contains("would replace the input")
    );
    assert!(
        dir.fails(2, &["transform", "m", "in", "-o", "in/s.parquet"])
            .contains("is inside the input directory in")
    );
    std::fs::write(dir.path("sub/notes.txt"), "mine").unwrap();
    assert!(
        dir.fails(1, &["transform", "m", "d.parquet", "-o", "sub"])
            .contains("notes.txt: is in the output directory")
    );
    let said =
        dir.fails(2, &["transform", "m", "d.parquet", "--keep", "x1", "--prefix", "x", "-o", "s"]);
    assert!(said.starts_with("transform: the output would have two columns 'x1'"), "{said}");
    assert!(
        dir.fails(2, &["transform", "m", "d.parquet", "--keep", "x1,x1", "-o", "s"])
            .contains("two columns 'x1'")
    );
    // A column of the input is not replaced without a word.
    dir.ok(&["transform", "m", "d.parquet", "--keep-all", "-o", "once.parquet"]);
    let said = dir.fails(2, &["transform", "m", "once.parquet", "--keep-all", "-o", "s"]);
    assert!(said.contains("two columns 'pc1'"), "{said}");
    std::fs::remove_file(dir.path("once.parquet")).unwrap();
    let list = ["--diagnostics", "--layout", "list", "--prefix", "hotelling_t2"];
    let args: Vec<&str> =
        ["transform", "m", "d.parquet", "-o", "s"].iter().chain(&list).copied().collect();
    assert!(dir.fails(2, &args).contains("two columns 'hotelling_t2'"));
    assert_eq!(
        dir.fails(2, &["fit", "d.parquet", "-o", "d.parquet"]),
        "fit: the output would replace the input d.parquet; choose another -o"
    );
    assert!(
        dir.fails(2, &["fit", "d.parquet", "-o", "/dev/full"])
            .contains("/dev/full is a device or pipe")
    );
    assert!(
        dir.fails(1, &["fit", "d.parquet", "-o", "m/x"])
            .contains("its directory m is not a directory")
    );
    assert_eq!(dir.list(), ["d.parquet", "in", "m", "sub"]);
}

#[test]
fn a_budget_that_is_too_small_says_what_would_fit() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &Array2::from_shape_fn((10, 600), |(i, j)| (i * j) as f64), 20);
    for command in [vec!["plan", "d.parquet"], vec!["fit", "d.parquet", "-o", "m"]] {
        let args: Vec<&str> = command.iter().copied().chain(["--memory", "27MB"]).collect();
        let said = dir.fails(1, &args);
        assert!(
            said.contains("budget is 27.0 MB; allow --memory ")
                && said.contains("or choose at most "),
            "{said}"
        );
        let allowed =
            said.split("allow --memory ").nth(1).unwrap().split(',').next().unwrap().to_string();
        dir.ok(&["plan", "d.parquet", "--memory", &allowed]);
        let most: usize =
            said.split("at most ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let columns = |n: usize| (0..n).map(|j| format!("x{j}")).collect::<Vec<_>>().join(",");
        dir.ok(&["plan", "d.parquet", "--memory", "27MB", "--columns", &columns(most)]);
        dir.fails(1, &["plan", "d.parquet", "--memory", "27MB", "--columns", &columns(most + 30)]);
    }
    let run = dir.run(&["fit", "d.parquet", "--memory", "lots", "-o", "m"]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.contains("'lots' is no size; write it like 500MB, 2GB or 1GiB"),
        "{}",
        run.stderr
    );
    assert_eq!(dir.list(), ["d.parquet"]);
}

#[test]
fn options_that_do_not_go_together() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(20, 2), 20);
    let said = dir.fails(2, &["fit", "d.parquet", "--precision", "mixed", "-o", "m"]);
    assert_eq!(said, "fit: --precision mixed needs f32 features, but column 'x0' is Float64");
    let said = dir.fails(2, &["fit", "d.parquet", "d.parquet", "-o", "m"]);
    assert_eq!(said, "fit: d.parquet is given twice; its rows would count double");
}

#[test]
fn a_form_that_does_not_fit_points_to_one_that_does() {
    let dir = Workdir::new();
    dir.matrix("tall.parquet", &rows(6000, 3), 6000);
    dir.matrix("wide.parquet", &rows(8, 2500), 8);
    for command in [vec!["plan"], vec!["fit", "-o", "m"]] {
        let said = |data: &str, form: &str| {
            let args: Vec<&str> = command
                .iter()
                .copied()
                .chain([data, "--form", form, "--memory", "120MB"])
                .collect();
            dir.fails(1, &args)
        };
        let tall = said("tall.parquet", "dual");
        assert!(tall.contains("6000 × 6000 matrix, vectors and work area, 417.4 MB) needs 467.7 MB, budget is 120.0 MB"), "{tall}");
        assert!(tall.contains("; --form primal takes "), "{tall}");
        let wide = said("wide.parquet", "primal");
        assert!(wide.contains("2500 × 2500 matrix, vectors and work area, 73.1 MB)"), "{wide}");
        assert!(wide.contains("; --form dual takes "), "{wide}");
    }
    let said = dir.fails(
        1,
        &["fit", "wide.parquet", "--form", "primal", "-k", "all", "--memory", "26MB", "-o", "m"],
    );
    assert!(said.contains("allow --memory ") && said.contains("or give -k as a number"), "{said}");
    assert_eq!(dir.list(), ["tall.parquet", "wide.parquet"]);
}

#[test]
fn tolerances_and_passes_that_are_none() {
    let dir = Workdir::new();
    dir.matrix("d.parquet", &rows(20, 3), 20);
    for (option, value, words) in [
        ("--tolerance", "0", "a tolerance is at least 1e-12 and less than 1"),
        ("--tolerance", "1e-20", "a tolerance is at least 1e-12 and less than 1"),
        ("--tolerance", "NaN", "a tolerance is at least 1e-12 and less than 1"),
        ("--max-passes", "0", "1..=10000"),
        ("--form", "both", "[possible values: auto, primal, dual, randomized, exact, direct]"),
    ] {
        let run = dir.run(&["fit", "d.parquet", option, value, "-o", "m"]);
        assert_eq!(run.code, Some(2), "{option} {value}");
        assert!(run.stderr.contains(words), "{option} {value}: {}", run.stderr);
    }
}
