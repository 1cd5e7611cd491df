//! Eigenpairs as LAPACK gives them → eigenpairs as we promise them.
//!
//! Descending; the entry of largest magnitude of each vector positive; values that are only rounding
//! not counted in the rank and reported as 0.

use ndarray::{Array1, Array2};

/// Ordered eigenvalues, and where their vectors are.
#[derive(Debug, Clone)]
pub struct Spectrum {
    /// Descending, rounding set to 0.
    pub values: Array1<f64>,
    /// Values above rounding.
    pub rank: usize,
    /// Sum of the values as LAPACK gave them, for the trace check.
    pub sum: f64,
}

impl Spectrum {
    /// From ascending values; `rows` is n, `bound` the largest possible rank.
    pub fn new(values: &Array1<f64>, rows: u64, bound: usize) -> Spectrum {
        let sum = values.sum();
        let mut values: Array1<f64> = values.iter().rev().copied().collect();
        let tolerance = rank_tolerance(rows, values.len()) * values.first().copied().unwrap_or(0.0).max(0.0);
        let rank = values.iter().take(bound).take_while(|v| **v > tolerance).count();
        values.iter_mut().skip(rank).for_each(|v| *v = 0.0);
        Spectrum { values, rank, sum }
    }
}

/// The k leading vectors as rows, leading first, from all vectors as rows in ascending order.
pub fn leading(vectors: &Array2<f64>, k: usize) -> Array2<f64> {
    let mut components = Array2::zeros((k, vectors.ncols()));
    for (mut to, from) in components.rows_mut().into_iter().zip(vectors.rows().into_iter().rev()) {
        to.assign(&from);
        fix_sign(to);
    }
    components
}

/// eps × size: size is the order of the matrix, or √n where that is larger, since the rounding of a
/// sum of n products grows like its random walk.
pub fn rank_tolerance(rows: u64, d: usize) -> f64 {
    f64::EPSILON * (d as f64).max((rows as f64).sqrt())
}

fn fix_sign(mut vector: ndarray::ArrayViewMut1<'_, f64>) {
    let largest = vector.iter().fold(0.0f64, |best, v| if v.abs() > best.abs() { *v } else { best });
    if largest < 0.0 {
        vector.mapv_inplace(|v| -v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn order_sign_and_rank_are_as_promised() {
        let spectrum = Spectrum::new(&array![1e-30, 2.0, 5.0], 10, 3);
        assert_eq!(spectrum.values, array![5.0, 2.0, 0.0]);
        assert_eq!(spectrum.rank, 2);
        let vectors = array![[0.0, 0.0, 1.0], [0.6, -0.8, 0.0], [-0.8, -0.6, 0.0]];
        assert_eq!(leading(&vectors, 2), array![[0.8, 0.6, -0.0], [-0.6, 0.8, -0.0]]);
        assert_eq!(Spectrum::new(&array![1.0, 2.0], 2, 1).rank, 1, "bounded by n − 1");
        assert_eq!(Spectrum::new(&array![0.0, 0.0], 2, 2).rank, 0, "no spread, no component");
    }
}
