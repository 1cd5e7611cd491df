//! By what a file is known again: where it is on the disk while it is read, what is in it after.
//!
//! Enters: an open file and its footer. Leaves: a hash of bytes of its data pages, which tells two
//! files apart whose footers are equal, as those without statistics are; beside a [`FileStamp`],
//! which changes when the file is replaced or written to. Held: the bytes that are hashed, a file
//! of at most [`WHOLE`] bytes or a sample.

pub use crate::staged::FileStamp;

use crate::error::{Error, Result};
use ::parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::hash::Hasher;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file of at most so many bytes is hashed as a whole.
const WHOLE: u64 = 64 << 10;

/// Of a larger one so many column chunks at most, the first and the last among them.
const CHUNKS: usize = 256;

/// Bytes at either end of a chunk.
const SAMPLE: u64 = 256;

/// xxHash64 of bytes of the data pages.
pub(super) fn data_hash(
    file: &File,
    metadata: &ParquetMetaData,
    size: u64,
    path: &Path,
) -> Result<u64> {
    let mut hash = twox_hash::XxHash64::with_seed(0);
    let mut add = |at: u64, len: u64| -> Result<()> {
        // What a footer claims may be behind the end.
        let len = len.min(size.saturating_sub(at));
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).map_err(Error::io("read", path))?;
        hash.write(&bytes);
        Ok(())
    };
    if size <= WHOLE {
        add(0, size)?;
        return Ok(hash.finish());
    }
    let chunks = || metadata.row_groups().iter().flat_map(|group| group.columns());
    let all = chunks().count();
    let every = all.div_ceil(CHUNKS).max(1);
    for (index, chunk) in chunks().enumerate() {
        if index % every == 0 || index + 1 == all {
            let first = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let (first, len) = (first.max(0) as u64, chunk.compressed_size().max(0) as u64);
            add(first, len.min(SAMPLE))?;
            add(first.saturating_add(len.saturating_sub(SAMPLE)), len.min(SAMPLE))?;
        }
    }
    Ok(hash.finish())
}
