//! Parquet files as a [`Source`].
//!
//! Enters: a dataset and the columns wanted. Leaves: blocks, in file order within a unit. Held per
//! open unit: one page per column (compressed and not), one batch of arrow arrays, one block. Only
//! wanted columns are decoded.

use super::block::{Block, Nulls, Precision};
use super::columns::Features;
use super::densify::{Densify, Floats, Incoming, Origin};
use super::direct::{self, DirectColumn, DirectVector};
use super::footer::{Dataset, FileInfo, Footer, guarded};
use super::labels::LabelWant;
use super::{Source, UNIT_ROWS, Unit, block_rows, pages};
use crate::error::{Error, Place, Result};
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::basic::Compression as Codec;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::ArrowError;
use arrow_schema::DataType;
use bytes::Bytes;
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Parsed footers that are kept for the next unit of the same file.
pub(super) const FOOTERS_KEPT: usize = 8;

/// What is read of each row.
#[derive(Debug, Clone, Default)]
pub struct Want {
    /// The features.
    pub features: Features,
    /// The weight column.
    pub weight: Option<String>,
    /// The labels.
    pub labels: Option<LabelWant>,
    /// Columns passed through; `None` for none, so that no batch is made for them.
    pub keep: Option<Vec<String>>,
    /// The policy for missing values.
    pub nulls: Nulls,
    /// f32 blocks where asked.
    pub precision: Precision,
    /// What to do about a missing value under `--nulls error`.
    pub advice: &'static str,
}

impl Want {
    fn names(&self) -> impl Iterator<Item = &str> {
        let features = self.features.columns.iter().map(|c| c.name.as_str());
        let labels = self.labels.iter().flat_map(|l| &l.columns).map(String::as_str);
        features
            .chain(labels)
            .chain(self.weight.as_deref())
            .chain(self.keep.iter().flatten().map(String::as_str))
    }
}

/// The files, the columns wanted, and the units they are cut into.
pub struct ParquetSource {
    files: Arc<[FileInfo]>,
    want: Want,
    units: Arc<[Unit]>,
    footers: Arc<Mutex<VecDeque<(usize, Footer)>>>,
}

impl ParquetSource {
    /// Nothing is read yet.
    pub fn new(dataset: &Dataset, want: Want) -> ParquetSource {
        let units = units(&dataset.files).into();
        ParquetSource { files: dataset.files.clone().into(), want, units, footers: Arc::default() }
    }

    /// Only the units of files that are not done.
    pub fn without_files(&self, done: &[bool]) -> ParquetSource {
        let left = |u: &&Unit| !done.get(u.file).copied().unwrap_or(false);
        let units: Vec<Unit> = self.units.iter().filter(left).cloned().collect();
        ParquetSource {
            files: self.files.clone(),
            want: self.want.clone(),
            units: units.into(),
            footers: self.footers.clone(),
        }
    }

    /// The same files for some of the columns; parsed footers are shared.
    pub fn of(&self, features: Features) -> ParquetSource {
        // Not `..self.want.clone()`: there may be 200,000 features, and as many groups as they fill.
        let Want { weight, labels, keep, nulls, precision, advice, .. } = &self.want;
        let (weight, labels, keep) = (weight.clone(), labels.clone(), keep.clone());
        let want =
            Want { features, weight, labels, keep, nulls: *nulls, precision: *precision, advice };
        ParquetSource {
            files: self.files.clone(),
            want,
            units: self.units.clone(),
            footers: self.footers.clone(),
        }
    }

    /// Where the rows of a block are, the first of them after so many of the unit; the file alone where rows before
    /// them may be missing.
    pub fn places(&self, unit: usize, read: u64, exact: bool) -> impl Fn(usize) -> Place + use<'_> {
        let unit = &self.units[unit];
        let (path, first) = (&self.files[unit.file].path, unit.first_row + read);
        move |row| {
            let place = Place::file(path);
            if exact { place.row(first + row as u64) } else { place }
        }
    }

    /// Opens a file; its footer is parsed once for some units.
    fn open(&self, file: usize) -> Result<(Pread, Footer)> {
        let info = &self.files[file];
        let handle = File::open(&info.path).map_err(Error::io("open", &info.path))?;
        // Held while parsing, so that workers that want the same footer wait for one copy of it.
        let mut kept = self.footers.lock().unwrap_or_else(|e| e.into_inner());
        let known = kept.iter().find(|(f, _)| *f == file).map(|(_, footer)| footer.clone());
        let footer = match known {
            Some(footer) => footer,
            None => {
                if kept.len() == FOOTERS_KEPT {
                    kept.pop_front();
                }
                let footer = Footer::of(&handle, &info.path)?;
                kept.push_back((file, footer.clone()));
                footer
            }
        };
        drop(kept);
        if footer.hash != info.footer_hash || footer.size != info.size {
            let problem = "changed while it was being read; run again when nothing writes to it";
            return Err(Error::data(Place::file(&info.path), problem));
        }
        Ok((Pread { file: Arc::new(handle), len: info.size }, footer))
    }
}

impl Source for ParquetSource {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn n_features(&self) -> usize {
        self.want.features.len()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let unit = &self.units[unit];
        let info = &self.files[unit.file];
        let (file, footer) = self.open(unit.file)?;
        let layout = Layout::new(&footer, &self.want, &info.path, &unit.row_groups)?;
        let densify = Densify {
            features: &self.want.features,
            origins: layout.origins,
            weight: self.want.weight.as_deref().zip(layout.weight).map(|(name, at)| (at, name)),
            labels: self.want.labels.as_ref().map(|want| (want, layout.labels)),
            kept: layout.kept,
            nulls: self.want.nulls,
            precision: self.want.precision,
            advice: self.want.advice,
            path: &info.path,
        };
        let rows = block_rows(self.n_features());
        let arrow = match layout.arrow {
            None => None,
            Some(mask) => {
                Some(guarded(&info.path, Some(unit.row_groups.start), UNREADABLE, || {
                    ParquetRecordBatchReaderBuilder::new_with_metadata(
                        file.clone(),
                        footer.arrow.clone(),
                    )
                    .with_projection(mask)
                    .with_row_groups(unit.row_groups.clone().collect())
                    .with_batch_size(rows)
                    .build()
                })?)
            }
        };
        let (direct, vectors) = (layout.direct, layout.vectors);
        let (file, failed) = (Arc::new(file), false);
        Ok(Box::new(UnitBlocks {
            file,
            footer,
            arrow,
            direct,
            vectors,
            densify,
            unit,
            info,
            rows,
            done: 0,
            failed,
        }))
    }
}

const UNREADABLE: &str = "cannot be decoded, the file is damaged or cut short";

/// The blocks of one unit.
struct UnitBlocks<'a> {
    file: Arc<Pread>,
    footer: Footer,
    /// Reads all columns that are not direct; `None` where all are.
    arrow: Option<ParquetRecordBatchReader>,
    direct: Vec<DirectColumn>,
    vectors: Vec<DirectVector>,
    densify: Densify<'a>,
    unit: &'a Unit,
    info: &'a FileInfo,
    /// Rows of a block.
    rows: usize,
    done: u64,
    failed: bool,
}

impl UnitBlocks<'_> {
    /// The row group that the next row is in.
    fn row_group(&self) -> usize {
        let mut rows = 0;
        let groups = self.unit.row_groups.clone();
        let holds = |g: &usize| {
            rows += self.info.row_groups[*g].rows;
            self.done < rows
        };
        groups.clone().find(holds).unwrap_or(groups.end.saturating_sub(1))
    }

    /// This many rows of the columns that are not direct.
    fn next_batch(&mut self, rows: usize) -> Result<RecordBatch> {
        let group = self.row_group();
        let Some(reader) = &mut self.arrow else {
            return Ok(RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty())));
        };
        let batch = guarded(&self.info.path, Some(group), UNREADABLE, || {
            reader.next().transpose().map_err(|e| match e {
                ArrowError::ParquetError(said) => ParquetError::General(said),
                other => ParquetError::ArrowError(other.to_string()),
            })
        })?;
        let found = batch.as_ref().map_or(0, RecordBatch::num_rows);
        batch.filter(|b| b.num_rows() == rows).ok_or_else(|| {
            let place = Box::new(Place::file(&self.info.path).row_group(group));
            let problem = format!(
                "gave {found} rows where the footer says {rows} are left; the file is damaged"
            );
            Error::Parquet { place, problem, source: None }
        })
    }

    fn next_block(&mut self, rows: usize) -> Result<Block> {
        let batch = self.next_batch(rows)?;
        let group = self.row_group();
        let UnitBlocks { file, footer, direct, vectors, densify, info, .. } = self;
        let mut decode = |column: usize, out: &mut Vec<f64>, miss: &mut dyn FnMut(usize)| {
            guarded(&info.path, Some(group), UNREADABLE, || {
                direct[column].read(file, footer.arrow.metadata(), rows, out, miss)
            })
        };
        let mut elements = |column: usize, take: &mut dyn FnMut(Floats<'_>) -> Result<()>| {
            let metadata = footer.arrow.metadata();
            let floats =
                guarded(&info.path, Some(group), UNREADABLE, || match &mut vectors[column] {
                    DirectVector::F32(vectors) => {
                        vectors.read(file, metadata, rows).map(Floats::F32)
                    }
                    DirectVector::F64(vectors) => {
                        vectors.read(file, metadata, rows).map(Floats::F64)
                    }
                })?;
            take(floats)
        };
        let first_row = self.unit.first_row + self.done;
        densify.block(Incoming {
            rows,
            first_row,
            batch: &batch,
            direct: &mut decode,
            vectors: &mut elements,
        })
    }
}

impl Iterator for UnitBlocks<'_> {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Result<Block>> {
        let rows = (self.unit.rows - self.done).min(self.rows as u64) as usize;
        if rows == 0 || self.failed {
            return None;
        }
        let block = self.next_block(rows);
        self.done += rows as u64;
        self.failed = block.is_err();
        Some(block)
    }
}

/// How the wanted columns of one file are read.
struct Layout {
    /// For each feature column, where it comes from.
    origins: Vec<Origin>,
    /// The columns that are decoded directly.
    direct: Vec<DirectColumn>,
    /// The vector columns that are decoded without arrow's arrays.
    vectors: Vec<DirectVector>,
    /// All other columns, for arrow's reader.
    arrow: Option<ProjectionMask>,
    /// Positions in its batches.
    weight: Option<usize>,
    labels: Vec<usize>,
    kept: Option<Vec<usize>>,
}

impl Layout {
    fn new(footer: &Footer, want: &Want, path: &Path, groups: &Range<usize>) -> Result<Layout> {
        let roots = footer.roots();
        let root = |name: &str| roots.find(name, path);
        let (mut direct, mut vectors) = (Vec::new(), Vec::new());
        let doubles = want.precision == Precision::Exact && Densify::by_column(&want.features);
        // Where each feature comes from: a direct column, or for now its root.
        let mut origins = Vec::with_capacity(want.features.columns.len());
        for column in &want.features.columns {
            let root = root(&column.name)?;
            let first = roots.leaves[root];
            let leaf = direct::leaf(footer, root, first).filter(|_| doubles);
            let vector = column
                .width
                .and_then(|width| DirectVector::new(footer, root, first, groups.clone(), width));
            origins.push(match (leaf, vector) {
                (Some(leaf), _) => {
                    direct.push(DirectColumn::new(leaf, groups.clone()));
                    Origin::Direct(direct.len() - 1)
                }
                (None, Some(vector)) => {
                    vectors.push(vector);
                    Origin::Vector(vectors.len() - 1)
                }
                (None, None) => Origin::Batch(root),
            });
        }
        let weight = want.weight.as_deref().map(root).transpose()?;
        let labels = want
            .labels
            .iter()
            .flat_map(|l| &l.columns)
            .map(|n| root(n))
            .collect::<Result<Vec<_>>>()?;
        let kept = want
            .keep
            .as_ref()
            .map(|names| names.iter().map(|n| root(n)).collect::<Result<Vec<_>>>())
            .transpose()?;
        let batched = origins
            .iter()
            .filter_map(|o| if let Origin::Batch(root) = o { Some(*root) } else { None });
        let mut sorted: Vec<usize> = batched
            .chain(weight)
            .chain(labels.iter().copied())
            .chain(kept.iter().flatten().copied())
            .collect();
        sorted.sort_unstable();
        sorted.dedup();
        // A batch has the columns of the projection in file order.
        let position = |root: usize| sorted.binary_search(&root).unwrap_or_default();
        let place = |origin| {
            if let Origin::Batch(root) = origin { Origin::Batch(position(root)) } else { origin }
        };
        Ok(Layout {
            origins: origins.into_iter().map(place).collect(),
            direct,
            vectors,
            weight: weight.map(position),
            labels: labels.into_iter().map(position).collect(),
            kept: kept.map(|roots| roots.into_iter().map(position).collect()),
            arrow: (!sorted.is_empty()).then(|| {
                ProjectionMask::roots(footer.arrow.parquet_schema(), sorted.iter().copied())
            }),
        })
    }
}

/// Row groups, neighbours gathered while they are small.
pub(crate) fn units(files: &[FileInfo]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (file, info) in files.iter().enumerate() {
        let mut first_row = 0;
        for (index, group) in info.row_groups.iter().enumerate() {
            match units.last_mut() {
                Some(unit) if unit.file == file && unit.rows + group.rows <= UNIT_ROWS => {
                    unit.row_groups.end = index + 1;
                    unit.rows += group.rows;
                    unit.bytes += group.bytes;
                }
                _ => units.push(Unit {
                    file,
                    row_groups: index..index + 1,
                    first_row,
                    rows: group.rows,
                    bytes: group.bytes,
                }),
            }
            first_row += group.rows;
        }
    }
    units
}

/// The length of the first non-null list of a column: for footers that cannot tell it because some
/// rows are null.
pub(crate) fn first_width(dataset: &Dataset, column: &str) -> Result<usize> {
    for info in dataset.files.iter().filter(|f| f.rows > 0) {
        let file = File::open(&info.path).map_err(Error::io("open", &info.path))?;
        let footer = Footer::of(&file, &info.path)?;
        let root = footer.arrow.schema().fields().iter().position(|f| f.name() == column);
        let Some(root) = root else { continue };
        let mask = ProjectionMask::roots(footer.arrow.parquet_schema(), [root]);
        let reader = guarded(&info.path, None, UNREADABLE, || {
            let input = Pread { file: Arc::new(file), len: info.size };
            ParquetRecordBatchReaderBuilder::new_with_metadata(input, footer.arrow)
                .with_projection(mask)
                .with_batch_size(64)
                .build()
        })?;
        for batch in reader {
            let batch = batch.map_err(|e| Error::Parquet {
                place: Box::new(Place::file(&info.path)),
                problem: e.to_string(),
                source: None,
            })?;
            let array = batch.column(0);
            let length = |row: usize| match array.data_type() {
                DataType::LargeList(_) => array.as_list::<i64>().value_length(row) as usize,
                _ => array.as_list::<i32>().value_length(row) as usize,
            };
            if let Some(row) = (0..array.len()).find(|r| array.is_valid(*r)) {
                return Ok(length(row));
            }
        }
    }
    Err(Error::data(
        Place::file(dataset.first_path()).column(column),
        "is null in every row; leave it out with ⟦exclude⟧",
    ))
}

/// Bytes that the decoder of a column holds besides its page: levels, its own state, and above all its codec's
/// (measured with 20,000 columns: 1 kB without a codec, 23 kB with zstd).
fn decoder_bytes(codec: Codec) -> u64 {
    match codec {
        Codec::UNCOMPRESSED | Codec::SNAPPY | Codec::LZ4 | Codec::LZ4_RAW => 4 << 10,
        Codec::ZSTD(_) => 32 << 10,
        _ => 64 << 10,
    }
}

/// Bytes of a row of these columns, uncompressed, in the largest row group.
pub fn row_bytes(dataset: &Dataset, names: &HashSet<&str>) -> Result<u64> {
    if names.is_empty() {
        return Ok(0);
    }
    let Some((info, group)) = largest_row_group(dataset) else { return Ok(0) };
    let footer = Footer::read(&info.path)?;
    let schema = footer.arrow.parquet_schema();
    let group = footer.arrow.metadata().row_group(group);
    let kept = (0..schema.num_columns())
        .filter(|leaf| names.contains(schema.get_column_root(*leaf).name()));
    let bytes: u64 = kept.map(|leaf| group.column(leaf).uncompressed_size().max(0) as u64).sum();
    Ok(bytes / group.num_rows().max(1) as u64 + 8)
}

fn largest_row_group(dataset: &Dataset) -> Option<(&FileInfo, usize)> {
    let groups = dataset
        .files
        .iter()
        .flat_map(|f| f.row_groups.iter().enumerate().map(move |(g, group)| (group.bytes, f, g)));
    groups.max_by_key(|(bytes, ..)| *bytes).map(|(_, file, group)| (file, group))
}

/// Bytes held to decode.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeBytes {
    /// Parsed footers, which workers share, and one being parsed.
    pub footers: u64,
    /// Of each worker: for each wanted column of the largest row group, a page as it is on disk and as
    /// it is decoded, and the decoder.
    pub columns: u64,
}

impl DecodeBytes {
    /// For `part` of the columns out of `all`.
    pub fn share(&self, part: u64, all: u64) -> DecodeBytes {
        DecodeBytes {
            columns: (self.columns as f64 * part as f64 / all.max(1) as f64).ceil() as u64,
            ..*self
        }
    }

    /// On this many threads.
    pub fn total(&self, threads: usize) -> u64 {
        self.footers.saturating_add(self.columns.saturating_mul(threads as u64))
    }
}

/// What decoding holds, from footers and page headers.
pub fn decode_bytes(dataset: &Dataset, want: &Want) -> Result<DecodeBytes> {
    let Some((info, group)) = largest_row_group(dataset) else { return Ok(DecodeBytes::default()) };
    let file = File::open(&info.path).map_err(Error::io("open", &info.path))?;
    let footer = Footer::of(&file, &info.path)?;
    let schema = footer.arrow.parquet_schema();
    let names: HashSet<&str> = want.names().collect();
    let row_group = footer.arrow.metadata().row_group(group);
    let mut columns = 0u64;
    for leaf in 0..schema.num_columns() {
        if !names.contains(schema.get_column_root(leaf).name()) {
            continue;
        }
        let chunk = row_group.column(leaf);
        let (whole, stored) =
            (chunk.uncompressed_size().max(0) as u64, chunk.compressed_size().max(0) as u64);
        let page = |offset: i64| {
            pages::at(&file, offset.max(0) as u64).map(|p| p.uncompressed + p.compressed)
        };
        let data = page(chunk.data_page_offset()).unwrap_or(whole + stored).min(whole + stored);
        let dictionary = chunk.dictionary_page_offset().and_then(page).unwrap_or(0);
        columns = columns.saturating_add(data + dictionary + decoder_bytes(chunk.compression()));
    }
    let footers = footer.size_in_memory() * (dataset.files.len().min(FOOTERS_KEPT) as u64 + 1);
    Ok(DecodeBytes { footers, columns })
}

/// Positioned reads of one file: many columns at once without a descriptor or a seek for each.
#[derive(Clone)]
struct Pread {
    file: Arc<File>,
    len: u64,
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
        read_into_spare(&self.file, start, &mut buffer, length)?;
        if buffer.len() < length {
            return Err(ParquetError::EOF(format!(
                "only {} of {length} bytes at {start} could be read",
                buffer.len()
            )));
        }
        Ok(buffer.into())
    }
}

/// Appends up to `length` bytes of the file without zeroing the buffer first, which std can only do at a file's cursor.
fn read_into_spare(
    file: &File,
    start: u64,
    buffer: &mut Vec<u8>,
    length: usize,
) -> std::io::Result<()> {
    while buffer.len() < length {
        let position = start + buffer.len() as u64;
        let wanted = length - buffer.len();
        let spare = &mut buffer.spare_capacity_mut()[..wanted];
        // SAFETY: the kernel writes at most `wanted` bytes into the spare capacity, and as many as it says are set.
        let read = unsafe {
            libc::pread(
                file.as_raw_fd(),
                spare.as_mut_ptr().cast(),
                wanted,
                position as libc::off_t,
            )
        };
        match read {
            0 => break,
            n if n > 0 => unsafe { buffer.set_len(buffer.len() + n as usize) },
            _ => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

struct PreadAt {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::footer::RowGroupInfo;

    #[test]
    fn small_row_groups_are_gathered_within_a_file() {
        let file = |rows: &[u64]| FileInfo {
            path: "f".into(),
            relative: "f".into(),
            size: 0,
            rows: rows.iter().sum(),
            footer_hash: 0,
            row_groups: rows.iter().map(|r| RowGroupInfo { rows: *r, bytes: 1 }).collect(),
        };
        let units = units(&[file(&[10_000, 6_000, 6_000]), file(&[100]), file(&[])]);
        let cut: Vec<_> =
            units.iter().map(|u| (u.file, u.row_groups.clone(), u.first_row, u.rows)).collect();
        assert_eq!(cut, [(0, 0..2, 0, 16_000), (0, 2..3, 16_000, 6_000), (1, 0..1, 0, 100)]);
    }
}
