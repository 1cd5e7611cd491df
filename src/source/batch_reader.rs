//! Record batches → blocks, as from files: the same columns, labels, weights and policies.
//!
//! Held: the position of every requested column.

use super::block::Block;
use super::column_choice::unknown;
use super::densify::{Densify, Incoming};
use super::positions::{Origin, Positions};
use super::table::ReadRequest;
use crate::error::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Reads what is requested of batches that have one schema.
pub(crate) struct BatchReader<'a> {
    densify: Densify<'a>,
    /// The columns of a batch that are read.
    columns: Vec<usize>,
}

impl<'a> BatchReader<'a> {
    /// Finds the requested columns; messages name the batches as they are called here.
    pub(crate) fn new(
        request: &'a ReadRequest,
        schema: &Schema,
        name: &'a Path,
    ) -> Result<BatchReader<'a>> {
        let fields = schema.fields().iter().enumerate();
        let by_name: HashMap<&str, usize> = fields.map(|(i, f)| (f.name().as_str(), i)).collect();
        let find = |wanted: &str| {
            let names = schema.fields().iter().map(|f| f.name().as_str());
            by_name.get(wanted).copied().ok_or_else(|| unknown(name, wanted, names))
        };
        let mut positions = Positions::in_table(request, find, |_, at| Origin::Batch(at))?;
        let columns = positions.project();
        Ok(BatchReader { densify: Densify { request, positions, path: name }, columns })
    }

    /// All rows of a batch in one block; the first of them is this one of all.
    pub(crate) fn block(&self, batch: &RecordBatch, first_row: u64) -> Result<Block> {
        self.block_of_rows(batch, 0..batch.num_rows(), first_row)
    }

    /// Some rows of a batch in one block.
    pub(crate) fn block_of_rows(
        &self,
        batch: &RecordBatch,
        rows: Range<usize>,
        first_row: u64,
    ) -> Result<Block> {
        // Columns first, so that the others are not sliced.
        let batch = batch.project(&self.columns);
        let batch = batch.map_err(|e| Error::Internal(format!("projection: {e}")))?;
        let none = || Err(Error::Internal("a record batch has no column to decode".into()));
        self.densify.block(Incoming {
            rows: rows.len(),
            first_row,
            batch: &batch.slice(rows.start, rows.len()),
            direct: &mut |_, _, _| none(),
            vectors: &mut |_, _| none(),
        })
    }
}
