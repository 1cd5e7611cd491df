//! Sums → components: build the matrix, decompose it, order and sign and cut, certify.
//!
//! ```text
//! CoMoment ─► problem (A) ─► eigen (LAPACK, or krylov for a few) ─► spectrum
//!          ─► rules (k) ─► Solution
//! FactoredCoMoment ─► factor (singular values of R instead) ─► Solution
//! ```
//!
//! For all pairs holds A twice (once to check the vectors against) and LAPACK's work area: 32d²
//! bytes at the peak, 24d² where d is so large that another of its routines is used. For a few of
//! many holds A once, and a Krylov basis of a fifth as many vectors: 12d² ([`bytes`]).

pub(crate) mod accuracy;
pub(crate) mod dual;
mod elbow;
pub(crate) mod factor;
pub(crate) mod hsic;
pub(crate) mod kernel_matrix;
pub(crate) mod kernel_pca;
pub(crate) mod krylov;
pub(crate) mod landmarks;
mod minka;
pub(crate) mod randomized;
pub(crate) mod rules;
pub(crate) mod scoring;
pub(crate) mod spectrum;
pub(crate) mod supervised;

pub(crate) use crate::accumulate::Scaling;
use crate::accumulate::{CoMoment, Moments, add_outer};
use crate::blas;
use crate::error::Result;
use crate::listen::Quiet;
use ndarray::{Array1, Array2, Axis};
use rules::{Components, Rules};
use serde::{Deserialize, Serialize};
use spectrum::{Spectrum, rank_tolerance};

/// From this order on a few eigenpairs are looked for by block Krylov; below, the whole spectrum
/// takes half a second.
const FEW_FROM: usize = 2_000;

/// A few: one in this many.
const FEW: usize = 25;

/// Vectors of a Krylov basis at most: one in this many. What has not converged by then is left to
/// LAPACK; more would hold as much as the matrix itself.
const BASIS: usize = 5;

/// Vectors of a block beyond k: products in memory are cheap, so it is the number of vectors that
/// counts.
const SPARE: usize = 4;

/// When the pairs of a matrix in memory are as good as dsyevd's, which promises a residual and no
/// more.
const EXACT: krylov::Tolerance = krylov::Tolerance::residual(1e-12);

/// How components are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Eigenvectors of the d × d side.
    Primal,
    /// Eigenvectors of the n × n side, mapped to the features.
    Dual,
    /// Block Krylov over the data, to a tolerance.
    Randomized,
    /// Eigenvectors of the n × n kernel matrix, never held.
    Exact,
    /// The n × n generalised problem of kernel supervised PCA.
    Direct,
    /// Comparisons with some of the rows (Nyström).
    Landmarks,
    /// Random Fourier features.
    Fourier,
    /// Variances along directions that are given.
    Basis,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Form::Primal => "primal",
            Form::Dual => "dual",
            Form::Randomized => "randomized",
            Form::Exact => "exact",
            Form::Direct => "direct",
            Form::Landmarks => "landmarks",
            Form::Fourier => "fourier",
            Form::Basis => "basis",
        })
    }
}

/// The components of one decomposition.
#[derive(Debug, Clone)]
pub struct Solution {
    /// How they were computed.
    pub form: Form,
    /// Features that take part, as positions among those of the co-moment.
    pub active: Vec<usize>,
    /// What x is divided by, where standardized; one per active feature.
    pub scale: Option<Array1<f64>>,
    /// k × d, orthonormal rows; of a kernel fit, coefficients over what rows are compared with.
    pub components: Array2<f64>,
    /// Every eigenvalue that is known, descending; along a given basis vᵀAv, in its order.
    pub eigenvalues: Array1<f64>,
    /// How many there are above rounding, where that is known.
    pub rank: Option<usize>,
    /// Trace of A.
    pub trace: f64,
    /// The number of components each rule would keep.
    pub rules: Rules,
    /// How good it is.
    pub certificate: Certificate,
}

impl Solution {
    /// So many of its eigenvalues are known.
    pub(crate) fn with_accurate_components(mut self, accurate: usize) -> Solution {
        self.certificate.accurate_components = Some(accurate);
        self
    }
}

/// What can be checked after the fact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// max ‖Av − λv‖ / λ₁ over the kept components; of a given basis λ = vᵀAv and λ₁ the largest.
    pub max_residual: f64,
    /// max |UᵀU − I|.
    pub orthogonality: f64,
    /// |trace A − Σλ| / trace A; null where not all λ were computed.
    pub trace_error: Option<f64>,
    /// Largest relative error of a checked f32 product; null when all arithmetic was f64.
    pub mixed_error: Option<f64>,
    /// How many components lead whose eigenvalues are known to a relative error of 1e-6; null where
    /// that was not asked: of kernels, of labels, and in models of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accurate_components: Option<usize>,
    /// Digits that taking parts out of a state has cost; null where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_digits: Option<f64>,
    /// Of a given basis: the largest correlation between the scores of two components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_correlation: Option<f64>,
    /// What an iteration over the data reached; null where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Iteration>,
}

/// How an iteration over the data ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Passes over the data.
    pub passes: usize,
    /// ⟦tolerance⟧ as asked.
    pub tolerance: f64,
    /// Bound on the relative error of each kept eigenvalue.
    pub eigenvalue_errors: Vec<f64>,
    /// ‖Av − λv‖ / λ₁ of each kept component.
    pub residuals: Vec<f64>,
    /// Kept components, counted from 1, that miss the tolerance.
    pub unconverged: Vec<usize>,
}

impl Iteration {
    /// Of the first pairs found.
    fn new(
        found: &krylov::RitzPairs,
        tolerance: krylov::Tolerance,
        kept: usize,
        passes: usize,
    ) -> Iteration {
        let missed = found.unconverged(tolerance).into_iter().filter(|i| *i < kept);
        Iteration {
            passes,
            tolerance: tolerance.residual,
            eigenvalue_errors: found.value_errors[..kept].to_vec(),
            residuals: found.residuals[..kept].to_vec(),
            unconverged: missed.map(|i| i + 1).collect(),
        }
    }

    fn max_residual(&self) -> f64 {
        self.residuals.iter().copied().fold(0.0, f64::max)
    }
}

/// Bytes at the peak of [`solve`] for d features: those of [`whole_bytes`]; or for a few pairs A,
/// and what block Krylov holds or what LAPACK does where that does not converge.
pub(crate) fn bytes(d: u64, asked: Components) -> u64 {
    let Some(k) = few_of(d, asked) else { return whole_bytes(d) };
    let beside = krylov::bytes(d, k + SPARE as u64, d / BASIS as u64);
    let square = 8u64.saturating_mul(d.saturating_mul(d));
    square.saturating_add(beside.max(blas::eigh_leading_bytes(d, k)))
}

/// Bytes at the peak where all pairs are computed: A, its copy that becomes the vectors, the work
/// area.
pub(crate) fn whole_bytes(d: u64) -> u64 {
    blas::eigh_bytes(d).saturating_add(8u64.saturating_mul(d.saturating_mul(d)))
}

/// Decomposes the co-moment, whose d² numbers are used up by it.
///
/// `threads` is for BLAS inside the decomposition; it is a property of the machine, not an option,
/// because it may change the last digits.
pub fn solve(
    sums: CoMoment,
    scaling: Scaling,
    asked: Components,
    threads: usize,
) -> Result<(Moments, Solution)> {
    let (moments, mut a, active, scale) = problem(sums, scaling);
    let d = active.len();
    let bound = rank_bound(moments.rows, d, scaling);
    let eigen = eigen(&mut a, rank_tolerance(moments.rows, d), bound, asked, threads)?;
    let trace = a.diag().sum();
    let rules = Rules::new(&eigen.spectrum, trace, moments.weight, d, scaling.center);
    let k = rules.keep(asked)?;
    let components = blas::parallel(threads, || spectrum::leading(&eigen.vectors, k));
    let certificate =
        blas::parallel(threads, || certify(&a, &eigen, &components, trace, moments.mixed_error));
    let (rank, eigenvalues) = (eigen.spectrum.rank(), eigen.spectrum.values);
    let form = Form::Primal;
    Ok((
        moments,
        Solution { form, active, scale, components, eigenvalues, rank, trace, rules, certificate },
    ))
}

/// The largest rank that n rows and d features can have.
pub(crate) fn rank_bound(rows: u64, d: usize, scaling: Scaling) -> usize {
    let rows = if scaling.center { rows.saturating_sub(1) } else { rows };
    rows.min(d as u64) as usize
}

/// Eigenpairs of a matrix in memory.
pub(crate) struct Eigen {
    /// Their values.
    pub spectrum: Spectrum,
    /// The vectors as rows, in *ascending* order of their values.
    pub vectors: Array2<f64>,
    /// Sum of all values as they were computed, for the trace check.
    pub sum: Option<f64>,
    /// Those below 0, as they were computed; of a semidefinite matrix they are rounding.
    pub below: Vec<f64>,
}

/// All eigenpairs by dsyevd; or where a few of many are asked for the leading ones, by block Krylov
/// if it converges and else by dsyevr. The matrix is the same afterwards.
pub(crate) fn eigen(
    a: &mut Array2<f64>,
    tolerance: f64,
    bound: usize,
    asked: Components,
    threads: usize,
) -> Result<Eigen> {
    if let Some(k) = few_of(a.nrows() as u64, asked) {
        return few(a, tolerance, bound, k as usize, threads);
    }
    let (values, vectors) = blas::parallel(threads, || blas::eigh(a.clone()))?;
    let sum = Some(values.sum());
    let below = values.iter().copied().filter(|v| *v < 0.0).collect();
    let spectrum = Spectrum::whole(values.iter().rev().copied(), tolerance, bound);
    Ok(Eigen { spectrum, vectors, sum, below })
}

/// How many pairs are asked for, where they are a few of many.
fn few_of(order: u64, asked: Components) -> Option<u64> {
    let Components::Count(k) = asked else { return None };
    let few = order >= FEW_FROM as u64 && k as u64 <= order / FEW as u64;
    few.then_some(k as u64)
}

fn few(
    a: &mut Array2<f64>,
    tolerance: f64,
    bound: usize,
    k: usize,
    threads: usize,
) -> Result<Eigen> {
    let found = by_krylov(a, k, threads)?;
    let below = found.values.iter().copied().filter(|v| *v < 0.0).collect();
    let (values, vectors) = match found.unconverged(EXACT).is_empty() {
        true => (found.values, found.vectors.slice_move(ndarray::s![..;-1, ..])),
        false => {
            drop(found);
            let (values, vectors) = blas::parallel(threads, || blas::eigh_leading(a, k))?;
            (values.iter().rev().copied().collect(), vectors)
        }
    };
    let spectrum = Spectrum::leading(values.into_iter().take(k), tolerance, bound);
    Ok(Eigen { spectrum, vectors, sum: None, below })
}

fn by_krylov(a: &Array2<f64>, k: usize, threads: usize) -> Result<krylov::RitzPairs> {
    let (order, block) = (a.nrows(), k + SPARE);
    let basis = order / BASIS;
    let search = krylov::Search {
        order,
        basis,
        // In one go: a basis that starts again converges later than LAPACK ends.
        products: basis / block,
        tolerance: EXACT,
        wanted: &|_, _| Some(k),
        expensive: false,
        threads,
        listener: &Quiet,
        noun: "product",
        before: 0,
    };
    krylov::search(&search, krylov::start(block, order, 0), |q, _| {
        Ok(blas::parallel(threads, || q.dot(a)))
    })
}

/// The seed's matrix: S, S + Wμμᵀ without centring, either over the standard deviations.
///
/// A feature without spread has no standard deviation to divide by and is left out when
/// standardizing.
fn problem(
    sums: CoMoment,
    scaling: Scaling,
) -> (Moments, Array2<f64>, Vec<usize>, Option<Array1<f64>>) {
    let CoMoment { moments, s: mut a } = sums;
    let (active, scale) = scaling.active(&moments);
    if !scaling.center {
        add_outer(&mut a, moments.weight, &moments.mean);
        blas::mirror(&mut a);
    }
    if active.len() < a.nrows() {
        a = principal(a, &active);
    }
    if let Some(scale) = &scale {
        a /= &scale.view().insert_axis(Axis(1));
        a /= scale;
    }
    (moments, a, active, scale)
}

/// Rows and columns of these features, ascending, in the place of all.
fn principal(a: Array2<f64>, active: &[usize]) -> Array2<f64> {
    let (d, kept) = (a.ncols(), active.len());
    let mut numbers = a.into_raw_vec_and_offset().0;
    let from = active.iter().flat_map(|i| active.iter().map(move |j| i * d + j));
    from.enumerate().for_each(|(to, from)| numbers[to] = numbers[from]);
    numbers.truncate(kept * kept);
    Array2::from_shape_vec((kept, kept), numbers).expect("as many as were kept")
}

fn certify(
    a: &Array2<f64>,
    eigen: &Eigen,
    u: &Array2<f64>,
    trace: f64,
    mixed_error: Option<f64>,
) -> Certificate {
    let max_residual = residuals(a, &eigen.spectrum, u).into_iter().fold(0.0, f64::max);
    let trace_error = eigen.sum.map(|sum| relative(trace, sum));
    Certificate {
        max_residual,
        orthogonality: orthogonality(u),
        trace_error,
        mixed_error,
        ..Certificate::default()
    }
}

/// ‖Av − λv‖ / λ₁ of each row v.
fn residuals(a: &Array2<f64>, spectrum: &Spectrum, v: &Array2<f64>) -> Vec<f64> {
    let largest = largest(spectrum);
    let mut residual = v.dot(a);
    for (mut row, (v, lambda)) in
        residual.rows_mut().into_iter().zip(v.rows().into_iter().zip(&spectrum.values))
    {
        row.scaled_add(-lambda, &v);
        // Relative before it is squared: λ₁ may be near the end of the range.
        row /= largest;
    }
    residual.rows().into_iter().map(|row| row.dot(&row).sqrt()).collect()
}

fn largest(spectrum: &Spectrum) -> f64 {
    spectrum.values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE)
}

/// v/σ of each row v, σ² its eigenvalue.
fn over_roots(rows: &mut Array2<f64>, spectrum: &Spectrum) {
    for (mut row, lambda) in rows.rows_mut().into_iter().zip(&spectrum.values) {
        row /= lambda.sqrt();
    }
}

/// Makes rows that are orthonormal but for rounding so to the last digit, and signs them.
///
/// Rounding of a decomposed square is felt by v/σ as λ₁/λᵢ: leading components keep their digits,
/// small ones are made orthogonal to them.
fn orthonormalise_and_sign(u: &mut Array2<f64>, threads: usize) -> Result<()> {
    blas::parallel(threads, || blas::orthonormalise(u))?;
    spectrum::fix_signs(u);
    Ok(())
}

/// |trace − sum| / trace.
fn relative(trace: f64, sum: f64) -> f64 {
    if trace > 0.0 { (trace - sum).abs() / trace } else { 0.0 }
}

/// max |UUᵀ − I| of rows that should be orthonormal.
pub(crate) fn orthogonality(u: &Array2<f64>) -> f64 {
    let mut gram = u.dot(&u.t());
    gram.diag_mut().mapv_inplace(|g| g - 1.0);
    gram.iter().fold(0.0, |m, g| g.abs().max(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_move_together() {
        let a = Array2::from_shape_fn((4, 4), |(i, j)| (10 * i + j) as f64);
        assert_eq!(principal(a.clone(), &[1, 3]), ndarray::array![[11.0, 13.0], [31.0, 33.0]]);
        assert_eq!(principal(a.clone(), &[0, 1, 2, 3]), a);
        assert_eq!(principal(a, &[]).dim(), (0, 0));
    }

    /// H D H for a reflection H = I − 2uuᵀ and values that descend by 1e-9 of the first: no basis
    /// of a fifth of the order tells them apart.
    fn flat(n: usize) -> (Array2<f64>, Array1<f64>) {
        let values = Array1::from_shape_fn(n, |i| 1.0 - 1e-9 * i as f64);
        let u = Array1::from_elem(n, (n as f64).sqrt().recip());
        let du = &values * &u;
        let inner = u.dot(&du);
        let entry = |(i, j): (usize, usize)| {
            let diagonal = if i == j { values[i] } else { 0.0 };
            diagonal - 2.0 * (u[i] * du[j] + du[i] * u[j]) + 4.0 * inner * u[i] * u[j]
        };
        (Array2::from_shape_fn((n, n), entry), values)
    }

    #[test]
    fn what_krylov_does_not_find_lapack_does() {
        let (k, (a, truth)) = (3, flat(FEW_FROM));
        let missed = by_krylov(&a, k, 2).unwrap().unconverged(EXACT);
        assert!(!missed.is_empty(), "a harder matrix is needed here");
        let mut used = a.clone();
        let found = eigen(&mut used, 1e-12, FEW_FROM, Components::Count(k), 2).unwrap();
        assert_eq!(used, a);
        let off = |i: usize| (found.spectrum.values[i] - truth[i]).abs();
        assert!((0..k).all(|i| off(i) < 1e-12), "{:?}", found.spectrum.values);
        let v = spectrum::leading(&found.vectors, k);
        assert!(residuals(&a, &found.spectrum, &v).into_iter().all(|r| r < 1e-12));
        assert!(orthogonality(&v) < 1e-12);
    }
}
