//! A file → what its footer says: rows, row groups, column types, sizes. No row is read.
//!
//! Held: a parsed footer, some hundred bytes per column and row group, until its users drop it.

use super::content::{FileStamp, data_hash};
use super::inputs::{Input, conversion, foreign_format};
use super::nested::{NestedField, nested_fields};
pub(crate) use super::table::ColumnKind;
use super::table::{ColumnInfo, ColumnOrigin, InputInfo};
use super::thrift::FooterShape;
use crate::budget::{Bytes, PROGRAM_BYTES};
use crate::error::{Error, Place, Result};
use crate::words::megabytes;
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use arrow_schema::{DataType, Field};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A footer of so many bytes is always parsed: a plan says better what is too little.
const SMALL_FOOTER: u64 = 16 << 20;

/// A row group as the footer tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowGroupInfo {
    /// Rows in it.
    pub rows: u64,
    /// Compressed bytes of all columns.
    pub bytes: u64,
}

/// A parsed footer; cheap to clone.
#[derive(Clone)]
pub(crate) struct Footer {
    /// What arrow needs to build readers.
    pub arrow: ArrowReaderMetadata,
    /// Bytes on disk.
    pub size: u64,
    /// Which file it is of.
    pub stamp: FileStamp,
    /// xxHash64 of its bytes.
    pub hash: u64,
    /// Made when first asked for.
    columns: Arc<OnceLock<FileColumns>>,
}

/// The columns of a file by name and position: its root columns, then the fields of structs.
pub(crate) struct FileColumns {
    by_name: HashMap<String, usize>,
    /// For each root column, the index of its first leaf; behind them the number of leaves.
    first_leaves: Vec<usize>,
    /// The columns after the root columns.
    nested: Vec<(NestedField, Range<usize>)>,
}

/// Where a column is in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileColumn<'a> {
    /// The root column it is, or is in.
    pub(super) root: usize,
    /// Names of the fields below that.
    pub(super) path: &'a [String],
    /// Its leaves.
    pub(super) leaves: Range<usize>,
}

impl FileColumns {
    /// The position of a column.
    pub(crate) fn find(&self, name: &str, path: &Path) -> Result<usize> {
        self.get(name).ok_or_else(|| {
            super::column_choice::unknown(path, name, self.by_name.keys().map(String::as_str))
        })
    }

    /// The same, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.n_roots() + self.nested.len()
    }

    fn n_roots(&self) -> usize {
        self.first_leaves.len() - 1
    }

    /// The column at a position.
    pub(super) fn column(&self, at: usize) -> FileColumn<'_> {
        match at.checked_sub(self.n_roots()) {
            None => {
                let leaves = self.first_leaves[at]..self.first_leaves[at + 1];
                FileColumn { root: at, path: &[], leaves }
            }
            Some(nested) => {
                let (field, leaves) = &self.nested[nested];
                FileColumn { root: field.root, path: &field.path, leaves: leaves.clone() }
            }
        }
    }
}

/// Numbers of a vector up to which a footer is believed; more are counted in the rows themselves.
const MOST_CLAIMED_WIDTH: i64 = 1 << 24;

impl Footer {
    /// Opens a file and reads its footer.
    pub(crate) fn read(path: &Path) -> Result<Footer> {
        Footer::open(path, u64::MAX).map(|(_, footer)| footer)
    }

    /// The same, with the file; a footer that takes more than the memory there is is not parsed.
    pub(super) fn open(path: &Path, memory: u64) -> Result<(File, Footer)> {
        // Opening a pipe would wait for somebody to write to it.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let problem =
                "is not a regular file; Parquet is read from its end, so copy it to one first";
            return Err(Error::data(Place::file(path), problem));
        }
        let file = File::open(path).map_err(Error::io("open", path))?;
        let footer = Footer::within(&file, path, memory)?;
        Ok((file, footer))
    }

    /// Reads the footer of an open file, which has been read before.
    pub(crate) fn of(file: &File, path: &Path) -> Result<Footer> {
        Footer::within(file, path, u64::MAX)
    }

    fn within(file: &File, path: &Path, memory: u64) -> Result<Footer> {
        let stamp = FileStamp::of_file(file, path)?;
        let (bytes, size) = footer_bytes(file, path, memory)?;
        check_shape(&bytes, path, memory)?;
        let hash = twox_hash::XxHash64::oneshot(0, &bytes);
        let options = ArrowReaderOptions::new()
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let arrow = guarded(path, None, "its footer cannot be read", || {
            let metadata: ParquetMetaData = ParquetMetaDataReader::decode_metadata(&bytes)?;
            ArrowReaderMetadata::try_new(Arc::new(metadata), options)
        })?;
        Ok(Footer { arrow, size, stamp, hash, columns: Arc::default() })
    }

    /// Bytes it takes once parsed.
    pub(crate) fn size_in_memory(&self) -> u64 {
        self.arrow.metadata().memory_size() as u64
    }

    /// The columns with the widths of vector columns: root columns, then fields of structs.
    pub(crate) fn columns(&self, path: &Path) -> Result<Vec<ColumnInfo>> {
        let fields = self.arrow.schema().fields();
        let found = self.file_columns();
        let info = |name: &str, field: &Field, leaf: usize, origin: ColumnOrigin| {
            let width = match field.data_type() {
                DataType::List(_) | DataType::LargeList(_) => self.list_width(leaf),
                _ => None,
            };
            let (name, kind) = (name.to_string(), ColumnKind::of(field.data_type(), width));
            ColumnInfo { name, kind, origin }
        };
        if fields.is_empty() {
            return Err(Error::data(Place::file(path), "has no columns"));
        }
        let roots = fields.iter().zip(&found.first_leaves);
        let roots = roots.map(|(f, leaf)| info(f.name(), f, *leaf, ColumnOrigin::Column));
        let nested = found
            .nested
            .iter()
            .map(|(n, leaves)| info(&n.name, &n.field, leaves.start, ColumnOrigin::StructField));
        Ok(roots.chain(nested).collect())
    }

    /// The columns by name: made once for all readers of the file, since a file may have 200,000.
    pub(crate) fn file_columns(&self) -> &FileColumns {
        self.columns.get_or_init(|| {
            let fields = self.arrow.schema().fields();
            let first_leaves = self.first_leaves();
            let nested: Vec<(NestedField, Range<usize>)> = nested_fields(fields)
                .into_iter()
                .filter_map(|n| {
                    let leaves = self.leaves_of(&n, first_leaves[n.root]..first_leaves[n.root + 1]);
                    leaves.map(|leaves| (n, leaves))
                })
                .collect();
            // A root column goes before a field of that name.
            let names = nested.iter().enumerate().map(|(i, (n, _))| (&n.name, fields.len() + i));
            let roots = fields.iter().enumerate().map(|(i, f)| (f.name(), i));
            let by_name = names.chain(roots).map(|(name, at)| (name.clone(), at)).collect();
            FileColumns { by_name, first_leaves, nested }
        })
    }

    /// For each root column, the index of its first leaf; behind them the number of leaves.
    fn first_leaves(&self) -> Vec<usize> {
        let schema = self.arrow.parquet_schema();
        let mut first = vec![schema.num_columns(); schema.root_schema().get_fields().len() + 1];
        for leaf in (0..schema.num_columns()).rev() {
            first[schema.get_column_root_idx(leaf)] = leaf;
        }
        first
    }

    /// The leaves of a field among those of its root, by the way to it.
    fn leaves_of(&self, field: &NestedField, of_root: Range<usize>) -> Option<Range<usize>> {
        let schema = self.arrow.parquet_schema();
        let within = |leaf: &usize| {
            let parts = schema.column(*leaf).path().parts().to_vec();
            parts.get(1..=field.path.len()) == Some(&field.path[..])
        };
        let first = of_root.clone().find(within)?;
        Some(first..(first..of_root.end).take_while(within).last()? + 1)
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
        // As a claim alone it would be planned with, and named, number by number.
        width.filter(|w| *w <= MOST_CLAIMED_WIDTH).map(|w| w as usize)
    }

    /// The file and its row groups, if the footer does not contradict itself.
    pub(super) fn info(
        &self,
        file: &File,
        input: &Input,
    ) -> Result<(InputInfo, Vec<RowGroupInfo>)> {
        let metadata = self.arrow.metadata();
        let mut row_groups = Vec::with_capacity(metadata.num_row_groups());
        for group in metadata.row_groups() {
            let rows = group.num_rows();
            if rows < 0 || rows > i64::from(u32::MAX) * 64 {
                let place = Place::file(&input.path).row_group(row_groups.len());
                let problem = format!("says it has {rows} rows; the footer is damaged");
                return Err(Error::data(place, problem));
            }
            let bytes = group.compressed_size().max(0) as u64;
            row_groups.push(RowGroupInfo { rows: rows as u64, bytes });
        }
        let rows: u64 = row_groups.iter().map(|g| g.rows).sum();
        let claimed = metadata.file_metadata().num_rows();
        if claimed != rows as i64 {
            let problem = format!(
                "says it has {claimed} rows but its row groups have {rows}; the footer is damaged"
            );
            return Err(Error::data(Place::file(&input.path), problem));
        }
        let Input { path, relative } = input.clone();
        let Footer { size, stamp, hash: footer_hash, .. } = *self;
        let data_hash = data_hash(file, metadata, size, &path)?;
        let info = InputInfo { path, relative, size, rows, footer_hash, data_hash, stamp };
        Ok((info, row_groups))
    }
}

/// The bytes between the last row group and the closing magic, and the file's size.
fn footer_bytes(file: &File, path: &Path, memory: u64) -> Result<(Vec<u8>, u64)> {
    let damaged = |problem: &str| Error::Parquet {
        place: Box::new(Place::file(path)),
        problem: problem.into(),
        source: None,
    };
    let foreign = |problem: &str| match foreign_format(path) {
        Some(format) => damaged(&conversion(path, format)),
        None => damaged(problem),
    };
    let meta = file.metadata().map_err(Error::io("read", path))?;
    if !meta.is_file() {
        return Err(damaged(
            "is not a regular file; rows are read twice, so a pipe or device cannot be used",
        ));
    }
    let size = meta.len();
    if size < 12 {
        return Err(foreign(&format!(
            "is not a Parquet file: it has only {size} bytes; it may be cut short"
        )));
    }
    let mut tail = [0u8; 8];
    file.read_exact_at(&mut tail, size - 8).map_err(Error::io("read", path))?;
    check_magic(&tail[4..]).map_err(foreign)?;
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length + 8 > size {
        return Err(damaged(&format!(
            "its footer says it is {length} bytes long, but the file has {size}; it is damaged"
        )));
    }
    check_room(path, length, 0, memory)?;
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, size - 8 - length).map_err(Error::io("read", path))?;
    Ok((bytes, size))
}

/// Refuses what Parquet's decoder would take too much memory or stack for, or misunderstand.
fn check_shape(bytes: &[u8], path: &Path, memory: u64) -> Result<()> {
    let refused = |problem: String| Error::Parquet {
        place: Box::new(Place::file(path)),
        problem,
        source: None,
    };
    let shape = FooterShape::of(bytes)
        .map_err(|problem| refused(format!("its footer cannot be read: {problem}")))?;
    if shape.encrypted > 0 {
        return Err(refused(format!(
            "has encrypted columns ({} of {} column chunks), which are not supported; decrypt it \
             first",
            shape.encrypted, shape.chunks
        )));
    }
    check_room(path, bytes.len() as u64, shape.parsed_bytes(), memory)
}

/// Refuses a footer that does not fit the memory, as it is stored and as it is parsed.
fn check_room(path: &Path, stored: u64, parsed: u64, memory: u64) -> Result<()> {
    let needs = PROGRAM_BYTES.saturating_add(stored).saturating_add(parsed);
    if needs <= memory.max(PROGRAM_BYTES + SMALL_FOOTER) {
        return Ok(());
    }
    Err(Error::Budget {
        what: format!("{}: its footer of {}", path.display(), Bytes(stored)),
        needs,
        budget: memory,
        hint: format!("allow ⟦memory={}⟧", megabytes(needs)),
    })
}

/// The last four bytes of a file, or what is wrong with it.
fn check_magic(magic: &[u8]) -> std::result::Result<(), &'static str> {
    match magic {
        b"PAR1" => Ok(()),
        b"PARE" => Err("is an encrypted Parquet file, which is not supported; decrypt it first"),
        _ => Err("is not a Parquet file (it does not end with PAR1); it may be cut short or of \
                  another format"),
    }
}

/// Runs a piece of the Parquet decoder. Its errors get a place, and so do its panics: a decoder
/// that trips over damaged bytes must not take the program down.
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
