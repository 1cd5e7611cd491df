//! One file of a directory in the making, and the mark that it is complete.
//!
//! What is written is hashed on its way. The mark is written after the file is synced and holds its
//! size and hash: a run that takes the directory up keeps the files that are as their marks say.

use super::strays::open_own;
use std::fs::File;
use std::hash::Hasher;
use std::io::{Read, Result, Write};
use std::path::Path;
use twox_hash::XxHash64;

/// Bytes that are read at once to see whether a file is what its mark says.
const CHUNK: usize = 64 << 10;

/// A file being written.
pub(crate) struct PartFile {
    file: File,
    /// Of what is written so far; `None` where nobody takes it up.
    hash: Option<XxHash64>,
    bytes: u64,
}

impl PartFile {
    /// A file that gets no mark.
    pub(crate) fn unmarked(file: File) -> PartFile {
        PartFile { file, hash: None, bytes: 0 }
    }

    /// A file that gets one.
    pub(super) fn marked(file: File) -> PartFile {
        PartFile { file, hash: Some(XxHash64::with_seed(0)), bytes: 0 }
    }

    /// The file below.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// What its mark says.
    pub(super) fn mark(&self) -> Option<String> {
        self.hash.as_ref().map(|hash| mark(self.bytes, hash))
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        if let Some(hash) = &mut self.hash {
            hash.write(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

fn mark(bytes: u64, hash: &XxHash64) -> String {
    format!("{bytes} {:016x}", hash.finish())
}

/// True when a file of this user is what its mark says.
pub(super) fn is_marked(path: &Path, mark_path: &Path) -> bool {
    let said = |path: &Path| {
        let (file, found) = open_own(path)?;
        let mut said = String::new();
        // A mark is short, whatever is there in its place.
        (found.is_file() && file.take(64).read_to_string(&mut said).is_ok()).then_some(said)
    };
    let Some(said) = said(mark_path) else { return false };
    let Some((file, found)) = open_own(path).filter(|(_, found)| found.is_file()) else {
        return false;
    };
    let size = said.split(' ').next().and_then(|size| size.parse().ok());
    size == Some(found.len()) && mark_of(file).is_ok_and(|mark| mark == said)
}

fn mark_of(mut file: File) -> Result<String> {
    let (mut hash, mut bytes, mut chunk) = (XxHash64::with_seed(0), 0, vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(mark(bytes, &hash)),
            n => {
                hash.write(&chunk[..n]);
                bytes += n as u64;
            }
        }
    }
}
