//! Mean and centred co-moment of whole rows, in one pass.
//!
//! Enters: blocks without missing cells. Leaves: [`CoMoment`]. Holds S (8d²), μ, and one centred
//! copy of a block; under mixed precision also an f32 product (4d²).
//!
//! Legend, for a block b of total weight W_b after rows of total weight W_a:
//!
//! ```text
//! a    rounded mean of the block             y = x − a
//! r  = Σ w y / W_b                           what rounding left
//! μ_b = a + r                                kept as a sum of two, see Center
//! S  += Σ w y yᵀ − W_b r rᵀ                  dsyrk on √w·y
//! S  += W_a W_b / (W_a + W_b) · δ δᵀ         δ = μ_b − μ
//!                                            Chan, Golub & LeVeque (1979), eq. 2.1b
//! μ  += W_b / (W_a + W_b) · δ
//! ```
//!
//! Centring before the product is what keeps the digits of a column with mean 1e8 and deviation 1.

use super::stored::{Parts, Restored, Stored, left, reordered_upper, take_out};
use super::{Accumulate, Center, CoMoment, Moments, Shape, add_outer, add_upper};
use crate::blas;
use crate::error::Result;
use crate::source::{Block, Values, dense};
use ndarray::{Array1, Array2, ArrayView2, s};

/// Features of a block whose f32 products are checked against f64.
const CHECKED_FEATURES: usize = 64;

/// n, W, μ and S of the rows so far.
#[derive(Debug, Clone)]
pub struct Covariance {
    rows: u64,
    weight: f64,
    mean: Center,
    s: Array2<f64>,
    mixed_error: Option<f64>,
    /// Where f32 products are made; of no size until there is one.
    product: Array2<f32>,
    /// True once a cell was missing: then there are no sums.
    incomplete: bool,
}

impl Covariance {
    /// Of no rows yet.
    pub fn new(d: usize) -> Covariance {
        Covariance {
            rows: 0,
            weight: 0.0,
            mean: Center::zeros(d),
            s: Array2::zeros((d, d)),
            mixed_error: None,
            product: Array2::zeros((0, 0)),
            incomplete: false,
        }
    }

    /// The block's part in S is already added; its mean and weight follow.
    fn shift(&mut self, rows: u64, weight: f64, mean: Center) {
        let total = self.weight + weight;
        if self.weight == 0.0 {
            self.mean = mean;
        } else {
            let delta = mean.minus(&self.mean);
            add_outer(&mut self.s, self.weight * weight / total, &delta);
            self.mean = self.mean.plus(&(delta * (weight / total)));
        }
        self.rows += rows;
        self.weight = total;
    }

    fn product_f64(&mut self, y: &Array2<f64>) {
        blas::syrk(y.view(), 1.0, self.s.view_mut());
    }

    /// Rows of singles that weigh 1 each: centred in f64, rounded, and multiplied where they are.
    fn add_singles(&mut self, mut x: Array2<f32>) {
        let weight = x.nrows() as f64;
        let mean = dense::column_sums(&x, None) / weight;
        let unrounded = self.mixed_error.is_none().then(|| {
            let mut y = x.mapv(f64::from);
            dense::shift(&mut y, Some(&mean), None);
            y
        });
        dense::shift_singles(&mut x, &mean);
        let rest = dense::column_sums(&x, None) / weight;
        self.product_f32(unrounded.as_ref(), &x);
        add_outer(&mut self.s, -weight, &rest);
        self.shift(x.nrows() as u64, weight, Center::new(mean, rest));
    }

    /// The f32 product, added in f64. The first of each accumulator is checked on some features.
    fn product_f32(&mut self, y: Option<&Array2<f64>>, single: &Array2<f32>) {
        let d = single.ncols();
        if self.product.nrows() != d {
            self.product = Array2::zeros((d, d));
        }
        blas::syrk(single.view(), 0.0, self.product.view_mut());
        if let Some(y) = y {
            self.mixed_error.get_or_insert_with(|| f32_error(y.view(), single.view()));
        }
        let product = self.product.rows();
        for (i, (mut row, more)) in self.s.rows_mut().into_iter().zip(product).enumerate() {
            for (entry, value) in row.slice_mut(s![i..]).iter_mut().zip(more.slice(s![i..])) {
                *entry += f64::from(*value);
            }
        }
    }
}

/// max |P_ij − (YᵀY)_ij| / √((YᵀY)_ii (YᵀY)_jj) over the first features i and all j, where P is the
/// f32 product.
pub(super) fn f32_error(y: ArrayView2<'_, f64>, single: ArrayView2<'_, f32>) -> f64 {
    let some = y.ncols().min(CHECKED_FEATURES);
    let exact = y.slice(s![.., ..some]).t().dot(&y);
    let product = single.slice(s![.., ..some]).t().dot(&single);
    let norms: Vec<f64> = y.columns().into_iter().map(|c| c.dot(&c).sqrt()).collect();
    let error = |((i, j), p): ((usize, usize), &f32)| {
        let scale = norms[i] * norms[j];
        if scale > 0.0 { (f64::from(*p) - exact[[i, j]]).abs() / scale } else { 0.0 }
    };
    product.indexed_iter().map(error).fold(0.0, f64::max)
}

impl Accumulate for Covariance {
    type Output = CoMoment;

    fn update(&mut self, mut block: Block) {
        self.incomplete |= !block.missing.is_empty();
        let missing = std::mem::take(&mut block.missing);
        let rows = block.rows() as u64;
        let weights = block.weights.take();
        let weight = weights.as_ref().map_or(rows as f64, |w| w.sum());
        if weight == 0.0 {
            self.rows += rows;
            return;
        }
        let mixed = match block.values {
            Values::F32(mut x) if weights.is_none() => {
                dense::put(&mut x, &missing, f32::NAN);
                return self.add_singles(x);
            }
            Values::F32(_) => true,
            Values::F64(_) => false,
        };
        let mut y = block.into_f64();
        // Not 0, which would count: who does not ask `check` finds no number either.
        dense::put(&mut y, &missing, f64::NAN);
        let mean = dense::column_sums(&y, weights.as_ref()) / weight;
        dense::shift(&mut y, Some(&mean), None);
        let rest = dense::column_sums(&y, weights.as_ref()) / weight;
        if let Some(weights) = &weights {
            dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
        }
        if mixed {
            self.product_f32(Some(&y), &y.mapv(|v| v as f32))
        } else {
            self.product_f64(&y)
        }
        dense::recycle(y);
        add_outer(&mut self.s, -weight, &rest);
        self.shift(rows, weight, Center::new(mean, rest));
    }

    fn merge(&mut self, later: Covariance) {
        self.incomplete |= later.incomplete;
        self.mixed_error = super::worst(self.mixed_error, later.mixed_error);
        if later.weight == 0.0 {
            self.rows += later.rows;
            return;
        }
        add_upper(&mut self.s, &later.s);
        self.shift(later.rows, later.weight, later.mean);
    }

    fn check(&self) -> Result<()> {
        if self.incomplete { Err(super::refuse_missing()) } else { Ok(()) }
    }

    fn finish(mut self) -> CoMoment {
        blas::mirror(&mut self.s);
        let ((mean, rest), squares) = (self.mean.split(), self.s.diag().to_owned());
        let moments = Moments {
            rows: self.rows,
            weight: self.weight,
            mean,
            rest,
            squares,
            mixed_error: self.mixed_error,
        };
        CoMoment { moments, s: self.s }
    }

    fn bytes(Shape { features: d, rows, .. }: Shape) -> u64 {
        8u64.saturating_mul(d.saturating_mul(d).saturating_add(d * (rows + 2)))
    }
}

impl Stored for Covariance {
    fn store(&self, at: &str, parts: &mut Parts) {
        parts.fact(at, "rows", self.rows);
        parts.fact(at, "weight", self.weight);
        parts.fact(at, "mixed_error", self.mixed_error);
        parts.center(at, "mean", &self.mean);
        parts.upper(at, "s", &self.s);
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<Covariance> {
        Ok(Covariance {
            rows: parts.take_rows(at)?,
            weight: parts.take_weight(at)?,
            mixed_error: parts.take(at, "mixed_error")?,
            mean: parts.take_center(at, "mean", d)?,
            s: parts.take_upper(at, "s", d)?,
            product: Array2::zeros((0, 0)),
            incomplete: false,
        })
    }

    fn subtract(&mut self, part: Covariance) {
        self.rows = self.rows.saturating_sub(part.rows);
        let rest = left(self.weight, part.weight);
        if part.weight == 0.0 {
            return;
        }
        if rest == 0.0 {
            let d = self.s.nrows();
            (self.weight, self.mean) = (0.0, Center::zeros(d));
            self.s.fill(0.0);
            return;
        }
        self.mean = take_out(
            &mut self.s,
            (&self.mean, self.weight),
            &part.s,
            (&part.mean, part.weight),
            rest,
        );
        self.weight = rest;
    }

    fn spread(&self) -> Array1<f64> {
        self.s.diag().to_owned()
    }

    fn reorder(&mut self, order: &[usize]) {
        self.mean = self.mean.reordered(order);
        self.s = reordered_upper(&self.s, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MissingCell;

    #[test]
    fn a_missing_cell_is_not_0() {
        let mut block = Block::dense(Array2::ones((3, 2)));
        block.missing.push(MissingCell { row: 1, feature: 1 });
        let mut sums = Covariance::new(2);
        sums.update(Block::dense(Array2::ones((3, 2))));
        assert!(sums.check().is_ok());
        let mut total = sums.clone();
        sums.update(block);
        total.merge(sums);
        assert!(total.check().unwrap_err().to_string().contains("missing cells"));
        assert!(total.finish().moments.mean[1].is_nan(), "no number is made up");
    }
}
