//! Kernels over rows: pure functions of two blocks.
//!
//! Enters: a block of rows x (a × d) and one of rows y (b × d). Leaves: the a × b tile k(x_i, y_j), from one product
//! and a pass over the tile. Holds the tile.
//!
//! | kernel | k(x, y) | flags |
//! |---|---|---|
//! | linear | xᵀy + c₁ | `--coef0` c₁ |
//! | poly | (c₁ xᵀy + c₂)^c₃ | `--gamma` c₁, `--coef0` c₂, `--degree` c₃ |
//! | rbf | exp(−γ‖x − y‖²) | `--gamma` γ, or `--sigma` with γ = 1/(2σ²) |
//! | sigmoid | tanh(c₁ xᵀy + c₂) | `--gamma` c₁, `--coef0` c₂ |
//! | cosine | xᵀy / (‖x‖ ‖y‖) | |

use ndarray::{Array1, Array2, ArrayView2};
use serde::{Deserialize, Serialize};

/// `--kernel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// xᵀy + c₁.
    #[default]
    Linear,
    /// (c₁ xᵀy + c₂)^c₃.
    Poly,
    /// exp(−γ‖x − y‖²).
    Rbf,
    /// tanh(c₁ xᵀy + c₂).
    Sigmoid,
    /// xᵀy / (‖x‖ ‖y‖).
    Cosine,
}

/// A kernel with its constants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Kernel {
    /// xᵀy + c₁.
    Linear {
        /// c₁.
        coef0: f64,
    },
    /// (c₁ xᵀy + c₂)^c₃.
    Poly {
        /// c₁.
        gamma: f64,
        /// c₂.
        coef0: f64,
        /// c₃.
        degree: u32,
    },
    /// exp(−γ‖x − y‖²).
    Rbf {
        /// γ.
        gamma: f64,
    },
    /// tanh(c₁ xᵀy + c₂).
    Sigmoid {
        /// c₁.
        gamma: f64,
        /// c₂.
        coef0: f64,
    },
    /// xᵀy / (‖x‖ ‖y‖).
    Cosine,
}

impl Kernel {
    /// k(x_i, y_j), a × b.
    pub fn tile(&self, x: ArrayView2<'_, f64>, y: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut k = x.dot(&y.t());
        match *self {
            Kernel::Linear { coef0 } => k.mapv_inplace(|t| t + coef0),
            Kernel::Poly { gamma, coef0, degree } => k.mapv_inplace(|t| (gamma * t + coef0).powi(degree as i32)),
            Kernel::Sigmoid { gamma, coef0 } => k.mapv_inplace(|t| (gamma * t + coef0).tanh()),
            Kernel::Rbf { gamma } => {
                let (a, b) = (squares(x), squares(y));
                for (mut row, a) in k.rows_mut().into_iter().zip(&a) {
                    // ‖x−y‖² is never negative but for rounding.
                    row.iter_mut().zip(&b).for_each(|(t, b)| *t = (-gamma * (a + b - 2.0 * *t).max(0.0)).exp());
                }
            }
            Kernel::Cosine => {
                let (a, b) = (squares(x).mapv(f64::sqrt), squares(y).mapv(f64::sqrt));
                for (mut row, a) in k.rows_mut().into_iter().zip(&a) {
                    row.iter_mut().zip(&b).for_each(|(t, b)| *t = if a * b > 0.0 { *t / (a * b) } else { 0.0 });
                }
            }
        }
        k
    }

    /// Shifting all rows does not change it: digits of a large mean can be taken away first.
    pub fn is_shift_invariant(&self) -> bool {
        matches!(self, Kernel::Rbf { .. })
    }
}

fn squares(x: ArrayView2<'_, f64>) -> Array1<f64> {
    x.rows().into_iter().map(|row| row.dot(&row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas of the table, pair by pair.
    fn plain(kernel: &Kernel, x: &[f64], y: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        match *kernel {
            Kernel::Linear { coef0 } => dot(x, y) + coef0,
            Kernel::Poly { gamma, coef0, degree } => (gamma * dot(x, y) + coef0).powi(degree as i32),
            Kernel::Rbf { gamma } => (-gamma * x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()).exp(),
            Kernel::Sigmoid { gamma, coef0 } => (gamma * dot(x, y) + coef0).tanh(),
            Kernel::Cosine => dot(x, y) / (dot(x, x) * dot(y, y)).sqrt(),
        }
    }

    #[test]
    fn tiles_are_the_formulas() {
        let x = Array2::from_shape_fn((5, 3), |(i, j)| (i * 3 + j) as f64 / 7.0 - 0.9);
        let y = Array2::from_shape_fn((4, 3), |(i, j)| ((i + 2 * j) % 5) as f64 / 3.0 + 0.1);
        for kernel in [
            Kernel::Linear { coef0: 0.5 },
            Kernel::Poly { gamma: 0.3, coef0: 1.0, degree: 3 },
            Kernel::Rbf { gamma: 0.7 },
            Kernel::Sigmoid { gamma: 0.2, coef0: -0.1 },
            Kernel::Cosine,
        ] {
            let tile = kernel.tile(x.view(), y.view());
            for ((i, j), t) in tile.indexed_iter() {
                let expected = plain(&kernel, &x.row(i).to_vec(), &y.row(j).to_vec());
                assert!((t - expected).abs() < 1e-14, "{kernel:?} {i} {j}: {t} against {expected}");
            }
        }
    }
}
