//! The passes of the dual form, for fewer rows than features: [a copy cut by features], one that
//! adds up the Gram matrix, one that maps its eigenvectors to the features.

use super::assemble::Decomposition;
use super::options::cores;
use super::run::Run;
use crate::accumulate::{Accumulate, Gram, GramSums, Moments};
use crate::budget::release_freed_memory;
use crate::error::Result;
use crate::listen::Stage;
use crate::pass;
use crate::solve::{accuracy, dual};
use crate::source::{Block, Columnwise, Nulls, Precision, ReadRequest, Source, Spool, Storage};
use crate::source::{Tally, dense};
use crate::workers::Output;
use ndarray::{Array2, s};

impl Run<'_> {
    pub(super) fn dual(&self) -> Result<Decomposition> {
        let problem = &self.plan.problem;
        let (mut source, copied) = match self.plan.spool() {
            None => (Columnwise::in_place(self.plan.table, &problem.request)?, None),
            Some(storage) => {
                let (spool, tally) = self.copy(storage)?;
                (Columnwise::spooled(spool), Some(tally))
            }
        };
        let (mut sums, seen) = self.gram(&source)?;
        let mut tally = copied.unwrap_or(Tally { rows: self.plan.table.rows(), ..seen });
        if problem.request.nulls == Nulls::Drop && sums.incomplete.contains(&true) {
            let kept: Vec<usize> =
                (0..sums.incomplete.len()).filter(|i| !sums.incomplete[*i]).collect();
            tally.dropped = tally.rows - kept.len() as u64;
            source.keep(kept);
            drop(sums);
            sums = self.gram(&source)?.0;
        }
        release_freed_memory();
        self.check(&sums.moments, &tally)?;
        let scaling = problem.centring.problem;
        let watch = self.watch(Stage::decomposing(source.rows()));
        let (moments, decomposed) = dual::decompose(sums, scaling, problem.components, cores())?;
        drop(watch);
        release_freed_memory();
        let loadings = self.loadings(&source, &decomposed.coefficients, &moments)?;
        let solution = dual::finish(decomposed, loadings, &moments, scaling, cores())?;
        let accurate = accuracy::of_products(&solution, &moments, None);
        let solution = solution.with_accurate_components(accurate);
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: None })
    }

    /// Copies the features to a temporary file, cut into groups.
    fn copy(&self, storage: Storage) -> Result<(Spool, Tally)> {
        let problem = &self.plan.problem;
        let exact = problem.request.precision == Precision::Exact;
        let precision = match storage {
            Storage::F32 => Precision::Mixed,
            Storage::F64 => Precision::Exact,
        };
        let request = ReadRequest { precision, ..problem.request.clone() };
        let source = self.plan.table.read(&request)?;
        let (rows, d) = (self.plan.table.rows() as usize, problem.n_features());
        let mut spool = Spool::create(&problem.temp_dir, rows, d, storage, exact)?;
        let watch = self.watch_rows("copying", &*source);
        let tally = pass::each(&*source, self.crew(), &watch, |block| spool.write(block))?;
        Ok((spool, tally))
    }

    fn gram(&self, source: &Columnwise<'_>) -> Result<(GramSums, Tally)> {
        let fresh = Gram::new(source.rows(), self.plan.problem.centring.problem, self.threads);
        let watch = self.watch(pass::stage("multiplying", "features", source, 0));
        let (sums, tally) = pass::gather(source, self.crew(), &watch, fresh)?;
        Ok((sums.finish(), tally))
    }

    /// U = X̆ V Σ⁻¹, group by group: k × d.
    fn loadings(
        &self,
        source: &Columnwise<'_>,
        coefficients: &Array2<f64>,
        moments: &Moments,
    ) -> Result<Array2<f64>> {
        let scaling = self.plan.problem.centring.problem;
        let factors = scaling.factors(moments);
        let mut loadings = Array2::zeros((coefficients.nrows(), source.n_features()));
        let group = |unit: usize, mut block: Block| {
            let range = source.features(unit);
            let mean = moments.mean.slice(s![range.clone()]).to_owned();
            let factor = factors.as_ref().map(|f| f.slice(s![range]).to_owned());
            let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
            let mut y = block.into_f64();
            for cell in &missing {
                y[[cell.row as usize, cell.feature as usize]] = mean[cell.feature as usize];
            }
            dense::shift(&mut y, scaling.center.then_some(&mean), factor.as_ref());
            if let Some(weights) = &weights {
                dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
            }
            coefficients.dot(&y)
        };
        let work = |unit: usize, blocks: &mut pass::Blocks<'_>, out: &Output<Array2<f64>>| {
            for block in blocks {
                out.give(group(unit, block?));
            }
            Ok(())
        };
        let watch = self.watch(pass::stage("mapping back", "features", source, 0));
        pass::map(source, self.crew(), &watch, work, |unit, piece| {
            loadings.slice_mut(s![.., source.features(unit)]).assign(&piece);
            Ok(())
        })?;
        Ok(loadings)
    }
}
