//! A factor of the co-moment → components, without squaring it.
//!
//! With S = RᵀR and R = UΣVᵀ the eigenpairs of S are σ² and v. Other problems change the factor,
//! not its square:
//!
//! | problem | A with the seed's matrix AᵀA |
//! |---|---|
//! | centred | R |
//! | `--no-center` | [√W·μᵀ; R] |
//! | `--standardize` | either, its columns over the standard deviations |
//!
//! A singular value is more than rounding from eps × max(d, √n) × σ₁ on. Holds A twice, V, and
//! what residuals are made of: 40d² bytes at the peak ([`bytes`]).

use super::accuracy::{self, FactorErrors};
use super::rules::{Components, Rules};
use super::spectrum::{self, Spectrum, rank_tolerance};
use super::{Certificate, Form, Scaling, Solution};
use crate::accumulate::{FactoredCoMoment, Moments};
use crate::blas;
use crate::error::Result;
use ndarray::{Array1, Array2, ShapeBuilder, s};

/// Bytes at the peak of [`solve`] for d features.
pub(crate) fn bytes(d: u64) -> u64 {
    let a = 8u64.saturating_mul(d.saturating_mul(d + 1));
    let checking = a.saturating_mul(5);
    blas::singular_bytes(d + 1, d).saturating_add(a).max(checking)
}

/// Decomposes a factor, which is used up.
pub(crate) fn solve(
    sums: FactoredCoMoment,
    scaling: Scaling,
    asked: Components,
    threads: usize,
) -> Result<(Moments, Solution)> {
    let (active, scale) = scaling.active(&sums.moments);
    let (moments, a) = problem(sums, scaling, &active, scale.as_ref());
    let d = active.len();
    let tolerance = rank_tolerance(moments.rows, d);
    let (sigma, v) = blas::parallel(threads, || blas::singular_values(a.clone()))?;
    let bound = super::rank_bound(moments.rows, d, scaling);
    let squares = || sigma.iter().map(|s| s * s);
    let spectrum = Spectrum::whole(squares(), tolerance * tolerance, bound);
    let trace = a.iter().map(|x| x * x).sum();
    let rules = Rules::new(&spectrum, trace, moments.weight, d, scaling.center);
    let k = rules.keep(asked)?;
    let errors = FactorErrors { a: &a, sigma: &sigma, v: &v, centred: scaling.center, tolerance };
    let accurate = accuracy::leading(errors.relative().take(spectrum.above));
    let mut components = v.slice(s![..k, ..]).to_owned();
    drop(v);
    spectrum::fix_signs(&mut components);
    let certificate = Certificate {
        max_residual: blas::parallel(threads, || max_residual(&a, &components, &spectrum.values)),
        orthogonality: super::orthogonality(&components),
        trace_error: Some(super::relative(trace, squares().sum())),
        accurate_components: Some(accurate),
        ..Certificate::default()
    };
    let (form, rank, eigenvalues) = (Form::Primal, spectrum.rank(), spectrum.values);
    Ok((
        moments,
        Solution { form, active, scale, components, eigenvalues, rank, trace, rules, certificate },
    ))
}

/// A, in F order; uncentred with the mean as its first row.
fn problem(
    sums: FactoredCoMoment,
    scaling: Scaling,
    active: &[usize],
    scale: Option<&Array1<f64>>,
) -> (Moments, Array2<f64>) {
    let FactoredCoMoment { moments, r } = sums;
    if scaling.center && active.len() == r.ncols() && scale.is_none() {
        return (moments, r);
    }
    let first = usize::from(!scaling.center);
    let mut a = Array2::zeros((r.nrows() + first, active.len()).f());
    for (at, j) in active.iter().enumerate() {
        let mut column = a.column_mut(at);
        column.slice_mut(s![first..]).assign(&r.column(*j));
        if first == 1 {
            column[0] = moments.weight.sqrt() * moments.mean[*j];
        }
        if let Some(scale) = scale {
            column /= scale[at];
        }
    }
    (moments, a)
}

/// max ‖Aᵀ(Av) − λv‖ / λ₁.
fn max_residual(a: &Array2<f64>, v: &Array2<f64>, values: &Array1<f64>) -> f64 {
    let largest = values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut residual = v.dot(&a.t()).dot(a);
    for ((mut row, v), lambda) in residual.rows_mut().into_iter().zip(v.rows()).zip(values) {
        row.scaled_add(-lambda, &v);
        row /= largest;
    }
    residual.rows().into_iter().map(|row| row.dot(&row).sqrt()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accumulate::{Accumulate, TriangularCovariance};
    use crate::source::Block;

    fn factored(rows: Array2<f64>) -> FactoredCoMoment {
        let mut sums = TriangularCovariance::new(rows.ncols());
        sums.update(Block::dense(rows));
        sums.finish()
    }

    /// Columns 1e-12 apart in size: products know the first two, the factor all three.
    #[test]
    fn small_components_are_found_and_known() {
        let waves = |(i, j): (usize, usize)| {
            let t = i as f64 * std::f64::consts::TAU / 64.0;
            [t.cos(), 1e-6 * (2.0 * t).cos(), 1e-12 * (3.0 * t).cos()][j]
        };
        let scaling = Scaling { center: true, standardize: false };
        let rows = Array2::from_shape_fn((64, 3), waves);
        let (_, full) = solve(factored(rows), scaling, Components::All, 1).unwrap();
        assert_eq!((full.rank, full.certificate.accurate_components), (Some(3), Some(3)));
        for (i, value) in full.eigenvalues.iter().enumerate() {
            let expected = 32.0 * 1e-12f64.powi(i as i32);
            assert!((value / expected - 1.0).abs() < 1e-13, "{i}: {value:e} for {expected:e}");
        }
    }

    /// What only rounding tells apart is no component, and no component is called accurate that is
    /// one.
    #[test]
    fn rounding_is_no_component() {
        let mix = |(i, j): (usize, usize)| {
            let (a, b) = (((i * 37) % 101) as f64 / 7.0, ((i * 61) % 97) as f64 / 3.0);
            [a, b, a + b, a - 0.3 * b][j]
        };
        for center in [true, false] {
            let scaling = Scaling { center, standardize: false };
            let rows = Array2::from_shape_fn((500, 4), mix);
            let (_, full) = solve(factored(rows), scaling, Components::All, 1).unwrap();
            assert_eq!(full.rank, Some(2), "{}", full.eigenvalues);
            assert_eq!(full.certificate.accurate_components, Some(2));
        }
    }
}
