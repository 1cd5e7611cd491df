//! Mean and a triangular factor of the centred co-moment, in one pass: S = RᵀR, and S is never
//! formed.
//!
//! Enters: blocks. Leaves: [`FactoredCoMoment`]. Holds R (8d²), μ, two copies of a block and a work
//! area of 256·d bytes.
//!
//! Products square what they multiply: of two features whose deviations are 1e-8 apart, S keeps
//! none of the smaller one's digits beside the larger one's, R keeps them all. Legend, for a block
//! b of total weight W_b after rows of total weight W_a:
//!
//! ```text
//! a    rounded mean of the block             y = x − a − r,  r = Σ w (x − a) / W_b
//! R   ← the triangle of [R; √w·y]            Householder's QR, whose Q nobody needs
//! R   ← the triangle of [R; √c·δᵀ]           c = W_a W_b / (W_a + W_b), δ = a + r − μ: Chan's
//!                                            rule as one more row
//! μ  += W_b / (W_a + W_b) · δ                kept as a sum of two, see Center
//! ```
//!
//! Two of them merge as the triangle of [R_a; R_b; √c·δᵀ]. Nothing is subtracted, so nothing
//! cancels; and nothing can be taken out again.
//!
//! Around a mean that is known beforehand ([`TriangularCovariance::around`]) there is no δ, and a
//! missing cell, which takes the mean, is a 0.

use super::stored::{Parts, Restored, Stored};
use super::{Accumulate, Center, FactoredCoMoment, Moments, Shape};
use crate::blas;
use crate::error::{Error, Result};
use crate::source::{Block, MissingCell, dense};
use ndarray::{Array1, Array2, Axis, ShapeBuilder};

/// n, W, μ and R of the rows so far.
#[derive(Debug, Clone)]
pub struct TriangularCovariance {
    rows: u64,
    weight: f64,
    mean: Center,
    /// True when the mean was given.
    known: bool,
    /// Upper, in F order.
    r: Array2<f64>,
    problem: Option<Problem>,
}

/// Why there are no sums.
#[derive(Debug, Clone)]
enum Problem {
    /// A cell was missing that has no mean to take.
    Missing,
    /// Rows were to be taken out.
    TakenOut,
    /// The linear algebra library refused.
    Library(String),
}

/// What is said of a part that should be taken out of a factor.
pub(crate) const NOT_SUBTRACTED: &str = concat!(
    "nothing can be taken out of sums of ⟦precision=full⟧: what is left would have lost the ",
    "digits that they are kept for; keep a state per part and merge those that stay",
);

impl TriangularCovariance {
    /// Of no rows yet.
    pub fn new(d: usize) -> TriangularCovariance {
        let r = Array2::zeros((d, d).f());
        TriangularCovariance {
            rows: 0,
            weight: 0.0,
            mean: Center::zeros(d),
            known: false,
            r,
            problem: None,
        }
    }

    /// Around a known mean, which missing cells take.
    pub fn around(moments: &Moments) -> TriangularCovariance {
        let mean = Center::new(moments.mean.clone(), moments.rest.clone());
        TriangularCovariance { mean, known: true, ..TriangularCovariance::new(moments.mean.len()) }
    }

    fn keep(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.problem.get_or_insert(Problem::Library(error.to_string()));
        }
    }

    /// Rows of this weight around this mean were added: μ moves, and R takes √c δ.
    fn shift(&mut self, weight: f64, mean: Center) {
        let total = self.weight + weight;
        if self.weight == 0.0 {
            self.mean = mean;
        } else if !self.known {
            let delta = mean.minus(&self.mean);
            self.mean = self.mean.plus(&(&delta * (weight / total)));
            let chan = delta * (self.weight * weight / total).sqrt();
            let done = blas::absorb_rows(&mut self.r, &mut in_columns(chan.insert_axis(Axis(0))));
            self.keep(done);
        }
        self.weight = total;
    }

    /// Centres rows in place: by the mean that is known, or by their own, which it gives.
    fn centre(
        &self,
        y: &mut Array2<f64>,
        weights: Option<&Array1<f64>>,
        weight: f64,
        missing: &[MissingCell],
    ) -> Center {
        if self.known {
            self.mean.subtract(y);
            dense::put(y, missing, 0.0);
            return self.mean.clone();
        }
        // Not 0, which would count: who does not ask `check` finds no number either.
        dense::put(y, missing, f64::NAN);
        let mut once = || {
            let mean = dense::column_sums(y, weights) / weight;
            dense::shift(y, Some(&mean), None);
            mean
        };
        // The second round centres by the rounding error of the first.
        Center::new(once(), once())
    }
}

/// The same matrix in F order.
fn in_columns(a: Array2<f64>) -> Array2<f64> {
    if a.t().is_standard_layout() {
        return a;
    }
    let mut columns = Array2::zeros(a.raw_dim().f());
    columns.assign(&a);
    columns
}

impl Accumulate for TriangularCovariance {
    type Output = FactoredCoMoment;

    fn update(&mut self, mut block: Block) {
        let missing = std::mem::take(&mut block.missing);
        if !self.known && !missing.is_empty() {
            self.problem.get_or_insert(Problem::Missing);
        }
        self.rows += block.rows() as u64;
        let weights = block.weights.take();
        let weight = weights.as_ref().map_or(block.rows() as f64, |w| w.sum());
        if weight == 0.0 {
            return;
        }
        let mut y = in_columns(block.into_f64());
        let mean = self.centre(&mut y, weights.as_ref(), weight, &missing);
        if let Some(weights) = &weights {
            dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
        }
        let done = blas::absorb_rows(&mut self.r, &mut y);
        self.keep(done);
        self.shift(weight, mean);
    }

    fn merge(&mut self, mut later: TriangularCovariance) {
        self.rows += later.rows;
        self.problem = self.problem.take().or(later.problem);
        if later.weight == 0.0 {
            return;
        }
        if self.weight == 0.0 {
            self.r = later.r;
        } else {
            let done = blas::absorb_triangle(&mut self.r, &mut later.r);
            self.keep(done);
        }
        self.shift(later.weight, later.mean);
    }

    fn check(&self) -> Result<()> {
        match &self.problem {
            None => Ok(()),
            Some(Problem::Missing) => Err(super::refuse_missing()),
            Some(Problem::TakenOut) => Error::misuse(NOT_SUBTRACTED),
            Some(Problem::Library(why)) => Error::misuse(why.clone()),
        }
    }

    fn finish(self) -> FactoredCoMoment {
        let squares = self.spread();
        let (mean, rest) = self.mean.split();
        let moments = Moments {
            rows: self.rows,
            weight: self.weight,
            mean,
            rest,
            squares,
            mixed_error: None,
        };
        FactoredCoMoment { moments, r: self.r }
    }

    fn bytes(Shape { features: d, rows, .. }: Shape) -> u64 {
        let work = if rows == 0 { 0 } else { blas::absorb_bytes(d) };
        // A block in C order is copied into one in F order.
        let held = d.saturating_mul(d).saturating_add(d.saturating_mul(2 * rows + 4));
        8u64.saturating_mul(held).saturating_add(work)
    }
}

impl Stored for TriangularCovariance {
    fn store(&self, at: &str, parts: &mut Parts) {
        parts.fact(at, "rows", self.rows);
        parts.fact(at, "weight", self.weight);
        parts.center(at, "mean", &self.mean);
        parts.upper(at, "r", &self.r);
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<TriangularCovariance> {
        Ok(TriangularCovariance {
            rows: parts.take_rows(at)?,
            weight: parts.take_weight(at)?,
            mean: parts.take_center(at, "mean", d)?,
            known: false,
            r: in_columns(parts.take_upper(at, "r", d)?),
            problem: None,
        })
    }

    /// Cannot be done; [`Accumulate::check`] says so from then on.
    fn subtract(&mut self, _: TriangularCovariance) {
        self.problem = Some(Problem::TakenOut);
    }

    fn spread(&self) -> Array1<f64> {
        self.r.columns().into_iter().map(|c| c.dot(&c)).collect()
    }

    /// R with its columns in that order is triangular no more: QR makes it so again.
    fn reorder(&mut self, order: &[usize]) {
        self.mean = self.mean.reordered(order);
        match blas::triangle_of(in_columns(self.r.select(Axis(1), order))) {
            Ok(r) => self.r = r,
            Err(error) => self.keep(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    fn block() -> Block {
        let cell = |(i, j): (usize, usize)| 1e8 + ((i * 5 + j * 3 + i * j) % 7) as f64;
        Block::dense(Array2::from_shape_fn((9, 3), cell))
    }

    fn products(sums: &TriangularCovariance) -> Array2<f64> {
        sums.r.t().dot(&sums.r)
    }

    #[test]
    fn nothing_is_taken_out_and_nothing_missing_is_0() {
        let mut sums = TriangularCovariance::new(3);
        sums.update(block());
        assert!(sums.check().is_ok());
        let mut less = sums.clone();
        less.subtract(sums.clone());
        assert!(less.check().unwrap_err().to_string().contains("taken out"));
        let mut holes = block();
        holes.missing.push(MissingCell { row: 1, feature: 1 });
        sums.update(holes);
        assert!(sums.check().unwrap_err().to_string().contains("missing cells"));
        assert!(sums.finish().moments.mean[1].is_nan(), "no number is made up");
    }

    #[test]
    fn features_change_places() {
        let mut sums = TriangularCovariance::new(3);
        sums.update(block());
        let mut turned = sums.clone();
        turned.reorder(&[2, 0, 1]);
        let (s, t) = (products(&sums), products(&turned));
        let expected = s.select(Axis(0), &[2, 0, 1]).select(Axis(1), &[2, 0, 1]);
        assert!((t - expected).iter().all(|e| e.abs() < 1e-12));
        let (m, n) = (sums.finish().moments.mean, turned.finish().moments.mean);
        assert_eq!(n, array![m[2], m[0], m[1]]);
    }
}
