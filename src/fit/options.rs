//! What can be asked of a fit: plain values with defaults. Nothing is checked here; [`Fit::plan`]
//! checks everything against the columns of a table.

use super::basis::GivenBasis;
use crate::budget::Bytes;
use crate::kernel::{Kernel, KernelKind};
use crate::model::Method;
use crate::solve::Form;
use crate::solve::rules::Components;
use crate::solve::scoring::{Keep, Score};
use crate::solve::supervised::LabelKernel;
use crate::source::{Features, Nulls, Precision};
use ndarray::Array2;
use std::path::PathBuf;
use std::sync::Arc;

/// Random Fourier features that stand for an rbf kernel over many distinct labels.
pub(crate) const DEFAULT_LABEL_FEATURES: usize = 1_000;

/// The most passes over the data of an iteration, or products with a kernel matrix.
pub(crate) const DEFAULT_MAX_PASSES: usize = 30;

/// The degree of a polynomial kernel.
pub(crate) const DEFAULT_DEGREE: u32 = 3;

/// A fit: which method, on which columns, how.
///
/// ```
/// use eigenstream::{ArrowTable, Fit, Quiet};
///
/// // Points near the line y = 2x, far from the origin.
/// let rows = ndarray::array![[100.0, 200.0], [101.0, 202.1], [102.0, 203.9], [103.0, 206.0]];
/// let table = ArrowTable::from(rows);
/// let model = Fit::pca().components(1).plan(&table)?.run(&Quiet)?;
/// let u = model.components().unwrap();
/// assert_eq!(model.mean[0], 101.5);
/// assert!((u[[0, 1]] / u[[0, 0]] - 2.0).abs() < 0.05);
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fit {
    /// The method.
    pub method: Method,
    /// The form; by default the plan chooses the cheapest that fits.
    pub form: Option<Form>,
    /// How many components.
    pub components: Components,
    /// Directions that are kept as they are, with their features; see [`Fit::along`].
    pub basis: Option<GivenBasis>,
    /// Which columns are features.
    pub columns: ColumnOptions,
    /// What is done to them.
    pub scaling: ScalingOptions,
    /// The column of frequency weights: a row of weight 3 counts as three equal rows.
    pub weight: Option<String>,
    /// What to do about missing values.
    pub nulls: Nulls,
    /// Arithmetic of the products.
    pub precision: Precision,
    /// The labels of spca and kspca.
    pub labels: LabelOptions,
    /// The kernel of kpca and kspca.
    pub kernel: KernelOptions,
    /// Keep only the features that score best against a label, whatever the method.
    pub scoring: Option<ScoringOptions>,
    /// When an iteration stops.
    pub iteration: IterationOptions,
    /// Seed of everything random.
    pub seed: u64,
    /// Count rows twice that are there twice, in files of the same content; refused otherwise.
    pub allow_duplicates: bool,
    /// Ceilings.
    pub resources: Resources,
}

/// Which columns are features.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnOptions {
    /// Names or globs; empty for all numeric columns.
    pub include: Vec<String>,
    /// Names or globs of those that are not.
    pub exclude: Vec<String>,
    /// These features in this order, whatever else there is: those of sums that rows are added to.
    pub exactly: Option<Features>,
}

/// What is done to the features before the decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalingOptions {
    /// Subtract the mean (false: latent semantic analysis).
    pub center: bool,
    /// Divide by the sample standard deviation.
    pub standardize: bool,
    /// Of kspca: subtract the mean of the training scores, which are Θᵀk otherwise.
    pub center_scores: bool,
}

impl Default for ScalingOptions {
    fn default() -> ScalingOptions {
        ScalingOptions { center: true, standardize: false, center_scores: false }
    }
}

/// Labels, and the kernel over them. Constants that are not given have defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LabelOptions {
    /// The columns.
    pub columns: Vec<String>,
    /// By default delta for text, bools and classes, linear for numbers.
    pub kernel: Option<LabelKernel>,
    /// γ of rbf and poly; by default 1 over the number of columns.
    pub gamma: Option<f64>,
    /// c of poly, (γ yᵀy' + c)^p; by default 0.
    pub coef0: Option<f64>,
    /// p of poly; by default 3.
    pub degree: Option<u32>,
    /// Random Fourier features that stand for rbf over numbers. By default it is exact up to 1,000
    /// distinct labels, and 1,000 features stand for it where there are more.
    pub features: Option<usize>,
    /// Numbers are classes: equal or not.
    pub classes: bool,
    /// Of spca: gather the covariance too, to tell each component's share of the variance.
    pub with_variance: bool,
    /// The matrix of a kernel over labels that is given.
    pub given: Option<GivenLabels>,
}

/// A kernel over labels as a matrix, one row and one column for each row of the data.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenLabels {
    /// What the model calls it.
    pub name: String,
    /// K_y.
    pub matrix: Arc<Array2<f64>>,
}

impl From<GivenLabels> for LabelOptions {
    fn from(given: GivenLabels) -> LabelOptions {
        let kernel = Some(LabelKernel::Precomputed);
        LabelOptions { kernel, given: Some(given), ..LabelOptions::default() }
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for LabelOptions {
    fn from(columns: [S; N]) -> LabelOptions {
        LabelOptions {
            columns: columns.into_iter().map(Into::into).collect(),
            ..LabelOptions::default()
        }
    }
}

impl From<&str> for LabelOptions {
    fn from(column: &str) -> LabelOptions {
        LabelOptions::from([column])
    }
}

/// A kernel over rows, and what may stand for it. Constants that are not given have defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelOptions {
    /// By default rbf for kpca and kspca, linear for HSIC.
    pub kind: Option<KernelKind>,
    /// γ of rbf, c₁ of poly and sigmoid; by default 1 over the number of features.
    pub gamma: Option<Gamma>,
    /// Another way to say γ of rbf: 1 / (2σ²).
    pub sigma: Option<f64>,
    /// c₂ of poly and sigmoid, c₁ of linear; by default 0.
    pub coef0: Option<f64>,
    /// c₃ of poly; by default 3.
    pub degree: Option<u32>,
    /// What stands for the kernel, if it is not the kernel itself.
    pub approximation: Option<Approximate>,
    /// Learn a map back from scores to rows, by ridge regression.
    pub preimage: bool,
}

impl From<KernelKind> for KernelOptions {
    fn from(kind: KernelKind) -> KernelOptions {
        KernelOptions { kind: Some(kind), ..KernelOptions::default() }
    }
}

impl From<Kernel> for KernelOptions {
    fn from(kernel: Kernel) -> KernelOptions {
        let (coef0, degree) = match kernel {
            Kernel::Linear { coef0 } | Kernel::Sigmoid { coef0, .. } => (Some(coef0), None),
            Kernel::Poly { coef0, degree, .. } => (Some(coef0), Some(degree)),
            _ => (None, None),
        };
        let gamma = kernel.gamma().map(Gamma::Value);
        KernelOptions { gamma, coef0, degree, ..KernelOptions::from(kernel.kind()) }
    }
}

/// γ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gamma {
    /// A number greater than 0.
    Value(f64),
    /// 1 over twice the median squared distance of a seeded sample.
    Median,
}

/// What stands for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approximate {
    /// Comparisons with this many rows (Nyström).
    Landmarks {
        /// How many.
        count: usize,
        /// How they are chosen from a seeded sample.
        choice: LandmarkChoice,
    },
    /// This many random Fourier features, for rbf.
    Fourier(usize),
}

/// How landmarks are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum LandmarkChoice {
    /// Each far from those before it (k-means++).
    #[default]
    #[cfg_attr(feature = "cli", value(name = "kmeans++"))]
    KMeans,
    /// Any row as likely as another.
    Uniform,
}

impl LandmarkChoice {
    /// As a model records it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LandmarkChoice::KMeans => "kmeans++",
            LandmarkChoice::Uniform => "uniform",
        }
    }
}

/// Which features are kept by their score against a label.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringOptions {
    /// The label.
    pub by: String,
    /// How many, or how good.
    pub keep: Keep,
    /// By magnitude or as it is.
    pub score: Score,
    /// Score centred columns (true) or raw ones; by default as the method centres.
    pub center: Option<bool>,
}

/// When an iteration stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IterationOptions {
    /// The largest residual over the first eigenvalue; by default 1e-6, of kernels 1e-8.
    pub tolerance: Option<f64>,
    /// The most passes over the data, or products with a kernel matrix.
    pub max_passes: usize,
    /// Keep components that miss the tolerance; the model says which.
    pub allow_unconverged: bool,
}

impl Default for IterationOptions {
    fn default() -> IterationOptions {
        IterationOptions {
            tolerance: None,
            max_passes: DEFAULT_MAX_PASSES,
            allow_unconverged: false,
        }
    }
}

/// Ceilings. Results do not depend on them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    /// The most memory to use; by default a quarter of the machine's.
    pub memory: Option<Bytes>,
    /// Worker threads; by default one per core.
    pub threads: Option<usize>,
    /// Where temporary files go; by default the system's place for them.
    pub temp_dir: Option<PathBuf>,
}

impl Resources {
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(cores)
    }

    pub(crate) fn temp_dir(&self) -> PathBuf {
        self.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Cores of the machine: the BLAS threads of a decomposition, since their number may change the
/// last digits and so must not be an option.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Fit {
    /// PCA: the directions of largest variance.
    pub fn pca() -> Fit {
        Fit::default()
    }

    /// Supervised PCA: the directions that depend most on the labels (HSIC).
    ///
    /// ```
    /// use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
    /// use eigenstream::{ArrowTable, Fit, Quiet};
    /// use std::sync::Arc;
    ///
    /// let x: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 0.1, 5.0, 5.1]));
    /// let noise: ArrayRef = Arc::new(Float64Array::from(vec![9.0, -9.0, 9.0, -9.0]));
    /// let kind: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "b", "b"]));
    /// let batch = RecordBatch::try_from_iter([("x", x), ("noise", noise), ("kind", kind)])?;
    /// let table = ArrowTable::from(batch);
    /// let model = Fit::spca(["kind"]).components(1).plan(&table)?.run(&Quiet)?;
    /// assert!(model.components().unwrap()[[0, 0]] > 0.999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spca(labels: impl Into<LabelOptions>) -> Fit {
        Fit { method: Method::Spca, labels: labels.into(), ..Fit::default() }
    }

    /// Kernel PCA.
    ///
    /// ```
    /// use eigenstream::{ArrowTable, Fit, Kernel, Quiet};
    ///
    /// let ring = |r: f64, i: usize| [r * (i as f64).cos(), r * (i as f64).sin()];
    /// let rows = (0..40).map(|i| ring(if i % 2 == 0 { 1.0 } else { 4.0 }, i));
    /// let rows = ndarray::Array2::from(rows.collect::<Vec<_>>());
    /// let table = ArrowTable::from(rows.clone());
    /// let model =
    ///     Fit::kpca(Kernel::Rbf { gamma: 0.5 }).components(2).plan(&table)?.run(&Quiet)?;
    /// let scores = model.transform(&eigenstream::matrix_batch(rows))?;
    /// assert_eq!((scores.num_rows(), scores.num_columns()), (40, 2));
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn kpca(kernel: impl Into<KernelOptions>) -> Fit {
        Fit { method: Method::Kpca, kernel: kernel.into(), ..Fit::default() }
    }

    /// Kernel supervised PCA.
    ///
    /// ```
    /// use eigenstream::{ArrowTable, Fit, KernelKind, Quiet};
    ///
    /// let rows = ndarray::Array2::from_shape_fn((30, 3), |(i, j)| ((i * 7 + j * 5) % 11) as f64);
    /// let label = (0..30).map(|i| if i % 3 == 0 { "yes" } else { "no" });
    /// let label = arrow_array::StringArray::from_iter_values(label);
    /// let table = ArrowTable::from(rows).with_column("label", std::sync::Arc::new(label))?;
    /// let model = Fit::kspca(KernelKind::Rbf, ["label"]).plan(&table)?.run(&Quiet)?;
    /// assert_eq!(model.n_components(), 1); // two classes differ in one direction
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn kspca(kernel: impl Into<KernelOptions>, labels: impl Into<LabelOptions>) -> Fit {
        let (kernel, labels) = (kernel.into(), labels.into());
        Fit { method: Method::Kspca, kernel, labels, ..Fit::default() }
    }

    /// How many components: a number, or any of [`Components`].
    pub fn components(self, components: impl Into<Components>) -> Fit {
        Fit { components: components.into(), ..self }
    }

    /// The form, instead of the one the plan would choose.
    pub fn form(self, form: Form) -> Fit {
        Fit { form: Some(form), ..self }
    }

    /// Names or globs of the features.
    pub fn columns<S: Into<String>>(mut self, include: impl IntoIterator<Item = S>) -> Fit {
        self.columns.include = include.into_iter().map(Into::into).collect();
        self
    }

    /// Names or globs of columns that are not features.
    pub fn exclude<S: Into<String>>(mut self, exclude: impl IntoIterator<Item = S>) -> Fit {
        self.columns.exclude = exclude.into_iter().map(Into::into).collect();
        self
    }

    /// Keep only the features that score best against a label, then fit as if there were no others.
    ///
    /// ```
    /// use eigenstream::{ArrowTable, Fit, Keep, Quiet};
    ///
    /// let rows = ndarray::Array2::from_shape_fn((20, 4), |(i, j)| ((i * 3 + j * j) % 7) as f64);
    /// let y = arrow_array::Float64Array::from_iter_values(rows.column(2).iter().copied());
    /// let table = ArrowTable::from(rows).with_column("y", std::sync::Arc::new(y))?;
    /// let model = Fit::pca().score_by("y", Keep::Features(1)).plan(&table)?.run(&Quiet)?;
    /// assert_eq!(model.header.features.names().collect::<Vec<_>>(), ["x[2]"]);
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn score_by(self, label: impl Into<String>, keep: Keep) -> Fit {
        let scoring =
            ScoringOptions { by: label.into(), keep, score: Score::default(), center: None };
        Fit { scoring: Some(scoring), ..self }
    }

    /// Do not subtract the mean.
    pub fn uncentered(mut self) -> Fit {
        self.scaling.center = false;
        self
    }

    /// Divide each feature by its standard deviation.
    pub fn standardize(mut self) -> Fit {
        self.scaling.standardize = true;
        self
    }

    /// Of kspca: subtract the mean of the training scores.
    pub fn center_scores(mut self) -> Fit {
        self.scaling.center_scores = true;
        self
    }

    /// The column of frequency weights.
    pub fn weight(self, column: impl Into<String>) -> Fit {
        Fit { weight: Some(column.into()), ..self }
    }

    /// What to do about missing values.
    pub fn nulls(self, nulls: Nulls) -> Fit {
        Fit { nulls, ..self }
    }

    /// Arithmetic of the products.
    pub fn precision(self, precision: Precision) -> Fit {
        Fit { precision, ..self }
    }

    /// Seed of everything random.
    pub fn seed(self, seed: u64) -> Fit {
        Fit { seed, ..self }
    }

    /// The most memory to use, in bytes.
    pub fn memory(mut self, bytes: u64) -> Fit {
        self.resources.memory = Some(Bytes(bytes));
        self
    }

    /// Worker threads.
    pub fn threads(mut self, threads: usize) -> Fit {
        self.resources.threads = Some(threads);
        self
    }

    /// True when it is supervised PCA with K_y = I, which is plain (or kernel) PCA.
    pub(crate) fn is_identity(&self) -> bool {
        self.method.is_supervised() && self.labels.kernel == Some(LabelKernel::Identity)
    }

    /// True when labels are read: of a supervised method whose kernel looks at them.
    pub(crate) fn reads_labels(&self) -> bool {
        self.method.is_supervised() && !self.is_identity()
    }
}
