//! Laws that every accumulator passes, against the two-pass oracle.

use crate::oracle::two_pass;
use eigenstream::internals::{
    Accumulate, ClassLimit, ClassMoments, ClassSums, CoMoment, Covariance, CrossMoment,
    CrossMoments, FactoredCoMoment, FeatureMoments, FirstPass, Gram, GramSums, ImputedCovariance,
    LabelMap, LabelMoments, LabelSumsKind, Moments, Parts, Product, Scaling, SecondMoment, Sketch,
    Stored, Sums, SumsKind, SumsResult, TiledCovariance, TriangularCovariance,
};
use eigenstream::internals::{InMemory, Watch};
use eigenstream::{
    Block, ClassValue, Components, Labels, MissingCell, Nulls, Precision, Quiet, Stage, Values,
};
use ndarray::{Array1, Array2, ShapeBuilder, s};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// A pass that nobody looks at.
fn unwatched() -> Watch<'static> {
    Watch::new(&Quiet, Stage::new("reading", "rows", 0))
}

/// Rows with weights; NaN marks a missing cell.
#[derive(Debug, Clone)]
struct Rows {
    x: Array2<f64>,
    w: Array1<f64>,
}

impl Rows {
    fn weights(&self, weighted: bool) -> Array1<f64> {
        if weighted { self.w.clone() } else { Array1::ones(self.x.nrows()) }
    }

    /// A feature whose present cells all weigh nothing has no mean, in the oracle either.
    fn have_means(&self, w: &Array1<f64>) -> bool {
        let seen = |column: ndarray::ArrayView1<'_, f64>| {
            column.iter().zip(w).any(|(x, w)| !x.is_nan() && *w > 0.0)
        };
        self.x.columns().into_iter().all(seen)
    }

    /// A cell around a mean; a missing one is at it.
    fn centred(&self, at: [usize; 2], mean: &Array1<f64>) -> f64 {
        if self.x[at].is_nan() { 0.0 } else { self.x[at] - mean[at[1]] }
    }

    fn block(&self, range: Range<usize>, weighted: bool, f_order: bool) -> Block {
        let part = self.x.slice(s![range.clone(), ..]);
        let mut values = Array2::zeros(part.raw_dim().set_f(f_order));
        let mut missing = Vec::new();
        for ((i, j), v) in part.indexed_iter() {
            if v.is_nan() {
                missing.push(MissingCell { row: i as u32, feature: j as u32 });
            } else {
                values[[i, j]] = *v;
            }
        }
        let mut block = Block::dense(values);
        block.missing = missing;
        block.weights = weighted.then(|| self.w.slice(s![range]).to_owned());
        block
    }

    fn fold<A: Accumulate>(
        &self,
        fresh: impl Fn() -> A,
        cuts: &[usize],
        weighted: bool,
        f_order: bool,
    ) -> A::Output {
        let mut total = fresh();
        for pair in cuts.windows(2) {
            let mut part = fresh();
            part.update(self.block(pair[0]..pair[1], weighted, f_order));
            total.merge(part);
        }
        total.finish()
    }
}

/// Rounding of a sum of n products around a mean of the given size.
fn agrees(found: &CoMoment, rows: &Rows, weighted: bool) {
    let n = rows.x.nrows();
    let w = rows.weights(weighted);
    let expected = two_pass(&rows.x, &w);
    assert_eq!(found.moments.rows, n as u64);
    assert!(
        (found.moments.weight - expected.weight).abs() <= f64::EPSILON * n as f64 * expected.weight
    );
    if expected.weight == 0.0 {
        return;
    }
    for j in 0..rows.x.ncols() {
        let (a, b) = (found.moments.mean[j], expected.mean[j]);
        assert!(a.is_nan() == b.is_nan(), "mean {j}: {a} against {b}");
        assert!(
            b.is_nan() || (a - b).abs() <= 4.0 * f64::EPSILON * (1.0 + b.abs()),
            "mean {j}: {a} against {b}"
        );
    }
    for ((i, j), e) in expected.s.indexed_iter() {
        // The rows lie within 1 of their offset, so the weight bounds every entry of S.
        let f = found.s[[i, j]];
        assert!(
            (f - e).abs() <= 16.0 * f64::EPSILON * expected.weight,
            "S[{i},{j}]: {f} against {e}"
        );
    }
}

/// Up to 40 rows × 5 features around a mean of any size up to 1e8, with cuts that leave empty
/// blocks.
fn rows_and_cuts(missing: bool) -> impl Strategy<Value = (Rows, Vec<usize>)> {
    (1usize..40, 1usize..5, prop_oneof![Just(0.0), Just(1.0), Just(-1e4), Just(1e8)]).prop_flat_map(
        move |(n, d, offset)| {
            let cell = (-1.0f64..1.0, 0u8..10).prop_map(move |(v, hole)| {
                if missing && hole == 0 { f64::NAN } else { offset + v }
            });
            let cells = prop::collection::vec(cell, n * d);
            let weights = prop::collection::vec(prop_oneof![Just(0.0), 0.1f64..5.0], n);
            let cuts = prop::collection::vec(0..=n, 0..6);
            (cells, weights, cuts).prop_map(move |(cells, w, mut cuts)| {
                cuts.extend([0, n]);
                cuts.sort_unstable();
                (
                    Rows {
                        x: Array2::from_shape_vec((n, d), cells).unwrap(),
                        w: Array1::from_vec(w),
                    },
                    cuts,
                )
            })
        },
    )
}

/// What a sum became, by how far two roundings of it may be apart.
#[derive(Debug, Clone, Default, PartialEq)]
struct Numbers {
    /// Equal: rows, classes.
    counts: Vec<f64>,
    /// Near by their own size: weights, means.
    sizes: Vec<f64>,
    /// Near by the weight of the rows, which lie within 1 of their offset.
    centred: Vec<f64>,
    /// What rounding took from the means.
    rests: Vec<f64>,
}

impl Numbers {
    fn moments(mut self, found: &Moments) -> Numbers {
        self.counts.push(found.rows as f64);
        self.sizes.push(found.weight);
        self.sizes.extend(&found.mean);
        self.centred.extend(&found.squares);
        self.rests.extend(&found.rest);
        self
    }

    fn matrix(mut self, found: &Array2<f64>) -> Numbers {
        self.centred.extend(found);
        self
    }

    fn and(mut self, more: Numbers) -> Numbers {
        self.counts.extend(more.counts);
        self.sizes.extend(more.sizes);
        self.centred.extend(more.centred);
        self.rests.extend(more.rests);
        self
    }

    fn bits(&self) -> Vec<u64> {
        let all = [&self.counts, &self.sizes, &self.centred, &self.rests];
        all.into_iter().flatten().map(|v| v.to_bits()).collect()
    }

    /// The same to a rounding of this size: of a number of 1, and of a sum around a mean.
    fn near(&self, other: &Numbers, one: f64, around: f64) {
        assert_eq!(self.counts, other.counts);
        let near = |what: &str, a: &[f64], b: &[f64], bound: &dyn Fn(f64) -> f64| {
            assert_eq!(a.len(), b.len(), "{what}");
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                let fits = a.is_nan() == b.is_nan() && (b.is_nan() || (a - b).abs() <= bound(*b));
                assert!(fits, "{what} {i}: {a} against {b}");
            }
        };
        near("size", &self.sizes, &other.sizes, &|b| one * (1.0 + b.abs()));
        near("centred", &self.centred, &other.centred, &|_| around);
    }
}

/// What is compared of every output.
trait Told {
    fn told(&self) -> Numbers;
}

impl Told for Moments {
    fn told(&self) -> Numbers {
        Numbers::default().moments(self)
    }
}

impl Told for CoMoment {
    fn told(&self) -> Numbers {
        self.moments.told().matrix(&self.s)
    }
}

/// Of a factor its products: two factors of the same rows may differ by a rotation.
impl Told for FactoredCoMoment {
    fn told(&self) -> Numbers {
        self.moments.told().matrix(&self.r.t().dot(&self.r))
    }
}

impl Told for SecondMoment {
    fn told(&self) -> Numbers {
        match self {
            SecondMoment::Product(s) => s.told(),
            SecondMoment::Factor(r) => r.told(),
        }
    }
}

impl Told for ClassMoments {
    fn told(&self) -> Numbers {
        let mut numbers = self.moments.told().matrix(&self.m);
        numbers.counts.extend(self.classes.iter().map(|c| c[0].number().unwrap()));
        numbers.sizes.extend(&self.weights);
        numbers
    }
}

impl Told for CrossMoments {
    fn told(&self) -> Numbers {
        self.moments.told().moments(&self.labels).matrix(&self.m)
    }
}

impl Told for FirstPass {
    fn told(&self) -> Numbers {
        self.moments.told().matrix(&self.z)
    }
}

impl Told for GramSums {
    fn told(&self) -> Numbers {
        let mut numbers = self.moments.told().matrix(&self.g);
        numbers.counts.extend(self.incomplete.iter().map(|i| f64::from(u8::from(*i))));
        numbers
    }
}

/// Of a product around a known mean: P S and the error that was checked.
impl Told for (Array2<f64>, Option<f64>) {
    fn told(&self) -> Numbers {
        Numbers { counts: self.1.into_iter().collect(), ..Numbers::default() }.matrix(&self.0)
    }
}

impl Told for (CoMoment, Moments) {
    fn told(&self) -> Numbers {
        self.0.told().and(self.1.told())
    }
}

impl Told for SumsResult {
    fn told(&self) -> Numbers {
        let numbers = self.covariance.as_ref().map_or(Numbers::default(), |s| s.told());
        numbers.and(match &self.labels {
            None => Numbers::default(),
            Some(LabelMoments::Classes(classes)) => classes.told(),
            Some(LabelMoments::Numbers(cross)) => cross.told(),
        })
    }
}

/// Blocks of the pieces of some data, the cuts between them, and what a rounding of its sums is
/// measured by.
struct Pieces<'a> {
    block: &'a dyn Fn(Range<usize>) -> Block,
    cuts: &'a [usize],
    weight: f64,
    /// 1, or the size of the values where a feature that is missing in the first block costs
    /// digits.
    offset: f64,
}

impl Pieces<'_> {
    fn end(&self) -> usize {
        self.cuts[self.cuts.len() - 1]
    }

    /// Seen in one piece.
    fn whole<A: Accumulate>(&self, fresh: &impl Fn() -> A) -> A {
        let mut sums = fresh();
        sums.update((self.block)(0..self.end()));
        sums
    }

    /// A fresh one before or after changes nothing, and nothing is nothing.
    fn identity<A: Accumulate<Output: Told> + Clone>(&self, fresh: impl Fn() -> A) {
        let seen = self.whole(&fresh);
        let alone = seen.clone().finish().told();
        let (mut left, mut right) = (fresh(), seen.clone());
        left.merge(seen);
        right.merge(fresh());
        // NaN is the mean of what is always missing.
        let same = |a: &Numbers| format!("{a:?}") == format!("{alone:?}");
        let (left, right) = (left.finish().told(), right.finish().told());
        assert!(same(&left), "fresh before: {left:?} against {alone:?}");
        assert!(same(&right), "fresh after: {right:?} against {alone:?}");
        let mut nothing = fresh();
        nothing.merge(fresh());
        // The mean of nothing is 0 or NaN.
        let mut nothing = nothing.finish().told();
        nothing.sizes.retain(|v| !v.is_nan());
        let Numbers { counts, sizes, centred, .. } = &nothing;
        let zero = [counts, sizes, centred].into_iter().flatten().all(|v| *v == 0.0);
        assert!(zero, "two empties are empty: {nothing:?}");
    }

    /// Cut anywhere, added up piece by piece or merged from parts, the sums agree to rounding.
    fn split<A: Accumulate<Output: Told>>(&self, fresh: impl Fn() -> A) {
        let whole = self.whole(&fresh).finish().told();
        let (mut merged, mut gone_on) = (fresh(), fresh());
        for pair in self.cuts.windows(2) {
            let mut part = fresh();
            part.update((self.block)(pair[0]..pair[1]));
            merged.merge(part);
            gone_on.update((self.block)(pair[0]..pair[1]));
        }
        for found in [merged, gone_on] {
            let around = 64.0 * f64::EPSILON * self.weight * self.offset;
            found.finish().told().near(&whole, 64.0 * f64::EPSILON, around);
        }
    }

    /// Stored in the middle and read back, the sums go on to the same bytes; and what is added can
    /// be taken out again.
    fn stored<A: Stored<Output: Told> + Clone>(&self, d: usize, fresh: impl Fn() -> A) {
        let (middle, end) = (self.cuts[self.cuts.len() / 2], self.end());
        let mut first = fresh();
        first.update((self.block)(0..middle));
        let mut parts = Parts::default();
        first.store("a", &mut parts);
        let mut again = A::restore("a", d, &mut parts).unwrap();
        assert!(parts.numbers.is_empty() && parts.facts.is_empty(), "all of it is read back");
        let mut straight = first.clone();
        straight.update((self.block)(middle..end));
        again.update((self.block)(middle..end));
        let (expected, found) = (straight.clone().finish().told(), again.finish().told());
        assert_eq!(expected.bits(), found.bits());
        let there: Vec<usize> = (0..d).map(|j| (j + 1) % d.max(1)).collect();
        let back: Vec<usize> = (0..d).map(|j| (j + d - 1) % d.max(1)).collect();
        let mut turned = straight.clone();
        turned.reorder(&there);
        let near = |(v, j): (&f64, &usize)| {
            let before = straight.spread()[*j];
            v.to_bits() == before.to_bits() || (v - before).abs() <= 1e-13 * before
        };
        assert!(turned.spread().iter().zip(&there).all(near));
        turned.reorder(&back);
        // There and back again: to the last bit, but for what is factored anew.
        let around = 64.0 * f64::EPSILON * self.weight * self.offset;
        turned.finish().told().near(&expected, 64.0 * f64::EPSILON, around);
        let mut rest = fresh();
        rest.update((self.block)(middle..end));
        straight.subtract(rest);
        // Of a factor nothing is taken out, and nobody is told otherwise.
        if straight.check().is_err() {
            return;
        }
        let (left, first) = (straight.finish().told(), first.finish().told());
        assert_eq!(left.counts, first.counts);
        // What weighs nothing, or is always missing, has no mean to come back to.
        let weight = first.sizes[0];
        if weight > 0.0 && !first.sizes.iter().any(|v| v.is_nan()) {
            let lost = 1e-13 * self.weight * self.weight * self.offset / weight.min(1.0);
            left.near(&first, lost, lost);
        }
    }
}

/// The class of a row.
fn class(row: usize) -> usize {
    (row * 5 + row / 3) % 4
}

/// Class labels of these rows, in another order than that of their values.
fn classes(range: Range<usize>) -> Labels {
    let classes = (0..4).rev().map(|c| vec![ClassValue::Int(c)]).collect();
    Labels::Classes { ids: range.map(|i| 3 - class(i) as u32).collect(), classes }
}

/// Two numeric labels of a row.
fn label(row: usize, column: usize) -> f64 {
    1e4 + ((row * 7 + column * 3) % 5) as f64
}

fn numbers(range: Range<usize>) -> Labels {
    let (start, n) = (range.start, range.len());
    Labels::Numbers(Array2::from_shape_fn((n, 2), |(i, q)| label(start + i, q)))
}

fn class_limit() -> ClassLimit {
    ClassLimit { classes: 9, label: "c".into(), hint: String::new() }
}

fn linear() -> Arc<LabelMap> {
    Arc::new(LabelMap::Linear { columns: 2 })
}

/// Applies a law to every accumulator: those of whole rows, those that take missing cells, those of
/// labels, those that multiply vectors.
macro_rules! every {
    ($law:ident, $whole:expr, $holes:expr, $cuts:expr, $weighted:expr, $f_order:expr) => {{
        let (whole, holes): (&Rows, &Rows) = ($whole, $holes);
        let (cuts, hole_cuts): (&[usize], &[usize]) = $cuts;
        let (weighted, f_order): (bool, bool) = ($weighted, $f_order);
        let d = whole.x.ncols();
        let weight = |rows: &Rows| 8.0 * (1.0 + rows.weights(weighted).sum());
        let block = |range: Range<usize>| whole.block(range, weighted, f_order);
        let pieces = Pieces { block: &block, cuts, weight: weight(whole), offset: 1.0 };
        $law!(pieces, d, || Covariance::new(d));
        $law!(pieces, d, || TiledCovariance::new(d, 2));
        $law!(pieces, d, || sums(d, Nulls::Drop, true, None));
        $law!(pieces, d, || TriangularCovariance::new(d));
        $law!(pieces, d, || full_sums(d));
        let d = holes.x.ncols();
        let block = |range: Range<usize>| holes.block(range, weighted, f_order);
        let pieces = Pieces { block: &block, cuts: hole_cuts, weight: weight(holes), offset: 1.0 };
        $law!(pieces, d, || FeatureMoments::new(d));
        $law!(pieces, d, || ImputedCovariance::new(d));
        $law!(pieces, d, || sums(d, Nulls::Mean, true, None));
        let offset = holes.x.iter().filter(|v| !v.is_nan()).fold(1.0, |m: f64, v| m.max(v.abs()));
        let labelled = |range: Range<usize>| {
            let mut block = holes.block(range.clone(), weighted, f_order);
            block.labels = Some(classes(range));
            block
        };
        let pieces = Pieces { block: &labelled, cuts: hole_cuts, weight: weight(holes), offset };
        $law!(pieces, d, || ClassSums::new(d, class_limit()));
        $law!(pieces, d, || sums(
            d,
            Nulls::Mean,
            true,
            Some(LabelSumsKind::Classes(class_limit()))
        ));
        $law!(pieces, d, || sums(
            d,
            Nulls::Mean,
            false,
            Some(LabelSumsKind::Classes(class_limit()))
        ));
        let labelled = |range: Range<usize>| {
            let mut block = holes.block(range.clone(), weighted, f_order);
            block.labels = Some(numbers(range));
            block
        };
        let pieces = Pieces { block: &labelled, cuts: hole_cuts, weight: weight(holes), offset };
        $law!(pieces, d, || CrossMoment::new(d, linear()));
        $law!(pieces, d, || sums(d, Nulls::Mean, true, Some(LabelSumsKind::linear(2))));
        $law!(pieces, d, || sums(d, Nulls::Mean, false, Some(LabelSumsKind::linear(2))));
    }};
}

/// The same of those that are not stored.
macro_rules! every_unstored {
    ($law:ident, $whole:expr, $holes:expr, $cuts:expr, $weighted:expr, $f_order:expr) => {{
        let (whole, holes): (&Rows, &Rows) = ($whole, $holes);
        let (cuts, hole_cuts): (&[usize], &[usize]) = $cuts;
        let (weighted, f_order): (bool, bool) = ($weighted, $f_order);
        let d = whole.x.ncols();
        let weight = |rows: &Rows| 8.0 * (1.0 + rows.weights(weighted).sum());
        let block = |range: Range<usize>| whole.block(range, weighted, f_order);
        let pieces = Pieces { block: &block, cuts, weight: weight(whole), offset: 1.0 };
        let vectors =
            |d: usize| Array2::from_shape_fn((3, d), |(i, j)| ((2 * i + j) % 3) as f64 - 1.0);
        let p = Arc::new(vectors(d));
        $law!(pieces, d, || Sketch::new(p.clone()));
        $law!(pieces, d, || (Covariance::new(d), FeatureMoments::new(d)));
        let d = holes.x.ncols();
        let block = |range: Range<usize>| holes.block(range, weighted, f_order);
        let pieces = Pieces { block: &block, cuts: hole_cuts, weight: weight(holes), offset: 1.0 };
        let moments = pieces.whole(&|| FeatureMoments::new(d)).finish();
        $law!(pieces, d, || Product::new(vectors(d), Precision::Exact, &moments));
    }};
}

macro_rules! identity {
    ($pieces:ident, $d:ident, $fresh:expr) => {
        $pieces.identity($fresh)
    };
}

macro_rules! split {
    ($pieces:ident, $d:ident, $fresh:expr) => {
        $pieces.split($fresh)
    };
}

macro_rules! stored {
    ($pieces:ident, $d:ident, $fresh:expr) => {
        $pieces.stored($d, $fresh)
    };
}

/// Applies a law to the one that is cut by features: its blocks hold all rows.
macro_rules! gram {
    ($law:ident, $rows:expr, $cuts:expr, $weighted:expr, $f_order:expr) => {{
        let (rows, weighted, f_order): (&Rows, bool, bool) = ($rows, $weighted, $f_order);
        let (n, d) = rows.x.dim();
        let block = |range: Range<usize>| {
            let x = rows.x.slice(s![.., range]).to_owned();
            Rows { x, w: rows.w.clone() }.block(0..n, weighted, f_order)
        };
        let mut columns: Vec<usize> = $cuts.iter().map(|c: &usize| (*c).min(d)).collect();
        columns.push(d);
        let weight = 8.0 * (1.0 + rows.weights(weighted).sum());
        let pieces = Pieces { block: &block, cuts: &columns, weight, offset: 1.0 };
        let scaling = Scaling { center: true, standardize: false };
        $law!(pieces, d, || Gram::new(n, scaling, 2));
    }};
}

/// The sums of a fit or a state.
fn sums(features: usize, nulls: Nulls, covariance: bool, labels: Option<LabelSumsKind>) -> Sums {
    Sums::new(&SumsKind { labels, ..kind(features, nulls, covariance) })
}

/// The same with a factor.
fn full_sums(features: usize) -> Sums {
    Sums::new(&SumsKind { precision: Precision::Full, ..kind(features, Nulls::Drop, true) })
}

fn kind(features: usize, nulls: Nulls, covariance: bool) -> SumsKind {
    let (precision, labels) = (Precision::Exact, None);
    SumsKind { features, covariance, precision, nulls, labels, threads: 2, around: None }
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_fresh_accumulator_is_the_identity(
        (rows, cuts) in rows_and_cuts(false),
        (holes, more) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        every!(identity, &rows, &holes, (&cuts, &more), weighted, f_order);
        prop_assume!(holes.have_means(&holes.weights(weighted)));
        every_unstored!(identity, &rows, &holes, (&cuts, &more), weighted, f_order);
    }

    /// Fails until a Gram matrix that takes no features from another keeps its number of rows.
    #[test]
    fn a_fresh_gram_matrix_is_the_identity(
        (rows, cuts) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        prop_assume!(rows.have_means(&rows.weights(weighted)));
        gram!(identity, &rows, &cuts, weighted, f_order);
    }

    #[test]
    fn any_split_agrees_with_the_whole(
        (rows, cuts) in rows_and_cuts(false),
        (holes, more) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        prop_assume!(holes.have_means(&holes.weights(weighted)));
        every!(split, &rows, &holes, (&cuts, &more), weighted, f_order);
        every_unstored!(split, &rows, &holes, (&cuts, &more), weighted, f_order);
        gram!(split, &holes, &more, weighted, f_order);
    }

    #[test]
    fn sums_are_stored_to_the_last_bit_and_come_apart(
        (rows, cuts) in rows_and_cuts(false),
        (holes, more) in rows_and_cuts(true),
        weighted: bool,
    ) {
        every!(stored, &rows, &holes, (&cuts, &more), weighted, false);
    }

    #[test]
    fn covariance_agrees_for_any_split(
        (rows, cuts) in rows_and_cuts(false),
        weighted: bool,
        f_order: bool,
    ) {
        let d = rows.x.ncols();
        agrees(&rows.fold(|| Covariance::new(d), &cuts, weighted, f_order), &rows, weighted);
    }

    #[test]
    fn imputed_covariance_agrees_for_any_split(
        (rows, cuts) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        let d = rows.x.ncols();
        let found = rows.fold(|| ImputedCovariance::new(d), &cuts, weighted, f_order);
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        agrees(&found, &rows, weighted);
    }

    #[test]
    fn tiled_covariance_agrees_for_any_split(
        (rows, cuts) in rows_and_cuts(false),
        weighted: bool,
        f_order: bool,
        threads in 1usize..4,
    ) {
        let d = rows.x.ncols();
        let found = rows.fold(|| TiledCovariance::new(d, threads), &cuts, weighted, f_order);
        agrees(&found, &rows, weighted);
        // Without merging: rows gathered in one accumulator.
        let mut whole = TiledCovariance::new(d, threads);
        for pair in cuts.windows(2) {
            whole.update(rows.block(pair[0]..pair[1], weighted, f_order));
        }
        agrees(&whole.finish(), &rows, weighted);
    }

    #[test]
    fn a_triangular_factor_agrees_for_any_split(
        (rows, cuts) in rows_and_cuts(false),
        weighted: bool,
        f_order: bool,
    ) {
        let d = rows.x.ncols();
        let found = rows.fold(|| TriangularCovariance::new(d), &cuts, weighted, f_order);
        agrees(&SecondMoment::Factor(found).into_product(), &rows, weighted);
        let mut whole = TriangularCovariance::new(d);
        for pair in cuts.windows(2) {
            whole.update(rows.block(pair[0]..pair[1], weighted, f_order));
        }
        agrees(&SecondMoment::Factor(whole.finish()).into_product(), &rows, weighted);
    }

    #[test]
    fn around_the_mean_missing_cells_add_nothing(
        (rows, cuts) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        let d = rows.x.ncols();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let expected = two_pass(&rows.x, &w);
        let spread = rows.fold(|| FeatureMoments::new(d), &cuts, weighted, f_order);
        prop_assert_eq!(spread.rows, rows.x.nrows() as u64);
        for j in 0..d {
            let (mean, square) = (expected.mean[j], expected.s[[j, j]]);
            let off = (spread.mean[j] - mean).abs();
            prop_assert!(off <= 4.0 * f64::EPSILON * (1.0 + mean.abs()));
            let off = (spread.squares[j] - square).abs();
            prop_assert!(off <= 16.0 * f64::EPSILON * expected.weight);
        }
        let found = rows.fold(|| TiledCovariance::around(&spread, 2), &cuts, weighted, f_order);
        agrees(&found, &rows, weighted);
        let fresh = || TriangularCovariance::around(&spread);
        let found = SecondMoment::Factor(rows.fold(fresh, &cuts, weighted, f_order));
        agrees(&found.into_product(), &rows, weighted);
        // And times some vectors, without S.
        let p = Array2::from_shape_fn((2, d), |(i, j)| ((i + 2 * j) % 3) as f64 - 1.0);
        let fresh = || Product::new(p.clone(), Precision::Exact, &spread);
        let (z, _) = rows.fold(fresh, &cuts, weighted, f_order);
        close_product(&z, &p.dot(&expected.s), expected.weight);
    }

    #[test]
    fn a_sketch_is_the_co_moment_times_vectors(
        (rows, cuts) in rows_and_cuts(false),
        weighted: bool,
        f_order: bool,
    ) {
        let d = rows.x.ncols();
        let w = rows.weights(weighted);
        prop_assume!(w.sum() > 0.0);
        let expected = two_pass(&rows.x, &w);
        let p = Arc::new(Array2::from_shape_fn((3, d), |(i, j)| ((2 * i + j) % 3) as f64 - 1.0));
        let look = rows.fold(|| Sketch::new(p.clone()), &cuts, weighted, f_order);
        close_product(&look.z, &p.dot(&expected.s), expected.weight);
        prop_assert_eq!(look.moments.rows, rows.x.nrows() as u64);
    }

    #[test]
    fn a_gram_matrix_agrees_for_any_split_of_the_features(
        (rows, cuts) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        let (n, d) = rows.x.dim();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let mut columns: Vec<usize> = cuts.iter().map(|c| (*c).min(d)).collect();
        columns.push(d);
        columns.dedup();
        let scaling = Scaling { center: true, standardize: false };
        let mut total = Gram::new(n, scaling, 2);
        for pair in columns.windows(2) {
            let x = rows.x.slice(s![.., pair[0]..pair[1]]).to_owned();
            let part = Rows { x, w: rows.w.clone() };
            let mut gram = Gram::new(n, scaling, 2);
            gram.update(part.block(0..n, weighted, f_order));
            total.merge(gram);
        }
        let GramSums { moments, g, .. } = total.finish();
        let expected = two_pass(&rows.x, &w);
        prop_assert_eq!(moments.mean.len(), d);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let y = |r: usize, c: usize| rows.centred([r, c], &expected.mean) * w[r].sqrt();
            let dense: f64 = (0..d).map(|c| y(i, c) * y(j, c)).sum();
            // The oracle's mean is one double: 1e8 leaves it half a unit in the last place off.
            let offset = expected.mean.iter().fold(1.0f64, |m, v| m.max(v.abs()));
            let scale = offset * d as f64 * w.fold(1.0, |m, v| v.max(m));
            prop_assert!((g[[i, j]] - dense).abs() <= 64.0 * f64::EPSILON * scale);
        }
    }

    #[test]
    fn sums_per_class_agree_for_any_split(
        (rows, cuts) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        let (n, d) = rows.x.dim();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let mean = two_pass(&rows.x, &w).mean;
        let mut total = ClassSums::new(d, class_limit());
        for pair in cuts.windows(2) {
            let mut part = ClassSums::new(d, class_limit());
            let mut block = rows.block(pair[0]..pair[1], weighted, f_order);
            block.labels = Some(classes(pair[0]..pair[1]));
            part.update(block);
            total.merge(part);
        }
        let found = total.finish();
        prop_assert!(found.classes.is_sorted());
        for (c, value) in found.classes.iter().enumerate() {
            let id = value[0].number().unwrap() as usize;
            let members: Vec<usize> = (0..n).filter(|i| class(*i) == id).collect();
            for j in 0..d {
                let cell = |i: &usize| w[*i] * rows.centred([*i, j], &mean);
                let expected: f64 = members.iter().map(cell).sum();
                let scale = w.sum() * (1.0 + mean[j].abs());
                let m = found.m[[c, j]];
                let near = (m - expected).abs() <= 64.0 * f64::EPSILON * scale;
                prop_assert!(near, "{m} against {expected}");
            }
        }
    }

    #[test]
    fn a_cross_co_moment_agrees_for_any_split(
        (rows, cuts) in rows_and_cuts(true),
        weighted: bool,
        f_order: bool,
    ) {
        let (n, d) = rows.x.dim();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let y = Array2::from_shape_fn((n, 2), |(i, q)| label(i, q));
        let mean = two_pass(&rows.x, &w).mean;
        let label_mean = two_pass(&y, &w).mean;
        let mut total = CrossMoment::new(d, linear());
        for pair in cuts.windows(2) {
            let mut part = CrossMoment::new(d, linear());
            let mut block = rows.block(pair[0]..pair[1], weighted, f_order);
            block.labels = Some(numbers(pair[0]..pair[1]));
            part.update(block);
            total.merge(part);
        }
        let found = total.finish();
        for (q, j) in (0..2).flat_map(|q| (0..d).map(move |j| (q, j))) {
            let label = |i: usize| y[[i, q]] - label_mean[q];
            let cell = |i: usize| w[i] * rows.centred([i, j], &mean) * label(i);
            let expected: f64 = (0..n).map(cell).sum();
            let scale = 8.0 * w.sum() * (1.0 + mean[j].abs());
            let m = found.m[[q, j]];
            let near = (m - expected).abs() <= 64.0 * f64::EPSILON * scale;
            prop_assert!(near, "{m} against {expected}");
        }
    }

    #[test]
    fn without_holes_both_accumulators_agree((rows, cuts) in rows_and_cuts(false), weighted: bool) {
        let d = rows.x.ncols();
        agrees(&rows.fold(|| ImputedCovariance::new(d), &cuts, weighted, true), &rows, weighted);
    }
}

fn close_product(found: &Array2<f64>, expected: &Array2<f64>, weight: f64) {
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= 64.0 * f64::EPSILON * weight, "{f} against {e}");
    }
}

fn sample() -> Rows {
    let x =
        Array2::from_shape_fn((50, 4), |(i, j)| ((i * 31 + j * 17) % 23) as f64 + 0.25 * j as f64);
    Rows { x, w: Array1::ones(50) }
}

#[test]
fn one_row_has_a_mean_and_no_spread() {
    let rows = Rows { x: Array2::from_elem((1, 3), 1e8 + 0.5), w: Array1::ones(1) };
    let found = rows.fold(|| Covariance::new(3), &[0, 1], false, false);
    assert!(
        found.s.iter().all(|v| *v == 0.0) && found.moments.mean.iter().all(|m| *m == 1e8 + 0.5)
    );
}

#[test]
fn a_constant_column_has_exactly_no_spread_in_a_block() {
    let x = Array2::from_elem((1000, 2), 0.1);
    let mut sums = Covariance::new(2);
    sums.update(Block::dense(x));
    let s = sums.finish().s;
    assert!(s.iter().all(|v| v.abs() < 1e-30), "{s}");
}

#[test]
fn f32_products_are_near_and_say_how_near() {
    let rows = sample();
    let mut block = rows.block(0..50, false, false);
    block.values = Values::F32(rows.x.mapv(|v| v as f32));
    let mut sums = Covariance::new(4);
    sums.update(block);
    let found = sums.finish();
    let error = found.moments.mixed_error.unwrap();
    assert!(error < 1e-6, "{error}");
    let expected = two_pass(&rows.x, &rows.w).s;
    for ((i, j), e) in expected.indexed_iter() {
        let scale = (expected[[i, i]] * expected[[j, j]]).sqrt();
        assert!((found.s[[i, j]] - e).abs() <= (error + 1e-12) * scale);
    }
}

#[test]
fn a_fold_gives_the_same_bytes_for_any_number_of_threads() {
    let x =
        Array2::from_shape_fn((1000, 7), |(i, j)| ((i * 7919 + j * 104_729) % 1009) as f64 / 37.0);
    let source = InMemory::new(x, 64);
    let fold = |threads| {
        eigenstream::internals::fold(&source, threads, &unwatched(), || Covariance::new(7))
            .unwrap()
            .0
            .finish()
    };
    let one = fold(1);
    for threads in [2, 5, 16] {
        assert_eq!(fold(threads), one, "{threads} threads");
    }
}

/// OpenBLAS's thread count is the process's: one fit's decomposition must not change it under
/// another's products.
#[test]
fn several_fits_in_one_process_do_not_hang() {
    use eigenstream::internals::solve;
    let x =
        Array2::from_shape_fn((600, 150), |(i, j)| ((i * 7919 + j * 104_729) % 1009) as f64 / 37.0);
    let fit = || {
        let source = InMemory::new(x.clone(), 100);
        let (sums, _) =
            eigenstream::internals::fold(&source, 2, &unwatched(), || Covariance::new(150))
                .unwrap();
        let scaling = Scaling { center: true, standardize: false };
        solve(sums.finish(), scaling, Components::Count(3), 2).unwrap().1.eigenvalues
    };
    let alone = fit();
    std::thread::scope(|scope| {
        let fits: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..15).map(|_| fit()).collect::<Vec<_>>())).collect();
        for fits in fits {
            assert!(fits.join().unwrap().iter().all(|e| *e == alone), "the same digits every time");
        }
    });
}
