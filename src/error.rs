//! Errors: what, where, found against expected, and what to do next.
//!
//! Every kind carries its data, so that a caller can match on it, and prints as one sentence.
//! [`Error::exit_code`] sets misuse (2) apart from failure (1); [`Error::Internal`] sets our bugs
//! apart from the user's data.
//!
//! What would help is often an option. Sentences name options as `⟦nulls=drop⟧`, and whoever shows
//! them says how options are written there ([`phrase`]): `--nulls drop` on the command line,
//! `nulls="drop"` in Python. `Display` writes `nulls=drop`.

use crate::words::bytes;
use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The options contradict each other or ask for something that does not exist.
    Misuse(String),

    /// The operating system refused something.
    Io {
        /// What was tried, as a verb: "read", "create", "rename".
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },

    /// A file is not Parquet, is cut short, or is damaged.
    Parquet {
        /// Where.
        place: Box<Place>,
        /// What the decoder said, and what it means.
        problem: String,
        /// The decoder's own error, where it gave one.
        source: Option<Box<parquet::errors::ParquetError>>,
    },

    /// The rows or columns are not what the work needs.
    Data {
        /// Where.
        place: Box<Place>,
        /// What was found, what was expected, what to do.
        problem: String,
    },

    /// A column that was asked for does not exist.
    UnknownColumn {
        /// The file whose columns were searched.
        path: PathBuf,
        /// The name as given.
        name: String,
        /// The nearest existing name, or some of those there are.
        hint: String,
    },

    /// The work does not fit the memory budget.
    Budget {
        /// The work or buffer that is too large.
        what: String,
        /// Bytes needed.
        needs: u64,
        /// Bytes allowed.
        budget: u64,
        /// What would fit.
        hint: String,
    },

    /// A label with more classes than may be held.
    TooManyClasses {
        /// The label columns.
        label: String,
        /// How many there may be.
        classes: usize,
        /// What would help.
        hint: String,
    },

    /// An iteration that did not reach its tolerance.
    Unconverged(Box<Unconverged>),

    /// A model or state file that cannot be used.
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A pass that others are to make before a fit can go on.
    PassWanted {
        /// Which, counted from 1.
        pass: usize,
        /// The file that says what is wanted.
        operand: PathBuf,
    },

    /// The listener asked to stop. No result was written; a checkpoint that was asked for stays.
    Cancelled,

    /// A bug in eigenstream.
    Internal(String),
}

/// How an iteration ended that did not reach its tolerance.
#[derive(Debug, Clone, PartialEq)]
pub struct Unconverged {
    /// Where the data is.
    pub place: Place,
    /// Which components, counted from 1.
    pub components: Vec<usize>,
    /// Passes over the data, or products with a kernel matrix.
    pub iterations: usize,
    /// What was iterated.
    pub what: IterationKind,
    /// The largest residual over the first eigenvalue.
    pub residual: f64,
    /// What was asked for.
    pub tolerance: f64,
}

/// What an iteration multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterationKind {
    /// The data, once a pass.
    Passes,
    /// A kernel matrix that is never held; holding it would take this many bytes.
    Products {
        /// Bytes to decompose it whole.
        whole: u64,
    },
}

impl Unconverged {
    /// "after 30 passes components 4, 5 miss the tolerance 1e-6 (largest residual 2.0e-5)".
    pub(crate) fn outcome(&self) -> String {
        let Unconverged { iterations, residual, tolerance, .. } = self;
        let what = match (self.what, iterations) {
            (IterationKind::Passes, 1) => "pass",
            (IterationKind::Passes, _) => "passes",
            (IterationKind::Products { .. }, 1) => "product",
            (IterationKind::Products { .. }, _) => "products",
        };
        let components = crate::words::ranges(&self.components);
        format!(
            "after {iterations} {what} components {components} miss the tolerance {tolerance:e} \
             (largest residual {residual:.1e})"
        )
    }

    fn sentence(&self) -> String {
        let outcome = self.outcome();
        let help = "allow more with ⟦max-passes⟧ or ⟦tolerance⟧, keep them as they are with \
                    ⟦allow-unconverged⟧, or allow";
        match self.what {
            IterationKind::Passes => format!(
                "{outcome}; their eigenvalues are close to the next ones: {help} the memory of an \
                 exact form (a plan tells how much)"
            ),
            IterationKind::Products { whole } => {
                let memory = crate::words::megabytes(whole);
                let place = place_prefix(&self.place.file);
                format!("{place}{outcome}: {help} ⟦memory={memory}⟧ to decompose the whole matrix")
            }
        }
    }
}

/// A sentence with its options as `option(name, value)` writes them.
pub fn phrase(sentence: &str, option: impl Fn(&str, Option<&str>) -> String) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some((before, marked)) = rest.split_once('⟦') {
        let Some((inside, after)) = marked.split_once('⟧') else { break };
        out.push_str(before);
        out.push_str(&match inside.split_once('=') {
            Some((name, value)) => option(name, Some(value)),
            None => option(inside, None),
        });
        rest = after;
    }
    out + rest
}

/// As the library writes options: `nulls=drop`, by the names that its own have.
pub(crate) fn plain(sentence: &str) -> String {
    phrase(sentence, |name, value| {
        let name = match name {
            "label" => "labels".to_string(),
            "no-center" => "uncentered".to_string(),
            "for" | "keep-features" | "score-threshold" => "keep".to_string(),
            other => other.replace('-', "_"),
        };
        match value {
            Some(value) => format!("{name}={value}"),
            None => name,
        }
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.sentence()))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Parquet { source: Some(source), .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl Error {
    /// The sentence, options marked for [`phrase`].
    pub fn sentence(&self) -> String {
        match self {
            Error::Misuse(problem) => problem.clone(),
            Error::Io { action, path, source } => {
                format!("cannot {action} {}: {source}", path.display())
            }
            Error::Parquet { place, problem, .. } | Error::Data { place, problem } => {
                format!("{place}: {problem}")
            }
            Error::UnknownColumn { path, name, hint } => {
                format!("{}no column '{name}'; {hint}", place_prefix(path))
            }
            Error::Budget { what, needs, budget, hint } => {
                let (needs, budget) = (bytes(*needs), bytes(*budget));
                format!("{what} needs {needs}, budget is {budget}; {hint}")
            }
            Error::TooManyClasses { label, classes, hint } => format!(
                "label '{label}' has more than {classes} classes, which is all there is room for; \
                 {hint}"
            ),
            Error::Unconverged(iteration) => iteration.sentence(),
            Error::Model { path, problem } => format!("{}: {problem}", path.display()),
            Error::PassWanted { pass, operand } => format!(
                "pass {pass} is wanted: make all shards of it from {}, then run this again",
                operand.display()
            ),
            Error::Cancelled => "stopped before it was done; no result was written".into(),
            Error::Internal(what) => {
                format!("{what} (this is a bug in eigenstream, please report it)")
            }
        }
    }

    /// 2 for misuse, 75 for a fit that waits for a pass of others, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Misuse(_) | Error::UnknownColumn { .. } => 2,
            // EX_TEMPFAIL: run again later.
            Error::PassWanted { .. } => 75,
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

    pub(crate) fn misuse<T>(problem: impl Into<String>) -> Result<T> {
        Err(Error::Misuse(problem.into()))
    }

    pub(crate) fn data(place: Place, problem: impl Into<String>) -> Error {
        Error::Data { place: Box::new(place), problem: problem.into() }
    }

    /// An error about the data that does not name it yet, naming it.
    pub(crate) fn about(self, place: &Place) -> Error {
        match self {
            Error::Data { place: nowhere, problem } if *nowhere == Place::default() => {
                Error::data(place.clone(), problem)
            }
            other => other,
        }
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
    fn options_are_written_as_the_front_end_writes_them() {
        let error = Error::Misuse("choose ⟦nulls=drop⟧, or leave it out with ⟦exclude⟧".into());
        assert_eq!(error.to_string(), "choose nulls=drop, or leave it out with exclude");
        let python = |name: &str, value: Option<&str>| match value {
            Some(value) => format!("{name}=\"{value}\""),
            None => name.to_string(),
        };
        let said = phrase(&error.sentence(), python);
        assert_eq!(said, "choose nulls=\"drop\", or leave it out with exclude");
        assert_eq!(phrase("a ⟦ that is not closed", python), "a ⟦ that is not closed");
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
