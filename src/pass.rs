//! The loops over rows: [`fold`] and [`gather`] add them up, [`map`] turns them into other rows,
//! [`each`] takes them as they are.
//!
//! Results arrive in file order whatever the number of threads: see [`crate::workers`]. (Two loops
//! are elsewhere: a source read by features gathers its own blocks, and `generate` makes rows.)

use crate::accumulate::Accumulate;
use crate::error::Result;
use crate::listen::{Stage, Watch};
use crate::source::{Block, Source, Tally, Unit};
use crate::workers::{Crew, Output, in_order};
use std::borrow::Cow;

/// The blocks of one unit.
pub(crate) type Blocks<'a> = dyn Iterator<Item = Result<Block>> + 'a;

/// Adds up all rows of a source: one accumulator per unit, merged in unit order.
pub fn fold<A: Accumulate>(
    source: &dyn Source,
    threads: usize,
    watch: &Watch<'_>,
    fresh: impl Fn() -> A + Sync,
) -> Result<(A, Tally)> {
    let mut total = fresh();
    let mut tally = Tally::default();
    let work = |_: usize, blocks: &mut Blocks<'_>, out: &Output<(A, Tally)>| {
        let (mut part, mut tally) = (fresh(), Tally::default());
        for block in blocks {
            let mut block = block?;
            tally.add(std::mem::take(&mut block.tally));
            part.update(block);
            part.check()?;
        }
        out.give((part, tally));
        Ok(())
    };
    map(source, Crew { threads, queue: 1 }, watch, work, |_, (part, more)| {
        total.merge(part);
        tally.add(more);
        total.check()
    })?;
    Ok((total, tally))
}

/// Adds up all rows of a source in one accumulator: workers read, the caller adds in file order.
pub(crate) fn gather<A: Accumulate>(
    source: &dyn Source,
    crew: Crew,
    watch: &Watch<'_>,
    mut total: A,
) -> Result<(A, Tally)> {
    let tally = each(source, crew, watch, |block| {
        total.update(block);
        total.check()
    })?;
    Ok((total, tally))
}

/// Takes every block in file order: workers read, the caller takes.
pub(crate) fn each(
    source: &dyn Source,
    crew: Crew,
    watch: &Watch<'_>,
    mut take: impl FnMut(Block) -> Result<()>,
) -> Result<Tally> {
    each_of_unit(source, crew, watch, |_, block| take(block))
}

/// The same, told which unit a block is of.
pub(crate) fn each_of_unit(
    source: &dyn Source,
    crew: Crew,
    watch: &Watch<'_>,
    mut take: impl FnMut(usize, Block) -> Result<()>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let give = |_: usize, blocks: &mut Blocks<'_>, out: &Output<Block>| {
        for block in blocks {
            out.give(block?);
        }
        Ok(())
    };
    take_from(source, 0, crew, watch, give, |unit, mut block| {
        let more = std::mem::take(&mut block.tally);
        let rows = more.rows;
        tally.add(more);
        take(unit, block)?;
        Ok(rows)
    })?;
    Ok(tally)
}

/// Turns every unit into pieces (`work` gives as many as it likes) and takes them in order.
pub(crate) fn map<P: Send>(
    source: &dyn Source,
    crew: Crew,
    watch: &Watch<'_>,
    work: impl Fn(usize, &mut Blocks<'_>, &Output<P>) -> Result<()> + Sync,
    take: impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    map_from(source, 0, crew, watch, work, take)
}

/// The same from some unit on: those before it are done.
///
/// The watch is told of a block when its worker wants the next one, and may end the pass then: for
/// work that is done by the workers.
pub(crate) fn map_from<P: Send>(
    source: &dyn Source,
    from: usize,
    crew: Crew,
    watch: &Watch<'_>,
    work: impl Fn(usize, &mut Blocks<'_>, &Output<P>) -> Result<()> + Sync,
    mut take: impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    in_order(
        source.units().len().saturating_sub(from),
        crew,
        |unit, out| {
            let unit = from + unit;
            let mut blocks = source.blocks(unit)?;
            let (mut read, mut finished) = (UnitBytes::default(), 0);
            let mut told = std::iter::from_fn(|| {
                if let Err(error) = read.tell(&source.units()[unit], finished, watch) {
                    return Some(Err(error));
                }
                finished = 0;
                let block = blocks.next()?;
                finished = block.as_ref().map_or(0, |block| block.tally.rows);
                Some(block)
            });
            work(unit, &mut told, out)
        },
        |unit, piece| take(from + unit, piece),
    )
}

/// The same for work that is done by who takes the pieces, and tells how many rows each is of.
pub(crate) fn take_from<P: Send>(
    source: &dyn Source,
    from: usize,
    crew: Crew,
    watch: &Watch<'_>,
    work: impl Fn(usize, &mut Blocks<'_>, &Output<P>) -> Result<()> + Sync,
    mut take: impl FnMut(usize, P) -> Result<u64>,
) -> Result<()> {
    let (mut current, mut read) = (0, UnitBytes::default());
    in_order(
        source.units().len().saturating_sub(from),
        crew,
        |unit, out| work(from + unit, &mut *source.blocks(from + unit)?, out),
        |unit, piece| {
            if unit != current {
                (current, read) = (unit, UnitBytes::default());
            }
            let rows = take(from + unit, piece)?;
            read.tell(&source.units()[from + unit], rows, watch)
        },
    )
}

/// Reading the units of a source from some one on.
pub(crate) fn stage(
    work: impl Into<Cow<'static, str>>,
    noun: &'static str,
    source: &dyn Source,
    from: usize,
) -> Stage {
    let units = source.units().get(from..).unwrap_or_default();
    let bytes = units.iter().map(|unit| unit.bytes).sum();
    Stage { bytes, ..Stage::new(work, noun, units.iter().map(|unit| unit.rows).sum()) }
}

/// Rows of a unit that are done, and their share of its bytes.
#[derive(Default)]
struct UnitBytes {
    rows: u64,
    bytes: u64,
}

impl UnitBytes {
    /// So many rows more are done.
    fn tell(&mut self, unit: &Unit, rows: u64, watch: &Watch<'_>) -> Result<()> {
        self.rows += rows;
        let share = u128::from(unit.bytes) * u128::from(self.rows) / u128::from(unit.rows.max(1));
        let bytes = (share as u64).saturating_sub(self.bytes);
        self.bytes += bytes;
        watch.advance(rows, bytes)
    }
}
