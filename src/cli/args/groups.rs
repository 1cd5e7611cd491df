//! Arguments that several commands share.

use super::names::{ColumnName, NameList};
use super::numbers::{degree, finite, positive};
use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::fit::bounds::{MOST_LANDMARKS, MOST_THREADS};
use crate::fit::{Approximate, Gamma, KernelOptions, LandmarkChoice, Resources, ScoringOptions};
use crate::kernel::KernelKind;
use crate::model::Method;
use crate::solve::Form;
use crate::solve::rules::Components;
use crate::solve::scoring::{Keep, Score};
use crate::staged::{Waiting, check_file};
use crate::state::Checkpoint;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Which columns are features. Shared by `plan`, `fit`, `scan`, `solve` and `hsic`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ColumnArgs {
    /// Columns that are features: names or globs, comma-separated; a.b is the field b of a struct.
    /// A name in double quotes is written as in JSON and taken as it is: '"a,b","no * glob"'; so in
    /// every option that names columns. Default: all numeric ones but the index of a pandas frame,
    /// partition keys (directories named key=value) and fields of structs.
    #[arg(long, value_name = "GLOBS")]
    pub(crate) columns: Vec<NameList>,

    /// Columns that are not features: names or globs, comma-separated.
    #[arg(long, value_name = "GLOBS")]
    pub(crate) exclude: Vec<NameList>,
}

impl From<&ColumnArgs> for crate::fit::ColumnOptions {
    fn from(args: &ColumnArgs) -> crate::fit::ColumnOptions {
        let (include, exclude) = (NameList::all(&args.columns), NameList::all(&args.exclude));
        crate::fit::ColumnOptions { include, exclude, exactly: None }
    }
}

/// What model is made. Shared by `plan`, `fit` and `solve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// The method.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) method: Method,

    /// How it is computed.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) form: FormChoice,

    /// How many components: a number, a share of the variance like 0.95, those with a variance
    /// 'value>T' or a share of it 'ratio>R' of their own, mle, elbow or all.
    #[arg(
        short = 'k',
        long,
        default_value_t,
        default_value_if("basis", clap::builder::ArgPredicate::IsPresent, "all"),
        value_name = "N|RATIO|value>T|ratio>R|mle|elbow|all"
    )]
    pub(crate) components: Components,

    /// Of spca: gather the covariance too, to tell each component's share of the variance.
    #[arg(long)]
    pub(crate) with_variance: bool,

    /// Do not subtract the mean (latent semantic analysis).
    #[arg(long)]
    pub(crate) no_center: bool,

    /// Divide each feature by its standard deviation (correlation PCA).
    #[arg(long)]
    pub(crate) standardize: bool,
}

/// `--form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum FormChoice {
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
    pub(crate) fn form(self) -> Option<Form> {
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

/// Selection of features by their scores. Shared by `plan`, `fit` and `solve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScoreArgs {
    /// Keep only the features that depend most on this label, whatever the method.
    #[arg(long, value_name = "COL")]
    pub(crate) score_by: Option<ColumnName>,

    /// How many features --score-by keeps.
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep_features: Option<u32>,

    /// The least score that --score-by keeps.
    #[arg(long, value_name = "T", value_parser = finite, allow_negative_numbers = true)]
    pub(crate) score_threshold: Option<f64>,

    /// Score by magnitude, or as it is.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) score: Score,

    /// Score centred columns or raw ones. Default: as the method centres.
    #[arg(long, value_enum)]
    pub(crate) score_center: Option<YesNo>,
}

/// `--score-center`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    /// Yes.
    Yes,
    /// No.
    No,
}

impl ScoreArgs {
    /// What was asked; `folds` says whether they choose how many features are kept, of a command
    /// that has them.
    pub(crate) fn options(&self, folds: Option<bool>) -> Result<Option<ScoringOptions>> {
        let keep = match (&self.score_by, self.keep_features, self.score_threshold) {
            (None, None, None) if self.score_center.is_none() => return Ok(None),
            (None, ..) => {
                return Error::misuse(
                    "--keep-features, --score-threshold and --score-center need a label to score \
                     by; name it with --score-by",
                );
            }
            (Some(_), None, None) => match folds {
                Some(true) => Keep::Features(1),
                Some(false) => {
                    return Error::misuse(
                        "--score-by needs --keep-features Q, --score-threshold T, or --folds to \
                         choose",
                    );
                }
                None => {
                    return Error::misuse(
                        "--score-by needs --keep-features Q or --score-threshold T",
                    );
                }
            },
            (Some(_), Some(_), Some(_)) => {
                return Error::misuse(
                    "--keep-features and --score-threshold are two ways to cut; give one",
                );
            }
            (Some(_), Some(q), None) => Keep::Features(q as usize),
            (Some(_), None, Some(t)) => Keep::Threshold(t),
        };
        let by = self.score_by.as_ref().map_or_else(String::new, |ColumnName(by)| by.clone());
        let center = self.score_center.map(|answer| answer == YesNo::Yes);
        Ok(Some(ScoringOptions { by, keep, score: self.score, center }))
    }
}

/// A kernel and its constants. Shared by `plan`, `fit` and `hsic`.
#[derive(Debug, Clone, Args)]
pub(crate) struct KernelArgs {
    /// Kernel over the rows. Default: rbf for kpca and kspca, linear for hsic.
    #[arg(long, value_enum)]
    pub(crate) kernel: Option<KernelKind>,

    /// Gamma of rbf, c1 of poly and sigmoid; median: 1 over twice the median squared distance of a
    /// seeded sample. Default: 1 over the number of features.
    #[arg(long, value_name = "G|median", allow_negative_numbers = true)]
    pub(crate) gamma: Option<GammaArg>,

    /// Another way to say gamma of rbf: 1 / (2 sigma²).
    #[arg(long, value_name = "S", value_parser = positive, allow_negative_numbers = true)]
    pub(crate) sigma: Option<f64>,

    /// c2 of poly and sigmoid, c1 of linear. Default: 0.
    #[arg(long, value_name = "C", value_parser = finite, allow_negative_numbers = true)]
    pub(crate) coef0: Option<f64>,

    /// Degree of poly. Default: 3.
    #[arg(long, value_name = "N", value_parser = degree, allow_negative_numbers = true)]
    pub(crate) degree: Option<u32>,
}

impl From<&KernelArgs> for KernelOptions {
    fn from(args: &KernelArgs) -> KernelOptions {
        let KernelArgs { kernel, gamma, sigma, coef0, degree } = *args;
        let gamma = gamma.map(|GammaArg(gamma)| gamma);
        KernelOptions { kind: kernel, gamma, sigma, coef0, degree, ..KernelOptions::default() }
    }
}

/// What may stand for the kernel over rows. Shared by `plan`, `fit` and `hsic`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApproximationArgs {
    /// Of kpca and hsic, an approximation: compare rows with this many of them (Nyström) instead of
    /// all.
    #[arg(
        long,
        value_name = "M",
        value_parser = clap::value_parser!(u32).range(1..=MOST_LANDMARKS as i64),
        conflicts_with = "random_features"
    )]
    pub(crate) landmarks: Option<u32>,

    /// How landmarks are chosen from a seeded sample.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) landmark_choice: LandmarkChoice,

    /// Of kpca and hsic with the rbf kernel, an approximation: this many random Fourier features
    /// instead of it.
    #[arg(
        long,
        value_name = "M",
        value_parser = clap::value_parser!(u32).range(1..=MOST_LANDMARKS as i64)
    )]
    pub(crate) random_features: Option<u32>,
}

impl ApproximationArgs {
    /// What stands for the kernel, if something does.
    pub(crate) fn approximation(&self) -> Option<Approximate> {
        let choice = self.landmark_choice;
        let landmarks =
            self.landmarks.map(|m| Approximate::Landmarks { count: m as usize, choice });
        landmarks.or(self.random_features.map(|m| Approximate::Fourier(m as usize)))
    }
}

/// `--gamma`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GammaArg(Gamma);

impl FromStr for GammaArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<GammaArg, String> {
        match text {
            "median" => Ok(GammaArg(Gamma::Median)),
            number => {
                let value = positive(number).map_err(|e| format!("{e}, or median"))?;
                Ok(GammaArg(Gamma::Value(value)))
            }
        }
    }
}

/// Ceilings.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResourceArgs {
    /// The most memory to use, like 500MB or 2GiB. Default: a quarter of the machine's.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,

    /// Worker threads. Default: one per core. Results do not depend on it.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS as i64)
    )]
    pub(crate) threads: Option<u16>,
}

impl ResourceArgs {
    /// With a place for temporary files.
    pub(crate) fn with_temp_dir(&self, temp_dir: Option<PathBuf>) -> Resources {
        let threads = self.threads.map(usize::from);
        Resources { memory: self.memory, threads, temp_dir }
    }
}

/// Where a scan is saved on the way. Shared by `scan` and `fit`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckpointArgs {
    /// Save the scan here on the way, at the end of row groups; a rerun goes on from it and removes
    /// it when done.
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// Seconds between two saves, at least.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) checkpoint_seconds: u64,
}

impl CheckpointArgs {
    /// The checkpoint, which must not be a result, too: it is removed in the end.
    pub(crate) fn apart_from(&self, results: &[&Path]) -> Result<Option<Checkpoint>> {
        let Some(path) = &self.checkpoint else { return Ok(None) };
        check_file(path)?;
        if results.iter().any(|result| same_file(path, result)) {
            return Error::misuse(format!(
                "--checkpoint {} is what is written in the end, too; name another file",
                path.display()
            ));
        }
        let every = Duration::from_secs(self.checkpoint_seconds);
        Ok(Some(Checkpoint { path: path.clone(), every }))
    }
}

/// `--no-wait`.
pub(crate) fn waiting(no_wait: bool) -> Waiting {
    if no_wait { Waiting::Fail } else { Waiting::Wait }
}

/// True when two paths name the same file, also one that is not there yet.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |p: &Path| {
        let parent = p.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = || Some(std::fs::canonicalize(parent).ok()?.join(p.file_name()?));
        std::fs::canonicalize(p).ok().or_else(beside)
    };
    a == b || (whole(a).is_some() && whole(a) == whole(b))
}
