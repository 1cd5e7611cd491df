//! The one pass that adds up [`Sums`]: for a fit, for a scan, from a checkpoint on, into folds.
//!
//! Enters: a source and the kind of sums. Leaves: the sums, in unit order, and what was met on the
//! way. Holds one set of sums per unit in flight; where one S is shared by all threads, that one
//! and the blocks that wait for it.

use super::folds::Folds;
use crate::accumulate::{Accumulate, FeatureMoments, Sums, SumsKind};
use crate::error::Result;
use crate::listen::{Listener, Watch};
use crate::pass;
use crate::source::{Block, Source, Tally};
use crate::workers::{Crew, Output};

/// A pass that adds up.
pub(crate) struct SumsPass<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) kind: &'a SumsKind,
    /// How rows are shared out; `None` into one.
    pub(crate) folds: Option<&'a Folds>,
    pub(crate) threads: usize,
    /// What the listener is told that it does.
    pub(crate) work: &'static str,
    pub(crate) listener: &'a dyn Listener,
}

/// What has been added up after some units.
pub(crate) struct UnitProgress<'a> {
    /// Units that are in the sums, all of them whole.
    pub(crate) units: usize,
    pub(crate) sums: &'a [Sums],
    /// What those units have met.
    pub(crate) seen: &'a Tally,
}

/// Told after units; may save what there is.
pub(crate) type AfterUnit<'a> = dyn FnMut(UnitProgress<'_>) -> Result<()> + 'a;

impl SumsPass<'_> {
    /// One set of sums of all rows.
    pub(crate) fn whole(&self) -> Result<(Sums, Tally)> {
        let (mut sums, tally) = self.run(vec![Sums::new(self.kind)], 0, &mut |_| Ok(()))?;
        Ok((sums.swap_remove(0), tally))
    }

    /// Adds the units from `from` on to sums that have those before, one per fold.
    pub(crate) fn run(
        &self,
        start: Vec<Sums>,
        from: usize,
        after: &mut AfterUnit<'_>,
    ) -> Result<(Vec<Sums>, Tally)> {
        let mut adding = Adding { sums: start, seen: Tally::default() };
        match self.kind.is_shared() {
            true => self.add_blocks(&mut adding, from, after)?,
            false => self.add_units(&mut adding, from, after)?,
        }
        Ok((adding.sums, adding.seen))
    }

    fn watch(&self, from: usize) -> Watch<'_> {
        Watch::new(self.listener, pass::stage(self.work, "rows", self.source, from))
    }

    fn crew(&self) -> Crew {
        Crew { threads: self.threads, queue: 1 }
    }

    fn fresh(&self) -> Vec<Sums> {
        (0..self.folds.map_or(1, |f| f.count)).map(|_| Sums::new(self.kind)).collect()
    }

    /// Workers add up units of their own.
    fn add_units(&self, adding: &mut Adding, from: usize, after: &mut AfterUnit<'_>) -> Result<()> {
        let work =
            |unit: usize, blocks: &mut pass::Blocks<'_>, out: &Output<(Vec<Sums>, Tally)>| {
                let (mut parts, mut tally) = (self.fresh(), Tally::default());
                for block in blocks {
                    let mut block = block?;
                    let more = std::mem::take(&mut block.tally);
                    let split = self.split(unit, tally.rows, block);
                    tally.add(more);
                    for (sums, part) in parts.iter_mut().zip(split) {
                        sums.update(part);
                        sums.check()?;
                    }
                }
                out.give((parts, tally));
                Ok(())
            };
        pass::map_from(
            self.source,
            from,
            self.crew(),
            &self.watch(from),
            work,
            |unit, (parts, more)| {
                adding.sums.iter_mut().zip(parts).for_each(|(all, part)| all.merge(part));
                adding.seen.add(more);
                adding.sums.iter().try_for_each(Accumulate::check)?;
                after(UnitProgress { units: unit + 1, sums: &adding.sums, seen: &adding.seen })
            },
        )
    }

    /// One S of many features: workers read, the caller adds.
    fn add_blocks(
        &self,
        adding: &mut Adding,
        from: usize,
        after: &mut AfterUnit<'_>,
    ) -> Result<()> {
        let work =
            |unit: usize, blocks: &mut pass::Blocks<'_>, out: &Output<(Vec<Block>, Tally)>| {
                let mut read = 0;
                for block in blocks {
                    let mut block = block?;
                    let more = std::mem::take(&mut block.tally);
                    let first = read;
                    read += more.rows;
                    out.give((self.split(unit, first, block), more));
                }
                Ok(())
            };
        let mut current = from;
        pass::take_from(
            self.source,
            from,
            self.crew(),
            &self.watch(from),
            work,
            |unit, (parts, more)| {
                if unit > current {
                    after(UnitProgress { units: unit, sums: &adding.sums, seen: &adding.seen })?;
                    current = unit;
                }
                adding.sums.iter_mut().zip(parts).for_each(|(sums, part)| sums.update(part));
                let rows = more.rows;
                adding.seen.add(more);
                adding.sums.iter().try_for_each(Accumulate::check).map(|()| rows)
            },
        )
    }

    /// The rows of each fold, of a block after so many rows of its unit.
    fn split(&self, unit: usize, read: u64, block: Block) -> Vec<Block> {
        let Some(folds) = self.folds else { return vec![block] };
        let unit = &self.source.units()[unit];
        folds.split(unit.input, unit.first_row + read, &block)
    }
}

struct Adding {
    sums: Vec<Sums>,
    seen: Tally,
}

/// The moments of all rows, in one pass: for cells that take means which must be known first.
pub(crate) fn feature_moments(
    source: &dyn Source,
    threads: usize,
    listener: &dyn Listener,
) -> Result<(crate::accumulate::Moments, Tally)> {
    let fresh = || FeatureMoments::new(source.n_features());
    let watch = Watch::new(listener, pass::stage("reading means", "rows", source, 0));
    let (sums, tally) = pass::fold(source, threads, &watch, fresh)?;
    Ok((sums.finish(), tally))
}
