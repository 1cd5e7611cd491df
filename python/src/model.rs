//! A model: fitted, applied, read and written. Files are those of the command line.

use crate::batches::{BatchStream, PyBatches};
use crate::errors::OrRaise;
use crate::options::{Options, misuse};
use crate::plan::PyPlan;
use crate::running::{Leaves, run};
use crate::scores::{self, MatrixSink, Number, width};
use crate::tables::PyTable;
use eigenstream::{Layout, Model, Reconstruct, Transform};
use ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::Arc;

/// A fitted model.
#[pyclass(frozen, name = "Model", module = "eigenstream._core")]
pub(crate) struct PyModel {
    pub(crate) model: Arc<Model>,
}

impl From<Model> for PyModel {
    fn from(model: Model) -> PyModel {
        PyModel { model: Arc::new(model) }
    }
}

/// Fits a model.
#[pyfunction]
#[pyo3(signature = (table, options, told=None))]
pub(crate) fn fit(
    py: Python<'_>,
    table: &PyTable,
    options: &Bound<'_, PyDict>,
    told: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyModel> {
    let (fit, table) = (Options(options).fit()?, table.table.clone());
    let model = run(py, told, Leaves::Nothing, move |listener| {
        let plan = fit.plan(&*table)?;
        plan.check()?;
        plan.notes().iter().for_each(|note| listener.note(note));
        plan.run(listener)
    })?;
    Ok(model.into())
}

/// What a fit would do and hold.
#[pyfunction]
#[pyo3(signature = (table, options, told=None))]
pub(crate) fn plan(
    py: Python<'_>,
    table: &PyTable,
    options: &Bound<'_, PyDict>,
    told: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyPlan> {
    let (fit, table) = (Options(options).fit()?, table.table.clone());
    run(py, told, Leaves::Nothing, move |listener| {
        let plan = fit.plan(&*table)?;
        plan.notes().iter().for_each(|note| listener.note(note));
        Ok(PyPlan::of(&plan))
    })
}

#[pymethods]
impl PyModel {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyModel> {
        py.detach(|| Model::load(path)).or_raise().map(PyModel::from)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<PyModel> {
        py.detach(|| Model::from_bytes(bytes)).or_raise().map(PyModel::from)
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.model.save(path)).or_raise()
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.model.to_bytes()).or_raise()?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// This kernel model with components of its scores over other rows.
    fn recombined(&self, py: Python<'_>, scores: &PyModel) -> PyResult<PyModel> {
        py.detach(|| self.model.recombined(&scores.model)).or_raise().map(PyModel::from)
    }

    /// What `inspect` prints.
    fn page(&self) -> String {
        self.model.page()
    }

    /// What `inspect --json` prints.
    fn to_json(&self) -> String {
        self.model.to_json().to_string()
    }

    /// What is not numbers: `inspect --json` without arrays.
    fn header_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.model.header).map_err(|e| misuse(&e.to_string()))
    }

    #[getter]
    fn n_components(&self) -> usize {
        self.model.n_components()
    }

    /// Features as fitted, constants that were left out among them.
    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.model.header.columns.names().collect()
    }

    /// k × d over all features that were fitted: 0 for those that were constant and left out.
    #[getter]
    fn components<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray2<f64>>> {
        let components = self.model.components()?;
        let constants = self.model.constant_features();
        if constants.iter().all(Option::is_none) {
            return Some(components.clone().into_pyarray(py));
        }
        let active = (0..constants.len()).filter(|j| constants[*j].is_none());
        let mut wide = Array2::zeros((components.nrows(), constants.len()));
        for (j, column) in active.zip(components.columns()) {
            wide.column_mut(j).assign(&column);
        }
        Some(wide.into_pyarray(py))
    }

    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.with_constants(&self.model.mean.to_vec(), |constant| constant).into_pyarray(py)
    }

    #[getter]
    fn scale<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let scale = self.model.scale.as_ref()?;
        Some(self.with_constants(&scale.to_vec(), |_| 0.0).into_pyarray(py))
    }

    /// Of the kept components.
    #[getter]
    fn eigenvalues<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let kept = self.model.eigenvalues.iter().take(self.model.n_components());
        kept.copied().collect::<Vec<_>>().into_pyarray(py)
    }

    /// All that are known.
    #[getter]
    fn spectrum<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.model.eigenvalues.clone().into_pyarray(py)
    }

    #[getter]
    fn explained_variance<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.model.explained_variance().map(|v| v.into_pyarray(py))
    }

    #[getter]
    fn explained_variance_ratio<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.model.explained_variance_ratio().map(|v| v.into_pyarray(py))
    }

    #[getter]
    fn total_variance(&self) -> Option<f64> {
        self.model.header.total_variance
    }

    /// k × n: what the comparisons of a new row with the fitted ones are multiplied with.
    #[getter]
    fn coefficients<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray2<f64>>> {
        self.model.kernel_map().map(|map| map.coefficients.clone().into_pyarray(py))
    }

    /// The score of every feature that was scored against a label, by name.
    #[getter]
    fn feature_scores(&self) -> Option<Vec<(String, f64)>> {
        let scoring = self.model.header.selection.scoring.as_ref()?;
        let scores = self.model.feature_scores.as_ref()?;
        Some(scoring.candidates.names().zip(scores.iter().copied()).collect())
    }

    /// Scores of all rows, n × k, or reconstructions, n × d.
    #[pyo3(signature = (table, what, options, told=None))]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        table: &PyTable,
        what: &str,
        options: &Bound<'_, PyDict>,
        told: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        Ok(self.matrix(py, table, what, options, told)?.into_pyarray(py))
    }

    /// The same in singles.
    #[pyo3(signature = (table, what, options, told=None))]
    fn apply_f32<'py>(
        &self,
        py: Python<'py>,
        table: &PyTable,
        what: &str,
        options: &Bound<'_, PyDict>,
        told: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        Ok(self.matrix(py, table, what, options, told)?.into_pyarray(py))
    }

    /// Record batches, all of them in memory.
    #[pyo3(signature = (table, what, options, told=None))]
    fn apply_batches(
        &self,
        py: Python<'_>,
        table: &PyTable,
        what: &str,
        options: &Bound<'_, PyDict>,
        told: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyBatches> {
        let (pass, table, model) = (pass(what, options)?, table.table.clone(), self.model.clone());
        let (schema, batches) = run(py, told, Leaves::Nothing, move |listener| {
            let mut batches = Vec::new();
            let plan = pass.plan(&model, &*table)?;
            plan.run(&mut batches, listener)?;
            Ok((plan.schema().clone(), batches))
        })?;
        Ok(PyBatches::new(schema, batches))
    }

    /// Record batches, as they are asked for: a few are held at a time.
    fn apply_stream(
        &self,
        py: Python<'_>,
        table: &PyTable,
        what: &str,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<BatchStream> {
        let pass = pass(what, options)?;
        BatchStream::start(py, pass, self.model.clone(), table.table.clone())
    }

    /// Writes Parquet; what was done, by name.
    #[pyo3(signature = (table, what, out, options, told=None))]
    fn apply_to<'py>(
        &self,
        py: Python<'py>,
        table: &PyTable,
        what: &str,
        out: PathBuf,
        options: &Bound<'_, PyDict>,
        told: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let output = Options(options).output(out)?;
        let (pass, table, model) = (pass(what, options)?, table.table.clone(), self.model.clone());
        let done = run(py, told, Leaves::Files, move |listener| {
            pass.plan(&model, &*table)?.write_parquet(&output, listener)
        })?;
        let said = PyDict::new(py);
        said.set_item("rows_read", done.rows_read)?;
        said.set_item("rows_written", done.rows_written)?;
        said.set_item("rows_dropped", done.rows_dropped)?;
        said.set_item("rows_null", done.rows_null)?;
        said.set_item("files", done.files)?;
        said.set_item("files_kept", done.files_kept)?;
        Ok(said)
    }
}

impl PyModel {
    /// What comes out of a second pass, as one matrix.
    fn matrix<T: Number>(
        &self,
        py: Python<'_>,
        table: &PyTable,
        what: &str,
        options: &Bound<'_, PyDict>,
        told: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Array2<T>> {
        let (pass, table, model) = (pass(what, options)?, table.table.clone(), self.model.clone());
        run(py, told, Leaves::Nothing, move |listener| {
            let plan = pass.plan(&model, &*table)?;
            let mut numbers = scores::room((table.rows() as usize, width(plan.schema())));
            plan.run(MatrixSink::new(&mut numbers), listener)?;
            Ok(numbers)
        })
    }

    /// Numbers of the active features, with those of the constant ones put back in their places.
    fn with_constants(&self, active: &[f64], constant: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut active = active.iter().copied();
        let all = self.model.constant_features().into_iter();
        all.map(|c| c.map_or_else(|| active.next().unwrap_or(0.0), &constant)).collect()
    }
}

/// Either second pass.
pub(crate) enum Pass {
    Transform(Box<Transform>),
    Reconstruct(Box<Reconstruct>),
}

impl Pass {
    pub(crate) fn plan<'m, 't>(
        &self,
        model: &'m Model,
        table: &'t dyn eigenstream::Table,
    ) -> eigenstream::Result<eigenstream::ApplyPlan<'m, 't>> {
        match self {
            Pass::Transform(options) => options.plan(model, table),
            Pass::Reconstruct(options) => options.plan(model, table),
        }
    }
}

/// "matrix" is a transform whose scores come as one column of vectors.
fn pass(what: &str, options: &Bound<'_, PyDict>) -> PyResult<Pass> {
    let options = Options(options);
    Ok(match what {
        "reconstruct" => Pass::Reconstruct(Box::new(options.reconstruct()?)),
        "matrix" => {
            Pass::Transform(Box::new(Transform { layout: Layout::List, ..options.transform()? }))
        }
        _ => Pass::Transform(Box::new(options.transform()?)),
    })
}
