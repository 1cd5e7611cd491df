//! Who may read what is put in place: as what was there before, or as any new file.

use rustix::fs::Mode;
use std::fs::{File, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::sync::OnceLock;

/// Bits that new files and directories do not get. Asked once: asking sets it for a moment, to one
/// that lets nobody else in.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
        rustix::process::umask(mask);
        mask.bits() as u32
    })
}

/// Gives a file or directory the mode of the one that it replaces, and its owner where that is
/// possible; without one, those of any new one.
pub(super) fn keep_mode(file: &File, replaced: Option<&Metadata>) {
    let Ok(own) = file.metadata() else { return };
    let Some(old) = replaced else {
        let all = if own.is_dir() { 0o777 } else { 0o666 };
        let _ = file.set_permissions(Permissions::from_mode(all & !umask()));
        return;
    };
    let mut mode = old.mode() & if own.is_dir() { 0o7777 } else { 0o777 };
    if own.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // Another group would be let in.
        mode &= !0o070;
    }
    let _ = file.set_permissions(Permissions::from_mode(mode));
    if own.uid() != old.uid() {
        let _ = fchown(file, Some(old.uid()), None);
    }
}
