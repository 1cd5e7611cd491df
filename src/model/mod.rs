//! A fitted model: everything `transform`, `reconstruct` and the reports need. A linear model has
//! nothing of the rows it was fitted on; a kernel model compares with them.
//!
//! Holds k·d components and a few vectors of d. Shapes and meanings:
//!
//! | field | shape | is |
//! |---|---|---|
//! | `mean` | d | μ, whether or not it is subtracted (see `center`) |
//! | `scale` | d or none | sample standard deviations |
//! | `components` | k × d | rows of Uᵀ, orthonormal; a kernel model has a [`KernelMap`] instead |
//! | `eigenvalues` | all known | of the seed's matrix A, without 1/n, descending; uᵀAu of a given basis |

mod check;
pub(crate) mod container;
mod file;
mod header;
mod inputs;
mod recombine;

pub use header::{
    Approximation, BasisReport, ClassReport, Header, InputEntry, KernelReport, LabelReport, Method,
    NullReport, PreimageReport, ScoringReport, Selection, Weight,
};
pub(crate) use inputs::{InputIndex, no_twins};

use crate::accumulate::Moments;
use crate::kernel::{Kernel, KernelMap, Ridge};
pub(crate) use crate::solve::Form;
use crate::solve::rules::Components;
use crate::solve::{Scaling, Solution};
use crate::source::block::Precision;
use crate::source::{Features, Nulls, Tally};
use ndarray::{Array1, Array2, Axis};
use std::collections::HashSet;

/// A fitted model.
#[derive(Debug, Clone)]
pub struct Model {
    /// What is written as JSON.
    pub header: Header,
    /// μ of the features, whether or not it is subtracted.
    pub mean: Array1<f64>,
    /// What the centred features are divided by.
    pub scale: Option<Array1<f64>>,
    /// From a row to its scores.
    pub projection: Projection,
    /// Every eigenvalue that is known, descending; along a given basis uᵀAu, in its order.
    pub eigenvalues: Array1<f64>,
    /// Values of the constant features that were left out, in the order of their names.
    pub constants: Array1<f64>,
    /// Variance along each kept component, where it is not an eigenvalue over the degrees of
    /// freedom.
    pub variances: Option<Array1<f64>>,
    /// Scores of all features that were scored against a label.
    pub feature_scores: Option<Array1<f64>>,
    /// Of the cosine kernel: the mean of the rows at unit length.
    pub unit_mean: Option<Array1<f64>>,
    /// A learned way back from scores to rows.
    pub preimage: Option<Ridge>,
}

/// From a row to its scores.
#[derive(Debug, Clone)]
pub enum Projection {
    /// Products with orthonormal rows, k × d.
    Linear(Array2<f64>),
    /// Comparisons with rows or random features.
    Kernel(Box<KernelMap>),
}

/// What a fit knows besides sums and solution.
#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    /// The columns as chosen.
    pub columns: Features,
    /// `-k` as typed.
    pub asked: Components,
    /// What was done to the columns.
    pub scaling: Scaling,
    /// The policy.
    pub nulls: Nulls,
    /// The weight column.
    pub weight: Option<String>,
    /// Arithmetic.
    pub precision: Precision,
    /// Seed of what was random.
    pub seed: Option<u64>,
    /// The method.
    pub method: Method,
    /// The labels.
    pub label: Option<LabelReport>,
    /// HSIC of the scores.
    pub hsic: Option<f64>,
    /// The kernel and what it adds.
    pub kernel: Option<KernelParts>,
    /// Variance of all features, where it is not the trace of what was decomposed.
    pub total_variance: Option<f64>,
    /// Variance along each component, likewise.
    pub variances: Option<Array1<f64>>,
    /// How features were selected before.
    pub scoring: Option<ScoringReport>,
    /// The scores of all of them.
    pub feature_scores: Option<Array1<f64>>,
    /// What was read.
    pub ledger: Vec<InputEntry>,
    /// What must be told.
    pub tally: Tally,
}

/// What a kernel fit adds to a solution.
#[derive(Debug, Clone)]
pub(crate) struct KernelParts {
    /// For the header.
    pub report: KernelReport,
    /// The map; its coefficients are put in by [`Model::new`], which takes them from the solution.
    /// `None` where the components are linear.
    pub map: Option<Box<KernelMap>>,
    /// Of the cosine kernel.
    pub unit_mean: Option<Array1<f64>>,
    /// A learned way back.
    pub preimage: Option<Ridge>,
}

impl Model {
    /// Puts a model together. Of a kernel fit `solution.components` are the coefficients of its
    /// map.
    pub(crate) fn new(sums: &Moments, solution: Solution, mut from: Provenance) -> Model {
        let active: HashSet<usize> = solution.active.iter().copied().collect();
        let inactive: Vec<usize> =
            (0..from.columns.len()).filter(|j| !active.contains(j)).collect();
        let kernel = from.kernel.take();
        let (variances, feature_scores) = (from.variances.take(), from.feature_scores.take());
        let report = kernel.as_ref().map(|k| k.report.clone());
        let header = Header::new(sums, &solution, &inactive, report, from);
        let Solution { active, scale, components, eigenvalues, .. } = solution;
        let (map, unit_mean, preimage) =
            kernel.map(|k| (k.map, k.unit_mean, k.preimage)).unwrap_or_default();
        let projection = match map {
            Some(map) => {
                Projection::Kernel(Box::new(KernelMap { coefficients: components, ..*map }))
            }
            None => Projection::Linear(components),
        };
        Model {
            header,
            unit_mean,
            preimage,
            mean: sums.mean.select(Axis(0), &active),
            scale,
            projection,
            eigenvalues,
            constants: sums.mean.select(Axis(0), &inactive),
            variances,
            feature_scores,
        }
    }

    /// For each feature of the chosen columns, its value if it was constant and left out.
    pub fn constant_features(&self) -> Vec<Option<f64>> {
        let names = self.header.left_out.iter().map(String::as_str);
        let constants: std::collections::HashMap<&str, f64> =
            names.zip(self.constants.iter().copied()).collect();
        self.header.columns.names().map(|name| constants.get(name.as_str()).copied()).collect()
    }

    /// Number of features (d).
    pub fn n_features(&self) -> usize {
        self.mean.len()
    }

    /// Number of components kept (k).
    pub fn n_components(&self) -> usize {
        match &self.projection {
            Projection::Linear(components) => components.nrows(),
            Projection::Kernel(map) => map.coefficients.nrows(),
        }
    }

    /// The components as directions in the space of the features; a kernel model has none there.
    pub fn components(&self) -> Option<&Array2<f64>> {
        match &self.projection {
            Projection::Linear(components) => Some(components),
            Projection::Kernel(_) => None,
        }
    }

    /// The kernel map, of a kernel model.
    pub fn kernel_map(&self) -> Option<&KernelMap> {
        match &self.projection {
            Projection::Linear(_) => None,
            Projection::Kernel(map) => Some(map),
        }
    }

    /// True when rows are brought to unit length first (cosine kernel).
    pub fn is_normalized(&self) -> bool {
        self.header.kernel.as_ref().is_some_and(|k| k.kernel == Kernel::Cosine)
    }

    /// Variance along each kept component; `None` where the pass did not gather it.
    pub fn explained_variance(&self) -> Option<Vec<f64>> {
        match (&self.variances, self.header.method) {
            (Some(variances), _) => Some(variances.to_vec()),
            (None, Method::Pca | Method::Kpca) => Some(
                self.eigenvalues
                    .iter()
                    .take(self.n_components())
                    .map(|v| v / self.header.degrees_of_freedom)
                    .collect(),
            ),
            (None, Method::Spca | Method::Kspca) => None,
        }
    }

    /// What [`Model::explained_variance`] is: around the mean, or around nothing.
    pub fn variance_kind(&self) -> VarianceKind {
        match self.header.method == Method::Pca && !self.header.center {
            true => VarianceKind::MeanSquare,
            false => VarianceKind::Variance,
        }
    }

    /// Their share of the total variance.
    pub fn explained_variance_ratio(&self) -> Option<Vec<f64>> {
        let total = self.header.total_variance?;
        Some(self.explained_variance()?.iter().map(|v| v / total).collect())
    }
}

/// What the numbers along components are. The names of a report stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VarianceKind {
    /// Squares around the mean, over n − 1.
    Variance,
    /// Of a fit that is not centred: squares of the scores themselves, over n − 1.
    MeanSquare,
}

impl VarianceKind {
    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            VarianceKind::Variance => "variance",
            VarianceKind::MeanSquare => "mean square",
        }
    }
}
