//! The centred co-moment times a few vectors, without the co-moment.
//!
//! Enters: blocks. Leaves: Z = P S, where the b vectors to be multiplied are the rows of P. Holds Z
//! (8bd), one block, and its product with P. Nothing grows with n or with d².
//!
//! | accumulator | mean | for |
//! |---|---|---|
//! | [`Sketch`] | unknown: each block around its own, joined by Chan's rule | the first pass |
//! | [`Product`] | known; missing cells are at it | every later pass |
//!
//! ```text
//! T = √w·Y Pᵀ          Z += Tᵀ (√w·Y)          Y = x − mean of the block
//! Z += c (Pδ) δᵀ       c = W_a W_b / (W_a + W_b), δ = μ_b − μ
//! ```

use super::stored::{Parts, Restored, Stored};
use super::{Accumulate, Center, FeatureMoments, Moments, Shape};
use crate::source::block::Precision;
use crate::source::{Block, Values, dense};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, s};
use std::sync::Arc;

/// Rows of a block whose f32 product is checked against f64.
const CHECKED_ROWS: usize = 64;

/// Moments and P S of the rows so far.
#[derive(Debug, Clone)]
pub struct Sketch {
    p: Arc<Array2<f64>>,
    spread: FeatureMoments,
    z: Array2<f64>,
}

/// What a first pass knows.
#[derive(Debug, Clone)]
pub struct FirstPass {
    /// n, W, μ, spread.
    pub moments: Moments,
    /// P S; rough where cells were missing, since blocks were filled with their own means.
    pub z: Array2<f64>,
}

impl Sketch {
    /// Of no rows yet; P is b × d.
    pub fn new(p: Arc<Array2<f64>>) -> Sketch {
        let (spread, z) = (FeatureMoments::new(p.ncols()), Array2::zeros(p.raw_dim()));
        Sketch { p, spread, z }
    }

    /// Writes all of it under names that start with `at`, with what is multiplied.
    pub(crate) fn store(&self, at: &str, parts: &mut Parts) {
        parts.matrix(at, "p", &self.p);
        parts.matrix(at, "z", &self.z);
        self.spread.store(at, parts);
    }

    /// How many vectors are multiplied.
    pub(crate) fn vectors(&self) -> usize {
        self.p.nrows()
    }

    /// Reads what [`Sketch::store`] has written: b vectors of d numbers.
    pub(crate) fn restore(at: &str, (b, d): (usize, usize), parts: &mut Parts) -> Restored<Sketch> {
        Ok(Sketch {
            p: Arc::new(parts.take_matrix(at, "p", (b, d))?),
            z: parts.take_matrix(at, "z", (b, d))?,
            spread: FeatureMoments::restore(at, d, parts)?,
        })
    }
}

impl Accumulate for Sketch {
    type Output = FirstPass;

    fn update(&mut self, mut block: Block) {
        if block.rows() == 0 {
            return;
        }
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        let mut y = block.into_f64();
        let spread = FeatureMoments::centring(&mut y, weights.as_ref(), &missing);
        if let Some(weights) = &weights {
            dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
        }
        let t = y.dot(&self.p.t());
        general_mat_mul(1.0, &t.t(), &y, 1.0, &mut self.z);

        self.join(spread);
    }

    fn merge(&mut self, later: Sketch) {
        self.z += &later.z;

        self.join(later.spread);
    }

    fn finish(self) -> FirstPass {
        FirstPass { moments: self.spread.finish(), z: self.z }
    }

    fn bytes(shape: Shape) -> u64 {
        Product::bytes(shape).saturating_add(FeatureMoments::bytes(Shape { rows: 0, ..shape }))
    }
}

impl Sketch {
    fn join(&mut self, spread: FeatureMoments) {
        let c = self.spread.coupling(&spread);
        if c > 0.0 {
            let delta = spread.mean.minus(&self.spread.mean);
            let along = self.p.dot(&delta) * c;
            self.z
                .rows_mut()
                .into_iter()
                .zip(&along)
                .for_each(|(mut row, a)| row.scaled_add(*a, &delta));
        }
        self.spread.merge(spread);
    }
}

/// P S around a known mean.
#[derive(Debug, Clone)]
pub struct Product {
    p: Arc<Array2<f64>>,
    /// P in f32, for f32 blocks.
    single: Arc<Array2<f32>>,
    center: Arc<Center>,
    z: Array2<f64>,
    mixed_error: Option<f64>,
}

impl Product {
    /// Of no rows yet; P is b × d.
    pub fn new(p: Array2<f64>, precision: Precision, moments: &Moments) -> Product {
        Product::around(p, precision, moments.center())
    }

    fn around(p: Array2<f64>, precision: Precision, center: Center) -> Product {
        let z = Array2::zeros(p.raw_dim());
        let single = if precision == Precision::Mixed {
            p.mapv(|v| v as f32)
        } else {
            Array2::zeros((0, 0))
        };
        Product {
            p: Arc::new(p),
            single: Arc::new(single),
            center: Arc::new(center),
            z,
            mixed_error: None,
        }
    }

    /// Writes all of it under names that start with `at`, with what is multiplied.
    pub(crate) fn store(&self, at: &str, parts: &mut Parts) {
        parts.matrix(at, "p", &self.p);
        parts.matrix(at, "z", &self.z);
        parts.center(at, "mean", &self.center);
        parts.fact(at, "rests", self.center.rests());
        parts.fact(at, "mixed_error", self.mixed_error);
    }

    /// How many vectors are multiplied.
    pub(crate) fn vectors(&self) -> usize {
        self.p.nrows()
    }

    /// Reads what [`Product::store`] has written: b vectors of d numbers.
    pub(crate) fn restore(
        at: &str,
        (b, d): (usize, usize),
        precision: Precision,
        parts: &mut Parts,
    ) -> Restored<Product> {
        let p = parts.take_matrix(at, "p", (b, d))?;
        let z = parts.take_matrix(at, "z", (b, d))?;
        let rests = if parts.take::<usize>(at, "rests")? > 0 { d } else { 0 };
        let near = parts.take_vector(at, "mean.near", d)?;
        let center = Center::new(near, parts.take_vector(at, "mean.rest", rests)?);
        let mixed_error = parts.take(at, "mixed_error")?;
        Ok(Product { z, mixed_error, ..Product::around(p, precision, center) })
    }

    /// Both products in f32, added in f64. The first is checked on some rows.
    fn add_f32(&mut self, y: &Array2<f64>) {
        let single = y.mapv(|v| v as f32);
        let t = single.dot(&self.single.t());
        self.mixed_error.get_or_insert_with(|| checked_error(y, &self.p, &t));
        let z = t.t().dot(&single);
        self.z.zip_mut_with(&z, |z, more| *z += f64::from(*more));
    }
}

/// max |T_ij − (YPᵀ)_ij| / (‖y_i‖ ‖p_j‖) over the first rows.
fn checked_error(y: &Array2<f64>, p: &Array2<f64>, t: &Array2<f32>) -> f64 {
    let some = y.slice(s![..y.nrows().min(CHECKED_ROWS), ..]);
    let exact = some.dot(&p.t());
    let norm = |row: ndarray::ArrayView1<'_, f64>| row.dot(&row).sqrt();
    let lengths: Vec<f64> = p.rows().into_iter().map(norm).collect();
    let mut worst = 0.0f64;
    for (i, row) in some.rows().into_iter().enumerate() {
        for (j, length) in lengths.iter().enumerate() {
            let scale = norm(row) * length;
            if scale > 0.0 {
                worst = worst.max((f64::from(t[[i, j]]) - exact[[i, j]]).abs() / scale);
            }
        }
    }
    worst
}

impl Accumulate for Product {
    /// P S, and the largest error of an f32 product that was checked.
    type Output = (Array2<f64>, Option<f64>);

    fn update(&mut self, mut block: Block) {
        if block.rows() == 0 {
            return;
        }
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        let mixed = matches!(block.values, Values::F32(_));
        let mut y = block.into_f64();
        self.center.subtract(&mut y);
        dense::put(&mut y, &missing, 0.0);
        if let Some(weights) = &weights {
            dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
        }
        if mixed {
            return self.add_f32(&y);
        }
        let t = y.dot(&self.p.t());
        general_mat_mul(1.0, &t.t(), &y, 1.0, &mut self.z);
    }

    fn merge(&mut self, later: Product) {
        self.z += &later.z;
        self.mixed_error = super::worst(self.mixed_error, later.mixed_error);
    }

    fn finish(self) -> Self::Output {
        (self.z, self.mixed_error)
    }

    fn bytes(shape: Shape) -> u64 {
        let Shape { features, rows, vectors } = shape;
        8u64.saturating_mul(
            vectors.saturating_mul(features + 2 * rows).saturating_add(features * rows),
        )
    }
}
