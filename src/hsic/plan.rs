//! Asked, then checked: [`Hsic`], a table and perhaps a model → [`HsicPlan`]. No row is read.

use super::memory::{self, HeldLabels, Streaming};
use super::options::Hsic;
use crate::accumulate::Scaling;
use crate::budget::{MemoryPlan, Phase};
use crate::collect::given::NO_HOLES;
use crate::error::{Error, Result};
use crate::fit::check::LabelProblem;
use crate::fit::cost::LabelShape;
use crate::fit::given::check_square;
use crate::fit::kernel_choice::{KernelChoice, check_constants};
use crate::fit::label_factor::LabelFactor;
use crate::fit::no_effect;
use crate::fit::row_kernel::RowKernel;
use crate::fit::{Approximate, ColumnOptions, Fit, LabelOptions, PLANNED_CLASSES, Plan};
use crate::kernel::KernelKind;
use crate::listen::Listener;
use crate::model::{Method, Model};
use crate::note::Note;
use crate::solve::supervised::LabelKernel;
use crate::source::{Nulls, ReadRequest, Table};
use crate::words::megabytes;

/// Up to this many rows all pairs are compared in about a second, where random features would stand
/// for the kernel over more distinct labels than are factored.
const PAIRS_UP_TO: u64 = 10_000;

/// The way that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// The matrix of the kernel is given, and read.
    Given,
    /// All rows in memory, pair by pair.
    Pairs,
    /// Passes that hold no row, over features whose products are the kernel.
    Streams(RowFeatures),
}

/// Numbers of a row whose products are the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFeatures {
    /// The row itself: linear.
    Row,
    /// The row at unit length: cosine.
    Unit,
    /// Comparisons with landmarks, or random features.
    Approximate(Approximate),
}

impl Hsic {
    /// Checks the options against a table; no row is read. With a model its scores are measured
    /// instead of the features.
    pub fn plan<'a>(&self, table: &'a dyn Table, model: Option<&'a Model>) -> Result<HsicPlan<'a>> {
        let kind = self.kernel.kind.unwrap_or_default();
        self.check(kind)?;
        let route = self.route(kind);
        let fit = self.fit(model, route);
        let plan = fit.plan(table)?;
        let mut request = plan.problem.request.clone();
        if kind.is_given() {
            request.advice = NO_HOLES;
        }
        if let Some(model) = model {
            model.header.features.check(table)?;
            request.features = model.header.features.clone();
            request.nulls = model.header.nulls.policy;
        }
        let mut planned = HsicPlan {
            notes: self.notes(&fit, &plan, kind, model),
            threads: plan.threads(),
            workers: self.resources.threads(),
            plan,
            model,
            request,
            choice: KernelChoice { kind, options: self.kernel.clone() },
            scaling: Scaling { center: true, standardize: self.standardize && model.is_none() },
            route,
            exact: self.exact || table.rows() <= PAIRS_UP_TO,
            permutations: self.permutations,
            seed: self.seed,
        };
        match route {
            Route::Given => planned.check_given()?,
            Route::Pairs => planned.check_pairs(planned.label_numbers())?,
            Route::Streams(_) => planned.check_streaming()?,
        }
        Ok(planned)
    }

    fn route(&self, kind: KernelKind) -> Route {
        match (kind, self.kernel.approximation) {
            (KernelKind::Precomputed | KernelKind::Distances, _) => Route::Given,
            (KernelKind::Linear, _) => Route::Streams(RowFeatures::Row),
            (KernelKind::Cosine, _) => Route::Streams(RowFeatures::Unit),
            (_, Some(by)) => Route::Streams(RowFeatures::Approximate(by)),
            (_, None) => Route::Pairs,
        }
    }

    fn check(&self, kind: KernelKind) -> Result<()> {
        if self.labels.columns.is_empty() && self.labels.given.is_none() {
            return Error::misuse("dependence is on labels; name their column with ⟦label⟧");
        }
        if self.kernel.preimage {
            return Error::misuse("HSIC makes no model to go back with; leave ⟦preimage⟧ out");
        }
        if self.weight.is_some() && self.permutations > 0 {
            return Error::misuse(
                "a shuffle gives each row the label of another, and a row that counts as several \
                 would need several; leave ⟦permutations⟧ out, or write its rows out and leave \
                 ⟦weight⟧ out",
            );
        }
        if self.exact && self.labels.features.is_some() {
            return Error::misuse(
                "⟦label-features⟧ stand for the kernel over labels and ⟦exact⟧ is without them; \
                 leave one out",
            );
        }
        if matches!(self.kernel.approximation, Some(Approximate::Fourier(_)))
            && matches!(kind, KernelKind::Poly | KernelKind::Sigmoid)
        {
            return Error::misuse(format!(
                "⟦random-features⟧ stand for the rbf kernel, not for {kind}; ⟦landmarks⟧ stand \
                 for any"
            ));
        }
        check_constants(&self.kernel, kind)
    }

    /// Supervised PCA with the same columns and labels, whose sums these are.
    fn fit(&self, model: Option<&Model>, route: Route) -> Fit {
        let columns = match model {
            None => self.columns.clone(),
            Some(model) => {
                let columns = model.header.features.columns.iter();
                let include = columns.map(|c| glob::Pattern::escape(&c.name)).collect();
                ColumnOptions { include, ..ColumnOptions::default() }
            }
        };
        let streams = matches!(route, Route::Streams(_));
        let features = self.labels.features.filter(|_| streams);
        Fit {
            method: Method::Spca,
            columns,
            labels: LabelOptions { with_variance: false, features, ..self.labels.clone() },
            weight: self.weight.clone(),
            nulls: self.nulls,
            seed: self.seed,
            allow_duplicates: self.allow_duplicates,
            resources: self.resources.clone(),
            ..Fit::default()
        }
    }

    /// Options that were given and change nothing.
    fn notes(
        &self,
        fit: &Fit,
        plan: &Plan<'_>,
        kind: KernelKind,
        model: Option<&Model>,
    ) -> Vec<Note> {
        let mut notes = no_effect::columns(plan);
        let mut unused = no_effect::constants_of(&self.kernel, kind);
        unused.extend(no_effect::labels(fit));
        unused.extend(no_effect::classes(fit, plan));
        notes.extend(no_effect::given_notes(&unused));
        notes.extend(no_effect::label_kernel(fit, plan));
        let told = self.idle(fit, kind, model).into_iter().filter(|(idle, ..)| *idle);
        notes.extend(told.map(|(_, option, sentence)| Note::NoEffect { option, sentence }));
        notes
    }

    /// Options, whether they are given and change nothing, and why.
    fn idle(
        &self,
        fit: &Fit,
        kind: KernelKind,
        model: Option<&Model>,
    ) -> Vec<(bool, &'static str, String)> {
        let stands = match self.kernel.approximation {
            Some(Approximate::Fourier(_)) => "random-features",
            _ => "landmarks",
        };
        let itself = matches!(kind, KernelKind::Linear | KernelKind::Cosine);
        let rbf = self.labels.kernel == Some(LabelKernel::Rbf);
        let pairs = !matches!(self.route(kind), Route::Streams(_));
        let of_labels = [
            (rbf && pairs && self.labels.features.is_some(), "label-features", EXACT_PAIRS),
            (self.exact && (!rbf || pairs), "exact", EXACT_ANYWAY),
            (self.permutations > 0 && fit.is_identity(), "permutations", BLIND),
        ];
        let mut idle: Vec<(bool, &'static str, String)> =
            of_labels.into_iter().map(|(idle, option, why)| (idle, option, why.into())).collect();
        let why = format!("⟦{stands}⟧ has no effect on the {kind} kernel, which streams exactly");
        idle.push((self.kernel.approximation.is_some() && itself, stands, why));
        if model.is_some() {
            idle.extend(self.idle_with_model());
        }
        idle
    }

    fn idle_with_model(&self) -> [(bool, &'static str, String); 3] {
        let ColumnOptions { include, exclude, .. } = &self.columns;
        let of_model = "has no effect with ⟦model⟧, which has features of its own";
        let as_they_are =
            "⟦standardize⟧ has no effect with ⟦model⟧, whose scores are measured as they are";
        [
            (!include.is_empty(), "columns", format!("⟦columns⟧ {of_model}")),
            (!exclude.is_empty(), "exclude", format!("⟦exclude⟧ {of_model}")),
            (self.standardize, "standardize", as_they_are.into()),
        ]
    }
}

/// Why options about the kernel over labels change nothing.
const EXACT_PAIRS: &str = "⟦label-features⟧ has no effect where all pairs are compared: the kernel \
                           over labels is exact";
const EXACT_ANYWAY: &str = "⟦exact⟧ has no effect here: no random features would stand for the \
                            kernel over labels";
const BLIND: &str = "the identity kernel looks at no label, so shuffling them changes nothing";

/// A measure of dependence that is known to be possible.
pub struct HsicPlan<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) model: Option<&'a Model>,
    pub(super) request: ReadRequest,
    pub(super) choice: KernelChoice,
    pub(super) scaling: Scaling,
    pub(super) route: Route,
    /// True when pairs are compared where random features would stand for the kernel over labels.
    pub(super) exact: bool,
    pub(super) permutations: usize,
    pub(super) seed: u64,
    /// Threads that read: as many as there are pieces to read, at most.
    pub(super) threads: usize,
    /// Threads that compare.
    pub(super) workers: usize,
    notes: Vec<Note>,
}

impl HsicPlan<'_> {
    /// What should be known before it runs: options without effect.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// True when the seed has a say without shuffles, too.
    #[cfg(feature = "cli")]
    pub(crate) fn is_random(&self) -> bool {
        let KernelChoice { kind, options } = &self.choice;
        let sampled = options.gamma == Some(crate::fit::Gamma::Median);
        let labels = self.plan.problem.labels.read();
        kind.is_given()
            || sampled
            || options.approximation.is_some()
            || labels.is_some_and(|labels| labels.random_gamma().is_some())
    }

    /// Features, or scores of the model.
    pub fn n_features(&self) -> usize {
        self.model.map_or(self.request.features.len(), Model::n_components)
    }

    /// True when passes will do that hold no row.
    pub fn streams(&self) -> bool {
        matches!(self.route, Route::Streams(_))
    }

    /// The labels that are read; none for K_y = I.
    pub(super) fn labels(&self) -> Option<&LabelProblem> {
        self.plan.problem.labels.read()
    }

    /// The kernel over the labels.
    pub(super) fn label_kernel(&self) -> LabelKernel {
        self.labels().map_or(LabelKernel::Identity, |l| l.kernel)
    }

    /// The kernel over the rows.
    pub(super) fn row_kernel<'r>(&'r self, listener: &'r dyn Listener) -> RowKernel<'r> {
        RowKernel {
            table: self.plan.table,
            choice: &self.choice,
            scaling: self.scaling,
            seed: self.seed,
            listener,
        }
    }

    /// Refuses what is no matrix of its own rows, or too many shuffles for the memory.
    fn check_given(&self) -> Result<()> {
        let kind = self.choice.kind;
        if self.model.is_some() {
            return Error::misuse(
                "⟦model⟧ gives scores, and a kernel matrix is of rows; leave one of them out",
            );
        }
        if self.request.nulls != Nulls::Error {
            return Error::misuse(
                "a kernel matrix loses its columns with its rows; leave ⟦nulls⟧ out",
            );
        }
        let idle = match self.choice.options.approximation {
            _ if self.scaling.standardize => Some("⟦standardize⟧"),
            Some(_) => Some("⟦landmarks⟧ or ⟦random-features⟧"),
            None => None,
        };
        if let Some(option) = idle {
            return Error::misuse(format!(
                "{option} is about features, and the rows of ⟦kernel={kind}⟧ have none, only \
                 their values with each other; leave it out"
            ));
        }
        check_square(kind, &self.request.features, self.plan.table)?;
        // Vectors of the first look and rows that are compared; what is read ahead is planned as
        // for supervised PCA.
        let (n, vectors) = (self.plan.table.rows(), 8 + 16 * self.workers as u64);
        let phase = memory::pairs(n, vectors, self.label_numbers(), self.permutations);
        self.within(vec![phase], || "ask for fewer ⟦permutations⟧".into())
    }

    fn within(&self, phases: Vec<Phase>, hint: impl FnOnce() -> String) -> Result<()> {
        MemoryPlan { phases }.check(&self.plan.budget(), hint)
    }

    /// Numbers that the labels of a row are, as far as metadata tells.
    pub(super) fn label_numbers(&self) -> u64 {
        let read = self.labels().map_or(1, |l| l.request.columns.len()) as u64;
        match self.labels().map(|l| &l.factor) {
            Some(LabelFactor::Numbers(map)) => read.max(map.len() as u64),
            _ => read,
        }
    }

    /// Refuses rows, with so many numbers as labels, and shuffles that the memory does not hold.
    pub(super) fn check_pairs(&self, q: u64) -> Result<()> {
        let (n, d) = (self.plan.table.rows(), self.n_features() as u64);
        let phase = memory::pairs(n, d, q, self.permutations);
        let all = megabytes(phase.bytes());
        self.within(vec![phase], || {
            let fewer =
                if self.permutations > 0 { "ask for fewer ⟦permutations⟧, " } else { "" };
            let random = self.labels().is_some_and(|l| l.random_gamma().is_some());
            let instead = match self.route {
                Route::Streams(_) if random => "approximate with ⟦label-features⟧",
                Route::Streams(_) => "use ⟦label-kernel=linear⟧",
                _ => "approximate with ⟦landmarks⟧",
            };
            format!("allow ⟦memory={all}⟧, {fewer}or {instead}, which holds no row")
        })
    }

    /// Sizes of the passes that hold no row.
    pub(super) fn streaming(&self) -> Streaming {
        let by = match self.route {
            Route::Streams(RowFeatures::Approximate(by)) => Some(by),
            _ => None,
        };
        let (width, workers) = (self.n_features() as u64, self.workers as u64);
        Streaming { work: self.plan.work, by, width, workers }
    }

    /// Refuses passes that the memory does not hold; with as many threads as it does.
    fn check_streaming(&mut self) -> Result<()> {
        if self.route == Route::Streams(RowFeatures::Row) && self.permutations == 0 {
            return self.plan.check();
        }
        let fits = |threads: &usize| {
            let memory = MemoryPlan { phases: self.phases(*threads) };
            memory.peak_bytes() <= self.plan.budget().bytes.0
        };
        self.threads = (1..=self.threads).rev().find(fits).unwrap_or(1);
        let phases = self.phases(self.threads);
        let all = MemoryPlan { phases: phases.clone() }.peak_bytes();
        self.within(phases, || match self.permutations {
            0 => format!("allow ⟦memory={}⟧", megabytes(all)),
            _ => format!("allow ⟦memory={}⟧, or ask for fewer ⟦permutations⟧", megabytes(all)),
        })
    }

    /// What passes that hold no row hold, with as many classes as plans reckon with.
    fn phases(&self, threads: usize) -> Vec<Phase> {
        let (streaming, n) = (self.streaming(), self.plan.table.rows());
        let shape = self.label_shape();
        let held = match self.permutations {
            0 => 0,
            _ => n.saturating_mul(self.held_numbers()).saturating_mul(8),
        };
        let mut phases = vec![streaming.sampling(threads, held)];
        if streaming.by.is_some() {
            phases.push(streaming.choosing(held));
        }
        phases.push(match self.permutations {
            0 => streaming.adding_up(threads, shape),
            shuffles => {
                let (vectors, shuffles) = (shape.vectors, shuffles as u64);
                streaming.shuffling(threads, HeldLabels { bytes: held, vectors, shuffles }, 1)
            }
        });
        phases
    }

    /// Numbers of the labels of a row that shuffles hold: half of one for classes.
    fn held_numbers(&self) -> u64 {
        self.labels().map_or(0, |labels| match &labels.given {
            Some(delta) => delta.ncols() as u64,
            None => labels.request.columns.len() as u64,
        })
    }

    fn label_shape(&self) -> LabelShape {
        self.plan.work.labels.map_or(LabelShape { vectors: 0, classes: false }, |l| l.shape)
    }

    /// The most classes that the memory has room for, beside what stands for the kernel.
    pub(super) fn most_classes(&self) -> usize {
        let (streaming, budget) = (self.streaming(), self.plan.budget().bytes.0);
        if streaming.by.is_none() {
            return self.plan.most_classes;
        }
        let fits = |vectors: u64| {
            let shape = LabelShape { vectors, classes: true };
            streaming.adding_up(self.threads, shape).bytes() <= budget
        };
        crate::fit::cost::largest(PLANNED_CLASSES.saturating_mul(100_000), fits) as usize
    }
}
