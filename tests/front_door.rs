//! The library's front door: every method and form on every kind of table, states from batches as
//! from files, listeners that stop a run.

use crate::workdir::{Workdir, close, doubles};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, StringArray};
use eigenstream::{
    Approximate, ArrowTable, Checkpoint, Dataset, Error, Fit, Form, Keep, Kernel, KernelKind,
    KernelOptions, LabelKernel, LabelOptions, Listener, Model, Note, Nulls, ParquetOutput, Quiet,
    ReaderTable, Scan, Stage, State, Table, Transform,
};
use ndarray::Array2;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const ROWS: usize = 90;

/// Three features of different size, a weight, a class and a number; some cells may be missing.
fn columns(rows: usize, holes: bool) -> Vec<(String, ArrayRef)> {
    let cell = |i: usize, j: usize| {
        let x = ((i * 37 + j * 53 + i * i * (j + 1)) % 101) as f64 / 10.0 + 100.0 * j as f64;
        (!holes || !(i * 7 + j).is_multiple_of(23)).then_some(x)
    };
    let feature = |j: usize| -> ArrayRef {
        Arc::new(arrow_array::Float64Array::from_iter((0..rows).map(|i| cell(i, j))))
    };
    let class = |i: usize| ["oak", "ash", "elm"][(i * i + i / 7) % 3];
    vec![
        ("a".into(), feature(0)),
        ("b".into(), feature(1)),
        ("c".into(), feature(2)),
        ("w".into(), doubles((0..rows).map(|i| 1.0 + (i % 4) as f64).collect())),
        ("kind".into(), Arc::new(StringArray::from_iter_values((0..rows).map(class)))),
        ("y".into(), doubles((0..rows).map(|i| ((i * 13) % 29) as f64).collect())),
    ]
}

fn batch(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

/// The same rows as files, as batches in memory, and from a reader that is opened again.
fn on_all_tables(holes: bool, work: impl Fn(&dyn Table, &str)) {
    let dir = Workdir::new();
    dir.table("d/one.parquet", columns(ROWS, holes), 40);
    let all = batch(columns(ROWS, holes));
    let files = Dataset::from_paths(&[dir.path("d").display().to_string()]).unwrap();
    let parts = vec![all.slice(0, 17), all.slice(17, 1), all.slice(18, ROWS - 18)];
    let memory = ArrowTable::try_new(parts.clone()).unwrap();
    let schema = all.schema();
    let open = move || {
        let batches = parts.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, schema.clone());
        Ok(Box::new(reader) as Box<dyn arrow_array::RecordBatchReader>)
    };
    let reader = ReaderTable::new(open).unwrap();
    work(&files, "files");
    work(&memory, "batches");
    work(&reader, "a reader");
}

/// Every method and form, with the options that change how rows are read.
fn fits() -> Vec<(&'static str, Fit)> {
    let fourier = KernelOptions {
        approximation: Some(Approximate::Fourier(40)),
        ..Kernel::Rbf { gamma: 0.05 }.into()
    };
    let landmarks = KernelOptions {
        approximation: Some(Approximate::Landmarks { count: 20, choice: Default::default() }),
        ..Kernel::Rbf { gamma: 0.05 }.into()
    };
    let labels = |kernel| LabelOptions { kernel: Some(kernel), ..LabelOptions::from(["y"]) };
    let rbf = Kernel::Rbf { gamma: 0.02 };
    let plain = || Fit::pca().columns(["a", "b", "c"]);
    let named = |fit: Fit| fit.columns(["a", "b", "c"]);
    vec![
        ("primal", plain()),
        ("weighted", plain().weight("w")),
        ("standardized", plain().standardize()),
        ("uncentered", plain().uncentered()),
        ("dual", plain().form(Form::Dual)),
        ("randomized", plain().form(Form::Randomized)),
        ("scored", plain().score_by("kind", Keep::Features(2))),
        ("delta", named(Fit::spca(["kind"]))),
        ("linear", named(Fit::spca(["y"]))),
        ("rbf labels", named(Fit::spca(labels(LabelKernel::Rbf)))),
        ("poly labels", named(Fit::spca(labels(LabelKernel::Poly)))),
        ("identity", named(Fit::spca(labels(LabelKernel::Identity)))),
        ("kpca", named(Fit::kpca(rbf))),
        ("cosine", named(Fit::kpca(KernelKind::Cosine))),
        ("linear kernel", named(Fit::kpca(KernelKind::Linear))),
        ("landmarks", named(Fit::kpca(landmarks)).components(3)),
        ("fourier", named(Fit::kpca(fourier)).components(3)),
        ("kspca", named(Fit::kspca(rbf, ["kind"]))),
        ("kspca direct", named(Fit::kspca(rbf, ["kind"])).form(Form::Direct)),
    ]
}

fn numbers(batch: &RecordBatch) -> Vec<f64> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    let columns = batch.columns().iter();
    columns.flat_map(|c| c.as_primitive::<Float64Type>().values().to_vec()).collect()
}

#[test]
fn every_method_and_form_runs_on_every_table() {
    for nulls in [Nulls::Error, Nulls::Drop, Nulls::Mean] {
        let holes = nulls != Nulls::Error;
        for (name, fit) in fits() {
            let first: Mutex<Option<(Model, Vec<f64>)>> = Mutex::new(None);
            on_all_tables(holes, |table, what| {
                let model = fit.clone().nulls(nulls).plan(table).unwrap().run(&Quiet);
                let model = model.unwrap_or_else(|e| panic!("{name} on {what}, {nulls:?}: {e}"));
                let scores = numbers(&model.transform(&batch(columns(30, holes))).unwrap());
                let mut first = first.lock().unwrap();
                let (known, expected) =
                    first.get_or_insert_with(|| (model.clone(), scores.clone()));
                assert_eq!(model.header.form, known.header.form, "{name} on {what}");
                let size = known.eigenvalues.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                close(&model.eigenvalues, &known.eigenvalues, 1e-9, size);
                let size = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                close(&scores, &*expected, 1e-6, size);
            });
        }
    }
}

#[test]
fn states_of_batches_are_states_of_files() {
    let scans = [
        ("plain", Scan::new()),
        ("classes", Scan::new().labels(["kind"])),
        ("numbers", Scan::new().labels(["y"]).weight("w")),
        ("dropped", Scan::new().labels(["kind"]).nulls(Nulls::Drop)),
        ("imputed", Scan::new().labels(["kind"]).weight("w").nulls(Nulls::Mean)),
        ("folds", Scan::new().labels(["y"]).folds(3)),
    ];
    for (name, scan) in scans {
        let holes = scan.nulls != Nulls::Error;
        let all = batch(columns(ROWS, holes));
        let table = ArrowTable::from(all.clone());
        let scanned = scan.plan(&table).unwrap().run(&Quiet).unwrap();
        let mut state = scan.empty(all.schema()).unwrap();
        for part in [all.slice(0, 40), all.slice(40, 0), all.slice(40, ROWS - 40)] {
            state.update(&part).unwrap();
        }
        assert_eq!(state.about.tally, scanned.about.tally, "{name}");
        assert_eq!(state.n_folds(), scanned.n_folds(), "{name}");
        let mut fits = vec![Fit::pca()];
        fits.extend((!scan.labels.is_empty()).then(|| Fit::spca(LabelOptions::default())));
        for fit in fits {
            let (a, b) = (state.solve(&fit, &Quiet), scanned.solve(&fit, &Quiet));
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!(a.header.nulls, b.header.nulls, "{name}");
            assert_eq!(a.header.weight, b.header.weight, "{name}");
            close(&a.eigenvalues, &b.eigenvalues, 1e-10, b.eigenvalues[0]);
        }
        let again = State::from_bytes(&state.to_bytes().unwrap()).unwrap();
        assert_eq!(again.to_bytes().unwrap(), state.to_bytes().unwrap());
    }
}

#[test]
fn a_batch_that_cannot_be_added_leaves_its_state_as_it_was() {
    let whole = batch(columns(ROWS, false));
    let mut state = Scan::new().labels(["kind"]).empty(whole.schema()).unwrap();
    state.update(&whole).unwrap();
    let before = state.to_bytes().unwrap();
    let refused = state.update(&batch(columns(ROWS, true))).unwrap_err();
    assert!(refused.to_string().contains("is null or NaN"), "{refused}");
    let without = whole.project(&[0, 1, 2, 3, 5]).unwrap();
    let refused = state.update(&without).unwrap_err();
    assert!(
        matches!(refused, Error::UnknownColumn { ref name, .. } if name == "kind"),
        "{refused}"
    );
    assert_eq!(state.to_bytes().unwrap(), before);
}

#[test]
fn what_was_never_added_is_not_taken_out() {
    let scan = |rows| {
        let table = ArrowTable::from(batch(columns(rows, false)));
        Scan::new().plan(&table).unwrap().run(&Quiet).unwrap()
    };
    let mut small = scan(10);
    let before = small.to_bytes().unwrap();
    let refused = small.subtract(scan(ROWS)).unwrap_err();
    assert!(refused.to_string().contains("more than the 10"), "{refused}");
    assert_eq!(small.to_bytes().unwrap(), before);
}

/// Rows in memory cannot be known again, so no checkpoint of others is taken up for them.
#[test]
fn checkpoints_are_of_files() {
    let dir = Workdir::new();
    let path = dir.path("c");
    let checkpoint = Checkpoint { path, every: std::time::Duration::ZERO };
    let table = ArrowTable::from(batch(columns(ROWS, false)));
    let plan = Scan::new().plan(&table).unwrap();
    let refused = plan.run_onto(None, Some(&checkpoint), &Quiet).unwrap_err();
    assert!(refused.to_string().contains("is for files"), "{refused}");
}

/// Stops a run after some blocks.
struct Impatient {
    left: AtomicU64,
    notes: Mutex<Vec<Note>>,
}

impl Listener for Impatient {
    fn note(&self, note: &Note) {
        self.notes.lock().unwrap().push(note.clone());
    }

    fn begin(&self, stage: &Stage) {
        assert!(stage.items > 0 || stage.noun.is_empty());
    }

    fn advance(&self, _items: u64, _bytes: u64) {
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }

    fn cancelled(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn a_cancelled_run_leaves_nothing_behind() {
    let dir = Workdir::new();
    dir.matrix(
        "d.parquet",
        &Array2::from_shape_fn((60_000, 4), |(i, j)| (i * (j + 2) % 97) as f64),
        9_000,
    );
    let data = Dataset::from_paths(&[dir.path("d.parquet").display().to_string()]).unwrap();
    let listener = || Impatient { left: AtomicU64::new(3), notes: Mutex::new(Vec::new()) };
    let stopped = Fit::pca().plan(&data).unwrap().run(&listener());
    assert!(matches!(stopped, Err(Error::Cancelled)));
    let stopped = Scan::new().plan(&data).unwrap().run(&listener());
    assert!(matches!(stopped, Err(Error::Cancelled)));
    let model = Fit::pca().plan(&data).unwrap().run(&Quiet).unwrap();
    for out in ["scores.parquet", "scores"] {
        let output = ParquetOutput::new(dir.path(out));
        let plan = Transform::default().plan(&model, &data).unwrap();
        let stopped = plan.write_parquet(&output, &listener());
        assert!(matches!(stopped, Err(Error::Cancelled)), "{out}");
        assert_eq!(dir.list(), ["d.parquet"], "{out}");
    }
}

#[test]
fn notes_are_values_and_options_are_written_by_the_front_end() {
    let table = ArrowTable::from(batch(columns(ROWS, true)));
    let listener = Impatient { left: AtomicU64::new(u64::MAX), notes: Mutex::new(Vec::new()) };
    let fit = Fit::pca().columns(["a", "b", "c"]).components(7).nulls(Nulls::Drop);
    fit.plan(&table).unwrap().run(&listener).unwrap();
    let notes = listener.notes.into_inner().unwrap();
    let dropped =
        |n: &Note| matches!(n, Note::RowsDropped { rows: 90, dropped, .. } if *dropped > 0);
    assert!(notes.iter().any(dropped), "{notes:?}");
    let capped = |n: &Note| matches!(n, Note::CappedAtRank { kept: 3, asked: 7, .. });
    assert!(notes.iter().any(capped), "{notes:?}");
    let error = Fit::pca().columns(["a"]).plan(&table).unwrap().run(&Quiet).unwrap_err();
    assert!(error.to_string().ends_with("choose nulls=drop or nulls=mean, or exclude the column"));
    let python = eigenstream::phrase(&error.sentence(), |name, value| match value {
        Some(value) => format!("{name}=\"{value}\""),
        None => name.to_string(),
    });
    assert!(python.ends_with("choose nulls=\"drop\" or nulls=\"mean\", or exclude the column"));
}

#[test]
fn a_plan_refuses_before_a_row_is_read() {
    let table = ArrowTable::from(batch(columns(ROWS, false)));
    let refused = |fit: Fit| fit.plan(&table).err().expect("refused").exit_code();
    assert_eq!(refused(Fit::spca(LabelOptions::default())), 2);
    assert_eq!(refused(Fit::pca().columns(["nope"])), 2);
    assert_eq!(refused(Fit::kpca(KernelKind::Rbf).uncentered()), 2);
    let small = Fit::pca().memory(1_000_000).plan(&table).unwrap();
    assert!(matches!(small.check(), Err(Error::Budget { .. })));
    assert!(matches!(small.run(&Quiet), Err(Error::Budget { .. })));
}
