//! The dual form (seed, "Dual Principal Component Analysis"): eigenvectors of the n × n side,
//! mapped to the features.
//!
//! ```text
//! G = X̆ᵀX̆ = V Σ² Vᵀ          decompose: λ = σ², v
//! U = X̆ V Σ⁻¹                the caller's second pass, from the coefficients v/σ
//! ```
//!
//! Holds what decomposing G does ([`super::bytes`]), then k·n coefficients and k·d loadings.

use super::rules::{Components, Rules};
use super::spectrum::{self, Spectrum, rank_tolerance};
use super::{Certificate, Form, Scaling, Solution};
use crate::accumulate::{GramSums, Moments};
use crate::blas;
use crate::error::Result;
use ndarray::{Array2, Axis};

/// A decomposed Gram matrix.
pub(crate) struct GramEigen {
    /// Rows vᵢ/σᵢ of the kept components: U = coefficients × X̆ᵀ.
    pub coefficients: Array2<f64>,
    spectrum: Spectrum,
    trace: f64,
    rules: Rules,
    max_residual: f64,
    trace_error: Option<f64>,
}

/// Decomposes G, whose n² numbers are used up by it.
pub(crate) fn decompose(
    sums: GramSums,
    scaling: Scaling,
    asked: Components,
    threads: usize,
) -> Result<(Moments, GramEigen)> {
    let GramSums { moments, mut g, .. } = sums;
    let d = scaling.active(&moments).0.len();
    let bound = super::rank_bound(moments.rows, d, scaling);
    let tolerance = rank_tolerance(d as u64, g.nrows());
    let mut eigen = super::eigen(&mut g, tolerance, bound, asked, threads)?;
    // The n × n side may have more eigenvalues than there are features; those are 0.
    eigen.spectrum.cut(d);
    let trace = g.diag().sum();
    let rules = Rules::new(&eigen.spectrum, trace, moments.weight, d, scaling.center);
    let k = rules.keep(asked)?;
    let mut v = spectrum::leading(&eigen.vectors, k);
    let residuals = blas::parallel(threads, || super::residuals(&g, &eigen.spectrum, &v));
    // X̆ maps a residual of v to one of u: ‖X̆‖/σᵢ = σ₁/σᵢ times as large at most.
    let largest = super::largest(&eigen.spectrum);
    let mapped = residuals
        .iter()
        .zip(&eigen.spectrum.values)
        .map(|(r, lambda)| r * (largest / lambda).sqrt());
    let max_residual = mapped.fold(0.0, f64::max);
    super::over_roots(&mut v, &eigen.spectrum);
    let trace_error = eigen.sum.map(|sum| super::relative(trace, sum));
    let spectrum = eigen.spectrum;
    Ok((moments, GramEigen { coefficients: v, spectrum, trace, rules, max_residual, trace_error }))
}

/// Puts the loadings (k × all features, those left out at 0) into order: orthonormal to the last
/// digit, signed.
pub(crate) fn finish(
    decomposed: GramEigen,
    loadings: Array2<f64>,
    moments: &Moments,
    scaling: Scaling,
    threads: usize,
) -> Result<Solution> {
    let (active, scale) = scaling.active(moments);
    let mut u = if active.len() < loadings.ncols() {
        loadings.select(Axis(1), &active).as_standard_layout().into_owned()
    } else {
        loadings
    };
    super::orthonormalise_and_sign(&mut u, threads)?;
    let orthogonality = blas::parallel(threads, || super::orthogonality(&u));
    let GramEigen { spectrum, trace, rules, max_residual, trace_error, .. } = decomposed;
    let mixed_error = moments.mixed_error;
    let certificate = Certificate {
        max_residual,
        orthogonality,
        trace_error,
        mixed_error,
        ..Certificate::default()
    };
    let (rank, eigenvalues) = (spectrum.rank(), spectrum.values);
    Ok(Solution {
        form: Form::Dual,
        active,
        scale,
        components: u,
        eigenvalues,
        rank,
        trace,
        rules,
        certificate,
    })
}
