//! Parquet files as a [`Table`]: what their footers say. No row is read.
//!
//! Each footer is parsed, reduced to an [`InputInfo`] and its row groups (some hundred bytes) and
//! dropped; the first file's columns are kept as the schema, as wide as every other file has them
//! ([`SchemaMerge`]). Which differences matter is decided later, when the columns are chosen. The
//! directories of the files may add columns of their own ([`PartitionKeys`]).

use super::content::FileStamp;
use super::footer::{Footer, RowGroupInfo};
use super::id_columns::{FooterIds, pandas_index};
use super::inputs::{self, Input};
use super::parquet::{FOOTERS_KEPT, ParquetSource, first_width};
use super::partitions::PartitionKeys;
use super::schema_merge::{SchemaMerge, WiderFields, missing_here};
use super::table::{ColumnInfo, ColumnKind, ColumnOrigin, Difference, InputInfo, ReadCost};
use super::table::{ReadLimit, ReadRequest, Table, WidenedColumn};
use super::{Source, read_cost};
use crate::budget::{Budget, PROGRAM_BYTES};
use crate::error::{Error, Place, Result};
use crate::words::count;
use arrow_schema::{Schema, SchemaRef};
use std::collections::HashSet;
use std::ffi::OsStr;
#[cfg(feature = "cli")]
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// All files and the schema they share.
///
/// ```
/// use eigenstream::{Dataset, Fit, ParquetOutput, Quiet, Reconstruct, Table};
///
/// // A file, from a table in memory by way of a model that keeps all of it.
/// let dir = tempfile::tempdir().unwrap();
/// let rows = ndarray::array![[1.0, 5.0], [2.0, 7.0], [4.0, 6.0]];
/// let memory = eigenstream::ArrowTable::from(rows);
/// let model = Fit::pca().plan(&memory)?.run(&Quiet)?;
/// let file = dir.path().join("rows.parquet");
/// let output = ParquetOutput::new(&file);
/// Reconstruct::default().plan(&model, &memory)?.write_parquet(&output, &Quiet)?;
///
/// let data = Dataset::from_paths(&[file.to_str().unwrap()])?;
/// assert_eq!((data.rows(), data.columns()[0].name.as_str()), (3, "x"));
/// # Ok::<(), eigenstream::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset {
    /// In reading order.
    pub(crate) files: Vec<InputInfo>,
    /// The row groups of each.
    pub(crate) row_groups: Vec<Vec<RowGroupInfo>>,
    /// Columns of the first file, in its order.
    pub(crate) columns: Vec<ColumnInfo>,
    /// What directories say of the rows of their files; columns behind those.
    pub(super) keys: Arc<PartitionKeys>,
    /// Where other files differ from it.
    pub(crate) differences: Vec<Difference>,
    /// Columns that are not equally wide in all of them.
    widened: Vec<WidenedColumn>,
    wider: WiderFields,
    /// Columns that are the index of a pandas frame in any of them.
    pub(crate) index_columns: Vec<String>,
    /// Columns that number the rows.
    pub(crate) id_columns: Vec<String>,
    /// The memory that it was opened with.
    memory: u64,
}

impl Dataset {
    /// Files, globs and directories as people write them.
    pub fn from_paths<P: AsRef<OsStr>>(data: &[P]) -> Result<Dataset> {
        Dataset::from_paths_within(data, &Budget::new(None))
    }

    /// The same; a footer that does not fit this memory is refused.
    pub fn from_paths_within<P: AsRef<OsStr>>(data: &[P], budget: &Budget) -> Result<Dataset> {
        Dataset::open(&inputs::expand(data)?, budget)
    }

    /// Some of its files, opened again.
    #[cfg(feature = "cli")]
    pub(crate) fn only(&self, files: &[usize], budget: &Budget) -> Result<Dataset> {
        let input =
            |file: &InputInfo| Input { path: file.path.clone(), relative: file.relative.clone() };
        let files: Vec<Input> = files.iter().map(|at| input(&self.files[*at])).collect();
        Dataset::open(&files, budget)
    }

    /// Reads the footer of every input.
    pub(crate) fn open(inputs: &[Input], budget: &Budget) -> Result<Dataset> {
        let mut dataset = Dataset {
            files: Vec::with_capacity(inputs.len()),
            row_groups: Vec::with_capacity(inputs.len()),
            columns: Vec::new(),
            keys: Arc::default(),
            differences: Vec::new(),
            widened: Vec::new(),
            wider: WiderFields::default(),
            index_columns: Vec::new(),
            id_columns: Vec::new(),
            memory: budget.bytes.0,
        };
        let mut ids = FooterIds::default();
        let mut merge = SchemaMerge::default();
        for (index, input) in inputs.iter().enumerate() {
            let (file, footer) = Footer::open(&input.path, budget.bytes.0)?;
            let columns = footer.columns(&input.path)?;
            let (info, row_groups) = footer.info(&file, input)?;
            ids.add(&footer, &columns);
            dataset.add_index(pandas_index(footer.arrow.schema()));
            dataset.files.push(info);
            dataset.row_groups.push(row_groups);
            let fields = footer.arrow.schema().fields();
            if index == 0 {
                merge = SchemaMerge::new(input.path.display().to_string(), fields, columns);
            } else {
                merge.add(index, fields, &columns, &dataset.index_columns);
            }
        }
        let SchemaMerge { columns, differences, widened, wider, .. } = merge;
        dataset.columns = columns;
        dataset.differences = differences;
        (dataset.widened, dataset.wider) = (widened, wider);
        dataset.add_keys();
        dataset.id_columns = ids.finish(dataset.rows());
        Ok(dataset)
    }

    /// Adds what the directories of the files say; their own columns go first.
    fn add_keys(&mut self) {
        let mut keys = PartitionKeys::of(self.files.iter().map(|f| f.path.as_path()));
        let own: HashSet<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        keys.retain(|name| !own.contains(name));
        let first = self.first_path().display().to_string();
        let missing = keys.missing().map(|(key, input)| missing_here(input, key, &first));
        self.differences.extend(missing);
        self.columns.extend(keys.fields().map(|field| ColumnInfo {
            name: field.name().clone(),
            kind: ColumnKind::of(field.data_type(), None),
            origin: ColumnOrigin::PartitionKey,
        }));
        self.keys = Arc::new(keys);
    }

    fn add_index(&mut self, names: Vec<String>) {
        for name in names {
            if !self.index_columns.contains(&name) {
                self.index_columns.push(name);
            }
        }
    }

    /// What may be decoded before there is a plan.
    pub(super) fn limit(&self) -> ReadLimit {
        let (planned, spare) = (0, self.memory.saturating_sub(PROGRAM_BYTES));
        let budget = self.memory;
        ReadLimit { planned, spare, threads: 1, shares: 1, budget, kept_values: 0 }
    }

    /// Rows of all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|f| f.rows).sum()
    }

    /// Bytes on disk of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Row groups of all files.
    pub(crate) fn n_row_groups(&self) -> usize {
        self.row_groups.iter().map(Vec::len).sum()
    }

    /// The first file's path, for messages about its columns.
    pub(crate) fn first_path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |f| &f.path)
    }

    /// Refuses an output that would replace an input, or that a later reading of the same directory
    /// would find.
    #[cfg(feature = "cli")]
    pub(crate) fn refuse_output(&self, data: &[OsString], out: &Path) -> Result<()> {
        refuse_replacing(&self.files, out)?;
        let full = |path: &Path| std::fs::canonicalize(path).ok();
        let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Directories that are yet to be made are in the first one that is there.
        let parent = parent.ancestors().find_map(|dir| match dir.as_os_str().is_empty() {
            true => full(Path::new(".")),
            false => full(dir),
        });
        let inside = |dir: &&Path| {
            let within = |p: &Path| full(dir).is_some_and(|d| p.starts_with(d));
            dir.is_dir() && parent.as_deref().is_some_and(within)
        };
        match data.iter().map(Path::new).find(inside) {
            Some(dir) => Error::misuse(format!(
                "{} is inside the input directory {}, whose next reading would find it; choose \
                 another ⟦output⟧",
                out.display(),
                dir.display()
            )),
            None => Ok(()),
        }
    }
}

/// Refuses an output that would replace an input.
pub(crate) fn refuse_replacing(inputs: &[InputInfo], out: &Path) -> Result<()> {
    let Ok(there) = std::fs::metadata(out).map(|found| FileStamp::of(&found)) else {
        return Ok(());
    };
    let full = |path: &Path| std::fs::canonicalize(path).ok();
    let Some(out) = full(out) else { return Ok(()) };
    let replaced = |f: &&InputInfo| {
        // By any name of it, or as a part of what is there.
        f.stamp.is_same_file(&there) || full(&f.path).is_some_and(|p| p.starts_with(&out))
    };
    match inputs.iter().find(replaced) {
        None => Ok(()),
        Some(input) => Error::misuse(format!(
            "the output would replace the input {}; choose another ⟦output⟧",
            input.path.display()
        )),
    }
}

impl Table for Dataset {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn schema(&self) -> Result<SchemaRef> {
        let first = Footer::read(self.first_path())?;
        let schema = self.wider.apply(first.arrow.schema());
        let keys = self.keys.fields().map(Arc::new);
        let fields: Vec<_> = schema.fields().iter().cloned().chain(keys).collect();
        Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }

    fn widened(&self) -> &[WidenedColumn] {
        &self.widened
    }

    fn rows(&self) -> u64 {
        Dataset::rows(self)
    }

    fn bytes(&self) -> u64 {
        Dataset::bytes(self)
    }

    fn place(&self) -> Place {
        Place::file(self.first_path())
    }

    fn describe(&self) -> String {
        let (files, groups) = (self.files.len() as u64, self.n_row_groups() as u64);
        format!("{}, {}", count(files, "file"), count(groups, "row group"))
    }

    fn inputs(&self) -> &[InputInfo] {
        &self.files
    }

    fn differences(&self) -> &[Difference] {
        &self.differences
    }

    fn index_columns(&self) -> Vec<String> {
        self.index_columns.clone()
    }

    fn id_columns(&self) -> Vec<String> {
        self.id_columns.clone()
    }

    fn vector_width(&self, column: &str) -> Result<usize> {
        first_width(self, column)
    }

    fn read(&self, request: &ReadRequest) -> Result<Box<dyn Source + '_>> {
        Ok(Box::new(ParquetSource::new(self, request.clone())))
    }

    fn cost(&self, request: &ReadRequest) -> Result<ReadCost> {
        read_cost::of_dataset(self, request)
    }

    /// Scalar columns are read in place, a group of column chunks at a time, where footers of all
    /// files are kept: that is what Parquet is good at.
    fn by_features<'a>(
        &'a self,
        request: &ReadRequest,
        groups: &[Range<usize>],
    ) -> Option<Vec<Box<dyn Source + 'a>>> {
        if !request.is_scalar() || self.files.len() > FOOTERS_KEPT {
            return None;
        }
        let all = ParquetSource::new(self, request.with_columns(0..0));
        let narrow = |group: &Range<usize>| -> Box<dyn Source> {
            Box::new(all.with_request(request.with_columns(group.clone())))
        };
        Some(groups.iter().map(narrow).collect())
    }
}
