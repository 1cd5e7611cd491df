//! What a second pass holds, and how many workers that leaves room for. No row is read.
//!
//! With t workers, a window of w units in flight ([`crate::workers::window`]) whose queues hold q
//! pieces each:
//!
//! | held | bytes |
//! |---|---|
//! | footers and pages | what reading takes |
//! | the model | of a kernel model, its rows twice |
//! | comparisons | of a kernel model, a tile a thread |
//! | batches and blocks | t · rows of a block · (16 d + a decoded row + 3 output rows) |
//! | complete rows | with `nulls=null`, as many · (8 d + bytes of an output row) |
//! | column writers | t · a page, a dictionary and a compressor per column |
//! | pieces | (t + w·q) · the bytes of a row group, or of a batch |

use super::plan::{ApplyPlan, Compute};
use crate::budget::{Budget, MemoryPlan, Phase};
use crate::error::Result;
use crate::kernel::Comparer;
use crate::sink::Compression;
use crate::sink::parquet::{group_rows, writer_bytes};
use crate::source::{LIST_VALUE, ReadLimit, block_rows};
use crate::words::megabytes;
use crate::workers::{Crew, window};

/// What workers make of the batches.
#[derive(Debug, Clone, Copy)]
pub(super) enum PieceKind {
    /// Nothing.
    Batch,
    /// Row groups, compressed.
    RowGroup(Compression),
}

/// What a model takes while it is applied.
#[derive(Debug, Clone, Copy, Default)]
struct ModelBytes {
    /// For all workers.
    held: u64,
    /// For each thread.
    each: u64,
}

/// What the ledger of a crew is made of.
struct Streaming {
    model: ModelBytes,
    /// Of each worker.
    block: u64,
    writers: u64,
    piece_name: &'static str,
    piece: u64,
    piece_rows: u64,
}

impl ApplyPlan<'_, '_> {
    /// As many workers as the budget holds, then as long a queue: one worker at least, or a
    /// refusal.
    ///
    /// A queue that holds all pieces of a unit lets a worker go on to its next unit; a shorter one
    /// makes it wait until the units before its own are taken.
    pub(super) fn crew(&self, kind: PieceKind) -> Result<(Crew, ReadLimit)> {
        let budget = Budget::new(self.resources.memory);
        let streaming = self.streaming(kind);
        let fits = |crew: &Crew| self.ledger(&streaming, *crew).peak_bytes() <= budget.bytes.0;
        // Its pieces and what it has met.
        let whole = self.read.unit_rows.div_ceil(streaming.piece_rows) as usize + 1;
        let threads = (1..=self.resources.threads()).rev();
        let least = Crew { threads: 1, queue: 1 };
        let crew = threads.map(|threads| Crew { threads, queue: 2 }).find(fits).unwrap_or(least);
        let ledger = self.ledger(&streaming, crew);
        let peak = ledger.peak_bytes();
        let hint = || format!("allow ⟦memory={}⟧", megabytes(peak));
        ledger.check(&budget, hint)?;
        // Longer queues take half of what is free; pages and texts that are larger than planned may
        // take the other.
        let half = peak + (budget.bytes.0 - peak) / 2;
        let queues = (crew.queue..=whole.max(crew.queue)).rev();
        let fits = |crew: &Crew| self.ledger(&streaming, *crew).peak_bytes() <= half;
        let longer = queues.map(|queue| Crew { queue, ..crew }).find(fits).unwrap_or(crew);
        let texts = self.block_rows().saturating_mul(self.read.kept_row);
        let pages = self.read.columns.saturating_add(texts);
        let limit = ReadLimit::of(&budget, peak, pages, crew.threads).halved();
        Ok((longer, ReadLimit { kept_values: self.read.kept_values, ..limit }))
    }

    /// Rows that are decoded at a time.
    fn block_rows(&self) -> u64 {
        let read = self.read.row_elements.saturating_add(self.read.kept_values);
        block_rows(read.max(self.request.features.len() as u64) as usize) as u64
    }

    fn streaming(&self, kind: PieceKind) -> Streaming {
        let (d, block) = (self.request.features.len(), self.block_rows());
        let (writers, piece_name, piece_rows) = match kind {
            PieceKind::Batch => (0, "batches that wait", block),
            PieceKind::RowGroup(compression) => {
                let computed = self.columns.computed_names();
                let bytes = writer_bytes(&self.schema, &computed, self.row_bytes, compression);
                (bytes, "row groups being written", group_rows(self.row_bytes) as u64)
            }
        };
        // As decoded, dense, and scaled.
        let lists = LIST_VALUE.saturating_mul(self.read.kept_values);
        let decoded = (16 * d as u64 + self.read.row_bytes).saturating_add(lists);
        // Complete rows by themselves, and what is computed of them.
        let complete = match self.nulls.keeps_rows() {
            true => self.row_bytes.saturating_add(8 * d as u64),
            false => 0,
        };
        let written = self.row_bytes.saturating_mul(3);
        let each = decoded.saturating_add(written).saturating_add(complete);
        Streaming {
            model: self.model_bytes(),
            block: block.saturating_mul(each),
            writers,
            piece_name,
            piece: piece_rows.saturating_mul(self.row_bytes),
            piece_rows,
        }
    }

    fn ledger(&self, of: &Streaming, crew: Crew) -> MemoryPlan {
        let t = crew.threads as u64;
        let waiting = (window(crew.threads) as u64).saturating_mul(crew.queue as u64);
        let all = self.resources.threads() as u64;
        let phase = Phase::new("streaming")
            .hold("footers and pages", self.read.total(crew.threads))
            .hold("the model", of.model.held)
            .hold("comparisons", of.model.each.saturating_mul(all))
            .hold("batches and blocks", t.saturating_mul(of.block))
            .hold("column writers", t.saturating_mul(of.writers))
            .hold(of.piece_name, (t + waiting).saturating_mul(of.piece));
        MemoryPlan { phases: vec![phase] }
    }

    /// What a kernel model takes.
    fn model_bytes(&self) -> ModelBytes {
        let Some(map) = self.model.kernel_map() else { return ModelBytes::default() };
        let (m, d) = (map.basis.len() as u64, map.basis.width() as u64);
        let k = self.model.n_components() as u64;
        // The rows may be held once more, moved to the origin.
        let held = 8 * m * (2 * d + k + 4);
        let scores = matches!(self.compute, Compute::Scores { .. });
        let back = if scores { 0 } else { 8 * 32 * (m + 1024) };
        ModelBytes { held, each: Comparer::bytes(d) + back }
    }
}
