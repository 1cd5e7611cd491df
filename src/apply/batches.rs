//! Blocks → record batches of the output: the one computation of every second pass.
//!
//! Enters: a block. Leaves: its kept columns, then scores, reconstructions or diagnostics. Held:
//! the block as the components see it, and its scores; of a kernel model what comparisons hold.

use super::columns::number_type;
use super::options::{Dtype, Layout, Preimage};
use super::plan::{Added, ApplyPlan, Compute, Inverse};
use crate::error::{Error, Place, Result};
use crate::project::preimage::FixedPoint;
use crate::project::{BlockScores, Projector};
use crate::source::{Block, Source, Tally, Values, dense, places};
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, UInt32Array,
};
use arrow_schema::Field;
use arrow_select::take::take;
use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use std::sync::Arc;

/// What a plan applies to blocks; shared by all workers.
pub(super) struct Batches<'a> {
    plan: &'a ApplyPlan<'a, 'a>,
    projector: Projector<'a>,
    fixed_point: Option<FixedPoint<'a>>,
    /// For each feature of the chosen columns, its value if it was constant and left out.
    constants: Vec<Option<f64>>,
    /// Threads that a worker may use for comparisons.
    threads: usize,
}

/// What was met on the way.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) tally: Tally,
    pub(super) loss: Loss,
    /// Computed numbers beyond the range of their type.
    pub(super) overflowed: u64,
    /// Rows that came out with nulls.
    pub(super) rows_null: u64,
}

impl Totals {
    pub(super) fn add(&mut self, more: Totals) {
        self.tally.add(more.tally);
        self.loss.add(more.loss);
        self.overflowed += more.overflowed;
        self.rows_null += more.rows_null;
    }
}

/// What pre-images lose.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loss {
    pub(super) rows: u64,
    /// Σ of squared distances: where the kernel maps to (fixed point) or among the features
    /// (ridge).
    pub(super) left: f64,
    /// Σ of squared distances from the mean, of ridge.
    pub(super) of: f64,
    /// Rows whose iteration did not come to rest.
    pub(super) unsettled: u64,
}

impl Loss {
    fn add(&mut self, more: Loss) {
        self.rows += more.rows;
        self.left += more.left;
        self.of += more.of;
        self.unsettled += more.unsettled;
    }
}

impl<'a> Batches<'a> {
    /// A worker may use so many threads for its comparisons.
    pub(super) fn new(plan: &'a ApplyPlan<'a, 'a>, threads: usize) -> Batches<'a> {
        let iterates = plan.compute.preimage() == Some(Preimage::FixedPoint);
        let map = plan.model.kernel_map().filter(|_| iterates);
        let constants = plan.model.constant_features();
        let mut projector = Projector::new(plan.model, plan.k, threads);
        if plan.compute.has_residuals() && constants.iter().any(Option::is_some) {
            projector = projector.with_constants(&constants);
        }
        Batches {
            plan,
            projector,
            fixed_point: map.and_then(|map| FixedPoint::new(map, plan.k)),
            constants,
            threads,
        }
    }

    /// The batch of a block, and what was met in it.
    pub(super) fn batch(
        &self,
        source: &dyn Source,
        unit: usize,
        mut block: Block,
        totals: &mut Totals,
    ) -> Result<RecordBatch> {
        let Tally { rows, dropped, .. } = totals.tally;
        let place = places(source, unit, rows, block.tally.dropped == 0 && dropped == 0);
        totals.tally.add(std::mem::take(&mut block.tally));
        let kept = block.kept.take();
        let kept = kept.map(|kept| self.plan.columns.conformed(&kept)).transpose()?;
        let mut columns: Vec<ArrayRef> = kept.unwrap_or_default();
        columns.extend(match self.plan.nulls.keeps_rows() && !block.missing.is_empty() {
            true => self.of_complete_rows(&block, place, totals)?,
            false => self.computed(block, place, totals)?,
        });
        RecordBatch::try_new(self.plan.schema.clone(), columns)
            .map_err(|e| Error::Internal(format!("output batch: {e}")))
    }

    /// What is computed of the rows that miss nothing, and nulls for the others.
    fn of_complete_rows(
        &self,
        block: &Block,
        place: impl Fn(usize) -> Place,
        totals: &mut Totals,
    ) -> Result<Vec<ArrayRef>> {
        let complete = block.complete_rows();
        totals.rows_null += (block.rows() - complete.len()) as u64;
        let whole = block.select_rows(&complete);
        let arrays = self.computed(whole, |row| place(complete[row]), totals)?;
        let mut from = vec![None; block.rows()];
        complete.iter().enumerate().for_each(|(at, row)| from[*row] = Some(at as u32));
        let from = UInt32Array::from(from);
        let spread = |array: ArrayRef| {
            take(&array, &from, None).map_err(|e| Error::Internal(format!("rows of nulls: {e}")))
        };
        arrays.into_iter().map(spread).collect()
    }

    fn computed(
        &self,
        block: Block,
        place: impl Fn(usize) -> Place,
        totals: &mut Totals,
    ) -> Result<Vec<ArrayRef>> {
        match self.plan.compute {
            Compute::Scores { layout, added } => {
                let changed = if added.residuals { self.changes(&block) } else { Vec::new() };
                let projected = self.projector.project(block, place)?;
                let mut arrays = self.score_arrays(&projected, layout, totals)?;
                self.add(layout, added, &projected, changed, &mut arrays, totals)?;
                dense::recycle(projected.prepared);
                Ok(arrays)
            }
            Compute::Rows(inverse) => {
                let BlockScores { prepared, scores, .. } = self.projector.project(block, place)?;
                let known = Some(prepared.view());
                let rows = self.inverted(inverse, &scores, known, &mut totals.loss);
                self.row_arrays(rows, totals)
            }
            Compute::RowsFromScores(inverse) => {
                let mut scores = block.into_f64().reversed_axes();
                if let Some(deviations) = &self.plan.deviations {
                    scores *= &deviations.view().insert_axis(Axis(1));
                }
                let rows = self.inverted(inverse, &scores, None, &mut totals.loss);
                self.row_arrays(rows, totals)
            }
        }
    }

    /// Diagnostics and residuals, after the scores.
    fn add(
        &self,
        layout: Layout,
        added: Added,
        projected: &BlockScores,
        changed: Vec<Array1<f64>>,
        arrays: &mut Vec<ArrayRef>,
        totals: &mut Totals,
    ) -> Result<()> {
        let residual = (added.error || added.residuals).then(|| self.projector.residual(projected));
        let residual = residual.flatten();
        if added.error {
            let error = self.projector.error(projected, residual.as_ref());
            arrays.push(self.numbers(error.to_vec(), totals));
        }
        if added.hotelling {
            arrays.push(self.numbers(self.projector.hotelling(projected).to_vec(), totals));
        }
        let Some(residual) = residual.filter(|_| added.residuals) else { return Ok(()) };
        let left = self.all_features(self.projector.unscaled(residual), changed);
        match layout {
            Layout::Columns => arrays.extend(self.column_arrays(&left, totals)?),
            Layout::List => arrays.push(self.list(left.view(), totals)?),
        }
        Ok(())
    }

    /// How far features that were constant in the fit are from that constant.
    fn changes(&self, block: &Block) -> Vec<Array1<f64>> {
        let constants = self.constants.iter().enumerate();
        let change = |(j, constant): (usize, &Option<f64>)| {
            let constant = (*constant)?;
            let mut change = match &block.values {
                Values::F64(x) => x.column(j).mapv(|v| v - constant),
                Values::F32(x) => x.column(j).mapv(|v| f64::from(v) - constant),
            };
            let missing = block.missing.iter().filter(|cell| cell.feature as usize == j);
            missing.for_each(|cell| change[cell.row as usize] = 0.0);
            Some(change)
        };
        constants.filter_map(change).collect()
    }

    /// Rows from scores, and from the rows they belong to where those are known.
    fn inverted(
        &self,
        inverse: Inverse,
        scores: &Array2<f64>,
        known: Option<ArrayView2<'_, f64>>,
        loss: &mut Loss,
    ) -> Array2<f64> {
        let rows = scores.ncols() as u64;
        match (inverse, &self.fixed_point, &self.plan.model.preimage) {
            (Inverse::Preimage(Preimage::FixedPoint), Some(fixed_point), _) => {
                let found = fixed_point.solve(scores, known, self.threads);
                let (left, unsettled) = (found.losses.sum(), found.unsettled);
                loss.add(Loss { rows, left, of: 0.0, unsettled });
                self.projector.unprepared(found.rows)
            }
            (Inverse::Preimage(Preimage::Ridge), _, Some(ridge)) => {
                let found = ridge.apply(scores.t());
                if let Some(known) = known {
                    let left = (&found - &known).iter().map(|v| v * v).sum();
                    let of = (&known - &ridge.mean).iter().map(|v| v * v).sum();
                    loss.add(Loss { rows, left, of, unsettled: 0 });
                }
                self.projector.unprepared(found)
            }
            _ => self.projector.reconstruct(scores),
        }
    }

    fn score_arrays(
        &self,
        projected: &BlockScores,
        layout: Layout,
        totals: &mut Totals,
    ) -> Result<Vec<ArrayRef>> {
        let white = self.plan.deviations.as_ref();
        let white = white.map(|s| &projected.scores / &s.view().insert_axis(Axis(1)));
        let scores = white.as_ref().unwrap_or(&projected.scores);
        match layout {
            Layout::Columns => {
                let rows = scores.rows().into_iter();
                Ok(rows.map(|row| self.numbers(row.to_vec(), totals)).collect())
            }
            Layout::List => Ok(vec![self.list(scores.t(), totals)?]),
        }
    }

    /// x̂ in the shape of the columns that were fitted, constants put back.
    fn row_arrays(&self, rows: Array2<f64>, totals: &mut Totals) -> Result<Vec<ArrayRef>> {
        let constants = self.constants.iter().flatten();
        let filled = constants.map(|c| Array1::from_elem(rows.nrows(), *c)).collect();
        self.column_arrays(&self.all_features(rows, filled), totals)
    }

    /// Columns of the features that take part, with these for those that were left out.
    fn all_features(&self, rows: Array2<f64>, left_out: Vec<Array1<f64>>) -> Array2<f64> {
        if left_out.is_empty() {
            return rows;
        }
        let mut wide = Array2::zeros((rows.nrows(), self.constants.len()));
        let (mut left_out, mut active) = (left_out.iter(), rows.columns().into_iter());
        for (mut target, constant) in wide.columns_mut().into_iter().zip(&self.constants) {
            let from = match constant {
                Some(_) => left_out.next().map(|column| column.view()),
                None => active.next(),
            };
            from.into_iter().for_each(|column| target.assign(&column));
        }
        wide
    }

    /// All features in the shape of the columns that were fitted.
    fn column_arrays(&self, wide: &Array2<f64>, totals: &mut Totals) -> Result<Vec<ArrayRef>> {
        let columns = &self.plan.model.header.columns.columns;
        let mut first = 0;
        let mut arrays = Vec::with_capacity(columns.len());
        for column in columns {
            let part = wide.slice(s![.., first..first + column.len()]);
            first += column.len();
            arrays.push(match column.width {
                None => self.numbers(part.iter().copied().collect(), totals),
                Some(_) => self.list(part, totals)?,
            });
        }
        Ok(arrays)
    }

    fn numbers(&self, values: Vec<f64>, totals: &mut Totals) -> ArrayRef {
        let overflowed = |v: &&f64| match self.plan.dtype {
            Dtype::F64 => !v.is_finite(),
            Dtype::F32 => !(**v as f32).is_finite(),
        };
        totals.overflowed += values.iter().filter(overflowed).count() as u64;
        match self.plan.dtype {
            Dtype::F64 => Arc::new(Float64Array::from(values)),
            Dtype::F32 => {
                Arc::new(Float32Array::from_iter_values(values.iter().map(|v| *v as f32)))
            }
        }
    }

    fn list(&self, rows: ArrayView2<'_, f64>, totals: &mut Totals) -> Result<ArrayRef> {
        let values = self.numbers(rows.iter().copied().collect(), totals);
        let item = Arc::new(Field::new_list_field(number_type(self.plan.dtype), false));
        let list = FixedSizeListArray::try_new(item, rows.ncols() as i32, values, None);
        Ok(Arc::new(list.map_err(|e| Error::Internal(format!("list column: {e}")))?))
    }
}
