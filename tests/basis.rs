//! A fit along directions that are given: against the fit that found them, and the dense
//! definition.

use crate::kernel_scores::rows;
use crate::oracle::two_pass;
use crate::workdir::close;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use eigenstream::{
    ArrowTable, Components, Fit, KernelKind, Listener, Method, Model, Note, Nulls, Quiet, Table,
    matrix_batch,
};
use ndarray::{Array1, Array2, Axis, array, s};
use std::sync::{Arc, Mutex};

const D: usize = 6;

fn run(fit: Fit, table: &dyn Table) -> Model {
    fit.plan(table).unwrap().run(&Quiet).unwrap()
}

fn of(x: &Array2<f64>) -> ArrowTable {
    ArrowTable::from(x.clone())
}

/// Rows of unequal spread and a mean of their own.
fn old() -> Array2<f64> {
    rows(80, D, 0.3) * &array![3.0, 1.0, 2.0, 0.5, 1.5, 1.0] + 2.0
}

/// Other rows: turned, stretched, elsewhere.
fn new() -> Array2<f64> {
    let turn = Array2::from_shape_fn((D, D), |(i, j)| ((i * 5 + j * 3) as f64).sin());
    rows(61, D, 1.7).dot(&turn) + &array![10.0, -3.0, 0.0, 7.0, 1.0, 100.0]
}

/// The fits whose directions can be kept.
fn fits() -> Vec<Fit> {
    let kept = [
        Fit::pca(),
        Fit::pca().standardize(),
        Fit::pca().uncentered(),
        Fit::pca().uncentered().standardize(),
        Fit::kpca(KernelKind::Linear),
    ];
    kept.into_iter().map(|fit| fit.components(3)).collect()
}

/// What the definition says: μ, deviations, diag(U A Uᵀ)/(W−1), trace A/(W−1).
fn dense(model: &Model, x: &Array2<f64>, w: &Array1<f64>) -> (Model, Vec<f64>, f64) {
    let sums = two_pass(x, w);
    let freedom = sums.weight - 1.0;
    let mut a = sums.s.clone();
    if !model.header.center {
        let column = sums.mean.clone().insert_axis(Axis(1));
        a = a + column.dot(&column.t()) * sums.weight;
    }
    let mut expected = model.clone();
    if model.header.standardize {
        let scale = sums.s.diag().mapv(|v| (v / freedom).sqrt());
        a = a / &scale / scale.view().insert_axis(Axis(1));
        expected.scale = Some(scale);
    }
    expected.mean = sums.mean;
    let u = model.components().unwrap();
    let variances = u.dot(&a).dot(&u.t()).diag().mapv(|v| v / freedom).to_vec();
    (expected, variances, a.diag().sum() / freedom)
}

fn is_dense(found: &Model, basis: &Model, x: &Array2<f64>, w: &Array1<f64>) {
    let (expected, variances, total) = dense(basis, x, w);
    assert_eq!(found.components(), basis.components());
    close(&found.mean, &expected.mean, 1e-13, 100.0);
    assert_eq!(found.scale.is_some(), expected.scale.is_some());
    close(found.scale.iter().flatten(), expected.scale.iter().flatten(), 1e-12, 10.0);
    close(&found.explained_variance().unwrap(), &variances, 1e-12, total);
    close([&found.header.total_variance.unwrap()], [&total], 1e-12, total);
    let ratio: Vec<f64> = variances.iter().map(|v| v / total).collect();
    close(&found.explained_variance_ratio().unwrap(), &ratio, 1e-12, 1.0);
}

#[test]
fn on_its_own_rows_a_model_comes_back() {
    for fit in fits() {
        let table = of(&old());
        let model = run(fit, &table);
        let again = run(Fit::along(&model).unwrap(), &table);
        assert_eq!(again.components(), model.components());
        close(&again.mean, &model.mean, 1e-14, 10.0);
        close(again.scale.iter().flatten(), model.scale.iter().flatten(), 1e-14, 10.0);
        let total = model.header.total_variance.unwrap();
        let both = |m: &Model| m.explained_variance().unwrap();
        close(&both(&again), &both(&model), 1e-13, total);
        let both = |m: &Model| m.explained_variance_ratio().unwrap();
        close(&both(&again), &both(&model), 1e-13, 1.0);
        let certificate = &again.header.certificate;
        assert!(certificate.max_residual < 1e-12, "{certificate:?}");
        assert!(certificate.score_correlation.unwrap() < 1e-12, "{certificate:?}");
        assert_eq!((again.header.method, again.header.n_rows), (Method::Pca, 80));
    }
}

#[test]
fn on_other_rows_it_is_the_diagonal_of_the_definition() {
    let (x, w) = (new(), Array1::ones(61));
    for fit in fits() {
        let model = run(fit, &of(&old()));
        let moved = run(Fit::along(&model).unwrap(), &of(&x));
        is_dense(&moved, &model, &x, &w);
        let basis = moved.header.basis.as_ref().unwrap();
        assert_eq!((basis.n_rows, basis.method), (80, model.header.method));
        // It is a file like any other, and a basis, too, that says where it began.
        let bytes = moved.to_bytes().unwrap();
        let read = Model::from_bytes(&bytes).unwrap();
        assert_eq!(read.header.basis, moved.header.basis);
        let back = run(Fit::along(&read).unwrap(), &of(&old()));
        let (a, b) = (back.explained_variance().unwrap(), model.explained_variance().unwrap());
        close(&a, &b, 1e-12, model.header.total_variance.unwrap());
        assert_eq!(back.header.basis, moved.header.basis);
    }
}

#[test]
fn a_supervised_model_keeps_its_directions() {
    let label = (0..80).map(|i| if i % 3 == 0 { "a" } else { "b" });
    let label = arrow_array::StringArray::from_iter_values(label);
    let table = of(&old()).with_column("y", Arc::new(label)).unwrap();
    let model = run(Fit::spca(["y"]), &table);
    assert!(model.explained_variance().is_none());
    let moved = run(Fit::along(&model).unwrap(), &of(&new()));
    is_dense(&moved, &model, &new(), &Array1::ones(61));
    assert_eq!(moved.header.basis.as_ref().unwrap().method, Method::Spca);
    assert!(moved.header.label.is_none());
}

/// How far the directions are from being components is in the certificate.
#[test]
fn the_certificate_tells_how_far_they_are_from_components() {
    let model = run(Fit::pca().components(3), &of(&old()));
    let moved = run(Fit::along(&model).unwrap(), &of(&new()));
    let s = two_pass(&new(), &Array1::ones(61)).s;
    let u = model.components().unwrap();
    let within = u.dot(&s).dot(&u.t());
    let largest = within.diag().iter().copied().fold(0.0, f64::max);
    let residual = (0..3).map(|i| {
        let left = s.dot(&u.row(i)) - &u.row(i) * within[[i, i]];
        left.dot(&left).sqrt() / largest
    });
    let correlation = [(0, 1), (0, 2), (1, 2)]
        .map(|(i, j)| within[[i, j]].abs() / (within[[i, i]] * within[[j, j]]).sqrt());
    let certificate = &moved.header.certificate;
    close([&certificate.max_residual], [&residual.fold(0.0, f64::max)], 1e-12, 1.0);
    let expected = correlation.into_iter().fold(0.0, f64::max);
    close([&certificate.score_correlation.unwrap()], [&expected], 1e-12, 1.0);
    assert!(certificate.max_residual > 0.01 && expected > 0.01);
    assert_eq!((moved.header.rank, certificate.trace_error), (None, None));
    assert!(moved.header.selection.rules.is_empty());
}

fn numbers(batch: &RecordBatch) -> Array2<f64> {
    let column = |c: &ArrayRef| Array1::from(c.as_primitive::<Float64Type>().values().to_vec());
    let columns: Vec<Array1<f64>> = batch.columns().iter().map(column).collect();
    let views: Vec<_> = columns.iter().map(|c| c.view()).collect();
    ndarray::stack(Axis(1), &views).unwrap()
}

/// The projection is U(UᵀU)⁻¹Uᵀ = UUᵀ: what is left is orthogonal to it.
#[test]
fn what_is_left_of_a_row_is_orthogonal_to_the_basis() {
    let x = new();
    for fit in fits() {
        let model = run(fit, &of(&old()));
        let moved = run(Fit::along(&model).unwrap(), &of(&x));
        let scores = numbers(&moved.transform(&matrix_batch(x.clone())).unwrap());
        let scale = moved.scale.clone().unwrap_or_else(|| Array1::ones(D));
        let center = if moved.header.center { moved.mean.clone() } else { Array1::zeros(D) };
        let seen = (&x - &center) / &scale;
        let u = moved.components().unwrap();
        close(&scores, &seen.dot(&u.t()), 1e-13, 100.0);
        let left = &seen - &scores.dot(u);
        close(&left.dot(&u.t()), &Array2::zeros((61, 3)), 1e-13, 100.0);
        if moved.header.center {
            let mean = scores.mean_axis(Axis(0)).unwrap();
            close(&mean, &Array1::zeros(3), 1e-13, 100.0);
            let variance = scores.var_axis(Axis(0), 1.0).to_vec();
            let total = moved.header.total_variance.unwrap();
            close(&moved.explained_variance().unwrap(), &variance, 1e-12, total);
        }
    }
}

#[test]
fn weights_are_repeated_rows() {
    let x = new();
    let times = |i: usize| 1 + i % 3;
    let w = Array1::from_shape_fn(61, |i| times(i) as f64);
    let again: Vec<usize> = (0..61).flat_map(|i| vec![i; times(i)]).collect();
    let column = Arc::new(Float64Array::from(w.to_vec()));
    let weighted = of(&x).with_column("w", column).unwrap();
    for fit in fits() {
        let model = run(fit, &of(&old()));
        let along = || Fit::along(&model).unwrap();
        let found = run(along().weight("w"), &weighted);
        is_dense(&found, &model, &x, &w);
        let repeated = run(along(), &of(&x.select(Axis(0), &again)));
        let total = repeated.header.total_variance.unwrap();
        let both = |m: &Model| m.explained_variance().unwrap();
        close(&both(&found), &both(&repeated), 1e-12, total);
        close(&found.mean, &repeated.mean, 1e-13, 100.0);
        assert_eq!(found.header.degrees_of_freedom, repeated.header.degrees_of_freedom);
        assert_eq!(found.header.weight.as_ref().unwrap().column, "w");
    }
}

#[test]
fn missing_cells_follow_the_policy() {
    let mut x = new();
    (0..61).filter(|i| i % 7 == 3).for_each(|i| x[[i, i % D]] = f64::NAN);
    let whole: Vec<usize> = (0..61).filter(|i| i % 7 != 3).collect();
    for fit in fits() {
        let model = run(fit, &of(&old()));
        let along = |nulls| Fit::along(&model).unwrap().nulls(nulls);
        assert!(along(Nulls::Error).plan(&of(&x)).unwrap().run(&Quiet).is_err());
        let dropped = run(along(Nulls::Drop), &of(&x));
        let kept = x.select(Axis(0), &whole);
        is_dense(&dropped, &model, &kept, &Array1::ones(whole.len()));
        assert_eq!(dropped.header.nulls.rows_dropped, 61 - whole.len() as u64);
        // The oracle puts the mean for NaN.
        let filled = run(along(Nulls::Mean), &of(&x));
        is_dense(&filled, &model, &x, &Array1::ones(61));
    }
}

/// A feature that was constant may vary now; one with a deviation must keep one.
#[test]
fn constant_features_of_a_standardized_basis() {
    let mut before = old();
    before.column_mut(4).fill(3.5);
    let model = run(Fit::pca().standardize().components(2), &of(&before));
    assert_eq!(model.header.left_out, ["x[4]"]);
    let again = run(Fit::along(&model).unwrap(), &of(&before));
    assert_eq!(again.components(), model.components());
    assert_eq!(
        (again.header.left_out, again.constants),
        (model.header.left_out.clone(), array![3.5])
    );
    let varies = run(Fit::along(&model).unwrap(), &of(&new()));
    assert_eq!((varies.n_features(), varies.header.left_out.len()), (D, 0));
    let u = varies.components().unwrap();
    assert!(u.column(4).iter().all(|v| *v == 0.0));
    assert_eq!(u.slice(s![.., ..4]), model.components().unwrap().slice(s![.., ..4]));
    close([&varies.header.total_variance.unwrap()], [&(D as f64)], 1e-12, 1.0);
    let mut flat = new();
    flat.column_mut(0).fill(1.0);
    let table = of(&flat);
    let refused = Fit::along(&model).unwrap().plan(&table).unwrap().run(&Quiet).err();
    let said = refused.unwrap().to_string();
    assert!(said.contains("column 'x[0]' is constant here"), "{said}");
    let table = of(&Array2::ones((5, D)));
    let refused = Fit::along(&again_plain()).unwrap().plan(&table).unwrap().run(&Quiet).err();
    assert!(refused.unwrap().to_string().contains("every feature is constant"));
}

fn again_plain() -> Model {
    run(Fit::pca().components(2), &of(&old()))
}

#[derive(Default)]
struct Notes(Mutex<Vec<Note>>);

impl Listener for Notes {
    fn note(&self, note: &Note) {
        self.0.lock().unwrap().push(note.clone());
    }
}

/// Order is that of the basis; what that means here is told.
#[test]
fn order_and_flat_directions_are_told() {
    let axes = |spread: [f64; 3]| {
        let x = Array2::from_shape_fn((40, 3), |(i, j)| ((i / (j + 1) / 2 * 2 + i) as f64).sin());
        let centred = &x - &x.mean_axis(Axis(0)).unwrap();
        centred * &Array1::from(spread.to_vec())
    };
    let model = run(Fit::pca(), &of(&axes([9.0, 3.0, 1.0])));
    let notes = Notes::default();
    let table = of(&axes([1.0, 5.0, 1.0]));
    let moved = Fit::along(&model).unwrap().plan(&table).unwrap().run(&notes).unwrap();
    let variances = moved.explained_variance().unwrap();
    assert!(variances[1] > variances[0]);
    let told = notes.0.into_inner().unwrap();
    assert!(told.contains(&Note::BasisOrder(vec![2])), "{told:?}");
    assert!(matches!(told[0], Note::AlongBasis { .. }), "{told:?}");
    // The first two directions of the axes themselves, and rows in a plane beside them.
    let mut own = moved.clone();
    own.projection = eigenstream::Projection::Linear(Array2::eye(3));
    let notes = Notes::default();
    let table = of(&axes([4.0, 2.0, 0.0]));
    let along = Fit::along(&own).unwrap().components(5);
    let flat = along.plan(&table).unwrap().run(&notes).unwrap();
    assert_eq!(flat.explained_variance().unwrap()[2], 0.0);
    let told = notes.0.into_inner().unwrap();
    assert!(told.contains(&Note::BasisFlat(vec![3])), "{told:?}");
    assert!(told.contains(&Note::ModelHasFewer { asked: 5, has: 3 }), "{told:?}");
}

#[test]
fn a_number_of_components_cuts_the_basis() {
    let model = run(Fit::pca().components(4), &of(&old()));
    let all = run(Fit::along(&model).unwrap(), &of(&new()));
    let some = run(Fit::along(&model).unwrap().components(2), &of(&new()));
    assert_eq!((all.n_components(), some.n_components()), (4, 2));
    let u = model.components().unwrap();
    assert_eq!(some.components().unwrap(), u.slice(s![..2, ..]));
    close(&some.explained_variance().unwrap(), &all.explained_variance().unwrap()[..2], 1e-14, 1e4);
}

/// Same bytes on any number of threads; the plan counts directions, not d².
#[test]
fn threads_and_memory_do_not_change_it() {
    let x = rows(40_000, 5, 0.2);
    let model = run(Fit::pca().components(2), &of(&x));
    let along = |threads| run(Fit::along(&model).unwrap().threads(threads), &of(&(&x * 2.0)));
    assert_eq!(along(1).to_bytes().unwrap(), along(3).to_bytes().unwrap());
    let wide = rows(12, 3_000, 0.2);
    let table = of(&wide);
    let model = run(Fit::pca().components(2), &table);
    let fit = Fit::along(&model).unwrap();
    let plan = fit.plan(&table).unwrap();
    assert_eq!(plan.forms().len(), 1);
    assert_eq!(plan.taken().passes, (1, 1));
    let square = 8 * 3_000 * 3_000;
    let products =
        plan.taken().memory.phases[0].items.iter().find(|i| i.what.contains("direction"));
    assert!(products.unwrap().bytes < square / 100);
    let said = fit.memory(1_000_000).plan(&table).unwrap().run(&Quiet).err().unwrap().to_string();
    assert!(said.contains("fewer components") && !said.contains("columns"), "{said}");
}

#[test]
fn what_does_not_go_with_a_basis_is_refused() {
    let model = run(Fit::pca().components(2), &of(&old()));
    let table = of(&new());
    let along = || Fit::along(&model).unwrap();
    let spca = Fit { method: Method::Spca, ..along() };
    let scored = along().score_by("x[0]", eigenstream::Keep::Features(2));
    for (fit, option) in [
        (spca, "method"),
        (along().form(eigenstream::Form::Primal), "form"),
        (along().columns(["x"]), "columns"),
        (along().exclude(["x"]), "exclude"),
        (along().uncentered(), "uncentered"),
        (along().standardize(), "standardize"),
        (scored, "score_by"),
        (along().components(Components::Ratio(0.9)), "components=0.9"),
        (along().components(Components::Elbow), "components=elbow"),
    ] {
        let refused = fit.plan(&table).err().unwrap();
        assert_eq!(refused.exit_code(), 2);
        let said = refused.to_string();
        assert!(said.starts_with(option) && said.contains("basis"), "{option}: {said}");
    }
    for kind in [KernelKind::Rbf, KernelKind::Cosine] {
        let kernel = run(Fit::kpca(kind).components(2), &of(&old()));
        let said = Fit::along(&kernel).err().unwrap().to_string();
        assert!(said.contains("none there"), "{said}");
    }
    let mut bent = model.clone();
    bent.projection = eigenstream::Projection::Linear(model.components().unwrap() * 1.001);
    assert!(Fit::along(&bent).err().unwrap().to_string().contains("are off by 2.0e-3"));
    let narrow = of(&new().slice(s![.., ..4]).to_owned());
    let said = along().plan(&narrow).err().unwrap().to_string();
    assert!(said.contains("Float64[4] here but was Float64[6]"), "{said}");
}
