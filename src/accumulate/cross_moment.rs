//! The cross co-moment of features and numeric labels, in one pass.
//!
//! Enters: blocks with numeric labels y. Leaves: [`CrossMoments`]: Mᵀ = (XHΔ)ᵀ = Σ w (ψ−ψ̄)(x−μ)ᵀ,
//! where ψ is y itself (linear kernel; cosine where y is read at unit length), its monomials (poly)
//! or its random Fourier features (rbf kernel, Rahimi & Recht 2008). Holds 8·r·d bytes for r label
//! features (twice that once a cell is missing) and ψ of some rows, never a label kernel.
//!
//! With P_rj = Σ w (ψ_r−ψ̄_r) over the rows where feature j is present and W_j their weight, moving
//! the centres by e (of x) and f (of ψ) gives
//!
//! ```text
//! M_rj −= e_j P_rj − e_j f_r W_j        P_rj −= f_r W_j
//! ```
//!
//! Without missing cells P is 0 around ψ̄ and the move is Chan's rule.

use super::stored::{Parts, Restored, Stored};
use super::{Accumulate, FeatureMoments, Moments, Shape, column_part};
use crate::error::Result;
use crate::kernel::{Fourier, Monomials};
use crate::source::{Block, Labels, MissingCell, dense};
use ndarray::{Array1, Array2};
use std::sync::Arc;

/// Numbers of ψ at a time. A block has more rows than that allows where labels have many features
/// and rows have few.
const AT_ONCE: usize = 1 << 20;

/// Rows whose ψ of r numbers is held at a time. A function of r alone, since it is felt in the last
/// digit.
fn rows_at_once(r: usize) -> usize {
    (AT_ONCE / r.max(1)).max(64)
}

/// What the labels are turned into.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelMap {
    /// Themselves: K_y = YᵀY.
    Linear {
        /// Label columns.
        columns: usize,
    },
    /// Random features whose products are the rbf kernel, about.
    Fourier(Fourier),
    /// Monomials, whose products are the polynomial kernel less a constant.
    Poly(Monomials),
}

impl LabelMap {
    /// Seeded random Fourier features of the rbf kernel.
    pub fn fourier(columns: usize, features: usize, gamma: f64, seed: u64) -> LabelMap {
        LabelMap::Fourier(Fourier::new(columns, features, gamma, seed))
    }

    /// r.
    pub fn len(&self) -> usize {
        match self {
            LabelMap::Linear { columns } => *columns,
            LabelMap::Fourier(fourier) => fourier.len(),
            LabelMap::Poly(monomials) => monomials.len(),
        }
    }

    /// True when labels become nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// rows × r.
    pub fn apply(&self, y: Array2<f64>) -> Array2<f64> {
        match self {
            LabelMap::Linear { .. } => y,
            LabelMap::Fourier(fourier) => fourier.apply(y.view()),
            LabelMap::Poly(monomials) => monomials.apply(y.view()),
        }
    }
}

/// Sums of the rows so far.
#[derive(Debug, Clone)]
pub struct CrossMoment {
    map: Arc<LabelMap>,
    spread: FeatureMoments,
    labels: FeatureMoments,
    m: Array2<f64>,
    /// P, once a cell is missing.
    p: Option<Array2<f64>>,
    /// True once a block had no numbers as labels: its rows are not in the sums.
    unlabelled: bool,
}

/// Features against labels.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossMoments {
    /// n, W, μ, spread of the features.
    pub moments: Moments,
    /// The same of ψ.
    pub labels: Moments,
    /// r × d.
    pub m: Array2<f64>,
}

impl CrossMoments {
    /// Only these features.
    pub fn select_features(self, kept: &[usize]) -> CrossMoments {
        let (moments, m) = (self.moments.select_features(kept), column_part(&self.m, kept));
        CrossMoments { moments, m, ..self }
    }
}

impl CrossMoment {
    /// True when labels are numbers as they are: only such sums are stored.
    pub(super) fn is_linear(&self) -> bool {
        matches!(*self.map, LabelMap::Linear { .. })
    }

    /// Of no rows yet.
    pub fn new(d: usize, map: Arc<LabelMap>) -> CrossMoment {
        let r = map.len();
        CrossMoment {
            spread: FeatureMoments::new(d),
            labels: FeatureMoments::new(r),
            m: Array2::zeros((r, d)),
            p: None,
            unlabelled: false,
            map,
        }
    }

    fn update_at_once(&mut self, mut block: Block) {
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        let Some(Labels::Numbers(y)) = block.labels.take() else {
            self.unlabelled |= block.rows() > 0;
            return;
        };
        if block.rows() == 0 {
            return;
        }
        let psi = self.map.apply(y);
        self.merge(CrossMoment::of(
            &mut block.into_f64(),
            psi,
            weights.as_ref(),
            &missing,
            &self.map,
        ));
    }

    /// Moves the centres, so that M and P are around others.
    fn recentre(&mut self, e: &Array1<f64>, f: &Array1<f64>) {
        let present = self.spread.present().clone();
        for (r, f) in f.iter().enumerate() {
            let mut row = self.m.row_mut(r);
            for j in 0..e.len() {
                let p = self.p.as_ref().map_or(0.0, |p| p[[r, j]]);
                row[j] += e[j] * (f * present[j] - p);
            }
            if let Some(p) = &mut self.p {
                p.row_mut(r).scaled_add(-f, &present);
            }
        }
    }

    fn of(
        y: &mut Array2<f64>,
        mut psi: Array2<f64>,
        weights: Option<&Array1<f64>>,
        missing: &[MissingCell],
        map: &Arc<LabelMap>,
    ) -> CrossMoment {
        let spread = FeatureMoments::centring(y, weights, missing);
        let labels = FeatureMoments::centring(&mut psi, weights, &[]);
        if let Some(weights) = weights {
            dense::scale_rows(&mut psi, weights);
        }
        let m = psi.t().dot(y).as_standard_layout().into_owned();
        // Σ w (ψ−ψ̄) over all rows is 0; over the present ones it is minus that over the missing.
        let p = (!missing.is_empty()).then(|| {
            let mut p = Array2::zeros(m.raw_dim());
            for cell in missing {
                let mut column = p.column_mut(cell.feature as usize);
                column -= &psi.row(cell.row as usize);
            }
            p
        });
        CrossMoment { map: map.clone(), spread, labels, m, p, unlabelled: false }
    }
}

impl Accumulate for CrossMoment {
    type Output = CrossMoments;

    fn update(&mut self, block: Block) {
        let (rows, step) = (block.rows(), rows_at_once(self.map.len()));
        if rows <= step {
            return self.update_at_once(block);
        }
        for first in (0..rows).step_by(step) {
            let some: Vec<usize> = (first..(first + step).min(rows)).collect();
            self.update_at_once(block.select_rows(&some));
        }
    }

    fn merge(&mut self, mut later: CrossMoment) {
        self.unlabelled |= later.unlabelled;
        let (mut spread, mut labels) = (self.spread.clone(), self.labels.clone());
        spread.merge(later.spread.clone());
        labels.merge(later.labels.clone());
        if self.p.is_some() || later.p.is_some() {
            let zeros = || Array2::zeros(self.m.raw_dim());
            self.p.get_or_insert_with(zeros);
            later.p.get_or_insert_with(|| Array2::zeros(later.m.raw_dim()));
        }
        for side in [&mut *self, &mut later] {
            let (e, f) =
                (spread.mean.minus(&side.spread.mean), labels.mean.minus(&side.labels.mean));
            side.recentre(&e, &f);
        }
        self.m += &later.m;
        if let (Some(p), Some(more)) = (&mut self.p, &later.p) {
            *p += more;
        }
        (self.spread, self.labels) = (spread, labels);
    }

    fn check(&self) -> Result<()> {
        if self.unlabelled { Err(super::refuse_unlabelled("numbers")) } else { Ok(()) }
    }

    fn finish(self) -> CrossMoments {
        CrossMoments { moments: self.spread.finish(), labels: self.labels.finish(), m: self.m }
    }

    fn bytes(Shape { features, rows, vectors }: Shape) -> u64 {
        let m = 8u64.saturating_mul(vectors).saturating_mul(features);
        let moments = FeatureMoments::bytes(Shape { features, rows, vectors });
        // A block's own M, in either order; its ψ, as made and as centred; its rows, in parts.
        let at_once = rows.min(rows_at_once(vectors as usize) as u64);
        let busy = match rows {
            0 => 0,
            _ => 2 * m + 8 * at_once * (2 * vectors + features),
        };
        moments.saturating_add(64 * vectors).saturating_add(m).saturating_add(busy)
    }
}

/// Of numbers as they are; their features are not stored.
impl Stored for CrossMoment {
    fn store(&self, at: &str, parts: &mut Parts) {
        parts.fact(at, "columns", self.map.len());
        self.spread.store(&format!("{at}.features"), parts);
        self.labels.store(&format!("{at}.labels"), parts);
        parts.matrix(at, "m", &self.m);
        parts.fact(at, "holes", self.p.is_some());
        if let Some(p) = &self.p {
            parts.matrix(at, "p", p);
        }
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<CrossMoment> {
        let columns: usize = parts.take(at, "columns")?;
        let holes: bool = parts.take(at, "holes")?;
        Ok(CrossMoment {
            map: Arc::new(LabelMap::Linear { columns }),
            spread: FeatureMoments::restore(&format!("{at}.features"), d, parts)?,
            labels: FeatureMoments::restore(&format!("{at}.labels"), columns, parts)?,
            m: parts.take_matrix(at, "m", (columns, d))?,
            p: holes.then(|| parts.take_matrix(at, "p", (columns, d))).transpose()?,
            unlabelled: false,
        })
    }

    fn subtract(&mut self, mut part: CrossMoment) {
        let (mut spread, mut labels) = (self.spread.clone(), self.labels.clone());
        spread.subtract(part.spread.clone());
        labels.subtract(part.labels.clone());
        let zeros = Array2::zeros(self.m.raw_dim());
        if self.p.is_some() || part.p.is_some() {
            self.p.get_or_insert_with(|| zeros.clone());
            part.p.get_or_insert_with(|| zeros.clone());
        }
        for side in [&mut *self, &mut part] {
            let (e, f) =
                (spread.mean.minus(&side.spread.mean), labels.mean.minus(&side.labels.mean));
            side.recentre(&e, &f);
        }
        self.m -= &part.m;
        if let (Some(p), Some(less)) = (&mut self.p, &part.p) {
            *p -= less;
        }
        (self.spread, self.labels) = (spread, labels);
    }

    fn spread(&self) -> Array1<f64> {
        Stored::spread(&self.spread)
    }

    fn reorder(&mut self, order: &[usize]) {
        self.spread.reorder(order);
        self.m = column_part(&self.m, order);
        self.p = self.p.as_ref().map(|p| column_part(p, order));
    }
}
