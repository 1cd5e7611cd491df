//! Exact PCA, supervised PCA and kernel PCA on Parquet data larger than memory.
//!
//! ```text
//! Parquet row groups ─► Source ─► Block ─► Accumulate ─► solve ─► Model            pass 1 (fit)
//! Parquet row groups ─► Source ─► Block ─► Projector ─► Sink ─► Parquet            pass 2 (transform, reconstruct)
//! ```
//!
//! A fit takes one of three forms, which [`cli::candidates`] weighs by what they hold: the d × d co-moment in
//! one pass (primal), the n × n Gram matrix over groups of features (dual), or block Krylov with a pass per
//! product (randomized). Kernel methods take all rows into memory and make the n × n kernel matrix by tiles, or stream
//! comparisons with landmarks or random features.
//!
//! Rooms, in the order they import each other:
//!
//! | room | enters | leaves |
//! |---|---|---|
//! | [`source`] | paths | [`source::Block`]s of dense rows, unit by unit |
//! | [`kernel`] | two blocks; a row and what it is compared with | a tile of a kernel; scores |
//! | [`accumulate`] | blocks | n, mean, and the centred co-moment, the Gram matrix, or products with a few vectors |
//! | [`solve`] | those sums | components, eigenvalues, certificate |
//! | [`model`] | those | one safetensors file |
//! | [`state`] | blocks, other states | sums on disk; any model they allow |
//! | [`project`] | model × block | scores, reconstructions, diagnostics |
//! | [`sink`] | record batches | Parquet files, whole or not at all |
//! | [`workers`] | units of work | their results, in order |
//! | [`pass`] | a source and a worker | the only loops over data |
//! | [`report`] | models, progress | text and JSON |
//! | [`cli`] | argv | the commands |
//!
//! Glossary: a *row* is an observation (a column of the tutorial's X), a *feature* one number of it,
//! a *block* some rows dense in memory, a *unit* what one worker reads, a *pass* one reading of all
//! rows, a *component* a unit vector in feature space, a *score* a row's coordinate along it.
//!
//! The library is what the binary is made of. In memory it works the same way:
//!
//! ```
//! use eigenstream::accumulate::{Accumulate, Covariance};
//! use eigenstream::pass::{self, Unwatched};
//! use eigenstream::solve::{self, Scaling, rules::Components};
//! use eigenstream::source::{InMemory, Source};
//!
//! // Points near the line y = 2x, far from the origin.
//! let rows = ndarray::array![[100.0, 200.0], [101.0, 202.1], [102.0, 203.9], [103.0, 206.0]];
//! let source = InMemory::new(rows, 2);
//! let (sums, _) = pass::fold(&source, 2, &Unwatched, || Covariance::new(source.n_features()))?;
//! let scaling = Scaling { center: true, standardize: false };
//! let (moments, solution) = solve::solve(sums.finish(), scaling, Components::Count(1), 1)?;
//! assert_eq!(moments.mean[0], 101.5);
//! assert!((solution.components[[0, 1]] / solution.components[[0, 0]] - 2.0).abs() < 0.05);
//! # Ok::<(), eigenstream::error::Error>(())
//! ```

#![warn(missing_docs)]

pub mod accumulate;
pub mod blas;
pub mod budget;
pub mod cli;
pub mod error;
pub mod generate;
pub mod kernel;
pub mod listen;
pub mod model;
pub mod note;
pub mod pass;
pub mod project;
pub mod report;
mod scratch;
pub mod sink;
pub mod solve;
pub mod source;
pub mod staged;
pub mod state;
pub mod words;
pub mod workers;
