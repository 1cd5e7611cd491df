//! Down to which component eigenvalues are known to a relative error of 1e-6.
//!
//! Products: S is off by some E, from adding up and from decomposing it, with ‖E‖ ≤ ε·λ₁. By Weyl
//! no eigenvalue is off by more than that, so the relative error of λᵢ is at most ε·λ₁/λᵢ. For ε
//! stands what the rank is judged by, eps × max(d, √n): LAPACK's part grows with d, that of sums
//! with the root of their terms. f32 products add what was measured of them, and subtractions
//! multiply ε by what they lost.
//!
//! A factor: Householder's QR and one-sided Jacobi change each column of A by no more than ε of its
//! own size, aⱼ. To first order σᵢ moves by uᵢᵀ E vᵢ, so that
//!
//! ```text
//! |δσᵢ| ≤ ε Σⱼ aⱼ |vᵢⱼ|        |δλᵢ| / λᵢ ≤ 2 |δσᵢ| / σᵢ
//! ```
//!
//! Small features cost small components nothing. The row √W·μᵀ of uncentred data is off by eps of
//! its own entries, and reaches σᵢ only as far as uᵢ has it: its share is |uᵢ₀| Σⱼ |mⱼ vᵢⱼ| eps.

use super::Solution;
use super::spectrum::rank_tolerance;
use crate::accumulate::Moments;
use ndarray::{Array1, Array2, s};

/// The relative error up to which an eigenvalue is called accurate.
pub(crate) const ACCURATE: f64 = 1e-6;

/// How many lead whose relative error is no larger.
pub(super) fn leading(errors: impl Iterator<Item = f64>) -> usize {
    errors.take_while(|error| *error <= ACCURATE).count()
}

/// Of eigenvalues of a sum of products, `lost_digits` of which subtractions have cost.
pub(crate) fn of_products(
    solution: &Solution,
    moments: &Moments,
    lost_digits: Option<f64>,
) -> usize {
    let values = &solution.eigenvalues;
    let largest = values.first().copied().unwrap_or(0.0);
    let lost = 10f64.powf(lost_digits.unwrap_or(0.0));
    let rounding = rank_tolerance(moments.rows, solution.active.len()) * lost * largest;
    // |E_ij| ≤ e·√(S_ii S_jj), so that ‖E‖ ≤ e · trace.
    let singles = moments.mixed_error.unwrap_or(0.0) * solution.trace;
    let above = values.iter().take_while(|value| **value > 0.0);
    leading(above.map(|value| (rounding + singles) / value))
}

/// What the errors of the singular values of a factor depend on.
pub(super) struct FactorErrors<'a> {
    pub(super) a: &'a Array2<f64>,
    pub(super) sigma: &'a Array1<f64>,
    /// Right singular vectors as rows.
    pub(super) v: &'a Array2<f64>,
    /// False where the first row of A is the mean.
    pub(super) centred: bool,
    /// ε.
    pub(super) tolerance: f64,
}

impl FactorErrors<'_> {
    /// |δλ| / λ of each.
    pub(super) fn relative(&self) -> impl Iterator<Item = f64> {
        let first = usize::from(!self.centred);
        let size = |column: ndarray::ArrayView1<'_, f64>| {
            let rows = column.slice(s![first..]);
            rows.dot(&rows).sqrt()
        };
        let sizes: Array1<f64> = self.a.columns().into_iter().map(size).collect();
        let mean = (!self.centred).then(|| self.a.row(0).to_owned());
        self.sigma.iter().zip(self.v.rows()).map(move |(sigma, v)| {
            let along = v.iter().zip(&sizes).map(|(v, size)| v.abs() * size).sum::<f64>();
            let by_mean = mean.as_ref().map_or(0.0, |m| {
                let reach: f64 = m.iter().zip(v).map(|(m, v)| (m * v).abs()).sum();
                (m.dot(&v) / sigma).abs().min(1.0) * reach
            });
            2.0 * (self.tolerance * along + f64::EPSILON * by_mean) / sigma
        })
    }
}
