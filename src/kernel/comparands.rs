//! Rows that many others are compared with, ready for tiles.
//!
//! Holds the rows and their squared lengths. The rbf kernel is made from ‖x‖² + ‖y‖² − 2xᵀy: where
//! rows are far from the origin they are moved there first, so that a mean of 1e8 does not take the
//! digits of a distance of 1.

use super::Kernel;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, s};
use std::borrow::Cow;
use std::ops::Range;

/// Squared length of the mean over the mean squared distance from it, from where on rows are moved.
const FAR: f64 = 16.0;

/// Rows and their squared lengths.
#[derive(Debug, Clone)]
pub(crate) struct Comparands<'a> {
    kernel: Kernel,
    rows: Cow<'a, Array2<f64>>,
    squares: Vec<f64>,
    /// What was taken from them, and is taken from what they are compared with.
    shift: Option<Array1<f64>>,
}

impl<'a> Comparands<'a> {
    /// Moves the rows to the origin if the kernel does not feel it and their digits do.
    pub(crate) fn new(kernel: Kernel, rows: &'a Array2<f64>) -> Comparands<'a> {
        let squares = kernel.squares(rows.view());
        let mean = rows.mean_axis(Axis(0)).filter(|_| kernel.is_shift_invariant());
        let far = |mean: &Array1<f64>| {
            let length = mean.dot(mean);
            length > FAR * (squares.iter().sum::<f64>() / rows.nrows() as f64 - length)
        };
        match mean.filter(far) {
            None => Comparands { kernel, rows: Cow::Borrowed(rows), squares, shift: None },
            Some(mean) => {
                let moved = rows - &mean;
                let squares = kernel.squares(moved.view());
                Comparands { kernel, rows: Cow::Owned(moved), squares, shift: Some(mean) }
            }
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.rows.nrows()
    }

    /// Features.
    pub(crate) fn width(&self) -> usize {
        self.rows.ncols()
    }

    /// The kernel.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// k(x_i, x_i).
    pub(crate) fn diagonal(&self) -> Array1<f64> {
        self.kernel.diagonal(&self.squares)
    }

    /// About how far an entry of K is off: rounding of the kernel itself, and of the argument it
    /// was made from.
    pub(crate) fn entry_noise(&self) -> f64 {
        let largest = self.diagonal().iter().fold(0.0f64, |m, k| m.max(k.abs()));
        let longest = self.squares.iter().copied().fold(0.0, f64::max);
        let terms = (self.width() as f64).sqrt();
        let argument = match *self.kernel() {
            Kernel::Rbf { gamma } => 2.0 * gamma * longest,
            Kernel::Poly { degree, .. } => largest * terms * f64::from(degree),
            Kernel::Sigmoid { gamma, .. } => gamma * longest * terms,
            Kernel::Linear { .. } | Kernel::Cosine => largest * terms,
        };
        f64::EPSILON * (largest + argument)
    }

    /// k of some of the rows with some others of them.
    pub(crate) fn tile(&self, i: Range<usize>, j: Range<usize>, k: ArrayViewMut2<'_, f64>) {
        let (x, y) = (self.rows.slice(s![i.clone(), ..]), self.rows.slice(s![j.clone(), ..]));
        self.kernel.tile_into(x, &self.squares[i], y, &self.squares[j], k);
    }

    /// Other rows, moved as these are, with their squared lengths.
    pub(crate) fn others(&self, x: ArrayView2<'_, f64>) -> (Array2<f64>, Vec<f64>) {
        let mut x = x.as_standard_layout().into_owned();
        if let Some(shift) = &self.shift {
            x -= shift;
        }
        let squares = self.kernel.squares(x.view());
        (x, squares)
    }

    /// k of [others](Comparands::others) with some of the rows.
    pub(crate) fn against(
        &self,
        x: ArrayView2<'_, f64>,
        squares: &[f64],
        j: Range<usize>,
        k: ArrayViewMut2<'_, f64>,
    ) {
        self.kernel.tile_into(x, squares, self.rows.slice(s![j.clone(), ..]), &self.squares[j], k);
    }
}
