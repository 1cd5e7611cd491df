//! What the pages of a unit hold, asked for before they are read.
//!
//! A plan is made of footers and some page headers; a later page, a dictionary or the texts of a
//! block may be any size. Each is asked for here, by what its header claims, before a byte of it is
//! allocated: what fits the plan, or the worker's share of what the plan leaves free
//! ([`ReadLimit`]), goes on, and what does not ends the run with a sentence. Workers share nothing
//! and wait for nobody, so whether a run ends does not depend on who was first.
//!
//! Held: some counters.

use super::table::ReadLimit;
use crate::budget::Bytes;
use crate::error::{Error, Place};
use crate::words::megabytes;
use ::parquet::errors::ParquetError;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Values of lists beyond those of a block that are not asked for: less than a page has that is not
/// made of repetitions.
const FREE_VALUES: u64 = 1 << 20;

/// Bytes of a value of a list while it is decoded: two levels, and a number that may be missing.
pub(crate) const LIST_VALUE: u64 = 12;

/// The bytes of one unit that is being decoded.
#[derive(Debug)]
pub(super) struct UnitMemory {
    limit: ReadLimit,
    /// Rows of a block at most.
    rows: u64,
    /// Values of a row in lists, as planned.
    row_values: u64,
    /// Values of lists in the pages that were read for the block in the making.
    listed: AtomicU64,
    /// Pages and dictionaries of all columns.
    pages: AtomicU64,
    /// Texts of the block in the making, copied out of their pages.
    texts: AtomicU64,
    refusal: OnceLock<Refusal>,
}

/// What did not fit.
#[derive(Debug)]
struct Refusal {
    column: String,
    what: String,
    bytes: u64,
}

impl UnitMemory {
    /// For blocks of so many rows.
    pub(super) fn new(limit: ReadLimit, rows: usize, row_values: u64) -> UnitMemory {
        UnitMemory {
            limit,
            rows: rows as u64,
            row_values,
            listed: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            texts: AtomicU64::new(0),
            refusal: OnceLock::new(),
        }
    }

    /// Rows of a block at most.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The texts and lists of the last block are gone.
    pub(super) fn next_block(&self) {
        self.texts.store(0, Relaxed);
        self.listed.store(0, Relaxed);
    }

    /// Bytes of the values that a page adds to the lists of a block, beyond those it is planned
    /// with. Levels say in a few bytes that a list has a thousand million values.
    pub(super) fn more_list_values(&self, values: u64) -> u64 {
        let all = self.listed.load(Relaxed).saturating_add(values);
        self.listed.store(all, Relaxed);
        let free = self.rows.saturating_mul(self.row_values).saturating_add(FREE_VALUES);
        all.saturating_sub(free).saturating_mul(LIST_VALUE)
    }

    /// Asks for bytes that are needed for a moment beside all that is held.
    pub(super) fn ask(
        &self,
        bytes: u64,
        column: impl FnOnce() -> String,
        what: impl FnOnce() -> String,
    ) -> Result<(), ParquetError> {
        let held = self.pages.load(Relaxed).saturating_add(self.texts.load(Relaxed));
        let bytes = held.saturating_add(bytes);
        if bytes <= self.limit.bytes() {
            return Ok(());
        }
        let refusal =
            self.refusal.get_or_init(|| Refusal { column: column(), what: what(), bytes });
        Err(ParquetError::General(format!("{} does not fit the memory", refusal.what)))
    }

    /// A page or dictionary takes the place of another.
    pub(super) fn replace(&self, before: u64, after: u64) {
        let pages = self.pages.load(Relaxed).saturating_sub(before).saturating_add(after);
        self.pages.store(pages, Relaxed);
    }

    /// More texts for this block.
    pub(super) fn add_texts(&self, bytes: u64) {
        let texts = self.texts.load(Relaxed).saturating_add(bytes);
        self.texts.store(texts, Relaxed);
    }

    /// Why decoding ended, if it was for want of memory.
    pub(super) fn refusal(&self, path: &Path, row_group: usize) -> Option<Error> {
        let Refusal { column, what, bytes } = self.refusal.get()?;
        let place = Place::file(path).row_group(row_group).column(column);
        let ReadLimit { planned, budget, .. } = self.limit;
        let needs = self.limit.memory_for(*bytes);
        let fewer = if self.limit.threads > 1 { " or fewer ⟦threads⟧" } else { "" };
        Some(Error::Budget {
            what: format!("{place}: {what}, where {} were planned for all pages,", Bytes(planned)),
            needs,
            budget,
            hint: format!("allow ⟦memory={}⟧{fewer}", megabytes(needs)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_plan_and_the_spare_is_refused() {
        let limit = ReadLimit {
            planned: 10_000_000,
            spare: 20_000_000,
            threads: 2,
            shares: 2,
            budget: 100_000_000,
            kept_values: 0,
        };
        let memory = UnitMemory::new(limit, 10, 3);
        let ask = |bytes| memory.ask(bytes, || "x".into(), || "a page of 30.0 MB".into());
        assert!(ask(15_000_000).is_ok());
        memory.replace(0, 15_000_000);
        memory.add_texts(5_000_000);
        assert!(memory.refusal(Path::new("f"), 3).is_none());
        assert!(ask(3_000_000).is_err(), "20 MB, 2 MB of slack");
        memory.next_block();
        assert!(ask(3_000_000).is_ok(), "texts are gone");
        assert_eq!(memory.more_list_values(30 + FREE_VALUES), 0);
        assert_eq!(memory.more_list_values(5), 5 * LIST_VALUE);
        memory.next_block();
        assert_eq!(memory.more_list_values(5), 0);
        let said = memory.refusal(Path::new("f"), 3).unwrap().to_string();
        assert_eq!(
            said,
            "f: row group 3: column 'x': a page of 30.0 MB, where 10.0 MB were planned for all \
             pages, needs 106.0 MB, budget is 100.0 MB; allow memory=106MB or fewer threads"
        );
    }
}
