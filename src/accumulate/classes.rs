//! The features' sums per class: all that supervised PCA with class labels needs, in one pass.
//!
//! Enters: blocks with class labels. Leaves: [`ClassMoments`], whose rows are those of Mᵀ = (XHΔ)ᵀ for the
//! delta kernel (Δ one-hot, seed eq. Ψ): W_c (μ_c − μ). Holds 8·c·d bytes for c classes (twice that once a
//! cell is missing), never a label kernel.
//!
//! Sums are taken around an origin o, the mean of the first block, so that a mean of 1e8 costs no digits:
//!
//! ```text
//! T_c = Σ_{i ∈ c} w (x − o)              over present cells; E_c their missing weight
//! merge: origin o_b → o                  T_c += (W_c − E_c)(o_b − o)
//! finish: missing cells take μ           T_c += E_c (μ − o)
//! M_c = T_c − W_c (μ − o)
//! ```

use super::{Accumulate, Center, Moments, Shape, Spread};
use crate::error::{Error, Result};
use crate::source::labels::Class;
use crate::source::{Block, Labels, MissingCell};
use ndarray::{Array1, Array2, ArrayView1};
use std::collections::HashMap;

/// What a class takes besides its sums: its value, its place in the index, its allocations.
const CLASS_BYTES: u64 = 384;

/// Sums per class of the rows so far.
#[derive(Debug, Clone)]
pub struct ClassSums {
    spread: Spread,
    origin: Option<Center>,
    index: HashMap<Class, usize>,
    sums: Vec<ClassSum>,
    limit: ClassLimit,
}

/// How many classes there may be, and what to say if there are more.
#[derive(Debug, Clone)]
pub struct ClassLimit {
    /// At most so many.
    pub classes: usize,
    /// The label columns.
    pub label: String,
    /// What would help.
    pub hint: String,
}

/// What is known of one class.
#[derive(Debug, Clone)]
struct ClassSum {
    weight: f64,
    sum: Array1<f64>,
    /// Weight of its missing cells, per feature, once there are any.
    missing: Option<Array1<f64>>,
}

/// Classes, and how their means differ from the mean of all.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassMoments {
    /// n, W, μ, spread of all rows.
    pub moments: Moments,
    /// In the order of their values.
    pub classes: Vec<Class>,
    /// W_c.
    pub weights: Array1<f64>,
    /// c × d: W_c (μ_c − μ).
    pub m: Array2<f64>,
}

impl ClassSums {
    /// Of no rows yet.
    pub fn new(d: usize, limit: ClassLimit) -> ClassSums {
        ClassSums { spread: Spread::new(d), origin: None, index: HashMap::new(), sums: Vec::new(), limit }
    }

    /// The sums of a class, new ones at first sight.
    fn class(&mut self, class: &Class, d: usize) -> &mut ClassSum {
        let next = self.sums.len();
        let at = match self.index.get(class) {
            Some(at) => *at,
            None => {
                self.index.insert(class.clone(), next);
                self.sums.push(ClassSum { weight: 0.0, sum: Array1::zeros(d), missing: None });
                next
            }
        };
        &mut self.sums[at]
    }
}

/// Σ w y of each class, d × c, and Σ w.
fn class_sums(y: &Array2<f64>, weights: Option<&Array1<f64>>, ids: &[u32], c: usize) -> (Array2<f64>, Vec<f64>) {
    let weight = |row: usize| weights.map_or(1.0, |w| w[row]);
    let mut totals = vec![0.0; c];
    ids.iter().enumerate().for_each(|(row, id)| totals[*id as usize] += weight(row));
    let mut sums = Array2::zeros((y.ncols(), c));
    if y.is_standard_layout() {
        let mut by_class = Array2::zeros((c, y.ncols()));
        for (i, (row, id)) in y.rows().into_iter().zip(ids).enumerate() {
            by_class.row_mut(*id as usize).scaled_add(weight(i), &row);
        }
        sums.assign(&by_class.t());
        return (sums, totals);
    }
    for (column, mut sums) in y.columns().into_iter().zip(sums.rows_mut()) {
        let (column, sums) = (column.to_slice().unwrap_or_default(), sums.as_slice_mut().unwrap_or_default());
        match weights {
            None => column.iter().zip(ids).for_each(|(y, id)| sums[*id as usize] += y),
            Some(w) => column.iter().zip(ids).zip(w).for_each(|((y, id), w)| sums[*id as usize] += w * y),
        }
    }
    (sums, totals)
}

/// Weight of the missing cells of each class, d × c.
fn class_holes(missing: &[MissingCell], weights: Option<&Array1<f64>>, ids: &[u32], (d, c): (usize, usize)) -> Array2<f64> {
    let mut holes = Array2::zeros((d, c));
    for cell in missing {
        let row = cell.row as usize;
        holes[[cell.feature as usize, ids[row] as usize]] += weights.map_or(1.0, |w| w[row]);
    }
    holes
}

/// target += (weight − missing) · shift.
fn add_shift(target: &mut Array1<f64>, weight: f64, missing: Option<ArrayView1<'_, f64>>, shift: &Array1<f64>) {
    match missing {
        None => target.scaled_add(weight, shift),
        Some(missing) => {
            for ((t, e), s) in target.iter_mut().zip(missing).zip(shift) {
                *t += (weight - e) * s;
            }
        }
    }
}

impl Accumulate for ClassSums {
    type Output = ClassMoments;

    fn update(&mut self, mut block: Block) {
        let (weights, missing) = (block.weights.take(), std::mem::take(&mut block.missing));
        let Some(Labels::Classes { ids, classes }) = block.labels.take() else { return };
        if block.rows() == 0 {
            return;
        }
        let mut y = block.into_f64();
        let (d, c) = (y.ncols(), classes.len());
        let spread = Spread::centring(&mut y, weights.as_ref(), &missing);
        let (sums, totals) = class_sums(&y, weights.as_ref(), &ids, c);
        let holes = (!missing.is_empty()).then(|| class_holes(&missing, weights.as_ref(), &ids, (d, c)));
        let origin = self.origin.get_or_insert_with(|| spread.mean.clone());
        let shift = spread.mean.minus(origin);
        let mut seen = vec![false; c];
        ids.iter().for_each(|id| seen[*id as usize] = true);
        for (id, class) in classes.iter().enumerate().filter(|(id, _)| seen[*id]) {
            let into = self.class(class, d);
            into.weight += totals[id];
            into.sum += &sums.column(id);
            let gone = holes.as_ref().map(|h| h.column(id));
            add_shift(&mut into.sum, totals[id], gone, &shift);
            if let Some(gone) = gone {
                *into.missing.get_or_insert_with(|| Array1::zeros(d)) += &gone;
            }
        }
        self.spread.merge(spread);
    }

    fn merge(&mut self, later: ClassSums) {
        let Some(theirs) = later.origin else { return self.spread.merge(later.spread) };
        let origin = self.origin.get_or_insert_with(|| theirs.clone());
        let shift = theirs.minus(origin);
        let mut by_place: Vec<(usize, Class)> = later.index.into_iter().map(|(class, at)| (at, class)).collect();
        by_place.sort_unstable_by_key(|(at, _)| *at);
        for ((_, class), more) in by_place.into_iter().zip(later.sums) {
            let into = self.class(&class, shift.len());
            into.weight += more.weight;
            into.sum += &more.sum;
            add_shift(&mut into.sum, more.weight, more.missing.as_ref().map(|m| m.view()), &shift);
            if let Some(missing) = more.missing {
                *into.missing.get_or_insert_with(|| Array1::zeros(shift.len())) += &missing;
            }
        }
        self.spread.merge(later.spread);
    }

    fn check(&self) -> Result<()> {
        let ClassLimit { classes, label, hint } = &self.limit;
        if self.sums.len() <= *classes {
            return Ok(());
        }
        Err(Error::TooManyClasses { label: label.clone(), classes: *classes, hint: hint.clone() })
    }

    fn finish(self) -> ClassMoments {
        let ClassSums { spread, origin, index, sums, .. } = self;
        let mean = spread.mean.clone();
        let moments = spread.finish();
        let back = origin.map_or_else(|| Array1::zeros(moments.mean.len()), |o| o.minus(&mean));
        // A class whose rows all weigh nothing is none.
        let mut classes: Vec<(Class, usize)> = index.into_iter().filter(|(_, at)| sums[*at].weight > 0.0).collect();
        classes.sort_unstable();
        let mut m = Array2::zeros((classes.len(), back.len()));
        for (mut row, (_, at)) in m.rows_mut().into_iter().zip(&classes) {
            let ClassSum { weight, sum, missing } = &sums[*at];
            // Missing cells are at μ, so only the present ones are moved.
            let mut moved = sum.clone();
            add_shift(&mut moved, *weight, missing.as_ref().map(|e| e.view()), &back);
            row.assign(&moved);
        }
        let weights = classes.iter().map(|(_, at)| sums[*at].weight).collect();
        ClassMoments { moments, weights, m, classes: classes.into_iter().map(|(class, _)| class).collect() }
    }

    fn bytes(Shape { features, rows, vectors }: Shape) -> u64 {
        let each = 16u64.saturating_mul(features).saturating_add(CLASS_BYTES);
        Spread::bytes(Shape { features, rows, vectors }).saturating_add(each.saturating_mul(vectors))
    }
}
