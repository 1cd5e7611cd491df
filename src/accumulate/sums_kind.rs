//! Which sums a fit makes, and what they hold: the table of [`super::Sums`], decided.

use super::{
    Accumulate, ClassLimit, ClassSums, Covariance, CrossMoment, ImputedCovariance, LabelMap,
    Moments, SHARED_FROM, Shape, TiledCovariance, TriangularCovariance,
};
use crate::source::{Nulls, Precision};
use std::sync::Arc;

/// Which sums are made.
#[derive(Debug, Clone)]
pub struct SumsKind {
    /// d.
    pub features: usize,
    /// True for S.
    pub covariance: bool,
    /// As products, or as a factor where it is full.
    pub precision: Precision,
    /// The policy for missing cells.
    pub nulls: Nulls,
    /// What is summed of labels.
    pub labels: Option<LabelSumsKind>,
    /// Threads of a shared product.
    pub threads: usize,
    /// The means that missing cells take, where a pass has found them before. Such sums, and those
    /// of label features, are not stored.
    pub around: Option<Moments>,
}

/// The label side of the sums that are made.
#[derive(Debug, Clone)]
pub enum LabelSumsKind {
    /// Classes, up to a limit.
    Classes(ClassLimit),
    /// Numbers, or features of them.
    Numbers(Arc<LabelMap>),
}

impl LabelSumsKind {
    /// So many label columns, as numbers.
    pub fn linear(columns: usize) -> LabelSumsKind {
        LabelSumsKind::Numbers(Arc::new(LabelMap::Linear { columns }))
    }

    /// Classes at most, or label features.
    fn vectors(&self) -> u64 {
        match self {
            LabelSumsKind::Classes(limit) => limit.classes as u64,
            LabelSumsKind::Numbers(map) => map.len() as u64,
        }
    }
}

/// Which accumulator S is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CovarianceKind {
    Plain,
    Imputed,
    Tiled,
    Triangular,
}

impl SumsKind {
    pub(super) fn covariance_kind(&self) -> Option<CovarianceKind> {
        let many = self.features >= SHARED_FROM;
        let around = self.around.is_some();
        self.covariance.then_some(match self.nulls {
            _ if self.is_factor() => CovarianceKind::Triangular,
            Nulls::Mean if many && around => CovarianceKind::Tiled,
            Nulls::Mean => CovarianceKind::Imputed,
            Nulls::Error | Nulls::Drop if many => CovarianceKind::Tiled,
            Nulls::Error | Nulls::Drop => CovarianceKind::Plain,
        })
    }

    /// True when a factor of S is kept instead of S.
    pub fn is_factor(&self) -> bool {
        self.covariance && self.precision == Precision::Full
    }

    /// True when one S is shared by all threads: blocks are added by the caller then, not one sum
    /// per unit.
    pub fn is_shared(&self) -> bool {
        self.covariance_kind() == Some(CovarianceKind::Tiled)
    }

    /// True when missing cells of so many features need their means from a pass before.
    pub fn needs_means(&self) -> bool {
        let two_passes = self.features >= SHARED_FROM || self.is_factor();
        self.covariance && self.nulls == Nulls::Mean && two_passes
    }

    /// The sums of a unit of so many rows: they are of no more classes.
    pub(crate) fn of_unit(&self, rows: u64) -> SumsKind {
        let labels = self.labels.clone().map(|labels| match labels {
            LabelSumsKind::Classes(limit) => {
                let classes = limit.classes.min(rows as usize);
                LabelSumsKind::Classes(ClassLimit { classes, ..limit })
            }
            numbers => numbers,
        });
        SumsKind { labels, ..self.clone() }
    }

    /// Bytes of what [`Sums::new`] makes, while blocks of so many rows are added; 0 rows for what
    /// is held between blocks. Of classes as many as the limit allows.
    pub fn bytes(&self, rows: u64) -> u64 {
        let features = self.features as u64;
        let vectors = self.labels.as_ref().map_or(0, LabelSumsKind::vectors);
        let shape = Shape { features, rows, vectors };
        let covariance = self.covariance_kind().map(|kind| match kind {
            CovarianceKind::Plain => Covariance::bytes(shape),
            CovarianceKind::Imputed => ImputedCovariance::bytes(shape),
            CovarianceKind::Tiled => TiledCovariance::bytes(shape),
            CovarianceKind::Triangular => TriangularCovariance::bytes(shape),
        });
        let labels = self.labels.as_ref().map(|labels| match labels {
            // What cells of each class are missing, where there may be some.
            LabelSumsKind::Classes(_) if self.nulls == Nulls::Mean => {
                let missing = 8u64.saturating_mul(features).saturating_mul(vectors);
                ClassSums::bytes(shape).saturating_add(missing)
            }
            LabelSumsKind::Classes(_) => ClassSums::bytes(shape),
            LabelSumsKind::Numbers(_) if self.nulls == Nulls::Mean => {
                let missing = 16u64.saturating_mul(features).saturating_mul(vectors);
                CrossMoment::bytes(shape).saturating_add(missing)
            }
            LabelSumsKind::Numbers(_) => CrossMoment::bytes(shape),
        });
        // Both use a block up, so there are two of it.
        let copy = match covariance.is_some() && labels.is_some() {
            true => 8u64.saturating_mul(rows).saturating_mul(features),
            false => 0,
        };
        covariance.unwrap_or(0).saturating_add(labels.unwrap_or(0)).saturating_add(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::FeatureMoments;
    use super::*;

    fn kind(features: usize, nulls: Nulls, labels: Option<LabelSumsKind>) -> SumsKind {
        let precision = Precision::Exact;
        SumsKind { features, covariance: true, precision, nulls, labels, threads: 2, around: None }
    }

    #[test]
    fn the_accumulator_goes_by_features_and_nulls() {
        let which = |features, nulls| kind(features, nulls, None).covariance_kind();
        assert_eq!(which(10, Nulls::Error), Some(CovarianceKind::Plain));
        assert_eq!(which(10, Nulls::Mean), Some(CovarianceKind::Imputed));
        assert_eq!(which(SHARED_FROM, Nulls::Drop), Some(CovarianceKind::Tiled));
        assert_eq!(which(SHARED_FROM, Nulls::Mean), Some(CovarianceKind::Imputed));
        let around = Some(FeatureMoments::new(SHARED_FROM).finish());
        let known = SumsKind { around, ..kind(SHARED_FROM, Nulls::Mean, None) };
        assert!(known.is_shared() && known.needs_means());
        let full =
            |nulls| SumsKind { precision: Precision::Full, ..kind(SHARED_FROM, nulls, None) };
        assert_eq!(full(Nulls::Drop).covariance_kind(), Some(CovarianceKind::Triangular));
        assert!(!full(Nulls::Drop).is_shared() && !full(Nulls::Drop).needs_means());
        assert!(full(Nulls::Mean).needs_means());
        let none = SumsKind { covariance: false, ..kind(10, Nulls::Mean, None) };
        assert_eq!((none.covariance_kind(), none.is_shared()), (None, false));
    }

    #[test]
    fn bytes_are_those_of_the_parts() {
        let labels = Some(LabelSumsKind::linear(3));
        let shape = Shape { features: 10, rows: 7, vectors: 3 };
        let both = kind(10, Nulls::Mean, labels.clone());
        let missing = 16 * 3 * 10;
        let cross = CrossMoment::bytes(shape) + missing;
        let parts = ImputedCovariance::bytes(shape) + cross + 8 * 7 * 10;
        assert_eq!(both.bytes(7), parts);
        let only = SumsKind { covariance: false, ..both };
        assert_eq!(only.bytes(7), cross);
        assert_eq!(
            kind(10, Nulls::Drop, None).bytes(0),
            Covariance::bytes(Shape { features: 10, ..Shape::default() })
        );
    }
}
