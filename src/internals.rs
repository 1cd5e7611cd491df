//! Parts that the project's own tests and benchmarks look into. No promise is made about them.

pub use crate::accumulate::{
    Accumulate, ClassLimit, ClassMoments, ClassSums, CoMoment, Covariance, CrossMoment,
    CrossMoments, FactoredCoMoment, FeatureMoments, FirstPass, Gram, GramSums, ImputedCovariance,
    LabelMap, LabelMoments, LabelSumsKind, Moments, Parts, Product, Scaling, SecondMoment, Shape,
    Sketch, Stored, Sums, SumsKind, SumsResult, TiledCovariance, TriangularCovariance,
};
pub use crate::blas::{eigh, parallel, serial, syrk};
pub use crate::budget::keep_freed_memory;
pub use crate::fit::folds::fold_of;
pub use crate::kernel::Monomials;
pub use crate::listen::Watch;
pub use crate::pass::fold;
pub use crate::solve::solve;
pub use crate::source::{InMemory, block_rows};
