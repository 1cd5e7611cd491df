//! A matrix of any strides, owned by somebody else, as a [`Table`]: one column of vectors `x`, or
//! one column of numbers for each name, and what is put beside it.
//!
//! Enters: a view of rows × d numbers. Leaves: the blocks that a matrix in C order gives, byte for
//! byte. Held: per open unit one block, and a copy of its rows in C order. (A matrix in C order
//! needs no copy: [`super::ArrowTable`].)

use super::arrow::{
    MATRIX_COLUMN, NAME, array_bytes, batch_bytes, column_infos, field_beside, kept_row,
    known_width, of_matrix, row_units,
};
use super::batch_reader::{BatchReader, batch_of};
use super::nested::all_fields;
use super::table::{ColumnInfo, ReadCost, ReadRequest, Table};
use super::{Block, Source, Unit, block_rows, numbers};
use crate::error::{Error, Place, Result};
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, Float32Array, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use ndarray::{ArrayView2, s};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Numbers that somebody owns, rows × d.
#[derive(Debug, Clone, Copy)]
pub enum MatrixView<'a> {
    /// Doubles.
    F64(ArrayView2<'a, f64>),
    /// Singles.
    F32(ArrayView2<'a, f32>),
}

impl MatrixView<'_> {
    /// Rows and features.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            MatrixView::F64(view) => view.dim(),
            MatrixView::F32(view) => view.dim(),
        }
    }

    /// Some rows of one of its columns.
    fn scalars(&self, j: usize, rows: Range<usize>) -> ArrayRef {
        match self {
            MatrixView::F64(view) => {
                let numbers = view.slice(s![rows, j]);
                Arc::new(Float64Array::from_iter_values(numbers.iter().copied()))
            }
            MatrixView::F32(view) => {
                let numbers = view.slice(s![rows, j]);
                Arc::new(Float32Array::from_iter_values(numbers.iter().copied()))
            }
        }
    }

    /// Some rows as a column of vectors.
    fn vectors(&self, rows: Range<usize>) -> ArrayRef {
        let batch = match self {
            MatrixView::F64(view) => of_matrix::<Float64Type>(view.slice(s![rows, ..]).to_owned()),
            MatrixView::F32(view) => of_matrix::<Float32Type>(view.slice(s![rows, ..]).to_owned()),
        };
        batch.column(0).clone()
    }
}

/// Who owns a matrix. It must not change while it is read.
pub trait MatrixOwner: Send + Sync {
    /// The numbers.
    fn numbers(&self) -> MatrixView<'_>;
}

impl MatrixOwner for ndarray::Array2<f64> {
    fn numbers(&self) -> MatrixView<'_> {
        MatrixView::F64(self.view())
    }
}

impl MatrixOwner for ndarray::Array2<f32> {
    fn numbers(&self) -> MatrixView<'_> {
        MatrixView::F32(self.view())
    }
}

/// A matrix of any strides.
///
/// ```
/// use eigenstream::{ArrowTable, Fit, MatrixTable, Quiet};
///
/// let rows = ndarray::Array2::from_shape_fn((40, 3), |(i, j)| ((i * 7 + j * 5) % 11) as f64);
/// let columns = rows.t().as_standard_layout().into_owned().reversed_axes(); // in F order
/// let fit = Fit::pca().components(2);
/// let a = fit.plan(&MatrixTable::new(columns))?.run(&Quiet)?;
/// let b = fit.plan(&ArrowTable::from(rows))?.run(&Quiet)?;
/// assert_eq!(a.to_bytes()?, b.to_bytes()?);
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Clone)]
pub struct MatrixTable {
    matrix: Arc<dyn MatrixOwner>,
    /// True when each of its columns has a name.
    named: bool,
    /// The fields that the matrix itself has.
    fields: Vec<FieldRef>,
    /// Columns beside it: labels, weights.
    beside: Vec<(FieldRef, ArrayRef)>,
    schema: SchemaRef,
    columns: Vec<ColumnInfo>,
    units: Vec<Unit>,
}

impl MatrixTable {
    /// The rows of a matrix.
    pub fn new(matrix: impl MatrixOwner + 'static) -> MatrixTable {
        let vectors = matrix.numbers().vectors(0..0);
        let field = Field::new(MATRIX_COLUMN, vectors.data_type().clone(), false);
        MatrixTable::of(Arc::new(matrix), false, vec![Arc::new(field)], Vec::new())
    }

    /// The same, a column of numbers for each name.
    pub fn named<S: Into<String>>(
        matrix: impl MatrixOwner + 'static,
        names: impl IntoIterator<Item = S>,
    ) -> Result<MatrixTable> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let (named, d) = (names.len(), matrix.numbers().dim().1);
        if named != d {
            let problem = format!("has {d} columns, and {named} names for them");
            return Err(Error::data(Place::file(NAME), problem));
        }
        let number = match matrix.numbers() {
            MatrixView::F64(_) => DataType::Float64,
            MatrixView::F32(_) => DataType::Float32,
        };
        let field = |name: String| Arc::new(Field::new(name, number.clone(), false));
        let fields = names.into_iter().map(field).collect();
        Ok(MatrixTable::of(Arc::new(matrix), true, fields, Vec::new()))
    }

    /// The same with one more column: labels or weights.
    pub fn with_column(&self, name: &str, values: ArrayRef) -> Result<MatrixTable> {
        let field = field_beside(name, &values, self.matrix.numbers().dim().0)?;
        let beside = self.beside.iter().cloned().chain([(field, values)]).collect();
        Ok(MatrixTable::of(self.matrix.clone(), self.named, self.fields.clone(), beside))
    }

    fn of(
        matrix: Arc<dyn MatrixOwner>,
        named: bool,
        fields: Vec<FieldRef>,
        beside: Vec<(FieldRef, ArrayRef)>,
    ) -> MatrixTable {
        let (rows, d) = matrix.numbers().dim();
        let all = fields.iter().chain(beside.iter().map(|(field, _)| field)).cloned();
        let schema = Arc::new(Schema::new(all.collect::<Vec<_>>()));
        let all = all_fields(schema.fields());
        let own = fields.iter().map(|_| (!named).then_some(d));
        let arrays = beside.iter().map(|(_, array)| numbers::first_width(array));
        let mut widths: Vec<Option<usize>> = own.chain(arrays).collect();
        widths.resize(all.len(), None);
        let columns = column_infos(&all, &widths);
        let number = match matrix.numbers() {
            MatrixView::F64(_) => 8,
            MatrixView::F32(_) => 4,
        };
        let beside_bytes: u64 = batch_of(beside.clone(), rows).map_or(0, |b| batch_bytes(&b));
        let bytes = (number * rows as u64).saturating_mul(d as u64) + beside_bytes;
        let units = row_units(rows, bytes);
        MatrixTable { matrix, named, fields, beside, schema, columns, units }
    }

    /// Some rows as a record batch.
    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let numbers = self.matrix.numbers();
        let array = |j: usize| match self.named {
            true => numbers.scalars(j, rows.clone()),
            false => numbers.vectors(rows.clone()),
        };
        let own = self.fields.iter().enumerate().map(|(j, field)| (field.clone(), array(j)));
        let beside = self.beside.iter().map(|(f, a)| (f.clone(), a.slice(rows.start, rows.len())));
        batch_of(own.chain(beside).collect(), rows.len())
    }
}

impl Table for MatrixTable {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn rows(&self) -> u64 {
        self.matrix.numbers().dim().0 as u64
    }

    fn bytes(&self) -> u64 {
        self.units.iter().map(|u| u.bytes).sum()
    }

    fn place(&self) -> Place {
        Place::file(NAME)
    }

    fn vector_width(&self, column: &str) -> Result<usize> {
        known_width(self, column)
    }

    fn read(&self, request: &ReadRequest) -> Result<Box<dyn Source + '_>> {
        Ok(Box::new(MatrixSource { table: self, request: request.clone() }))
    }

    fn cost(&self, request: &ReadRequest) -> Result<ReadCost> {
        let kept = request.keep.iter().flatten();
        let kept = kept.filter_map(|name| self.beside.iter().find(|(f, _)| f.name() == name));
        let kept_row = kept_row(kept.map(|(_, array)| array_bytes(array)).sum(), self.rows());
        // The rows in C order, and the block they become.
        let row_bytes = 16 * request.features.len() as u64;
        Ok(ReadCost { units: self.units.len(), kept_row, row_bytes, ..ReadCost::default() })
    }
}

/// What is requested of a matrix.
struct MatrixSource<'a> {
    table: &'a MatrixTable,
    request: ReadRequest,
}

impl Source for MatrixSource<'_> {
    fn units(&self) -> &[Unit] {
        &self.table.units
    }

    fn n_features(&self) -> usize {
        self.request.features.len()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let reader = BatchReader::new(&self.request, &self.table.schema, Path::new(NAME))?;
        let most = block_rows(self.n_features());
        let Unit { first_row, rows, .. } = self.table.units[unit];
        let (start, end) = (first_row as usize, (first_row + rows) as usize);
        let blocks = (start..end).step_by(most).map(move |from| {
            let batch = self.table.batch(from..(from + most).min(end))?;
            reader.block(&batch, from as u64)
        });
        Ok(Box::new(blocks))
    }

    fn place(&self, unit: usize, row: u64) -> Place {
        self.table.place().row(self.table.units[unit].first_row + row)
    }
}
