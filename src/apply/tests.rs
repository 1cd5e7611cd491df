//! The second pass: the same rows from any table, to any sink.

use super::*;
use crate::error::{Error, Result};
use crate::fit::Fit;
use crate::kernel::Kernel;
use crate::listen::{Listener, Quiet};
use crate::model::Model;
use crate::note::Note;
use crate::sink::{ParquetOutput, Sink};
use crate::source::{ArrowTable, Dataset, Nulls, ReaderTable, Table};
use crate::staged::StagedDir;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator};
use arrow_select::concat::concat_batches;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const N: usize = 40_000;

/// Rows with an id and three columns, one in 50 of whose second cells is missing where wanted.
fn batch(first: usize, rows: usize, missing: bool) -> RecordBatch {
    let range = first..first + rows;
    let cell = |i: usize, j: usize| ((i * (7 + j) + j * 5) % 101) as f64 / 7.0 + j as f64;
    let column = |j: usize| -> ArrayRef {
        let value = |i: usize| (!(missing && j == 1 && i % 50 == 3)).then(|| cell(i, j));
        Arc::new(Float64Array::from_iter(range.clone().map(value)))
    };
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone().map(|i| i as i64)));
    let columns = [("id", id), ("a", column(0)), ("b", column(1)), ("c", column(2))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn batches(missing: bool) -> Vec<RecordBatch> {
    let cuts = [0, 17_000, 17_001, N];
    cuts.windows(2).map(|w| batch(w[0], w[1] - w[0], missing)).collect()
}

/// One file per batch below `data`.
fn dataset(dir: &Path, batches: &[RecordBatch]) -> Dataset {
    let data = dir.join("data");
    std::fs::create_dir_all(&data).unwrap();
    for (i, batch) in batches.iter().enumerate() {
        let file = std::fs::File::create(data.join(format!("f{i}.parquet"))).unwrap();
        let mut writer =
            ::parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
    }
    opened(&data)
}

fn opened(path: &Path) -> Dataset {
    Dataset::from_paths(&[path.display().to_string()]).unwrap()
}

fn reader(batches: Vec<RecordBatch>) -> ReaderTable<'static> {
    ReaderTable::new(move || {
        let (schema, rows) = (batches[0].schema(), batches.clone().into_iter().map(Ok));
        Ok(Box::new(RecordBatchIterator::new(rows, schema)))
    })
    .unwrap()
}

fn fitted(table: &dyn Table, nulls: Nulls) -> Model {
    let fit = Fit::pca().columns(["a", "b", "c"]).components(2).nulls(nulls);
    fit.plan(table).unwrap().run(&Quiet).unwrap()
}

fn collected(plan: &ApplyPlan<'_, '_>) -> (RecordBatch, ApplySummary) {
    let mut batches = Vec::new();
    let applied = plan.run(&mut batches, &Quiet).unwrap();
    (concat_batches(plan.schema(), &batches).unwrap(), applied)
}

/// All rows of a file or directory, in order.
fn written(path: &Path) -> RecordBatch {
    use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder as Builder;
    let read = |path: &Path| {
        let reader = Builder::try_new(std::fs::File::open(path).unwrap()).unwrap();
        reader.build().unwrap().map(|b| b.unwrap()).collect::<Vec<_>>()
    };
    let all: Vec<_> = opened(path).files.iter().flat_map(|f| read(&f.path)).collect();
    concat_batches(&all[0].schema(), &all).unwrap()
}

fn doubles(batch: &RecordBatch, name: &str) -> Vec<f64> {
    batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().values().to_vec()
}

#[test]
fn any_table_and_any_sink_give_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    for nulls in [Nulls::Error, Nulls::Drop, Nulls::Mean] {
        let rows = batches(nulls != Nulls::Error);
        let file = dataset(dir.path(), &rows);
        let memory = ArrowTable::try_new(rows.clone()).unwrap();
        let opened = reader(rows);
        let model = fitted(&file, nulls);
        let transform = Transform::default().keep(["id"]).diagnostics().residuals();
        let (expected, told) = collected(&transform.plan(&model, &file).unwrap());
        let dropped = if nulls == Nulls::Drop { N as u64 / 50 } else { 0 };
        let missing = if nulls == Nulls::Error { 0 } else { N as u64 / 50 };
        assert_eq!((told.rows_read, told.rows_dropped), (N as u64, dropped));
        assert_eq!((told.missing, told.overflowed), (missing, 0));
        assert_eq!(expected.num_rows() as u64, told.rows_written);
        let names: Vec<_> = expected.schema().fields().iter().map(|f| f.name().clone()).collect();
        let computed = ["pc1", "pc2", "reconstruction_error", "hotelling_t2"];
        let residuals = ["residual_a", "residual_b", "residual_c"];
        assert_eq!(names, [&["id"], &computed[..], &residuals].concat());
        for table in [&memory as &dyn Table, &opened] {
            for threads in [1, 3] {
                let transform = transform.clone().threads(threads);
                let (found, also) = collected(&transform.plan(&model, table).unwrap());
                assert_eq!((&found, &also), (&expected, &told), "{nulls:?}");
            }
        }
        for (name, table) in [("one.parquet", &memory as &dyn Table), ("many", &file)] {
            let output = ParquetOutput::new(dir.path().join(name));
            let applied = transform.plan(&model, table).unwrap();
            let applied = applied.write_parquet(&output, &Quiet).unwrap();
            assert_eq!(applied.files, if name == "many" { 3 } else { 1 });
            let found = written(&output.path);
            assert_eq!(found.columns(), expected.columns(), "{name} {nulls:?}");
        }
    }
}

#[test]
fn rows_of_no_file_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let table = ArrowTable::try_new(batches(false)).unwrap();
    let model = fitted(&table, Nulls::Error);
    let output = ParquetOutput::new(dir.path().join("out"));
    let plan = Transform::default().plan(&model, &table).unwrap();
    assert_eq!(plan.write_parquet(&output, &Quiet).unwrap().files, 1);
    assert_eq!(written(&output.path.join("part-000.parquet")).num_rows(), N);
}

#[test]
fn a_batch_in_memory_goes_the_same_way() {
    for nulls in [Nulls::Drop, Nulls::Mean] {
        let table = ArrowTable::try_new(batches(true)).unwrap();
        let model = fitted(&table, nulls);
        let (all, _) = collected(&Transform::default().plan(&model, &table).unwrap());
        let found = model.transform(&batch(0, 300, true)).unwrap();
        let rows = if nulls == Nulls::Drop { 294 } else { 300 };
        assert_eq!(found, all.slice(0, rows));
        let none = model.transform(&batch(0, 0, true)).unwrap();
        assert_eq!((none.num_rows(), none.num_columns()), (0, 2));
    }
    let table = ArrowTable::try_new(batches(false)).unwrap();
    let said = fitted(&table, Nulls::Error).transform(&batch(0, 9, true)).unwrap_err().to_string();
    assert!(said.contains("column 'b', row 3 (counted from 0): is null or NaN"), "{said}");
    assert!(said.ends_with("which keeps it without scores, drop or mean"), "{said}");
}

#[test]
fn lists_and_singles_hold_the_same_scores() {
    let rows = batch(0, 500, false);
    let model = fitted(&ArrowTable::from(rows.clone()), Nulls::Error);
    let plain = model.transform(&rows).unwrap();
    let options = Transform::default().layout(Layout::List).prefix("z").keep_all();
    let lists = model.transform_with(&options, &rows).unwrap();
    assert_eq!(lists.num_columns(), 5);
    let vectors = lists.column_by_name("z").unwrap().as_fixed_size_list();
    let numbers = vectors.values().as_primitive::<Float64Type>().values().to_vec();
    let both = doubles(&plain, "pc1").into_iter().zip(doubles(&plain, "pc2"));
    assert_eq!(numbers, both.flat_map(|(a, b)| [a, b]).collect::<Vec<_>>());
    let options = Transform::default().dtype(Dtype::F32).components(1);
    let single = model.transform_with(&options, &rows).unwrap();
    let single = single.column(0).as_primitive::<Float32Type>().values().to_vec();
    assert_eq!(single, doubles(&plain, "pc1").iter().map(|v| *v as f32).collect::<Vec<_>>());
}

#[test]
fn rows_come_back_from_rows_and_from_scores() {
    let rows = batch(0, 700, false);
    let table = ArrowTable::from(rows.clone());
    let fit = Fit::pca().columns(["a", "b", "c"]).components(3).standardize();
    let model = fit.plan(&table).unwrap().run(&Quiet).unwrap();
    let near = |found: &RecordBatch| {
        for name in ["a", "b", "c"] {
            let pairs = doubles(found, name).into_iter().zip(doubles(&rows, name));
            assert!(pairs.into_iter().all(|(x, y)| (x - y).abs() < 1e-10), "{name}");
        }
    };
    near(&model.reconstruct(&rows).unwrap());
    let again = model.reconstruct_with(&Reconstruct::default().keep_all(), &rows).unwrap();
    assert_eq!(again.schema().field(0).name(), "id");
    assert_eq!(again.num_columns(), 4);
    for layout in [Layout::Columns, Layout::List] {
        let scores = Transform::default().layout(layout);
        let scores = model.transform_with(&scores, &rows).unwrap();
        near(&model.reconstruct_with(&Reconstruct::default().from_scores(), &scores).unwrap());
    }
    let few = model.transform_with(&Transform::default().components(1), &rows).unwrap();
    let said = model.reconstruct_with(&Reconstruct::default().from_scores(), &few).unwrap_err();
    let expected = "column 'pc2': is not here; give components=1 to use the 1 score that are";
    assert!(said.to_string().ends_with(expected), "{said}");
}

#[test]
fn kernel_models_come_near_their_rows() {
    let rows = batch(0, 80, false);
    let table = ArrowTable::from(rows.clone());
    let fit = Fit::kpca(Kernel::Rbf { gamma: 0.05 }).columns(["a", "b", "c"]).components(6);
    let model = fit.plan(&table).unwrap().run(&Quiet).unwrap();
    let said = model.reconstruct(&rows).unwrap_err().to_string();
    assert!(said.starts_with("a kernel model has no reconstruction"), "{said}");
    let options = Reconstruct::default().preimage(Preimage::FixedPoint);
    let (found, applied) = collected(&options.plan(&model, &table).unwrap());
    assert_eq!(found.num_rows(), 80);
    let loss = applied.preimage.unwrap();
    assert!(loss.by == Preimage::FixedPoint && (0.0..1.0).contains(&loss.loss), "{loss:?}");
    let said = model.reconstruct_with(&Reconstruct::default().preimage(Preimage::Ridge), &rows);
    assert!(said.unwrap_err().to_string().starts_with("this model has learned no pre-image"));
}

#[test]
fn names_and_memory_are_checked_before_a_row_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dataset(dir.path(), &batches(false));
    let model = fitted(&file, Nulls::Error);
    let said = |transform: Transform| transform.plan(&model, &file).err().unwrap().to_string();
    let twice = said(Transform::default().keep(["id"]).layout(Layout::List).prefix("id"));
    assert!(twice.starts_with("the output would have two columns 'id'"), "{twice}");
    let unknown = said(Transform::default().keep(["ie"]));
    assert!(unknown.ends_with("no column 'ie'; did you mean 'id'?"), "{unknown}");
    assert!(said(Transform::default().components(0)).starts_with("components must be 1 or more"));
    let plan = Transform::default().memory(1_000_000).plan(&model, &file).unwrap();
    let output = ParquetOutput::new(dir.path().join("out"));
    let refused = plan.write_parquet(&output, &Quiet).unwrap_err().to_string();
    assert!(refused.contains("budget is 1.0 MB; allow memory="), "{refused}");
    assert!(matches!(plan.run(&mut Vec::new(), &Quiet), Err(Error::Budget { .. })));
    let over = ParquetOutput::new(dir.path().join("data"));
    let plan = Transform::default().plan(&model, &file).unwrap();
    let said = plan.write_parquet(&over, &Quiet).unwrap_err().to_string();
    assert!(said.starts_with("the output would replace the input"), "{said}");
}

/// Stops after so many rows, and keeps what it is told.
struct Stopper {
    after: u64,
    rows: AtomicU64,
    notes: Mutex<Vec<String>>,
}

impl Stopper {
    fn after(after: u64) -> Stopper {
        Stopper { after, rows: AtomicU64::new(0), notes: Mutex::default() }
    }
}

impl Listener for Stopper {
    fn note(&self, note: &Note) {
        self.notes.lock().unwrap().push(note.to_string());
    }

    fn advance(&self, items: u64, _bytes: u64) {
        self.rows.fetch_add(items, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.rows.load(Ordering::Relaxed) >= self.after
    }
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dataset(dir.path(), &batches(false));
    let model = fitted(&file, Nulls::Error);
    let plan = Transform::default().plan(&model, &file).unwrap();
    for name in ["one.parquet", "many"] {
        for after in [0, 20_000] {
            let output = ParquetOutput::new(dir.path().join(name));
            let stopped = plan.write_parquet(&output, &Stopper::after(after));
            assert!(matches!(stopped, Err(Error::Cancelled)));
            let left = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name());
            assert_eq!(left.collect::<Vec<_>>(), ["data"]);
        }
    }
}

#[test]
fn what_was_met_is_told() {
    let table = ArrowTable::try_new(batches(true)).unwrap();
    let model = fitted(&table, Nulls::Mean);
    let listener = Stopper::after(u64::MAX);
    let plan = Transform::default().components(7).plan(&model, &table).unwrap();
    plan.run(&mut Vec::new(), &listener).unwrap();
    let filled = "800 missing values filled with the training mean, as in the fit (nulls=mean)";
    let fewer = "asked for 7 components, the model has 2";
    assert_eq!(*listener.notes.lock().unwrap(), [fewer, filled]);
}

#[test]
fn a_resumed_run_tells_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let data = dataset(dir.path(), &batches(true));
    let model = fitted(&data, Nulls::Drop);
    let plan = Transform::default().plan(&model, &data).unwrap();
    let whole = plan.write_parquet(&ParquetOutput::new(dir.path().join("a")), &Quiet).unwrap();
    assert_eq!((whole.files, whole.rows_dropped), (3, 800));
    // A directory below one that is not there, with the first file complete when the run is killed.
    let output = ParquetOutput::new(dir.path().join("new/b"));
    let (names, key) = (plan.file_names(&output).unwrap(), plan.key(&output).unwrap());
    let staged = StagedDir::create(&output.path, names, key).unwrap();
    let first = std::fs::read(dir.path().join("a/f0.parquet")).unwrap();
    let mut part = staged.create_file(0).unwrap();
    part.write_all(&first).unwrap();
    staged.finish_file(0, &part).unwrap();
    staged.killed();
    let listener = Stopper::after(u64::MAX);
    let resumed = plan.write_parquet(&output, &listener).unwrap();
    assert_eq!(resumed.files_kept, 1);
    let alike = |s: &ApplySummary| (s.files, s.rows_read, s.rows_written, s.rows_dropped);
    assert_eq!(alike(&resumed), alike(&whole));
    let notes = listener.notes.lock().unwrap();
    let dropped = "800 rows of 40,000 dropped for nulls, as in the fit (nulls=drop)";
    assert_eq!(*notes, ["1 of 3 files complete already and kept", dropped]);
}

/// Fails at the second batch.
struct Failing<'a>(&'a AtomicU64);

impl Sink for Failing<'_> {
    fn write(&mut self, input: usize, batch: RecordBatch) -> Result<()> {
        assert!(input == 0 && batch.num_rows() > 0);
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Error::misuse("full"),
        }
    }

    fn finish(self) -> Result<()> {
        panic!("a sink that has failed is not finished")
    }
}

#[test]
fn a_sink_may_refuse() {
    let table = ArrowTable::try_new(batches(false)).unwrap();
    let model = fitted(&table, Nulls::Error);
    let writes = AtomicU64::new(0);
    let plan = Transform::default().plan(&model, &table).unwrap();
    assert_eq!(plan.run(Failing(&writes), &Quiet).unwrap_err().to_string(), "full");
    assert_eq!(writes.into_inner(), 2);
}
