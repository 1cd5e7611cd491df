//! A source whose rows are turned into others on the way: prepared, scored, or compared with landmarks.
//!
//! Enters: the blocks of a Parquet source. Leaves: as many blocks of as many rows, with the same labels and weights.

use super::{Block, ParquetSource, Source, Unit, Values};
use crate::error::{Place, Result};
use ndarray::Array2;

type Turn<'a> = dyn Fn(Block, &dyn Fn(usize) -> Place) -> Result<Array2<f64>> + Sync + 'a;

/// A source and what is done to its rows.
pub struct Mapped<'a> {
    inner: ParquetSource,
    width: usize,
    turn: Box<Turn<'a>>,
}

impl<'a> Mapped<'a> {
    /// `turn` gives rows of `width` numbers for the rows of a block, whose places it is told.
    pub fn new(
        inner: ParquetSource,
        width: usize,
        turn: impl Fn(Block, &dyn Fn(usize) -> Place) -> Result<Array2<f64>> + Sync + 'a,
    ) -> Mapped<'a> {
        Mapped { inner, width, turn: Box::new(turn) }
    }
}

impl Source for Mapped<'_> {
    fn units(&self) -> &[Unit] {
        self.inner.units()
    }

    fn n_features(&self) -> usize {
        self.width
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let mut read = 0;
        Ok(Box::new(self.inner.blocks(unit)?.map(move |block| {
            let mut block = block?;
            let (labels, weights, tally) =
                (block.labels.take(), block.weights.take(), std::mem::take(&mut block.tally));
            let place = self.inner.places(unit, read, tally.dropped == 0);
            read += tally.rows;
            let values = Values::F64((self.turn)(block, &place)?);
            Ok(Block { values, weights, labels, missing: Vec::new(), kept: None, tally })
        })))
    }
}
