//! Kernel methods over a matrix that is given: its rows are read again at every product.
//!
//! Enters: a table whose n rows have n kernel values, or distances, each. Leaves: what a fit over
//! rows leaves, but for the rows. Holds vectors of n numbers, never the matrix, unless it is small
//! enough to be decomposed whole.

use super::kernel::{Centering, Compared, KernelData};
use super::options::cores;
use super::plan::{Plan, is_single};
use super::run::Run;
use crate::blas;
use crate::budget::{Budget, Bytes, MemoryPlan, Phase};
use crate::collect::given::{FirstLook, GivenRows, NO_HOLES};
use crate::error::{Error, Result};
use crate::kernel::{Basis, Kernel, KernelKind, KernelMap};
use crate::listen::Listener;
use crate::model::{KernelParts, KernelReport};
use crate::solve::Solution;
use crate::solve::kernel_matrix::{GivenMatrix, KernelMatrix};
use crate::solve::kernel_pca::KernelProblem;
use crate::source::{ColumnChoice, Features, ReadRequest, Source, Table};
use crate::words::megabytes;
use crate::workers::Crew;
use ndarray::{Array1, Array2, s};

/// What the first look at a matrix has shown.
pub(super) struct GivenLook {
    pub(super) kernel: Kernel,
    diagonal: Array1<f64>,
    /// About how far an entry is off.
    noise: f64,
}

/// Refuses a table that is no square matrix.
pub(crate) fn check_square(kind: KernelKind, features: &Features, table: &dyn Table) -> Result<()> {
    let (n, rows) = (features.len() as u64, table.rows());
    if !kind.is_given() || n == rows {
        return Ok(());
    }
    Error::misuse(format!(
        "⟦kernel={kind}⟧ takes a square matrix: as many numbers a row as there are rows, but \
         {rows} rows have {n}; name its column, or columns, with ⟦columns⟧"
    ))
}

/// A kernel matrix that a table is, in memory: for [`GivenLabels`](super::GivenLabels).
///
/// All its numeric columns are taken, n of them or one vector of n numbers; that it is symmetric is
/// checked.
pub fn read_kernel_matrix(
    table: &dyn Table,
    memory: Option<Bytes>,
    listener: &dyn Listener,
) -> Result<Array2<f64>> {
    let chosen = ColumnChoice::default().resolve(table)?;
    check_square(KernelKind::Precomputed, &chosen.features, table)?;
    let n = table.rows() as usize;
    let phase = Phase::new("a kernel matrix").hold("its numbers", 8 * (n as u64) * n as u64);
    let plan = MemoryPlan { phases: vec![phase] };
    plan.check(&Budget::new(memory), || {
        format!("allow ⟦memory={}⟧", megabytes(plan.peak_bytes()))
    })?;
    let (features, advice) = (chosen.features, NO_HOLES);
    let request = ReadRequest { features, advice, ..ReadRequest::default() };
    let source = table.read(&request)?;
    let crew = Crew { threads: cores(), queue: 1 };
    let kind = KernelKind::Precomputed;
    let rows = given_rows(table, &*source, (kind, &request.features), crew, listener);
    rows.look(0)?;
    let mut k = Array2::zeros((n, n));
    rows.read("reading the matrix".into(), &mut |first, some| {
        k.slice_mut(s![first..first + some.nrows(), ..]).assign(&some);
        Ok(())
    })?;
    // What rounding makes of a mirror image is not asked about again.
    blas::mirror(&mut k);
    Ok(k)
}

fn given_rows<'s>(
    table: &'s dyn Table,
    source: &'s dyn Source,
    (kind, features): (KernelKind, &Features),
    crew: Crew,
    listener: &'s dyn Listener,
) -> GivenRows<'s> {
    let kernel = match kind {
        KernelKind::Distances => Kernel::Distances,
        _ => Kernel::Precomputed,
    };
    GivenRows { table, source, kernel, single: is_single(features), crew, listener }
}

impl Plan<'_> {
    /// The matrix that a source of this plan has.
    pub(crate) fn given_rows<'s>(
        &'s self,
        source: &'s dyn Source,
        kind: KernelKind,
        listener: &'s dyn Listener,
    ) -> GivenRows<'s> {
        let crew = Crew { threads: self.threads(), queue: 1 };
        given_rows(self.table, source, (kind, &self.problem.request.features), crew, listener)
    }
}

impl Run<'_> {
    fn given_rows<'s>(&'s self, source: &'s dyn Source) -> GivenRows<'s> {
        let kind = self.plan.problem.kernel.as_ref().map(|k| k.kind).unwrap_or_default();
        self.plan.given_rows(source, kind, self.listener)
    }

    /// The first pass.
    pub(super) fn given_data(&self) -> Result<KernelData> {
        let source = self.source()?;
        let rows = self.given_rows(&*source);
        let (look, kernel) = (rows.look(self.plan.problem.seed)?, rows.kernel);
        let FirstLook { diagonal, largest, weights, labels, moments, tally, .. } = look;
        self.check(&moments, &tally)?;
        let noise = f64::EPSILON * largest;
        let compared = Compared::Given(GivenLook { kernel, diagonal, noise });
        Ok(KernelData { compared, weights, labels, moments, tally })
    }

    /// Works with the matrix, which is read at each product.
    pub(super) fn with_given<T>(
        &self,
        look: &GivenLook,
        weights: Option<&Array1<f64>>,
        work: impl FnOnce(&KernelProblem<'_>) -> Result<T>,
    ) -> Result<T> {
        let source = self.source()?;
        let rows = self.given_rows(&*source);
        let matrix = GivenMatrix {
            diagonal: look.diagonal.clone(),
            noise: look.noise,
            read: &|work, take| rows.read(work, take),
        };
        let n = look.diagonal.len();
        work(&self.kernel_problem(KernelMatrix::Given(matrix), weights, (n, 0)))
    }

    /// Coefficients over the n rows, all of which a new row has its values with.
    pub(super) fn given_model(
        &self,
        kernel: Kernel,
        mut solution: Solution,
        centering: Centering,
    ) -> (Solution, KernelParts) {
        let n = solution.components.ncols();
        (solution.active, solution.scale) = ((0..n).collect(), None);
        let Centering { offset, kernel_means, mean, grand_mean, negative } = centering;
        self.tell_negative(negative);
        let report = KernelReport {
            rows: n,
            grand_mean,
            negative_eigenvalues: negative.count,
            negative_at_least: !negative.all,
            ..KernelReport::new(kernel, None)
        };
        let map = KernelMap {
            basis: Basis::Given { kernel, rows: n },
            coefficients: solution.components.clone(),
            offset,
            kernel_means,
            mean,
            grand_mean,
        };
        let map = Some(Box::new(map));
        (solution, KernelParts { report, map, unit_mean: None, preimage: None })
    }
}
