//! Pages of a column chunk, decompressed with one context of zstd and one of gzip a thread.
//!
//! Parquet's page reader makes a codec for every column chunk it opens. Most codecs are a few
//! bytes; zstd's is a compressor and a decompressor, together some 100 kB that are written to and
//! most of the time of opening a chunk (300 rows × 20,000 columns: 64 % of a fit). Gzip's is made
//! for every page (see [`super::gzip`]). So chunks of these two are read as if they were not
//! compressed (checksums are those of the bytes on disk), and what comes is decompressed here.
//!
//! Enters: a chunk as its footer has it. Leaves: pages, byte for byte those of Parquet's reader.
//! Held: what Parquet's reader holds, and a context a thread.

use super::gzip;
use ::parquet::basic::Compression;
use ::parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::ChunkReader;
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;
use std::cell::RefCell;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use zstd::bulk::Decompressor;

/// No page is larger: its header counts in 32 bits.
const MOST_PAGE_BYTES: u64 = i32::MAX as u64;

/// The pages of a leaf column in a row group.
pub(super) fn of_chunk<R: ChunkReader + 'static>(
    file: &Arc<R>,
    group: &RowGroupMetaData,
    leaf: usize,
) -> Result<Box<dyn PageReader>> {
    let (chunk, rows) = (group.column(leaf), group.num_rows().max(0) as usize);
    let codec = match chunk.compression() {
        Compression::ZSTD(_) => Codec::Zstd,
        Compression::GZIP(_) => Codec::Gzip,
        _ => return Ok(Box::new(SerializedPageReader::new(file.clone(), chunk, rows, None)?)),
    };
    let plain = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
    let pages = SerializedPageReader::new(file.clone(), &plain, rows, None)?;
    let most = (chunk.uncompressed_size().max(0) as u64).min(MOST_PAGE_BYTES) as usize;
    Ok(Box::new(PlainPages { pages, codec, most }))
}

/// What is decompressed here.
#[derive(Debug, Clone, Copy)]
enum Codec {
    Zstd,
    Gzip,
}

/// Pages that are decompressed as they come.
struct PlainPages<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    codec: Codec,
    /// What all pages of the chunk are, decompressed.
    most: usize,
}

impl<R: ChunkReader> PlainPages<R> {
    fn decompressed(&self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = decompress(self.codec, buf, 0, self.most)?;
            }
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed: true,
                ..
            } => {
                // Levels come first and are never compressed.
                let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                *buf = decompress(self.codec, buf, levels, self.most)?;
            }
            Page::DataPageV2 { .. } => {}
        }
        Ok(page)
    }
}

impl<R: ChunkReader> Iterator for PlainPages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for PlainPages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.decompressed(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        let page = self.pages.take_deferred_dictionary()?;
        page.map(|page| self.decompressed(page)).transpose()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

thread_local! {
    static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The first `plain` bytes as they are, and the rest decompressed.
fn decompress(codec: Codec, page: &Bytes, plain: usize, most: usize) -> Result<Bytes> {
    let Some((levels, compressed)) = page.split_at_checked(plain) else {
        return Err(ParquetError::General("a page is shorter than its levels".into()));
    };
    if compressed.is_empty() {
        return Ok(Bytes::copy_from_slice(levels));
    }
    let mut out = match codec {
        Codec::Zstd => unzstd(levels, compressed, most)?,
        Codec::Gzip => {
            let size = gzip::told_size(compressed).unwrap_or(0).min(most);
            let mut out = Vec::with_capacity(plain + size);
            out.extend_from_slice(levels);
            gzip::decompress(compressed, &mut out, most)?;
            out
        }
    };
    out.shrink_to_fit();
    Ok(out.into())
}

/// Levels, and what zstd frames hold. Frames that do not tell their size (of writers that stream)
/// have at most what the whole chunk has.
fn unzstd(levels: &[u8], frames: &[u8], most: usize) -> Result<Vec<u8>> {
    let told = zstd::zstd_safe::get_frame_content_size(frames).ok().flatten();
    let size = match told {
        Some(size) if size <= MOST_PAGE_BYTES => size as usize,
        Some(size) => {
            return Err(ParquetError::General(format!("a page says it has {size} bytes")));
        }
        None => most,
    };
    let mut out = Vec::with_capacity(levels.len() + size);
    out.extend_from_slice(levels);
    if !at_once(frames, &mut out)? {
        // Several frames in a page, or a footer that tells too small a size.
        out.truncate(levels.len());
        let frames = zstd::stream::read::Decoder::with_buffer(frames)?;
        frames.take(MOST_PAGE_BYTES).read_to_end(&mut out)?;
    }
    Ok(out)
}

/// Appends what the frames hold to `out`; false where it is not room enough, or they are damaged.
fn at_once(frames: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new()?),
        };
        let mut rest = std::io::Cursor::new(&mut *out);
        rest.set_position(rest.get_ref().len() as u64);
        Ok(context.decompress_to_buffer(frames, &mut rest).is_ok())
    })
}

/// Some row groups of a file, for arrow's reader.
pub(super) struct RowGroups<R> {
    pub(super) file: Arc<R>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) groups: Range<usize>,
}

impl<R: ChunkReader + 'static> ::parquet::arrow::arrow_reader::RowGroups for RowGroups<R> {
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
struct Chunks<R> {
    leaf: usize,
    rest: RowGroups<R>,
}

impl<R: ChunkReader + 'static> Iterator for Chunks<R> {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let RowGroups { file, metadata, groups } = &mut self.rest;
        let group = groups.next()?;
        Some(of_chunk(file, metadata.row_group(group), self.leaf))
    }
}

impl<R: ChunkReader + 'static> PageIterator for Chunks<R> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn frames_of_all_kinds_are_decompressed() {
        let data: Vec<u8> = (0..100_000u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
        let whole = zstd::bulk::compress(&data, 3).unwrap();
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.write_all(&data).unwrap();
        let streamed = encoder.finish().unwrap();
        assert_eq!(zstd::zstd_safe::get_frame_content_size(&streamed).unwrap(), None);
        let parts: Vec<Vec<u8>> =
            data.chunks(150_000).map(|part| zstd::bulk::compress(part, 1).unwrap()).collect();
        for frames in [whole, streamed, parts.concat()] {
            for most in [data.len() + 500, data.len(), 10] {
                let page = Bytes::from([b"levels".as_slice(), &frames].concat());
                let found = decompress(Codec::Zstd, &page, 6, most).unwrap();
                assert_eq!(&found[..6], b"levels");
                assert_eq!(&found[6..], &data[..]);
                let cut = page.slice(..page.len() - 1);
                assert!(decompress(Codec::Zstd, &cut, 6, most).is_err(), "cut short");
            }
        }
        assert_eq!(decompress(Codec::Zstd, &Bytes::from_static(b"ab"), 2, 0).unwrap(), "ab");
        assert!(decompress(Codec::Zstd, &Bytes::from_static(b"ab"), 3, 0).is_err());
        assert!(decompress(Codec::Zstd, &Bytes::from_static(b"no frame"), 0, 100).is_err());
    }
}
