//! How much features, or scores, depend on labels.

use crate::model::PyModel;
use crate::options::Options;
use crate::running::{Leaves, run};
use crate::tables::PyTable;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// HSIC of a table's features with its labels, or of a model's scores.
#[pyfunction]
#[pyo3(signature = (table, options, model=None, told=None))]
pub(crate) fn hsic<'py>(
    py: Python<'py>,
    table: &PyTable,
    options: &Bound<'py, PyDict>,
    model: Option<&PyModel>,
    told: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (hsic, table) = (Options(options).hsic()?, table.table.clone());
    let model = model.map(|m| m.model.clone());
    let found = run(py, told, Leaves::Nothing, move |listener| {
        let plan = hsic.plan(&*table, model.as_deref())?;
        plan.notes().iter().for_each(|note| listener.note(note));
        plan.run(listener)
    })?;
    let said = PyDict::new(py);
    said.set_item("hsic", found.hsic)?;
    said.set_item("p_value", found.p_value())?;
    said.set_item("n_rows", found.rows)?;
    said.set_item("n_features", found.features)?;
    said.set_item("rows_dropped", found.dropped)?;
    said.set_item("shuffled", found.shuffled)?;
    said.set_item("labels", found.labels)?;
    Ok(said)
}
