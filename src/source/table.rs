//! Data that can be asked before it is read: what columns and rows it has, what reading them costs.
//!
//! Enters: a [`ReadRequest`]. Leaves: a [`Source`] that reads what was requested, as often as
//! wanted, and its [`ReadCost`], which no row is read for. Held: what each kind of table says.
//!
//! | table | rows are | held |
//! |---|---|---|
//! | [`super::Dataset`] | in Parquet files | some hundred bytes a file, and the columns |
//! | [`super::ArrowTable`] | in memory | the record batches it was given |
//! | [`super::ReaderTable`] | whatever a function opens again and again | a record batch |
//!
//! A new kind of input is one more implementation of [`Table`], and nothing else.

use super::block::{Nulls, Precision};
use super::column_choice::ColumnIndex;
use super::content::FileStamp;
use super::features::Features;
use super::id_columns::pandas_index;
use super::labels::LabelRequest;
use super::{Source, UNIT_ROWS};
use crate::budget::Budget;
use crate::error::{Error, Place, Result};
use crate::note::Note;
use arrow_schema::{DataType, SchemaRef};
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;

/// Data that can be asked what it has and what reading it costs, and read again and again.
///
/// ```
/// use eigenstream::{ArrowTable, ReadRequest, Table};
///
/// let table = ArrowTable::from(ndarray::Array2::<f64>::zeros((5, 3)));
/// assert_eq!(table.rows(), 5);
/// assert_eq!(table.columns()[0].kind.describe(), "Float64[3]");
/// let source = table.read(&ReadRequest::default())?;
/// assert_eq!(source.units().len(), 1);
/// # Ok::<(), eigenstream::Error>(())
/// ```
pub trait Table: Sync {
    /// The columns, in their order.
    fn columns(&self) -> &[ColumnInfo];

    /// The same as arrow has them, for columns that are passed through.
    fn schema(&self) -> Result<SchemaRef>;

    /// Rows.
    fn rows(&self) -> u64;

    /// Stored bytes, for progress.
    fn bytes(&self) -> u64;

    /// What messages about the whole table name: its first file, "record batches".
    fn place(&self) -> Place;

    /// How people would say what it is: "4 files, 8 row groups", "record batches".
    fn describe(&self) -> String {
        self.place().file.display().to_string()
    }

    /// The files it is made of, for what remembers where its rows came from; none in memory.
    fn inputs(&self) -> &[InputInfo] {
        &[]
    }

    /// Where later inputs differ from the first.
    fn differences(&self) -> &[Difference] {
        &[]
    }

    /// Columns that are wider in some inputs than in others.
    fn widened(&self) -> &[WidenedColumn] {
        &[]
    }

    /// Columns that are the index of a pandas frame, as the metadata says: no features unless they
    /// are named.
    fn index_columns(&self) -> Vec<String> {
        self.schema().map(|s| pandas_index(&s)).unwrap_or_default()
    }

    /// Columns of integers that number the rows, or look like ids, as far as that is known before
    /// reading.
    fn id_columns(&self) -> Vec<String> {
        Vec::new()
    }

    /// Numbers per row of a vector column whose [`ColumnKind`] does not tell: of its first row that
    /// is not null.
    fn vector_width(&self, column: &str) -> Result<usize>;

    /// A source of what is requested. No row is read yet.
    fn read(&self, request: &ReadRequest) -> Result<Box<dyn Source + '_>>;

    /// What reading takes. No row is read.
    fn cost(&self, request: &ReadRequest) -> Result<ReadCost>;

    /// One source per group of features, which reads only those; `None` where the table cannot
    /// (whether it can does not depend on the groups): its features are then copied first.
    fn by_features<'a>(
        &'a self,
        _request: &ReadRequest,
        _groups: &[Range<usize>],
    ) -> Option<Vec<Box<dyn Source + 'a>>> {
        None
    }

    /// Every input has these columns, once, with the type they have in the first.
    fn check_columns(&self, names: &[&str]) -> Result<()> {
        let names: HashSet<&str> = names.iter().copied().collect();
        ColumnIndex::of(self.columns()).once(self.place(), &names)?;
        let differs = |d: &&Difference| names.contains(d.column.as_str());
        match self.differences().iter().find(differs) {
            None => Ok(()),
            Some(d) => Err(Error::data(self.place_of(d), d.problem.clone())),
        }
    }

    /// Where a difference is.
    fn place_of(&self, difference: &Difference) -> Place {
        let input = self.inputs().get(difference.input);
        let place = input.map_or_else(|| self.place(), |input| Place::file(&input.path));
        place.column(&difference.column)
    }

    /// What a column is.
    fn kind(&self, name: &str) -> Option<&ColumnKind> {
        self.columns().iter().find(|c| c.name == name).map(|c| &c.kind)
    }
}

/// Where a row of all rows of a table is; the table as a whole where rows before it may be missing.
pub(crate) fn place_of(table: &dyn Table, row: usize, whole: bool) -> Place {
    let mut left = row as u64;
    for input in table.inputs().iter().filter(|_| whole) {
        if left < input.rows {
            return Place::file(&input.path).row(left);
        }
        left -= input.rows;
    }
    match whole && table.inputs().is_empty() {
        true => table.place().row(left),
        false => table.place(),
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name; of a field within structs the names on the way to it, joined by dots.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// Where it comes from.
    pub origin: ColumnOrigin,
}

/// Where a column comes from. Only columns proper are features without being named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrigin {
    /// A column of the table.
    Column,
    /// A field within structs.
    StructField,
    /// A directory named `key=value`, as Hive and Spark lay files out.
    PartitionKey,
}

/// What a column can be to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnKind {
    /// One number per row.
    Scalar(DataType),
    /// A fixed number of numbers per row; `None` where metadata cannot tell how many.
    Vector(DataType, Option<usize>),
    /// Anything else: strings, structs, timestamps.
    Other(DataType),
}

impl ColumnKind {
    /// What people read: `Float64`, `Float32[768]`, `Utf8`.
    pub fn describe(&self) -> String {
        match self {
            ColumnKind::Scalar(t) | ColumnKind::Other(t) => t.to_string(),
            ColumnKind::Vector(t, Some(width)) => format!("{t}[{width}]"),
            ColumnKind::Vector(t, None) => format!("{t}[?]"),
        }
    }

    /// The type of its numbers, or its own.
    pub(crate) fn stored(&self) -> &DataType {
        match self {
            ColumnKind::Scalar(t) | ColumnKind::Vector(t, _) | ColumnKind::Other(t) => t,
        }
    }

    /// Of an arrow type; `width` is that of lists, where it is known.
    pub(super) fn of(data_type: &DataType, width: Option<usize>) -> ColumnKind {
        let vector = |item: &DataType, width| match numeric_type(item) {
            Some(value) => ColumnKind::Vector(value, width),
            None => ColumnKind::Other(data_type.clone()),
        };
        match data_type {
            DataType::FixedSizeList(item, n) if *n > 0 => {
                vector(item.data_type(), Some(*n as usize))
            }
            DataType::List(item) | DataType::LargeList(item) => vector(item.data_type(), width),
            other => numeric_type(other)
                .map_or_else(|| ColumnKind::Other(other.clone()), ColumnKind::Scalar),
        }
    }
}

/// The numeric type behind a possible dictionary encoding.
pub(super) fn numeric_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Dictionary(_, value) => numeric_type(value),
        DataType::Boolean => Some(DataType::Boolean),
        t if t.is_numeric() => Some(t.clone()),
        _ => None,
    }
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputInfo {
    /// The path to open.
    pub path: PathBuf,
    /// Its place below the argument that found it.
    pub relative: PathBuf,
    /// Bytes on disk.
    pub size: u64,
    /// Rows in it.
    pub rows: u64,
    /// xxHash64 of the footer's bytes.
    pub footer_hash: u64,
    /// xxHash64 of bytes of the data pages: with the footer's, what its content is known by.
    pub data_hash: u64,
    /// Which file it was when the footer was read.
    pub stamp: FileStamp,
}

/// How a column of one input differs from the first input's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Index among the inputs.
    pub input: usize,
    /// The column.
    pub column: String,
    /// "is missing", "is Float32 here but Float64 in …".
    pub problem: String,
    /// True when this input has a numeric column that the first lacks.
    pub extra_number: bool,
}

/// A column that is not equally wide everywhere: what is read are the same numbers, or texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WidenedColumn {
    /// The column.
    pub column: String,
    /// The types it has, in the order they were met.
    pub types: Vec<String>,
}

impl WidenedColumn {
    /// What is told of them; `fitted` where their first type is that of a model.
    pub(crate) fn note(columns: &[WidenedColumn], fitted: bool) -> Option<Note> {
        let columns = columns.iter().map(|w| (w.column.clone(), w.types.clone()));
        let columns: Vec<_> = columns.collect();
        (!columns.is_empty()).then_some(Note::Widened { columns, fitted })
    }
}

/// Pages that are somewhat larger than the planned ones are no reason to stop: the program's own
/// share of a plan has room for so much.
const PLAN_SLACK: u64 = 2 << 20;

/// What is read of each row.
#[derive(Debug, Clone, Default)]
pub struct ReadRequest {
    /// The features.
    pub features: Features,
    /// The weight column.
    pub weight: Option<String>,
    /// The labels.
    pub labels: Option<LabelRequest>,
    /// Columns passed through; `None` for none, so that no batch is made for them.
    pub keep: Option<Vec<String>>,
    /// The policy for missing values.
    pub nulls: Nulls,
    /// f32 blocks where asked.
    pub precision: Precision,
    /// What to do about a missing value under [`Nulls::Error`], as messages end.
    pub advice: &'static str,
    /// What decoding may hold.
    pub limit: ReadLimit,
}

impl ReadRequest {
    /// The columns that are read, some of them perhaps twice.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let features = self.features.columns.iter().map(|c| c.name.as_str());
        features.chain(self.names_beside())
    }

    /// Those that are read beside the features: a feature among them is decoded once more.
    pub(super) fn names_beside(&self) -> impl Iterator<Item = &str> {
        let labels = self.labels.iter().flat_map(|l| &l.columns).map(String::as_str);
        let kept = self.keep.iter().flatten().map(String::as_str);
        labels.chain(self.weight.as_deref()).chain(kept)
    }

    /// The same of other features.
    pub(super) fn with_features(&self, features: Features) -> ReadRequest {
        // Not `..self.clone()`: there may be 200,000 features, and as many groups as they fill.
        let ReadRequest { weight, labels, keep, nulls, precision, advice, limit, .. } = self;
        let (weight, labels, keep) = (weight.clone(), labels.clone(), keep.clone());
        let (nulls, precision, limit) = (*nulls, *precision, *limit);
        ReadRequest { features, weight, labels, keep, nulls, precision, advice, limit }
    }

    /// The same of a group of features, all of them scalar columns.
    pub(super) fn with_columns(&self, group: Range<usize>) -> ReadRequest {
        self.with_features(Features { columns: self.features.columns[group].to_vec() })
    }

    /// True when every feature is a column of its own.
    pub(super) fn is_scalar(&self) -> bool {
        self.features.columns.iter().all(|c| c.width.is_none())
    }
}

/// What reading takes, beside the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCost {
    /// Bytes that workers share: parsed footers, and one being parsed.
    pub footers: u64,
    /// Bytes of each worker: for each requested column a page as it is stored and as it is decoded,
    /// and the decoder; or a record batch.
    pub columns: u64,
    /// Pieces that workers share out.
    pub units: usize,
    /// Rows of the largest of them.
    pub unit_rows: u64,
    /// Bytes of a row of the columns passed through, about.
    pub kept_row: u64,
    /// Numbers of a row in lists that are passed through, as footers have them.
    pub kept_values: u64,
    /// Numbers that are decoded of a row, where they are more than its features: blocks have as
    /// many rows as suit the larger number.
    pub row_elements: u64,
    /// Bytes of a row as it is decoded, beside the dense one it becomes.
    pub row_bytes: u64,
}

impl Default for ReadCost {
    fn default() -> ReadCost {
        ReadCost {
            footers: 0,
            columns: 0,
            units: 0,
            unit_rows: UNIT_ROWS,
            kept_row: 0,
            kept_values: 0,
            row_elements: 0,
            row_bytes: 0,
        }
    }
}

/// What the pages of a worker may hold: what was planned for them, and its share of what the plan
/// leaves free. A plan knows footers and some page headers; a later page may be any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimit {
    /// Bytes that were planned for each worker.
    pub planned: u64,
    /// Bytes that the plan leaves free.
    pub spare: u64,
    /// Workers.
    pub threads: u64,
    /// Parts that the free bytes are cut into: one for each worker, and for what else grows.
    pub shares: u64,
    /// The memory that was planned for.
    pub budget: u64,
    /// Numbers of a row in kept lists that were planned for ([`ReadCost::kept_values`]).
    pub kept_values: u64,
}

/// None: nothing was planned.
impl Default for ReadLimit {
    fn default() -> ReadLimit {
        let planned = u64::MAX;
        ReadLimit { planned, spare: 0, threads: 1, shares: 1, budget: u64::MAX, kept_values: 0 }
    }
}

impl ReadLimit {
    /// Within a plan of this many bytes, of which `planned` are each worker's pages.
    pub(crate) fn of(budget: &Budget, peak: u64, planned: u64, threads: usize) -> ReadLimit {
        let budget = budget.bytes.0;
        let (spare, threads) = (budget.saturating_sub(peak), threads.max(1) as u64);
        ReadLimit { planned, spare, threads, shares: threads, budget, kept_values: 0 }
    }

    /// Leaves half of what is free to something else.
    pub(crate) fn halved(self) -> ReadLimit {
        ReadLimit { shares: 2 * self.shares, ..self }
    }

    /// Bytes that a worker may hold.
    pub(super) fn bytes(&self) -> u64 {
        self.planned.saturating_add(self.spare / self.shares).saturating_add(PLAN_SLACK)
    }

    /// The memory that a worker which holds this many bytes takes with all others.
    pub(super) fn memory_for(&self, bytes: u64) -> u64 {
        let over = bytes.saturating_sub(self.planned).saturating_mul(self.shares);
        (self.budget - self.spare).saturating_add(over)
    }
}

impl ReadCost {
    /// For `part` of the columns out of `all`.
    pub fn share(&self, part: u64, all: u64) -> ReadCost {
        let share = |whole: u64| (whole as f64 * part as f64 / all.max(1) as f64).ceil() as u64;
        ReadCost {
            columns: share(self.columns),
            row_elements: share(self.row_elements),
            row_bytes: share(self.row_bytes),
            ..*self
        }
    }

    /// Bytes on this many threads.
    pub fn total(&self, threads: usize) -> u64 {
        self.footers.saturating_add(self.columns.saturating_mul(threads as u64))
    }
}
