//! How the requested columns of one file are read: straight into the block, as vectors of floats,
//! by arrow's reader, or off the path of the file. Held: a decoder per column that is not arrow's.

use super::block::Precision;
use super::densify::Densify;
use super::direct::{self, DirectColumn, DirectVector};
use super::features::FeatureColumn;
use super::footer::{FileColumn, Footer};
use super::partitions::PartitionKeys;
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
    /// All other columns of the file, for arrow's reader; its batches have them in file order.
    pub(super) arrow: Option<ProjectionMask>,
    /// What positions are of, where that is not a batch as arrow's reader gives it.
    pub(super) columns: Option<Vec<BatchColumn>>,
}

/// Where a column of a batch comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BatchColumn {
    /// The column at this position of what arrow's reader gives, and the names of fields below it.
    Read(usize, Vec<String>),
    /// A partition key.
    Key(usize),
}

impl ColumnLayout {
    pub(super) fn new(
        footer: &Footer,
        request: &ReadRequest,
        path: &Path,
        groups: &Range<usize>,
        keys: &PartitionKeys,
    ) -> Result<ColumnLayout> {
        let file = footer.file_columns();
        let (mut direct, mut vectors) = (Vec::new(), Vec::new());
        let doubles =
            request.precision != Precision::Mixed && Densify::by_column(&request.features);
        let origin = |column: &FeatureColumn, at: usize| {
            if at >= footer.arrow.schema().fields().len() {
                return Origin::Batch(at);
            }
            let FileColumn { root, leaves, .. } = file.column(at);
            let first = leaves.start;
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
                None => Origin::Batch(at),
            }
        };
        let find = |name: &str| match (file.get(name), keys.find(name)) {
            (None, Some(key)) => Ok(file.len() + key),
            _ => file.find(name, path),
        };
        let mut positions = Positions::in_table(request, find, origin)?;
        let (arrow, columns) = batch_columns(footer, &positions.project());
        Ok(ColumnLayout { positions, direct, vectors, arrow, columns })
    }
}

/// What arrow's reader reads of the columns at these positions (those of the file, then partition
/// keys), and what batches are made of, where they are not what it gives.
fn batch_columns(
    footer: &Footer,
    wanted: &[usize],
) -> (Option<ProjectionMask>, Option<Vec<BatchColumn>>) {
    let file = footer.file_columns();
    let (of_file, of_path) = wanted.split_at(wanted.partition_point(|at| *at < file.len()));
    let read: Vec<FileColumn<'_>> = of_file.iter().map(|at| file.column(*at)).collect();
    let mut roots: Vec<usize> = read.iter().map(|c| c.root).collect();
    roots.sort_unstable();
    roots.dedup();
    let as_read = of_path.is_empty() && read.iter().all(|c| c.path.is_empty());
    let nested = |c: &FileColumn<'_>| {
        BatchColumn::Read(roots.partition_point(|r| *r < c.root), c.path.to_vec())
    };
    let keys = of_path.iter().map(|at| BatchColumn::Key(at - file.len()));
    let columns = (!as_read).then(|| read.iter().map(nested).chain(keys).collect());
    let leaves = read.iter().flat_map(|c| c.leaves.clone());
    let mask =
        (!read.is_empty()).then(|| ProjectionMask::leaves(footer.arrow.parquet_schema(), leaves));
    (mask, columns)
}
