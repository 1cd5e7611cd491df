//! Model × block → scores, reconstructions, diagnostics. Pure functions of the block's rows.
//!
//! With D = diag(scale) (I without standardizing) and μ (0 without centring):
//!
//! ```text
//! scores           z = Uᵀ D⁻¹ (x − μ)                          seed, projection onto the PCA subspace
//! reconstruction   x̂ = D U z + μ                               undone in reverse
//! error            ‖D⁻¹(x − μ) − U z‖                          in the space the components live in
//! Hotelling        T² = Σ z_i² / explained_variance_i
//! ```
//!
//! Centring comes before the product: Uᵀx − Uᵀμ would lose the digits that a large mean hides.
//! Held: one centred copy of the block, k scores per row, and a reconstruction where asked.

use crate::model::Model;
use crate::source::{Block, dense};
use ndarray::{Array1, Array2, ArrayView2, Axis, s};

/// Applies the first k components of a model to blocks.
#[derive(Debug, Clone)]
pub struct Projector<'a> {
    model: &'a Model,
    k: usize,
    /// 1 / scale.
    factor: Option<Array1<f64>>,
}

/// How far each row is from the model.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    /// Distance between a row and its reconstruction.
    pub error: Array1<f64>,
    /// Hotelling's T² of its scores.
    pub t2: Array1<f64>,
}

impl<'a> Projector<'a> {
    /// `k` is at most the model's own number of components.
    pub fn new(model: &'a Model, k: usize) -> Projector<'a> {
        let factor = model.scale.as_ref().map(|s| s.mapv(f64::recip));
        Projector { model, k: k.min(model.n_components()), factor }
    }

    /// Components applied.
    pub fn k(&self) -> usize {
        self.k
    }

    fn components(&self) -> ArrayView2<'_, f64> {
        self.model.components.slice(s![..self.k, ..])
    }

    /// D⁻¹(x − μ); missing cells are at the mean.
    pub fn centred(&self, mut block: Block) -> Array2<f64> {
        let missing = std::mem::take(&mut block.missing);
        let mut y = block.into_f64();
        for cell in &missing {
            y[[cell.row as usize, cell.feature as usize]] = self.model.mean[cell.feature as usize];
        }
        let mean = self.model.header.center.then_some(&self.model.mean);
        dense::shift(&mut y, mean, self.factor.as_ref());
        y
    }

    /// k × rows: the scores of a component are contiguous, as Parquet wants them.
    pub fn scores(&self, centred: &Array2<f64>) -> Array2<f64> {
        self.components().dot(&centred.t())
    }

    /// rows × d: x̂ from k × rows scores.
    pub fn reconstruct(&self, scores: &Array2<f64>) -> Array2<f64> {
        let mut x = scores.t().dot(&self.components());
        if let Some(scale) = &self.model.scale {
            x *= scale;
        }
        if self.model.header.center {
            x += &self.model.mean;
        }
        x
    }

    /// Distance to the subspace and within it.
    pub fn diagnostics(&self, centred: &Array2<f64>, scores: &Array2<f64>) -> Diagnostics {
        let residual = centred - &scores.t().dot(&self.components());
        let error = residual.map_axis(Axis(1), |row| row.dot(&row).sqrt());
        let mut t2 = Array1::zeros(scores.ncols());
        for (row, variance) in scores.rows().into_iter().zip(self.model.explained_variance().unwrap_or_default()) {
            t2.zip_mut_with(&row, |t, z| *t += z * z / variance);
        }
        Diagnostics { error, t2 }
    }
}
