//! Signals, kills and full disks: the target is the old file, the new file, or absent, and nothing
//! stray stays.

use crate::skips::skipped;
use crate::survival::survived;
use crate::workdir::Workdir;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

fn with_data(rows: &str) -> Workdir {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "lowrank",
        "--rows",
        rows,
        "--columns",
        "30",
        "--files",
        "2",
        "--row-group",
        "5000",
        "-o",
        "d",
    ]);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m"]);
    dir
}

/// A signal to a child.
pub fn strike(child: &Child, signal: i32) {
    // SAFETY: a signal to our own child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Waits until something is seen while the child runs; false when the child was done before.
pub fn seen(child: &mut Child, there: impl Fn() -> bool) -> bool {
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if there() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Tries until a run was caught in the middle. A quick disk or a busy machine needs more tries, so
/// what ends them is a time that no number of honest misses takes.
pub fn until_caught<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut tries = 0;
    while tries < 20 || started.elapsed() < Duration::from_secs(180) {
        if let Some(caught) = attempt() {
            return caught;
        }
        tries += 1;
    }
    panic!("{what}: none of {tries} runs was caught in the middle");
}

/// Starts a transform and sends it a signal when its temporary file is there.
fn struck(dir: &Workdir, out: &str, signal: i32) -> ExitStatus {
    until_caught("transform", || {
        let mut child =
            dir.command(&["transform", "m", "d", "-o", out]).stderr(Stdio::null()).spawn().unwrap();
        if seen(&mut child, || dir.list().iter().any(|n| n.contains(".eigenstream-"))) {
            strike(&child, signal);
        }
        let status = child.wait().unwrap();
        if status.success() {
            remove(dir, out);
        }
        (!status.success()).then_some(status)
    })
}

fn remove(dir: &Workdir, out: &str) {
    std::fs::remove_dir_all(dir.path(out))
        .or_else(|_| std::fs::remove_file(dir.path(out)))
        .unwrap();
}

#[test]
#[ignore = "slow: make test-slow"]
fn interrupts_clean_up_and_exit_with_the_signal() {
    let dir = with_data("400000");
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        for out in ["s.parquet", "s"] {
            assert_eq!(struck(&dir, out, signal).code(), Some(code), "{out}");
            // Files that are complete are kept for the same command.
            let kept = |name: &String| out == "s" && name.contains(".eigenstream-r");
            let left: Vec<String> = dir.list().into_iter().filter(|name| !kept(name)).collect();
            assert_eq!(left, ["d", "m"], "{out}");
            dir.ok(&["transform", "m", "d", "-o", out, "--quiet"]);
            assert_eq!(dir.list(), ["d", "m", out]);
            remove(&dir, out);
        }
    }
}

/// Ends a run with a signal after a while; gives what it said last.
fn stopped(dir: &Workdir, words: &[&str], signal: i32, code: i32) -> String {
    until_caught(words[0], || {
        let mut child = dir.command(words).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        strike(&child, signal);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
        let caught = child.wait().unwrap().code() == Some(code);
        caught.then(|| said.lines().last().unwrap_or_default().to_string())
    })
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let dir = Workdir::new();
    dir.ok(&["generate", "labels", "--rows", "60000", "--columns", "4", "-o", "d", "--quiet"]);
    let words =
        ["hsic", "d", "--columns", "x*", "--label", "label_string", "--kernel", "rbf", "--quiet"];
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let said = stopped(&dir, &words, signal, code);
        assert_eq!(said, "hsic: stopped; nothing was written");
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn files_that_a_stopped_run_has_completed_are_kept_and_said() {
    let dir = Workdir::new();
    let rows = ["--rows", "2000000", "--columns", "16", "--files", "40", "-o", "d", "--quiet"];
    dir.ok(&[&["generate", "lowrank"], &rows[..]].concat());
    dir.ok(&["fit", "d", "-k", "8", "--exclude", "id", "-o", "m", "--quiet"]);
    let words = ["transform", "m", "d", "-o", "s", "--compression", "zstd"];
    let said = until_caught("transform", || {
        let _ = std::fs::remove_dir_all(dir.path("s"));
        let said = stopped(&dir, &words, libc::SIGINT, 130);
        said.contains("files are complete").then_some(said)
    });
    let end = " of 40 files are complete and kept, run the same command to go on";
    assert!(said.starts_with("transform: stopped; ") && said.ends_with(end), "{said}");
    dir.ok(&words);
    assert_eq!(dir.list(), ["d", "m", "s"]);
}

#[test]
#[ignore = "slow: make test-slow"]
fn what_a_killed_run_leaves_is_removed_by_the_next() {
    let dir = with_data("400000");
    for out in ["s.parquet", "s"] {
        assert_eq!(struck(&dir, out, libc::SIGKILL).signal(), Some(libc::SIGKILL));
        // Its directory, and its lock where it was about to make or to move that.
        assert!(dir.list().len() >= 3, "a stray is left by SIGKILL: {:?}", dir.list());
        dir.ok(&["transform", "m", "d", "-o", out, "--quiet"]);
        assert_eq!(dir.list(), ["d", "m", out]);
        remove(&dir, out);
    }
}

/// Kills a scan once it has left a checkpoint that is not the last.
pub fn checkpoint_of(dir: &Workdir, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    let after = |flag: &str| words[words.iter().position(|w| *w == flag).unwrap() + 1];
    let (name, out) = (after("--checkpoint"), after("-o"));
    until_caught("scan", || {
        let mut child = dir.command(&words).stderr(Stdio::null()).spawn().unwrap();
        if seen(&mut child, || dir.path(name).exists()) {
            strike(&child, libc::SIGKILL);
        }
        let killed = child.wait().unwrap().signal() == Some(libc::SIGKILL);
        let _ = std::fs::remove_file(dir.path(out));
        (killed && dir.path(name).exists()).then_some(())
    });
}

/// Every moment of every command that writes: the target is the old file, the new file, or absent,
/// and a rerun gives the bytes of a run that nobody disturbed.
#[test]
#[ignore = "slow: make test-slow"]
fn fifty_kills_lose_nothing() {
    let dir = with_data("150000");
    for i in 0..2 {
        dir.ok(&[
            "scan",
            &format!("d/part-00{i}.parquet"),
            "--exclude",
            "id",
            "-o",
            &format!("p{i}"),
            "--quiet",
        ]);
    }
    let commands = [
        "scan d --exclude id --checkpoint c --checkpoint-seconds 0 -o new",
        "fit d --exclude id --checkpoint c --checkpoint-seconds 0 -o new",
        "fit d --exclude id -o new",
        "merge p0 p1 -o new",
        "transform m d -o new.parquet",
        "transform m d -o new",
    ];
    let read = |name: &str| {
        let path = dir.path(name);
        let files: Vec<_> = match path.is_dir() {
            true => ["part-000.parquet", "part-001.parquet"].iter().map(|f| path.join(f)).collect(),
            false => vec![path],
        };
        files.iter().map(|f| std::fs::read(f).ok()).collect::<Vec<_>>()
    };
    let (mut kills, mut caught, mut dice) = (0, 0, 88_172_645_463_325_252u64);
    // A thousand with `make soak`.
    let rounds = if std::env::var_os("EIGENSTREAM_SOAK").is_some() { 167 } else { 9 };
    for words in commands {
        let words: Vec<&str> = words.split(' ').chain(["--quiet"]).collect();
        let out = words[words.iter().position(|w| *w == "-o").unwrap() + 1];
        let started = std::time::Instant::now();
        dir.ok(&words);
        let takes = started.elapsed().as_micros() as u64;
        let whole = read(out);
        for round in 0..rounds {
            // In turns over nothing and over an old target.
            if round % 2 == 0 {
                remove(&dir, out);
            }
            let before = dir.path(out).exists().then(|| read(out));
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let mut child = dir.command(&words).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(dice % (takes + 2_000)));
            strike(&child, libc::SIGKILL);
            let status = child.wait().unwrap();
            kills += 1;
            caught += usize::from(status.signal() == Some(libc::SIGKILL));
            let after = dir.path(out).exists().then(|| read(out));
            assert!(
                after.is_none() && before.is_none()
                    || after == before
                    || after.as_ref() == Some(&whole),
                "{words:?}"
            );
            dir.ok(&words);
            assert!(read(out) == whole, "{words:?}: the rerun gives other bytes");
            let strays: Vec<String> =
                dir.list().into_iter().filter(|n| n.contains(".eigenstream-")).collect();
            assert!(strays.is_empty(), "{words:?}: {strays:?}");
        }
        remove(&dir, out);
    }
    assert!(
        kills >= 50 && caught >= kills / 3,
        "{kills} kills, {caught} found a run in the middle"
    );
    survived("SIGKILL at a random moment of scan, fit, merge, transform", kills);
}

#[test]
#[ignore = "slow: make test-slow"]
fn a_killed_transform_goes_on_with_the_files_it_has() {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "lowrank",
        "--rows",
        "300000",
        "--columns",
        "20",
        "--files",
        "30",
        "-o",
        "d",
    ]);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m"]);
    dir.ok(&["transform", "m", "d", "-o", "whole"]);
    until_caught("transform", || {
        let mut child = dir
            .command(&["transform", "m", "d", "-o", "out"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let marked = || {
            let strays = dir.list().into_iter().filter(|n| n.contains(".eigenstream-"));
            strays
                .flat_map(|n| std::fs::read_dir(dir.path(&n)).into_iter().flatten())
                .flatten()
                .any(|f| f.file_name().to_string_lossy().starts_with(".done-"))
        };
        if seen(&mut child, marked) {
            strike(&child, libc::SIGKILL);
        }
        let killed = !child.wait().unwrap().success();
        let run = dir.ok(&["transform", "m", "d", "-o", "out"]);
        for i in 0..30 {
            let name = format!("part-{i:03}.parquet");
            let bytes =
                |dir_name: &str| std::fs::read(dir.path(&format!("{dir_name}/{name}"))).unwrap();
            assert!(bytes("out") == bytes("whole"), "{name}");
        }
        assert_eq!(std::fs::read_dir(dir.path("out")).unwrap().count(), 30, "no marks are left");
        assert_eq!(dir.list(), ["d", "m", "out", "whole"]);
        remove(&dir, "out");
        let kept = run.stderr.contains("of 30 files complete already and kept");
        (killed && kept).then_some(())
    });
}

#[test]
#[ignore = "slow: make test-slow"]
fn two_writers_of_one_target_do_not_mix() {
    let dir = with_data("60000");
    for out in ["s.parquet", "s"] {
        dir.ok(&["transform", "m", "d", "-o", out, "--quiet"]);
        let whole = |path: &str| match out {
            "s" => std::fs::read(dir.path(path).join("part-001.parquet")).unwrap(),
            _ => std::fs::read(dir.path(path)).unwrap(),
        };
        let expected = whole(out);
        for _ in 0..5 {
            remove(&dir, out);
            let start = || {
                dir.command(&["transform", "m", "d", "-o", out, "--quiet"])
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            };
            let children = [start(), start(), start()];
            let done = children.map(|mut c| c.wait().unwrap().success());
            assert!(done.contains(&true), "{out}: {done:?}");
            assert!(whole(out) == expected, "{out}");
            assert!(!dir.list().iter().any(|n| n.contains(".eigenstream-")), "{:?}", dir.list());
        }
    }
}

#[test]
#[ignore = "slow: make test-slow"]
fn files_that_are_no_files_or_shrink_are_named() {
    let dir = with_data("200000");
    let fifo = std::ffi::CString::new(dir.path("pipe.parquet").display().to_string()).unwrap();
    // SAFETY: a path of our own, as a C string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let said = dir.fails(1, &["scan", "pipe.parquet", "-o", "s"]);
    assert!(said.contains("pipe.parquet") && !said.contains("bug"), "{said}");
    let bytes = std::fs::read(dir.path("d/part-001.parquet")).unwrap();
    // At any moment: an answer, or an error that names the file.
    let cut = |child: Child| {
        let file =
            std::fs::OpenOptions::new().write(true).open(dir.path("d/part-001.parquet")).unwrap();
        file.set_len(bytes.len() as u64 / 3).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() || said.contains("d/part-001.parquet"), "{said}");
        assert!(!said.contains("bug") && !said.contains("panicked"), "{said}");
        std::fs::write(dir.path("d/part-001.parquet"), &bytes).unwrap();
        let _ = std::fs::remove_file(dir.path("s"));
        !output.status.success()
    };
    let start = || {
        dir.command(&["scan", "d", "--exclude", "id", "-o", "s", "--quiet", "--threads", "1"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for wait in [0, 3, 6, 10, 15, 25] {
        let child = start();
        std::thread::sleep(Duration::from_millis(wait));
        cut(child);
    }
    // In the middle: the footers are read and believed, some of the rows too.
    for _ in 0..3 {
        until_caught("scan", || {
            let mut child = start();
            let io = format!("/proc/{}/io", child.id());
            let halfway = || bytes_read(&io) > bytes.len() as u64 / 2;
            let midway = seen(&mut child, halfway);
            (cut(child) && midway).then_some(())
        });
    }
}

/// Bytes that a process has read so far, by its `/proc/PID/io`.
fn bytes_read(io: &str) -> u64 {
    let told = std::fs::read_to_string(io).unwrap_or_default();
    told.lines()
        .find_map(|line| line.strip_prefix("rchar: "))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

/// Runs with a limit on the size of written files: every write beyond it fails, as on a full disk.
///
/// By the shell's `ulimit` (in blocks of 512 or 1024 bytes) rather than by a fork of our own:
/// OpenBLAS stops its threads on a fork, and other tests of this process may be decomposing.
fn with_file_limit(dir: &Workdir, blocks: u64, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit -f {blocks} && exec \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_eigenstream")])
        .args(args)
        .current_dir(dir.path("."));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_write_that_fails_leaves_the_old_file() {
    let dir = with_data("20000");
    std::fs::write(dir.path("s.parquet"), "old").unwrap();
    for limit in [0, 1, 10, 100] {
        let (code, said) =
            with_file_limit(&dir, limit, &["transform", "m", "d", "-o", "s.parquet", "--quiet"]);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(
            said.starts_with("transform: cannot write s.parquet: ") && said.lines().count() == 1,
            "{limit}: {said}"
        );
        assert_eq!(std::fs::read(dir.path("s.parquet")).unwrap(), b"old");
        let (code, said) =
            with_file_limit(&dir, limit, &["transform", "m", "d", "-o", "out", "--quiet"]);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(
            said.starts_with("transform: cannot write out/part-000.parquet: "),
            "{limit}: {said}"
        );
        let (code, said) =
            with_file_limit(&dir, limit.min(1), &["fit", "d", "-o", "new", "--quiet"]);
        assert_eq!((code, said.starts_with("fit: cannot write new: ")), (Some(1), true), "{said}");
        let (code, said) =
            with_file_limit(&dir, limit.min(1), &["scan", "d", "-o", "new", "--quiet"]);
        assert_eq!((code, said.starts_with("scan: cannot write new: ")), (Some(1), true), "{said}");
        let checkpoint =
            ["fit", "d", "--checkpoint", "c", "--checkpoint-seconds", "0", "-o", "new", "--quiet"];
        let (code, said) = with_file_limit(&dir, limit.min(1), &checkpoint);
        assert_eq!((code, said.starts_with("fit: cannot write c: ")), (Some(1), true), "{said}");
        assert_eq!(dir.list(), ["d", "m", "s.parquet"]);
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let dir = with_data("20000");
    std::fs::create_dir(dir.path("disk")).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(dir.path("disk"))
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        skipped("a_full_disk_leaves_nothing", "no permission to mount a small disk");
        return;
    }
    let run = dir.run(&["transform", "m", "d", "-o", "disk/s.parquet", "--quiet"]);
    let left = std::fs::read_dir(dir.path("disk")).unwrap().count();
    let unmounted = Command::new("umount").arg(dir.path("disk")).status().unwrap();
    assert!(unmounted.success());
    assert_eq!((run.code, left), (Some(1), 0), "{}", run.stderr);
    assert!(
        run.stderr.contains("cannot write disk/s.parquet: No space left on device"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_disk_that_is_full_from_the_start_gets_nothing_from_any_command() {
    let dir = with_data("20000");
    for i in 0..2 {
        dir.ok(&[
            "scan",
            &format!("d/part-00{i}.parquet"),
            "--exclude",
            "id",
            "-o",
            &format!("p{i}"),
            "--quiet",
        ]);
    }
    dir.ok(&["merge", "p0", "p1", "-o", "all", "--quiet"]);
    std::fs::create_dir(dir.path("disk")).unwrap();
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=4k", "tmpfs"])
        .arg(dir.path("disk"))
        .stderr(Stdio::null());
    if !mount.status().is_ok_and(|s| s.success()) {
        skipped(
            "a_disk_that_is_full_from_the_start_gets_nothing_from_any_command",
            "no permission to mount a small disk",
        );
        return;
    }
    let mut said = Vec::new();
    for words in [
        "scan d --exclude id -o disk/x",
        "scan d --exclude id --by id -o disk/x --columns x0,x1",
        "scan d --exclude id --checkpoint disk/c --checkpoint-seconds 0 -o x",
        "fit d --exclude id --state disk/x -o x",
        "merge p0 p1 -o disk/x",
        "subtract all p1 -o disk/x",
        "solve all -k 20 -o disk/x",
        "transform m d -o disk/x",
    ] {
        let run = dir.run(&words.split(' ').chain(["--quiet"]).collect::<Vec<_>>());
        let left = std::fs::read_dir(dir.path("disk")).unwrap().count();
        said.push((words, run.code, left, run.stderr));
    }
    assert!(Command::new("umount").arg(dir.path("disk")).status().unwrap().success());
    for (words, code, left, said) in said {
        assert_eq!((code, left), (Some(1), 0), "{words}: {said}");
        assert!(
            said.contains("disk/") && said.contains("No space left on device"),
            "{words}: {said}"
        );
    }
    assert!(!dir.path("x").exists());
}

#[test]
#[ignore = "slow: make test-slow"]
fn an_interrupted_scan_keeps_its_checkpoint_and_nothing_else() {
    let dir = with_data("400000");
    let words = [
        "scan",
        "d",
        "--exclude",
        "id",
        "--checkpoint",
        "c",
        "--checkpoint-seconds",
        "0",
        "-o",
        "s",
    ];
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        until_caught("scan", || {
            ["s", "c"].iter().for_each(|name| drop(std::fs::remove_file(dir.path(name))));
            let mut child = dir.command(&words).stderr(Stdio::piped()).spawn().unwrap();
            if seen(&mut child, || dir.path("c").exists()) {
                strike(&child, signal);
            }
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
            let caught = child.wait().unwrap().code() == Some(code);
            let end = " units, run the same command to go on\n";
            assert!(!caught || said.contains("scan: stopped; the checkpoint c keeps "), "{said}");
            assert!(!caught || said.ends_with(end), "{said}");
            caught.then_some(())
        });
        assert_eq!(dir.list(), ["c", "d", "m"]);
        dir.ok(&words);
        assert_eq!(dir.list(), ["d", "m", "s"]);
        std::fs::remove_file(dir.path("s")).unwrap();
    }
}

const SPOOLED: [&str; 8] = ["fit", "v", "--form", "dual", "--exclude", "id", "-o", "new"];

/// Vectors, which the dual form copies to a temporary file.
fn with_vectors(rows: &str) -> Workdir {
    let dir = Workdir::new();
    dir.ok(&[
        "generate",
        "embedding",
        "--rows",
        rows,
        "--columns",
        "600",
        "--files",
        "2",
        "--row-group",
        "50",
        "-o",
        "v",
    ]);
    dir
}

#[test]
fn a_temporary_directory_that_cannot_be_used_is_refused() {
    let dir = with_vectors("100");
    std::fs::write(dir.path("file"), "").unwrap();
    let fails = |temp: &str| {
        let args: Vec<&str> = SPOOLED.iter().copied().chain(["--temp-dir", temp]).collect();
        dir.fails(1, &args)
    };
    assert_eq!(
        fails("none"),
        "fit: none: does not exist; --temp-dir needs a directory for temporary files"
    );
    assert_eq!(
        fails("file"),
        "fit: file: is not a directory; --temp-dir needs a directory for temporary files"
    );
    // No file can be made there, whoever tries.
    let said = fails("/proc");
    assert!(
        said.starts_with("fit: /proc: has 0 B free, but ")
            || said.contains("cannot create a temporary file in /proc"),
        "{said}"
    );
    assert_eq!(dir.list(), ["file", "v"]);
}

#[test]
fn a_temporary_directory_that_is_read_only_or_full_leaves_nothing() {
    let dir = with_vectors("400");
    std::fs::create_dir(dir.path("disk")).unwrap();
    for (options, words) in [
        (
            "size=64k",
            "fit: disk: has 65.5 kB free, but 960.0 kB are needed for a copy of the data cut by features; choose another --temp-dir",
        ),
        (
            "size=4m,ro",
            "fit: cannot create a temporary file in disk: Read-only file system (os error 30)",
        ),
    ] {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(dir.path("disk"))
            .stderr(Stdio::null());
        if !mount.status().is_ok_and(|s| s.success()) {
            skipped(
                "a_temporary_directory_that_is_read_only_or_full_leaves_nothing",
                "no permission to mount a small disk",
            );
            return;
        }
        let args: Vec<&str> = SPOOLED.iter().copied().chain(["--temp-dir", "disk"]).collect();
        let run = dir.run(&args.iter().copied().chain(["--quiet"]).collect::<Vec<_>>());
        let left = std::fs::read_dir(dir.path("disk")).unwrap().count();
        assert!(Command::new("umount").arg(dir.path("disk")).status().unwrap().success());
        assert_eq!((run.code, left, run.stderr.trim_end()), (Some(1), 0, words));
        assert_eq!(dir.list(), ["disk", "v"]);
    }
}

#[test]
fn a_copy_that_cannot_be_written_leaves_nothing() {
    let dir = with_vectors("400");
    std::fs::create_dir(dir.path("t")).unwrap();
    let args: Vec<&str> = SPOOLED.iter().copied().chain(["--temp-dir", "t", "--quiet"]).collect();
    for limit in [0, 1, 100] {
        let (code, said) = with_file_limit(&dir, limit, &args);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(
            said.starts_with("fit: cannot write a temporary file in t: ")
                && said.lines().count() == 1,
            "{limit}: {said}"
        );
        assert_eq!(dir.list(), ["t", "v"]);
        assert_eq!(std::fs::read_dir(dir.path("t")).unwrap().count(), 0);
    }
}

/// Bytes of the file without a name that a process holds open in this directory.
fn unnamed_bytes(process: u32, directory: &Path) -> u64 {
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return 0 };
    let here = |link: &PathBuf| {
        std::fs::read_link(link).is_ok_and(|to| {
            to.starts_with(directory) && to.to_string_lossy().ends_with(" (deleted)")
        })
    };
    let files = open.flatten().map(|entry| entry.path()).filter(here);
    files.filter_map(|link| std::fs::metadata(link).ok()).map(|file| file.len()).sum()
}

/// The copy has no name, so the directory is empty even while it is written; that it is there is
/// seen by the process's open files.
#[test]
#[ignore = "slow: make test-slow"]
fn a_copy_is_gone_however_the_run_ends() {
    let dir = with_vectors("3000");
    std::fs::create_dir(dir.path("t")).unwrap();
    let directory = dir.path("t").canonicalize().unwrap();
    let left = || std::fs::read_dir(dir.path("t")).unwrap().count();
    let args: Vec<&str> = SPOOLED.iter().copied().chain(["--temp-dir", "t"]).collect();
    // Code and signal of the end; the second kill comes when most of the copy is written.
    for (signal, end, bytes) in [
        (libc::SIGTERM, (Some(143), None), 1),
        (libc::SIGKILL, (None, Some(libc::SIGKILL)), 1),
        (libc::SIGINT, (Some(130), None), 1),
        (libc::SIGKILL, (None, Some(libc::SIGKILL)), 6_000_000),
    ] {
        until_caught("fit", || {
            let mut child = dir.command(&args).stderr(Stdio::null()).spawn().unwrap();
            let process = child.id();
            let open = seen(&mut child, || unnamed_bytes(process, &directory) >= bytes);
            assert_eq!(left(), 0, "a name while it runs");
            if open {
                strike(&child, signal);
            }
            let status = child.wait().unwrap();
            assert_eq!(left(), 0, "a name after its end");
            if status.success() {
                remove(&dir, "new");
                return None;
            }
            assert!(open, "failed by itself");
            assert_eq!((status.code(), status.signal()), end);
            assert_eq!(dir.list(), ["t", "v"]);
            Some(())
        });
    }
    dir.ok(&args);
    assert_eq!(left(), 0);
}

/// By somebody else where this user is root and reads every file, with a copy of the binary in his
/// reach.
///
/// `setpriv` changes the user, not this process before its exec: that takes a fork (see
/// `with_file_limit`).
#[test]
fn an_unreadable_file_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let allow = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let dir = with_data("1000");
    let path = dir.path("d/part-001.parquet");
    allow(&path, 0o000);
    let fit = ["fit", "d", "-o", "new", "--quiet"];
    let mut command = dir.command(&fit);
    if std::fs::File::open(&path).is_ok() {
        let copy = dir.path("eigenstream");
        std::fs::copy(env!("CARGO_BIN_EXE_eigenstream"), &copy).unwrap();
        [copy.as_path(), &dir.path(".")].iter().for_each(|path| allow(path, 0o755));
        let other = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let may = Command::new("setpriv").args(other).arg("true").output();
        if !may.is_ok_and(|run| run.status.success()) {
            let why = "this user reads every file and can be no other";
            return skipped("an_unreadable_file_is_named", why);
        }
        command = Command::new("setpriv");
        command.args(other).arg(copy).args(fit).current_dir(dir.path("."));
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("fit: cannot open d/part-001.parquet: Permission denied"), "{said}");
}
