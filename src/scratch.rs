//! A temporary file without a name: gone with the process, however that ends.
//!
//! Written and read at positions, from any thread. Held: an open file.

use crate::error::{Error, Place, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The file.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    /// For messages.
    dir: PathBuf,
}

impl Scratch {
    /// An empty file in this directory.
    pub(crate) fn create(dir: &Path) -> Result<Scratch> {
        let file =
            tempfile::tempfile_in(dir).map_err(Error::io("create a temporary file in", dir))?;
        Ok(Scratch { file, dir: dir.to_path_buf() })
    }

    /// Writes all of these bytes, from this position on.
    pub(crate) fn write(&self, bytes: &[u8], position: u64) -> Result<()> {
        let failed = Error::io("write a temporary file in", &self.dir);
        self.file.write_all_at(bytes, position).map_err(failed)
    }

    /// Fills the buffer with the bytes from this position on.
    pub(crate) fn read(&self, buffer: &mut [u8], position: u64) -> Result<()> {
        let failed = Error::io("read a temporary file in", &self.dir);
        self.file.read_exact_at(buffer, position).map_err(failed)
    }
}

/// Refuses a directory that is not there, cannot be written to, or has no room for this many
/// bytes.
pub(crate) fn check_dir(dir: &Path, bytes: u64) -> Result<()> {
    let refuse = |problem: String| Err(Error::data(Place::file(dir), problem));
    if !dir.is_dir() {
        let wrong = if dir.exists() { "is not a directory" } else { "does not exist" };
        return refuse(format!("{wrong}; ⟦temp-dir⟧ needs a directory for temporary files"));
    }
    match free_bytes(dir) {
        Some(free) if free < bytes => refuse(format!(
            "has {} free, but {} are needed for a copy of the data cut by features; choose \
             another ⟦temp-dir⟧",
            crate::budget::Bytes(free),
            crate::budget::Bytes(bytes)
        )),
        _ => Ok(()),
    }
}

/// Bytes that an ordinary user may still write there.
pub(crate) fn free_bytes(dir: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_they_were_put_and_the_file_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(dir.path()).unwrap();
        scratch.write(b"world", 6).unwrap();
        scratch.write(b"hello ", 0).unwrap();
        let mut found = [0; 11];
        scratch.read(&mut found, 0).unwrap();
        assert_eq!(&found, b"hello world");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let said = scratch.read(&mut found, 1).unwrap_err().to_string();
        assert!(said.starts_with("cannot read a temporary file in"), "{said}");
    }

    #[test]
    fn a_directory_without_room_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = check_dir(dir.path(), u64::MAX).unwrap_err().to_string();
        assert!(said.contains("are needed") && said.contains("temp_dir"), "{said}");
        assert!(
            check_dir(&dir.path().join("none"), 1)
                .unwrap_err()
                .to_string()
                .contains("does not exist")
        );
    }
}
