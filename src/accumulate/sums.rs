//! Everything one pass can add up: S of the features, and what labels add. The one accumulator of
//! every linear fit, in memory or in a state on disk.
//!
//! Enters: blocks, with labels where those are summed. Leaves: [`SumsResult`]. Which sums are
//! made is said by a [`SumsKind`], and decided here and nowhere else, so that a fit and a scan of
//! the same rows give the same bytes:
//!
//! | features | nulls | S is |
//! |---|---|---|
//! | fewer than [`SHARED_FROM`](super::SHARED_FROM) | error, drop | [`Covariance`], one per unit |
//! | any number | mean | [`ImputedCovariance`], one per unit |
//! | [`SHARED_FROM`](super::SHARED_FROM) and more | error, drop | [`TiledCovariance`], one for all threads |
//! | [`SHARED_FROM`](super::SHARED_FROM) and more | mean, around means known from a pass before | the same |
//!
//! | any number | precision full: error, drop; mean around known means | [`TriangularCovariance`], one per unit |
//!
//! Holds what its parts hold: 8d² for S (three times that imputed), 8·d per class or label feature.

use super::sums_kind::{CovarianceKind, LabelSumsKind, SumsKind};
use super::{
    Accumulate, ClassLimit, ClassMoments, ClassSums, Covariance, CrossMoment, CrossMoments,
    ImputedCovariance, Moments, Parts, Restored, SecondMoment, Shape, Stored, TiledCovariance,
    TriangularCovariance,
};
use crate::error::{Error, Result};
use crate::source::{Block, Nulls};
use ndarray::Array1;

/// The sums of the rows so far.
#[derive(Debug, Clone)]
pub struct Sums {
    covariance: Option<CovarianceSums>,
    labels: Option<LabelSums>,
    /// True when S is around means that were given.
    around: bool,
}

/// n, W, μ, S.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)]
enum CovarianceSums {
    /// Whole rows.
    Plain(Covariance),
    /// Missing cells at the mean.
    Imputed(ImputedCovariance),
    /// Many features.
    Tiled(TiledCovariance),
    /// A factor.
    Triangular(TriangularCovariance),
}

impl CovarianceSums {
    fn finish(self) -> SecondMoment {
        match self {
            CovarianceSums::Plain(s) => SecondMoment::Product(s.finish()),
            CovarianceSums::Imputed(s) => SecondMoment::Product(s.finish()),
            CovarianceSums::Tiled(s) => SecondMoment::Product(s.finish()),
            CovarianceSums::Triangular(s) => SecondMoment::Factor(s.finish()),
        }
    }
}

/// Features against labels.
#[derive(Debug, Clone)]
enum LabelSums {
    /// Sums per class.
    Classes(ClassSums),
    /// Cross co-moments with numbers.
    Numbers(CrossMoment),
}

/// The same of whichever sum it is.
macro_rules! covariance {
    ($sums:expr, $s:ident => $work:expr) => {
        match $sums {
            CovarianceSums::Plain($s) => $work,
            CovarianceSums::Imputed($s) => $work,
            CovarianceSums::Tiled($s) => $work,
            CovarianceSums::Triangular($s) => $work,
        }
    };
}

/// The same of whichever label sum it is.
macro_rules! labels {
    ($sums:expr, $s:ident => $work:expr) => {
        match $sums {
            LabelSums::Classes($s) => $work,
            LabelSums::Numbers($s) => $work,
        }
    };
}

/// The same to both sides of what is there; two of other kinds are not brought together.
macro_rules! both {
    ($self:ident, $other:ident, $method:ident) => {
        match (&mut $self.covariance, $other.covariance) {
            (Some(CovarianceSums::Plain(a)), Some(CovarianceSums::Plain(b))) => a.$method(b),
            (Some(CovarianceSums::Imputed(a)), Some(CovarianceSums::Imputed(b))) => a.$method(b),
            (Some(CovarianceSums::Tiled(a)), Some(CovarianceSums::Tiled(b))) => a.$method(b),
            (Some(CovarianceSums::Triangular(a)), Some(CovarianceSums::Triangular(b))) => {
                a.$method(b)
            }
            (None, None) => {}
            _ => panic!("{DIFFERENT}"),
        }
        match (&mut $self.labels, $other.labels) {
            (Some(LabelSums::Classes(a)), Some(LabelSums::Classes(b))) => a.$method(b),
            (Some(LabelSums::Numbers(a)), Some(LabelSums::Numbers(b))) => a.$method(b),
            (None, None) => {}
            _ => panic!("{DIFFERENT}"),
        }
    };
}

const DIFFERENT: &str = "sums of different kinds are brought together; Sums::fits tells them apart";

impl Sums {
    /// Of no rows yet.
    pub fn new(kind: &SumsKind) -> Sums {
        let d = kind.features;
        let covariance = kind.covariance_kind().map(|which| match (which, &kind.around) {
            (CovarianceKind::Plain, _) => CovarianceSums::Plain(Covariance::new(d)),
            (CovarianceKind::Imputed, _) => CovarianceSums::Imputed(ImputedCovariance::new(d)),
            (CovarianceKind::Triangular, Some(moments)) if kind.nulls == Nulls::Mean => {
                CovarianceSums::Triangular(TriangularCovariance::around(moments))
            }
            (CovarianceKind::Triangular, _) => {
                CovarianceSums::Triangular(TriangularCovariance::new(d))
            }
            (CovarianceKind::Tiled, Some(moments)) if kind.nulls == Nulls::Mean => {
                CovarianceSums::Tiled(TiledCovariance::around(moments, kind.threads))
            }
            (CovarianceKind::Tiled, _) => {
                CovarianceSums::Tiled(TiledCovariance::new(d, kind.threads))
            }
        });
        let labels = kind.labels.as_ref().map(|labels| match labels {
            LabelSumsKind::Classes(limit) => LabelSums::Classes(ClassSums::new(d, limit.clone())),
            LabelSumsKind::Numbers(map) => LabelSums::Numbers(CrossMoment::new(d, map.clone())),
        });
        let around = kind.needs_means() && kind.around.is_some();
        Sums { covariance, labels, around }
    }

    /// True where S is kept.
    pub fn has_covariance(&self) -> bool {
        self.covariance.is_some()
    }

    /// True where labels are summed.
    pub fn has_labels(&self) -> bool {
        self.labels.is_some()
    }

    /// The same sums with another limit on classes.
    pub fn limited(self, limit: &ClassLimit) -> Sums {
        let labels = self.labels.map(|labels| match labels {
            LabelSums::Classes(c) => LabelSums::Classes(c.limited(limit.clone())),
            other => other,
        });
        Sums { labels, ..self }
    }

    /// True when two can be added up.
    pub fn fits(&self, other: &Sums) -> bool {
        let kind = std::mem::discriminant::<CovarianceSums>;
        let label_kind = std::mem::discriminant::<LabelSums>;
        self.covariance.as_ref().map(kind) == other.covariance.as_ref().map(kind)
            && self.labels.as_ref().map(label_kind) == other.labels.as_ref().map(label_kind)
    }

    /// Refuses sums that do not come back from disk as they are: of random label features, or
    /// around means that were given.
    pub fn check_storable(&self) -> Result<()> {
        let random = matches!(&self.labels, Some(LabelSums::Numbers(c)) if !c.is_linear());
        match random || self.around {
            true => Err(Error::Internal(
                "sums of random label features, or around given means, are not stored".into(),
            )),
            false => Ok(()),
        }
    }
}

impl Accumulate for Sums {
    type Output = SumsResult;

    fn update(&mut self, block: Block) {
        match (&mut self.covariance, &mut self.labels) {
            (Some(sums), Some(labels)) => {
                covariance!(sums, s => s.update(block.clone()));
                labels!(labels, l => l.update(block));
            }
            (Some(sums), None) => covariance!(sums, s => s.update(block)),
            (None, Some(labels)) => labels!(labels, l => l.update(block)),
            (None, None) => {}
        }
    }

    fn merge(&mut self, later: Sums) {
        both!(self, later, merge);
    }

    fn check(&self) -> Result<()> {
        if let Some(sums) = &self.covariance {
            covariance!(sums, s => s.check())?;
        }
        self.labels.as_ref().map_or(Ok(()), |labels| labels!(labels, l => l.check()))
    }

    fn finish(self) -> SumsResult {
        SumsResult {
            covariance: self.covariance.map(CovarianceSums::finish),
            labels: self.labels.map(|labels| match labels {
                LabelSums::Classes(c) => LabelMoments::Classes(c.finish()),
                LabelSums::Numbers(c) => LabelMoments::Numbers(c.finish()),
            }),
        }
    }

    /// Of whole rows and classes; [`SumsKind::bytes`] knows better.
    fn bytes(shape: Shape) -> u64 {
        let copy = 8u64.saturating_mul(shape.rows).saturating_mul(shape.features);
        Covariance::bytes(shape).saturating_add(ClassSums::bytes(shape)).saturating_add(copy)
    }
}

impl Stored for Sums {
    /// The names are those of the file format.
    fn store(&self, at: &str, parts: &mut Parts) {
        if let Some(sums) = &self.covariance {
            let name = match sums {
                CovarianceSums::Plain(_) => "plain",
                CovarianceSums::Imputed(_) => "imputed",
                CovarianceSums::Tiled(_) => "tiled",
                CovarianceSums::Triangular(_) => "triangular",
            };
            parts.fact(at, "second", name);
            covariance!(sums, s => s.store(&format!("{at}.features"), parts));
        }
        if let Some(labels) = &self.labels {
            let name = match labels {
                LabelSums::Classes(_) => "classes",
                LabelSums::Numbers(_) => "numbers",
            };
            parts.fact(at, "labels", name);
            labels!(labels, l => l.store(&format!("{at}.labels"), parts));
        }
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<Sums> {
        let kind = |parts: &mut Parts, name: &str| -> Restored<Option<String>> {
            parts.knows(at, name).then(|| parts.take(at, name)).transpose()
        };
        let (features, labels) = (format!("{at}.features"), format!("{at}.labels"));
        let covariance = match kind(parts, "second")?.as_deref() {
            None => None,
            Some("plain") => Some(CovarianceSums::Plain(Covariance::restore(&features, d, parts)?)),
            Some("imputed") => {
                Some(CovarianceSums::Imputed(ImputedCovariance::restore(&features, d, parts)?))
            }
            Some("tiled") => {
                Some(CovarianceSums::Tiled(TiledCovariance::restore(&features, d, parts)?))
            }
            Some("triangular") => {
                let sums = TriangularCovariance::restore(&features, d, parts)?;
                Some(CovarianceSums::Triangular(sums))
            }
            Some(other) => return Err(format!("sums of kind '{other}' are unknown")),
        };
        let labels = match kind(parts, "labels")?.as_deref() {
            None => None,
            Some("classes") => Some(LabelSums::Classes(ClassSums::restore(&labels, d, parts)?)),
            Some("numbers") => Some(LabelSums::Numbers(CrossMoment::restore(&labels, d, parts)?)),
            Some(other) => return Err(format!("label sums of kind '{other}' are unknown")),
        };
        match covariance.is_some() || labels.is_some() {
            true => Ok(Sums { covariance, labels, around: false }),
            false => Err("it holds no sums".into()),
        }
    }

    fn subtract(&mut self, part: Sums) {
        both!(self, part, subtract);
    }

    fn spread(&self) -> Array1<f64> {
        match (&self.covariance, &self.labels) {
            (Some(sums), _) => covariance!(sums, s => Stored::spread(s)),
            (None, Some(labels)) => labels!(labels, l => Stored::spread(l)),
            (None, None) => Array1::zeros(0),
        }
    }

    fn reorder(&mut self, order: &[usize]) {
        if let Some(sums) = &mut self.covariance {
            covariance!(sums, s => s.reorder(order));
        }
        if let Some(labels) = &mut self.labels {
            labels!(labels, l => l.reorder(order));
        }
    }
}

/// What the sums have become.
#[derive(Debug, Clone, PartialEq)]
pub struct SumsResult {
    /// n, W, μ and S, where S was summed.
    pub covariance: Option<SecondMoment>,
    /// What labels add, where there are any.
    pub labels: Option<LabelMoments>,
}

/// Features against labels, finished.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelMoments {
    /// Sums per class.
    Classes(ClassMoments),
    /// Cross co-moments with numbers.
    Numbers(CrossMoments),
}

impl SumsResult {
    /// n, W, μ, spread: of S where there is one, else of the labels' own sums.
    pub fn moments(&self) -> Option<&Moments> {
        let of_labels = || self.labels.as_ref().map(LabelMoments::moments);
        self.covariance.as_ref().map(SecondMoment::moments).or_else(of_labels)
    }

    /// Only these features.
    pub fn select_features(self, kept: &[usize]) -> SumsResult {
        SumsResult {
            covariance: self.covariance.map(|c| c.select_features(kept)),
            labels: self.labels.map(|l| l.select_features(kept)),
        }
    }
}

impl LabelMoments {
    /// n, W, μ, spread of the features.
    pub fn moments(&self) -> &Moments {
        match self {
            LabelMoments::Classes(c) => &c.moments,
            LabelMoments::Numbers(c) => &c.moments,
        }
    }

    /// Only these features.
    pub fn select_features(self, kept: &[usize]) -> LabelMoments {
        match self {
            LabelMoments::Classes(c) => LabelMoments::Classes(c.select_features(kept)),
            LabelMoments::Numbers(c) => LabelMoments::Numbers(c.select_features(kept)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureMoments, LabelMap, SHARED_FROM};
    use super::*;
    use crate::source::{Labels, MissingCell, Precision};
    use ndarray::Array2;
    use std::sync::Arc;

    fn kind(features: usize, nulls: Nulls, labels: Option<LabelSumsKind>) -> SumsKind {
        let precision = Precision::Exact;
        SumsKind { features, covariance: true, precision, nulls, labels, threads: 2, around: None }
    }

    fn block(rows: usize, d: usize) -> Block {
        let x = Array2::from_shape_fn((rows, d), |(i, j)| ((i * 31 + j * 17) % 23) as f64);
        let mut block = Block::dense(x);
        block.labels =
            Some(Labels::Numbers(Array2::from_shape_fn((rows, 1), |(i, _)| (i % 5) as f64)));
        block
    }

    #[test]
    fn sums_come_back_as_they_were() {
        for nulls in [Nulls::Error, Nulls::Mean] {
            let kind = kind(4, nulls, Some(LabelSumsKind::linear(1)));
            let mut sums = Sums::new(&kind);
            sums.update(block(20, 4));
            let mut parts = Parts::default();
            sums.store("fold0", &mut parts);
            assert!(parts.knows("fold0", "second") && parts.knows("fold0", "labels"));
            let mut back = Sums::restore("fold0", 4, &mut parts).unwrap();
            assert!(back.fits(&sums));
            sums.update(block(9, 4));
            back.update(block(9, 4));
            assert_eq!(back.finish(), sums.finish());
        }
    }

    #[test]
    fn what_cannot_be_summed_is_refused() {
        let mut sums = Sums::new(&kind(4, Nulls::Error, None));
        let mut holes = block(3, 4);
        holes.missing.push(MissingCell { row: 1, feature: 2 });
        sums.update(holes);
        assert!(sums.check().unwrap_err().to_string().contains("missing"));
        let mut labelled = Sums::new(&kind(4, Nulls::Error, Some(LabelSumsKind::linear(1))));
        labelled.update(Block::dense(Array2::zeros((3, 4))));
        assert!(labelled.check().unwrap_err().to_string().contains("label"));
        let map = Arc::new(LabelMap::fourier(1, 8, 1.0, 7));
        let random = Sums::new(&kind(4, Nulls::Error, Some(LabelSumsKind::Numbers(map))));
        assert!(random.check_storable().is_err());
        let around = Some(FeatureMoments::new(SHARED_FROM).finish());
        let known = SumsKind { around, ..kind(SHARED_FROM, Nulls::Mean, None) };
        assert!(Sums::new(&known).check_storable().is_err());
    }

    #[test]
    fn features_are_selected_on_both_sides() {
        let mut sums = Sums::new(&kind(4, Nulls::Error, Some(LabelSumsKind::linear(1))));
        sums.update(block(20, 4));
        let all = sums.finish();
        let some = all.clone().select_features(&[1, 3]);
        let c = all.covariance.unwrap().into_product();
        let s = some.covariance.clone().unwrap().into_product();
        assert_eq!((s.s[[0, 1]], s.moments.mean[1]), (c.s[[1, 3]], c.moments.mean[3]));
        // Two sums of the same squares, in their own order.
        let squares = some.labels.as_ref().unwrap().moments().squares[0];
        assert!((squares - c.s[[1, 1]]).abs() <= 64.0 * f64::EPSILON * squares);
        assert_eq!(some.moments(), Some(&s.moments));
    }
}
