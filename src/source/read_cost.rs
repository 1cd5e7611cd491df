//! What decoding Parquet holds, from footers and page headers. No page is read.

use super::UNIT_ROWS;
use super::dataset::Dataset;
use super::features::{FeatureColumn, Features};
use super::footer::Footer;
use super::page_reader;
use super::pages::{self, PageSize};
use super::parquet::{FOOTERS_KEPT, units};
use super::table::{ReadCost, ReadRequest};
use crate::error::{Error, Result};
use ::parquet::basic::Type;
use ::parquet::file::metadata::ColumnChunkMetaData;
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

/// Bytes that a column takes beside its parsed footer: in arrow's schema and among the names it is
/// found by, for each footer, and once in what is asked for (measured with 200,000 columns).
const NAME_BYTES: u64 = 200;

/// What reading takes: of the largest row group of all files, which stands for all of them.
pub(super) fn of_dataset(dataset: &Dataset, request: &ReadRequest) -> Result<ReadCost> {
    let (units, _) = units(&dataset.row_groups);
    let unit_rows = units.iter().map(|u| u.rows).max().unwrap_or(0).max(UNIT_ROWS);
    let cost = ReadCost { units: units.len(), unit_rows, ..ReadCost::default() };
    let Some((path, group)) = largest_row_group(dataset) else { return Ok(cost) };
    let file = File::open(path).map_err(Error::io("open", path))?;
    let footer = Footer::of(&file, path)?;
    let schema = footer.arrow.parquet_schema();
    let here = footer.file_columns();
    let leaves = |name: &str| here.get(name).map_or(0..0, |at| here.column(at).leaves);
    let features = request.features.columns.iter().map(|c| c.name.as_str());
    let features: HashSet<usize> = features.flat_map(leaves).collect();
    let beside: HashSet<usize> = request.names_beside().flat_map(leaves).collect();
    let kept = request.keep.iter().flatten().map(String::as_str);
    let kept: HashSet<usize> = kept.flat_map(leaves).collect();
    let row_group = footer.arrow.metadata().row_group(group);
    let (mut columns, mut largest) = (0u64, 0u64);
    let mut passed = Passed::default();
    for leaf in 0..schema.num_columns() {
        let chunk = row_group.column(leaf);
        // One that is a feature and kept has two decoders.
        let times = u64::from(features.contains(&leaf)) + u64::from(beside.contains(&leaf));
        if times > 0 {
            let Chunk { held, passing } = Chunk::of(chunk, &file);
            columns = columns.saturating_add(held.saturating_mul(times));
            largest = largest.max(passing);
        }
        if kept.contains(&leaf) {
            passed.add(chunk);
        }
    }
    let rows = row_group.num_rows().max(1) as u64;
    let kept_row = if kept.is_empty() { 0 } else { passed.bytes / rows + 8 };
    let kept_values = passed.list_values.div_ceil(rows);
    let parsed = dataset.files.len().min(FOOTERS_KEPT) as u64 + 1;
    let names = NAME_BYTES * footer.arrow.schema().fields().len() as u64;
    let footers = (footer.size_in_memory() + names) * parsed + names;
    let columns = columns.saturating_add(largest);
    let features = &request.features;
    let (row_elements, row_bytes) = (features.row_elements(), decoded_row(features));
    Ok(ReadCost { footers, columns, kept_row, kept_values, row_elements, row_bytes, ..cost })
}

/// What the columns that are passed through hold when they are decoded.
#[derive(Default)]
struct Passed {
    bytes: u64,
    /// Values of lists.
    list_values: u64,
}

impl Passed {
    /// Values of a fixed width have it, however few bytes say them all.
    fn add(&mut self, chunk: &ColumnChunkMetaData) {
        let values = chunk.num_values().max(0) as u64;
        let width = match chunk.column_type() {
            Type::BOOLEAN => 1,
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE | Type::INT96 => 8,
            Type::FIXED_LEN_BYTE_ARRAY => chunk.column_descr().type_length().max(1) as u64,
        };
        let stored = chunk.uncompressed_size().max(0) as u64;
        self.bytes = self.bytes.saturating_add(stored.max(values.saturating_mul(width)));
        if chunk.column_descr().max_rep_level() > 0 {
            self.list_values = self.list_values.saturating_add(values);
        }
    }
}

/// Bytes that reading a column chunk takes.
struct Chunk {
    /// The decoder, a page and the dictionary; a quarter more, since pages of other sizes come and
    /// go between them and leave gaps (measured with 1,500 columns: an eighth).
    held: u64,
    /// A page as it is on disk and as it is decompressed, while it is: of one column at a time.
    passing: u64,
}

impl Chunk {
    fn of(chunk: &ColumnChunkMetaData, file: &File) -> Chunk {
        let sizes = |offset: i64| {
            let size = pages::at(file, offset.max(0) as u64)?;
            page_reader::is_possible(chunk.compression(), size).then_some(size)
        };
        let whole = PageSize {
            uncompressed: chunk.uncompressed_size().max(0) as u64,
            compressed: chunk.compressed_size().max(0) as u64,
        };
        let data = sizes(chunk.data_page_offset()).unwrap_or(whole);
        let dictionary = chunk.dictionary_page_offset().and_then(sizes);
        let dictionary = dictionary.unwrap_or(PageSize { uncompressed: 0, compressed: 0 });
        let pages = (data.uncompressed + dictionary.uncompressed)
            .min(whole.uncompressed + whole.compressed);
        let passing = |page: PageSize| page.uncompressed + page.compressed;
        Chunk {
            held: pages + pages / 4 + DECODER_BYTES,
            passing: passing(data).max(passing(dictionary)),
        }
    }
}

/// Bytes that the decoder of a column holds besides its pages: levels and its own state. Contexts
/// of codecs are a thread's (see [`super::page_reader`]), or small (measured with 20,000 columns:
/// 1 kB).
const DECODER_BYTES: u64 = 4 << 10;

/// Bytes of a row as it is decoded, before it is dense: numbers, and of vectors two levels of two
/// bytes with each.
fn decoded_row(features: &Features) -> u64 {
    let bytes = |column: &FeatureColumn| match (column.width, column.value.as_str()) {
        (None, _) => 8,
        (Some(width), "Float32") => 8 * width as u64,
        (Some(width), _) => 12 * width as u64,
    };
    features.columns.iter().map(bytes).sum()
}

/// The file it is in, and its index there.
fn largest_row_group(dataset: &Dataset) -> Option<(&Path, usize)> {
    let groups = dataset.files.iter().zip(&dataset.row_groups).flat_map(|(file, groups)| {
        groups.iter().enumerate().map(|(index, group)| (group.bytes, file.path.as_path(), index))
    });
    groups.max_by_key(|(bytes, ..)| *bytes).map(|(_, path, index)| (path, index))
}
