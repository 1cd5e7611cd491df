//! Sums → components: build the matrix, decompose it, order and sign and cut, certify.
//!
//! ```text
//! CoMoment ─► problem (A) ─► eigen (dsyevd) ─► spectrum (order, rank, sign) ─► rules (k) ─► Solution
//! ```
//!
//! Holds A twice (once to check the vectors against) and LAPACK's work area: 32d² bytes at the peak.

pub mod rules;
pub mod spectrum;

use crate::accumulate::{CoMoment, Moments, add_outer};
use crate::blas;
use crate::error::{Error, Result};
use ndarray::{Array1, Array2, ArrayView1, Axis, Zip};
use rules::{Components, Rules};
use serde::{Deserialize, Serialize};
use spectrum::Spectrum;

/// What is done to the columns before the decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaling {
    /// Subtract the mean (false: LSA, the seed's uncentred form).
    pub center: bool,
    /// Divide by the sample standard deviation.
    pub standardize: bool,
}

/// The components of one decomposition.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Features that take part, as positions among those of the co-moment.
    pub active: Vec<usize>,
    /// What x is divided by, where standardized; one per active feature.
    pub scale: Option<Array1<f64>>,
    /// k × d, orthonormal rows.
    pub components: Array2<f64>,
    /// Every eigenvalue that is known, descending.
    pub eigenvalues: Array1<f64>,
    /// How many of them are above rounding.
    pub rank: usize,
    /// Trace of A.
    pub trace: f64,
    /// The number of components each rule would keep.
    pub rules: Rules,
    /// How good it is.
    pub certificate: Certificate,
}

/// What can be checked after the fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// max ‖Av − λv‖ / λ₁ over the kept components.
    pub max_residual: f64,
    /// max |UᵀU − I|.
    pub orthogonality: f64,
    /// |trace A − Σλ| / trace A.
    pub trace_error: f64,
    /// Largest relative error of a checked f32 product; null when all arithmetic was f64.
    pub mixed_error: Option<f64>,
}

/// Bytes at the peak of [`solve`] for d features: A, its copy that becomes the vectors, the work area.
pub fn bytes(d: u64) -> u64 {
    blas::eigh_bytes(d).saturating_add(8u64.saturating_mul(d.saturating_mul(d)))
}

/// Decomposes the co-moment, whose d² numbers are used up by it.
///
/// `threads` is for BLAS inside the decomposition; it is a property of the machine, not an option,
/// because it may change the last digits.
pub fn solve(sums: CoMoment, scaling: Scaling, asked: Components, threads: usize) -> Result<(Moments, Solution)> {
    let (moments, a, active, scale) = problem(sums, scaling);
    let solution = blas::parallel(threads, || decompose(&moments, a, active, scale, scaling, asked))?;
    Ok((moments, solution))
}

fn decompose(
    moments: &Moments,
    a: Array2<f64>,
    active: Vec<usize>,
    scale: Option<Array1<f64>>,
    scaling: Scaling,
    asked: Components,
) -> Result<Solution> {
    let decomposed = blas::eigh(a.clone());
    let (values, vectors) = decomposed.map_err(|info| Error::Internal(format!("LAPACK dsyevd failed with info {info}")))?;
    let bound = if scaling.center { moments.rows.saturating_sub(1) } else { moments.rows };
    let spectrum = Spectrum::new(&values, moments.rows, bound.min(a.nrows() as u64) as usize);
    let trace = a.diag().sum();
    let rules = Rules::new(&spectrum, trace, moments.weight, scaling.center);
    let k = rules.keep(asked)?;
    let components = spectrum::leading(&vectors, k);
    drop(vectors);
    let certificate = certify(&a, &spectrum, &components, trace, moments.mixed_error);
    Ok(Solution { active, scale, components, eigenvalues: spectrum.values, rank: spectrum.rank, trace, rules, certificate })
}

/// The seed's matrix: S, S + Wμμᵀ without centring, either over the standard deviations.
///
/// A feature without spread has no standard deviation to divide by and is left out when standardizing.
fn problem(sums: CoMoment, scaling: Scaling) -> (Moments, Array2<f64>, Vec<usize>, Option<Array1<f64>>) {
    let CoMoment { moments, s: mut a } = sums;
    let d = a.nrows();
    let deviations = scaling.standardize.then(|| deviations(&moments, a.diag()));
    if !scaling.center {
        add_outer(&mut a, moments.weight, &moments.mean);
        blas::mirror(&mut a);
    }
    let Some(deviations) = deviations else {
        return (moments, a, (0..d).collect(), None);
    };
    let active: Vec<usize> = (0..d).filter(|j| deviations[*j] > 0.0).collect();
    if active.len() < d {
        a = a.select(Axis(0), &active).select(Axis(1), &active).as_standard_layout().into_owned();
    }
    let scale = deviations.select(Axis(0), &active);
    a /= &scale.view().insert_axis(Axis(1));
    a /= &scale;
    (moments, a, active, Some(scale))
}

/// Sample standard deviations; 0 where the spread is only the rounding of the mean.
pub fn deviations(moments: &Moments, sums_of_squares: ArrayView1<'_, f64>) -> Array1<f64> {
    let freedom = moments.weight - 1.0;
    Zip::from(sums_of_squares).and(&moments.mean).map_collect(|square, mean| {
        let deviation = (square / freedom).sqrt();
        if deviation > 4.0 * f64::EPSILON * mean.abs() { deviation } else { 0.0 }
    })
}

fn certify(a: &Array2<f64>, spectrum: &Spectrum, u: &Array2<f64>, trace: f64, mixed_error: Option<f64>) -> Certificate {
    let largest = spectrum.values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut residual = u.dot(a);
    for (mut row, (v, lambda)) in residual.rows_mut().into_iter().zip(u.rows().into_iter().zip(&spectrum.values)) {
        row.scaled_add(-lambda, &v);
        // Relative before it is squared: λ₁ may be near the end of the range.
        row /= largest;
    }
    let norm = |row: ArrayView1<'_, f64>| row.dot(&row).sqrt();
    let worst = residual.rows().into_iter().map(norm).fold(0.0, f64::max);
    let mut gram = u.dot(&u.t());
    gram.diag_mut().mapv_inplace(|g| g - 1.0);
    let trace_error = if trace > 0.0 { (trace - spectrum.sum).abs() / trace } else { 0.0 };
    Certificate { max_residual: worst, orthogonality: gram.iter().fold(0.0, |m, g| g.abs().max(m)), trace_error, mixed_error }
}
