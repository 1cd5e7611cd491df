//! HSIC: how much the features, or a model's scores, depend on labels.
//!
//! ```text
//! Hsic ─► check (options × columns) ─► HsicPlan ─► run ─┬► passes ─► ‖M‖² / (W−1)²
//!                                                       └► all rows ─► tr(K H L H) / (W−1)²
//! ```
//!
//! With features φ whose products are the kernel over rows HSIC = ‖M‖² / (W−1)², M = ΦHΔ: passes
//! that hold the sums of supervised PCA and no row. The linear and the cosine kernel have such
//! features, landmarks and random features stand for the others. Without them all rows are taken
//! into memory (24·n·d bytes while they are read) and their pairs are compared in tiles
//! ([`crate::solve::hsic`]). W is n, or the sum of frequency weights: a row of weight 3 is three
//! equal rows.

mod memory;
mod options;
mod plan;
mod run;
mod shuffle;
mod stream;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;

pub use options::Hsic;
pub use plan::HsicPlan;
pub use run::HsicResult;
