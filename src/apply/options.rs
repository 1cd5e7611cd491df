//! What can be asked of a second pass: plain values with defaults. Nothing is checked here;
//! [`Transform::plan`] and [`Reconstruct::plan`] check everything against a model and a table.

use crate::budget::Bytes;
use crate::fit::Resources;
use crate::source::{Nulls, Shard};
use std::fmt;

/// What score columns are called: `pc1`, `pc2`, ….
pub(crate) const DEFAULT_PREFIX: &str = "pc";

/// Columns of the input that are passed through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeepColumns {
    /// None.
    #[default]
    None,
    /// These, in this order.
    Columns(Vec<String>),
    /// All but those that are computed under the same name.
    All,
}

/// Shape of the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Layout {
    /// pc1, pc2, …
    #[default]
    Columns,
    /// One FixedSizeList column.
    List,
}

/// Type of computed columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Dtype {
    /// Double.
    #[default]
    F64,
    /// Single.
    F32,
}

/// What a second pass does with a row that has a missing (null or NaN) feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum RowNulls {
    /// Stop and name the first one.
    Error,
    /// Leave the row out.
    Drop,
    /// Put the training mean.
    Mean,
    /// Keep the row, with nulls for all that is computed: output and input have the same rows.
    Null,
}

impl From<Nulls> for RowNulls {
    fn from(fitted: Nulls) -> RowNulls {
        match fitted {
            Nulls::Error => RowNulls::Error,
            Nulls::Drop => RowNulls::Drop,
            Nulls::Mean => RowNulls::Mean,
        }
    }
}

impl RowNulls {
    /// How the rows are read: a cell that has no value is known in a block that was not to drop it.
    pub(super) fn read(self) -> Nulls {
        match self {
            RowNulls::Error => Nulls::Error,
            RowNulls::Drop => Nulls::Drop,
            RowNulls::Mean | RowNulls::Null => Nulls::Mean,
        }
    }
}

/// From scores of a kernel model to rows that come near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Preimage {
    /// Mika's iteration, for the rbf kernel.
    FixedPoint,
    /// The map that a fit with a ridge pre-image has learned.
    Ridge,
}

impl fmt::Display for Preimage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preimage::FixedPoint => "fixed-point",
            Preimage::Ridge => "ridge",
        })
    }
}

/// Rows → scores.
///
/// ```
/// use eigenstream::{ArrowTable, Fit, Layout, Quiet, Transform};
///
/// let rows = ndarray::Array2::from_shape_fn((50, 4), |(i, j)| ((i * 7 + j * 3) % 13) as f64);
/// let id = arrow_array::Int64Array::from_iter_values(0..50);
/// let table = ArrowTable::from(rows).with_column("id", std::sync::Arc::new(id))?;
/// let model = Fit::pca().columns(["x"]).components(2).plan(&table)?.run(&Quiet)?;
///
/// let mut scores = Vec::new();
/// let transform = Transform::default().keep(["id"]).layout(Layout::List);
/// let applied = transform.plan(&model, &table)?.run(&mut scores, &Quiet)?;
/// assert_eq!(applied.rows_written, 50);
/// assert_eq!(scores[0].schema().field(1).name(), "pc");
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Transform {
    /// Only the first so many components; by default all of the model.
    pub components: Option<usize>,
    /// Columns passed through.
    pub keep: KeepColumns,
    /// One column per component, or one of lists.
    pub layout: Layout,
    /// Type of the scores.
    pub dtype: Dtype,
    /// What score columns are called.
    pub prefix: String,
    /// Add `reconstruction_error` and `hotelling_t2`; the second only where the model has the
    /// variance along its components.
    pub diagnostics: bool,
    /// Add x − x̂: a column `residual_…` for each that was fitted, or with lists one `residual`.
    pub residuals: bool,
    /// Divide the scores along each component by their standard deviation in the fit.
    pub whiten: bool,
    /// The numeric columns stand for the fitted ones in their order, whatever they are called.
    pub by_position: bool,
    /// Only these rows of the files: see [`Shard`].
    pub shard: Option<Shard>,
    /// What to do about missing values; by default what the model was fitted with.
    pub nulls: Option<RowNulls>,
    /// Ceilings.
    pub resources: Resources,
}

impl Default for Transform {
    fn default() -> Transform {
        Transform {
            components: None,
            keep: KeepColumns::None,
            layout: Layout::default(),
            dtype: Dtype::default(),
            prefix: DEFAULT_PREFIX.into(),
            diagnostics: false,
            residuals: false,
            whiten: false,
            by_position: false,
            shard: None,
            nulls: None,
            resources: Resources::default(),
        }
    }
}

/// Rows, or scores → rows as the components see them.
///
/// ```
/// use eigenstream::{ArrowTable, Fit, ParquetOutput, Quiet, Reconstruct};
///
/// let rows = ndarray::Array2::from_shape_fn((50, 4), |(i, j)| ((i * 7 + j * 3) % 13) as f64);
/// let table = ArrowTable::from(rows);
/// let model = Fit::pca().components(2).plan(&table)?.run(&Quiet)?;
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("restored.parquet");
/// let output = ParquetOutput::new(path);
/// Reconstruct::default().components(1).plan(&model, &table)?.write_parquet(&output, &Quiet)?;
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Reconstruct {
    /// Only the first so many components; by default all of the model.
    pub components: Option<usize>,
    /// Columns passed through.
    pub keep: KeepColumns,
    /// Type of the numbers.
    pub dtype: Dtype,
    /// What score columns are called, where scores are read.
    pub prefix: String,
    /// The table has scores instead of rows.
    pub from_scores: bool,
    /// They are whitened: each over its standard deviation in the fit.
    pub whitened: bool,
    /// The numeric columns stand for the fitted ones in their order, whatever they are called.
    pub by_position: bool,
    /// Of a kernel model: how to come near the rows.
    pub preimage: Option<Preimage>,
    /// What to do about missing values; by default what the model was fitted with, and an error
    /// among scores.
    pub nulls: Option<RowNulls>,
    /// Ceilings.
    pub resources: Resources,
}

impl Default for Reconstruct {
    fn default() -> Reconstruct {
        Reconstruct {
            components: None,
            keep: KeepColumns::None,
            dtype: Dtype::default(),
            prefix: DEFAULT_PREFIX.into(),
            from_scores: false,
            whitened: false,
            by_position: false,
            preimage: None,
            nulls: None,
            resources: Resources::default(),
        }
    }
}

/// The setters that both have.
macro_rules! output_setters {
    ($options:ident) => {
        impl $options {
            /// Only the first so many components.
            pub fn components(self, components: usize) -> $options {
                $options { components: Some(components), ..self }
            }

            /// Columns that are passed through.
            pub fn keep<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> $options {
                let columns = columns.into_iter().map(Into::into).collect();
                $options { keep: KeepColumns::Columns(columns), ..self }
            }

            /// Pass all columns through.
            pub fn keep_all(self) -> $options {
                $options { keep: KeepColumns::All, ..self }
            }

            /// Type of the computed numbers.
            pub fn dtype(self, dtype: Dtype) -> $options {
                $options { dtype, ..self }
            }

            /// What score columns are called.
            pub fn prefix(self, prefix: impl Into<String>) -> $options {
                $options { prefix: prefix.into(), ..self }
            }

            /// The numeric columns stand for the fitted ones in their order, whatever they are
            /// called.
            pub fn by_position(self) -> $options {
                $options { by_position: true, ..self }
            }

            /// What to do about missing values.
            pub fn nulls(self, nulls: RowNulls) -> $options {
                $options { nulls: Some(nulls), ..self }
            }

            /// The most memory to use, in bytes.
            pub fn memory(mut self, bytes: u64) -> $options {
                self.resources.memory = Some(Bytes(bytes));
                self
            }

            /// Worker threads.
            pub fn threads(mut self, threads: usize) -> $options {
                self.resources.threads = Some(threads);
                self
            }
        }
    };
}

output_setters!(Transform);
output_setters!(Reconstruct);

impl Transform {
    /// One column per component, or one of lists.
    pub fn layout(self, layout: Layout) -> Transform {
        Transform { layout, ..self }
    }

    /// Add `reconstruction_error` and `hotelling_t2`.
    pub fn diagnostics(self) -> Transform {
        Transform { diagnostics: true, ..self }
    }

    /// Divide the scores along each component by their standard deviation in the fit.
    ///
    /// ```
    /// use arrow_array::{cast::AsArray, types::Float64Type};
    /// use eigenstream::{ArrowTable, Fit, Quiet, Transform, matrix_batch};
    ///
    /// let rows = ndarray::Array2::from_shape_fn((50, 3), |(i, j)| ((i * 7 + j * 3) % 13) as f64);
    /// let model = Fit::pca().components(1).plan(&ArrowTable::from(rows.clone()))?.run(&Quiet)?;
    /// let white = model.transform_with(&Transform::default().whiten(), &matrix_batch(rows))?;
    /// let squares: f64 =
    ///     white.column(0).as_primitive::<Float64Type>().values().iter().map(|z| z * z).sum();
    /// assert!((squares / 49.0 - 1.0).abs() < 1e-12);
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn whiten(self) -> Transform {
        Transform { whiten: true, ..self }
    }

    /// Add what the components leave of each row, x − x̂, as columns.
    pub fn residuals(self) -> Transform {
        Transform { residuals: true, ..self }
    }
}

impl Reconstruct {
    /// The table has scores instead of rows.
    pub fn from_scores(self) -> Reconstruct {
        Reconstruct { from_scores: true, ..self }
    }

    /// The scores are whitened.
    pub fn whitened(self) -> Reconstruct {
        Reconstruct { whitened: true, ..self }
    }

    /// Of a kernel model: how to come near the rows.
    pub fn preimage(self, preimage: Preimage) -> Reconstruct {
        Reconstruct { preimage: Some(preimage), ..self }
    }
}
