//! The passes of PCA's primal form and of supervised PCA: a plan → sums → components.

use super::assemble::Decomposition;
use super::check::LabelProblem;
use super::label_factor::LabelFactor;
use super::labels::EXACT_LABELS;
use super::run::{Run, label_sums};
use super::sums_pass::{SumsPass, feature_moments};
use crate::accumulate::{Accumulate, CoMoment, LabelMap, LabelSumsKind, SecondMoment};
use crate::accumulate::{SumsKind, SumsResult};
use crate::budget::release_freed_memory;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::model::{KernelParts, KernelReport};
use crate::note::Note;
use crate::source::{LabelRead, Nulls, Precision, ReadRequest, Source, Tally};
use std::sync::Arc;

impl Run<'_> {
    /// Adds up what is asked for, in one pass; in two where the means must be known first.
    pub(super) fn sums(
        &self,
        request: &ReadRequest,
        covariance: bool,
        labels: Option<LabelSumsKind>,
    ) -> Result<(SumsResult, Tally)> {
        let source = self.plan.read(request)?;
        let (features, nulls, threads) = (request.features.len(), request.nulls, self.threads);
        let precision = request.precision;
        let mut kind =
            SumsKind { features, covariance, precision, nulls, labels, threads, around: None };
        if kind.needs_means() {
            let (moments, tally) = feature_moments(&*source, threads, self.listener)?;
            self.check(&moments, &tally)?;
            kind.around = Some(moments);
        }
        self.sums_of(&*source, &kind)
    }

    fn sums_of(&self, source: &dyn Source, kind: &SumsKind) -> Result<(SumsResult, Tally)> {
        let pass = SumsPass {
            source,
            kind,
            folds: None,
            threads: self.threads,
            work: "reading",
            listener: self.listener,
        };
        let (sums, tally) = pass.whole()?;
        let finished = sums.finish();
        release_freed_memory();
        Ok((finished, tally))
    }

    /// S of a source whose cells are all there.
    pub(super) fn covariance(&self, source: &dyn Source) -> Result<CoMoment> {
        let kind = SumsKind {
            features: source.n_features(),
            covariance: true,
            precision: Precision::Exact,
            nulls: Nulls::Error,
            labels: None,
            threads: self.threads,
            around: None,
        };
        covariance_of(self.sums_of(source, &kind)?.0).map(SecondMoment::into_product)
    }

    pub(super) fn primal(&self) -> Result<Decomposition> {
        let (sums, tally) = self.sums(&self.plan.problem.request, true, None)?;
        self.context().decompose(covariance_of(sums)?, tally)
    }

    pub(super) fn supervised(&self, labels: &LabelProblem) -> Result<Decomposition> {
        let request = &self.plan.problem.request;
        let covariance = labels.with_variance;
        let kind = label_sums(self.plan, labels);
        match (self.sums(request, covariance, Some(kind)), labels.random_gamma()) {
            (Err(Error::TooManyClasses { .. }), Some(gamma)) => self.random_labels(labels, gamma),
            (Err(Error::TooManyClasses { classes, .. }), None)
                if labels.factor == LabelFactor::Distinct && classes >= EXACT_LABELS =>
            {
                Err(self.refusal(labels.too_many_distinct()))
            }
            (sums, _) => {
                let (sums, tally) = sums?;
                self.context().supervise(labels, sums, tally, labels.factor.is_random())
            }
        }
    }

    /// More distinct labels than are factored: random Fourier features stand for the rbf kernel.
    fn random_labels(&self, labels: &LabelProblem, gamma: f64) -> Result<Decomposition> {
        let features = labels.features;
        self.listener.note(&Note::LabelFeatures {
            exact: Some(EXACT_LABELS),
            features,
            another_pass: true,
        });
        let mut request = self.plan.problem.request.clone();
        if let Some(labels) = &mut request.labels {
            labels.read = LabelRead::Numbers;
        }
        let columns = labels.request.columns.len();
        let map = LabelMap::fourier(columns, features, gamma, self.plan.problem.seed);
        let kind = LabelSumsKind::Numbers(Arc::new(map));
        let (sums, tally) = self.sums(&request, labels.with_variance, Some(kind))?;
        self.context().supervise(labels, sums, tally, true)
    }

    /// Of kernel PCA with a linear kernel, which is PCA: what its model says of the kernel.
    pub(super) fn linear_kernel(&self) -> Option<KernelParts> {
        let choice = self.plan.problem.kernel.as_ref()?;
        self.listener.note(&Note::KernelIsPca);
        let kernel = Kernel::Linear { coef0: choice.options.coef0.unwrap_or(0.0) };
        Some(KernelParts {
            report: KernelReport::new(kernel, None),
            map: None,
            unit_mean: None,
            preimage: None,
        })
    }
}

fn covariance_of(sums: SumsResult) -> Result<SecondMoment> {
    sums.covariance.ok_or_else(|| Error::Internal("a pass for S has not summed it".into()))
}
