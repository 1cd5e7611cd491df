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
use super::forms::{Fitted, Passes};
use super::plan::LabelPlan;
use crate::accumulate::{
    Accumulate, ClassLimit, ClassMoments, ClassSums, CoMoment, Covariance, Cross, CrossMoments, ImputedCovariance, LabelMap,
    Moments,
};
use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::model::{ClassReport, LabelReport};
use crate::pass;
use crate::report::text::count;
use crate::solve::Solution;
use crate::solve::supervised::{self, LabelKernel};
use crate::source::{LabelRead, Nulls, ParquetSource, Tally, Want};
use ndarray::{Array1, Array2, Axis};
use std::sync::Arc;

/// Distinct labels up to which the rbf kernel over them is factored exactly.
pub const EXACT_LABELS: usize = 1_000;

/// Classes that are listed in a model.
pub(super) const LISTED_CLASSES: usize = 1_000;

/// What labels add to a model.
pub struct Supervision {
    /// For its header.
    pub label: LabelReport,
    /// HSIC of the scores.
    pub hsic: f64,
    /// Variance of all features.
    pub total_variance: f64,
    /// Variance along each component, where S was gathered.
    pub variances: Option<Array1<f64>>,
}

/// Mᵀ and where it comes from.
pub(super) struct Gathered {
    moments: Moments,
    m: Array2<f64>,
    /// The largest rank the labels allow.
    bound: usize,
    classes: Option<ClassMoments>,
    /// S, where it was asked for.
    s: Option<Array2<f64>>,
    fourier: bool,
    /// True when numeric labels are all the same.
    constant: bool,
    tally: Tally,
}

impl Gathered {
    /// From the sums per class of one pass.
    pub(super) fn of_classes(classes: ClassMoments, tally: Tally) -> Gathered {
        let (moments, m, bound) = (classes.moments.clone(), classes.m.clone(), classes.classes.len().saturating_sub(1));
        Gathered { moments, m, bound, classes: Some(classes), s: None, fourier: false, constant: false, tally }
    }

    /// From the cross co-moment of one pass.
    pub(super) fn of_numbers(sums: CrossMoments, tally: Tally) -> Gathered {
        let constant = sums.labels.deviations().iter().all(|s| *s == 0.0);
        let (moments, bound, m) = (sums.moments, sums.m.nrows(), sums.m);
        Gathered { moments, bound, m, classes: None, s: None, fourier: false, constant, tally }
    }

    /// Only these features.
    pub(super) fn part(mut self, kept: &[usize]) -> Gathered {
        let columns = |m: &Array2<f64>| m.select(Axis(1), kept).as_standard_layout().into_owned();
        self.moments = self.moments.part(kept);
        self.m = columns(&self.m);
        self.classes = self.classes.map(|c| ClassMoments { moments: self.moments.clone(), m: columns(&c.m), ..c });
        self
    }
}

impl Passes<'_> {
    /// Fits supervised PCA.
    pub(super) fn supervised(&self, labels: &LabelPlan) -> Result<Fitted> {
        let gathered = self.gathered(labels)?;
        self.check(&gathered.moments, &gathered.tally)?;
        self.supervise(labels, gathered)
    }

    /// Components from what a pass has gathered.
    pub(super) fn supervise(&self, labels: &LabelPlan, gathered: Gathered) -> Result<Fitted> {
        let Gathered { moments, m, bound, classes, s, fourier, constant, tally } = gathered;
        if let Some(c) = classes.as_ref().filter(|c| c.classes.len() < 2) {
            let only = c.classes.first().map_or_else(String::new, |class| format!(" ({})", text(class)));
            return Err(self.refusal(format!(
                "label '{}' has one class only{only}; supervised PCA needs two at least",
                labels.want.columns.join(", ")
            )));
        }
        let scaling = self.plan.scaling;
        let solution = supervised::solve(m, &moments, scaling, self.spec.components, self.spec.form.form(), bound, cores())?;
        if solution.components.nrows() == 0 {
            let label = labels.want.columns.join(", ");
            return Err(self.refusal(match constant {
                true => format!("label '{label}' is constant; there is nothing for features to depend on"),
                false => format!("no feature depends on label '{label}': the features' means do not move with it"),
            }));
        }
        let freedom = moments.weight - 1.0;
        let kept: f64 = solution.eigenvalues.iter().take(solution.components.nrows()).sum();
        let label = self.report(labels, &solution, classes.as_ref(), fourier, &moments, tally.unlabelled);
        let total_variance = match &solution.scale {
            Some(scale) => solution.active.iter().zip(scale).map(|(j, s)| moments.squares[*j] / (s * s)).sum::<f64>() / freedom,
            None => moments.squares.sum() / freedom,
        };
        let variances = s.map(|s| variances(&s, &solution) / freedom);
        let supervision = Supervision { label, hsic: kept / (freedom * freedom), total_variance, variances };
        self.tell_rank(&solution, labels, bound);
        if let Some(c) =
            classes.as_ref().filter(|c| labels.kernel == LabelKernel::Delta && 2 * c.classes.len() as u64 > moments.rows)
        {
            self.talk.say(format!(
                "note: {} classes for {}: is the label an id, or a number?",
                c.classes.len(),
                count(moments.rows, "row")
            ));
        }
        Ok(Fitted { moments, solution, tally, supervision: Some(supervision), kernel: None })
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
            (Ok(mut gathered), LabelKernel::Linear, _) if labels.want.columns.len() > 1 => {
                if let Some(classes) = &gathered.classes {
                    let delta = supervised::one_hot(&classes.classes, &labels.numeric);
                    (gathered.m, gathered.bound) = (delta.t().dot(&gathered.m).as_standard_layout().into_owned(), delta.ncols());
                }
                Ok(gathered)
            }
            (Err(Error::TooManyClasses { .. }), LabelKernel::Rbf, Some(gamma)) => {
                let features = self.spec.label_features as usize;
                self.talk.say(format!(
                    "note: more than {EXACT_LABELS} distinct labels, so the rbf kernel is approximated by {features} random features (an entry is off by about {:.1e}); one more pass",
                    (1.0 / features as f64).sqrt()
                ));
                self.cross(LabelMap::fourier(labels.want.columns.len(), features, gamma, self.spec.seed), true)
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
        let (s, sums, tally) = self.sums(&source, self.spec.with_variance, || Cross::new(d, map.clone()))?;
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
            (true, Nulls::Mean) => with_s(pass::fold(source, threads, &progress, || (ImputedCovariance::new(d), fresh()))?),
            (true, _) => with_s(pass::fold(source, threads, &progress, || (Covariance::new(d), fresh()))?),
        })
    }

    pub(super) fn report(
        &self,
        labels: &LabelPlan,
        solution: &Solution,
        classes: Option<&ClassMoments>,
        fourier: bool,
        moments: &Moments,
        unlabelled: u64,
    ) -> LabelReport {
        let k = solution.components.nrows();
        let listed = classes.filter(|c| c.classes.len() <= LISTED_CLASSES);
        let features = fourier.then_some(self.spec.label_features as usize);
        LabelReport {
            columns: labels.want.columns.clone(),
            kernel: labels.kernel,
            gamma: labels.gamma,
            features,
            approximation: features.map(|f| (1.0 / f as f64).sqrt()),
            n_classes: classes.map(|c| c.classes.len()),
            classes: listed.map_or_else(Vec::new, |c| centroids(c, solution, moments, self.plan.scaling.center)),
            hsic_share: solution.eigenvalues.iter().take(k).map(|v| v / solution.trace).collect(),
            unlabelled,
        }
    }

    /// Asking for more than the labels can give is answered.
    pub(super) fn tell_rank(&self, solution: &Solution, labels: &LabelPlan, bound: usize) {
        let crate::solve::rules::Components::Count(asked) = self.spec.components else { return };
        let k = solution.components.nrows();
        if asked <= k {
            return;
        }
        let why = match labels.want.read {
            _ if k < bound => format!("the features depend on the labels in {} only", count(k as u64, "direction")),
            LabelRead::Classes => format!("{} classes differ in at most {}", bound + 1, count(bound as u64, "direction")),
            LabelRead::Numbers => {
                format!("{} can be told by at most {}", count(bound as u64, "numeric label"), count(bound as u64, "direction"))
            }
        };
        self.talk.say(format!("note: kept {k} of {asked} components: {why}"));
    }
}

fn with_s<A: Accumulate<Output = CoMoment>, B: Accumulate>(folded: ((A, B), Tally)) -> (Option<Array2<f64>>, B::Output, Tally) {
    let (sums, tally) = folded;
    let (co_moment, labels) = sums.finish();
    (Some(co_moment.s), labels, tally)
}

/// uᵀ D⁻¹ S D⁻¹ u of each component.
fn variances(s: &Array2<f64>, solution: &Solution) -> Array1<f64> {
    let mut wide = Array2::zeros((solution.components.nrows(), s.ncols()));
    for (at, j) in solution.active.iter().enumerate() {
        let scale = solution.scale.as_ref().map_or(1.0, |s| s[at]);
        wide.column_mut(*j).assign(&(&solution.components.column(at) / scale));
    }
    (&wide.dot(s) * &wide).sum_axis(Axis(1))
}

/// The mean scores of each class.
fn centroids(classes: &ClassMoments, solution: &Solution, moments: &Moments, center: bool) -> Vec<ClassReport> {
    let project = |x: Array1<f64>| {
        let mut x = x.select(Axis(0), &solution.active);
        if let Some(scale) = &solution.scale {
            x /= scale;
        }
        solution.components.dot(&x)
    };
    let rows = classes.classes.iter().zip(&classes.weights).zip(classes.m.rows());
    rows.map(|((class, weight), m)| {
        let mut x = if *weight > 0.0 { &m / *weight } else { Array1::zeros(m.len()) };
        if !center {
            x += &moments.mean;
        }
        ClassReport { class: class.clone(), weight: *weight, centroid: project(x).to_vec() }
    })
    .collect()
}

/// "a, b".
pub fn text(class: &[crate::source::labels::ClassValue]) -> String {
    class.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// True when `spec` asks for supervised PCA with the identity kernel, which is plain (or kernel) PCA.
pub fn is_identity(spec: &FitSpec) -> bool {
    spec.method.is_supervised() && spec.label_kernel == Some(LabelKernel::Identity)
}

/// With K_y = I the seed's matrix is S: PCA, in the words of supervised PCA.
pub fn identity(solution: &Solution, moments: &Moments, spec: &FitSpec) -> Supervision {
    let k = solution.components.nrows();
    let freedom = moments.weight - 1.0;
    let kept: f64 = solution.eigenvalues.iter().take(k).sum();
    let label = LabelReport {
        columns: spec.label.clone(),
        kernel: LabelKernel::Identity,
        gamma: None,
        features: None,
        approximation: None,
        n_classes: None,
        classes: Vec::new(),
        hsic_share: solution.eigenvalues.iter().take(k).map(|v| v / solution.trace).collect(),
        unlabelled: 0,
    };
    let variances = Some(solution.eigenvalues.iter().take(k).map(|v| v / freedom).collect());
    Supervision { label, hsic: kept / (freedom * freedom), total_variance: solution.trace / freedom, variances }
}
