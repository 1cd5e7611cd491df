//! What a run that is stopped leaves behind: files in their place, a checkpoint, files that the
//! same command takes up.

#![cfg_attr(not(feature = "cli"), allow(dead_code, reason = "asked by who stops on signals"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// What there is so far.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Files and directories in their place.
    written: Vec<PathBuf>,
    /// Where the sums of a scan are, of how many of its units.
    checkpoint: Option<(PathBuf, usize, usize)>,
    /// Of hidden directories that the same command takes up: complete files, and all.
    directories: BTreeMap<PathBuf, (usize, usize)>,
    /// Of what the run could not remove in time.
    left: Vec<PathBuf>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    written: Vec::new(),
    checkpoint: None,
    directories: BTreeMap::new(),
    left: Vec::new(),
});

/// Looked at and changed by one at a time.
pub(crate) fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(|e| e.into_inner())
}

impl Kept {
    /// Something is in its place.
    pub(super) fn write(&mut self, path: &Path) {
        self.remove(path);
        self.written.push(path.to_path_buf());
    }

    /// It is there no more.
    pub(crate) fn remove(&mut self, path: &Path) {
        self.written.retain(|written| written != path);
        self.checkpoint.take_if(|(checkpoint, ..)| checkpoint == path);
    }

    /// A checkpoint has so many units.
    pub(crate) fn checkpoint(&mut self, path: &Path, units: usize, of: usize) {
        self.remove(path);
        self.checkpoint = Some((path.to_path_buf(), units, of));
    }

    /// A hidden directory has so many complete files more.
    pub(super) fn complete(&mut self, directory: &Path, more: usize, of: usize) {
        self.directories.entry(directory.to_path_buf()).or_insert((0, of)).0 += more;
    }

    /// The directory is there no more, or in its place.
    pub(super) fn forget(&mut self, directory: &Path) {
        self.directories.remove(directory);
    }

    /// The time did not suffice to remove this.
    #[cfg(feature = "cli")]
    pub(super) fn leave(&mut self, path: &Path) {
        self.left.push(path.to_path_buf());
    }

    /// True when a hidden directory has files that are worth keeping.
    pub(super) fn keeps(&self, directory: &Path) -> bool {
        self.directories.get(directory).is_some_and(|(complete, _)| *complete > 0)
    }

    /// "3 of 8 files are complete and kept, run the same command to go on".
    #[cfg(feature = "cli")]
    pub(crate) fn sentence(&self) -> String {
        use crate::words::count;
        let mut parts = Vec::new();
        match self.written.as_slice() {
            [] => {}
            [path] => parts.push(format!("{} is written", path.display())),
            [first, .., last] => parts.push(format!(
                "{} to {} are written ({})",
                first.display(),
                last.display(),
                count(self.written.len() as u64, "file")
            )),
        }
        let mut goes_on = false;
        if let Some((path, units, of)) = &self.checkpoint {
            let path = path.display();
            parts.push(format!("the checkpoint {path} keeps {units} of {of} units"));
            goes_on = true;
        }
        for (complete, of) in self.directories.values().filter(|(complete, _)| *complete > 0) {
            parts.push(format!("{complete} of {of} files are complete and kept"));
            goes_on = true;
        }
        let mut said = match (parts.is_empty(), goes_on) {
            (true, _) => "nothing was written".into(),
            (false, true) => format!("{}, run the same command to go on", parts.join(", ")),
            (false, false) => format!("{}, nothing else", parts.join(", ")),
        };
        for path in &self.left {
            let path = path.display();
            said += &format!(
                "; {path} has too many files to remove at once: the next run with this output \
                 removes it, or rm -r"
            );
        }
        said
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said() {
        let mut kept = Kept::default();
        assert_eq!(kept.sentence(), "nothing was written");
        kept.complete(Path::new(".out"), 0, 8);
        assert_eq!(kept.sentence(), "nothing was written");
        kept.complete(Path::new(".out"), 3, 8);
        let files = "3 of 8 files are complete and kept, run the same command to go on";
        assert_eq!(kept.sentence(), files);
        assert!(kept.keeps(Path::new(".out")) && !kept.keeps(Path::new(".other")));
        kept.forget(Path::new(".out"));
        kept.write(Path::new("x.check"));
        kept.checkpoint(Path::new("x.check"), 12, 40);
        let units = "the checkpoint x.check keeps 12 of 40 units, run the same command to go on";
        assert_eq!(kept.sentence(), units);
        kept.remove(Path::new("x.check"));
        kept.write(Path::new("x.state"));
        kept.write(Path::new("x.state"));
        assert_eq!(kept.sentence(), "x.state is written, nothing else");
        kept.write(Path::new("y"));
        assert_eq!(kept.sentence(), "x.state to y are written (2 files), nothing else");
        kept.leave(Path::new(".y.eigenstream-7-0"));
        let said = kept.sentence();
        assert!(said.contains("nothing else; .y.eigenstream-7-0 has too many files"), "{said}");
    }
}
