//! Fits over rows that others read: passes go out to a Python function, sums come back.

use crate::errors::OrRaise;
use crate::model::PyModel;
use crate::options::Options;
use crate::running::{Leaves, run};
use crate::tables::{PyTable, record_batch};
use arrow_array::RecordBatchIterator;
use eigenstream::{Error, PassSums, Passes, ReaderTable};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, Mutex, MutexGuard};

/// The sums of one pass.
#[pyclass(frozen, name = "PassSums", module = "eigenstream._core")]
pub(crate) struct PyPassSums {
    sums: Mutex<PassSums>,
}

impl PyPassSums {
    fn lock(&self) -> MutexGuard<'_, PassSums> {
        self.sums.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[pymethods]
impl PyPassSums {
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<PyPassSums> {
        let sums = py.detach(|| PassSums::from_bytes(bytes)).or_raise()?;
        Ok(PyPassSums { sums: Mutex::new(sums) })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.lock().to_bytes()).or_raise()?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Adds a batch of what has `__arrow_c_array__`.
    fn update(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let batch = record_batch(data)?;
        py.detach(|| self.lock().update(&batch)).or_raise()
    }

    /// Adds the sums of rows that come after these.
    fn merge(&self, py: Python<'_>, later: &PyPassSums) -> PyResult<()> {
        let later = later.lock().clone();
        py.detach(|| self.lock().merge(later)).or_raise()
    }

    #[getter]
    fn n_rows(&self) -> u64 {
        self.lock().rows()
    }
}

/// Passes that a Python function makes: from the bytes of sums of no rows to those of all rows.
struct Called {
    fold: Py<PyAny>,
    /// What the function raised.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Passes for Called {
    fn fold(&self, empty: PassSums) -> eigenstream::Result<PassSums> {
        let bytes = empty.to_bytes()?;
        let folded = Python::attach(|py| -> PyResult<Vec<u8>> {
            let folded = self.fold.call1(py, (PyBytes::new(py, &bytes),))?;
            folded.extract(py)
        });
        match folded {
            Ok(folded) => PassSums::from_bytes(&folded),
            Err(error) => {
                let said = error.to_string();
                *self.raised.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                Err(Error::Misuse(said))
            }
        }
    }
}

/// PCA in the randomized form of `rows` rows with the columns of `table`, each pass made by `fold`.
#[pyfunction]
#[pyo3(signature = (table, rows, options, fold, told=None))]
pub(crate) fn fit_by_passes(
    py: Python<'_>,
    table: &PyTable,
    rows: u64,
    options: &Bound<'_, PyDict>,
    fold: Py<PyAny>,
    told: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyModel> {
    let fit = Options(options).fit()?;
    let schema = table.table.schema().or_raise()?;
    let raised = Arc::new(Mutex::new(None));
    let passes = Called { fold, raised: raised.clone() };
    let model = run(py, told, Leaves::Nothing, move |listener| {
        let open = || Ok(Box::new(RecordBatchIterator::new(Vec::new(), schema.clone())) as Box<_>);
        let table = ReaderTable::with_rows(open, rows)?;
        let plan = fit.plan(&table)?;
        plan.notes().iter().for_each(|note| listener.note(note));
        plan.run_by(&passes, listener)
    });
    let raised = raised.lock().unwrap_or_else(|e| e.into_inner()).take();
    match raised {
        Some(error) => Err(error),
        None => model.map(PyModel::from),
    }
}
