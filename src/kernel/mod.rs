//! Kernels over rows: pure functions of two blocks.
//!
//! Enters: a block of rows x (a × d) and one of rows y (b × d). Leaves: the a × b tile k(x_i, y_j),
//! from one product and a vectorised pass over the tile (`simd`); pairs whose distance lost digits
//! that rbf feels are compared by differences (`near`). Holds the tile.
//!
//! [`Comparands`] are rows that many others are compared with, [`KernelMap`] what a kernel model
//! does with them, [`Fourier`] random features that stand for the rbf kernel, [`Monomials`]
//! features that are the polynomial one.
//!
//! | kernel | k(x, y) | flags |
//! |---|---|---|
//! | linear | xᵀy + c₁ | `--coef0` c₁ |
//! | poly | (c₁ xᵀy + c₂)^c₃ | `--gamma` c₁, `--coef0` c₂, `--degree` c₃ |
//! | rbf | exp(−γ‖x − y‖²) | `--gamma` γ, or `--sigma` with γ = 1/(2σ²) |
//! | sigmoid | tanh(c₁ xᵀy + c₂) | `--gamma` c₁, `--coef0` c₂ |
//! | cosine | xᵀy / (‖x‖ ‖y‖) | |
//! | precomputed | given: a row has its n kernel values | |
//! | distances | −½ d², d given: a row has its n distances (classical scaling) | |

mod comparands;
mod fourier;
mod map;
mod monomials;
mod near;
pub(crate) mod ridge;
mod simd;

pub(crate) use comparands::Comparands;
pub use fourier::Fourier;
pub(crate) use map::Comparer;
pub use map::{Basis, KernelMap};
pub use monomials::Monomials;
pub(crate) use near::squared_distance;
pub use ridge::Ridge;

use crate::words::constant;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut2, s};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A kernel by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
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
    /// Given: row i has k(x_i, x_j) for all j.
    Precomputed,
    /// −½ d(x_i, x_j)², given the distances: classical scaling.
    Distances,
}

impl KernelKind {
    /// True when rows are their own kernel values, or distances, and nothing is compared.
    pub fn is_given(self) -> bool {
        matches!(self, KernelKind::Precomputed | KernelKind::Distances)
    }
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
    /// Given: row i has k(x_i, x_j) for all j.
    Precomputed,
    /// −½ d(x_i, x_j)², given the distances: classical scaling.
    Distances,
}

/// Rows on one side of a tile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    /// As products take them: a kernel that does not feel it may have them moved.
    rows: ArrayView2<'a, f64>,
    /// ‖x‖² of each.
    squares: &'a [f64],
    /// As they were.
    original: ArrayView2<'a, f64>,
}

impl<'a> Side<'a> {
    /// Rows that were not moved, with their squared lengths.
    pub(crate) fn new(rows: ArrayView2<'a, f64>, squares: &'a [f64]) -> Side<'a> {
        Side { rows, squares, original: rows }
    }

    /// Some of them.
    pub(crate) fn part(&self, i: Range<usize>) -> Side<'a> {
        Side {
            rows: self.rows.slice_move(s![i.clone(), ..]),
            squares: &self.squares[i.clone()],
            original: self.original.slice_move(s![i, ..]),
        }
    }
}

impl Kernel {
    /// k(x_i, y_j), a × b.
    pub fn tile(&self, x: ArrayView2<'_, f64>, y: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut k = Array2::zeros((x.nrows(), y.nrows()));
        let (a, b) = (self.squares(x), self.squares(y));
        self.tile_into(Side::new(x, &a), Side::new(y, &b), k.view_mut());
        k
    }

    /// The same in a tile that is there already.
    pub(crate) fn tile_into(&self, x: Side<'_>, y: Side<'_>, mut k: ArrayViewMut2<'_, f64>) {
        ndarray::linalg::general_mat_mul(1.0, &x.rows, &y.rows.t(), 0.0, &mut k);
        let (a, b) = (x.squares, y.squares);
        for (i, mut row) in k.rows_mut().into_iter().enumerate() {
            let row = row.as_slice_mut().expect("a tile is in C order");
            match *self {
                Kernel::Precomputed | Kernel::Distances => {
                    unreachable!("what is given is not compared")
                }
                Kernel::Linear { coef0 } => row.iter_mut().for_each(|t| *t += coef0),
                Kernel::Poly { gamma, coef0, degree } => simd::poly(row, gamma, coef0, degree),
                Kernel::Rbf { gamma } => {
                    if simd::rbf(row, gamma, a[i], b) {
                        near::compare_again(row, gamma, (x.original.row(i), a[i]), (y.original, b));
                    }
                }
                Kernel::Sigmoid { gamma, coef0 } => simd::sigmoid(row, gamma, coef0),
                Kernel::Cosine => {
                    let a = a[i].sqrt();
                    row.iter_mut().zip(b).for_each(|(t, b)| {
                        let lengths = a * b.sqrt();
                        *t = if lengths > 0.0 { *t / lengths } else { 0.0 };
                    });
                }
            }
        }
    }

    /// k(x_i, x_i), from the squared lengths.
    pub(crate) fn diagonal(&self, squares: &[f64]) -> Array1<f64> {
        let entry = |s: &f64| match *self {
            Kernel::Linear { coef0 } => s + coef0,
            Kernel::Poly { gamma, coef0, degree } => (gamma * s + coef0).powi(degree as i32),
            Kernel::Sigmoid { gamma, coef0 } => (gamma * s + coef0).tanh(),
            Kernel::Rbf { .. } => 1.0,
            // Of a new row it is not among the values that are given.
            Kernel::Precomputed => f64::NAN,
            Kernel::Distances => 0.0,
            Kernel::Cosine => f64::from(u8::from(*s > 0.0)),
        };
        squares.iter().map(entry).collect()
    }

    /// The kernel values that given numbers stand for.
    pub(crate) fn given(&self, mut values: Array2<f64>) -> Array2<f64> {
        if *self == Kernel::Distances {
            values.mapv_inplace(|d| -0.5 * d * d);
        }
        values
    }

    /// ‖x‖² of each row.
    pub(crate) fn squares(&self, x: ArrayView2<'_, f64>) -> Vec<f64> {
        x.rows().into_iter().map(|row| row.dot(&row)).collect()
    }

    /// Shifting all rows does not change it: digits of a large mean can be taken away first.
    pub fn is_shift_invariant(&self) -> bool {
        matches!(self, Kernel::Rbf { .. })
    }

    /// Its name.
    pub fn kind(&self) -> KernelKind {
        match self {
            Kernel::Linear { .. } => KernelKind::Linear,
            Kernel::Poly { .. } => KernelKind::Poly,
            Kernel::Rbf { .. } => KernelKind::Rbf,
            Kernel::Sigmoid { .. } => KernelKind::Sigmoid,
            Kernel::Cosine => KernelKind::Cosine,
            Kernel::Precomputed => KernelKind::Precomputed,
            Kernel::Distances => KernelKind::Distances,
        }
    }

    /// γ, where it has one.
    pub fn gamma(&self) -> Option<f64> {
        match *self {
            Kernel::Poly { gamma, .. } | Kernel::Rbf { gamma } | Kernel::Sigmoid { gamma, .. } => {
                Some(gamma)
            }
            _ => None,
        }
    }

    /// c₁ of linear, c₂ of poly and sigmoid.
    pub fn coef0(&self) -> Option<f64> {
        match *self {
            Kernel::Linear { coef0 }
            | Kernel::Poly { coef0, .. }
            | Kernel::Sigmoid { coef0, .. } => Some(coef0),
            _ => None,
        }
    }

    /// c₃ of poly.
    pub fn degree(&self) -> Option<u32> {
        match *self {
            Kernel::Poly { degree, .. } => Some(degree),
            _ => None,
        }
    }

    /// k(x, y), of two rows alone: no product takes digits from a distance.
    pub(crate) fn of(&self, x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> f64 {
        match *self {
            Kernel::Precomputed | Kernel::Distances => {
                unreachable!("what is given is not compared")
            }
            Kernel::Linear { coef0 } => x.dot(&y) + coef0,
            Kernel::Poly { gamma, coef0, degree } => {
                (gamma * x.dot(&y) + coef0).powi(degree as i32)
            }
            Kernel::Rbf { gamma } => (-gamma * squared_distance(x, y)).exp(),
            Kernel::Sigmoid { gamma, coef0 } => (gamma * x.dot(&y) + coef0).tanh(),
            Kernel::Cosine => {
                let lengths = (x.dot(&x) * y.dot(&y)).sqrt();
                if lengths > 0.0 { x.dot(&y) / lengths } else { 0.0 }
            }
        }
    }
}

impl std::fmt::Display for KernelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KernelKind::Linear => "linear",
            KernelKind::Poly => "poly",
            KernelKind::Rbf => "rbf",
            KernelKind::Sigmoid => "sigmoid",
            KernelKind::Cosine => "cosine",
            KernelKind::Precomputed => "precomputed",
            KernelKind::Distances => "distances",
        })
    }
}

/// "rbf, gamma 0.5".
impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kernel::Linear { coef0 } if *coef0 == 0.0 => write!(f, "linear"),
            Kernel::Linear { coef0 } => write!(f, "linear, coef0 {coef0}"),
            Kernel::Poly { gamma, coef0, degree } => {
                let (gamma, coef0) = (constant(*gamma), constant(*coef0));
                write!(f, "poly, gamma {gamma}, coef0 {coef0}, degree {degree}")
            }
            Kernel::Rbf { gamma } => write!(f, "rbf, gamma {}", constant(*gamma)),
            Kernel::Sigmoid { gamma, coef0 } => {
                let (gamma, coef0) = (constant(*gamma), constant(*coef0));
                write!(f, "sigmoid, gamma {gamma}, coef0 {coef0}")
            }
            Kernel::Cosine | Kernel::Precomputed | Kernel::Distances => self.kind().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas of the table, pair by pair.
    fn plain(kernel: &Kernel, x: &[f64], y: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        match *kernel {
            Kernel::Linear { coef0 } => dot(x, y) + coef0,
            Kernel::Poly { gamma, coef0, degree } => {
                (gamma * dot(x, y) + coef0).powi(degree as i32)
            }
            Kernel::Rbf { gamma } => {
                (-gamma * x.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()).exp()
            }
            Kernel::Sigmoid { gamma, coef0 } => (gamma * dot(x, y) + coef0).tanh(),
            _ => dot(x, y) / (dot(x, x) * dot(y, y)).sqrt(),
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
                assert!((kernel.of(x.row(i), y.row(j)) - expected).abs() < 1e-14);
            }
        }
    }
}
