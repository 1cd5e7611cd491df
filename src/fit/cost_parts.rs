//! What forms have in common: blocks on their way, and a decomposition. See the table of
//! [`super::cost`].

use super::cost::Workload;
use super::options::cores;
use crate::accumulate::{LabelSumsKind, SumsKind};
use crate::budget::Phase;
use crate::source::block_rows;
use crate::workers::window;

impl Workload {
    /// Rows of a block (b): as many as suit what is decoded, and no more than there are.
    pub(crate) fn block_rows(&self) -> u64 {
        let elements = self.d.max(self.read.row_elements);
        (block_rows(elements as usize) as u64).min(self.n.max(1))
    }

    /// A block that a worker makes: rows as they are decoded, and dense.
    pub(super) fn block_bytes(&self) -> u64 {
        let row = (8 * self.d).saturating_add(self.read.row_bytes);
        self.block_rows().saturating_mul(row)
    }

    /// Blocks of a pass whose caller takes them as they are: of each worker one being made, those
    /// that wait, and one in use.
    pub(super) fn blocks_in_flight(&self, threads: usize) -> u64 {
        let waiting = window(threads) as u64 + 1;
        let dense = 8 * self.block_rows().saturating_mul(self.d);
        let made = self.block_bytes().saturating_mul(threads as u64);
        made.saturating_add(dense.saturating_mul(waiting))
    }
}

/// A matrix of this order, which takes so many bytes, is decomposed.
pub(super) fn decomposition(of: &str, order: u64, bytes: u64) -> Phase {
    Phase::new("decomposition")
        .hold(format!("{order} × {order} {of}, vectors and work area"), bytes)
        .hold("work areas of BLAS", blas_bytes(order))
}

/// What BLAS packs of a matrix of this order, on all cores, beyond what the program has anyway:
/// panels of some hundred columns, in buffers that are never returned (measured with what lies
/// between them: 9 to 12 MB a core from 1,500 on).
pub(super) fn blas_bytes(order: u64) -> u64 {
    cores() as u64 * (12 << 20).min(8 * 768 * order)
}

/// How a plan calls sums.
pub(super) fn sums_text(sums: &SumsKind) -> String {
    let d = sums.features;
    match &sums.labels {
        None if sums.is_factor() => format!("factors of {d} × {d} products"),
        None if sums.is_shared() => format!("the {d} × {d} sum of products"),
        None => format!("sums of {d} × {d} products"),
        Some(LabelSumsKind::Classes(limit)) => {
            format!("sums of {} classes × {d} features", limit.classes)
        }
        Some(LabelSumsKind::Numbers(map)) => {
            format!("sums of {} label features × {d} features", map.len())
        }
    }
}
