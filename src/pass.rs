//! The only loops over data: [`fold`] and [`gather`] add rows up, [`map`] turns rows into other rows, [`each`] takes them
//! as they are.
//!
//! Results arrive in file order whatever the number of threads: see [`crate::workers`].

use crate::accumulate::Accumulate;
use crate::error::Result;
use crate::source::{Block, Source, Tally};
use crate::workers::in_order;
pub use crate::workers::{Crew, Output, caught, window};

/// Told how far a pass is: rows and bytes since the last call. Called from workers.
pub trait Watch: Sync {
    /// Some rows of some compressed bytes are done.
    fn advance(&self, rows: u64, bytes: u64);
}

/// A watch that nobody looks at.
pub struct Unwatched;

impl Watch for Unwatched {
    fn advance(&self, _rows: u64, _bytes: u64) {}
}

/// Adds up all rows of a source: one accumulator per unit, merged in unit order.
pub fn fold<A: Accumulate>(
    source: &dyn Source,
    threads: usize,
    watch: &dyn Watch,
    fresh: impl Fn() -> A + Sync,
) -> Result<(A, Tally)> {
    let mut total = fresh();
    let mut tally = Tally::default();
    in_order(
        source.units().len(),
        Crew { threads, queue: 1 },
        |unit, out| {
            let mut part = fresh();
            let mut tally = Tally::default();
            let per_row = bytes_per_row(source, unit);
            for block in source.blocks(unit)? {
                let mut block = block?;
                let seen = std::mem::take(&mut block.tally);
                let rows = seen.rows;
                tally.add(seen);
                part.update(block);
                part.check()?;
                watch.advance(rows, (rows as f64 * per_row) as u64);
            }
            out.give((part, tally));
            Ok(())
        },
        |_, (part, more)| {
            total.merge(part);
            tally.add(more);
            total.check()
        },
    )?;
    Ok((total, tally))
}

/// Adds up all rows of a source in one accumulator: workers read, the caller adds in file order.
pub fn gather<A: Accumulate>(
    source: &dyn Source,
    crew: Crew,
    watch: &dyn Watch,
    mut total: A,
) -> Result<(A, Tally)> {
    let tally = each(source, crew, watch, |block| {
        total.update(block);
        total.check()
    })?;
    Ok((total, tally))
}

/// Takes every block in file order: workers read, the caller takes.
pub fn each(
    source: &dyn Source,
    crew: Crew,
    watch: &dyn Watch,
    mut take: impl FnMut(Block) -> Result<()>,
) -> Result<Tally> {
    each_of_unit(source, crew, watch, |_, block| take(block))
}

/// The same, told which unit a block is of.
pub fn each_of_unit(
    source: &dyn Source,
    crew: Crew,
    watch: &dyn Watch,
    mut take: impl FnMut(usize, Block) -> Result<()>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let give = |_: usize, blocks: &mut dyn Iterator<Item = Result<Block>>, out: &Output<Block>| {
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
pub fn map<P: Send>(
    source: &dyn Source,
    crew: Crew,
    watch: &dyn Watch,
    work: impl Fn(usize, &mut dyn Iterator<Item = Result<Block>>, &Output<P>) -> Result<()> + Sync,
    take: impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    map_from(source, 0, crew, watch, work, take)
}

/// The same from some unit on: those before it are done.
pub fn map_from<P: Send>(
    source: &dyn Source,
    from: usize,
    crew: Crew,
    watch: &dyn Watch,
    work: impl Fn(usize, &mut dyn Iterator<Item = Result<Block>>, &Output<P>) -> Result<()> + Sync,
    mut take: impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    in_order(
        source.units().len().saturating_sub(from),
        crew,
        |unit, out| {
            let unit = from + unit;
            let per_row = bytes_per_row(source, unit);
            let mut blocks = source.blocks(unit)?.inspect(|block| {
                if let Ok(block) = block {
                    watch.advance(block.tally.rows, (block.tally.rows as f64 * per_row) as u64);
                }
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
