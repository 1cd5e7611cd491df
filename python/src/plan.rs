//! What a fit would do and hold, as text and as JSON.

use crate::errors::in_python;
use eigenstream::Plan;
use pyo3::prelude::*;

/// A plan, told.
#[pyclass(frozen, name = "Plan", module = "eigenstream._core")]
pub(crate) struct PyPlan {
    #[pyo3(get)]
    text: String,
    #[pyo3(get)]
    json: String,
}

impl PyPlan {
    pub(crate) fn of(plan: &Plan<'_>) -> PyPlan {
        PyPlan { text: in_python(&plan.page()), json: plan.to_json().to_string() }
    }
}
