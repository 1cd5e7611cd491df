//! Flat f64 columns, decoded straight into the block, and vector columns of floats without arrow's
//! arrays.
//!
//! Arrow's reader decodes into an array of its own, with a validity bitmap, which is then copied
//! into the block. For the commonest feature there is, a column of doubles, the page decoder can
//! write where the numbers are to be: one copy and one bitmap less (4M × 64: a tenth of the pass).
//! All encodings, page versions and codecs are the page decoder's, as for arrow's reader.
//!
//! For vectors ([`DirectVector`]) arrow's reader makes a values array, then a list array by copying
//! it value by value; here the page decoder's values are copied into the block (50,000 × 5,000 f32:
//! a quarter of a pass).
//!
//! Held per column: one page, one 16-bit level per row of a block, and for vectors the values of a
//! block with two levels each.

use super::footer::Footer;
use super::page_reader;
use super::pread::Pread;
use ::parquet::basic::Type as Physical;
use ::parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use ::parquet::data_type::{DataType as PhysicalType, DoubleType, FloatType};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ParquetMetaData;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use std::ops::Range;
use std::sync::Arc;

/// Elements of a block that are made room for before they are read: more are those of a file that
/// says it has lists of any length.
const MOST_RESERVED: usize = 1 << 24;

/// One column of doubles over some row groups.
pub(crate) struct DirectColumn {
    leaf: usize,
    groups: Range<usize>,
    reader: Option<ColumnReaderImpl<DoubleType>>,
    levels: Vec<i16>,
}

/// The leaf, if the root column it belongs to is a flat column of doubles.
pub(crate) fn leaf(footer: &Footer, root: usize, leaf: usize) -> Option<usize> {
    if footer.arrow.schema().field(root).data_type() != &DataType::Float64 {
        return None;
    }
    let column = footer.arrow.parquet_schema().column(leaf);
    let flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
    (flat && column.physical_type() == Physical::DOUBLE).then_some(leaf)
}

impl DirectColumn {
    /// Of these row groups; nothing is read yet.
    pub(crate) fn new(leaf: usize, groups: Range<usize>) -> DirectColumn {
        DirectColumn { leaf, groups, reader: None, levels: Vec::new() }
    }

    /// Appends the next `rows` values; nulls become 0 and are told to `missing` by their place
    /// among the rows.
    pub(crate) fn read(
        &mut self,
        file: &Arc<Pread>,
        metadata: &ParquetMetaData,
        rows: usize,
        out: &mut Vec<f64>,
        mut missing: impl FnMut(usize),
    ) -> Result<()> {
        let mut done = 0;
        while done < rows {
            if self.reader.is_none() {
                self.reader = Some(next_chunk(self.leaf, &mut self.groups, file, metadata)?);
            }
            let Some(reader) = &mut self.reader else { continue };
            let base = out.len();
            self.levels.clear();
            let (records, values, _) =
                reader.read_records(rows - done, Some(&mut self.levels), None, out)?;
            if records == 0 {
                self.reader = None;
                continue;
            }
            if values < records {
                spread(out, base, &self.levels[..records], |row| missing(done + row));
            }
            done += records;
        }
        Ok(())
    }
}

/// A reader of a column's chunk in the next of some row groups.
fn next_chunk<T: PhysicalType>(
    leaf: usize,
    groups: &mut Range<usize>,
    file: &Arc<Pread>,
    metadata: &ParquetMetaData,
) -> Result<ColumnReaderImpl<T>> {
    let group = groups.next().ok_or_else(|| {
        ParquetError::EOF("the column has fewer values than the footer says".into())
    })?;
    let group = metadata.row_group(group);
    let pages = page_reader::of_chunk(file, group, leaf)?;
    let column = group.column(leaf).column_descr_ptr();
    Ok(get_typed_column_reader(get_column_reader(column, pages)))
}

/// A vector column of floats over some row groups.
pub(crate) enum DirectVector {
    /// Of f32.
    F32(Vectors<FloatType>),
    /// Of f64.
    F64(Vectors<DoubleType>),
}

/// Values of some rows of a vector column.
pub(crate) struct Elements<'a, T> {
    /// All elements of all rows; 0 for those that are null.
    pub values: &'a [T],
    /// Where each row begins, and the last one ends.
    pub offsets: &'a [usize],
    /// Null rows, if any.
    pub rows: Option<NullBuffer>,
    /// Null elements, if any.
    pub elements: Option<NullBuffer>,
}

/// A reader of a vector column.
pub(crate) struct Vectors<T: PhysicalType> {
    leaf: usize,
    groups: Range<usize>,
    shape: VectorShape,
    width: usize,
    reader: Option<ColumnReaderImpl<T>>,
    values: Vec<T::T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
    offsets: Vec<usize>,
}

/// What definition levels mean.
#[derive(Debug, Clone, Copy)]
struct VectorShape {
    /// Of an element that is there.
    value: i16,
    /// True when elements may be null, at one level less.
    nullable_elements: bool,
    /// True when rows may be null, at level 0.
    nullable_rows: bool,
}

impl DirectVector {
    /// The column whose first leaf this is, if it is a list of floats as writers write them now
    /// (three levels).
    pub(crate) fn new(
        footer: &Footer,
        root: usize,
        leaf: usize,
        groups: Range<usize>,
        width: usize,
    ) -> Option<DirectVector> {
        let item = match footer.arrow.schema().field(root).data_type() {
            DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
                item.data_type()
            }
            _ => return None,
        };
        let column = footer.arrow.parquet_schema().column(leaf);
        let three_levels = column.max_rep_level() == 1 && column.path().parts().len() == 3;
        let list = footer.arrow.parquet_schema().root_schema().get_fields().get(root)?;
        if !three_levels || width == 0 {
            return None;
        }
        let shape = VectorShape {
            value: column.max_def_level(),
            nullable_elements: column.self_type().is_optional(),
            nullable_rows: list.is_optional(),
        };
        match (item, column.physical_type()) {
            (DataType::Float32, Physical::FLOAT) => {
                Some(DirectVector::F32(Vectors::new(leaf, groups, shape, width)))
            }
            (DataType::Float64, Physical::DOUBLE) => {
                Some(DirectVector::F64(Vectors::new(leaf, groups, shape, width)))
            }
            _ => None,
        }
    }
}

impl<T: PhysicalType> Vectors<T> {
    fn new(leaf: usize, groups: Range<usize>, shape: VectorShape, width: usize) -> Vectors<T> {
        let (values, definition, repetition, offsets) = Default::default();
        Vectors {
            leaf,
            groups,
            shape,
            width,
            reader: None,
            values,
            definition,
            repetition,
            offsets,
        }
    }

    /// The next rows.
    pub(crate) fn read(
        &mut self,
        file: &Arc<Pread>,
        metadata: &ParquetMetaData,
        rows: usize,
    ) -> Result<Elements<'_, T::T>> {
        self.values.clear();
        self.definition.clear();
        self.repetition.clear();
        // As large as they become: growing would hold them twice.
        let elements = rows.saturating_mul(self.width).min(MOST_RESERVED);
        self.values.reserve_exact(elements);
        self.definition.reserve_exact(elements);
        self.repetition.reserve_exact(elements);
        let mut done = 0;
        while done < rows {
            if self.reader.is_none() {
                self.reader = Some(next_chunk(self.leaf, &mut self.groups, file, metadata)?);
            }
            let Some(reader) = &mut self.reader else { continue };
            let (definition, repetition) = (&mut self.definition, &mut self.repetition);
            let (records, _, _) = reader.read_records(
                rows - done,
                Some(definition),
                Some(repetition),
                &mut self.values,
            )?;
            if records == 0 {
                self.reader = None;
            }
            done += records;
        }
        Ok(if self.is_plain(rows) { self.plain(rows) } else { self.general(rows) })
    }

    /// True when every row has all its elements: what nearly all data is, checked without a branch
    /// per element.
    fn is_plain(&self, rows: usize) -> bool {
        let levels = rows * self.width;
        let begins =
            |row: &[i16]| row[0] == 0 && row[1..].iter().fold(true, |all, r| all & (*r == 1));
        self.values.len() == levels
            && self.repetition.len() == levels
            && self.repetition.chunks(self.width).all(begins)
    }

    fn plain(&mut self, rows: usize) -> Elements<'_, T::T> {
        self.offsets.clear();
        self.offsets.extend((0..=rows).map(|row| row * self.width));
        Elements { values: &self.values, offsets: &self.offsets, rows: None, elements: None }
    }

    /// Null rows, null elements, rows of any length.
    fn general(&mut self, rows: usize) -> Elements<'_, T::T> {
        let VectorShape { value, nullable_elements, nullable_rows } = self.shape;
        let (mut valid_rows, mut valid_elements) =
            (Vec::with_capacity(rows), BooleanBufferBuilder::new(self.definition.len()));
        self.offsets.clear();
        for (definition, repetition) in self.definition.iter().zip(&self.repetition) {
            if *repetition == 0 {
                self.offsets.push(valid_elements.len());
                valid_rows.push(!nullable_rows || *definition > 0);
            }
            if *definition == value || (nullable_elements && *definition == value - 1) {
                valid_elements.append(*definition == value);
            }
        }
        self.offsets.push(valid_elements.len());
        let valid_elements = valid_elements.finish();
        spread_elements(&mut self.values, &valid_elements);
        Elements {
            values: &self.values,
            offsets: &self.offsets,
            rows: Some(NullBuffer::from(valid_rows)),
            elements: Some(NullBuffer::new(valid_elements)),
        }
    }
}

/// Moves each value to the place of its element, from the last to the first; 0 where there is none.
fn spread_elements<T: Default + Clone>(values: &mut Vec<T>, valid: &BooleanBuffer) {
    let mut from = values.len();
    values.resize(valid.len(), T::default());
    for at in (0..valid.len()).rev() {
        match valid.value(at) && from > 0 {
            true => {
                from -= 1;
                values.swap(at, from);
            }
            false => values[at] = T::default(),
        }
    }
}

/// The values from `base` on are those of rows whose level is 1: moves each to its row, from the
/// last to the first.
fn spread(out: &mut Vec<f64>, base: usize, levels: &[i16], mut missing: impl FnMut(usize)) {
    let mut from = out.len();
    out.resize(base + levels.len(), 0.0);
    for (row, level) in levels.iter().enumerate().rev() {
        if *level > 0 && from > base {
            from -= 1;
            out[base + row] = out[from];
        } else {
            out[base + row] = 0.0;
            missing(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_over_the_rows_that_have_one() {
        let mut out = vec![9.0, 1.0, 2.0, 3.0];
        let mut gaps = Vec::new();
        spread(&mut out, 1, &[0, 1, 1, 0, 1, 0], |row| gaps.push(row));
        assert_eq!(out, [9.0, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0]);
        assert_eq!(gaps, [5, 3, 0]);
    }
}
