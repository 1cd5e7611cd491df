//! Eigenpairs as LAPACK gives them → eigenpairs as we promise them.
//!
//! Descending; the entry of largest magnitude of each vector positive; values that are only
//! rounding not counted in the rank and reported as 0.

use ndarray::{Array1, Array2};

/// Ordered eigenvalues.
#[derive(Debug, Clone)]
pub struct Spectrum {
    /// Those known, descending, rounding set to 0.
    pub values: Array1<f64>,
    /// How many of them are above rounding.
    pub above: usize,
    /// True when there are no others: `above` is the rank then.
    pub whole: bool,
}

impl Spectrum {
    /// From all values, descending; `tolerance` is relative to the first, `bound` the largest
    /// possible rank.
    pub fn whole(values: impl Iterator<Item = f64>, tolerance: f64, bound: usize) -> Spectrum {
        Spectrum::new(values, tolerance, bound, true)
    }

    /// From the leading values; if some of them are only rounding, there are no others.
    pub fn leading(values: impl Iterator<Item = f64>, tolerance: f64, bound: usize) -> Spectrum {
        Spectrum::new(values, tolerance, bound, false)
    }

    fn new(
        values: impl Iterator<Item = f64>,
        tolerance: f64,
        bound: usize,
        whole: bool,
    ) -> Spectrum {
        let mut values: Array1<f64> = values.collect();
        let least = tolerance * values.first().copied().unwrap_or(0.0).max(0.0);
        let above = values.iter().take(bound).take_while(|v| **v > least).count();
        values.iter_mut().skip(above).for_each(|v| *v = 0.0);
        let whole = whole || above < values.len() || above == bound;
        Spectrum { values, above, whole }
    }

    /// Values that are no larger than this are rounding, too.
    pub fn drop_below(&mut self, noise: f64) {
        let above = self.values.iter().take(self.above).take_while(|v| **v > noise).count();
        self.whole |= above < self.above;
        self.above = above;
        self.values.iter_mut().skip(above).for_each(|v| *v = 0.0);
    }

    /// Forgets the values beyond this many, which can only be 0.
    pub fn cut(&mut self, most: usize) {
        self.values = self.values.iter().take(most).copied().collect();
    }

    /// Eigenvalues above rounding, if that is known.
    pub fn rank(&self) -> Option<usize> {
        self.whole.then_some(self.above)
    }
}

/// The k leading vectors as rows, leading first, from all vectors as rows in ascending order.
pub(crate) fn leading(vectors: &Array2<f64>, k: usize) -> Array2<f64> {
    let mut components = Array2::zeros((k, vectors.ncols()));
    for (mut to, from) in components.rows_mut().into_iter().zip(vectors.rows().into_iter().rev()) {
        to.assign(&from);
    }
    fix_signs(&mut components);
    components
}

/// The entry of largest magnitude of each row becomes positive.
pub(crate) fn fix_signs(vectors: &mut Array2<f64>) {
    vectors.rows_mut().into_iter().for_each(fix_sign);
}

/// eps × size: size is the order of the matrix, or √terms where that is larger, since the rounding
/// of a sum of that many products grows like its random walk.
pub(crate) fn rank_tolerance(terms: u64, order: usize) -> f64 {
    f64::EPSILON * (order as f64).max((terms as f64).sqrt())
}

fn fix_sign(mut vector: ndarray::ArrayViewMut1<'_, f64>) {
    let largest =
        vector.iter().fold(0.0f64, |best, v| if v.abs() > best.abs() { *v } else { best });
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
        let spectrum = Spectrum::whole([5.0, 2.0, 1e-30].into_iter(), 1e-15, 3);
        assert_eq!(spectrum.values, array![5.0, 2.0, 0.0]);
        assert_eq!(spectrum.rank(), Some(2));
        let vectors = array![[0.0, 0.0, 1.0], [0.6, -0.8, 0.0], [-0.8, -0.6, 0.0]];
        assert_eq!(leading(&vectors, 2), array![[0.8, 0.6, -0.0], [-0.6, 0.8, -0.0]]);
        let rank =
            |values: &[f64], bound| Spectrum::whole(values.iter().copied(), 1e-15, bound).rank();
        assert_eq!(rank(&[2.0, 1.0], 1), Some(1), "bounded by n − 1");
        assert_eq!(rank(&[0.0, 0.0], 2), Some(0), "no spread, no component");
        let leading =
            |values: &[f64], bound| Spectrum::leading(values.iter().copied(), 1e-15, bound).rank();
        assert_eq!(leading(&[2.0, 1.0], 5), None, "more may follow");
        assert_eq!(leading(&[2.0, 1e-30], 5), Some(1), "nothing follows rounding");
        assert_eq!(leading(&[2.0, 1.0], 2), Some(2), "there cannot be more");
    }
}
