//! A kernel matrix that is given: n rows of n values, or distances, read again at every product.
//!
//! Enters: a source whose rows are those of the matrix. Leaves: what the first look shows (its
//! diagonal, labels, weights), then rows in order, as often as they are asked for. Holds a few
//! vectors of n numbers and the blocks that are being read, never the matrix.
//!
//! That it is symmetric is checked, not assumed: with random q, Kq and Kᵀq are found in one pass,
//! and a row where they differ has an entry that differs from its mirror image. Another pass then
//! finds which.

use super::{LabelRows, RowLabels};
use crate::accumulate::{Accumulate, FeatureMoments, Moments};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::listen::{Listener, Watch};
use crate::pass;
use crate::solve::kernel_matrix::TakeRows;
use crate::source::{Source, Table, Tally, place_of};
use crate::workers::Crew;
use ndarray::{Array1, Array2, ArrayView2, s};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::borrow::Cow;

/// Random vectors that K and its mirror image are multiplied with.
const PROBES: usize = 4;

/// Entries that differ from their mirror image by no more than this share of the largest are the
/// rounding of whoever has computed them: of f64 numbers, and of f32 ones.
pub(crate) const ROUNDING: f64 = 1e-9;
const ROUNDING_F32: f64 = 1e-5;

/// What is said of a missing value.
pub(crate) const NO_HOLES: &str = "a kernel matrix has no holes; leave the row out, and its column";

/// A kernel matrix on disk.
pub(crate) struct GivenRows<'a> {
    pub table: &'a dyn Table,
    /// n rows of n numbers.
    pub source: &'a dyn Source,
    /// What the numbers are.
    pub kernel: Kernel,
    /// True when they are f32.
    pub single: bool,
    pub crew: Crew,
    pub listener: &'a dyn Listener,
}

/// What the first look shows.
pub(crate) struct FirstLook {
    /// k(x_i, x_i).
    pub diagonal: Array1<f64>,
    /// The mean of all entries.
    pub mean: f64,
    /// The largest entry.
    pub largest: f64,
    /// One per row, where they were asked for.
    pub weights: Option<Array1<f64>>,
    /// The labels, where they were asked for.
    pub labels: Option<RowLabels>,
    /// n, W, and the moments of the columns.
    pub moments: Moments,
    /// What must be told.
    pub tally: Tally,
}

/// Kq and Kᵀq, as far as rows were seen.
struct Probes {
    q: Array2<f64>,
    rows: Array2<f64>,
    columns: Array2<f64>,
}

impl Probes {
    fn new(n: usize, seed: u64) -> Probes {
        let mut rng = Pcg64::new(u128::from(seed), 0x5E11);
        let q = Array2::from_shape_simple_fn((n, PROBES), || rng.random_range(-1.0..1.0));
        let zeros = Array2::zeros((n, PROBES));
        Probes { q, rows: zeros.clone(), columns: zeros }
    }

    fn take(&mut self, first: usize, values: ArrayView2<'_, f64>) {
        let own = first..first + values.nrows();
        self.rows.slice_mut(s![own.clone(), ..]).assign(&values.dot(&self.q));
        self.columns += &values.t().dot(&self.q.slice(s![own, ..]));
    }

    /// The first row that differs from its column, if entries may differ by so much.
    fn differing_row(&self, tolerance: f64) -> Option<usize> {
        let n = self.q.nrows() as f64;
        let least = 4.0 * tolerance * n.sqrt();
        let differs = |i: &usize| {
            let both = self.rows.row(*i).into_iter().zip(self.columns.row(*i));
            both.fold(0.0f64, |m, (a, b)| m.max((a - b).abs())) > least
        };
        (0..self.q.nrows()).find(differs)
    }
}

impl GivenRows<'_> {
    fn watch(&self, work: impl Into<Cow<'static, str>>) -> Watch<'_> {
        Watch::new(self.listener, pass::stage(work, "rows", self.source, 0))
    }

    /// Reads all rows once, and refuses a matrix that is none of a kernel.
    pub(crate) fn look(&self, seed: u64) -> Result<FirstLook> {
        let n = self.source.n_features();
        let mut probes = Probes::new(n, seed);
        let mut moments = FeatureMoments::new(n);
        let (mut weights, mut labels, mut first) = (Vec::new(), LabelRows::default(), 0);
        let (mut diagonal, mut largest) = (Array1::zeros(n), 0.0f64);
        let watch = self.watch("looking at the matrix");
        let tally = pass::each(self.source, self.crew, &watch, |mut block| {
            labels.take(block.labels.take());
            weights.extend(block.weights.iter().flatten());
            moments.update(block.clone());
            let values = block.into_f64();
            self.check_rows(first, n, values.view())?;
            probes.take(first, values.view());
            for (i, row) in values.rows().into_iter().enumerate() {
                diagonal[first + i] = row[first + i];
                largest = row.iter().fold(largest, |m, v| m.max(v.abs()));
            }
            first += values.nrows();
            Ok(())
        })?;
        drop(watch);
        if (first, tally.unlabelled) != (n, 0) {
            return Err(self.too_few(n, first, tally.unlabelled));
        }
        let moments = moments.finish();
        let tolerance = largest * if self.single { ROUNDING_F32 } else { ROUNDING };
        self.check_diagonal(&diagonal, tolerance)?;
        if let Some(row) = probes.differing_row(tolerance) {
            return Err(self.asymmetry(row)?);
        }
        let kernel = |values: Array1<f64>| {
            let row = self.kernel.given(values.insert_axis(ndarray::Axis(0)));
            row.remove_axis(ndarray::Axis(0))
        };
        let mean = match self.kernel {
            Kernel::Distances => {
                let squares = &moments.mean * &moments.mean + &moments.squares / moments.weight;
                -0.5 * squares.mean().unwrap_or(0.0)
            }
            _ => moments.mean.mean().unwrap_or(0.0),
        };
        let weights = (!weights.is_empty()).then(|| Array1::from_vec(weights));
        let largest = kernel(Array1::from_elem(1, largest))[0].abs();
        let (diagonal, labels) = (kernel(diagonal), labels.finish());
        Ok(FirstLook { diagonal, mean, largest, weights, labels, moments, tally })
    }

    /// Hands all rows of the kernel matrix over, in order.
    pub(crate) fn read(&self, work: String, take: &mut TakeRows<'_>) -> Result<()> {
        let mut first = 0;
        pass::each(self.source, self.crew, &self.watch(work), |block| {
            let values = self.kernel.given(block.into_f64());
            take(first, values.view())?;
            first += values.nrows();
            Ok(())
        })
        .map(|_| ())
    }

    /// More rows than the table has said there are, and what is no distance.
    fn check_rows(&self, first: usize, n: usize, values: ArrayView2<'_, f64>) -> Result<()> {
        if first + values.nrows() > n {
            return Err(self.too_few(n, first + values.nrows(), 0));
        }
        let negative = |(_, v): &((usize, usize), &f64)| **v < 0.0;
        match values.indexed_iter().find(negative) {
            Some(((i, j), v)) if self.kernel == Kernel::Distances => Err(Error::data(
                place_of(self.table, first + i, true),
                format!("the distance to row {j} is {v}, but distances are not negative"),
            )),
            _ => Ok(()),
        }
    }

    fn check_diagonal(&self, diagonal: &Array1<f64>, tolerance: f64) -> Result<()> {
        let away = |d: &f64| self.kernel == Kernel::Distances && d.abs() > tolerance;
        match diagonal.iter().position(away) {
            None => Ok(()),
            Some(i) => Err(Error::data(
                place_of(self.table, i, true),
                format!("the distance of row {i} to itself is {}, not 0", diagonal[i]),
            )),
        }
    }

    fn too_few(&self, n: usize, rows: usize, unlabelled: u64) -> Error {
        let problem = match unlabelled {
            0 => format!("a kernel matrix of {n} columns has {n} rows, but {rows} were read"),
            some => format!(
                "{some} of {n} rows have no label, and a kernel matrix loses its columns with its \
                 rows; leave them out of both"
            ),
        };
        Error::data(self.table.place(), problem)
    }

    /// What differs most along a row and its column.
    fn asymmetry(&self, at: usize) -> Result<Error> {
        let n = self.source.n_features();
        let (mut row, mut column, mut first) = (Array1::zeros(n), Array1::zeros(n), 0);
        let watch = self.watch("looking for the entry");
        pass::each(self.source, self.crew, &watch, |block| {
            let values = block.into_f64();
            let own = first..first + values.nrows();
            column.slice_mut(s![own.clone()]).assign(&values.column(at));
            if own.contains(&at) {
                row.assign(&values.row(at - first));
            }
            first = own.end;
            Ok(())
        })?;
        let difference = |j: &usize| f64::abs(row[*j] - column[*j]);
        let most = (0..n).max_by(|a, b| difference(a).total_cmp(&difference(b))).unwrap_or(0);
        let (here, there) = (row[most], column[most]);
        Ok(Error::data(place_of(self.table, at, true), not_symmetric((at, most), here, there)))
    }
}

/// What is said of an entry that differs from its mirror image.
pub(crate) fn not_symmetric((i, j): (usize, usize), here: f64, there: f64) -> String {
    format!(
        "the matrix is not symmetric: row {i} has {here} for row {j}, which has {there} for row {i}"
    )
}
