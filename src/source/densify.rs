//! A record batch → a dense block.
//!
//! Enters: arrow arrays of any supported type, and decoders for direct columns. Leaves: a [`Block`]
//! whose missing cells have met the policy. Holds one block, plus 8 bytes per missing cell.
//!
//! Scalar tables are dense in F order (a column is a copy), vector columns in C order (a row is a
//! copy); everything downstream takes both.

use super::block::{Block, Nulls, Precision, Tally, Values, weight_squares};
use super::direct::Elements;
use super::features::{FeatureColumn, Features};
use super::grid::{Cells, Grid, Numeric, Order, Target};
use super::labels::{self, Labels};
use super::numbers::{as_f64, count_rounded};
use super::positions::{Origin, Positions};
use super::table::ReadRequest;
use super::whole_labels::WholeLabels;
use crate::error::{Error, Place, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use ndarray::{Array1, Array2, ShapeBuilder};
use std::path::Path;

/// How rows become blocks.
pub(super) struct Densify<'a> {
    /// What is read of them.
    pub(super) request: &'a ReadRequest,
    /// Where its columns are.
    pub(super) positions: Positions,
    /// For messages.
    pub(super) path: &'a Path,
}

/// The rows of one block on their way: a record batch for most columns, and a decoder that appends
/// the next values of a direct column and tells which rows have none.
pub(super) struct Incoming<'a> {
    /// Rows of the block.
    pub(super) rows: usize,
    /// The first of them, counted within the file.
    pub(super) first_row: u64,
    /// All columns that are not direct; without columns where there are none.
    pub(super) batch: &'a RecordBatch,
    /// Decodes direct columns.
    pub(super) direct: &'a mut DirectDecoder<'a>,
    /// Decodes vectors of floats.
    pub(super) vectors: &'a mut VectorDecoder<'a>,
}

/// Appends the values of the direct column at a position, and tells which rows have none.
pub(super) type DirectDecoder<'a> =
    dyn FnMut(usize, &mut Vec<f64>, &mut dyn FnMut(usize)) -> Result<()> + 'a;

/// Hands the elements of the vector column at a position to whom it is given.
pub(super) type VectorDecoder<'a> =
    dyn FnMut(usize, &mut dyn FnMut(Floats<'_>) -> Result<()>) -> Result<()> + 'a;

/// Elements of either type.
pub(super) enum Floats<'a> {
    /// Singles.
    F32(Elements<'a, f32>),
    /// Doubles.
    F64(Elements<'a, f64>),
}

impl Densify<'_> {
    /// The next block.
    pub(super) fn block(&self, incoming: Incoming<'_>) -> Result<Block> {
        match self.request.precision {
            Precision::Exact | Precision::Full => self.fill(incoming, Values::F64),
            Precision::Mixed => self.fill(incoming, Values::F32),
        }
    }

    /// True when features lie in F order: unless most come from vector columns.
    pub(super) fn by_column(features: &Features) -> bool {
        let vectors: usize =
            features.columns.iter().filter(|c| c.width.is_some()).map(FeatureColumn::len).sum();
        2 * vectors <= features.len()
    }

    fn fill<T: Target>(
        &self,
        incoming: Incoming<'_>,
        wrap: fn(Array2<T>) -> Values,
    ) -> Result<Block> {
        let (rows, first_row, batch) = (incoming.rows, incoming.first_row, incoming.batch);
        let features = &self.request.features;
        let order = if Self::by_column(features) { Order::F } else { Order::C };
        let mut grid = Grid::new(rows, features.len(), order);
        let mut tally = Tally { rows: rows as u64, ..Tally::default() };
        self.features(incoming, &mut grid, &mut tally)?;
        grid.find_nan(|row, feature| {
            let place = self.place(first_row + row as u64, feature);
            Err(Error::data(
                place,
                "is infinite; remove the row or replace the value, there is no mean to centre by",
            ))
        })?;
        let weights = self.weights(batch, first_row)?;
        let kept = self.positions.kept.as_ref().map(|at| batch.project(at)).transpose();
        let kept = kept.map_err(|e| Error::Internal(format!("projection: {e}")))?;
        let (data, mut missing) = grid.into_parts();
        missing.sort_unstable();
        for cell in &missing {
            *tally.missing.entry(cell.feature).or_default() += 1;
        }
        let shape = (rows, features.len()).set_f(order == Order::F);
        let values = Array2::from_shape_vec(shape, data)
            .map_err(|e| Error::Internal(format!("block shape: {e}")))?;
        let (labels, unlabelled) = self.labels(batch, first_row)?.unzip();
        let unlabelled = unlabelled.unwrap_or_default();
        tally.unlabelled = unlabelled.len() as u64;
        let block = Block { values: wrap(values), weights, labels, missing, kept, tally };
        let mut block = self.apply_policy(block, &unlabelled, first_row)?;
        block.tally.whole_labels = block.labels.as_ref().map(WholeLabels::of).unwrap_or_default();
        block.tally.weight_squares = weight_squares(block.weights.as_ref());
        Ok(block)
    }

    /// All columns into the grid.
    fn features<T: Target>(
        &self,
        incoming: Incoming<'_>,
        grid: &mut Grid<T>,
        tally: &mut Tally,
    ) -> Result<()> {
        let Incoming { first_row, batch, direct, vectors, .. } = incoming;
        let mut first = 0;
        for (column, origin) in self.request.features.columns.iter().zip(&self.positions.origins) {
            match origin {
                Origin::Batch(at) => {
                    let rounded = self.column(column, batch.column(*at), first, first_row, grid)?;
                    if rounded > 0 {
                        *tally.rounded.entry(first as u32).or_default() += rounded;
                    }
                }
                Origin::Direct(at) => grid.put_direct(first, |out, miss| direct(*at, out, miss))?,
                Origin::Vector(at) => vectors(*at, &mut |floats| match floats {
                    Floats::F32(elements) => {
                        self.elements(column, elements, first, first_row, grid)
                    }
                    Floats::F64(elements) => {
                        self.elements(column, elements, first, first_row, grid)
                    }
                })?,
            }
            first += column.len();
        }
        Ok(())
    }

    fn apply_policy(&self, block: Block, unlabelled: &[usize], first_row: u64) -> Result<Block> {
        if self.request.nulls == Nulls::Drop && !unlabelled.is_empty() {
            return block.without_missing(unlabelled);
        }
        if let (Some(row), Some(labels)) = (unlabelled.first(), &self.request.labels) {
            let place = Place::file(self.path).column(labels.columns.join(", "));
            return Err(Error::data(
                place.row(first_row + *row as u64),
                "has no label; ⟦nulls=drop⟧ leaves such rows out, and no other policy invents one",
            ));
        }
        let Some(cell) = block.missing.first() else { return Ok(block) };
        match self.request.nulls {
            Nulls::Mean => Ok(block),
            Nulls::Drop => block.without_missing(&[]),
            Nulls::Error => {
                let place = self.place(first_row + u64::from(cell.row), cell.feature as usize);
                Err(Error::data(place, format!("is null or NaN; {}", self.request.advice)))
            }
        }
    }

    fn place(&self, row: u64, feature: usize) -> Place {
        Place::file(self.path).column(self.request.features.name(feature)).row(row)
    }

    /// One column into the grid, starting at feature `first`; how many of its numbers are rounded.
    fn column<T: Target>(
        &self,
        column: &FeatureColumn,
        array: &ArrayRef,
        first: usize,
        first_row: u64,
        grid: &mut Grid<T>,
    ) -> Result<u64> {
        let (cells, values) = match column.width {
            None => (Cells::Scalar, array.clone()),
            Some(width) => self.vector_cells(column, width, array, first_row)?,
        };
        macro_rules! put {
            ($t:ty) => {{
                let a = values.as_primitive::<$t>();
                grid.put(a.values(), a.nulls(), &cells, column, first)
            }};
        }
        match values.data_type() {
            DataType::Float64 => put!(Float64Type),
            DataType::Float32 => put!(Float32Type),
            DataType::Float16 => put!(Float16Type),
            DataType::Int8 => put!(Int8Type),
            DataType::Int16 => put!(Int16Type),
            DataType::Int32 => put!(Int32Type),
            DataType::Int64 => put!(Int64Type),
            DataType::UInt8 => put!(UInt8Type),
            DataType::UInt16 => put!(UInt16Type),
            DataType::UInt32 => put!(UInt32Type),
            DataType::UInt64 => put!(UInt64Type),
            _ => {
                let a = as_f64(&values, self.path, &column.name)?;
                grid.put(a.values(), a.nulls(), &cells, column, first)
            }
        }
        Ok(count_rounded(&values))
    }

    /// One column of vectors into the grid, starting at feature `first`.
    fn elements<T: Target, S: Numeric>(
        &self,
        column: &FeatureColumn,
        elements: Elements<'_, S>,
        first: usize,
        first_row: u64,
        grid: &mut Grid<T>,
    ) -> Result<()> {
        let Elements { values, offsets, rows, elements } = elements;
        let width = column.width.unwrap_or_default();
        let wrong = |row: usize, len: usize| self.wrong_length(column, first_row + row as u64, len);
        let starts = row_starts(offsets.iter().copied(), rows.as_ref(), width, wrong)?;
        let cells = Cells::Vector { starts, width };
        grid.put(values, elements.as_ref(), &cells, column, first);
        Ok(())
    }

    fn wrong_length(&self, column: &FeatureColumn, row: u64, len: usize) -> Error {
        let width = column.width.unwrap_or_default();
        let place = Place::file(self.path).column(&column.name).row(row);
        let problem = format!(
            "has {len} elements where {width} are expected; a vector column needs the same length \
             in every row, leave it out with ⟦exclude⟧"
        );
        Error::data(place, problem)
    }

    /// Where each row of a vector column starts among its values.
    fn vector_cells(
        &self,
        column: &FeatureColumn,
        width: usize,
        array: &ArrayRef,
        first_row: u64,
    ) -> Result<(Cells, ArrayRef)> {
        let wrong = |row: usize, len: usize| self.wrong_length(column, first_row + row as u64, len);
        let (starts, values) = match array.data_type() {
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                let length = list.value_length() as usize;
                if length != width && !list.is_empty() {
                    return Err(wrong(0, length));
                }
                let start = |row: usize| list.is_valid(row).then_some(row * length);
                ((0..list.len()).map(start).collect(), list.values().clone())
            }
            DataType::List(_) => list_cells(array.as_list::<i32>(), width, wrong)?,
            DataType::LargeList(_) => list_cells(array.as_list::<i64>(), width, wrong)?,
            other => {
                let what = format!("column '{}' decoded as {other}", column.name);
                return Err(Error::Internal(what));
            }
        };
        Ok((Cells::Vector { starts, width }, values))
    }

    /// The labels of the rows, and which rows have none.
    fn labels(&self, batch: &RecordBatch, first_row: u64) -> Result<Option<(Labels, Vec<usize>)>> {
        let Some(request) = &self.request.labels else { return Ok(None) };
        let arrays: Vec<&ArrayRef> =
            self.positions.labels.iter().map(|at| batch.column(*at)).collect();
        let place = |name: &str, row: usize| {
            Place::file(self.path).column(name).row(first_row + row as u64)
        };
        labels::read(request, &arrays, place).map(Some)
    }

    fn weights(&self, batch: &RecordBatch, first_row: u64) -> Result<Option<Array1<f64>>> {
        let (Some(position), Some(name)) = (self.positions.weight, &self.request.weight) else {
            return Ok(None);
        };
        let weights = as_f64(batch.column(position), self.path, name)?;
        let wrong = |row: &usize| {
            weights.is_null(*row) || !weights.value(*row).is_finite() || weights.value(*row) < 0.0
        };
        if let Some(row) = (0..weights.len()).find(wrong) {
            let found = match weights.is_null(row) {
                true => "null".to_string(),
                false => weights.value(row).to_string(),
            };
            let place = Place::file(self.path).column(name).row(first_row + row as u64);
            return Err(Error::data(place, format!("is {found}; a weight must be a number ≥ 0")));
        }
        Ok(Some(Array1::from_iter(weights.values().iter().copied())))
    }
}

/// Where each row of a list array starts among those of its values that the rows have.
fn list_cells<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    width: usize,
    wrong: impl Fn(usize, usize) -> Error,
) -> Result<(Vec<Option<usize>>, ArrayRef)> {
    // A slice of an array shares the values of the whole.
    let offsets = list.offsets();
    let (begin, end) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    let relative = offsets.iter().map(|o| o.as_usize() - begin);
    let starts = row_starts(relative, list.nulls(), width, wrong)?;
    Ok((starts, list.values().slice(begin, end - begin)))
}

/// Row starts from list offsets; `None` for a null row.
fn row_starts(
    offsets: impl Iterator<Item = usize> + Clone,
    nulls: Option<&NullBuffer>,
    width: usize,
    wrong: impl Fn(usize, usize) -> Error,
) -> Result<Vec<Option<usize>>> {
    let mut starts = Vec::with_capacity(offsets.size_hint().0.saturating_sub(1));
    for (row, (start, end)) in offsets.clone().zip(offsets.skip(1)).enumerate() {
        let valid = nulls.is_none_or(|n| n.is_valid(row));
        if valid && end - start != width {
            return Err(wrong(row, end - start));
        }
        starts.push(valid.then_some(start));
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::ListArray;

    #[test]
    fn lists_of_other_lengths_are_refused() {
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>(vec![
            Some(vec![Some(1.0), Some(2.0)]),
            None,
            Some(vec![Some(3.0)]),
        ]);
        let wrong = |row: usize, len: usize| Error::Internal(format!("row {row} has {len}"));
        let refused = list_cells(&list, 2, wrong).unwrap_err();
        assert!(refused.to_string().contains("row 2 has 1"), "{refused}");
        let (starts, values) = list_cells(&list.slice(1, 2), 1, wrong).unwrap();
        assert_eq!((starts, values.len()), (vec![None, Some(0)], 1));
    }
}
