//! A copy of the table on disk, cut by features, for columns that Parquet cannot read in groups.
//!
//! Enters: blocks in file order. Leaves: for each group of features a block of all rows. Holds no
//! more than a block. On disk n·d numbers, of four bytes where all features are f32 and of eight
//! otherwise:
//!
//! ```text
//! group 0: row 0 … row n−1 │ group 1: row 0 … row n−1 │ …         a missing cell is NaN
//! ```
//!
//! The file has no name, so it is gone with the process, however that ends.

use super::{Block, MissingCell, Tally, Values, columnwise, dense};
use crate::error::{Error, Result};
use crate::scratch::{self, Scratch};
use ndarray::{Array1, Array2, ArrayView2, s};
use num_traits::Float;
use std::ops::Range;
use std::path::Path;

/// The copy.
pub(crate) struct Spool {
    file: Scratch,
    groups: Vec<Range<usize>>,
    /// Rows there is room for.
    capacity: usize,
    rows: usize,
    weights: Vec<f64>,
    storage: Storage,
    /// What blocks are read back as.
    exact: bool,
}

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Four bytes: all features are f32 already.
    F32,
    /// Eight bytes.
    F64,
}

impl Storage {
    /// Bytes of one.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Storage::F32 => 4,
            Storage::F64 => 8,
        }
    }
}

impl Spool {
    /// An empty copy with room for so many rows; blocks are read back as f64 if `exact`, else as
    /// they are.
    pub(crate) fn create(
        dir: &Path,
        rows: usize,
        d: usize,
        storage: Storage,
        exact: bool,
    ) -> Result<Spool> {
        scratch::check_dir(
            dir,
            (rows as u64).saturating_mul(d as u64).saturating_mul(storage.bytes()),
        )?;
        let file = Scratch::create(dir)?;
        let groups = columnwise::groups(rows, d);
        Ok(Spool { file, groups, capacity: rows, rows: 0, weights: Vec::new(), storage, exact })
    }

    /// The features of each group.
    pub(crate) fn groups(&self) -> &[Range<usize>] {
        &self.groups
    }

    /// Rows written.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.rows as u64 * self.groups.last().map_or(0, |g| g.end) as u64 * self.storage.bytes()
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, mut block: Block) -> Result<()> {
        let rows = block.rows();
        self.weights.extend(block.weights.iter().flatten());
        let missing = std::mem::take(&mut block.missing);
        match (block.values, self.storage) {
            (Values::F64(x), Storage::F64) => self.write_groups(x, &missing, f64::to_ne_bytes)?,
            (Values::F32(x), Storage::F32) => self.write_groups(x, &missing, f32::to_ne_bytes)?,
            _ => return Err(Error::Internal("a block is not of the spool's type".into())),
        }
        self.rows += rows;
        Ok(())
    }

    fn write_groups<T: Float, const N: usize>(
        &self,
        mut x: Array2<T>,
        missing: &[MissingCell],
        bytes: impl Fn(T) -> [u8; N],
    ) -> Result<()> {
        dense::put(&mut x, missing, T::nan());
        let mut buffer = Vec::new();
        for group in &self.groups {
            buffer.clear();
            let part: ArrayView2<'_, T> = x.slice(s![.., group.clone()]);
            part.rows()
                .into_iter()
                .for_each(|row| buffer.extend(row.iter().flat_map(|v| bytes(*v))));
            self.file.write(&buffer, self.offset(group, self.rows))?;
        }
        Ok(())
    }

    fn offset(&self, group: &Range<usize>, row: usize) -> u64 {
        (self.capacity as u64 * group.start as u64 + row as u64 * group.len() as u64)
            * self.storage.bytes()
    }

    /// All rows of a group.
    pub(crate) fn read(&self, group: usize) -> Result<Block> {
        let range = &self.groups[group];
        let mut buffer = vec![0; self.rows * range.len() * self.storage.bytes() as usize];
        self.file.read(&mut buffer, self.offset(range, 0))?;
        let shape = (self.rows, range.len());
        let (values, missing) = match self.storage {
            Storage::F64 => {
                let (x, missing) = cells(shape, &buffer, f64::from_ne_bytes)?;
                (Values::F64(x), missing)
            }
            Storage::F32 => {
                let (x, missing) = cells(shape, &buffer, f32::from_ne_bytes)?;
                (if self.exact { Values::F64(x.mapv(f64::from)) } else { Values::F32(x) }, missing)
            }
        };
        let weights = (!self.weights.is_empty()).then(|| Array1::from_vec(self.weights.clone()));
        Ok(Block { values, weights, labels: None, missing, kept: None, tally: Tally::default() })
    }
}

/// Storages in C order, NaN as missing cells that hold 0.
fn cells<T: Float, const N: usize>(
    shape: (usize, usize),
    bytes: &[u8],
    number: impl Fn([u8; N]) -> T,
) -> Result<(Array2<T>, Vec<MissingCell>)> {
    let (chunks, _) = bytes.as_chunks::<N>();
    let mut missing = Vec::new();
    let mut data = Vec::with_capacity(chunks.len());
    for (i, chunk) in chunks.iter().enumerate() {
        let value = number(*chunk);
        if value.is_nan() {
            missing.push(MissingCell { row: (i / shape.1) as u32, feature: (i % shape.1) as u32 });
        }
        data.push(if value.is_nan() { T::zero() } else { value });
    }
    let x =
        Array2::from_shape_vec(shape, data).map_err(|e| Error::Internal(format!("spool: {e}")))?;
    Ok((x, missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn what_was_written_by_rows_is_read_by_features() {
        let dir = tempfile::tempdir().unwrap();
        for storage in [Storage::F64, Storage::F32] {
            let mut spool = Spool::create(dir.path(), 5, 3, storage, true).unwrap();
            let part = |x: Array2<f64>, missing| {
                let mut block = Block::dense(x.clone());
                if storage == Storage::F32 {
                    block.values = Values::F32(x.mapv(|v| v as f32));
                }
                block.missing = missing;
                block.weights = Some(Array1::ones(x.nrows()));
                block
            };
            spool
                .write(part(
                    array![[1.0, 2.0, 3.0], [4.0, 0.0, 6.0]],
                    vec![MissingCell { row: 1, feature: 1 }],
                ))
                .unwrap();
            spool.write(part(array![[7.0, 8.0, 9.0]], vec![])).unwrap();
            assert_eq!(spool.groups().first(), Some(&(0..3)));
            let block = spool.read(0).unwrap();
            assert_eq!(block.missing, [MissingCell { row: 1, feature: 1 }]);
            assert_eq!(block.weights.as_ref().unwrap().len(), 3);
            assert_eq!(block.into_f64(), array![[1.0, 2.0, 3.0], [4.0, 0.0, 6.0], [7.0, 8.0, 9.0]]);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
        }
    }
}
