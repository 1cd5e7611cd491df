//! A record batch → a dense block.
//!
//! Enters: arrow arrays of any supported type, and decoders for direct columns. Leaves: a [`Block`]
//! whose missing cells have met the policy. Holds one block, plus 8 bytes per missing cell.
//!
//! Scalar tables are dense in F order (a column is a copy), vector columns in C order (a row is a
//! copy); everything downstream takes both.

use super::block::{Block, Nulls, Precision, Tally, Values};
use super::columns::{FeatureColumn, Features};
use super::direct::Elements;
use super::grid::{Cells, Grid, Number, Order, Target};
use super::labels::{self, LabelWant, Labels};
use crate::error::{Error, Place, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use ndarray::{Array1, Array2, ShapeBuilder};
use std::path::Path;

/// Integers beyond this are not all f64 numbers.
const EXACT: u64 = 1 << 53;

/// How batches of one file become blocks.
pub struct Densify<'a> {
    /// The features.
    pub features: &'a Features,
    /// For each feature column, where its values come from.
    pub origins: Vec<Origin>,
    /// Position of the weight column.
    pub weight: Option<(usize, &'a str)>,
    /// The labels and the positions of their columns.
    pub labels: Option<(&'a LabelWant, Vec<usize>)>,
    /// Positions of the columns passed through.
    pub kept: Option<Vec<usize>>,
    /// The policy.
    pub nulls: Nulls,
    /// f32 blocks where asked.
    pub precision: Precision,
    /// What to do about a missing value under `--nulls error`.
    pub advice: &'static str,
    /// For messages.
    pub path: &'a Path,
}

/// Where a column's values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The column at this position of the record batch.
    Batch(usize),
    /// The column at this position among those decoded straight into the block.
    Direct(usize),
    /// The column at this position among those decoded as vectors of floats.
    Vector(usize),
}

/// The rows of one block on their way: a record batch for most columns, and a decoder that appends the
/// next values of a direct column and tells which rows have none.
pub struct Incoming<'a> {
    /// Rows of the block.
    pub rows: usize,
    /// The first of them, counted within the file.
    pub first_row: u64,
    /// All columns that are not direct; without columns where there are none.
    pub batch: &'a RecordBatch,
    /// Decodes direct columns.
    pub direct: &'a mut DirectDecoder<'a>,
    /// Decodes vectors of floats.
    pub vectors: &'a mut VectorDecoder<'a>,
}

/// Appends the values of the direct column at a position, and tells which rows have none.
pub type DirectDecoder<'a> =
    dyn FnMut(usize, &mut Vec<f64>, &mut dyn FnMut(usize)) -> Result<()> + 'a;

/// Hands the elements of the vector column at a position to whom it is given.
pub type VectorDecoder<'a> =
    dyn FnMut(usize, &mut dyn FnMut(Floats<'_>) -> Result<()>) -> Result<()> + 'a;

/// Elements of either type.
pub enum Floats<'a> {
    /// Singles.
    F32(Elements<'a, f32>),
    /// Doubles.
    F64(Elements<'a, f64>),
}

impl Densify<'_> {
    /// The next block.
    pub fn block(&self, incoming: Incoming<'_>) -> Result<Block> {
        match self.precision {
            Precision::Exact => self.fill(incoming, Values::F64),
            Precision::Mixed => self.fill(incoming, Values::F32),
        }
    }

    /// True when features lie in F order: unless most come from vector columns.
    pub fn by_column(features: &Features) -> bool {
        let vectors: usize =
            features.columns.iter().filter(|c| c.width.is_some()).map(FeatureColumn::len).sum();
        2 * vectors <= features.len()
    }

    fn fill<T: Target>(
        &self,
        incoming: Incoming<'_>,
        wrap: fn(Array2<T>) -> Values,
    ) -> Result<Block> {
        let Incoming { rows, first_row, batch, direct, vectors } = incoming;
        let d = self.features.len();
        let order = if Self::by_column(self.features) { Order::F } else { Order::C };
        let mut grid = Grid::new(rows, d, order);
        let mut tally = Tally { rows: rows as u64, ..Tally::default() };
        let mut first = 0;
        for (column, origin) in self.features.columns.iter().zip(&self.origins) {
            match origin {
                Origin::Batch(at) => {
                    self.column(column, batch.column(*at), first, first_row, &mut grid, &mut tally)?
                }
                Origin::Direct(at) => grid.put_direct(first, |out, miss| direct(*at, out, miss))?,
                Origin::Vector(at) => vectors(*at, &mut |floats| match floats {
                    Floats::F32(elements) => {
                        self.elements(column, elements, first, first_row, &mut grid)
                    }
                    Floats::F64(elements) => {
                        self.elements(column, elements, first, first_row, &mut grid)
                    }
                })?,
            }
            first += column.len();
        }
        grid.find_nan(|row, feature| {
            let place = self.place(first_row + row as u64, feature);
            Err(Error::data(
                place,
                "is infinite; remove the row or replace the value, there is no mean to centre by",
            ))
        })?;
        let weights = self.weights(batch, first_row)?;
        let kept = self.kept.as_ref().map(|positions| batch.project(positions)).transpose();
        let kept = kept.map_err(|e| Error::Internal(format!("projection: {e}")))?;
        let (data, mut missing) = grid.into_parts();
        missing.sort_unstable();
        for cell in &missing {
            *tally.missing.entry(cell.feature).or_default() += 1;
        }
        let values = Array2::from_shape_vec((rows, d).set_f(order == Order::F), data)
            .map_err(|e| Error::Internal(format!("block shape: {e}")))?;
        let (labels, unlabelled) = self.labels(batch, first_row)?.unzip();
        let unlabelled = unlabelled.unwrap_or_default();
        tally.unlabelled = unlabelled.len() as u64;
        self.apply_policy(
            Block { values: wrap(values), weights, labels, missing, kept, tally },
            &unlabelled,
            first_row,
        )
    }

    fn apply_policy(&self, block: Block, unlabelled: &[usize], first_row: u64) -> Result<Block> {
        if self.nulls == Nulls::Drop && !unlabelled.is_empty() {
            return block.without_missing(unlabelled);
        }
        if let (Some(row), Some((want, _))) = (unlabelled.first(), &self.labels) {
            let place =
                Place::file(self.path).column(want.columns.join(", ")).row(first_row + *row as u64);
            return Err(Error::data(
                place,
                "has no label; ⟦nulls=drop⟧ leaves such rows out, and no other policy invents one",
            ));
        }
        let Some(cell) = block.missing.first() else { return Ok(block) };
        match self.nulls {
            Nulls::Mean => Ok(block),
            Nulls::Drop => block.without_missing(&[]),
            Nulls::Error => {
                let place = self.place(first_row + u64::from(cell.row), cell.feature as usize);
                Err(Error::data(place, format!("is null or NaN; {}", self.advice)))
            }
        }
    }

    fn place(&self, row: u64, feature: usize) -> Place {
        Place::file(self.path).column(self.features.name(feature)).row(row)
    }

    /// One column into the grid, starting at feature `first`.
    fn column<T: Target>(
        &self,
        column: &FeatureColumn,
        array: &ArrayRef,
        first: usize,
        first_row: u64,
        grid: &mut Grid<T>,
        tally: &mut Tally,
    ) -> Result<()> {
        let (cells, values) = match column.width {
            None => (Cells::Scalar, array.clone()),
            Some(width) => self.vector_cells(column, width, array, first_row)?,
        };
        let rounded = count_rounded(&values);
        if rounded > 0 {
            *tally.rounded.entry(first as u32).or_default() += rounded;
        }
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
        Ok(())
    }

    /// One column of vectors into the grid, starting at feature `first`.
    fn elements<T: Target, S: Number>(
        &self,
        column: &FeatureColumn,
        elements: Elements<'_, S>,
        first: usize,
        first_row: u64,
        grid: &mut Grid<T>,
    ) -> Result<()> {
        let width = column.width.unwrap_or_default();
        let mut starts = Vec::with_capacity(elements.offsets.len());
        let wrong = |row: usize, len: usize| self.wrong_length(column, first_row + row as u64, len);
        row_starts(
            elements.offsets.iter().copied(),
            elements.rows.as_ref(),
            width,
            &mut starts,
            wrong,
        )?;
        grid.put(
            elements.values,
            elements.elements.as_ref(),
            &Cells::Vector { starts, width },
            column,
            first,
        );
        Ok(())
    }

    fn wrong_length(&self, column: &FeatureColumn, row: u64, len: usize) -> Error {
        let width = column.width.unwrap_or_default();
        let place = Place::file(self.path).column(&column.name).row(row);
        Error::data(
            place,
            format!(
                "has {len} elements where {width} are expected; a vector column needs the same length in every row, leave it out with ⟦exclude⟧"
            ),
        )
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
        let mut starts = Vec::with_capacity(array.len());
        let values = match array.data_type() {
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                if list.value_length() as usize != width && !list.is_empty() {
                    return Err(wrong(0, list.value_length() as usize));
                }
                starts.extend(
                    (0..list.len()).map(|r| list.is_valid(r).then(|| list.value_offset_at(r))),
                );
                list.values().clone()
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                row_starts(
                    list.offsets().iter().map(|o| *o as usize),
                    list.nulls(),
                    width,
                    &mut starts,
                    wrong,
                )?;
                list.values().clone()
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                row_starts(
                    list.offsets().iter().map(|o| *o as usize),
                    list.nulls(),
                    width,
                    &mut starts,
                    wrong,
                )?;
                list.values().clone()
            }
            other => {
                return Err(Error::Internal(format!(
                    "column '{}' decoded as {other}",
                    column.name
                )));
            }
        };
        Ok((Cells::Vector { starts, width }, values))
    }

    /// The labels of the rows, and which rows have none.
    fn labels(&self, batch: &RecordBatch, first_row: u64) -> Result<Option<(Labels, Vec<usize>)>> {
        let Some((want, positions)) = &self.labels else { return Ok(None) };
        let arrays: Vec<&ArrayRef> = positions.iter().map(|at| batch.column(*at)).collect();
        let place = |name: &str, row: usize| {
            Place::file(self.path).column(name).row(first_row + row as u64)
        };
        labels::read(want, &arrays, place).map(Some)
    }

    fn weights(&self, batch: &RecordBatch, first_row: u64) -> Result<Option<Array1<f64>>> {
        let Some((position, name)) = self.weight else {
            return Ok(None);
        };
        let weights = as_f64(batch.column(position), self.path, name)?;
        let wrong = |row: &usize| {
            weights.is_null(*row) || !weights.value(*row).is_finite() || weights.value(*row) < 0.0
        };
        if let Some(row) = (0..weights.len()).find(wrong) {
            let found = if weights.is_null(row) {
                "null".to_string()
            } else {
                weights.value(row).to_string()
            };
            let place = Place::file(self.path).column(name).row(first_row + row as u64);
            return Err(Error::data(place, format!("is {found}; a weight must be a number ≥ 0")));
        }
        Ok(Some(Array1::from_iter(weights.values().iter().copied())))
    }
}

/// Row starts from list offsets; `None` for a null row.
fn row_starts(
    offsets: impl Iterator<Item = usize> + Clone,
    nulls: Option<&NullBuffer>,
    width: usize,
    starts: &mut Vec<Option<usize>>,
    wrong: impl Fn(usize, usize) -> Error,
) -> Result<()> {
    for (row, (start, end)) in offsets.clone().zip(offsets.skip(1)).enumerate() {
        let valid = nulls.is_none_or(|n| n.is_valid(row));
        if valid && end - start != width {
            return Err(wrong(row, end - start));
        }
        starts.push(valid.then_some(start));
    }
    Ok(())
}

/// Anything numeric as f64: the slow road for bools, decimals and dictionaries.
pub(super) fn as_f64(array: &ArrayRef, path: &Path, column: &str) -> Result<Float64Array> {
    macro_rules! widened {
        ($t:ty) => {
            array.as_primitive::<$t>().unary(|v| v as f64)
        };
    }
    // A decimal's digits divided by a power of ten is the nearest f64 while both are exact.
    macro_rules! scaled {
        ($t:ty, $scale:expr) => {{
            let unit = 10f64.powi(i32::from(*$scale));
            array.as_primitive::<$t>().unary(|v| v as f64 / unit)
        }};
    }
    Ok(match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().clone(),
        DataType::Float32 => widened!(Float32Type),
        DataType::Float16 => array.as_primitive::<Float16Type>().unary(f64::from),
        DataType::Int8 => widened!(Int8Type),
        DataType::Int16 => widened!(Int16Type),
        DataType::Int32 => widened!(Int32Type),
        DataType::Int64 => widened!(Int64Type),
        DataType::UInt8 => widened!(UInt8Type),
        DataType::UInt16 => widened!(UInt16Type),
        DataType::UInt32 => widened!(UInt32Type),
        DataType::UInt64 => widened!(UInt64Type),
        DataType::Boolean => {
            array.as_boolean().iter().map(|b| b.map(|b| f64::from(u8::from(b)))).collect()
        }
        DataType::Decimal32(_, scale) => scaled!(Decimal32Type, scale),
        DataType::Decimal64(_, scale) => scaled!(Decimal64Type, scale),
        DataType::Decimal128(_, scale) => scaled!(Decimal128Type, scale),
        DataType::Decimal256(_, scale) => {
            let unit = 10f64.powi(i32::from(*scale));
            let digits = array.as_primitive::<Decimal256Type>();
            digits.unary(|v| num_traits::ToPrimitive::to_f64(&v).unwrap_or(f64::NAN) / unit)
        }
        DataType::Dictionary(_, _) => as_f64(&unpacked(array, path, column)?, path, column)?,
        other => {
            let place = Place::file(path).column(column);
            return Err(Error::data(place, format!("is {other}, which cannot be read as numbers")));
        }
    })
}

/// The values behind a dictionary's keys.
pub(super) fn unpacked(array: &ArrayRef, path: &Path, column: &str) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None);
    let place = || Place::file(path).column(column);
    values.map_err(|e| Error::data(place(), format!("has a dictionary that cannot be read: {e}")))
}

/// How many numbers f64 cannot hold exactly because they have more than 53 bits.
pub(super) fn count_rounded(array: &ArrayRef) -> u64 {
    let count = match array.data_type() {
        DataType::Int64 => array
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .filter(|v| v.unsigned_abs() > EXACT)
            .count(),
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().values().iter().filter(|v| **v > EXACT).count()
        }
        DataType::Decimal128(_, _) => array
            .as_primitive::<Decimal128Type>()
            .iter()
            .flatten()
            .filter(|v| v.unsigned_abs() > u128::from(EXACT))
            .count(),
        DataType::Decimal256(_, _) => {
            let limit = arrow_buffer::i256::from_i128(i128::from(EXACT));
            array
                .as_primitive::<Decimal256Type>()
                .iter()
                .flatten()
                .filter(|v| *v > limit || -*v > limit)
                .count()
        }
        DataType::Dictionary(_, value) if matches!(**value, DataType::Int64 | DataType::UInt64) => {
            return count_rounded(array.as_any_dictionary().values());
        }
        _ => 0,
    };
    count as u64
}

/// A block of rows that another engine holds: its features by name, nulls refused.
pub fn block_of(features: &Features, rows: &RecordBatch) -> Result<Block> {
    let schema = rows.schema();
    let position = |c: &FeatureColumn| {
        let names = schema.fields().iter().map(|f| f.name().as_str());
        let found = schema.index_of(&c.name).map(Origin::Batch);
        found.map_err(|_| super::columns::unknown(Path::new(""), &c.name, names))
    };
    let densify = Densify {
        features,
        origins: features.columns.iter().map(position).collect::<Result<_>>()?,
        weight: None,
        labels: None,
        kept: None,
        nulls: Nulls::Error,
        precision: Precision::Exact,
        advice: "leave the row out",
        path: Path::new("record batch"),
    };
    let none = || Err(Error::Internal("a record batch has no column to decode".into()));
    densify.block(Incoming {
        rows: rows.num_rows(),
        first_row: 0,
        batch: rows,
        direct: &mut |_, _, _| none(),
        vectors: &mut |_, _| none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Int64Array, ListArray};
    use std::sync::Arc;

    #[test]
    fn decimals_are_the_nearest_f64() {
        let array: ArrayRef = Arc::new(
            Decimal128Array::from(vec![1234, -5, 0]).with_precision_and_scale(10, 2).unwrap(),
        );
        let numbers = as_f64(&array, Path::new("f"), "c").unwrap();
        assert_eq!(numbers.values(), &[12.34, -0.05, 0.0]);
    }

    #[test]
    fn large_integers_are_counted() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1 << 53, (1 << 53) + 1, i64::MIN, 7]));
        assert_eq!(count_rounded(&array), 2);
    }

    #[test]
    fn lists_of_other_lengths_are_refused() {
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>(vec![
            Some(vec![Some(1.0), Some(2.0)]),
            None,
            Some(vec![Some(3.0)]),
        ]);
        let mut starts = Vec::new();
        let wrong = |row: usize, len: usize| Error::Internal(format!("row {row} has {len}"));
        let offsets = list.offsets().iter().map(|o| *o as usize);
        let refused = row_starts(offsets, list.nulls(), 2, &mut starts, wrong).unwrap_err();
        assert!(refused.to_string().contains("row 2 has 1"), "{refused}");
        assert_eq!(starts, [Some(0), None]);
    }
}
