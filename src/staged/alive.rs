//! What is to be removed if the process is told to stop.
//!
//! Who creates, renames or marks a staged file holds [`alive`] meanwhile. The thread that waits for
//! signals takes it and never gives it back: from then on nothing appears, so that what it removes
//! stays removed. What is slow with many files (removing those of killed runs, comparing them with
//! their marks, syncing) is done without it, so that a signal never waits for long.

#[cfg(feature = "cli")]
use super::removal::{Removed, remove_until};
use std::collections::BTreeSet;
#[cfg(feature = "cli")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
#[cfg(feature = "cli")]
use std::time::{Duration, Instant};

static ALIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Paths of stages and locks.
pub(super) fn alive() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    ALIVE.lock().unwrap_or_else(|e| e.into_inner())
}

/// How long a stopped process may remove what it has staged; with what goes before and after it,
/// it is gone within a second.
#[cfg(feature = "cli")]
const REMOVING: Duration = Duration::from_millis(600);

/// On SIGINT, SIGTERM or SIGHUP: remove what is staged, say what is left, exit with 128 + signal.
#[cfg(feature = "cli")]
pub(crate) fn exit_on_signals(say: impl FnOnce(&str) + Send + 'static) -> crate::error::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let failed = crate::error::Error::io("watch", "signals");
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let end = Instant::now() + REMOVING;
            let staged = alive();
            let mut kept = super::kept();
            let doomed: Vec<_> = staged.iter().filter(|path| !kept.keeps(path)).collect();
            doomed.into_iter().filter(|path| !removed(path, end)).for_each(|path| kept.leave(path));
            say(&kept.sentence());
            signal_hook::low_level::exit(128 + signal);
        }
    });
    Ok(())
}

/// Another thread may be removing the same: until it is gone, or the time is over.
#[cfg(feature = "cli")]
fn removed(path: &Path, end: Instant) -> bool {
    loop {
        let all = remove_until(path, end) == Removed::All;
        if all || Instant::now() >= end {
            return all;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
