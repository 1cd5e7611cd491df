//! `plan`, `fit` and `hsic`.

use super::numbers::tolerance;
use super::{
    ApproximationArgs, CheckpointArgs, ColumnArgs, ColumnName, KernelArgs, LabelArgs, ModelArgs,
    NameList, ResourceArgs, ScoreArgs,
};
use crate::error::Result;
use crate::fit::bounds::MOST_PASSES;
use crate::fit::options::DEFAULT_MAX_PASSES;
use crate::fit::{Fit, GivenBasis, IterationOptions, KernelOptions, LabelOptions, ScalingOptions};
use crate::listen::Listener;
use crate::model::Model;
use crate::source::{Nulls, Precision};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Which rows and columns, and what is done to them. Shared by `plan` and `fit`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FitSpec {
    /// Parquet files, globs, or directories (read recursively, sorted by path).
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Keep the components of this model, with its features and its scaling, and fit only means,
    /// deviations and variances; -k cuts it to its first ones (default: all).
    #[arg(long, value_name = "MODEL")]
    pub(crate) basis: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) columns: ColumnArgs,

    /// Label columns of spca and kspca: names or globs, comma-separated. Never features by default.
    #[arg(long, value_name = "COLS")]
    pub(crate) label: Vec<NameList>,

    #[command(flatten)]
    pub(crate) labels: LabelArgs,

    #[command(flatten)]
    pub(crate) kernel: KernelArgs,

    #[command(flatten)]
    pub(crate) approximation: ApproximationArgs,

    /// Learn a way back from the scores of a kernel model, for reconstruct --preimage ridge.
    #[arg(long, value_enum)]
    pub(crate) preimage: Option<LearnedPreimage>,

    /// Of kspca: subtract the mean of the training scores; otherwise scores are Θᵀk.
    #[arg(long)]
    pub(crate) center_scores: bool,

    #[command(flatten)]
    pub(crate) scoring: ScoreArgs,

    /// Column of frequency weights: a row of weight 3 counts as three equal rows.
    #[arg(long, value_name = "COL")]
    pub(crate) weight: Option<ColumnName>,

    /// What to do with nulls and NaN. Default: error, or with --state what that was made with.
    #[arg(long, value_enum)]
    pub(crate) nulls: Option<Nulls>,

    /// Arithmetic of the products; mixed needs f32 features, full keeps the digits of small
    /// components.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) precision: Precision,

    /// Of --form randomized and kpca: the largest residual over the first eigenvalue, and of --form
    /// randomized the relative error of an eigenvalue. Default: 1e-6, of kpca 1e-8.
    #[arg(long, value_name = "T", value_parser = tolerance)]
    pub(crate) tolerance: Option<f64>,

    /// Of --form randomized: the most passes over the data; of kpca: the most products with the
    /// kernel matrix.
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_MAX_PASSES as u16,
        value_parser = clap::value_parser!(u16).range(1..=MOST_PASSES as i64)
    )]
    pub(crate) max_passes: u16,

    /// Keep a model whose components miss the tolerance; it says which. (Where the primal form fits
    /// the memory, it takes over instead.)
    #[arg(long)]
    pub(crate) allow_unconverged: bool,

    /// Seed of random numbers.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Count rows twice that are there twice: files of the same content are refused otherwise. A
    /// state counts nothing twice all the same.
    #[arg(long)]
    pub(crate) allow_duplicates: bool,

    /// Where temporary files go. Default: the system's place for them.
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
}

/// `fit --preimage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LearnedPreimage {
    /// Ridge regression from scores to rows.
    Ridge,
}

impl FitSpec {
    /// What was typed, as the library takes it.
    pub(crate) fn fit(&self, listener: &dyn Listener) -> Result<Fit> {
        let ModelArgs { method, form, components, with_variance, no_center, standardize } =
            self.model;
        Ok(Fit {
            method,
            form: form.form(),
            components,
            basis: self.basis()?,
            columns: (&self.columns).into(),
            scaling: ScalingOptions {
                center: !no_center,
                standardize,
                center_scores: self.center_scores,
            },
            weight: self.weight.clone().map(|ColumnName(name)| name),
            nulls: self.nulls.unwrap_or_default(),
            precision: self.precision,
            labels: LabelOptions {
                with_variance,
                ..self.labels.options(
                    NameList::all(&self.label),
                    self.resources.memory,
                    listener,
                )?
            },
            kernel: KernelOptions {
                approximation: self.approximation.approximation(),
                preimage: self.preimage.is_some(),
                ..(&self.kernel).into()
            },
            scoring: self.scoring.options(None)?,
            iteration: IterationOptions {
                tolerance: self.tolerance,
                max_passes: usize::from(self.max_passes),
                allow_unconverged: self.allow_unconverged,
            },
            seed: self.seed,
            allow_duplicates: self.allow_duplicates,
            resources: self.resources.with_temp_dir(self.temp_dir.clone()),
        })
    }

    fn basis(&self) -> Result<Option<GivenBasis>> {
        let Some(path) = &self.basis else { return Ok(None) };
        Ok(Some(GivenBasis::of(&Model::load(path)?)?.from_file(path)))
    }
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) fit: FitSpec,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fit`.
#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) fit: FitSpec,

    /// The model file to write.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) output: PathBuf,

    /// Add DATA to this state (made if it is not there) and fit all that is in it; pca and spca.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<PathBuf>,

    /// Of --state: pass files over that are in it already.
    #[arg(long, requires = "state")]
    pub(crate) skip_known: bool,

    /// Of --state: fail, rather than wait, while another run is changing it.
    #[arg(long, requires = "state")]
    pub(crate) no_wait: bool,

    /// Write the score of every feature: feature, score, rank, kept.
    #[arg(long, value_name = "PARQUET")]
    pub(crate) scores_out: Option<PathBuf>,

    /// Ask other processes for each pass, through files in this directory: exits with 75, and the
    /// file to give to product on stdout, until all are there; pca with --form randomized.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["state", "checkpoint"])]
    pub(crate) passes: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) checkpoint: CheckpointArgs,

    /// Print a summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hsic`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HsicArgs {
    /// Parquet files, globs, or directories.
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    /// Label columns: names or globs, comma-separated.
    #[arg(long, value_name = "COLS", required_unless_present = "label_data")]
    pub(crate) label: Vec<NameList>,

    #[command(flatten)]
    pub(crate) labels: LabelArgs,

    #[command(flatten)]
    pub(crate) kernel: KernelArgs,

    #[command(flatten)]
    pub(crate) approximation: ApproximationArgs,

    /// Compare all pairs of rows where random features would stand for the rbf kernel over labels:
    /// those of more than 10,000 rows and 1,000 distinct labels.
    #[arg(long)]
    pub(crate) exact: bool,

    /// Measure the scores of this model instead of the features.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Shuffle the labels this many times and tell how often that gives as much.
    #[arg(long, value_name = "P", default_value_t = 0)]
    pub(crate) permutations: usize,

    /// Divide each feature by its standard deviation.
    #[arg(long)]
    pub(crate) standardize: bool,

    /// Column of frequency weights: a row of weight 3 counts as three equal rows.
    #[arg(long, value_name = "COL")]
    pub(crate) weight: Option<ColumnName>,

    /// Seed of the shuffles, of samples and of random features.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) columns: ColumnArgs,

    /// What to do with nulls and NaN.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) nulls: Nulls,

    /// Count rows twice that are there twice: files of the same content are refused otherwise.
    #[arg(long)]
    pub(crate) allow_duplicates: bool,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
}
