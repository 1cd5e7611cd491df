//! A learned way back from scores to rows (Bakır, Weston & Schölkopf 2004): ridge regression on an
//! rbf kernel over scores, with some rows as anchors.
//!
//! ```text
//! x̂ = x̄ + C ᵀk(s)                        k(s) = exp(−γ‖s − a‖²) for the anchors a
//! C = (Σ k kᵀ + ρ K_aa)⁻¹ Σ k (x − x̄)ᵀ     over the rows it is learned from
//! ```
//!
//! ρ is the one of a few that leaves the least error on rows that were held out. Holds anchors × (k
//! + d) numbers, and while it is learned the anchors squared.

use super::Kernel;
use crate::blas;
use crate::error::{Error, Result};
use ndarray::{Array1, Array2, ArrayView2, Axis};

/// Rows that are anchors at most.
pub(crate) const ANCHORS: usize = 500;
/// Rows that it is learned from at most.
pub(crate) const LEARNED_FROM: usize = 5_000;
/// One row in so many is held out to choose ρ by.
const HELD_OUT: usize = 5;
/// ρ over the mean of the diagonal of Σ k kᵀ.
const RIDGES: [f64; 7] = [1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1];

/// Scores → prepared rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Ridge {
    /// m × k.
    pub anchors: Array2<f64>,
    /// C, m × d.
    pub coefficients: Array2<f64>,
    /// x̄, d.
    pub mean: Array1<f64>,
    /// γ over scores.
    pub gamma: f64,
}

/// How well it goes back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RidgeFit {
    /// ρ over the mean of the diagonal.
    pub ridge: f64,
    /// Σ‖x − x̂‖² / Σ‖x − x̄‖² on rows that were held out.
    pub loss: f64,
}

impl Ridge {
    /// Learns from scores (rows × k) and the prepared rows they belong to, in an order that tells
    /// nothing.
    pub fn learn(
        scores: &Array2<f64>,
        rows: &Array2<f64>,
        threads: usize,
    ) -> Result<(Ridge, RidgeFit)> {
        let n = rows.nrows();
        let held_out = |i: &usize| i % HELD_OUT == HELD_OUT - 1 && n > HELD_OUT;
        let (out, within): (Vec<usize>, Vec<usize>) = (0..n).partition(held_out);
        let take = |a: &Array2<f64>, which: &[usize]| a.select(Axis(0), which);
        let anchors: Vec<usize> = within.iter().copied().take(ANCHORS).collect();
        let (anchors, gamma) = (take(scores, &anchors), gamma(scores));
        let kernel = Kernel::Rbf { gamma };
        let mean = rows.mean_axis(Axis(0)).unwrap_or_default();
        let (train, targets) = (
            kernel.tile(take(scores, &within).view(), anchors.view()),
            take(rows, &within) - &mean,
        );
        let test = if out.is_empty() { within } else { out };
        let (held, truth) =
            (kernel.tile(take(scores, &test).view(), anchors.view()), take(rows, &test) - &mean);
        let square = blas::parallel(threads, || train.t().dot(&train));
        let right = blas::parallel(threads, || train.t().dot(&targets));
        let penalty = kernel.tile(anchors.view(), anchors.view());
        let scale = square.diag().mean().unwrap_or(1.0);
        let spread: f64 = truth.iter().map(|v| v * v).sum();
        let mut best: Option<(f64, f64, Array2<f64>)> = None;
        for ridge in RIDGES {
            let mut a = &square + &(&penalty * (ridge * scale));
            a.diag_mut().mapv_inplace(|v| v * (1.0 + 1e-13));
            let Some(c) = blas::parallel(threads, || blas::solve_spd(a, right.clone()))? else {
                continue;
            };
            let off = (held.dot(&c) - &truth).iter().map(|v| v * v).sum::<f64>();
            let loss = if spread > 0.0 { off / spread } else { 0.0 };
            if loss.is_finite() && best.as_ref().is_none_or(|(least, ..)| loss < *least) {
                best = Some((loss, ridge, c));
            }
        }
        let (loss, ridge, coefficients) =
            best.ok_or_else(|| Error::Internal("no ridge could be solved for".into()))?;
        Ok((Ridge { anchors, coefficients, mean, gamma }, RidgeFit { ridge, loss }))
    }

    /// Prepared rows for scores (rows × k).
    pub fn apply(&self, scores: ArrayView2<'_, f64>) -> Array2<f64> {
        let kernel = Kernel::Rbf { gamma: self.gamma };
        kernel.tile(scores.as_standard_layout().view(), self.anchors.view()).dot(&self.coefficients)
            + &self.mean
    }
}

/// 1 / (2 median ‖s − s'‖²) over pairs of neighbours in an order that tells nothing.
fn gamma(scores: &Array2<f64>) -> f64 {
    let n = scores.nrows();
    let mut distances: Vec<f64> = (0..n)
        .map(|i| {
            let difference = &scores.row(i) - &scores.row((i + n / 2) % n);
            difference.dot(&difference)
        })
        .filter(|d| *d > 0.0)
        .collect();
    distances.sort_by(f64::total_cmp);
    distances.get(distances.len() / 2).map_or(1.0, |d| 0.5 / d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smooth_map_is_learned() {
        let s = Array2::from_shape_fn((400, 2), |(i, j)| {
            ((i * (37 + 54 * j)) % 199) as f64 / 100.0 - 1.0
        });
        let x = Array2::from_shape_fn((400, 3), |(i, j)| match j {
            0 => s[[i, 0]].sin(),
            1 => s[[i, 0]] * s[[i, 1]],
            _ => 5.0,
        });
        let (ridge, learned) = Ridge::learn(&s, &x, 1).unwrap();
        assert!(learned.loss < 1e-6, "{learned:?}");
        let back = ridge.apply(s.view());
        assert!(
            (&back - &x).iter().all(|e| e.abs() < 1e-2),
            "{:?}",
            (&back - &x).iter().fold(0.0f64, |m, e| m.max(e.abs()))
        );
    }
}
