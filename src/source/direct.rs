//! Flat f64 columns, decoded straight into the block.
//!
//! Arrow's reader decodes into an array of its own, with a validity bitmap, which is then copied into
//! the block. For the commonest feature there is, a column of doubles, the page decoder can write
//! where the numbers are to be: one copy and one bitmap less (4M × 64: a tenth of the pass). All encodings,
//! page versions and codecs are the page decoder's, as for arrow's reader.
//!
//! Held per column: one page, and one 16-bit level per row of a block.

use super::footer::Footer;
use ::parquet::basic::Type as Physical;
use ::parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use ::parquet::data_type::DoubleType;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::ChunkReader;
use ::parquet::file::serialized_reader::SerializedPageReader;
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;

/// One column of doubles over some row groups.
pub struct DirectColumn {
    leaf: usize,
    groups: Range<usize>,
    reader: Option<ColumnReaderImpl<DoubleType>>,
    levels: Vec<i16>,
}

/// The leaf, if the root column it belongs to is a flat column of doubles.
pub fn leaf(footer: &Footer, root: usize, leaf: usize) -> Option<usize> {
    if footer.arrow.schema().field(root).data_type() != &DataType::Float64 {
        return None;
    }
    let column = footer.arrow.parquet_schema().column(leaf);
    let flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
    (flat && column.physical_type() == Physical::DOUBLE).then_some(leaf)
}

impl DirectColumn {
    /// Of these row groups; nothing is read yet.
    pub fn new(leaf: usize, groups: Range<usize>) -> DirectColumn {
        DirectColumn { leaf, groups, reader: None, levels: Vec::new() }
    }

    /// Appends the next `rows` values; nulls become 0 and are told to `missing` by their place among the rows.
    pub fn read<R: ChunkReader + 'static>(
        &mut self,
        file: &Arc<R>,
        metadata: &ParquetMetaData,
        rows: usize,
        out: &mut Vec<f64>,
        mut missing: impl FnMut(usize),
    ) -> Result<()> {
        let mut done = 0;
        while done < rows {
            if self.reader.is_none() {
                self.reader = Some(self.next_group(file, metadata)?);
            }
            let Some(reader) = &mut self.reader else { continue };
            let base = out.len();
            self.levels.clear();
            let (records, values, _) = reader.read_records(rows - done, Some(&mut self.levels), None, out)?;
            if records == 0 {
                self.reader = None;
                continue;
            }
            if values < records {
                spread(out, base, &self.levels[..records], |row| missing(done + row));
            }
            done += records;
        }
        Ok(())
    }

    fn next_group<R: ChunkReader + 'static>(
        &mut self,
        file: &Arc<R>,
        metadata: &ParquetMetaData,
    ) -> Result<ColumnReaderImpl<DoubleType>> {
        let group =
            self.groups.next().ok_or_else(|| ParquetError::EOF("the column has fewer values than the footer says".into()))?;
        let group = metadata.row_group(group);
        let chunk = group.column(self.leaf);
        let pages = SerializedPageReader::new(file.clone(), chunk, group.num_rows().max(0) as usize, None)?;
        Ok(get_typed_column_reader(get_column_reader(chunk.column_descr_ptr(), Box::new(pages))))
    }
}

/// The values from `base` on are those of rows whose level is 1: moves each to its row, from the last to the first.
fn spread(out: &mut Vec<f64>, base: usize, levels: &[i16], mut missing: impl FnMut(usize)) {
    let mut from = out.len();
    out.resize(base + levels.len(), 0.0);
    for (row, level) in levels.iter().enumerate().rev() {
        if *level > 0 && from > base {
            from -= 1;
            out[base + row] = out[from];
        } else {
            out[base + row] = 0.0;
            missing(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_over_the_rows_that_have_one() {
        let mut out = vec![9.0, 1.0, 2.0, 3.0];
        let mut gaps = Vec::new();
        spread(&mut out, 1, &[0, 1, 1, 0, 1, 0], |row| gaps.push(row));
        assert_eq!(out, [9.0, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0]);
        assert_eq!(gaps, [5, 3, 0]);
    }
}
