//! `transform` and `reconstruct`.

use super::numbers::some_components;
use super::{NameList, ResourceArgs};
use crate::apply::{Dtype, KeepColumns, Layout, Preimage, Reconstruct, RowNulls, Transform};
use crate::sink::{Compression, ParquetOutput};
use crate::source::Shard;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where output rows go and how. Shared by `transform` and `reconstruct`.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// One file if it ends in .parquet, else a directory with one file per input file, made where
    /// it is missing. Only Parquet is written.
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Columns to pass through untouched: names or globs, comma-separated; a.b is the field b of a
    /// struct. A name in double quotes is written as in JSON and taken as it is: '"a,b"'.
    #[arg(long, value_name = "COLS", conflicts_with = "keep_all")]
    pub(crate) keep: Vec<NameList>,

    /// Pass all columns through.
    #[arg(long)]
    pub(crate) keep_all: bool,

    /// Use only the first K components.
    #[arg(short = 'k', long = "components", value_name = "K", value_parser = some_components)]
    pub(crate) components: Option<u32>,

    /// What to do with nulls and NaN: null keeps the row, with nulls for all that is computed, so
    /// that output and input have the same rows. Default: what the model was fitted with.
    #[arg(long, value_enum)]
    pub(crate) nulls: Option<RowNulls>,

    /// Type of the numbers written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) dtype: Dtype,

    /// Compression of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) compression: Compression,

    /// Prefix of the score columns.
    #[arg(long, default_value = crate::apply::DEFAULT_PREFIX, value_name = "NAME")]
    pub(crate) prefix: String,

    /// Print a summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
}

impl OutputArgs {
    fn keep(&self) -> KeepColumns {
        match (self.keep_all, self.keep.is_empty()) {
            (true, _) => KeepColumns::All,
            (false, true) => KeepColumns::None,
            (false, false) => KeepColumns::Columns(NameList::all(&self.keep)),
        }
    }

    fn components(&self) -> Option<usize> {
        self.components.map(|k| k as usize)
    }

    /// The files.
    pub(crate) fn parquet(&self) -> ParquetOutput {
        ParquetOutput { path: self.output.clone(), compression: self.compression }
    }
}

/// `transform`.
#[derive(Debug, Args)]
pub(crate) struct TransformArgs {
    /// The model file.
    pub(crate) model: PathBuf,

    /// Parquet files, globs, or directories.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// One column per component, or one list column.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) layout: Layout,

    /// Add columns reconstruction_error (distance to the reconstruction) and hotelling_t2.
    #[arg(long)]
    pub(crate) diagnostics: bool,

    /// Add what the components leave of each row, its own values less the reconstruction: columns
    /// residual_NAME, or with --layout list one column residual.
    #[arg(long)]
    pub(crate) residuals: bool,

    /// Only the i-th of N parts of the rows, counted from 1, into a file of its own in the output
    /// directory: for N processes, on as many machines.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,
}

impl TransformArgs {
    /// What was typed, as the library takes it.
    pub(crate) fn options(&self) -> Transform {
        let TransformArgs { output, layout, diagnostics, residuals, .. } = self;
        Transform {
            components: output.components(),
            keep: output.keep(),
            layout: *layout,
            dtype: output.dtype,
            nulls: output.nulls,
            prefix: output.prefix.clone(),
            diagnostics: *diagnostics,
            residuals: *residuals,
            whiten: false,
            by_position: false,
            shard: self.shard,
            resources: output.resources.with_temp_dir(None),
        }
    }
}

/// `reconstruct`.
#[derive(Debug, Args)]
pub(crate) struct ReconstructArgs {
    /// The model file.
    pub(crate) model: PathBuf,

    /// Parquet files, globs, or directories: rows, or scores with --from-scores.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// DATA holds scores (columns pc1, pc2, … or one list column pc) instead of rows.
    #[arg(long)]
    pub(crate) from_scores: bool,

    /// Of a kernel model: how to come near a row that its scores belong to.
    #[arg(long, value_enum)]
    pub(crate) preimage: Option<Preimage>,
}

impl ReconstructArgs {
    /// What was typed, as the library takes it.
    pub(crate) fn options(&self) -> Reconstruct {
        let ReconstructArgs { output, from_scores, preimage, .. } = self;
        Reconstruct {
            components: output.components(),
            keep: output.keep(),
            dtype: output.dtype,
            nulls: output.nulls,
            prefix: output.prefix.clone(),
            from_scores: *from_scores,
            whitened: false,
            by_position: false,
            preimage: *preimage,
            resources: output.resources.with_temp_dir(None),
        }
    }
}
