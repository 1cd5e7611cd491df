//! A plan, run: passes that hold no row, or all rows in memory → [`HsicResult`].

use super::plan::{HsicPlan, Route};
use crate::accumulate::Moments;
use crate::collect::given::FirstLook;
use crate::collect::{RowLabels, collect_all};
use crate::error::{Error, Result};
use crate::fit::assemble::tally_notes;
use crate::fit::check::LabelUse;
use crate::fit::label_factor::LabelFactor;
use crate::fit::labels::whole_number_notes;
use crate::fit::row_kernel::PreparedRows;
use crate::fit::supervise::has_squares;
use crate::kernel::Kernel;
use crate::listen::{Listener, Watch};
use crate::model::Approximation;
use crate::note::Note;
use crate::pass;
use crate::project::Projector;
use crate::solve::hsic::{Dependence, LabelValues, Pairs, permutations};
use crate::solve::kernel_matrix::TakeRows;
use crate::solve::supervised::{LabelKernel, one_hot, one_hot_width};
use crate::source::{LabelRead, MappedSource, ReadRequest, Source, Tally};
use crate::words::count;
use crate::workers::Crew;
use ndarray::{Array1, Axis};

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct HsicResult {
    /// The empirical HSIC.
    pub hsic: f64,
    /// Rows that counted.
    pub rows: u64,
    /// What they weigh together; as many as there are without weights.
    pub weight: f64,
    /// Features, or scores of the model.
    pub features: usize,
    /// Rows left out for missing values or labels.
    pub dropped: u64,
    /// Missing cells that were met.
    pub missing: u64,
    /// HSIC of the labels in other orders.
    pub shuffled: Vec<f64>,
    /// The kernel over the features, with its constants.
    pub kernel: Kernel,
    /// What stood for it.
    pub approximation: Option<Approximation>,
    /// The label columns.
    pub labels: Vec<String>,
    /// The kernel over them.
    pub label_kernel: LabelKernel,
    /// γ, if that is rbf or poly.
    pub label_gamma: Option<f64>,
    /// c, if that is poly.
    pub label_coef0: Option<f64>,
    /// p, if that is poly.
    pub label_degree: Option<u32>,
    /// Random features that stood for it.
    pub label_features: Option<usize>,
}

impl HsicResult {
    /// The share of shuffles that reach the HSIC found, itself among them; `None` without shuffles.
    pub fn p_value(&self) -> Option<f64> {
        let reach = self.shuffled.iter().filter(|h| **h >= self.hsic).count();
        let all = self.shuffled.len();
        (all > 0).then(|| (reach + 1) as f64 / (all + 1) as f64)
    }
}

/// A measure, before it is put together.
pub(super) struct Measure {
    /// tr(K H L H): of the labels as they are, then in other orders.
    pub(super) traces: Vec<f64>,
    pub(super) rows: u64,
    /// Σ w.
    pub(super) weight: f64,
    pub(super) kernel: Kernel,
    pub(super) approximation: Option<Approximation>,
    /// Random features that stood for the kernel over labels.
    pub(super) label_features: Option<usize>,
    pub(super) tally: Tally,
}

impl HsicPlan<'_> {
    /// Reads the rows.
    pub fn run(&self, listener: &dyn Listener) -> Result<HsicResult> {
        let measure = match self.route {
            Route::Given => self.given(listener)?,
            Route::Pairs => self.pairs(listener)?,
            Route::Streams(features) => match self.streamed(features, listener) {
                // Too many distinct labels to factor K_y: pair by pair, exactly.
                Err(Error::TooManyClasses { .. }) if self.compares_distinct() => {
                    self.check_pairs(self.label_numbers())?;
                    self.pairs(listener)?
                }
                result => result?,
            },
        };
        self.tell(&measure.tally, listener);
        let labels = match &self.plan.problem.labels {
            LabelUse::Read(labels) => labels.request.columns.clone(),
            LabelUse::Identity(columns) => columns.clone(),
            LabelUse::None => Vec::new(),
        };
        let Measure { traces, rows, weight, kernel, approximation, label_features, tally } =
            measure;
        let freedom = weight - 1.0;
        let mut hsic = traces.iter().map(|trace| trace / (freedom * freedom));
        Ok(HsicResult {
            hsic: hsic.next().unwrap_or(0.0),
            rows,
            weight,
            features: self.n_features(),
            dropped: tally.dropped,
            missing: tally.missing.values().sum(),
            shuffled: hsic.collect(),
            kernel,
            approximation,
            labels,
            label_kernel: self.label_kernel(),
            label_gamma: self.labels().and_then(|l| l.gamma()),
            label_coef0: self.labels().and_then(|l| l.coef0()),
            label_degree: self.labels().and_then(|l| l.degree()),
            label_features,
        })
    }

    /// Missing values, as the fit of the model told them where there is one.
    fn tell(&self, tally: &Tally, listener: &dyn Listener) {
        if let Some(labels) = self.labels() {
            let (columns, is_number) = (&labels.request.columns, |j| labels.is_number(j));
            let notes = whole_number_notes(columns, is_number, tally, false);
            notes.iter().for_each(|note| listener.note(note));
        }
        let ReadRequest { features, nulls, .. } = &self.request;
        if self.model.is_none() {
            let notes = tally_notes(features, *nulls, tally);
            return notes.iter().for_each(|note| listener.note(note));
        }
        let (dropped, rows) = (tally.dropped, tally.rows);
        let missing = tally.missing.values().sum();
        if dropped > 0 {
            listener.note(&Note::RowsDroppedAgain { dropped, rows, asked: false });
        } else if missing > 0 {
            listener.note(&Note::CellsFilledAgain { cells: missing, asked: false });
        }
    }

    /// Features or scores, with labels read in some way.
    pub(super) fn source(&self, read: Option<LabelRead>) -> Result<Box<dyn Source + '_>> {
        let mut request = self.request.clone();
        if let (Some(labels), Some(read)) = (&mut request.labels, read) {
            labels.read = read;
        }
        let rows = self.plan.read(&request)?;
        let Some(model) = self.model else { return Ok(rows) };
        let projector = Projector::new(model, model.n_components(), 1);
        Ok(Box::new(MappedSource::new(rows, projector.k(), move |block, place| {
            let scores = projector.project(block, place)?.scores;
            Ok(scores.reversed_axes().as_standard_layout().into_owned())
        })))
    }

    /// All rows, pair by pair, for the labels as they are and shuffled.
    fn pairs(&self, listener: &dyn Listener) -> Result<Measure> {
        let source = self.source(self.reads_numbers())?;
        let watch = Watch::new(listener, pass::stage("reading", "rows", &*source, 0));
        let all = collect_all(&*source, self.plan.table.rows(), self.crew(), &watch)?;
        drop(watch);
        let (weights, tally) = (all.weights, all.tally);
        self.check_moments(&all.moments)?;
        let labels = self.label_values(all.labels)?.centred();
        let row_kernel = self.row_kernel(listener);
        let whole = tally.dropped == 0;
        let rows = row_kernel.prepared(all.x, weights.as_ref(), &all.moments, whole)?;
        let PreparedRows { mut x, kernel, .. } = rows;
        if matches!(kernel, Kernel::Rbf { .. }) {
            let some = row_kernel.some_rows(&x);
            row_kernel.tell_degenerate(kernel, &kernel.tile(some.view(), some.view()));
        }
        // Centring changes nothing of HSIC for a linear kernel and nothing at all of rbf, and keeps
        // the digits.
        if kernel.is_shift_invariant() || matches!(kernel, Kernel::Linear { .. }) {
            let mean = x.mean_axis(Axis(0)).unwrap_or_default();
            x -= &mean;
        }
        let orders = permutations(x.nrows(), self.permutations, self.seed);
        let dependence = self.dependence(x.nrows(), &labels, weights.as_ref());
        let traces = dependence.traces(&Pairs { x: &x, kernel }, &orders, listener)?;
        Ok(self.measure(self.scaled(traces), &all.moments, kernel, tally))
    }

    fn dependence<'l>(
        &self,
        rows: usize,
        labels: &'l LabelValues,
        weights: Option<&'l Array1<f64>>,
    ) -> Dependence<'l> {
        Dependence { rows, labels, weights, threads: self.workers }
    }

    pub(super) fn crew(&self) -> Crew {
        Crew { threads: self.threads, queue: 1 }
    }

    /// By the kernels themselves.
    pub(super) fn measure(
        &self,
        traces: Vec<f64>,
        moments: &Moments,
        kernel: Kernel,
        tally: Tally,
    ) -> Measure {
        let Moments { rows, weight, .. } = *moments;
        let (approximation, label_features) = (None, None);
        Measure { traces, rows, weight, kernel, approximation, label_features, tally }
    }

    /// Of a kernel over classes that is the delta kernel times a number.
    pub(super) fn scaled(&self, mut traces: Vec<f64>) -> Vec<f64> {
        if let Some(LabelFactor::Classes { scale }) = self.labels().map(|l| &l.factor) {
            traces.iter_mut().for_each(|t| *t *= scale);
        }
        traces
    }

    /// Of a kernel matrix that is given: a look at it, then one pass for all orders.
    fn given(&self, listener: &dyn Listener) -> Result<Measure> {
        let source = self.source(self.reads_numbers())?;
        let rows = self.plan.given_rows(&*source, self.choice.kind, listener);
        let FirstLook { diagonal, mean, weights, labels, moments, tally, .. } =
            rows.look(self.seed)?;
        self.check_moments(&moments)?;
        let labels = self.label_values(labels)?.centred();
        let orders = permutations(diagonal.len(), self.permutations, self.seed);
        let dependence = self.dependence(diagonal.len(), &labels, weights.as_ref());
        let read = |take: &mut TakeRows<'_>| rows.read("comparing".into(), take);
        let traces = dependence.given_traces(&orders, mean, &read, listener)?;
        Ok(self.measure(self.scaled(traces), &moments, rows.kernel, tally))
    }

    /// True when K_y is of the distinct labels, of which there may be too many to factor it.
    fn compares_distinct(&self) -> bool {
        self.labels().is_some_and(|l| l.factor == LabelFactor::Distinct)
    }

    /// Refuses rows that have no variance to speak of, or too much.
    pub(super) fn check_moments(&self, moments: &Moments) -> Result<()> {
        let refuse = |problem: String| Err(Error::data(self.plan.table.place(), problem));
        let Moments { rows, weight, mean, squares, .. } = moments;
        if *rows < 2 {
            let left = count(*rows, "row");
            return refuse(format!("{left} left, but dependence needs at least 2"));
        }
        if let Some(column) = self.request.weight.as_ref().filter(|_| *weight <= 1.0) {
            return refuse(format!(
                "the weights in '{column}' sum to {weight}, but they are frequencies (3 means \
                 three equal rows) and must sum to more than 1; scale them to sum to the number \
                 of rows"
            ));
        }
        let reach = squares.iter().zip(mean).map(|(s, m)| s + weight * m * m).sum::<f64>();
        if !reach.is_finite() {
            return refuse(
                "values are so large that their squares overflow; scale the columns down".into(),
            );
        }
        Ok(())
    }

    /// Labels of rbf are read as numbers.
    pub(super) fn reads_numbers(&self) -> Option<LabelRead> {
        let numbers = self.labels().is_some_and(|l| l.random_gamma().is_some());
        numbers.then_some(LabelRead::Numbers)
    }

    fn label_values(&self, read: Option<RowLabels>) -> Result<LabelValues> {
        let (Some(read), Some(labels)) = (read, self.labels()) else {
            return Ok(LabelValues::Identity);
        };
        let linear = Kernel::Linear { coef0: 0.0 };
        Ok(match (read, &labels.factor) {
            (RowLabels::Classes { ids, classes }, LabelFactor::OneHot | LabelFactor::Distinct) => {
                let rows: Vec<usize> = ids.iter().map(|id| *id as usize).collect();
                // Of the distinct labels, and of all rows.
                self.check_pairs(2 * one_hot_width(&classes, &labels.numeric) as u64)?;
                let distinct = one_hot(&classes, &labels.numeric);
                let function = labels.function.unwrap_or(linear);
                LabelValues::Numbers(distinct.select(Axis(0), &rows), function)
            }
            (RowLabels::Classes { ids, .. }, _) => LabelValues::Classes(ids),
            (RowLabels::Numbers(y), LabelFactor::Numbers(map)) => {
                let psi = map.apply(y);
                if !has_squares(&psi) {
                    return Err(Error::data(self.plan.table.place(), labels.overflow()));
                }
                LabelValues::Numbers(psi, linear)
            }
            (RowLabels::Numbers(y), _) => {
                LabelValues::Numbers(y, labels.function.unwrap_or(linear))
            }
        })
    }
}
