//! What others put in the way of output, and where output is put: pipes, links, directories of
//! another user, mount points, permissions, names that are no text.

use crate::faults::{seen, strike, until_caught};
use crate::skips::skipped;
use crate::workdir::Workdir;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn with_data() -> Workdir {
    let dir = Workdir::new();
    dir.ok(&["generate", "lowrank", "--rows", "2000", "--columns", "4", "-o", "d", "--quiet"]);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m", "--quiet"]);
    dir
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs a command that must not wait for anybody; its exit code and what it said.
fn ends(dir: &Workdir, words: &[&str]) -> (Option<i32>, String) {
    let mut child = dir.command(words).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(100) {
            child.kill().unwrap();
            panic!("{words:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn pipes_are_not_waited_for() {
    let dir = with_data();
    pipe(&dir.path("pipe"));
    dir.ok(&["scan", "d", "--exclude", "id", "-o", "s", "--quiet"]);
    for words in [
        "inspect pipe",
        "transform pipe d -o out",
        "reconstruct pipe d -o out",
        "solve pipe -o new",
        "merge pipe s -o new",
        "merge s pipe -o new",
        "subtract s pipe -o new",
        "fit d --exclude id --state pipe -o new",
        "fit d --exclude id --checkpoint pipe -o new",
        "fit d --exclude id -o pipe",
        "fit d --exclude id --basis pipe -o new",
    ] {
        let (code, said) = ends(&dir, &words.split(' ').collect::<Vec<_>>());
        assert!(matches!(code, Some(1 | 2)), "{words}: {said}");
        assert!(said.contains("pipe") && said.contains("is a device or pipe"), "{words}: {said}");
    }
    // Of the names that temporary files have.
    for stray in [".new.eigenstream-x", ".out.eigenstream-x", ".s.eigenstream-x"] {
        pipe(&dir.path(stray));
    }
    for words in [
        "fit d --exclude id -o new --quiet",
        "transform m d -o out --quiet",
        "merge s -o s --quiet",
    ] {
        let (code, said) = ends(&dir, &words.split(' ').collect::<Vec<_>>());
        assert_eq!(code, Some(0), "{words}: {said}");
    }
    pipe(&dir.path(".s.eigenstream-lock"));
    let (code, said) = ends(&dir, &["merge", "s", "-o", "s"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(".s.eigenstream-lock: is in the way"), "{said}");
}

/// True when the test can act as another user.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// A shell of somebody else.
fn as_nobody(dir: &Workdir, script: &str) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", script]);
    let output = command.current_dir(dir.path(".")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The name of the directory that a transform into `out` works in.
fn stage_of_out(dir: &Workdir) -> String {
    until_caught("transform", || {
        let mut child =
            dir.command(&["transform", "m", "d", "-o", "out", "--quiet"]).spawn().unwrap();
        let stage = || dir.list().into_iter().find(|n| n.starts_with(".out.eigenstream-r"));
        if seen(&mut child, || stage().is_some()) {
            strike(&child, libc::SIGKILL);
        }
        child.wait().unwrap();
        let found = stage();
        let _ = std::fs::remove_dir_all(dir.path("out"));
        found
    })
}

#[test]
fn a_directory_that_another_user_planted_is_not_taken_up() {
    if !is_root() {
        let why = "only root can become another user";
        return skipped("a_directory_that_another_user_planted_is_not_taken_up", why);
    }
    let dir = with_data();
    dir.ok(&["transform", "m", "d", "-o", "whole", "--quiet"]);
    std::fs::set_permissions(dir.path("."), PermissionsExt::from_mode(0o1777)).unwrap();
    let secret = dir.path("secret");
    std::fs::write(&secret, "secret").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let stage = stage_of_out(&dir);
    std::fs::remove_dir_all(dir.path(&stage)).unwrap();
    let _ = std::fs::remove_file(dir.path(".out.eigenstream-lock"));
    let forged = "FORGED";
    let mark = format!("6 {:016x}", twox_hash::XxHash64::oneshot(0, forged.as_bytes()));
    for mode in ["700", "777"] {
        as_nobody(
            &dir,
            &format!(
                "mkdir -m {mode} {stage} && cd {stage} && touch .lock && printf {forged} > \
                 part-000.parquet && printf '{mark}' > .done-0 && ln -s ../secret part-001.parquet"
            ),
        );
        let run = dir.ok(&["transform", "m", "d", "-o", "out"]);
        assert!(!run.stderr.contains("kept"), "{}", run.stderr);
        for file in ["part-000.parquet", "part-001.parquet"] {
            let read = |of: &str| std::fs::read(dir.path(of).join(file)).unwrap();
            assert!(read("out") == read("whole"), "{file}");
        }
        let found = std::fs::metadata(dir.path("out")).unwrap();
        assert_eq!((found.uid(), std::fs::read(&secret).unwrap()), (0, b"secret".to_vec()));
        let planted = std::fs::read(dir.path(&stage).join("part-000.parquet"));
        assert_eq!(planted.unwrap(), forged.as_bytes(), "it is not ours to remove");
        std::fs::remove_dir_all(dir.path(&stage)).unwrap();
    }
    // A lock that is not ours.
    as_nobody(&dir, "touch .out.eigenstream-lock");
    let said = dir.fails(1, &["transform", "m", "d", "-o", "out"]);
    assert!(said.contains(".out.eigenstream-lock: is in the way"), "{said}");
}

#[test]
fn permissions_of_what_is_replaced_are_kept() {
    let dir = with_data();
    let mode = |name: &str| std::fs::metadata(dir.path(name)).unwrap().mode() & 0o777;
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(dir.path(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    std::fs::write(dir.path("plain"), "").unwrap();
    assert_eq!(mode("m"), mode("plain"));
    set("m", 0o600);
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "m", "--quiet"]);
    assert_eq!(mode("m"), 0o600);
    dir.ok(&["transform", "m", "d", "-o", "out", "--quiet"]);
    assert_eq!((mode("out/part-001.parquet"), mode("out")), (mode("plain"), mode("d")));
    set("out", 0o750);
    set("out/part-000.parquet", 0o640);
    dir.ok(&["transform", "m", "d", "-o", "out", "--quiet"]);
    assert_eq!((mode("out"), mode("out/part-000.parquet")), (0o750, 0o640));
    assert_eq!(mode("out/part-001.parquet"), mode("plain"));
}

#[test]
fn links_lead_to_where_output_goes_and_loops_nowhere() {
    let dir = with_data();
    symlink("real", dir.path("link")).unwrap();
    dir.ok(&["transform", "m", "d", "-o", "link", "--quiet"]);
    dir.ok(&["transform", "m", "d", "-o", "link/", "--quiet"]);
    assert!(dir.path("real/part-001.parquet").is_file());
    symlink("gone/real", dir.path("lost")).unwrap();
    dir.ok(&["transform", "m", "d", "-o", "lost", "--quiet"]);
    assert!(dir.path("gone/real/part-001.parquet").is_file());
    symlink("loop", dir.path("loop")).unwrap();
    for words in ["transform m d -o loop", "fit d --exclude id -o loop"] {
        let said = dir.fails(2, &words.split(' ').collect::<Vec<_>>());
        assert!(said.ends_with("loop is a link that leads nowhere; name another"), "{said}");
    }
    symlink("new", dir.path("file")).unwrap();
    dir.ok(&["fit", "d", "--exclude", "id", "-o", "file", "--quiet"]);
    assert!(dir.path("new").is_file() && dir.path("file").is_symlink());
}

#[test]
fn another_file_system_is_found_out_before_the_pass() {
    let dir = with_data();
    std::fs::create_dir(dir.path("disk")).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "tmpfs"]).arg(dir.path("disk")).stderr(Stdio::null());
    if !mount.status().is_ok_and(|s| s.success()) {
        let why = "no permission to mount a disk";
        return skipped("another_file_system_is_found_out_before_the_pass", why);
    }
    dir.ok(&["scan", "d", "--exclude", "id", "-o", "s", "--quiet"]);
    symlink("disk", dir.path("mounted")).unwrap();
    symlink("disk/inside", dir.path("inside")).unwrap();
    let mut refused = Vec::new();
    for out in ["disk", "mounted"] {
        for words in ["transform m d", "scan d --exclude id --by id", "generate lowrank"] {
            let words: Vec<&str> = words.split(' ').chain(["-o", out, "--quiet"]).collect();
            refused.push((words.join(" "), dir.run(&words)));
        }
    }
    let out = ["transform", "m", "d", "-o", "inside", "--quiet"];
    let runs = [dir.run(&out), dir.run(&out)];
    let there = dir.path("disk/inside/part-001.parquet").is_file();
    let left = std::fs::read_dir(dir.path("disk")).unwrap().count();
    assert!(Command::new("umount").arg(dir.path("disk")).status().unwrap().success());
    for (words, run) in refused {
        let said = "is a mount point, which cannot be replaced as a whole; name a directory inside";
        assert!(run.code == Some(2) && run.stderr.contains(said), "{words}: {}", run.stderr);
    }
    assert!(runs.iter().all(|run| run.code == Some(0)), "{}", runs[0].stderr);
    assert_eq!((there, left), (true, 1));
}

#[test]
fn names_that_are_no_text_work() {
    let dir = with_data();
    let name = OsStr::from_bytes(b"d/b\xff.parquet");
    std::fs::rename(dir.path("d/part-001.parquet"), dir.path(".").join(name)).unwrap();
    dir.ok(&["fit", "d/part-000.parquet", "--exclude", "id", "--state", "s", "-o", "m", "--quiet"]);
    let add = ["fit", "d", "--exclude", "id", "--state", "s", "--skip-known", "-o", "m"];
    dir.ok(&add);
    let state = dir.json(&["inspect", "s"]);
    assert_eq!(state["tally"]["rows"], 2000);
    assert_eq!(state["ledger"][1]["path"], "d/b%FF.parquet");
    let again = dir.ok(&add);
    assert!(again.stderr.contains("2 files in the state already"), "{}", again.stderr);
    dir.ok(&["transform", "m", "d", "-o", "out", "--quiet"]);
    let out = dir.path("out").join(OsStr::from_bytes(b"b\xff.parquet"));
    assert!(out.is_file());
    let globbed = dir.ok(&["fit", "d/*.parquet", "--exclude", "id", "-o", "m"]);
    assert!(globbed.stderr.contains("2,000 rows in 2 files"), "{}", globbed.stderr);
    // As arguments, and as outputs of every kind.
    let odd = |end: &str| OsStr::from_bytes(&[b"o\xfe", end.as_bytes()].concat()).to_os_string();
    for (words, end) in [
        ("fit --exclude id -k 2", ".model"),
        ("scan --exclude id", ".state"),
        ("scan --by id --columns x0,x1", ""),
        ("transform m", ""),
        ("transform m", ".parquet"),
    ] {
        let mut command = dir.command(&words.split(' ').collect::<Vec<_>>());
        command.arg(name).arg("-o").arg(odd(end)).args(["--json", "--quiet"]);
        for _ in 0..2 {
            let _ = std::fs::remove_dir_all(dir.path(".").join(odd(end)));
            let run = command.output().unwrap();
            let said = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{words}: {said}");
            let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
            assert!(json.to_string().contains(&format!("o%FE{end}")), "{words}: {json}");
        }
    }
}
