//! Files → what their footers say: rows, row groups, column types, sizes. No row is read.
//!
//! Each footer is parsed, reduced to a [`FileInfo`] (some hundred bytes) and dropped; the first
//! file's columns are kept as the schema and every other file is compared with it. Which
//! differences matter is decided later, when the columns are chosen.

use super::inputs::Input;
use crate::error::{Error, Place, Result};
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use arrow_schema::DataType;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What a column can be to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One number per row.
    Scalar(DataType),
    /// A fixed number of numbers per row; `None` where the footer cannot tell how many.
    Vector(DataType, Option<usize>),
    /// Anything else: strings, structs, timestamps.
    Other(DataType),
}

impl Kind {
    /// What people read: `Float64`, `Float32[768]`, `Utf8`.
    pub fn describe(&self) -> String {
        match self {
            Kind::Scalar(t) | Kind::Other(t) => t.to_string(),
            Kind::Vector(t, Some(width)) => format!("{t}[{width}]"),
            Kind::Vector(t, None) => format!("{t}[?]"),
        }
    }

    pub(super) fn of(data_type: &DataType, width: Option<usize>) -> Kind {
        match data_type {
            DataType::FixedSizeList(item, n) => match number(item.data_type()) {
                Some(value) => Kind::Vector(value, Some(*n as usize)),
                None => Kind::Other(data_type.clone()),
            },
            DataType::List(item) | DataType::LargeList(item) => match number(item.data_type()) {
                Some(value) => Kind::Vector(value, width),
                None => Kind::Other(data_type.clone()),
            },
            other => number(other).map_or_else(|| Kind::Other(other.clone()), Kind::Scalar),
        }
    }
}

/// The numeric type behind a possible dictionary encoding.
fn number(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Dictionary(_, value) => number(value),
        DataType::Boolean => Some(DataType::Boolean),
        t if t.is_numeric() => Some(t.clone()),
        _ => None,
    }
}

/// A column of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name; root columns only.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// A row group as the footer tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroupInfo {
    /// Rows in it.
    pub rows: u64,
    /// Compressed bytes of all columns.
    pub bytes: u64,
}

/// A file as its footer tells it.
#[derive(Debug, Clone)]
pub struct FileInfo {
    /// The path to open.
    pub path: PathBuf,
    /// Its place below the argument that found it.
    pub relative: PathBuf,
    /// Bytes on disk.
    pub size: u64,
    /// Rows in all row groups.
    pub rows: u64,
    /// xxHash64 of the footer's bytes.
    pub footer_hash: u64,
    /// The row groups.
    pub row_groups: Vec<RowGroupInfo>,
}

/// How a column of one file differs from the first file's.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Index of the file.
    pub file: usize,
    /// The column.
    pub column: String,
    /// "is missing", "is Float32 here but Float64 in …".
    pub problem: String,
    /// True when this file has a numeric column that the first lacks.
    pub extra_number: bool,
}

/// All files and the schema they share.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// In reading order.
    pub files: Vec<FileInfo>,
    /// Columns of the first file, in its order.
    pub columns: Vec<ColumnInfo>,
    /// Where other files differ from it.
    pub differences: Vec<Difference>,
}

impl Dataset {
    /// Reads the footer of every input.
    pub fn open(inputs: &[Input]) -> Result<Dataset> {
        let mut dataset = Dataset {
            files: Vec::with_capacity(inputs.len()),
            columns: Vec::new(),
            differences: Vec::new(),
        };
        let mut by_name: HashMap<String, Kind> = HashMap::new();
        for (index, input) in inputs.iter().enumerate() {
            let footer = Footer::read(&input.path)?;
            let columns = footer.columns(&input.path)?;
            dataset.files.push(footer.info(input)?);
            if index == 0 {
                by_name = columns.iter().map(|c| (c.name.clone(), c.kind.clone())).collect();
                dataset.columns = columns;
            } else {
                dataset.compare(index, &columns, &mut by_name);
            }
        }
        Ok(dataset)
    }

    /// Rows of all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|f| f.rows).sum()
    }

    /// Bytes on disk of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Refuses an output that would replace an input, or that a later reading of the same directory would find.
    pub fn refuse_output(&self, data: &[String], out: &Path) -> Result<()> {
        let full = |path: &Path| std::fs::canonicalize(path).ok();
        if let Some(out) = full(out)
            && let Some(input) = self
                .files
                .iter()
                .find(|f| full(&f.path).is_some_and(|p| p == out || p.starts_with(&out)))
        {
            return Err(Error::Misuse(format!(
                "the output would replace the input {}; choose another -o",
                input.path.display()
            )));
        }
        let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inside = |dir: &&String| {
            Path::new(dir).is_dir()
                && full(parent)
                    .is_some_and(|p| full(Path::new(dir)).is_some_and(|d| p.starts_with(d)))
        };
        match data.iter().find(inside) {
            Some(dir) => Err(Error::Misuse(format!(
                "{} is inside the input directory {dir}, whose next reading would find it; choose another -o",
                out.display()
            ))),
            None => Ok(()),
        }
    }

    /// The first file's path, for messages about its columns.
    pub fn first_path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |f| &f.path)
    }

    fn compare(
        &mut self,
        file: usize,
        columns: &[ColumnInfo],
        by_name: &mut HashMap<String, Kind>,
    ) {
        let first = self.first_path().display().to_string();
        let mut seen = 0;
        let mut note = |column: &str, problem: String, extra_number: bool| {
            self.differences.push(Difference {
                file,
                column: column.into(),
                problem,
                extra_number,
            });
        };
        for column in columns {
            match by_name.get_mut(&column.name) {
                None => note(
                    &column.name,
                    format!("is not in {first}"),
                    !matches!(column.kind, Kind::Other(_)),
                ),
                Some(known) => {
                    seen += 1;
                    if !reconcile(known, &column.kind) {
                        note(
                            &column.name,
                            format!(
                                "is {} here but {} in {first}; give it one type, or leave it out",
                                column.kind.describe(),
                                known.describe()
                            ),
                            false,
                        );
                    }
                }
            }
        }
        if seen < by_name.len() {
            let here: std::collections::HashSet<&str> =
                columns.iter().map(|c| c.name.as_str()).collect();
            for column in self.columns.iter().filter(|c| !here.contains(c.name.as_str())) {
                self.differences.push(Difference {
                    file,
                    column: column.name.clone(),
                    problem: format!("is missing here but is in {first}; add it, or leave it out"),
                    extra_number: false,
                });
            }
        }
        // A width that only a later file could tell.
        for column in &mut self.columns {
            if matches!(column.kind, Kind::Vector(_, None)) {
                column.kind = by_name[&column.name].clone();
            }
        }
    }
}

/// True when the two kinds agree; a vector width that one footer could not tell is taken from the other.
fn reconcile(known: &mut Kind, here: &Kind) -> bool {
    match (&mut *known, here) {
        (Kind::Vector(a, width), Kind::Vector(b, other)) if a == b => match (*width, *other) {
            (Some(x), Some(y)) => x == y,
            (None, found) => {
                *width = found;
                true
            }
            (Some(_), None) => true,
        },
        (a, b) => *a == *b,
    }
}

/// A parsed footer; cheap to clone.
#[derive(Clone)]
pub struct Footer {
    /// What arrow needs to build readers.
    pub arrow: ArrowReaderMetadata,
    /// Bytes on disk.
    pub size: u64,
    /// xxHash64 of its bytes.
    pub hash: u64,
    /// Made when first asked for.
    roots: Arc<OnceLock<Roots>>,
}

/// The root columns of a file.
pub struct Roots {
    by_name: HashMap<String, usize>,
    /// For each, the index of its first leaf.
    pub leaves: Vec<usize>,
}

impl Roots {
    /// The position of a column.
    pub fn find(&self, name: &str, path: &Path) -> Result<usize> {
        let known = self.by_name.get(name).copied();
        known.ok_or_else(|| {
            super::columns::unknown(path, name, self.by_name.keys().map(String::as_str))
        })
    }
}

impl Footer {
    /// Opens a file and reads its footer.
    pub fn read(path: &Path) -> Result<Footer> {
        // Opening a pipe would wait for somebody to write to it.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let problem =
                "is not a regular file; Parquet is read from its end, so copy it to one first";
            return Err(Error::data(Place::file(path), problem));
        }
        let file = File::open(path).map_err(Error::io("open", path))?;
        Footer::of(&file, path)
    }

    /// Reads the footer of an open file.
    pub fn of(file: &File, path: &Path) -> Result<Footer> {
        let (bytes, size) = footer_bytes(file, path)?;
        let hash = twox_hash::XxHash64::oneshot(0, &bytes);
        let options = ArrowReaderOptions::new()
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let arrow = guarded(path, None, "its footer cannot be read", || {
            let metadata: ParquetMetaData = ParquetMetaDataReader::decode_metadata(&bytes)?;
            ArrowReaderMetadata::try_new(Arc::new(metadata), options)
        })?;
        Ok(Footer { arrow, size, hash, roots: Arc::default() })
    }

    /// Bytes it takes once parsed.
    pub fn size_in_memory(&self) -> u64 {
        self.arrow.metadata().memory_size() as u64
    }

    /// The root columns with the widths of vector columns.
    pub fn columns(&self, path: &Path) -> Result<Vec<ColumnInfo>> {
        let leaves = self.first_leaves();
        let mut columns = Vec::with_capacity(leaves.len());
        for (root, field) in self.arrow.schema().fields().iter().enumerate() {
            let width = match field.data_type() {
                DataType::List(_) | DataType::LargeList(_) => self.list_width(leaves[root]),
                _ => None,
            };
            columns.push(ColumnInfo {
                name: field.name().clone(),
                kind: Kind::of(field.data_type(), width),
            });
        }
        if columns.is_empty() {
            return Err(Error::data(Place::file(path), "has no columns"));
        }
        Ok(columns)
    }

    /// The root columns by name: made once for all readers of the file, since a file may have 200,000.
    pub(crate) fn roots(&self) -> &Roots {
        self.roots.get_or_init(|| {
            let fields = self.arrow.schema().fields().iter().enumerate();
            Roots {
                by_name: fields.map(|(i, f)| (f.name().clone(), i)).collect(),
                leaves: self.first_leaves(),
            }
        })
    }

    /// For each root column, the index of its first leaf.
    fn first_leaves(&self) -> Vec<usize> {
        let schema = self.arrow.parquet_schema();
        let mut first = vec![0; schema.root_schema().get_fields().len()];
        for leaf in (0..schema.num_columns()).rev() {
            first[schema.get_column_root_idx(leaf)] = leaf;
        }
        first
    }

    /// Values per row, where every row group that has rows agrees on a whole number.
    ///
    /// A list column of constant length w without null rows stores exactly rows × w values.
    fn list_width(&self, leaf: usize) -> Option<usize> {
        let mut width = None;
        for group in self.arrow.metadata().row_groups() {
            let (rows, values) = (group.num_rows(), group.column(leaf).num_values());
            if rows <= 0 {
                continue;
            }
            if values % rows != 0 || width.is_some_and(|w| w != values / rows) {
                return None;
            }
            width = Some(values / rows);
        }
        width.map(|w| w as usize)
    }

    fn info(&self, input: &Input) -> Result<FileInfo> {
        let metadata = self.arrow.metadata();
        let mut row_groups = Vec::with_capacity(metadata.num_row_groups());
        for group in metadata.row_groups() {
            let rows = group.num_rows();
            if rows < 0 || rows > i64::from(u32::MAX) * 64 {
                let place = Place::file(&input.path).row_group(row_groups.len());
                return Err(Error::data(
                    place,
                    format!("says it has {rows} rows; the footer is damaged"),
                ));
            }
            row_groups.push(RowGroupInfo {
                rows: rows as u64,
                bytes: group.compressed_size().max(0) as u64,
            });
        }
        let rows: u64 = row_groups.iter().map(|g| g.rows).sum();
        let claimed = metadata.file_metadata().num_rows();
        if claimed != rows as i64 {
            let problem = format!(
                "says it has {claimed} rows but its row groups have {rows}; the footer is damaged"
            );
            return Err(Error::data(Place::file(&input.path), problem));
        }
        Ok(FileInfo {
            path: input.path.clone(),
            relative: input.relative.clone(),
            size: self.size,
            rows,
            footer_hash: self.hash,
            row_groups,
        })
    }
}

/// The bytes between the last row group and the closing magic, and the file's size.
fn footer_bytes(file: &File, path: &Path) -> Result<(Vec<u8>, u64)> {
    let damaged = |problem: &str| Error::Parquet {
        place: Box::new(Place::file(path)),
        problem: problem.into(),
        source: None,
    };
    let meta = file.metadata().map_err(Error::io("read", path))?;
    if !meta.is_file() {
        return Err(damaged(
            "is not a regular file; rows are read twice, so a pipe or device cannot be used",
        ));
    }
    let size = meta.len();
    if size < 12 {
        return Err(damaged(&format!(
            "is not a Parquet file: it has only {size} bytes; it may be cut short"
        )));
    }
    let mut tail = [0u8; 8];
    file.read_exact_at(&mut tail, size - 8).map_err(Error::io("read", path))?;
    match &tail[4..] {
        b"PAR1" => {}
        b"PARE" => {
            return Err(damaged(
                "is an encrypted Parquet file, which is not supported; decrypt it first",
            ));
        }
        _ => {
            return Err(damaged(
                "is not a Parquet file (it does not end with PAR1); it may be cut short or of another format",
            ));
        }
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length + 8 > size {
        return Err(damaged(&format!(
            "its footer says it is {length} bytes long, but the file has {size}; it is damaged"
        )));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, size - 8 - length).map_err(Error::io("read", path))?;
    Ok((bytes, size))
}

/// Runs a piece of the Parquet decoder. Its errors get a place, and so do its panics: a decoder that
/// trips over damaged bytes must not take the program down.
pub(crate) fn guarded<T>(
    path: &Path,
    row_group: Option<usize>,
    problem: &str,
    work: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> Result<T> {
    let place = || Box::new(Place { file: path.to_path_buf(), row_group, ..Place::default() });
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(Error::Parquet {
            place: place(),
            problem: format!("{problem}: {source}"),
            source: Some(Box::new(source)),
        }),
        Err(_) => Err(Error::Parquet {
            place: place(),
            problem: format!("{problem}: the decoder gave up on damaged bytes"),
            source: None,
        }),
    }
}
