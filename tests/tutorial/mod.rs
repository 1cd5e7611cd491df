//! The tutorial as tests: one per equation, in its order, on two data sets and in every form.
//!
//! Ghojogh and Crowley, *Unsupervised and Supervised Principal Component Analysis: Tutorial*. Each
//! test writes its equation out as the text does and asks the program for the same numbers. The
//! dense side knows nothing of the program: LAPACK through ndarray-linalg, and these symbols.
//!
//! | symbol | here | shape |
//! |---|---|---|
//! | X | `data.x` | d × n, a column is a data point |
//! | X_t | `data.new` | d × n_t, out of sample, around another mean |
//! | H | [`centring`] | n × n, I − 11ᵀ/n |
//! | U | [`directions`] of a model, or [`leading`] eigenvectors | d × p, columns |
//! | X̃ | [`scores`] | p × n |
//! | X̂ | [`restored`] | d × n |
//! | K, K_t | [`gram`] | n × n, n × n_t |
//!
//! Equations are named by their label in the LaTeX source; `docs/tutorial.md` is the table of them,
//! by number, with the command that gives each.

mod appendix;
mod dual;
mod kernel;
mod kernel_spca;
mod pca;
mod scoring;
mod spca;

use crate::oracle;
use crate::workdir::doubles;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use eigenstream::{ArrowTable, Fit, Form, Hsic, IterationOptions, Model, Quiet};
use ndarray::{Array1, Array2, ArrayView1, Axis, array, s};
use ndarray_linalg::{Inverse, SVD};
use std::sync::Arc;

/// Directions that are asked for: fewer than there are.
const P: usize = 3;

/// Classes of the label.
const CLASSES: usize = 4;

/// Largest error over the largest entry: some hundred roundings of products of 60 terms.
const ROUNDING: f64 = 1e-12;

/// The same where roundings are divided by a small eigenvalue.
const DIVIDED: f64 = 1e-10;

/// The forms of PCA.
const LINEAR: [Form; 3] = [Form::Primal, Form::Dual, Form::Randomized];

/// The forms of supervised PCA.
const SUPERVISED: [Form; 2] = [Form::Primal, Form::Dual];

/// Data as the tutorial writes it: a column is a data point.
#[derive(Clone)]
struct Data {
    name: &'static str,
    x: Array2<f64>,
    new: Array2<f64>,
    /// A class for each column.
    class: Vec<usize>,
    /// A number for each column.
    y: Array1<f64>,
}

/// Between −½ and ½, of any two indices.
fn noise(i: usize, j: usize) -> f64 {
    let h = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ (j as u64 + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let h = (h ^ (h >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((h ^ (h >> 29)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

impl Data {
    /// Features of different spread around means away from zero; the class moves the first of
    /// them, the number another.
    fn new(name: &'static str, n: usize, d: usize) -> Data {
        let class: Vec<usize> = (0..n).map(|i| (i * 7 + i / 5) % CLASSES).collect();
        let y = Array1::from_shape_fn(n, |i| 1.0 + (((i * 13) % 9) as f64).powi(2) / 16.0);
        let spread = |j: usize| 1.0 + (j % 8) as f64 / 2.0;
        let mean = |j: usize| 2.0 + (j % 5) as f64;
        let x = Array2::from_shape_fn((d, n), |(j, i)| {
            let moved = if class[i] == j { 1.0 + j as f64 } else { 0.0 };
            let told = if j == 5 { y[i] } else { 0.0 };
            mean(j) + spread(j) * noise(i, j) + moved + told
        });
        let new = Array2::from_shape_fn((d, 7), |(j, i)| {
            1.0 + 1.5 * mean(j) + 2.0 * spread(j) * noise(i + 1000, j)
        });
        Data { name, x, new, class, y }
    }

    fn n(&self) -> usize {
        self.x.ncols()
    }

    fn d(&self) -> usize {
        self.x.nrows()
    }

    /// The mean of the columns, μ_x.
    fn mean(&self) -> Array2<f64> {
        self.x.mean_axis(Axis(1)).unwrap().insert_axis(Axis(1))
    }

    /// X̆ = XH.
    fn centred(&self) -> Array2<f64> {
        self.x.dot(&centring(self.n()))
    }

    /// X̆_t = X_t − μ_x.
    fn new_centred(&self) -> Array2<f64> {
        &self.new - &self.mean()
    }

    /// S = XHXᵀ.
    fn covariance(&self) -> Array2<f64> {
        self.x.dot(&centring(self.n())).dot(&self.x.t())
    }

    /// K_y = δ of the classes.
    fn delta(&self) -> Array2<f64> {
        let same = |i: usize, j: usize| f64::from(u8::from(self.class[i] == self.class[j]));
        Array2::from_shape_fn((self.n(), self.n()), |(i, j)| same(i, j))
    }

    /// K_y = YᵀY of the numbers.
    fn regression(&self) -> Array2<f64> {
        let y = self.y.view().insert_axis(Axis(0));
        y.t().dot(&y)
    }

    /// Columns `x0`, `x1`, … of features, `class` and `y`.
    fn table(&self) -> ArrowTable {
        let class = self.class.iter().map(|c| format!("class {c}"));
        let class = Arc::new(StringArray::from_iter_values(class));
        let table = ArrowTable::from(batch(&self.x)).with_column("class", class).unwrap();
        table.with_column("y", doubles(self.y.to_vec())).unwrap()
    }

    /// The model of a fit of the features.
    fn fit(&self, fit: Fit) -> Model {
        let table = self.table();
        let fit = fit.columns(["x*"]);
        fit.plan(&table).unwrap().run(&Quiet).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// HSIC of the features, or of a model's scores, with the labels.
    fn hsic(&self, hsic: Hsic, model: Option<&Model>) -> f64 {
        let hsic = if model.is_none() { hsic.columns(["x*"]) } else { hsic };
        hsic.plan(&self.table(), model).unwrap().run(&Quiet).unwrap().hsic
    }
}

/// Data set A has more points than features, B more features than points.
fn data() -> [Data; 2] {
    [Data::new("A", 60, 8), Data::new("B", 20, 50)]
}

/// Every data set in every form; what fails prints which.
fn cases(forms: &[Form]) -> impl Iterator<Item = (Data, Form)> + '_ {
    let pairs =
        data().into_iter().flat_map(|data| forms.iter().map(move |form| (data.clone(), *form)));
    pairs.inspect(|(data, form)| println!("data {}, {form} form", data.name))
}

/// A fit in a form; what iterates goes on to the last digits.
fn in_form(fit: Fit, form: Form) -> Fit {
    let iteration = IterationOptions { tolerance: Some(1e-12), ..IterationOptions::default() };
    Fit { iteration, ..fit.components(P).form(form) }
}

/// A batch with a column for each feature: a row of X.
fn batch(x: &Array2<f64>) -> RecordBatch {
    let columns = x.rows().into_iter().enumerate();
    let columns = columns.map(|(j, row)| (format!("x{j}"), doubles(row.to_vec())));
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The columns of a batch as the rows of a matrix.
fn matrix(batch: &RecordBatch) -> Array2<f64> {
    let values = |c: &ArrayRef| c.as_primitive::<Float64Type>().values().to_vec();
    let numbers = batch.columns().iter().flat_map(values).collect();
    Array2::from_shape_vec((batch.num_columns(), batch.num_rows()), numbers).unwrap()
}

/// What the program projects: p × n.
fn scores(model: &Model, x: &Array2<f64>) -> Array2<f64> {
    matrix(&model.transform(&batch(x)).unwrap())
}

/// What the program reconstructs: d × n.
fn restored(model: &Model, x: &Array2<f64>) -> Array2<f64> {
    matrix(&model.reconstruct(&batch(x)).unwrap())
}

/// U of a linear model: d × p.
fn directions(model: &Model) -> Array2<f64> {
    model.components().unwrap().t().to_owned()
}

/// The eigenvalues of the components that are kept.
fn eigenvalues(model: &Model) -> Array1<f64> {
    model.eigenvalues.slice(s![..model.n_components()]).to_owned()
}

/// H = I − (1/n) 11ᵀ.
fn centring(n: usize) -> Array2<f64> {
    let one: Array2<f64> = Array2::ones((n, 1));
    Array2::eye(n) - one.dot(&one.t()) / n as f64
}

/// The p leading eigenvalues of a symmetric matrix and their eigenvectors, as columns.
fn leading(a: &Array2<f64>, p: usize) -> (Array1<f64>, Array2<f64>) {
    let symmetric = ((a + &a.t()) / 2.0).as_standard_layout().into_owned();
    let (values, vectors) = oracle::eigh(symmetric);
    let (values, vectors) = (values.slice(s![..;-1]), vectors.slice(s![..;-1, ..]));
    (values.slice(s![..p]).to_owned(), vectors.slice(s![..p, ..]).t().to_owned())
}

/// Incomplete SVD: the p leading singular values with left and right vectors, as columns.
fn svd(a: &Array2<f64>, p: usize) -> (Array2<f64>, Array1<f64>, Array2<f64>) {
    let (u, sigma, vt) = a.as_standard_layout().svd(true, true).unwrap();
    let (u, vt) = (u.unwrap(), vt.unwrap());
    let (u, v) = (u.slice(s![.., ..p]).to_owned(), vt.slice(s![..p, ..]).t().to_owned());
    (u, sigma.slice(s![..p]).to_owned(), v)
}

fn inverse(a: &Array2<f64>) -> Array2<f64> {
    a.inv().unwrap()
}

fn diagonal(values: &Array1<f64>) -> Array2<f64> {
    Array2::from_diag(values)
}

fn trace(a: &Array2<f64>) -> f64 {
    a.diag().sum()
}

/// ‖A‖_F².
fn frobenius(a: &Array2<f64>) -> f64 {
    a.iter().map(|v| v * v).sum()
}

/// The (i, j)-th element is k of the i-th column of one matrix and the j-th of the other.
fn gram(x: &Array2<f64>, y: &Array2<f64>, k: &Comparison) -> Array2<f64> {
    Array2::from_shape_fn((x.ncols(), y.ncols()), |(i, j)| k(x.column(i), y.column(j)))
}

/// A kernel as the text writes it.
type Comparison = dyn Fn(ArrayView1<'_, f64>, ArrayView1<'_, f64>) -> f64;

/// Columns of a matrix, each with the sign that it has in another: an eigenvector has none.
fn signed_like(dense: &Array2<f64>, found: &Array2<f64>) -> Array2<f64> {
    let mut signed = dense.clone();
    for (mut column, like) in signed.columns_mut().into_iter().zip(found.columns()) {
        let sign = column.dot(&like).signum();
        column *= sign;
    }
    signed
}

/// One column of a matrix, as a matrix.
fn point(x: &Array2<f64>, i: usize) -> Array2<f64> {
    x.slice(s![.., i..i + 1]).to_owned()
}

/// The largest magnitude.
fn size<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().fold(0.0, |m, v| m.max(v.abs()))
}

/// Two matrices, or vectors, are the same to a share of the largest entry.
#[track_caller]
fn within<D: ndarray::Dimension>(
    tolerance: f64,
    found: &ndarray::Array<f64, D>,
    expected: &ndarray::Array<f64, D>,
) {
    assert_eq!(found.shape(), expected.shape());
    let (error, scale) = (size(&(found - expected)), size(expected));
    assert!(error <= tolerance * scale, "off by {error:e} of {scale:e}: {found} and {expected}");
}

/// The same to rounding.
#[track_caller]
fn near<D: ndarray::Dimension>(found: &ndarray::Array<f64, D>, expected: &ndarray::Array<f64, D>) {
    within(ROUNDING, found, expected);
}

/// Two numbers are the same to rounding.
#[track_caller]
fn equal(found: f64, expected: f64) {
    near(&array![found], &array![expected]);
}

/// Nothing but the rounding of numbers of this size.
#[track_caller]
fn vanishes(found: &Array2<f64>, scale: f64) {
    let error = size(found);
    assert!(error <= ROUNDING * scale, "{error:e} where numbers are of {scale:e}");
}

/// UᵀU = I.
#[track_caller]
fn orthonormal(u: &Array2<f64>) {
    near(&u.t().dot(u), &Array2::eye(u.ncols()));
}
