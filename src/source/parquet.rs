//! Parquet files as a [`Source`].
//!
//! Enters: a dataset and a request. Leaves: blocks, in file order within a unit. Held per open
//! unit: one page per column (compressed and not), one batch of arrow arrays, one block. Only
//! requested columns are decoded.

use super::batch_reader::batch_of;
use super::block::Block;
use super::content::FileStamp;
use super::dataset::Dataset;
use super::densify::{Densify, Floats, Incoming};
use super::direct::{DirectColumn, DirectVector};
use super::footer::{FileColumn, Footer, RowGroupInfo, guarded};
use super::layout::{BatchColumn, ColumnLayout};
use super::nested::nested_array;
use super::page_reader::RowGroups;
use super::partitions::PartitionKeys;
use super::pread::Pread;
use super::table::{InputInfo, ReadRequest};
use super::unit_memory::UnitMemory;
use super::{Source, UNIT_ROWS, Unit, block_rows, numbers};
use crate::error::{Error, Place, Result};
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use ::parquet::errors::ParquetError;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field};
use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Parsed footers that are kept for the next unit of the same file.
pub(super) const FOOTERS_KEPT: usize = 8;

/// The files, the request, and the units they are cut into.
pub(crate) struct ParquetSource {
    files: Arc<[InputInfo]>,
    keys: Arc<PartitionKeys>,
    request: ReadRequest,
    cut: Arc<Cut>,
    footers: Arc<Mutex<VecDeque<(usize, Footer)>>>,
}

/// Units, and where their rows are.
struct Cut {
    units: Vec<Unit>,
    /// Which row groups of its file each unit is.
    row_groups: Vec<Range<usize>>,
    /// Rows of all row groups of all files.
    group_rows: Vec<Vec<u64>>,
}

impl ParquetSource {
    /// Nothing is read yet.
    pub(crate) fn new(dataset: &Dataset, request: ReadRequest) -> ParquetSource {
        let (units, row_groups) = units(&dataset.row_groups);
        let rows = |groups: &Vec<RowGroupInfo>| groups.iter().map(|g| g.rows).collect();
        let group_rows = dataset.row_groups.iter().map(rows).collect();
        let cut = Arc::new(Cut { units, row_groups, group_rows });
        let (files, keys) = (dataset.files.clone().into(), dataset.keys.clone());
        ParquetSource { files, keys, request, cut, footers: Arc::default() }
    }

    /// The same files for another request; parsed footers are shared.
    pub(super) fn with_request(&self, request: ReadRequest) -> ParquetSource {
        let (files, keys) = (self.files.clone(), self.keys.clone());
        let (cut, footers) = (self.cut.clone(), self.footers.clone());
        ParquetSource { files, keys, request, cut, footers }
    }

    /// Values of a row in columns of lists.
    fn row_values(&self) -> u64 {
        self.request.features.row_elements().saturating_add(self.request.limit.kept_values)
    }

    /// Opens a file for blocks of so many rows; its footer is parsed once for some units.
    fn open(&self, file: usize, rows: usize) -> Result<(Pread, Footer)> {
        let info = &self.files[file];
        let handle = File::open(&info.path).map_err(Error::io("open", &info.path))?;
        unchanged(&handle, info)?;
        let footer = self.footer(file, &handle)?;
        if footer.hash != info.footer_hash || footer.size != info.size {
            return Err(changed(info));
        }
        let memory = Arc::new(UnitMemory::new(self.request.limit, rows, self.row_values()));
        Ok((Pread { file: Arc::new(handle), len: info.size, memory }, footer))
    }

    fn footer(&self, file: usize, handle: &File) -> Result<Footer> {
        // Held while parsing, so that workers that want the same footer wait for one copy of it.
        let mut kept = self.footers.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, footer)) = kept.iter().find(|(f, _)| *f == file) {
            return Ok(footer.clone());
        }
        if kept.len() == FOOTERS_KEPT {
            kept.pop_front();
        }
        let footer = Footer::of(handle, &self.files[file].path)?;
        kept.push_back((file, footer.clone()));
        Ok(footer)
    }
}

/// Refuses a file that is not the one whose footer was read, or that was written to since: whatever
/// of it is cached, its rows would be of two files.
fn unchanged(file: &File, info: &InputInfo) -> Result<()> {
    match FileStamp::of_file(file, &info.path)? == info.stamp {
        true => Ok(()),
        false => Err(changed(info)),
    }
}

fn changed(info: &InputInfo) -> Error {
    let problem = "changed while it was being read; run again when nothing writes to it";
    Error::data(Place::file(&info.path), problem)
}

impl Source for ParquetSource {
    fn units(&self) -> &[Unit] {
        &self.cut.units
    }

    fn n_features(&self) -> usize {
        self.request.features.len()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let (row_groups, unit) = (&self.cut.row_groups[unit], &self.cut.units[unit]);
        let info = &self.files[unit.input];
        let rows = block_rows(self.row_values() as usize);
        let (file, footer) = self.open(unit.input, rows)?;
        let file = Arc::new(file);
        let (request, keys) = (&self.request, &*self.keys);
        let layout = ColumnLayout::new(&footer, request, &info.path, row_groups, keys)?;
        let ColumnLayout { positions, direct, vectors, arrow, columns } = layout;
        let reader = |mask: ProjectionMask| {
            guarded(&info.path, Some(row_groups.start), UNREADABLE, || {
                let rows = rows.min(unit.rows as usize);
                batches(&file, &footer, mask, row_groups.clone(), rows)
            })
        };
        Ok(Box::new(UnitBlocks {
            arrow: arrow.map(reader).transpose()?,
            file,
            footer,
            direct,
            vectors,
            columns,
            keys,
            densify: Densify { request, positions, path: &info.path },
            unit,
            info,
            row_groups: row_groups.clone(),
            group_rows: &self.cut.group_rows[unit.input],
            rows,
            done: 0,
            failed: false,
        }))
    }

    fn place(&self, unit: usize, row: u64) -> Place {
        let Unit { input, first_row, .. } = self.cut.units[unit];
        Place::file(&self.files[input].path).row(first_row + row)
    }
}

/// Arrow's reader of some columns of some row groups.
fn batches(
    file: &Arc<Pread>,
    footer: &Footer,
    mask: ProjectionMask,
    groups: Range<usize>,
    rows: usize,
) -> std::result::Result<ParquetRecordBatchReader, ParquetError> {
    let (schema, hint) = (footer.arrow.parquet_schema(), footer.arrow.schema());
    let levels = parquet_to_arrow_field_levels(schema, mask, Some(hint.fields()))?;
    let (file, metadata) = (file.clone(), footer.arrow.metadata().clone());
    let chunks = RowGroups { file, metadata, groups };
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, &chunks, rows, None)
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
    /// What batches are made of, where they are not what arrow's reader gives.
    columns: Option<Vec<BatchColumn>>,
    keys: &'a PartitionKeys,
    densify: Densify<'a>,
    unit: &'a Unit,
    info: &'a InputInfo,
    row_groups: Range<usize>,
    /// Rows of each row group of the file.
    group_rows: &'a [u64],
    /// Rows of a block.
    rows: usize,
    done: u64,
    failed: bool,
}

impl UnitBlocks<'_> {
    /// The row group that the next row is in.
    fn row_group(&self) -> usize {
        let mut rows = 0;
        let holds = |g: &usize| {
            rows += self.group_rows[*g];
            self.done < rows
        };
        self.row_groups.clone().find(holds).unwrap_or(self.row_groups.end.saturating_sub(1))
    }

    /// This many rows of the columns that are not direct.
    fn next_batch(&mut self, rows: usize) -> Result<RecordBatch> {
        let read = self.next_read(rows)?;
        let Some(columns) = &self.columns else { return Ok(read) };
        let other = || Error::Internal("a batch does not have the columns of its schema".into());
        let array = |column: &BatchColumn| match column {
            BatchColumn::Read(at, path) => nested_array(read.column(*at), path).ok_or_else(other),
            BatchColumn::Key(key) => Ok(self.keys.array(*key, self.unit.input, rows)),
        };
        let field =
            |array: ArrayRef| (Field::new("", array.data_type().clone(), true).into(), array);
        let columns = columns.iter().map(|c| array(c).map(field)).collect::<Result<_>>()?;
        batch_of(columns, rows)
    }

    /// This many rows of what arrow's reader gives.
    fn next_read(&mut self, rows: usize) -> Result<RecordBatch> {
        let group = self.row_group();
        let Some(reader) = &mut self.arrow else {
            return Ok(RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty())));
        };
        let batch = guarded(self.densify.path, Some(group), UNREADABLE, || {
            reader.next().transpose().map_err(|e| match e {
                ArrowError::ParquetError(said) => ParquetError::General(said),
                other => ParquetError::ArrowError(other.to_string()),
            })
        })?;
        let found = batch.as_ref().map_or(0, RecordBatch::num_rows);
        batch.filter(|b| b.num_rows() == rows).ok_or_else(|| {
            let place = Box::new(Place::file(self.densify.path).row_group(group));
            let problem = format!(
                "gave {found} rows where the footer says {rows} are left; the file is damaged"
            );
            Error::Parquet { place, problem, source: None }
        })
    }

    fn next_block(&mut self, rows: usize) -> Result<Block> {
        self.file.memory.next_block();
        let batch = self.next_batch(rows)?;
        let group = self.row_group();
        let UnitBlocks { file, footer, direct, vectors, densify, .. } = self;
        let path = densify.path;
        let mut decode = |column: usize, out: &mut Vec<f64>, miss: &mut dyn FnMut(usize)| {
            guarded(path, Some(group), UNREADABLE, || {
                direct[column].read(file, footer.arrow.metadata(), rows, out, miss)
            })
        };
        let mut elements = |column: usize, take: &mut dyn FnMut(Floats<'_>) -> Result<()>| {
            let metadata = footer.arrow.metadata();
            let floats = guarded(path, Some(group), UNREADABLE, || match &mut vectors[column] {
                DirectVector::F32(vectors) => vectors.read(file, metadata, rows).map(Floats::F32),
                DirectVector::F64(vectors) => vectors.read(file, metadata, rows).map(Floats::F64),
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
        let group = self.row_group();
        let mut block = self.next_block(rows).map_err(|error| {
            // What the decoder says of it has no place and no advice.
            self.file.memory.refusal(self.densify.path, group).unwrap_or(error)
        });
        self.done += rows as u64;
        if self.done == self.unit.rows || block.is_err() {
            // What was read may be of two versions, and what cannot be decoded, too.
            block = unchanged(&self.file.file, self.info).and(block);
        }
        self.failed = block.is_err();
        Some(block)
    }
}

/// Row groups of each file, neighbours gathered while they are small: units, and the row groups of
/// each.
pub(crate) fn units(files: &[Vec<RowGroupInfo>]) -> (Vec<Unit>, Vec<Range<usize>>) {
    let (mut units, mut ranges): (Vec<Unit>, Vec<Range<usize>>) = Default::default();
    for (input, row_groups) in files.iter().enumerate() {
        let mut first_row = 0;
        for (index, group) in row_groups.iter().enumerate() {
            match (units.last_mut(), ranges.last_mut()) {
                (Some(unit), Some(range))
                    if unit.input == input && unit.rows + group.rows <= UNIT_ROWS =>
                {
                    range.end = index + 1;
                    unit.rows += group.rows;
                    unit.bytes += group.bytes;
                }
                _ => {
                    let (rows, bytes) = (group.rows, group.bytes);
                    units.push(Unit { input, first_row, rows, bytes });
                    ranges.push(index..index + 1);
                }
            }
            first_row += group.rows;
        }
    }
    (units, ranges)
}

/// The length of the first non-null list of a column: for footers that cannot tell it because some
/// rows are null.
pub(super) fn first_width(dataset: &Dataset, column: &str) -> Result<usize> {
    for info in dataset.files.iter().filter(|f| f.rows > 0) {
        if let Some(width) = width_in(dataset, info, column)? {
            return Ok(width);
        }
    }
    Err(numbers::all_null(Place::file(dataset.first_path()), column))
}

/// Rows that are looked at together for that.
const WIDTH_ROWS: usize = 64;

/// The same of one file.
fn width_in(dataset: &Dataset, info: &InputInfo, column: &str) -> Result<Option<usize>> {
    let file = File::open(&info.path).map_err(Error::io("open", &info.path))?;
    let footer = Footer::of(&file, &info.path)?;
    let columns = footer.file_columns();
    let Some(at) = columns.get(column) else { return Ok(None) };
    let FileColumn { path, leaves, .. } = columns.column(at);
    let path = path.to_vec();
    let mask = ProjectionMask::leaves(footer.arrow.parquet_schema(), leaves);
    let memory = Arc::new(UnitMemory::new(dataset.limit(), WIDTH_ROWS, 0));
    let file = Arc::new(Pread { file: Arc::new(file), len: info.size, memory });
    let groups = 0..footer.arrow.metadata().num_row_groups();
    let reader = guarded(&info.path, None, UNREADABLE, || {
        batches(&file, &footer, mask, groups, WIDTH_ROWS)
    })?;
    for batch in reader {
        file.memory.next_block();
        let batch = batch.map_err(|e| {
            file.memory.refusal(&info.path, 0).unwrap_or_else(|| Error::Parquet {
                place: Box::new(Place::file(&info.path)),
                problem: e.to_string(),
                source: None,
            })
        })?;
        let array = nested_array(batch.column(0), &path);
        if let Some(width) = array.and_then(|array| numbers::first_width(&array)) {
            return Ok(Some(width));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_row_groups_are_gathered_within_a_file() {
        let file = |rows: &[u64]| {
            rows.iter().map(|r| RowGroupInfo { rows: *r, bytes: 1 }).collect::<Vec<_>>()
        };
        let (units, groups) = units(&[file(&[10_000, 6_000, 6_000]), file(&[100]), file(&[])]);
        let cut: Vec<_> = units
            .iter()
            .zip(groups)
            .map(|(u, groups)| (u.input, groups, u.first_row, u.rows))
            .collect();
        assert_eq!(cut, [(0, 0..2, 0, 16_000), (0, 2..3, 16_000, 6_000), (1, 0..1, 0, 100)]);
    }
}
