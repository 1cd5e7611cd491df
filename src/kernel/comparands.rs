//! Rows that many others are compared with, ready for tiles.
//!
//! Holds the rows and their squared lengths. The rbf kernel is made from ‖x‖² + ‖y‖² − 2xᵀy: where
//! rows are far from the origin they are moved there first, so that few pairs lose digits that have
//! to be found again one by one (`near`).

use super::{Kernel, Side, near};
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, CowArray, Ix2};
use std::ops::Range;

/// Squared length of the mean over the mean squared distance from it, from where on rows are moved.
const FAR: f64 = 16.0;

/// Rows and their squared lengths.
#[derive(Debug, Clone)]
pub(crate) struct Comparands<'a> {
    kernel: Kernel,
    original: &'a Array2<f64>,
    moved: Option<Moved>,
    squares: Vec<f64>,
}

/// Rows that were moved to the origin.
#[derive(Debug, Clone)]
struct Moved {
    rows: Array2<f64>,
    /// What was taken from them, and is taken from what they are compared with.
    by: Array1<f64>,
}

/// Other rows, to be compared with these.
pub(crate) struct OtherRows<'x> {
    original: CowArray<'x, f64, Ix2>,
    moved: Option<Array2<f64>>,
    squares: Vec<f64>,
}

impl OtherRows<'_> {
    fn side(&self) -> Side<'_> {
        let rows = self.moved.as_ref().map_or(self.original.view(), |m| m.view());
        Side { rows, squares: &self.squares, original: self.original.view() }
    }

    /// ‖x‖² of each.
    pub(crate) fn squares(&self) -> &[f64] {
        &self.squares
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.squares.len()
    }
}

impl<'a> Comparands<'a> {
    /// Moves the rows to the origin if the kernel does not feel it and their digits do.
    pub(crate) fn new(kernel: Kernel, original: &'a Array2<f64>) -> Comparands<'a> {
        let squares = kernel.squares(original.view());
        let mean = original.mean_axis(Axis(0)).filter(|_| kernel.is_shift_invariant());
        let far = |mean: &Array1<f64>| {
            let length = mean.dot(mean);
            length > FAR * (squares.iter().sum::<f64>() / original.nrows() as f64 - length)
        };
        match mean.filter(far) {
            None => Comparands { kernel, original, moved: None, squares },
            Some(by) => {
                let rows = original - &by;
                let squares = kernel.squares(rows.view());
                Comparands { kernel, original, moved: Some(Moved { rows, by }), squares }
            }
        }
    }

    fn side(&self) -> Side<'_> {
        let rows = self.moved.as_ref().map_or(self.original.view(), |m| m.rows.view());
        Side { rows, squares: &self.squares, original: self.original.view() }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.original.nrows()
    }

    /// Features.
    pub(crate) fn width(&self) -> usize {
        self.original.ncols()
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
            Kernel::Rbf { gamma } => (2.0 * gamma * longest).min(near::FELT),
            Kernel::Poly { degree, .. } => largest * terms * f64::from(degree),
            Kernel::Sigmoid { gamma, .. } => gamma * longest * terms,
            _ => largest * terms,
        };
        f64::EPSILON * (largest + argument)
    }

    /// k of some of the rows with some others of them.
    pub(crate) fn tile(&self, i: Range<usize>, j: Range<usize>, k: ArrayViewMut2<'_, f64>) {
        let all = self.side();
        self.kernel.tile_into(all.part(i), all.part(j), k);
    }

    /// Other rows, moved as these are, with their squared lengths.
    pub(crate) fn others<'x>(&self, x: ArrayView2<'x, f64>) -> OtherRows<'x> {
        let original = CowArray::from(x);
        let original = match original.is_standard_layout() {
            true => original,
            false => CowArray::from(original.as_standard_layout().into_owned()),
        };
        let moved = self.moved.as_ref().map(|m| &original - &m.by);
        let squares = self.kernel.squares(moved.as_ref().map_or(original.view(), |m| m.view()));
        OtherRows { original, moved, squares }
    }

    /// k of other rows with some of these.
    pub(crate) fn against(
        &self,
        others: &OtherRows<'_>,
        j: Range<usize>,
        k: ArrayViewMut2<'_, f64>,
    ) {
        self.kernel.tile_into(others.side(), self.side().part(j), k);
    }
}
