//! The passes of the randomized form: block Krylov, one pass over the data per product.

use super::assemble::Decomposition;
use super::options::cores;
use super::run::Run;
use crate::accumulate::{Accumulate, Product, Sketch};
use crate::error::{Error, IterationKind, Result, Unconverged};
use crate::listen::Stage;
use crate::note::Note;
use crate::pass;
use crate::product::{PassSums, Products};
use crate::solve::Form;
use crate::solve::krylov::{self, RitzPairs, Search, Tolerance};
use crate::solve::randomized::{BASIS_BLOCKS, Operator, sought};
use crate::source::{Nulls, Source, Tally};
use ndarray::{Array2, s};
use std::cell::RefCell;
use std::sync::Arc;

impl Run<'_> {
    pub(super) fn randomized(&self) -> Result<Decomposition> {
        let problem = &self.plan.problem;
        let source = match self.passes {
            None => Some(self.source()?),
            Some(_) => None,
        };
        let mut krylov =
            Krylov { run: self, source, operator: None, tally: Tally::default(), passes: 0 };
        let pairs = krylov.search()?;
        let Krylov { operator, tally, passes, .. } = krylov;
        let operator = operator.ok_or_else(no_pass)?;
        let solution =
            operator.solution(pairs, problem.components, self.pass_tolerance(), passes)?;
        let moments = operator.into_moments();
        let missed = solution.certificate.iteration.as_ref().map(|i| i.unconverged.clone());
        let components = missed.unwrap_or_default();
        let unconverged = !components.is_empty();
        let outcome = Unconverged {
            place: self.plan.table.place(),
            components,
            iterations: passes,
            what: IterationKind::Passes,
            residual: solution.certificate.max_residual,
            tolerance: problem.tolerance(),
        };
        let parts = Decomposition { moments, solution, tally, labels: None, kernel: None };
        match self.plan.alternative(Form::Primal) {
            _ if !unconverged => Ok(parts),
            Some(exact) if self.passes.is_none() => {
                self.listener.note(&Note::PrimalTakesOver(outcome));
                Run { threads: exact.threads, ..*self }.primal()
            }
            _ if problem.iteration.allow_unconverged => {
                self.listener.note(&Note::KeptUnconverged(outcome));
                Ok(parts)
            }
            _ => Err(Error::Unconverged(Box::new(outcome))),
        }
    }

    fn pass_tolerance(&self) -> Tolerance {
        let tolerance = self.plan.problem.tolerance();
        Tolerance { residual: tolerance, value: tolerance, score: f64::INFINITY }
    }
}

/// Block Krylov over a source.
struct Krylov<'a> {
    run: &'a Run<'a>,
    /// The rows, unless others read them.
    source: Option<Box<dyn Source + 'a>>,
    /// Known after the first pass.
    operator: Option<Operator>,
    tally: Tally,
    passes: usize,
}

impl Krylov<'_> {
    fn search(&mut self) -> Result<RitzPairs> {
        let run = self.run;
        let problem = &run.plan.problem;
        let d = problem.n_features();
        let mut start = krylov::start(run.plan.work.krylov_block(), d, problem.seed);
        let mut order = d;
        // Where scales or means decide on the operator itself, the first pass only finds a start.
        if problem.centring.problem.standardize || problem.request.nulls == Nulls::Mean {
            let image = self.first_pass(&start, "reading means".into())?;
            order = image.ncols();
            let block = krylov::block(sought(problem.components), order);
            start = match block >= order {
                true => Array2::eye(order),
                false => image.slice(s![..block, ..]).to_owned(),
            };
        }
        let before = self.passes;
        let cell = RefCell::new(self);
        let search = Search {
            order,
            basis: (start.nrows() * BASIS_BLOCKS).min(order),
            products: problem.iteration.max_passes.saturating_sub(before).max(1),
            tolerance: run.pass_tolerance(),
            wanted: &|ritz, residuals| {
                let measure = cell.borrow().operator.as_ref()?.measure();
                problem.components.wanted(ritz, residuals, measure)
            },
            expensive: true,
            threads: cores(),
            listener: run.listener,
            noun: "pass",
            before,
        };
        krylov::search(&search, start, |q, number| {
            let most = problem.iteration.max_passes;
            cell.borrow_mut().apply(q, format!("pass {number} of at most {most}"))
        })
    }

    fn apply(&mut self, q: &Array2<f64>, work: String) -> Result<Array2<f64>> {
        let Some(operator) = &self.operator else { return self.first_pass(q, work) };
        let p = operator.operand(q);
        let precision = self.run.plan.problem.request.precision;
        let empty = Product::new(p.clone(), precision, operator.moments());
        let (Products::Later(product), _) = self.fold(Products::Later(empty), work)? else {
            return Err(Error::Internal("a pass gave the sums of another".into()));
        };
        let (z, error) = product.finish();
        let operator = self.operator.as_mut().ok_or_else(no_pass)?;
        operator.note_mixed_error(error);
        Ok(operator.image(&p, z))
    }

    /// Moments, and the image of some vectors (rough where cells are missing).
    fn first_pass(&mut self, p: &Array2<f64>, work: String) -> Result<Array2<f64>> {
        let empty = Products::First(Sketch::new(Arc::new(p.clone())));
        let (Products::First(sketch), tally) = self.fold(empty, work)? else {
            return Err(Error::Internal("a pass gave the sums of another".into()));
        };
        self.tally = tally;
        let first = sketch.finish();
        self.run.check(&first.moments, &self.tally)?;
        let operator = Operator::new(first.moments, self.run.plan.problem.centring.problem);
        let image = operator.image(p, first.z);
        self.operator = Some(operator);
        Ok(image)
    }

    /// All rows added to sums of none, by this process or by others.
    fn fold(&mut self, empty: Products, work: String) -> Result<(Products, Tally)> {
        self.passes += 1;
        let Some(source) = &self.source else {
            let passes = self.run.passes.ok_or_else(no_pass)?;
            let request = &self.run.plan.problem.request;
            let _watch = self.run.watch(Stage::untold(work));
            let done = passes.fold(PassSums::new(self.passes, empty, request)?)?;
            return Ok((done.sums, done.about.tally));
        };
        let watch = self.run.watch_rows(work, &**source);
        pass::fold(&**source, self.run.threads, &watch, || empty.clone())
    }
}

fn no_pass() -> Error {
    Error::Internal("no pass was made".into())
}
