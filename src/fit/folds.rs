//! Folds of rows, for cross-validation from sums.

use crate::source::{Block, Table};

/// The most folds.
pub(crate) const MOST_FOLDS: usize = 100;

/// How rows are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folds {
    pub(crate) count: usize,
    pub(crate) seed: u64,
    /// Footer hash of each input; rows in memory have none.
    hashes: Vec<u64>,
}

impl Folds {
    /// For the rows of a table.
    pub(crate) fn of(table: &dyn Table, count: usize, seed: u64) -> Folds {
        let hashes = table.inputs().iter().map(|input| input.footer_hash).collect();
        Folds { count, seed, hashes }
    }

    /// For rows that are in no file.
    pub(crate) fn in_memory(count: usize, seed: u64) -> Folds {
        Folds { count, seed, hashes: Vec::new() }
    }

    /// The rows of each fold, of a block that starts at this row of its input.
    pub(crate) fn split(&self, input: usize, first_row: u64, block: &Block) -> Vec<Block> {
        let hash = self.hashes.get(input).copied().unwrap_or(0);
        let mut rows = vec![Vec::new(); self.count];
        for i in 0..block.rows() {
            rows[fold_of(self.seed, hash, first_row + i as u64, self.count)].push(i);
        }
        rows.iter().map(|rows| block.select_rows(rows)).collect()
    }
}

/// The fold of a row: a seeded hash of its file's footer and its place there, so that it does not
/// depend on what else is scanned.
pub fn fold_of(seed: u64, footer_hash: u64, row: u64, folds: usize) -> usize {
    let mut h = seed ^ footer_hash.rotate_left(17) ^ row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((h ^ (h >> 31)) % folds as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_even_and_seeded() {
        let mut counts = [0; 5];
        (0..10_000).for_each(|row| counts[fold_of(7, 99, row, 5)] += 1);
        assert!(counts.iter().all(|c| (1_800..2_200).contains(c)), "{counts:?}");
        let folds = |seed| (0..50).map(|r| fold_of(seed, 99, r, 5)).collect::<Vec<_>>();
        assert_ne!(folds(1), folds(2));
    }
}
