//! How the requested columns of one file are read: straight into the block, as vectors of floats,
//! or by arrow's reader. Held: a decoder per column that is not arrow's.

use super::block::Precision;
use super::densify::Densify;
use super::direct::{self, DirectColumn, DirectVector};
use super::features::FeatureColumn;
use super::footer::Footer;
use super::positions::{Origin, Positions};
use super::table::ReadRequest;
use crate::error::Result;
use ::parquet::arrow::ProjectionMask;
use std::ops::Range;
use std::path::Path;

/// The columns of some row groups, and who decodes them.
pub(super) struct ColumnLayout {
    /// Where each of the request's columns is.
    pub(super) positions: Positions,
    /// The columns that are decoded directly.
    pub(super) direct: Vec<DirectColumn>,
    /// The vector columns that are decoded without arrow's arrays.
    pub(super) vectors: Vec<DirectVector>,
    /// All other columns, for arrow's reader; its batches have them in file order.
    pub(super) arrow: Option<ProjectionMask>,
}

impl ColumnLayout {
    pub(super) fn new(
        footer: &Footer,
        request: &ReadRequest,
        path: &Path,
        groups: &Range<usize>,
    ) -> Result<ColumnLayout> {
        let roots = footer.roots();
        let (mut direct, mut vectors) = (Vec::new(), Vec::new());
        let doubles =
            request.precision != Precision::Mixed && Densify::by_column(&request.features);
        let origin = |column: &FeatureColumn, root: usize| {
            let first = roots.leaves[root];
            if let Some(leaf) = direct::leaf(footer, root, first).filter(|_| doubles) {
                direct.push(DirectColumn::new(leaf, groups.clone()));
                return Origin::Direct(direct.len() - 1);
            }
            let vector = column
                .width
                .and_then(|width| DirectVector::new(footer, root, first, groups.clone(), width));
            match vector {
                Some(vector) => {
                    vectors.push(vector);
                    Origin::Vector(vectors.len() - 1)
                }
                None => Origin::Batch(root),
            }
        };
        let mut positions = Positions::in_table(request, |name| roots.find(name, path), origin)?;
        let columns = positions.project();
        let arrow = (!columns.is_empty())
            .then(|| ProjectionMask::roots(footer.arrow.parquet_schema(), columns));
        Ok(ColumnLayout { positions, direct, vectors, arrow })
    }
}
