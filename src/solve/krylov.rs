//! Leading eigenpairs of a symmetric positive semidefinite operator by block Krylov.
//!
//! Enters: a start of b vectors and `apply`, which gives A times some vectors (a product in memory,
//! or a pass over the data). Leaves: Ritz pairs with their residuals. Holds the whole basis, at
//! most `basis` vectors of length `order`, and three blocks of b.
//!
//! Vectors are rows. With the blocks Q₁ … Q_j orthonormal and together Q, after each product:
//!
//! ```text
//! W = Q_j A            h = W Qᵀ       H gets h as its last rows and columns: H = Q A Qᵀ
//! W − hQ = Rᵀ Q_{j+1}                 what is new (orthogonalised twice, then QR)
//! H = Yᵀ Θ Y           U = Y Q        Ritz values and vectors
//! A u_i − θ_i u_i = y_i[last b] Rᵀ Q_{j+1},   so ‖residual_i‖ = ‖y_i[last b] Rᵀ‖
//! ```
//!
//! Everything A does to the basis is within Q₁ … Q_{j+1}, so the residual is known without another
//! product and nothing stops on a small change alone. Musco & Musco (2015) show why the whole basis
//! converges in fewer products than its last block. When the basis is full it is cut to its leading
//! Ritz vectors and goes on (thick restart, Wu & Simon 2000): H = diag(θ) then, and the coupling to
//! Q_{j+1} comes with the next product.

use crate::blas;
use crate::error::Result;
use crate::listen::{Listener, go_on};
use crate::note::Note;
use ndarray::{Array1, Array2, Axis, concatenate, s};
use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;

/// Vectors of a block beyond those wanted: more converge in fewer products, each a little dearer.
pub(crate) const OVERSAMPLING: usize = 20;

/// Up to this many vectors the small problem is solved after every product; beyond, where products
/// are cheap, when there are a sixth more.
const CHECK_ALWAYS: usize = 256;

/// A row this much smaller than the largest, once the others are taken out of it, is mostly
/// rounding.
const NEARLY_DEPENDENT: f64 = 1e-6;

/// What is looked for and when to stop.
pub(crate) struct Search<'a> {
    /// Length of the vectors.
    pub order: usize,
    /// The most vectors held in the basis; at least three blocks.
    pub basis: usize,
    /// The most products.
    pub products: usize,
    /// What is good enough.
    pub tolerance: Tolerance,
    /// How many pairs are wanted, given the Ritz values so far and their residuals over λ₁; `None`
    /// while that cannot be said, and for all there are.
    pub wanted: &'a super::rules::Wanted<'a>,
    /// True when a product costs more than solving the small problem ever does: a pass over the
    /// data.
    pub expensive: bool,
    /// BLAS threads.
    pub threads: usize,
    /// Told of the largest residual over λ₁ after each product, and asked whether to go on.
    pub listener: &'a dyn Listener,
    /// What a product is to the listener: "pass" or "product".
    pub noun: &'static str,
    /// How many of them came before.
    pub before: usize,
}

impl Search<'_> {
    fn tell(&self, products: usize, residual: f64) {
        let number = self.before + products;
        self.listener.note(&Note::Residual { what: self.noun, number, residual });
    }
}

/// How good a pair must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerance {
    /// ‖Au − θu‖ over λ₁.
    pub residual: f64,
    /// Error of the eigenvalue over itself.
    pub value: f64,
    /// ‖Au − θu‖ over √(λ₁θ): what scores along u are off by, over those along the first.
    pub score: f64,
}

impl Tolerance {
    /// A residual over λ₁, and nothing else.
    pub(crate) const fn residual(residual: f64) -> Tolerance {
        Tolerance { residual, value: f64::INFINITY, score: f64::INFINITY }
    }

    /// True when a pair is good enough, given its value over λ₁.
    fn met(&self, residual: f64, value_error: f64, share: f64) -> bool {
        let score = (self.score * share.max(0.0).sqrt()).max(ROUNDING);
        residual <= self.residual && residual <= score && value_error <= self.value
    }
}

/// No residual over λ₁ is asked to be smaller than this for the sake of scores.
const ROUNDING: f64 = 1e-13;

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct RitzPairs {
    /// Ritz values, descending: the wanted ones first, then rough ones.
    pub values: Vec<f64>,
    /// The wanted vectors as rows, orthonormal, leading first.
    pub vectors: Array2<f64>,
    /// ‖Au − θu‖ / λ₁ of each wanted pair.
    pub residuals: Vec<f64>,
    /// Bound on the error of each wanted value over itself.
    pub value_errors: Vec<f64>,
    /// Products with A.
    pub products: usize,
    /// True when the basis is the whole space, and the values all there are.
    pub complete: bool,
}

impl RitzPairs {
    /// Which wanted pairs miss the tolerance.
    pub(crate) fn unconverged(&self, tolerance: Tolerance) -> Vec<usize> {
        let largest = self.values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let misses = |i: &usize| {
            !tolerance.met(self.residuals[*i], self.value_errors[*i], self.values[*i] / largest)
        };
        (0..self.residuals.len()).filter(misses).collect()
    }
}

/// Vectors per block for k pairs of a problem of this order: the whole space where that is not much
/// more.
pub(crate) fn block(k: usize, order: usize) -> usize {
    let block = k.saturating_add(OVERSAMPLING);
    if order <= block.saturating_mul(3) { order } else { block }
}

/// A start: Gaussian vectors, or the unit vectors where the block is the whole space.
pub(crate) fn start(block: usize, order: usize, seed: u64) -> Array2<f64> {
    if block >= order {
        return Array2::eye(order);
    }
    let mut rng = Pcg64::new(u128::from(seed), 0xA02_BDBF_7BB3_C0A7);
    Array2::from_shape_simple_fn((block, order), || rng.sample(StandardNormal))
}

/// Bytes at the peak besides what `apply` holds.
pub(crate) fn bytes(order: u64, block: u64, basis: u64) -> u64 {
    let vectors = basis.saturating_add(4 * block).saturating_mul(order);
    8u64.saturating_mul(vectors.saturating_add(6u64.saturating_mul(basis).saturating_mul(basis)))
}

/// Runs until the wanted pairs meet the tolerance, or the products, numbered ones, are used up.
pub(crate) fn search(
    search: &Search<'_>,
    start: Array2<f64>,
    mut apply: impl FnMut(&Array2<f64>, usize) -> Result<Array2<f64>>,
) -> Result<RitzPairs> {
    let mut basis = KrylovBasis::new(start)?;
    let mut checked = 0;
    for products in 1.. {
        go_on(search.listener)?;
        let image = apply(basis.last(), search.before + products)?;
        let next = blas::parallel(search.threads, || basis.absorb(image))?;
        let m = basis.len();
        let complete = m == search.order;
        let last = products >= search.products || complete;
        if !last && !search.expensive && m > CHECK_ALWAYS && m < checked + checked / 6 {
            basis.extend(next);
            continue;
        }
        checked = m;
        let ritz = blas::parallel(search.threads, || Ritz::new(&basis, &next))?;
        let k = (search.wanted)(&ritz.values, &ritz.residuals).or(complete.then_some(m));
        let k = k.map(|k| k.min(m));
        let worst = ritz.residuals.iter().take(k.unwrap_or(m)).fold(0.0f64, |a, b| a.max(*b));
        search.tell(products, worst);
        if let Some(k) = k.filter(|k| last || ritz.meets(*k, search.tolerance)) {
            return Ok(blas::parallel(search.threads, || {
                ritz.found(&basis, k, products, complete)
            }));
        }
        if last {
            return Ok(blas::parallel(search.threads, || {
                ritz.found(&basis, 0, products, complete)
            }));
        }
        let room = m + next.q.nrows() <= search.basis && m + 2 * next.q.nrows() <= search.order;
        if !room {
            // As many as are wanted and a block to go on with, but room for at least two new
            // blocks.
            let keep = k.unwrap_or(m / 2) + next.q.nrows() / 2;
            blas::parallel(search.threads, || basis.restart(&ritz, keep.min(m / 2).max(1)));
            checked = 0;
        }
        basis.extend(next);
    }
    unreachable!("the loop ends with its products, or with an error")
}

/// The orthonormal basis and H.
struct KrylovBasis {
    blocks: Vec<Array2<f64>>,
    h: Array2<f64>,
}

/// The next block: W − hQ = RᵀQ.
struct Next {
    q: Array2<f64>,
    r: Array2<f64>,
}

impl KrylovBasis {
    fn new(mut start: Array2<f64>) -> Result<KrylovBasis> {
        blas::orthonormalise(&mut start)?;
        Ok(KrylovBasis { blocks: vec![start], h: Array2::zeros((0, 0)) })
    }

    fn len(&self) -> usize {
        self.blocks.iter().map(Array2::nrows).sum()
    }

    fn last(&self) -> &Array2<f64> {
        &self.blocks[self.blocks.len() - 1]
    }

    /// W − (WQᵀ)Q in place, block by block; gives WQᵀ.
    fn project_out(&self, w: &mut Array2<f64>) -> Array2<f64> {
        let mut parts = Vec::with_capacity(self.blocks.len());
        for q in &self.blocks {
            let h = w.dot(&q.t());
            ndarray::linalg::general_mat_mul(-1.0, &h, q, 1.0, w);
            parts.push(h);
        }
        let views: Vec<_> = parts.iter().map(|p| p.view()).collect();
        concatenate(Axis(1), &views).expect("all have a row per row of W")
    }

    /// Takes the image of the last block into H and gives what is new in it.
    fn absorb(&mut self, mut w: Array2<f64>) -> Result<Next> {
        let m = self.len();
        let b = w.nrows();
        let mut h = self.project_out(&mut w);
        h += &self.project_out(&mut w);
        let mut wide = Array2::zeros((m, m));
        let old = self.h.nrows();
        wide.slice_mut(s![..old, ..old]).assign(&self.h);
        wide.slice_mut(s![m - b.., ..]).assign(&h);
        wide.slice_mut(s![.., m - b..]).assign(&h.t());
        // H is symmetric but for rounding.
        let corner = (&h.slice(s![.., m - b..]) + &h.slice(s![.., m - b..]).t()) / 2.0;
        wide.slice_mut(s![m - b.., m - b..]).assign(&corner);
        self.h = wide;
        if m >= w.ncols() {
            return Ok(Next { q: Array2::zeros((0, w.ncols())), r: Array2::zeros((0, b)) });
        }
        let r = blas::orthonormalise(&mut w)?;
        let pivots = r.diag().mapv(f64::abs);
        let largest = pivots.iter().copied().fold(0.0, f64::max);
        if pivots.iter().all(|p| *p > NEARLY_DEPENDENT * largest) {
            return Ok(Next { q: w, r });
        }
        // Rows that W had hardly a direction for are arbitrary: they too must leave the basis.
        self.project_out(&mut w);
        let again = blas::orthonormalise(&mut w)?;
        Ok(Next { q: w, r: again.dot(&r) })
    }

    fn extend(&mut self, next: Next) {
        self.blocks.push(next.q);
    }

    /// Cuts the basis to its leading Ritz vectors.
    fn restart(&mut self, ritz: &Ritz, keep: usize) {
        let kept = ritz.vectors(self, keep);
        self.h = Array2::from_diag(&Array1::from_iter(ritz.values.iter().take(keep).copied()));
        self.blocks = vec![kept];
    }
}

/// Ritz pairs of a basis, leading first.
struct Ritz {
    values: Vec<f64>,
    /// Coefficients as rows.
    y: Array2<f64>,
    /// Over λ₁.
    residuals: Vec<f64>,
    order: usize,
}

impl Ritz {
    fn new(basis: &KrylovBasis, next: &Next) -> Result<Ritz> {
        let (values, vectors) = blas::eigh(basis.h.clone())?;
        let y = vectors.slice(s![..;-1, ..]).as_standard_layout().into_owned();
        let values: Vec<f64> = values.iter().rev().copied().collect();
        let largest = values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let b = next.r.ncols();
        // Over λ₁ before it is squared: λ₁ may be near the end of the range.
        let rest = y.slice(s![.., y.ncols() - b..]).dot(&(&next.r.t() / largest));
        let residuals = rest.rows().into_iter().map(|row| row.dot(&row).sqrt()).collect();
        Ok(Ritz { values, y, residuals, order: basis.last().ncols() })
    }

    /// The first k rows of YQ.
    fn vectors(&self, basis: &KrylovBasis, k: usize) -> Array2<f64> {
        let mut u = Array2::zeros((k, basis.last().ncols()));
        let mut first = 0;
        for q in &basis.blocks {
            let y = self.y.slice(s![..k, first..first + q.nrows()]);
            ndarray::linalg::general_mat_mul(1.0, &y, q, 1.0, &mut u);
            first += q.nrows();
        }
        u
    }

    /// An eigenvalue is within r of θ, and within r²/gap where the next ones are a gap away from
    /// the k wanted.
    fn value_errors(&self, k: usize) -> Vec<f64> {
        let largest = self.values.first().copied().unwrap_or(0.0);
        let next = self.values.get(k).copied().unwrap_or(0.0);
        let error = |(value, residual): (&f64, &f64)| {
            let r = residual * largest;
            let gap = value - next;
            let bound = if gap > 0.0 { r.min(r * (r / gap)) } else { r };
            // What is 0 but for rounding has no relative error.
            if *value > f64::EPSILON * self.order as f64 * largest { bound / value } else { 0.0 }
        };
        self.values.iter().zip(&self.residuals).take(k).map(error).collect()
    }

    fn meets(&self, k: usize, tolerance: Tolerance) -> bool {
        let largest = self.values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let errors = self.value_errors(k);
        (0..errors.len())
            .all(|i| tolerance.met(self.residuals[i], errors[i], self.values[i] / largest))
    }

    fn found(self, basis: &KrylovBasis, k: usize, products: usize, complete: bool) -> RitzPairs {
        let vectors = self.vectors(basis, k);
        let value_errors = self.value_errors(k);
        let residuals = self.residuals[..k].to_vec();
        RitzPairs { values: self.values, vectors, residuals, value_errors, products, complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::Quiet;

    /// A diagonal matrix turned by a reflection, so that its eigenpairs are known and its vectors
    /// are dense.
    struct KnownSpectrum {
        values: Vec<f64>,
        mirror: Array1<f64>,
    }

    impl KnownSpectrum {
        fn new(values: Vec<f64>) -> KnownSpectrum {
            let mirror = Array1::from_shape_fn(values.len(), |i| 1.0 + (i % 7) as f64);
            let norm = mirror.dot(&mirror).sqrt();
            KnownSpectrum { values, mirror: mirror / norm }
        }

        fn reflect(&self, q: &Array2<f64>) -> Array2<f64> {
            let along = q.dot(&self.mirror) * 2.0;
            let mut out = q.clone();
            out.rows_mut()
                .into_iter()
                .zip(&along)
                .for_each(|(mut row, a)| row.scaled_add(-a, &self.mirror));
            out
        }

        fn apply(&self, q: &Array2<f64>) -> Array2<f64> {
            let mut turned = self.reflect(q);
            turned *= &Array1::from_vec(self.values.clone());
            self.reflect(&turned)
        }

        fn find(&self, k: usize, block: usize, basis: usize, products: usize) -> RitzPairs {
            let order = self.values.len();
            let search = Search {
                order,
                basis,
                products,
                tolerance: Tolerance { residual: 1e-10, value: 1e-10, score: f64::INFINITY },
                wanted: &|_, _| Some(k),
                expensive: true,
                threads: 1,
                listener: &Quiet,
                noun: "product",
                before: 0,
            };
            search_known(self, &search, block)
        }
    }

    fn search_known(known: &KnownSpectrum, options: &Search<'_>, block: usize) -> RitzPairs {
        search(options, start(block, options.order, 3), |q, _| Ok(known.apply(q))).unwrap()
    }

    fn decaying(order: usize) -> Vec<f64> {
        (0..order).map(|i| 0.8f64.powi(i as i32).max(1e-3)).collect()
    }

    #[test]
    fn the_leading_pairs_are_found_and_the_residual_is_the_true_one() {
        let known = KnownSpectrum::new(decaying(300));
        for (basis, products) in [(300, 40), (36, 200)] {
            let found = known.find(6, 12, basis, products);
            assert!(
                found
                    .unconverged(Tolerance { residual: 1e-10, value: 1e-10, score: f64::INFINITY })
                    .is_empty(),
                "{:?}",
                found.residuals
            );
            let image = known.apply(&found.vectors);
            for i in 0..6 {
                assert!(
                    (found.values[i] - known.values[i]).abs() < 1e-10 * known.values[i],
                    "value {i} with basis {basis}"
                );
                let mut rest = image.row(i).to_owned();
                rest.scaled_add(-found.values[i], &found.vectors.row(i));
                let truth = rest.dot(&rest).sqrt() / found.values[0];
                assert!(
                    (truth - found.residuals[i]).abs() < 1e-13,
                    "says {}, is {truth}",
                    found.residuals[i]
                );
            }
        }
    }

    #[test]
    fn more_products_than_the_basis_holds_restart_it() {
        let values = (0..400).map(|i| 2.0 - i as f64 / 400.0).collect();
        let known = KnownSpectrum::new(values);
        let small = known.find(3, 8, 32, 400);
        let large = known.find(3, 8, 400, 400);
        assert!(
            large.products * 8 > 32 && small.products > large.products,
            "{} and {}",
            small.products,
            large.products
        );
        for i in 0..3 {
            assert!(
                (small.values[i] - known.values[i]).abs() < 1e-9,
                "value {i}: {}",
                small.values[i]
            );
        }
    }

    #[test]
    fn equal_values_are_all_found() {
        let known = KnownSpectrum::new(
            (0..200).map(|i| if i < 5 { 3.0 } else { 1.0 / (1.0 + i as f64) }).collect(),
        );
        let found = known.find(7, 15, 120, 50);
        let expected = [3.0, 3.0, 3.0, 3.0, 3.0, 1.0 / 6.0, 1.0 / 7.0];
        found
            .values
            .iter()
            .zip(expected)
            .for_each(|(f, e)| assert!((f - e).abs() < 1e-9, "{f} against {e}"));
    }

    #[test]
    fn a_low_rank_ends_the_search_at_once() {
        let known = KnownSpectrum::new(
            (0..200).map(|i| if i < 4 { 4.0 - i as f64 } else { 0.0 }).collect(),
        );
        let found = known.find(10, 20, 120, 50);
        assert!(found.products <= 2 && found.residuals.iter().all(|r| *r < 1e-12), "{found:?}");
        assert!(found.values[4..10].iter().all(|v| v.abs() < 1e-12));
    }

    #[test]
    fn too_few_products_are_said_to_be_too_few() {
        let known = KnownSpectrum::new((0..400).map(|i| 2.0 - i as f64 / 400.0).collect());
        let found = known.find(3, 8, 400, 3);
        assert_eq!(found.products, 3);
        assert_eq!(
            found.unconverged(Tolerance { residual: 1e-10, value: 1e-10, score: f64::INFINITY }),
            [0, 1, 2]
        );
    }

    #[test]
    fn a_small_space_is_taken_whole() {
        assert_eq!((block(5, 60), block(5, 1000)), (60, 25));
        let known = KnownSpectrum::new(decaying(30));
        let found = known.find(5, 30, 30, 1);
        assert!(found.complete && found.residuals.iter().all(|r| *r == 0.0));
        assert!((found.values[29] - known.values[29]).abs() < 1e-14);
    }
}
