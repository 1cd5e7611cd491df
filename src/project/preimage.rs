//! From scores on kernel components back to rows, as near as one comes.
//!
//! The projection of φ(x) is P = Σ_i g_i φ(x_i) with g = Aᵀz + mean, and in general no row maps to
//! it. Two ways to one whose image is near:
//!
//! | way back | how | for |
//! |---|---|---|
//! | fixed point | Mika et al. (1999): y ← Σ g_i k(y, x_i) x_i / Σ g_i k(y, x_i) | rbf |
//! | ridge | a map from scores to rows, learned in the fit (Bakır et al. 2004) | any kernel |
//!
//! Both say what loss they leave. Holds 32 × m comparisons per thread for m rows of the basis.

use crate::kernel::{Basis, Comparands, KernelMap};
use crate::workers::for_each;
use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use std::ops::Range;

/// Rows that are iterated together.
const ROWS_AT_ONCE: usize = 32;
/// Rows of the basis compared at once.
const TILE: usize = 1024;
/// The most steps.
const STEPS: usize = 200;
/// A step that moves a row by less, over its distance from the mean row, is the last.
const STAYS: f64 = 1e-8;
/// Rows of the basis that scores without a row may start from.
const STARTS: usize = 512;

/// Mika's iteration for one model.
pub(crate) struct FixedPoint<'a> {
    map: &'a KernelMap,
    rows: &'a Array2<f64>,
    comparands: Comparands<'a>,
    /// Some rows and their scores.
    starts: (Array2<f64>, Array2<f64>),
    spread: f64,
    k: usize,
}

/// Rows, and what is lost.
#[derive(Debug, Clone)]
pub(crate) struct Preimages {
    /// rows × d, prepared.
    pub rows: Array2<f64>,
    /// ‖P − φ(y)‖² of each.
    pub losses: Array1<f64>,
    /// Those whose iteration did not come to rest.
    pub unsettled: u64,
}

impl<'a> FixedPoint<'a> {
    /// True when it has an rbf kernel over rows.
    pub(crate) fn suits(map: &KernelMap) -> bool {
        matches!(&map.basis, Basis::Rows { kernel, .. } if kernel.is_shift_invariant())
    }

    /// For the first k components; `None` if the model is not one of an rbf kernel over rows.
    pub(crate) fn new(map: &'a KernelMap, k: usize) -> Option<FixedPoint<'a>> {
        let Basis::Rows { kernel, rows } = &map.basis else { return None };
        if !kernel.is_shift_invariant() {
            return None;
        }
        let step = rows.nrows().div_ceil(STARTS).max(1);
        let some: Vec<usize> = (0..rows.nrows()).step_by(step).collect();
        let some = rows.select(Axis(0), &some);
        let scores = map
            .comparer()
            .compare(some.view(), k, 1)
            .scores
            .reversed_axes()
            .as_standard_layout()
            .into_owned();
        let mean = rows.mean_axis(Axis(0))?;
        let spread = (rows - &mean).mapv(|v| v * v).sum() / rows.nrows() as f64;
        Some(FixedPoint {
            map,
            rows,
            comparands: Comparands::new(*kernel, rows),
            starts: (some, scores),
            spread,
            k,
        })
    }

    /// Pre-images of scores (k × rows), started from the rows they belong to or, without them, from
    /// the row of the basis whose scores are nearest.
    pub(crate) fn solve(
        &self,
        scores: &Array2<f64>,
        starts: Option<ArrayView2<'_, f64>>,
        threads: usize,
    ) -> Preimages {
        let n = scores.ncols();
        let parts: Vec<Range<usize>> =
            (0..n).step_by(ROWS_AT_ONCE).map(|i| i..(i + ROWS_AT_ONCE).min(n)).collect();
        let found = for_each(threads, parts.clone(), |part| {
            let z = scores.slice(s![.., part.clone()]);
            let start = match starts {
                Some(rows) => rows.slice(s![part, ..]).as_standard_layout().into_owned(),
                None => self.nearest(z),
            };
            self.iterate(z, start)
        });
        let mut all = Preimages {
            rows: Array2::zeros((n, self.rows.ncols())),
            losses: Array1::zeros(n),
            unsettled: 0,
        };
        for (part, some) in parts.into_iter().zip(found) {
            all.rows.slice_mut(s![part.clone(), ..]).assign(&some.rows);
            all.losses.slice_mut(s![part]).assign(&some.losses);
            all.unsettled += some.unsettled;
        }
        all
    }

    fn nearest(&self, z: ArrayView2<'_, f64>) -> Array2<f64> {
        let (rows, scores) = &self.starts;
        let distance = |i: usize, at: usize| (&z.column(i) - &scores.row(at)).mapv(|v| v * v).sum();
        let nearest = |i: usize| {
            (0..rows.nrows())
                .min_by(|a, b| distance(i, *a).total_cmp(&distance(i, *b)))
                .unwrap_or(0)
        };
        let places: Vec<usize> = (0..z.ncols()).map(nearest).collect();
        rows.select(Axis(0), &places)
    }

    /// Mika's steps for some rows at a time.
    fn iterate(&self, z: ArrayView2<'_, f64>, mut y: Array2<f64>) -> Preimages {
        let coefficients = self.map.coefficients.slice(s![..self.k, ..]);
        let g = z.t().dot(&coefficients) + &self.map.mean;
        let mut moving = vec![true; y.nrows()];
        for _ in 0..STEPS {
            let (weighted, total, size) = self.step(&y, &g);
            for (i, moving) in moving.iter_mut().enumerate().filter(|(_, m)| **m) {
                // Nothing near has a say: it stays where it is, and that is told by its loss.
                if total[i] <= f64::EPSILON * size[i] {
                    continue;
                }
                let next = &weighted.row(i) / total[i];
                let step = (&next - &y.row(i)).mapv(|v| v * v).sum();
                *moving = step > STAYS * STAYS * self.spread;
                y.row_mut(i).assign(&next);
            }
            if !moving.contains(&true) {
                break;
            }
        }
        // ‖P‖² − 2 Σ g_i k(y, x_i) + 1
        let (_, near, _) = self.step(&y, &g);
        let own = z.map_axis(Axis(0), |z| z.dot(&z))
            + 2.0 * z.t().dot(&self.map.offset.slice(s![..self.k]))
            + self.map.grand_mean;
        let losses = (own - 2.0 * near + 1.0).mapv(|l: f64| l.max(0.0));
        Preimages { rows: y, losses, unsettled: moving.iter().filter(|m| **m).count() as u64 }
    }

    /// Σ g_i k(y, x_i) x_i, Σ g_i k(y, x_i) and Σ |g_i k(y, x_i)| for each row y.
    fn step(&self, y: &Array2<f64>, g: &Array2<f64>) -> (Array2<f64>, Array1<f64>, Array1<f64>) {
        let others = self.comparands.others(y.view());
        let mut weighted = Array2::zeros(y.raw_dim());
        let (mut total, mut size) = (Array1::zeros(y.nrows()), Array1::zeros(y.nrows()));
        let mut tile = Array2::zeros((y.nrows(), TILE.min(self.comparands.len())));
        for first in (0..self.comparands.len()).step_by(TILE) {
            let columns = first..(first + TILE).min(self.comparands.len());
            let mut part = tile.slice_mut(s![.., ..columns.len()]);
            self.comparands.against(&others, columns.clone(), part.view_mut());
            part *= &g.slice(s![.., columns.clone()]);
            ndarray::linalg::general_mat_mul(
                1.0,
                &part,
                &self.rows.slice(s![columns, ..]),
                1.0,
                &mut weighted,
            );
            total += &part.sum_axis(Axis(1));
            size += &part.map_axis(Axis(1), |row| row.iter().map(|v| v.abs()).sum());
        }
        (weighted, total, size)
    }
}
