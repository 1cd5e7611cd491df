//! Record batches → blocks, as from files: the same columns, labels, weights and policies.
//!
//! Held: the position of every requested column.

use super::block::Block;
use super::column_choice::unknown;
use super::densify::{Densify, Incoming};
use super::nested::{NestedField, all_fields};
use super::positions::{Origin, Positions};
use super::table::ReadRequest;
use crate::error::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{FieldRef, Schema};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Reads what is requested of batches that have one schema.
pub(crate) struct BatchReader<'a> {
    densify: Densify<'a>,
    /// The columns of a batch that are read.
    columns: Vec<NestedField>,
}

impl<'a> BatchReader<'a> {
    /// Finds the requested columns; messages name the batches as they are called here.
    pub(crate) fn new(
        request: &'a ReadRequest,
        schema: &Schema,
        name: &'a Path,
    ) -> Result<BatchReader<'a>> {
        let all = all_fields(schema.fields());
        // A root column goes before a field of that name.
        let named = all.iter().enumerate().rev().map(|(i, column)| (column.name.as_str(), i));
        let by_name: HashMap<&str, usize> = named.collect();
        let find = |wanted: &str| {
            let names = all.iter().map(|column| column.name.as_str());
            by_name.get(wanted).copied().ok_or_else(|| unknown(name, wanted, names))
        };
        let mut positions = Positions::in_table(request, find, |_, at| Origin::Batch(at))?;
        let columns = positions.project().into_iter().map(|at| all[at].clone()).collect();
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
        let column = |column: &NestedField| Some((column.field.clone(), column.array(batch)?));
        let columns = self.columns.iter().map(column).collect::<Option<Vec<_>>>();
        let other = || Error::Internal("a batch does not have the columns of its schema".into());
        let batch = batch_of(columns.ok_or_else(other)?, batch.num_rows())?;
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

/// A batch of so many rows of these columns.
pub(super) fn batch_of(columns: Vec<(FieldRef, ArrayRef)>, rows: usize) -> Result<RecordBatch> {
    let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| Error::Internal(format!("projection: {e}")))
}
