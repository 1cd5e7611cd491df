//! Kernel matrices and distances that are given: against the kernel itself, scikit-learn, and the
//! definition of classical scaling.

use crate::kernel_scores::rows;
use crate::workdir::{Workdir, array, fixture, matrix as json_matrix};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field};
use eigenstream::{
    ArrowTable, Fit, Form, GivenLabels, Hsic, Kernel, KernelKind, KernelOptions, LabelOptions,
    Model, Nulls, Quiet, Table,
};
use ndarray::{Array2, Axis, s};
use std::sync::Arc;

const GAMMA: f64 = 0.08;

fn gram(x: &Array2<f64>, y: &Array2<f64>) -> Array2<f64> {
    distances(x, y).mapv(|d| (-GAMMA * d * d).exp())
}

fn distances(x: &Array2<f64>, y: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        (&x.row(i) - &y.row(j)).mapv(|v| v * v).sum().sqrt()
    })
}

/// One vector column `k`, with a class, a number and a weight for each row.
fn batch(values: &Array2<f64>) -> RecordBatch {
    let (n, width) = values.dim();
    let flat = Float64Array::from_iter_values(values.iter().copied());
    let item = Arc::new(Field::new("item", DataType::Float64, false));
    let vectors = FixedSizeListArray::try_new(item, width as i32, Arc::new(flat), None).unwrap();
    let class = (0..n).map(|i| ["a", "b", "c"][(i * i + i / 3) % 3]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(vectors)),
        ("class", Arc::new(StringArray::from_iter_values(class))),
        ("y", Arc::new(Float64Array::from_iter_values((0..n).map(|i| (i as f64 * 0.7).sin())))),
        ("w", Arc::new(Float64Array::from_iter_values((0..n).map(|i| 1.0 + (i % 3) as f64)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The rows with the same labels.
fn features(x: &Array2<f64>) -> ArrowTable {
    let mut table = ArrowTable::from(x.clone());
    for name in ["class", "y", "w"] {
        let column = batch(x).column_by_name(name).unwrap().clone();
        table = table.with_column(name, column).unwrap();
    }
    table
}

fn run(fit: Fit, table: &dyn Table) -> Model {
    fit.plan(table).unwrap().run(&Quiet).unwrap()
}

fn scores(model: &Model, batch: &RecordBatch) -> Array2<f64> {
    let found = model.transform(batch).unwrap();
    let column = |c: &ArrayRef| c.as_primitive::<Float64Type>().values().to_vec();
    let columns: Vec<f64> = found.columns().iter().flat_map(column).collect();
    Array2::from_shape_vec((found.num_columns(), found.num_rows()), columns).unwrap()
}

fn near(found: &Array2<f64>, expected: &Array2<f64>, tolerance: f64) {
    assert_eq!(found.dim(), expected.dim());
    for (a, b) in found.rows().into_iter().zip(expected.rows()) {
        let sign = a.dot(&b).signum();
        let off = a.iter().zip(&b).fold(0.0f64, |m, (a, b)| m.max((sign * a - b).abs()));
        assert!(off < tolerance, "{off}");
    }
}

/// Everything that compares rows gives the same with the matrix of their kernel.
#[test]
fn a_given_matrix_is_the_kernel_it_was_made_by() {
    let (x, new) = (rows(60, 4, 1.0), rows(13, 4, 1.3));
    let (of_rows, given) = (features(&x), ArrowTable::from(batch(&gram(&x, &x))));
    let new_given = batch(&gram(&new, &x));
    let new_rows = eigenstream::matrix_batch(new);
    let rbf = KernelOptions::from(Kernel::Rbf { gamma: GAMMA });
    let precomputed = KernelOptions::from(KernelKind::Precomputed);
    let kinds = |of: &dyn Fn(KernelOptions) -> Fit| {
        let direct = of(rbf.clone()).columns(["x*"]);
        (direct, of(precomputed.clone()).columns(["k"]))
    };
    let fits = [
        kinds(&|k| Fit::kpca(k).components(4)),
        kinds(&|k| Fit::kpca(k).components(4).weight("w")),
        kinds(&|k| Fit::kspca(k, ["class"]).components(2)),
        kinds(&|k| Fit::kspca(k, ["class"]).components(2).form(Form::Direct).center_scores()),
        kinds(&|k| Fit::kspca(k, ["y"]).components(1).weight("w")),
    ];
    for (direct, by_matrix) in fits {
        let (expected, found) = (run(direct, &of_rows), run(by_matrix, &given));
        let values = expected.eigenvalues.iter().zip(&found.eigenvalues);
        let k = expected.n_components();
        values.take(k).for_each(|(a, b)| assert!((a - b).abs() < 1e-12 * expected.eigenvalues[0]));
        near(&scores(&found, &new_given), &scores(&expected, &new_rows), 1e-9);
        // It is read back as it was written.
        let dir = Workdir::new();
        found.save(dir.path("m")).unwrap();
        let read = Model::load(dir.path("m")).unwrap();
        assert_eq!(read.kernel_map(), found.kernel_map());
        assert_eq!(scores(&read, &new_given), scores(&found, &new_given));
    }
    let labels = [LabelOptions::from(["class"]), LabelOptions::from(["y"])];
    for labels in labels {
        for permutations in [0, 19] {
            let ask = |kernel: &KernelOptions, columns: &str| {
                let hsic = Hsic::new(labels.clone()).kernel(kernel.clone()).columns([columns]);
                hsic.permutations(permutations)
            };
            let direct = ask(&rbf, "x*").plan(&of_rows, None).unwrap().run(&Quiet).unwrap();
            let found = ask(&precomputed, "k").plan(&given, None).unwrap().run(&Quiet).unwrap();
            assert!((direct.hsic / found.hsic - 1.0).abs() < 1e-12);
            assert_eq!(direct.p_value(), found.p_value());
            let both = direct.shuffled.iter().zip(&found.shuffled);
            both.for_each(|(a, b)| assert!((a - b).abs() < 1e-12 * direct.hsic));
        }
    }
}

/// B = −½ H D² H, its eigenvectors times √λ: for Euclidean distances that is PCA.
#[test]
fn distances_are_scaled_as_classical_scaling_defines() {
    let x = rows(40, 5, 3.0);
    let (n, k) = (40, 3);
    let d = distances(&x, &x);
    let h = Array2::eye(n) - 1.0 / n as f64;
    let b = h.dot(&d.mapv(|d| -0.5 * d * d)).dot(&h);
    let (values, vectors) = crate::oracle::eigh((&b + &b.t()) / 2.0);
    let sigma = values.slice(s![n - k..;-1]).mapv(f64::sqrt).insert_axis(Axis(1));
    let expected = &vectors.slice(s![n - k..;-1, ..]) * &sigma;
    let (given, table) = (batch(&d), ArrowTable::from(batch(&d)));
    let fit = Fit::kpca(KernelKind::Distances).columns(["k"]).components(k);
    let model = run(fit.clone(), &table);
    near(&scores(&model, &given), &expected, 1e-9);
    // Out of sample, too, it is what PCA does with the rows themselves.
    let new = rows(9, 5, 3.4);
    let pca = run(Fit::pca().components(k), &ArrowTable::from(x.clone()));
    let plain = scores(&pca, &eigenstream::matrix_batch(new.clone()));
    near(&scores(&model, &batch(&distances(&new, &x))), &plain, 1e-9);
    // Distances that no points have leave negative eigenvalues, which are counted.
    let round = d.mapv(|d| d.min(4.0));
    let model = run(fit, &ArrowTable::from(batch(&round)));
    assert!(model.header.kernel.as_ref().unwrap().negative_eigenvalues > 0);
}

/// `fixtures/golden/given_kernel.py`: scikit-learn's KernelPCA(kernel="precomputed") and
/// ClassicalMDS.
#[test]
fn it_is_what_scikit_learn_finds() {
    let golden = std::fs::read_to_string(fixture("golden/given_kernel.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
    let (k, new) = (json_matrix(&golden["kernel"]), json_matrix(&golden["new"]));
    let fit = Fit::kpca(KernelKind::Precomputed).columns(["k"]).components(4);
    let model = run(fit, &ArrowTable::from(batch(&k)));
    let values = array(&golden["eigenvalues"]);
    let both = model.eigenvalues.iter().zip(&values);
    both.for_each(|(a, b)| assert!((a - b).abs() < 1e-12 * values[0], "{a} {b}"));
    let of = |name: &str| json_matrix(&golden[name]).reversed_axes();
    near(&scores(&model, &batch(&k)), &of("scores"), 1e-10);
    near(&scores(&model, &batch(&new)), &of("new_scores"), 1e-10);
    let d = json_matrix(&golden["distances"]);
    let fit = Fit::kpca(KernelKind::Distances).columns(["k"]).components(2);
    let model = run(fit, &ArrowTable::from(batch(&d)));
    near(&scores(&model, &batch(&d)), &of("scaled"), 1e-9);
}

/// Past 1,500 rows the matrix is no more held, but read from the file at every product.
#[test]
fn a_matrix_on_disk_is_read_at_every_product() {
    let (n, k) = (1_600, 3);
    let x = rows(n, 3, 0.0);
    let dir = Workdir::new();
    let batch = batch(&gram(&x, &x));
    let schema = batch.schema();
    let names = schema.fields().iter().map(|f| f.name().clone());
    dir.table("k.parquet", names.zip(batch.columns().iter().cloned()).collect(), 200);
    let data = eigenstream::Dataset::from_paths(&[dir.path("k.parquet").display().to_string()]);
    let fit = Fit::kpca(KernelKind::Precomputed).columns(["k"]).components(k).threads(2);
    let model = run(fit, &data.unwrap());
    assert!(model.header.certificate.iteration.is_some());
    let direct = Fit::kpca(Kernel::Rbf { gamma: GAMMA }).components(k);
    let expected = run(direct, &ArrowTable::from(x.clone()));
    let both = model.eigenvalues.iter().zip(&expected.eigenvalues).take(k);
    both.for_each(|(a, b)| assert!((a - b).abs() < 1e-8 * b, "{a} {b}"));
}

#[test]
fn what_is_no_kernel_matrix_is_refused_by_name() {
    let x = rows(30, 3, 0.5);
    let k = gram(&x, &x);
    let refused = |fit: Fit, values: &Array2<f64>| {
        let table = ArrowTable::from(batch(values));
        let planned = fit.columns(["k"]).plan(&table).map(|plan| plan.run(&Quiet));
        planned.and_then(|run| run).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let precomputed = || Fit::kpca(KernelKind::Precomputed);
    let mut skew = k.clone();
    skew[[17, 4]] = 0.25;
    let said = refused(precomputed(), &skew);
    let (a, b) = (skew[[4, 17]], 0.25);
    assert!(said.contains(&format!("row 4 has {a} for row 17, which has {b} for row 4")), "{said}");
    // What rounding does to a matrix is no reason.
    let mut rounded = k.clone();
    rounded[[17, 4]] *= 1.0 + 1e-12;
    assert_eq!(refused(precomputed(), &rounded), "");
    let said = refused(precomputed(), &k.slice(s![..20, ..]).to_owned());
    assert!(said.contains("takes a square matrix") && said.contains("20 rows have 30"), "{said}");
    let far = || Fit::kpca(KernelKind::Distances);
    assert!(refused(far(), &k).contains("to itself is 1, not 0"));
    let mut negative = distances(&x, &x);
    negative[[3, 5]] = -1.0;
    assert!(refused(far(), &negative).contains("the distance to row 5 is -1"));
    for fit in [
        precomputed().standardize(),
        precomputed().nulls(Nulls::Drop),
        precomputed().score_by("y", eigenstream::Keep::Features(2)),
    ] {
        assert!(refused(fit, &k).contains("only their values with each other"));
    }
    let model = run(precomputed().columns(["k"]), &ArrowTable::from(batch(&k)));
    let table = ArrowTable::from(batch(&k));
    let plan = eigenstream::Transform::default().diagnostics().plan(&model, &table).err();
    assert!(plan.unwrap().to_string().contains("k(x, x)"));
}

fn given_labels(matrix: Array2<f64>) -> LabelOptions {
    GivenLabels { name: "K_y".into(), matrix: Arc::new(matrix) }.into()
}

/// K_y of the labels' own kernels gives what the kernels give.
#[test]
fn a_given_kernel_over_labels_is_the_kernel_it_was_made_by() {
    let x = rows(50, 6, 2.0);
    let table = features(&x);
    let batch = batch(&x);
    let class = batch.column_by_name("class").unwrap().as_string::<i32>().clone();
    let y = batch.column_by_name("y").unwrap().as_primitive::<Float64Type>().clone();
    let delta = Array2::from_shape_fn((50, 50), |(i, j)| {
        f64::from(u8::from(class.value(i) == class.value(j)))
    });
    let linear = Array2::from_shape_fn((50, 50), |(i, j)| y.value(i) * y.value(j));
    let rbf = KernelOptions::from(Kernel::Rbf { gamma: GAMMA });
    for (by_column, matrix, k) in [("class", delta, 2), ("y", linear, 1)] {
        let labels = given_labels(matrix);
        let own = || LabelOptions::from([by_column]);
        let fits: [(Fit, Fit); 6] = [
            (Fit::spca(own()), Fit::spca(labels.clone())),
            (Fit::spca(own()).uncentered(), Fit::spca(labels.clone()).uncentered()),
            (Fit::spca(own()).weight("w"), Fit::spca(labels.clone()).weight("w")),
            (
                Fit::spca(LabelOptions { with_variance: true, ..own() }).standardize(),
                Fit::spca(LabelOptions { with_variance: true, ..labels.clone() }).standardize(),
            ),
            (Fit::kspca(rbf.clone(), own()), Fit::kspca(rbf.clone(), labels.clone())),
            (
                Fit::kspca(rbf.clone(), own()).weight("w").form(Form::Direct),
                Fit::kspca(rbf.clone(), labels.clone()).weight("w").form(Form::Direct),
            ),
        ];
        let new = eigenstream::matrix_batch(rows(7, 6, 1.5));
        for (direct, by_matrix) in fits {
            let expected = run(direct.columns(["x*"]).components(k), &table);
            let found = run(by_matrix.columns(["x*"]).components(k), &table);
            let largest = expected.eigenvalues[0];
            let both = expected.eigenvalues.iter().zip(&found.eigenvalues).take(k);
            both.for_each(|(a, b)| assert!((a - b).abs() < 1e-11 * largest, "{a} {b}"));
            near(&scores(&found, &new), &scores(&expected, &new), 1e-8);
            let (a, b) = (expected.header.hsic.unwrap(), found.header.hsic.unwrap());
            assert!((a / b - 1.0).abs() < 1e-11, "{a} {b}");
        }
        for kernel in [KernelOptions::from(KernelKind::Linear), rbf.clone()] {
            for permutations in [0, 9] {
                let ask = |labels: LabelOptions| {
                    let hsic = Hsic::new(labels).kernel(kernel.clone()).columns(["x*"]);
                    hsic.permutations(permutations).plan(&table, None).unwrap().run(&Quiet).unwrap()
                };
                let (direct, found) = (ask(own()), ask(labels.clone()));
                assert!((direct.hsic / found.hsic - 1.0).abs() < 1e-11);
                assert_eq!(direct.p_value(), found.p_value());
            }
        }
    }
}

#[test]
fn a_given_kernel_over_labels_must_be_one_of_these_rows() {
    let x = rows(20, 3, 0.0);
    let table = features(&x);
    let refused = |matrix: Array2<f64>, nulls: Nulls| {
        let fit = Fit::spca(given_labels(matrix)).columns(["x*"]).nulls(nulls);
        fit.plan(&table).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let k = gram(&x, &x);
    assert_eq!(refused(k.clone(), Nulls::Error), "");
    assert_eq!(refused(k.clone(), Nulls::Mean), "");
    assert!(refused(k.clone(), Nulls::Drop).contains("would leave rows out"));
    let part = k.slice(s![..10, ..10]).to_owned();
    assert!(refused(part, Nulls::Error).contains("is 10 × 10, but there are 20 rows of data"));
    assert!(refused(-&k, Nulls::Error).contains("is no kernel: its least eigenvalue is -"));
    let mut skew = k.clone();
    skew[[2, 7]] += 0.5;
    let said = refused(skew, Nulls::Error);
    assert!(said.starts_with("K_y: the matrix is not symmetric: row 2 has"), "{said}");
    let missing = LabelOptions {
        kernel: Some(eigenstream::LabelKernel::Precomputed),
        ..LabelOptions::default()
    };
    let said = Fit::spca(missing).columns(["x*"]).plan(&table).err().unwrap().to_string();
    assert!(said.contains("takes the matrix of the kernel"), "{said}");
    // Read from a table, as the command line does.
    let read = eigenstream::read_kernel_matrix(
        &ArrowTable::from(batch(&k)).with_column("no", batch(&k).column(1).clone()).unwrap(),
        None,
        &Quiet,
    );
    assert!(read.err().unwrap().to_string().contains("takes a square matrix"));
    let read = eigenstream::read_kernel_matrix(&ArrowTable::from(k.clone()), None, &Quiet).unwrap();
    assert_eq!(read, k);
    // Of f32 numbers, what their rounding does to a mirror image is no reason, then or later.
    let single = |values: &Array2<f64>| {
        let column = |j: usize| -> ArrayRef {
            Arc::new(Float32Array::from_iter_values(values.column(j).iter().map(|v| *v as f32)))
        };
        let columns = (0..values.ncols()).map(|j| (format!("k{j}"), column(j)));
        ArrowTable::from(RecordBatch::try_from_iter(columns).unwrap())
    };
    let mut rounded = k.clone();
    rounded[[5, 2]] *= 1.0 + 1e-6;
    let read = eigenstream::read_kernel_matrix(&single(&rounded), None, &Quiet).unwrap();
    assert_eq!(read, read.t());
    assert_eq!(refused(read, Nulls::Error), "");
    let mut hole = k.clone();
    hole[[3, 4]] = f64::NAN;
    let said = eigenstream::read_kernel_matrix(&ArrowTable::from(hole.clone()), None, &Quiet);
    assert!(said.err().unwrap().to_string().contains("row 3"));
    let fit = Fit::kpca(KernelKind::Precomputed);
    let table = ArrowTable::from(hole);
    let said = fit.plan(&table).unwrap().run(&Quiet).err().unwrap().to_string();
    assert!(said.contains("leave the row out, and its column"), "{said}");
}
