//! The engine: options → plan → model.
//!
//! ```text
//! Fit ─► check (options × columns) ─► cost, choose ─► Plan ─► run: ─► Model
//!                                                           ├► sums_pass ─► supervise ─┐
//!                                                           ├► dual, randomized ───────┼► assemble
//!                                                           ├► kernel, landmarks ──────┤
//!                                                           └► basis ──────────────────┘
//! ```
//!
//! [`Fit`] holds what can be asked, [`Fit::plan`] checks it against a [`crate::Table`] and chooses
//! a form by what the forms hold, [`Plan::run`] reads the rows. What a fit *means* is decided once:
//! which sums in `accumulate::sums`, what is centred in `check`, when rows are too few and how sums
//! become a model in `assemble`. A state that is solved goes the same way from `supervise` on.

pub(crate) mod assemble;
pub(crate) mod basis;
pub(crate) mod bounds;
pub(crate) mod check;
mod choose;
pub(crate) mod cost;
mod cost_kernel;
mod cost_parts;
mod dual;
pub(crate) mod folds;
pub(crate) mod given;
mod given_labels;
mod kernel;
pub(crate) mod kernel_choice;
pub(crate) mod label_factor;
pub(crate) mod labels;
pub(crate) mod landmarks;
mod linear;
pub(crate) mod no_effect;
pub(crate) mod options;
mod plan;
mod product_pass;
mod randomized;
pub(crate) mod row_kernel;
pub(crate) mod run;
pub(crate) mod sums_pass;
pub(crate) mod supervise;
#[cfg(test)]
mod tests;

pub use basis::GivenBasis;
pub use cost::FormCost;
pub use given::read_kernel_matrix;
pub use options::{
    Approximate, ColumnOptions, Fit, Gamma, GivenLabels, IterationOptions, KernelOptions,
    LabelOptions, LandmarkChoice, Resources, ScalingOptions, ScoringOptions,
};
pub(crate) use plan::PLANNED_CLASSES;
pub use plan::Plan;
