//! Where rows come from.
//!
//! ```text
//! paths ─► inputs ─► Dataset (footers) ┐
//! record batches, matrix ─► ArrowTable ├ Table ─► column_choice (names → features) ─► ReadRequest
//! any reader of batches ─► ReaderTable ┘   └────── ReadRequest ─► Source (units) ─► Block
//! ```
//!
//! A [`Table`] is asked what it has and what reading costs; a [`Source`] reads what was requested
//! of it. It is cut into [`Unit`]s: of Parquet one row group, or several neighbouring small ones.
//! The cut depends on the data alone, never on threads or memory, so a fold over units in order
//! gives the same bytes on any machine that computes the same products.

mod arrow;
pub(crate) mod batch_reader;
pub(crate) mod block;
mod column_choice;
pub(crate) mod columnwise;
mod common_type;
mod content;
mod dataset;
mod decompress;
pub(crate) mod dense;
mod densify;
mod direct;
mod features;
pub(crate) mod footer;
mod globs;
mod grid;
mod gzip;
mod id_columns;
pub(crate) mod inputs;
pub(crate) mod labels;
mod layout;
mod mapped;
mod matrix;
mod nested;
mod numbers;
mod page_reader;
mod pages;
pub(crate) mod parquet;
mod partitions;
mod positions;
mod pread;
mod prepare;
mod read_cost;
mod reader;
mod schema_merge;
mod shard;
pub(crate) mod spool;
mod table;
#[cfg(test)]
mod tests;
mod thrift;
mod unit_memory;
mod whole_labels;

pub use arrow::{ArrowTable, matrix_batch};
pub use block::{Block, MissingCell, Nulls, Precision, Tally, Values};
pub(crate) use column_choice::ColumnChoice;
pub use column_choice::ColumnSelection;
pub use content::FileStamp;
pub use dataset::Dataset;
pub use features::{FeatureColumn, Features};
pub use labels::{Class, ClassValue, LabelRead, LabelRequest, Labels};
pub use matrix::{MatrixOwner, MatrixTable, MatrixView};
pub use reader::{OpenedReader, ReaderTable};
pub use shard::Shard;
pub use table::{ColumnInfo, ColumnKind, ColumnOrigin, Difference, InputInfo, ReadCost, ReadLimit};
pub use table::{ReadRequest, Table, WidenedColumn};
pub use whole_labels::WholeLabels;

pub(crate) use batch_reader::BatchReader;
#[cfg(feature = "cli")]
pub(crate) use column_choice::nearest;
pub(crate) use column_choice::{covers_column, matching, named_column, named_columns};
pub(crate) use column_choice::{unknown, widened_among};
pub(crate) use columnwise::Columnwise;
pub(crate) use common_type::converted;
pub(crate) use dataset::refuse_replacing;
pub(crate) use id_columns::is_index_name;
pub(crate) use mapped::{MappedSource, UnitSubset, places};
pub(crate) use nested::field_by_name;
pub(crate) use prepare::Prepare;
pub(crate) use spool::{Spool, Storage};
pub(crate) use table::place_of;
pub(crate) use unit_memory::LIST_VALUE;

use crate::error::{Place, Result};

/// Row groups are gathered into one unit until it has this many rows: small enough to share out,
/// large enough that a merge per unit costs little.
pub(crate) const UNIT_ROWS: u64 = 16_384;

/// A piece of the data that one worker reads from start to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Which of [`Table::inputs`] it is a part of; 0 where the table lists none.
    pub input: usize,
    /// The first row, counted within the input; of a group of features, the first feature.
    pub first_row: u64,
    /// How many rows; of a group of features, how many features.
    pub rows: u64,
    /// Its stored bytes, for progress.
    pub bytes: u64,
}

/// Rows that can be read again and again, unit by unit.
pub trait Source: Sync {
    /// The fixed partition, in the order of the data.
    fn units(&self) -> &[Unit];

    /// Features of every block.
    fn n_features(&self) -> usize;

    /// Starts reading one unit afresh.
    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>>;

    /// Where a row is, counted within the unit as it is read, before any is left out.
    fn place(&self, _unit: usize, _row: u64) -> Place {
        Place::default()
    }
}

/// What points to a source is one.
macro_rules! forward_source {
    ($pointer:ty) => {
        impl<S: Source + ?Sized> Source for $pointer {
            fn units(&self) -> &[Unit] {
                (**self).units()
            }

            fn n_features(&self) -> usize {
                (**self).n_features()
            }

            fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
                (**self).blocks(unit)
            }

            fn place(&self, unit: usize, row: u64) -> Place {
                (**self).place(unit, row)
            }
        }
    };
}

forward_source!(Box<S>);
forward_source!(&S);

/// Rows per block for d features: about 8 MB of f64, so that the product has depth and the block
/// stays near the cache. With very many features more, up to 64 MB, since starting on a column's
/// next rows costs as much as decoding a hundred. A function of d alone (see [`Source`] on why).
pub fn block_rows(d: usize) -> usize {
    let d = d.max(1);
    let least = ((1 << 23) / d).clamp(8, 128);
    ((1 << 20) / d).clamp(least, 4096)
}

/// A matrix in memory as a source: for tests, examples and small data.
#[derive(Debug, Clone)]
pub struct InMemory {
    rows: ndarray::Array2<f64>,
    units: Vec<Unit>,
}

impl InMemory {
    /// One unit per `unit_rows` rows.
    pub fn new(rows: ndarray::Array2<f64>, unit_rows: usize) -> InMemory {
        let n = rows.nrows() as u64;
        let unit = |first_row: u64| {
            let len = (n - first_row).min(unit_rows as u64);
            Unit { input: 0, first_row, rows: len, bytes: len * 8 * rows.ncols() as u64 }
        };
        let units = (0..n).step_by(unit_rows.max(1)).map(unit).collect();
        InMemory { rows, units }
    }
}

impl Source for InMemory {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn n_features(&self) -> usize {
        self.rows.ncols()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let Unit { first_row, rows, .. } = self.units[unit];
        let range = first_row as usize..(first_row + rows) as usize;
        let block = Block::dense(self.rows.slice(ndarray::s![range, ..]).to_owned());
        Ok(Box::new(std::iter::once(Ok(block))))
    }
}
