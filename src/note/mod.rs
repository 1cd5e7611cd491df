//! What a user should know of a run: values, with the sentence each of them becomes.
//!
//! A [`Note`] carries what it is about, so that a front end can match on it. Its sentence names
//! options as `⟦…⟧`, which the front end writes in its own way (see [`crate::error::phrase`]).

mod sentences;

use crate::error::{Unconverged, plain};
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
    /// Features that nobody named number the rows, or look like ids.
    IdFeatures(Vec<String>),
    /// Columns that are not of one width everywhere, or not of that of the model.
    Widened {
        /// The columns and the types they have.
        columns: Vec<(String, Vec<String>)>,
        /// True when the first type is the model's, and the second that of the data.
        fitted: bool,
    },
    /// Columns that a state knows nothing of, and that are not added to it.
    NotInState(Vec<String>),
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
    /// Labels of which some are numbers and some are not.
    MixedLabels {
        /// Those that are numbers.
        numbers: Vec<String>,
        /// Text and bools.
        classes: Vec<String>,
        /// True when every combination of values is a class; false when numbers count as such.
        combined: bool,
    },
    /// Features whose variances are so far apart that small ones are lost in rounding.
    ScalesDiffer {
        /// The feature that varies most.
        largest: String,
        /// One that varies, and is lost.
        smallest: String,
        /// The square root of how often the one's variance is the other's.
        times: f64,
    },
    /// A label of few distinct whole numbers is taken as a number.
    WholeNumberLabel {
        /// The label.
        label: String,
        /// Its values, ascending; three at least.
        values: Vec<i64>,
        /// True when it was read by a scan, which alone can read it otherwise.
        scanned: bool,
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
        /// Distinct labels up to which it is exact; none where the features were asked for.
        exact: Option<usize>,
        /// How many stand for it.
        features: usize,
        /// True when they take another pass.
        another_pass: bool,
    },
    /// Labels are classes, over which this kernel is the delta kernel times a number.
    LabelKernelIsDelta {
        /// "rbf", "poly", "cosine".
        kernel: String,
        /// The number.
        scale: f64,
    },
    /// γ was left to the default.
    DefaultGamma {
        /// Features.
        features: usize,
    },
    /// γ came from the median distance.
    MedianGamma(f64),
    /// An rbf kernel so narrow that no row is like another.
    KernelIsIdentity {
        /// γ.
        gamma: f64,
    },
    /// An rbf kernel so wide that all rows are alike.
    KernelIsConstant {
        /// γ.
        gamma: f64,
    },
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
    /// Directions were given, and are what they are to these rows.
    AlongBasis {
        /// max ‖Au − λu‖ / λ₁: 0 where they are eigenvectors still.
        residual: f64,
        /// The largest correlation between two scores.
        correlation: f64,
    },
    /// Components of a given basis, counted from 1, that vary more than the one before.
    BasisOrder(Vec<usize>),
    /// Components of a given basis, counted from 1, along which rows do not vary.
    BasisFlat(Vec<usize>),
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
    /// Components are kept whose eigenvalues are not known to a relative error of 1e-6.
    InaccurateComponents {
        /// Components that are.
        accurate: usize,
        /// Components wanted.
        wanted: usize,
        /// True under full precision, which there is nothing beyond.
        full: bool,
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
    /// Another run is changing this file, and is waited for.
    WaitingFor(String),
    /// A file was added whose name is in the state with other content.
    AnotherOfThatName(String),
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
    /// Hotelling's T² was left out: the model has no variances.
    NoHotelling,
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
    /// A second pass dropped rows.
    RowsDroppedAgain {
        /// Rows left out.
        dropped: u64,
        /// Rows read.
        rows: u64,
        /// True when that was asked for, false when the model's policy says so.
        asked: bool,
    },
    /// Missing cells took the training mean in a second pass.
    CellsFilledAgain {
        /// How many.
        cells: u64,
        /// True when that was asked for, false when the model's policy says so.
        asked: bool,
    },
    /// Rows came out of a second pass with nulls.
    RowsNull {
        /// How many.
        null: u64,
        /// Rows read.
        rows: u64,
    },
    /// Computed numbers beyond the range of their type.
    Overflowed {
        /// How many.
        numbers: u64,
        /// The type.
        dtype: &'static str,
    },
}

impl Note {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Note::Scored { .. }
            | Note::AlongBasis { .. }
            | Note::MedianGamma(_)
            | Note::KernelIsIdentity { .. }
            | Note::KernelIsConstant { .. }
            | Note::KernelApproximated { .. }
            | Note::PreimageLearned { .. }
            | Note::Residual { .. }
            | Note::Iterated { .. }
            | Note::Resumed { .. }
            | Note::KnownFiles(_)
            | Note::WaitingFor(_)
            | Note::KnownState(_)
            | Note::AnotherOfThatName(_)
            | Note::GroupsSwapped { .. }
            | Note::FilesKept { .. }
            | Note::RidgeLoss(_)
            | Note::FixedPointLoss { .. } => Level::Info,
            Note::KeptUnconverged(_) | Note::DigitsLost(_) | Note::LittleLeft(_) => Level::Warning,
            _ => Level::Note,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.sentence()))
    }
}
