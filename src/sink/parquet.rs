//! Record batches → Parquet.
//!
//! Encoding and compression are the cost of writing, so workers do them: each encodes a whole row
//! group in memory, and the sink only copies finished column chunks to the file, in input order.
//! Held: at most one row group in the making and one waiting per unit in flight.

use super::Sink;
use crate::error::{Error, Result};
use crate::source::footer::Footer;
use crate::source::inputs;
use crate::staged::{PartFile, StagedDir, StagedFile};
use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use ::parquet::basic::{Compression as Codec, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, SchemaRef};
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of an output row group before it is compressed.
const GROUP_BYTES: u64 = 16 << 20;

/// Bytes between two syncs of a file being written.
const SYNC_BYTES: usize = 32 << 20;

/// How the pages of the output are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Compression {
    /// Kept columns by Zstandard; computed numbers as they are, since their digits do not compress.
    #[default]
    Auto,
    /// Zstandard, level 1.
    Zstd,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Gzip.
    Gzip,
    /// None.
    None,
}

impl Compression {
    /// The codec of kept columns, and of computed ones.
    fn codecs(self) -> (Codec, Codec) {
        let zstd = Codec::ZSTD(ZstdLevel::default());
        match self {
            Compression::Auto => (zstd, Codec::UNCOMPRESSED),
            Compression::Zstd => (zstd, zstd),
            Compression::Snappy => (Codec::SNAPPY, Codec::SNAPPY),
            Compression::Lz4 => (Codec::LZ4_RAW, Codec::LZ4_RAW),
            Compression::Gzip => (Codec::GZIP(Default::default()), Codec::GZIP(Default::default())),
            Compression::None => (Codec::UNCOMPRESSED, Codec::UNCOMPRESSED),
        }
    }
}

/// Parquet files to be written: where, and how.
///
/// A path that ends in `.parquet` is one file, its rows in the order of the input; any other is a
/// directory with one file per input, and `part-000.parquet` for rows that come from no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParquetOutput {
    /// The file or directory.
    pub path: PathBuf,
    /// How its pages are compressed.
    pub compression: Compression,
}

impl ParquetOutput {
    /// A file or directory with the default compression.
    pub fn new(path: impl Into<PathBuf>) -> ParquetOutput {
        ParquetOutput { path: path.into(), compression: Compression::default() }
    }

    /// The same, compressed in another way.
    pub fn compression(self, compression: Compression) -> ParquetOutput {
        ParquetOutput { compression, ..self }
    }

    /// True when it is one file rather than a directory.
    pub fn is_one_file(&self) -> bool {
        inputs::is_parquet(&self.path)
    }
}

/// What the writer of a file says, as ours say it: an error of the disk is told as one.
pub(super) fn write_error(path: &Path) -> impl Fn(ParquetError) -> Error + use<> {
    let path = path.to_path_buf();
    move |e| {
        let source = match e {
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(io) => *io,
                Err(other) => std::io::Error::other(other),
            },
            other => std::io::Error::other(other.to_string()),
        };
        Error::Io { action: "write", path: path.clone(), source }
    }
}

/// Rows of an output row group whose rows take this many bytes.
pub(crate) fn group_rows(row_bytes: u64) -> usize {
    (GROUP_BYTES / row_bytes.max(1)).clamp(256, 131_072) as usize
}

/// Bytes that the column writers of one open row group hold besides its encoded pages: per column
/// the page in the making, the compressor's tables, and a dictionary.
pub(crate) fn writer_bytes(
    schema: &SchemaRef,
    computed: &HashSet<String>,
    row_bytes: u64,
    compression: Compression,
) -> u64 {
    let (kept_codec, computed_codec) = compression.codecs();
    // A page is cut at some size, and holds no more than the row group.
    let page = (group_rows(row_bytes) as u64 * 32).clamp(8 << 10, 256 << 10);
    let bytes = |field: &Arc<Field>| {
        let is_computed = computed.contains(field.name());
        let codec = if is_computed { computed_codec } else { kept_codec };
        let compressor = match codec {
            Codec::UNCOMPRESSED => 0,
            Codec::ZSTD(_) => 1280 << 10,
            _ => 64 << 10,
        };
        let dictionary = if is_computed || field.data_type().is_floating() { 0 } else { 2 << 20 };
        page + compressor + dictionary
    };
    schema.fields().iter().map(bytes).sum()
}

/// Floating-point columns hold digits that hardly repeat: a dictionary would only cost time and
/// memory.
fn properties(
    schema: &SchemaRef,
    computed: &HashSet<String>,
    compression: Compression,
) -> WriterProperties {
    let (kept_codec, computed_codec) = compression.codecs();
    let mut builder = WriterProperties::builder()
        .set_compression(kept_codec)
        // Types as the Parquet specification has them, for readers that do not know arrow's schema.
        .set_coerce_types(true)
        .set_created_by(format!("eigenstream version {}", env!("CARGO_PKG_VERSION")));
    for field in schema.fields() {
        let (leaf, numbers) = match field.data_type() {
            DataType::FixedSizeList(item, _) => {
                (vec![field.name().clone(), "list".into(), "element".into()], item.data_type())
            }
            other => (vec![field.name().clone()], other),
        };
        let leaf = ColumnPath::new(leaf);
        if numbers.is_floating() {
            builder = builder.set_column_dictionary_enabled(leaf.clone(), false);
        }
        if computed.contains(field.name()) {
            builder = builder
                .set_column_statistics_enabled(leaf.clone(), EnabledStatistics::Chunk)
                .set_column_compression(leaf, computed_codec);
        }
    }
    builder.build()
}

/// Starts row groups; shared by all workers.
pub(crate) struct Encoder {
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    properties: WriterProperties,
    group_rows: usize,
}

fn unencodable(e: ParquetError) -> Error {
    Error::Internal(format!("Parquet encoding: {e}"))
}

impl Encoder {
    /// `computed` names the computed columns; `row_bytes` is the size of a row, about.
    pub(crate) fn new(
        schema: SchemaRef,
        computed: &HashSet<String>,
        row_bytes: u64,
        compression: Compression,
    ) -> Result<Encoder> {
        let properties = properties(&schema, computed, compression);
        let writer =
            ArrowWriter::try_new(std::io::sink(), schema.clone(), Some(properties.clone()))
                .map_err(unencodable)?;
        let (_, factory) = writer.into_serialized_writer().map_err(unencodable)?;
        Ok(Encoder { factory, schema, properties, group_rows: group_rows(row_bytes) })
    }

    /// Encodes the batches of a unit, and gives each row group when it is full.
    pub(crate) fn encode(
        &self,
        batches: &mut dyn Iterator<Item = Result<RecordBatch>>,
        give: &mut dyn FnMut(RowGroup),
    ) -> Result<()> {
        let mut group = self.start()?;
        for batch in batches {
            group.write(&batch?)?;
            if group.is_full() {
                group.finish()?.into_iter().for_each(&mut *give);
                group = self.start()?;
            }
        }
        group.finish()?.into_iter().for_each(&mut *give);
        Ok(())
    }

    /// A row group without rows.
    fn start(&self) -> Result<OpenGroup<'_>> {
        let columns = self.factory.create_column_writers(0).map_err(unencodable)?;
        Ok(OpenGroup { encoder: self, columns, rows: 0 })
    }
}

/// A row group in the making.
struct OpenGroup<'a> {
    encoder: &'a Encoder,
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl OpenGroup<'_> {
    /// Encodes a batch.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut writers = self.columns.iter_mut();
        for (field, array) in self.encoder.schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array).map_err(unencodable)? {
                let writer = writers
                    .next()
                    .ok_or_else(|| Error::Internal("fewer writers than leaves".into()))?;
                writer.write(&leaf).map_err(unencodable)?;
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// True when it has as many rows as a row group is meant to have, or more bytes than planned:
    /// texts may be longer than they were where the plan looked.
    fn is_full(&self) -> bool {
        let bytes = || self.columns.iter().map(ArrowColumnWriter::memory_size).sum::<usize>();
        self.rows >= self.encoder.group_rows || bytes() as u64 >= 2 * GROUP_BYTES
    }

    /// The finished row group; `None` when it has no rows.
    fn finish(self) -> Result<Option<RowGroup>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let chunks = self
            .columns
            .into_iter()
            .map(ArrowColumnWriter::close)
            .collect::<std::result::Result<_, _>>();
        Ok(Some(RowGroup { chunks: chunks.map_err(unencodable)? }))
    }
}

/// Encoded column chunks.
pub(crate) struct RowGroup {
    chunks: Vec<ArrowColumnChunk>,
}

/// Where the files go.
enum ParquetTarget {
    /// One file for all inputs.
    One(StagedFile),
    /// One per input.
    Each(StagedDir),
}

/// Parquet files, one for all inputs or one for each.
pub(crate) struct ParquetSink {
    target: ParquetTarget,
    path: PathBuf,
    schema: SchemaRef,
    properties: WriterProperties,
    writer: Option<SerializedFileWriter<BufWriter<PartFile>>>,
    /// A second handle of the open file, to sync it by, and bytes written since it last was.
    syncing: Option<(File, usize)>,
    /// Output files that have been started.
    started: usize,
    /// Output files there will be.
    files: usize,
}

impl ParquetSink {
    /// One file, or a directory with the given files. `key` names what is written, for a run that
    /// goes on after a kill.
    pub(crate) fn create(
        output: &ParquetOutput,
        relative: Vec<PathBuf>,
        encoder: &Encoder,
        key: Option<u64>,
    ) -> Result<ParquetSink> {
        let (one, out) = (output.is_one_file(), &output.path);
        inputs::check_output(out)?;
        let files = if one { 1 } else { relative.len() };
        let target = if one {
            ParquetTarget::One(StagedFile::create(out)?)
        } else {
            ParquetTarget::Each(StagedDir::create(out, relative, key)?)
        };
        Ok(ParquetSink {
            target,
            path: out.clone(),
            schema: encoder.schema.clone(),
            properties: encoder.properties.clone(),
            writer: None,
            syncing: None,
            started: 0,
            files,
        })
    }

    /// Which output files an earlier run has completed; none for one file.
    pub(crate) fn complete(&self) -> Vec<bool> {
        match &self.target {
            ParquetTarget::One(_) => Vec::new(),
            ParquetTarget::Each(staged) => staged.complete().to_vec(),
        }
    }

    /// Rows in those files.
    pub(crate) fn complete_rows(&self) -> Result<u64> {
        let rows = |path: PathBuf| {
            let footer = Footer::read(&path)?;
            Ok(footer.arrow.metadata().file_metadata().num_rows().max(0) as u64)
        };
        match &self.target {
            ParquetTarget::One(_) => Ok(0),
            ParquetTarget::Each(staged) => staged.complete_paths().map(rows).sum(),
        }
    }

    fn failed(&self) -> impl Fn(ParquetError) -> Error + use<> {
        write_error(&self.path)
    }

    /// Ends the current file and starts the next, up to the one with this index.
    fn reach(&mut self, index: usize) -> Result<()> {
        while self.started <= index {
            self.close()?;
            let file = match &mut self.target {
                ParquetTarget::One(staged) => {
                    let file = staged.file().try_clone();
                    PartFile::unmarked(file.map_err(Error::io("write", &self.path))?)
                }
                ParquetTarget::Each(staged) if staged.complete()[self.started] => {
                    self.started += 1;
                    continue;
                }
                ParquetTarget::Each(staged) => {
                    self.path = staged.target(self.started);
                    staged.create_file(self.started)?
                }
            };
            self.syncing = file.file().try_clone().ok().map(|f| (f, 0));
            let writer = ArrowWriter::try_new(
                BufWriter::new(file),
                self.schema.clone(),
                Some(self.properties.clone()),
            );
            let (writer, _) =
                writer.and_then(ArrowWriter::into_serialized_writer).map_err(self.failed())?;
            self.writer = Some(writer);
            self.started += 1;
        }
        Ok(())
    }

    /// Syncs while the workers are busy, so that little is left for the end.
    fn sync_after(&mut self, written: usize) -> Result<()> {
        let Some((file, unsynced)) = &mut self.syncing else { return Ok(()) };
        *unsynced += written;
        if *unsynced < SYNC_BYTES {
            return Ok(());
        }
        *unsynced = 0;
        file.sync_data().map_err(Error::io("write", &self.path))
    }

    fn close(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let buffered = writer.into_inner().map_err(self.failed())?;
        let file =
            buffered.into_inner().map_err(|e| Error::io("write", &self.path)(e.into_error()))?;
        match &self.target {
            ParquetTarget::One(_) => file.file().sync_all().map_err(Error::io("write", &self.path)),
            ParquetTarget::Each(staged) => staged.finish_file(self.started - 1, &file),
        }
    }
}

impl Sink<RowGroup> for ParquetSink {
    fn write(&mut self, input: usize, group: RowGroup) -> Result<()> {
        self.reach(if matches!(self.target, ParquetTarget::One(_)) { 0 } else { input })?;
        let failed = self.failed();
        let writer =
            self.writer.as_mut().ok_or_else(|| Error::Internal("no open output file".into()))?;
        let mut open = writer.next_row_group().map_err(&failed)?;
        for chunk in group.chunks {
            chunk.append_to_row_group(&mut open).map_err(&failed)?;
        }
        let written = open.close().map_err(&failed)?.compressed_size().max(0) as usize;
        self.sync_after(written)
    }

    fn finish(mut self) -> Result<()> {
        if self.files > 0 {
            self.reach(self.files - 1)?;
        }
        self.close()?;
        match self.target {
            ParquetTarget::One(staged) => staged.commit(),
            ParquetTarget::Each(staged) => staged.commit(),
        }
    }
}
