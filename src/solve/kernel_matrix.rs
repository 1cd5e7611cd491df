//! A kernel matrix that is never held: products with it, tile by tile.
//!
//! Enters: n prepared rows and a kernel. Leaves: q K for a few vectors q. Tiles on and above the
//! diagonal are made, each once per product:
//!
//! ```text
//! stripe i of 256 rows:   K_ii q_i │ K_ij q_j to i and K_ijᵀ q_i to j, for the j to the right
//! ```
//!
//! Stripes are added in order, so threads do not change a digit. Holds the rows, and per thread a
//! tile and a stripe's sums (8·n·b bytes for b vectors). Where making a tile takes longer than
//! reading it, the first product leaves all tiles in a file without a name.
//!
//! A matrix that is given ([`GivenMatrix`]) is read instead, its rows in order, once per product.

use crate::blas;
use crate::error::{Error, Result};
use crate::kernel::Comparands;
use crate::listen::{Listener, Stage, Watch, go_on};
use crate::workers::{Crew, for_each, in_order, window};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, s};
use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a stripe.
const STRIPE: usize = 256;
/// Columns of a tile.
const TILE: usize = 512;

/// Features from which on a tile is read back faster than it is made: at 256 an entry takes 15 ns
/// to make, and a file that memory does not cache gives one in 8 ns (1 GB/s). From the cache 10,000
/// × 256 took 1.9 s instead of 3.9 s.
pub(crate) const SPILL_FROM: usize = 256;

/// Bytes of the products with b vectors on so many threads.
pub(crate) fn product_bytes(n: u64, b: u64, threads: usize) -> u64 {
    let stripes = (window(threads) as u64 + 3).saturating_mul(8 * n).saturating_mul(b);
    let tile = 8 * (STRIPE * TILE) as u64 * 2;
    stripes.saturating_add(threads as u64 * tile)
}

/// Bytes of all tiles on disk.
pub(crate) fn spill_bytes(n: u64) -> u64 {
    entries_above(n.next_multiple_of(STRIPE as u64), n).saturating_mul(8)
}

/// Entries of the stripes above a row, each to the right of its diagonal.
fn entries_above(row: u64, n: u64) -> u64 {
    row.saturating_mul(n) - row.saturating_mul(row.saturating_sub(STRIPE as u64)) / 2
}

/// Work on all pairs of n rows, a row with itself among them.
pub(crate) fn pairs_stage(work: impl Into<Cow<'static, str>>, n: usize) -> Stage {
    let n = n as u64;
    Stage::new(work, "pairs", n.saturating_mul(n + 1) / 2)
}

/// Pairs of the rows of a stripe with each other and with those after it.
fn stripe_pairs(stripe: usize, n: usize) -> u64 {
    let pairs = |rows: usize| rows as u64 * (rows as u64 + 1) / 2;
    pairs(n - stripe * STRIPE) - pairs(n.saturating_sub((stripe + 1) * STRIPE))
}

/// K.
pub(crate) enum KernelMatrix<'a> {
    /// Over some rows, made by tiles.
    Tiles(TileMatrix<'a>),
    /// Read from where it is.
    Given(GivenMatrix<'a>),
}

impl KernelMatrix<'_> {
    /// n.
    pub(super) fn len(&self) -> usize {
        match self {
            KernelMatrix::Tiles(tiles) => tiles.rows.len(),
            KernelMatrix::Given(given) => given.diagonal.len(),
        }
    }

    /// k(x_i, x_i).
    pub(super) fn diagonal(&self) -> Array1<f64> {
        match self {
            KernelMatrix::Tiles(tiles) => tiles.rows.diagonal(),
            KernelMatrix::Given(given) => given.diagonal.clone(),
        }
    }

    /// About how far an entry is off.
    pub(super) fn entry_noise(&self) -> f64 {
        match self {
            KernelMatrix::Tiles(tiles) => tiles.rows.entry_noise(),
            KernelMatrix::Given(given) => given.noise,
        }
    }

    /// q K for vectors q as rows: b × n. The listener is told of it under a name, and asked whether
    /// to go on.
    pub(crate) fn times(
        &self,
        q: &Array2<f64>,
        work: String,
        listener: &dyn Listener,
    ) -> Result<Array2<f64>> {
        match self {
            KernelMatrix::Tiles(tiles) => tiles.times(q, work, listener),
            KernelMatrix::Given(given) => given.times(q, work),
        }
    }

    /// All of K.
    pub(super) fn dense(&self, listener: &dyn Listener) -> Result<Array2<f64>> {
        match self {
            KernelMatrix::Tiles(tiles) => tiles.dense(listener),
            KernelMatrix::Given(given) => given.dense(),
        }
    }
}

/// Takes some rows of a matrix, the first of which is told.
pub(crate) type TakeRows<'t> = dyn FnMut(usize, ArrayView2<'_, f64>) -> Result<()> + 't;

/// A kernel matrix that is read, its rows in order.
pub(crate) struct GivenMatrix<'a> {
    /// k(x_i, x_i).
    pub diagonal: Array1<f64>,
    /// About how far an entry is off.
    pub noise: f64,
    /// Hands all rows over, some at a time, for work that is called so.
    pub read: &'a dyn Fn(String, &mut TakeRows<'_>) -> Result<()>,
}

impl GivenMatrix<'_> {
    fn times(&self, q: &Array2<f64>, work: String) -> Result<Array2<f64>> {
        let mut image = Array2::zeros(q.raw_dim());
        (self.read)(work, &mut |first, rows| {
            let mut part = image.slice_mut(s![.., first..first + rows.nrows()]);
            general_mat_mul(1.0, q, &rows.t(), 0.0, &mut part);
            Ok(())
        })?;
        Ok(image)
    }

    fn dense(&self) -> Result<Array2<f64>> {
        let n = self.diagonal.len();
        let mut k = Array2::zeros((n, n));
        (self.read)("reading the matrix".into(), &mut |first, rows| {
            k.slice_mut(s![first..first + rows.nrows(), ..]).assign(&rows);
            Ok(())
        })?;
        blas::mirror(&mut k);
        Ok(k)
    }
}

/// K over some rows, made by tiles.
pub(crate) struct TileMatrix<'a> {
    rows: &'a Comparands<'a>,
    threads: usize,
    spill: Option<Spill>,
}

/// Tiles in a file without a name, so that it is gone with the process.
struct Spill {
    file: File,
    dir: PathBuf,
    written: AtomicBool,
}

impl<'a> TileMatrix<'a> {
    /// Tiles are made anew for every product, or kept in a temporary file in a directory.
    pub(crate) fn new(
        rows: &'a Comparands<'a>,
        threads: usize,
        spill: Option<&Path>,
    ) -> Result<TileMatrix<'a>> {
        let spill = spill.map(|dir| {
            let file =
                tempfile::tempfile_in(dir).map_err(Error::io("create a temporary file in", dir))?;
            Ok(Spill { file, dir: dir.to_path_buf(), written: AtomicBool::new(false) })
        });
        Ok(TileMatrix { rows, threads, spill: spill.transpose()? })
    }

    /// Counts pairs of rows, a stripe at a time.
    fn times(&self, q: &Array2<f64>, work: String, listener: &dyn Listener) -> Result<Array2<f64>> {
        let (n, b) = (self.rows.len(), q.nrows());
        let watch = Watch::new(listener, pairs_stage(work, n));
        let across = q.t().as_standard_layout().into_owned();
        let mut image = Array2::zeros((n, b));
        let crew = Crew { threads: self.threads, queue: 1 };
        in_order(
            n.div_ceil(STRIPE),
            crew,
            |stripe, out| {
                out.give(self.stripe(stripe * STRIPE, &across)?);
                Ok(())
            },
            |stripe, part: Array2<f64>| {
                let mut below = image.slice_mut(s![stripe * STRIPE.., ..]);
                below += &part;
                watch.advance(stripe_pairs(stripe, n), 0)
            },
        )?;
        if let Some(spill) = &self.spill {
            spill.written.store(true, Ordering::Release);
        }
        Ok(image.reversed_axes().as_standard_layout().into_owned())
    }

    /// What the rows from `first` on add: to themselves and to all after them.
    fn stripe(&self, first: usize, q: &Array2<f64>) -> Result<Array2<f64>> {
        let n = self.rows.len();
        let rows = first..(first + STRIPE).min(n);
        let mut sums = Array2::zeros((n - first, q.ncols()));
        let mut tile = Array2::zeros((rows.len(), TILE));
        let mut start = first;
        while start < n {
            let end = if start == first { rows.end } else { (start + TILE).min(n) };
            let columns = start..end;
            let mut part = tile.slice_mut(s![.., ..columns.len()]);
            self.tile(rows.clone(), columns.clone(), part.view_mut())?;
            let (mut own, mut others) = sums.view_mut().split_at(Axis(0), rows.len());
            general_mat_mul(1.0, &part, &q.slice(s![columns.clone(), ..]), 1.0, &mut own);
            if start > first {
                let mut below = others.slice_mut(s![start - rows.end..end - rows.end, ..]);
                general_mat_mul(1.0, &part.t(), &q.slice(s![rows.clone(), ..]), 0.0, &mut below);
            }
            start = end;
        }
        Ok(sums)
    }

    fn tile(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        mut k: ArrayViewMut2<'_, f64>,
    ) -> Result<()> {
        let Some(Spill { file, dir, written }) = &self.spill else {
            self.rows.tile(rows, columns, k);
            return Ok(());
        };
        let within = (rows.len() * (columns.start - rows.start)) as u64;
        let offset = 8 * (entries_above(rows.start as u64, self.rows.len() as u64) + within);
        let mut bytes = Vec::new();
        if written.load(Ordering::Acquire) {
            bytes.resize(8 * rows.len() * columns.len(), 0);
            file.read_exact_at(&mut bytes, offset)
                .map_err(Error::io("read a temporary file in", dir))?;
            let (numbers, _) = bytes.as_chunks::<8>();
            k.iter_mut().zip(numbers).for_each(|(k, bytes)| *k = f64::from_ne_bytes(*bytes));
            return Ok(());
        }
        self.rows.tile(rows, columns, k.view_mut());
        bytes.reserve_exact(8 * k.len());
        k.rows()
            .into_iter()
            .for_each(|row| row.iter().for_each(|v| bytes.extend_from_slice(&v.to_ne_bytes())));
        file.write_all_at(&bytes, offset).map_err(Error::io("write a temporary file in", dir))
    }

    fn dense(&self, listener: &dyn Listener) -> Result<Array2<f64>> {
        let n = self.rows.len();
        let mut k = Array2::zeros((n, n));
        let watch = Watch::new(listener, pairs_stage("comparing", n));
        let stripes = k.axis_chunks_iter_mut(Axis(0), STRIPE).enumerate().collect();
        let made = blas::serial(|| {
            for_each(self.threads, stripes, |(i, stripe): (usize, ArrayViewMut2<'_, f64>)| {
                go_on(listener)?;
                self.rows.tile(i * STRIPE..i * STRIPE + stripe.nrows(), 0..n, stripe);
                watch.advance(stripe_pairs(i, n), 0)
            })
        });
        made.into_iter().collect::<Result<()>>()?;
        blas::mirror(&mut k);
        Ok(k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::listen::Quiet;

    fn rows(n: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, d), |(i, j)| {
            ((i * 7919 + j * 104_729 + i * i) % 1009) as f64 / 500.0 - 1.0
        })
    }

    #[test]
    fn tiles_times_vectors_is_the_matrix_times_them_spilled_or_not() {
        let dir = tempfile::tempdir().unwrap();
        for n in [1, 255, 256, 257, 1300] {
            let x = rows(n, 3);
            let kernel = Kernel::Rbf { gamma: 0.7 };
            let q = rows(4, n);
            let expected = q.dot(&kernel.tile(x.view(), x.view()));
            let comparands = Comparands::new(kernel, &x);
            let mut first: Option<Array2<f64>> = None;
            for (threads, spill) in
                [(1, None), (3, None), (1, Some(dir.path())), (2, Some(dir.path()))]
            {
                let matrix = TileMatrix::new(&comparands, threads, spill).unwrap();
                for _ in 0..2 {
                    let found = matrix.times(&q, "product".into(), &Quiet).unwrap();
                    found
                        .iter()
                        .zip(&expected)
                        .for_each(|(a, b)| assert!((a - b).abs() < 1e-12 * n as f64, "{a} {b}"));
                    assert_eq!(
                        first.get_or_insert_with(|| found.clone()),
                        &found,
                        "same bytes, {threads} threads, {n} rows"
                    );
                }
            }
            assert!(spill_bytes(n as u64) as usize >= 8 * n * n.div_ceil(2));
        }
    }

    struct Cancelled;

    impl Listener for Cancelled {
        fn cancelled(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_product_can_be_cancelled() {
        let x = rows(600, 3);
        let comparands = Comparands::new(Kernel::Rbf { gamma: 0.7 }, &x);
        let matrix = TileMatrix::new(&comparands, 2, None).unwrap();
        let error = matrix.times(&rows(1, 600), "product".into(), &Cancelled).unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{error}");
    }
}
