//! Supervised PCA (seed, "Supervised PCA Using HSIC" and "Dual Supervised PCA"): M = XHΔ →
//! components.
//!
//! K_y = ΔΔᵀ enters only through M, which is d × r: the seed's XHK_yHXᵀ is MMᵀ. With rows of Mᵀ as
//! they are accumulated (r × d):
//!
//! ```text
//! primal   MMᵀ U = U Λ                  d × d
//! dual     MᵀM V = V Λ, U = M V Σ⁻¹     r × r
//! HSIC of the scores = Σ λ over the kept components / (n−1)²
//! ```
//!
//! Holds M and the smaller square with LAPACK's work area (32·min(d, r)² bytes), unless the other
//! form is asked for.

use super::rules::{Components, Rules};
use super::spectrum::{self, rank_tolerance};
use super::{Certificate, Form, Scaling, Solution};
use crate::accumulate::{ClassMoments, Moments};
use crate::blas;
use crate::error::Result;
use crate::source::labels::{Class, ClassValue};
use ndarray::{Array1, Array2, Axis};
use serde::{Deserialize, Serialize};

/// The kernel over labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum LabelKernel {
    /// 1 for equal labels, else 0: classes.
    Delta,
    /// yᵀy': numbers; for classes, one-hot, which is the delta kernel.
    Linear,
    /// exp(−γ‖y − y'‖²).
    Rbf,
    /// 1 for a row with itself: plain PCA.
    Identity,
}

impl std::fmt::Display for LabelKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LabelKernel::Delta => "delta",
            LabelKernel::Linear => "linear",
            LabelKernel::Rbf => "rbf",
            LabelKernel::Identity => "identity",
        })
    }
}

/// The form that decomposes the smaller side.
pub(crate) fn smaller_side(d: usize, r: usize) -> Form {
    if d <= r { Form::Primal } else { Form::Dual }
}

/// Decomposes Mᵀ (r × d). `bound` is the largest rank that the labels allow.
pub(crate) fn solve(
    mut m: Array2<f64>,
    moments: &Moments,
    scaling: Scaling,
    asked: Components,
    form: Option<Form>,
    bound: usize,
    threads: usize,
) -> Result<Solution> {
    let (active, scale) = scaling.active(moments);
    if let Some(scale) = &scale {
        m = (m.select(Axis(1), &active) / scale).as_standard_layout().into_owned();
    }
    let (r, d) = m.dim();
    let form = form.unwrap_or_else(|| smaller_side(d, r));
    let square =
        blas::parallel(
            threads,
            || if form == Form::Primal { m.t().dot(&m) } else { m.dot(&m.t()) },
        );
    let square = square.as_standard_layout().into_owned();
    let bound = bound.min(d).min(r);
    let tolerance = rank_tolerance(d.max(r) as u64, square.nrows());
    let mut eigen = super::eigen(&square, tolerance, bound, asked, threads)?;
    eigen.spectrum.cut(d.min(r));
    let trace = square.diag().sum();
    let rules = Rules::supervised(&eigen.spectrum, trace);
    let k = rules.keep(asked)?;
    let mut components = spectrum::leading(&eigen.vectors, k);
    if form == Form::Dual {
        components =
            blas::parallel(threads, || components.dot(&m)).as_standard_layout().into_owned();
        super::over_roots(&mut components, &eigen.spectrum);
        super::orthonormalise_and_sign(&mut components, threads)?;
    }
    let certificate = Certificate {
        max_residual: max_residual(&m, &components, &eigen.spectrum.values),
        orthogonality: super::orthogonality(&components),
        trace_error: eigen.sum.map(|sum| super::relative(trace, sum)),
        mixed_error: moments.mixed_error,
        ..Certificate::default()
    };
    let (rank, eigenvalues) = (eigen.spectrum.rank(), eigen.spectrum.values);
    Ok(Solution { form, active, scale, components, eigenvalues, rank, trace, rules, certificate })
}

/// max ‖MMᵀu − λu‖ / λ₁: M itself is at hand.
fn max_residual(m: &Array2<f64>, u: &Array2<f64>, values: &Array1<f64>) -> f64 {
    let largest = values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut residual = u.dot(&m.t()).dot(m);
    residual
        .rows_mut()
        .into_iter()
        .zip(u.rows())
        .zip(values)
        .for_each(|((mut r, u), lambda)| r.scaled_add(-lambda, &u));
    residual
        .rows()
        .into_iter()
        .map(|r| (&r / largest).mapv(|v| v * v).sum().sqrt())
        .fold(0.0, f64::max)
}

/// The rows of Δ for the linear kernel over several label columns, one per class: one-hot for
/// columns whose values are classes, the number itself for the others. For one column of classes
/// that is the identity: the delta kernel.
pub(crate) fn one_hot(classes: &[Class], numeric: &[bool]) -> Array2<f64> {
    let mut columns: Vec<Array1<f64>> = Vec::new();
    for (at, numeric) in numeric.iter().enumerate() {
        if *numeric {
            columns.push(classes.iter().map(|c| c[at].number().unwrap_or(0.0)).collect());
            continue;
        }
        let values: std::collections::BTreeSet<&ClassValue> =
            classes.iter().map(|c| &c[at]).collect();
        columns.extend(
            values
                .into_iter()
                .map(|v| classes.iter().map(|c| f64::from(u8::from(c[at] == *v))).collect()),
        );
    }
    Array2::from_shape_fn((classes.len(), columns.len()), |(c, r)| columns[r][c])
}

/// K over the distinct labels = LLᵀ, so that Δ = (one-hot) L: Lᵀ times the class sums is Mᵀ for the
/// rbf kernel.
pub(crate) fn rbf_over_classes(
    sums: &ClassMoments,
    gamma: f64,
    threads: usize,
) -> Result<Array2<f64>> {
    let (factor, _) = label_factor(&sums.classes, gamma, threads)?;
    Ok(blas::parallel(threads, || factor.dot(&sums.m)))
}

/// Lᵀ with K = LLᵀ over the distinct labels, and the eigenvalues of K, ascending, that its rows
/// belong to.
pub(crate) fn label_factor(
    classes: &[Class],
    gamma: f64,
    threads: usize,
) -> Result<(Array2<f64>, Array1<f64>)> {
    let points: Vec<Vec<f64>> =
        classes.iter().map(|c| c.iter().filter_map(|v| v.number()).collect()).collect();
    let distance =
        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
    let c = points.len();
    let kernel =
        Array2::from_shape_fn((c, c), |(i, j)| (-gamma * distance(&points[i], &points[j])).exp());
    let (values, vectors) = blas::parallel(threads, || blas::eigh(kernel))?;
    // Lᵀ = Ω^½ Qᵀ; what rounding makes negative is 0.
    let mut factor = vectors;
    factor.rows_mut().into_iter().zip(&values).for_each(|(mut row, v)| row *= v.max(0.0).sqrt());
    Ok((factor, values))
}
