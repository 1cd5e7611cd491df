//! The plain version: all rows in memory, two passes, no block, no merge.

use ndarray::{Array1, Array2};

pub struct Oracle {
    pub weight: f64,
    pub mean: Array1<f64>,
    pub s: Array2<f64>,
}

/// Weighted mean and centred co-moment; NaN cells take their column's mean over the other rows.
pub fn two_pass(x: &Array2<f64>, w: &Array1<f64>) -> Oracle {
    let (n, d) = x.dim();
    // Around each column's first value, so that the oracle does not lose the digits it is to check.
    let first: Vec<f64> = (0..d)
        .map(|j| x.column(j).iter().copied().find(|v| !v.is_nan()).unwrap_or(f64::NAN))
        .collect();
    let shift: Vec<f64> = (0..d)
        .map(|j| {
            let present = (0..n).filter(|i| !x[[*i, j]].is_nan());
            let (sum, total) =
                present.fold((0.0, 0.0), |(s, t), i| (s + w[i] * (x[[i, j]] - first[j]), t + w[i]));
            sum / total
        })
        .collect();
    let mean = Array1::from_shape_fn(d, |j| first[j] + shift[j]);
    let cell =
        |i: usize, j: usize| if x[[i, j]].is_nan() { 0.0 } else { x[[i, j]] - first[j] - shift[j] };
    let mut s = Array2::zeros((d, d));
    for a in 0..d {
        for b in 0..d {
            s[[a, b]] = (0..n).map(|i| w[i] * cell(i, a) * cell(i, b)).sum();
        }
    }
    Oracle { weight: w.sum(), mean, s }
}

/// Eigenvalues, ascending, and eigenvectors as rows, by LAPACK's dsyev through ndarray-linalg: another
/// driver than the program's.
pub fn eigh(a: Array2<f64>) -> (Array1<f64>, Array2<f64>) {
    use ndarray_linalg::{Eigh, UPLO};
    let (values, vectors) = a.eigh(UPLO::Lower).unwrap();
    (values, vectors.reversed_axes().as_standard_layout().into_owned())
}
