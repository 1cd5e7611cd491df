//! The second pass: model × table → sink. It writes as many rows as it reads, less those that the
//! model's policy for missing values drops.
//!
//! ```text
//! Transform, Reconstruct ─► check (model × columns) ─► ApplyPlan ─┬► run ─► Sink of record batches
//!                                                                 └► write_parquet ─► files
//! ```
//!
//! Both ways out share one computation (`batches`); they differ in what workers make of the batches
//! before these are taken in order. Held: per worker a block, its scores and what is made of them;
//! the plan's memory says how much, and no row is read where that does not fit.

mod batches;
mod columns;
mod in_memory;
mod memory;
mod options;
mod plan;
mod run;
#[cfg(test)]
mod tests;

#[cfg(feature = "cli")]
pub(crate) use options::DEFAULT_PREFIX;
pub use options::{Dtype, KeepColumns, Layout, Preimage, Reconstruct, RowNulls, Transform};
pub use plan::ApplyPlan;
pub use run::{ApplySummary, PreimageLoss};
