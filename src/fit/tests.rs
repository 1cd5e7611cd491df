//! The cost model as arithmetic: bytes per buffer against the formulas of [`super::cost`], and the
//! decisions that need no file.

use super::basis::BasisWork;
use super::cost::{KernelWork, LabelShape, LabelWork, Workload, fold_bytes, group_bytes};
use super::kernel_choice::KernelRoute;
use crate::budget::{Budget, Bytes, PROGRAM_BYTES};
use crate::solve::Form;
use crate::solve::rules::Components;
use crate::source::{Nulls, Precision, ReadCost, Storage, block_rows};

/// A plain fit of ten components on two threads, whose pages take nothing.
pub(super) fn workload(n: u64, d: u64) -> Workload {
    Workload {
        n,
        d,
        components: Components::Count(10),
        nulls: Nulls::Error,
        precision: Precision::Exact,
        read: ReadCost { units: 8, row_bytes: 8 * d, ..ReadCost::default() },
        spool: None,
        threads: 2,
        max_passes: 30,
        labels: None,
        scored: None,
        kernel: None,
        basis: None,
    }
}

/// (phase, buffer, bytes) of a form, without the program itself.
fn held(work: &Workload, form: Form, threads: usize) -> Vec<(&'static str, String, u64)> {
    let phases = work.memory(form, threads).phases;
    let items = phases.iter().flat_map(|p| p.items.iter().map(move |i| (p.name, i)));
    let own = items.filter(|(_, i)| i.what != "program and libraries");
    own.map(|(phase, i)| (phase, i.what.clone(), i.bytes)).collect()
}

/// Bytes of the buffer whose name begins so.
fn bytes(held: &[(&'static str, String, u64)], phase: &str, what: &str) -> u64 {
    let found = held.iter().find(|(p, w, _)| *p == phase && w.starts_with(what));
    found.unwrap_or_else(|| panic!("no {what} in {phase}: {held:?}")).2
}

/// dsyevd: the matrix twice, and a work area of 2d² + 6d + 1.
fn decomposed(d: u64) -> u64 {
    8 * (4 * d * d + 7 * d)
}

#[test]
fn the_primal_form_holds_sums_per_unit_in_flight() {
    for (d, t) in [(1, 1), (64, 1), (64, 2), (64, 16), (1000, 2), (1023, 3)] {
        let all = held(&workload(1_000_000_000, d), Form::Primal, t as usize);
        let b = block_rows(d as usize) as u64;
        // Mean and rest beside S; one set per unit in flight (t + 1) and the total.
        let sums = 8 * (d * d + 2 * d);
        assert_eq!(
            bytes(&all, "streaming", "sums of"),
            (t + 2) * sums,
            "{d} features, {t} threads"
        );
        // A block as decoded and as it is filled, and as it is multiplied.
        assert_eq!(bytes(&all, "streaming", "batches"), t * (16 + 8) * b * d);
        assert_eq!(bytes(&all, "decomposition", &format!("{d} × {d}")), decomposed(d));
        assert_eq!(bytes(&all, "writing", "the model"), 24 * d.min(10) * d);
    }
}

#[test]
fn a_factor_is_held_per_unit_whatever_the_features() {
    for (d, t) in [(64, 1), (64, 2), (1024, 2), (5000, 16)] {
        let full = Workload { precision: Precision::Full, ..workload(1_000_000_000, d) };
        assert_eq!(full.forms(&plenty()).len(), 1, "the primal form alone");
        let all = held(&full, Form::Primal, t as usize);
        let units = t + 2;
        let factors = bytes(&all, "streaming", &format!("factors of {d} × {d}"));
        assert_eq!(factors, units * 8 * (d * d + 4 * d));
        let b = block_rows(d as usize) as u64;
        assert_eq!(bytes(&all, "streaming", "batches"), t * ((16 + 16) * b * d + 256 * d));
        let decomposed = bytes(&all, "decomposition", &format!("{d} × {d} factor"));
        assert_eq!(decomposed, 40 * d * (d + 1));
        let means = Workload { nulls: Nulls::Mean, ..full };
        assert_eq!(means.forms(&plenty())[0].passes, (2, 2), "the means first");
        assert_eq!(held(&means, Form::Primal, t as usize), all, "and then as without nulls");
    }
}

#[test]
fn one_s_is_shared_from_1024_features_on() {
    for (d, t) in [(1024, 1), (1024, 2), (5000, 2), (20_000, 16)] {
        let all = held(&workload(1_000_000_000, d), Form::Primal, t as usize);
        let b = block_rows(d as usize) as u64;
        let s = bytes(&all, "streaming", &format!("the {d} × {d} sum"));
        assert!((8 * d * d..8 * d * d + 8 * 1024 * d).contains(&s), "{s} for {d} features");
        assert_eq!(bytes(&all, "streaming", "batches"), (16 * t + 8 * (t + 2)) * b * d);
        let means = Workload { nulls: Nulls::Mean, ..workload(1_000, d) };
        assert_eq!(held(&means, Form::Primal, t as usize).len(), all.len(), "as without nulls");
        assert_eq!(means.forms(&plenty())[0].passes, (2, 2), "the means first");
    }
}

#[test]
fn memory_does_not_grow_with_rows_where_rows_stream() {
    for form in [Form::Primal, Form::Randomized] {
        let peak = |n| workload(n, 300).memory(form, 2).peak_bytes();
        assert_eq!(peak(1_000_000), peak(1_000_000_000), "{form}");
    }
    let labels = LabelWork {
        shape: LabelShape { vectors: 100, classes: true },
        again: false,
        with_variance: false,
        given: None,
    };
    let peak = |n| {
        Workload { labels: Some(labels), ..workload(n, 300) }.memory(Form::Dual, 2).peak_bytes()
    };
    assert_eq!(peak(1_000_000), peak(1_000_000_000));
}

#[test]
fn the_dual_form_holds_the_gram_matrix_and_groups_of_features() {
    for (n, d, t) in [(500, 200_000, 2), (1000, 20_000, 1), (2, 10, 4)] {
        let work = workload(n, d);
        let all = held(&work, Form::Dual, t as usize);
        let g = crate::source::columnwise::group_features(n as usize, d as usize) as u64;
        assert_eq!(bytes(&all, "streaming", &format!("the {n} × {n}")), 8 * n * n);
        let busy = t.min(d.div_ceil(g));
        // As decoded and dense, of all rows; one that waits and one in use.
        let groups = (24 * busy + 8 * 2) * n * g;
        assert_eq!(bytes(&all, "streaming", "groups of"), groups);
        assert_eq!(bytes(&all, "decomposition", &format!("{n} × {n}")), decomposed(n));
        let k = 10.min(n).min(d);
        assert_eq!(bytes(&all, "mapping to features", "loadings"), 16 * k * (d + n) + 64 * d);
        assert_eq!(work.forms(&plenty())[1].passes, (2, 2));
        let copied = Workload { spool: Some(Storage::F32), ..work };
        let cost = &copied.forms(&plenty())[1];
        assert_eq!((cost.passes, cost.disk), ((3, 3), 4 * n * d));
    }
}

#[test]
fn the_randomized_form_holds_vectors_not_matrices() {
    let (n, d) = (1_000_000_000u64, 200_000u64);
    let work = workload(n, d);
    let v = work.krylov_block() as u64;
    let all = held(&work, Form::Randomized, 2);
    assert_eq!(v, 30, "k and twenty more");
    // v vectors, and what they are multiplied with: one per unit in flight, the total, the next.
    let each = bytes(&all, "streaming", "products with") / 5;
    assert!((8 * v * d..=3 * 8 * v * d).contains(&each), "{each}");
    assert!(bytes(&all, "streaming", "the Krylov basis") >= 8 * 12 * v * d);
    assert!(work.memory(Form::Randomized, 2).peak_bytes() < 8 * d * d);
}

#[test]
fn labels_take_sums_per_class_and_no_square() {
    for (d, r, t) in [(64, 10, 2), (1000, 100, 1), (5000, 2, 4)] {
        let labels = LabelWork {
            shape: LabelShape { vectors: r, classes: true },
            again: false,
            with_variance: false,
            given: None,
        };
        let work = Workload { labels: Some(labels), ..workload(1_000_000, d) };
        let all = held(&work, Form::Dual, t as usize);
        let sums = bytes(&all, "streaming", "sums of") / (t + 2);
        assert!((8 * r * d..3 * (8 * r * d + 512 * r) + 64 * d).contains(&sums), "{sums}");
        assert_eq!(bytes(&all, "decomposition", &format!("{r} × {r}")), decomposed(r));
    }
}

/// Units have no more classes than rows; only the total has all of them.
#[test]
fn many_classes_are_held_once_and_those_of_units_beside_them() {
    let (d, c, unit) = (10u64, 43_208u64, 20_000u64);
    let shape = LabelShape { vectors: c, classes: true };
    let labels = LabelWork { shape, again: false, with_variance: false, given: None };
    let read = ReadCost { units: 10, unit_rows: unit, ..ReadCost::default() };
    let work = Workload { labels: Some(labels), read, ..workload(200_000, d) };
    let sums = |classes: u64| 8 * 8 * d + classes * (8 * d + 384);
    let held_by = |work: &Workload| bytes(&held(work, Form::Dual, 2), "streaming", "sums of");
    assert_eq!(held_by(&work), sums(c) + 3 * sums(unit));
    // What each class misses of each feature, where cells take means.
    let missing = 8 * d * (c + 3 * unit);
    assert_eq!(held_by(&Workload { nulls: Nulls::Mean, ..work }), held_by(&work) + missing);
    let budget = Budget { bytes: Bytes(100_000_000), asked: true };
    assert!(work.most_classes(None, 2, &budget) > c);
}

/// Of a vector column all elements are decoded, whichever are features.
#[test]
fn blocks_have_as_many_rows_as_suit_what_is_decoded() {
    let read = ReadCost { row_elements: 4_000, row_bytes: 8 * 4_000, ..ReadCost::default() };
    let work = Workload { read, ..workload(1_000_000, 50) };
    let all = held(&work, Form::Primal, 1);
    let b = block_rows(4_000) as u64;
    let made = b * (8 * 50 + 8 * 4_000);
    assert_eq!(bytes(&all, "streaming", "batches"), made + 8 * b * 50);
    // And no more than there are.
    let few = held(&Workload { n: 7, ..work }, Form::Primal, 1);
    assert_eq!(bytes(&few, "streaming", "batches"), 7 * (8 * 50 + 8 * 4_000) + 8 * 7 * 50);
}

/// Rows are read by as many workers as there are units, and no block of them is copied.
#[test]
fn rows_that_are_compared_are_read_once() {
    let exact = KernelWork { route: KernelRoute::Exact, ridge: false, spill: false, given: false };
    let (n, d) = (300u64, 20_000u64);
    let read = ReadCost { units: 1, row_bytes: 8 * d, ..ReadCost::default() };
    let work = Workload { kernel: Some(exact), read, ..workload(n, d) };
    let all = held(&work, Form::Exact, 2);
    let b = block_rows(d as usize) as u64;
    // Being decoded and dense, two that wait, and one that is copied to its place.
    assert_eq!(bytes(&all, "reading", "batches"), (16 + 2 * 8 + 8) * b * d);
}

#[test]
fn kernels_hold_rows_and_never_their_matrix() {
    let exact = KernelWork { route: KernelRoute::Exact, ridge: false, spill: false, given: false };
    let (n, d) = (1_000_000u64, 32u64);
    let work = Workload { kernel: Some(exact), ..workload(n, d) };
    let all = held(&work, Form::Exact, 2);
    assert_eq!(bytes(&all, "reading", "all"), 8 * n * d + 16 * n);
    assert_eq!(bytes(&all, "products", "rows"), 16 * n * d);
    assert!(work.memory(Form::Exact, 2).peak_bytes() < 8 * n * n / 1000);
    // Up to 1,500 rows K is decomposed whole.
    let small = held(&Workload { n: 1500, ..work }, Form::Exact, 2);
    assert_eq!(bytes(&small, "decomposition", "1500 × 1500"), decomposed(1500));
    let landmarks = KernelWork { route: KernelRoute::Landmarks(500), ..exact };
    let work = Workload { kernel: Some(landmarks), ..workload(n, d) };
    let all = held(&work, Form::Landmarks, 2);
    assert_eq!(bytes(&all, "sampling", "a sample of 5000 rows"), 24 * 5000 * d);
    let peak = |n| Workload { n, ..work }.memory(Form::Landmarks, 2).peak_bytes();
    assert_eq!(peak(1_000_000), peak(1_000_000_000), "no row is held");
}

#[test]
fn folds_and_groups_hold_sums_of_their_own() {
    for d in [1u64, 64, 1023] {
        let s = 8 * d * d;
        assert_eq!(fold_bytes(d), 4 * s);
        assert_eq!(group_bytes(d, true, 100), 4 * s + 64 * 101 * d + 4096);
        assert_eq!(group_bytes(d, false, 0), 64 * d + 4096);
    }
}

fn plenty() -> Budget {
    Budget { bytes: Bytes(u64::MAX), asked: true }
}

#[test]
fn threads_are_as_many_as_fit() {
    let work = Workload {
        threads: 16,
        read: ReadCost { units: 100, ..Default::default() },
        ..workload(1_000_000, 900)
    };
    let one = work.memory(Form::Primal, 1).peak_bytes();
    let budget = |bytes| Budget { bytes: Bytes(bytes), asked: true };
    let threads = |bytes| work.forms(&budget(bytes))[0].threads;
    assert_eq!((threads(u64::MAX), threads(one)), (16, 1));
    let some = threads(2 * one);
    assert!(work.memory(Form::Primal, some).peak_bytes() <= 2 * one, "{some} threads");
    assert!(work.memory(Form::Primal, some + 1).peak_bytes() > 2 * one, "{some} threads");
    assert!(!work.forms(&budget(one - 1))[0].fits && one > PROGRAM_BYTES);
}

#[test]
fn nothing_overflows_at_any_size() {
    for (n, d) in [(0, 0), (0, 5), (1, 1), (1 << 50, 200_000), (500, 1 << 30)] {
        for threads in [1, 1024] {
            for form in [Form::Primal, Form::Dual, Form::Randomized] {
                let _ = workload(n, d).memory(form, threads).peak_bytes();
            }
        }
    }
}

#[test]
fn a_given_basis_holds_its_directions_per_unit_in_flight() {
    for (d, k, t) in [(64, 3, 1), (5_000, 20, 4)] {
        let basis = Some(BasisWork { vectors: k, passes: 2 });
        let work = Workload { basis, ..workload(1_000_000_000, d) };
        let all = held(&work, Form::Basis, t as usize);
        assert_eq!(bytes(&all, "streaming", "products with"), (t + 7) * 8 * k * d);
        assert_eq!(bytes(&all, "writing", "the model"), 24 * k * d);
        let budget = Budget { bytes: Bytes(1 << 40), asked: true };
        let forms = work.forms(&budget);
        assert_eq!((forms.len(), forms[0].form, forms[0].passes), (1, Form::Basis, (2, 2)));
    }
}
