//! Checkpoints: the state after some units of a scan, with how many. Going on from one adds the
//! units that follow to the same sums, and so gives the bytes of a scan that never stopped.

use super::{About, CheckpointProgress, State};
use crate::error::{Error, Result};
use crate::fit::sums_pass::UnitProgress;
use crate::model::container;
use crate::source::Tally;
use crate::staged::kept;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a scan is saved on the way, and how often at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The file; a scan that finds it there goes on from it.
    pub path: PathBuf,
    /// Between two saves, at least.
    pub every: Duration,
}

impl Checkpoint {
    /// Removes it, once the result of its scan is safe.
    pub fn remove(&self) {
        kept().remove(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Units that a checkpoint has done of this very scan.
pub(super) fn resumable(state: &State, start: &State, of: usize, path: &Path) -> Result<usize> {
    let refuse = |problem: &str| {
        Err(Error::model(path, format!("{problem}; remove it, or name another ⟦checkpoint⟧")))
    };
    let Some(CheckpointProgress { units, of: all }) = state.about.progress else {
        return refuse("is a state, not the checkpoint of a scan");
    };
    let key = |a: &About| {
        let About { columns, labels, nulls, weight, fold_seed, ledger, shard, .. } = a.clone();
        (columns, labels, nulls, weight, fold_seed, ledger, shard)
    };
    let same = key(&start.about) == key(&state.about);
    let fits = state.sums.len() == start.sums.len() && state.sums[0].fits(&start.sums[0]);
    match same && fits && all == of && units <= of {
        true => Ok(units),
        false => refuse("is the checkpoint of another scan, or of files that have changed since"),
    }
}

/// Saves a state on the way.
pub(super) struct Saver<'a> {
    checkpoint: Option<&'a Checkpoint>,
    last: Instant,
    /// Units there are.
    of: usize,
}

impl<'a> Saver<'a> {
    pub(super) fn new(checkpoint: Option<&'a Checkpoint>, of: usize) -> Saver<'a> {
        Saver { checkpoint, last: Instant::now(), of }
    }

    /// Saves what there is after some units, if it is time. `before` is what had been met before
    /// them.
    pub(super) fn save_if_due(
        &mut self,
        about: &About,
        before: &Tally,
        progress: &UnitProgress<'_>,
    ) -> Result<()> {
        let Some(checkpoint) = self.checkpoint else { return Ok(()) };
        if progress.units >= self.of || self.last.elapsed() < checkpoint.every {
            return Ok(());
        }
        let mut tally = before.clone();
        tally.add(progress.seen.clone());
        let done = CheckpointProgress { units: progress.units, of: self.of };
        let about = About { tally, progress: Some(done), ..about.clone() };
        let state = State::new(about, progress.sums.to_vec());
        container::save(&checkpoint.path, &state.to_bytes()?)?;
        kept().checkpoint(&checkpoint.path, progress.units, self.of);
        self.last = Instant::now();
        Ok(())
    }
}
