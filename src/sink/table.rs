//! A small table, which is in memory already → one Parquet file, whole or not at all.

use super::parquet::write_error;
use crate::error::Result;
use crate::staged::StagedFile;
use ::parquet::arrow::ArrowWriter;
use arrow_array::RecordBatch;
use std::path::Path;

/// Writes a batch, and replaces what was there.
pub(crate) fn write_table(batch: &RecordBatch, path: &Path) -> Result<()> {
    let failed = write_error(path);
    let mut staged = StagedFile::create(path)?;
    let mut writer = ArrowWriter::try_new(staged.file(), batch.schema(), None).map_err(&failed)?;
    writer.write(batch).map_err(&failed)?;
    writer.close().map_err(&failed)?;
    staged.commit()
}
