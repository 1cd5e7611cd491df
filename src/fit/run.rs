//! A plan, run: the passes of its form → a [`Model`].
//!
//! | form | passes |
//! |---|---|
//! | primal | one that adds up S (two where many features take their means: those first) |
//! | spca | one that adds up the labels' sums |
//! | dual | [a copy cut by features], one that adds up G, one that maps its eigenvectors to features |
//! | randomized | one per product of block Krylov |
//! | basis | one along the directions (two where deviations or means must be known first) |
//! | kernel | one that takes all rows into memory; with landmarks or random features two that stream |
//!
//! A fit that scores features reads them all once, and then, unless that pass has given all that is
//! needed, those kept.

use super::assemble::{Decomposition, FeatureScores, ModelContext, tally_notes};
use super::check::{LabelProblem, LabelUse, ScoringProblem};
use super::label_factor::LabelFactor;
use super::labels::{EXACT_LABELS, whole_number_notes};
use super::plan::Plan;
use crate::accumulate::{ClassLimit, LabelSumsKind, Moments};
use crate::budget::{Bytes, release_freed_memory};
use crate::error::{Error, Result};
use crate::listen::{Listener, Stage, Watch};
use crate::model::{InputEntry, Model};
use crate::note::Note;
use crate::pass;
use crate::product::Passes;
use crate::solve::Form;
use crate::source::{LabelRead, LabelRequest, Precision, ReadRequest, Source, Tally};
use crate::workers::Crew;
use std::borrow::Cow;

/// A fit under way.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan<'a>,
    /// Worker threads.
    pub(super) threads: usize,
    pub(super) listener: &'a dyn Listener,
    /// Who makes the passes, where it is not this process.
    pub(super) passes: Option<&'a dyn Passes>,
}

impl Plan<'_> {
    /// Runs the fit.
    pub fn run(&self, listener: &dyn Listener) -> Result<Model> {
        self.run_with(None, listener)
    }

    /// The same, the passes over the rows made by another: of PCA in the randomized form.
    pub fn run_by(&self, passes: &dyn Passes, listener: &dyn Listener) -> Result<Model> {
        if self.taken().form != Form::Randomized || self.problem.scoring.is_some() {
            return Error::misuse(
                "passes that others make are those of pca with ⟦form=randomized⟧, without scores",
            );
        }
        self.run_with(Some(passes), listener)
    }

    fn run_with(&self, passes: Option<&dyn Passes>, listener: &dyn Listener) -> Result<Model> {
        self.check()?;
        if self.table.rows() == 0 {
            return Err(Error::data(self.table.place(), "there are no rows to fit"));
        }
        // What metadata took while it was looked at.
        release_freed_memory();
        let model = self.fitted(passes, listener)?;
        // What the fit took, before the model becomes a file.
        release_freed_memory();
        Ok(model)
    }

    fn fitted(&self, passes: Option<&dyn Passes>, listener: &dyn Listener) -> Result<Model> {
        let Some(scoring) = &self.problem.scoring else {
            return Run { passes, ..Run::new(self, listener) }.model(None);
        };
        let scored = Run::new(self, listener).score(scoring)?;
        let plan = self.of_kept(&scored.kept)?;
        plan.check()?;
        let run = Run::new(&plan, listener);
        match scored.decomposition {
            Some(parts) => run.finished(parts, Some(scored.scores)),
            None => run.model(Some(scored.scores)),
        }
    }
}

/// What a pass that scores has given.
struct ScoringPass {
    kept: Vec<usize>,
    scores: FeatureScores,
    /// The fit of the kept features, where the same pass gave it.
    decomposition: Option<Decomposition>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan<'a>, listener: &'a dyn Listener) -> Run<'a> {
        Run { plan, threads: plan.threads(), listener, passes: None }
    }
}

impl Run<'_> {
    fn model(&self, scores: Option<FeatureScores>) -> Result<Model> {
        let parts = self.decomposition().map_err(|e| e.about(&self.plan.table.place()))?;
        self.finished(parts, scores)
    }

    fn finished(&self, parts: Decomposition, scores: Option<FeatureScores>) -> Result<Model> {
        let request = &self.plan.problem.request;
        let mut notes = tally_notes(&request.features, request.nulls, &parts.tally);
        if let Some(labels) = self.plan.problem.labels.read() {
            let (columns, is_number) = (&labels.request.columns, |j| labels.is_number(j));
            notes.extend(whole_number_notes(columns, is_number, &parts.tally, false));
        }
        notes.iter().for_each(|note| self.listener.note(note));
        let mut model = self.context().model(parts, scores)?;
        if let Some(basis) = &self.plan.problem.basis {
            model.header.basis = Some(basis.report().clone());
            // They choose by size among eigenvalues, and these are none.
            model.header.selection.rules.clear();
        }
        Ok(model)
    }

    fn decomposition(&self) -> Result<Decomposition> {
        if let Some(basis) = &self.plan.problem.basis {
            return self.along(basis);
        }
        if let Some(kernel) = self.plan.work.route() {
            return self.kernel(kernel.route);
        }
        if let LabelUse::Read(labels) = &self.plan.problem.labels {
            return self.supervised(labels);
        }
        let mut parts = match self.plan.taken().form {
            Form::Dual => self.dual(),
            Form::Randomized => self.randomized(),
            _ => self.primal(),
        }?;
        parts.kernel = self.linear_kernel();
        Ok(parts)
    }

    /// What a model of this fit is told.
    pub(super) fn context(&self) -> ModelContext<'_> {
        let problem = &self.plan.problem;
        ModelContext {
            method: problem.method,
            form: problem.form,
            components: problem.components,
            centring: problem.centring,
            labels: problem.labels.clone(),
            features: problem.request.features.clone(),
            weight: problem.request.weight.clone(),
            nulls: problem.request.nulls,
            precision: problem.request.precision,
            seed: problem.seed,
            inputs: InputEntry::of(self.plan.table),
            lost_digits: None,
            place: self.plan.table.place(),
            listener: self.listener,
        }
    }

    pub(super) fn check(&self, moments: &Moments, tally: &Tally) -> Result<()> {
        self.context().check(moments, tally)
    }

    /// Something is wrong with the data as a whole.
    pub(super) fn refusal(&self, problem: impl Into<String>) -> Error {
        Error::data(self.plan.table.place(), problem)
    }

    pub(super) fn source(&self) -> Result<Box<dyn Source + '_>> {
        self.plan.read(&self.plan.problem.request)
    }

    pub(super) fn crew(&self) -> Crew {
        Crew { threads: self.threads, queue: 1 }
    }

    /// A pass over all rows.
    pub(super) fn watch_rows(
        &self,
        work: impl Into<Cow<'static, str>>,
        source: &dyn Source,
    ) -> Watch<'_> {
        self.watch(pass::stage(work, "rows", source, 0))
    }

    /// Work that may take a while.
    pub(super) fn watch(&self, stage: Stage) -> Watch<'_> {
        Watch::new(self.listener, stage)
    }

    /// The scores, and the fit too where one pass gives both.
    fn score(&self, scoring: &ScoringProblem) -> Result<ScoringPass> {
        let (plan, problem) = (self.plan, &self.plan.problem);
        let request = ReadRequest {
            labels: Some(scoring.label.clone()),
            precision: Precision::Exact,
            ..problem.request.clone()
        };
        // Where the label to score by is the label of spca, its sums are what spca needs.
        let same = problem
            .labels
            .read()
            .filter(|l| l.request == scoring.label && l.factor.is_plain() && !l.with_variance);
        let same = same.filter(|_| problem.kernel.is_none());
        let kind = request_sums(plan, &scoring.label);
        let (sums, tally) = self.sums(&request, plan.scores_with_covariance, Some(kind))?;
        let context = self.context();
        let Some(of_labels) = &sums.labels else {
            return Err(Error::Internal("a pass that scores has summed no label".into()));
        };
        context.check(of_labels.moments(), &tally)?;
        if tally.unlabelled > 0 {
            self.listener.note(&Note::UnlabelledInScoring(tally.unlabelled));
        }
        self.tell_whole_numbers(&scoring.label, &tally);
        let (kept, scores) = context.select_features(of_labels, scoring)?;
        let part = ModelContext { features: context.features.only(&kept), ..context };
        let narrow = tally.select_features(&kept);
        let decomposition = match same {
            // Rows that were dropped for features that are not kept belong to the fit.
            _ if tally.dropped > 0 => None,
            Some(labels) => {
                let sums = sums.select_features(&kept);
                Some(part.supervise(labels, sums, narrow, false)?)
            }
            None => match sums.select_features(&kept).covariance {
                Some(covariance) => Some(part.decompose(covariance, narrow)?),
                None => None,
            },
        };
        Ok(ScoringPass { kept, scores, decomposition })
    }

    /// Of the label that is scored by, unless the fit tells it of the same one.
    fn tell_whole_numbers(&self, scored: &LabelRequest, tally: &Tally) {
        let fitted = self.plan.problem.labels.read();
        let told = |name: &String| {
            let at = fitted.and_then(|l| l.request.columns.iter().position(|c| c == name));
            at.zip(fitted).is_some_and(|(j, labels)| labels.is_number(j))
        };
        let numbers = scored.read == LabelRead::Numbers;
        let is_number = |j: usize| numbers && !told(&scored.columns[j]);
        let notes = whole_number_notes(&scored.columns, is_number, tally, false);
        notes.iter().for_each(|note| self.listener.note(note));
    }
}

/// Which sums are made of these labels, in the memory of a plan.
pub(crate) fn label_sums(plan: &Plan<'_>, labels: &LabelProblem) -> LabelSumsKind {
    match &labels.factor {
        LabelFactor::Numbers(map) => LabelSumsKind::Numbers(map.clone()),
        LabelFactor::Distinct => {
            LabelSumsKind::Classes(class_limit(plan, labels.name(), EXACT_LABELS))
        }
        LabelFactor::Classes { .. } | LabelFactor::OneHot => request_sums(plan, &labels.request),
    }
}

/// Which sums are made of labels as they are read.
fn request_sums(plan: &Plan<'_>, labels: &LabelRequest) -> LabelSumsKind {
    match labels.read {
        LabelRead::Numbers | LabelRead::UnitNumbers => LabelSumsKind::linear(labels.columns.len()),
        LabelRead::Classes => {
            LabelSumsKind::Classes(class_limit(plan, labels.columns.join(", "), usize::MAX))
        }
    }
}

/// How many classes a label may have in the memory of a plan, and what to say if there are more.
fn class_limit(plan: &Plan<'_>, label: String, most: usize) -> ClassLimit {
    let thousand = Bytes(plan.class_bytes().saturating_mul(1_000));
    let hint = format!(
        "a label that names each row is an id; choose another, allow more ⟦memory⟧ ({thousand} for \
         1,000 classes), or for numbers use ⟦label-kernel=linear⟧"
    );
    ClassLimit { classes: plan.most_classes.max(2).min(most), label, hint }
}
