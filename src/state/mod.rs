//! Sufficient statistics on disk: one scan, many models.
//!
//! ```text
//! files ─► scan ─► State ─┬► merge, subtract, update ─► State
//!                         └► solve ─► Model          pca, spca, scored; any columns; no file read
//! ```
//!
//! A state holds its sums as they stand between two row groups, to the last bit, so that going on
//! from it gives the bytes of going on without stopping; and a ledger of its inputs, so that
//! nothing is counted twice or taken out that was never in. Its file is the container of models
//! ([`crate::model::container`]), with the sums as tensors.
//!
//! Another engine can hold one, and add record batches as a scan adds files:
//!
//! ```
//! use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
//! use eigenstream::{Fit, Quiet, Scan, State};
//! use std::sync::Arc;
//!
//! let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
//! let kind: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "b"]));
//! let rows = RecordBatch::try_from_iter([
//!     ("a", column(vec![1.0, 2.0, 4.0])),
//!     ("b", column(vec![2.0, 3.9, 8.1])),
//!     ("kind", kind),
//! ])?;
//! let mut state = Scan::new().labels(["kind"]).empty(rows.schema())?;
//! state.update(&rows)?;
//! let mut other = State::from_bytes(&state.to_bytes()?)?;
//! other.update(&rows)?;
//! assert_eq!((state.rows(), other.rows()), (3, 6));
//! assert_eq!(other.solve(&Fit::pca(), &Quiet)?.n_components(), 2);
//! assert_eq!(other.solve(&Fit::spca(["kind"]), &Quiet)?.n_components(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agree;
mod checkpoint;
mod cross_validate;
mod file;
mod groups;
mod hsic;
mod inputs;
mod more;
mod scan;
mod solve;

pub use checkpoint::Checkpoint;
pub use cross_validate::FoldChoice;
pub use file::StateFile;
pub use groups::GroupStates;
pub use hsic::StateHsic;
pub use scan::{Scan, ScanPlan, Statistics};

use crate::accumulate::{Accumulate, MOST_ROWS, NOT_SUBTRACTED, Parts, Stored, Sums};
use crate::error::{Error, Place, Result};
use crate::fit::folds::{Folds, MOST_FOLDS};
use crate::model::InputEntry;
use crate::model::container::{self, Content};
use crate::source::labels::ClassValue;
use crate::source::{BatchReader, Features, LabelRead, LabelRequest, Nulls, Precision};
use crate::source::{ReadLimit, ReadRequest, Shard, Tally};
use crate::words::{count, thousands};
use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Digits that may be lost by subtraction before no model is made.
const REFUSE_FROM_DIGITS: f64 = 14.0;

/// Digits that may be lost by subtraction before a model says so as a warning.
pub(crate) const WARN_FROM_DIGITS: f64 = 6.0;

/// Sufficient statistics.
#[derive(Debug, Clone)]
pub struct State {
    /// What they are of.
    pub about: About,
    /// One per fold; one without folds.
    sums: Vec<Sums>,
}

/// What a state is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The features.
    pub columns: Features,
    /// The labels.
    pub labels: Option<StateLabels>,
    /// The policy for missing values.
    pub nulls: Nulls,
    /// The weight column.
    pub weight: Option<String>,
    /// Arithmetic of the products.
    pub precision: Precision,
    /// What was met: rows read, dropped, unlabelled; missing and rounded cells per feature.
    pub tally: Tally,
    /// What was read.
    pub ledger: Vec<InputEntry>,
    /// Largest ratio of a feature's spread before and after a subtraction; 1 without one.
    pub cancellation: f64,
    /// The group, of a scan by group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Seed that rows were shared out to folds by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold_seed: Option<u64>,
    /// Which shards of its inputs it has; all of them without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// How far a scan has come that is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<CheckpointProgress>,
    /// The program's version.
    pub version: String,
}

/// The labels of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateLabels {
    /// The columns.
    pub columns: Vec<String>,
    /// True when they are classes.
    pub classes: bool,
    /// For each column, whether it counts as a number beside classes.
    pub numeric: Vec<bool>,
}

impl About {
    /// What is read of each row that is added.
    fn request(&self) -> ReadRequest {
        let labels = self.labels.as_ref();
        let label = |l: &StateLabels| LabelRequest { columns: l.columns.clone(), read: l.read() };
        ReadRequest {
            features: self.columns.clone(),
            weight: self.weight.clone(),
            labels: labels.map(label),
            keep: None,
            nulls: self.nulls,
            precision: self.precision,
            advice: "leave the row out, or scan with ⟦nulls=drop⟧",
            limit: ReadLimit::default(),
        }
    }
}

impl StateLabels {
    /// As classes or numbers.
    pub fn read(&self) -> LabelRead {
        if self.classes { LabelRead::Classes } else { LabelRead::Numbers }
    }
}

/// One group of a scan by group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The column.
    pub column: String,
    /// Its value.
    pub value: ClassValue,
}

/// How far a scan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointProgress {
    /// Units of row groups that are added.
    pub units: usize,
    /// Of so many.
    pub of: usize,
}

#[derive(Clone, Serialize, Deserialize)]
struct StateHeader {
    #[serde(flatten)]
    about: About,
    folds: usize,
    sums: BTreeMap<String, serde_json::Value>,
}

impl State {
    /// Sums of what `about` says.
    fn new(about: About, sums: Vec<Sums>) -> State {
        State { about, sums }
    }

    /// Adds rows that another engine holds, as a scan adds those of files: with their labels,
    /// weights, missing values and folds. Columns are found by name.
    ///
    /// Rows that cannot be read leave the state as it was; after [`Error::TooManyClasses`] it is
    /// spoilt.
    pub fn update(&mut self, rows: &RecordBatch) -> Result<()> {
        self.check_whole()?;
        let request = self.about.request();
        let reader = BatchReader::new(&request, &rows.schema(), Path::new("record batch"))?;
        let first_row = self.about.tally.rows;
        let mut block = reader.block(rows, first_row)?;
        let tally = std::mem::take(&mut block.tally);
        let parts = match (self.about.fold_seed, self.sums.len()) {
            (Some(seed), n) if n > 1 => Folds::in_memory(n, seed).split(0, first_row, &block),
            _ => vec![block],
        };
        self.about.tally.add(tally);
        for (sums, part) in self.sums.iter_mut().zip(parts) {
            sums.update(part);
            sums.check()?;
        }
        Ok(())
    }

    /// Refuses the checkpoint of a scan that is not done, and some shards of a dataset.
    fn check_whole(&self) -> Result<()> {
        match (self.about.progress, self.about.shard) {
            (None, None) => Ok(()),
            (Some(_), _) => Error::misuse(
                "this is the checkpoint of a scan that is not done; finish the scan first",
            ),
            (None, Some(shard)) => {
                Error::misuse(format!("this is {shard}, not all rows; merge all shards first"))
            }
        }
    }

    /// Rows that were read.
    pub fn rows(&self) -> u64 {
        self.about.tally.rows
    }

    /// Folds; 1 without.
    pub fn n_folds(&self) -> usize {
        self.sums.len()
    }

    /// True when the covariance is kept.
    pub fn has_covariance(&self) -> bool {
        self.sums[0].has_covariance()
    }

    /// The sums of all folds, in their order.
    fn whole(&self) -> Sums {
        let mut whole = self.sums[0].clone();
        self.sums[1..].iter().for_each(|more| whole.merge(more.clone()));
        whole
    }

    /// Adds a state of other rows. Columns are matched by name.
    pub fn merge(&mut self, other: State) -> Result<()> {
        let other = self.aligned(other)?;
        match (&self.about.shard, &other.about.shard) {
            (Some(these), Some(next)) if self.has_same_inputs(&other) => {
                self.about.shard = these.followed_by(next)?;
            }
            (None, None) => {
                self.admit(&other.about.ledger)?;
                self.about.ledger.extend(other.about.ledger);
            }
            _ => {
                return Error::misuse(
                    "one of them is a shard, and the other is none of the same files; merge the \
                     shards of each dataset first",
                );
            }
        }
        self.about.columns = other.about.columns;
        self.about.tally.add(other.about.tally);
        self.about.cancellation = self.about.cancellation.max(other.about.cancellation);
        self.sums.iter_mut().zip(other.sums).for_each(|(a, b)| a.merge(b));
        Ok(())
    }

    /// Takes a state out that was added. Columns are matched by name.
    pub fn subtract(&mut self, part: State) -> Result<()> {
        if self.about.precision == Precision::Full {
            return Error::misuse(NOT_SUBTRACTED);
        }
        let part = self.aligned(part)?;
        let ledger = self.ledger_without(&part.about.ledger)?;
        if part.rows() > self.rows() {
            return Error::misuse(format!(
                "it has {}, more than the {} that it would be taken out of",
                count(part.rows(), "row"),
                thousands(self.rows())
            ));
        }
        self.about.ledger = ledger;
        let before = self.whole().spread();
        self.sums.iter_mut().zip(part.sums).for_each(|(a, b)| a.subtract(b));
        let after = self.whole().spread();
        let ratio =
            |(b, a): (&f64, &f64)| if *b <= 0.0 { 1.0 } else { b / a.max(b * f64::EPSILON) };
        // Of a feature that no longer varies nothing can be said, and of no rows nothing needs to
        // be.
        let lost = before.iter().zip(&after).map(ratio).fold(1.0, f64::max);
        self.about.tally.subtract(&part.about.tally);
        if self.about.tally.rows > 0 {
            self.about.cancellation =
                self.about.cancellation.max(part.about.cancellation).max(lost);
        }
        Ok(())
    }

    /// The inputs less these, each of which must be there.
    fn ledger_without(&self, part: &[InputEntry]) -> Result<Vec<InputEntry>> {
        let mut left = self.about.ledger.clone();
        for entry in part {
            let Some(at) = left.iter().position(|e| e.is_same(entry)) else {
                let problem = match left.iter().find(|e| e.path == entry.path) {
                    Some(_) => "is in the state with other content; it cannot be taken out",
                    None => "was never added to the state, so it cannot be taken out",
                };
                return Err(Error::data(Place::file(&entry.path), problem));
            };
            left.remove(at);
        }
        Ok(left)
    }

    /// Decimal digits that subtractions have cost, at most.
    pub fn lost_digits(&self) -> f64 {
        self.about.cancellation.max(1.0).log10()
    }

    /// The file's bytes: a function of the state alone.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut parts = Parts::default();
        self.sums.iter().try_for_each(Sums::check_storable)?;
        self.sums
            .iter()
            .enumerate()
            .for_each(|(i, sums)| sums.store(&format!("fold{i}"), &mut parts));
        let Parts { numbers, facts } = parts;
        let tensors = container::named(numbers);
        let header = StateHeader { about: self.about.clone(), folds: self.sums.len(), sums: facts };
        container::to_bytes(Content::State, &header, &tensors)
    }

    /// Reads the bytes of a state.
    pub fn from_bytes(bytes: &[u8]) -> Result<State> {
        State::opened(bytes).map_err(|problem| Error::model(Path::new("state"), problem))
    }

    /// The same; the error is what is wrong with them.
    fn opened(bytes: &[u8]) -> std::result::Result<State, String> {
        let (StateHeader { about, folds, sums }, tensors) =
            container::open::<StateHeader>(Content::State, bytes)?;
        let damaged = |why: String| container::damage(Content::State, &why);
        let mut parts = Parts { numbers: tensors.matrices().map_err(damaged)?, facts: sums };
        if folds == 0
            || folds > MOST_FOLDS
            || !(about.cancellation >= 1.0 && about.cancellation.is_finite())
        {
            return Err(damaged("its folds or its cancellation are none".into()));
        }
        let d = about.columns.len();
        let ledger = about.ledger.iter().all(|e| e.rows <= MOST_ROWS);
        let shard = about.shard.is_none_or(|shard| shard.is_possible());
        if !ledger || !shard || !about.tally.is_possible(d, MOST_ROWS) {
            return Err(damaged("it counts what cannot be".into()));
        }
        let sums = (0..folds)
            .map(|i| Sums::restore(&format!("fold{i}"), d, &mut parts))
            .collect::<std::result::Result<Vec<_>, _>>();
        let sums = sums.map_err(damaged)?;
        let labelled = sums.iter().all(|s| s.has_labels() == about.labels.is_some());
        if !sums.iter().all(|s| s.fits(&sums[0])) || !labelled {
            return Err(damaged("its sums do not go together".into()));
        }
        Ok(State { about, sums })
    }

    /// Writes a state: temporary file, sync, rename.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        container::save(path.as_ref(), &self.to_bytes()?)
    }

    /// Reads a state.
    pub fn load(path: impl AsRef<Path>) -> Result<State> {
        let path = path.as_ref();
        let bytes = container::read(Content::State, path)?;
        State::opened(&bytes).map_err(|problem| Error::model(path, problem))
    }
}
