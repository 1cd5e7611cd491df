//! A plan, run: one pass that holds no row, or all rows in memory → [`HsicResult`].

use super::plan::HsicPlan;
use crate::accumulate::{Accumulate, Moments, SumsKind};
use crate::collect::given::FirstLook;
use crate::collect::{RowLabels, collect_all};
use crate::error::{Error, Result};
use crate::fit::assemble::tally_notes;
use crate::fit::check::{LabelProblem, LabelUse};
use crate::fit::kernel_choice::{median_gamma, resolve};
use crate::fit::label_factor::LabelFactor;
use crate::fit::labels::whole_number_notes;
use crate::fit::run::label_sums;
use crate::fit::sums_pass::{SumsPass, feature_moments, rows_stage};
use crate::fit::supervise::{has_squares, label_matrix};
use crate::kernel::Kernel;
use crate::listen::{Listener, Watch};
use crate::note::Note;
use crate::project::Projector;
use crate::solve::hsic::{Dependence, LabelValues, Pairs, linear_traces, permutations};
use crate::solve::supervised::{LabelKernel, one_hot, one_hot_width};
use crate::source::place_of;
use crate::source::{Block, LabelRead, MappedSource, Precision, Prepare, ReadRequest};
use crate::source::{Source, Tally};
use crate::words::count;
use crate::workers::Crew;
use ndarray::{Array2, Axis};

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct HsicResult {
    /// The empirical HSIC.
    pub hsic: f64,
    /// Rows that counted.
    pub rows: u64,
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
struct Measure {
    hsic: f64,
    rows: u64,
    shuffled: Vec<f64>,
    kernel: Kernel,
    tally: Tally,
}

impl HsicPlan<'_> {
    /// Reads the rows.
    pub fn run(&self, listener: &dyn Listener) -> Result<HsicResult> {
        let measure = match self.streams() {
            false if self.kind.is_given() => self.given(listener)?,
            false => self.pairs(listener)?,
            true => match self.streamed(listener) {
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
        let Measure { hsic, rows, shuffled, kernel, tally } = measure;
        Ok(HsicResult {
            hsic,
            rows,
            features: self.n_features(),
            dropped: tally.dropped,
            missing: tally.missing.values().sum(),
            shuffled,
            kernel,
            labels,
            label_kernel: self.label_kernel(),
            label_gamma: self.labels().and_then(|l| l.gamma()),
            label_coef0: self.labels().and_then(|l| l.coef0()),
            label_degree: self.labels().and_then(|l| l.degree()),
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
    fn source(&self, read: Option<LabelRead>) -> Result<Box<dyn Source + '_>> {
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

    /// ‖M‖² over (n−1)², in one pass.
    fn streamed(&self, listener: &dyn Listener) -> Result<Measure> {
        let source = self.source(None)?;
        let (moments, squares, tally) = match self.labels() {
            None => {
                let watch = Watch::new(listener, rows_stage(self.plan.table));
                let (moments, tally) = feature_moments(&*source, self.plan.threads(), &watch)?;
                let squares = moments.squares.sum();
                (moments, squares, tally)
            }
            Some(labels) => self.label_squares(labels, &*source, listener)?,
        };
        self.check_rows(moments.rows)?;
        let freedom = moments.weight - 1.0;
        Ok(Measure {
            hsic: squares / (freedom * freedom),
            rows: moments.rows,
            shuffled: Vec::new(),
            kernel: Kernel::Linear { coef0: self.kernel.coef0.unwrap_or(0.0) },
            tally,
        })
    }

    /// ‖M‖², from the sums of supervised PCA.
    fn label_squares(
        &self,
        labels: &LabelProblem,
        source: &dyn Source,
        listener: &dyn Listener,
    ) -> Result<(Moments, f64, Tally)> {
        self.plan.check()?;
        let kind = label_sums(&self.plan, labels);
        let kind = SumsKind {
            features: source.n_features(),
            covariance: false,
            precision: Precision::Exact,
            nulls: self.request.nulls,
            labels: Some(kind),
            threads: self.plan.threads(),
            around: None,
        };
        let (threads, stage) = (self.plan.threads(), rows_stage(self.plan.table));
        let pass = SumsPass { source, kind: &kind, folds: None, threads, stage, listener };
        let (sums, tally) = pass.whole()?;
        let Some(of_labels) = sums.finish().labels else {
            return Err(Error::Internal("a pass over labels has summed none".into()));
        };
        let (m, _) = label_matrix(&of_labels, labels)?;
        if !has_squares(&m) {
            return Err(Error::data(self.plan.table.place(), labels.overflow()));
        }
        let squares = m.iter().map(|m| m * m).sum();
        Ok((of_labels.moments().clone(), squares, tally))
    }

    /// All rows, pair by pair, for the labels as they are and shuffled.
    fn pairs(&self, listener: &dyn Listener) -> Result<Measure> {
        let (mut x, labels, tally) = self.rows(listener)?;
        self.check_rows(x.nrows() as u64)?;
        let median = || median_gamma(&x, None, self.seed);
        let (kernel, _) = resolve(&self.kernel, self.kind, x.ncols(), median, listener);
        if x.iter().map(|v| v * v).fold(0.0, f64::max) * x.ncols() as f64 == f64::INFINITY {
            return Err(Error::data(
                self.plan.table.place(),
                "values are so large that their squares overflow; scale the columns down",
            ));
        }
        if kernel == Kernel::Cosine {
            // Rows at unit length, as the fit and the transform have them; one of length 0 is
            // refused.
            let unit = Prepare { normalize: true, ..Prepare::default() };
            let whole = tally.dropped == 0;
            x = unit.apply(Block::dense(x), |row| place_of(self.plan.table, row, whole))?;
        }
        // Centring changes nothing of HSIC for a linear kernel and nothing at all of rbf, and keeps
        // the digits.
        if kernel.is_shift_invariant() || matches!(kernel, Kernel::Linear { .. }) {
            let mean = x.mean_axis(Axis(0)).unwrap_or_default();
            x -= &mean;
        }
        let traces = self.traces(&x, &labels.centred(), kernel);
        Ok(measure(traces, x.nrows(), kernel, tally))
    }

    /// tr(K H L H) for the labels as they are, then in other orders.
    fn traces(&self, x: &Array2<f64>, labels: &LabelValues, kernel: Kernel) -> Vec<f64> {
        let orders = permutations(x.nrows(), self.permutations, self.seed);
        let traces = match labels.is_factored() && matches!(kernel, Kernel::Linear { .. }) {
            true => linear_traces(x, labels, &orders, self.threads),
            false => self.dependence(x.nrows(), labels).traces(&Pairs { x, kernel }, &orders),
        };
        self.scaled(traces)
    }

    fn dependence<'l>(&self, rows: usize, labels: &'l LabelValues) -> Dependence<'l> {
        Dependence { rows, labels, threads: self.threads }
    }

    /// Of a kernel over classes that is the delta kernel times a number.
    fn scaled(&self, mut traces: Vec<f64>) -> Vec<f64> {
        if let Some(LabelFactor::Classes { scale }) = self.labels().map(|l| &l.factor) {
            traces.iter_mut().for_each(|t| *t *= scale);
        }
        traces
    }

    /// Of a kernel matrix that is given: a look at it, then one pass for all orders.
    fn given(&self, listener: &dyn Listener) -> Result<Measure> {
        let source = self.source(self.reads_numbers())?;
        let rows = self.plan.given_rows(&*source, self.kind, listener);
        let FirstLook { diagonal, mean, labels, tally, .. } = rows.look(self.seed)?;
        self.check_rows(diagonal.len() as u64)?;
        let labels = self.label_values(labels)?.centred();
        let orders = permutations(diagonal.len(), self.permutations, self.seed);
        let dependence = self.dependence(diagonal.len(), &labels);
        let traces = dependence.given_traces(&orders, mean, &|take| rows.read(take))?;
        Ok(measure(self.scaled(traces), diagonal.len(), rows.kernel, tally))
    }

    /// True when K_y is of the distinct labels, of which there may be too many to factor it.
    fn compares_distinct(&self) -> bool {
        self.labels().is_some_and(|l| l.factor == LabelFactor::Distinct)
    }

    fn check_rows(&self, rows: u64) -> Result<()> {
        if rows >= 2 {
            return Ok(());
        }
        let problem = format!("{} left, but dependence needs at least 2", count(rows, "row"));
        Err(Error::data(self.plan.table.place(), problem))
    }

    /// All rows and their labels; those that have distances as numbers.
    fn rows(&self, listener: &dyn Listener) -> Result<(Array2<f64>, LabelValues, Tally)> {
        let source = self.source(self.reads_numbers())?;
        let crew = Crew { threads: self.plan.threads(), queue: 1 };
        let watch = Watch::new(listener, rows_stage(self.plan.table));
        let all = collect_all(&*source, self.plan.table.rows(), crew, &watch)?;
        Ok((all.x, self.label_values(all.labels)?, all.tally))
    }

    /// Labels of rbf are read as numbers.
    fn reads_numbers(&self) -> Option<LabelRead> {
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

/// Traces over (n−1)²: of the labels as they are, then of their other orders.
fn measure(traces: Vec<f64>, rows: usize, kernel: Kernel, tally: Tally) -> Measure {
    let freedom = rows as f64 - 1.0;
    let mut hsic = traces.iter().map(|t| t / (freedom * freedom));
    let found = hsic.next().unwrap_or(0.0);
    Measure { hsic: found, rows: rows as u64, shuffled: hsic.collect(), kernel, tally }
}
