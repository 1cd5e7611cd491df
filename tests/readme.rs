//! Every command the README shows, run in order in a fresh directory, prints what the README says it prints.

use crate::workdir::Workdir;
use std::path::Path;
use std::process::Command;

/// Times and threads are the machine's; rounding errors in the certificate are its BLAS's.
fn masked(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_string).collect();
    for i in 0..words.len().saturating_sub(1) {
        let unit = words[i + 1].trim_end();
        let timed = unit == "s" || unit.starts_with("thread");
        if timed && words[i].chars().all(|c| c.is_ascii_digit() || c == '.') {
            words[i] = "N".into();
        }
    }
    // So are the residuals of an iteration.
    for i in 1..words.len() {
        if words[i - 1] == "residual" {
            words[i] = "R".into();
        }
    }
    let text = words.join(" ");
    if text.starts_with("certificate") {
        "certificate …".into()
    } else {
        text.replace("2 workers", "N workers")
    }
}

#[test]
fn the_tour_is_what_happens() {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let dir = Workdir::new();
    let mut commands = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let (command, expected) =
            block.strip_prefix("$ eigenstream ").unwrap().split_once('\n').unwrap();
        let shell = format!("'{}' {command} 2>&1", env!("CARGO_BIN_EXE_eigenstream"));
        let output =
            Command::new("sh").args(["-c", &shell]).current_dir(dir.path(".")).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {said}");
        let lines = |text: &str| text.lines().map(masked).collect::<Vec<_>>();
        if std::thread::available_parallelism().is_ok_and(|n| n.get() == 2)
            || !command.starts_with("plan")
        {
            assert_eq!(lines(&said), lines(expected), "{command}");
        }
        commands += 1;
    }
    assert_eq!(commands, 26);
}
