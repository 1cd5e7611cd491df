//! Two writers of one thing, and kills and signals in the middle of many files: nothing is lost,
//! nothing is mixed, nothing is left that is not told.

use crate::faults::{seen, strike, until_caught};
use crate::workdir::Workdir;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Small files `d/part-000.parquet` on.
fn with_files(files: usize, rows_each: usize) -> Workdir {
    let dir = Workdir::new();
    let (rows, files) = ((files * rows_each).to_string(), files.to_string());
    let shape = ["--rows", &rows, "--columns", "4", "--files", &files];
    dir.ok(&[&["generate", "lowrank", "-o", "d", "--quiet"], &shape[..]].concat());
    dir
}

fn start(dir: &Workdir, words: &str) -> Child {
    let words: Vec<&str> = words.split(' ').collect();
    dir.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts all at once; all must succeed.
fn together(dir: &Workdir, commands: &[&str]) {
    let children: Vec<Child> = commands.iter().map(|words| start(dir, words)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn rows(dir: &Workdir, state: &str) -> u64 {
    dir.json(&["inspect", state])["tally"]["rows"].as_u64().unwrap()
}

/// What is in a directory, with the bytes of each file.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let bytes = |path| std::fs::read(path).unwrap();
    entries.map(|e| (e.file_name().into_string().unwrap(), bytes(e.path()))).collect()
}

#[test]
fn two_runs_that_add_to_one_state_add_both() {
    let dir = with_files(3, 500);
    let add =
        |i: usize| format!("fit d/part-00{i}.parquet --exclude id --state s -k 2 -o m{i} --quiet");
    for _ in 0..20 {
        let _ = std::fs::remove_file(dir.path("s"));
        together(&dir, &[&add(0), &add(1), &add(2)]);
        assert_eq!(rows(&dir, "s"), 1500);
    }
    assert!(!dir.list().iter().any(|name| name.starts_with('.')), "{:?}", dir.list());
}

#[test]
fn two_states_that_are_merged_into_one_are_both_in_it() {
    let dir = with_files(4, 500);
    for i in 0..4 {
        let (part, out) = (format!("d/part-00{i}.parquet"), format!("p{i}"));
        dir.ok(&["scan", &part, "--exclude", "id", "-o", &out, "--quiet"]);
    }
    dir.ok(&["merge", "p0", "p1", "-o", "both", "--quiet"]);
    for _ in 0..20 {
        std::fs::copy(dir.path("both"), dir.path("acc")).unwrap();
        let merges = ["merge acc p2 -o acc --quiet", "merge acc p3 -o acc --quiet"];
        together(&dir, &[merges[0], merges[1], "subtract acc p1 -o acc --quiet"]);
        assert_eq!(rows(&dir, "acc"), 1500);
    }
    assert!(!dir.list().iter().any(|name| name.starts_with('.')), "{:?}", dir.list());
}

#[test]
fn a_state_that_another_run_has_is_waited_for_or_not() {
    let dir = with_files(2, 500);
    dir.ok(&["scan", "d/part-000.parquet", "--exclude", "id", "-o", "s", "--quiet"]);
    dir.ok(&["scan", "d/part-001.parquet", "--exclude", "id", "-o", "p", "--quiet"]);
    let commands = [
        "fit d/part-001.parquet --exclude id --state s -o m",
        "merge s p -o s",
        "subtract s p -o s",
    ];
    for words in commands {
        let other = File::create(dir.path(".s.eigenstream-lock")).unwrap();
        other.lock().unwrap();
        let words: Vec<&str> = words.split(' ').collect();
        let said = dir.fails(1, &[&words[..], &["--no-wait"]].concat());
        let expected =
            "s: another run is changing it; run again after its end, or without --no-wait";
        assert_eq!(said, format!("{}: {expected}", words[0]));
        let mut waiting = start(&dir, &words.join(" "));
        std::thread::sleep(Duration::from_millis(300));
        assert!(waiting.try_wait().unwrap().is_none(), "it does not wait");
        drop(other);
        let output = waiting.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("waiting for another run that writes s\n").count(), 1, "{said}");
        if words[0] == "fit" {
            dir.ok(&["subtract", "s", "p", "-o", "s", "--quiet"]);
        }
    }
    assert!(!dir.list().iter().any(|name| name.starts_with('.')), "{:?}", dir.list());
}

#[test]
fn a_state_that_is_killed_while_it_is_changed_is_free_again() {
    let dir = with_files(2, 200);
    // What a kill leaves: the file, and nobody who has it.
    File::create(dir.path(".s.eigenstream-lock")).unwrap();
    dir.ok(&["fit", "d", "--exclude", "id", "--state", "s", "-o", "m", "--no-wait", "--quiet"]);
    assert_eq!(dir.list(), ["d", "m", "s"]);
}

#[test]
fn writers_of_one_model_do_not_fail_each_other() {
    let dir = with_files(1, 500);
    dir.ok(&["scan", "d", "--exclude", "id", "-o", "s", "--quiet"]);
    for _ in 0..15 {
        together(&dir, &["solve s -k 2 -o one --quiet"; 6]);
        assert_eq!(dir.list(), ["d", "one", "s"]);
    }
}

/// Scores of two models, of as many files, in directories `a` and `b`.
fn with_two_results(files: usize) -> Workdir {
    let dir = with_files(files, 20);
    for (model, components) in [("ma", "1"), ("mb", "2")] {
        dir.ok(&["fit", "d", "--exclude", "id", "-k", components, "-o", model, "--quiet"]);
    }
    dir.ok(&["transform", "ma", "d", "-o", "a", "--quiet"]);
    dir.ok(&["transform", "mb", "d", "-o", "b", "--quiet"]);
    dir
}

#[test]
#[ignore = "slow: make test-slow"]
fn two_models_into_one_directory_leave_one_of_them() {
    let dir = with_two_results(300);
    let (a, b) = (bytes(&dir.path("a")), bytes(&dir.path("b")));
    for round in 0..15 {
        if round % 3 == 0 {
            let _ = std::fs::remove_dir_all(dir.path("out"));
        }
        let transforms = ["transform ma d -o out --quiet", "transform mb d -o out --quiet"];
        together(&dir, &[transforms[0], transforms[1], transforms[0]]);
        let out = bytes(&dir.path("out"));
        assert!(out == a || out == b, "round {round}: a mixture");
        assert_eq!(dir.list(), ["a", "b", "d", "ma", "mb", "out"]);
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn kills_while_a_directory_is_replaced_leave_the_old_or_the_new() {
    let dir = with_two_results(400);
    let (a, b) = (bytes(&dir.path("a")), bytes(&dir.path("b")));
    let begun = Instant::now();
    dir.ok(&["transform", "ma", "d", "-o", "out", "--quiet"]);
    let takes = begun.elapsed().as_micros() as u64;
    let (mut killed, mut dice) = ([0; 2], 88_172_645_463_325_252u64);
    for round in 0..40 {
        let (new, model) = if round % 2 == 0 { (&b, "mb") } else { (&a, "ma") };
        let old = bytes(&dir.path("out"));
        let mut child = start(&dir, &format!("transform {model} d -o out --quiet"));
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        // At any moment; or as soon as something has changed.
        let first = || std::fs::read(dir.path("out/part-000.parquet")).ok();
        match round % 4 {
            0 | 1 => std::thread::sleep(Duration::from_micros(dice % takes)),
            _ => drop(seen(&mut child, || first().as_ref() != old.get("part-000.parquet"))),
        }
        let _ = child.kill();
        let done = child.wait().unwrap().success();
        let out = bytes(&dir.path("out"));
        assert!(out == old || out == *new, "round {round}: a mixture");
        killed[usize::from(out == *new)] += usize::from(!done);
        if out == old {
            dir.ok(&["transform", model, "d", "-o", "out", "--quiet"]);
            assert!(bytes(&dir.path("out")) == *new, "round {round}");
        }
    }
    println!("killed before the swap: {}, after it: {}", killed[0], killed[1]);
    dir.ok(&["transform", "ma", "d", "-o", "out", "--quiet"]);
    assert_eq!(dir.list(), ["a", "b", "d", "ma", "mb", "out"]);
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_signal_among_many_files_leaves_what_it_says() {
    let dir = with_files(400, 20);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m", "--quiet"]);
    let stages = || dir.list().into_iter().filter(|name| name.starts_with('.'));
    for round in 0..24u64 {
        let signal = [libc::SIGINT, libc::SIGTERM][round as usize % 2];
        until_caught("transform", || {
            let _ = std::fs::remove_dir_all(dir.path("out"));
            let mut child = start(&dir, "transform m d -o out --quiet");
            if seen(&mut child, || stages().next().is_some()) {
                std::thread::sleep(Duration::from_millis(round % 12 * 3));
                strike(&child, signal);
            }
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            let left: Vec<String> = stages().collect();
            if output.status.success() || said.contains("out is written") {
                assert!(left.is_empty(), "{said}{left:?}");
                return None;
            }
            assert_eq!(output.status.code(), Some(128 + signal), "{said}");
            let marks = |stage: &String| {
                let names = bytes(&dir.path(stage)).into_keys();
                names.filter(|name| name.starts_with(".done-")).count()
            };
            match left.first().map(marks) {
                None => assert_eq!(said, "transform: stopped; nothing was written\n"),
                Some(n) => {
                    let kept =
                        format!("transform: stopped; {n} of 400 files are complete and kept");
                    assert!(left.len() == 1 && said.starts_with(&kept), "{said}{left:?}");
                    std::fs::remove_dir_all(dir.path(&left[0])).unwrap();
                }
            }
            Some(())
        });
    }
}
