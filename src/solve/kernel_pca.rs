//! Kernel PCA (seed, "Kernel Principal Component Analysis") and kernel supervised PCA without an
//! n × n matrix.
//!
//! Enters: n prepared rows, a kernel, weights, labels. Leaves: coefficients over the rows,
//! eigenvalues, certificate. With w the weights (1 without), W their sum, D = diag(w),
//! J = I − 1wᵀ/W, which is the seed's H for w = 1:
//!
//! ```text
//! kpca    D^½ J K Jᵀ D^½ v = λ v          block Krylov, one product with K at a time;
//!                                         dense where n is small
//!         coefficients D^½ v / σ, training scores σ D^−½ v
//! kspca   N = D(Δ − 1δ̄ᵀ), the seed's HΔ;  NᵀKN v = λ v, r × r
//!         Θ = N V Σ⁻¹, and ΘᵀKΘ = I
//! ```
//!
//! An entry of K is right to `noise` = eps · (max k(x, x) and what its argument lost), so
//! eigenvalues below n times that are rounding, whatever λ₁ is: centring may have taken most of K
//! away. Coefficients are centred to the last digit, since those of small components are large and
//! would let a constant of k(x) through.
//!
//! Holds what [`KernelMatrix`] and [`krylov`] hold.

use super::kernel_matrix::KernelMatrix;
use super::krylov::{self, RitzPairs, Search, Tolerance};
use super::randomized::out_of_reach;
use super::rules::{Components, Measure, Rules};
use super::spectrum::{self, Spectrum, rank_tolerance};
use super::{Certificate, Eigen, Form, Iteration, Solution};
use crate::blas;
use crate::error::{Error, Result};
use crate::listen::{Listener, Stage, Watch, go_on};
use crate::note::Note;
use ndarray::{Array1, Array2, Axis, s};

/// Up to this many rows K is decomposed whole.
pub(crate) const DENSE_UP_TO: usize = 1_500;

/// Vectors of a block beyond k.
const SPARE: usize = 6;

/// Blocks of the basis before it is cut.
const BASIS_BLOCKS: usize = 12;

/// Residual over λ₁ that is good enough, unless ⟦tolerance⟧ says otherwise.
pub(crate) const TOLERANCE: f64 = 1e-8;

/// What is said of a kernel that is not finite.
const OVERFLOWS: &str = "the kernel overflows: its arguments are too large; scale the columns with \
                         ⟦standardize⟧, or give a smaller ⟦gamma⟧ or ⟦degree⟧";

/// Vectors of a block for k components of n rows.
pub(crate) fn block(k: usize, n: usize) -> usize {
    k.saturating_add(SPARE).min(n.div_ceil(3)).max(1)
}

/// Bytes that the basis takes for k components.
pub(crate) fn basis_bytes(n: u64, k: usize) -> u64 {
    let block = block(k, n as usize) as u64;
    krylov::bytes(n, block, (block * BASIS_BLOCKS as u64).min(n))
}

/// Kernel PCA of some rows.
pub(crate) struct KernelProblem<'a> {
    /// K.
    pub matrix: KernelMatrix<'a>,
    /// One weight per row.
    pub weights: Option<&'a Array1<f64>>,
    /// How many components.
    pub asked: Components,
    /// When a pair is good enough.
    pub tolerance: Tolerance,
    /// The most products.
    pub products: usize,
    /// True when K may be held whole.
    pub dense: bool,
    /// Of the start.
    pub seed: u64,
    /// For the small problems.
    pub threads: usize,
    /// Told of each product, and asked whether to go on.
    pub listener: &'a dyn Listener,
}

/// What the kernel is on average.
#[derive(Debug, Clone)]
pub(crate) struct KernelMeans {
    /// Over all rows, for each row.
    pub rows: Array1<f64>,
    /// Over all pairs.
    pub grand: f64,
    /// Σ w (k(x, x) − 2 mean + grand): the trace.
    pub trace: f64,
}

/// A decomposed kernel.
pub(crate) struct KernelSolution {
    /// `components` are the coefficients over the rows, k × n.
    pub solution: Solution,
    /// What k(x) is centred by.
    pub means: KernelMeans,
    /// Negative eigenvalues, which are left out.
    pub negative: Negative,
}

/// Negative eigenvalues of an indefinite kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negative {
    /// How many were seen.
    pub count: usize,
    /// True when there are no others.
    pub all: bool,
}

/// √w, W: what centring needs.
struct KernelCentring {
    /// √w; `None` for ones.
    roots: Option<Array1<f64>>,
    weights: Option<Array1<f64>>,
    total: f64,
}

impl KernelCentring {
    fn new(weights: Option<&Array1<f64>>, n: usize) -> KernelCentring {
        let total = weights.map_or(n as f64, |w| w.sum());
        KernelCentring {
            roots: weights.map(|w| w.mapv(f64::sqrt)),
            weights: weights.cloned(),
            total,
        }
    }

    /// w as a row.
    fn row(&self, n: usize) -> Array2<f64> {
        self.weights
            .as_ref()
            .map_or_else(|| Array2::ones((1, n)), |w| w.clone().insert_axis(Axis(0)))
    }

    /// q D^½ J.
    fn operand(&self, q: &Array2<f64>) -> Array2<f64> {
        let mut p = q.clone();
        if let Some(roots) = &self.roots {
            p *= roots;
        }
        p.rows_mut().into_iter().for_each(|row| self.centre(row));
        p
    }

    /// Takes from a row what makes its sum 0, in proportion to the weights.
    fn centre(&self, mut row: ndarray::ArrayViewMut1<'_, f64>) {
        let mean = row.sum() / self.total;
        match &self.weights {
            None => row -= mean,
            Some(w) => row.scaled_add(-mean, w),
        }
    }

    /// Makes each row sum to 0, which all but rounding it does.
    fn centre_rows(&self, coefficients: &mut Array2<f64>) {
        for mut row in coefficients.rows_mut() {
            // The second round centres by the rounding error of the first.
            self.centre(row.view_mut());
            self.centre(row);
        }
    }

    /// y Jᵀ D^½.
    fn image(&self, mut y: Array2<f64>) -> Array2<f64> {
        for mut row in y.rows_mut() {
            let mean =
                self.weights.as_ref().map_or_else(|| row.sum(), |w| w.dot(&row)) / self.total;
            row -= mean;
            if let Some(roots) = &self.roots {
                row *= roots;
            }
        }
        y
    }
}

impl KernelProblem<'_> {
    /// Decomposes HKH.
    pub(crate) fn solve(&self) -> Result<KernelSolution> {
        let n = self.matrix.len();
        if n <= DENSE_UP_TO || !self.asked.is_leading() {
            return self.solve_dense();
        }
        let (found, means) = self.search()?;
        let missed = found.unconverged(self.tolerance);
        if (!missed.is_empty() || found.vectors.nrows() == 0) && self.dense {
            self.listener.note(&Note::DenseTakesOver {
                products: found.products,
                out_of_reach: missed.is_empty().then(|| self.asked.to_string()),
            });
            drop(found);
            return self.solve_dense();
        }
        self.solution(found, means)
    }

    /// What an eigenvalue must exceed to be more than rounding.
    fn noise(&self) -> f64 {
        self.matrix.entry_noise()
            * self.matrix.len() as f64
            * self.weights.map_or(1.0, |w| w.iter().fold(0.0, |m: f64, w| m.max(*w)))
    }

    /// The same over the first of these values.
    fn rank_tolerance(&self, largest: f64) -> f64 {
        let n = self.matrix.len();
        rank_tolerance(n as u64, n).max(self.noise() / largest.max(f64::MIN_POSITIVE))
    }

    fn centring(&self) -> KernelCentring {
        KernelCentring::new(self.weights, self.matrix.len())
    }

    fn measure(&self, total: f64) -> Measure {
        Measure { total, unit: self.centring().total - 1.0 }
    }

    fn rules(&self, spectrum: &Spectrum, trace: f64) -> Rules {
        Rules::kernel(spectrum, self.measure(trace)).exhausting(self.asked)
    }

    fn means(&self, sums: Array1<f64>, centring: &KernelCentring) -> Result<KernelMeans> {
        let rows = sums / centring.total;
        let diagonal = self.matrix.diagonal();
        let over =
            |a: &Array1<f64>| centring.weights.as_ref().map_or_else(|| a.sum(), |w| w.dot(a));
        let grand = over(&rows) / centring.total;
        let trace = over(&diagonal) - centring.total * grand;
        match trace.is_finite() && rows.iter().all(|m| m.is_finite()) {
            true => Ok(KernelMeans { rows, grand, trace }),
            false => Err(Error::data(Default::default(), OVERFLOWS)),
        }
    }

    fn search(&self) -> Result<(RitzPairs, KernelMeans)> {
        let n = self.matrix.len();
        let centring = self.centring();
        let means = std::cell::RefCell::new(None::<KernelMeans>);
        let block = block(super::randomized::sought(self.asked), n);
        let start = centring.image(krylov::start(block, n, self.seed));
        let search = Search {
            order: n,
            basis: (block * BASIS_BLOCKS).min(n),
            products: self.products,
            tolerance: self.tolerance,
            wanted: &|ritz, residuals| {
                let measure = self.measure(means.borrow().as_ref()?.trace);
                Some(self.asked.wanted(ritz, residuals, measure)?.min(n - 1))
            },
            expensive: true,
            threads: self.threads,
            listener: self.listener,
            noun: "product",
            before: 0,
        };
        let found = krylov::search(&search, start, |q, number| {
            let work = format!("product {number} of at most {}", self.products);
            let mut p = centring.operand(q);
            if means.borrow().is_some() {
                return Ok(centring.image(self.matrix.times(&p, work, self.listener)?));
            }
            // The first product gives the row sums too.
            p.append(Axis(0), centring.row(n).view())
                .map_err(|e| Error::Internal(format!("row sums: {e}")))?;
            let y = self.matrix.times(&p, work, self.listener)?;
            *means.borrow_mut() = Some(self.means(y.row(q.nrows()).to_owned(), &centring)?);
            Ok(centring.image(y.slice(s![..q.nrows(), ..]).to_owned()))
        })?;
        let means =
            means.into_inner().ok_or_else(|| Error::Internal("no product was made".into()))?;
        Ok((found, means))
    }

    /// From what a search has found.
    fn solution(&self, found: RitzPairs, means: KernelMeans) -> Result<KernelSolution> {
        let sought = found.vectors.nrows();
        if sought == 0 {
            let said = out_of_reach(self.asked, &found.values, means.trace);
            let asked = self.asked;
            return Err(Error::Misuse(format!(
                "⟦components={asked}⟧ is out of reach: {said}; give a number of components"
            )));
        }
        let largest = found.values.first().copied().unwrap_or(0.0);
        let tolerance = self.rank_tolerance(largest);
        let least = -tolerance * largest.abs();
        let below: f64 = found.values.iter().filter(|v| **v < least).sum();
        // The shares are of what is positive: what was seen of the rest is taken out of the trace.
        let means = KernelMeans { trace: means.trace - below, ..means };
        let negative = Negative {
            count: found.values.iter().filter(|v| **v < least).count(),
            all: found.complete,
        };
        let leading = found.values.iter().take(sought).copied();
        let spectrum = Spectrum::leading(leading, tolerance, self.matrix.len() - 1);
        let kept = self.rules(&spectrum, means.trace).keep_found(self.asked, sought)?;
        let iteration = Iteration::new(&found, self.tolerance, kept, found.products);
        let v = found.vectors.slice(s![..kept, ..]).to_owned();
        let certificate = Certificate {
            max_residual: iteration.max_residual(),
            orthogonality: super::orthogonality(&v),
            iteration: Some(iteration),
            ..Certificate::default()
        };
        self.finished(v, spectrum, certificate, means, negative)
    }

    fn solve_dense(&self) -> Result<KernelSolution> {
        let n = self.matrix.len();
        let centring = self.centring();
        go_on(self.listener)?;
        let k = self.matrix.dense(self.listener)?;
        go_on(self.listener)?;
        let means = self.means(centring.row(n).dot(&k).row(0).to_owned(), &centring)?;
        // J K Jᵀ: rows, then columns.
        let half = centring.image(k).reversed_axes().as_standard_layout().into_owned();
        let mut a = centring.image(half);
        blas::mirror(&mut a);
        let watch = Watch::new(self.listener, Stage::decomposing(n));
        let (values, vectors) = blas::parallel(self.threads, || blas::eigh(a.clone()))?;
        drop(watch);
        let largest = values.iter().last().copied().unwrap_or(0.0);
        let tolerance = self.rank_tolerance(largest);
        let negative = Negative {
            count: values.iter().filter(|v| **v < -tolerance * largest.abs()).count(),
            all: true,
        };
        let trace_error = Some(super::relative(means.trace, values.sum()));
        let spectrum = Spectrum::whole(values.iter().rev().copied(), tolerance, n - 1);
        let means = KernelMeans { trace: spectrum.values.sum(), ..means };
        let rules = self.rules(&spectrum, means.trace);
        let v = spectrum::leading(&vectors, rules.keep(self.asked)?);
        let residuals = blas::parallel(self.threads, || super::residuals(&a, &spectrum, &v));
        let certificate = Certificate {
            max_residual: residuals.into_iter().fold(0.0, f64::max),
            orthogonality: super::orthogonality(&v),
            trace_error,
            ..Certificate::default()
        };
        self.finished(v, spectrum, certificate, means, negative)
    }

    /// Signs V and makes coefficients of it.
    fn finished(
        &self,
        mut v: Array2<f64>,
        spectrum: Spectrum,
        certificate: Certificate,
        means: KernelMeans,
        negative: Negative,
    ) -> Result<KernelSolution> {
        let centring = self.centring();
        let rules = self.rules(&spectrum, means.trace);
        spectrum::fix_signs(&mut v);
        super::over_roots(&mut v, &spectrum);
        if let Some(roots) = &centring.roots {
            v *= roots;
        }
        centring.centre_rows(&mut v);
        let solution = kernel_solution(Form::Exact, v, spectrum, means.trace, rules, certificate);
        Ok(KernelSolution { solution, means, negative })
    }
}

/// Kernel supervised PCA of some rows.
pub(crate) struct SupervisedSolution {
    /// `components` are Θᵀ, k × n.
    pub solution: Solution,
    /// k × n: scores of the rows, ΘᵀK.
    pub scores: Array2<f64>,
    /// Mean of the kernel for each row, over all pairs, and the trace of HKH.
    pub means: KernelMeans,
    /// Negative eigenvalues, which are left out.
    pub negative: Negative,
}

/// Kernel supervised PCA: Nᵀ (r × n) and K → Θ.
///
/// The dual form decomposes NᵀKN. The direct one is the seed's n × n problem KNNᵀK θ = λ K θ: with
/// θ = N ω it is the same r × r one, and its certificate is that of the n × n problem.
pub(crate) fn supervised(
    problem: &KernelProblem<'_>,
    labels: &Array2<f64>,
    form: Form,
    bound: usize,
) -> Result<SupervisedSolution> {
    let (means, y) = problem.label_products(labels)?;
    let mut square = blas::parallel(problem.threads, || labels.dot(&y.t()));
    blas::mirror(&mut square);
    let eigen = problem.label_eigen(&mut square, labels, bound)?;
    let trace = square.diag().sum();
    let total = if eigen.spectrum.whole { eigen.spectrum.values.sum() } else { trace };
    let rules = Rules::supervised(&eigen.spectrum, total);
    let v = spectrum::leading(&eigen.vectors, rules.keep(problem.asked)?);
    let mut over = v.clone();
    super::over_roots(&mut over, &eigen.spectrum);
    let mut theta = blas::parallel(problem.threads, || over.dot(labels));
    problem.centring().centre_rows(&mut theta);
    let scores = blas::parallel(problem.threads, || over.dot(&y));
    // ΘᵀKΘ
    let mut gram = blas::parallel(problem.threads, || theta.dot(&scores.t()));
    gram.diag_mut().mapv_inplace(|g| g - 1.0);
    let max_residual = match form {
        Form::Direct => direct_residual(labels, &y, &scores, &eigen.spectrum),
        _ => super::residuals(&square, &eigen.spectrum, &v).into_iter().fold(0.0, f64::max),
    };
    let certificate = Certificate {
        max_residual,
        orthogonality: gram.iter().fold(0.0, |m, g| g.abs().max(m)),
        trace_error: eigen.sum.map(|sum| super::relative(trace, sum)),
        ..Certificate::default()
    };
    let negative = Negative { count: eigen.below.len(), all: eigen.sum.is_some() };
    let solution = kernel_solution(form, theta, eigen.spectrum, total, rules, certificate);
    Ok(SupervisedSolution { solution, scores, means, negative })
}

impl KernelProblem<'_> {
    /// What the kernel is on average, and NᵀK (r × n), from one product.
    fn label_products(&self, labels: &Array2<f64>) -> Result<(KernelMeans, Array2<f64>)> {
        let (r, n) = labels.dim();
        let centring = self.centring();
        let mut q = Array2::zeros((r + 1, n));
        q.slice_mut(s![..r, ..]).assign(labels);
        q.row_mut(r).assign(&centring.row(n).row(0));
        let work = "product with the kernel matrix";
        let mut y = self.matrix.times(&q, work.into(), self.listener)?;
        drop(q);
        let means = self.means(y.row(r).to_owned(), &centring)?;
        // Not a copy: it may be as large as the rows.
        y.slice_collapse(s![..r, ..]);
        Ok((means, y))
    }

    /// The eigenpairs of NᵀKN that are more than the rounding of K.
    fn label_eigen(
        &self,
        square: &mut Array2<f64>,
        labels: &Array2<f64>,
        bound: usize,
    ) -> Result<Eigen> {
        let (r, n) = labels.dim();
        let bound = bound.min(r).min(n.saturating_sub(1));
        // N's largest column magnifies the rounding of K. An indefinite K may have negative values
        // far larger than the positive ones: their rounding is felt, too, and the trace tells
        // nothing.
        let longest = labels.rows().into_iter().map(|row| row.dot(&row)).fold(0.0, f64::max);
        let noise = self.noise() * longest;
        let relative = rank_tolerance(n as u64, r);
        let mut eigen = super::eigen(square, relative, bound, self.asked, self.threads)?;
        let lowest = eigen.below.iter().fold(0.0f64, |m, v| m.min(*v));
        let largest = super::largest(&eigen.spectrum).max(-lowest);
        let size = eigen.spectrum.values.sum() - eigen.below.iter().sum::<f64>();
        let spread = noise * r as f64 * largest / size.max(f64::MIN_POSITIVE);
        let least = noise.max(spread).max(relative * largest);
        eigen.spectrum.drop_below(least);
        eigen.below.retain(|v| *v < -least);
        Ok(eigen)
    }
}

/// Coefficients over rows, as a solution: what its features are is told by whoever has prepared
/// them.
fn kernel_solution(
    form: Form,
    components: Array2<f64>,
    spectrum: Spectrum,
    trace: f64,
    rules: Rules,
    certificate: Certificate,
) -> Solution {
    let (rank, eigenvalues) = (spectrum.rank(), spectrum.values);
    let (active, scale) = (Vec::new(), None);
    Solution { form, active, scale, components, eigenvalues, rank, trace, rules, certificate }
}

/// max ‖KNNᵀKθ − λKθ‖ / ‖λ₁Kθ‖: Kθ are the scores, KN is Y.
fn direct_residual(
    labels: &Array2<f64>,
    y: &Array2<f64>,
    scores: &Array2<f64>,
    spectrum: &Spectrum,
) -> f64 {
    let mut residual = scores.dot(&labels.t()).dot(y);
    let largest = super::largest(spectrum);
    let mut worst: f64 = 0.0;
    for (i, mut row) in residual.rows_mut().into_iter().enumerate() {
        let score = scores.row(i);
        row.scaled_add(-spectrum.values[i], &score);
        worst =
            worst.max((row.dot(&row) / score.dot(&score).max(f64::MIN_POSITIVE)).sqrt() / largest);
    }
    worst
}
