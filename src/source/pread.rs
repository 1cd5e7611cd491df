//! Positioned reads of one file, as Parquet's decoders want them. Held: an open file.

use super::unit_memory::UnitMemory;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Positioned reads of one file: many columns at once without a descriptor or a seek for each.
#[derive(Clone)]
pub(super) struct Pread {
    pub(super) file: Arc<File>,
    pub(super) len: u64,
    /// What is decoded of it at a time.
    pub(super) memory: Arc<UnitMemory>,
}

impl Length for Pread {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Pread {
    type T = BufReader<PreadAt>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        Ok(BufReader::new(PreadAt { file: self.file.clone(), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        if start.saturating_add(length as u64) > self.len {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} are beyond the end of the file"
            )));
        }
        let mut buffer = Vec::with_capacity(length);
        while buffer.len() < length {
            // Into spare capacity: std can read without zeroing first only at a file's cursor.
            let position = start + buffer.len() as u64;
            match rustix::io::pread(&*self.file, spare_capacity(&mut buffer), position) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        if buffer.len() < length {
            return Err(ParquetError::EOF(format!(
                "only {} of {length} bytes at {start} could be read",
                buffer.len()
            )));
        }
        buffer.truncate(length);
        Ok(buffer.into())
    }
}

/// A reader at a position of its own.
pub(super) struct PreadAt {
    file: Arc<File>,
    position: u64,
}

impl Read for PreadAt {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
