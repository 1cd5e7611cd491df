//! The empirical Hilbert-Schmidt independence criterion (seed, eq. HSIC), by tiles, and how it
//! varies when labels are shuffled.
//!
//! Enters: all rows x (n × d), their labels, a kernel over each. Leaves: tr(K H L H) for the labels
//! as they are and for each permutation π of them. Holds the rows, the row sums of K and L, and one
//! tile per thread; never n × n.
//!
//! ```text
//! tr(K H L H) = Σ K_ij L_ij − 2/n Σ_i k_i l_i + k l / n²
//! k_i = Σ_j K_ij, k = Σ_i k_i; l likewise
//! ```
//!
//! Shuffling the labels permutes l and the L_ij, and leaves k as it is. Each tile of K is made once
//! for all permutations, and only on and above the diagonal.
//!
//! H takes constants out of K and shifts out of labels, so both are taken out first, where they
//! would cost digits: K less a constant near its mean (a sigmoid may lie within 1e-9 of 1), numbers
//! less their mean.

use super::kernel_matrix::TakeRows;
use crate::blas;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::workers::for_each;
use ndarray::{Array2, s};
use rand::RngExt;
use rand_pcg::Pcg64;

/// Rows of a tile.
const TILE: usize = 256;

/// Labels of all rows.
#[derive(Debug, Clone)]
pub(crate) enum LabelValues {
    /// None that are looked at: a row is like itself alone.
    Identity,
    /// Ids of classes: equal or not.
    Classes(Vec<u32>),
    /// n × q, and the kernel over them.
    Numbers(Array2<f64>, Kernel),
}

impl LabelValues {
    /// Numbers less their mean, of which H takes no notice under the linear kernel.
    pub(crate) fn centred(self) -> LabelValues {
        match self {
            LabelValues::Numbers(mut y, kernel @ Kernel::Linear { .. }) if y.nrows() > 0 => {
                for mut column in y.columns_mut() {
                    // Twice: the second round takes out the rounding of the first mean.
                    for _ in 0..2 {
                        let mean = column.sum() / column.len() as f64;
                        column -= mean;
                    }
                }
                LabelValues::Numbers(y, kernel)
            }
            other => other,
        }
    }

    /// L_ij.
    fn kernel(&self, i: usize, j: usize) -> f64 {
        match self {
            LabelValues::Identity => f64::from(u8::from(i == j)),
            LabelValues::Classes(ids) => f64::from(u8::from(ids[i] == ids[j])),
            LabelValues::Numbers(y, kernel) => kernel.of(y.row(i), y.row(j)),
        }
    }

    /// True when K_y is a product of columns that are at hand.
    pub(crate) fn is_factored(&self) -> bool {
        match self {
            LabelValues::Identity => false,
            LabelValues::Classes(_) => true,
            LabelValues::Numbers(_, kernel) => matches!(kernel, Kernel::Linear { .. }),
        }
    }
}

/// A question of dependence.
pub(crate) struct Dependence<'a> {
    /// Rows.
    pub rows: usize,
    /// The labels.
    pub labels: &'a LabelValues,
    /// Workers.
    pub threads: usize,
}

/// The order of the labels: as they are, then shuffled.
pub(crate) fn permutations(n: usize, count: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = Pcg64::new(u128::from(seed), 0x951C);
    let same: Vec<u32> = (0..n as u32).collect();
    let mut orders = vec![same];
    for _ in 0..count {
        let mut order = orders[0].clone();
        // Fisher and Yates.
        for i in (1..n).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        orders.push(order);
    }
    orders
}

/// Σ over the columns of M of their squared length, M = X̆ᵀΨ with the labels in each order: HSIC of
/// the linear kernel in n·d steps per order instead of n².
pub(crate) fn linear_traces(
    x: &Array2<f64>,
    labels: &LabelValues,
    orders: &[Vec<u32>],
    threads: usize,
) -> Vec<f64> {
    let trace = |order: &Vec<u32>| match labels {
        LabelValues::Classes(ids) => {
            let classes = ids.iter().max().map_or(0, |m| *m as usize + 1);
            let mut sums = Array2::<f64>::zeros((classes, x.ncols()));
            for (row, at) in x.rows().into_iter().zip(order) {
                let mut sum = sums.row_mut(ids[*at as usize] as usize);
                sum += &row;
            }
            sums.iter().map(|s| s * s).sum::<f64>()
        }
        LabelValues::Identity => x.iter().map(|x| x * x).sum(),
        LabelValues::Numbers(y, _) => {
            let places: Vec<usize> = order.iter().map(|at| *at as usize).collect();
            y.select(ndarray::Axis(0), &places).t().dot(x).iter().map(|m| m * m).sum()
        }
    };
    blas::serial(|| for_each(threads, orders.iter().collect(), trace))
}

/// What one tile adds.
struct Part {
    rows: Vec<f64>,
    columns: Vec<f64>,
    products: Vec<f64>,
}

/// Rows to be compared, and how.
pub(crate) struct Pairs<'a> {
    /// n × d.
    pub x: &'a Array2<f64>,
    /// The kernel over rows.
    pub kernel: Kernel,
}

impl Pairs<'_> {
    /// The mean of K over some rows and all of these: a constant near the mean of all.
    fn near_mean(&self) -> f64 {
        let step = self.x.nrows().div_ceil(TILE).max(1);
        let some = self.x.slice(s![..;step, ..]);
        self.kernel.tile(some, some).mean().filter(|mean| mean.is_finite()).unwrap_or(0.0)
    }

    /// The tile at rows i and j.
    fn tile(&self, i: usize, j: usize) -> Array2<f64> {
        let rows = |at: usize| at..(at + TILE).min(self.x.nrows());
        self.kernel.tile(self.x.slice(s![rows(i), ..]), self.x.slice(s![rows(j), ..]))
    }
}

impl Dependence<'_> {
    /// tr(K H L H) under each order of the labels.
    pub(crate) fn traces(&self, pairs: &Pairs<'_>, orders: &[Vec<u32>]) -> Vec<f64> {
        let n = self.rows;
        let tiles: Vec<(usize, usize)> =
            (0..n).step_by(TILE).flat_map(|i| (i..n).step_by(TILE).map(move |j| (i, j))).collect();
        let constant = pairs.near_mean();
        let mut k = vec![0.0; n];
        let mut products = vec![0.0; orders.len()];
        // Tiles are added in order, some at a time, so that the sum does not depend on the threads.
        for some in tiles.chunks(64) {
            let part = |(i, j): &(usize, usize)| {
                self.part((*i, *j), pairs.tile(*i, *j) - constant, orders)
            };
            let parts = blas::serial(|| for_each(self.threads, some.iter().collect(), part));
            for ((i, j), part) in some.iter().zip(parts) {
                part.rows.iter().enumerate().for_each(|(a, v)| k[i + a] += v);
                part.columns.iter().enumerate().for_each(|(b, v)| k[j + b] += v);
                part.products.iter().zip(&mut products).for_each(|(v, p)| *p += v);
            }
        }
        self.centred(&k, &products, orders)
    }

    /// The same of a matrix whose rows are handed over in order, less a constant near its mean.
    pub(crate) fn given_traces(
        &self,
        orders: &[Vec<u32>],
        constant: f64,
        read: &dyn Fn(&mut TakeRows<'_>) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let mut k = vec![0.0; self.rows];
        let mut products = vec![0.0; orders.len()];
        read(&mut |first, rows| {
            let along = |i: usize| {
                let row = rows.row(i).mapv(|k| k - constant);
                let product = |order: &Vec<u32>| {
                    let own = order[first + i] as usize;
                    let both = row.iter().zip(order);
                    both.map(|(k, j)| k * self.labels.kernel(own, *j as usize)).sum::<f64>()
                };
                (row.sum(), orders.iter().map(product).collect::<Vec<f64>>())
            };
            let found = for_each(self.threads, (0..rows.nrows()).collect(), along);
            for (i, (sum, some)) in found.into_iter().enumerate() {
                k[first + i] = sum;
                some.iter().zip(&mut products).for_each(|(v, p)| *p += v);
            }
            Ok(())
        })?;
        Ok(self.centred(&k, &products, orders))
    }

    /// Row sums of K and ΣK∘L under each order → traces.
    fn centred(&self, k: &[f64], products: &[f64], orders: &[Vec<u32>]) -> Vec<f64> {
        let l = self.label_sums();
        let (k_all, l_all) = (k.iter().sum::<f64>(), l.iter().sum::<f64>());
        let n = self.rows as f64;
        let trace = |(order, product): (&Vec<u32>, &f64)| {
            let along: f64 = order.iter().zip(k).map(|(at, k)| k * l[*at as usize]).sum();
            product - 2.0 / n * along + k_all * l_all / (n * n)
        };
        orders.iter().zip(products).map(trace).collect()
    }

    /// The tile at rows i and j and its mirror image.
    fn part(&self, (i, j): (usize, usize), k: Array2<f64>, orders: &[Vec<u32>]) -> Part {
        let twice = if i == j { 1.0 } else { 2.0 };
        let product = |order: &Vec<u32>| {
            let label = |a: usize, b: usize| {
                self.labels.kernel(order[i + a] as usize, order[j + b] as usize)
            };
            twice * k.indexed_iter().map(|((a, b), k)| k * label(a, b)).sum::<f64>()
        };
        Part {
            rows: k.rows().into_iter().map(|r| r.sum()).collect(),
            columns: if i == j {
                Vec::new()
            } else {
                k.columns().into_iter().map(|c| c.sum()).collect()
            },
            products: orders.iter().map(product).collect(),
        }
    }

    /// l_i: by counting for classes, by a sum for the linear kernel, pair by pair for rbf.
    fn label_sums(&self) -> Vec<f64> {
        let n = self.rows;
        match self.labels {
            LabelValues::Identity => vec![1.0; n],
            LabelValues::Classes(ids) => {
                let mut counts = std::collections::HashMap::new();
                ids.iter().for_each(|id| *counts.entry(id).or_insert(0.0) += 1.0);
                ids.iter().map(|id| counts[id]).collect()
            }
            LabelValues::Numbers(y, Kernel::Linear { .. }) => {
                y.dot(&y.sum_axis(ndarray::Axis(0))).to_vec()
            }
            LabelValues::Numbers(..) => {
                let row = |i: usize| (0..n).map(|j| self.labels.kernel(i, j)).sum();
                (0..n).map(row).collect()
            }
        }
    }
}
