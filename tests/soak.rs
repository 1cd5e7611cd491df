//! Load (`make soak`): many thousands of small files and 10,000 row groups, with bounded file
//! handles and flat memory.

use crate::memory::peak_of;
use crate::workdir::Workdir;

/// A few hundred where tests run all the time.
fn scale() -> usize {
    if std::env::var_os("EIGENSTREAM_SOAK").is_some() { 10 } else { 1 }
}

/// Runs under a limit on open files.
fn with_handles(dir: &Workdir, handles: usize, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit -n {handles} && exec \"$@\"");
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_eigenstream")])
        .args(args)
        .current_dir(dir.path("."));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
#[ignore = "slow: make test-slow"]
fn many_files_take_few_handles_and_flat_memory() {
    let dir = Workdir::new();
    let files = 500 * scale();
    let generate = |files: usize, to: &str| {
        let (rows, files) = ((files * 20).to_string(), files.to_string());
        dir.ok(&[
            "generate",
            "labels",
            "--rows",
            &rows,
            "--columns",
            "5",
            "--files",
            &files,
            "-o",
            to,
            "--quiet",
        ]);
    };
    generate(files, "many");
    generate(files / 10, "few");
    let scan = |data: &'static str| {
        ["scan", data, "--columns", "x*", "--label", "label_string", "-o", "s", "--quiet"]
    };
    let (few, many) = (peak_of(&dir, &scan("few"), true), peak_of(&dir, &scan("many"), true));
    // What a file leaves behind: its path, its sizes and its entry in the ledger, which is written
    // as JSON.
    let each = (many.saturating_sub(few)) / (files - files / 10) as u64;
    println!(
        "scan of {files} files: {} kB, of {} files {} kB; {each} bytes a file",
        many / 1024,
        files / 10,
        few / 1024
    );
    assert!(each < 8_192, "{each} bytes a file");
    let free = std::fs::read(dir.path("s")).unwrap();
    std::fs::remove_file(dir.path("s")).unwrap();
    let (code, said) = with_handles(&dir, 40, &scan("many"));
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(dir.path("s")).unwrap() == free, "few handles, the same state");
    dir.ok(&["solve", "s", "-k", "3", "-o", "a", "--quiet"]);
    dir.ok(&[
        "fit",
        "many",
        "--columns",
        "x*",
        "--label",
        "label_string",
        "-k",
        "3",
        "-o",
        "b",
        "--quiet",
    ]);
    assert!(std::fs::read(dir.path("a")).unwrap() == std::fs::read(dir.path("b")).unwrap());
    let (code, said) =
        with_handles(&dir, 60, &["transform", "a", "many", "-o", "scores", "--quiet"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::read_dir(dir.path("scores")).unwrap().count(), files);
}

#[test]
#[ignore = "slow: make test-slow"]
fn ten_thousand_row_groups_are_no_more_than_ten() {
    let dir = Workdir::new();
    let groups = 1_000 * scale();
    let generate = |groups: usize, to: &str| {
        let rows = (groups * 100).to_string();
        dir.ok(&[
            "generate",
            "smallgroups",
            "--rows",
            &rows,
            "--columns",
            "8",
            "--files",
            "1",
            "-o",
            to,
            "--quiet",
        ]);
    };
    generate(groups, "many");
    generate(groups / 10, "few");
    let scan = |data: &'static str| ["scan", data, "--exclude", "id", "-o", "s", "--quiet"];
    let (few, many) = (peak_of(&dir, &scan("few"), true), peak_of(&dir, &scan("many"), true));
    // The parsed footer knows every row group.
    let each = (many.saturating_sub(few)) / (groups - groups / 10) as u64;
    println!(
        "scan of {groups} row groups: {} kB, of {} {} kB; {each} bytes a group",
        many / 1024,
        groups / 10,
        few / 1024
    );
    assert!(each < 32_768, "{each} bytes a row group");
}
