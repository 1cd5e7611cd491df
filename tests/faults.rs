//! Signals, kills and full disks: the target is the old file, the new file, or absent, and nothing stray stays.

use crate::workdir::Workdir;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

fn with_data(rows: &str) -> Workdir {
    let dir = Workdir::new();
    dir.ok(&["generate", "lowrank", "--rows", rows, "--columns", "30", "--files", "2", "--row-group", "5000", "-o", "d"]);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m"]);
    dir
}

/// Starts a transform and sends it a signal when its temporary file is there. A run that was done before the
/// signal came, on a busy machine, is tried again.
fn struck(dir: &Workdir, out: &str, signal: i32) -> ExitStatus {
    for _ in 0..20 {
        let mut child = dir.command(&["transform", "m", "d", "-o", out]).stderr(Stdio::null()).spawn().unwrap();
        while !dir.list().iter().any(|n| n.contains(".eigenstream-")) && child.try_wait().unwrap().is_none() {
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
    std::fs::remove_dir_all(dir.path(out)).or_else(|_| std::fs::remove_file(dir.path(out))).unwrap();
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

/// Runs with a limit on the size of written files: every write beyond it fails, as on a full disk.
///
/// By the shell's `ulimit` (in blocks of 512 or 1024 bytes) rather than by a fork of our own: OpenBLAS stops its
/// threads on a fork, and other tests of this process may be decomposing.
fn with_file_limit(dir: &Workdir, blocks: u64, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit -f {blocks} && trap '' XFSZ && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_eigenstream")]).args(args).current_dir(dir.path("."));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_write_that_fails_leaves_the_old_file() {
    let dir = with_data("20000");
    std::fs::write(dir.path("s.parquet"), "old").unwrap();
    for limit in [0, 1, 10, 100] {
        let (code, said) = with_file_limit(&dir, limit, &["transform", "m", "d", "-o", "s.parquet", "--quiet"]);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(said.starts_with("transform: cannot write s.parquet: ") && said.lines().count() == 1, "{limit}: {said}");
        assert_eq!(std::fs::read(dir.path("s.parquet")).unwrap(), b"old");
        let (code, said) = with_file_limit(&dir, limit, &["transform", "m", "d", "-o", "out", "--quiet"]);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(said.starts_with("transform: cannot write out/part-000.parquet: "), "{limit}: {said}");
        let (code, said) = with_file_limit(&dir, limit.min(1), &["fit", "d", "-o", "new", "--quiet"]);
        assert_eq!((code, said.starts_with("fit: cannot write new: ")), (Some(1), true), "{said}");
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
    assert!(run.stderr.contains("cannot write disk/s.parquet: No space left on device"), "{}", run.stderr);
}

const SPOOLED: [&str; 8] = ["fit", "v", "--form", "dual", "--exclude", "id", "-o", "new"];

/// Vectors, which the dual form copies to a temporary file.
fn with_vectors(rows: &str) -> Workdir {
    let dir = Workdir::new();
    dir.ok(&["generate", "embedding", "--rows", rows, "--columns", "600", "--files", "2", "--row-group", "50", "-o", "v"]);
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
    assert_eq!(fails("none"), "fit: none: does not exist; --temp-dir needs a directory for temporary files");
    assert_eq!(fails("file"), "fit: file: is not a directory; --temp-dir needs a directory for temporary files");
    // No file can be made there, whoever tries.
    let said = fails("/proc");
    assert!(
        said.starts_with("fit: /proc: has 0 B free, but ") || said.contains("cannot create a temporary file in /proc"),
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
        ("size=4m,ro", "fit: cannot create a temporary file in disk: Read-only file system (os error 30)"),
    ] {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path("disk")).stderr(Stdio::null());
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
        assert!(said.starts_with("fit: cannot write a temporary file in t: ") && said.lines().count() == 1, "{limit}: {said}");
        assert_eq!(dir.list(), ["t", "v"]);
        assert_eq!(std::fs::read_dir(dir.path("t")).unwrap().count(), 0);
    }
}

#[test]
fn a_copy_is_gone_however_the_run_ends() {
    let dir = with_vectors("3000");
    std::fs::create_dir(dir.path("t")).unwrap();
    let args: Vec<&str> = SPOOLED.iter().copied().chain(["--temp-dir", "t"]).collect();
    for (wait, signal) in [(20, libc::SIGTERM), (60, libc::SIGKILL), (150, libc::SIGINT), (300, libc::SIGKILL)] {
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
    assert!(dir.fails(1, &["fit", "d", "-o", "new"]).starts_with("fit: cannot open d/part-001.parquet: Permission denied"));
}
