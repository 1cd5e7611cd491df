//! What a user should know of a run: values, with the sentence each of them becomes.
//!
//! A [`Note`] carries what it is about, so that a front end can match on it. Its sentence names
//! options as `⟦…⟧`, which the front end writes in its own way (see [`crate::error::phrase`]).

use crate::error::{Unconverged, plain};
use crate::words::{count, five_digits, passes, products, some, thousands};
use std::fmt;

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What was done.
    Info,
    /// What was lost, capped or assumed.
    Note,
    /// What may be wrong with the result.
    Warning,
}

/// Something a user should know.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// An option was given and changes nothing, or less than it seems.
    NoEffect {
        /// Its name.
        option: &'static str,
        /// The whole sentence.
        sentence: String,
    },
    /// A label is among the features.
    LabelIsFeature(String),
    /// Rows were left out for missing values: of so many, for cells of these features.
    RowsDropped {
        /// Rows left out.
        dropped: u64,
        /// Rows read.
        rows: u64,
        /// Missing cells by feature.
        missing: Vec<(String, u64)>,
    },
    /// Missing cells took their feature's mean.
    CellsFilled {
        /// Missing cells by feature.
        missing: Vec<(String, u64)>,
    },
    /// Rows without a label were left out.
    Unlabelled(u64),
    /// Rows without the label that is scored by were left out of the scoring.
    UnlabelledInScoring(u64),
    /// Integers or decimals that a double cannot hold were rounded.
    Rounded(Vec<(String, u64)>),
    /// Constant features were left out of the standardized ones.
    ConstantFeatures(Vec<String>),
    /// Fewer components than asked for, because of the rank.
    CappedAtRank {
        /// Components kept.
        kept: usize,
        /// Components asked for.
        asked: usize,
        /// "data" or "kernel".
        of: &'static str,
        /// Its rank.
        rank: usize,
        /// Rows that counted.
        rows: u64,
        /// Features.
        features: u64,
    },
    /// All components were asked for, and there are fewer than features.
    RankDeficient {
        /// Components kept.
        kept: usize,
        /// Features.
        features: u64,
    },
    /// Fewer components than asked for, because the labels allow no more.
    CappedByLabels {
        /// Components kept.
        kept: usize,
        /// Components asked for.
        asked: usize,
        /// Why.
        why: String,
    },
    /// Nearly every row is a class of its own.
    ManyClasses {
        /// Classes.
        classes: usize,
        /// Rows.
        rows: u64,
    },
    /// Features were selected by their scores.
    Scored {
        /// The label.
        by: String,
        /// Features kept.
        kept: usize,
        /// Features scored.
        of: usize,
        /// The least score kept.
        cut: f64,
    },
    /// Random Fourier features stand for the rbf kernel over labels.
    LabelFeatures {
        /// Distinct labels up to which it is exact.
        exact: usize,
        /// How many stand for it.
        features: usize,
        /// True when they take another pass.
        another_pass: bool,
    },
    /// γ was left to the default.
    DefaultGamma {
        /// Features.
        features: usize,
    },
    /// γ came from the median distance.
    MedianGamma(f64),
    /// The kernel is linear, so kernel PCA is PCA.
    KernelIsPca,
    /// Negative eigenvalues of an indefinite kernel were dropped.
    NegativeEigenvalues {
        /// How many.
        count: usize,
        /// True when there may be more.
        at_least: bool,
    },
    /// Fewer rows differ than landmarks were asked for.
    FewerLandmarks {
        /// Landmarks found.
        found: usize,
        /// Landmarks asked for.
        asked: usize,
    },
    /// Landmarks or random features stand for the kernel.
    KernelApproximated {
        /// "landmark" or "random feature".
        kind: &'static str,
        /// How many.
        size: usize,
        /// Their rank.
        rank: usize,
        /// Relative error on the sample.
        error: f64,
        /// Rows of the sample.
        sample: usize,
    },
    /// A map back from scores was learned.
    PreimageLearned {
        /// Rows it interpolates between.
        anchors: usize,
        /// Share of the spread it does not bring back.
        loss: f64,
    },
    /// ΘᵀKΘ is not quite I.
    NotOrthonormal(f64),
    /// A product or pass of an iteration is done.
    Residual {
        /// "pass" or "product".
        what: &'static str,
        /// Which, counted from 1.
        number: usize,
        /// The largest residual so far.
        residual: f64,
    },
    /// An iteration has ended.
    Iterated {
        /// Passes, or products with a kernel matrix.
        count: usize,
        /// True for products.
        products: bool,
        /// The largest residual.
        residual: f64,
    },
    /// Components that miss the tolerance are kept as they are.
    KeptUnconverged(Unconverged),
    /// The primal form takes over from an iteration that missed its tolerance.
    PrimalTakesOver(Unconverged),
    /// The whole kernel matrix is decomposed after all.
    DenseTakesOver {
        /// Products made.
        products: usize,
        /// The components asked for, where they are out of reach of products.
        out_of_reach: Option<String>,
    },
    /// Products were made in f32.
    MixedError(f64),
    /// Subtractions have cost a state digits.
    DigitsLost(f64),
    /// What is left after a subtraction has few digits.
    LittleLeft(f64),
    /// Rows of the state were dropped for features that take no part now.
    DroppedForOthers(u64),
    /// A state has no covariance to tell variances by.
    NoCovariance,
    /// A scan keeps nothing of its label.
    LabelNotKept,
    /// A scan goes on from its checkpoint.
    Resumed {
        /// Units done.
        units: usize,
        /// Of so many.
        of: usize,
    },
    /// Files that a state has already were passed over.
    KnownFiles(u64),
    /// A state whose inputs are all there already was passed over.
    KnownState(String),
    /// Groups did not fit the memory together.
    GroupsSwapped {
        /// Groups.
        groups: usize,
        /// How often one was written to disk.
        swaps: u64,
    },
    /// A group that no model can be made of.
    NoModel {
        /// The state.
        state: String,
        /// Why.
        why: String,
    },
    /// More components were asked of a model than it has.
    ModelHasFewer {
        /// Components asked for.
        asked: usize,
        /// Components of the model.
        has: usize,
    },
    /// Output files of an earlier run were kept.
    FilesKept {
        /// Complete ones.
        kept: usize,
        /// Of so many.
        of: u64,
    },
    /// What pre-images by ridge regression lose: a share of the rows' spread.
    RidgeLoss(f64),
    /// What pre-images by fixed point lose, and rows whose iteration did not settle.
    FixedPointLoss {
        /// Mean squared distance, where the kernel maps to.
        distance: f64,
        /// Rows.
        unsettled: u64,
    },
    /// Rows were dropped as the model's policy says.
    DroppedAsFitted {
        /// Rows left out.
        dropped: u64,
        /// Rows read.
        rows: u64,
    },
    /// Missing cells took the training mean as the model's policy says.
    FilledAsFitted(u64),
    /// Computed numbers beyond the range of their type.
    Overflowed {
        /// How many.
        numbers: u64,
        /// The type.
        dtype: &'static str,
    },
}

fn by_feature(counts: &[(String, u64)]) -> String {
    let each: Vec<String> =
        counts.iter().map(|(name, n)| format!("{name} ({})", thousands(*n))).collect();
    some(&each)
}

fn cells(missing: &[(String, u64)]) -> String {
    let all = count(missing.iter().map(|(_, n)| n).sum(), "missing value");
    format!("{all}: {}", by_feature(missing))
}

impl Note {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Note::Scored { .. }
            | Note::MedianGamma(_)
            | Note::KernelApproximated { .. }
            | Note::PreimageLearned { .. }
            | Note::Residual { .. }
            | Note::Iterated { .. }
            | Note::Resumed { .. }
            | Note::KnownFiles(_)
            | Note::KnownState(_)
            | Note::GroupsSwapped { .. }
            | Note::FilesKept { .. }
            | Note::RidgeLoss(_)
            | Note::FixedPointLoss { .. } => Level::Info,
            Note::KeptUnconverged(_) | Note::DigitsLost(_) | Note::LittleLeft(_) => Level::Warning,
            _ => Level::Note,
        }
    }

    /// The sentence, options marked for [`crate::error::phrase`].
    pub fn sentence(&self) -> String {
        self.about_data().or_else(|| self.about_fits()).unwrap_or_else(|| self.about_files())
    }

    /// What was met in the rows, and what options did.
    fn about_data(&self) -> Option<String> {
        Some(match self {
            Note::NoEffect { sentence, .. } => sentence.clone(),
            Note::LabelIsFeature(name) => format!("label '{name}' is among the features"),
            Note::RowsDropped { dropped, rows, missing } => {
                let dropped = count(*dropped, "row");
                format!("{dropped} of {} dropped for {}", thousands(*rows), cells(missing))
            }
            Note::CellsFilled { missing } => {
                format!("the feature's mean put for {}", cells(missing))
            }
            Note::Unlabelled(rows) => format!("{} without a label dropped", count(*rows, "row")),
            Note::UnlabelledInScoring(rows) => {
                format!("{} without a label left out of the scoring", count(*rows, "row"))
            }
            Note::Rounded(features) => {
                let features = by_feature(features);
                format!("numbers beyond 2^53 were rounded to the nearest double: {features}")
            }
            Note::ConstantFeatures(names) => {
                format!("constant, so left out of the standardized features: {}", some(names))
            }
            Note::Scored { by, kept, of, cut } => {
                let all = count(*of as u64, "feature");
                format!("scored by {by}: kept {kept} of {all}, the least score kept {cut:.4}")
            }
            Note::ManyClasses { classes, rows } => {
                let rows = count(*rows, "row");
                format!("{classes} classes for {rows}: is the label an id, or a number?")
            }
            Note::DroppedAsFitted { dropped, rows } => format!(
                "{} of {} dropped for nulls, as in the fit (⟦nulls=drop⟧)",
                count(*dropped, "row"),
                thousands(*rows)
            ),
            Note::FilledAsFitted(cells) => format!(
                "{} filled with the training mean, as in the fit (⟦nulls=mean⟧)",
                count(*cells, "missing value")
            ),
            _ => return None,
        })
    }

    /// How a decomposition went.
    fn about_fits(&self) -> Option<String> {
        Some(match self {
            Note::CappedAtRank { kept, asked, of, rank, rows, features } => {
                let (rows, features) = (count(*rows, "row"), count(*features, "feature"));
                format!(
                    "kept {kept} of {asked} components: the {of} has rank {rank} \
                     ({rows} × {features})"
                )
            }
            Note::RankDeficient { kept, features } => {
                let all = count(*features, "feature");
                format!("rank {kept} of {all}: the other directions vary by no more than rounding")
            }
            Note::CappedByLabels { kept, asked, why } => {
                format!("kept {kept} of {asked} components: {why}")
            }
            Note::LabelFeatures { exact, features, another_pass } => format!(
                "more than {} distinct labels, so the rbf kernel over them is approximated by \
                 {features} random features (an entry is off by about {:.1e}){}",
                thousands(*exact as u64).replace(',', ""),
                (1.0 / *features as f64).sqrt(),
                if *another_pass { "; one more pass" } else { "" }
            ),
            Note::DefaultGamma { features } => {
                format!("gamma is 1/{features} unless ⟦gamma⟧ says otherwise")
            }
            Note::MedianGamma(gamma) => format!(
                "gamma {}: 1 over twice the median squared distance of a sample",
                five_digits(*gamma)
            ),
            Note::KernelIsPca => "with a linear kernel kernel PCA is PCA, and is fitted as such \
                                  (⟦form=exact⟧ goes by the kernel matrix)"
                .into(),
            Note::NegativeEigenvalues { count: n, at_least } => format!(
                "{}{} dropped: the kernel is not positive semidefinite on these rows",
                if *at_least { "at least " } else { "" },
                count(*n as u64, "negative eigenvalue")
            ),
            Note::FewerLandmarks { found, asked } => {
                let few = count(*found as u64, "landmark");
                format!("{few} instead of {asked}: there are no more rows that differ")
            }
            Note::KernelApproximated { kind, size, rank, error, sample } => format!(
                "{} (rank {rank}) stand for the kernel: off by {error:.2e} of its size on {}",
                count(*size as u64, kind),
                count(*sample as u64, "sampled row")
            ),
            Note::PreimageLearned { anchors, loss } => format!(
                "pre-image: ridge over {anchors} anchors, leaves {:.2} % of the spread of rows \
                 it was not learned from",
                100.0 * loss
            ),
            Note::NotOrthonormal(by) => format!(
                "ΘᵀKΘ differs from I by {by:.1e}: the last components are near rounding, ask for \
                 fewer with ⟦components⟧"
            ),
            Note::MixedError(error) => {
                format!("products in f32, largest relative error of those checked {error:.1e}")
            }
            _ => return self.about_iterations(),
        })
    }

    fn about_iterations(&self) -> Option<String> {
        Some(match self {
            Note::Residual { what, number, residual } => {
                format!("{what} {number}: residual {residual:.1e}")
            }
            Note::Iterated { count, products: by_products, residual } => {
                let done = if *by_products { products(*count) } else { passes(*count) };
                format!("{done}, largest residual {residual:.1e}")
            }
            Note::KeptUnconverged(iteration) => iteration.outcome(),
            Note::PrimalTakesOver(iteration) => {
                format!("{}; the primal form fits and takes over", iteration.outcome())
            }
            Note::DenseTakesOver { products, out_of_reach: Some(asked) } => format!(
                "{products} products do not reach ⟦components={asked}⟧; the whole matrix fits and \
                 is decomposed"
            ),
            Note::DenseTakesOver { products, out_of_reach: None } => format!(
                "after {products} products some components miss the tolerance; the whole matrix \
                 fits and is decomposed"
            ),
            _ => return None,
        })
    }

    /// States and outputs.
    fn about_files(&self) -> String {
        match self {
            Note::DigitsLost(digits) => format!(
                "subtractions have cost this state about {digits:.0} of 16 digits; scan again for \
                 a better one"
            ),
            Note::LittleLeft(digits) => format!(
                "what is left is so little of what was there that about {digits:.0} of 16 digits \
                 are lost"
            ),
            Note::DroppedForOthers(rows) => format!(
                "{} were dropped for nulls in any feature of the state, also those that are left \
                 out here",
                count(*rows, "row")
            ),
            Note::NoCovariance => "this state has no covariance to tell variances by; scan with \
                                   ⟦for=pca,spca⟧"
                .into(),
            Note::LabelNotKept => "⟦for=pca⟧ keeps nothing of the label".into(),
            Note::Resumed { units, of } => format!("going on after {units} of {of} units"),
            Note::KnownFiles(files) => {
                format!("{} in the state already, passed over", count(*files, "file"))
            }
            Note::KnownState(path) => {
                format!("{path}: all its inputs are there already, passed over")
            }
            Note::GroupsSwapped { groups, swaps } => format!(
                "{groups} groups did not fit the memory together, {} swaps",
                thousands(*swaps)
            ),
            Note::NoModel { state, why } => format!("{state}: no model: {why}"),
            Note::ModelHasFewer { asked, has } => {
                format!("asked for {asked} components, the model has {has}")
            }
            Note::FilesKept { kept, of } => {
                format!("{kept} of {} complete already and kept", count(*of, "file"))
            }
            Note::RidgeLoss(share) => format!(
                "pre-images by ridge: {:.2} % of the rows' spread is not brought back",
                100.0 * share
            ),
            Note::FixedPointLoss { distance, unsettled } => {
                let unsettled = match unsettled {
                    0 => String::new(),
                    n => format!("; the iteration of {} did not come to rest", count(*n, "row")),
                };
                format!(
                    "pre-images by fixed point: mean squared distance {distance:.3e} from the \
                     projections, where the kernel maps to{unsettled}"
                )
            }
            Note::Overflowed { numbers, dtype } => format!(
                "{} beyond the range of {dtype} written as inf or NaN",
                count(*numbers, "computed number")
            ),
            _ => String::new(),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.sentence()))
    }
}
