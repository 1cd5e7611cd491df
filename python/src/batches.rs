//! Record batches on their way to Python, by Arrow's interfaces.

use crate::errors::exception;
use crate::model::Pass;
use crate::tables::SharedTable;
use arrow_array::ffi::to_ffi;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use crossbeam_channel::{Receiver, Sender, bounded};
use eigenstream::{Error, Listener, Model, Quiet, Sink};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::sync::{Arc, Mutex};

/// Batches that wait to be taken from a stream.
const WAITING: usize = 2;

fn wrong(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Record batches of one schema.
#[pyclass(frozen, name = "Batches", module = "eigenstream._core")]
pub(crate) struct PyBatches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl PyBatches {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> PyBatches {
        PyBatches { schema, batches }
    }
}

#[pymethods]
impl PyBatches {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // A consumer may ask for other types; the interface allows to ignore it.
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|f| f.name().clone()).collect()
    }
}

/// One record batch.
#[pyclass(frozen, name = "Batch", module = "eigenstream._core")]
pub(crate) struct PyBatch {
    batch: RecordBatch,
}

#[pymethods]
impl PyBatch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let rows = StructArray::from(self.batch.clone());
        let (array, schema) = to_ffi(&rows.to_data()).map_err(wrong)?;
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [schema, array])
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

/// Batches that a thread makes while Python takes them. Dropped, it ends the thread.
#[pyclass(frozen, name = "BatchStream", module = "eigenstream._core")]
pub(crate) struct BatchStream {
    batches: Mutex<Option<Receiver<eigenstream::Result<RecordBatch>>>>,
}

impl BatchStream {
    pub(crate) fn start(
        py: Python<'_>,
        pass: Pass,
        model: Arc<Model>,
        table: SharedTable,
    ) -> PyResult<BatchStream> {
        // What cannot be planned is told now, not with the first batch.
        py.detach(|| pass.plan(&model, &*table).map(drop)).map_err(exception)?;
        let (sender, batches) = bounded(WAITING);
        let work = move || {
            let run = || {
                let plan = pass.plan(&model, &*table)?;
                plan.run(StreamSink(sender.clone()), &Quiet as &dyn Listener)
            };
            if let Err(error) = eigenstream::caught(run) {
                let _ = sender.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("eigenstream".into());
        thread.spawn(work).map_err(|e| PyValueError::new_err(format!("no thread: {e}")))?;
        Ok(BatchStream { batches: Mutex::new(Some(batches)) })
    }
}

/// Hands batches over, and ends when nobody takes them.
struct StreamSink(Sender<eigenstream::Result<RecordBatch>>);

impl Sink for StreamSink {
    fn write(&mut self, _input: usize, batch: RecordBatch) -> eigenstream::Result<()> {
        self.0.send(Ok(batch)).map_err(|_| Error::Cancelled)
    }

    fn finish(self) -> eigenstream::Result<()> {
        Ok(())
    }
}

#[pymethods]
impl BatchStream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyBatch>> {
        let mut taken = self.batches.lock().unwrap_or_else(|e| e.into_inner());
        let Some(batches) = taken.as_ref() else { return Ok(None) };
        match py.detach(|| batches.recv()) {
            Ok(Ok(batch)) => Ok(Some(PyBatch { batch })),
            Ok(Err(error)) => {
                *taken = None;
                Err(exception(error))
            }
            Err(_) => {
                *taken = None;
                Ok(None)
            }
        }
    }

    /// Ends it before its end.
    fn close(&self) {
        *self.batches.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
}
