//! What Python has → a [`Table`]: Parquet files, anything that exports an Arrow stream or array,
//! NumPy arrays. Numbers are not copied: the table keeps what owns them.

use crate::errors::OrRaise;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, PrimitiveArray, RecordBatch,
    RecordBatchReader, StringArray, StructArray,
};
use arrow_buffer::alloc::Allocation;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use eigenstream::{ArrowTable, Dataset, MatrixOwner, MatrixTable, MatrixView, ReaderTable, Table};
use ndarray::{ArrayView2, ShapeBuilder};
use numpy::{Element, PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};
use std::ffi::CStr;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

/// Any table, shared with the thread that reads it.
pub(crate) type SharedTable = Arc<dyn Table + Send + Sync>;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// Rows that a fit or a transform reads.
#[pyclass(frozen, name = "Table", module = "eigenstream._core")]
pub(crate) struct PyTable {
    pub(crate) table: SharedTable,
    /// The same, where columns can be put beside it.
    rows: RowsInMemory,
}

/// Rows that columns can be put beside.
enum RowsInMemory {
    Batches(ArrowTable),
    Matrix(Arc<MatrixTable>),
    None,
}

impl PyTable {
    fn batches(table: ArrowTable) -> PyTable {
        PyTable { table: Arc::new(table.clone()), rows: RowsInMemory::Batches(table) }
    }

    fn matrix(table: MatrixTable) -> PyTable {
        let table = Arc::new(table);
        PyTable { table: table.clone(), rows: RowsInMemory::Matrix(table) }
    }

    fn other(table: impl Table + Send + 'static) -> PyTable {
        PyTable { table: Arc::new(table), rows: RowsInMemory::None }
    }
}

#[pymethods]
impl PyTable {
    /// Parquet files, globs, directories.
    #[staticmethod]
    fn from_paths(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<PyTable> {
        let data = py.detach(|| Dataset::from_paths(&paths)).or_raise()?;
        Ok(PyTable::other(data))
    }

    /// All batches of what has `__arrow_c_stream__` or `__arrow_c_array__`.
    #[staticmethod]
    fn from_arrow(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<PyTable> {
        if !data.hasattr("__arrow_c_stream__")? {
            return Ok(PyTable::batches(ArrowTable::from(record_batch(data)?)));
        }
        let reader = stream_of(data)?;
        let schema = reader.schema();
        let batches: Result<Vec<RecordBatch>, ArrowError> = py.detach(|| reader.collect());
        let batches = batches.map_err(|e| PyValueError::new_err(format!("cannot be read: {e}")))?;
        Ok(PyTable::batches(match batches.is_empty() {
            true => ArrowTable::empty(schema),
            false => ArrowTable::try_new(batches).or_raise()?,
        }))
    }

    /// What `open()` gives each time it is called: something that has `__arrow_c_stream__`.
    #[staticmethod]
    fn from_reader(py: Python<'_>, open: Py<PyAny>) -> PyResult<PyTable> {
        let again = move || {
            let opened = Python::attach(|py| stream_of(open.bind(py).call0()?.as_any()));
            let reader = opened.map_err(|e: PyErr| ArrowError::ExternalError(Box::new(e)))?;
            Ok(Box::new(reader) as Box<dyn RecordBatchReader>)
        };
        let table = py.detach(|| ReaderTable::new(again)).or_raise()?;
        Ok(PyTable::other(table))
    }

    /// A matrix of doubles or singles, of any strides: one column of vectors, `x`, or a column of
    /// numbers for each name.
    #[staticmethod]
    #[pyo3(signature = (matrix, names=None))]
    fn from_matrix(matrix: &Bound<'_, PyAny>, names: Option<Vec<String>>) -> PyResult<PyTable> {
        if let Ok(matrix) = matrix.cast::<PyArray2<f64>>() {
            return matrix_table::<Float64Type>(matrix, names);
        }
        if let Ok(matrix) = matrix.cast::<PyArray2<f32>>() {
            return matrix_table::<Float32Type>(matrix, names);
        }
        Err(PyTypeError::new_err("a matrix is a two-dimensional array of float64 or float32"))
    }

    /// One-dimensional arrays of one length, by their names.
    #[staticmethod]
    fn from_columns(names: Vec<String>, arrays: Vec<Bound<'_, PyAny>>) -> PyResult<PyTable> {
        let arrays = arrays.iter().map(column_array).collect::<PyResult<Vec<_>>>()?;
        let field =
            |(name, array): (&String, &ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let fields: Vec<Field> = names.iter().zip(&arrays).map(field).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(PyTable::batches(ArrowTable::from(batch)))
    }

    /// The same with one more column; of rows in memory.
    fn with_column(&self, name: &str, values: &Bound<'_, PyAny>) -> PyResult<PyTable> {
        let column = || column_array(values);
        Ok(match &self.rows {
            RowsInMemory::Batches(table) => {
                PyTable::batches(table.clone().with_column(name, column()?).or_raise()?)
            }
            RowsInMemory::Matrix(table) => {
                PyTable::matrix(table.with_column(name, column()?).or_raise()?)
            }
            RowsInMemory::None => {
                return Err(PyTypeError::new_err(
                    "labels and weights of rows that are not in memory are columns among theirs: \
                     name them",
                ));
            }
        })
    }

    /// Names and types of the columns.
    fn columns(&self) -> Vec<(String, String)> {
        self.table.columns().iter().map(|c| (c.name.clone(), c.kind.describe())).collect()
    }

    #[getter]
    fn n_rows(&self) -> u64 {
        self.table.rows()
    }
}

/// Keeps a Python object that owns memory.
struct Owner {
    #[allow(dead_code)]
    object: Py<PyAny>,
}

// SAFETY: the object is only kept, and released with the interpreter's lock held.
impl std::panic::RefUnwindSafe for Owner {}

impl Owner {
    fn of(object: &Bound<'_, PyAny>) -> Arc<dyn Allocation> {
        Arc::new(Owner { object: object.clone().unbind() })
    }
}

fn matrix_table<T>(
    matrix: &Bound<'_, PyArray2<T::Native>>,
    names: Option<Vec<String>>,
) -> PyResult<PyTable>
where
    T: ArrowPrimitiveType,
    T::Native: Element,
    NumpyMatrix<T::Native>: MatrixOwner,
{
    let (rows, d) = (matrix.shape()[0], matrix.shape()[1]);
    if names.is_none() && (d == 0 || rows == 0 || matrix.is_c_contiguous()) {
        let values = numbers::<T>(matrix.as_any(), matrix.data(), rows * d);
        let batch = vectors(Arc::new(values), rows, d)?;
        return Ok(PyTable::batches(ArrowTable::from(batch)));
    }
    let strides = matrix.strides();
    let size = std::mem::size_of::<T::Native>() as isize;
    if strides.iter().any(|s| *s % size != 0 || *s < 0) {
        return Err(PyValueError::new_err("strides are not negative, and whole numbers of cells"));
    }
    let matrix = NumpyMatrix {
        data: matrix.data().cast_const(),
        shape: (rows, d),
        steps: ((strides[0] / size) as usize, (strides[1] / size) as usize),
        _owner: matrix.clone().into_any().unbind(),
    };
    Ok(PyTable::matrix(match names {
        None => MatrixTable::new(matrix),
        Some(names) => MatrixTable::named(matrix, names).or_raise()?,
    }))
}

/// A matrix where NumPy has it.
struct NumpyMatrix<T> {
    data: *const T,
    shape: (usize, usize),
    /// Numbers between neighbours, along rows and columns.
    steps: (usize, usize),
    _owner: Py<PyAny>,
}

// SAFETY: it is only read, and its owner may be released by any thread.
unsafe impl<T: Sync> Send for NumpyMatrix<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for NumpyMatrix<T> {}

impl<T> NumpyMatrix<T> {
    fn array(&self) -> ArrayView2<'_, T> {
        // SAFETY: NumPy's shape and strides describe memory that the owner keeps; who writes to an
        // array while another thread reads it gets what is there, as everywhere in NumPy.
        unsafe { ArrayView2::from_shape_ptr(self.shape.strides(self.steps), self.data) }
    }
}

impl MatrixOwner for NumpyMatrix<f64> {
    fn numbers(&self) -> MatrixView<'_> {
        MatrixView::F64(self.array())
    }
}

impl MatrixOwner for NumpyMatrix<f32> {
    fn numbers(&self) -> MatrixView<'_> {
        MatrixView::F32(self.array())
    }
}

/// Numbers where they are.
fn numbers<T: ArrowPrimitiveType>(
    owner: &Bound<'_, PyAny>,
    data: *mut T::Native,
    len: usize,
) -> PrimitiveArray<T> {
    let Some(start) = NonNull::new(data.cast::<u8>()).filter(|_| len > 0) else {
        return PrimitiveArray::new(ScalarBuffer::from(Vec::<T::Native>::new()), None);
    };
    let bytes = len * std::mem::size_of::<T::Native>();
    // SAFETY: the array has `len` numbers there, and lives as long as the buffer that owns it.
    let buffer = unsafe { Buffer::from_custom_allocation(start, bytes, Owner::of(owner)) };
    PrimitiveArray::new(ScalarBuffer::new(buffer, 0, len), None)
}

/// One column `x` of vectors.
fn vectors(values: ArrayRef, rows: usize, d: usize) -> PyResult<RecordBatch> {
    let wrong = |e: ArrowError| PyValueError::new_err(e.to_string());
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    let list = FixedSizeListArray::try_new_with_length(item, d as i32, values, None, rows);
    let list = list.map_err(wrong)?;
    let field = Field::new("x", list.data_type().clone(), false);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(list)]).map_err(wrong)
}

/// A one-dimensional array of numbers, of bools, or a list of texts (`None` for none).
fn column_array(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    macro_rules! numeric {
        ($($native:ty => $arrow:ty),*) => {
            $(if let Ok(array) = values.cast::<PyArray1<$native>>() {
                return Ok(Arc::new(match array.is_c_contiguous() {
                    true => numbers::<$arrow>(array.as_any(), array.data(), array.len()),
                    false => PrimitiveArray::from_iter_values(array.to_vec()?),
                }));
            })*
        };
    }
    numeric!(f64 => Float64Type, f32 => Float32Type, i64 => Int64Type, i32 => Int32Type,
             i16 => Int16Type, i8 => Int8Type, u64 => UInt64Type, u32 => UInt32Type,
             u16 => UInt16Type, u8 => UInt8Type);
    if let Ok(array) = values.cast::<PyArray1<bool>>() {
        return Ok(Arc::new(BooleanArray::from(array.to_vec()?)));
    }
    let texts: Vec<Option<String>> = values.extract().map_err(|_| {
        PyTypeError::new_err(
            "a column is a one-dimensional array of numbers or bools, or a list of texts",
        )
    })?;
    Ok(Arc::new(StringArray::from(texts)))
}

/// The stream that an object exports.
pub(crate) fn stream_of(data: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: the capsule says that it is one; what is there is moved out, as the interface asks.
    let stream =
        unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast::<FFI_ArrowArrayStream>()) };
    RecordBatchStreamReader::try_new(stream)
        .map_err(|e| PyValueError::new_err(format!("not a stream of record batches: {e}")))
}

/// The record batch that an object exports, by itself or as a stream of one.
pub(crate) fn record_batch(data: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let capsules = data.call_method0("__arrow_c_array__")?;
    let capsules = capsules.cast::<PyTuple>()?;
    let schema = capsules.get_item(0)?;
    let array = capsules.get_item(1)?;
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?;
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(ARRAY))?;
    // SAFETY: the capsules say what they are; what is there is moved out, as the interface asks.
    let data = unsafe {
        let schema = FFI_ArrowSchema::from_raw(schema.as_ptr().cast::<FFI_ArrowSchema>());
        let array = FFI_ArrowArray::from_raw(array.as_ptr().cast::<FFI_ArrowArray>());
        from_ffi(array, &schema)
    };
    let data = data.map_err(|e| PyValueError::new_err(format!("not a record batch: {e}")))?;
    match data.data_type() {
        arrow_schema::DataType::Struct(_) => Ok(RecordBatch::from(StructArray::from(data))),
        other => Err(PyTypeError::new_err(format!("an array of {other} is not a record batch"))),
    }
}
