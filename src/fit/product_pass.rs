//! One pass of the randomized form that another process has asked for: its sums, with the rows of
//! files added.
//!
//! Held: what reading takes, and for each thread a block, its products and sums of 2·b·d numbers.

use super::options::Resources;
use crate::accumulate::{Accumulate, Shape, Sketch};
use crate::budget::{Budget, MemoryPlan, Phase};
use crate::error::{Error, Result};
use crate::listen::{Listener, Watch};
use crate::model::InputEntry;
use crate::pass;
use crate::product::PassSums;
use crate::source::{ReadCost, ReadLimit, ReadRequest, Shard, Table, UnitSubset, block_rows};
use crate::words::megabytes;

impl PassSums {
    /// Adds the rows of a table to sums of none, or one shard of them.
    pub fn add_table(
        &mut self,
        table: &dyn Table,
        shard: Option<Shard>,
        resources: &Resources,
        listener: &dyn Listener,
    ) -> Result<()> {
        if self.rows() > 0 {
            return Error::misuse("these sums have rows already; begin with the operand");
        }
        let request = self.request();
        request.features.check(table)?;
        let (threads, limit) = self.crew(&table.cost(&request)?, resources)?;
        let all = table.read(&ReadRequest { limit, ..request })?;
        let source = UnitSubset::of_shard(&*all, shard);
        let stage = pass::stage(format!("pass {}", self.about.pass), "rows", &source, 0);
        let watch = Watch::new(listener, stage);
        let (sums, tally) = pass::fold(&source, threads, &watch, || self.sums.clone())?;
        drop(watch);
        (self.sums, self.about.tally) = (sums, tally);
        self.about.ledger = InputEntry::of(table);
        self.about.shard = shard.filter(|shard| shard.of > 1);
        Ok(())
    }

    /// As many threads as the memory holds.
    fn crew(&self, read: &ReadCost, resources: &Resources) -> Result<(usize, ReadLimit)> {
        let budget = Budget::new(resources.memory);
        let fits = |threads: &usize| self.memory(read, *threads).peak_bytes() <= budget.bytes.0;
        let threads = (1..=resources.threads()).rev().find(fits).unwrap_or(1);
        let memory = self.memory(read, threads);
        let peak = memory.peak_bytes();
        memory.check(&budget, || format!("allow ⟦memory={}⟧", megabytes(peak)))?;
        Ok((threads, ReadLimit::of(&budget, peak, read.columns, threads)))
    }

    fn memory(&self, read: &ReadCost, threads: usize) -> MemoryPlan {
        let (features, t) = (self.about.columns.len() as u64, threads as u64);
        let rows = block_rows(read.row_elements.max(features) as usize) as u64;
        let shape = Shape { rows, features, vectors: self.vectors() as u64 };
        let block = rows.saturating_mul(read.row_bytes.saturating_add(8 * features));
        // What rows are multiplied with, the total, and one on its way to it.
        let sums = (t + 3).saturating_mul(Sketch::bytes(shape));
        let phase = Phase::new("a pass")
            .hold("footers and pages", read.total(threads))
            .hold("blocks", t.saturating_mul(block))
            .hold("products", sums);
        MemoryPlan { phases: vec![phase] }
    }
}
