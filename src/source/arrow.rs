//! Record batches in memory as a [`Table`]; a matrix is one column of vectors.
//!
//! Enters: record batches of one schema. Leaves: blocks that hold what those of a Parquet file of
//! the same rows hold. Held: the batches; per open unit, one block.
//!
//! | features | are read by groups |
//! |---|---|
//! | scalar columns | in place |
//! | vector columns, a matrix among them | from a copy, as from files |

use super::batch_reader::BatchReader;
use super::id_columns::numbers_rows;
use super::nested::{NestedField, all_fields};
use super::numbers;
use super::table::{ColumnInfo, ColumnKind, ColumnOrigin, ReadCost, ReadRequest, Table};
use super::{Block, Source, UNIT_ROWS, Unit, block_rows};
use crate::error::{Error, Place, Result};
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, FixedSizeListArray, PrimitiveArray, RecordBatch,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use ndarray::Array2;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What messages call them.
pub(super) const NAME: &str = "record batches";

/// The column of vectors that a matrix becomes.
pub(crate) const MATRIX_COLUMN: &str = "x";

/// Record batches in memory.
#[derive(Debug, Clone)]
pub struct ArrowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    columns: Vec<ColumnInfo>,
    units: Vec<Unit>,
    /// The rows of each unit.
    pieces: Vec<Vec<BatchSlice>>,
    bytes: u64,
}

/// Some rows of a batch.
#[derive(Debug, Clone)]
struct BatchSlice {
    batch: usize,
    rows: Range<usize>,
}

impl ArrowTable {
    /// A table of batches that have one schema. There must be a batch, which may be empty.
    pub fn try_new(batches: Vec<RecordBatch>) -> Result<ArrowTable> {
        let Some(first) = batches.first() else {
            return Err(Error::data(Place::file(NAME), "there is none, so there are no columns"));
        };
        let schema = first.schema();
        for (index, batch) in batches.iter().enumerate() {
            check_schema(&schema, &batch.schema(), index)?;
        }
        Ok(ArrowTable::new(schema, batches))
    }

    /// A table of no rows.
    pub fn empty(schema: SchemaRef) -> ArrowTable {
        ArrowTable::new(schema, Vec::new())
    }

    /// The same with one more column: labels or weights beside a matrix.
    pub fn with_column(self, name: &str, values: ArrayRef) -> Result<ArrowTable> {
        let field = field_beside(name, &values, self.rows() as usize)?;
        let fields = self.schema.fields().iter().cloned().chain([field]).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut first = 0;
        let wider = |batch: RecordBatch| {
            let more = values.slice(first, batch.num_rows());
            first += batch.num_rows();
            let columns = batch.columns().iter().cloned().chain([more]).collect();
            RecordBatch::try_new(schema.clone(), columns)
                .map_err(|e| Error::Internal(format!("a batch with one more column: {e}")))
        };
        let batches = self.batches.into_iter().map(wider).collect::<Result<Vec<_>>>()?;
        Ok(ArrowTable::new(schema, batches))
    }

    fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> ArrowTable {
        let columns = all_fields(schema.fields());
        let width = |column: &NestedField| {
            let arrays = batches.iter().filter_map(|b| column.array(b));
            arrays.into_iter().find_map(|array| numbers::first_width(&array))
        };
        let columns = column_infos(&columns, &columns.iter().map(width).collect::<Vec<_>>());
        let sizes: Vec<u64> = batches.iter().map(batch_bytes).collect();
        let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        let (units, pieces) = units(&rows, &sizes);
        ArrowTable { schema, batches, columns, units, pieces, bytes: sizes.iter().sum() }
    }

    fn source(&self, request: ReadRequest) -> ArrowSource<'_> {
        ArrowSource { table: self, request }
    }
}

/// The field of a column that is put beside so many rows.
pub(super) fn field_beside(name: &str, values: &ArrayRef, rows: usize) -> Result<FieldRef> {
    if values.len() == rows {
        return Ok(Arc::new(Field::new(name, values.data_type().clone(), true)));
    }
    let problem = format!("has {} rows where the table has {rows}", values.len());
    Err(Error::data(Place::file(NAME).column(name), problem))
}

/// The width of a vector column of rows in memory, which have told it when the table was made:
/// asked only where all of them are null.
pub(super) fn known_width(table: &dyn Table, column: &str) -> Result<usize> {
    match table.kind(column) {
        Some(ColumnKind::Vector(_, Some(width))) => Ok(*width),
        _ => Err(numbers::all_null(table.place(), column)),
    }
}

/// Bytes of an array's rows: a slice does not count what it is a slice of.
pub(super) fn array_bytes(array: &ArrayRef) -> u64 {
    array.to_data().get_slice_memory_size().unwrap_or(0) as u64
}

/// Bytes of a row of columns that take so many in all rows, about; 0 without columns.
pub(super) fn kept_row(bytes: u64, rows: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes / rows.max(1) + 8 }
}

/// What the columns of a schema are; the width of lists where a row tells it.
pub(super) fn column_infos(columns: &[NestedField], widths: &[Option<usize>]) -> Vec<ColumnInfo> {
    let info = |(column, width): (&NestedField, &Option<usize>)| ColumnInfo {
        name: column.name.clone(),
        kind: ColumnKind::of(column.field.data_type(), *width),
        origin: match column.path.is_empty() {
            true => ColumnOrigin::Column,
            false => ColumnOrigin::StructField,
        },
    };
    columns.iter().zip(widths).map(info).collect()
}

/// Refuses a batch whose columns are not those of the first.
pub(super) fn check_schema(first: &Schema, here: &Schema, batch: usize) -> Result<()> {
    let wrong = |column: &str, problem: String| {
        Err(Error::data(Place::file(format!("record batch {batch}")).column(column), problem))
    };
    for (expected, found) in first.fields().iter().zip(here.fields()) {
        if expected.name() != found.name() {
            let name = expected.name();
            return wrong(found.name(), format!("is where batch 0 has '{name}'"));
        }
        if expected.data_type() != found.data_type() {
            let (here, there) = (found.data_type(), expected.data_type());
            return wrong(found.name(), format!("is {here} here but {there} in batch 0"));
        }
    }
    let (expected, found) = (first.fields(), here.fields());
    match (expected.get(found.len()), found.get(expected.len())) {
        (Some(missing), _) => wrong(missing.name(), "is missing here but is in batch 0".into()),
        (_, Some(extra)) => wrong(extra.name(), "is not in batch 0".into()),
        (None, None) => Ok(()),
    }
}

/// Bytes of the rows themselves: a slice does not count what it is a slice of.
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    let bytes = |column: &ArrayRef| {
        let counted = column.to_data().get_slice_memory_size();
        counted.unwrap_or_else(|_| column.get_array_memory_size()) as u64
    };
    batch.columns().iter().map(bytes).sum()
}

/// Batches of so many rows and bytes: large ones cut, neighbouring small pieces gathered.
fn units(rows: &[usize], bytes: &[u64]) -> (Vec<Unit>, Vec<Vec<BatchSlice>>) {
    let (mut units, mut pieces): (Vec<Unit>, Vec<Vec<BatchSlice>>) = Default::default();
    let mut first_row = 0;
    for (batch, (rows, bytes)) in rows.iter().zip(bytes).enumerate() {
        for start in (0..*rows).step_by(UNIT_ROWS as usize) {
            let range = start..(start + UNIT_ROWS as usize).min(*rows);
            let count = range.len() as u64;
            let bytes = (*bytes as f64 * count as f64 / *rows as f64) as u64;
            let piece = BatchSlice { batch, rows: range };
            match (units.last_mut(), pieces.last_mut()) {
                (Some(unit), Some(pieces)) if unit.rows + count <= UNIT_ROWS => {
                    unit.rows += count;
                    unit.bytes += bytes;
                    pieces.push(piece);
                }
                _ => {
                    units.push(Unit { input: 0, first_row, rows: count, bytes });
                    pieces.push(vec![piece]);
                }
            }
            first_row += count;
        }
    }
    (units, pieces)
}

/// The units of so many rows in one piece.
pub(super) fn row_units(rows: usize, bytes: u64) -> Vec<Unit> {
    units(&[rows], &[bytes]).0
}

impl From<RecordBatch> for ArrowTable {
    fn from(batch: RecordBatch) -> ArrowTable {
        ArrowTable::new(batch.schema(), vec![batch])
    }
}

/// The batch that a matrix becomes: one column `x` of vectors, so that its features
/// are `x[0]`, `x[1]`, …. The numbers of a matrix in C order are not copied.
///
/// ```
/// let batch = eigenstream::matrix_batch(ndarray::array![[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!((batch.num_rows(), batch.schema().field(0).name().as_str()), (2, "x"));
/// ```
pub fn matrix_batch(matrix: Array2<f64>) -> RecordBatch {
    of_matrix::<Float64Type>(matrix)
}

/// One column `x` of vectors, so that features are `x[0]`, `x[1]`, …: the numbers of a matrix in C
/// order are not copied.
impl From<Array2<f64>> for ArrowTable {
    fn from(matrix: Array2<f64>) -> ArrowTable {
        ArrowTable::from(matrix_batch(matrix))
    }
}

/// The same of singles.
impl From<Array2<f32>> for ArrowTable {
    fn from(matrix: Array2<f32>) -> ArrowTable {
        ArrowTable::from(of_matrix::<Float32Type>(matrix))
    }
}

pub(super) fn of_matrix<T: ArrowPrimitiveType>(matrix: Array2<T::Native>) -> RecordBatch
where
    T::Native: Clone,
{
    let (rows, d) = matrix.dim();
    let width = i32::try_from(d).expect("a row of a matrix has fewer than 2^31 numbers");
    let matrix = match matrix.is_standard_layout() {
        true => matrix,
        false => matrix.as_standard_layout().into_owned(),
    };
    let (numbers, offset) = matrix.into_raw_vec_and_offset();
    let numbers = ScalarBuffer::from(numbers).slice(offset.unwrap_or(0), rows * d);
    let values = Arc::new(PrimitiveArray::<T>::new(numbers, None));
    let item = Arc::new(Field::new_list_field(T::DATA_TYPE, false));
    let list = FixedSizeListArray::try_new_with_length(item, width, values, None, rows)
        .expect("a matrix has rows × d numbers");
    let field = Field::new(MATRIX_COLUMN, list.data_type().clone(), false);
    let schema = Arc::new(Schema::new(vec![field]));
    RecordBatch::try_new(schema, vec![Arc::new(list)]).expect("the schema is that of the column")
}

impl Table for ArrowTable {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn schema(&self) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn rows(&self) -> u64 {
        self.units.iter().map(|u| u.rows).sum()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn place(&self) -> Place {
        Place::file(NAME)
    }

    fn id_columns(&self) -> Vec<String> {
        let numbers = |(at, column): &(usize, &ColumnInfo)| {
            let arrays: Vec<&ArrayRef> = self.batches.iter().map(|b| b.column(*at)).collect();
            numbers_rows(&column.name, &arrays)
        };
        let proper = self.columns.iter().take(self.schema.fields().len());
        let all = proper.enumerate().filter(numbers);
        all.map(|(_, column)| column.name.clone()).collect()
    }

    fn vector_width(&self, column: &str) -> Result<usize> {
        known_width(self, column)
    }

    fn read(&self, request: &ReadRequest) -> Result<Box<dyn Source + '_>> {
        Ok(Box::new(self.source(request.clone())))
    }

    fn cost(&self, request: &ReadRequest) -> Result<ReadCost> {
        let kept: u64 = request.keep.iter().flatten().map(|name| self.column_bytes(name)).sum();
        let kept_row = kept_row(kept, self.rows());
        let row_bytes = 8 * request.features.len() as u64;
        Ok(ReadCost { units: self.units.len(), kept_row, row_bytes, ..ReadCost::default() })
    }

    fn by_features<'a>(
        &'a self,
        request: &ReadRequest,
        groups: &[Range<usize>],
    ) -> Option<Vec<Box<dyn Source + 'a>>> {
        let narrow = |group: &Range<usize>| -> Box<dyn Source + 'a> {
            Box::new(self.source(request.with_columns(group.clone())))
        };
        request.is_scalar().then(|| groups.iter().map(narrow).collect())
    }
}

impl ArrowTable {
    fn column_bytes(&self, name: &str) -> u64 {
        let all = all_fields(self.schema.fields());
        let Some(column) = all.iter().find(|c| c.name == name) else { return 0 };
        let arrays = self.batches.iter().filter_map(|batch| column.array(batch));
        arrays.map(|array| array_bytes(&array)).sum()
    }
}

#[cfg(test)]
impl ArrowTable {
    /// Where the numbers of a matrix lie.
    pub(super) fn matrix_numbers(&self) -> *const f64 {
        use arrow_array::cast::AsArray;
        let vectors = self.batches[0].column(0).as_fixed_size_list();
        vectors.values().as_primitive::<Float64Type>().values().as_ptr()
    }
}

/// What is requested of the batches.
struct ArrowSource<'a> {
    table: &'a ArrowTable,
    request: ReadRequest,
}

impl Source for ArrowSource<'_> {
    fn units(&self) -> &[Unit] {
        &self.table.units
    }

    fn n_features(&self) -> usize {
        self.request.features.len()
    }

    fn blocks(&self, unit: usize) -> Result<Box<dyn Iterator<Item = Result<Block>> + '_>> {
        let reader = BatchReader::new(&self.request, &self.table.schema, Path::new(NAME))?;
        let most = block_rows(self.n_features());
        let mut first_row = self.table.units[unit].first_row;
        let cut = self.table.pieces[unit].iter().flat_map(move |piece| {
            let Range { start, end } = piece.rows;
            let rows = move |from: usize| from..(from + most).min(end);
            (start..end).step_by(most).map(move |from| (piece.batch, rows(from)))
        });
        Ok(Box::new(cut.map(move |(batch, rows)| {
            let block = reader.block_of_rows(&self.table.batches[batch], rows.clone(), first_row);
            first_row += rows.len() as u64;
            block
        })))
    }

    fn place(&self, unit: usize, row: u64) -> Place {
        self.table.place().row(self.table.units[unit].first_row + row)
    }
}
