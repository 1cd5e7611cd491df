//! Files and directories that are either whole or not there.
//!
//! Everything is written beside its target under a hidden name (`.NAME.eigenstream-XXXXXX`), synced
//! and renamed. A dropped stage removes itself; so does [`exit_on_signals`] before it ends the
//! process, but for files that are complete and that the same command takes up. What a killed
//! process left behind is not locked any more, and the next run that writes the same target removes
//! it.

mod kept;

pub(crate) use kept::kept;

use crate::error::{Error, Place, Result};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

const MARK: &str = ".eigenstream-";

/// Paths to remove if the process is told to stop.
static ALIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn alive() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    ALIVE.lock().unwrap_or_else(|e| e.into_inner())
}

/// On SIGINT, SIGTERM or SIGHUP: remove what is staged, say what is left, exit with 128 + signal.
#[cfg(feature = "cli")]
pub(crate) fn exit_on_signals(say: impl FnOnce(&str) + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let failed = Error::io("watch", "signals");
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Held until the end: nothing new is staged or renamed meanwhile.
            let staged = alive();
            let kept = kept();
            for path in staged.iter().filter(|path| !kept.keeps(path)) {
                let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
            }
            say(&kept.sentence());
            signal_hook::low_level::exit(128 + signal);
        }
    });
    Ok(())
}

/// A file in the making.
pub(crate) struct StagedFile {
    temporary: Option<tempfile::NamedTempFile>,
    target: PathBuf,
}

impl StagedFile {
    /// Creates the temporary file beside the target, or beside the file that a link points to.
    pub(crate) fn create(target: &Path) -> Result<StagedFile> {
        check_file(target)?;
        let target = &std::fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
        let (parent, prefix) = stage_name(target)?;
        remove_strays(&parent, &prefix);
        let mut alive = alive();
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder.tempfile_in(&parent).map_err(Error::io("create", target))?;
        let _ = temporary.as_file().try_lock();
        alive.insert(temporary.path().to_path_buf());
        Ok(StagedFile { temporary: Some(temporary), target: target.to_path_buf() })
    }

    /// The file to write to.
    pub(crate) fn file(&mut self) -> &mut File {
        self.temporary.as_mut().expect("only commit and drop take it").as_file_mut()
    }

    /// Syncs and renames.
    pub(crate) fn commit(mut self) -> Result<()> {
        let Some(temporary) = self.temporary.take() else {
            return Ok(());
        };
        temporary.as_file().sync_all().map_err(Error::io("write", &self.target))?;
        let mut alive = alive();
        alive.remove(temporary.path());
        temporary.persist(&self.target).map_err(|e| Error::io("create", &self.target)(e.error))?;
        kept().write(&self.target);
        sync_parent(&self.target);
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            alive().remove(temporary.path());
        }
    }
}

/// A directory in the making: files are written into a hidden one beside it.
///
/// The hidden one is named after what is written (`key`), so that a run that does the same after a
/// kill finds the files that were complete, each marked when it was synced.
pub(crate) struct StagedDir {
    temporary: Option<PathBuf>,
    _lock: File,
    target: PathBuf,
    files: Vec<PathBuf>,
    complete: Vec<bool>,
    /// True when the same command takes up what is complete.
    resumable: bool,
}

const LOCK: &str = ".lock";
const DONE: &str = ".done-";

/// Which files an earlier run has completed there.
fn files_done(dir: &Path, files: &[PathBuf]) -> Vec<bool> {
    let done = |(i, file): (usize, &PathBuf)| {
        dir.join(format!("{DONE}{i}")).exists() && dir.join(file).is_file()
    };
    files.iter().enumerate().map(done).collect()
}

/// Makes a directory of the first name that is free, and locks it.
///
/// Until it is locked another run may take it for a stray and remove it: then once more. Where
/// another run does the same right now, a name of our own.
fn make_locked(target: &Path, name: impl Fn(u32) -> PathBuf) -> Result<(PathBuf, File)> {
    for path in (0..100).map(name) {
        match std::fs::create_dir(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(Error::io("create", target)(e)),
        }
        match File::create(path.join(LOCK)) {
            Ok(lock) => {
                let _ = lock.try_lock();
                if path.join(LOCK).exists() {
                    return Ok((path, lock));
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => {
                let _ = std::fs::remove_dir_all(&path);
                return Err(Error::io("create", target)(e));
            }
        }
    }
    let busy = std::io::Error::other("other runs write to it at the same time");
    Err(Error::io("create", target)(busy))
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
        if target.exists() {
            replaceable(target, target, &files.iter().map(PathBuf::as_path).collect())?;
        }
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty() && !p.exists());
        if let Some(parent) = parent {
            std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        let (parent, prefix) = stage_name(target)?;
        let own = |attempt: u32| parent.join(format!("{prefix}{}-{attempt}", std::process::id()));
        let named = key.map_or_else(|| own(0), |key| parent.join(format!("{prefix}r{key:016x}")));
        let mut alive = alive();
        let left = key.and_then(|_| take_up(&named));
        remove_strays(&parent, &prefix);
        let (temporary, lock, complete) = match left {
            Some(lock) => {
                let complete = files_done(&named, &files);
                (named, lock, complete)
            }
            None => {
                let name = |attempt| if attempt == 0 { named.clone() } else { own(attempt) };
                let (path, lock) = make_locked(target, name)?;
                (path, lock, vec![false; files.len()])
            }
        };
        alive.insert(temporary.clone());
        if key.is_some() {
            let done = complete.iter().filter(|complete| **complete).count();
            kept().complete(&temporary, done, files.len());
        }
        let (target, resumable) = (target.to_path_buf(), key.is_some());
        Ok(StagedDir {
            temporary: Some(temporary),
            _lock: lock,
            target,
            files,
            complete,
            resumable,
        })
    }

    fn path(&self) -> &Path {
        self.temporary.as_deref().expect("only commit and drop take it")
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
    pub(crate) fn create_file(&self, index: usize) -> Result<File> {
        let path = self.path().join(&self.files[index]);
        let shown = self.target.join(&self.files[index]);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io("create", &shown))?;
        }
        File::create(&path).map_err(Error::io("create", &shown))
    }

    /// Marks a file that is synced, for a run after a kill.
    pub(crate) fn mark(&self, index: usize) {
        // Without its mark a file is only written once more.
        let marked = File::create(self.path().join(format!("{DONE}{index}")));
        if self.resumable && marked.is_ok() {
            kept().complete(self.path(), 1, self.files.len());
        }
    }

    /// A kill takes the lock and leaves the directory.
    #[cfg(test)]
    pub(crate) fn killed(mut self) {
        alive().remove(self.path());
        self.temporary = None;
    }

    /// Where the file with this index will be.
    pub(crate) fn target(&self, index: usize) -> PathBuf {
        self.target.join(&self.files[index])
    }

    /// Renames: the whole directory where the target does not exist, else file by file.
    pub(crate) fn commit(mut self) -> Result<()> {
        let Some(path) = self.temporary.take() else {
            return Ok(());
        };
        let mut alive = alive();
        alive.remove(&path);
        kept().forget(&path);
        (0..self.files.len()).for_each(|i| {
            let _ = std::fs::remove_file(path.join(format!("{DONE}{i}")));
        });
        let _ = std::fs::remove_file(path.join(LOCK));
        let clean = |e| {
            let _ = std::fs::remove_dir_all(&path);
            e
        };
        if !self.target.exists() {
            std::fs::rename(&path, &self.target)
                .map_err(|e| clean(Error::io("create", &self.target)(e)))?;
        } else {
            for file in &self.files {
                let target = self.target.join(file);
                if let Some(parent) = target.parent() {
                    std::fs::create_dir_all(parent)
                        .map_err(|e| clean(Error::io("create", parent)(e)))?;
                }
                std::fs::rename(path.join(file), &target)
                    .map_err(|e| clean(Error::io("create", &target)(e)))?;
            }
            let _ = std::fs::remove_dir_all(&path);
        }
        kept().write(&self.target);
        sync_parent(&self.target);
        Ok(())
    }
}

impl Drop for StagedDir {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            let mut alive = alive();
            alive.remove(path);
            kept().forget(path);
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The lock of a directory that a killed run left, if there is one and nobody else has it.
fn take_up(path: &Path) -> Option<File> {
    let lock = File::open(path.join(LOCK)).ok()?;
    lock.try_lock().ok()?;
    Some(lock)
}

/// Refuses a target that is not a file, or has no directory to be in. Nothing is created: a long
/// pass asks first.
pub(crate) fn check_file(target: &Path) -> Result<()> {
    match std::fs::metadata(target) {
        Ok(found) if found.is_dir() => {
            Err(Error::Misuse(format!("{} is a directory; name a file", target.display())))
        }
        Ok(found) if !found.is_file() => Err(Error::Misuse(format!(
            "{} is a device or pipe; output is renamed into place and needs a regular file",
            target.display()
        ))),
        _ => stage_name(target).map(|_| ()),
    }
}

fn stage_name(target: &Path) -> Result<(PathBuf, String)> {
    let name = target
        .file_name()
        .ok_or_else(|| Error::Misuse(format!("'{}' names no file", target.display())))?;
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    if !parent.is_dir() {
        let wrong = if parent.exists() {
            "is not a directory; choose another"
        } else {
            "does not exist; create it first"
        };
        return Err(Error::data(
            Place::file(target),
            format!("its directory {} {wrong}", parent.display()),
        ));
    }
    Ok((parent, format!(".{}{MARK}", name.to_string_lossy())))
}

/// Removes what a killed run left: its lock is gone with it.
fn remove_strays(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for path in entries.flatten().map(|e| e.path()) {
        let ours = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        if !ours {
            continue;
        }
        let lock = if path.is_dir() { File::open(path.join(LOCK)) } else { File::open(&path) };
        // A directory without a lock was left by a run that was killed before it made one.
        let dead = match lock {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(e) => path.is_dir() && e.kind() == std::io::ErrorKind::NotFound,
        };
        if dead {
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
}

fn replaceable(dir: &Path, root: &Path, files: &HashSet<&Path>) -> Result<()> {
    if !dir.is_dir() {
        return Err(Error::Misuse(format!(
            "{} exists and is a file that does not end in .parquet; name a directory, or, for \
             rows, a .parquet file",
            dir.display()
        )));
    }
    for entry in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        if path.is_dir() {
            replaceable(&path, root, files)?;
        } else if !files.contains(path.strip_prefix(root).unwrap_or(&path)) {
            let problem = "is in the output directory and would be left beside the new files; \
                           choose an empty directory or remove it";
            return Err(Error::data(Place::file(&path), problem));
        }
    }
    Ok(())
}

/// A rename is durable when its directory is.
fn sync_parent(target: &Path) {
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(dir) = File::open(parent) {
        let _ = dir.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_dropped_file_leaves_nothing_and_a_committed_one_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("m");
        std::fs::write(&target, "old").unwrap();
        let mut staged = StagedFile::create(&target).unwrap();
        staged.file().write_all(b"half").unwrap();
        drop(staged);
        assert_eq!(names(dir.path()), ["m"]);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
        let mut staged = StagedFile::create(&target).unwrap();
        staged.file().write_all(b"new").unwrap();
        staged.commit().unwrap();
        assert_eq!(names(dir.path()), ["m"]);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    }

    #[test]
    fn strays_go_and_live_stages_stay() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("m");
        std::fs::write(dir.path().join(".m.eigenstream-dead"), "").unwrap();
        std::fs::create_dir(dir.path().join(".m.eigenstream-unlocked")).unwrap();
        let live = StagedFile::create(&target).unwrap();
        let second = StagedFile::create(&target).unwrap();
        assert_eq!(names(dir.path()).len(), 2, "the stray is gone, both live ones are there");
        drop((live, second));
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn what_a_killed_run_has_completed_is_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let files = || vec![PathBuf::from("a"), PathBuf::from("b")];
        let killed = StagedDir::create(&target, files(), Some(7)).unwrap();
        killed.create_file(0).unwrap().write_all(b"whole").unwrap();
        killed.mark(0);
        killed.create_file(1).unwrap().write_all(b"half").unwrap();
        let second = StagedDir::create(&target, files(), Some(7)).unwrap();
        assert_eq!(second.complete(), [false, false], "the first is alive and keeps its own");
        drop(second);
        killed.killed();
        let other = StagedDir::create(&dir.path().join("other"), files(), Some(7)).unwrap();
        assert_eq!(other.complete(), [false, false], "another target");
        drop(other);
        let resumed = StagedDir::create(&target, files(), Some(7)).unwrap();
        assert_eq!(resumed.complete(), [true, false]);
        resumed.create_file(1).unwrap().write_all(b"new").unwrap();
        resumed.commit().unwrap();
        assert_eq!(std::fs::read(target.join("a")).unwrap(), b"whole");
        assert_eq!(names(&target), ["a", "b"], "no marks are left");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_directory_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let stage = |fill: &str| {
            let staged = StagedDir::create(&target, vec!["a/x.parquet".into()], Some(7))?;
            staged.create_file(0)?.write_all(fill.as_bytes()).unwrap();
            Ok::<_, Error>(staged)
        };
        drop(stage("half").unwrap());
        assert!(names(dir.path()).is_empty());
        stage("one").unwrap().commit().unwrap();
        stage("two").unwrap().commit().unwrap();
        assert_eq!(std::fs::read_to_string(target.join("a/x.parquet")).unwrap(), "two");
        assert_eq!(names(dir.path()), ["out"]);
        std::fs::write(target.join("notes.txt"), "").unwrap();
        let refused = stage("three").err().unwrap().to_string();
        assert!(refused.contains("notes.txt") && refused.contains("empty directory"), "{refused}");
    }
}
