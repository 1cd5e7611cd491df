//! Asked, then checked: [`Fit`] and a table → [`Plan`]. No row is read.
//!
//! The plan knows n, d, the form, the passes and every big buffer ([`super::cost`] has the
//! formulas). Once planned, a fit does not fail on its arguments (but for rules of k that only the
//! spectrum can answer), its bytes are known, and running it looks at no option again.

use super::check::{FitProblem, LabelProblem, LabelUse};
use super::choose::choose;
use super::cost::{FormCost, KernelWork, LabelShape, LabelWork, ScoredWork, Workload, largest};
use super::kernel_choice::KernelRoute;
use super::label_factor::LabelFactor;
use super::labels::EXACT_LABELS;
use super::no_effect::{self, Unused};
use super::options::Fit;
use crate::budget::{Budget, Bytes};
use crate::error::{Error, Result};
use crate::model::Method;
use crate::note::Note;
use crate::scratch;
use crate::solve::kernel_matrix::{self, SPILL_FROM};
use crate::solve::kernel_pca::DENSE_UP_TO;
use crate::solve::{Form, randomized};
use crate::source::{ColumnSelection, Features, LabelRead, ReadLimit, Storage, Table, columnwise};
use crate::words::{count, megabytes};
use ndarray::Array2;
use std::path::PathBuf;
use std::sync::Arc;

/// Columns of Δ that a plan of kernel supervised PCA reckons with: each takes as much as a column
/// of all rows.
const PLANNED_COLUMNS: u64 = 20;

/// Classes that a plan reckons with, since metadata does not tell how many there are.
pub(crate) const PLANNED_CLASSES: u64 = 100;

/// A fit that is known to be possible, and what it takes.
pub struct Plan<'t> {
    pub(crate) table: &'t dyn Table,
    pub(crate) problem: FitProblem,
    pub(crate) columns: ColumnSelection,
    pub(crate) work: Workload,
    forms: Vec<FormCost>,
    taken: usize,
    reason: String,
    notes: Vec<Note>,
    /// Options that this fit does not look at, given or not.
    pub(crate) unused: Vec<Unused>,
    /// Classes that the memory has room for.
    pub(crate) most_classes: usize,
    /// True when the pass that scores all features gathers S too.
    pub(crate) scores_with_covariance: bool,
}

impl Fit {
    /// Checks the options against a table and chooses a form; no row is read.
    ///
    /// What does not fit the memory is planned all the same, and refused by [`Plan::check`] and
    /// [`Plan::run`].
    pub fn plan<'t>(&self, table: &'t dyn Table) -> Result<Plan<'t>> {
        let fit = self.with_names(table)?;
        let (problem, columns) = FitProblem::new(&fit, table)?;
        let mut plan = Plan::new(table, problem, columns)?;
        plan.unused = no_effect::unused(&fit, &plan);
        plan.notes = no_effect::notes(&fit, &plan);
        plan.notes.extend(no_effect::given_notes(&plan.unused));
        Ok(plan)
    }
}

impl<'t> Plan<'t> {
    fn new(
        table: &'t dyn Table,
        mut problem: FitProblem,
        columns: ColumnSelection,
    ) -> Result<Plan<'t>> {
        let work = workload(table, &problem)?;
        let forms = work.forms(&problem.budget);
        let (taken, reason) = choose(&forms, &work, problem.form, problem.tolerance());
        let FormCost { form, threads, .. } = forms[taken];
        let peak = forms[taken].memory.peak_bytes();
        let pages = work.scored.map_or(work.read.columns, |s| s.read.columns);
        problem.request.limit = ReadLimit::of(&problem.budget, peak, pages, threads);
        let most_classes = work.most_classes(problem.form, threads, &problem.budget) as usize;
        let with_covariance = work.scores_with_covariance(threads, &problem.budget);
        Ok(Plan {
            scores_with_covariance: form == Form::Primal && with_covariance,
            table,
            problem,
            columns,
            work,
            forms,
            taken,
            reason,
            notes: Vec::new(),
            unused: Vec::new(),
            most_classes,
        })
    }

    /// The same fit of the features that scoring has kept.
    pub(super) fn of_kept(&self, kept: &[usize]) -> Result<Plan<'t>> {
        let problem = self.problem.of_kept(kept);
        let features = problem.request.features.clone();
        let columns = ColumnSelection { features, ..ColumnSelection::default() };
        Plan::new(self.table, problem, columns)
    }

    /// All forms the fit could take, with their costs.
    pub fn forms(&self) -> &[FormCost] {
        &self.forms
    }

    /// The form that is taken.
    pub fn taken(&self) -> &FormCost {
        &self.forms[self.taken]
    }

    /// Why that one.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What should be known before it runs: options without effect.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The features.
    pub fn features(&self) -> &Features {
        &self.problem.request.features
    }

    /// The columns that were chosen, and those that were passed over.
    pub fn columns(&self) -> &ColumnSelection {
        &self.columns
    }

    /// The memory it may use.
    pub fn budget(&self) -> Budget {
        self.problem.budget
    }

    /// Bytes of a model that has rows in it, about; `None` for those that have none.
    pub fn model_bytes(&self) -> Option<u64> {
        let route = self.work.kernel?.route;
        let linear = matches!(route, KernelRoute::Pca | KernelRoute::UnitPca);
        (!linear).then(|| self.work.model_bytes())
    }

    /// Another form, if it fits.
    pub(super) fn alternative(&self, form: Form) -> Option<&FormCost> {
        self.forms.iter().find(|c| c.form == form && c.fits)
    }

    /// Worker threads that fit the budget.
    pub(crate) fn threads(&self) -> usize {
        self.taken().threads
    }

    /// How the data is copied first, cut by features, if the form needs that.
    pub(crate) fn spool(&self) -> Option<Storage> {
        let plain = self.work.labels.is_none() && self.work.route().is_none();
        self.work.spool.filter(|_| plain && self.taken().form == Form::Dual)
    }

    /// Where temporary files go, if there are any.
    pub fn temp_dir(&self) -> Option<&PathBuf> {
        let spills = self.work.kernel.is_some_and(|k| k.spill);
        (spills || self.spool().is_some()).then_some(&self.problem.temp_dir)
    }

    /// Refuses what cannot be had, what the budget cannot hold, or what the disk has no room for,
    /// and says what would do.
    pub fn check(&self) -> Result<()> {
        let taken = self.taken();
        if let Some(refusal) = &taken.refusal {
            let form = taken.form;
            return Error::misuse(format!(
                "⟦form={form}⟧ cannot: {refusal}; give a number of components"
            ));
        }
        taken.memory.check(&self.problem.budget, || self.hint())?;
        match self.temp_dir() {
            Some(dir) => scratch::check_dir(dir, taken.disk),
            None => Ok(()),
        }
    }

    /// What would fit instead.
    fn hint(&self) -> String {
        if let Some(c) = self.forms.iter().find(|c| c.fits) {
            let peak = Bytes(c.memory.peak_bytes());
            return format!("⟦form={}⟧ takes {peak}", c.form);
        }
        let had = self.forms.iter().filter(|c| c.refusal.is_none());
        let least = had.min_by_key(|c| c.memory.peak_bytes()).unwrap_or(self.taken());
        let mut hint = format!("allow ⟦memory={}⟧", megabytes(least.memory.peak_bytes()));
        if self.work.basis.is_some() {
            return hint + ", or keep fewer ⟦components⟧";
        }
        if least.form != self.taken().form {
            hint += &format!(" and ⟦form={}⟧", least.form);
        }
        hint += &self.fewer_features();
        if randomized::refusal(self.problem.components).is_some() {
            hint += ", or give ⟦components⟧ as a number";
            if self.work.route().is_none() {
                hint += ", which ⟦form=randomized⟧ can find";
            }
        }
        if self.work.kernel.is_some_and(|k| k.route == KernelRoute::Exact) {
            hint += ", or approximate with ⟦landmarks⟧, which holds no row";
        }
        hint
    }

    /// How many features would fit, if they can be chosen one by one.
    pub(crate) fn fewer_features(&self) -> String {
        let features = self.most_features();
        match features > 0 && self.features().columns.iter().all(|c| c.width.is_none()) {
            true => format!(", or choose at most {} with ⟦columns⟧", count(features, "feature")),
            false => String::new(),
        }
    }

    /// The most features that fit the budget, if their pages are like those of all.
    fn most_features(&self) -> u64 {
        let all = self.features().len() as u64;
        let asked = self.problem.form.map(|_| self.taken().form);
        largest(all, |d| {
            let read = self.work.read.share(d, all);
            let work = Workload { d, read, threads: 1, scored: None, ..self.work };
            let forms = work.forms(&self.problem.budget);
            forms.iter().any(|c| c.fits && asked.is_none_or(|form| c.form == form))
        })
    }

    /// Bytes that one more class takes: its sums, and its row of M. (A unit has no more classes
    /// than rows.)
    pub(super) fn class_bytes(&self) -> u64 {
        let shape = |vectors| {
            let labels = Some(LabelShape { vectors, classes: true });
            self.work.sums(false, labels).bytes(0)
        };
        (shape(1) - shape(0)).saturating_add(8 * self.features().len() as u64)
    }
}

fn workload(table: &dyn Table, problem: &FitProblem) -> Result<Workload> {
    let (n, all) = (table.rows(), problem.n_features() as u64);
    let d = problem.scoring.as_ref().map_or(all, |s| s.most_features(all));
    let read = table.cost(&problem.request)?;
    let storage = if is_single(&problem.request.features) { Storage::F32 } else { Storage::F64 };
    // Of a vector column all elements are decoded, whichever are kept.
    let of_vectors = problem.request.features.columns.iter().any(|c| c.width.is_some());
    let spool = columnwise::needs_spool(table, &problem.request).then_some(storage);
    let labels = problem.labels.read().map(|l| label_work(problem.method, l, n));
    let scored = problem.scoring.as_ref().map(|s| {
        let classes = s.label.read == LabelRead::Classes;
        let vectors = if classes { PLANNED_CLASSES } else { 1 };
        ScoredWork { shape: LabelShape { vectors, classes }, d: all, read }
    });
    Ok(Workload {
        n,
        d,
        components: problem.components,
        nulls: problem.request.nulls,
        precision: problem.request.precision,
        read: if of_vectors { read } else { read.share(d, all) },
        spool,
        threads: problem.threads,
        max_passes: problem.iteration.max_passes,
        labels,
        scored,
        kernel: kernel_work(problem, n, d)?,
        basis: problem.basis.as_ref().map(|b| b.work(problem.components, problem.request.nulls)),
    })
}

/// True when every number of these features is an f32 number.
pub(crate) fn is_single(features: &Features) -> bool {
    let single =
        |t: &str| matches!(t, "Float32" | "Float16" | "Int8" | "Int16" | "UInt8" | "UInt16");
    features.columns.iter().all(|c| single(&c.value))
}

/// What labels are planned to hold: a guess where only the rows know, asked for again when they do.
fn label_work(method: Method, labels: &LabelProblem, n: u64) -> LabelWork {
    let vectors = match &labels.factor {
        LabelFactor::Numbers(map) => map.len() as u64,
        _ if method == Method::Kspca => PLANNED_COLUMNS,
        // No more than there are rows; as many as are factored, or the random features that stand
        // for more.
        LabelFactor::Distinct if n <= EXACT_LABELS as u64 => n,
        LabelFactor::Distinct => (labels.features as u64).max(EXACT_LABELS as u64),
        LabelFactor::Classes { .. } | LabelFactor::OneHot => PLANNED_CLASSES.min(n),
    };
    let classes = match labels.factor {
        LabelFactor::Classes { .. } | LabelFactor::OneHot => true,
        LabelFactor::Distinct => n <= EXACT_LABELS as u64,
        LabelFactor::Numbers(_) => false,
    };
    let again = labels.random_gamma().is_some() && n > EXACT_LABELS as u64;
    let shape = LabelShape { vectors, classes };
    let size = |delta: &Arc<Array2<f64>>| (delta.nrows() as u64, delta.ncols() as u64);
    let given = labels.given.as_ref().map(size);
    LabelWork { shape, again, with_variance: labels.with_variance, given }
}

fn kernel_work(problem: &FitProblem, n: u64, d: u64) -> Result<Option<KernelWork>> {
    let Some(kernel) = &problem.kernel else { return Ok(None) };
    let route = kernel.route(problem.method, problem.form, n, d)?;
    // K_y = I makes kernel supervised PCA kernel PCA.
    let route = match (route, &problem.labels) {
        (KernelRoute::Supervised, LabelUse::Identity(_)) => KernelRoute::Exact,
        _ => route,
    };
    let made_again =
        n as usize <= DENSE_UP_TO || (d as usize) < SPILL_FROM || route != KernelRoute::Exact;
    // Without room for all tiles they are made again; a directory that was asked for and is none
    // is refused later.
    let free = scratch::free_bytes(&problem.temp_dir);
    let room = free.is_none_or(|free| free / 2 > kernel_matrix::spill_bytes(n));
    let spill = !made_again && room;
    let given = kernel.kind.is_given();
    let spill = spill && !given;
    Ok(Some(KernelWork { route, ridge: kernel.options.preimage, spill, given }))
}
