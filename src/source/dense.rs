//! Sums and shifts of dense blocks, in either memory order.
//!
//! ndarray's own broadcasting walks an F-order block across its columns: 58 % of a fit was spent in
//! `y -= &mean`. These walk memory as it lies, on slices.

use super::MissingCell;
use ndarray::{Array1, Array2, ArrayView2};
use num_traits::AsPrimitive;
use std::cell::RefCell;

/// Why a line of a block is a slice.
const CONTIGUOUS: &str = "the lines of a block in C or in F order are contiguous";

thread_local! {
    /// The numbers of a block that a worker has done with: its next block goes where it was, so
    /// that no page of memory is asked for, zeroed and returned for each.
    static DONE_WITH: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

/// An empty vector with room for so many: where the last block was, if that had as much.
pub(super) fn with_room(len: usize) -> Vec<f64> {
    let mut free = DONE_WITH.take();
    free.clear();
    match free.capacity() >= len && free.capacity() <= 2 * len {
        true => free,
        false => Vec::with_capacity(len),
    }
}

/// Leaves the numbers of a block to the next one of this thread.
pub(crate) fn recycle(block: Array2<f64>) {
    DONE_WITH.set(block.into_raw_vec_and_offset().0);
}

/// A vector as it lies.
fn numbers(vector: &Array1<f64>) -> &[f64] {
    vector.as_slice().expect("weights, means and scales are contiguous")
}

/// Σ w x per column (w = 1 without weights).
pub(crate) fn column_sums<T: AsPrimitive<f64>>(
    x: &Array2<T>,
    weights: Option<&Array1<f64>>,
) -> Array1<f64> {
    match lines(x) {
        Lines::Columns(columns) => columns
            .rows()
            .into_iter()
            .map(|column| {
                let column = column.to_slice().expect(CONTIGUOUS);
                match weights.map(numbers) {
                    None => sum(column),
                    Some(w) => column.iter().zip(w).map(|(x, w)| x.as_() * w).sum(),
                }
            })
            .collect(),
        Lines::Rows(rows) => {
            let mut sums = vec![0.0; rows.ncols()];
            for (i, row) in rows.rows().into_iter().enumerate() {
                let weight = weights.map_or(1.0, |w| w[i]);
                for (sum, x) in sums.iter_mut().zip(row.to_slice().expect(CONTIGUOUS)) {
                    *sum += weight * x.as_();
                }
            }
            Array1::from_vec(sums)
        }
    }
}

/// Σ w x² per column.
pub(crate) fn column_squares(x: &Array2<f64>, weights: Option<&Array1<f64>>) -> Array1<f64> {
    let mut sums = Array1::zeros(x.ncols());
    match lines(x) {
        Lines::Columns(columns) => {
            for (sum, column) in sums.iter_mut().zip(columns.rows()) {
                *sum = weights.map_or_else(
                    || column.dot(&column),
                    |w| column.iter().zip(w).map(|(x, w)| w * x * x).sum(),
                );
            }
        }
        Lines::Rows(rows) => {
            for (i, row) in rows.rows().into_iter().enumerate() {
                let weight = weights.map_or(1.0, |w| w[i]);
                sums.zip_mut_with(&row, |sum, x| *sum += weight * x * x);
            }
        }
    }
    sums
}

/// x ← (x − shift) · factor per column, in place.
pub(crate) fn shift(
    x: &mut Array2<f64>,
    shift: Option<&Array1<f64>>,
    factor: Option<&Array1<f64>>,
) {
    let d = x.ncols();
    if x.is_standard_layout() {
        let (zeros, ones) = (Array1::zeros(d), Array1::ones(d));
        let a = numbers(shift.unwrap_or(&zeros));
        let f = numbers(factor.unwrap_or(&ones));
        for mut row in x.rows_mut() {
            let row = row.as_slice_mut().expect(CONTIGUOUS);
            row.iter_mut().zip(a).zip(f).for_each(|((x, a), f)| *x = (*x - a) * f);
        }
    } else {
        for (j, mut column) in x.columns_mut().into_iter().enumerate() {
            let (a, f) = (shift.map_or(0.0, |s| s[j]), factor.map_or(1.0, |f| f[j]));
            let column = column.as_slice_mut().expect(CONTIGUOUS);
            column.iter_mut().for_each(|x| *x = (*x - a) * f);
        }
    }
}

/// (x − a) of each column, in f64, rounded.
pub(crate) fn shift_singles(x: &mut Array2<f32>, shift: &Array1<f64>) {
    let centred = |x: &f32, a: f64| (f64::from(*x) - a) as f32;
    if x.is_standard_layout() {
        let a = numbers(shift);
        for mut row in x.rows_mut() {
            let row = row.as_slice_mut().expect(CONTIGUOUS);
            row.iter_mut().zip(a).for_each(|(x, a)| *x = centred(x, *a));
        }
    } else {
        for (mut column, a) in x.columns_mut().into_iter().zip(shift) {
            let column = column.as_slice_mut().expect(CONTIGUOUS);
            column.iter_mut().for_each(|x| *x = centred(x, *a));
        }
    }
}

/// Puts a value into some cells.
pub(crate) fn put<T: Copy>(x: &mut Array2<T>, cells: &[MissingCell], value: T) {
    cells.iter().for_each(|cell| x[[cell.row as usize, cell.feature as usize]] = value);
}

/// Multiplies each row by its own factor.
pub(crate) fn scale_rows(y: &mut Array2<f64>, factors: &Array1<f64>) {
    if y.is_standard_layout() {
        y.rows_mut().into_iter().zip(factors).for_each(|(mut row, f)| row *= *f);
    } else {
        y.columns_mut().into_iter().for_each(|mut column| column *= factors);
    }
}

/// A block as contiguous lines.
enum Lines<'a, T> {
    /// C order: one line per row.
    Rows(ArrayView2<'a, T>),
    /// F order: one line per column.
    Columns(ArrayView2<'a, T>),
}

fn lines<T>(x: &Array2<T>) -> Lines<'_, T> {
    if x.is_standard_layout() {
        Lines::Rows(x.view())
    } else {
        assert!(x.t().is_standard_layout(), "a block is in C or in F order");
        Lines::Columns(x.t())
    }
}

/// Eight running sums, which the compiler keeps in vector registers.
fn sum<T: AsPrimitive<f64>>(values: &[T]) -> f64 {
    let mut lanes = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|x| x.as_()).sum();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x.as_();
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Axis, ShapeBuilder, array};

    #[test]
    fn both_orders_give_what_ndarray_gives() {
        for (n, d) in [(0, 3), (1, 4), (9, 2), (17, 1), (20, 20)] {
            let c = Array2::from_shape_fn((n, d), |(i, j)| (i * 5 + j * 3) as f32 % 7.0);
            let mut f = Array2::zeros((n, d).f());
            f.assign(&c);
            let weights = Array1::from_shape_fn(n, |i| (i % 3) as f64);
            let shift = Array1::from_shape_fn(d, |j| j as f64);
            let factor = Array1::from_shape_fn(d, |j| 0.5 + j as f64);
            let wide = c.mapv(f64::from);
            for x in [&c, &f] {
                assert_eq!(column_sums(x, None), wide.sum_axis(Axis(0)));
                assert_eq!(column_sums(x, Some(&weights)), wide.t().dot(&weights));
                let mut y = x.mapv(f64::from);
                super::shift(&mut y, Some(&shift), Some(&factor));
                assert_eq!(y, (&wide - &shift) * &factor);
                scale_rows(&mut y, &weights);
                assert_eq!(y, (&wide - &shift) * &factor * weights.view().insert_axis(Axis(1)));
            }
        }
        assert_eq!(column_sums(&array![[1.0, 2.0], [3.0, 4.0]], None), array![4.0, 6.0]);
    }
}
