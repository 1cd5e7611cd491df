//! The command line as typed, and what it asks of the library. Checks here need no file; everything
//! else is in the plans.

mod apply;
mod fit;
mod groups;
mod labels;
mod names;
mod states;

pub(crate) use apply::{OutputArgs, ReconstructArgs, TransformArgs};
pub(crate) use fit::{FitArgs, HsicArgs, PlanArgs};
pub(crate) use groups::{
    ApproximationArgs, CheckpointArgs, ColumnArgs, KernelArgs, ModelArgs, ResourceArgs, ScoreArgs,
    same_file, waiting,
};
pub(crate) use labels::LabelArgs;
pub(crate) use names::{ColumnName, NameList};
pub(crate) use states::{MergeArgs, ProductArgs, ScanArgs, SolveArgs, SubtractArgs};

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Exact PCA, supervised PCA and kernel PCA on Parquet data larger than memory.
///
/// Fit a model in one streaming pass, write the scores back to Parquet in another. Results go to
/// standard output, everything else to standard error; exit code 0 is done, 1 failed, 2 misused.
#[derive(Debug, Parser)]
#[command(name = "eigenstream", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Say nothing on standard error but errors.
    #[arg(long, global = true)]
    pub(crate) quiet: bool,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a fit would do and hold, from footers alone.
    ///
    /// Example: eigenstream plan data/ --exclude id --memory 500MB
    Plan(PlanArgs),
    /// Fit a model in one pass over the data.
    ///
    /// Example: eigenstream fit data/ -k 0.95 --exclude id -o model.safetensors
    Fit(FitArgs),
    /// Project rows onto the components.
    ///
    /// Example: eigenstream transform model.safetensors data/ --keep id -o scores.parquet
    Transform(TransformArgs),
    /// Map rows, or scores, back to the space of the features.
    ///
    /// Example: eigenstream reconstruct model.safetensors data/ -k 3 -o restored.parquet
    Reconstruct(ReconstructArgs),
    /// Show a model.
    ///
    /// Example: eigenstream inspect model.safetensors --json
    Inspect(InspectArgs),
    /// Add up what models are made of, once, and keep it.
    ///
    /// Example: eigenstream scan data/ --exclude id --label species -o data.state
    Scan(ScanArgs),
    /// Make a pass of a fit that waits for others: see fit --passes.
    ///
    /// Example: eigenstream product data/ --operand work/pass-001/operand --shard 2/4
    Product(ProductArgs),
    /// Add states up.
    ///
    /// Example: eigenstream merge monday.state tuesday.state -o week.state
    Merge(MergeArgs),
    /// Take a state out of one that it was added to.
    ///
    /// Example: eigenstream subtract week.state monday.state -o rest.state
    Subtract(SubtractArgs),
    /// Make a model of a state, or one of each state in a directory, without touching the data.
    ///
    /// Example: eigenstream solve data.state --method spca -k 3 -o model.safetensors
    Solve(SolveArgs),
    /// Measure how much features, or a model's scores, depend on labels.
    ///
    /// Example: eigenstream hsic data/ --label species --permutations 200
    Hsic(HsicArgs),
    /// Write a seeded Parquet dataset.
    ///
    /// Example: eigenstream generate lowrank --rows 100000 --columns 32 --files 4 -o data
    Generate(GenerateArgs),
    /// Run the whole tour on generated data.
    Demo(DemoArgs),
}

/// `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The model file.
    pub(crate) model: PathBuf,

    /// Print the whole model as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the names of all features, one a line.
    #[arg(long, conflicts_with = "json")]
    pub(crate) features: bool,
}

/// `generate`.
#[derive(Debug, Clone, Args)]
pub(crate) struct GenerateArgs {
    /// What kind of data.
    #[arg(value_enum)]
    pub(crate) kind: crate::generate::DatasetKind,

    /// The directory to write.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Rows in all files.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) rows: u64,

    /// Features. Default: what suits the kind.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) columns: Option<u32>,

    /// Files to spread the rows over.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) files: u32,

    /// Rows per row group. Default: what suits the kind.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) row_group: Option<u32>,

    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The directory to work in; made, and replaced if a demo made it.
    #[arg(short, long, value_name = "DIR", default_value = "eigenstream-demo")]
    pub(crate) output: PathBuf,

    /// Rows to generate.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) rows: u64,
}

/// What a number given on the command line must be.
mod numbers {
    use crate::fit::bounds::{MOST_DEGREE, TOLERANCES};

    pub(super) fn finite(text: &str) -> Result<f64, String> {
        match text.parse::<f64>() {
            Ok(c) if c.is_finite() => Ok(c),
            _ => Err("it must be a number".into()),
        }
    }

    pub(super) fn degree(text: &str) -> Result<u32, String> {
        match text.parse::<u32>() {
            Ok(n) if (1..=MOST_DEGREE).contains(&(n as usize)) => Ok(n),
            _ => Err("a degree is a whole number from 1 to 100".into()),
        }
    }

    pub(super) fn positive(text: &str) -> Result<f64, String> {
        match text.parse::<f64>() {
            Ok(g) if g > 0.0 && g.is_finite() => Ok(g),
            _ => Err("it must be a number greater than 0".into()),
        }
    }

    pub(super) fn tolerance(text: &str) -> Result<f64, String> {
        match text.parse::<f64>() {
            Ok(t) if TOLERANCES.contains(&t) => Ok(t),
            _ => Err("a tolerance is at least 1e-12 and less than 1".into()),
        }
    }

    pub(super) fn some_components(text: &str) -> Result<u32, String> {
        match text.parse() {
            Ok(k) if k > 0 => Ok(k),
            _ => Err("a model is cut to a number of components, 1 or more; shares and rules are \
                      for fit"
                .into()),
        }
    }
}
