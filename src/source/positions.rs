//! Where the columns of a request are: in a record batch, or with decoders of their own.

use super::features::FeatureColumn;
use super::table::ReadRequest;
use crate::error::Result;

/// Where a feature column's values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The column at this position of the record batch.
    Batch(usize),
    /// The column at this position among those decoded straight into the block.
    Direct(usize),
    /// The column at this position among those decoded as vectors of floats.
    Vector(usize),
}

/// The columns of a request by position.
#[derive(Debug)]
pub(super) struct Positions {
    /// For each feature column.
    pub(super) origins: Vec<Origin>,
    /// The weight column.
    pub(super) weight: Option<usize>,
    /// The label columns.
    pub(super) labels: Vec<usize>,
    /// The columns passed through.
    pub(super) kept: Option<Vec<usize>>,
}

impl Positions {
    /// In a table: `find` gives the position of a name, `origin` what a feature column at a
    /// position comes from.
    pub(super) fn in_table(
        request: &ReadRequest,
        find: impl Fn(&str) -> Result<usize>,
        mut origin: impl FnMut(&FeatureColumn, usize) -> Origin,
    ) -> Result<Positions> {
        let all = |names: &[String]| names.iter().map(|n| find(n)).collect::<Result<Vec<_>>>();
        let feature = |column: &FeatureColumn| Ok(origin(column, find(&column.name)?));
        Ok(Positions {
            origins: request.features.columns.iter().map(feature).collect::<Result<_>>()?,
            weight: request.weight.as_deref().map(&find).transpose()?,
            labels: request.labels.as_ref().map_or(Ok(Vec::new()), |l| all(&l.columns))?,
            kept: request.keep.as_deref().map(all).transpose()?,
        })
    }

    /// The columns that batches must have, ascending; positions are among those from now on.
    pub(super) fn project(&mut self) -> Vec<usize> {
        let batched = self.origins.iter().filter_map(|origin| match origin {
            Origin::Batch(at) => Some(*at),
            Origin::Direct(_) | Origin::Vector(_) => None,
        });
        let kept = self.kept.iter().flatten();
        let mut columns: Vec<usize> =
            batched.chain(self.weight).chain(self.labels.iter().chain(kept).copied()).collect();
        columns.sort_unstable();
        columns.dedup();
        let among = |at: &mut usize| {
            *at = columns.binary_search(at).expect("every position is among the columns");
        };
        for origin in &mut self.origins {
            if let Origin::Batch(at) = origin {
                among(at);
            }
        }
        self.weight.iter_mut().for_each(among);
        self.labels.iter_mut().chain(self.kept.iter_mut().flatten()).for_each(among);
        columns
    }
}
