//! What is asked of sums, whoever has added them up: a pass over files, or a state from disk.
//!
//! Enters: moments, S or M = XHΔ. Leaves: components, with what labels add to a model, or a refusal that names the
//! data. Holds what the decomposition holds.

use super::Select;
use crate::accumulate::{ClassMoments, CrossMoments, Moments};
use crate::error::{Error, Place, Result};
use crate::model::{ClassReport, KernelParts, LabelReport, ScoringReport};
use crate::solve::rules::Components;
use crate::solve::scoring;
use crate::solve::supervised::{self, LabelKernel};
use crate::solve::{Form, Scaling, Solution};
use crate::source::{Features, LabelRead, Tally};
use crate::words::{count, thousands};
use ndarray::{Array1, Array2, Axis};
use std::path::PathBuf;

/// Classes that are listed in a model.
pub const LISTED_CLASSES: usize = 1_000;

/// The labels of supervised PCA, and the kernel over them.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelSpec {
    /// The columns.
    pub columns: Vec<String>,
    /// As classes or as numbers.
    pub read: LabelRead,
    /// The kernel.
    pub kernel: LabelKernel,
    /// γ of the rbf kernel.
    pub gamma: Option<f64>,
    /// For each column, whether it counts as a number beside classes.
    pub numeric: Vec<bool>,
}

/// What is asked.
pub struct Ask<'a> {
    /// The features of the sums.
    pub features: &'a Features,
    /// The weight column.
    pub weight: Option<String>,
    /// What is done to the columns.
    pub scaling: Scaling,
    /// `-k`.
    pub components: Components,
    /// The form, if one was asked for.
    pub form: Option<Form>,
    /// Random features of labels.
    pub label_features: usize,
    /// What a refusal names.
    pub place: PathBuf,
    /// BLAS threads.
    pub threads: usize,
    /// Told what users must know.
    pub say: &'a dyn Fn(String),
}

/// Sums, decomposed.
pub struct Fitted {
    /// n, W, μ, spread.
    pub moments: Moments,
    /// The components.
    pub solution: Solution,
    /// What must be told.
    pub tally: Tally,
    /// What labels add.
    pub supervision: Option<Supervision>,
    /// What a kernel adds.
    pub kernel: Option<KernelParts>,
}

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
pub struct Gathered {
    /// n, W, μ, spread.
    pub moments: Moments,
    /// r × d.
    pub m: Array2<f64>,
    /// The largest rank the labels allow.
    pub bound: usize,
    /// The sums per class, where labels are classes.
    pub classes: Option<ClassMoments>,
    /// S, where it was asked for.
    pub s: Option<Array2<f64>>,
    /// True when random features stand for the labels' kernel.
    pub fourier: bool,
    /// True when numeric labels are all the same.
    pub constant: bool,
    /// What must be told.
    pub tally: Tally,
}

impl Gathered {
    /// From the sums per class of one pass.
    pub fn of_classes(classes: ClassMoments, tally: Tally) -> Gathered {
        let (moments, m, bound) =
            (classes.moments.clone(), classes.m.clone(), classes.classes.len().saturating_sub(1));
        Gathered {
            moments,
            m,
            bound,
            classes: Some(classes),
            s: None,
            fourier: false,
            constant: false,
            tally,
        }
    }

    /// From the cross co-moment of one pass.
    pub fn of_numbers(sums: CrossMoments, tally: Tally) -> Gathered {
        let constant = sums.labels.deviations().iter().all(|s| *s == 0.0);
        let (moments, bound, m) = (sums.moments, sums.m.nrows(), sums.m);
        Gathered { moments, bound, m, classes: None, s: None, fourier: false, constant, tally }
    }

    /// The linear kernel over several label columns: classes one-hot, numbers as they are.
    pub fn mixing_columns(mut self, numeric: &[bool]) -> Gathered {
        if let Some(classes) = &self.classes {
            let delta = supervised::one_hot(&classes.classes, numeric);
            (self.m, self.bound) =
                (delta.t().dot(&self.m).as_standard_layout().into_owned(), delta.ncols());
        }
        self
    }

    /// Only these features.
    pub fn select_features(mut self, kept: &[usize]) -> Gathered {
        let columns = |m: &Array2<f64>| m.select(Axis(1), kept).as_standard_layout().into_owned();
        self.moments = self.moments.select_features(kept);
        self.m = columns(&self.m);
        self.classes = self.classes.map(|c| ClassMoments {
            moments: self.moments.clone(),
            m: columns(&c.m),
            ..c
        });
        self
    }
}

impl Ask<'_> {
    /// Components from what a pass has gathered.
    pub fn supervise(&self, labels: &LabelSpec, gathered: Gathered) -> Result<Fitted> {
        let Gathered { moments, m, bound, classes, s, fourier, constant, tally } = gathered;
        if let Some(c) = classes.as_ref().filter(|c| c.classes.len() < 2) {
            let only =
                c.classes.first().map_or_else(String::new, |class| format!(" ({})", text(class)));
            return Err(self.refusal(format!(
                "label '{}' has one class only{only}; supervised PCA needs two at least",
                labels.columns.join(", ")
            )));
        }
        let scaling = self.scaling;
        let solution = supervised::solve(
            m,
            &moments,
            scaling,
            self.components,
            self.form,
            bound,
            self.threads,
        )?;
        if solution.components.nrows() == 0 {
            let label = labels.columns.join(", ");
            return Err(self.refusal(match constant {
                true => format!(
                    "label '{label}' is constant; there is nothing for features to depend on"
                ),
                false => format!(
                    "no feature depends on label '{label}': the features' means do not move with it"
                ),
            }));
        }
        let freedom = moments.weight - 1.0;
        let kept: f64 = solution.eigenvalues.iter().take(solution.components.nrows()).sum();
        let label =
            self.report(labels, &solution, classes.as_ref(), fourier, &moments, tally.unlabelled);
        let total_variance = match &solution.scale {
            Some(scale) => {
                solution
                    .active
                    .iter()
                    .zip(scale)
                    .map(|(j, s)| moments.squares[*j] / (s * s))
                    .sum::<f64>()
                    / freedom
            }
            None => moments.squares.sum() / freedom,
        };
        let variances = s.map(|s| variances(&s, &solution) / freedom);
        let supervision =
            Supervision { label, hsic: kept / (freedom * freedom), total_variance, variances };
        self.tell_rank(&solution, labels, bound);
        if let Some(c) = classes.as_ref().filter(|c| {
            labels.kernel == LabelKernel::Delta && 2 * c.classes.len() as u64 > moments.rows
        }) {
            (self.say)(format!(
                "note: {} classes for {}: is the label an id, or a number?",
                c.classes.len(),
                count(moments.rows, "row")
            ));
        }
        Ok(Fitted { moments, solution, tally, supervision: Some(supervision), kernel: None })
    }

    /// The features that score best, told, with what a model keeps of the scoring; or what is wrong.
    pub fn selected(
        &self,
        scores: &Array1<f64>,
        label: (String, bool),
        select: Select,
    ) -> std::result::Result<(Vec<usize>, ScoringReport), String> {
        let (kept, cut) = scoring::select(scores, select.score, select.keep);
        if kept.is_empty() {
            let best = scores.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            return Err(format!(
                "no feature scores as much as ⟦score-threshold⟧; the best scores {best}"
            ));
        }
        let (by, classes) = label;
        let all = count(scores.len() as u64, "feature");
        (self.say)(format!(
            "scored by {by}: kept {} of {all}, the least score kept {cut:.4}",
            kept.len()
        ));
        let (Select { score, keep }, candidates) = (select, self.features.clone());
        let report = ScoringReport { by, classes, score, keep, kept: kept.len(), cut, candidates };
        Ok((kept, report))
    }

    /// What a model tells of its labels.
    #[allow(clippy::too_many_arguments)]
    pub fn report(
        &self,
        labels: &LabelSpec,
        solution: &Solution,
        classes: Option<&ClassMoments>,
        fourier: bool,
        moments: &Moments,
        unlabelled: u64,
    ) -> LabelReport {
        let k = solution.components.nrows();
        let listed = classes.filter(|c| c.classes.len() <= LISTED_CLASSES);
        let features = fourier.then_some(self.label_features);
        LabelReport {
            columns: labels.columns.clone(),
            kernel: labels.kernel,
            gamma: labels.gamma,
            features,
            approximation: features.map(|f| (1.0 / f as f64).sqrt()),
            n_classes: classes.map(|c| c.classes.len()),
            classes: listed
                .map_or_else(Vec::new, |c| centroids(c, solution, moments, self.scaling.center)),
            hsic_share: solution.eigenvalues.iter().take(k).map(|v| v / solution.trace).collect(),
            unlabelled,
        }
    }

    /// Asking for more than the labels can give is answered.
    pub fn tell_rank(&self, solution: &Solution, labels: &LabelSpec, bound: usize) {
        let Components::Count(asked) = self.components else { return };
        let k = solution.components.nrows();
        if asked <= k {
            return;
        }
        let why = match labels.read {
            _ if k < bound => format!(
                "the features depend on the labels in {} only",
                count(k as u64, "direction")
            ),
            LabelRead::Classes => format!(
                "{} classes differ in at most {}",
                bound + 1,
                count(bound as u64, "direction")
            ),
            LabelRead::Numbers => {
                format!(
                    "{} can be told by at most {}",
                    count(bound as u64, "numeric label"),
                    count(bound as u64, "direction")
                )
            }
        };
        (self.say)(format!("note: kept {k} of {asked} components: {why}"));
    }

    /// Something is wrong with the data as a whole.
    pub fn refusal(&self, problem: String) -> Error {
        Error::data(Place::file(&self.place), problem)
    }

    /// Sums that no model can be made of.
    pub fn check(&self, moments: &Moments, tally: &Tally) -> Result<()> {
        let refuse = |problem: String| Err(self.refusal(problem));
        let name = |j: usize| self.features.name(j);
        if let Some(j) = moments.mean.iter().position(|m| m.is_nan()) {
            return refuse(format!(
                "column '{}' is null in every row and has no mean; leave it out with ⟦exclude⟧",
                name(j)
            ));
        }
        if moments.rows < 2 {
            let dropped = match tally.missing.iter().max_by_key(|(_, n)| **n) {
                Some((j, n)) if tally.dropped > 0 => {
                    format!(
                        " ({} dropped for nulls, {} of them in column '{}')",
                        count(tally.dropped, "row"),
                        thousands(*n),
                        name(*j as usize)
                    )
                }
                _ => String::new(),
            };
            return refuse(format!(
                "{} left{dropped}, but a variance needs at least 2",
                count(moments.rows, "row")
            ));
        }
        if let Some(weight) = self.weight.as_ref().filter(|_| moments.weight <= 1.0) {
            return refuse(format!(
                "the weights in '{weight}' sum to {}, but they are frequencies (3 means three equal rows) and must sum to more than 1; scale them to sum to the number of rows",
                moments.weight
            ));
        }
        // No product of two features is larger than the larger one's square, and the trace must be finite too.
        let reach =
            |j: usize| moments.squares[j] + moments.weight * moments.mean[j] * moments.mean[j];
        let d = moments.squares.len();
        if !(0..d).map(reach).sum::<f64>().is_finite() {
            let largest = (0..d).max_by(|a, b| reach(*a).total_cmp(&reach(*b))).unwrap_or(0);
            return refuse(format!(
                "column '{}' has values so large that their squares overflow; scale it down",
                name(largest)
            ));
        }
        let lost = |s: &f64| *s > 0.0 && *s < f64::MIN_POSITIVE / f64::EPSILON;
        if let Some(j) = moments.squares.iter().position(lost) {
            return refuse(format!(
                "column '{}' has values so small that their squares lose digits; scale it up",
                name(j)
            ));
        }
        Ok(())
    }
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
pub fn text(class: &[crate::source::labels::ClassValue]) -> String {
    class.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// With K_y = I the seed's matrix is S: PCA, in the words of supervised PCA.
pub fn identity_of(solution: &Solution, moments: &Moments, columns: Vec<String>) -> Supervision {
    let k = solution.components.nrows();
    let freedom = moments.weight - 1.0;
    let kept: f64 = solution.eigenvalues.iter().take(k).sum();
    let label = LabelReport {
        columns,
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
    Supervision {
        label,
        hsic: kept / (freedom * freedom),
        total_variance: solution.trace / freedom,
        variances,
    }
}

/// The tally of the kept features, by their new positions.
pub fn narrowed(tally: Tally, kept: &[usize]) -> Tally {
    let place = |j: &u32| kept.binary_search(&(*j as usize)).ok().map(|at| at as u32);
    let only = |counts: &std::collections::BTreeMap<u32, u64>| {
        counts.iter().filter_map(|(j, n)| Some((place(j)?, *n))).collect()
    };
    Tally { missing: only(&tally.missing), rounded: only(&tally.rounded), ..tally }
}
