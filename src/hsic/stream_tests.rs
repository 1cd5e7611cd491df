//! HSIC that holds no row, weighs rows, standardizes and shuffles, against its formula, n × n.

use super::tests::{N, Notes, labels, linear, near, number, oracle, rbf, rbf_options, rows, text};
use super::*;
use crate::fit::{Approximate, KernelOptions, LabelOptions, LandmarkChoice};
use crate::kernel::KernelKind;
use crate::listen::{Listener, Quiet, Stage};
use crate::solve::hsic::permutations;
use crate::solve::supervised::LabelKernel;
use crate::source::{ArrowTable, Nulls};
use arrow_array::{ArrayRef, Float64Array, StringArray};
use ndarray::{Array2, ArrayView1, Axis};
use std::sync::{Arc, Mutex};

type LabelKernelOf = fn(usize, usize) -> f64;

type KernelOf = fn(&ArrayView1<f64>, &ArrayView1<f64>) -> f64;

fn cosine(a: &ArrayView1<f64>, b: &ArrayView1<f64>) -> f64 {
    a.dot(b) / (a.dot(a) * b.dot(b)).sqrt()
}

/// Every label kernel whose features are exact, as options and as a function of two rows.
fn label_cases() -> Vec<(LabelOptions, LabelKernelOf)> {
    vec![
        (labels(&["text"], LabelKernel::Delta), |i, j| delta(i, j)),
        (labels(&["number"], LabelKernel::Linear), |i, j| number(i) * number(j)),
        (labels(&["number"], LabelKernel::Rbf), distance),
        (labels(&["text", "number"], LabelKernel::Linear), |i, j| {
            delta(i, j) + number(i) * number(j)
        }),
        (labels(&["text"], LabelKernel::Rbf), |i, j| (-2.0 * (1.0 - delta(i, j))).exp()),
    ]
}

fn delta(i: usize, j: usize) -> f64 {
    f64::from(u8::from(text(i) == text(j)))
}

fn distance(i: usize, j: usize) -> f64 {
    (-(number(i) - number(j)).powi(2)).exp()
}

/// As many landmarks as rows are exact.
fn all_landmarks() -> KernelOptions {
    let by = Approximate::Landmarks { count: N, choice: LandmarkChoice::Uniform };
    KernelOptions { approximation: Some(by), ..rbf_options() }
}

/// Kernels over rows that stream, and what they are.
fn row_cases() -> Vec<(KernelOptions, KernelOf)> {
    let linear: (KernelOptions, KernelOf) = (KernelKind::Linear.into(), linear);
    vec![linear, (KernelKind::Cosine.into(), cosine), (all_landmarks(), rbf)]
}

/// Rows, each so many times, with their labels and weights of one or of as many.
fn repeated(times: impl Fn(usize) -> usize) -> (ArrowTable, ArrowTable) {
    let once: Vec<usize> = (0..N).collect();
    let often: Vec<usize> = (0..N).flat_map(|i| vec![i; times(i)]).collect();
    let table = |at: &[usize]| {
        let words: ArrayRef = Arc::new(StringArray::from_iter_values(at.iter().map(|i| text(*i))));
        let numbers = Float64Array::from_iter_values(at.iter().map(|i| number(*i)));
        let weights = Float64Array::from_iter_values(at.iter().map(|i| times(*i) as f64));
        let table = ArrowTable::from(rows().select(Axis(0), at)).with_column("text", words);
        let table = table.unwrap().with_column("number", Arc::new(numbers)).unwrap();
        table.with_column("weight", Arc::new(weights)).unwrap()
    };
    (table(&once), table(&often))
}

fn found(hsic: &Hsic, table: &ArrowTable) -> HsicResult {
    hsic.plan(table, None).unwrap().run(&Quiet).unwrap()
}

#[test]
fn features_that_are_exact_give_the_trace_formula() {
    let (table, _) = repeated(|_| 1);
    for (kernel, k) in row_cases() {
        for (labels, l) in label_cases() {
            let hsic = Hsic::new(labels).columns(["x"]).kernel(kernel.clone());
            assert!(hsic.plan(&table, None).unwrap().streams());
            near(found(&hsic, &table).hsic, oracle(&rows(), k, l));
        }
    }
}

#[test]
fn a_row_of_weight_three_is_three_rows() {
    let times = |i: usize| i % 4;
    let (once, often) = repeated(times);
    let at: Vec<usize> = (0..N).flat_map(|i| vec![i; times(i)]).collect();
    let kernels = row_cases().into_iter().chain([(rbf_options(), rbf as KernelOf)]);
    for (kernel, k) in kernels {
        for (labels, l) in label_cases() {
            let hsic = Hsic::new(labels).columns(["x"]).kernel(kernel.clone());
            let weighted = found(&hsic.clone().weight("weight"), &once);
            let expected = oracle(&rows().select(Axis(0), &at), k, |i, j| l(at[i], at[j]));
            near(weighted.hsic, expected);
            near(found(&hsic, &often).hsic, expected);
            assert_eq!((weighted.rows, weighted.weight), (N as u64, at.len() as f64));
        }
        // A row counted twice is like itself alone, as two equal rows are.
        let hsic = Hsic::new(labels(&["text"], LabelKernel::Identity)).columns(["x"]);
        let hsic = hsic.kernel(kernel);
        let weighted = found(&hsic.clone().weight("weight"), &once);
        near(weighted.hsic, found(&hsic, &often).hsic);
    }
}

#[test]
fn weights_do_not_go_with_shuffles() {
    let (table, _) = repeated(|i| i % 4);
    let hsic = Hsic::new(["text"]).columns(["x"]).weight("weight").permutations(9);
    let said = hsic.plan(&table, None).err().unwrap().to_string();
    assert!(said.starts_with("a shuffle gives each row the label of another"), "{said}");
    let light = Float64Array::from_iter_values((0..N).map(|_| 0.01));
    let table = table.with_column("light", Arc::new(light)).unwrap();
    let hsic = Hsic::new(["text"]).columns(["x"]).weight("light");
    let said = hsic.plan(&table, None).unwrap().run(&Quiet).unwrap_err().to_string();
    assert!(said.contains("must sum to more than 1"), "{said}");
}

#[test]
fn features_can_be_brought_to_unit_deviation() {
    let (table, _) = repeated(|_| 1);
    let x = rows();
    let deviation = x.std_axis(Axis(0), 1.0);
    let scaled = (&x - &x.mean_axis(Axis(0)).unwrap()) / &deviation;
    let wide: KernelOf = rbf;
    let kernels = row_cases().into_iter().chain([(rbf_options(), wide)]);
    for (kernel, k) in kernels {
        for (labels, l) in label_cases() {
            let hsic = Hsic::new(labels).columns(["x"]).kernel(kernel.clone()).standardize();
            near(found(&hsic, &table).hsic, oracle(&scaled, k, l));
            near(found(&hsic.permutations(1), &table).hsic, oracle(&scaled, k, l));
        }
        let hsic = Hsic::new(labels(&["text"], LabelKernel::Identity)).columns(["x"]);
        let same = |i: usize, j: usize| f64::from(u8::from(i == j));
        near(found(&hsic.kernel(kernel).standardize(), &table).hsic, oracle(&scaled, k, same));
    }
}

/// Each shuffle is the formula with the labels in its order, whichever way is taken.
#[test]
fn shuffles_are_the_formula_with_the_labels_in_another_order() {
    let (table, _) = repeated(|_| 1);
    let orders = permutations(N, 5, 11);
    let kernels = row_cases().into_iter().chain([(rbf_options(), rbf as KernelOf)]);
    for (kernel, k) in kernels {
        for (labels, l) in label_cases() {
            let hsic = Hsic::new(labels).columns(["x"]).kernel(kernel.clone());
            let shuffled = found(&hsic.permutations(5).seed(11), &table);
            assert_eq!(shuffled.shuffled.len(), 5);
            let all = std::iter::once(&shuffled.hsic).chain(&shuffled.shuffled);
            for (order, hsic) in orders.iter().zip(all) {
                let l = |i: usize, j: usize| l(order[i] as usize, order[j] as usize);
                near(*hsic, oracle(&rows(), k, l));
            }
        }
    }
}

/// The stages that were begun.
#[derive(Default)]
struct Stages(Mutex<Vec<Stage>>);

impl Listener for Stages {
    fn begin(&self, stage: &Stage) {
        self.0.lock().unwrap().push(stage.clone());
    }
}

#[test]
fn shuffles_that_the_memory_does_not_hold_at_once_take_more_passes() {
    let n = 20_000;
    let x = Array2::from_shape_fn((n, 2), |(i, j)| ((i * 7 + j * 5) % 11) as f64);
    let words = StringArray::from_iter_values((0..n).map(|i| format!("c{}", i * i % 7)));
    let table = ArrowTable::from(x).with_column("text", Arc::new(words)).unwrap();
    let mut hsic = Hsic::new(["text"]).columns(["x"]).permutations(600);
    hsic.resources.threads = Some(2);
    let run = |memory: u64| {
        let stages = Stages::default();
        let found = hsic.clone().memory(memory).plan(&table, None).unwrap().run(&stages).unwrap();
        let stages = stages.0.into_inner().unwrap();
        (found, stages.iter().filter(|s| s.work.starts_with("orders")).count())
    };
    let (all, one) = run(1 << 30);
    let (some, several) = run(crate::budget::PROGRAM_BYTES + (18 << 20));
    assert_eq!(one, 1);
    assert!(several > 1, "{several}");
    assert_eq!(all, some, "the same bytes");
}

fn many_rows() -> (ArrowTable, usize) {
    let n = 10_500;
    let x =
        Array2::from_shape_fn((n, 2), |(i, j)| ((i * 7919 + j * 104_729) % 1009) as f64 / 500.0);
    let y = (0..n).map(|i| ((i * 7919) % 1009) as f64 / 500.0 + (i % 1013) as f64 / 900.0);
    let y: ArrayRef = Arc::new(Float64Array::from_iter_values(y));
    (ArrowTable::from(x).with_column("y", y).unwrap(), n)
}

#[test]
fn many_distinct_labels_stream_unless_exactness_is_asked_for() {
    let (table, _) = many_rows();
    let hsic = Hsic::new(labels(&["y"], LabelKernel::Rbf)).columns(["x"]);
    let told = Notes::default();
    let random = hsic.plan(&table, None).unwrap().run(&told).unwrap();
    assert_eq!(random.label_features, Some(1_000));
    let told = told.0.into_inner().unwrap();
    assert!(told.iter().any(|n| n.contains("more than 1000 distinct labels")), "{told:?}");
    let exact = Hsic { exact: true, ..hsic.clone() };
    let exact = found(&exact, &table);
    assert_eq!(exact.label_features, None);
    let off = (random.hsic / exact.hsic - 1.0).abs();
    assert!(off < 0.1 && off > 1e-12, "{off}");
    // Shuffles stream as well, with the same features.
    let shuffled = found(&hsic.permutations(3), &table);
    assert_eq!(shuffled.label_features, Some(1_000));
    near(shuffled.hsic, random.hsic);
    assert!(shuffled.shuffled.iter().all(|h| *h < 0.05 * exact.hsic), "{:?}", shuffled.shuffled);
}

#[test]
fn what_stands_for_the_kernel_is_near_it() {
    let (table, _) = repeated(|_| 1);
    let exact = found(&Hsic::new(["text"]).columns(["x"]).kernel(rbf_options()), &table).hsic;
    let landmarks = Approximate::Landmarks { count: 40, choice: LandmarkChoice::KMeans };
    for (by, kind) in [(landmarks, "landmarks"), (Approximate::Fourier(4_000), "fourier")] {
        let kernel = KernelOptions { approximation: Some(by), ..rbf_options() };
        let hsic = Hsic::new(["text"]).columns(["x"]).kernel(kernel);
        let found = found(&hsic.permutations(3), &table);
        let approximation = found.approximation.as_ref().unwrap();
        assert_eq!(approximation.kind, kind);
        assert!(approximation.error < 0.5, "{approximation:?}");
        let off = (found.hsic / exact - 1.0).abs();
        assert!(off < 0.2, "{kind}: {off}");
        assert!(found.shuffled.iter().all(|h| *h < found.hsic));
    }
}

#[test]
fn missing_cells_take_the_mean_before_a_kernel_sees_them() {
    let x = rows();
    let gap = |i: usize| i.is_multiple_of(5);
    let known: Vec<f64> = (0..N).filter(|i| !gap(*i)).map(|i| x[[i, 0]]).collect();
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let gaps = Float64Array::from_iter((0..N).map(|i| (!gap(i)).then(|| x[[i, 0]])));
    let other = Float64Array::from_iter_values(x.column(1).iter().copied());
    let words = StringArray::from_iter_values((0..N).map(text));
    let columns: [(&str, ArrayRef); 3] =
        [("a", Arc::new(gaps)), ("b", Arc::new(other)), ("text", Arc::new(words))];
    let table = ArrowTable::from(arrow_array::RecordBatch::try_from_iter(columns).unwrap());
    let filled = Array2::from_shape_fn((N, 2), |(i, j)| match j {
        0 if gap(i) => mean,
        _ => x[[i, j]],
    });
    for (kernel, k) in row_cases() {
        let hsic = Hsic { nulls: Nulls::Mean, ..Hsic::new(["text"]).columns(["a", "b"]) };
        let hsic = hsic.kernel(kernel);
        near(found(&hsic, &table).hsic, oracle(&filled, k, delta));
        near(found(&hsic.permutations(2), &table).hsic, oracle(&filled, k, delta));
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let (table, _) = repeated(|_| 1);
    let refused = |hsic: Hsic, begins: &str| {
        let said = hsic.plan(&table, None).err().unwrap().to_string();
        assert!(said.starts_with(begins), "{said}");
    };
    let rbf = labels(&["number"], LabelKernel::Rbf);
    let featured = LabelOptions { features: Some(50), ..rbf.clone() };
    let exact = Hsic { exact: true, ..Hsic::new(featured).columns(["x"]) };
    refused(exact, "label_features stand for the kernel over labels and exact is without them");
    let fourier = Some(Approximate::Fourier(50));
    let poly = KernelOptions { approximation: fourier, ..KernelKind::Poly.into() };
    let hsic = Hsic::new(["text"]).columns(["x"]).kernel(poly);
    refused(hsic, "random_features stand for the rbf kernel, not for poly");
}

#[test]
fn options_without_effect_are_told() {
    let (table, _) = repeated(|_| 1);
    let told = |hsic: Hsic, begins: &str| {
        let plan = hsic.plan(&table, None).unwrap();
        let notes: Vec<String> = plan.notes().iter().map(ToString::to_string).collect();
        assert!(notes.iter().any(|n| n.starts_with(begins)), "{notes:?}");
    };
    let hsic = Hsic::new(["text"]).columns(["x"]);
    let fourier = Some(Approximate::Fourier(50));
    let idle = KernelOptions { approximation: fourier, ..KernelKind::Linear.into() };
    told(hsic.clone().kernel(idle), "random_features has no effect on the linear kernel");
    told(Hsic { exact: true, ..hsic }, "exact has no effect here");
    let rbf = LabelOptions { features: Some(50), ..labels(&["number"], LabelKernel::Rbf) };
    let pairs = Hsic::new(rbf).columns(["x"]).kernel(rbf_options());
    told(pairs, "label_features has no effect where all pairs are compared");
}

#[test]
fn a_kernel_that_tells_nothing_is_told() {
    let x = Array2::from_shape_fn((N, 2), |(i, j)| (i * i) as f64 / 7.0 + (i * j) as f64);
    let y = Float64Array::from_iter_values((0..N).map(number));
    let table = ArrowTable::from(x).with_column("number", Arc::new(y)).unwrap();
    let by = Approximate::Landmarks { count: 20, choice: LandmarkChoice::Uniform };
    for approximation in [None, Some(by), Some(Approximate::Fourier(20))] {
        for (gamma, expected) in [(1e9, "no row is like another"), (1e-12, "all rows are alike")] {
            let gamma = Some(crate::fit::Gamma::Value(gamma));
            let kernel = KernelOptions { gamma, approximation, ..KernelKind::Rbf.into() };
            let told = Notes::default();
            let hsic = Hsic::new(["number"]).columns(["x"]).kernel(kernel);
            hsic.plan(&table, None).unwrap().run(&told).unwrap();
            let told = told.0.into_inner().unwrap();
            assert!(told.iter().any(|n| n.contains(expected)), "{approximation:?}: {told:?}");
        }
    }
}
