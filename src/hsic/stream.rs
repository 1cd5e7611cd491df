//! HSIC without a row in memory: ‖M‖² of features φ whose products are the kernel, M = ΦHΔ.
//!
//! | kernel | φ | passes |
//! |---|---|---|
//! | linear | the row | one |
//! | cosine | the row at unit length | one for the means, one |
//! | any, by landmarks; rbf, by random features | what stands for the kernel | one for a sample, one |
//!
//! Labels that turn out to be too many to factor take one more pass, with random features. Shuffles
//! take the labels into memory with the first pass, and then a pass for as many orders as there is
//! room for ([`super::shuffle`]). Holds what [`super::memory`] says.

use super::memory::HeldLabels;
use super::plan::{HsicPlan, Route, RowFeatures};
use super::run::Measure;
use super::shuffle::{LabelRows, Shuffling};
use crate::accumulate::{Accumulate, ClassLimit, LabelMap, LabelSumsKind, Moments, SumsKind};
use crate::budget::{MemoryPlan, release_freed_memory};
use crate::collect::{self, RowLabels, RowSample, Sample, reservoir_sample};
use crate::error::{Error, Place, Result};
use crate::fit::check::LabelProblem;
use crate::fit::label_factor::LabelFactor;
use crate::fit::labels::EXACT_LABELS;
use crate::fit::landmarks::{Fidelity, KernelFeatures, sample_rows};
use crate::fit::options::cores;
use crate::fit::run::label_sums;
use crate::fit::sums_pass::{SumsPass, feature_moments};
use crate::fit::supervise::{has_squares, label_matrix};
use crate::kernel::Kernel;
use crate::listen::{Listener, Watch};
use crate::model::Approximation;
use crate::note::Note;
use crate::solve::hsic::Shuffles;
use crate::solve::supervised::{label_factor, one_hot};
use crate::source::{Block, LabelRead, MappedSource, Nulls, Precision, Prepare, Source, Tally};
use crate::words::{megabytes, thousands};
use crate::{blas, pass};
use ndarray::{Array2, Axis};
use std::collections::HashMap;
use std::sync::Arc;

/// From rows to features φ.
struct RowMap {
    prepare: Prepare,
    /// What stands for the kernel, if it is not the prepared row.
    features: Option<KernelFeatures>,
    kernel: Kernel,
    width: usize,
}

impl RowMap {
    fn approximation(&self, by: RowFeatures) -> Option<Approximation> {
        let (features, RowFeatures::Approximate(by)) = (self.features.as_ref()?, by) else {
            return None;
        };
        let Fidelity { error, sample } = features.fidelity;
        Some(Approximation {
            kind: by.form().to_string(),
            choice: by.choice().map(|choice| choice.name().to_string()),
            size: features.size(),
            rank: features.width(),
            sample,
            error,
        })
    }

    /// A source of φ.
    fn over<'s>(&'s self, rows: Box<dyn Source + 's>) -> MappedSource<'s> {
        let comparer = self.features.as_ref().map(|features| (features, features.comparer()));
        MappedSource::new(rows, self.width, move |block: Block, place: &dyn Fn(usize) -> Place| {
            let x = self.prepare.apply(block, place)?;
            Ok(match &comparer {
                Some((features, comparer)) => features.of(comparer, x.view()),
                None => x,
            })
        })
    }
}

/// Features, beside labels that are read in some way.
type SourceOf<'s> = dyn Fn(Option<LabelRead>) -> Result<Box<dyn Source + 's>> + 's;

/// ‖M‖² and what was met on the way.
struct LabelSquares {
    moments: Moments,
    squares: f64,
    tally: Tally,
    /// Random features that stood for the kernel over labels.
    features: Option<usize>,
}

impl HsicPlan<'_> {
    /// ‖M‖², of the labels as they are and in other orders.
    pub(super) fn streamed(&self, by: RowFeatures, listener: &dyn Listener) -> Result<Measure> {
        match (self.permutations, self.labels()) {
            (0, _) => self.once(by, listener),
            (_, Some(labels)) => self.shuffled(labels, by, listener),
            // All orders are alike to the identity.
            (shuffles, None) => {
                let mut measure = self.once(by, listener)?;
                measure.traces.resize(shuffles + 1, measure.traces[0]);
                Ok(measure)
            }
        }
    }

    fn once(&self, by: RowFeatures, listener: &dyn Listener) -> Result<Measure> {
        if by == RowFeatures::Row {
            let found =
                self.squares(&|read| self.source(read), self.scaling.standardize, listener)?;
            let kernel = Kernel::Linear { coef0: self.choice.options.coef0.unwrap_or(0.0) };
            let LabelSquares { moments, squares, tally, features } = found;
            let measure = self.measure(vec![squares], &moments, kernel, tally);
            return Ok(Measure { label_features: features, ..measure });
        }
        let (map, _) = self.row_map(by, listener, None)?;
        let mapped = |read| Ok(Box::new(map.over(self.source(read)?)) as Box<dyn Source>);
        let LabelSquares { moments, squares, tally, features } =
            self.squares(&mapped, false, listener)?;
        let measure = self.measure(vec![squares], &moments, map.kernel, tally);
        let approximation = map.approximation(by);
        Ok(Measure { approximation, label_features: features, ..measure })
    }

    /// The first pass: means, a sample where one is needed, and the labels where they are wanted.
    fn row_map(
        &self,
        by: RowFeatures,
        listener: &dyn Listener,
        labels: Option<&mut collect::LabelRows>,
    ) -> Result<(RowMap, RowSample)> {
        let row_kernel = self.row_kernel(listener);
        let source = self.source(self.reads_numbers().filter(|_| labels.is_some()))?;
        let rows = match by {
            RowFeatures::Approximate(by) => sample_rows(by.landmarks(), false),
            _ => 0,
        };
        let work = if rows > 0 { "sampling" } else { "reading means" };
        let watch = Watch::new(listener, pass::stage(work, "rows", &*source, 0));
        let sample = Sample { rows, seed: self.seed };
        let mut sampled = reservoir_sample(&*source, sample, self.crew(), &watch, labels)?;
        drop(watch);
        release_freed_memory();
        self.check_moments(&sampled.moments)?;
        let moments = &sampled.moments;
        let (mut prepare, active, _) = row_kernel.preparation(moments);
        let (features, kernel) = match by {
            RowFeatures::Row => {
                if !self.scaling.standardize {
                    prepare.center = Some(moments.mean.clone());
                }
                (None, Kernel::Linear { coef0: self.choice.options.coef0.unwrap_or(0.0) })
            }
            RowFeatures::Unit => (None, Kernel::Cosine),
            RowFeatures::Approximate(by) => {
                let x = std::mem::take(&mut sampled.x);
                let rows = row_kernel.prepared(x, sampled.weights.as_ref(), moments, false)?;
                let features = row_kernel.features(&rows, by)?;
                (Some(features), rows.kernel)
            }
        };
        let width = features.as_ref().map_or(active.len(), KernelFeatures::width);
        Ok((RowMap { prepare, features, kernel, width }, sampled))
    }

    /// ‖M‖² of the features that a source has when labels are read in some way.
    fn squares(
        &self,
        source: &SourceOf<'_>,
        standardize: bool,
        listener: &dyn Listener,
    ) -> Result<LabelSquares> {
        let Some(labels) = self.labels() else {
            let (moments, tally) = feature_moments(&*source(None)?, self.threads, listener)?;
            self.check_moments(&moments)?;
            let squares = match standardize {
                true => self.scaling.active(&moments).0.len() as f64 * (moments.weight - 1.0),
                false => moments.squares.sum(),
            };
            return Ok(LabelSquares { moments, squares, tally, features: None });
        };
        let kind = match (label_sums(&self.plan, labels), self.streaming().by) {
            (LabelSumsKind::Classes(limit), Some(_)) => {
                let classes = limit.classes.min(self.most_classes().max(2));
                LabelSumsKind::Classes(ClassLimit { classes, ..limit })
            }
            (kind, _) => kind,
        };
        let random = labels.random_gamma().filter(|_| !self.exact);
        let squares =
            |kind, read| self.label_squares(labels, &*source(read)?, kind, standardize, listener);
        match (squares(kind, None), random) {
            (Err(Error::TooManyClasses { .. }), Some(gamma)) => {
                self.tell_label_features(labels, true, listener);
                let map = self.random_map(labels, gamma);
                let found = squares(LabelSumsKind::Numbers(map), Some(LabelRead::Numbers))?;
                Ok(LabelSquares { features: Some(labels.features), ..found })
            }
            (found, _) => found,
        }
    }

    fn random_map(&self, labels: &LabelProblem, gamma: f64) -> Arc<LabelMap> {
        let columns = labels.request.columns.len();
        Arc::new(LabelMap::fourier(columns, labels.features, gamma, self.seed))
    }

    fn tell_label_features(&self, labels: &LabelProblem, another_pass: bool, to: &dyn Listener) {
        let (exact, features) = (Some(EXACT_LABELS), labels.features);
        to.note(&Note::LabelFeatures { exact, features, another_pass });
    }

    /// ‖M‖², from the sums of supervised PCA.
    fn label_squares(
        &self,
        labels: &LabelProblem,
        source: &dyn Source,
        kind: LabelSumsKind,
        standardize: bool,
        listener: &dyn Listener,
    ) -> Result<LabelSquares> {
        let kind = SumsKind {
            features: source.n_features(),
            covariance: false,
            precision: Precision::Exact,
            // What stands for a row has no holes.
            nulls: match self.route {
                Route::Streams(RowFeatures::Row) => self.request.nulls,
                _ => Nulls::Error,
            },
            labels: Some(kind),
            threads: self.threads,
            around: None,
        };
        let (threads, work) = (self.threads, "reading");
        let pass = SumsPass { source, kind: &kind, folds: None, threads, work, listener };
        let (sums, tally) = pass.whole()?;
        let Some(of_labels) = sums.finish().labels else {
            return Err(Error::Internal("a pass over labels has summed none".into()));
        };
        let moments = of_labels.moments().clone();
        self.check_moments(&moments)?;
        let (mut m, _) = label_matrix(&of_labels, labels)?;
        if let Some(factors) = self.scaling.factors(&moments).filter(|_| standardize) {
            m *= &factors;
        }
        if !has_squares(&m) {
            return Err(Error::data(self.plan.table.place(), labels.overflow()));
        }
        let features = labels.factor.is_random().then_some(labels.features);
        let squares = m.iter().map(|m| m * m).sum();
        Ok(LabelSquares { moments, squares, tally, features })
    }

    /// ‖M‖² under each order of the labels, which are all held.
    fn shuffled(
        &self,
        labels: &LabelProblem,
        by: RowFeatures,
        listener: &dyn Listener,
    ) -> Result<Measure> {
        let mut read = collect::LabelRows::default();
        let (map, RowSample { moments, tally, .. }) =
            self.row_map(by, listener, Some(&mut read))?;
        let read = read.finish().ok_or_else(|| Error::Internal("no labels were read".into()))?;
        let (rows, features) = self.label_rows(labels, read, listener)?;
        if !rows.has_squares() {
            return Err(Error::data(self.plan.table.place(), labels.overflow()));
        }
        let held = HeldLabels {
            bytes: rows.bytes(),
            vectors: rows.vectors() as u64,
            shuffles: self.permutations as u64,
        };
        let at_once = self.orders_at_once(held, labels)?;
        let (orders, mut shuffles) = (self.permutations + 1, Shuffles::new(rows.len(), self.seed));
        let mut traces = Vec::with_capacity(orders);
        while traces.len() < orders {
            let first = traces.len();
            let count = at_once.min(orders - first);
            let pass = Shuffling::new(&rows, &mut shuffles, count, map.width, self.workers);
            traces.extend(self.add_orders(&map, pass, (first, orders), listener)?);
        }
        let kernel = map.kernel;
        let measure = self.measure(self.scaled(traces), &moments, kernel, tally);
        let approximation = map.approximation(by);
        Ok(Measure { approximation, label_features: features, ..measure })
    }

    /// A pass over φ for some orders.
    fn add_orders(
        &self,
        map: &RowMap,
        mut orders: Shuffling<'_>,
        (first, all): (usize, usize),
        listener: &dyn Listener,
    ) -> Result<Vec<f64>> {
        let source = map.over(self.source(self.reads_numbers())?);
        let centre = map.features.as_ref().map(|features| &features.near_mean);
        let last = first + orders.len();
        let work = format!("orders {} to {} of {}", first + 1, last, thousands(all as u64));
        let watch = Watch::new(listener, pass::stage(work, "rows", &source, 0));
        pass::each(&source, self.crew(), &watch, |block| {
            let mut phi = block.into_f64();
            if let Some(centre) = centre {
                phi -= centre;
            }
            orders.add(&phi);
            Ok(())
        })?;
        Ok(blas::serial(|| orders.finish()))
    }

    /// Orders that a pass has room for: all, or as many as the memory holds.
    fn orders_at_once(&self, held: HeldLabels, labels: &LabelProblem) -> Result<usize> {
        let (streaming, budget) = (self.streaming(), self.plan.budget());
        let one = streaming.shuffling(self.threads, held, 1);
        let needed = megabytes(one.bytes());
        let memory = MemoryPlan { phases: vec![one.clone()] };
        memory.check(&budget, || {
            let name = labels.name();
            format!("allow ⟦memory={needed}⟧, or choose a label with fewer values than '{name}'")
        })?;
        let room = (budget.bytes.0 - one.bytes()) / streaming.order_bytes(held).max(1);
        let orders = (self.permutations as u64).saturating_add(1);
        Ok((1 + room).min(orders) as usize)
    }

    /// The labels of all rows as shuffles need them, and how many random features stand for the
    /// kernel over them.
    fn label_rows(
        &self,
        labels: &LabelProblem,
        read: RowLabels,
        listener: &dyn Listener,
    ) -> Result<(LabelRows, Option<usize>)> {
        let random = labels.factor.is_random().then_some(labels.features);
        Ok(match (read, &labels.factor) {
            (RowLabels::Numbers(y), LabelFactor::Numbers(map)) => {
                (LabelRows::numbers(y, map.clone()), random)
            }
            (RowLabels::Numbers(y), _) => return self.distinct_rows(labels, y, listener),
            (RowLabels::Classes { ids, classes }, LabelFactor::OneHot) => {
                let mut delta = one_hot(&classes, &labels.numeric);
                let mean = delta.mean_axis(Axis(0)).unwrap_or_default();
                delta -= &mean;
                let factor = delta.reversed_axes().as_standard_layout().into_owned();
                (LabelRows::classes(ids, classes.len(), Some(factor)), None)
            }
            (RowLabels::Classes { ids, classes }, LabelFactor::Distinct) => {
                let factor =
                    self.factor(labels, classes.len(), &one_hot(&classes, &labels.numeric))?;
                (LabelRows::classes(ids, classes.len(), Some(factor)), None)
            }
            (RowLabels::Classes { ids, classes }, _) => {
                (LabelRows::classes(ids, classes.len(), None), None)
            }
        })
    }

    /// Lᵀ of K = LLᵀ over distinct labels.
    fn factor(
        &self,
        labels: &LabelProblem,
        n: usize,
        distinct: &Array2<f64>,
    ) -> Result<Array2<f64>> {
        let kernel = labels.function.unwrap_or(Kernel::Linear { coef0: 0.0 });
        if n > EXACT_LABELS {
            return Err(self.too_many(labels));
        }
        Ok(label_factor(distinct, kernel, cores())?.0)
    }

    fn too_many(&self, labels: &LabelProblem) -> Error {
        let hint = labels.too_many_distinct();
        Error::TooManyClasses { label: labels.name(), classes: EXACT_LABELS, hint }
    }

    /// Numbers under rbf: by their distinct values, or random features where those are many.
    fn distinct_rows(
        &self,
        labels: &LabelProblem,
        y: Array2<f64>,
        listener: &dyn Listener,
    ) -> Result<(LabelRows, Option<usize>)> {
        if let Some((ids, distinct)) = distinct_values(&y) {
            let factor = self.factor(labels, distinct.nrows(), &distinct)?;
            return Ok((LabelRows::classes(ids, distinct.nrows(), Some(factor)), None));
        }
        match labels.random_gamma().filter(|_| !self.exact) {
            None => Err(self.too_many(labels)),
            Some(gamma) => {
                self.tell_label_features(labels, false, listener);
                let map = self.random_map(labels, gamma);
                Ok((LabelRows::numbers(y, map), Some(labels.features)))
            }
        }
    }
}

/// Which of the distinct rows each is, in the order they come, and those; `None` where they are
/// more than are factored.
fn distinct_values(y: &Array2<f64>) -> Option<(Vec<u32>, Array2<f64>)> {
    let mut known: HashMap<Vec<u64>, u32> = HashMap::new();
    let (mut ids, mut first) = (Vec::with_capacity(y.nrows()), Vec::new());
    for (i, row) in y.rows().into_iter().enumerate() {
        // 0 and −0 are the same number.
        let bits: Vec<u64> = row.iter().map(|v| (v + 0.0).to_bits()).collect();
        let next = known.len() as u32;
        let id = *known.entry(bits).or_insert(next);
        if id == next {
            first.push(i);
        }
        if first.len() > EXACT_LABELS {
            return None;
        }
        ids.push(id);
    }
    Some((ids, y.select(Axis(0), &first)))
}
