//! The table cut the other way: all rows of some features at a time.
//!
//! Enters: a table, or a copy of it. Leaves: a [`Source`] whose units are groups of features and
//! whose blocks have all rows. Held per open unit: a group's cells twice (as decoded in pieces, and
//! together), at most about 16 MB unless there are more rows than [`GROUP_CELLS`].
//!
//! | features | are read |
//! |---|---|
//! | that the table can read by groups ([`Table::by_features`]) | in place |
//! | others: of vector columns, many files, a reader | once, into a [`Spool`] cut by features |
//!
//! Rows of blocks, and so of a tally, are counted once per feature here: they are for progress.

use super::block::weight_squares;
use super::spool::Spool;
use super::table::{ReadRequest, Table};
use super::{Block, Nulls, Source, Tally, Unit, Values};
use crate::error::{Error, Result};
use ndarray::{Array1, Array2, ArrayView2, Axis, ShapeBuilder, s};
use std::collections::BTreeMap;
use std::ops::Range;

/// Cells of a group: 8 MB of doubles.
pub(crate) const GROUP_CELLS: usize = 1 << 20;

/// Features of a group, at most: each has a decoder.
const GROUP_FEATURES: usize = 2048;

/// Features of a group for this many rows. A function of the data alone (see [`Source`] on why).
pub(crate) fn group_features(rows: usize, d: usize) -> usize {
    (GROUP_CELLS / rows.max(1)).clamp(8, GROUP_FEATURES).min(d.max(1))
}

/// True when the features must be copied before they can be read in groups.
pub(crate) fn needs_spool(table: &dyn Table, request: &ReadRequest) -> bool {
    table.by_features(request, &[]).is_none()
}

/// The feature ranges that rows × d cells are cut into.
pub(crate) fn groups(rows: usize, d: usize) -> Vec<Range<usize>> {
    let group = group_features(rows, d);
    (0..d).step_by(group).map(|first| first..(first + group).min(d)).collect()
}

/// All rows, some features at a time.
pub(crate) struct Columnwise<'a> {
    groups: Vec<Range<usize>>,
    units: Vec<Unit>,
    rows: usize,
    /// Rows to read, where some are left out.
    kept: Option<Vec<usize>>,
    store: Store<'a>,
}

enum Store<'a> {
    /// One narrow source per group.
    InPlace(Vec<Box<dyn Source + 'a>>),
    Spool(Spool),
}

impl<'a> Columnwise<'a> {
    /// Over a table that can be read by features. Rows with missing cells stay (under
    /// [`Nulls::Drop`] too: see [`Columnwise::keep`]).
    pub(crate) fn in_place(table: &'a dyn Table, request: &ReadRequest) -> Result<Columnwise<'a>> {
        let rows = table.rows() as usize;
        let groups = groups(rows, request.features.len());
        let mut request = request.clone();
        if request.nulls != Nulls::Error {
            request.nulls = Nulls::Mean;
        }
        let narrow = table.by_features(&request, &groups);
        let narrow = narrow.ok_or_else(|| {
            Error::Internal("a table that needs a copy was read by features".into())
        })?;
        let (units, store) = (units(&groups, table.bytes()), Store::InPlace(narrow));
        Ok(Columnwise { units, groups, rows, kept: None, store })
    }

    /// Over a copy that has been written whole.
    pub(crate) fn spooled(spool: Spool) -> Columnwise<'static> {
        let groups = spool.groups().to_vec();
        Columnwise {
            units: units(&groups, spool.bytes()),
            groups,
            rows: spool.rows(),
            kept: None,
            store: Store::Spool(spool),
        }
    }

    /// Leaves out all other rows from now on.
    pub(crate) fn keep(&mut self, rows: Vec<usize>) {
        self.kept = Some(rows);
    }

    /// Rows of every block.
    pub(crate) fn rows(&self) -> usize {
        self.kept.as_ref().map_or(self.rows, Vec::len)
    }

    /// The features of a unit.
    pub(crate) fn features(&self, unit: usize) -> Range<usize> {
        self.groups[unit].clone()
    }

    fn group(&self, unit: usize) -> Result<Block> {
        let mut block = match &self.store {
            Store::InPlace(sources) => whole(&*sources[unit], self.rows)?,
            Store::Spool(spool) => spool.read(unit)?,
        };
        let first = self.groups[unit].start as u32;
        let shift =
            |counts: BTreeMap<u32, u64>| counts.into_iter().map(|(j, n)| (j + first, n)).collect();
        block.tally = Tally {
            rows: self.groups[unit].len() as u64,
            dropped: 0,
            unlabelled: 0,
            missing: shift(block.tally.missing),
            rounded: shift(block.tally.rounded),
            // Every group has the same rows.
            weight_squares: if unit == 0 { weight_squares(block.weights.as_ref()) } else { 0.0 },
            ..Tally::default()
        };
        Ok(match &self.kept {
            Some(rows) => selected(block, rows),
            None => block,
        })
    }
}

/// Only these rows; all that have a missing cell are among the others.
fn selected(mut block: Block, rows: &[usize]) -> Block {
    block.values = match block.values {
        Values::F64(x) => Values::F64(x.select(Axis(0), rows).as_standard_layout().into_owned()),
        Values::F32(x) => Values::F32(x.select(Axis(0), rows).as_standard_layout().into_owned()),
    };
    block.weights = block.weights.map(|w| w.select(Axis(0), rows));
    block.missing.clear();
    block
}

/// One step of progress per feature.
fn units(groups: &[Range<usize>], bytes: u64) -> Vec<Unit> {
    let d = groups.last().map_or(0, |g| g.end).max(1) as u64;
    let unit = |group: &Range<usize>| {
        let (first_row, rows) = (group.start as u64, group.len() as u64);
        let bytes = (bytes as f64 / d as f64 * rows as f64) as u64;
        Unit { input: 0, first_row, rows, bytes }
    };
    groups.iter().map(unit).collect()
}

impl Source for Columnwise<'_> {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn n_features(&self) -> usize {
        self.groups.last().map_or(0, |g| g.end)
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        Ok(Box::new(std::iter::once_with(move || self.group(unit))))
    }
}

/// All rows of a source in one block.
fn whole(source: &dyn Source, rows: usize) -> Result<Block> {
    let mut all: Option<Gathering> = None;
    for unit in 0..source.units().len() {
        for block in source.blocks(unit)? {
            let block = block?;
            if block.rows() == rows {
                return Ok(block);
            }
            all.get_or_insert_with(|| Gathering::new(rows, &block)).add(block)?;
        }
    }
    all.map(|all| all.block)
        .ok_or_else(|| Error::Internal("a source without rows was read by columns".into()))
}

/// A block in the making, from blocks of some rows each.
struct Gathering {
    block: Block,
    rows: usize,
}

impl Gathering {
    fn new(rows: usize, like: &Block) -> Gathering {
        let values = match &like.values {
            Values::F64(x) => Values::F64(Array2::zeros((rows, x.ncols()).f())),
            Values::F32(x) => Values::F32(Array2::zeros((rows, x.ncols()).f())),
        };
        let weights = like.weights.as_ref().map(|_| Array1::zeros(rows));
        let block = Block {
            values,
            weights,
            labels: None,
            missing: Vec::new(),
            kept: None,
            tally: Tally::default(),
        };
        Gathering { block, rows: 0 }
    }

    fn add(&mut self, part: Block) -> Result<()> {
        let (first, count) = (self.rows, part.rows());
        let range = first..first + count;
        self.rows += count;
        match (&mut self.block.values, &part.values) {
            (Values::F64(all), Values::F64(some)) => put(all, range.clone(), some.view()),
            (Values::F32(all), Values::F32(some)) => put(all, range.clone(), some.view()),
            _ => return Err(Error::Internal("blocks of one source differ in type".into())),
        }
        if let (Some(all), Some(some)) = (&mut self.block.weights, &part.weights) {
            all.slice_mut(s![range]).assign(some);
        }
        self.block.missing.extend(part.missing.into_iter().map(|mut cell| {
            cell.row += first as u32;
            cell
        }));
        self.block.tally.add(part.tally);
        Ok(())
    }
}

/// Column by column: both sides are in F order.
fn put<T: Copy>(all: &mut Array2<T>, rows: Range<usize>, some: ArrayView2<'_, T>) {
    for (mut to, from) in all.columns_mut().into_iter().zip(some.columns()) {
        to.slice_mut(s![rows.clone()]).assign(&from);
    }
}
