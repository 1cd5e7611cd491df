//! Sums that are kept: scanned or fed with batches, merged, taken apart, solved.

use crate::errors::OrRaise;
use crate::model::PyModel;
use crate::options::Options;
use crate::running::{Leaves, run};
use crate::tables::{PyTable, record_batch, stream_of};
use eigenstream::State;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// Sufficient statistics.
#[pyclass(frozen, name = "State", module = "eigenstream._core")]
pub(crate) struct PyState {
    state: Mutex<State>,
}

impl From<State> for PyState {
    fn from(state: State) -> PyState {
        PyState { state: Mutex::new(state) }
    }
}

impl PyState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Scans a table.
#[pyfunction]
#[pyo3(signature = (table, options, told=None))]
pub(crate) fn scan(
    py: Python<'_>,
    table: &PyTable,
    options: &Bound<'_, PyDict>,
    told: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyState> {
    let (scan, table) = (Options(options).scan()?, table.table.clone());
    let state = run(py, told, Leaves::Nothing, move |listener| {
        let plan = scan.plan(&*table)?;
        plan.notes().iter().for_each(|note| listener.note(note));
        plan.run(listener)
    })?;
    Ok(state.into())
}

/// One state per value of a column: pairs of the value and its state.
#[pyfunction]
#[pyo3(signature = (table, options, told=None))]
pub(crate) fn scan_groups(
    py: Python<'_>,
    table: &PyTable,
    options: &Bound<'_, PyDict>,
    told: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(String, PyState)>> {
    let (scan, table) = (Options(options).scan()?, table.table.clone());
    let states = run(py, told, Leaves::Nothing, move |listener| {
        let plan = scan.plan(&*table)?;
        plan.notes().iter().for_each(|note| listener.note(note));
        let mut states = Vec::new();
        plan.run_groups(listener)?.each(|state| {
            states.push(state);
            Ok(())
        })?;
        Ok(states)
    })?;
    let named = |state: State| {
        let value = state.about.group.as_ref().map_or_else(String::new, |g| g.value.to_string());
        (value, PyState::from(state))
    };
    Ok(states.into_iter().map(named).collect())
}

#[pymethods]
impl PyState {
    /// Of no rows yet, with the columns of this table.
    #[staticmethod]
    fn empty(table: &PyTable, options: &Bound<'_, PyDict>) -> PyResult<PyState> {
        let schema = table.table.schema().or_raise()?;
        Options(options).scan()?.empty(schema).or_raise().map(PyState::from)
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyState> {
        py.detach(|| State::load(path)).or_raise().map(PyState::from)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<PyState> {
        py.detach(|| State::from_bytes(bytes)).or_raise().map(PyState::from)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.lock().save(path)).or_raise()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.lock().to_bytes()).or_raise()?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Adds the batches of what has `__arrow_c_stream__` or `__arrow_c_array__`. All or none: rows
    /// that cannot be read leave the state as it was.
    fn update(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if !data.hasattr("__arrow_c_stream__")? {
            let batch = record_batch(data)?;
            return py.detach(|| self.lock().update(&batch)).or_raise();
        }
        let reader = stream_of(data)?;
        let mut state = self.lock().clone();
        py.detach(|| {
            for batch in reader {
                let batch = batch.map_err(|e| eigenstream::Error::Misuse(e.to_string()))?;
                state.update(&batch)?;
            }
            Ok(state)
        })
        .or_raise()
        .map(|state| *self.lock() = state)
    }

    fn merge(&self, py: Python<'_>, other: &PyState) -> PyResult<()> {
        let other = other.lock().clone();
        py.detach(|| {
            let mut state = self.lock().clone();
            state.merge(other)?;
            *self.lock() = state;
            Ok(())
        })
        .or_raise()
    }

    fn subtract(&self, py: Python<'_>, part: &PyState) -> PyResult<()> {
        let part = part.lock().clone();
        py.detach(|| {
            let mut state = self.lock().clone();
            state.subtract(part)?;
            *self.lock() = state;
            Ok(())
        })
        .or_raise()
    }

    #[pyo3(signature = (options, told=None))]
    fn solve(
        &self,
        py: Python<'_>,
        options: &Bound<'_, PyDict>,
        told: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyModel> {
        let (fit, state) = (Options(options).fit()?, self.lock().clone());
        let model = run(py, told, Leaves::Nothing, move |listener| state.solve(&fit, listener))?;
        Ok(model.into())
    }

    /// HSIC of features and labels: its value, rows, features, rows dropped, labels.
    fn hsic(
        &self,
        py: Python<'_>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<(f64, u64, usize, u64, Vec<String>)> {
        let fit = Options(options).fit()?;
        let found = py.detach(|| self.lock().hsic(&fit)).or_raise()?;
        Ok((found.hsic, found.rows, found.features, found.dropped, found.labels))
    }

    #[getter]
    fn n_rows(&self) -> u64 {
        self.lock().rows()
    }

    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.lock().about.columns.names().collect()
    }

    /// What it is of, as JSON.
    fn about_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.lock().about).map_err(|e| PyValueError::new_err(e.to_string()))
    }
}
