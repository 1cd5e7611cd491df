//! Laws that every accumulator passes, against the two-pass oracle.

use crate::oracle::two_pass;
use eigenstream::accumulate::{
    Accumulate, ClassLimit, ClassSums, CoMoment, Covariance, CrossMoment, FeatureMoments, Gram,
    GramSums, ImputedCovariance, LabelMap, Parts, Product, Scaling, Sketch, Stored,
    TiledCovariance,
};
use eigenstream::pass::{self, Unwatched};
use eigenstream::source::block::Precision;
use eigenstream::source::labels::ClassValue;
use eigenstream::source::{Block, InMemory, Labels, MissingCell, Values};
use ndarray::{Array1, Array2, ShapeBuilder, s};
use proptest::prelude::*;
use std::sync::Arc;

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

    fn block(&self, range: std::ops::Range<usize>, weighted: bool, f_order: bool) -> Block {
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

/// Up to 40 rows × 5 features around a mean of any size up to 1e8, with cuts that leave empty blocks.
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

/// Stored in the middle and read back, the sums go on to the same bytes; and what is added can be taken out again.
fn stored_law<A: Stored<Output = CoMoment> + Clone>(
    rows: &Rows,
    cuts: &[usize],
    weighted: bool,
    fresh: impl Fn() -> A,
) {
    let (n, d) = rows.x.dim();
    let middle = cuts[cuts.len() / 2];
    let mut straight = fresh();
    straight.update(rows.block(0..middle, weighted, false));
    let mut parts = Parts::default();
    straight.store("a", &mut parts);
    let mut again = A::restore("a", d, &mut parts).unwrap();
    assert!(parts.numbers.is_empty() && parts.facts.is_empty(), "all of it is read back");
    let first = straight.clone();
    straight.update(rows.block(middle..n, weighted, false));
    again.update(rows.block(middle..n, weighted, false));
    let (expected, found) = (straight.clone().finish(), again.finish());
    assert_eq!(bits(&expected.s), bits(&found.s));
    assert_eq!(
        bits(&expected.moments.mean.insert_axis(ndarray::Axis(0))),
        bits(&found.moments.mean.insert_axis(ndarray::Axis(0)))
    );
    let mut rest = fresh();
    rest.update(rows.block(middle..n, weighted, false));
    straight.subtract(rest);
    let (left, first) = (straight.finish(), first.finish());
    assert_eq!(left.moments.rows, first.moments.rows);
    if first.moments.weight > 0.0 {
        let scale = expected.moments.weight.max(1.0) * expected.moments.weight.max(1.0)
            / first.moments.weight.min(1.0);
        left.s
            .iter()
            .zip(&first.s)
            .for_each(|(a, b)| assert!((a - b).abs() <= 1e-13 * scale, "{a} against {b}"));
        let near = |a: &f64, b: &f64| {
            a.is_nan() || b.is_nan() || (a - b).abs() <= 1e-13 * scale * (1.0 + b.abs())
        };
        left.moments
            .mean
            .iter()
            .zip(&first.moments.mean)
            .for_each(|(a, b)| assert!(near(a, b), "{a} against {b}"));
    }
}

fn bits(m: &Array2<f64>) -> Vec<u64> {
    m.iter().map(|v| v.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn sums_are_stored_to_the_last_bit_and_come_apart((rows, cuts) in rows_and_cuts(false), (holes, more) in rows_and_cuts(true), weighted: bool) {
        let d = rows.x.ncols();
        stored_law(&rows, &cuts, weighted, || Covariance::new(d));
        stored_law(&rows, &cuts, weighted, || TiledCovariance::new(d, 2));
        let d = holes.x.ncols();
        stored_law(&holes, &more, weighted, || ImputedCovariance::new(d));
    }

    #[test]
    fn covariance_agrees_for_any_split((rows, cuts) in rows_and_cuts(false), weighted: bool, f_order: bool) {
        let d = rows.x.ncols();
        agrees(&rows.fold(|| Covariance::new(d), &cuts, weighted, f_order), &rows, weighted);
    }

    #[test]
    fn imputed_covariance_agrees_for_any_split((rows, cuts) in rows_and_cuts(true), weighted: bool, f_order: bool) {
        let d = rows.x.ncols();
        let found = rows.fold(|| ImputedCovariance::new(d), &cuts, weighted, f_order);
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        agrees(&found, &rows, weighted);
    }

    #[test]
    fn tiled_covariance_agrees_for_any_split((rows, cuts) in rows_and_cuts(false), weighted: bool, f_order: bool, threads in 1usize..4) {
        let d = rows.x.ncols();
        agrees(&rows.fold(|| TiledCovariance::new(d, threads), &cuts, weighted, f_order), &rows, weighted);
        // Without merging: rows gathered in one accumulator.
        let mut whole = TiledCovariance::new(d, threads);
        cuts.windows(2).for_each(|pair| whole.update(rows.block(pair[0]..pair[1], weighted, f_order)));
        agrees(&whole.finish(), &rows, weighted);
    }

    #[test]
    fn around_the_mean_missing_cells_add_nothing((rows, cuts) in rows_and_cuts(true), weighted: bool, f_order: bool) {
        let d = rows.x.ncols();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let expected = two_pass(&rows.x, &w);
        let spread = rows.fold(|| FeatureMoments::new(d), &cuts, weighted, f_order);
        prop_assert_eq!(spread.rows, rows.x.nrows() as u64);
        for j in 0..d {
            prop_assert!((spread.mean[j] - expected.mean[j]).abs() <= 4.0 * f64::EPSILON * (1.0 + expected.mean[j].abs()));
            prop_assert!((spread.squares[j] - expected.s[[j, j]]).abs() <= 16.0 * f64::EPSILON * expected.weight);
        }
        agrees(&rows.fold(|| TiledCovariance::around(&spread, 2), &cuts, weighted, f_order), &rows, weighted);
        // And times some vectors, without S.
        let p = Array2::from_shape_fn((2, d), |(i, j)| ((i + 2 * j) % 3) as f64 - 1.0);
        let (z, _) = rows.fold(|| Product::new(p.clone(), Precision::Exact, &spread), &cuts, weighted, f_order);
        close_product(&z, &p.dot(&expected.s), expected.weight);
    }

    #[test]
    fn a_sketch_is_the_co_moment_times_vectors((rows, cuts) in rows_and_cuts(false), weighted: bool, f_order: bool) {
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
    fn a_gram_matrix_agrees_for_any_split_of_the_features((rows, cuts) in rows_and_cuts(true), weighted: bool, f_order: bool) {
        let (n, d) = rows.x.dim();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let mut columns: Vec<usize> = cuts.iter().map(|c| (*c).min(d)).collect();
        columns.push(d);
        columns.dedup();
        let scaling = Scaling { center: true, standardize: false };
        let mut total = Gram::new(n, scaling, 2);
        for pair in columns.windows(2) {
            let part = Rows { x: rows.x.slice(s![.., pair[0]..pair[1]]).to_owned(), w: rows.w.clone() };
            let mut gram = Gram::new(n, scaling, 2);
            gram.update(part.block(0..n, weighted, f_order));
            total.merge(gram);
        }
        let GramSums { moments, g, .. } = total.finish();
        let expected = two_pass(&rows.x, &w);
        prop_assert_eq!(moments.mean.len(), d);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let y = |r: usize, c: usize| if rows.x[[r, c]].is_nan() { 0.0 } else { (rows.x[[r, c]] - expected.mean[c]) * w[r].sqrt() };
            let dense: f64 = (0..d).map(|c| y(i, c) * y(j, c)).sum();
            // The oracle's mean is one double: 1e8 leaves it half a unit in the last place off.
            let offset = expected.mean.iter().fold(1.0f64, |m, v| m.max(v.abs()));
            prop_assert!((g[[i, j]] - dense).abs() <= 64.0 * f64::EPSILON * offset * d as f64 * w.fold(1.0, |m, v| v.max(m)));
        }
    }

    #[test]
    fn sums_per_class_agree_for_any_split((rows, cuts) in rows_and_cuts(true), weighted: bool, f_order: bool) {
        let (n, d) = rows.x.dim();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let class = |i: usize| (i * 5 + i / 3) % 4;
        let mean = two_pass(&rows.x, &w).mean;
        let limit = ClassLimit { classes: 9, label: "c".into(), hint: String::new() };
        let mut total = ClassSums::new(d, limit.clone());
        for pair in cuts.windows(2) {
            let mut part = ClassSums::new(d, limit.clone());
            let mut block = rows.block(pair[0]..pair[1], weighted, f_order);
            let values = (0..4).rev().map(|c| vec![ClassValue::Int(c)]).collect();
            block.labels = Some(Labels::Classes { ids: (pair[0]..pair[1]).map(|i| 3 - class(i) as u32).collect(), classes: values });
            part.update(block);
            total.merge(part);
        }
        let found = total.finish();
        prop_assert!(found.classes.is_sorted());
        for (c, value) in found.classes.iter().enumerate() {
            let id = value[0].number().unwrap() as usize;
            let members: Vec<usize> = (0..n).filter(|i| class(*i) == id).collect();
            for j in 0..d {
                let cell = |i: &usize| if rows.x[[*i, j]].is_nan() { 0.0 } else { w[*i] * (rows.x[[*i, j]] - mean[j]) };
                let expected: f64 = members.iter().map(cell).sum();
                let scale = w.sum() * (1.0 + mean[j].abs());
                prop_assert!((found.m[[c, j]] - expected).abs() <= 64.0 * f64::EPSILON * scale, "{} against {expected}", found.m[[c, j]]);
            }
        }
    }

    #[test]
    fn a_cross_co_moment_agrees_for_any_split((rows, cuts) in rows_and_cuts(true), weighted: bool, f_order: bool) {
        let (n, d) = rows.x.dim();
        let w = rows.weights(weighted);
        prop_assume!(rows.have_means(&w));
        let y = Array2::from_shape_fn((n, 2), |(i, q)| 1e4 + ((i * 7 + q * 3) % 5) as f64);
        let mean = two_pass(&rows.x, &w).mean;
        let label_mean = two_pass(&y, &w).mean;
        let map = Arc::new(LabelMap::Linear { columns: 2 });
        let mut total = CrossMoment::new(d, map.clone());
        for pair in cuts.windows(2) {
            let mut part = CrossMoment::new(d, map.clone());
            let mut block = rows.block(pair[0]..pair[1], weighted, f_order);
            block.labels = Some(Labels::Numbers(y.slice(s![pair[0]..pair[1], ..]).to_owned()));
            part.update(block);
            total.merge(part);
        }
        let found = total.finish();
        for (q, j) in (0..2).flat_map(|q| (0..d).map(move |j| (q, j))) {
            let cell = |i: usize| if rows.x[[i, j]].is_nan() { 0.0 } else { w[i] * (rows.x[[i, j]] - mean[j]) * (y[[i, q]] - label_mean[q]) };
            let expected: f64 = (0..n).map(cell).sum();
            let scale = 8.0 * w.sum() * (1.0 + mean[j].abs());
            prop_assert!((found.m[[q, j]] - expected).abs() <= 64.0 * f64::EPSILON * scale, "{} against {expected}", found.m[[q, j]]);
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

fn identity_law<A: Accumulate<Output = CoMoment> + Clone>(fresh: impl Fn() -> A) {
    let rows = sample();
    let mut seen = fresh();
    seen.update(rows.block(0..50, false, true));
    let alone = seen.clone().finish();
    let mut left = fresh();
    left.merge(seen.clone());
    let mut right = seen;
    right.merge(fresh());
    assert_eq!(left.finish(), alone);
    assert_eq!(right.finish(), alone);
    let mut nothing = fresh();
    nothing.merge(fresh());
    let nothing = nothing.finish();
    assert_eq!((nothing.moments.rows, nothing.moments.weight), (0, 0.0));
    assert!(nothing.s.iter().all(|v| *v == 0.0), "two empties are empty, not NaN");
}

#[test]
fn a_fresh_accumulator_is_the_identity() {
    identity_law(|| Covariance::new(4));
    identity_law(|| ImputedCovariance::new(4));
    identity_law(|| TiledCovariance::new(4, 2));
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
        pass::fold(&source, threads, &Unwatched, || Covariance::new(7)).unwrap().0.finish()
    };
    let one = fold(1);
    for threads in [2, 5, 16] {
        assert_eq!(fold(threads), one, "{threads} threads");
    }
}

/// OpenBLAS's thread count is the process's: one fit's decomposition must not change it under another's products.
#[test]
fn several_fits_in_one_process_do_not_hang() {
    use eigenstream::solve::{Scaling, rules::Components, solve};
    let x =
        Array2::from_shape_fn((600, 150), |(i, j)| ((i * 7919 + j * 104_729) % 1009) as f64 / 37.0);
    let fit = || {
        let source = InMemory::new(x.clone(), 100);
        let (sums, _) = pass::fold(&source, 2, &Unwatched, || Covariance::new(150)).unwrap();
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
