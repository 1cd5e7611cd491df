//! How often a fault was tried and survived: `make fuzz` and `make soak` print what is counted here
//! as a table.

use std::io::Write;

/// Notes that a fault was tried so often, and survived as often: one that was not has failed its
/// test.
pub fn survived(fault: &str, tried: usize) {
    let Some(path) = std::env::var_os("EIGENSTREAM_SURVIVED") else { return };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    // One write, so that tests on several threads do not mix their lines.
    file.write_all(format!("{fault}\t{tried}\n").as_bytes()).unwrap();
}
