//! The part of a model that is not numbers: what its JSON header says.

use super::{Form, Model, Provenance};
use crate::accumulate::Moments;
use crate::kernel::Kernel;
use crate::solve::rules::RuleAnswer;
use crate::solve::scoring::{Keep, Score};
use crate::solve::supervised::LabelKernel;
use crate::solve::{Certificate, Solution};
use crate::source::block::Precision;
use crate::source::labels::ClassValue;
use crate::source::{Features, InputInfo, Nulls, Table};
use crate::words::path_text;
use ndarray::Array2;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The part of a model that is not numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Which of the four.
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
    /// Variance of all features together, over the degrees of freedom; null where the pass did not
    /// gather it.
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
    /// The kernel over rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelReport>,
    /// Where the components are from, if they were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<BasisReport>,
    /// What was read.
    pub ledger: Vec<InputEntry>,
    /// The program's version.
    pub version: String,
}

/// The method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Principal component analysis.
    #[default]
    Pca,
    /// Supervised PCA: the directions that depend most on the labels (HSIC).
    Spca,
    /// Kernel PCA.
    Kpca,
    /// Kernel supervised PCA.
    Kspca,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Method::Pca => "pca",
            Method::Spca => "spca",
            Method::Kpca => "kpca",
            Method::Kspca => "kspca",
        })
    }
}

impl Method {
    /// True when rows are compared by a kernel.
    pub fn is_kernel(self) -> bool {
        matches!(self, Method::Kpca | Method::Kspca)
    }

    /// True when labels say what is looked for.
    pub fn is_supervised(self) -> bool {
        matches!(self, Method::Spca | Method::Kspca)
    }
}

/// The kernel of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Its name and constants.
    #[serde(flatten)]
    pub kernel: Kernel,
    /// Where γ comes from: "given", "default" (1 over the features) or "median".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gamma_from: Option<String>,
    /// Rows that new ones are compared with.
    pub rows: usize,
    /// Mean of the kernel over all pairs; 0 where scores are not centred.
    pub grand_mean: f64,
    /// Negative eigenvalues that were left out.
    pub negative_eigenvalues: usize,
    /// True when there may be more of them.
    pub negative_at_least: bool,
    /// What stands for the kernel, if it is not the kernel itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximation: Option<Approximation>,
    /// The way back from scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preimage: Option<PreimageReport>,
}

impl KernelReport {
    /// Of the kernel itself, over no rows, with nothing left out.
    pub fn new(kernel: Kernel, gamma_from: Option<String>) -> KernelReport {
        KernelReport {
            kernel,
            gamma_from,
            rows: 0,
            grand_mean: 0.0,
            negative_eigenvalues: 0,
            negative_at_least: false,
            approximation: None,
            preimage: None,
        }
    }
}

/// What stands for a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approximation {
    /// "landmarks" or "fourier".
    pub kind: String,
    /// How landmarks were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// Landmarks, or random features.
    pub size: usize,
    /// Their rank.
    pub rank: usize,
    /// Rows of the sample that the error was measured on.
    pub sample: usize,
    /// ‖K̂ − K‖ / ‖K‖ of the centred kernel over that sample (Frobenius).
    pub error: f64,
}

/// A learned way back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreimageReport {
    /// γ over scores.
    pub gamma: f64,
    /// The ridge, over the mean of the diagonal.
    pub ridge: f64,
    /// The share of the rows' spread that it does not bring back, on rows it was not learned from.
    pub loss: f64,
}

/// The labels of a supervised model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelReport {
    /// The columns.
    pub columns: Vec<String>,
    /// The kernel over them.
    pub kernel: LabelKernel,
    /// γ of the rbf and the poly kernel.
    pub gamma: Option<f64>,
    /// c of the poly kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coef0: Option<f64>,
    /// p of the poly kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degree: Option<u32>,
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
    pub rules: Vec<RuleAnswer>,
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
    /// True when centred columns were scored. Older models do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub center: Option<bool>,
    /// What was asked for.
    pub keep: Keep,
    /// Features kept.
    pub kept: usize,
    /// The least score among them.
    pub cut: f64,
    /// All features that were scored; the tensor `feature_scores` has their scores.
    pub candidates: Features,
}

/// Where the components of a model are from that were not found in its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasisReport {
    /// The file, where it was one.
    pub path: Option<String>,
    /// The method that found them.
    pub method: Method,
    /// The rows that it found them in.
    pub n_rows: u64,
    /// xxHash64 of all components that were given, in hexadecimal.
    pub hash: String,
}

impl BasisReport {
    /// Of the directions u of a model, which may have been given to it.
    pub(crate) fn of(model: &Model, u: &Array2<f64>) -> BasisReport {
        use std::hash::Hasher;
        let mut hash = twox_hash::XxHash64::with_seed(0);
        u.iter().for_each(|v| hash.write(&v.to_le_bytes()));
        let hash = format!("{:016x}", hash.finish());
        let Header { method, n_rows, basis, .. } = &model.header;
        match basis {
            Some(found) => BasisReport { path: None, hash, ..found.clone() },
            None => BasisReport { path: None, method: *method, n_rows: *n_rows, hash },
        }
    }
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

impl Weight {
    fn frequency(column: String, sum: f64) -> Weight {
        Weight { column, kind: "frequency".into(), sum }
    }
}

/// An input of the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputEntry {
    /// As given.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// xxHash64 of the footer, in hexadecimal.
    pub footer_hash: String,
    /// The same of bytes of its data pages; files of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_hash: Option<String>,
}

impl InputEntry {
    /// True when it is the same content: an empty file is only itself.
    pub fn is_same(&self, other: &InputEntry) -> bool {
        let content = (self.size, self.rows, &self.footer_hash)
            == (other.size, other.rows, &other.footer_hash);
        let data = match (&self.data_hash, &other.data_hash) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        content && data && (self.rows > 0 || self.path == other.path)
    }

    /// One entry per file.
    pub fn of(table: &dyn Table) -> Vec<InputEntry> {
        let entry = |f: &InputInfo| InputEntry {
            path: path_text(&f.path),
            size: f.size,
            rows: f.rows,
            footer_hash: format!("{:016x}", f.footer_hash),
            data_hash: Some(format!("{:016x}", f.data_hash)),
        };
        table.inputs().iter().map(entry).collect()
    }
}

impl Header {
    pub(super) fn new(
        sums: &Moments,
        solution: &Solution,
        inactive: &[usize],
        kernel: Option<KernelReport>,
        from: Provenance,
    ) -> Header {
        let freedom = sums.weight - 1.0;
        let by_name = |counts: &BTreeMap<u32, u64>| {
            counts.iter().map(|(j, count)| (from.columns.name(*j as usize), *count)).collect()
        };
        let trace = (!from.method.is_supervised()).then_some(solution.trace / freedom);
        Header {
            method: from.method,
            form: solution.form,
            n_rows: sums.rows,
            features: from.columns.without(inactive),
            left_out: inactive.iter().map(|j| from.columns.name(*j)).collect(),
            center: from.scaling.center,
            standardize: from.scaling.standardize,
            rank: solution.rank,
            total_variance: from.total_variance.or(trace),
            degrees_of_freedom: freedom,
            selection: Selection {
                asked: from.asked.to_string(),
                kept: solution.components.nrows(),
                rules: solution.rules.answers(from.asked),
                scoring: from.scoring,
            },
            certificate: solution.certificate.clone(),
            nulls: NullReport {
                policy: from.nulls,
                rows_dropped: from.tally.dropped,
                missing: by_name(&from.tally.missing),
            },
            weight: from.weight.map(|column| Weight::frequency(column, sums.weight)),
            precision: from.precision,
            rounded: by_name(&from.tally.rounded),
            seed: from.seed,
            label: from.label,
            hsic: from.hsic,
            kernel,
            basis: None,
            ledger: from.ledger,
            version: env!("CARGO_PKG_VERSION").into(),
            columns: from.columns,
        }
    }
}
