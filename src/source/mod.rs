//! Where rows come from.
//!
//! ```text
//! paths ─► inputs ─► footer (schemas, sizes) ─► columns (names → ordered features) ─► parquet ─► Block
//! ```
//!
//! A [`Source`] is cut into [`Unit`]s: one row group, or several neighbouring small ones. The cut
//! depends on the files alone, never on threads or memory, so a fold over units in order gives the
//! same bytes on any machine that computes the same products.

pub mod block;
pub mod columns;
pub mod columnwise;
pub mod dense;
mod densify;
mod direct;
pub mod footer;
mod grid;
pub mod inputs;
pub mod labels;
mod mapped;
pub mod pages;
pub mod parquet;
mod prepare;
pub mod spool;

pub use block::{Block, MissingCell, Nulls, Tally, Values};
pub use columns::{FeatureColumn, Features};
pub use columnwise::Columnwise;
pub use densify::block_of;
pub use footer::{Dataset, FileInfo};
pub use labels::{LabelRead, LabelWant, Labels};
pub use mapped::Mapped;
pub use parquet::{ParquetSource, Want};
pub use prepare::Prepare;
pub use spool::Spool;

use crate::error::Result;
use std::ops::Range;

/// Row groups are gathered into one unit until it has this many rows: small enough to share out,
/// large enough that a merge per unit costs little.
pub const UNIT_ROWS: u64 = 16_384;

/// A piece of the data that one worker reads from start to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Which file of the dataset.
    pub file: usize,
    /// Which row groups of that file.
    pub row_groups: Range<usize>,
    /// The first row, counted within the file.
    pub first_row: u64,
    /// How many rows; of a group of features, how many features.
    pub rows: u64,
    /// Compressed bytes of the row groups, for progress.
    pub bytes: u64,
}

/// Rows that can be read again and again, unit by unit.
pub trait Source: Sync {
    /// The fixed partition, in file order.
    fn units(&self) -> &[Unit];

    /// Features of every block.
    fn n_features(&self) -> usize;

    /// Starts reading one unit afresh.
    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>>;
}

/// Rows per block for d features: about 8 MB of f64, so that the product has depth and the block
/// stays near the cache. With very many features more, up to 64 MB, since starting on a column's next
/// rows costs as much as decoding a hundred. A function of d alone (see [`Source`] on why).
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
        let units = (0..n)
            .step_by(unit_rows.max(1))
            .enumerate()
            .map(|(i, first_row)| {
                let len = (n - first_row).min(unit_rows as u64);
                Unit {
                    file: 0,
                    row_groups: i..i + 1,
                    first_row,
                    rows: len,
                    bytes: len * 8 * rows.ncols() as u64,
                }
            })
            .collect();
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
