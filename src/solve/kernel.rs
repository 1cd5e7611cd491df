//! Kernel PCA (seed, "Kernel Principal Component Analysis") and kernel supervised PCA without an n × n matrix.
//!
//! Enters: n prepared rows, a kernel, weights, labels. Leaves: coefficients over the rows, eigenvalues, certificate.
//! With w the weights (1 without), W their sum, D = diag(w), J = I − 1wᵀ/W, which is the seed's H for w = 1:
//!
//! ```text
//! kpca    D^½ J K Jᵀ D^½ v = λ v          block Krylov, one product with K at a time; dense where n is small
//!         coefficients D^½ v / σ, training scores σ D^−½ v
//! kspca   N = D(Δ − 1δ̄ᵀ), the seed's HΔ;  NᵀKN v = λ v, r × r
//!         Θ = N V Σ⁻¹, and ΘᵀKΘ = I
//! ```
//!
//! An entry of K is right to `noise` = eps · (max k(x, x) and what its argument lost), so eigenvalues below n times that are
//! rounding, whatever λ₁ is: centring may have taken most of K away. Coefficients are centred to the last digit, since
//! those of small components are large and would let a constant of k(x) through.
//!
//! [`KernelMatrix::times`] makes K tile by tile, those on and above the diagonal, each once per product:
//!
//! ```text
//! stripe i of 256 rows:   K_ii q_i │ K_ij q_j to i and K_ijᵀ q_i to j, for the j to the right
//! ```
//!
//! Stripes are added in order, so threads do not change a digit. Holds the rows, per thread a tile and a stripe's
//! sums (8·n·b bytes), and what [`krylov`] holds.

use super::krylov::{self, RitzPairs, Search, Tolerance};
use super::rules::{Components, Rules, cumulated};
use super::spectrum::{self, Spectrum, rank_tolerance};
use super::{Certificate, Form, Iteration, Solution};
use crate::blas;
use crate::error::{Error, Result};
use crate::kernel::Comparands;
use crate::workers::{Crew, in_order, window};
use ndarray::{Array1, Array2, ArrayViewMut2, Axis, s};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a stripe.
const STRIPE: usize = 256;
/// Columns of a tile.
const TILE: usize = 512;

/// Up to this many rows K is decomposed whole.
pub const DENSE_UP_TO: usize = 1_500;

/// Vectors of a block beyond k.
const SPARE: usize = 6;

/// Blocks of the basis before it is cut.
const BASIS_BLOCKS: usize = 12;

/// Residual over λ₁ that is good enough, unless `--tolerance` says otherwise.
pub const TOLERANCE: f64 = 1e-8;

/// Features from which on a tile is read back faster than it is made: at 256 an entry takes 15 ns to make, and a file
/// that memory does not cache gives one in 8 ns (1 GB/s). From the cache 10,000 × 256 took 1.9 s instead of 3.9 s.
pub const SPILL_FROM: usize = 256;

/// Vectors of a block for k components of n rows.
pub fn block(k: usize, n: usize) -> usize {
    k.saturating_add(SPARE).min(n.div_ceil(3)).max(1)
}

/// Bytes of the products with b vectors on so many threads.
pub fn product_bytes(n: u64, b: u64, threads: usize) -> u64 {
    let stripes = (window(threads) as u64 + 3).saturating_mul(8 * n).saturating_mul(b);
    let tile = 8 * (STRIPE * TILE) as u64 * 2;
    stripes.saturating_add(threads as u64 * tile)
}

/// Bytes that the basis takes for k components.
pub fn basis_bytes(n: u64, k: usize) -> u64 {
    let block = block(k, n as usize) as u64;
    krylov::bytes(n, block, (block * BASIS_BLOCKS as u64).min(n))
}

/// Bytes of all tiles on disk.
pub fn spill_bytes(n: u64) -> u64 {
    entries_above(n.next_multiple_of(STRIPE as u64), n).saturating_mul(8)
}

/// Entries of the stripes above a row, each to the right of its diagonal.
fn entries_above(row: u64, n: u64) -> u64 {
    row.saturating_mul(n) - row.saturating_mul(row.saturating_sub(STRIPE as u64)) / 2
}

/// What is said of a kernel that is not finite.
const OVERFLOWS: &str = "the kernel overflows: its arguments are too large; scale the columns with ⟦standardize⟧, or give a smaller ⟦gamma⟧ or ⟦degree⟧";

/// K over some rows, made by tiles.
pub struct KernelMatrix<'a> {
    rows: &'a Comparands<'a>,
    threads: usize,
    spill: Option<Spill>,
}

/// Tiles in a file without a name, so that it is gone with the process.
struct Spill {
    file: File,
    dir: PathBuf,
    written: AtomicBool,
}

impl<'a> KernelMatrix<'a> {
    /// Tiles are made anew for every product, or kept in a temporary file in a directory.
    pub fn new(
        rows: &'a Comparands<'a>,
        threads: usize,
        spill: Option<&Path>,
    ) -> Result<KernelMatrix<'a>> {
        let spill = spill.map(|dir| {
            let file =
                tempfile::tempfile_in(dir).map_err(Error::io("create a temporary file in", dir))?;
            Ok(Spill { file, dir: dir.to_path_buf(), written: AtomicBool::new(false) })
        });
        Ok(KernelMatrix { rows, threads, spill: spill.transpose()? })
    }

    /// q K for vectors q as rows: b × n.
    pub fn times(&self, q: &Array2<f64>) -> Result<Array2<f64>> {
        let (n, b) = (self.rows.len(), q.nrows());
        let across = q.t().as_standard_layout().into_owned();
        let mut image = Array2::zeros((n, b));
        let crew = Crew { threads: self.threads, queue: 1 };
        in_order(
            n.div_ceil(STRIPE),
            crew,
            |stripe, out| {
                out.give(self.stripe(stripe * STRIPE, &across)?);
                Ok(())
            },
            |stripe, part: Array2<f64>| {
                let mut below = image.slice_mut(s![stripe * STRIPE.., ..]);
                below += &part;
                Ok(())
            },
        )?;
        if let Some(spill) = &self.spill {
            spill.written.store(true, Ordering::Release);
        }
        Ok(image.reversed_axes().as_standard_layout().into_owned())
    }

    /// What the rows from `first` on add: to themselves and to all after them.
    fn stripe(&self, first: usize, q: &Array2<f64>) -> Result<Array2<f64>> {
        let n = self.rows.len();
        let rows = first..(first + STRIPE).min(n);
        let mut sums = Array2::zeros((n - first, q.ncols()));
        let mut tile = Array2::zeros((rows.len(), TILE));
        let mut start = first;
        while start < n {
            let end = if start == first { rows.end } else { (start + TILE).min(n) };
            let columns = start..end;
            let mut part = tile.slice_mut(s![.., ..columns.len()]);
            self.tile(rows.clone(), columns.clone(), part.view_mut())?;
            let (mut own, mut others) = sums.view_mut().split_at(Axis(0), rows.len());
            ndarray::linalg::general_mat_mul(
                1.0,
                &part,
                &q.slice(s![columns.clone(), ..]),
                1.0,
                &mut own,
            );
            if start > first {
                let mut below = others.slice_mut(s![start - rows.end..end - rows.end, ..]);
                ndarray::linalg::general_mat_mul(
                    1.0,
                    &part.t(),
                    &q.slice(s![rows.clone(), ..]),
                    0.0,
                    &mut below,
                );
            }
            start = end;
        }
        Ok(sums)
    }

    fn tile(
        &self,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
        mut k: ArrayViewMut2<'_, f64>,
    ) -> Result<()> {
        let Some(Spill { file, dir, written }) = &self.spill else {
            self.rows.tile(rows, columns, k);
            return Ok(());
        };
        let within = (rows.len() * (columns.start - rows.start)) as u64;
        let offset = 8 * (entries_above(rows.start as u64, self.rows.len() as u64) + within);
        let mut bytes = Vec::new();
        if written.load(Ordering::Acquire) {
            bytes.resize(8 * rows.len() * columns.len(), 0);
            file.read_exact_at(&mut bytes, offset)
                .map_err(Error::io("read a temporary file in", dir))?;
            let (numbers, _) = bytes.as_chunks::<8>();
            k.iter_mut().zip(numbers).for_each(|(k, bytes)| *k = f64::from_ne_bytes(*bytes));
            return Ok(());
        }
        self.rows.tile(rows, columns, k.view_mut());
        bytes.reserve_exact(8 * k.len());
        k.rows()
            .into_iter()
            .for_each(|row| row.iter().for_each(|v| bytes.extend_from_slice(&v.to_ne_bytes())));
        file.write_all_at(&bytes, offset).map_err(Error::io("write a temporary file in", dir))
    }

    /// All of K.
    fn dense(&self) -> Array2<f64> {
        let n = self.rows.len();
        let mut k = Array2::zeros((n, n));
        let stripes = k.axis_chunks_iter_mut(Axis(0), STRIPE).enumerate().collect();
        blas::serial(|| {
            blas::for_each(
                self.threads,
                stripes,
                |(i, stripe): (usize, ArrayViewMut2<'_, f64>)| {
                    self.rows.tile(i * STRIPE..i * STRIPE + stripe.nrows(), 0..n, stripe);
                },
            );
        });
        blas::mirror(&mut k);
        k
    }
}

/// Kernel PCA of some rows.
pub struct KernelProblem<'a> {
    /// K.
    pub matrix: KernelMatrix<'a>,
    /// One weight per row.
    pub weights: Option<&'a Array1<f64>>,
    /// `-k`.
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
    /// Told after each product.
    pub watch: &'a dyn Fn(usize, f64),
    /// Told what users must know.
    pub say: &'a dyn Fn(String),
}

/// What the kernel is on average.
#[derive(Debug, Clone)]
pub struct KernelMeans {
    /// Over all rows, for each row.
    pub rows: Array1<f64>,
    /// Over all pairs.
    pub grand: f64,
    /// Σ w (k(x, x) − 2 mean + grand): the trace.
    pub trace: f64,
}

/// A decomposed kernel.
pub struct KernelSolution {
    /// `components` are the coefficients over the rows, k × n.
    pub solution: Solution,
    /// What k(x) is centred by.
    pub means: KernelMeans,
    /// Negative eigenvalues, which are left out.
    pub negative: Negative,
}

/// Negative eigenvalues of an indefinite kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negative {
    /// How many were seen.
    pub count: usize,
    /// True when there are no others.
    pub all: bool,
}

/// √w, W: what centring needs.
struct Centring {
    /// √w; `None` for ones.
    roots: Option<Array1<f64>>,
    weights: Option<Array1<f64>>,
    total: f64,
}

impl Centring {
    fn new(weights: Option<&Array1<f64>>, n: usize) -> Centring {
        let total = weights.map_or(n as f64, |w| w.sum());
        Centring { roots: weights.map(|w| w.mapv(f64::sqrt)), weights: weights.cloned(), total }
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
    pub fn solve(&self) -> Result<KernelSolution> {
        let n = self.matrix.rows.len();
        let whole = !matches!(self.asked, Components::Count(_) | Components::Ratio(_));
        if n <= DENSE_UP_TO || whole {
            return self.solve_dense();
        }
        let (found, means) = self.search()?;
        let missed = found.unconverged(self.tolerance);
        if (!missed.is_empty() || found.vectors.nrows() == 0) && self.dense {
            let products = found.products;
            (self.say)(match missed.is_empty() {
                true => {
                    format!(
                        "note: {products} products do not reach ⟦components={}⟧; the whole matrix fits and is decomposed",
                        self.asked
                    )
                }
                false => format!(
                    "note: after {products} products some components miss the tolerance; the whole matrix fits and is decomposed"
                ),
            });
            drop(found);
            return self.solve_dense();
        }
        self.solution(found, means)
    }

    /// What an eigenvalue must exceed to be more than rounding.
    fn noise(&self) -> f64 {
        self.matrix.rows.entry_noise()
            * self.matrix.rows.len() as f64
            * self.weights.map_or(1.0, |w| w.iter().fold(0.0, |m: f64, w| m.max(*w)))
    }

    /// The same over the first of these values.
    fn rank_tolerance(&self, largest: f64) -> f64 {
        let n = self.matrix.rows.len();
        rank_tolerance(n as u64, n).max(self.noise() / largest.max(f64::MIN_POSITIVE))
    }

    fn centring(&self) -> Centring {
        Centring::new(self.weights, self.matrix.rows.len())
    }

    fn means(&self, sums: Array1<f64>, centring: &Centring) -> Result<KernelMeans> {
        let rows = sums / centring.total;
        let diagonal = self.matrix.rows.diagonal();
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
        let n = self.matrix.rows.len();
        let centring = self.centring();
        let means = std::cell::RefCell::new(None);
        let block = block(super::randomized::sought(self.asked), n);
        let start = centring.image(krylov::start(block, n, self.seed));
        let search = Search {
            order: n,
            basis: (block * BASIS_BLOCKS).min(n),
            products: self.products,
            tolerance: self.tolerance,
            wanted: &|ritz| match (self.asked, &*means.borrow()) {
                (Components::Count(k), _) => Some(k.min(n - 1)),
                (Components::Ratio(share), Some(KernelMeans { trace, .. })) => {
                    cumulated(ritz, *trace).position(|c| c >= share).map(|i| i + 1)
                }
                _ => None,
            },
            expensive: true,
            threads: self.threads,
            watch: self.watch,
        };
        let found = krylov::search(&search, start, |q| {
            let mut p = centring.operand(q);
            if means.borrow().is_some() {
                return Ok(centring.image(self.matrix.times(&p)?));
            }
            // The first product gives the row sums too.
            p.append(Axis(0), centring.row(n).view())
                .map_err(|e| Error::Internal(format!("row sums: {e}")))?;
            let y = self.matrix.times(&p)?;
            *means.borrow_mut() = Some(self.means(y.row(q.nrows()).to_owned(), &centring)?);
            Ok(centring.image(y.slice(s![..q.nrows(), ..]).to_owned()))
        })?;
        let means =
            means.into_inner().ok_or_else(|| Error::Internal("no product was made".into()))?;
        Ok((found, means))
    }

    fn solution(&self, found: RitzPairs, means: KernelMeans) -> Result<KernelSolution> {
        let n = self.matrix.rows.len();
        let sought = found.vectors.nrows();
        if sought == 0 {
            let share = 100.0 * cumulated(&found.values, means.trace).last().unwrap_or(0.0);
            let known = found.values.len();
            return Err(Error::Misuse(format!(
                "⟦components={}⟧ is out of reach: {known} components explain {share:.1} % of the variance; give a number of components",
                self.asked
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
        let spectrum =
            Spectrum::leading(found.values.iter().take(sought).copied(), tolerance, n - 1);
        let kept = sought.min(spectrum.above);
        let kept_of = |all: &[f64]| all[..kept].to_vec();
        let iteration = Iteration {
            passes: found.products,
            tolerance: self.tolerance.residual,
            eigenvalue_errors: kept_of(&found.value_errors),
            residuals: kept_of(&found.residuals),
            unconverged: found
                .unconverged(self.tolerance)
                .into_iter()
                .filter(|i| *i < kept)
                .map(|i| i + 1)
                .collect(),
        };
        let v = found.vectors.slice(s![..kept, ..]).to_owned();
        let certificate = Certificate {
            max_residual: iteration.residuals.iter().copied().fold(0.0, f64::max),
            orthogonality: super::orthogonality(&v),
            trace_error: None,
            mixed_error: None,
            lost_digits: None,
            iteration: Some(iteration),
        };
        self.finished(v, spectrum, certificate, means, negative)
    }

    fn solve_dense(&self) -> Result<KernelSolution> {
        let n = self.matrix.rows.len();
        let centring = self.centring();
        let k = self.matrix.dense();
        let means = self.means(centring.row(n).dot(&k).row(0).to_owned(), &centring)?;
        // J K Jᵀ: rows, then columns.
        let half = centring.image(k).reversed_axes().as_standard_layout().into_owned();
        let mut a = centring.image(half);
        blas::mirror(&mut a);
        let decomposed = blas::parallel(self.threads, || blas::eigh(a.clone()));
        let (values, vectors) = decomposed
            .map_err(|info| Error::Internal(format!("LAPACK dsyevd failed with info {info}")))?;
        let largest = values.iter().last().copied().unwrap_or(0.0);
        let tolerance = self.rank_tolerance(largest);
        let negative = Negative {
            count: values.iter().filter(|v| **v < -tolerance * largest.abs()).count(),
            all: true,
        };
        let trace_error = Some(super::relative(means.trace, values.sum()));
        let spectrum = Spectrum::whole(values.iter().rev().copied(), tolerance, n - 1);
        let means = KernelMeans { trace: spectrum.values.sum(), ..means };
        let rules = Rules::kernel(&spectrum, means.trace);
        let v = spectrum::leading(&vectors, rules.keep(self.asked)?);
        let residuals = blas::parallel(self.threads, || super::residuals(&a, &spectrum, &v));
        let certificate = Certificate {
            max_residual: residuals.into_iter().fold(0.0, f64::max),
            orthogonality: super::orthogonality(&v),
            trace_error,
            mixed_error: None,
            lost_digits: None,
            iteration: None,
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
        let rules = Rules::kernel(&spectrum, means.trace);
        spectrum::fix_signs(&mut v);
        super::over_roots(&mut v, &spectrum);
        if let Some(roots) = &centring.roots {
            v *= roots;
        }
        centring.centre_rows(&mut v);
        let trace = means.trace;
        let (rank, eigenvalues) = (spectrum.rank(), spectrum.values);
        let (form, active, scale) = (Form::Exact, Vec::new(), None);
        let solution = Solution {
            form,
            active,
            scale,
            components: v,
            eigenvalues,
            rank,
            trace,
            rules,
            certificate,
        };
        Ok(KernelSolution { solution, means, negative })
    }
}

/// Kernel supervised PCA of some rows: what its labels add.
pub struct Supervised {
    /// `components` are Θᵀ, k × n.
    pub solution: Solution,
    /// k × n: scores of the rows, ΘᵀK.
    pub scores: Array2<f64>,
    /// Mean of the kernel for each row, over all pairs, and the trace of HKH.
    pub means: KernelMeans,
}

/// Kernel supervised PCA: Nᵀ (r × n) and K → Θ.
///
/// The dual form decomposes NᵀKN. The direct one is the seed's n × n problem KNNᵀK θ = λ K θ: with θ = N ω it is the
/// same r × r one, and its certificate is that of the n × n problem.
pub fn supervised(
    problem: &KernelProblem<'_>,
    labels: &Array2<f64>,
    form: Form,
    bound: usize,
) -> Result<Supervised> {
    let (r, n) = labels.dim();
    let centring = problem.centring();
    let mut q = labels.clone();
    q.append(Axis(0), centring.row(n).view())
        .map_err(|e| Error::Internal(format!("row sums: {e}")))?;
    let mut y = problem.matrix.times(&q)?;
    drop(q);
    let means = problem.means(y.row(r).to_owned(), &centring)?;
    y = y.slice(s![..r, ..]).to_owned();
    let bound = bound.min(r).min(n.saturating_sub(1));
    let mut square = blas::parallel(problem.threads, || labels.dot(&y.t()));
    blas::mirror(&mut square);
    let trace = square.diag().sum();
    // The rounding of K is felt through the largest column of N; the trace bounds the first eigenvalue from both sides.
    let longest = labels.rows().into_iter().map(|row| row.dot(&row)).fold(0.0, f64::max);
    let noise = problem.noise() * longest;
    let tolerance =
        rank_tolerance(n as u64, r).max(noise * r as f64 / trace.max(f64::MIN_POSITIVE));
    let mut eigen = super::eigen(&square, tolerance, bound, problem.asked, problem.threads)?;
    eigen.spectrum.drop_below(noise);
    let total = if eigen.spectrum.whole { eigen.spectrum.values.sum() } else { trace };
    let rules = Rules::supervised(&eigen.spectrum, total);
    let v = spectrum::leading(&eigen.vectors, rules.keep(problem.asked)?);
    let mut over = v.clone();
    super::over_roots(&mut over, &eigen.spectrum);
    let mut theta = blas::parallel(problem.threads, || over.dot(labels));
    centring.centre_rows(&mut theta);
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
        mixed_error: None,
        lost_digits: None,
        iteration: None,
    };
    let (rank, eigenvalues) = (eigen.spectrum.rank(), eigen.spectrum.values);
    let (active, scale) = (Vec::new(), None);
    let solution = Solution {
        form,
        active,
        scale,
        components: theta,
        eigenvalues,
        rank,
        trace: total,
        rules,
        certificate,
    };
    Ok(Supervised { solution, scores, means })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    fn rows(n: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, d), |(i, j)| {
            ((i * 7919 + j * 104_729 + i * i) % 1009) as f64 / 500.0 - 1.0
        })
    }

    #[test]
    fn tiles_times_vectors_is_the_matrix_times_them_spilled_or_not() {
        let dir = tempfile::tempdir().unwrap();
        for n in [1, 255, 256, 257, 1300] {
            let x = rows(n, 3);
            let kernel = Kernel::Rbf { gamma: 0.7 };
            let q = rows(4, n);
            let expected = q.dot(&kernel.tile(x.view(), x.view()));
            let comparands = Comparands::new(kernel, &x);
            let mut first: Option<Array2<f64>> = None;
            for (threads, spill) in
                [(1, None), (3, None), (1, Some(dir.path())), (2, Some(dir.path()))]
            {
                let matrix = KernelMatrix::new(&comparands, threads, spill).unwrap();
                for _ in 0..2 {
                    let found = matrix.times(&q).unwrap();
                    found
                        .iter()
                        .zip(&expected)
                        .for_each(|(a, b)| assert!((a - b).abs() < 1e-12 * n as f64, "{a} {b}"));
                    assert_eq!(
                        first.get_or_insert_with(|| found.clone()),
                        &found,
                        "same bytes, {threads} threads, {n} rows"
                    );
                }
            }
            assert!(spill_bytes(n as u64) as usize >= 8 * n * n.div_ceil(2));
        }
    }
}
