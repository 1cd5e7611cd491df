//! What an entry of a kernel tile costs: `cargo run --release --example tiles`.
//!
//! The product xᵀy alone, then with the kernel by libm (the plain one), then as it is done; nanoseconds per entry on
//! one thread, best of five. "Close" is the worst case of rbf: every pair is close together and far from the origin, and
//! compared by differences.

use eigenstream::{Kernel, internals as blas};
use ndarray::Array2;
use std::time::Instant;

const ROWS: usize = 256;
const COLUMNS: usize = 1024;

fn main() {
    println!("| features | product | rbf, libm | rbf | rbf, close | sigmoid, libm | sigmoid |");
    println!("|---|---|---|---|---|---|---|");
    for d in [8, 32, 128, 512] {
        let x = sample(ROWS, d);
        // Other rows: equal ones are compared again.
        let y = sample(COLUMNS, d) + 1e-3;
        let (rbf, sigmoid) = (
            Kernel::Rbf { gamma: 1.0 / d as f64 },
            Kernel::Sigmoid { gamma: 1.0 / d as f64, coef0: 0.1 },
        );
        let squares =
            |x: &Array2<f64>| x.rows().into_iter().map(|r| r.dot(&r)).collect::<Vec<f64>>();
        let product = || x.dot(&y.t());
        let plain_rbf = || {
            let (a, b, mut k) = (squares(&x), squares(&y), product());
            for (mut row, a) in k.rows_mut().into_iter().zip(&a) {
                row.iter_mut()
                    .zip(&b)
                    .for_each(|(t, b)| *t = (-(a + b - 2.0 * *t).max(0.0) / d as f64).exp());
            }
            k
        };
        let plain_sigmoid = || product().mapv(|t| (t / d as f64 + 0.1).tanh());
        let (far_x, far_y) = (&x + 1e3, &y + 1e3);
        let close = || rbf.tile(far_x.view(), far_y.view());
        let (rbf, sigmoid) = (|| rbf.tile(x.view(), y.view()), || sigmoid.tile(x.view(), y.view()));
        let figures = [
            time(product),
            time(plain_rbf),
            time(rbf),
            time(close),
            time(plain_sigmoid),
            time(sigmoid),
        ];
        println!("| {d} | {} |", figures.map(|f| format!("{f:.2}")).join(" | "));
    }
}

fn time(mut work: impl FnMut() -> Array2<f64>) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let started = Instant::now();
        blas::serial(|| (0..20).for_each(|_| drop(std::hint::black_box(work()))));
        best = best.min(started.elapsed().as_secs_f64());
    }
    best * 1e9 / (20 * ROWS * COLUMNS) as f64
}

fn sample(rows: usize, d: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, d), |(i, j)| {
        ((i * 7919 + j * 104_729) % 1009) as f64 / 500.0 - 1.0
    })
}
