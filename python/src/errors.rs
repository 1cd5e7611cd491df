//! [`eigenstream::Error`] → a Python exception, its sentence in Python's words.
//!
//! | error | exception |
//! |---|---|
//! | `Misuse`, `Data`, `Parquet`, `UnknownColumn` | `ValueError` |
//! | `Io` | `FileNotFoundError`, `PermissionError`, … as `errno` says |
//! | `Budget`, `TooManyClasses` | `MemoryError` |
//! | `Unconverged` | `eigenstream.ConvergenceError` |
//! | `Model` | `eigenstream.ModelFileError` (a `ValueError`) |
//! | `Cancelled` | `KeyboardInterrupt` |
//! | `Internal` | `RuntimeError` |

use eigenstream::{Error, phrase};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(
    eigenstream,
    ConvergenceError,
    PyRuntimeError,
    "An iteration did not reach its tolerance."
);
create_exception!(
    eigenstream,
    ModelFileError,
    PyValueError,
    "A model or state that is damaged, of a newer version, or none at all."
);

/// A sentence whose options are written as Python writes them: `nulls="drop"`.
pub(crate) fn in_python(sentence: &str) -> String {
    phrase(sentence, |name, value| {
        let name = match name {
            "components" => "n_components".to_string(),
            "no-center" => return "center=False".into(),
            "for" => "keep".to_string(),
            other => other.replace('-', "_"),
        };
        match value {
            Some(value) if value.parse::<f64>().is_ok() => format!("{name}={value}"),
            Some(value) => format!("{name}=\"{value}\""),
            None => name,
        }
    })
}

/// The exception for an error.
pub(crate) fn exception(error: Error) -> PyErr {
    let said = in_python(&error.sentence());
    match error {
        Error::Io { source, .. } => match source.raw_os_error() {
            // With its number Python makes it a FileNotFoundError, a PermissionError and so on.
            Some(number) => PyOSError::new_err((number, said)),
            None => PyOSError::new_err(said),
        },
        Error::Budget { .. } | Error::TooManyClasses { .. } => PyMemoryError::new_err(said),
        Error::Unconverged(_) => ConvergenceError::new_err(said),
        Error::Model { .. } => ModelFileError::new_err(said),
        Error::Cancelled => PyKeyboardInterrupt::new_err(said),
        Error::Internal(_) => PyRuntimeError::new_err(said),
        _ => PyValueError::new_err(said),
    }
}

/// The same at the end of an expression.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for eigenstream::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(exception)
    }
}
