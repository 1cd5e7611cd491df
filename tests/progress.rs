//! What a listener is told of a run: stages that follow each other, each counted to its end and no
//! further.

use crate::workdir::{Workdir, doubles};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use eigenstream::{
    Approximate, ArrowTable, Checkpoint, Dataset, Fit, Form, Gamma, Hsic, Kernel, KernelKind,
    KernelOptions, LabelKernel, LabelOptions, LandmarkChoice, Listener, Nulls, ParquetOutput,
    Quiet, Scan, Stage, Table, Transform,
};
use ndarray::Array2;
use std::sync::{Arc, Mutex};

/// A stage, and what was told of it.
#[derive(Debug, Clone)]
struct Told {
    stage: Stage,
    items: u64,
    bytes: u64,
}

#[derive(Default)]
struct Recorder {
    current: Mutex<Option<Told>>,
    done: Mutex<Vec<Told>>,
}

impl Listener for Recorder {
    fn begin(&self, stage: &Stage) {
        let mut current = self.current.lock().unwrap();
        assert!(current.is_none(), "{stage:?} begins inside {current:?}");
        *current = Some(Told { stage: stage.clone(), items: 0, bytes: 0 });
    }

    fn advance(&self, items: u64, bytes: u64) {
        let mut current = self.current.lock().unwrap();
        let told = current.as_mut().expect("a stage is under way");
        told.items += items;
        told.bytes += bytes;
        assert!(told.items <= told.stage.items, "past its end: {told:?}");
    }

    fn end(&self) {
        let told = self.current.lock().unwrap().take().expect("a stage is under way");
        self.done.lock().unwrap().push(told);
    }
}

impl Recorder {
    /// What was done, after a look at its numbers.
    fn finish(self) -> Vec<String> {
        assert!(self.current.into_inner().unwrap().is_none(), "a stage has no end");
        let done = self.done.into_inner().unwrap();
        for Told { stage, items, bytes } in &done {
            assert_eq!((*items, *bytes), (stage.items, stage.bytes), "{stage:?}");
            assert_eq!(stage.items == 0, stage.noun.is_empty(), "{stage:?}");
        }
        let name = |told: &Told| format!("{} {}", told.stage.work, told.stage.noun);
        done.iter().map(|told| name(told).trim_end().to_string()).collect()
    }
}

fn batch(n: usize, holes: bool) -> RecordBatch {
    let cell = |i: usize, j: usize| ((i * 37 + j * 53 + i * i * (j + 1)) % 1009) as f64 / 10.0;
    let feature = |j: usize| -> ArrayRef {
        let there = |i: &usize| !holes || !(i * 7 + j).is_multiple_of(23);
        let cells = (0..n).map(|i| there(&i).then(|| cell(i, j)));
        Arc::new(arrow_array::Float64Array::from_iter(cells))
    };
    let class = |i: usize| ["oak", "ash", "elm"][(i * i + i / 7) % 3];
    let words = StringArray::from_iter_values((0..n).map(class));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", feature(0)),
        ("b", feature(1)),
        ("c", feature(2)),
        ("kind", Arc::new(words)),
        ("y", doubles((0..n).map(|i| (i * 13 % 4999) as f64 / 100.0).collect())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

/// The same rows in memory, and as two files of several row groups.
fn tables(n: usize, holes: bool) -> (Workdir, Dataset, ArrowTable) {
    let dir = Workdir::new();
    let all = batch(n, holes);
    for (name, part) in [("one", all.slice(0, n / 3)), ("two", all.slice(n / 3, n - n / 3))] {
        let names = part.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
        let columns = names.into_iter().zip(part.columns().iter().cloned()).collect();
        dir.table(&format!("d/{name}.parquet"), columns, n / 10 + 1);
    }
    let files = Dataset::from_paths(&[dir.path("d").display().to_string()]).unwrap();
    (dir, files, ArrowTable::from(all))
}

fn fitted(fit: &Fit, table: &dyn Table) -> Vec<String> {
    let recorder = Recorder::default();
    fit.plan(table).unwrap().run(&recorder).unwrap();
    recorder.finish()
}

fn rbf(approximation: Option<Approximate>) -> KernelOptions {
    KernelOptions { approximation, gamma: Some(Gamma::Median), ..KernelKind::Rbf.into() }
}

fn landmarks(choice: LandmarkChoice) -> Option<Approximate> {
    Some(Approximate::Landmarks { count: 12, choice })
}

#[test]
fn every_fit_tells_its_stages_to_their_end() {
    let of = |fit: Fit| fit.columns(["a", "b", "c"]).components(2);
    let labels = |kernel| LabelOptions { kernel: Some(kernel), ..LabelOptions::from(["y"]) };
    let small = Kernel::Rbf { gamma: 0.01 };
    let reading = ["reading rows", "decomposing 3 × 3"];
    let cases: Vec<(Fit, Vec<&str>)> = vec![
        (of(Fit::pca()), reading.to_vec()),
        (of(Fit::spca(["kind"])), reading.to_vec()),
        (of(Fit::spca(["y"])), vec!["reading rows", "decomposing 1 × 1"]),
        (of(Fit::kpca(KernelKind::Linear)), reading.to_vec()),
        (
            of(Fit::kpca(KernelKind::Cosine)),
            vec!["reading means rows", "reading rows", "decomposing 3 × 3"],
        ),
        (
            of(Fit::kpca(rbf(None))),
            vec!["reading rows", "measuring distances", "comparing pairs", "decomposing 300 × 300"],
        ),
        (
            of(Fit::kspca(small, ["kind"])),
            vec!["reading rows", "product with the kernel matrix pairs"],
        ),
        (
            of(Fit::kpca(rbf(landmarks(LandmarkChoice::KMeans)))),
            vec![
                "sampling rows",
                "measuring distances",
                "choosing landmarks",
                "decomposing 12 × 12",
                "comparing with the kernel",
                "reading rows",
                "decomposing 12 × 12",
            ],
        ),
        (
            of(Fit::kpca(rbf(Some(Approximate::Fourier(20))))),
            vec![
                "sampling rows",
                "measuring distances",
                "comparing with the kernel",
                "reading rows",
                "decomposing 20 × 20",
            ],
        ),
        (
            of(Fit::pca()).form(Form::Dual),
            vec!["multiplying features", "decomposing 300 × 300", "mapping back features"],
        ),
        (of(Fit::spca(labels(LabelKernel::Rbf))), vec!["reading rows", "decomposing 3 × 3"]),
    ];
    let (_dir, files, memory) = tables(300, false);
    for (fit, expected) in cases {
        assert_eq!(fitted(&fit, &files), expected, "{fit:?}");
        assert_eq!(fitted(&fit, &memory), expected, "{fit:?}");
    }
}

#[test]
fn iterations_tell_which_product_they_are_at() {
    let (_dir, files, _) = tables(1_700, false);
    let fit = Fit::kpca(Kernel::Rbf { gamma: 0.01 }).columns(["a", "b", "c"]).components(2);
    let told = fitted(&fit, &files);
    assert_eq!(told[..2], ["reading rows", "product 1 of at most 30 pairs"], "{told:?}");
    assert!(told.len() > 2 && told.iter().skip(1).all(|t| t.starts_with("product ")), "{told:?}");
    let fit = Fit::pca().columns(["a", "b", "c"]).components(1).form(Form::Randomized);
    let told = fitted(&fit, &files);
    assert!(told[0].starts_with("pass 1 of at most 30 rows"), "{told:?}");
}

#[test]
fn missing_cells_change_no_count() {
    let (_dir, files, _) = tables(300, true);
    for nulls in [Nulls::Drop, Nulls::Mean] {
        let of = |fit: Fit| fit.columns(["a", "b", "c"]).components(2).nulls(nulls);
        for fit in [of(Fit::pca()), of(Fit::spca(["kind"])), of(Fit::pca()).form(Form::Dual)] {
            assert!(!fitted(&fit, &files).is_empty());
        }
    }
}

#[test]
fn many_labels_take_a_second_pass() {
    let (_dir, files, _) = tables(2_500, false);
    let labels = LabelOptions { kernel: Some(LabelKernel::Rbf), features: None, ..["y"].into() };
    let fit = Fit::spca(labels).columns(["a", "b", "c"]);
    let recorder = Recorder::default();
    fit.plan(&files).unwrap().run(&recorder).unwrap();
    // The first is left when a thousand distinct labels were seen.
    let done = recorder.done.into_inner().unwrap();
    let works: Vec<&str> = done.iter().map(|told| &*told.stage.work).collect();
    assert_eq!(works, ["reading", "reading", "decomposing 3 × 3"]);
    assert_eq!(done[1].items, 2_500);
}

#[test]
fn every_measure_of_dependence_tells_its_stages() {
    let (_dir, files, memory) = tables(300, false);
    let of = |kernel: KernelOptions| Hsic::new(["kind"]).columns(["a", "b", "c"]).kernel(kernel);
    let small: KernelOptions = Kernel::Rbf { gamma: 0.01 }.into();
    let by = KernelOptions { approximation: landmarks(LandmarkChoice::Uniform), ..small.clone() };
    let numbers = LabelOptions { kernel: Some(LabelKernel::Rbf), ..["y"].into() };
    let cases: Vec<(Hsic, Vec<&str>)> = vec![
        (of(KernelKind::Linear.into()), vec!["reading rows"]),
        (of(KernelKind::Cosine.into()), vec!["reading means rows", "reading rows"]),
        (of(small.clone()), vec!["reading rows", "comparing pairs"]),
        (
            Hsic { labels: numbers, ..of(small) },
            vec!["reading rows", "comparing pairs", "comparing labels rows"],
        ),
        (
            of(by),
            vec![
                "sampling rows",
                "decomposing 12 × 12",
                "comparing with the kernel",
                "reading rows",
            ],
        ),
        (
            of(KernelKind::Linear.into()).permutations(7),
            vec!["reading means rows", "orders 1 to 8 of 8 rows"],
        ),
    ];
    for (hsic, expected) in cases {
        for table in [&files as &dyn Table, &memory] {
            let recorder = Recorder::default();
            hsic.plan(table, None).unwrap().run(&recorder).unwrap();
            assert_eq!(recorder.finish(), expected);
        }
    }
}

#[test]
fn a_matrix_that_is_given_is_looked_at_and_read() {
    let k =
        Array2::from_shape_fn((40, 40), |(i, j)| (-((i as f64 - j as f64) / 9.0).powi(2)).exp());
    let table = ArrowTable::from(k);
    let fit = Fit::kpca(KernelKind::Precomputed).components(2);
    let told = fitted(&fit, &table);
    let expected = ["looking at the matrix rows", "reading the matrix rows", "decomposing 40 × 40"];
    assert_eq!(told, expected);
}

#[test]
fn scans_and_transforms_tell_what_is_left_to_do() {
    let (dir, files, _) = tables(300, false);
    let recorder = Recorder::default();
    Scan::new().plan(&files).unwrap().run(&recorder).unwrap();
    assert_eq!(recorder.finish(), ["reading rows"]);
    let model = Fit::pca().columns(["a", "b", "c"]).plan(&files).unwrap().run(&Quiet).unwrap();
    let plan = Transform::default().plan(&model, &files).unwrap();
    let recorder = Recorder::default();
    plan.write_parquet(&ParquetOutput::new(dir.path("scores")), &recorder).unwrap();
    assert_eq!(recorder.finish(), ["mapping rows", "finishing"]);
}

/// Stops a scan after its first checkpoint.
struct Impatient(std::path::PathBuf);

impl Listener for Impatient {
    fn cancelled(&self) -> bool {
        self.0.exists()
    }
}

#[test]
fn a_scan_that_goes_on_counts_what_is_left() {
    let dir = Workdir::new();
    for i in 0..24 {
        let x = Array2::from_shape_fn((50, 2), |(row, j)| (i * row + j) as f64);
        dir.matrix(&format!("d/{i}.parquet"), &x, 50);
    }
    let files = Dataset::from_paths(&[dir.path("d").display().to_string()]).unwrap();
    let path = dir.path("c");
    let checkpoint = Checkpoint { path: path.clone(), every: std::time::Duration::ZERO };
    let scan = Scan::new().plan(&files).unwrap();
    assert!(scan.run_onto(None, Some(&checkpoint), &Impatient(path)).is_err());
    let recorder = Recorder::default();
    scan.run_onto(None, Some(&checkpoint), &recorder).unwrap();
    let done = recorder.done.lock().unwrap().clone();
    assert!(done[0].stage.items < 24 * 50, "{done:?}");
    assert_eq!(recorder.finish(), ["reading rows"]);
}
