//! Mean and centred co-moment of many features: one S for all threads.
//!
//! Enters: blocks. Leaves: [`CoMoment`]. Holds S (8d²) once, and blocks until they have [`DEPTH`] rows.
//!
//! [`Covariance`](super::Covariance) keeps one S per worker, which is dear when d is large, and goes over
//! all of S for every block, which costs more than the product. Here blocks are gathered first, and their
//! product is shared out by tiles of S: a tile stays in the cache while all of them are added to it.
//! The sums are those of `covariance`, for a batch of blocks instead of one:
//!
//! ```text
//! a    rounded mean of the batch             y = x − a − r,  r = Σ w (x − a) / W_b
//! S  += Σ w y yᵀ + (√c δ)(√c δ)ᵀ             c = W_a W_b / (W_a + W_b), δ = a + r − μ: one more row
//! ```
//!
//! Around a mean that is known beforehand ([`TiledCovariance::around`]) the sum is plain, and a missing
//! cell, which takes the mean, adds nothing.

use super::covariance::f32_error;
use super::{Accumulate, Center, CoMoment, Moments, Shape};
use crate::blas;
use crate::source::{Block, MissingCell, Values, dense};
use ndarray::{Array1, Array2, Axis};

/// Features from which on S is shared. A function of the data alone, as its bytes must be.
pub const SHARED_FROM: usize = 1024;

/// Rows that are gathered before they are multiplied.
pub const DEPTH: usize = 1024;

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
    threads: usize,
    waiting: Vec<Waiting>,
}

/// A block whose product has not been added.
#[derive(Debug, Clone)]
struct Waiting {
    y: Array2<f64>,
    weights: Option<Array1<f64>>,
    missing: Vec<MissingCell>,
    mixed: bool,
}

impl Waiting {
    fn weight(&self) -> f64 {
        self.weights.as_ref().map_or(self.y.nrows() as f64, |w| w.sum())
    }

    /// Moves the origin; missing cells stay at it.
    fn shift(&mut self, origin: &Array1<f64>) {
        dense::shift(&mut self.y, Some(origin), None);
        self.missing.iter().for_each(|cell| self.y[[cell.row as usize, cell.feature as usize]] = 0.0);
    }
}

impl TiledCovariance {
    /// Of no rows yet; products use this many threads.
    pub fn new(d: usize, threads: usize) -> TiledCovariance {
        let (mean, s) = (Center::zeros(d), Array2::zeros((d, d)));
        TiledCovariance { rows: 0, weight: 0.0, mean, known: false, s, mixed_error: None, threads, waiting: Vec::new() }
    }

    /// Around a known mean, which missing cells take.
    pub fn around(mean: Array1<f64>, threads: usize) -> TiledCovariance {
        let d = mean.len();
        TiledCovariance { mean: Center::new(mean, Array1::zeros(d)), known: true, ..TiledCovariance::new(d, threads) }
    }

    /// Adds the product of what has been gathered.
    fn flush(&mut self) {
        let mut blocks = std::mem::take(&mut self.waiting);
        let weight: f64 = blocks.iter().map(Waiting::weight).sum();
        if weight == 0.0 {
            return;
        }
        let chan = if self.known { self.shift_to_known(&mut blocks) } else { self.centre(&mut blocks, weight) };
        blas::for_each(self.threads, blocks.iter_mut().collect(), |block| {
            if let Some(weights) = &block.weights {
                dense::scale_rows(&mut block.y, &weights.mapv(f64::sqrt));
            }
        });
        if blocks.iter().any(|b| b.mixed) {
            self.add_f32(&blocks);
            blas::syrk_tiles(&[chan.view()], &mut self.s, self.threads);
        } else {
            let views: Vec<_> = blocks.iter().map(|b| b.y.view()).chain([chan.view()]).collect();
            blas::syrk_tiles(&views, &mut self.s, self.threads);
        }
        self.weight += weight;
    }

    fn shift_to_known(&self, blocks: &mut [Waiting]) -> Array2<f64> {
        let origin = self.mean.rounded();
        blas::for_each(self.threads, blocks.iter_mut().collect(), |block| block.shift(&origin));
        Array2::zeros((0, origin.len()))
    }

    /// Centres the batch by its own mean, moves μ, and gives √c δ as one more row.
    fn centre(&mut self, blocks: &mut [Waiting], weight: f64) -> Array2<f64> {
        debug_assert!(blocks.iter().all(|b| b.missing.is_empty()), "missing cells need a known mean");
        let mean = self.centre_once(blocks, weight);
        let rest = self.centre_once(blocks, weight);
        self.shift(weight, Center::new(mean, rest))
    }

    fn centre_once(&self, blocks: &mut [Waiting], weight: f64) -> Array1<f64> {
        let sums = std::sync::Mutex::new(vec![None; blocks.len()]);
        blas::for_each(self.threads, blocks.iter().enumerate().collect(), |(i, block)| {
            let sum = dense::column_sums(&block.y, block.weights.as_ref());
            sums.lock().unwrap_or_else(|e| e.into_inner())[i] = Some(sum);
        });
        let sums = sums.into_inner().unwrap_or_else(|e| e.into_inner());
        let mean = sums.into_iter().flatten().fold(Array1::zeros(self.s.ncols()), |a, b| a + b) / weight;
        blas::for_each(self.threads, blocks.iter_mut().collect(), |block| block.shift(&mean));
        mean
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

    /// Products in f32, added in f64. The first of each accumulator is checked on some features.
    fn add_f32(&mut self, blocks: &[Waiting]) {
        let single: Vec<Array2<f32>> = blocks.iter().map(|b| b.y.mapv(|v| v as f32)).collect();
        self.mixed_error.get_or_insert_with(|| f32_error(blocks[0].y.view(), single[0].view()));
        let views: Vec<_> = single.iter().map(|y| y.view()).collect();
        blas::syrk_tiles(&views, &mut self.s, self.threads);
    }
}

impl Accumulate for TiledCovariance {
    type Output = CoMoment;

    fn update(&mut self, mut block: Block) {
        self.rows += block.rows() as u64;
        if block.rows() == 0 {
            return;
        }
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        let mixed = matches!(block.values, Values::F32(_));
        self.waiting.push(Waiting { y: block.into_f64(), weights, missing, mixed });
        if self.waiting.iter().map(|w| w.y.nrows()).sum::<usize>() >= DEPTH {
            self.flush();
        }
    }

    fn merge(&mut self, mut later: TiledCovariance) {
        self.flush();
        later.flush();
        self.rows += later.rows;
        self.mixed_error = self.mixed_error.into_iter().chain(later.mixed_error).reduce(f64::max);
        if later.weight == 0.0 {
            return;
        }
        super::add_upper(&mut self.s, &later.s);
        if !self.known {
            let chan = self.shift(later.weight, later.mean);
            blas::syrk_tiles(&[chan.view()], &mut self.s, self.threads);
        }
        self.weight += later.weight;
    }

    fn finish(mut self) -> CoMoment {
        self.flush();
        blas::mirror(&mut self.s);
        let (mean, squares) = (self.mean.rounded(), self.s.diag().to_owned());
        let moments = Moments { rows: self.rows, weight: self.weight, mean, squares, mixed_error: self.mixed_error };
        CoMoment { moments, s: self.s }
    }

    fn bytes(Shape { features: d, rows, .. }: Shape) -> u64 {
        let waiting = if rows == 0 { 0 } else { DEPTH as u64 + rows };
        8u64.saturating_mul(d.saturating_mul(d).saturating_add(d * (waiting + 4)))
    }
}
