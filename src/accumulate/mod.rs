//! What a pass adds up.
//!
//! ```text
//! Block ─► update ─┐
//! Block ─► update ─┴► merge, in file order ─► finish ─► CoMoment
//! ```
//!
//! | symbol | is | held |
//! |---|---|---|
//! | n, W | rows; their total weight (n without weights) | two numbers |
//! | μ | mean of the features | d |
//! | S | centred co-moment Σ w (x−μ)(x−μ)ᵀ, the seed's X̆X̆ᵀ | d² (upper triangle) |
//! | R | triangular factor of S: S = RᵀR | d² (upper triangle) |
//! | G | Gram matrix of the rows, the seed's X̆ᵀX̆ | n² (upper triangle) |
//! | P S | S times a few vectors, without S | b·d |
//!
//! The centred co-moment serves every linear model: Σ w x xᵀ = S + W μμᵀ adds without cancelling,
//! and the correlation is S over the outer product of the standard deviations.

mod classes;
mod covariance;
mod cross_moment;
mod feature_moments;
mod gram;
mod imputed;
mod sketch;
mod stored;
mod sums;
mod sums_kind;
mod tiled;
mod tiles;
mod triangular;

pub use classes::{ClassLimit, ClassMoments, ClassSums};
pub use covariance::Covariance;
pub use cross_moment::{CrossMoment, CrossMoments, LabelMap};
pub use feature_moments::FeatureMoments;
pub use gram::{Gram, GramSums};
pub use imputed::ImputedCovariance;
pub use sketch::{FirstPass, Product, Sketch};
pub(crate) use stored::MOST_ROWS;
pub(crate) use stored::Restored;
pub use stored::{Parts, Stored};
pub use sums::{LabelMoments, Sums, SumsResult};
pub use sums_kind::{LabelSumsKind, SumsKind};
pub use tiled::TiledCovariance;
pub(crate) use tiled::{DEPTH, SHARED_FROM};
pub(crate) use triangular::NOT_SUBTRACTED;
pub use triangular::TriangularCovariance;

use crate::error::{Error, Result};
use crate::source::{Block, dense};
use ndarray::{Array1, Array2, Axis, ShapeBuilder, Zip};

/// Sums that can be built in pieces.
///
/// Laws: a fresh accumulator is an identity of `merge`; any split of the rows agrees to rounding
/// (`tests/laws.rs` checks both for every implementation); merging in one fixed order gives the
/// same bytes whoever computed the pieces.
pub trait Accumulate: Send + Sized {
    /// What the sums become.
    type Output;

    /// Adds the rows of a block, whose memory it may work in.
    fn update(&mut self, block: Block);

    /// Adds what another one has seen after this one.
    fn merge(&mut self, later: Self);

    /// Refuses to go on when what has been seen is more than may be held.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The result; consumes, so that nothing is added to a finished sum.
    fn finish(self) -> Self::Output;

    /// Bytes held while blocks of this shape are added, scratch included.
    fn bytes(shape: Shape) -> u64;
}

/// What is said of missing cells that a sum has no mean for.
pub(crate) fn refuse_missing() -> Error {
    Error::Misuse(
        "a block has missing cells, which sums of whole rows cannot count; choose ⟦nulls=drop⟧ or \
         ⟦nulls=mean⟧"
            .into(),
    )
}

/// What is said of a block without the labels that are to be summed.
pub(crate) fn refuse_unlabelled(kind: &str) -> Error {
    Error::Misuse(format!("a block has no {kind} as labels, but sums of them are made; read them"))
}

/// Two sums over the same rows.
impl<A: Accumulate, B: Accumulate> Accumulate for (A, B) {
    type Output = (A::Output, B::Output);

    fn update(&mut self, block: Block) {
        self.0.update(block.clone());
        self.1.update(block);
    }

    fn merge(&mut self, later: (A, B)) {
        self.0.merge(later.0);
        self.1.merge(later.1);
    }

    fn check(&self) -> Result<()> {
        self.0.check().and(self.1.check())
    }

    fn finish(self) -> Self::Output {
        (self.0.finish(), self.1.finish())
    }

    fn bytes(shape: Shape) -> u64 {
        let copy = 8u64.saturating_mul(shape.rows).saturating_mul(shape.features);
        A::bytes(shape).saturating_add(B::bytes(shape)).saturating_add(copy)
    }
}

/// What the bytes of an accumulator depend on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Rows of a block; 0 for what is held between blocks.
    pub rows: u64,
    /// Features of a block.
    pub features: u64,
    /// Vectors that S is multiplied with, classes, or label features.
    pub vectors: u64,
}

/// What is done to the columns before the decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaling {
    /// Subtract the mean (false: LSA, the seed's uncentred form).
    pub center: bool,
    /// Divide by the sample standard deviation.
    pub standardize: bool,
}

impl Scaling {
    /// The features that take part, and what they are divided by: all, or when standardizing those
    /// that have a deviation.
    pub fn active(&self, moments: &Moments) -> (Vec<usize>, Option<Array1<f64>>) {
        if !self.standardize {
            return ((0..moments.mean.len()).collect(), None);
        }
        let deviations = moments.deviations();
        let active: Vec<usize> = (0..deviations.len()).filter(|j| deviations[*j] > 0.0).collect();
        let scale = deviations.select(Axis(0), &active);
        (active, Some(scale))
    }

    /// 1 / deviation of each feature, 0 where it has none; `None` when not standardizing.
    pub fn factors(&self, moments: &Moments) -> Option<Array1<f64>> {
        self.standardize
            .then(|| moments.deviations().mapv(|s| if s > 0.0 { s.recip() } else { 0.0 }))
    }
}

/// Mean and centred co-moment of all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct CoMoment {
    /// n, W and μ.
    pub moments: Moments,
    /// S, both triangles.
    pub s: Array2<f64>,
}

impl CoMoment {
    /// Only these features.
    pub fn select_features(self, kept: &[usize]) -> CoMoment {
        let moments = self.moments.select_features(kept);
        CoMoment { moments, s: square_part(self.s, kept) }
    }
}

/// Mean of all rows and a factor of their centred co-moment.
#[derive(Debug, Clone, PartialEq)]
pub struct FactoredCoMoment {
    /// n, W and μ.
    pub moments: Moments,
    /// R with RᵀR = S, in F order: upper, or some columns of an upper one.
    pub r: Array2<f64>,
}

impl FactoredCoMoment {
    /// Only these features: a factor of their S are their columns.
    pub fn select_features(self, kept: &[usize]) -> FactoredCoMoment {
        let moments = self.moments.select_features(kept);
        if kept.iter().copied().eq(0..self.r.ncols()) {
            return FactoredCoMoment { moments, r: self.r };
        }
        let mut r = Array2::zeros((self.r.nrows(), kept.len()).f());
        r.assign(&self.r.select(Axis(1), kept));
        FactoredCoMoment { moments, r }
    }
}

/// S as a pass has gathered it.
#[derive(Debug, Clone, PartialEq)]
pub enum SecondMoment {
    /// Added up from products.
    Product(CoMoment),
    /// As a factor, under [`Precision::Full`](crate::source::Precision::Full).
    Factor(FactoredCoMoment),
}

impl SecondMoment {
    /// n, W, μ and spread.
    pub fn moments(&self) -> &Moments {
        match self {
            SecondMoment::Product(c) => &c.moments,
            SecondMoment::Factor(f) => &f.moments,
        }
    }

    /// Only these features.
    pub fn select_features(self, kept: &[usize]) -> SecondMoment {
        match self {
            SecondMoment::Product(c) => SecondMoment::Product(c.select_features(kept)),
            SecondMoment::Factor(f) => SecondMoment::Factor(f.select_features(kept)),
        }
    }

    /// S itself.
    pub fn into_product(self) -> CoMoment {
        match self {
            SecondMoment::Product(c) => c,
            SecondMoment::Factor(FactoredCoMoment { moments, r }) => {
                CoMoment { moments, s: r.t().dot(&r).as_standard_layout().into_owned() }
            }
        }
    }

    /// Σ w (uᵀ(x−μ))² of each row u.
    pub fn along(&self, u: &Array2<f64>) -> Array1<f64> {
        match self {
            SecondMoment::Product(c) => (&u.dot(&c.s) * u).sum_axis(Axis(1)),
            SecondMoment::Factor(f) => u.dot(&f.r.t()).mapv(|v| v * v).sum_axis(Axis(1)),
        }
    }
}

/// Some rows of a square matrix and the same columns; all of it where they are all.
pub(crate) fn square_part(s: Array2<f64>, kept: &[usize]) -> Array2<f64> {
    if kept.len() == s.nrows() && kept.iter().enumerate().all(|(i, j)| i == *j) {
        return s;
    }
    s.select(Axis(0), kept).select(Axis(1), kept).as_standard_layout().into_owned()
}

/// Some columns of a matrix, in C order.
pub(crate) fn column_part(m: &Array2<f64>, kept: &[usize]) -> Array2<f64> {
    m.select(Axis(1), kept).as_standard_layout().into_owned()
}

/// The part of a co-moment that does not grow with d².
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Rows that counted (n).
    pub rows: u64,
    /// Their total weight (W); equals n without weights.
    pub weight: f64,
    /// μ; NaN for a feature that was missing in every row.
    pub mean: Array1<f64>,
    /// What rounding took from the mean: of a mean of 1e8, some 1e-9.
    pub rest: Array1<f64>,
    /// Σ w (x−μ)² of each feature: the diagonal of S.
    pub squares: Array1<f64>,
    /// Largest relative error of an f32 block product that was checked against f64; `None` when all
    /// products were f64.
    pub mixed_error: Option<f64>,
}

impl Moments {
    /// The mean to centre by, with what rounding took from it if that is not negligible.
    pub(crate) fn center(&self) -> Center {
        let matters =
            |j: usize| self.rest[j].abs() > NEGLIGIBLE * (self.squares[j] / self.weight).sqrt();
        let rest =
            if (0..self.rest.len()).any(matters) { self.rest.clone() } else { Array1::zeros(0) };
        Center::new(self.mean.clone(), rest)
    }

    /// Only these features.
    pub fn select_features(&self, kept: &[usize]) -> Moments {
        let part = |a: &Array1<f64>| a.select(Axis(0), kept);
        Moments {
            mean: part(&self.mean),
            rest: part(&self.rest),
            squares: part(&self.squares),
            ..*self
        }
    }

    /// Sample standard deviations; 0 where the spread is only the rounding of the mean.
    pub fn deviations(&self) -> Array1<f64> {
        let freedom = self.weight - 1.0;
        Zip::from(&self.squares).and(&self.mean).map_collect(|square, mean| {
            let deviation = (square / freedom).sqrt();
            if deviation > 4.0 * f64::EPSILON * mean.abs() { deviation } else { 0.0 }
        })
    }
}

/// An error of the mean, over the deviation, that no digit feels.
const NEGLIGIBLE: f64 = 1e-13;

/// A mean in two parts: near it, and the rest.
///
/// At 1e8 neighbouring doubles are 1.5e-8 apart. A mean rounded to one of them would put that error
/// into every merge; kept apart, the rest has digits of its own.
#[derive(Debug, Clone)]
pub(crate) struct Center {
    near: Array1<f64>,
    rest: Array1<f64>,
}

impl Center {
    pub(crate) fn new(near: Array1<f64>, rest: Array1<f64>) -> Center {
        Center { near, rest }
    }

    /// How many features have a rest that matters: all or none.
    pub(crate) fn rests(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn zeros(d: usize) -> Center {
        Center::new(Array1::zeros(d), Array1::zeros(d))
    }

    /// self − other.
    pub(crate) fn minus(&self, other: &Center) -> Array1<f64> {
        &self.near - &other.near + &self.rest - &other.rest
    }

    /// self + δ.
    pub(crate) fn plus(&self, delta: &Array1<f64>) -> Center {
        Center::new(self.near.clone(), &self.rest + delta)
    }

    /// Takes one feature from another.
    pub(crate) fn adopt(&mut self, feature: usize, other: &Center) {
        self.near[feature] = other.near[feature];
        self.rest[feature] = other.rest[feature];
    }

    /// In another order of the features.
    pub(crate) fn reordered(&self, order: &[usize]) -> Center {
        let part = |v: &Array1<f64>| v.select(Axis(0), order);
        Center::new(part(&self.near), part(&self.rest))
    }

    /// Takes the features of another after its own.
    pub(crate) fn append(&mut self, more: &Center) {
        let join = |a: &Array1<f64>, b: &Array1<f64>| a.iter().chain(b).copied().collect();
        (self.near, self.rest) = (join(&self.near, &more.near), join(&self.rest, &more.rest));
    }

    /// As one number per feature, and what that leaves out.
    pub(crate) fn split(&self) -> (Array1<f64>, Array1<f64>) {
        let mean = &self.near + &self.rest;
        let rest = &self.near - &mean + &self.rest;
        (mean, rest)
    }

    /// y − μ, in place.
    pub(crate) fn subtract(&self, y: &mut Array2<f64>) {
        dense::shift(y, Some(&self.near), None);
        if !self.rest.is_empty() {
            dense::shift(y, Some(&self.rest), None);
        }
    }
}

/// The larger error, of those that were measured.
pub(crate) fn worst(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// Adds `scale`·δδᵀ to the upper triangle.
pub(crate) fn add_outer(s: &mut Array2<f64>, scale: f64, delta: &Array1<f64>) {
    let delta = delta.as_slice().expect("an owned vector is contiguous");
    for (i, mut row) in s.rows_mut().into_iter().enumerate() {
        let factor = scale * delta[i];
        let row = &mut row.as_slice_mut().expect("S is in C order")[i..];
        for (entry, other) in row.iter_mut().zip(&delta[i..]) {
            *entry += factor * other;
        }
    }
}

/// Adds another upper triangle.
pub(crate) fn add_upper(s: &mut Array2<f64>, other: &Array2<f64>) {
    for (i, (mut row, more)) in s.rows_mut().into_iter().zip(other.rows()).enumerate() {
        let row = &mut row.as_slice_mut().expect("S is in C order")[i..];
        for (entry, value) in row.iter_mut().zip(&more.to_slice().expect("S is in C order")[i..]) {
            *entry += value;
        }
    }
}
