//! Sums of labels → components, or scores of features.
//!
//! | label kernel | sums | M = XHΔ |
//! |---|---|---|
//! | delta; any over one column of classes | per class | W_c (μ_c − μ), times √scale |
//! | linear over numbers, cosine at unit length | cross co-moment | Σ w (x−μ)(y−ȳ)ᵀ |
//! | poly over numbers | cross co-moment with monomials ψ | Σ w (x−μ)(ψ−ψ̄)ᵀ |
//! | linear over several columns, some classes | per class | those times one-hot columns |
//! | others over several columns, some classes; rbf | per distinct label | those times L, K = LLᵀ |
//! | rbf, many labels or features asked for | cross co-moment with random ψ | Σ w (x−μ)(ψ−ψ̄)ᵀ |
//!
//! Enters: [`LabelMoments`], and S where variances are wanted. Leaves: a [`Decomposition`]. Holds
//! what the decomposition of the smaller side holds.

use super::assemble::{Decomposition, FeatureScores, LabelOutcome, ModelContext};
use super::check::{LabelProblem, ScoringProblem};
use super::label_factor::LabelFactor;
use super::labels::whole_number_notes;
use super::options::cores;
use crate::accumulate::{ClassMoments, LabelMoments, Moments, SecondMoment, SumsResult};
use crate::blas;
use crate::error::Result;
use crate::listen::{Stage, Watch};
use crate::model::{ClassReport, LabelReport, ScoringReport};
use crate::note::Note;
use crate::solve::Solution;
use crate::solve::rules::Components;
use crate::solve::scoring;
use crate::solve::supervised::{self, one_hot};
use crate::source::labels::ClassValue;
use crate::source::{LabelRead, Tally};
use crate::words::count;
use ndarray::{Array1, Array2, Axis};

/// Classes that are listed in a model.
pub(crate) const LISTED_CLASSES: usize = 1_000;

/// Mᵀ (r × d) and the largest rank that the labels allow.
pub(crate) fn label_matrix(
    sums: &LabelMoments,
    labels: &LabelProblem,
) -> Result<(Array2<f64>, usize)> {
    let classes = match sums {
        LabelMoments::Numbers(c) => return Ok((c.m.clone(), c.m.nrows())),
        LabelMoments::Classes(c) => c,
    };
    let bound = classes.classes.len().saturating_sub(1);
    let one_hot = || one_hot(&classes.classes, &labels.numeric);
    Ok(match (&labels.factor, labels.function) {
        (LabelFactor::OneHot, _) => {
            let delta = one_hot();
            (delta.t().dot(&classes.m).as_standard_layout().into_owned(), delta.ncols())
        }
        (LabelFactor::Distinct, Some(kernel)) => {
            let (factor, _) = supervised::label_factor(&one_hot(), kernel, cores())?;
            (blas::parallel(cores(), || factor.dot(&classes.m)), bound)
        }
        (LabelFactor::Classes { scale }, _) => (&classes.m * scale.sqrt(), bound),
        _ => (classes.m.clone(), bound),
    })
}

/// True when the products of these numbers are numbers too.
pub(crate) fn has_squares(m: &Array2<f64>) -> bool {
    m.iter().map(|v| v * v).sum::<f64>().is_finite()
}

impl ModelContext<'_> {
    /// Sums of labels → components: supervised PCA. `random` when random features stand for K_y.
    pub(crate) fn supervise(
        &self,
        labels: &LabelProblem,
        sums: SumsResult,
        tally: Tally,
        random: bool,
    ) -> Result<Decomposition> {
        let Some(of_labels) = sums.labels else {
            return Err(self.refusal("nothing was summed of the labels"));
        };
        let moments = of_labels.moments().clone();
        self.check(&moments, &tally)?;
        let classes = match &of_labels {
            LabelMoments::Classes(c) => Some(c),
            LabelMoments::Numbers(_) => None,
        };
        if let Some(classes) = classes {
            self.check_classes(&classes.classes, labels, "supervised PCA")?;
        }
        let (m, bound) = label_matrix(&of_labels, labels)?;
        if !has_squares(&m) {
            return Err(self.refusal(labels.overflow()));
        }
        let (scaling, asked) = (self.scaling(), self.components);
        let watch = Watch::new(self.listener, Stage::decomposing(m.nrows().min(m.ncols())));
        let solved = supervised::solve(m, &moments, scaling, asked, self.form, bound, cores());
        let solution = solved.map_err(|e| e.about(&self.place))?;
        drop(watch);
        if solution.components.nrows() == 0 {
            return Err(self.no_dependence(labels, &of_labels));
        }
        let freedom = moments.weight - 1.0;
        let s = sums.covariance.filter(|_| labels.with_variance);
        let outcome = LabelOutcome {
            report: self.label_report(labels, &solution, classes, random, &moments, &tally),
            hsic: kept_eigenvalues(&solution).sum::<f64>() / (freedom * freedom),
            total_variance: total_variance(&solution, &moments) / freedom,
            variances: s.map(|s| variances(&s, &solution) / freedom),
        };
        self.tell_capped(&solution, labels, bound, &tally);
        let delta = matches!(labels.factor, LabelFactor::Classes { .. });
        let many = |c: &&ClassMoments| delta && 2 * c.classes.len() as u64 > moments.rows;
        if let Some(c) = classes.filter(many) {
            let (classes, rows) = (c.classes.len(), moments.rows);
            self.listener.note(&Note::ManyClasses { classes, rows });
        }
        Ok(Decomposition { moments, solution, tally, labels: Some(outcome), kernel: None })
    }

    fn no_dependence(&self, labels: &LabelProblem, sums: &LabelMoments) -> crate::error::Error {
        let name = labels.name();
        self.refusal(match varies(sums) {
            true => format!(
                "no feature depends on label '{name}': the features' means do not move with it"
            ),
            false => {
                format!("{}; there is nothing for features to depend on", labels.constant())
            }
        })
    }

    /// Refuses one class only.
    pub(crate) fn check_classes(
        &self,
        classes: &[Vec<ClassValue>],
        labels: &LabelProblem,
        method: &str,
    ) -> Result<()> {
        if classes.len() > 1 {
            return Ok(());
        }
        let only = classes.first().map_or_else(String::new, |c| format!(" ({})", class_text(c)));
        let name = labels.name();
        Err(self.refusal(format!(
            "label '{name}' has one class only{only}; {method} needs two at least"
        )))
    }

    /// What a model tells of its labels.
    pub(crate) fn label_report(
        &self,
        labels: &LabelProblem,
        solution: &Solution,
        classes: Option<&ClassMoments>,
        random: bool,
        moments: &Moments,
        tally: &Tally,
    ) -> LabelReport {
        let listed = classes.filter(|c| c.classes.len() <= LISTED_CLASSES);
        let features = random.then_some(labels.features);
        let center = self.scaling().center;
        LabelReport {
            columns: labels.request.columns.clone(),
            kernel: labels.kernel,
            gamma: labels.gamma(),
            coef0: labels.coef0(),
            degree: labels.degree(),
            features,
            approximation: features.map(|f| (1.0 / f as f64).sqrt()),
            n_classes: classes.map(|c| c.classes.len()),
            classes: listed.map_or_else(Vec::new, |c| centroids(c, solution, moments, center)),
            hsic_share: kept_eigenvalues(solution).map(|v| v / solution.trace).collect(),
            unlabelled: tally.unlabelled,
        }
    }

    /// Asking for more than the labels can give is answered.
    pub(crate) fn tell_capped(
        &self,
        solution: &Solution,
        labels: &LabelProblem,
        bound: usize,
        tally: &Tally,
    ) {
        let Components::Count(asked) = self.components else { return };
        let kept = solution.components.nrows();
        if asked <= kept {
            return;
        }
        let directions = |n: usize| count(n as u64, "direction");
        let why = match labels.request.read {
            _ if kept < bound => {
                format!("the features depend on the labels in {} only", directions(kept))
            }
            LabelRead::Classes => {
                format!("{} classes differ in at most {}", bound + 1, directions(bound))
            }
            LabelRead::Numbers | LabelRead::UnitNumbers => {
                let noun = if labels.factor.is_plain() { "numeric label" } else { "label feature" };
                let told = count(bound as u64, noun);
                let (columns, is_number) = (&labels.request.columns, |j| labels.is_number(j));
                let whole = whole_number_notes(columns, is_number, tally, false);
                let more =
                    if whole.is_empty() { "" } else { "; as ⟦classes⟧ they would allow more" };
                format!("{told} can be told by at most {}{more}", directions(bound))
            }
        };
        self.listener.note(&Note::CappedByLabels { kept, asked, why });
    }

    /// The features that score best against a label, told; the same for a fit and for a state.
    pub(crate) fn select_features(
        &self,
        sums: &LabelMoments,
        scoring: &ScoringProblem,
    ) -> Result<(Vec<usize>, FeatureScores)> {
        let by = scoring.label.columns.join(", ");
        if !varies(sums) {
            return Err(
                self.refusal(format!("label '{by}' is constant; there is nothing to score by"))
            );
        }
        let ScoringProblem { score, keep, center, .. } = *scoring;
        let scores = scoring::scores(sums, center);
        let (kept, cut) = scoring::select(&scores, score, keep);
        if kept.is_empty() {
            let best = scores.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            return Err(self.refusal(format!(
                "no feature scores as much as ⟦score-threshold⟧; the best scores {best}"
            )));
        }
        let (of, classes) = (scores.len(), scoring.label.read == LabelRead::Classes);
        self.listener.note(&Note::Scored { by: by.clone(), kept: kept.len(), of, cut });
        let candidates = self.features.clone();
        let center = Some(center);
        let report =
            ScoringReport { by, classes, score, center, keep, kept: kept.len(), cut, candidates };
        Ok((kept, FeatureScores { report, scores }))
    }
}

/// False for a label that is the same everywhere.
fn varies(sums: &LabelMoments) -> bool {
    match sums {
        LabelMoments::Classes(c) => c.classes.len() > 1,
        LabelMoments::Numbers(c) => c.labels.deviations().iter().any(|s| *s > 0.0),
    }
}

fn kept_eigenvalues(solution: &Solution) -> impl Iterator<Item = &f64> {
    solution.eigenvalues.iter().take(solution.components.nrows())
}

/// Σ w (x − μ)² over all features, scaled as they are.
fn total_variance(solution: &Solution, moments: &Moments) -> f64 {
    match &solution.scale {
        Some(scale) => {
            let scaled = |(j, s): (&usize, &f64)| moments.squares[*j] / (s * s);
            solution.active.iter().zip(scale).map(scaled).sum()
        }
        None => moments.squares.sum(),
    }
}

/// uᵀ D⁻¹ S D⁻¹ u of each component.
fn variances(s: &SecondMoment, solution: &Solution) -> Array1<f64> {
    let d = s.moments().mean.len();
    let mut wide = Array2::zeros((solution.components.nrows(), d));
    for (at, j) in solution.active.iter().enumerate() {
        let scale = solution.scale.as_ref().map_or(1.0, |s| s[at]);
        wide.column_mut(*j).assign(&(&solution.components.column(at) / scale));
    }
    s.along(&wide)
}

/// The mean scores of each class.
fn centroids(
    classes: &ClassMoments,
    solution: &Solution,
    moments: &Moments,
    center: bool,
) -> Vec<ClassReport> {
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
pub(crate) fn class_text(class: &[ClassValue]) -> String {
    class.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
