//! Landmarks (Nyström): rows that stand for all in the comparisons of kernel PCA.
//!
//! Enters: a seeded sample of prepared rows, a kernel. Leaves: m of them and the whitening of their
//! comparisons. With K_mm = QΛQᵀ over the landmarks, φ(x) = Λ^−½Qᵀk_m(x) has φ(x)ᵀφ(y) =
//! k_m(x)ᵀK_mm⁻¹k_m(y), which is k(x, y) wherever x or y is a landmark; PCA of φ is kernel PCA of
//! that kernel. Holds the sample, m² numbers and LAPACK's work area.

use super::spectrum::rank_tolerance;
use crate::blas;
use crate::error::Result;
use crate::kernel::{Kernel, Side};
use crate::listen::Watch;
use ndarray::{Array1, Array2, Axis, s};
use rand::RngExt;
use rand_pcg::Pcg64;

/// Landmarks and the whitening of comparisons with them.
pub(crate) struct Landmarks {
    /// m × d.
    pub rows: Array2<f64>,
    /// Λ^−½Qᵀ, r × m: r is the rank of K_mm.
    pub whitening: Array2<f64>,
    /// Negative eigenvalues of K_mm, which are left out.
    pub negative: usize,
}

/// The first `count` of a seeded shuffle of 0 … n − 1.
pub(crate) fn shuffled(n: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Pcg64::new(u128::from(seed), 0x5A3F_1E5D);
    let mut order: Vec<usize> = (0..n).collect();
    for i in 0..count.min(n) {
        order.swap(i, rng.random_range(i..n));
    }
    order.truncate(count);
    order
}

/// k-means++: each next one with a chance that grows with its squared distance, in the kernel's
/// space, from those chosen.
pub(crate) fn spread_out(
    kernel: &Kernel,
    rows: &Array2<f64>,
    count: usize,
    seed: u64,
    watch: &Watch<'_>,
) -> Result<Vec<usize>> {
    let n = rows.nrows();
    let mut rng = Pcg64::new(u128::from(seed), 0x0C1A_57E5);
    let squares = kernel.squares(rows.view());
    let all = Side::new(rows.view(), &squares);
    let own = kernel.diagonal(&squares);
    let mut near = Array2::zeros((1, n));
    let mut chosen = vec![rng.random_range(0..n.max(1))];
    let mut distance = Array1::from_elem(n, f64::INFINITY);
    watch.advance(1, 0)?;
    while chosen.len() < count.min(n) {
        let last = chosen[chosen.len() - 1];
        kernel.tile_into(all.part(last..last + 1), all, near.view_mut());
        for i in 0..n {
            distance[i] = distance[i].min((own[i] + own[last] - 2.0 * near[[0, i]]).max(0.0));
        }
        distance[last] = 0.0;
        let total = distance.sum();
        if total <= f64::EPSILON * n as f64 * own[last].abs() {
            // All others look like one that is chosen.
            break;
        }
        let mut left = rng.random_range(0.0..total);
        let next = (0..n).find(|i| {
            left -= distance[*i];
            left < 0.0
        });
        let Some(next) = next else { break };
        chosen.push(next);
        watch.advance(1, 0)?;
    }
    // Those that are not to be found are not to be waited for.
    watch.advance((count.min(n).saturating_sub(chosen.len())) as u64, 0)?;
    Ok(chosen)
}

impl Landmarks {
    /// Whitens the comparisons with these rows.
    pub(crate) fn new(kernel: &Kernel, rows: Array2<f64>, threads: usize) -> Result<Landmarks> {
        let m = rows.nrows();
        let k = kernel.tile(rows.view(), rows.view());
        let (values, vectors) = blas::parallel(threads, || blas::eigh(k))?;
        let least = rank_tolerance(m as u64, m) * values.iter().last().copied().unwrap_or(0.0);
        let first = values.iter().take_while(|v| **v <= least).count();
        let mut whitening = vectors.slice(s![first.., ..]).to_owned();
        for (mut row, value) in whitening.rows_mut().into_iter().zip(values.iter().skip(first)) {
            row /= value.sqrt();
        }
        let negative = values.iter().take_while(|v| **v < -least.abs()).count();
        Ok(Landmarks { rows, whitening, negative })
    }
}

/// ‖K̂ − K‖ / ‖K‖ (Frobenius) of K over some rows, both centred, with K̂ = ΦΦᵀ.
pub(crate) fn error(k: Array2<f64>, phi: &Array2<f64>) -> f64 {
    let centred = |mut k: Array2<f64>| {
        let mean = k.mean_axis(Axis(0)).unwrap_or_default();
        let grand = mean.mean().unwrap_or(0.0);
        for (mut row, m) in k.rows_mut().into_iter().zip(&mean) {
            row -= &mean;
            row += grand - m;
        }
        k
    };
    let truth = centred(k);
    let found = centred(phi.dot(&phi.t()));
    let norm = |k: &Array2<f64>| k.iter().map(|v| v * v).sum::<f64>().sqrt();
    let size = norm(&truth);
    if size > 0.0 { norm(&(found - &truth)) / size } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{Quiet, Stage};

    fn rows(n: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, 3), |(i, j)| {
            ((i * 7919 + j * 104_729 + i * i) % 1009) as f64 / 500.0 - 1.0
        })
    }

    #[test]
    fn whitened_comparisons_give_the_kernel_back_on_the_landmarks() {
        let (kernel, x) = (Kernel::Rbf { gamma: 0.4 }, rows(40));
        let landmarks = Landmarks::new(&kernel, x.clone(), 1).unwrap();
        let phi = kernel.tile(x.view(), x.view()).dot(&landmarks.whitening.t());
        assert!(
            (phi.dot(&phi.t()) - kernel.tile(x.view(), x.view())).iter().all(|e| e.abs() < 1e-9)
        );
        assert!(error(kernel.tile(x.view(), x.view()), &phi) < 1e-9);
    }

    fn spread(kernel: &Kernel, rows: &Array2<f64>, seed: u64) -> Vec<usize> {
        let watch = Watch::new(&Quiet, Stage::new("choosing", "landmarks", 30));
        spread_out(kernel, rows, 30, seed, &watch).unwrap()
    }

    #[test]
    fn choices_are_seeded_and_distinct() {
        let x = rows(200);
        let kernel = Kernel::Rbf { gamma: 1.0 };
        for pick in [
            |x: &Array2<f64>, s| shuffled(x.nrows(), 30, s),
            |x: &Array2<f64>, s| spread(&Kernel::Rbf { gamma: 1.0 }, x, s),
        ] {
            let mut chosen = pick(&x, 7);
            assert_eq!(chosen, pick(&x, 7));
            assert_ne!(chosen, pick(&x, 8));
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), 30);
        }
        let same = Array2::ones((50, 3));
        assert_eq!(spread(&kernel, &same, 1).len(), 1, "one row stands for all that are the same");
    }
}
