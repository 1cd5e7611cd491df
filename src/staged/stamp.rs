//! Which file is at a path, and when it was written last: what changes when a file is replaced or
//! written to. Held: six numbers.

use crate::error::{Error, Result};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which file it is, and when it was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileStamp {
    /// The file system.
    pub device: u64,
    /// The file there.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds of its last change.
    pub modified: (i64, i64),
}

impl FileStamp {
    /// As the file system says.
    pub(crate) fn of(found: &Metadata) -> FileStamp {
        FileStamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }

    /// Of an open file.
    pub(crate) fn of_file(file: &File, path: &Path) -> Result<FileStamp> {
        file.metadata().map(|found| FileStamp::of(&found)).map_err(Error::io("read", path))
    }

    /// Of what is at a path, if something is.
    pub(super) fn at(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|found| FileStamp::of(&found))
    }

    /// True when they are of one file, whenever it was written.
    pub(crate) fn is_same_file(&self, other: &FileStamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
