//! What is read and what is written: which names, which formats, which places.

use crate::workdir::{Workdir, doubles};

fn with_model() -> Workdir {
    let dir = Workdir::new();
    let wave = |step: f64| doubles((0..50).map(|i| (f64::from(i) * step).sin()).collect());
    for (name, step) in [("d/a.parquet", 0.7), ("d/_b.parquet", 0.9), ("d/.c.parquet", 1.1)] {
        dir.table(name, vec![("x".into(), wave(step)), ("y".into(), wave(2.0 * step))], 50);
    }
    dir.ok(&["fit", "d", "-o", "m"]);
    dir
}

#[test]
fn a_glob_and_a_directory_read_the_same_files() {
    let dir = with_model();
    let rows = |data: &str| dir.json(&["fit", data, "-o", "g"])["n_rows"].as_u64();
    assert_eq!((rows("d"), rows("d/*"), rows("d/*.parquet")), (Some(50), Some(50), Some(50)));
    assert_eq!((rows("d/_*"), rows("d/.c.parquet")), (Some(50), Some(50)));
    std::fs::remove_file(dir.path("d/a.parquet")).unwrap();
    let none = "d/*: no file matches this glob; names that start with . or _ are passed over";
    assert_eq!(dir.fails(1, &["fit", "d/*", "-o", "g"]), format!("fit: {none}"));
}

#[test]
fn places_and_formats_that_are_not_read_are_told_with_the_way() {
    let dir = with_model();
    let fails = |code, data: &str| dir.fails(code, &["fit", data, "-o", "g"]);
    assert_eq!(
        fails(2, "s3://bucket/a.parquet"),
        "fit: s3://bucket/a.parquet: s3:// is not read, only files of this machine are; copy it to \
         one first, or mount what it is in"
    );
    assert!(fails(2, "https://example.org/a.parquet").contains("https:// is not read"));
    assert_eq!(
        fails(2, "-"),
        "fit: standard input is not read: Parquet is read from its end, and more than once; write \
         it to a file first"
    );
    std::fs::write(dir.path("x.csv"), "a,b\n1,2\n3,4\n5,6\n").unwrap();
    assert_eq!(
        fails(1, "x.csv"),
        "fit: x.csv: is CSV, and only Parquet is read; convert it first, in DuckDB: COPY (FROM \
         'x.csv') TO 'x.parquet'"
    );
    std::fs::write(dir.path("x.orc"), "ORC").unwrap();
    assert!(fails(1, "x.orc").ends_with("is ORC, and only Parquet is read; convert it first"));
    // What is Parquet is read, whatever its name.
    std::fs::copy(dir.path("d/a.parquet"), dir.path("y.csv")).unwrap();
    dir.ok(&["fit", "y.csv", "-o", "g"]);
}

#[test]
fn outputs_that_promise_another_format_are_refused() {
    let dir = with_model();
    let transform = |out: &str| dir.fails(2, &["transform", "m", "d", "-o", out]);
    assert_eq!(
        transform("x.csv"),
        "transform: x.csv: CSV is not written, Parquet is; name a file that ends in .parquet, or a \
         directory"
    );
    assert!(transform("x.json.gz").contains("JSON is not written"));
    assert!(transform("-").contains("standard output takes no Parquet files"));
    assert!(transform("s3://bucket/x").contains("s3:// is not written to"));
    let reconstruct = dir.fails(2, &["reconstruct", "m", "d", "-o", "x.csv"]);
    assert!(reconstruct.contains("CSV is not written"), "{reconstruct}");
    let scores =
        ["fit", "d", "--score-by", "y", "--keep-features", "1", "--scores-out", "s.csv", "-o", "g"];
    assert!(dir.fails(2, &scores).contains("s.csv: CSV is not written"));
    assert_eq!(dir.list(), ["d", "m"]);
}

#[test]
fn directories_of_output_are_made() {
    let dir = with_model();
    let run = dir.ok(&["transform", "m", "d", "-o", "new/deep/scores"]);
    assert!(run.stderr.contains("new/deep/scores: 50 rows in 1 file"), "{}", run.stderr);
    assert_eq!(dir.read("new/deep/scores/a.parquet").num_rows(), 50);
    dir.ok(&["generate", "lowrank", "--rows", "100", "-o", "more/data"]);
    // One file is not a directory of output.
    let refused = dir.fails(1, &["transform", "m", "d", "-o", "no/such/x.parquet"]);
    assert!(refused.contains("its directory no/such does not exist; create it first"), "{refused}");
    // Inside the input it would be read again, however deep.
    let refused = dir.fails(2, &["transform", "m", "d", "-o", "d/new/deep/scores"]);
    assert!(refused.contains("is inside the input directory d"), "{refused}");
    assert_eq!(dir.list(), ["d", "m", "more", "new"]);
}
