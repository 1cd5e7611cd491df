//! Whatever gives record batches, and gives them again, as a [`Table`]: a stream of another
//! engine, a file of a format of its own.
//!
//! Enters: a function that opens a reader. Leaves: blocks that hold what those of a Parquet file of
//! the same rows hold. Held: per open unit, one record batch of the reader and one block.
//!
//! Readers give batches in order only, so there is one unit, and features are read by groups from
//! a copy.

use super::arrow::{NAME, batch_bytes, check_schema, column_infos};
use super::batch_reader::BatchReader;
use super::nested::all_fields;
use super::numbers;
use super::table::{ColumnInfo, ReadCost, ReadRequest, Table};
use super::{Block, Source, Unit, block_rows};
use crate::error::{Error, Place, Result};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::path::Path;

/// What a function gives that opens a reader.
pub type OpenedReader = std::result::Result<Box<dyn RecordBatchReader>, ArrowError>;

type Open<'a> = dyn Fn() -> OpenedReader + Send + Sync + 'a;

/// Rows that a function opens again each time they are read. They must be the same each time.
///
/// ```
/// use arrow_array::{RecordBatch, RecordBatchIterator};
/// use eigenstream::{Fit, Form, Quiet, ReaderTable};
///
/// let batch = eigenstream::matrix_batch(ndarray::array![[1.0, 0.0], [2.0, 1.1], [3.0, 1.9]]);
/// let table = ReaderTable::new(move || {
///     // A query that is run again, a socket, a file in another format.
///     let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
///     Ok(Box::new(reader))
/// })?;
/// let model = Fit::pca().form(Form::Dual).plan(&table)?.run(&Quiet)?;
/// assert_eq!(model.header.n_rows, 3);
/// # Ok::<(), eigenstream::Error>(())
/// ```
pub struct ReaderTable<'a> {
    open: Box<Open<'a>>,
    schema: SchemaRef,
    columns: Vec<ColumnInfo>,
    units: Vec<Unit>,
    /// Bytes of the largest batch, as far as is known.
    batch_bytes: u64,
}

impl<'a> ReaderTable<'a> {
    /// Counts the rows by reading them once.
    pub fn new(open: impl Fn() -> OpenedReader + Send + Sync + 'a) -> Result<ReaderTable<'a>> {
        let reader = open().map_err(failed)?;
        let schema = reader.schema();
        let columns = all_fields(schema.fields());
        let mut widths = vec![None; columns.len()];
        let (mut rows, mut bytes, mut largest) = (0, 0, 0);
        for (index, batch) in reader.enumerate() {
            let batch = batch.map_err(failed)?;
            check_schema(&schema, &batch.schema(), index)?;
            for (width, column) in widths.iter_mut().zip(&columns).filter(|(w, _)| w.is_none()) {
                *width = column.array(&batch).and_then(|array| numbers::first_width(&array));
            }
            rows += batch.num_rows() as u64;
            bytes += batch_bytes(&batch);
            largest = largest.max(batch_bytes(&batch));
        }
        Ok(ReaderTable::of(Box::new(open), schema, &widths, rows, bytes, largest))
    }

    /// Believes that there are so many rows: reading fails where there are not. What a batch takes
    /// is not reckoned with.
    pub fn with_rows(
        open: impl Fn() -> OpenedReader + Send + Sync + 'a,
        rows: u64,
    ) -> Result<ReaderTable<'a>> {
        let schema = open().map_err(failed)?.schema();
        let widths = vec![None; all_fields(schema.fields()).len()];
        Ok(ReaderTable::of(Box::new(open), schema, &widths, rows, 0, 0))
    }

    fn of(
        open: Box<Open<'a>>,
        schema: SchemaRef,
        widths: &[Option<usize>],
        rows: u64,
        bytes: u64,
        batch_bytes: u64,
    ) -> ReaderTable<'a> {
        let columns = column_infos(&all_fields(schema.fields()), widths);
        let unit = Unit { input: 0, first_row: 0, rows, bytes };
        let units = if rows == 0 { Vec::new() } else { vec![unit] };
        ReaderTable { open, schema, columns, units, batch_bytes }
    }
}

/// A reader's own error.
fn failed(error: ArrowError) -> Error {
    Error::data(Place::file(NAME), format!("cannot be read: {error}"))
}

impl Table for ReaderTable<'_> {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn rows(&self) -> u64 {
        self.units.iter().map(|u| u.rows).sum()
    }

    fn bytes(&self) -> u64 {
        self.units.iter().map(|u| u.bytes).sum()
    }

    fn place(&self) -> Place {
        Place::file(NAME)
    }

    fn vector_width(&self, column: &str) -> Result<usize> {
        let all = all_fields(self.schema.fields());
        let wanted = all.iter().find(|c| c.name == column);
        for batch in (self.open)().map_err(failed)? {
            let batch = batch.map_err(failed)?;
            let array = wanted.and_then(|column| column.array(&batch));
            if let Some(width) = array.and_then(|array| numbers::first_width(&array)) {
                return Ok(width);
            }
        }
        Err(numbers::all_null(self.place(), column))
    }

    fn read(&self, request: &ReadRequest) -> Result<Box<dyn Source + '_>> {
        Ok(Box::new(ReaderSource { table: self, request: request.clone() }))
    }

    fn cost(&self, request: &ReadRequest) -> Result<ReadCost> {
        let cost = ReadCost { units: self.units.len(), ..ReadCost::default() };
        // Of a batch nothing is known by column; a row that passes through is a share of it.
        let shared = self.bytes() / self.rows().max(1);
        let kept = request.keep.iter().flatten().count() as u64;
        let kept_row = if kept == 0 { 0 } else { shared * kept / self.columns.len() as u64 + 8 };
        let unit_rows = cost.unit_rows.max(self.rows());
        let row_bytes = 8 * request.features.len() as u64;
        Ok(ReadCost { columns: self.batch_bytes, unit_rows, kept_row, row_bytes, ..cost })
    }
}

/// What is requested of the rows.
struct ReaderSource<'a> {
    table: &'a ReaderTable<'a>,
    request: ReadRequest,
}

impl Source for ReaderSource<'_> {
    fn units(&self) -> &[Unit] {
        &self.table.units
    }

    fn n_features(&self) -> usize {
        self.request.features.len()
    }

    fn blocks(&self, _unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let table = self.table;
        Ok(Box::new(ReaderBlocks {
            table,
            batches: (table.open)().map_err(failed)?,
            reader: BatchReader::new(&self.request, &table.schema, Path::new(NAME))?,
            most: block_rows(self.n_features()),
            batch: RecordBatch::new_empty(table.schema.clone()),
            used: 0,
            index: 0,
            done: 0,
            ended: false,
        }))
    }

    fn place(&self, _unit: usize, row: u64) -> Place {
        self.table.place().row(row)
    }
}

/// The blocks of one reading.
struct ReaderBlocks<'a> {
    table: &'a ReaderTable<'a>,
    batches: Box<dyn RecordBatchReader>,
    reader: BatchReader<'a>,
    /// Rows of a block.
    most: usize,
    /// The batch being read, and how many of its rows have been.
    batch: RecordBatch,
    used: usize,
    /// Which batch is next.
    index: usize,
    /// Rows of all batches that have been read.
    done: u64,
    ended: bool,
}

impl ReaderBlocks<'_> {
    /// The next batch that has rows, if there is one.
    fn advance(&mut self) -> Result<bool> {
        while self.used == self.batch.num_rows() {
            let Some(batch) = self.batches.next() else { return Ok(false) };
            self.batch = batch.map_err(failed)?;
            self.used = 0;
            check_schema(&self.table.schema, &self.batch.schema(), self.index)?;
            self.index += 1;
        }
        Ok(true)
    }

    fn next_block(&mut self) -> Result<Option<Block>> {
        let expected = self.table.rows();
        let place = self.table.place();
        let wrong = |than: &str| {
            let problem = format!("gave {than} rows than the {expected} there should be");
            Err(Error::data(place, problem))
        };
        if !self.advance()? {
            return if self.done < expected { wrong("fewer") } else { Ok(None) };
        }
        let rows = self.used..(self.used + self.most).min(self.batch.num_rows());
        if self.done + rows.len() as u64 > expected {
            return wrong("more");
        }
        let block = self.reader.block_of_rows(&self.batch, rows.clone(), self.done)?;
        self.used = rows.end;
        self.done += rows.len() as u64;
        Ok(Some(block))
    }
}

impl Iterator for ReaderBlocks<'_> {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Result<Block>> {
        if self.ended {
            return None;
        }
        let block = self.next_block().transpose();
        self.ended = !matches!(block, Some(Ok(_)));
        block
    }
}
