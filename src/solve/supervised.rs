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
use crate::accumulate::Moments;
use crate::blas;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::source::labels::{Class, ClassValue};
use ndarray::{Array1, Array2, Axis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// (γ yᵀy' + c)^p.
    Poly,
    /// yᵀy' / (‖y‖ ‖y'‖).
    Cosine,
    /// 1 for a row with itself: plain PCA.
    Identity,
    /// Given as a matrix.
    Precomputed,
}

impl LabelKernel {
    /// True when sums of classes or numbers do not tell it: rows must be seen, or distinct labels.
    pub(crate) fn needs_rows(self) -> bool {
        use LabelKernel::{Cosine, Poly, Precomputed, Rbf};
        matches!(self, Rbf | Poly | Cosine | Precomputed)
    }
}

impl std::fmt::Display for LabelKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LabelKernel::Delta => "delta",
            LabelKernel::Linear => "linear",
            LabelKernel::Rbf => "rbf",
            LabelKernel::Poly => "poly",
            LabelKernel::Cosine => "cosine",
            LabelKernel::Identity => "identity",
            LabelKernel::Precomputed => "precomputed",
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
    let mut square = square.as_standard_layout().into_owned();
    let bound = bound.min(d).min(r);
    let tolerance = rank_tolerance(d.max(r) as u64, square.nrows());
    let mut eigen = super::eigen(&mut square, tolerance, bound, asked, threads)?;
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

/// Labels as rows of numbers, one per class: one-hot for columns whose values are classes, the
/// number itself for the others. For one column of classes that is the identity: the delta kernel.
pub(crate) fn one_hot(classes: &[Class], numeric: &[bool]) -> Array2<f64> {
    let mut columns: Vec<Array1<f64>> = Vec::new();
    for (at, numeric) in numeric.iter().enumerate() {
        if *numeric {
            columns.push(classes.iter().map(|c| c[at].number().unwrap_or(0.0)).collect());
            continue;
        }
        columns.extend(
            distinct_values(classes, at)
                .into_iter()
                .map(|v| classes.iter().map(|c| f64::from(u8::from(c[at] == *v))).collect()),
        );
    }
    Array2::from_shape_fn((classes.len(), columns.len()), |(c, r)| columns[r][c])
}

/// How many numbers a row of [`one_hot`] has.
pub(crate) fn one_hot_width(classes: &[Class], numeric: &[bool]) -> usize {
    let width = |(at, numeric): (usize, &bool)| {
        if *numeric { 1 } else { distinct_values(classes, at).len() }
    };
    numeric.iter().enumerate().map(width).sum()
}

fn distinct_values(classes: &[Class], column: usize) -> BTreeSet<&ClassValue> {
    classes.iter().map(|c| &c[column]).collect()
}

/// Lᵀ with K = LLᵀ over distinct labels (rows of [`one_hot`]), and the eigenvalues of K, ascending,
/// that its rows belong to. Δ = (which label) L: Lᵀ times the sums per label is Mᵀ.
pub(crate) fn label_factor(
    labels: &Array2<f64>,
    kernel: Kernel,
    threads: usize,
) -> Result<(Array2<f64>, Array1<f64>)> {
    let c = labels.nrows();
    let k = Array2::from_shape_fn((c, c), |(i, j)| kernel.of(labels.row(i), labels.row(j)));
    let (values, vectors) = blas::parallel(threads, || blas::eigh(k))?;
    // Lᵀ = Ω^½ Qᵀ; what rounding makes negative is 0.
    let mut factor = vectors;
    factor.rows_mut().into_iter().zip(&values).for_each(|(mut row, v)| row *= v.max(0.0).sqrt());
    Ok((factor, values))
}

/// Over one column of classes, one-hot, a kernel has one value a for equal labels and one value b
/// for others: it is (a − b) δ + b, and H takes b out. This is a − b.
pub(crate) fn scale_over_classes(kernel: Kernel) -> f64 {
    match kernel {
        // ‖y − y'‖² = 2.
        Kernel::Rbf { gamma } => -(-2.0 * gamma).exp_m1(),
        Kernel::Poly { gamma, coef0, degree } if coef0 > 0.0 => {
            // (γ + c)^p − c^p, of which a small γ keeps its digits.
            let p = f64::from(degree);
            coef0.powi(degree as i32) * (p * (gamma / coef0).ln_1p()).exp_m1()
        }
        Kernel::Poly { gamma, degree, .. } => gamma.powi(degree as i32),
        Kernel::Sigmoid { gamma, coef0 } => (gamma + coef0).tanh() - coef0.tanh(),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_classes_every_kernel_is_delta_times_its_scale() {
        let rows = Array2::<f64>::eye(2);
        for kernel in [
            Kernel::Linear { coef0: 3.0 },
            Kernel::Cosine,
            Kernel::Rbf { gamma: 0.4 },
            Kernel::Poly { gamma: 0.4, coef0: 0.0, degree: 3 },
            Kernel::Poly { gamma: 0.4, coef0: 1.5, degree: 3 },
            Kernel::Sigmoid { gamma: 0.4, coef0: -0.1 },
        ] {
            let value =
                |i, j| kernel.of(rows.row(0), rows.row(i)) - kernel.of(rows.row(0), rows.row(j));
            assert!((scale_over_classes(kernel) - value(0, 1)).abs() < 1e-15, "{kernel}");
        }
        let little = Kernel::Poly { gamma: 1e-12, coef0: 2.0, degree: 3 };
        assert!((scale_over_classes(little) / 12e-12 - 1.0).abs() < 1e-11);
    }
}
