//! The Gram matrix of the rows, over groups of features.
//!
//! Enters: blocks of *all* rows and some features, in the order of the features. Leaves:
//! [`GramSums`], G = X̆ᵀX̆ of the seed's dual form (n × n), and the moments of every feature. Holds
//! G (8n²) once, and blocks until they have [`DEPTH`] features.
//!
//! All rows of a feature are at hand, so its mean, deviation and missing cells are settled on the
//! spot: with y the feature as the components see it (centred, scaled, missing cells at the mean)
//! and w the rows' weights, G += (√w·y)(√w·y)ᵀ. A feature without spread has no deviation to divide
//! by and is 0.

use super::covariance::f32_error;
use super::tiles::syrk_tiles;
use super::{Accumulate, DEPTH, FeatureMoments, Moments, Scaling, Shape};
use crate::blas;
use crate::source::{Block, MissingCell, Values, dense};
use crate::workers::for_each;
use ndarray::{Array1, Array2};

/// G and the moments of the features so far.
#[derive(Debug, Clone)]
pub struct Gram {
    scaling: Scaling,
    spread: FeatureMoments,
    g: Array2<f64>,
    /// Rows with a missing cell.
    incomplete: Vec<bool>,
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
    spread: FeatureMoments,
}

/// All a dual form needs.
#[derive(Debug, Clone)]
pub struct GramSums {
    /// n, W, μ, spread.
    pub moments: Moments,
    /// G, both triangles.
    pub g: Array2<f64>,
    /// Rows with a missing cell.
    pub incomplete: Vec<bool>,
}

impl Gram {
    /// Of no features yet; products use this many threads.
    pub fn new(rows: usize, scaling: Scaling, threads: usize) -> Gram {
        let (g, incomplete) = (Array2::zeros((rows, rows)), vec![false; rows]);
        Gram {
            scaling,
            spread: FeatureMoments::new(0),
            g,
            incomplete,
            mixed_error: None,
            threads,
            waiting: Vec::new(),
        }
    }

    fn flush(&mut self) {
        let mut blocks = std::mem::take(&mut self.waiting);
        let scaling = self.scaling;
        for_each(self.threads, blocks.iter_mut().collect(), |block| block.prepare(scaling));
        if blocks.iter().any(|b| b.mixed) {
            let single: Vec<Array2<f32>> = blocks.iter().map(|b| b.y.mapv(|v| v as f32)).collect();
            self.mixed_error.get_or_insert_with(|| f32_error(blocks[0].y.t(), single[0].t()));
            let views: Vec<_> = single.iter().map(|y| y.t()).collect();
            syrk_tiles(&views, &mut self.g, self.threads);
        } else {
            let views: Vec<_> = blocks.iter().map(|b| b.y.t()).collect();
            syrk_tiles(&views, &mut self.g, self.threads);
        }
        blocks.into_iter().for_each(|block| self.spread.append(block.spread));
    }
}

impl Waiting {
    /// x → √w·y, and the moments on the way.
    fn prepare(&mut self, scaling: Scaling) {
        self.spread = FeatureMoments::centring(&mut self.y, self.weights.as_ref(), &self.missing);
        let moments = self.spread.clone().finish();
        let back = (!scaling.center).then(|| -&moments.mean);
        dense::shift(&mut self.y, back.as_ref(), scaling.factors(&moments).as_ref());
        if let Some(weights) = &self.weights {
            dense::scale_rows(&mut self.y, &weights.mapv(f64::sqrt));
        }
    }
}

impl Accumulate for Gram {
    type Output = GramSums;

    fn update(&mut self, mut block: Block) {
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        missing.iter().for_each(|cell| self.incomplete[cell.row as usize] = true);
        let mixed = matches!(block.values, Values::F32(_));
        self.waiting.push(Waiting {
            y: block.into_f64(),
            weights,
            missing,
            mixed,
            spread: FeatureMoments::new(0),
        });
        if self.waiting.iter().map(|w| w.y.ncols()).sum::<usize>() >= DEPTH {
            self.flush();
        }
    }

    fn merge(&mut self, mut later: Gram) {
        self.flush();
        later.flush();
        super::add_upper(&mut self.g, &later.g);
        self.incomplete.iter_mut().zip(&later.incomplete).for_each(|(a, b)| *a |= b);
        self.mixed_error = super::worst(self.mixed_error, later.mixed_error);
        self.spread.append(later.spread);
    }

    fn finish(mut self) -> GramSums {
        self.flush();
        blas::mirror(&mut self.g);
        let moments = Moments { mixed_error: self.mixed_error, ..self.spread.finish() };
        GramSums { moments, g: self.g, incomplete: self.incomplete }
    }

    fn bytes(shape: Shape) -> u64 {
        let waiting = if shape.features == 0 { 0 } else { DEPTH as u64 + shape.features };
        8u64.saturating_mul(shape.rows.saturating_mul(shape.rows.saturating_add(waiting)))
    }
}
