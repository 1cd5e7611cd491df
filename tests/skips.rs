//! Tests that need a privilege: to mount, to make a control group, to be another user.
//!
//! A test that cannot run is not green. It says so, is counted, and fails where the machine is
//! meant to have it all (CI=true), unless EIGENSTREAM_ALLOW_SKIPS=1 says that it has not. `make
//! test` names a file in EIGENSTREAM_SKIPPED and shows at the end what was written there.

use std::io::Write;

/// Notes that this test did not run, and why; the caller returns.
pub fn skipped(test: &str, why: &str) {
    let line = format!("skipped: {test}: {why}");
    println!("{line}");
    if let Some(path) = std::env::var_os("EIGENSTREAM_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    assert!(
        !is("CI", "true") || is("EIGENSTREAM_ALLOW_SKIPS", "1"),
        "{line}; under CI=true every test runs, or EIGENSTREAM_ALLOW_SKIPS=1 is set"
    );
}
