//! `scan`, `merge`, `subtract` and `solve`.

use super::{CheckpointArgs, ColumnArgs, ColumnName, ModelArgs, NameList, ResourceArgs, ScoreArgs};
use crate::error::{Error, Result};
use crate::fit::{Fit, LabelOptions, ScalingOptions};
use crate::model::Method;
use crate::solve::supervised::LabelKernel;
use crate::source::{Nulls, Precision, Shard};
use crate::state::{Scan, Statistics};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// `--for`: what a state keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Statistic {
    /// The covariance.
    Pca,
    /// What supervised PCA needs of the labels.
    Spca,
    /// What --score-by needs: the same sums as spca.
    Scored,
}

/// `scan`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScanArgs {
    /// Parquet files, globs, or directories (read recursively, sorted by path).
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    /// The state file to write; with --by a directory.
    #[arg(short, long, value_name = "STATE")]
    pub(crate) output: PathBuf,

    /// What to keep, comma-separated. Default: everything one pass can give.
    #[arg(long = "for", value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) keep: Vec<Statistic>,

    #[command(flatten)]
    pub(crate) columns: ColumnArgs,

    /// Label columns: names or globs, comma-separated.
    #[arg(long, value_name = "COLS")]
    pub(crate) label: Vec<NameList>,

    /// Numeric labels are classes: equal or not.
    #[arg(long)]
    pub(crate) classes: bool,

    /// Column of frequency weights: a row of weight 3 counts as three equal rows.
    #[arg(long, value_name = "COL")]
    pub(crate) weight: Option<ColumnName>,

    /// What to do with nulls and NaN.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) nulls: Nulls,

    /// Arithmetic of the covariance: full keeps the digits of small components, and nothing can be
    /// taken out again.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) precision: Precision,

    /// Share rows out to this many folds (2 to 100), for solve --folds.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(2..=100),
        conflicts_with = "by"
    )]
    pub(crate) folds: Option<u8>,

    /// Seed of the folds.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// One state per value of this column, in one pass; without --folds and --checkpoint.
    #[arg(long, value_name = "COL", conflicts_with = "checkpoint")]
    pub(crate) by: Option<ColumnName>,

    /// Only the i-th of N parts of the rows, counted from 1, into a file of its own in a directory:
    /// for N processes, on as many machines; merge adds them up.
    #[arg(long, value_name = "I/N", conflicts_with = "by")]
    pub(crate) shard: Option<Shard>,

    /// Where temporary files of --by go. Default: the system's place for them.
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,

    /// Print a summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
}

impl ScanArgs {
    /// What was typed, as the library takes it.
    pub(crate) fn scan(&self) -> Scan {
        let labels = self.keep.iter().any(|k| *k != Statistic::Pca);
        let keep = match (self.keep.contains(&Statistic::Pca), labels) {
            (false, false) => Statistics::All,
            (true, false) => Statistics::Covariance,
            (false, true) => Statistics::Labels,
            (true, true) => Statistics::CovarianceAndLabels,
        };
        Scan {
            columns: (&self.columns).into(),
            labels: NameList::all(&self.label),
            classes: self.classes,
            weight: self.weight.clone().map(|ColumnName(name)| name),
            nulls: self.nulls,
            precision: self.precision,
            keep,
            folds: self.folds.map(usize::from),
            seed: self.seed,
            by: self.by.clone().map(|ColumnName(name)| name),
            shard: self.shard,
            resources: self.resources.with_temp_dir(self.temp_dir.clone()),
        }
    }
}

/// `merge`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MergeArgs {
    /// The states, or a directory of them: of shards, all must be there.
    #[arg(required = true, value_name = "STATE")]
    pub(crate) states: Vec<PathBuf>,

    /// The state file to write; it may be one of them.
    #[arg(short, long, value_name = "STATE")]
    pub(crate) output: PathBuf,

    /// Pass states over whose inputs are all in those before them.
    #[arg(long)]
    pub(crate) skip_known: bool,

    /// Fail, rather than wait, while another run is changing the file to write.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `subtract`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SubtractArgs {
    /// The state.
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,

    /// What is taken out of it.
    #[arg(value_name = "PART")]
    pub(crate) part: PathBuf,

    /// The state file to write.
    #[arg(short, long, value_name = "STATE")]
    pub(crate) output: PathBuf,

    /// Fail, rather than wait, while another run is changing the file to write.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `solve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SolveArgs {
    /// A state, or a directory of them.
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,

    /// The model file to write; for a directory of states, a directory.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) columns: ColumnArgs,

    /// Kernel over the labels: delta or linear.
    #[arg(long, value_enum)]
    pub(crate) label_kernel: Option<LabelKernel>,

    #[command(flatten)]
    pub(crate) scoring: ScoreArgs,

    /// Write the score of every feature: feature, score, rank, kept.
    #[arg(long, value_name = "PARQUET")]
    pub(crate) scores_out: Option<PathBuf>,

    /// Choose by the folds of the state, by the squared error of the label on rows left out: with
    /// --score-by how many features (1, 2, 4, 7, … all), else, of spca, how many components, -k at
    /// most.
    #[arg(long)]
    pub(crate) folds: bool,

    /// Print a summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl SolveArgs {
    /// What was typed, as the library takes it.
    pub(crate) fn fit(&self) -> Result<Fit> {
        let ModelArgs { method, form, components, with_variance, no_center, standardize } =
            self.model;
        let ScoreArgs { score_by, keep_features, score_threshold, .. } = &self.scoring;
        if self.folds && score_by.is_none() && method != Method::Spca {
            return Error::misuse(
                "--folds chooses features with --score-by, or components with --method spca",
            );
        }
        if self.folds && (keep_features.is_some() || score_threshold.is_some()) {
            return Error::misuse(
                "--folds chooses how many features to keep; leave --keep-features and \
                 --score-threshold out",
            );
        }
        let labels =
            LabelOptions { kernel: self.label_kernel, with_variance, ..LabelOptions::default() };
        Ok(Fit {
            method,
            form: form.form(),
            components,
            columns: (&self.columns).into(),
            scaling: ScalingOptions {
                center: !no_center,
                standardize,
                ..ScalingOptions::default()
            },
            labels,
            scoring: self.scoring.options(Some(self.folds))?,
            ..Fit::default()
        })
    }
}

/// `product`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProductArgs {
    /// Parquet files, globs, or directories: those of the fit, in the same order.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    /// What fit --passes has asked for.
    #[arg(long, value_name = "FILE")]
    pub(crate) operand: PathBuf,

    /// Only the i-th of N parts of the rows, counted from 1.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,

    /// The directory to write to. Default: that of the operand.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) resources: ResourceArgs,

    /// Print a summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
