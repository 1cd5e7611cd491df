//! Removal within a time: of what a stopped run has staged, which may be hundreds of thousands of
//! files.
//!
//! Goes down by handles and follows no link, whoever else may write there.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

/// How a removal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removed {
    /// Nothing is there any more.
    All,
    /// The time was over, or something could not be removed.
    NotAll,
}

/// Removes a file, or a directory and what is below it, until a moment.
pub(super) fn remove_until(path: &Path, end: Instant) -> Removed {
    let removed = match unlinkat(CWD, path, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => match open_dir(CWD, path) {
            Ok(dir) => remove_below(dir.as_fd(), end)
                .and_then(|()| unlinkat(CWD, path, AtFlags::REMOVEDIR)),
            Err(e) => Err(e),
        },
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Removed::All,
        Err(_) => Removed::NotAll,
    }
}

fn open_dir(
    at: BorrowedFd<'_>,
    path: impl rustix::path::Arg,
) -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

fn remove_below(dir: BorrowedFd<'_>, end: Instant) -> Result<(), Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if Instant::now() >= end {
            return Err(Errno::TIME);
        }
        match remove_entry(dir, name, end) {
            // Another thread may be removing the same.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn remove_entry(dir: BorrowedFd<'_>, name: &CStr, end: Instant) -> Result<(), Errno> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {
            remove_below(open_dir(dir, name)?.as_fd(), end)?;
            unlinkat(dir, name, AtFlags::REMOVEDIR)
        }
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn filled() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("stage/sub/deep")).unwrap();
        for name in ["a", "sub/b", "sub/deep/c"] {
            std::fs::write(dir.path().join("stage").join(name), name).unwrap();
        }
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::fs::write(dir.path().join("other/kept"), "").unwrap();
        std::os::unix::fs::symlink("../other", dir.path().join("stage/link")).unwrap();
        dir
    }

    #[test]
    fn all_goes_and_nothing_behind_links() {
        let (dir, end) = (filled(), Instant::now() + Duration::from_secs(60));
        assert_eq!(remove_until(&dir.path().join("stage"), end), Removed::All);
        assert!(!dir.path().join("stage").exists() && dir.path().join("other/kept").exists());
        assert_eq!(remove_until(&dir.path().join("other/kept"), end), Removed::All);
        assert_eq!(remove_until(&dir.path().join("never there"), end), Removed::All);
        assert_eq!(std::fs::read_dir(dir.path().join("other")).unwrap().count(), 0);
    }

    #[test]
    fn what_the_time_did_not_suffice_for_is_told() {
        let dir = filled();
        assert_eq!(remove_until(&dir.path().join("stage"), Instant::now()), Removed::NotAll);
        assert!(dir.path().join("stage/sub/deep/c").exists());
    }
}
