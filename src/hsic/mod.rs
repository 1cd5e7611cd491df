//! HSIC: how much the features, or a model's scores, depend on labels.
//!
//! ```text
//! Hsic ─► check (options × columns) ─► HsicPlan ─► run ─┬► one pass ─► ‖M‖² / (n−1)²
//!                                                       └► all rows ─► tr(K H L H) / (n−1)²
//! ```
//!
//! With a linear kernel over the features HSIC = ‖M‖² / (n−1)², M = XHΔ: one pass that holds the
//! sums of supervised PCA and no row. Other kernels, and permutations, take all rows into memory
//! (24·n·d bytes while they are read) and go over their pairs in tiles ([`crate::solve::hsic`]).

mod options;
mod plan;
mod run;
#[cfg(test)]
mod tests;

pub use options::Hsic;
pub use plan::HsicPlan;
pub use run::HsicResult;
