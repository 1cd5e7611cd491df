//! The engine for the Python package `eigenstream`, whose modules have the words and habits of
//! Python and call this one: `Table` (what is read), `fit`, `plan`, `scan`, `hsic`, `Model`,
//! `State`. Options come as dictionaries ([`options`]), long work runs on a thread of its own
//! ([`running`]).

mod batches;
mod errors;
mod hsic;
mod model;
mod options;
mod passes;
mod plan;
mod running;
mod scores;
mod states;
mod tables;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    eigenstream::record_panics();
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ConvergenceError", py.get_type::<errors::ConvergenceError>())?;
    module.add("ModelFileError", py.get_type::<errors::ModelFileError>())?;
    module.add_class::<batches::PyBatch>()?;
    module.add_class::<batches::PyBatches>()?;
    module.add_class::<batches::BatchStream>()?;
    module.add_class::<model::PyModel>()?;
    module.add_class::<passes::PyPassSums>()?;
    module.add_class::<plan::PyPlan>()?;
    module.add_class::<states::PyState>()?;
    module.add_class::<tables::PyTable>()?;
    module.add_function(wrap_pyfunction!(model::fit, module)?)?;
    module.add_function(wrap_pyfunction!(model::plan, module)?)?;
    module.add_function(wrap_pyfunction!(passes::fit_by_passes, module)?)?;
    module.add_function(wrap_pyfunction!(states::scan, module)?)?;
    module.add_function(wrap_pyfunction!(states::scan_groups, module)?)?;
    module.add_function(wrap_pyfunction!(hsic::hsic, module)?)?;
    Ok(())
}
