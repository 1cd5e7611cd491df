//! A file that is read, changed and written back by one run at a time.
//!
//! The lock is a hidden file beside the target, since the target itself is replaced and may not be
//! there yet. Who has it removes it in the end; who waited for it then finds that what he has
//! locked is no longer at its path, and tries again. What is replaced is what was read: a file that
//! something else has changed meanwhile, with no regard to the lock, is left as it is.

use super::alive::alive;
use super::strays::{LOCK, is_at, is_own};
use super::target::{Target, check_file};
use super::{FileStamp, StagedFile};
use crate::error::{Error, Place, Result};
use crate::listen::{Listener, go_on};
use crate::note::Note;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at a lock that another run has.
const PAUSE: Duration = Duration::from_millis(20);

/// What is done while another run changes the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Wait for its end.
    #[default]
    Wait,
    /// Fail.
    Fail,
}

/// The right to change a target, until it is dropped.
#[derive(Debug)]
pub(super) struct TargetLock {
    file: File,
    path: PathBuf,
}

impl TargetLock {
    pub(super) fn acquire(
        target: &Target,
        waiting: Waiting,
        listener: &dyn Listener,
    ) -> Result<TargetLock> {
        let path = target.beside(LOCK);
        let mut told = false;
        loop {
            if let Some(lock) = TargetLock::attempt(&path, &target.shown)? {
                return Ok(lock);
            }
            if waiting == Waiting::Fail {
                let problem = "another run is changing it; run again after its end, or without \
                               ⟦no-wait⟧";
                return Err(Error::data(Place::file(&target.shown), problem));
            }
            if !told {
                listener.note(&Note::WaitingFor(target.shown.display().to_string()));
                told = true;
            }
            go_on(listener)?;
            std::thread::sleep(PAUSE);
        }
    }

    /// `None` when another run has it.
    fn attempt(path: &Path, shown: &Path) -> Result<Option<TargetLock>> {
        let mut alive = alive();
        loop {
            let Some(file) = open_lock(path, shown)? else { continue };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Not every file system has locks; what is replaced is compared all the same.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            if is_at(&file, path) {
                alive.insert(path.to_path_buf());
                return Ok(Some(TargetLock { file, path: path.to_path_buf() }));
            }
        }
    }
}

/// The file to lock, made if it is not there; `None` when it has just gone.
fn open_lock(path: &Path, shown: &Path) -> Result<Option<File>> {
    let options = || {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options
    };
    let foreign = || {
        let problem = "is in the way: it is not a lock of this user; remove it if nobody is \
                       writing";
        Error::data(Place::file(path), format!("{problem} {}", shown.display()))
    };
    match options().create_new(true).open(path) {
        Ok(file) => return Ok(Some(file)),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::io("lock", shown)(e)),
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !(is_own(&found) && found.is_file()) => return Err(foreign()),
        Ok(_) => {}
        Err(_) => return Ok(None),
    }
    match options().open(path) {
        Ok(file) => match file.metadata() {
            Ok(found) if is_own(&found) && found.is_file() => Ok(Some(file)),
            _ => Err(foreign()),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("lock", shown)(e)),
    }
}

impl Drop for TargetLock {
    fn drop(&mut self) {
        let mut alive = alive();
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        alive.remove(&self.path);
    }
}

/// A file that is locked while it is changed.
#[derive(Debug)]
pub(crate) struct LockedFile {
    shown: PathBuf,
    found: Option<FileStamp>,
    _lock: TargetLock,
}

impl LockedFile {
    /// Waits for other runs that change it, or fails. It may not be there yet.
    pub(crate) fn acquire(
        path: &Path,
        waiting: Waiting,
        listener: &dyn Listener,
    ) -> Result<LockedFile> {
        check_file(path)?;
        let lock = TargetLock::acquire(&Target::of(path)?, waiting, listener)?;
        let (shown, found) = (path.to_path_buf(), FileStamp::at(path));
        Ok(LockedFile { shown, found, _lock: lock })
    }

    /// True when there was one.
    pub(crate) fn exists(&self) -> bool {
        self.found.is_some()
    }

    /// Replaces what was there when it was locked.
    pub(crate) fn write(self, bytes: &[u8]) -> Result<()> {
        let mut staged = StagedFile::create(&self.shown)?;
        staged.file().write_all(bytes).map_err(Error::io("write", &self.shown))?;
        if FileStamp::at(&self.shown) != self.found {
            let problem = "was changed by something else while this run worked on it; it is left \
                           as it is, run again";
            return Err(Error::data(Place::file(&self.shown), problem));
        }
        staged.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::Quiet;

    fn at(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("s")
    }

    #[test]
    fn one_run_at_a_time_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let counted = |_| {
            for _ in 0..50 {
                let file = LockedFile::acquire(&at(&dir), Waiting::Wait, &Quiet).unwrap();
                let old = if file.exists() { std::fs::read(at(&dir)).unwrap() } else { vec![] };
                file.write(&[&old[..], b"x"].concat()).unwrap();
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|i| drop(scope.spawn(move || counted(i)))));
        assert_eq!(std::fs::read(at(&dir)).unwrap().len(), 200);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn who_does_not_wait_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let first = LockedFile::acquire(&at(&dir), Waiting::Fail, &Quiet).unwrap();
        let second = LockedFile::acquire(&at(&dir), Waiting::Fail, &Quiet).unwrap_err();
        assert!(second.to_string().contains("another run is changing it"), "{second}");
        drop(first);
        LockedFile::acquire(&at(&dir), Waiting::Fail, &Quiet).unwrap();
    }

    #[test]
    fn what_something_else_has_changed_is_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(at(&dir), "old").unwrap();
        let file = LockedFile::acquire(&at(&dir), Waiting::Wait, &Quiet).unwrap();
        std::fs::write(dir.path().join("n"), "theirs").unwrap();
        std::fs::rename(dir.path().join("n"), at(&dir)).unwrap();
        let said = file.write(b"ours").unwrap_err().to_string();
        assert!(said.contains("was changed by something else"), "{said}");
        assert_eq!(std::fs::read(at(&dir)).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join(".s.eigenstream-lock");
        std::os::unix::fs::symlink("elsewhere", &lock).unwrap();
        let said = LockedFile::acquire(&at(&dir), Waiting::Wait, &Quiet).unwrap_err().to_string();
        assert!(said.contains("is in the way"), "{said}");
        assert!(!dir.path().join("elsewhere").exists());
    }
}
