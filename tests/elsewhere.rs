//! Fits of rows that others hold: passes that go out as bytes, HSIC of a state, and a kernel model of
//! a sample with the components of all rows.

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use eigenstream::{
    Approximate, ArrowTable, ColumnOptions, Error, Fit, Form, Gamma, Hsic, KernelKind,
    KernelOptions, PassSums, Passes, Quiet, Result, Scan, Transform, matrix_batch,
};
use ndarray::Array2;
use std::sync::{Arc, Mutex};

fn rows(n: usize, d: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, d), |(i, j)| {
        ((i * (j + 3)) as f64 * 0.37).sin() * (d - j) as f64 + ((i * i + j) as f64 * 0.11).cos()
    })
}

/// Batches that go through bytes on their way, as another machine would send them.
struct Others {
    batches: Vec<RecordBatch>,
    seen: Mutex<Vec<Vec<u8>>>,
}

impl Passes for Others {
    fn fold(&self, empty: PassSums) -> Result<PassSums> {
        let bytes = empty.to_bytes()?;
        self.seen.lock().unwrap().push(bytes.clone());
        let mut total: Option<PassSums> = None;
        for batch in &self.batches {
            let mut part = PassSums::from_bytes(&bytes)?;
            part.update(batch)?;
            let part = PassSums::from_bytes(&part.to_bytes()?)?;
            match &mut total {
                None => total = Some(part),
                Some(total) => total.merge(part)?,
            }
        }
        total.ok_or_else(|| Error::Misuse("no batches".into()))
    }
}

fn in_parts(x: &Array2<f64>, parts: usize) -> Vec<RecordBatch> {
    let batch = matrix_batch(x.clone());
    let step = x.nrows().div_ceil(parts);
    (0..x.nrows()).step_by(step).map(|i| batch.slice(i, step.min(x.nrows() - i))).collect()
}

fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(1e-300f64, |m, v| m.max(v.abs()));
    a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() <= tolerance * scale, "{a} {b}"));
}

#[test]
fn passes_of_others_give_the_same_model() {
    let x = rows(900, 60);
    let batches = in_parts(&x, 7);
    let others = Others { batches: batches.clone(), seen: Mutex::default() };
    let table = ArrowTable::try_new(batches).unwrap();
    let fit = || Fit::pca().form(Form::Randomized).components(3);
    for fit in [fit(), fit().standardize()] {
        let plan = fit.plan(&table).unwrap();
        let (here, there) = (plan.run(&Quiet).unwrap(), plan.run_by(&others, &Quiet).unwrap());
        close(&there.eigenvalues.to_vec(), &here.eigenvalues.to_vec(), 1e-12);
    }
    assert!(others.seen.lock().unwrap().len() > 2);
    let primal = Fit::pca().form(Form::Primal);
    assert!(primal.plan(&table).unwrap().run_by(&others, &Quiet).is_err());
}

#[test]
fn sums_of_a_pass_are_whole_or_refused() {
    let others = Others { batches: in_parts(&rows(80, 9), 2), seen: Mutex::default() };
    let table = ArrowTable::try_new(others.batches.clone()).unwrap();
    for k in [2, 4] {
        let fit = Fit::pca().form(Form::Randomized).components(k).standardize();
        fit.plan(&table).unwrap().run_by(&others, &Quiet).unwrap();
    }
    let seen = others.seen.into_inner().unwrap();
    for bytes in &seen {
        assert_eq!(&PassSums::from_bytes(bytes).unwrap().to_bytes().unwrap(), bytes);
        for at in (0..bytes.len()).step_by(7) {
            let mut mutated = bytes.clone();
            mutated[at] ^= 1 << (at % 8);
            let read = PassSums::from_bytes(&mutated);
            assert!(read.is_err() || read.unwrap().to_bytes().unwrap() == *bytes, "byte {at}");
            assert!(PassSums::from_bytes(&bytes[..at]).is_err());
        }
    }
    // The first pass of the one fit, and the second: different operands.
    let mut first = PassSums::from_bytes(&seen[0]).unwrap();
    let other = seen.iter().map(|bytes| PassSums::from_bytes(bytes).unwrap());
    let mut other = other.filter(|sums| sums.about.operand != first.about.operand);
    let other = other.next().unwrap();
    let said = first.merge(other).unwrap_err().to_string();
    assert!(said.contains("of different fits, or of different operands"), "{said}");
}

/// Sums of the columns x0, x1, …
fn features_only() -> Scan {
    let columns = ColumnOptions { include: vec!["x*".into()], ..ColumnOptions::default() };
    Scan { columns, ..Scan::new() }
}

#[test]
fn a_state_knows_the_hsic_of_its_rows() {
    let x = rows(240, 5);
    let column = |j: usize| Arc::new(Float64Array::from(x.column(j).to_vec())) as ArrayRef;
    let names: Vec<&str> = (0..240).map(|i| ["a", "b", "c"][i * i % 3]).collect();
    let kind: ArrayRef = Arc::new(StringArray::from(names));
    let y: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..240).map(|i| x[[i, 0]] + (i % 7) as f64)));
    let features = (0..5).map(|j| (format!("x{j}"), column(j)));
    let columns: Vec<(String, ArrayRef)> =
        features.chain([("kind".into(), kind), ("y".into(), y)]).collect();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = ArrowTable::try_new(vec![batch.clone()]).unwrap();
    for label in ["kind", "y"] {
        let scan = features_only().labels([label]);
        let mut state = scan.empty(batch.schema()).unwrap();
        state.update(&batch.slice(0, 100)).unwrap();
        state.update(&batch.slice(100, 140)).unwrap();
        let found = state.hsic(&Fit::spca([label])).unwrap();
        let hsic = Hsic::new([label]).columns(["x*"]);
        let expected = hsic.plan(&table, None).unwrap().run(&Quiet).unwrap();
        assert_eq!((found.rows, found.features), (240, 5));
        close(&[found.hsic], &[expected.hsic], 1e-12);
    }
    let mut unlabelled = features_only().empty(batch.schema()).unwrap();
    unlabelled.update(&batch).unwrap();
    assert!(unlabelled.hsic(&Fit::spca(["kind"])).is_err());
}

/// As many landmarks as rows say all that a kernel says of them: its model of some of the rows, with
/// the components of the scores of all, is kernel PCA of all.
#[test]
fn a_sample_decides_on_landmarks_and_all_rows_on_components() {
    let x = rows(120, 4);
    let table = ArrowTable::try_new(vec![matrix_batch(x.clone())]).unwrap();
    let kernel = |count: Option<usize>| KernelOptions {
        kind: Some(KernelKind::Rbf),
        gamma: Some(Gamma::Value(0.05)),
        approximation: count
            .map(|count| Approximate::Landmarks { count, choice: Default::default() }),
        ..KernelOptions::default()
    };
    let run = |fit: Fit, table: &ArrowTable| fit.plan(table).unwrap().run(&Quiet).unwrap();
    let exact = run(Fit::kpca(kernel(None)).components(4), &table);
    let sampled = run(Fit::kpca(kernel(Some(120))).components(120), &table);
    let mut scores = Vec::new();
    Transform::default().plan(&sampled, &table).unwrap().run(&mut scores, &Quiet).unwrap();
    let of_scores = ArrowTable::try_new(scores).unwrap();
    let linear = run(Fit::pca().components(4), &of_scores);
    let model = sampled.recombined(&linear).unwrap();
    close(&model.eigenvalues.to_vec()[..4], &exact.eigenvalues.to_vec()[..4], 1e-9);
    assert_eq!(model.n_components(), 4);
    assert!(linear.recombined(&sampled).is_err(), "no kernel model");
    assert!(sampled.recombined(&run(Fit::pca().components(2), &table)).is_err(), "other columns");
}
