//! Mean and centred co-moment of many features: one S for all threads.
//!
//! Enters: blocks. Leaves: [`CoMoment`]. Holds S (8d²) once, and a panel of [`DEPTH`] rows.
//!
//! [`Covariance`](super::Covariance) keeps one S per worker, which is expensive when d is large,
//! and goes over all of S for every block, which costs more than the product. Here rows are
//! gathered first, and their product is shared out by tiles of S. The sums are those of
//! `covariance`, for a panel instead of a block:
//!
//! ```text
//! a    rounded mean of the panel             y = x − a − r,  r = Σ w (x − a) / W_b
//! S  += Σ w y yᵀ + (√c δ)(√c δ)ᵀ             c = W_a W_b / (W_a + W_b), δ = a + r − μ:
//!                                            one more row
//! ```
//!
//! Around a mean that is known beforehand ([`TiledCovariance::around`]) the sum is plain, and a
//! missing cell, which takes the mean, adds nothing.

use super::covariance::f32_error;
use super::stored::{Parts, Restored, Stored, left, reordered_upper, take_out};
use super::tiles::syrk_tiles;
use super::{Accumulate, Center, CoMoment, Moments, Shape};
use crate::blas;
use crate::error::Result;
use crate::source::{Block, MissingCell, Values, dense};
use crate::workers::for_each;
use ndarray::{Array1, Array2, Axis};

/// Features from which on S is shared. A function of the data alone, as its bytes must be.
pub(crate) const SHARED_FROM: usize = 1024;

/// Rows (or features of a Gram matrix) that are gathered before they are multiplied.
pub(crate) const DEPTH: usize = 1024;

/// n, W, μ and S of the rows so far.
#[derive(Debug, Clone)]
pub struct TiledCovariance {
    rows: u64,
    weight: f64,
    mean: Center,
    /// True when the mean was given.
    known: bool,
    s: Array2<f64>,
    mixed_error: Option<f64>,
    /// True once a cell was missing that has no mean to take.
    incomplete: bool,
    threads: usize,
    panel: Panel,
}

/// Rows whose product has not been added, in C order.
#[derive(Debug, Clone, Default)]
struct Panel {
    y: Vec<f64>,
    /// One per row, where there are weights.
    weights: Vec<f64>,
    missing: Vec<MissingCell>,
    rows: usize,
    mixed: bool,
}

impl TiledCovariance {
    /// Of no rows yet; products use this many threads.
    pub fn new(d: usize, threads: usize) -> TiledCovariance {
        let (mean, s) = (Center::zeros(d), Array2::zeros((d, d)));
        TiledCovariance {
            rows: 0,
            weight: 0.0,
            mean,
            known: false,
            s,
            mixed_error: None,
            incomplete: false,
            threads,
            panel: Panel::default(),
        }
    }

    /// Around a known mean, which missing cells take.
    pub fn around(moments: &Moments, threads: usize) -> TiledCovariance {
        let mean = Center::new(moments.mean.clone(), moments.rest.clone());
        TiledCovariance { mean, known: true, ..TiledCovariance::new(moments.mean.len(), threads) }
    }

    /// Adds the product of the panel.
    fn flush(&mut self) {
        let Panel { y, weights, missing, rows, mixed } = std::mem::take(&mut self.panel);
        let weight = if weights.is_empty() { rows as f64 } else { weights.iter().sum() };
        if weight == 0.0 {
            return;
        }
        let mut y =
            Array2::from_shape_vec((rows, self.s.ncols()), y).expect("rows of d cells each");
        let weights = (!weights.is_empty()).then(|| Array1::from_vec(weights));
        let chan = match self.known {
            true => {
                let (mean, rest) = self.mean.split();
                self.shift_all(&mut y, &mean);
                self.shift_all(&mut y, &rest);
                dense::put(&mut y, &missing, 0.0);
                Array2::zeros((0, self.s.ncols()))
            }
            false => {
                dense::put(&mut y, &missing, f64::NAN);
                self.centre(&mut y, weights.as_ref(), weight)
            }
        };
        if let Some(weights) = &weights {
            dense::scale_rows(&mut y, &weights.mapv(f64::sqrt));
        }
        if mixed {
            let single = y.mapv(|v| v as f32);
            self.mixed_error.get_or_insert_with(|| f32_error(y.view(), single.view()));
            syrk_tiles(&[single.view()], &mut self.s, self.threads);
            syrk_tiles(&[chan.view()], &mut self.s, self.threads);
        } else {
            syrk_tiles(&[y.view(), chan.view()], &mut self.s, self.threads);
        }
        self.weight += weight;
        self.panel.y = y.into_raw_vec_and_offset().0;
        self.panel.y.clear();
    }

    /// Centres the panel by its own mean, moves μ, and gives √c δ as one more row.
    fn centre(
        &mut self,
        y: &mut Array2<f64>,
        weights: Option<&Array1<f64>>,
        weight: f64,
    ) -> Array2<f64> {
        let mean = dense::column_sums(y, weights) / weight;
        self.shift_all(y, &mean);
        let rest = dense::column_sums(y, weights) / weight;
        self.shift_all(y, &rest);
        self.shift(weight, Center::new(mean, rest))
    }

    fn shift_all(&self, y: &mut Array2<f64>, origin: &Array1<f64>) {
        let origin = origin.as_slice().expect("an owned vector is contiguous");
        let lines = y.axis_chunks_iter_mut(Axis(0), 128).collect();
        for_each(self.threads, lines, |mut chunk: ndarray::ArrayViewMut2<'_, f64>| {
            for mut row in chunk.rows_mut() {
                row.as_slice_mut()
                    .expect("C order")
                    .iter_mut()
                    .zip(origin)
                    .for_each(|(y, o)| *y -= o);
            }
        });
    }

    /// μ ← that of all rows, when rows of this weight and mean follow; gives √c δ as a row.
    fn shift(&mut self, weight: f64, mean: Center) -> Array2<f64> {
        let total = self.weight + weight;
        if self.weight == 0.0 {
            self.mean = mean;
            return Array2::zeros((0, self.s.ncols()));
        }
        let delta = mean.minus(&self.mean);
        self.mean = self.mean.plus(&(&delta * (weight / total)));
        (delta * (self.weight * weight / total).sqrt()).insert_axis(Axis(0))
    }
}

impl Accumulate for TiledCovariance {
    type Output = CoMoment;

    fn update(&mut self, mut block: Block) {
        self.rows += block.rows() as u64;
        self.incomplete |= !self.known && !block.missing.is_empty();
        if block.rows() == 0 {
            return;
        }
        if self.panel.rows + block.rows() > DEPTH {
            self.flush();
        }
        let panel = &mut self.panel;
        let first = panel.rows as u32;
        panel.rows += block.rows();
        panel.mixed |= matches!(block.values, Values::F32(_));
        panel.weights.extend(block.weights.take().into_iter().flatten());
        panel.missing.extend(
            block.missing.drain(..).map(|cell| MissingCell { row: cell.row + first, ..cell }),
        );
        panel.y.reserve(DEPTH.max(panel.rows) * self.s.ncols() - panel.y.len());
        match block.values {
            Values::F64(x) => panel.y.extend(x.iter()),
            Values::F32(x) => panel.y.extend(x.iter().map(|v| f64::from(*v))),
        }
    }

    fn merge(&mut self, mut later: TiledCovariance) {
        self.flush();
        later.flush();
        self.rows += later.rows;
        self.incomplete |= later.incomplete;
        self.mixed_error = super::worst(self.mixed_error, later.mixed_error);
        if later.weight == 0.0 {
            return;
        }
        super::add_upper(&mut self.s, &later.s);
        if !self.known {
            let chan = self.shift(later.weight, later.mean);
            syrk_tiles(&[chan.view()], &mut self.s, self.threads);
        }
        self.weight += later.weight;
    }

    fn check(&self) -> Result<()> {
        if self.incomplete { Err(super::refuse_missing()) } else { Ok(()) }
    }

    fn finish(mut self) -> CoMoment {
        self.flush();
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
        let panel = if rows == 0 { 0 } else { DEPTH.max(rows as usize) as u64 };
        8u64.saturating_mul(d.saturating_mul(d).saturating_add(d * (panel + 4)))
    }
}

impl Stored for TiledCovariance {
    fn store(&self, at: &str, parts: &mut Parts) {
        let d = self.s.ncols();
        parts.fact(at, "rows", self.rows);
        parts.fact(at, "weight", self.weight);
        parts.fact(at, "mixed_error", self.mixed_error);
        parts.fact(at, "mixed", self.panel.mixed);
        parts.fact(at, "waiting", self.panel.rows);
        parts.fact(at, "weighted", !self.panel.weights.is_empty());
        parts.center(at, "mean", &self.mean);
        parts.upper(at, "s", &self.s);
        // Rows whose product has not been added: they are multiplied with those that follow.
        let waiting = Array2::from_shape_vec((self.panel.rows, d), self.panel.y.clone());
        parts.matrix(at, "panel", &waiting.unwrap_or_else(|_| Array2::zeros((0, d))));
        parts.vector(at, "panel_weights", &Array1::from_vec(self.panel.weights.clone()));
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<TiledCovariance> {
        let rows: usize = parts.take(at, "waiting")?;
        let weighted: bool = parts.take(at, "weighted")?;
        let y = parts.take_matrix(at, "panel", (rows, d))?.into_raw_vec_and_offset().0;
        let weights =
            parts.take_vector(at, "panel_weights", if weighted { rows } else { 0 })?.to_vec();
        let panel =
            Panel { y, weights, missing: Vec::new(), rows, mixed: parts.take(at, "mixed")? };
        Ok(TiledCovariance {
            rows: parts.take_rows(at)?,
            weight: parts.take_weight(at)?,
            mixed_error: parts.take(at, "mixed_error")?,
            mean: parts.take_center(at, "mean", d)?,
            s: parts.take_upper(at, "s", d)?,
            panel,
            ..TiledCovariance::new(0, std::thread::available_parallelism().map_or(1, usize::from))
        })
    }

    fn subtract(&mut self, mut part: TiledCovariance) {
        self.flush();
        part.flush();
        self.rows = self.rows.saturating_sub(part.rows);
        let rest = left(self.weight, part.weight);
        if part.weight == 0.0 {
            return;
        }
        if rest == 0.0 {
            *self = TiledCovariance {
                rows: self.rows,
                ..TiledCovariance::new(self.s.ncols(), self.threads)
            };
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
        let mut whole = self.clone();
        whole.flush();
        whole.s.diag().to_owned()
    }

    fn reorder(&mut self, order: &[usize]) {
        self.flush();
        self.mean = self.mean.reordered(order);
        self.s = reordered_upper(&self.s, order);
    }
}
