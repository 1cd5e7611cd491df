//! What a killed run left: its lock is gone with it.
//!
//! Anybody may put something of that name into a shared directory. So each is looked at before it
//! is opened, since a pipe would wait for a writer; no link is followed; and what is not a file or
//! directory of this user is left alone.

use super::target::Target;
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Ends of hidden names that are no stages.
pub(super) const LOCK: &str = "lock";
pub(super) const OLD: &str = "old";

/// True for a file or directory of this user.
pub(super) fn is_own(found: &Metadata) -> bool {
    let mine = found.uid() == rustix::process::geteuid().as_raw();
    mine && (found.is_file() || found.is_dir())
}

/// Opens a file or directory of this user, and no other.
pub(super) fn open_own(path: &Path) -> Option<(File, Metadata)> {
    let seen = std::fs::symlink_metadata(path).ok()?;
    if !is_own(&seen) {
        return None;
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    is_own(&found).then_some((file, found))
}

/// True when an open file is still what is at its path.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let key = |found: Metadata| (found.dev(), found.ino());
    let there = std::fs::symlink_metadata(path).map(key).ok();
    there.is_some() && file.metadata().map(key).ok() == there
}

/// Removes the stages of this target that nobody works on.
pub(super) fn remove_strays(target: &Target) {
    let Ok(entries) = std::fs::read_dir(&target.parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(end) = name.as_bytes().strip_prefix(target.prefix.as_bytes()) else { continue };
        if end != LOCK.as_bytes() && end != OLD.as_bytes() {
            remove_if_dead(&entry.path());
        }
    }
}

/// Locked while it is removed: who has just made it, and comes to lock it, finds it gone.
fn remove_if_dead(path: &Path) {
    let Some((file, found)) = open_own(path) else { return };
    if file.try_lock().is_ok() && is_at(&file, path) {
        let _ = match found.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
}
