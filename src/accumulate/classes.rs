//! The features' sums per class: all that supervised PCA with class labels needs, in one pass.
//!
//! Enters: blocks with class labels. Leaves: [`ClassMoments`], whose rows are those of Mᵀ = (XHΔ)ᵀ
//! for the delta kernel (Δ one-hot, seed eq. Ψ): W_c (μ_c − μ). Holds 8·c·d bytes for c classes
//! (twice that once a cell is missing: see `SumsKind::bytes`), never a label kernel.
//!
//! Sums are taken around an origin o, the mean of the first block, so that a mean of 1e8 costs no
//! digits:
//!
//! ```text
//! T_c = Σ_{i ∈ c} w (x − o)              over present cells; E_c their missing weight
//! merge: origin o_b → o                  T_c += (W_c − E_c)(o_b − o)
//! finish: missing cells take μ           T_c += E_c (μ − o)
//! M_c = T_c − W_c (μ − o)
//! ```

use super::stored::{Parts, Restored, Stored, left, reordered};
use super::{Accumulate, Center, FeatureMoments, Moments, Shape, column_part};
use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::source::labels::{Class, ClassValue};
use crate::source::{Block, Labels, MissingCell};
use ndarray::{Array1, Array2, ArrayView1};
use std::collections::HashMap;

/// What a class takes besides its sums: its value, its place in the index, its allocations.
const CLASS_BYTES: u64 = 384;

/// Sums per class of the rows so far.
#[derive(Debug, Clone)]
pub struct ClassSums {
    spread: FeatureMoments,
    origin: Option<Center>,
    index: HashMap<Class, usize>,
    sums: Vec<ClassSum>,
    limit: ClassLimit,
    /// Bytes of their names.
    name_bytes: u64,
    /// True once a block had no classes: its rows are not in the sums.
    unlabelled: bool,
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

impl ClassLimit {
    /// So many, of a label without a name: for sums whose bytes are asked.
    pub(crate) fn of(classes: usize) -> ClassLimit {
        ClassLimit { classes, label: String::new(), hint: String::new() }
    }
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

impl ClassMoments {
    /// Only these features.
    pub fn select_features(self, kept: &[usize]) -> ClassMoments {
        let (moments, m) = (self.moments.select_features(kept), column_part(&self.m, kept));
        ClassMoments { moments, m, ..self }
    }
}

impl ClassSums {
    /// Of no rows yet.
    pub fn new(d: usize, limit: ClassLimit) -> ClassSums {
        ClassSums {
            spread: FeatureMoments::new(d),
            origin: None,
            index: HashMap::new(),
            sums: Vec::new(),
            limit,
            name_bytes: 0,
            unlabelled: false,
        }
    }

    /// The sums of a class, new ones at first sight.
    fn class(&mut self, class: &Class, d: usize) -> &mut ClassSum {
        let next = self.sums.len();
        let at = match self.index.get(class) {
            Some(at) => *at,
            None => {
                self.name_bytes += name_bytes(class);
                self.index.insert(class.clone(), next);
                self.sums.push(ClassSum { weight: 0.0, sum: Array1::zeros(d), missing: None });
                next
            }
        };
        &mut self.sums[at]
    }
}

/// Σ w y of each class, d × c, and Σ w.
fn class_sums(
    y: &Array2<f64>,
    weights: Option<&Array1<f64>>,
    ids: &[u32],
    c: usize,
) -> (Array2<f64>, Vec<f64>) {
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
        let (column, sums) =
            (column.to_slice().expect("F order"), sums.as_slice_mut().expect("C order"));
        match weights {
            None => column.iter().zip(ids).for_each(|(y, id)| sums[*id as usize] += y),
            Some(w) => {
                column.iter().zip(ids).zip(w).for_each(|((y, id), w)| sums[*id as usize] += w * y)
            }
        }
    }
    (sums, totals)
}

/// Weight of the missing cells of each class, d × c.
fn class_holes(
    missing: &[MissingCell],
    weights: Option<&Array1<f64>>,
    ids: &[u32],
    (d, c): (usize, usize),
) -> Array2<f64> {
    let mut holes = Array2::zeros((d, c));
    for cell in missing {
        let row = cell.row as usize;
        holes[[cell.feature as usize, ids[row] as usize]] += weights.map_or(1.0, |w| w[row]);
    }
    holes
}

/// target += (weight − missing) · shift.
fn add_shift(
    target: &mut Array1<f64>,
    weight: f64,
    missing: Option<ArrayView1<'_, f64>>,
    shift: &Array1<f64>,
) {
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
        let Some(Labels::Classes { ids, classes }) = block.labels.take() else {
            self.unlabelled |= block.rows() > 0;
            return;
        };
        if block.rows() == 0 {
            return;
        }
        let mut y = block.into_f64();
        let (d, c) = (y.ncols(), classes.len());
        let spread = FeatureMoments::centring(&mut y, weights.as_ref(), &missing);
        let (sums, totals) = class_sums(&y, weights.as_ref(), &ids, c);
        let holes =
            (!missing.is_empty()).then(|| class_holes(&missing, weights.as_ref(), &ids, (d, c)));
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
        self.unlabelled |= later.unlabelled;
        let Some(theirs) = later.origin else { return self.spread.merge(later.spread) };
        let origin = self.origin.get_or_insert_with(|| theirs.clone());
        let shift = theirs.minus(origin);
        let mut by_place: Vec<(usize, Class)> =
            later.index.into_iter().map(|(class, at)| (at, class)).collect();
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
        if self.unlabelled {
            return Err(super::refuse_unlabelled("classes"));
        }
        let ClassLimit { classes, label, hint } = &self.limit;
        let (label, classes) = (label.clone(), *classes);
        let known = self.sums.len();
        if known > classes {
            return Err(Error::TooManyClasses { label, classes, hint: hint.clone() });
        }
        // A long name takes the room of classes.
        let each = class_bytes(self.spread.present().len() as u64);
        let room = (classes - known) as u64;
        if self.name_bytes / each <= room {
            return Ok(());
        }
        let hint = format!("their names alone take {}: {hint}", Bytes(self.name_bytes));
        Err(Error::TooManyClasses { label, classes: known.saturating_sub(1), hint })
    }

    fn finish(self) -> ClassMoments {
        let ClassSums { spread, origin, index, sums, .. } = self;
        let mean = spread.mean.clone();
        let moments = spread.finish();
        let back = origin.map_or_else(|| Array1::zeros(moments.mean.len()), |o| o.minus(&mean));
        // A class whose rows all weigh nothing is none.
        let mut classes: Vec<(Class, usize)> =
            index.into_iter().filter(|(_, at)| sums[*at].weight > 0.0).collect();
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
        ClassMoments {
            moments,
            weights,
            m,
            classes: classes.into_iter().map(|(class, _)| class).collect(),
        }
    }

    fn bytes(Shape { features, rows, vectors }: Shape) -> u64 {
        let each = class_bytes(features);
        FeatureMoments::bytes(Shape { features, rows, vectors })
            .saturating_add(each.saturating_mul(vectors))
    }
}

/// Bytes of a class for so many features.
fn class_bytes(features: u64) -> u64 {
    8u64.saturating_mul(features).saturating_add(CLASS_BYTES)
}

/// Bytes of the texts in the name of a class.
fn name_bytes(class: &Class) -> u64 {
    class.iter().map(ClassValue::text_bytes).sum()
}

impl ClassSums {
    /// The same sums with another limit.
    pub fn limited(self, limit: ClassLimit) -> ClassSums {
        ClassSums { limit, ..self }
    }

    /// The classes in the order in which they were first seen.
    fn classes(&self) -> Vec<&Class> {
        let mut by_place: Vec<(&usize, &Class)> =
            self.index.iter().map(|(class, at)| (at, class)).collect();
        by_place.sort_unstable();
        by_place.into_iter().map(|(_, class)| class).collect()
    }
}

impl Stored for ClassSums {
    fn store(&self, at: &str, parts: &mut Parts) {
        let d = self.spread.present().len();
        self.spread.store(&format!("{at}.features"), parts);
        parts.fact(at, "classes", self.classes());
        parts.fact(at, "weights", self.sums.iter().map(|s| s.weight).collect::<Vec<_>>());
        parts.fact(
            at,
            "missing",
            self.sums.iter().map(|s| s.missing.is_some()).collect::<Vec<_>>(),
        );
        parts.fact(at, "origin", self.origin.is_some());
        if let Some(origin) = &self.origin {
            parts.center(at, "origin", origin);
        }
        let rows = |some: &dyn Fn(&ClassSum) -> Option<Array1<f64>>| {
            let mut m = Array2::zeros((self.sums.len(), d));
            for (mut row, sum) in m.rows_mut().into_iter().zip(&self.sums) {
                some(sum).into_iter().for_each(|v| row.assign(&v));
            }
            m
        };
        parts.matrix(at, "sums", &rows(&|s| Some(s.sum.clone())));
        if self.sums.iter().any(|s| s.missing.is_some()) {
            parts.matrix(at, "holes", &rows(&|s| s.missing.clone()));
        }
    }

    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<ClassSums> {
        let classes: Vec<Class> = parts.take(at, "classes")?;
        let normalized =
            |class: Class| class.into_iter().map(ClassValue::normalized).collect::<Class>();
        let weights: Vec<f64> = parts.take(at, "weights")?;
        let missing: Vec<bool> = parts.take(at, "missing")?;
        let c = classes.len();
        if weights.len() != c
            || missing.len() != c
            || weights.iter().any(|w| !(*w >= 0.0 && w.is_finite()))
        {
            return Err("its classes and their weights do not go together".into());
        }
        let has_origin: bool = parts.take(at, "origin")?;
        let origin = has_origin.then(|| parts.take_center(at, "origin", d)).transpose()?;
        let sums = parts.take_matrix(at, "sums", (c, d))?;
        let holes =
            missing.contains(&true).then(|| parts.take_matrix(at, "holes", (c, d))).transpose()?;
        let spread = FeatureMoments::restore(&format!("{at}.features"), d, parts)?;
        let row = |m: &Option<Array2<f64>>, i: usize| m.as_ref().map(|m| m.row(i).to_owned());
        let sum = |i: usize| {
            let missing = if missing[i] { row(&holes, i) } else { None };
            ClassSum { weight: weights[i], sum: sums.row(i).to_owned(), missing }
        };
        let index: HashMap<Class, usize> =
            classes.into_iter().map(normalized).enumerate().map(|(i, class)| (class, i)).collect();
        if index.len() != c || (origin.is_none() && c > 0) {
            return Err("its classes are not distinct".into());
        }
        let limit = ClassLimit { classes: usize::MAX, label: String::new(), hint: String::new() };
        let sums = (0..c).map(sum).collect();
        let name_bytes = index.keys().map(name_bytes).sum();
        Ok(ClassSums { spread, origin, index, sums, limit, name_bytes, unlabelled: false })
    }

    fn subtract(&mut self, part: ClassSums) {
        let (Some(mine), Some(theirs)) = (self.origin.clone(), part.origin.clone()) else {
            return self.spread.subtract(part.spread);
        };
        let shift = theirs.minus(&mine);
        for (class, at) in &part.index {
            let less = &part.sums[*at];
            let Some(into) = self.index.get(class).map(|at| &mut self.sums[*at]) else { continue };
            into.weight = left(into.weight, less.weight);
            into.sum -= &less.sum;
            add_shift(
                &mut into.sum,
                -less.weight,
                less.missing.as_ref().map(|m| -m).as_ref().map(|m| m.view()),
                &shift,
            );
            if let Some(gone) = &less.missing {
                *into.missing.get_or_insert_with(|| Array1::zeros(shift.len())) -= gone;
            }
            if into.weight == 0.0 {
                into.sum.fill(0.0);
                into.missing = None;
            }
        }
        self.spread.subtract(part.spread);
        self.forget_empty();
    }

    fn spread(&self) -> Array1<f64> {
        Stored::spread(&self.spread)
    }

    fn reorder(&mut self, order: &[usize]) {
        self.spread.reorder(order);
        self.origin = self.origin.as_ref().map(|origin| origin.reordered(order));
        for class in &mut self.sums {
            class.sum = reordered(&class.sum, order);
            class.missing = class.missing.as_ref().map(|missing| reordered(missing, order));
        }
    }
}

impl ClassSums {
    /// Classes of which nothing is left were never there.
    fn forget_empty(&mut self) {
        let classes: Vec<Class> = self.classes().into_iter().cloned().collect();
        let sums = std::mem::take(&mut self.sums);
        let kept: Vec<(Class, ClassSum)> =
            classes.into_iter().zip(sums).filter(|(_, sum)| sum.weight > 0.0).collect();
        self.index = kept.iter().enumerate().map(|(i, (class, _))| (class.clone(), i)).collect();
        self.name_bytes = self.index.keys().map(name_bytes).sum();
        self.sums = kept.into_iter().map(|(_, sum)| sum).collect();
    }
}
