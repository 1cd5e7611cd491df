//! Tables → states, in one pass that can stop and go on.
//!
//! Rows are added as a fit adds them ([`SumsPass`]), unit by unit in file order, so a state gives
//! the bytes of a fit. Holds what the plan of that fit holds; with folds the sums once per fold.

use super::checkpoint::{Checkpoint, Saver, resumable};
use super::{About, Group, State, StateLabels};
use crate::accumulate::{ClassLimit, LabelSumsKind, Sums, SumsKind};
use crate::budget::{PROGRAM_BYTES, release_freed_memory};
use crate::error::{Error, Result};
use crate::fit::assemble::tally_notes;
use crate::fit::cost::fold_bytes;
use crate::fit::folds::{Folds, MOST_FOLDS};
use crate::fit::no_effect::{self, Unused};
use crate::fit::run::label_sums;
use crate::fit::sums_pass::SumsPass;
use crate::fit::{ColumnOptions, Fit, LabelOptions, Plan, Resources};
use crate::listen::Listener;
use crate::model::{InputEntry, Method, no_twins};
use crate::note::Note;
use crate::solve::Form;
use crate::source::UnitSubset;
use crate::source::{ArrowTable, LabelRead, Nulls, Precision, Shard, Source, Table, Tally};
use crate::source::{block_rows, named_column};
use crate::staged::kept;
use crate::words::megabytes;
use arrow_schema::SchemaRef;

/// A scan: which rows and columns are added up, and what is kept of them.
///
/// ```
/// use eigenstream::{ArrowTable, Fit, Quiet, Scan};
///
/// let rows = ndarray::Array2::from_shape_fn((50, 3), |(i, j)| ((i * 5 + j * 3) % 13) as f64);
/// let table = ArrowTable::from(rows);
/// let state = Scan::new().plan(&table)?.run(&Quiet)?;
/// let model = state.solve(&Fit::pca(), &Quiet)?;
/// let fitted = Fit::pca().plan(&table)?.run(&Quiet)?;
/// assert_eq!(model.to_bytes()?, fitted.to_bytes()?);
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    /// Which columns are features.
    pub columns: ColumnOptions,
    /// The label columns.
    pub labels: Vec<String>,
    /// Numbers are classes: equal or not.
    pub classes: bool,
    /// The column of frequency weights.
    pub weight: Option<String>,
    /// What to do about missing values.
    pub nulls: Nulls,
    /// Arithmetic of the sums: exact, or full.
    pub precision: Precision,
    /// What is kept.
    pub keep: Statistics,
    /// Shares rows out to so many folds, for cross-validation; `None` for none.
    pub folds: Option<usize>,
    /// Seed of the folds.
    pub seed: u64,
    /// One state per value of this column.
    pub by: Option<String>,
    /// Only these rows of the files: see [`Shard`].
    pub shard: Option<Shard>,
    /// Ceilings.
    pub resources: Resources,
}

/// What a state keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statistics {
    /// Everything one pass can give: S, and what there is to keep of labels.
    #[default]
    All,
    /// S, for PCA.
    Covariance,
    /// The sums of labels, for supervised PCA and scores.
    Labels,
    /// Both.
    CovarianceAndLabels,
}

impl Statistics {
    fn covariance(self) -> bool {
        self != Statistics::Labels
    }

    fn labels(self) -> bool {
        self != Statistics::Covariance
    }
}

impl Scan {
    /// All numeric columns, everything kept.
    pub fn new() -> Scan {
        Scan::default()
    }

    /// What a fit reads of its rows, with `keep` of its sums. What it scores features by is a
    /// label.
    pub fn of_fit(fit: &Fit, keep: Statistics) -> Scan {
        let scored_by = fit.scoring.iter().map(|s| s.by.clone());
        let labels = match fit.labels.columns.is_empty() {
            true => scored_by.collect(),
            false => fit.labels.columns.clone(),
        };
        Scan {
            columns: fit.columns.clone(),
            labels,
            classes: fit.labels.classes,
            weight: fit.weight.clone(),
            nulls: fit.nulls,
            precision: fit.precision,
            keep,
            folds: None,
            seed: fit.seed,
            by: None,
            shard: None,
            resources: fit.resources.clone(),
        }
    }

    /// The least that this fit can be made of: what its own pass would add up.
    pub fn for_fit(fit: &Fit) -> Scan {
        let labels = fit.reads_labels() || fit.scoring.is_some();
        let covariance = !fit.reads_labels() || fit.labels.with_variance;
        let keep = match (covariance, labels) {
            (_, false) => Statistics::Covariance,
            (false, true) => Statistics::Labels,
            (true, true) => Statistics::CovarianceAndLabels,
        };
        let mut scan = Scan::of_fit(fit, keep);
        if !labels {
            // They are named in the model, and no feature; nothing else.
            scan.columns.exclude.extend(scan.labels.drain(..).map(|n| glob::Pattern::escape(&n)));
        }
        scan
    }

    /// The label columns.
    pub fn labels<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Scan {
        Scan { labels: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The column of frequency weights.
    pub fn weight(self, column: impl Into<String>) -> Scan {
        Scan { weight: Some(column.into()), ..self }
    }

    /// What to do about missing values.
    pub fn nulls(self, nulls: Nulls) -> Scan {
        Scan { nulls, ..self }
    }

    /// Shares rows out to folds.
    pub fn folds(self, folds: usize) -> Scan {
        Scan { folds: Some(folds), ..self }
    }

    /// The fit whose pass it is.
    fn fit(&self) -> Fit {
        let labelled = !self.labels.is_empty() && self.keep.labels();
        let mut columns = self.columns.clone();
        columns.exclude.extend(self.by.iter().map(|name| glob::Pattern::escape(name)));
        let labels = LabelOptions {
            columns: self.labels.clone(),
            classes: self.classes,
            with_variance: self.keep.covariance(),
            ..LabelOptions::default()
        };
        Fit {
            method: if labelled { Method::Spca } else { Method::Pca },
            form: (!labelled).then_some(Form::Primal),
            columns,
            labels,
            weight: self.weight.clone(),
            nulls: self.nulls,
            precision: self.precision,
            seed: self.seed,
            resources: self.resources.clone(),
            allow_duplicates: true,
            ..Fit::default()
        }
    }

    /// Checks the scan against a table; no row is read.
    pub fn plan<'t>(&self, table: &'t dyn Table) -> Result<ScanPlan<'t>> {
        let by = self.by.as_ref().map(|by| named_column(table, "by", by)).transpose()?;
        Scan { by, ..self.clone() }.plan_named(table)
    }

    /// The same, the column that groups known by its name.
    fn plan_named<'t>(&self, table: &'t dyn Table) -> Result<ScanPlan<'t>> {
        self.check()?;
        let folds = match self.folds {
            None => None,
            Some(_) if self.by.is_some() => {
                return Error::misuse("⟦folds⟧ and ⟦by⟧ do not go together; leave one out");
            }
            Some(n) if (2..=MOST_FOLDS).contains(&n) => Some(Folds::of(table, n, self.seed)),
            Some(n) => {
                return Error::misuse(format!("⟦folds⟧ is 2 to {MOST_FOLDS}, not {n}"));
            }
        };
        if self.shard.is_some() && self.by.is_some() {
            return Error::misuse("⟦shard⟧ and ⟦by⟧ do not go together; leave one out");
        }
        if self.shard.is_some() && table.inputs().is_empty() {
            return Error::misuse("⟦shard⟧ is for files; rows in memory are one process's");
        }
        // A state counts nothing twice, whatever a fit may.
        no_twins(&InputEntry::of(table), "a state counts nothing twice, leave one out")?;
        let plan = self.fit().plan(table)?;
        let kind = sums_kind(&plan, self.keep.covariance());
        if kind.needs_means() && kind.is_factor() {
            return Error::misuse(
                "⟦nulls=mean⟧ with ⟦precision=full⟧ takes two passes, and a scan is one; choose \
                 ⟦nulls=drop⟧, or fit without a state",
            );
        }
        if kind.needs_means() {
            let d = kind.features;
            return Error::misuse(format!(
                "⟦nulls=mean⟧ of {d} features takes two passes, and a scan is one; choose \
                 ⟦nulls=drop⟧, or fewer than {} features",
                crate::accumulate::SHARED_FROM
            ));
        }
        let labels = plan.problem.labels.read().map(|l| StateLabels {
            columns: l.request.columns.clone(),
            classes: l.request.read == LabelRead::Classes,
            numeric: l.numeric.clone(),
        });
        let label_lost = !self.labels.is_empty() && labels.is_none();
        let (by, shard) = (self.by.clone(), self.shard);
        Ok(ScanPlan { plan, kind, labels, folds, seed: self.seed, label_lost, by, shard })
    }

    /// Refuses options that do not go together.
    fn check(&self) -> Result<()> {
        let named = matches!(self.keep, Statistics::Labels | Statistics::CovarianceAndLabels);
        match self.precision {
            _ if named && self.labels.is_empty() => {
                Error::misuse("⟦for=spca⟧ and scored need labels; name their column with ⟦label⟧")
            }
            Precision::Mixed => Error::misuse(
                "⟦precision=mixed⟧ does not go with states, which are exact or full; leave it out",
            ),
            Precision::Full if !self.keep.covariance() => Error::misuse(
                "⟦precision=full⟧ keeps a factor of the covariance; leave it out, or scan with \
                 ⟦for=pca,spca⟧",
            ),
            _ => Ok(()),
        }
    }

    /// A state of no rows yet, for batches of this schema that another engine holds: see
    /// [`State::update`].
    pub fn empty(&self, schema: SchemaRef) -> Result<State> {
        let table = ArrowTable::empty(schema);
        let plan = self.plan(&table)?;
        Ok(State::new(plan.about(), plan.fresh()))
    }
}

/// Which sums a scan makes of the labels its plan reads.
fn sums_kind(plan: &Plan<'_>, covariance: bool) -> SumsKind {
    let labels = plan.problem.labels.read();
    let labels = labels.map(|labels| label_sums(plan, labels));
    SumsKind {
        features: plan.features().len(),
        covariance,
        precision: plan.problem.request.precision,
        nulls: plan.problem.request.nulls,
        labels,
        threads: plan.threads(),
        around: None,
    }
}

/// A scan that is known to be possible.
pub struct ScanPlan<'t> {
    plan: Plan<'t>,
    pub(super) kind: SumsKind,
    pub(super) labels: Option<StateLabels>,
    folds: Option<Folds>,
    seed: u64,
    label_lost: bool,
    pub(super) by: Option<String>,
    shard: Option<Shard>,
}

impl<'t> ScanPlan<'t> {
    /// The fit whose pass it is.
    pub fn plan(&self) -> &Plan<'t> {
        &self.plan
    }

    /// The column that rows are grouped by.
    pub fn grouped_by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Refuses a model that the state of this scan would not give.
    pub fn check_fit(&self, fit: &Fit) -> Result<()> {
        State::new(self.about(), self.fresh()).check_fit(fit)
    }

    /// What should be known before it runs.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = no_effect::columns(&self.plan);
        notes.extend(self.label_lost.then_some(Note::LabelNotKept));
        notes.extend(self.plan.problem.labels.read().and_then(no_effect::mixed_labels));
        let of_labels = self.plan.problem.labels.read().is_some();
        let classes = self.plan.unused.iter().filter(|u| u.option == "classes" && of_labels);
        notes.extend(classes.filter(|u| u.given).map(Unused::note));
        notes
    }

    fn n_folds(&self) -> usize {
        self.folds.as_ref().map_or(1, |f| f.count)
    }

    /// Refuses what the budget cannot hold.
    pub fn check(&self) -> Result<()> {
        let (taken, budget) = (self.plan.taken(), self.plan.budget());
        let each = fold_bytes(self.kind.features as u64);
        let more = (self.n_folds() as u64 - 1).saturating_mul(each);
        let peak = taken.memory.peak_bytes().saturating_add(more).max(self.storing_bytes());
        if peak <= budget.bytes.0 {
            return self.plan.check();
        }
        if more == 0 {
            // There is one way to add up sums, so no other form is advised.
            return taken.memory.check(&budget, || {
                format!("allow ⟦memory={}⟧{}", megabytes(peak), self.plan.fewer_features())
            });
        }
        // With this much all threads are taken, and that is the most it asks for.
        let all = self.plan.work.memory(taken.form, self.plan.work.threads).peak_bytes();
        let all = megabytes(all.saturating_add(more));
        Err(Error::Budget {
            what: format!("a scan into {} folds", self.n_folds()),
            needs: peak,
            budget: budget.bytes.0,
            hint: format!("allow ⟦memory={all}⟧, or take fewer ⟦folds⟧"),
        })
    }

    /// What S of a state holds while it becomes a file: its upper half as bytes and as the file's,
    /// rows that wait to be multiplied as all three.
    fn storing_bytes(&self) -> u64 {
        let kind = SumsKind { labels: None, ..self.kind.clone() };
        let (rows, held) = (block_rows(kind.features) as u64, kind.bytes(0));
        let waiting = if kind.is_shared() { kind.bytes(rows) - held } else { 0 };
        let each = held.saturating_mul(2).saturating_add(waiting.saturating_mul(3));
        PROGRAM_BYTES.saturating_add(each.saturating_mul(self.n_folds() as u64))
    }

    /// What the state is of, before a row is read.
    pub(super) fn about(&self) -> About {
        let request = &self.plan.problem.request;
        About {
            columns: request.features.clone(),
            labels: self.labels.clone(),
            nulls: request.nulls,
            weight: request.weight.clone(),
            precision: request.precision,
            tally: Default::default(),
            ledger: Vec::new(),
            cancellation: 1.0,
            group: None::<Group>,
            fold_seed: self.folds.is_some().then_some(self.seed),
            shard: self.shard.filter(|shard| shard.of > 1),
            progress: None,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    pub(super) fn fresh(&self) -> Vec<Sums> {
        (0..self.n_folds()).map(|_| Sums::new(&self.kind)).collect()
    }

    /// Adds up all rows.
    pub fn run(&self, listener: &dyn Listener) -> Result<State> {
        self.run_onto(None, None, listener)
    }

    /// Adds all rows to those of a state if one is given; from a checkpoint on if there is one.
    pub fn run_onto(
        &self,
        onto: Option<State>,
        checkpoint: Option<&Checkpoint>,
        listener: &dyn Listener,
    ) -> Result<State> {
        self.check()?;
        if onto.is_some() && self.shard.is_some() {
            return Error::misuse("a shard is scanned by itself, and merged");
        }
        if self.by.is_some() {
            return Error::misuse("there are groups by ⟦by⟧: a scan of them gives many states");
        }
        if checkpoint.is_some() && self.plan.table.inputs().is_empty() {
            return Error::misuse(
                "⟦checkpoint⟧ is for files, which are known again; rows in memory are not",
            );
        }
        let entries = InputEntry::of(self.plan.table);
        let mut start = match onto {
            None => State::new(self.about(), self.fresh()),
            Some(state) => State::new(self.about(), self.fresh()).aligned(state)?,
        };
        start.admit(&entries)?;
        start.tell_others(&entries, listener);
        start.about.ledger.extend(entries);
        let all = self.plan.table.read(&self.plan.problem.request)?;
        let source = UnitSubset::of_shard(&*all, self.shard);
        let of = source.units().len();
        let mut from = 0;
        if let Some(path) = checkpoint.map(|c| &c.path).filter(|p| p.exists()) {
            let state = State::load(path)?;
            from = resumable(&state, &start, of, path)?;
            listener.note(&Note::Resumed { units: from, of });
            kept().checkpoint(path, from, of);
            start = state;
            start.about.progress = None;
        }
        let pass = SumsPass {
            source: &source,
            kind: &self.kind,
            folds: self.folds.as_ref(),
            threads: self.plan.threads(),
            work: "reading",
            listener,
        };
        self.add(start, &pass, from, Saver::new(checkpoint, of), listener)
    }

    /// One pass from a unit on, merged in unit order.
    fn add(
        &self,
        start: State,
        pass: &SumsPass<'_>,
        from: usize,
        mut saver: Saver<'_>,
        listener: &dyn Listener,
    ) -> Result<State> {
        let State { mut about, mut sums } = start;
        if let Some(limit) = self.class_limit() {
            sums = sums.into_iter().map(|s| s.limited(limit)).collect();
        }
        let before: Tally = about.tally.clone();
        let (sums, seen) =
            pass.run(sums, from, &mut |progress| saver.save_if_due(&about, &before, &progress))?;
        let request = &self.plan.problem.request;
        let notes = tally_notes(&request.features, request.nulls, &seen);
        notes.iter().for_each(|note| listener.note(note));
        about.tally.add(seen);
        release_freed_memory();
        Ok(State::new(about, sums))
    }

    fn class_limit(&self) -> Option<&ClassLimit> {
        match &self.kind.labels {
            Some(LabelSumsKind::Classes(limit)) => Some(limit),
            _ => None,
        }
    }
}
