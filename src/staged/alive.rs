//! What is to be removed if the process is told to stop.
//!
//! Who creates, renames or marks a staged file holds [`alive`] meanwhile. The thread that waits for
//! signals takes it and never gives it back: from then on nothing appears, so that what it removes
//! stays removed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

static ALIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Paths of stages and locks.
pub(super) fn alive() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    ALIVE.lock().unwrap_or_else(|e| e.into_inner())
}

/// On SIGINT, SIGTERM or SIGHUP: remove what is staged, say what is left, exit with 128 + signal.
#[cfg(feature = "cli")]
pub(crate) fn exit_on_signals(say: impl FnOnce(&str) + Send + 'static) -> crate::error::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let failed = crate::error::Error::io("watch", "signals");
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let staged = alive();
            let kept = super::kept();
            staged.iter().filter(|path| !kept.keeps(path)).for_each(|path| remove(path));
            say(&kept.sentence());
            signal_hook::low_level::exit(128 + signal);
        }
    });
    Ok(())
}

/// Another thread may be removing the same: until it is gone.
#[cfg(feature = "cli")]
fn remove(path: &std::path::Path) {
    for _ in 0..100 {
        let tried = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        if tried.is_ok() || std::fs::symlink_metadata(path).is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
