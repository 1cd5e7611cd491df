//! A fitted model: everything `transform`, `reconstruct` and the reports need, and nothing of the
//! rows it was fitted on.
//!
//! Holds k·d components and a few vectors of d. Shapes and meanings:
//!
//! | field | shape | is |
//! |---|---|---|
//! | `mean` | d | μ, whether or not it is subtracted (see `center`) |
//! | `scale` | d or none | sample standard deviations |
//! | `components` | k × d | rows of Uᵀ, orthonormal |
//! | `eigenvalues` | all known | of the seed's matrix, without 1/n, descending |

pub mod file;

use crate::accumulate::Moments;
pub use crate::solve::Form;
use crate::solve::rules::{Answer, Components};
use crate::solve::scoring::{Keep, Score};
use crate::solve::supervised::LabelKernel;
use crate::solve::{Certificate, Scaling, Solution};
use crate::source::block::Precision;
use crate::source::labels::ClassValue;
use crate::source::{Dataset, Features, Nulls, Tally};
use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fitted model.
#[derive(Debug, Clone)]
pub struct Model {
    /// What is written as JSON.
    pub header: Header,
    /// μ of the features, whether or not it is subtracted.
    pub mean: Array1<f64>,
    /// What the centred features are divided by.
    pub scale: Option<Array1<f64>>,
    /// Orthonormal rows.
    pub components: Array2<f64>,
    /// Every eigenvalue that is known, descending.
    pub eigenvalues: Array1<f64>,
    /// Values of the constant features that were left out, in the order of their names.
    pub constants: Array1<f64>,
    /// Variance along each kept component, where it is not an eigenvalue over the degrees of freedom.
    pub variances: Option<Array1<f64>>,
    /// Scores of all features that were scored against a label.
    pub feature_scores: Option<Array1<f64>>,
}

/// The part of a model that is not numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `pca`.
    pub method: Method,
    /// How it was computed.
    pub form: Form,
    /// Rows that counted.
    pub n_rows: u64,
    /// Features that have loadings.
    pub features: Features,
    /// The columns as chosen, constants included: what `reconstruct` writes.
    pub columns: Features,
    /// Names of constant features left out by `--standardize`.
    pub left_out: Vec<String>,
    /// True when the mean is subtracted.
    pub center: bool,
    /// True when features are divided by their deviation.
    pub standardize: bool,
    /// Eigenvalues above rounding; null where only the leading ones were computed.
    pub rank: Option<usize>,
    /// Variance of all features together, over the degrees of freedom; null where the pass did not gather it.
    pub total_variance: Option<f64>,
    /// Σw − 1, or n − 1.
    pub degrees_of_freedom: f64,
    /// How k came about.
    pub selection: Selection,
    /// How good the numbers are.
    pub certificate: Certificate,
    /// The policy for missing values and what it met.
    pub nulls: NullReport,
    /// The weights.
    pub weight: Option<Weight>,
    /// Arithmetic of the products.
    pub precision: Precision,
    /// Numbers that f64 rounds, per feature.
    pub rounded: BTreeMap<String, u64>,
    /// Seed of anything random.
    pub seed: Option<u64>,
    /// The labels of a supervised model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelReport>,
    /// HSIC of the kept scores with the labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hsic: Option<f64>,
    /// What was read.
    pub ledger: Vec<LedgerEntry>,
    /// The program's version.
    pub version: String,
}

/// `--method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Principal component analysis.
    #[default]
    Pca,
    /// Supervised PCA: the directions that depend most on the labels (HSIC).
    Spca,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Method::Pca => "pca",
            Method::Spca => "spca",
        })
    }
}

/// The labels of a supervised model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelReport {
    /// The columns.
    pub columns: Vec<String>,
    /// The kernel over them.
    pub kernel: LabelKernel,
    /// γ of the rbf kernel.
    pub gamma: Option<f64>,
    /// Random Fourier features that stand for it, if any.
    pub features: Option<usize>,
    /// About how far an entry of K_y is off for that.
    pub approximation: Option<f64>,
    /// How many classes, or distinct labels, where they were counted.
    pub n_classes: Option<usize>,
    /// The classes, unless there are very many.
    pub classes: Vec<ClassReport>,
    /// Each kept component's share of the dependence that all directions have.
    pub hsic_share: Vec<f64>,
    /// Rows without a label.
    pub unlabelled: u64,
}

/// A class of a supervised model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// One value per label column.
    pub class: Vec<ClassValue>,
    /// Rows, or their weight.
    pub weight: f64,
    /// The mean of its scores.
    pub centroid: Vec<f64>,
}

/// How many components were asked for, kept, and would have been kept by the other rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// `-k` as typed.
    pub asked: String,
    /// Components kept.
    pub kept: usize,
    /// What each rule says.
    pub rules: Vec<Answer>,
    /// How features were selected before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring: Option<ScoringReport>,
}

/// How features were selected by their scores against a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoringReport {
    /// The label.
    pub by: String,
    /// True when the label's values are classes.
    pub classes: bool,
    /// By magnitude or not.
    pub score: Score,
    /// What was asked for.
    pub keep: Keep,
    /// Features kept.
    pub kept: usize,
    /// The least score among them.
    pub cut: f64,
    /// All features that were scored; the tensor `feature_scores` has their scores.
    pub candidates: Features,
}

/// Missing values met in the fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NullReport {
    /// The policy; replayed at transform.
    pub policy: Nulls,
    /// Rows left out.
    pub rows_dropped: u64,
    /// Missing cells per feature that had any.
    pub missing: BTreeMap<String, u64>,
}

/// The weights of the fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// The column.
    pub column: String,
    /// Always "frequency": a weight of 3 counts as three equal rows.
    pub kind: String,
    /// Σw.
    pub sum: f64,
}

/// An input of the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// As given.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// xxHash64 of the footer, in hexadecimal.
    pub footer_hash: String,
}

impl LedgerEntry {
    /// One entry per file.
    pub fn of(dataset: &Dataset) -> Vec<LedgerEntry> {
        let entry = |f: &crate::source::FileInfo| LedgerEntry {
            path: f.path.display().to_string(),
            size: f.size,
            rows: f.rows,
            footer_hash: format!("{:016x}", f.footer_hash),
        };
        dataset.files.iter().map(entry).collect()
    }
}

/// What a fit knows besides sums and solution.
#[derive(Debug, Clone)]
pub struct Provenance {
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
    /// Variance of all features, where it is not the trace of what was decomposed.
    pub total_variance: Option<f64>,
    /// Variance along each component, likewise.
    pub variances: Option<Array1<f64>>,
    /// How features were selected before.
    pub scoring: Option<ScoringReport>,
    /// The scores of all of them.
    pub feature_scores: Option<Array1<f64>>,
    /// What was read.
    pub ledger: Vec<LedgerEntry>,
    /// What must be told.
    pub tally: Tally,
}

impl Model {
    /// Puts a model together.
    pub fn new(sums: &Moments, solution: Solution, from: Provenance) -> Model {
        let d = from.columns.len();
        let inactive: Vec<usize> = {
            let active: std::collections::HashSet<usize> = solution.active.iter().copied().collect();
            (0..d).filter(|j| !active.contains(j)).collect()
        };
        let freedom = sums.weight - 1.0;
        let by_name =
            |counts: &BTreeMap<u32, u64>| counts.iter().map(|(j, count)| (from.columns.name(*j as usize), *count)).collect();
        let header = Header {
            method: from.method,
            form: solution.form,
            n_rows: sums.rows,
            features: from.columns.without(&inactive),
            left_out: inactive.iter().map(|j| from.columns.name(*j)).collect(),
            center: from.scaling.center,
            standardize: from.scaling.standardize,
            rank: solution.rank,
            total_variance: from.total_variance.or((from.method == Method::Pca).then_some(solution.trace / freedom)),
            degrees_of_freedom: freedom,
            selection: Selection {
                asked: from.asked.to_string(),
                kept: solution.components.nrows(),
                rules: solution.rules.answers(),
                scoring: from.scoring,
            },
            certificate: solution.certificate,
            nulls: NullReport { policy: from.nulls, rows_dropped: from.tally.dropped, missing: by_name(&from.tally.missing) },
            weight: from.weight.map(|column| Weight { column, kind: "frequency".into(), sum: sums.weight }),
            precision: from.precision,
            rounded: by_name(&from.tally.rounded),
            seed: from.seed,
            label: from.label,
            hsic: from.hsic,
            ledger: from.ledger,
            version: env!("CARGO_PKG_VERSION").into(),
            columns: from.columns,
        };
        Model {
            header,
            mean: sums.mean.select(ndarray::Axis(0), &solution.active),
            scale: solution.scale,
            components: solution.components,
            eigenvalues: solution.eigenvalues,
            constants: sums.mean.select(ndarray::Axis(0), &inactive),
            variances: from.variances,
            feature_scores: from.feature_scores,
        }
    }

    /// For each feature of the chosen columns, its value if it was constant and left out.
    pub fn constant_features(&self) -> Vec<Option<f64>> {
        let names = self.header.left_out.iter().map(String::as_str);
        let constants: std::collections::HashMap<&str, f64> = names.zip(self.constants.iter().copied()).collect();
        self.header.columns.names().map(|name| constants.get(name.as_str()).copied()).collect()
    }

    /// Number of features (d).
    pub fn n_features(&self) -> usize {
        self.mean.len()
    }

    /// Number of components kept (k).
    pub fn n_components(&self) -> usize {
        self.components.nrows()
    }

    /// Variance along each kept component; `None` where the pass did not gather it.
    pub fn explained_variance(&self) -> Option<Vec<f64>> {
        match (&self.variances, self.header.method) {
            (Some(variances), _) => Some(variances.to_vec()),
            (None, Method::Pca) => {
                Some(self.eigenvalues.iter().take(self.n_components()).map(|v| v / self.header.degrees_of_freedom).collect())
            }
            (None, Method::Spca) => None,
        }
    }

    /// Their share of the total variance.
    pub fn explained_variance_ratio(&self) -> Option<Vec<f64>> {
        let total = self.header.total_variance?;
        Some(self.explained_variance()?.iter().map(|v| v / total).collect())
    }
}
