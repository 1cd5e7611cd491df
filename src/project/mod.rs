//! Model × block → scores, reconstructions, diagnostics. Pure functions of the block's rows.
//!
//! With D = diag(scale) (I without standardizing) and μ (0 without centring):
//!
//! ```text
//! scores           z = Uᵀ D⁻¹ (x − μ)                 seed, projection onto the PCA subspace
//! reconstruction   x̂ = D U z + μ                               undone in reverse
//! residual         x − x̂ = D (D⁻¹(x − μ) − U z)
//! error            ‖D⁻¹(x − μ) − U z‖                          in the space the components live in
//! Hotelling        T² = Σ z_i² / explained_variance_i
//! ```
//!
//! Centring comes before the product: Uᵀx − Uᵀμ would lose the digits that a large mean hides.
//! Held: one centred copy of the block, k scores per row, and a reconstruction where asked.
//!
//! A kernel model compares the prepared row x with its basis ([`crate::kernel::KernelMap`]):
//!
//! ```text
//! scores           z = A k(x) − o
//! error            √(‖φ(x) − φ̄‖² − ‖z‖²)              the same distance, where the kernel maps to
//! ```
//!
//! It has no reconstruction; [`preimage`] has what comes near one.

pub(crate) mod preimage;

use crate::error::{Place, Result};
use crate::kernel::{Comparer, KernelMap};
use crate::model::{Model, Projection};
use crate::source::{Block, Prepare};
use ndarray::{Array1, Array2, ArrayView2, Axis, s};

/// Applies the first k components of a model to blocks.
pub(crate) struct Projector<'a> {
    model: &'a Model,
    k: usize,
    prepare: Prepare,
    comparer: Option<Comparer<'a>>,
    threads: usize,
}

/// Some rows and their scores.
pub(crate) struct BlockScores {
    /// rows × d, as the components see them.
    pub prepared: Array2<f64>,
    /// k × rows: the scores of a component are contiguous, as Parquet wants them.
    pub scores: Array2<f64>,
    /// ‖φ(x) − φ̄‖² of each, of a kernel model.
    lengths: Option<Array1<f64>>,
}

impl<'a> Projector<'a> {
    /// `k` is at most the model's own number of components; a worker may use this many threads for
    /// its comparisons.
    pub(crate) fn new(model: &'a Model, k: usize, threads: usize) -> Projector<'a> {
        let factor = model.scale.as_ref().map(|s| s.mapv(f64::recip));
        // A kernel centres where it maps to, so the mean goes only with the deviations.
        let plain = model.kernel_map().is_none() && !model.is_normalized();
        let shift = if plain { model.header.center } else { model.header.standardize };
        let prepare = Prepare {
            fill: model.mean.clone(),
            active: None,
            shift: shift.then(|| model.mean.clone()),
            factor,
            normalize: model.is_normalized(),
            center: model.unit_mean.clone(),
        };
        let comparer = model.kernel_map().map(KernelMap::comparer);
        Projector { model, k: k.min(model.n_components()), prepare, comparer, threads }
    }

    /// Blocks have features that were constant and left out, too: their values, among all features.
    pub(crate) fn with_constants(mut self, constants: &[Option<f64>]) -> Projector<'a> {
        let mut means = self.model.mean.iter().copied();
        let mean = |constant: &Option<f64>| constant.or_else(|| means.next()).unwrap_or(0.0);
        self.prepare.fill = constants.iter().map(mean).collect();
        let active = (0..constants.len()).filter(|j| constants[*j].is_none());
        self.prepare.active = Some(active.collect());
        self
    }

    /// Components applied.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    fn components<'m>(&self, components: &'m Array2<f64>) -> ArrayView2<'m, f64> {
        components.slice(s![..self.k, ..])
    }

    /// Scores of a block; `place` says where its rows are, for those that have none.
    pub(crate) fn project(
        &self,
        block: Block,
        place: impl Fn(usize) -> Place,
    ) -> Result<BlockScores> {
        let prepared = self.prepare.apply(block, place)?;
        Ok(match (&self.model.projection, &self.comparer) {
            (Projection::Kernel(_), Some(comparer)) => {
                let compared = comparer.compare(prepared.view(), self.k, self.threads);
                BlockScores { prepared, scores: compared.scores, lengths: Some(compared.lengths) }
            }
            (Projection::Linear(components), _) => {
                let scores = self.components(components).dot(&prepared.t());
                BlockScores { prepared, scores, lengths: None }
            }
            (Projection::Kernel(_), None) => unreachable!("a kernel map has a comparer"),
        })
    }

    /// rows × d: x̂ from k × rows scores, of a linear model.
    pub(crate) fn reconstruct(&self, scores: &Array2<f64>) -> Array2<f64> {
        let mut x = match self.model.components() {
            Some(components) => scores.t().dot(&self.components(components)),
            None => Array2::zeros((scores.ncols(), self.model.n_features())),
        };
        if let Some(scale) = &self.model.scale {
            x *= scale;
        }
        if self.model.header.center {
            x += &self.model.mean;
        }
        x
    }

    /// What preparing a row did, undone: of a kernel model, scale and mean.
    pub(crate) fn unprepared(&self, mut rows: Array2<f64>) -> Array2<f64> {
        if let Some(scale) = &self.model.scale {
            rows *= scale;
            rows += &self.model.mean;
        }
        rows
    }

    /// The mean of the training scores along a component: 0, but where a kernel model does not
    /// centre.
    fn mean_score(&self, i: usize) -> f64 {
        let uncentred = self.model.kernel_map().filter(|_| !self.model.header.center);
        let means =
            uncentred.and_then(|map| Some(map.coefficients.row(i).dot(map.kernel_means.as_ref()?)));
        means.unwrap_or(0.0)
    }

    /// What the components leave of each row, as they see it (rows × d); a kernel model tells its
    /// length alone.
    pub(crate) fn residual(&self, projected: &BlockScores) -> Option<Array2<f64>> {
        let components = self.components(self.model.components()?);
        let mut residual = projected.scores.t().dot(&components);
        residual.zip_mut_with(&projected.prepared, |seen, x| *seen = x - *seen);
        Some(residual)
    }

    /// x − x̂ from what the components leave.
    pub(crate) fn unscaled(&self, mut residual: Array2<f64>) -> Array2<f64> {
        if let Some(scale) = &self.model.scale {
            residual *= scale;
        }
        residual
    }

    /// The distance of each row from its reconstruction.
    pub(crate) fn error(
        &self,
        projected: &BlockScores,
        residual: Option<&Array2<f64>>,
    ) -> Array1<f64> {
        if let Some(residual) = residual {
            return residual.map_axis(Axis(1), |row| row.dot(&row).sqrt());
        }
        let scores = &projected.scores;
        let lengths = projected.lengths.clone();
        let mut left = lengths.unwrap_or_else(|| Array1::zeros(scores.ncols()));
        scores.rows().into_iter().for_each(|row| left.zip_mut_with(&row, |l, z| *l -= z * z));
        left.mapv(|l| if l < 0.0 { 0.0 } else { l.sqrt() })
    }

    /// Hotelling's T² of the scores of each row.
    pub(crate) fn hotelling(&self, projected: &BlockScores) -> Array1<f64> {
        let scores = &projected.scores;
        let mut t2 = Array1::zeros(scores.ncols());
        let variances = self.model.explained_variance().unwrap_or_default();
        for (i, (row, variance)) in scores.rows().into_iter().zip(variances).enumerate() {
            let mean = self.mean_score(i);
            // Along a given basis rows may not vary at all: one that does is infinitely far.
            let term = |z: f64| if z == mean { 0.0 } else { (z - mean) * (z - mean) / variance };
            t2.zip_mut_with(&row, |t, z| *t += term(*z));
        }
        t2
    }
}
