//! Signals, kills and full disks: the target is the old file, the new file, or absent, and nothing stray stays.

use crate::workdir::Workdir;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

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

/// Starts a transform and sends it a signal when its temporary file is there. A run that was done before the
/// signal came, on a busy machine, is tried again.
fn struck(dir: &Workdir, out: &str, signal: i32) -> ExitStatus {
    for _ in 0..20 {
        let mut child =
            dir.command(&["transform", "m", "d", "-o", out]).stderr(Stdio::null()).spawn().unwrap();
        while !dir.list().iter().any(|n| n.contains(".eigenstream-"))
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        let status = child.wait().unwrap();
        if !status.success() {
            return status;
        }
        remove(dir, out);
    }
    panic!("twenty runs were done before the signal came");
}

fn remove(dir: &Workdir, out: &str) {
    std::fs::remove_dir_all(dir.path(out))
        .or_else(|_| std::fs::remove_file(dir.path(out)))
        .unwrap();
}

#[test]
fn interrupts_clean_up_and_exit_with_the_signal() {
    let dir = with_data("400000");
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        for out in ["s.parquet", "s"] {
            assert_eq!(struck(&dir, out, signal).code(), Some(code), "{out}");
            assert_eq!(dir.list(), ["d", "m"], "{out}");
        }
    }
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next() {
    let dir = with_data("400000");
    for out in ["s.parquet", "s"] {
        assert_eq!(struck(&dir, out, libc::SIGKILL).signal(), Some(libc::SIGKILL));
        assert!(dir.list().len() == 3, "a stray is left by SIGKILL: {:?}", dir.list());
        dir.ok(&["transform", "m", "d", "-o", out, "--quiet"]);
        assert_eq!(dir.list(), ["d", "m", out]);
        remove(&dir, out);
    }
}

/// Kills a scan once it has left a checkpoint that is not the last; how many bytes that has.
pub fn checkpoint_of(dir: &Workdir, words: &str) -> usize {
    let words: Vec<&str> = words.split(' ').collect();
    let name = words[words.iter().position(|w| *w == "--checkpoint").unwrap() + 1];
    for _ in 0..50 {
        let mut child = dir.command(&words).stderr(Stdio::null()).spawn().unwrap();
        while !dir.path(name).exists() && child.try_wait().unwrap().is_none() {}
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
        child.wait().unwrap();
        if let Ok(bytes) = std::fs::read(dir.path(name)) {
            return bytes.len();
        }
    }
    panic!("fifty scans were done before the signal came");
}

/// Every moment of every command that writes: the target is the old file, the new file, or absent, and a rerun gives the
/// bytes of a run that nobody disturbed.
#[test]
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
    let (mut kills, mut dice) = (0, 88_172_645_463_325_252u64);
    for words in commands {
        let words: Vec<&str> = words.split(' ').chain(["--quiet"]).collect();
        let out = words[words.iter().position(|w| *w == "-o").unwrap() + 1];
        let started = std::time::Instant::now();
        dir.ok(&words);
        let takes = started.elapsed().as_micros() as u64;
        let whole = read(out);
        for round in 0..9 {
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
            // SAFETY: a signal to our own child, which has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
            child.wait().unwrap();
            kills += 1;
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
    assert!(kills >= 50, "{kills}");
}

#[test]
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
    for _ in 0..20 {
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
        while !marked() && child.try_wait().unwrap().is_none() {}
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGKILL) };
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
        if killed && run.stderr.contains("of 30 files complete already and kept") {
            return;
        }
    }
    panic!("twenty runs were done before the signal came");
}

#[test]
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
fn files_that_are_no_files_or_shrink_are_named() {
    let dir = with_data("200000");
    let fifo = std::ffi::CString::new(dir.path("pipe.parquet").display().to_string()).unwrap();
    // SAFETY: a path of our own, as a C string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let said = dir.fails(1, &["scan", "pipe.parquet", "-o", "s"]);
    assert!(said.contains("pipe.parquet") && !said.contains("bug"), "{said}");
    let bytes = std::fs::read(dir.path("d/part-001.parquet")).unwrap();
    for wait in [0, 3, 6, 10, 15, 25] {
        let child = dir
            .command(&["scan", "d", "--exclude", "id", "-o", "s", "--quiet"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let file =
            std::fs::OpenOptions::new().write(true).open(dir.path("d/part-001.parquet")).unwrap();
        file.set_len(bytes.len() as u64 / 3).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() || said.contains("d/part-001.parquet"), "{said}");
        assert!(!said.contains("bug") && !said.contains("panicked"), "{said}");
        std::fs::write(dir.path("d/part-001.parquet"), &bytes).unwrap();
        let _ = std::fs::remove_file(dir.path("s"));
    }
}

/// Runs with a limit on the size of written files: every write beyond it fails, as on a full disk.
///
/// By the shell's `ulimit` (in blocks of 512 or 1024 bytes) rather than by a fork of our own: OpenBLAS stops its
/// threads on a fork, and other tests of this process may be decomposing.
fn with_file_limit(dir: &Workdir, blocks: u64, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit -f {blocks} && trap '' XFSZ && exec \"$@\"");
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
        eprintln!("skipped: no permission to mount a small disk");
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
        eprintln!("skipped: no permission to mount a small disk");
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
        let struck = (0..50).any(|_| {
            let _ = std::fs::remove_file(dir.path("s"));
            let mut child = dir.command(&words).stderr(Stdio::null()).spawn().unwrap();
            while !dir.path("c").exists() && child.try_wait().unwrap().is_none() {}
            // SAFETY: a signal to our own child, which has not been waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
            child.wait().unwrap().code() == Some(code)
        });
        assert!(struck, "fifty scans were done before the signal came");
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
            eprintln!("skipped: no permission to mount a small disk");
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

#[test]
fn a_copy_is_gone_however_the_run_ends() {
    let dir = with_vectors("3000");
    std::fs::create_dir(dir.path("t")).unwrap();
    let args: Vec<&str> = SPOOLED.iter().copied().chain(["--temp-dir", "t"]).collect();
    for (wait, signal) in
        [(20, libc::SIGTERM), (60, libc::SIGKILL), (150, libc::SIGINT), (300, libc::SIGKILL)]
    {
        let mut child = dir.command(&args).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        // SAFETY: a signal to our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        child.wait().unwrap();
        assert_eq!(std::fs::read_dir(dir.path("t")).unwrap().count(), 0);
    }
    dir.ok(&args);
    assert_eq!(std::fs::read_dir(dir.path("t")).unwrap().count(), 0);
}

#[test]
fn an_unreadable_file_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = with_data("1000");
    let path = dir.path("d/part-001.parquet");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user reads every file");
        return;
    }
    assert!(
        dir.fails(1, &["fit", "d", "-o", "new"])
            .starts_with("fit: cannot open d/part-001.parquet: Permission denied")
    );
}
