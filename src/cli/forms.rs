//! The passes of each form: a plan → moments and components.
//!
//! | form | passes |
//! |---|---|
//! | primal | one that adds up S (two with `--nulls mean` and many features: the means first) |
//! | dual | [a copy cut by features], one that adds up G, one that maps its eigenvectors to the features |
//! | randomized | one per product of block Krylov |

use super::args::{FitSpec, cores};
use super::kernels::Route;
use super::plan::FitPlan;
use super::scoring::Scored;
use crate::accumulate::{
    Accumulate, CoMoment, Covariance, FeatureMoments, Gram, GramSums, ImputedCovariance, Moments,
    Product, SHARED_FROM, Sketch, TiledCovariance,
};
use crate::error::{Error, Iterated, Result, Unconverged};
use crate::pass::{self, Crew};
use crate::report::Talk;
use crate::report::progress::Progress;
use crate::solve::krylov::{self, RitzPairs, Search, Tolerance};
use crate::solve::randomized::{BASIS_BLOCKS, Operator, sought};
use crate::solve::{Form, dual, solve};
use crate::source::block::Precision;
use crate::source::spool::Number;
use crate::source::{Block, Columnwise, Nulls, ParquetSource, Source, Spool, Tally, Want, dense};
use crate::state::ask::{Ask, Fitted};
use ndarray::{Array2, s};
use std::path::Path;
use std::sync::Arc;

/// Runs the form that the plan has taken.
pub fn run(plan: &FitPlan, spec: &FitSpec, talk: Talk) -> Result<Fitted> {
    let pass = Passes { plan, spec, talk };
    if let Some(kernel) = plan.kernel.as_ref().filter(|k| k.route != Route::Pca) {
        return pass.kernel(kernel);
    }
    if let Some(labels) = &plan.labels {
        return pass.supervised(labels);
    }
    match plan.taken().form {
        Form::Primal => pass.primal(plan.threads()),
        Form::Dual => pass.dual(),
        Form::Randomized => pass.randomized(),
        other => Err(Error::Internal(format!("the {other} form is one of kernels"))),
    }
}

/// Scores the features, as the plan says.
pub fn score(plan: &FitPlan, spec: &FitSpec, talk: Talk) -> Result<Scored> {
    let scoring = plan
        .scoring
        .as_ref()
        .ok_or_else(|| Error::Internal("there is nothing to score by".into()))?;
    Passes { plan, spec, talk }.score(scoring)
}

/// A fit under way.
pub(super) struct Passes<'a> {
    pub(super) plan: &'a FitPlan,
    pub(super) spec: &'a FitSpec,
    pub(super) talk: Talk,
}

impl Passes<'_> {
    /// What this fit asks of its sums.
    pub(super) fn asked<T>(&self, work: impl FnOnce(&Ask<'_>) -> T) -> T {
        work(&Ask {
            features: &self.plan.want.features,
            weight: self.plan.want.weight.clone(),
            scaling: self.plan.scaling,
            components: self.spec.components,
            form: self.spec.form.form(),
            label_features: self.spec.label_features as usize,
            place: self.plan.dataset.first_path().to_path_buf(),
            threads: cores(),
            say: &|text| self.talk.say(text),
        })
    }

    /// Sums that no model can be made of.
    pub(super) fn check(&self, moments: &Moments, tally: &Tally) -> Result<()> {
        self.asked(|ask| ask.check(moments, tally))
    }

    /// Something is wrong with the data as a whole.
    pub(super) fn refusal(&self, problem: String) -> Error {
        self.asked(|ask| ask.refusal(problem))
    }

    pub(super) fn progress(&self) -> Progress {
        self.talk.progress("fit", "rows", self.plan.dataset.rows(), self.plan.dataset.bytes())
    }

    pub(super) fn source(&self) -> ParquetSource {
        ParquetSource::new(&self.plan.dataset, self.plan.want.clone())
    }

    /// S of a source whose cells are all there.
    pub(super) fn covariance(&self, source: &dyn Source, threads: usize) -> Result<CoMoment> {
        let d = source.n_features();
        let sums = if d >= SHARED_FROM {
            pass::gather(
                source,
                Crew { threads, queue: 1 },
                &self.progress(),
                TiledCovariance::new(d, threads),
            )?
            .0
            .finish()
        } else {
            pass::fold(source, threads, &self.progress(), || Covariance::new(d))?.0.finish()
        };
        crate::budget::release_freed_memory();
        Ok(sums)
    }

    fn primal(&self, threads: usize) -> Result<Fitted> {
        let d = self.plan.want.features.len();
        let (sums, tally) = match self.plan.want.nulls {
            _ if d >= SHARED_FROM => self.shared(threads)?,
            Nulls::Mean => finish(pass::fold(&self.source(), threads, &self.progress(), || {
                ImputedCovariance::new(d)
            })?),
            _ => finish(pass::fold(&self.source(), threads, &self.progress(), || {
                Covariance::new(d)
            })?),
        };
        crate::budget::release_freed_memory();
        self.check(&sums.moments, &tally)?;
        let (moments, solution) = solve(sums, self.plan.scaling, self.spec.components, cores())?;
        Ok(Fitted { moments, solution, tally, supervision: None, kernel: None })
    }

    /// One S for all threads; around the means, found by a pass before, where missing cells take them.
    fn shared(&self, threads: usize) -> Result<(CoMoment, Tally)> {
        let d = self.plan.want.features.len();
        let source = self.source();
        let crew = Crew { threads, queue: 1 };
        if self.plan.want.nulls != Nulls::Mean {
            return Ok(finish(pass::gather(
                &source,
                crew,
                &self.progress(),
                TiledCovariance::new(d, threads),
            )?));
        }
        let (spread, tally) =
            pass::fold(&source, threads, &self.progress(), || FeatureMoments::new(d))?;
        let moments = spread.finish();
        self.check(&moments, &tally)?;
        let (sums, _) = pass::gather(
            &source,
            crew,
            &self.progress(),
            TiledCovariance::around(&moments, threads),
        )?;
        Ok((sums.finish(), tally))
    }

    fn dual(&self) -> Result<Fitted> {
        let (mut source, copied) = match &self.plan.spool {
            None => (Columnwise::in_place(&self.plan.dataset, &self.plan.want)?, None),
            Some((dir, number)) => {
                let (spool, tally) = self.copy(dir, *number)?;
                (Columnwise::spooled(spool), Some(tally))
            }
        };
        let (mut sums, seen) = self.gram(&source)?;
        let mut tally = copied.unwrap_or(Tally { rows: self.plan.dataset.rows(), ..seen });
        if self.plan.want.nulls == Nulls::Drop && sums.incomplete.contains(&true) {
            let kept: Vec<usize> =
                (0..sums.incomplete.len()).filter(|i| !sums.incomplete[*i]).collect();
            tally.dropped = tally.rows - kept.len() as u64;
            source.keep(kept);
            drop(sums);
            sums = self.gram(&source)?.0;
        }
        crate::budget::release_freed_memory();
        self.check(&sums.moments, &tally)?;
        let (moments, decomposed) =
            dual::decompose(sums, self.plan.scaling, self.spec.components, cores())?;
        crate::budget::release_freed_memory();
        let loadings = self.loadings(&source, &decomposed.coefficients, &moments)?;
        let solution = dual::finish(decomposed, loadings, &moments, self.plan.scaling, cores())?;
        Ok(Fitted { moments, solution, tally, supervision: None, kernel: None })
    }

    /// Copies the features to a temporary file, cut into groups.
    fn copy(&self, dir: &Path, number: Number) -> Result<(Spool, Tally)> {
        let want = &self.plan.want;
        let exact = want.precision == Precision::Exact;
        let precision = if number == Number::F32 { Precision::Mixed } else { Precision::Exact };
        let source = ParquetSource::new(&self.plan.dataset, Want { precision, ..want.clone() });
        let mut spool = Spool::create(
            dir,
            self.plan.dataset.rows() as usize,
            want.features.len(),
            number,
            exact,
        )?;
        let crew = Crew { threads: self.plan.threads(), queue: 1 };
        let tally = pass::each(&source, crew, &self.progress(), |block| spool.write(block))?;
        Ok((spool, tally))
    }

    fn by_feature(&self) -> Progress {
        self.talk.progress(
            "fit",
            "features",
            self.plan.want.features.len() as u64,
            self.plan.dataset.bytes(),
        )
    }

    fn gram(&self, source: &Columnwise<'_>) -> Result<(GramSums, Tally)> {
        let threads = self.plan.threads();
        let fresh = Gram::new(source.rows(), self.plan.scaling, threads);
        let (sums, tally) =
            pass::gather(source, Crew { threads, queue: 1 }, &self.by_feature(), fresh)?;
        Ok((sums.finish(), tally))
    }

    /// U = X̆ V Σ⁻¹, group by group: k × d.
    fn loadings(
        &self,
        source: &Columnwise<'_>,
        coefficients: &Array2<f64>,
        moments: &Moments,
    ) -> Result<Array2<f64>> {
        let (scaling, crew) = (self.plan.scaling, Crew { threads: self.plan.threads(), queue: 1 });
        let factors = scaling.factors(moments);
        let mut loadings = Array2::zeros((coefficients.nrows(), source.n_features()));
        let work = |unit: usize,
                    blocks: &mut dyn Iterator<Item = Result<Block>>,
                    out: &pass::Output<Array2<f64>>| {
            for block in blocks {
                let mut block = block?;
                let range = source.features(unit);
                let mean = moments.mean.slice(s![range.clone()]).to_owned();
                let factor = factors.as_ref().map(|f| f.slice(s![range]).to_owned());
                let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
                let mut y = block.into_f64();
                missing.iter().for_each(|c| {
                    y[[c.row as usize, c.feature as usize]] = mean[c.feature as usize]
                });
                dense::shift(&mut y, scaling.center.then_some(&mean), factor.as_ref());
                if let Some(weights) = &weights {
                    dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
                }
                out.give(coefficients.dot(&y));
            }
            Ok(())
        };
        pass::map(source, crew, &self.by_feature(), work, |unit, piece| {
            loadings.slice_mut(s![.., source.features(unit)]).assign(&piece);
            Ok(())
        })?;
        Ok(loadings)
    }

    fn randomized(&self) -> Result<Fitted> {
        let mut krylov = Krylov {
            passes: self,
            source: self.source(),
            operator: None,
            tally: Tally::default(),
            count: 0,
        };
        let found = krylov.search()?;
        let (count, tally) = (krylov.count, krylov.tally);
        let operator = krylov.operator.ok_or_else(|| Error::Internal("no pass was made".into()))?;
        let solution = operator.solution(found, self.spec.components, self.tolerance(), count)?;
        let moments = operator.into_moments();
        let residual = solution.certificate.max_residual;
        let missed = solution.certificate.iteration.as_ref().map_or(&[][..], |i| &i.unconverged);
        if missed.is_empty() {
            return Ok(Fitted { moments, solution, tally, supervision: None, kernel: None });
        }
        let which = crate::words::ranges(missed);
        if let Some(exact) = self.plan.alternative(Form::Primal) {
            self.talk.say(format!(
                "note: after {count} passes components {which} miss the tolerance (largest residual {residual:.1e}); the primal form fits and takes over"
            ));
            return self.primal(exact.threads);
        }
        if self.spec.allow_unconverged {
            self.talk.say(format!(
                "warning: after {count} passes components {which} miss the tolerance {:e} (largest residual {residual:.1e})",
                self.spec.tolerance()
            ));
            return Ok(Fitted { moments, solution, tally, supervision: None, kernel: None });
        }
        Err(Error::Unconverged(Box::new(Unconverged {
            place: crate::error::Place::default(),
            components: missed.to_vec(),
            iterations: count,
            what: Iterated::Passes,
            residual,
            tolerance: self.spec.tolerance(),
        })))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance {
            residual: self.spec.tolerance(),
            value: self.spec.tolerance(),
            score: f64::INFINITY,
        }
    }
}

/// Block Krylov over the files.
struct Krylov<'a> {
    passes: &'a Passes<'a>,
    source: ParquetSource,
    /// Known after the first pass.
    operator: Option<Operator>,
    tally: Tally,
    count: usize,
}

impl Krylov<'_> {
    fn search(&mut self) -> Result<RitzPairs> {
        let plan = self.passes.plan;
        let d = plan.want.features.len();
        let mut start = krylov::start(plan.block, d, self.passes.spec.seed);
        let mut order = d;
        // Where scales or means decide on the operator itself, the first pass only finds a start.
        if plan.scaling.standardize || plan.want.nulls == Nulls::Mean {
            let image = self.look(&start)?;
            order = image.ncols();
            let block = krylov::block(sought(self.passes.spec.components), order);
            start = if block >= order {
                Array2::eye(order)
            } else {
                image.slice(s![..block, ..]).to_owned()
            };
        }
        let Passes { spec, talk, .. } = *self.passes;
        let (tolerance, said) = (self.passes.tolerance(), self.count);
        let cell = std::cell::RefCell::new(self);
        let search = Search {
            order,
            basis: (start.nrows() * BASIS_BLOCKS).min(order),
            products: usize::from(spec.max_passes).saturating_sub(said).max(1),
            tolerance,
            wanted: &|ritz| {
                cell.borrow().operator.as_ref().and_then(|o| o.wanted(spec.components, ritz))
            },
            expensive: true,
            threads: cores(),
            listener: &talk,
            noun: "pass",
            before: said,
        };
        krylov::search(&search, start, |q| cell.borrow_mut().apply(q))
    }

    fn apply(&mut self, q: &Array2<f64>) -> Result<Array2<f64>> {
        let Some(operator) = &mut self.operator else { return self.look(q) };
        let p = operator.operand(q);
        let empty = Product::new(p.clone(), self.passes.plan.want.precision, operator.moments());
        let (threads, progress) = (self.passes.plan.threads(), self.passes.progress());
        let (product, _) = pass::fold(&self.source, threads, &progress, || empty.clone())?;
        self.count += 1;
        let (z, error) = product.finish();
        operator.note_mixed_error(error);
        Ok(operator.image(&p, z))
    }

    /// The first pass: moments, and the image of some vectors (rough where cells are missing).
    fn look(&mut self, p: &Array2<f64>) -> Result<Array2<f64>> {
        let shared = Arc::new(p.clone());
        let threads = self.passes.plan.threads();
        let (sketch, tally) = pass::fold(&self.source, threads, &self.passes.progress(), || {
            Sketch::new(shared.clone())
        })?;
        self.count += 1;
        self.tally = tally;
        let look = sketch.finish();
        self.passes.check(&look.moments, &self.tally)?;
        let operator = Operator::new(look.moments, self.passes.plan.scaling);
        let image = operator.image(p, look.z);
        self.operator = Some(operator);
        Ok(image)
    }
}

fn finish<A: Accumulate<Output = CoMoment>>((sums, tally): (A, Tally)) -> (CoMoment, Tally) {
    (sums.finish(), tally)
}
