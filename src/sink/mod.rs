//! Where rows go.
//!
//! ```text
//! worker: record batches of a unit ─► piece ─┐
//! worker: record batches of a unit ─► piece ─┼─► Sink, in the order of the input
//! ```
//!
//! A piece is a record batch as it is, or what a worker has made of some: for Parquet a whole row
//! group, encoded and compressed ([`parquet::Encoder`]), so that the sink only copies bytes into
//! files that appear under their name when everything has been written ([`crate::staged`]).

pub(crate) mod parquet;
#[cfg(feature = "cli")]
mod table;

pub use parquet::{Compression, ParquetOutput};
pub(crate) use parquet::{Encoder, ParquetSink};
#[cfg(feature = "cli")]
pub(crate) use table::write_table;

use crate::error::Result;
use arrow_array::RecordBatch;

/// Takes pieces in order; record batches unless it says otherwise.
///
/// ```
/// use arrow_array::RecordBatch;
/// use eigenstream::Sink;
///
/// /// Only counts.
/// struct Counter<'a>(&'a mut usize);
///
/// impl Sink for Counter<'_> {
///     fn write(&mut self, _input: usize, batch: RecordBatch) -> eigenstream::Result<()> {
///         *self.0 += batch.num_rows();
///         Ok(())
///     }
///
///     fn finish(self) -> eigenstream::Result<()> {
///         Ok(())
///     }
/// }
/// ```
pub trait Sink<P = RecordBatch> {
    /// Takes a piece that comes from the given input; the numbers of inputs never go down.
    fn write(&mut self, input: usize, piece: P) -> Result<()>;

    /// All is written: makes the output visible. A sink that is dropped without it leaves nothing
    /// behind.
    fn finish(self) -> Result<()>;
}

/// Keeps the batches. Those before a failure stay in it.
impl Sink for &mut Vec<RecordBatch> {
    fn write(&mut self, _input: usize, batch: RecordBatch) -> Result<()> {
        self.push(batch);
        Ok(())
    }

    fn finish(self) -> Result<()> {
        Ok(())
    }
}
