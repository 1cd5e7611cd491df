//! A kernel over rows, and what is done to rows before it compares them: for kernel methods and for
//! HSIC.
//!
//! Enters: rows, all or a sample of them, and the moments of all. Leaves: rows as they are
//! compared, and the kernel with its constants. Holds the rows twice while they are prepared.

use super::kernel_choice::KernelChoice;
use crate::accumulate::{Moments, Scaling};
use crate::error::{Error, Result};
use crate::kernel::{Kernel, KernelKind};
use crate::listen::Listener;
use crate::note::Note;
use crate::solve::landmarks::shuffled;
use crate::source::{Block, Prepare, Table, place_of};
use ndarray::{Array1, Array2, Axis};

/// What a kernel matrix may differ by from the identity, or from a constant, and say nothing.
const DEGENERATE: f64 = 1e-6;

/// Rows of a sample that are compared with each other, to see what a kernel or what stands for it
/// is like.
pub(crate) const CHECKED_ON: usize = 1_000;

/// A kernel over the rows of a table.
pub(crate) struct RowKernel<'a> {
    pub(crate) table: &'a dyn Table,
    pub(crate) choice: &'a KernelChoice,
    pub(crate) scaling: Scaling,
    pub(crate) seed: u64,
    pub(crate) listener: &'a dyn Listener,
}

/// Prepared rows, the kernel over them, and the features that take part.
pub(crate) struct PreparedRows {
    pub(crate) x: Array2<f64>,
    pub(crate) kernel: Kernel,
    pub(crate) gamma_from: Option<String>,
    pub(crate) active: Vec<usize>,
    pub(crate) scale: Option<Array1<f64>>,
}

impl RowKernel<'_> {
    /// What is done to rows before the kernel sees them, and the features that take part.
    pub(crate) fn preparation(
        &self,
        moments: &Moments,
    ) -> (Prepare, Vec<usize>, Option<Array1<f64>>) {
        let (active, scale) = self.scaling.active(moments);
        let some = active.len() < moments.mean.len();
        let prepare = Prepare {
            fill: moments.mean.clone(),
            active: some.then(|| active.clone()),
            shift: self.scaling.standardize.then(|| moments.mean.select(Axis(0), &active)),
            factor: scale.as_ref().map(|s| s.mapv(f64::recip)),
            normalize: self.choice.kind == KernelKind::Cosine,
            center: None,
        };
        (prepare, active, scale)
    }

    /// Prepares rows; `whole` when they are all rows of the table, so that one can be named.
    pub(crate) fn prepared(
        &self,
        x: Array2<f64>,
        weights: Option<&Array1<f64>>,
        moments: &Moments,
        whole: bool,
    ) -> Result<PreparedRows> {
        let (prepare, active, scale) = self.preparation(moments);
        if active.is_empty() {
            return Err(Error::data(
                self.table.place(),
                "every feature is constant: rows do not differ; choose other columns",
            ));
        }
        let x = prepare.apply(Block::dense(x), |row| place_of(self.table, row, whole))?;
        let (kernel, gamma_from) = self.choice.resolve(&x, weights, self.seed, self.listener);
        Ok(PreparedRows { x, kernel, gamma_from, active, scale })
    }

    /// Some of the prepared rows, to be compared with each other.
    pub(crate) fn some_rows(&self, x: &Array2<f64>) -> Array2<f64> {
        let picked = shuffled(x.nrows(), CHECKED_ON, self.seed.wrapping_add(1));
        x.select(Axis(0), &picked)
    }

    /// Of a kernel between some rows (m × m): tells when none is like another, or all are alike.
    pub(crate) fn tell_degenerate(&self, kernel: Kernel, k: &Array2<f64>) {
        let others = k.rows().into_iter().map(|row| row.sum() - 1.0).fold(0.0, f64::max);
        let mean = k.mean().unwrap_or(0.0);
        degenerate(kernel, others, mean).iter().for_each(|note| self.listener.note(note));
    }
}

/// Of an rbf kernel, which is 1 on the diagonal: rows that are like no other, or all alike, given
/// what a row has at most beside itself, and the mean of all pairs.
pub(crate) fn degenerate(kernel: Kernel, others: f64, mean: f64) -> Option<Note> {
    let Kernel::Rbf { gamma } = kernel else { return None };
    if others < DEGENERATE {
        return Some(Note::KernelIsIdentity { gamma });
    }
    (1.0 - mean < DEGENERATE).then_some(Note::KernelIsConstant { gamma })
}
