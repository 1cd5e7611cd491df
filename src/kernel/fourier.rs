//! Random Fourier features (Rahimi & Recht 2007): ψ(x) = √(2/D) cos(ωᵀx + b) with E ψ(x)ᵀψ(y) =
//! exp(−γ‖x−y‖²).
//!
//! Enters: rows × q numbers. Leaves: rows × D features. Holds q·D numbers.

use ndarray::{Array1, Array2, ArrayView2};
use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;

/// The features of one rbf kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Fourier {
    /// q × D, N(0, 2γ).
    pub omega: Array2<f64>,
    /// D, uniform in [0, 2π).
    pub phase: Array1<f64>,
}

impl Fourier {
    /// D seeded features of numbers of q columns.
    pub fn new(columns: usize, features: usize, gamma: f64, seed: u64) -> Fourier {
        let mut rng = Pcg64::new(u128::from(seed), 0x5EED_1ABE);
        let spread = (2.0 * gamma).sqrt();
        let omega = Array2::from_shape_simple_fn((columns, features), || {
            spread * rng.sample::<f64, _>(StandardNormal)
        });
        let phase =
            Array1::from_shape_simple_fn(features, || rng.random_range(0.0..std::f64::consts::TAU));
        Fourier { omega, phase }
    }

    /// D.
    pub fn len(&self) -> usize {
        self.phase.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// rows × D.
    pub fn apply(&self, x: ArrayView2<'_, f64>) -> Array2<f64> {
        let scale = (2.0 / self.len() as f64).sqrt();
        let mut psi = x.dot(&self.omega);
        if !psi.is_standard_layout() {
            psi = psi.as_standard_layout().into_owned();
        }
        for mut row in psi.rows_mut() {
            row.iter_mut().zip(&self.phase).for_each(|(t, b)| *t = scale * (*t + b).cos());
        }
        psi
    }
}
