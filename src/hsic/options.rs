//! What can be asked of HSIC: plain values with defaults. Nothing is checked here; [`Hsic::plan`]
//! checks everything against the columns of a table.

use crate::budget::Bytes;
use crate::fit::{ColumnOptions, KernelOptions, LabelOptions, Resources};
use crate::source::Nulls;

/// A measure of dependence: of which columns, on which labels, by which kernels.
///
/// ```
/// use eigenstream::{ArrowTable, Hsic, KernelKind, Quiet};
/// use std::sync::Arc;
///
/// let rows = ndarray::Array2::from_shape_fn((60, 2), |(i, j)| ((i * 7 + j * 5) % 11) as f64);
/// let name = |x: &f64| if *x > 5.0 { "high" } else { "low" };
/// let label = arrow_array::StringArray::from_iter_values(rows.column(0).iter().map(name));
/// let table = ArrowTable::from(rows).with_column("label", Arc::new(label))?;
/// let hsic = Hsic::new(["label"]).kernel(KernelKind::Rbf).permutations(99);
/// let found = hsic.plan(&table, None)?.run(&Quiet)?;
/// assert_eq!(found.p_value(), Some(0.01));
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hsic {
    /// The labels, and the kernel over them.
    pub labels: LabelOptions,
    /// The kernel over the features, and what may stand for it; linear by default.
    pub kernel: KernelOptions,
    /// Which columns are features.
    pub columns: ColumnOptions,
    /// Divide each feature by its standard deviation; a model has scales of its own.
    pub standardize: bool,
    /// Column of frequency weights: a row of weight 3 counts as three equal rows.
    pub weight: Option<String>,
    /// What to do about missing values; a model has a policy of its own.
    pub nulls: Nulls,
    /// Compare all pairs of rows where random features would stand for the kernel over labels.
    pub exact: bool,
    /// How often the labels are shuffled, to tell dependence from chance.
    pub permutations: usize,
    /// Seed of the shuffles.
    pub seed: u64,
    /// Count rows twice that are there twice, in files of the same content; refused otherwise.
    pub allow_duplicates: bool,
    /// Ceilings.
    pub resources: Resources,
}

impl Hsic {
    /// On these labels.
    pub fn new(labels: impl Into<LabelOptions>) -> Hsic {
        Hsic { labels: labels.into(), ..Hsic::default() }
    }

    /// The kernel over the features.
    pub fn kernel(self, kernel: impl Into<KernelOptions>) -> Hsic {
        Hsic { kernel: kernel.into(), ..self }
    }

    /// Names or globs of the features.
    pub fn columns<S: Into<String>>(mut self, include: impl IntoIterator<Item = S>) -> Hsic {
        self.columns.include = include.into_iter().map(Into::into).collect();
        self
    }

    /// Column of frequency weights.
    pub fn weight(self, column: impl Into<String>) -> Hsic {
        Hsic { weight: Some(column.into()), ..self }
    }

    /// Features at unit deviation.
    pub fn standardize(self) -> Hsic {
        Hsic { standardize: true, ..self }
    }

    /// How often the labels are shuffled.
    pub fn permutations(self, permutations: usize) -> Hsic {
        Hsic { permutations, ..self }
    }

    /// Seed of the shuffles.
    pub fn seed(self, seed: u64) -> Hsic {
        Hsic { seed, ..self }
    }

    /// The most memory to use, in bytes.
    pub fn memory(mut self, bytes: u64) -> Hsic {
        self.resources.memory = Some(Bytes(bytes));
        self
    }
}
