//! `scan --by` of as many groups as rows: the work is that of the groups, and a signal among tens
//! of thousands of staged files leaves nothing that is not told.

use crate::faults::{seen, strike, until_caught};
use crate::memory::usage_of;
use crate::workdir::{Workdir, doubles};
use arrow_array::Int64Array;
use std::process::Stdio;
use std::sync::Arc;

const GROUPED: [&str; 6] = ["--by", "g", "--memory", "100MB", "-o", "out"];

/// A file of this many rows, each a group of its own.
fn write(dir: &Workdir, name: &str, n: usize) {
    let x = |j: usize| doubles((0..n).map(|i| ((i * 37 + j * 101) % 997) as f64).collect());
    let groups = Int64Array::from_iter_values(0..n as i64);
    let columns =
        vec![("x0".into(), x(0)), ("x1".into(), x(1)), ("g".into(), Arc::new(groups) as _)];
    dir.table(name, columns, n);
}

/// Seconds of computing, without what the file system takes: that depends on what others do with it.
fn seconds(dir: &Workdir, data: &str) -> f64 {
    let (succeeded, used) =
        usage_of(dir, &[&["scan", data, "--quiet"], &GROUPED[..]].concat(), None);
    assert!(succeeded);
    std::fs::remove_dir_all(dir.path("out")).unwrap();
    used.ru_utime.tv_sec as f64 + used.ru_utime.tv_usec as f64 * 1e-6
}

#[test]
#[ignore = "slow: make test-slow"]
fn eight_times_the_groups_are_about_eight_times_the_work() {
    let dir = Workdir::new();
    write(&dir, "few", 10_000);
    write(&dir, "many", 80_000);
    let (few, many) = (seconds(&dir, "few"), seconds(&dir, "many"));
    println!("10,000 groups {few:.2} s, 80,000 groups {many:.2} s");
    // Sixty-four times if each group had to do with all others.
    assert!(many < 20.0 * few, "10,000 groups take {few} s, 80,000 take {many} s");
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_signal_among_many_groups_leaves_what_it_says() {
    let dir = Workdir::new();
    write(&dir, "d", 60_000);
    let staged = || {
        dir.list().into_iter().find(|name| name.contains("eigenstream-") && !name.ends_with("lock"))
    };
    let files = |stage: &str| std::fs::read_dir(dir.path(stage)).map_or(0, Iterator::count);
    for (signal, among) in [(libc::SIGINT, 100), (libc::SIGTERM, 20_000), (libc::SIGTERM, 50_000)] {
        until_caught("scan", || {
            let _ = std::fs::remove_dir_all(dir.path("out"));
            let args = [&["scan", "d", "--quiet"], &GROUPED[..]].concat();
            let mut child =
                dir.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            if seen(&mut child, || staged().is_some_and(|stage| files(&stage) >= among)) {
                strike(&child, signal);
            }
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            if output.status.success() || said.contains("out is written") {
                return None;
            }
            assert_eq!(output.status.code(), Some(128 + signal), "{said}");
            assert!(said.starts_with("scan: stopped; nothing was written"), "{said}");
            match staged() {
                None => assert_eq!(said, "scan: stopped; nothing was written\n"),
                Some(stage) => assert!(said.contains(&stage), "{stage} is left: {said}"),
            }
            Some(())
        });
    }
    dir.ok(&[&["scan", "d", "--quiet"], &GROUPED[..]].concat());
    assert_eq!(dir.list(), ["d", "out"], "the next run removes what was left");
    assert_eq!(files("out"), 60_000);
}
