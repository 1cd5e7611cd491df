//! Exact PCA, supervised PCA and kernel PCA on Parquet data larger than memory.
//!
//! The four methods, on any [`Table`]:
//!
//! ```
//! use eigenstream::{ArrowTable, Fit, Kernel, KernelKind, Quiet};
//!
//! // 200 rows of 5 features, and what they are.
//! let rows = ndarray::Array2::from_shape_fn((200, 5), |(i, j)| ((i * 7 + j * j * 5) % 19) as f64);
//! let species = (0..200).map(|i| if i % 19 < 9 { "iris" } else { "rose" });
//! let species = std::sync::Arc::new(arrow_array::StringArray::from_iter_values(species));
//! let table = ArrowTable::from(rows).with_column("species", species)?;
//!
//! let pca = Fit::pca().components(2).plan(&table)?.run(&Quiet)?;
//! let spca = Fit::spca(["species"]).plan(&table)?.run(&Quiet)?;
//! let kpca = Fit::kpca(Kernel::Rbf { gamma: 0.1 }).components(2).plan(&table)?.run(&Quiet)?;
//! let kspca = Fit::kspca(KernelKind::Cosine, ["species"]).plan(&table)?.run(&Quiet)?;
//!
//! assert_eq!((pca.n_components(), spca.n_components()), (2, 1));
//! assert_eq!((kpca.n_components(), kspca.n_components()), (2, 1));
//! # Ok::<(), eigenstream::Error>(())
//! ```
//!
//! Parquet files are a table too, of any size, and a plan tells what a fit of them would hold:
//!
//! ```no_run
//! use eigenstream::{Dataset, Fit, ParquetOutput, Quiet, Transform};
//!
//! let data = Dataset::from_paths(&["data/"])?;
//! let plan = Fit::pca().components(10).exclude(["id"]).memory(500_000_000).plan(&data)?;
//! println!("{}: {} bytes", plan.reason(), plan.taken().memory.peak_bytes());
//! let model = plan.run(&Quiet)?;
//! model.save("model.safetensors")?;
//! let scores = Transform::default().keep(["id"]).plan(&model, &data)?;
//! scores.write_parquet(&ParquetOutput::new("scores.parquet"), &Quiet)?;
//! # Ok::<(), eigenstream::Error>(())
//! ```
//!
//! Sums that are kept ([`Scan`], [`State`]) give any linear model without reading the data again;
//! a [`Listener`] hears notes and progress, and may stop a run.
//!
//! ```text
//! Table ─► Source ─► Block ─► Accumulate ─► solve ─► Model            pass 1 (fit)
//! Table ─► Source ─► Block ─► Projector ─► Sink                       pass 2 (transform, …)
//! ```
//!
//! The rooms below, in the order they import each other, are described in `ARCHITECTURE.md`.
//! Glossary: a *row* is an observation (a column of the tutorial's X), a *feature* one number of
//! it, a *block* some rows dense in memory, a *unit* what one worker reads, a *pass* one reading of
//! all rows, a *component* a unit vector in feature space, a *score* a row's coordinate along it.

#![warn(missing_docs, unreachable_pub)]

// In the order they import each other: `tests/rooms.rs` holds them to it.
mod words;

mod error;

mod note;

mod listen;

mod budget;

mod scratch;

mod staged;

mod blas;

mod workers;

mod source;

mod kernel;

mod accumulate;

mod solve;

mod model;

mod project;

mod sink;

mod pass;

mod collect;

mod product;

mod fit;

mod state;

mod apply;

mod hsic;

mod report;

#[cfg(feature = "cli")]
mod generate;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[doc(hidden)]
pub mod internals;

pub use apply::{
    ApplyPlan, ApplySummary, Dtype, KeepColumns, Layout, Preimage, PreimageLoss, Reconstruct,
    RowNulls, Transform,
};
pub use budget::{Budget, Bytes, Item, MemoryPlan, Phase};
pub use error::{Error, IterationKind, Place, Result, Unconverged, phrase};
pub use fit::{
    Approximate, ColumnOptions, Fit, FormCost, Gamma, GivenBasis, GivenLabels, IterationOptions,
    KernelOptions, LabelOptions, LandmarkChoice, Plan, Resources, ScalingOptions, ScoringOptions,
    read_kernel_matrix,
};
pub use hsic::{Hsic, HsicPlan, HsicResult};
pub use kernel::{Basis, Fourier, Kernel, KernelKind, KernelMap, Ridge};
pub use listen::{Listener, Quiet, Stage};
pub use model::VarianceKind;
pub use model::{
    Approximation, BasisReport, ClassReport, Header, InputEntry, KernelReport, LabelReport, Method,
    Model, NullReport, PreimageReport, Projection, ScoringReport, Selection, Weight,
};
pub use note::{Level, Note};
pub use product::{PassAbout, PassSums, Passes};
pub use sink::{Compression, ParquetOutput, Sink};
pub use solve::rules::{Components, RuleAnswer};
pub use solve::scoring::{Keep, Score};
pub use solve::supervised::LabelKernel;
pub use solve::{Certificate, Form, Iteration};
pub use source::{
    ArrowTable, Block, Class, ClassValue, ColumnInfo, ColumnKind, ColumnOrigin, ColumnSelection,
    Dataset, Difference, FeatureColumn, Features, FileStamp, InputInfo, LabelRead, LabelRequest,
    Labels, MatrixOwner, MatrixTable, MatrixView, MissingCell, Nulls, OpenedReader, Precision,
    ReadCost, ReadLimit, ReadRequest, ReaderTable, Shard, Source, Table, Tally, Unit, Values,
    WholeLabels, WidenedColumn, matrix_batch,
};
pub use staged::Waiting;
pub use state::{
    About, Checkpoint, CheckpointProgress, FoldChoice, Group, GroupStates, Scan, ScanPlan, State,
    StateFile, StateHsic, StateLabels, Statistics,
};

pub use workers::{caught, record_panics};

/// The page about the library: its blocks are run.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryPage;
