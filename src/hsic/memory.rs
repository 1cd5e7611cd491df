//! Bytes of HSIC. Pure arithmetic: numbers enter, phases leave.
//!
//! For n rows of d features, m features that stand for the kernel (d where none do), r vectors of
//! labels held as q numbers a row, p shuffles at once, b rows a block, t threads, w = t + 1 units
//! in flight:
//!
//! | way | phase | buffer | bytes |
//! |---|---|---|---|
//! | pairs | pairs of rows | all rows | 24·n·d |
//! | | | labels and row sums | 8·n·(q + 4) |
//! | | | orders of the labels | (4·n + 576) a shuffle, and one |
//! | streams | sampling | a sample, three times | 24·10·m·d for m landmarks |
//! | | choosing | m × m comparisons and work area | 32·m² |
//! | | streaming | sums of labels | (w + 1) × 8·r·m |
//! | shuffles | shuffling | labels | 8·q·n |
//! | | | orders and sums | p × (4·n + 8·r·m) |
//! | | | labels of a block | t × 8·b·(2r + q) |

use crate::budget::Phase;
use crate::fit::Approximate;
use crate::fit::cost::{LabelShape, Workload};
use crate::fit::landmarks::sample_rows;
use crate::fit::row_kernel::CHECKED_ON;
use crate::source::Nulls;
use crate::words::count;
use crate::workers::window;

/// Tiles of both kernels that are being compared.
const TILE_BYTES: u64 = 4 << 20;

/// What n rows of d features and q labels hold, with so many shuffles. Saturates: any number may be
/// asked for.
pub(super) fn pairs(n: u64, d: u64, q: u64, shuffles: usize) -> Phase {
    // An order of the labels, its traces, and what 64 tiles in flight add to it.
    let order = n.saturating_mul(4).saturating_add(64 + 64 * 8);
    let orders = (shuffles as u64).saturating_add(1);
    Phase::new("pairs of rows")
        .hold("all rows", 24u64.saturating_mul(n).saturating_mul(d))
        .hold("labels and row sums", 8u64.saturating_mul(n).saturating_mul(q + 4))
        .hold("orders of the labels", order.saturating_mul(orders))
        .hold("tiles", TILE_BYTES)
}

/// Sizes of a pass that holds no row.
#[derive(Clone, Copy)]
pub(super) struct Streaming {
    /// What reading takes.
    pub(super) work: Workload,
    /// What stands for the kernel, if it is not the rows themselves.
    pub(super) by: Option<Approximate>,
    /// Features, or scores of a model, that the kernel is over.
    pub(super) width: u64,
    /// Threads that add up shuffles.
    pub(super) workers: u64,
}

/// The labels of all rows, and what is summed of them.
#[derive(Clone, Copy)]
pub(super) struct HeldLabels {
    /// Bytes of them.
    pub(super) bytes: u64,
    /// Vectors that are summed: classes, or label features.
    pub(super) vectors: u64,
    /// Shuffles in all.
    pub(super) shuffles: u64,
}

impl Streaming {
    /// Numbers that stand for a row.
    pub(super) fn features(&self) -> u64 {
        match self.by {
            None => self.width,
            Some(Approximate::Landmarks { count, .. }) => (count as u64).min(self.work.n.max(1)),
            Some(Approximate::Fourier(m)) => m as u64,
        }
    }

    fn sample(&self) -> u64 {
        self.by.map_or(0, |by| (sample_rows(by.landmarks(), false) as u64).min(self.work.n))
    }

    /// The pass for a sample and the labels.
    pub(super) fn sampling(&self, threads: usize, labels: u64) -> Phase {
        let (d, sample) = (self.work.d.max(self.width), self.sample());
        let blocks = (3 * threads as u64 + 3).saturating_mul(16 * self.work.block_rows() * d);
        self.work
            .reading("sampling", threads, self.work.d)
            .hold("batches and blocks", blocks)
            // Row by row, as a matrix, and prepared.
            .hold(format!("a sample of {sample} rows"), 24 * sample * self.width)
            .hold("labels", labels)
    }

    /// What stands for the kernel is chosen and compared with it.
    pub(super) fn choosing(&self, labels: u64) -> Phase {
        let (m, checked) = (self.features(), CHECKED_ON as u64);
        let square = if self.by.is_some_and(|by| by.landmarks() > 0) { m } else { 0 };
        Phase::new("choosing")
            .hold("the sample", 16 * self.sample() * self.width)
            .hold(
                format!("{m} × {m} comparisons, vectors and work area"),
                crate::solve::whole_bytes(square),
            )
            .hold("the check", 8 * checked * (4 * checked + 3 * m))
            .hold("labels", labels)
    }

    /// Rows of a block read, prepared and turned into features on every worker.
    fn mapping(&self, name: &'static str, threads: usize) -> Phase {
        let (t, d, rows) = (threads as u64, self.work.d, self.work.block_rows());
        let (m, width) = (self.features(), self.width);
        let phase = self
            .work
            .reading(name, threads, d)
            .hold("batches and blocks", t.saturating_mul(24 * rows * d))
            .hold("prepared rows", t.saturating_mul(16 * rows * width));
        match self.by {
            None => phase,
            Some(by) => {
                let whitening = if by.landmarks() > 0 { 16 * m * m } else { 8 * m * width };
                phase
                    .hold(format!("comparisons with {m}"), t.saturating_mul(16 * rows * m))
                    .hold("the sample and the whitening", 8 * self.sample() * width + whitening)
            }
        }
    }

    /// The pass that adds up labels and features.
    pub(super) fn adding_up(&self, threads: usize, labels: LabelShape) -> Phase {
        let (m, rows) = (self.features(), self.work.block_rows());
        let mapped = Workload { d: m, nulls: Nulls::Error, ..self.work };
        let sums = mapped.sums(false, Some(labels));
        let (held, busy) = (sums.bytes(0), sums.bytes(rows));
        let flying = window(threads) as u64 + 1;
        let bytes = held.saturating_mul(flying).saturating_add((busy - held) * threads as u64);
        self.mapping("streaming", threads).hold(format!("sums with {m} features"), bytes)
    }

    /// A pass that adds up labels in some orders at once.
    pub(super) fn shuffling(&self, threads: usize, labels: HeldLabels, at_once: u64) -> Phase {
        let (m, rows) = (self.features(), self.work.block_rows());
        let waiting = (window(threads) as u64 + 2).saturating_mul(8 * rows * m);
        let of_block = 8 * rows * (2 * labels.vectors + 8);
        self.mapping("shuffling", threads)
            .hold("features that wait", waiting)
            .hold("labels", labels.bytes)
            .hold("labels of a block", of_block.saturating_mul(self.workers))
            .hold("HSIC of each order", labels.shuffles.saturating_mul(16))
            .hold(
                format!("sums and orders of {}", count(at_once, "shuffle")),
                self.order_bytes(labels).saturating_mul(at_once),
            )
    }

    /// Bytes of one order of the labels, and of its sums.
    pub(super) fn order_bytes(&self, labels: HeldLabels) -> u64 {
        let sums = 8u64.saturating_mul(labels.vectors).saturating_mul(self.features());
        sums.saturating_add(4 * self.work.n)
    }
}
