//! What people and programs read: notes and progress on stderr, results as text or JSON on stdout.

pub mod json;
pub mod progress;
pub mod text;

pub use progress::{Progress, Talk};

use crate::error::{Error, Result};
use std::io::Write;

/// Writes a result to stdout. A reader that went away is told from other errors by
/// [`Error::is_broken_pipe`].
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    written.and_then(|()| out.flush()).map_err(Error::io("write", "standard output"))
}
