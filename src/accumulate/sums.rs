//! Everything one pass can add up: S of the features, and what labels add.
//!
//! Holds what its parts hold: 8d² for S (three times that with `--nulls mean`), 8·d per class or label column.

use crate::accumulate::{
    Accumulate, ClassLimit, ClassMoments, ClassSums, CoMoment, Covariance, CrossMoment,
    CrossMoments, ImputedCovariance, LabelMap, Parts, Restored, SHARED_FROM, Shape, Stored,
    TiledCovariance,
};
use crate::error::Result;
use crate::source::{Block, Nulls};
use ndarray::Array1;
use std::sync::Arc;

/// The sums of a state.
#[derive(Debug, Clone)]
pub struct Sums {
    /// S, where it is kept.
    pub second: Option<Second>,
    /// What labels add, where there are any.
    pub labels: Option<LabelSums>,
}

/// n, W, μ, S: as `fit` adds them up, so that its bytes are those of a fit.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)]
pub enum Second {
    /// Whole rows.
    Plain(Covariance),
    /// Missing cells at the mean.
    Imputed(ImputedCovariance),
    /// Many features.
    Tiled(TiledCovariance),
}

/// Features against labels.
#[derive(Debug, Clone)]
pub enum LabelSums {
    /// Sums per class.
    Classes(ClassSums),
    /// Cross co-moments with numbers.
    Numbers(CrossMoment),
}

/// The label side, finished.
pub enum LabelMoments {
    /// Sums per class.
    Classes(ClassMoments),
    /// Cross co-moments with numbers.
    Numbers(CrossMoments),
}

/// Which sums are wanted of d features.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// d.
    pub features: usize,
    /// S.
    pub second: bool,
    /// `--nulls`.
    pub nulls: Nulls,
    /// Label columns read as numbers, or classes up to a limit.
    pub labels: Option<LabelsWanted>,
    /// Threads of a shared product.
    pub threads: usize,
}

/// The label side of what is wanted.
#[derive(Debug, Clone)]
pub enum LabelsWanted {
    /// Classes, up to a limit.
    Classes(ClassLimit),
    /// So many numbers.
    Numbers(usize),
}

impl Sums {
    /// Of no rows yet.
    pub fn new(wanted: &Wanted) -> Sums {
        let d = wanted.features;
        let second = match wanted.nulls {
            Nulls::Mean => {
                Second::Imputed(ImputedCovariance::new(if wanted.second { d } else { 0 }))
            }
            _ if d >= SHARED_FROM && wanted.second => {
                Second::Tiled(TiledCovariance::new(d, wanted.threads))
            }
            _ => Second::Plain(Covariance::new(if wanted.second { d } else { 0 })),
        };
        let labels = wanted.labels.as_ref().map(|labels| match labels {
            LabelsWanted::Classes(limit) => LabelSums::Classes(ClassSums::new(d, limit.clone())),
            LabelsWanted::Numbers(q) => {
                LabelSums::Numbers(CrossMoment::new(d, Arc::new(LabelMap::Linear { columns: *q })))
            }
        });
        Sums { second: wanted.second.then_some(second), labels }
    }

    /// S and its moments.
    pub fn co_moment(&self) -> Option<CoMoment> {
        Some(match self.second.clone()? {
            Second::Plain(s) => s.finish(),
            Second::Imputed(s) => s.finish(),
            Second::Tiled(s) => s.finish(),
        })
    }

    /// What labels add.
    pub fn label_moments(&self) -> Option<LabelMoments> {
        Some(match self.labels.clone()? {
            LabelSums::Classes(c) => LabelMoments::Classes(c.finish()),
            LabelSums::Numbers(c) => LabelMoments::Numbers(c.finish()),
        })
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
        let second = match (&self.second, &other.second) {
            (None, None) => true,
            (Some(a), Some(b)) => std::mem::discriminant(a) == std::mem::discriminant(b),
            _ => false,
        };
        let labels = match (&self.labels, &other.labels) {
            (None, None) => true,
            (Some(a), Some(b)) => std::mem::discriminant(a) == std::mem::discriminant(b),
            _ => false,
        };
        second && labels
    }
}

/// Applies the same to both sides of what is there.
macro_rules! both {
    ($self:ident, $other:ident, $method:ident) => {
        match (&mut $self.second, $other.second) {
            (Some(Second::Plain(a)), Some(Second::Plain(b))) => a.$method(b),
            (Some(Second::Imputed(a)), Some(Second::Imputed(b))) => a.$method(b),
            (Some(Second::Tiled(a)), Some(Second::Tiled(b))) => a.$method(b),
            _ => {}
        }
        match (&mut $self.labels, $other.labels) {
            (Some(LabelSums::Classes(a)), Some(LabelSums::Classes(b))) => a.$method(b),
            (Some(LabelSums::Numbers(a)), Some(LabelSums::Numbers(b))) => a.$method(b),
            _ => {}
        }
    };
}

impl Accumulate for Sums {
    type Output = Sums;

    fn update(&mut self, block: Block) {
        let mut add = |block: Block| match &mut self.second {
            Some(Second::Plain(s)) => s.update(block),
            Some(Second::Imputed(s)) => s.update(block),
            Some(Second::Tiled(s)) => s.update(block),
            None => {}
        };
        match &mut self.labels {
            None => add(block),
            Some(LabelSums::Classes(c)) => {
                add(block.clone());
                c.update(block);
            }
            Some(LabelSums::Numbers(c)) => {
                add(block.clone());
                c.update(block);
            }
        }
    }

    fn merge(&mut self, later: Sums) {
        both!(self, later, merge);
    }

    fn check(&self) -> Result<()> {
        match &self.labels {
            Some(LabelSums::Classes(c)) => c.check(),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Sums {
        self
    }

    fn bytes(shape: Shape) -> u64 {
        Covariance::bytes(shape).saturating_add(ClassSums::bytes(shape))
    }
}

impl Stored for Sums {
    fn store(&self, at: &str, parts: &mut Parts) {
        match &self.second {
            None => {}
            Some(Second::Plain(s)) => {
                parts.fact(at, "second", "plain");
                s.store(&format!("{at}.features"), parts);
            }
            Some(Second::Imputed(s)) => {
                parts.fact(at, "second", "imputed");
                s.store(&format!("{at}.features"), parts);
            }
            Some(Second::Tiled(s)) => {
                parts.fact(at, "second", "tiled");
                s.store(&format!("{at}.features"), parts);
            }
        }
        match &self.labels {
            None => {}
            Some(LabelSums::Classes(c)) => {
                parts.fact(at, "labels", "classes");
                c.store(&format!("{at}.labels"), parts);
            }
            Some(LabelSums::Numbers(c)) => {
                parts.fact(at, "labels", "numbers");
                c.store(&format!("{at}.labels"), parts);
            }
        }
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<Sums> {
        let kind = |parts: &mut Parts, name: &str| -> Restored<Option<String>> {
            parts.knows(at, name).then(|| parts.take(at, name)).transpose()
        };
        let (features, labels) = (format!("{at}.features"), format!("{at}.labels"));
        let second = match kind(parts, "second")?.as_deref() {
            None => None,
            Some("plain") => Some(Second::Plain(Covariance::restore(&features, d, parts)?)),
            Some("imputed") => {
                Some(Second::Imputed(ImputedCovariance::restore(&features, d, parts)?))
            }
            Some("tiled") => Some(Second::Tiled(TiledCovariance::restore(&features, d, parts)?)),
            Some(other) => return Err(format!("sums of kind '{other}' are unknown")),
        };
        let labels = match kind(parts, "labels")?.as_deref() {
            None => None,
            Some("classes") => Some(LabelSums::Classes(ClassSums::restore(&labels, d, parts)?)),
            Some("numbers") => Some(LabelSums::Numbers(CrossMoment::restore(&labels, d, parts)?)),
            Some(other) => return Err(format!("label sums of kind '{other}' are unknown")),
        };
        match second.is_some() || labels.is_some() {
            true => Ok(Sums { second, labels }),
            false => Err("it holds no sums".into()),
        }
    }

    fn subtract(&mut self, part: Sums) {
        both!(self, part, subtract);
    }

    fn spread(&self) -> Array1<f64> {
        match (&self.second, &self.labels) {
            (Some(Second::Plain(s)), _) => s.spread(),
            (Some(Second::Imputed(s)), _) => s.spread(),
            (Some(Second::Tiled(s)), _) => s.spread(),
            (None, Some(LabelSums::Classes(c))) => Stored::spread(c),
            (None, Some(LabelSums::Numbers(c))) => Stored::spread(c),
            (None, None) => Array1::zeros(0),
        }
    }
}
