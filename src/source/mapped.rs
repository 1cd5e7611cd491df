//! Sources over other sources: rows turned into others on the way, or some of the units only.
//!
//! Enters: blocks. Leaves: as many blocks of as many rows, with the same labels and weights. Held:
//! nothing beside the block.

use super::{Block, Shard, Source, Unit, Values};
use crate::error::{Place, Result};
use ndarray::Array2;
use std::ops::Range;

type Turn<'a> = dyn Fn(Block, &dyn Fn(usize) -> Place) -> Result<Array2<f64>> + Sync + 'a;

/// A source and what is done to its rows: prepared, scored, or compared with landmarks.
pub(crate) struct MappedSource<'a> {
    inner: Box<dyn Source + 'a>,
    width: usize,
    turn: Box<Turn<'a>>,
}

impl<'a> MappedSource<'a> {
    /// `turn` gives rows of `width` numbers for the rows of a block, whose places it is told.
    pub(crate) fn new(
        inner: impl Source + 'a,
        width: usize,
        turn: impl Fn(Block, &dyn Fn(usize) -> Place) -> Result<Array2<f64>> + Sync + 'a,
    ) -> MappedSource<'a> {
        MappedSource { inner: Box::new(inner), width, turn: Box::new(turn) }
    }
}

impl Source for MappedSource<'_> {
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
            let (labels, weights) = (block.labels.take(), block.weights.take());
            let tally = std::mem::take(&mut block.tally);
            let place = places(&*self.inner, unit, read, tally.dropped == 0);
            read += tally.rows;
            let values = Values::F64((self.turn)(block, &place)?);
            Ok(Block { values, weights, labels, missing: Vec::new(), kept: None, tally })
        })))
    }

    fn place(&self, unit: usize, row: u64) -> Place {
        self.inner.place(unit, row)
    }
}

/// Where the rows of a block are, the first of them after so many of the unit; without the row
/// where rows before it may be missing.
pub(crate) fn places(
    source: &dyn Source,
    unit: usize,
    read: u64,
    exact: bool,
) -> impl Fn(usize) -> Place + use<'_> {
    move |row| {
        let place = source.place(unit, read + row as u64);
        if exact { place } else { Place { row: None, ..place } }
    }
}

/// Some units of a source.
pub(crate) struct UnitSubset<'a> {
    inner: &'a dyn Source,
    units: Vec<Unit>,
    /// Which unit of the inner source each is.
    positions: Vec<usize>,
}

impl<'a> UnitSubset<'a> {
    /// The units of a shard; all of them without one.
    pub(crate) fn of_shard(inner: &'a dyn Source, shard: Option<Shard>) -> UnitSubset<'a> {
        let all = inner.units();
        UnitSubset::range(inner, shard.map_or(0..all.len(), |shard| shard.units(all)))
    }

    fn range(inner: &'a dyn Source, units: Range<usize>) -> UnitSubset<'a> {
        UnitSubset {
            inner,
            units: inner.units()[units.clone()].to_vec(),
            positions: units.collect(),
        }
    }

    /// Only the units of inputs that are not done.
    pub(crate) fn without_inputs(inner: &'a dyn Source, done: &[bool]) -> UnitSubset<'a> {
        let is_left = |(_, unit): &(usize, &Unit)| !done.get(unit.input).copied().unwrap_or(false);
        let left = inner.units().iter().enumerate().filter(is_left);
        let (positions, units) = left.map(|(at, unit)| (at, unit.clone())).unzip();
        UnitSubset { inner, units, positions }
    }
}

impl Source for UnitSubset<'_> {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn n_features(&self) -> usize {
        self.inner.n_features()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        self.inner.blocks(self.positions[unit])
    }

    fn place(&self, unit: usize, row: u64) -> Place {
        self.inner.place(self.positions[unit], row)
    }
}
