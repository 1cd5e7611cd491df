//! Errors: what, where, found against expected, and what to do next.
//!
//! Every kind carries its data, so that a caller can match on it, and prints as one sentence.
//! [`Error::exit_code`] sets misuse (2) apart from failure (1); [`Error::Internal`] sets our bugs
//! apart from the user's data.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line contradicts itself or asks for something that does not exist.
    #[error("{0}")]
    Misuse(String),

    /// The operating system refused something.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, as a verb: "read", "create", "rename".
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },

    /// A file is not Parquet, is cut short, or is damaged.
    #[error("{place}: {problem}")]
    Parquet {
        /// Where.
        place: Box<Place>,
        /// What the decoder said, and what it means.
        problem: String,
        /// The decoder's own error, where it gave one.
        #[source]
        source: Option<Box<parquet::errors::ParquetError>>,
    },

    /// The rows or columns are not what the command can work with.
    #[error("{place}: {problem}")]
    Data {
        /// Where.
        place: Box<Place>,
        /// What was found, what was expected, what to do.
        problem: String,
    },

    /// A column that was asked for does not exist.
    #[error("{place}no column '{name}'; {hint}", place = place_prefix(path))]
    UnknownColumn {
        /// The file whose columns were searched.
        path: PathBuf,
        /// The name as given.
        name: String,
        /// The nearest existing name, or some of those there are.
        hint: String,
    },

    /// The work does not fit the memory budget.
    #[error("{what} needs {needs}, budget is {budget}; {hint}")]
    Budget {
        /// The work or buffer that is too large.
        what: String,
        /// Bytes needed, for people.
        needs: String,
        /// Bytes allowed, for people.
        budget: String,
        /// What would fit.
        hint: String,
    },

    /// A label with more classes than may be held.
    #[error(
        "label '{label}' has more than {classes} classes, which is all there is room for; {hint}"
    )]
    TooManyClasses {
        /// The label columns.
        label: String,
        /// How many there may be.
        classes: usize,
        /// What would help.
        hint: String,
    },

    /// An iteration that did not reach its tolerance.
    #[error(
        "after {passes} passes components {components} miss the tolerance {tolerance:e} (largest residual {residual:.1e}); \
         their eigenvalues are close to the next ones: allow more with --max-passes or --tolerance, keep them as they are \
         with --allow-unconverged, or allow the memory of an exact form (see eigenstream plan)"
    )]
    Unconverged {
        /// Which, counted from 1.
        components: String,
        /// Passes over the data.
        passes: usize,
        /// The largest residual over the first eigenvalue.
        residual: f64,
        /// What was asked for.
        tolerance: f64,
    },

    /// A model file that cannot be used.
    #[error("{path}: {problem}", path = path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A bug in eigenstream.
    #[error("{0} (this is a bug in eigenstream, please report it)")]
    Internal(String),
}

impl Error {
    /// 2 for misuse, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Misuse(_) | Error::UnknownColumn { .. } => 2,
            _ => 1,
        }
    }

    /// True when the error is a reader of our output that went away: no error at all.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { action, path, source }
    }

    pub(crate) fn data(place: Place, problem: impl Into<String>) -> Error {
        Error::Data { place: Box::new(place), problem: problem.into() }
    }

    pub(crate) fn model(path: &Path, problem: impl Into<String>) -> Error {
        Error::Model { path: path.to_path_buf(), problem: problem.into() }
    }
}

/// A spot in the data: as much of file, row group, column and row as is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Row group within the file, counted from 0.
    pub row_group: Option<usize>,
    /// Column, or feature (`name[i]`) of a vector column.
    pub column: Option<String>,
    /// Row within the file, counted from 0.
    pub row: Option<u64>,
}

impl Place {
    pub(crate) fn file(path: impl AsRef<Path>) -> Place {
        Place { file: path.as_ref().to_path_buf(), ..Place::default() }
    }

    pub(crate) fn row_group(mut self, index: usize) -> Place {
        self.row_group = Some(index);
        self
    }

    pub(crate) fn column(mut self, name: impl Into<String>) -> Place {
        self.column = Some(name.into());
        self
    }

    pub(crate) fn row(mut self, row: u64) -> Place {
        self.row = Some(row);
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.file.as_os_str().is_empty() {
            parts.push(self.file.display().to_string());
        }
        if let Some(g) = self.row_group {
            parts.push(format!("row group {g}"));
        }
        match (&self.column, self.row) {
            (Some(c), Some(r)) => parts.push(format!("column '{c}', row {r} (counted from 0)")),
            (Some(c), None) => parts.push(format!("column '{c}'")),
            (None, Some(r)) => parts.push(format!("row {r} (counted from 0)")),
            (None, None) => {}
        }
        f.write_str(&parts.join(": "))
    }
}

fn place_prefix(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!("{}: ", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_name_as_much_as_is_known() {
        let place = Place::file("a.parquet").row_group(2).column("x").row(7);
        assert_eq!(place.to_string(), "a.parquet: row group 2: column 'x', row 7 (counted from 0)");
        assert_eq!(Place::file("a.parquet").to_string(), "a.parquet");
    }

    #[test]
    fn unknown_columns_suggest_the_nearest() {
        let e = Error::UnknownColumn {
            path: "d.parquet".into(),
            name: "heigth".into(),
            hint: "did you mean 'height'?".into(),
        };
        assert_eq!(e.to_string(), "d.parquet: no column 'heigth'; did you mean 'height'?");
        assert_eq!(e.exit_code(), 2);
    }
}
