//! Where rows go.
//!
//! Workers encode row groups ([`parquet::Encoder`]); a [`Sink`] takes them in order and puts them
//! into files that appear under their name only when everything has been written
//! ([`crate::staged`]).

pub mod parquet;

pub use parquet::{Compression, Encoder, ParquetSink, RowGroup};

use crate::error::Result;

/// Takes encoded row groups in order.
pub trait Sink {
    /// Appends a row group that comes from the given input file; file numbers never go down.
    fn write(&mut self, file: usize, group: RowGroup) -> Result<()>;

    /// Makes the output visible, all of it. Consumes: Parquet without its footer is not a file.
    fn finish(self) -> Result<()>;
}
