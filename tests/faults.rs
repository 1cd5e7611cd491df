//! Signals, kills and full disks: the target is the old file, the new file, or absent, and nothing stray stays.

use crate::workdir::Workdir;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn with_data(rows: &str) -> Workdir {
    let dir = Workdir::new();
    dir.ok(&["generate", "lowrank", "--rows", rows, "--columns", "30", "--files", "2", "--row-group", "5000", "-o", "d"]);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m"]);
    dir
}

/// Starts a transform and waits until its temporary file is there.
fn started(dir: &Workdir, out: &str) -> Child {
    let child = dir.command(&["transform", "m", "d", "-o", out]).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !dir.list().iter().any(|n| n.contains(".eigenstream-")) {
        assert!(Instant::now() < deadline, "no temporary file appeared");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to our own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

#[test]
fn interrupts_clean_up_and_exit_with_the_signal() {
    let dir = with_data("400000");
    for (which, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        for out in ["s.parquet", "s"] {
            let mut child = started(&dir, out);
            signal(&child, which);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{out}");
            assert_eq!(dir.list(), ["d", "m"], "{out}");
        }
    }
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next() {
    let dir = with_data("400000");
    for out in ["s.parquet", "s"] {
        let mut child = started(&dir, out);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        assert!(dir.list().len() == 3, "a stray is left by SIGKILL: {:?}", dir.list());
        dir.ok(&["transform", "m", "d", "-o", out, "--quiet"]);
        assert_eq!(dir.list(), ["d", "m", out]);
        std::fs::remove_dir_all(dir.path(out)).or_else(|_| std::fs::remove_file(dir.path(out))).unwrap();
    }
}

/// Runs with a limit on the size of written files: every write beyond it fails, as on a full disk.
fn with_file_limit(dir: &Workdir, bytes: u64, args: &[&str]) -> (Option<i32>, String) {
    let mut command = dir.command(args);
    // SAFETY: setrlimit and signal are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &limit) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_write_that_fails_leaves_the_old_file() {
    let dir = with_data("20000");
    std::fs::write(dir.path("s.parquet"), "old").unwrap();
    for limit in [0, 100, 5_000, 100_000] {
        let (code, said) = with_file_limit(&dir, limit, &["transform", "m", "d", "-o", "s.parquet", "--quiet"]);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(said.starts_with("transform: cannot write s.parquet: ") && said.lines().count() == 1, "{limit}: {said}");
        assert_eq!(std::fs::read(dir.path("s.parquet")).unwrap(), b"old");
        let (code, said) = with_file_limit(&dir, limit, &["transform", "m", "d", "-o", "out", "--quiet"]);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(said.starts_with("transform: cannot write out/part-000.parquet: "), "{limit}: {said}");
        let (code, said) = with_file_limit(&dir, limit.min(100), &["fit", "d", "-o", "new", "--quiet"]);
        assert_eq!((code, said.starts_with("fit: cannot write new: ")), (Some(1), true), "{said}");
        assert_eq!(dir.list(), ["d", "m", "s.parquet"]);
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let dir = with_data("20000");
    std::fs::create_dir(dir.path("disk")).unwrap();
    let mounted = std::process::Command::new("mount")
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
    let unmounted = std::process::Command::new("umount").arg(dir.path("disk")).status().unwrap();
    assert!(unmounted.success());
    assert_eq!((run.code, left), (Some(1), 0), "{}", run.stderr);
    assert!(run.stderr.contains("cannot write disk/s.parquet: No space left on device"), "{}", run.stderr);
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
