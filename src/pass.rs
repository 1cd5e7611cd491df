//! The loops over rows: [`fold`] and [`gather`] add them up, [`map`] turns them into other rows,
//! [`each`] takes them as they are.
//!
//! Results arrive in file order whatever the number of threads: see [`crate::workers`]. (Two loops
//! are elsewhere: a source read by features gathers its own blocks, and `generate` makes rows.)

use crate::accumulate::Accumulate;
use crate::error::Result;
use crate::listen::Watch;
use crate::source::{Block, Source, Tally};
use crate::workers::{Crew, Output, in_order};

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
    map(source, crew, watch, give, |unit, mut block| {
        tally.add(std::mem::take(&mut block.tally));
        take(unit, block)
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
/// The watch is told of every block, and may end the pass with it.
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
            let per_row = bytes_per_row(source, unit);
            let mut blocks = source.blocks(unit)?.map(|block| {
                let block = block?;
                let rows = block.tally.rows;
                watch.advance(rows, (rows as f64 * per_row) as u64)?;
                Ok(block)
            });
            work(unit, &mut blocks, out)
        },
        |unit, piece| take(from + unit, piece),
    )
}

fn bytes_per_row(source: &dyn Source, unit: usize) -> f64 {
    let unit = &source.units()[unit];
    unit.bytes as f64 / unit.rows.max(1) as f64
}
