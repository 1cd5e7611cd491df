//! Mean and spread of each feature on its own, in one pass.
//!
//! Enters: blocks, missing cells allowed. Leaves: [`Moments`]. Holds five vectors of d. Chan's rule
//! per feature, with the weight of its own present cells:
//!
//! ```text
//! q  += q_b + W_a W_b / (W_a + W_b) · δ²        q = Σ w (x−μ)², δ = μ_b − μ
//! ```

use super::stored::{Parts, Restored, Stored, left, reordered};
use super::{Accumulate, Center, Moments, Shape};
use crate::source::{Block, MissingCell, dense};
use ndarray::{Array1, Array2, Zip};

/// n, W, μ and Σ w (x−μ)² of the rows so far.
#[derive(Debug, Clone)]
pub struct FeatureMoments {
    rows: u64,
    weight: f64,
    /// Weight of each feature's present cells.
    present: Array1<f64>,
    pub(super) mean: Center,
    squares: Array1<f64>,
}

impl FeatureMoments {
    /// Of no rows yet.
    pub fn new(d: usize) -> FeatureMoments {
        FeatureMoments {
            rows: 0,
            weight: 0.0,
            present: Array1::zeros(d),
            mean: Center::zeros(d),
            squares: Array1::zeros(d),
        }
    }

    /// Centres rows by the mean of their present cells, in place, missing cells at 0; gives their
    /// spread.
    pub(super) fn centring(
        y: &mut Array2<f64>,
        weights: Option<&Array1<f64>>,
        missing: &[MissingCell],
    ) -> FeatureMoments {
        let (rows, d) = y.dim();
        let weight = weights.map_or(rows as f64, |w| w.sum());
        let mut present = Array1::from_elem(d, weight);
        for cell in missing {
            present[cell.feature as usize] -= weights.map_or(1.0, |w| w[cell.row as usize]);
        }
        // A rest of rounding where all that is present weighs nothing.
        present.mapv_inplace(|p| if p > weight * f64::EPSILON * rows as f64 { p } else { 0.0 });
        let mean = centre(y, weights, missing, &present);
        let squares = dense::column_squares(y, weights);
        FeatureMoments { rows: rows as u64, weight, present, mean, squares }
    }

    /// Weight of each feature's present cells.
    pub(super) fn present(&self) -> &Array1<f64> {
        &self.present
    }

    /// Appends features that were seen on the same rows.
    pub(super) fn append(&mut self, more: FeatureMoments) {
        if more.present.is_empty() {
            return;
        }
        let join =
            |a: &Array1<f64>, b: &Array1<f64>| a.iter().chain(b).copied().collect::<Array1<f64>>();
        self.present = join(&self.present, &more.present);
        self.squares = join(&self.squares, &more.squares);
        self.mean.append(&more.mean);
        (self.rows, self.weight) = (more.rows, more.weight);
    }

    /// W_a W_b / (W_a + W_b) for whole rows.
    pub(super) fn coupling(&self, later: &FeatureMoments) -> f64 {
        let total = self.weight + later.weight;
        if total > 0.0 { self.weight * later.weight / total } else { 0.0 }
    }
}

/// Subtracts from each feature the mean of its present cells, of this weight; missing cells hold 0
/// and stay 0.
pub(super) fn centre(
    y: &mut Array2<f64>,
    weights: Option<&Array1<f64>>,
    missing: &[MissingCell],
    present: &Array1<f64>,
) -> Center {
    let mut once = || {
        let mut shift = dense::column_sums(y, weights);
        Zip::from(&mut shift)
            .and(present)
            .for_each(|s, &p| *s = if p > 0.0 { *s / p } else { 0.0 });
        dense::shift(y, Some(&shift), None);
        dense::put(y, missing, 0.0);
        shift
    };
    // The second round centres by the rounding error of the first.
    Center::new(once(), once())
}

impl Accumulate for FeatureMoments {
    type Output = Moments;

    fn update(&mut self, mut block: Block) {
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        let mut y = block.into_f64();
        self.merge(FeatureMoments::centring(&mut y, weights.as_ref(), &missing));
    }

    fn merge(&mut self, later: FeatureMoments) {
        let delta = later.mean.minus(&self.mean);
        let mut step = Array1::zeros(delta.len());
        for j in 0..delta.len() {
            let (a, b) = (self.present[j], later.present[j]);
            if a == 0.0 {
                self.mean.adopt(j, &later.mean);
            } else if b > 0.0 {
                self.squares[j] += a * b / (a + b) * delta[j] * delta[j];
                step[j] = delta[j] * (b / (a + b));
            }
        }
        self.mean = self.mean.plus(&step);
        self.squares += &later.squares;
        self.present += &later.present;
        self.rows += later.rows;
        self.weight += later.weight;
    }

    fn finish(self) -> Moments {
        let (mut mean, rest) = self.mean.split();
        let seen = self.weight > 0.0;
        Zip::from(&mut mean)
            .and(&self.present)
            .for_each(|m, &p| *m = if seen && p == 0.0 { f64::NAN } else { *m });
        Moments {
            rows: self.rows,
            weight: self.weight,
            mean,
            rest,
            squares: self.squares,
            mixed_error: None,
        }
    }

    fn bytes(shape: Shape) -> u64 {
        8u64.saturating_mul(shape.features.saturating_mul(8 + shape.rows))
    }
}

impl Stored for FeatureMoments {
    fn store(&self, at: &str, parts: &mut Parts) {
        parts.fact(at, "rows", self.rows);
        parts.fact(at, "weight", self.weight);
        parts.vector(at, "present", &self.present);
        parts.center(at, "mean", &self.mean);
        parts.vector(at, "squares", &self.squares);
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<FeatureMoments> {
        Ok(FeatureMoments {
            rows: parts.take_rows(at)?,
            weight: parts.take_weight(at)?,
            present: parts.take_vector(at, "present", d)?,
            mean: parts.take_center(at, "mean", d)?,
            squares: parts.take_vector(at, "squares", d)?,
        })
    }

    fn subtract(&mut self, part: FeatureMoments) {
        let mut moved = self.mean.minus(&part.mean);
        for j in 0..moved.len() {
            let (t, b) = (self.present[j], part.present[j]);
            let rest = left(t, b);
            if b == 0.0 {
                moved[j] = 0.0;
                continue;
            }
            if rest == 0.0 {
                (moved[j], self.squares[j], self.present[j]) = (0.0, 0.0, 0.0);
                continue;
            }
            // μ_B − μ_A = −(μ_T − μ_B) W_T / W_A
            let delta = moved[j] * t / rest;
            moved[j] *= b / rest;
            self.squares[j] =
                (self.squares[j] - part.squares[j] - rest * b / t * delta * delta).max(0.0);
            self.present[j] = rest;
        }
        self.mean = self.mean.plus(&moved);
        self.rows = self.rows.saturating_sub(part.rows);
        self.weight = left(self.weight, part.weight);
    }

    fn spread(&self) -> Array1<f64> {
        self.squares.clone()
    }

    fn reorder(&mut self, order: &[usize]) {
        self.present = reordered(&self.present, order);
        self.mean = self.mean.reordered(order);
        self.squares = reordered(&self.squares, order);
    }
}
