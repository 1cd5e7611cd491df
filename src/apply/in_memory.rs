//! Models applied to a record batch in memory: the same pass as over a table, of one batch.
//!
//! Enters: a batch that has the model's columns. Leaves: a batch of computed columns, without the
//! rows that the model's policy for missing values drops. Held: the output, for a moment twice.

use super::options::{Reconstruct, Transform};
use super::plan::ApplyPlan;
use crate::error::{Error, Result};
use crate::listen::Quiet;
use crate::model::Model;
use crate::source::ArrowTable;
use arrow_array::RecordBatch;

impl Model {
    /// Scores of the rows of a batch: columns `pc1`, `pc2`, …, in the order of the rows. Rows with
    /// missing values are refused, left out or filled as they were in the fit.
    ///
    /// ```
    /// use eigenstream::{ArrowTable, Fit, Quiet, matrix_batch};
    ///
    /// let rows = ndarray::array![[100.0, 200.0], [101.0, 202.1], [102.0, 203.9], [103.0, 206.0]];
    /// let model = Fit::pca().components(1).plan(&ArrowTable::from(rows.clone()))?.run(&Quiet)?;
    /// let scores = model.transform(&matrix_batch(rows))?;
    /// assert_eq!((scores.num_rows(), scores.schema().field(0).name().as_str()), (4, "pc1"));
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn transform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.transform_with(&Transform::default(), batch)
    }

    /// The same with options: columns that are kept, fewer components, diagnostics.
    pub fn transform_with(&self, options: &Transform, batch: &RecordBatch) -> Result<RecordBatch> {
        let table = ArrowTable::from(batch.clone());
        options.plan(self, &table)?.collect()
    }

    /// The rows of a batch as the components see them, in the columns that were fitted. A kernel
    /// model has no such rows; [`Model::reconstruct_with`] a pre-image comes near.
    ///
    /// ```
    /// use arrow_array::cast::AsArray;
    /// use arrow_array::types::Float64Type;
    /// use eigenstream::{ArrowTable, Fit, Quiet, matrix_batch};
    ///
    /// let rows = ndarray::array![[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]];
    /// let model = Fit::pca().components(1).plan(&ArrowTable::from(rows.clone()))?.run(&Quiet)?;
    /// let restored = model.reconstruct(&matrix_batch(rows.clone()))?;
    /// let numbers = restored.column(0).as_fixed_size_list().values().clone();
    /// let pairs = numbers.as_primitive::<Float64Type>().values().iter().zip(&rows);
    /// assert!(pairs.into_iter().all(|(found, x)| (found - x).abs() < 1e-12));
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn reconstruct(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.reconstruct_with(&Reconstruct::default(), batch)
    }

    /// The same with options: from scores, by a pre-image, with columns that are kept.
    pub fn reconstruct_with(
        &self,
        options: &Reconstruct,
        batch: &RecordBatch,
    ) -> Result<RecordBatch> {
        let table = ArrowTable::from(batch.clone());
        options.plan(self, &table)?.collect()
    }
}

impl ApplyPlan<'_, '_> {
    /// All rows that come out, in one batch.
    fn collect(&self) -> Result<RecordBatch> {
        let mut batches = Vec::new();
        self.run(&mut batches, &Quiet)?;
        match batches.as_slice() {
            [only] => Ok(only.clone()),
            many => arrow_select::concat::concat_batches(&self.schema, many)
                .map_err(|e| Error::Internal(format!("batches put together: {e}"))),
        }
    }
}
