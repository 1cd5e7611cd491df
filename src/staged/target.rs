//! Where something is written: the place behind links, and the hidden names beside it.
//!
//! What cannot be renamed into place is found out here, before a row is read.

use crate::error::{Error, Place, Result};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links that are followed before they are taken for a loop, as the kernel does.
const MOST_LINKS: usize = 40;

/// A place to write to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As it was given: what messages say.
    pub(super) shown: PathBuf,
    /// What links lead to.
    pub(super) real: PathBuf,
    /// The directory that is in.
    pub(super) parent: PathBuf,
    /// How hidden names beside it begin.
    pub(super) prefix: OsString,
}

impl Target {
    /// Its directory must be there.
    pub(super) fn of(shown: &Path) -> Result<Target> {
        let real = behind_links(shown)?;
        let parent = parent_of(&real);
        if !parent.is_dir() {
            let wrong = if parent.exists() {
                "is not a directory; choose another"
            } else {
                "does not exist; create it first"
            };
            let problem = format!("its directory {} {wrong}", parent.display());
            return Err(Error::data(Place::file(shown), problem));
        }
        let mut prefix = OsString::from(".");
        prefix.push(real.file_name().unwrap_or_default());
        prefix.push(".eigenstream-");
        Ok(Target { shown: shown.to_path_buf(), real, parent, prefix })
    }

    /// A hidden name beside it.
    pub(super) fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.prefix.clone();
        name.push(end);
        self.parent.join(name)
    }

    /// A rename is durable when its directory is.
    pub(super) fn sync_parent(&self) {
        if let Ok(dir) = std::fs::File::open(&self.parent) {
            let _ = dir.sync_all();
        }
    }
}

/// The directory of a path that names something.
pub(super) fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What a path leads to, also where that is not there yet.
pub(super) fn behind_links(path: &Path) -> Result<PathBuf> {
    let mut real = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        // By its name: a slash at the end would be followed.
        let Some(name) = real.file_name() else {
            return Error::misuse(format!("'{}' names no file", path.display()));
        };
        let own = real.with_file_name(name);
        real = match std::fs::read_link(&own) {
            Ok(to) => parent_of(&own).join(to),
            Err(_) => return Ok(own),
        };
    }
    Error::misuse(format!("{} is a link that leads nowhere; name another", path.display()))
}

/// Refuses a target that is not a file, or has no directory to be in. Nothing is created: a long
/// pass asks first.
pub(crate) fn check_file(target: &Path) -> Result<()> {
    let shown = target.display();
    match std::fs::metadata(target) {
        Ok(found) if found.is_dir() => {
            Error::misuse(format!("{shown} is a directory; name a file"))
        }
        Ok(found) if !found.is_file() => Error::misuse(format!(
            "{shown} is a device or pipe; output is renamed into place and needs a regular file"
        )),
        _ => {
            let target = Target::of(target)?;
            match is_mount_point(&target.real) {
                false => Ok(()),
                true => Error::misuse(format!(
                    "{shown} is mounted by itself and cannot be replaced; name another file"
                )),
            }
        }
    }
}

/// Refuses a target that is there and is no directory, or one that cannot be replaced as a whole.
pub(crate) fn check_dir(target: &Path) -> Result<()> {
    let shown = target.display();
    let real = behind_links(target)?;
    match std::fs::symlink_metadata(&real) {
        Ok(found) if !found.is_dir() => Error::misuse(format!(
            "{shown} exists and is a file that does not end in .parquet; name a directory, or, \
             for rows, a .parquet file"
        )),
        Ok(_) if is_mount_point(&real) => Error::misuse(format!(
            "{shown} is a mount point, which cannot be replaced as a whole; name a directory \
             inside it"
        )),
        _ => Ok(()),
    }
}

/// True when another file system, or a part of one, begins there.
pub(super) fn is_mount_point(path: &Path) -> bool {
    let device = |path: &Path| std::fs::symlink_metadata(path).map(|found| found.dev()).ok();
    let other = device(path).is_some_and(|own| device(&parent_of(path)) != Some(own));
    other || is_mount_root(path)
}

/// What the kernel says, also where a directory of the same file system is mounted.
#[cfg(target_os = "linux")]
fn is_mount_root(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_root(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_where_nothing_is_yet() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        symlink("real/new", at("one")).unwrap();
        symlink(at("one"), at("two")).unwrap();
        assert_eq!(behind_links(&at("two/")).unwrap(), at("real/new"));
        assert_eq!(behind_links(&at("plain")).unwrap(), at("plain"));
        assert_eq!(behind_links(Path::new("plain")).unwrap(), Path::new("plain"));
        symlink("loop", at("loop")).unwrap();
        assert!(behind_links(&at("loop")).unwrap_err().to_string().contains("leads nowhere"));
        symlink("none/new", at("lost")).unwrap();
        let said = Target::of(&at("lost")).unwrap_err().to_string();
        assert!(said.contains("none does not exist; create it first"), "{said}");
        assert!(!is_mount_point(dir.path()) && is_mount_point(Path::new("/proc")));
    }
}
