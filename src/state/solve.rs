//! A state → a model: any method its sums allow, on any of its columns, without touching the data.

use super::{REFUSE_FROM_DIGITS, State, StateLabels, WARN_FROM_DIGITS};
use crate::accumulate::Accumulate;
use crate::error::{Error, Place, Result};
use crate::fit::Fit;
use crate::fit::assemble::{FeatureScores, ModelContext};
use crate::fit::bounds;
use crate::fit::check::{Centring, LabelProblem, LabelUse, ScoringProblem, default_label_kernel};
use crate::fit::label_factor::LabelFactor;
use crate::fit::labels::whole_number_notes;
use crate::fit::options::DEFAULT_LABEL_FEATURES;
use crate::listen::Listener;
use crate::model::{Method, Model};
use crate::note::Note;
use crate::solve::Form;
use crate::solve::supervised::LabelKernel;
use crate::source::{LabelRead, LabelRequest, Nulls, matching};

/// A model that a state allows.
pub(crate) struct StateProblem {
    labels: LabelUse,
    scoring: Option<ScoringProblem>,
    /// Positions of the features that take part, ascending; `None` for all.
    features: Option<Vec<usize>>,
}

impl State {
    /// Makes a model: pca or spca with their options, on all columns or some.
    ///
    /// What the state was scanned with (weights, null policy, labels) holds.
    pub fn solve(&self, fit: &Fit, listener: &dyn Listener) -> Result<Model> {
        let problem = self.problem(fit)?;
        let digits = self.lost_digits();
        if digits >= WARN_FROM_DIGITS {
            listener.note(&Note::DigitsLost(digits));
        }
        let dropped = self.about.tally.dropped;
        if dropped > 0 && (problem.features.is_some() || problem.scoring.is_some()) {
            listener.note(&Note::DroppedForOthers(dropped));
        }
        self.tell_ignored(fit, listener);
        let variance = fit.reads_labels() && fit.labels.with_variance;
        if variance && !self.sums[0].has_covariance() {
            listener.note(&Note::NoCovariance);
        }
        let fitted = problem.labels.read();
        let scored = problem.scoring.as_ref().is_some_and(|s| s.label.read == LabelRead::Numbers);
        let notes = self.label_notes(|j| scored || fitted.is_some_and(|l| l.is_number(j)));
        notes.iter().for_each(|note| listener.note(note));
        self.model(fit, problem, listener)
    }

    /// What should be known of its labels, where they are taken as numbers.
    pub(crate) fn label_notes(&self, is_number: impl Fn(usize) -> bool) -> Vec<Note> {
        let Some(labels) = &self.about.labels else { return Vec::new() };
        whole_number_notes(&labels.columns, is_number, &self.about.tally, true)
    }

    /// Weights and policies are what the state was scanned with.
    fn tell_ignored(&self, fit: &Fit, listener: &dyn Listener) {
        let about = &self.about;
        let ignored = [
            ("weight", fit.weight.is_some() && fit.weight != about.weight),
            ("nulls", fit.nulls != Nulls::default() && fit.nulls != about.nulls),
        ];
        for (option, _) in ignored.into_iter().filter(|(_, ignored)| *ignored) {
            let sentence =
                format!("⟦{option}⟧ has no effect here: the state was scanned with another");
            listener.note(&Note::NoEffect { option, sentence });
        }
    }

    fn model(&self, fit: &Fit, problem: StateProblem, listener: &dyn Listener) -> Result<Model> {
        let mut sums = self.whole().finish();
        let mut tally = self.about.tally.clone();
        let mut context = self.context(fit, problem.labels, listener);
        if let Some(kept) = &problem.features {
            sums = sums.select_features(kept);
            tally = tally.select_features(kept);
            context.features = context.features.only(kept);
        }
        let mut scored: Option<FeatureScores> = None;
        if let (Some(scoring), Some(of_labels)) = (&problem.scoring, &sums.labels) {
            let (kept, scores) = context.select_features(of_labels, scoring)?;
            sums = sums.select_features(&kept);
            tally = tally.select_features(&kept);
            context.features = context.features.only(&kept);
            scored = Some(scores);
        }
        let parts = match context.labels.read().cloned() {
            Some(labels) => context.supervise(&labels, sums, tally, false)?,
            None => {
                let covariance = sums.covariance.ok_or_else(no_covariance)?;
                context.decompose(covariance, tally)?
            }
        };
        context.model(parts, scored)
    }

    pub(super) fn context<'a>(
        &self,
        fit: &Fit,
        labels: LabelUse,
        listener: &'a dyn Listener,
    ) -> ModelContext<'a> {
        let about = &self.about;
        let place = match &about.ledger[..] {
            [one] => Place::file(&one.path),
            [] => Place::file("state"),
            files => Place::file(format!("state of {} files", files.len())),
        };
        ModelContext {
            method: fit.method,
            form: fit.form,
            components: fit.components,
            centring: Centring::of(fit),
            labels,
            features: about.columns.clone(),
            weight: about.weight.clone(),
            nulls: about.nulls,
            precision: about.precision,
            seed: fit.seed,
            inputs: about.ledger.clone(),
            lost_digits: (about.cancellation > 1.0).then(|| self.lost_digits()),
            place,
            listener,
        }
    }

    /// Refuses a model that cannot be made of this state.
    pub fn check_fit(&self, fit: &Fit) -> Result<()> {
        self.problem(fit).map(|_| ())
    }

    fn problem(&self, fit: &Fit) -> Result<StateProblem> {
        self.check_whole()?;
        bounds::check(fit)?;
        let digits = self.lost_digits();
        if digits >= REFUSE_FROM_DIGITS {
            return Error::misuse(format!(
                "subtractions have cost this state about {digits:.0} of 16 digits, and nothing can \
                 be made of what is left; scan again"
            ));
        }
        if fit.basis.is_some() {
            return Error::misuse(
                "a fit along a ⟦basis⟧ reads rows, and a state has none; use fit",
            );
        }
        if fit.method.is_kernel() {
            return Error::misuse(
                "kernel methods compare rows, which a state does not have; use fit",
            );
        }
        let allowed: &[Form] = match fit.method {
            Method::Spca => &[Form::Primal, Form::Dual],
            _ => &[Form::Primal],
        };
        if let Some(form) = fit.form.filter(|f| !allowed.contains(f)) {
            return Error::misuse(format!(
                "⟦form={form}⟧ needs the rows, or is of another method; a state has the covariance \
                 and the labels' sums"
            ));
        }
        let labels = self.label_use(fit)?;
        if !matches!(labels, LabelUse::Read(_)) && !self.sums[0].has_covariance() {
            return Err(no_covariance());
        }
        let scoring = self.scoring(fit)?;
        let features = matching(&self.about.columns, &fit.columns.include, &fit.columns.exclude)?;
        Ok(StateProblem { labels, scoring, features })
    }

    pub(super) fn label_use(&self, fit: &Fit) -> Result<LabelUse> {
        if fit.is_identity() {
            let known = self.about.labels.as_ref().map(|l| l.columns.clone());
            let named = &fit.labels.columns;
            let columns = if named.is_empty() { known.unwrap_or_default() } else { named.clone() };
            return Ok(LabelUse::Identity(columns));
        }
        if !fit.method.is_supervised() {
            return Ok(LabelUse::None);
        }
        let Some(labels) = &self.about.labels else {
            return Error::misuse("this state has no labels; scan with ⟦label⟧");
        };
        labels.problem(fit).map(LabelUse::Read)
    }

    fn scoring(&self, fit: &Fit) -> Result<Option<ScoringProblem>> {
        let Some(options) = &fit.scoring else { return Ok(None) };
        let Some(labels) = &self.about.labels else {
            return Error::misuse("this state has no labels to score by; scan with ⟦label⟧");
        };
        if labels.columns.len() > 1 {
            return Error::misuse(
                "features are scored against one label column; scan with one ⟦label⟧",
            );
        }
        if labels.columns != [options.by.clone()] {
            let (by, has) = (&options.by, labels.columns.join(", "));
            return Error::misuse(format!(
                "⟦score-by={by}⟧: this state was scanned with label {has}, and has no sums of \
                 others"
            ));
        }
        let label = LabelRequest { columns: labels.columns.clone(), read: labels.read() };
        ScoringProblem::new(fit, options, label).map(Some)
    }
}

fn no_covariance() -> Error {
    Error::Misuse("this state has no covariance; scan with ⟦for=pca⟧".into())
}

impl StateLabels {
    /// What these labels are to a fit.
    fn problem(&self, fit: &Fit) -> Result<LabelProblem> {
        self.check_named(&fit.labels.columns)?;
        let read = self.read();
        let kernel = match (fit.labels.kernel, read) {
            (None, read) => default_label_kernel(read),
            (Some(LabelKernel::Delta), LabelRead::Numbers) => {
                return Error::misuse(
                    "this state has its labels as numbers; scan with ⟦classes⟧ for \
                     ⟦label-kernel=delta⟧",
                );
            }
            (Some(kernel), _) if kernel.needs_rows() => {
                return Error::misuse(format!(
                    "the {kernel} kernel over labels needs the rows; use fit"
                ));
            }
            (Some(kernel), _) => kernel,
        };
        Ok(LabelProblem {
            request: LabelRequest { columns: self.columns.clone(), read },
            kernel,
            function: None,
            factor: LabelFactor::new(kernel, None, read, self.columns.len(), None)?,
            numeric: self.numeric.clone(),
            features: fit.labels.features.unwrap_or(DEFAULT_LABEL_FEATURES),
            with_variance: fit.labels.with_variance,
            given: None,
        })
    }
}
