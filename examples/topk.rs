//! Times the leading k eigenpairs of a d × d matrix in memory against dsyevd: `topk D K KIND`, KIND lowrank or wishart.

use eigenstream::Components;
use eigenstream::internals::{self as blas, CoMoment, Moments, Scaling};
use ndarray::{Array1, Array2};
use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (d, k): (usize, usize) = (args[1].parse().expect("D"), args[2].parse().expect("K"));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let a = matrix(d, args[3] == "lowrank", threads);
    for _ in 0..3 {
        let started = Instant::now();
        let (values, _) = blas::parallel(threads, || blas::eigh(a.clone())).expect("dsyevd");
        let dense = started.elapsed().as_secs_f64();
        let moments = Moments {
            rows: 2 * d as u64,
            weight: 2.0 * d as f64,
            mean: Array1::zeros(d),
            rest: Array1::zeros(d),
            squares: a.diag().to_owned(),
            mixed_error: None,
        };
        let started = Instant::now();
        let scaling = Scaling { center: true, standardize: false };
        let sums = CoMoment { moments, s: a.clone() };
        let (_, solution) =
            blas::solve(sums, scaling, Components::Count(k), threads).expect("solve");
        let few = started.elapsed().as_secs_f64();
        let error = (0..k)
            .map(|i| (solution.eigenvalues[i] / values[d - 1 - i] - 1.0).abs())
            .fold(0.0, f64::max);
        let residual = solution.certificate.max_residual;
        println!(
            "dsyevd {dense:.2} s, top {k} {few:.2} s ({:.2}), eigenvalues {error:.1e}, residual {residual:.1e}",
            few / dense
        );
    }
}

/// XᵀX of 2d rows: 40 directions of decaying deviation in noise, or noise alone, where the leading values are close.
fn matrix(d: usize, low_rank: bool, threads: usize) -> Array2<f64> {
    let mut rng = Pcg64::new(7, 7);
    let mut normal =
        |r, c| Array2::from_shape_simple_fn((r, c), || rng.sample::<f64, _>(StandardNormal));
    let mut x = normal(2 * d, d);
    blas::parallel(threads, || {
        if low_rank {
            x *= 0.1;
            let mut loadings = normal(40, d);
            loadings
                .rows_mut()
                .into_iter()
                .enumerate()
                .for_each(|(i, mut row)| row *= 0.9f64.powi(i as i32));
            x += &normal(2 * d, 40).dot(&loadings);
        }
        x.t().dot(&x)
    })
}
