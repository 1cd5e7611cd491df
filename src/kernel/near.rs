//! Pairs of rows whose distance ‖x‖² + ‖y‖² − 2xᵀy has lost digits that the rbf kernel feels.
//!
//! The sum is right to eps·(‖x‖² + ‖y‖²), so k = exp(−γ‖x − y‖²) is right to eps·γ(‖x‖² + ‖y‖²)·k.
//! That is no more than rounding unless a pair is close together and far from the origin, as within
//! a cluster. Those are compared again by differences, which costs d steps a pair; and pairs that
//! are all but equal, so that k of equal rows is 1 to the last digit.
//!
//! Enters: a row of a tile, made by products. Leaves: the same with few of its entries made anew.
//! `examples/tiles` has what it costs.

use ndarray::{ArrayView1, ArrayView2};

/// Units of rounding that k may be off, before a pair is compared again.
pub(super) const FELT: f64 = 4.0;

/// k from here on may be that of equal rows.
const ALL_BUT_EQUAL: f64 = 1.0 - 1e-12;

/// True when k of a pair whose squared lengths add up to this has lost digits, or may be that of
/// equal rows. Without a branch, so that several are looked at at a time.
#[inline(always)]
pub(super) fn is_felt(k: f64, gamma: f64, lengths: f64) -> bool {
    (gamma * lengths * k > FELT) | (k > ALL_BUT_EQUAL)
}

/// Makes the entries anew that products have lost digits of: k(x, y_j) along a row, with ‖x‖² and
/// ‖y_j‖².
pub(super) fn compare_again(
    row: &mut [f64],
    gamma: f64,
    (x, a): (ArrayView1<'_, f64>, f64),
    (y, b): (ArrayView2<'_, f64>, &[f64]),
) {
    for (j, (k, b)) in row.iter_mut().zip(b).enumerate() {
        if is_felt(*k, gamma, a + b) {
            *k = (-gamma * squared_distance(x, y.row(j))).exp();
        }
    }
}

/// Σ (x − y)², four sums at a time.
pub(crate) fn squared_distance(x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> f64 {
    let square = |(a, b): (&f64, &f64)| (a - b) * (a - b);
    let (Some(x), Some(y)) = (x.as_slice(), y.as_slice()) else {
        return x.iter().zip(&y).map(square).sum();
    };
    let (whole, rest) = x.as_chunks::<4>();
    let (others, others_rest) = y.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in whole.iter().zip(others) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, pair)| *sum += square(pair));
    }
    sums.iter().sum::<f64>() + rest.iter().zip(others_rest).map(square).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use crate::kernel::{Comparands, Kernel};
    use ndarray::{Array2, s};

    /// Four clusters 7,000 from the origin; within one, rows are 0.5 apart.
    fn clusters(n: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, d), |(i, j)| {
            let centre = 7e3 * f64::from(u8::from(i % 4 == j % 4));
            centre + ((i * 31 + j * 17 + i * j) % 29) as f64 / 29.0 * 0.5
        })
    }

    #[test]
    fn close_rows_far_from_the_origin_keep_their_digits() {
        for d in [3, 4, 9] {
            let x = clusters(24, d);
            let kernel = Kernel::Rbf { gamma: 1.0 };
            let rows = Comparands::new(kernel, &x);
            let mut k = Array2::zeros((24, 24));
            rows.tile(0..24, 0..24, k.view_mut());
            let others = kernel.tile(x.view(), x.slice(s![5.., ..]));
            for ((i, j), k) in k.indexed_iter() {
                let difference = &x.row(i) - &x.row(j);
                let expected = (-difference.dot(&difference)).exp();
                assert!((k - expected).abs() < 1e-15, "{i} {j}: {k} against {expected}");
                if j >= 5 {
                    let plain = others[[i, j - 5]];
                    assert!((plain - expected).abs() < 1e-15, "{i} {j}: {plain}");
                }
            }
            assert!(k.diag().iter().all(|k| *k == 1.0), "ones to the last digit");
        }
    }

    #[test]
    fn equal_rows_are_equal_to_the_last_digit() {
        let x = Array2::from_shape_fn((40, 7), |(i, j)| ((i * 13 + j * 5) % 37) as f64 / 11.0);
        let k = Kernel::Rbf { gamma: 0.1 }.tile(x.view(), x.view());
        assert!(k.diag().iter().all(|k| *k == 1.0));
    }
}
