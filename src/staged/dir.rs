//! A directory in the making: files are written into a hidden one beside it, for its owner alone.
//!
//! The hidden one is named after what is written (`key`), so that a run that does the same after a
//! kill finds the files that were complete, each marked when it was synced ([`super::part`]). It is
//! taken up only if it is this user's and closed to others, and then holds those files and no more.

use super::alive::alive;
use super::part::{PartFile, is_marked};
use super::strays::{is_at, open_own, remove_strays};
use super::swap::{into_place, prepare, recover, replaceable};
use super::target::{Target, behind_links, check_dir, parent_of};
use super::{Waiting, kept, lock::TargetLock};
use crate::error::{Error, Result};
use crate::listen::Quiet;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How the names of marks begin.
const DONE: &str = ".done-";

/// A directory in the making.
pub(crate) struct StagedDir {
    /// The hidden directory; `None` when it is in place.
    stage: Option<PathBuf>,
    _lock: File,
    target: Target,
    files: Vec<PathBuf>,
    complete: Vec<bool>,
    /// True when the same command takes up what is complete.
    resumable: bool,
}

impl StagedDir {
    /// Creates the hidden directory, or takes up the one that a killed run of the same key left. A
    /// target that exists must hold nothing but files that this run replaces, so that old and new
    /// do not mix. Without a key nothing is taken up.
    pub(crate) fn create(
        target: &Path,
        files: Vec<PathBuf>,
        key: Option<u64>,
    ) -> Result<StagedDir> {
        check_dir(target)?;
        let parent = parent_of(&behind_links(target)?);
        std::fs::create_dir_all(&parent).map_err(Error::io("create", parent))?;
        let target = Target::of(target)?;
        let held = TargetLock::acquire(&target, Waiting::Wait, &Quiet)?;
        recover(&target);
        if target.real.exists() {
            replaceable(&target, &files)?;
        }
        let named = key.map(|key| target.beside(&format!("r{key:016x}")));
        let left = named.as_deref().and_then(take_up);
        remove_strays(&target);
        let complete = match (&left, &named) {
            (Some(_), Some(stage)) => {
                let complete = files_done(stage, &files);
                sweep(stage, stage, &kept_names(&files, &complete));
                complete
            }
            _ => vec![false; files.len()],
        };
        let mut alive = alive();
        let (stage, lock) = match (left, named) {
            (Some(lock), Some(stage)) => (stage, lock),
            (_, named) => make_locked(&target, named)?,
        };
        alive.insert(stage.clone());
        if key.is_some() {
            let done = complete.iter().filter(|complete| **complete).count();
            kept().complete(&stage, done, files.len());
        }
        drop(alive);
        drop(held);
        let (stage, resumable) = (Some(stage), key.is_some());
        Ok(StagedDir { stage, _lock: lock, target, files, complete, resumable })
    }

    fn path(&self) -> &Path {
        self.stage.as_deref().expect("only commit takes it")
    }

    /// Which of the announced files an earlier run has completed.
    pub(crate) fn complete(&self) -> &[bool] {
        &self.complete
    }

    /// Where those files are until all are.
    pub(crate) fn complete_paths(&self) -> impl Iterator<Item = PathBuf> {
        let complete = self.files.iter().zip(&self.complete).filter(|(_, complete)| **complete);
        complete.map(|(file, _)| self.path().join(file))
    }

    /// Creates one of the announced files.
    pub(crate) fn create_file(&self, index: usize) -> Result<PartFile> {
        let path = self.path().join(&self.files[index]);
        let failed = || Error::io("create", self.target(index));
        let _alive = alive();
        let file = create_below(&path).map_err(failed())?;
        Ok(match self.resumable {
            true => PartFile::marked(file),
            false => PartFile::unmarked(file),
        })
    }

    /// All of a file is written: syncs it, and marks it for a run after a kill.
    pub(crate) fn finish_file(&self, index: usize, part: &PartFile) -> Result<()> {
        part.file().sync_all().map_err(Error::io("write", self.target(index)))?;
        let Some(mark) = part.mark() else { return Ok(()) };
        let _alive = alive();
        let marked = create_new(&mark_path(self.path(), index))
            .and_then(|mut file| file.write_all(mark.as_bytes()));
        // Without its mark a file is only written once more.
        if marked.is_ok() {
            kept().complete(self.path(), 1, self.files.len());
        }
        Ok(())
    }

    /// Writes one of the announced files.
    #[cfg(feature = "cli")]
    pub(crate) fn write_file(&self, index: usize, bytes: &[u8]) -> Result<()> {
        let mut part = self.create_file(index)?;
        part.write_all(bytes).map_err(Error::io("write", self.target(index)))?;
        self.finish_file(index, &part)
    }

    /// The same, not synced yet: see [`StagedDir::sync_all`].
    #[cfg(feature = "cli")]
    pub(crate) fn write_unsynced(&self, index: usize, bytes: &[u8]) -> Result<()> {
        let mut part = self.create_file(index)?;
        part.write_all(bytes).map_err(Error::io("write", self.target(index)))
    }

    /// Syncs all that was written: of thousands of small files at once.
    #[cfg(feature = "cli")]
    pub(crate) fn sync_all(&self) -> Result<()> {
        let failed = Error::io("write", &self.target.shown);
        let synced = std::fs::File::open(self.path()).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
        synced.map_err(failed)
    }

    /// A kill takes the lock and leaves the directory.
    #[cfg(test)]
    pub(crate) fn killed(mut self) {
        alive().remove(self.path());
        self.stage = None;
    }

    /// Where the file with this index will be.
    pub(crate) fn target(&self, index: usize) -> PathBuf {
        self.target.shown.join(&self.files[index])
    }

    /// Puts the directory in place of the target, all of it at once.
    pub(crate) fn commit(mut self) -> Result<()> {
        let held = TargetLock::acquire(&self.target, Waiting::Wait, &Quiet)?;
        if self.target.real.exists() {
            check_dir(&self.target.shown)?;
            replaceable(&self.target, &self.files)?;
        }
        let stage = self.path().to_path_buf();
        prepare(&stage, &self.target, &self.files)
            .map_err(Error::io("create", &self.target.shown))?;
        let mut alive = alive();
        self.remove_marks();
        kept().forget(&stage);
        let placed = into_place(&stage, &self.target);
        if placed.is_ok() {
            self.stage = None;
            alive.remove(&stage);
            kept().write(&self.target.shown);
        }
        let old = placed.as_ref().ok().cloned().flatten();
        alive.extend(old.clone());
        drop(alive);
        placed.map_err(Error::io("create", &self.target.shown))?;
        self.target.sync_parent();
        if let Some(old) = old {
            let _ = std::fs::remove_dir_all(&old);
            super::alive::alive().remove(&old);
        }
        drop(held);
        Ok(())
    }

    fn remove_marks(&self) {
        let files = if self.resumable { self.files.len() } else { 0 };
        (0..files).for_each(|i| drop(std::fs::remove_file(mark_path(self.path(), i))));
    }
}

impl Drop for StagedDir {
    fn drop(&mut self) {
        if let Some(path) = &self.stage {
            kept().forget(path);
            let _ = std::fs::remove_dir_all(path);
            alive().remove(path);
        }
    }
}

fn mark_path(stage: &Path, index: usize) -> PathBuf {
    stage.join(format!("{DONE}{index}"))
}

/// A file that was not there, in place of what was.
fn create_new(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// The same, with the directories above it where they are not there yet.
fn create_below(path: &Path) -> std::io::Result<File> {
    match (create_new(path), path.parent()) {
        (Err(e), Some(parent)) if e.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(parent)?;
            create_new(path)
        }
        (created, _) => created,
    }
}

/// Makes a directory of the first name that is free, and locks it.
///
/// Until it is locked another run may take it for a stray and remove it, or take it up: then once
/// more. Where another run does the same right now, a name of our own.
fn make_locked(target: &Target, named: Option<PathBuf>) -> Result<(PathBuf, File)> {
    let own = |attempt: u32| target.beside(&format!("{}-{attempt}", std::process::id()));
    for path in named.into_iter().chain((0..100).map(own)) {
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(Error::io("create", &target.shown)(e)),
        }
        let Some((lock, _)) = open_own(&path).or_else(|| opened(&path)) else { continue };
        let busy = matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock));
        if !busy && is_at(&lock, &path) {
            return Ok((path, lock));
        }
    }
    let busy = std::io::Error::other("other runs write to it at the same time");
    Err(Error::io("create", &target.shown)(busy))
}

/// What was just made, also where the file system gives it to somebody else.
fn opened(path: &Path) -> Option<(File, std::fs::Metadata)> {
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().map(|found| (file, found))
}

/// The lock of a directory that a killed run left: one of our own, that nobody else could write to
/// and nobody else has.
fn take_up(path: &Path) -> Option<File> {
    let (lock, found) = open_own(path)?;
    let closed = found.is_dir() && found.mode() & 0o077 == 0;
    (closed && lock.try_lock().is_ok() && is_at(&lock, path)).then_some(lock)
}

/// Which files an earlier run has completed there, as their marks say.
fn files_done(stage: &Path, files: &[PathBuf]) -> Vec<bool> {
    let done = |(i, file): (usize, &PathBuf)| is_marked(&stage.join(file), &mark_path(stage, i));
    files.iter().enumerate().map(done).collect()
}

/// Complete files and their marks.
fn kept_names(files: &[PathBuf], complete: &[bool]) -> BTreeSet<PathBuf> {
    let kept = files.iter().enumerate().zip(complete).filter(|(_, complete)| **complete);
    kept.flat_map(|((i, file), _)| [file.clone(), format!("{DONE}{i}").into()]).collect()
}

/// Removes all else.
fn sweep(dir: &Path, stage: &Path, keep: &BTreeSet<PathBuf>) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sweep(&path, stage, keep);
            // It goes if it is empty.
            let _ = std::fs::remove_dir(&path);
        } else if !path.strip_prefix(stage).is_ok_and(|name| keep.contains(name)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    fn files() -> Vec<PathBuf> {
        vec!["a".into(), "sub/b".into()]
    }

    /// Writes a file, and does not mark it.
    fn half(staged: &StagedDir, index: usize) {
        staged.create_file(index).unwrap().write_all(b"half").unwrap();
    }

    fn whole(staged: &StagedDir, index: usize, text: &str) {
        let mut part = staged.create_file(index).unwrap();
        part.write_all(text.as_bytes()).unwrap();
        staged.finish_file(index, &part).unwrap();
    }

    #[test]
    fn what_a_killed_run_has_completed_is_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let killed = StagedDir::create(&target, files(), Some(7)).unwrap();
        whole(&killed, 0, "whole");
        half(&killed, 1);
        let second = StagedDir::create(&target, files(), Some(7)).unwrap();
        assert_eq!(second.complete(), [false, false], "the first is alive and keeps its own");
        drop(second);
        killed.killed();
        let other = StagedDir::create(&dir.path().join("other"), files(), Some(7)).unwrap();
        assert_eq!(other.complete(), [false, false], "another target");
        drop(other);
        let resumed = StagedDir::create(&target, files(), Some(7)).unwrap();
        assert_eq!(resumed.complete(), [true, false]);
        whole(&resumed, 1, "new");
        resumed.commit().unwrap();
        assert_eq!(std::fs::read(target.join("a")).unwrap(), b"whole");
        assert_eq!(names(&target), ["a", "sub"], "no marks are left");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn what_is_not_as_its_mark_says_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let (target, secret) = (dir.path().join("out"), dir.path().join("secret"));
        std::fs::write(&secret, "whole").unwrap();
        type Spoil<'a> = &'a dyn Fn(&Path);
        let spoils: [Spoil<'_>; 4] = [
            &|stage| std::fs::write(stage.join("a"), "other").unwrap(),
            &|stage| std::fs::write(stage.join("a"), "longer than it was").unwrap(),
            &|stage| std::fs::write(stage.join(".done-0"), "").unwrap(),
            &|stage| {
                std::fs::remove_file(stage.join("a")).unwrap();
                symlink(&secret, stage.join("a")).unwrap();
            },
        ];
        for spoil in spoils {
            let killed = StagedDir::create(&target, files(), Some(7)).unwrap();
            whole(&killed, 0, "whole");
            std::fs::write(killed.path().join("more"), "").unwrap();
            let stage = killed.path().to_path_buf();
            killed.killed();
            spoil(&stage);
            let resumed = StagedDir::create(&target, files(), Some(7)).unwrap();
            assert_eq!((resumed.path(), resumed.complete()), (&*stage, &[false, false][..]));
            assert!(names(&stage).is_empty(), "{:?}", names(&stage));
            half(&resumed, 0);
            assert_eq!(std::fs::read(&secret).unwrap(), b"whole");
        }
    }

    #[test]
    fn a_directory_that_others_could_write_to_is_not_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let killed = StagedDir::create(&target, files(), Some(7)).unwrap();
        assert_eq!(std::fs::metadata(killed.path()).unwrap().mode() & 0o777, 0o700);
        whole(&killed, 0, "whole");
        let stage = killed.path().to_path_buf();
        killed.killed();
        std::fs::set_permissions(&stage, PermissionsExt::from_mode(0o777)).unwrap();
        let fresh = StagedDir::create(&target, files(), Some(7)).unwrap();
        assert_eq!(fresh.complete(), [false, false]);
        assert_eq!(std::fs::metadata(fresh.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let stage = |fill: &str| {
            let staged = StagedDir::create(&target, files(), Some(7))?;
            (0..2).for_each(|i| whole(&staged, i, fill));
            Ok::<_, Error>(staged)
        };
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        drop(stage("half").unwrap());
        assert!(names(dir.path()).is_empty());
        stage("one").unwrap().commit().unwrap();
        std::fs::create_dir(dir.path().join("plain")).unwrap();
        assert_eq!(mode(&target), mode(&dir.path().join("plain")));
        std::fs::remove_dir(dir.path().join("plain")).unwrap();
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o710)).unwrap();
        std::fs::set_permissions(target.join("a"), PermissionsExt::from_mode(0o600)).unwrap();
        stage("two").unwrap().commit().unwrap();
        assert_eq!(std::fs::read_to_string(target.join("sub/b")).unwrap(), "two");
        assert_eq!((mode(&target), mode(&target.join("a"))), (0o710, 0o600));
        assert_eq!(names(dir.path()), ["out"]);
        let late = stage("three").unwrap();
        std::fs::write(target.join("notes.txt"), "").unwrap();
        for refused in [late.commit().unwrap_err(), stage("three").err().unwrap()] {
            let said = refused.to_string();
            assert!(said.contains("notes.txt") && said.contains("empty directory"), "{said}");
        }
        assert_eq!(names(&target), ["a", "notes.txt", "sub"]);
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_directory_behind_links_is_made_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        for fill in ["one", "two"] {
            let staged = StagedDir::create(&dir.path().join("link"), files(), None).unwrap();
            (0..2).for_each(|i| whole(&staged, i, fill));
            staged.commit().unwrap();
            assert_eq!(std::fs::read_to_string(dir.path().join("real/a")).unwrap(), fill);
            assert_eq!(names(dir.path()), ["link", "real"]);
        }
    }
}
