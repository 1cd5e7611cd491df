//! Pages of a column chunk: what their headers claim is checked and asked for before it is
//! allocated, and codecs make no more of a page than its header says.
//!
//! Parquet's page reader reserves what a header claims, and lets gzip and brotli inflate as far as
//! they go. So the bytes of a page are handed to it by [`ChunkBytes`], which has seen the header:
//!
//! | claimed | must be |
//! |---|---|
//! | the size of a decompressed page | what the codec can make of its bytes, and fit [`UnitMemory`] |
//! | entries of a dictionary | as many as its bytes can hold |
//! | texts of a block | what fits the memory, each as long as those of the dictionary are on average |
//!
//! It also makes a codec for every column chunk it opens. Most are a few bytes; zstd's is a
//! compressor and a decompressor, together some 100 kB that are written to and most of the time of
//! opening a chunk (300 rows × 20,000 columns: 64 % of a fit). So chunks of codecs that know no
//! bound are read as if they were not compressed (checksums are those of the bytes on disk), and
//! what comes is decompressed by [`super::decompress`].
//!
//! Enters: a chunk as its footer has it. Leaves: pages, byte for byte those of Parquet's reader.
//! Held: what Parquet's reader holds, and a context a thread.

use super::decompress::{Unbounded, damaged, decompress_page};
use super::pages::{self, HEADER_BYTES, PageSize};
use super::pread::Pread;
use super::unit_memory::UnitMemory;
use crate::budget::Bytes as Size;
use crate::words::thousands;
use ::parquet::basic::{Compression, Encoding, Type as Physical};
use ::parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use ::parquet::errors::Result;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// The pages of a leaf column in a row group.
pub(super) fn of_chunk(
    file: &Arc<Pread>,
    group: &RowGroupMetaData,
    leaf: usize,
) -> Result<Box<dyn PageReader>> {
    let (chunk, rows) = (group.column(leaf), group.num_rows().max(0) as usize);
    let bytes = Arc::new(ChunkBytes::new(file.clone(), chunk));
    let pages = match chunk.compression() {
        Compression::ZSTD(_) | Compression::GZIP(_) | Compression::BROTLI(_) => {
            let plain = chunk.clone().into_builder();
            let plain = plain.set_compression(Compression::UNCOMPRESSED).build()?;
            SerializedPageReader::new(bytes.clone(), &plain, rows, None)?
        }
        _ => SerializedPageReader::new(bytes.clone(), chunk, rows, None)?,
    };
    Ok(Box::new(ChunkPages { pages, bytes }))
}

/// The bytes of one column chunk, given out page by page.
struct ChunkBytes {
    file: Arc<Pread>,
    column: ColumnFacts,
    state: Arc<Mutex<ChunkState>>,
}

/// What is to be known of the column.
struct ColumnFacts {
    name: String,
    codec: Compression,
    /// Bytes of an entry at least; of texts those that tell its length.
    entry: u64,
    /// True when values have lengths of their own, or are copied out of the dictionary.
    texts: bool,
    repeated: bool,
}

/// Where the reading of a chunk is.
#[derive(Default)]
struct ChunkState {
    /// The first bytes of the last page header that was read.
    header: [u8; HEADER_BYTES],
    seen: usize,
    /// The page that was given out last.
    page: PageSize,
    /// Bytes that are held of the chunk: a page and the dictionary.
    held_page: u64,
    held_dictionary: u64,
    /// Bytes of an entry of the dictionary on average.
    mean_entry: u64,
}

impl ChunkBytes {
    fn new(file: Arc<Pread>, chunk: &ColumnChunkMetaData) -> ChunkBytes {
        let column = chunk.column_descr();
        let (entry, texts) = match chunk.column_type() {
            Physical::BOOLEAN => (0, false),
            Physical::INT32 | Physical::FLOAT => (4, false),
            Physical::INT64 | Physical::DOUBLE => (8, false),
            Physical::INT96 => (12, false),
            Physical::BYTE_ARRAY => (4, true),
            Physical::FIXED_LEN_BYTE_ARRAY => (column.type_length().max(1) as u64, true),
        };
        let facts = ColumnFacts {
            name: column.path().string(),
            codec: chunk.compression(),
            entry,
            texts,
            repeated: column.max_rep_level() > 0,
        };
        ChunkBytes { file, column: facts, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, ChunkState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn memory(&self) -> &UnitMemory {
        &self.file.memory
    }

    fn ask(&self, bytes: u64, what: impl FnOnce() -> String) -> Result<()> {
        self.memory().ask(bytes, || self.column.name.clone(), what)
    }

    /// Checks the header of a page whose bytes are about to be read, and asks for its memory.
    fn admit(&self, stored: u64) -> Result<()> {
        let mut state = self.state();
        let header = pages::parse(&state.header[..state.seen]);
        let Some((kind, size)) = header.filter(|(_, size)| size.compressed == stored) else {
            return Err(damaged("a page header cannot be read".into()));
        };
        let codec = self.column.codec;
        if !is_possible(codec, size) {
            return Err(damaged(format!(
                "a page of {stored} bytes says it has {}, which {codec} cannot make of it",
                size.uncompressed
            )));
        }
        let is_dictionary = kind == pages::DICTIONARY;
        let decompressed = if codec == Compression::UNCOMPRESSED { 0 } else { size.uncompressed };
        // The reader copies the texts of a dictionary out of its page.
        let copied = if is_dictionary && self.column.texts { size.uncompressed } else { 0 };
        self.ask(decompressed.saturating_add(stored).saturating_add(copied), || {
            let what = if is_dictionary { "dictionary" } else { "page" };
            format!("a {what} of {}", Size(size.uncompressed))
        })?;
        let ChunkState { page, held_page, held_dictionary, .. } = &mut *state;
        *page = size;
        let held = if is_dictionary { held_dictionary } else { held_page };
        self.memory().replace(*held, size.uncompressed);
        *held = size.uncompressed;
        Ok(())
    }

    /// Checks how many entries a dictionary claims to have.
    fn check_dictionary(&self, bytes: u64, entries: u64) -> Result<()> {
        if entries.saturating_mul(self.column.entry) > bytes {
            return Err(damaged(format!(
                "a dictionary of {bytes} bytes says it has {entries} entries"
            )));
        }
        self.state().mean_entry = bytes / entries.max(1);
        Ok(())
    }

    /// Asks for the levels and values that a page adds to the lists of a block.
    fn ask_lists(&self, values: u64) -> Result<()> {
        if !self.column.repeated {
            return Ok(());
        }
        let bytes = self.memory().more_list_values(values);
        self.ask(bytes, || format!("lists of {} values in a page", thousands(values)))
    }

    /// Asks for the texts that a page adds to a block.
    fn ask_texts(&self, values: u64, encoding: Encoding, stored: u64) -> Result<()> {
        if !self.column.texts {
            return Ok(());
        }
        let from_dictionary =
            matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        let values = if self.column.repeated { values } else { values.min(self.memory().rows()) };
        let bytes = match from_dictionary {
            true => values.saturating_mul(self.state().mean_entry),
            false => stored,
        };
        self.ask(bytes, || format!("a block with {} of values", Size(bytes)))?;
        self.memory().add_texts(bytes);
        Ok(())
    }
}

impl Drop for ChunkBytes {
    fn drop(&mut self) {
        let ChunkState { held_page, held_dictionary, .. } = *self.state();
        self.memory().replace(held_page + held_dictionary, 0);
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for ChunkBytes {
    type T = HeaderReader<<Pread as ChunkReader>::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(HeaderReader { inner: self.file.get_read(start)?, state: self.state.clone(), seen: 0 })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.admit(length as u64)?;
        let bytes = self.file.get_bytes(start, length)?;
        if self.column.codec == Compression::LZ4 && bytes.starts_with(LZ4_FRAME) {
            // Of an old writer; frames are decompressed as far as they go.
            let most = most_bytes(Compression::LZ4, length as u64).unwrap_or(0);
            self.ask(most, || format!("a page of {} or less", Size(most)))?;
        }
        Ok(bytes)
    }
}

/// How frames of LZ4 begin.
const LZ4_FRAME: &[u8] = &[0x04, 0x22, 0x4d, 0x18];

/// The most bytes that a codec makes of some, if there is a bound: 3 bytes of snappy copy 64, a
/// byte of LZ4 lengthens a copy by 255, a bit of gzip copies 258 bytes with another one.
fn most_bytes(codec: Compression, stored: u64) -> Option<u64> {
    let times = |n: u64| Some(stored.saturating_mul(n).saturating_add(64));
    match codec {
        Compression::SNAPPY => times(22),
        Compression::LZ4 | Compression::LZ4_RAW => times(256),
        Compression::GZIP(_) => times(1033),
        _ => None,
    }
}

/// False of a page that says it has more bytes than its codec can make of those that are stored.
pub(super) fn is_possible(codec: Compression, size: PageSize) -> bool {
    most_bytes(codec, size.compressed).is_none_or(|most| size.uncompressed <= most)
}

/// Reads a page header, and remembers how it begins.
pub(super) struct HeaderReader<T> {
    inner: T,
    state: Arc<Mutex<ChunkState>>,
    seen: usize,
}

impl<T: Read> Read for HeaderReader<T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if self.seen < HEADER_BYTES {
            let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            let end = (self.seen + read).min(HEADER_BYTES);
            state.header[self.seen..end].copy_from_slice(&buffer[..end - self.seen]);
            self.seen = end;
            state.seen = end;
        }
        Ok(read)
    }
}

/// Pages that are checked, and decompressed where that is ours to do, as they come.
struct ChunkPages {
    pages: SerializedPageReader<ChunkBytes>,
    bytes: Arc<ChunkBytes>,
}

impl ChunkPages {
    fn checked(&self, mut page: Page) -> Result<Page> {
        let size = self.bytes.state().page.uncompressed as usize;
        let codec = Unbounded::of(self.bytes.column.codec);
        match &mut page {
            Page::DataPage { buf, num_values, encoding, .. } => {
                decompress_page(codec, buf, 0, size)?;
                self.bytes.ask_lists(u64::from(*num_values))?;
                self.bytes.ask_texts(u64::from(*num_values), *encoding, buf.len() as u64)?;
            }
            Page::DictionaryPage { buf, num_values, .. } => {
                decompress_page(codec, buf, 0, size)?;
                self.bytes.check_dictionary(buf.len() as u64, u64::from(*num_values))?;
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            } => {
                if *is_compressed {
                    // Levels come first and are never compressed.
                    let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                    decompress_page(codec, buf, levels, size)?;
                }
                self.bytes.ask_lists(u64::from(*num_values))?;
                self.bytes.ask_texts(u64::from(*num_values), *encoding, buf.len() as u64)?;
            }
        }
        Ok(page)
    }
}

impl Iterator for ChunkPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for ChunkPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.checked(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// Some row groups of a file, for arrow's reader.
pub(super) struct RowGroups {
    pub(super) file: Arc<Pread>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) groups: Range<usize>,
}

impl ::parquet::arrow::arrow_reader::RowGroups for RowGroups {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| group.num_rows().max(0) as usize).sum()
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let (file, metadata) = (self.file.clone(), self.metadata.clone());
        Ok(Box::new(Chunks {
            leaf,
            rest: RowGroups { file, metadata, groups: self.groups.clone() },
        }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.groups.clone().map(|group| self.metadata.row_group(group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of one column.
struct Chunks {
    leaf: usize,
    rest: RowGroups,
}

impl Iterator for Chunks {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let RowGroups { file, metadata, groups } = &mut self.rest;
        let group = groups.next()?;
        Some(of_chunk(file, metadata.row_group(group), self.leaf))
    }
}

impl PageIterator for Chunks {}
