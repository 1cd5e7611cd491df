//! Sufficient statistics on disk: one scan, many models.
//!
//! ```text
//! files ─► scan ─► State ─┬► merge, subtract, update ─► State
//!                         └► solve ─► Model                      pca, spca, scored; any columns; no file is read
//! ```
//!
//! A state holds its sums as they stand between two row groups, to the last bit, so that going on from it gives the
//! bytes of going on without stopping; and a ledger of its inputs, so that nothing is counted twice or taken out
//! that was never in. Its file is the container of models ([`crate::model::container`]), with the sums as tensors.
//!
//! Another engine can hold one:
//!
//! ```
//! use arrow_array::{Float64Array, RecordBatch};
//! use eigenstream::state::{Solve, State};
//! use std::sync::Arc;
//!
//! let column = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as arrow_array::ArrayRef;
//! let rows = RecordBatch::try_from_iter([("a", column(vec![1.0, 2.0, 4.0])), ("b", column(vec![2.0, 3.9, 8.1]))])?;
//! let mut state = State::of_columns(&rows.schema(), &[])?;
//! state.update(&rows)?;
//! let mut other = State::from_bytes(&state.to_bytes()?).map_err(std::io::Error::other)?;
//! other.update(&rows)?;
//! assert_eq!((state.rows(), other.rows()), (3, 6));
//! let model = other.solve(&Solve::default(), &|_| {})?;
//! assert_eq!(model.n_components(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod ask;
pub mod folds;
mod solve;

pub use solve::{Select, Solve};

use crate::accumulate::{Accumulate, MOST_ROWS, Parts, Stored, Sums, SumsKind};
use crate::error::{Error, Place, Result};
use crate::model::InputEntry;
use crate::model::container::{self, Content};
use crate::source::block::Precision;
use crate::source::labels::ClassValue;
use crate::source::{Features, LabelRead, Nulls, Tally};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Digits that may be lost by subtraction before no model is made.
const REFUSE_FROM_DIGITS: f64 = 14.0;

/// Digits that may be lost by subtraction before a model says so as a warning.
pub const WARN_FROM_DIGITS: f64 = 6.0;

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
    pub tally: StateTally,
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
    /// How far a scan has come that is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
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
pub struct Progress {
    /// Units of row groups that are added.
    pub units: usize,
    /// Of so many.
    pub of: usize,
}

/// A tally on disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StateTally {
    /// Rows read.
    pub rows: u64,
    /// Rows dropped.
    pub dropped: u64,
    /// Rows without a label.
    pub unlabelled: u64,
    /// Missing cells by feature.
    pub missing: Vec<(u32, u64)>,
    /// Rounded numbers by feature.
    pub rounded: Vec<(u32, u64)>,
}

impl From<Tally> for StateTally {
    fn from(t: Tally) -> StateTally {
        let list = |counts: BTreeMap<u32, u64>| counts.into_iter().collect();
        let (missing, rounded) = (list(t.missing), list(t.rounded));
        StateTally { rows: t.rows, dropped: t.dropped, unlabelled: t.unlabelled, missing, rounded }
    }
}

impl From<StateTally> for Tally {
    fn from(t: StateTally) -> Tally {
        let map = |counts: Vec<(u32, u64)>| counts.into_iter().collect();
        let (missing, rounded) = (map(t.missing), map(t.rounded));
        Tally { rows: t.rows, dropped: t.dropped, unlabelled: t.unlabelled, missing, rounded }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Header {
    #[serde(flatten)]
    about: About,
    folds: usize,
    sums: BTreeMap<String, serde_json::Value>,
}

impl State {
    /// Sums of what `about` says.
    pub fn new(about: About, sums: Vec<Sums>) -> State {
        State { about, sums }
    }

    /// An empty state for the numeric columns of a schema, or those named, for rows held elsewhere.
    pub fn of_columns(schema: &Schema, columns: &[&str]) -> Result<State> {
        let features = Features::of_schema(schema, columns)?;
        let about = About {
            columns: features,
            labels: None,
            nulls: Nulls::Error,
            weight: None,
            precision: Precision::Exact,
            tally: StateTally::default(),
            ledger: Vec::new(),
            cancellation: 1.0,
            group: None,
            fold_seed: None,
            progress: None,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let features = about.columns.len();
        let kind = SumsKind {
            features,
            covariance: true,
            nulls: Nulls::Error,
            labels: None,
            threads: 1,
            around: None,
        };
        Ok(State { about, sums: vec![Sums::new(&kind)] })
    }

    /// Adds rows that another engine holds; the columns are found by name.
    pub fn update(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut block = crate::source::block_of(&self.about.columns, rows)?;
        let tally = std::mem::take(&mut block.tally);
        let mut all: Tally = std::mem::take(&mut self.about.tally).into();
        all.add(tally);
        self.about.tally = all.into();
        self.sums[0].update(block);
        self.sums[0].check()
    }

    /// Rows that were read.
    pub fn rows(&self) -> u64 {
        self.about.tally.rows
    }

    /// Folds; 1 without.
    pub fn folds(&self) -> &[Sums] {
        &self.sums
    }

    /// The sums of all folds, in their order.
    pub fn whole(&self) -> Sums {
        let mut whole = self.sums[0].clone();
        self.sums[1..].iter().for_each(|more| whole.merge(more.clone()));
        whole
    }

    /// Adds a state of other rows.
    pub fn merge(&mut self, other: State) -> Result<()> {
        self.agrees(&other.about, &other.sums)?;
        self.admit(&other.about.ledger)?;
        self.about.ledger.extend(other.about.ledger);
        let mut tally: Tally = std::mem::take(&mut self.about.tally).into();
        tally.add(other.about.tally.into());
        self.about.tally = tally.into();
        self.about.cancellation = self.about.cancellation.max(other.about.cancellation);
        self.sums.iter_mut().zip(other.sums).for_each(|(a, b)| a.merge(b));
        Ok(())
    }

    /// Takes a state out that was added.
    pub fn subtract(&mut self, part: State) -> Result<()> {
        self.agrees(&part.about, &part.sums)?;
        for entry in &part.about.ledger {
            let Some(at) = self.about.ledger.iter().position(|e| e.is_same(entry)) else {
                let problem = match self.about.ledger.iter().find(|e| e.path == entry.path) {
                    Some(_) => "is in the state with other content; it cannot be taken out",
                    None => "was never added to the state, so it cannot be taken out",
                };
                return Err(Error::data(Place::file(&entry.path), problem));
            };
            self.about.ledger.remove(at);
        }
        let before = self.whole().spread();
        self.sums.iter_mut().zip(part.sums).for_each(|(a, b)| a.subtract(b));
        let after = self.whole().spread();
        let ratio =
            |(b, a): (&f64, &f64)| if *b <= 0.0 { 1.0 } else { b / a.max(b * f64::EPSILON) };
        // Of a feature that no longer varies nothing can be said, and of no rows nothing needs to be.
        let lost = before.iter().zip(&after).map(ratio).fold(1.0, f64::max);
        let (all, gone) = (&mut self.about.tally, part.about.tally);
        (all.rows, all.dropped) =
            (all.rows.saturating_sub(gone.rows), all.dropped.saturating_sub(gone.dropped));
        all.unlabelled = all.unlabelled.saturating_sub(gone.unlabelled);
        for (counts, less) in [(&mut all.missing, gone.missing), (&mut all.rounded, gone.rounded)] {
            for (feature, count) in less {
                if let Some((_, c)) = counts.iter_mut().find(|(f, _)| *f == feature) {
                    *c = c.saturating_sub(count);
                }
            }
            counts.retain(|(_, c)| *c > 0);
        }
        if self.about.tally.rows > 0 {
            self.about.cancellation =
                self.about.cancellation.max(part.about.cancellation).max(lost);
        }
        Ok(())
    }

    /// Refuses inputs that are in the ledger, or whose name is there with other content.
    pub fn admit(&self, entries: &[InputEntry]) -> Result<()> {
        let ledger = self.ledger();
        let known = entries.iter().find_map(|entry| Some((entry, ledger.known(entry)?)));
        match known {
            None => Ok(()),
            Some((entry, Known::Same(path))) => {
                let under = if path == entry.path { String::new() } else { format!(" as {path}") };
                let problem =
                    format!("is in the state already{under}; ⟦skip-known⟧ passes it over");
                Err(Error::data(Place::file(&entry.path), problem))
            }
            Some((entry, Known::Changed)) => {
                let problem = "has changed since it was added to the state; take the old one out with subtract, or scan again";
                Err(Error::data(Place::file(&entry.path), problem))
            }
        }
    }

    /// Its inputs, to look some up.
    pub fn ledger(&self) -> Ledger<'_> {
        let mut ledger = Ledger::default();
        self.about.ledger.iter().for_each(|entry| ledger.add(entry));
        ledger
    }

    /// Refuses a state of other columns or options.
    pub fn agrees(&self, other: &About, sums: &[Sums]) -> Result<()> {
        let mine = &self.about;
        let differ = |what: &str| {
            Err(Error::Misuse(format!(
                "the states have different {what}, so they cannot go together"
            )))
        };
        if mine.progress.is_some() || other.progress.is_some() {
            return Err(Error::Misuse(
                "one of them is the checkpoint of a scan that is not done; finish the scan first"
                    .into(),
            ));
        }
        if mine.columns != other.columns {
            let theirs: std::collections::HashSet<String> = other.columns.names().collect();
            let own: std::collections::HashSet<String> = mine.columns.names().collect();
            let odd = mine
                .columns
                .names()
                .find(|n| !theirs.contains(n))
                .or(other.columns.names().find(|n| !own.contains(n)));
            let odd = odd.map_or_else(
                || " or types".to_string(),
                |n| format!(" ('{n}' is in one of them only)"),
            );
            return differ(&format!("features{odd}"));
        }
        match () {
            () if mine.labels != other.labels => differ("labels"),
            () if mine.nulls != other.nulls => differ("⟦nulls⟧"),
            () if mine.weight != other.weight => differ("weights"),
            () if mine.precision != other.precision => differ("⟦precision⟧"),
            () if mine.group != other.group => differ("groups"),
            () if sums.len() != self.sums.len() || mine.fold_seed != other.fold_seed => {
                differ("folds")
            }
            () if !sums.iter().all(|s| s.fits(&self.sums[0])) => differ("statistics (⟦for⟧)"),
            () => Ok(()),
        }
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
        let tensors = container::named(&parts);
        let header =
            Header { about: self.about.clone(), folds: self.sums.len(), sums: parts.facts };
        container::to_bytes(Content::State, &header, &tensors)
    }

    /// Reads the bytes of a state; the error is what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<State, String> {
        let (Header { about, folds, sums }, tensors) =
            container::open::<Header>(Content::State, bytes)?;
        let damaged = |why: String| container::damage(Content::State, &why);
        let mut parts = Parts { numbers: tensors.matrices().map_err(damaged)?, facts: sums };
        if folds == 0
            || folds > folds::MOST
            || !(about.cancellation >= 1.0 && about.cancellation.is_finite())
        {
            return Err(damaged("its folds or its cancellation are none".into()));
        }
        let d = about.columns.len();
        let tally = &about.tally;
        let counts = [tally.rows, tally.dropped, tally.unlabelled].into_iter();
        let mut counts = counts
            .chain(tally.missing.iter().chain(&tally.rounded).map(|(_, n)| *n))
            .chain(about.ledger.iter().map(|e| e.rows));
        let mut places =
            tally.missing.iter().chain(&tally.rounded).map(|(feature, _)| *feature as usize);
        if counts.any(|n| n > MOST_ROWS) || places.any(|feature| feature >= d) {
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
    pub fn save(&self, path: &Path) -> Result<()> {
        container::save(path, &self.to_bytes()?)
    }

    /// Reads a state.
    pub fn load(path: &Path) -> Result<State> {
        let bytes = std::fs::read(path).map_err(Error::io("open", path))?;
        State::from_bytes(&bytes).map_err(|problem| Error::model(path, problem))
    }

    /// Takes the sums out, to go on with.
    pub fn into_sums(self) -> (About, Vec<Sums>) {
        (self.about, self.sums)
    }
}

/// Inputs by content and by name: looking up ten thousand files takes no longer than reading their footers.
#[derive(Debug, Default)]
pub struct Ledger<'a> {
    by_content: HashMap<(u64, u64, &'a str), &'a InputEntry>,
    by_path: HashMap<&'a str, &'a InputEntry>,
}

impl<'a> Ledger<'a> {
    /// Adds an input.
    pub fn add(&mut self, entry: &'a InputEntry) {
        self.by_content.entry((entry.size, entry.rows, &entry.footer_hash)).or_insert(entry);
        self.by_path.entry(&entry.path).or_insert(entry);
    }

    /// What is known of an input.
    pub fn known(&self, entry: &InputEntry) -> Option<Known> {
        let named = self.by_path.get(entry.path.as_str());
        let content = self.by_content.get(&(entry.size, entry.rows, entry.footer_hash.as_str()));
        let same = [named, content].into_iter().flatten().find(|e| e.is_same(entry));
        match same {
            Some(e) => Some(Known::Same(e.path.clone())),
            None => named.map(|_| Known::Changed),
        }
    }
}

/// What a ledger knows of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It is there, under this name.
    Same(String),
    /// Its name is there, with other content.
    Changed,
}
