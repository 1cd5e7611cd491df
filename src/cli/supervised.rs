//! The pass of supervised PCA: a plan → M = XHΔ → components, with what the labels add to a model.
//!
//! | label kernel | pass | M |
//! |---|---|---|
//! | delta; linear over classes | sums per class | W_c (μ_c − μ) |
//! | linear over numbers | cross co-moment | Σ w (x−μ)(y−ȳ)ᵀ |
//! | rbf, few distinct labels | sums per distinct label | those times L, K over the distinct labels = LLᵀ |
//! | rbf, many | cross co-moment with random Fourier features, in a second pass | Σ w (x−μ)(ψ−ψ̄)ᵀ |
//!
//! The identity kernel is plain PCA and takes its forms.

use super::args::{FitSpec, cores};
use super::forms::Passes;
use super::plan::LabelPlan;
use crate::accumulate::{
    Accumulate, ClassLimit, ClassSums, CoMoment, Covariance, CrossMoment, ImputedCovariance,
    LabelMap,
};
use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::pass;
use crate::solve::supervised::{self, LabelKernel};
use crate::source::{LabelRead, Nulls, ParquetSource, Tally, Want};
use crate::state::ask::{Fitted, Gathered};
use ndarray::Array2;
use std::sync::Arc;

/// Distinct labels up to which the rbf kernel over them is factored exactly.
pub const EXACT_LABELS: usize = 1_000;

impl Passes<'_> {
    /// Fits supervised PCA.
    pub(super) fn supervised(&self, labels: &LabelPlan) -> Result<Fitted> {
        let gathered = self.gathered(labels)?;
        self.check(&gathered.moments, &gathered.tally)?;
        self.asked(|ask| ask.supervise(&labels.spec(), gathered))
    }

    fn gathered(&self, labels: &LabelPlan) -> Result<Gathered> {
        if labels.want.read == LabelRead::Numbers {
            return self.cross(LabelMap::Linear { columns: labels.want.columns.len() }, false);
        }
        match (self.by_class(labels), labels.kernel, labels.gamma) {
            (Ok(mut gathered), LabelKernel::Rbf, Some(gamma)) => {
                if let Some(classes) = &gathered.classes {
                    gathered.m = supervised::rbf_over_classes(classes, gamma, cores())?;
                }
                Ok(gathered)
            }
            (Ok(gathered), LabelKernel::Linear, _) if labels.want.columns.len() > 1 => {
                Ok(gathered.mixing_columns(&labels.numeric))
            }
            (Err(Error::TooManyClasses { .. }), LabelKernel::Rbf, Some(gamma)) => {
                let features = self.spec.label_features as usize;
                self.talk.say(format!(
                    "note: more than {EXACT_LABELS} distinct labels, so the rbf kernel is approximated by {features} random features (an entry is off by about {:.1e}); one more pass",
                    (1.0 / features as f64).sqrt()
                ));
                self.cross(
                    LabelMap::fourier(labels.want.columns.len(), features, gamma, self.spec.seed),
                    true,
                )
            }
            (result, ..) => result,
        }
    }

    fn by_class(&self, labels: &LabelPlan) -> Result<Gathered> {
        let d = self.plan.want.features.len();
        let exact = if labels.kernel == LabelKernel::Rbf { EXACT_LABELS } else { usize::MAX };
        let limit = ClassLimit {
            classes: self.plan.most_classes.min(exact),
            label: labels.want.columns.join(", "),
            hint: format!(
                "a label that names each row is an id; choose another, allow more --memory ({} for 1,000 classes), or for numbers use --label-kernel linear",
                Bytes(self.plan.class_bytes().saturating_mul(1_000))
            ),
        };
        let fresh = || ClassSums::new(d, limit.clone());
        let (s, classes, tally) = self.sums(&self.source(), self.spec.with_variance, fresh)?;
        Ok(Gathered { s, ..Gathered::of_classes(classes, tally) })
    }

    fn cross(&self, map: LabelMap, fourier: bool) -> Result<Gathered> {
        let d = self.plan.want.features.len();
        let mut want: Want = self.plan.want.clone();
        if let Some(labels) = &mut want.labels {
            labels.read = LabelRead::Numbers;
        }
        let source = ParquetSource::new(&self.plan.dataset, want);
        let map = Arc::new(map);
        let (s, sums, tally) =
            self.sums(&source, self.spec.with_variance, || CrossMoment::new(d, map.clone()))?;
        Ok(Gathered { s, fourier, ..Gathered::of_numbers(sums, tally) })
    }

    /// The labels' sums, with S of the same rows where wanted.
    pub(super) fn sums<A: Accumulate>(
        &self,
        source: &ParquetSource,
        with_variance: bool,
        fresh: impl Fn() -> A + Sync,
    ) -> Result<(Option<Array2<f64>>, A::Output, Tally)> {
        let d = self.plan.want.features.len();
        let (threads, progress) = (self.plan.threads(), self.progress());
        Ok(match (with_variance, self.plan.want.nulls) {
            (false, _) => {
                let (sums, tally) = pass::fold(source, threads, &progress, fresh)?;
                (None, sums.finish(), tally)
            }
            (true, Nulls::Mean) => with_s(pass::fold(source, threads, &progress, || {
                (ImputedCovariance::new(d), fresh())
            })?),
            (true, _) => {
                with_s(pass::fold(source, threads, &progress, || (Covariance::new(d), fresh()))?)
            }
        })
    }
}

fn with_s<A: Accumulate<Output = CoMoment>, B: Accumulate>(
    folded: ((A, B), Tally),
) -> (Option<Array2<f64>>, B::Output, Tally) {
    let (sums, tally) = folded;
    let (co_moment, labels) = sums.finish();
    (Some(co_moment.s), labels, tally)
}

/// True when `spec` asks for supervised PCA with the identity kernel, which is plain (or kernel) PCA.
pub fn is_identity(spec: &FitSpec) -> bool {
    spec.method.is_supervised() && spec.label_kernel == Some(LabelKernel::Identity)
}
