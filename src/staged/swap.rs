//! A directory in the place of another, in one step.
//!
//! The kernel exchanges the two; where the file system cannot do that, the old one goes aside to
//! `.NAME.eigenstream-old` first, and the next run puts it back if the new one did not come. Done
//! under the target's lock: a kill at any moment leaves the old one or the new one, and of two
//! writers each a whole result.

use super::mode::keep_mode;
use super::strays::{OLD, is_own};
use super::target::{Target, is_mount_point};
use crate::error::{Error, Place, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Refuses a directory that holds anything but these files, which the new one would not have.
pub(super) fn replaceable(target: &Target, files: &[PathBuf]) -> Result<()> {
    let files = files.iter().map(PathBuf::as_path).collect();
    replaceable_below(&target.real, Path::new(""), &target.shown, &files)
}

fn replaceable_below(
    dir: &Path,
    below: &Path,
    shown: &Path,
    files: &BTreeSet<&Path>,
) -> Result<()> {
    let failed = |e| Error::io("list", shown.join(below))(e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, relative) = (entry.path(), below.join(entry.file_name()));
        let refuse = |problem: &str| Err(Error::data(Place::file(shown.join(&relative)), problem));
        // Links are files: what they lead to stays where it is.
        if !entry.file_type().map_err(failed)?.is_dir() {
            if !files.contains(relative.as_path()) {
                return refuse(
                    "is in the output directory and would be left beside the new files; choose \
                     an empty directory or remove it",
                );
            }
        } else if is_mount_point(&path) {
            return refuse("is mounted inside the output directory; choose another");
        } else {
            replaceable_below(&path, &relative, shown, files)?;
        }
    }
    Ok(())
}

/// What takes time with many files, before the step itself: modes of what is replaced, syncs.
pub(super) fn prepare(stage: &Path, target: &Target, files: &[PathBuf]) -> std::io::Result<()> {
    let real = &target.real;
    if std::fs::symlink_metadata(real).is_ok() {
        files.iter().for_each(|file| keep_file_mode(&stage.join(file), &real.join(file)));
    }
    sync_directories(stage, files)
}

/// Puts a complete directory in place; gives where the old one is, if there was one.
pub(super) fn into_place(stage: &Path, target: &Target) -> std::io::Result<Option<PathBuf>> {
    let real = &target.real;
    let dir = File::open(stage)?;
    let old = std::fs::symlink_metadata(real).ok();
    keep_mode(&dir, old.as_ref());
    if old.is_none() {
        return std::fs::rename(stage, real).map(|()| None);
    }
    match renameat_with(CWD, stage, CWD, real, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(Some(stage.to_path_buf())),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => aside(stage, target).map(Some),
        Err(e) => Err(e.into()),
    }
}

fn keep_file_mode(new: &Path, old: &Path) {
    if let (Ok(file), Ok(old)) = (File::open(new), std::fs::metadata(old)) {
        keep_mode(&file, Some(&old));
    }
}

/// Names are durable when their directories are.
fn sync_directories(stage: &Path, files: &[PathBuf]) -> std::io::Result<()> {
    let dirs: BTreeSet<&Path> = files.iter().flat_map(|file| file.ancestors().skip(1)).collect();
    dirs.iter().try_for_each(|dir| File::open(stage.join(dir))?.sync_all())
}

/// Where two directories cannot be exchanged: two renames.
fn aside(stage: &Path, target: &Target) -> std::io::Result<PathBuf> {
    let old = target.beside(OLD);
    std::fs::rename(&target.real, &old)?;
    std::fs::rename(stage, &target.real).inspect_err(|_| {
        let _ = std::fs::rename(&old, &target.real);
    })?;
    Ok(old)
}

/// Puts back what a run that was killed between the two left aside, or removes it.
pub(super) fn recover(target: &Target) {
    let old = target.beside(OLD);
    let aside = std::fs::symlink_metadata(&old).is_ok_and(|f| f.is_dir() && is_own(&f));
    let _ = match (aside, std::fs::symlink_metadata(&target.real).is_ok()) {
        (false, _) => Ok(()),
        (true, false) => std::fs::rename(&old, &target.real),
        (true, true) => std::fs::remove_dir_all(&old),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, text: &str) {
        std::fs::create_dir(dir).unwrap();
        std::fs::write(dir.join("f"), text).unwrap();
    }

    #[test]
    fn what_was_set_aside_is_put_back_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::of(&dir.path().join("out")).unwrap();
        let (old, stage) = (target.beside(OLD), target.beside("new"));
        let text = |path: &Path| std::fs::read_to_string(path.join("f")).unwrap();
        write(&target.real, "one");
        write(&stage, "two");
        assert_eq!(aside(&stage, &target).unwrap(), old);
        assert_eq!((text(&target.real), text(&old)), ("two".into(), "one".into()));
        // Killed before it was removed.
        recover(&target);
        assert!(!old.exists() && text(&target.real) == "two");
        // Killed between the renames.
        std::fs::rename(&target.real, &old).unwrap();
        recover(&target);
        assert!(!old.exists() && text(&target.real) == "two");
        // The second rename fails.
        assert!(aside(&stage, &target).is_err());
        assert!(!old.exists() && text(&target.real) == "two");
    }
}
