//! A state that is read, changed and written back, by one run at a time.

use super::State;
use crate::error::Result;
use crate::listen::Listener;
use crate::staged::{LockedFile, Waiting};
use std::path::{Path, PathBuf};

/// The file of a state, locked until it is saved or dropped.
///
/// Two runs that add to one state add both; a file that something else has replaced meanwhile is
/// left as it is, and saving fails.
///
/// ```
/// use arrow_array::RecordBatch;
/// use eigenstream::{ArrowTable, Quiet, Scan, StateFile, Waiting};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("days.state");
/// for day in [ndarray::array![[1.0, 2.0], [3.0, 5.0]], ndarray::array![[2.0, 2.5], [0.5, 1.0]]] {
///     let file = StateFile::lock(&path, Waiting::Wait, &Quiet)?;
///     let rows = ArrowTable::from(day);
///     let state = Scan::new().plan(&rows)?.run_onto(file.load()?, None, &Quiet)?;
///     file.save(&state)?;
/// }
/// assert_eq!(eigenstream::State::load(&path)?.rows(), 4);
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    file: LockedFile,
}

impl StateFile {
    /// Locks a file, which need not be there yet. While another run has it, that is told, or fails.
    pub fn lock(
        path: impl AsRef<Path>,
        waiting: Waiting,
        listener: &dyn Listener,
    ) -> Result<StateFile> {
        let path = path.as_ref().to_path_buf();
        let file = LockedFile::acquire(&path, waiting, listener)?;
        Ok(StateFile { path, file })
    }

    /// Reads the state, if there is one.
    pub fn load(&self) -> Result<Option<State>> {
        self.file.exists().then(|| State::load(&self.path)).transpose()
    }

    /// Writes a state in its place, and gives the lock back.
    pub fn save(self, state: &State) -> Result<()> {
        self.file.write(&state.to_bytes()?)
    }
}
