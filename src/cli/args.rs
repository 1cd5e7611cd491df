//! The command line as typed. Checks here need no file; everything else is in the plans.

use crate::budget::Bytes;
use crate::kernel::KernelKind;
use crate::model::Method;
use crate::sink::Compression;
use crate::solve::Form;
use crate::solve::rules::Components;
use crate::solve::scoring::Score;
use crate::solve::supervised::LabelKernel;
use crate::source::Nulls;
use crate::source::block::Precision;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// Exact PCA, supervised PCA and kernel PCA on Parquet data larger than memory.
///
/// Fit a model in one streaming pass, write the scores back to Parquet in another. Results go to
/// standard output, everything else to standard error; exit code 0 is done, 1 failed, 2 misused.
#[derive(Debug, Parser)]
#[command(name = "eigenstream", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// Say nothing on standard error but errors.
    #[arg(long, global = true)]
    pub quiet: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
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

/// Which rows and columns, and what is done to them. Shared by `plan` and `fit`.
#[derive(Debug, Clone, Args)]
pub struct FitSpec {
    /// Parquet files, globs, or directories (read recursively, sorted by path).
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    /// The method.
    #[arg(long, value_enum, default_value_t)]
    pub method: Method,

    /// How it is computed.
    #[arg(long, value_enum, default_value_t)]
    pub form: FormChoice,

    /// How many components: a number, a share of the variance like 0.95, mle, elbow or all.
    #[arg(short = 'k', long, default_value_t, value_name = "N|RATIO|mle|elbow|all")]
    pub components: Components,

    /// Columns that are features: names or globs, comma-separated. Default: all numeric ones.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub columns: Vec<String>,

    /// Columns that are not features: names or globs, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub exclude: Vec<String>,

    /// Label columns of spca and kspca, comma-separated. Never features by default.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    pub label: Vec<String>,

    /// Kernel over the labels. Default: delta for strings, bools and --classes, linear for numbers.
    #[arg(long, value_enum)]
    pub label_kernel: Option<LabelKernel>,

    /// Gamma of the rbf kernel over labels, exp(-gamma ‖y - y'‖²). Default: 1 over the number of label columns.
    #[arg(long, value_name = "G", value_parser = positive, allow_negative_numbers = true)]
    pub label_gamma: Option<f64>,

    /// Random Fourier features that stand for the rbf kernel where there are more than 1000 distinct labels.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub label_features: u32,

    /// Numeric labels are classes: equal or not.
    #[arg(long)]
    pub classes: bool,

    /// Of spca: gather the covariance too, to tell each component's share of the variance.
    #[arg(long)]
    pub with_variance: bool,

    /// The kernel of kpca and kspca.
    #[command(flatten)]
    pub kernel: KernelArgs,

    /// Of kpca, an approximation: compare rows with this many of them (Nyström) instead of all.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=20_000), conflicts_with = "random_features")]
    pub landmarks: Option<u32>,

    /// How landmarks are chosen from a seeded sample.
    #[arg(long, value_enum, default_value_t)]
    pub landmark_choice: LandmarkChoice,

    /// Of kpca with the rbf kernel, an approximation: this many random Fourier features instead of it.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub random_features: Option<u32>,

    /// Learn a way back from the scores of a kernel model, for reconstruct --preimage ridge.
    #[arg(long, value_enum)]
    pub preimage: Option<LearnedPreimage>,

    /// Keep only the features that depend most on this label, whatever the method.
    #[arg(long, value_name = "COL")]
    pub score_by: Option<String>,

    /// How many features --score-by keeps.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_features: Option<u32>,

    /// The least score that --score-by keeps.
    #[arg(long, value_name = "T", value_parser = finite, allow_negative_numbers = true)]
    pub score_threshold: Option<f64>,

    /// Score by magnitude, or as it is.
    #[arg(long, value_enum, default_value_t)]
    pub score: Score,

    /// Do not subtract the mean (latent semantic analysis).
    #[arg(long)]
    pub no_center: bool,

    /// Divide each feature by its standard deviation (correlation PCA).
    #[arg(long)]
    pub standardize: bool,

    /// Column of frequency weights: a row of weight 3 counts as three equal rows.
    #[arg(long, value_name = "COL")]
    pub weight: Option<String>,

    /// What to do with nulls and NaN.
    #[arg(long, value_enum, default_value_t)]
    pub nulls: Nulls,

    /// Arithmetic of the products; mixed needs f32 features.
    #[arg(long, value_enum, default_value_t)]
    pub precision: Precision,

    /// Of --form randomized and kpca: the largest residual over the first eigenvalue, and of --form randomized the
    /// relative error of an eigenvalue. Default: 1e-6, of kpca 1e-8.
    #[arg(long, value_name = "T", value_parser = tolerance)]
    pub tolerance: Option<f64>,

    /// Of --form randomized: the most passes over the data; of kpca: the most products with the kernel matrix.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub max_passes: u16,

    /// Keep a model whose components miss the tolerance; it says which. (Where the primal form fits the memory, it
    /// takes over instead.)
    #[arg(long)]
    pub allow_unconverged: bool,

    /// Seed of random numbers.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,

    /// Where temporary files go. Default: the system's place for them.
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,

    /// Resources.
    #[command(flatten)]
    pub resources: Resources,
}

/// For the defaults of all options.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    spec: FitSpec,
}

impl FitSpec {
    /// `--tolerance` of the randomized form.
    pub fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(1e-6)
    }

    /// All defaults, for supervised PCA of no data.
    pub fn supervised() -> FitSpec {
        let Defaults { spec } = Defaults::parse_from(["fit", "--method", "spca", "-"]);
        FitSpec { data: Vec::new(), ..spec }
    }
}

/// A kernel and its constants. Shared by `fit` and `hsic`.
#[derive(Debug, Clone, Args)]
pub struct KernelArgs {
    /// Kernel over the rows. Default: rbf for kpca and kspca, linear for hsic.
    #[arg(long, value_enum)]
    pub kernel: Option<KernelKind>,

    /// Gamma of rbf, c1 of poly and sigmoid; median: 1 over twice the median squared distance of a seeded sample.
    /// Default: 1 over the number of features.
    #[arg(long, value_name = "G|median", allow_negative_numbers = true)]
    pub gamma: Option<Gamma>,

    /// Another way to say gamma of rbf: 1 / (2 sigma²).
    #[arg(long, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub sigma: Option<f64>,

    /// c2 of poly and sigmoid, c1 of linear. Default: 0.
    #[arg(long, value_name = "C", value_parser = finite, allow_negative_numbers = true)]
    pub coef0: Option<f64>,

    /// Degree of poly. Default: 3.
    #[arg(long, value_name = "N", value_parser = degree, allow_negative_numbers = true)]
    pub degree: Option<u32>,
}

/// `--gamma`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gamma {
    /// A number.
    Value(f64),
    /// From the median distance.
    Median,
}

impl FromStr for Gamma {
    type Err = String;

    fn from_str(text: &str) -> Result<Gamma, String> {
        match text {
            "median" => Ok(Gamma::Median),
            number => positive(number).map(Gamma::Value).map_err(|e| format!("{e}, or median")),
        }
    }
}

/// `--landmark-choice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LandmarkChoice {
    /// Each far from those before it (k-means++).
    #[default]
    #[value(name = "kmeans++")]
    KMeans,
    /// Any row as likely as another.
    Uniform,
}

/// `fit --preimage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LearnedPreimage {
    /// Ridge regression from scores to rows.
    Ridge,
}

/// `reconstruct --preimage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preimage {
    /// Mika's iteration, for the rbf kernel.
    FixedPoint,
    /// The map that fit --preimage ridge has learned.
    Ridge,
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(c) if c.is_finite() => Ok(c),
        _ => Err("it must be a number".into()),
    }
}

fn degree(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if (1..=100).contains(&n) => Ok(n),
        _ => Err("a degree is a whole number from 1 to 100".into()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(g) if g > 0.0 && g.is_finite() => Ok(g),
        _ => Err("it must be a number greater than 0".into()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(t) if (1e-12..1.0).contains(&t) => Ok(t),
        _ => Err("a tolerance is at least 1e-12 and less than 1".into()),
    }
}

/// Ceilings.
#[derive(Debug, Clone, Args)]
pub struct Resources {
    /// The most memory to use, like 500MB or 2GiB. Default: a quarter of the machine's.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,

    /// Worker threads. Default: one per core. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl Resources {
    /// Worker threads wanted.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }
}

/// Cores of the machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `--form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FormChoice {
    /// Let the plan choose.
    #[default]
    Auto,
    /// The d × d covariance, in one pass.
    Primal,
    /// The n × n Gram matrix, over groups of features: for fewer rows than features.
    Dual,
    /// Block Krylov: the leading components to a tolerance, where neither matrix fits.
    Randomized,
    /// Of kpca: the kernel matrix by tiles, also where a shortcut would do.
    Exact,
    /// Of kspca: the generalised n × n problem, by way of its labels.
    Direct,
}

impl FormChoice {
    /// The form that was asked for, if one was.
    pub fn form(self) -> Option<Form> {
        match self {
            FormChoice::Auto => None,
            FormChoice::Primal => Some(Form::Primal),
            FormChoice::Dual => Some(Form::Dual),
            FormChoice::Randomized => Some(Form::Randomized),
            FormChoice::Exact => Some(Form::Exact),
            FormChoice::Direct => Some(Form::Direct),
        }
    }
}

/// `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The fit to plan.
    #[command(flatten)]
    pub fit: FitSpec,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `fit`.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// The fit.
    #[command(flatten)]
    pub fit: FitSpec,

    /// The model file to write.
    #[arg(short, long, value_name = "MODEL")]
    pub output: PathBuf,

    /// Add DATA to this state (made if it is not there) and fit all that is in it; pca and spca.
    #[arg(long, value_name = "STATE")]
    pub state: Option<PathBuf>,

    /// Of --state: pass files over that are in it already.
    #[arg(long, requires = "state")]
    pub skip_known: bool,

    /// Where to resume.
    #[command(flatten)]
    pub checkpoint: CheckpointArgs,

    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Where a scan is saved on the way. Shared by `scan` and `fit`.
#[derive(Debug, Clone, Args)]
pub struct CheckpointArgs {
    /// Save the scan here on the way, at the end of row groups; a rerun goes on from it and removes it when done.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,

    /// Seconds between two saves, at least.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub checkpoint_seconds: u64,
}

/// What a state keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Statistic {
    /// The covariance.
    Pca,
    /// What supervised PCA needs of the labels.
    Spca,
    /// What --score-by needs: the same sums as spca.
    Scored,
}

/// `scan`.
#[derive(Debug, Clone, Args)]
pub struct ScanArgs {
    /// Parquet files, globs, or directories (read recursively, sorted by path).
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    /// The state file to write; with --by a directory.
    #[arg(short, long, value_name = "STATE")]
    pub output: PathBuf,

    /// What to keep, comma-separated. Default: everything one pass can give.
    #[arg(long = "for", value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub keep: Vec<Statistic>,

    /// Columns that are features: names or globs, comma-separated. Default: all numeric ones.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub columns: Vec<String>,

    /// Columns that are not features: names or globs, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub exclude: Vec<String>,

    /// Label columns, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    pub label: Vec<String>,

    /// Numeric labels are classes: equal or not.
    #[arg(long)]
    pub classes: bool,

    /// Column of frequency weights: a row of weight 3 counts as three equal rows.
    #[arg(long, value_name = "COL")]
    pub weight: Option<String>,

    /// What to do with nulls and NaN.
    #[arg(long, value_enum, default_value_t)]
    pub nulls: Nulls,

    /// Share rows out to this many folds (2 to 100), for solve --folds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=100), conflicts_with = "by")]
    pub folds: Option<u8>,

    /// Seed of the folds.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,

    /// One state per value of this column, in one pass; without --folds and --checkpoint.
    #[arg(long, value_name = "COL", conflicts_with = "checkpoint")]
    pub by: Option<String>,

    /// Where temporary files of --by go. Default: the system's place for them.
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,

    /// Where to resume.
    #[command(flatten)]
    pub checkpoint: CheckpointArgs,

    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,

    /// Resources.
    #[command(flatten)]
    pub resources: Resources,
}

/// `merge`.
#[derive(Debug, Clone, Args)]
pub struct MergeArgs {
    /// The states.
    #[arg(required = true, value_name = "STATE")]
    pub states: Vec<PathBuf>,

    /// The state file to write; it may be one of them.
    #[arg(short, long, value_name = "STATE")]
    pub output: PathBuf,

    /// Pass states over whose inputs are all in those before them.
    #[arg(long)]
    pub skip_known: bool,
}

/// `subtract`.
#[derive(Debug, Clone, Args)]
pub struct SubtractArgs {
    /// The state.
    #[arg(value_name = "STATE")]
    pub state: PathBuf,

    /// What is taken out of it.
    #[arg(value_name = "PART")]
    pub part: PathBuf,

    /// The state file to write.
    #[arg(short, long, value_name = "STATE")]
    pub output: PathBuf,
}

/// `solve`.
#[derive(Debug, Clone, Args)]
pub struct SolveArgs {
    /// A state, or a directory of them.
    #[arg(value_name = "STATE")]
    pub state: PathBuf,

    /// The model file to write; for a directory of states, a directory.
    #[arg(short, long, value_name = "MODEL")]
    pub output: PathBuf,

    /// The method: pca or spca.
    #[arg(long, value_enum, default_value_t)]
    pub method: Method,

    /// Of spca: which side is decomposed.
    #[arg(long, value_enum, default_value_t)]
    pub form: FormChoice,

    /// How many components: a number, a share of the variance like 0.95, mle, elbow or all.
    #[arg(short = 'k', long, default_value_t, value_name = "N|RATIO|mle|elbow|all")]
    pub components: Components,

    /// Features that take part: names or globs, comma-separated. Default: all of the state.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub columns: Vec<String>,

    /// Features that do not: names or globs, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub exclude: Vec<String>,

    /// Kernel over the labels: delta or linear.
    #[arg(long, value_enum)]
    pub label_kernel: Option<LabelKernel>,

    /// Of spca: tell each component's share of the variance.
    #[arg(long)]
    pub with_variance: bool,

    /// Keep only the features that depend most on this label, which must be that of the state.
    #[arg(long, value_name = "COL")]
    pub score_by: Option<String>,

    /// How many features --score-by keeps.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u32).range(1..), requires = "score_by")]
    pub keep_features: Option<u32>,

    /// The least score that --score-by keeps.
    #[arg(long, value_name = "T", value_parser = finite, allow_negative_numbers = true, requires = "score_by")]
    pub score_threshold: Option<f64>,

    /// Score by magnitude, or as it is.
    #[arg(long, value_enum, default_value_t)]
    pub score: Score,

    /// Choose by the folds of the state, by the squared error of the label on rows left out: with --score-by how many
    /// features (1, 2, 4, 7, … all), else, of spca, how many components, -k at most.
    #[arg(long)]
    pub folds: bool,

    /// Do not subtract the mean.
    #[arg(long)]
    pub no_center: bool,

    /// Divide each feature by its standard deviation.
    #[arg(long)]
    pub standardize: bool,

    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Where output rows go and how. Shared by `transform` and `reconstruct`.
#[derive(Debug, Clone, Args)]
pub struct OutputSpec {
    /// One file if it ends in .parquet, else a directory with one file per input file.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,

    /// Columns to pass through untouched, comma-separated names.
    #[arg(long, value_delimiter = ',', value_name = "COLS", conflicts_with = "keep_all")]
    pub keep: Vec<String>,

    /// Pass all columns through.
    #[arg(long)]
    pub keep_all: bool,

    /// Use only the first K components.
    #[arg(short = 'k', long = "components", value_name = "K", value_parser = some_components)]
    pub components: Option<u32>,

    /// Type of the numbers written.
    #[arg(long, value_enum, default_value_t)]
    pub dtype: Dtype,

    /// Compression of the output.
    #[arg(long, value_enum, default_value_t)]
    pub compression: Compression,

    /// Prefix of the score columns.
    #[arg(long, default_value = "pc", value_name = "NAME")]
    pub prefix: String,

    /// Print a summary as JSON.
    #[arg(long)]
    pub json: bool,

    /// Resources.
    #[command(flatten)]
    pub resources: Resources,
}

fn some_components(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(k) if k > 0 => Ok(k),
        _ => {
            Err("a model is cut to a number of components, 1 or more; shares and rules are for fit"
                .into())
        }
    }
}

/// `transform`.
#[derive(Debug, Args)]
pub struct TransformArgs {
    /// The model file.
    pub model: PathBuf,

    /// Parquet files, globs, or directories.
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    /// Where the scores go.
    #[command(flatten)]
    pub output: OutputSpec,

    /// One column per component, or one list column.
    #[arg(long, value_enum, default_value_t)]
    pub layout: Layout,

    /// Add columns reconstruction_error (distance to the reconstruction) and hotelling_t2.
    #[arg(long)]
    pub diagnostics: bool,
}

/// `reconstruct`.
#[derive(Debug, Args)]
pub struct ReconstructArgs {
    /// The model file.
    pub model: PathBuf,

    /// Parquet files, globs, or directories: rows, or scores with --from-scores.
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    /// Where the rows go.
    #[command(flatten)]
    pub output: OutputSpec,

    /// DATA holds scores (columns pc1, pc2, … or one list column pc) instead of rows.
    #[arg(long)]
    pub from_scores: bool,

    /// Of a kernel model: how to come near a row that its scores belong to.
    #[arg(long, value_enum)]
    pub preimage: Option<Preimage>,
}

/// `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The model file.
    pub model: PathBuf,

    /// Print the whole model as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `hsic`.
#[derive(Debug, Clone, Args)]
pub struct HsicArgs {
    /// Parquet files, globs, or directories.
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<String>,

    /// Label columns, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "COLS", required = true)]
    pub label: Vec<String>,

    /// Kernel over the labels. Default: delta for strings, bools and --classes, linear for numbers.
    #[arg(long, value_enum)]
    pub label_kernel: Option<LabelKernel>,

    /// Gamma of the rbf kernel over labels. Default: 1 over the number of label columns.
    #[arg(long, value_name = "G", value_parser = positive, allow_negative_numbers = true)]
    pub label_gamma: Option<f64>,

    /// Numeric labels are classes: equal or not.
    #[arg(long)]
    pub classes: bool,

    /// The kernel over the features.
    #[command(flatten)]
    pub kernel: KernelArgs,

    /// Measure the scores of this model instead of the features.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,

    /// Shuffle the labels this many times and tell how often that gives as much.
    #[arg(long, value_name = "P", default_value_t = 0)]
    pub permutations: usize,

    /// Seed of the shuffles.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,

    /// Columns that are features: names or globs, comma-separated. Default: all numeric ones.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub columns: Vec<String>,

    /// Columns that are not features: names or globs, comma-separated.
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub exclude: Vec<String>,

    /// What to do with nulls and NaN.
    #[arg(long, value_enum, default_value_t)]
    pub nulls: Nulls,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// Resources.
    #[command(flatten)]
    pub resources: Resources,
}

/// `generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// What kind of data.
    #[arg(value_enum)]
    pub kind: crate::generate::Kind,

    /// The directory to write.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// Rows in all files.
    #[arg(long, default_value_t = 10_000)]
    pub rows: u64,

    /// Features. Default: what suits the kind.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub columns: Option<u32>,

    /// Files to spread the rows over.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub files: u32,

    /// Rows per row group. Default: what suits the kind.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub row_group: Option<u32>,

    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The directory to work in; made, and replaced if a demo made it.
    #[arg(short, long, value_name = "DIR", default_value = "eigenstream-demo")]
    pub output: PathBuf,

    /// Rows to generate.
    #[arg(long, default_value_t = 200_000)]
    pub rows: u64,
}

/// Type of computed columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Dtype {
    /// Double.
    #[default]
    F64,
    /// Single.
    F32,
}

/// Shape of the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Layout {
    /// pc1, pc2, …
    #[default]
    Columns,
    /// One FixedSizeList column.
    List,
}
