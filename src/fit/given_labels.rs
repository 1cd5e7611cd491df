//! A kernel over labels that is given as a matrix: K_y = ΔΔᵀ, and Δ beside the rows as numbers.
//!
//! Enters: K_y, n × n. Leaves: Δ = QΩ^½ (n × r), the seed's, and a source whose rows have it as
//! labels under the linear kernel, so that everything else takes them as it takes any numbers.
//! Holds K_y and, while it is factored, its vectors and LAPACK's work area; then Δ, 8·n·r bytes.

use super::check::LabelProblem;
use super::cost_parts::blas_bytes;
use super::label_factor::LabelFactor;
use super::options::{DEFAULT_LABEL_FEATURES, Fit, GivenLabels, cores};
use super::plan::Plan;
use crate::accumulate::LabelMap;
use crate::blas;
use crate::budget::{Budget, MemoryPlan, Phase, release_freed_memory};
use crate::collect::given::{ROUNDING, not_symmetric};
use crate::error::{Error, Place, Result};
use crate::solve::supervised::LabelKernel;
use crate::source::labels::LabelRequest;
use crate::source::{Block, LabelRead, Labels, Nulls, ReadRequest, Source, Table, Unit};
use crate::words::megabytes;
use ndarray::{Array2, s};
use std::sync::Arc;

/// Labels whose kernel is given, against a table.
pub(super) fn given_problem(fit: &Fit, table: &dyn Table) -> Result<LabelProblem> {
    let Some(GivenLabels { name, matrix }) = &fit.labels.given else {
        return Error::misuse(
            "⟦label-kernel=precomputed⟧ takes the matrix of the kernel; give it with ⟦label-data⟧",
        );
    };
    let (n, rows) = (matrix.nrows(), table.rows());
    if matrix.ncols() != n || n as u64 != rows {
        return Error::misuse(format!(
            "the kernel over labels is {n} × {}, but there are {rows} rows of data; both are of \
             the same rows, in the same order",
            matrix.ncols()
        ));
    }
    if fit.nulls == Nulls::Drop {
        return Error::misuse(
            "⟦nulls=drop⟧ would leave rows out that the kernel over labels has; leave it out",
        );
    }
    room(n as u64, &Budget::new(fit.resources.memory))?;
    let delta = Arc::new(factor(name, matrix)?);
    release_freed_memory();
    let columns = delta.ncols();
    Ok(LabelProblem {
        request: LabelRequest { columns: vec![name.clone()], read: LabelRead::Numbers },
        kernel: LabelKernel::Precomputed,
        function: None,
        factor: LabelFactor::Numbers(Arc::new(LabelMap::Linear { columns })),
        numeric: vec![true],
        features: DEFAULT_LABEL_FEATURES,
        with_variance: fit.labels.with_variance,
        given: Some(delta),
    })
}

/// What factoring n × n holds.
pub(super) fn factoring(n: u64) -> Phase {
    Phase::new("factoring the kernel over labels")
        .hold(format!("{n} × {n} matrix"), 8u64.saturating_mul(n).saturating_mul(n))
        .hold("its vectors and work area", crate::solve::whole_bytes(n))
        .hold("work areas of BLAS", blas_bytes(n))
}

/// Refuses a matrix that the memory cannot factor.
fn room(n: u64, budget: &Budget) -> Result<()> {
    let memory = MemoryPlan { phases: vec![factoring(n)] };
    memory.check(budget, || format!("allow ⟦memory={}⟧", megabytes(memory.peak_bytes())))
}

/// Δ of K = ΔΔᵀ.
fn factor(name: &str, k: &Array2<f64>) -> Result<Array2<f64>> {
    let refuse = |problem: String| Error::data(Place::file(name), problem);
    let largest = k.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if !largest.is_finite() || k.iter().any(|v| v.is_nan()) {
        return Err(refuse("holds numbers that are not finite".into()));
    }
    let differs =
        |((i, j), v): &((usize, usize), &f64)| (**v - k[[*j, *i]]).abs() > ROUNDING * largest;
    if let Some((at, v)) = k.indexed_iter().find(differs) {
        return Err(refuse(not_symmetric(at, *v, k[[at.1, at.0]])));
    }
    let (values, vectors) = blas::parallel(cores(), || blas::eigh(k.clone()))?;
    let (least, most) = (values.iter().next(), values.iter().last());
    let (least, most) = (least.copied().unwrap_or(0.0), most.copied().unwrap_or(0.0));
    if least < -ROUNDING * k.nrows() as f64 * most.abs() {
        return Err(refuse(format!(
            "is no kernel: its least eigenvalue is {least}, its largest {most}, and a kernel has \
             no negative ones"
        )));
    }
    let noise = f64::EPSILON * k.nrows() as f64 * most;
    let first = values.iter().take_while(|v| **v <= noise).count();
    let mut delta = vectors.slice(s![first.., ..]).t().as_standard_layout().into_owned();
    for (mut column, value) in delta.columns_mut().into_iter().zip(values.slice(s![first..])) {
        column *= value.sqrt();
    }
    Ok(delta)
}

impl Plan<'_> {
    /// Rows of the table, with the labels that were given, unless others are asked for.
    pub(crate) fn read(&self, request: &ReadRequest) -> Result<Box<dyn Source + '_>> {
        let source = self.table.read(request)?;
        let given = self.problem.labels.read().and_then(|labels| labels.given.as_ref());
        match given.filter(|_| request.labels.is_none()) {
            None => Ok(source),
            Some(delta) => Ok(Box::new(LabelledSource::new(source, delta.clone()))),
        }
    }
}

/// A source whose rows have given numbers as labels.
struct LabelledSource<'a> {
    inner: Box<dyn Source + 'a>,
    delta: Arc<Array2<f64>>,
    /// The first row of each unit among all rows.
    first: Vec<usize>,
}

impl<'a> LabelledSource<'a> {
    fn new(inner: Box<dyn Source + 'a>, delta: Arc<Array2<f64>>) -> LabelledSource<'a> {
        let mut next = 0;
        let first = inner.units().iter().map(|unit| {
            let first = next;
            next += unit.rows as usize;
            first
        });
        let first = first.collect();
        LabelledSource { inner, delta, first }
    }
}

impl Source for LabelledSource<'_> {
    fn units(&self) -> &[Unit] {
        self.inner.units()
    }

    fn n_features(&self) -> usize {
        self.inner.n_features()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let mut next = self.first[unit];
        Ok(Box::new(self.inner.blocks(unit)?.map(move |block| {
            let mut block = block?;
            let rows = next..next + block.tally.rows as usize;
            next = rows.end;
            if rows.end > self.delta.nrows() {
                return Err(Error::Internal("more rows than the kernel over labels has".into()));
            }
            block.labels = Some(Labels::Numbers(self.delta.slice(s![rows, ..]).to_owned()));
            Ok(block)
        })))
    }

    fn place(&self, unit: usize, row: u64) -> Place {
        self.inner.place(unit, row)
    }
}
