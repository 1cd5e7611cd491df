//! HSIC against its formula, n × n, and the numbers that may be asked for.

use super::*;
use crate::error::Error;
use crate::fit::{Fit, Gamma, KernelOptions, LabelOptions};
use crate::kernel::KernelKind;
use crate::listen::{Listener, Quiet};
use crate::note::Note;
use crate::solve::supervised::LabelKernel;
use crate::source::{ArrowTable, Nulls};
use arrow_array::{ArrayRef, Float64Array, StringArray};
use ndarray::{Array2, ArrayView1};
use std::sync::{Arc, Mutex};

pub(super) const N: usize = 60;

pub(super) fn rows() -> Array2<f64> {
    Array2::from_shape_fn((N, 3), |(i, j)| ((i * 7 + j * 5 + i * i * j) % 17) as f64 / 3.0 + 40.0)
}

pub(super) fn text(i: usize) -> String {
    format!("c{}", (i * 7 % 17) / 6)
}

pub(super) fn number(i: usize) -> f64 {
    ((i * 11) % 19) as f64 / 7.0 + ((i * 7) % 17) as f64 / 9.0
}

fn table() -> ArrowTable {
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..N).map(text)));
    let number: ArrayRef = Arc::new(Float64Array::from_iter_values((0..N).map(number)));
    let table = ArrowTable::from(rows()).with_column("text", text).unwrap();
    table.with_column("number", number).unwrap()
}

/// tr(K H L H) / (n−1)², all of it in memory.
pub(super) fn oracle(
    x: &Array2<f64>,
    k: impl Fn(&ArrayView1<f64>, &ArrayView1<f64>) -> f64,
    l: impl Fn(usize, usize) -> f64,
) -> f64 {
    let n = x.nrows();
    let k = Array2::from_shape_fn((n, n), |(i, j)| k(&x.row(i), &x.row(j)));
    let l = Array2::from_shape_fn((n, n), |(i, j)| l(i, j));
    let h = Array2::<f64>::eye(n) - 1.0 / n as f64;
    let freedom = n as f64 - 1.0;
    k.dot(&h).dot(&l).dot(&h).diag().sum() / (freedom * freedom)
}

pub(super) fn linear(a: &ArrayView1<f64>, b: &ArrayView1<f64>) -> f64 {
    a.dot(b)
}

pub(super) fn rbf(a: &ArrayView1<f64>, b: &ArrayView1<f64>) -> f64 {
    (-0.3 * (a - b).mapv(|v| v * v).sum()).exp()
}

pub(super) fn labels(columns: &[&str], kernel: LabelKernel) -> LabelOptions {
    let columns = columns.iter().map(|c| c.to_string()).collect();
    LabelOptions { columns, kernel: Some(kernel), ..LabelOptions::default() }
}

pub(super) fn rbf_options() -> KernelOptions {
    KernelOptions { gamma: Some(Gamma::Value(0.3)), ..KernelKind::Rbf.into() }
}

pub(super) fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} against {expected}");
}

#[test]
fn it_is_the_trace_formula() {
    let (table, x) = (table(), rows());
    let delta = |i: usize, j: usize| f64::from(u8::from(text(i) == text(j)));
    let product = |i: usize, j: usize| number(i) * number(j);
    let distance = |i: usize, j: usize| (-(number(i) - number(j)).powi(2)).exp();
    let both = |i: usize, j: usize| delta(i, j) + product(i, j);
    let same = |i: usize, j: usize| f64::from(u8::from(i == j));
    type LabelKernelOf<'a> = &'a dyn Fn(usize, usize) -> f64;
    let cases: [(LabelOptions, LabelKernelOf<'_>); 5] = [
        (labels(&["text"], LabelKernel::Delta), &delta),
        (labels(&["number"], LabelKernel::Linear), &product),
        (labels(&["number"], LabelKernel::Rbf), &distance),
        (labels(&["text", "number"], LabelKernel::Linear), &both),
        (labels(&["text"], LabelKernel::Identity), &same),
    ];
    for (labels, l) in cases {
        let hsic = Hsic::new(labels).columns(["x"]);
        let plan = hsic.plan(&table, None).unwrap();
        assert!(plan.streams());
        let streamed = plan.run(&Quiet).unwrap();
        near(streamed.hsic, oracle(&x, linear, l));
        assert_eq!((streamed.rows, streamed.features, streamed.p_value()), (N as u64, 3, None));
        let shuffled = hsic.clone().permutations(5).plan(&table, None).unwrap().run(&Quiet);
        near(shuffled.unwrap().hsic, streamed.hsic);
        let pairs = hsic.kernel(rbf_options()).plan(&table, None).unwrap().run(&Quiet).unwrap();
        near(pairs.hsic, oracle(&x, rbf, l));
    }
}

/// HSIC takes no notice of a shift of the labels; nor do its shuffles.
#[test]
fn a_shift_of_the_labels_costs_no_digit() {
    let whole = |i: usize| ((i * 11) % 19) as f64;
    type KernelOf = fn(&ArrayView1<f64>, &ArrayView1<f64>) -> f64;
    let kernels: [(KernelOptions, KernelOf); 2] =
        [(rbf_options(), rbf), (KernelKind::Linear.into(), linear)];
    for (kernel, k) in kernels {
        let expected = oracle(&rows(), k, |i, j| whole(i) * whole(j));
        let mut shuffled: Option<Vec<f64>> = None;
        for shift in [0.0, 1e3, 1e6, 1e8] {
            let y = Float64Array::from_iter_values((0..N).map(|i| whole(i) + shift));
            let table = ArrowTable::from(rows()).with_column("y", Arc::new(y)).unwrap();
            let hsic = Hsic::new(["y"]).columns(["x"]).kernel(kernel.clone()).permutations(20);
            let found = hsic.plan(&table, None).unwrap().run(&Quiet).unwrap();
            near(found.hsic, expected);
            let first = shuffled.get_or_insert_with(|| found.shuffled.clone());
            found.shuffled.iter().zip(&*first).for_each(|(a, b)| {
                assert!((a - b).abs() < 1e-9 * expected, "{a} against {b}, shift {shift}");
            });
            assert!(found.shuffled.iter().all(|h| *h > -1e-12 * expected));
        }
    }
}

/// Where all of K is near 1, what differs from 1 is what counts.
#[test]
fn a_saturated_kernel_keeps_the_digits_that_its_entries_have() {
    let x = rows();
    let (gamma, coef0) = (1e-5, 10.0);
    let sigmoid = |a: &ArrayView1<f64>, b: &ArrayView1<f64>| (gamma * a.dot(b) + coef0).tanh();
    let k = Array2::from_shape_fn((N, N), |(i, j)| sigmoid(&x.row(i), &x.row(j)) - 1.0);
    let spread = k.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    assert!(spread < 1e-8, "{spread}");
    // Centred before it meets the labels, as dense arithmetic would.
    let h = Array2::<f64>::eye(N) - 1.0 / N as f64;
    let l = Array2::from_shape_fn((N, N), |(i, j)| f64::from(u8::from(text(i) == text(j))));
    let freedom = (N - 1) as f64;
    let expected = (h.dot(&k).dot(&h) * l).sum() / (freedom * freedom);
    let kernel = KernelOptions {
        gamma: Some(Gamma::Value(gamma)),
        coef0: Some(coef0),
        ..KernelKind::Sigmoid.into()
    };
    let hsic = Hsic::new(["text"]).columns(["x"]).kernel(kernel);
    let found = hsic.plan(&table(), None).unwrap().run(&Quiet).unwrap().hsic;
    // An entry is known to eps; as many of them are added up as there are pairs.
    let noise = f64::EPSILON * N as f64 / freedom;
    assert!((found - expected).abs() < noise, "{found} against {expected}, noise {noise}");
}

#[test]
fn a_row_without_a_direction_is_refused_by_the_cosine_kernel() {
    let mut x = rows();
    x.row_mut(7).fill(0.0);
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..N).map(text)));
    let table = ArrowTable::from(x).with_column("text", text).unwrap();
    let hsic = Hsic::new(["text"]).columns(["x"]).kernel(KernelKind::Cosine);
    let error = hsic.plan(&table, None).unwrap().run(&Quiet).unwrap_err().to_string();
    assert!(error.contains("row 7 (counted from 0): has no direction"), "{error}");
}

#[test]
fn scores_of_a_model_are_what_its_fit_has_found() {
    let table = table();
    let model = Fit::spca(["text"]).columns(["x"]).components(2).plan(&table).unwrap();
    let model = model.run(&Quiet).unwrap();
    let plan = Hsic::new(["text"]).plan(&table, Some(&model)).unwrap();
    let found = plan.run(&Quiet).unwrap();
    assert_eq!(found.features, 2);
    near(found.hsic, model.header.hsic.unwrap());
}

/// One more than the largest number is not none.
#[test]
fn any_number_of_permutations_is_refused_by_the_budget() {
    let table = table();
    for permutations in [usize::MAX, usize::MAX - 1, usize::MAX / 2, 1 << 40] {
        let hsic = Hsic::new(["text"]).columns(["x"]).permutations(permutations);
        let Err(error) = hsic.plan(&table, None) else { panic!("{permutations}") };
        assert!(matches!(error, Error::Budget { .. }));
        let said = error.to_string();
        assert!(said.starts_with("shuffling (most of it HSIC of each order"), "{said}");
        assert!(said.contains("ask for fewer permutations"), "{said}");
        let hsic = hsic.kernel(rbf_options());
        let said = hsic.plan(&table, None).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.starts_with("pairs of rows (most of it orders of the labels"), "{said}");
    }
}

#[derive(Default)]
pub(super) struct Notes(pub(super) Mutex<Vec<String>>);

impl Listener for Notes {
    fn note(&self, note: &Note) {
        self.0.lock().unwrap().push(note.to_string());
    }
}

#[test]
fn missing_values_and_idle_options_are_told() {
    let gaps = Float64Array::from_iter((0..N).map(|i| (i % 6 > 0).then_some(i as f64)));
    let table = table().with_column("gaps", Arc::new(gaps)).unwrap();
    let told = Notes::default();
    let hsic = Hsic { nulls: Nulls::Drop, ..Hsic::new(["text"]).columns(["gaps"]) };
    let hsic = Hsic { kernel: KernelOptions { degree: Some(2), ..Default::default() }, ..hsic };
    let plan = hsic.plan(&table, None).unwrap();
    assert_eq!(plan.notes()[0].to_string(), "degree has no effect on the linear kernel");
    let found = plan.run(&told).unwrap();
    assert_eq!((found.rows, found.dropped, found.missing), (50, 10, 10));
    assert_eq!(*told.0.lock().unwrap(), ["10 rows of 60 dropped for 10 missing values: gaps (10)"]);
    let error = Hsic::default().plan(&table, None).err().unwrap();
    assert_eq!(error.to_string(), "dependence is on labels; name their column with labels");
}
