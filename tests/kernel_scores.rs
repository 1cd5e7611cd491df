//! Scores of kernel methods through the library: what is centred, and how many digits are right.

use crate::workdir::{array, fixture, matrix as json_matrix};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Float64Array, RecordBatch, StringArray};
use eigenstream::{
    Approximate, ArrowTable, Fit, Kernel, KernelOptions, LabelKernel, LabelOptions, Model, Quiet,
    matrix_batch,
};
use ndarray::{Array1, Array2, Axis, s};
use std::sync::Arc;

/// Rows away from the origin, of no structure.
pub(crate) fn rows(n: usize, d: usize, mean: f64) -> Array2<f64> {
    Array2::from_shape_fn((n, d), |(i, j)| {
        ((i * 37 + j * 53 + i * i * (j + 2)) % 101) as f64 / 25.0 - 2.0 + mean
    })
}

/// rows × k.
fn matrix(batch: &RecordBatch) -> Array2<f64> {
    let columns: Vec<f64> = batch
        .columns()
        .iter()
        .flat_map(|c| c.as_primitive::<Float64Type>().values().to_vec())
        .collect();
    let shape = (batch.num_columns(), batch.num_rows());
    Array2::from_shape_vec(shape, columns).unwrap().reversed_axes()
}

fn fitted(fit: Fit, table: &ArrowTable) -> Model {
    fit.plan(table).unwrap().run(&Quiet).unwrap()
}

fn scores(model: &Model, x: &Array2<f64>) -> Array2<f64> {
    matrix(&model.transform(&matrix_batch(x.clone())).unwrap())
}

fn gram(x: &Array2<f64>, y: &Array2<f64>, gamma: f64) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        let difference = &x.row(i) - &y.row(j);
        (-gamma * difference.dot(&difference)).exp()
    })
}

/// The largest difference, each column up to its sign.
fn off(found: &Array2<f64>, expected: &Array2<f64>) -> f64 {
    assert_eq!(found.dim(), expected.dim());
    let columns = found.columns().into_iter().zip(expected.columns());
    let most = |(a, b): (ndarray::ArrayView1<'_, f64>, ndarray::ArrayView1<'_, f64>)| {
        let sign = a.dot(&b).signum();
        a.iter().zip(&b).fold(0.0f64, |m, (a, b)| m.max((sign * a - b).abs()))
    };
    columns.map(most).fold(0.0, f64::max)
}

/// K_y = I: Σ⁻¹VᵀH k, the seed's out-of-sample projection of kernel supervised PCA with Δ = I.
#[test]
fn identity_labels_give_the_uncentred_scores_of_every_other_label_kernel() {
    let (n, k, gamma) = (40, 3, 0.05);
    let (x, new) = (rows(n, 4, 3.0), rows(15, 4, 2.2));
    let each: Vec<String> = (0..n).map(|i| format!("row {i}")).collect();
    let table = ArrowTable::from(x.clone())
        .with_column("id", Arc::new(StringArray::from(each)))
        .unwrap()
        .with_column("w", Arc::new(Float64Array::from(vec![1.0; n])))
        .unwrap();
    let h = Array2::eye(n) - 1.0 / n as f64;
    let (values, vectors) = crate::oracle::eigh(h.dot(&gram(&x, &x, gamma)).dot(&h));
    let top = vectors.slice(s![n - k..;-1, ..]);
    let sigma = values.slice(s![n - k..;-1]).mapv(f64::sqrt).insert_axis(Axis(1));
    let theta = top.dot(&h) / &sigma;
    let expected = |t: &Array2<f64>| theta.dot(&gram(&x, t, gamma)).reversed_axes();
    let labels = |kernel| LabelOptions { kernel: Some(kernel), ..LabelOptions::from(["id"]) };
    for kernel in [LabelKernel::Identity, LabelKernel::Delta] {
        for weighted in [false, true] {
            let mut fit = Fit::kspca(Kernel::Rbf { gamma }, labels(kernel)).components(k);
            fit = fit.columns(["x*"]);
            if weighted {
                fit = fit.weight("w");
            }
            let model = fitted(fit.clone(), &table);
            assert!(!model.header.center, "{kernel:?}");
            assert!(off(&scores(&model, &new), &expected(&new)) < 1e-9, "{kernel:?}");
            // Centred, if that is asked for, and the model says so.
            let centred = fitted(fit.center_scores(), &table);
            assert!(centred.header.center);
            let mean = expected(&x).mean_axis(Axis(0)).unwrap();
            let (found, plain) = (scores(&centred, &new), expected(&new) - &mean);
            assert!(off(&found, &plain) < 1e-9, "{kernel:?}");
            let sums: Array1<f64> = scores(&centred, &x).sum_axis(Axis(0));
            assert!(sums.iter().all(|s| s.abs() < 1e-9), "{sums}");
        }
    }
}

#[test]
fn centred_scores_move_the_centroids_too_and_belong_to_kspca() {
    let (n, x) = (30, rows(30, 3, 1.0));
    let kind: Vec<&str> = (0..n).map(|i| ["a", "b", "c"][i % 3]).collect();
    let table =
        ArrowTable::from(x.clone()).with_column("kind", Arc::new(StringArray::from(kind))).unwrap();
    let fit = Fit::kspca(Kernel::Rbf { gamma: 0.3 }, ["kind"]).components(2).center_scores();
    let model = fitted(fit.columns(["x*"]), &table);
    let z = scores(&model, &x);
    for (c, class) in model.header.label.as_ref().unwrap().classes.iter().enumerate() {
        let mean = z.slice(s![c..;3, ..]).mean_axis(Axis(0)).unwrap();
        assert!(class.centroid.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-12));
    }
    for fit in [Fit::pca(), Fit::kpca(Kernel::Cosine), Fit::spca(["kind"])] {
        let refused = fit.columns(["x*"]).center_scores().plan(&table).err().unwrap().to_string();
        assert!(refused.contains("center_scores is of kspca"), "{refused}");
    }
}

/// Clusters 7,000 from the origin whose rows are about 1 apart, against 50 digits of mpmath
/// (`fixtures/golden/rbf_far.py`).
#[test]
fn close_rows_far_from_the_origin_keep_their_digits() {
    let golden = std::fs::read_to_string(fixture("golden/rbf_far.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let (x, expected) = (json_matrix(&golden["rows"]), json_matrix(&golden["scores"]));
    let values = array(&golden["eigenvalues"]);
    let fit = Fit::kpca(Kernel::Rbf { gamma: 1.0 }).components(values.len());
    let model = fitted(fit, &ArrowTable::from(x.clone()));
    for (found, value) in model.eigenvalues.iter().zip(&values) {
        assert!((found - value).abs() < 1e-14 * values[0], "{found} against {value}");
    }
    let (found, most) = (scores(&model, &x), 2e-13);
    let worst = off(&found, &expected);
    assert!(worst < most, "{worst}");
}

/// Notes, as sentences.
#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<String>>);

impl eigenstream::Listener for Heard {
    fn note(&self, note: &eigenstream::Note) {
        self.0.lock().unwrap().push(note.to_string());
    }
}

#[test]
fn a_kernel_that_says_nothing_is_told() {
    let table = ArrowTable::from(rows(40, 5, 100.0));
    let labelled = |table: ArrowTable| {
        let kind = StringArray::from_iter_values((0..40).map(|i| ["a", "b"][i % 2]));
        table.with_column("kind", Arc::new(kind)).unwrap()
    };
    let told = |fit: Fit, table: &ArrowTable| {
        let heard = Heard::default();
        let _ = fit.plan(table).unwrap().run(&heard);
        heard.0.into_inner().unwrap().join("\n")
    };
    let rbf = |gamma| Kernel::Rbf { gamma };
    let table = labelled(table);
    for (gamma, words) in [(1e3, "no row is like another"), (1e-9, "all rows are alike")] {
        let by = |approximation| {
            let approximation = Some(approximation);
            Fit::kpca(KernelOptions { approximation, ..rbf(gamma).into() }).components(2)
        };
        let landmarks = by(Approximate::Landmarks { count: 20, choice: Default::default() });
        let random = by(Approximate::Fourier(20));
        let exact = [Fit::kpca(rbf(gamma)), Fit::kspca(rbf(gamma), ["kind"])];
        for fit in exact.into_iter().chain([landmarks, random]) {
            let said = told(fit.columns(["x*"]), &table);
            assert!(said.contains(words) && said.contains("gamma"), "{gamma}: {said}");
        }
    }
    let said = told(Fit::kpca(rbf(0.1)).columns(["x*"]), &table);
    assert!(!said.contains("alike") && !said.contains("no row is like"), "{said}");
}
