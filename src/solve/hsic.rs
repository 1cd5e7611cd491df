//! The empirical Hilbert-Schmidt independence criterion (seed, eq. HSIC), by tiles, and how it
//! varies when labels are shuffled.
//!
//! Enters: all rows x (n × d), their labels, a kernel over each. Leaves: tr(K H L H) for the labels
//! as they are and for each permutation π of them. Holds the rows, the row sums of K and L, and one
//! tile per thread; never n × n.
//!
//! ```text
//! tr(K H L H) = Σ w_i w_j K_ij L_ij − 2/W Σ_i w_i k_i l_i + k l / W²
//! k_i = Σ_j w_j K_ij, k = Σ_i w_i k_i; l likewise; W = Σ w_i, and w = 1 without weights
//! ```
//!
//! A row of weight 3 is three equal rows. Under the identity kernel over labels they are like
//! themselves alone: ΣK∘L = Σ w_i K_ii and l_i = 1.
//!
//! Shuffling the labels permutes l and the L_ij, and leaves k as it is. Each tile of K is made once
//! for all permutations, and only on and above the diagonal.
//!
//! H takes constants out of K and shifts out of labels, so both are taken out first, where they
//! would cost digits: K less a constant near its mean (a sigmoid may lie within 1e-9 of 1), numbers
//! less their mean.

use super::kernel_matrix::{TakeRows, pairs_stage};
use crate::blas;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::listen::{Listener, Stage, Watch};
use crate::workers::for_each;
use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::HashMap;
use std::ops::Range;

/// Rows of a tile.
const TILE: usize = 256;

/// Rows that are compared with all others at a time.
const GIVEN_ROWS: usize = 16;

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
    /// Numbers less their mean, where the kernel or H takes no notice of it.
    pub(crate) fn centred(self) -> LabelValues {
        match self {
            LabelValues::Numbers(mut y, kernel)
                if matches!(kernel, Kernel::Linear { .. }) || kernel.is_shift_invariant() =>
            {
                // Twice: the second round takes out the rounding of the first mean.
                for _ in 0..2 {
                    let mean = y.mean_axis(Axis(0)).unwrap_or_default();
                    y -= &mean;
                }
                LabelValues::Numbers(y, kernel)
            }
            other => other,
        }
    }

    /// L of the labels at these places.
    fn tile(&self, rows: &[u32], columns: &[u32]) -> Array2<f64> {
        let entry = |equal: &dyn Fn(u32, u32) -> bool| {
            Array2::from_shape_fn((rows.len(), columns.len()), |(a, b)| {
                f64::from(u8::from(equal(rows[a], columns[b])))
            })
        };
        match self {
            LabelValues::Identity => entry(&|a, b| a == b),
            LabelValues::Classes(ids) => entry(&|a, b| ids[a as usize] == ids[b as usize]),
            LabelValues::Numbers(y, kernel) => {
                let at = |places: &[u32]| {
                    let places: Vec<usize> = places.iter().map(|at| *at as usize).collect();
                    y.select(Axis(0), &places)
                };
                kernel.tile(at(rows).view(), at(columns).view())
            }
        }
    }
}

/// A question of dependence.
pub(crate) struct Dependence<'a> {
    /// Rows.
    pub rows: usize,
    /// The labels.
    pub labels: &'a LabelValues,
    /// How often each row counts; not together with other orders of the labels.
    pub weights: Option<&'a Array1<f64>>,
    /// Workers.
    pub threads: usize,
}

/// Orders of the labels of n rows: as they are, then shuffled.
pub(crate) struct Shuffles {
    rng: Pcg64,
    rows: u32,
    first: bool,
}

impl Shuffles {
    /// Seeded.
    pub(crate) fn new(rows: usize, seed: u64) -> Shuffles {
        let rng = Pcg64::new(u128::from(seed), 0x951C);
        Shuffles { rng, rows: rows as u32, first: true }
    }

    /// The next one.
    pub(crate) fn next_order(&mut self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.rows).collect();
        if std::mem::take(&mut self.first) {
            return order;
        }
        // Fisher and Yates.
        for i in (1..order.len()).rev() {
            order.swap(i, self.rng.random_range(0..=i));
        }
        order
    }
}

/// The labels as they are, and so many shuffles of them.
pub(crate) fn permutations(n: usize, count: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut shuffles = Shuffles::new(n, seed);
    (0..=count).map(|_| shuffles.next_order()).collect()
}

/// What one tile adds.
struct Part {
    rows: Array1<f64>,
    columns: Array1<f64>,
    products: Vec<f64>,
    /// Pairs of rows that were compared.
    pairs: u64,
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
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[row])
    }

    fn weights(&self, rows: Range<usize>) -> Array1<f64> {
        rows.map(|row| self.weight(row)).collect()
    }

    /// Σ of K∘L over rows and columns that start at these, each as often as its rows meet.
    fn sum(&self, product: &Array2<f64>, (i, j): (usize, usize)) -> f64 {
        let (rows, columns) = product.dim();
        match (self.weights, self.labels) {
            (None, _) => product.sum(),
            // Rows that are one counted several times are not like each other.
            (Some(_), LabelValues::Identity) => {
                let own = self.weights(i..i + rows);
                own.dot(&product.sum_axis(Axis(1)))
            }
            (Some(_), _) => {
                self.weights(i..i + rows).dot(&product.dot(&self.weights(j..j + columns)))
            }
        }
    }

    /// tr(K H L H) under each order of the labels; counts pairs.
    pub(crate) fn traces(
        &self,
        pairs: &Pairs<'_>,
        orders: &[Vec<u32>],
        listener: &dyn Listener,
    ) -> Result<Vec<f64>> {
        let n = self.rows;
        let tiles: Vec<(usize, usize)> =
            (0..n).step_by(TILE).flat_map(|i| (i..n).step_by(TILE).map(move |j| (i, j))).collect();
        let constant = pairs.near_mean();
        let watch = Watch::new(listener, pairs_stage("comparing", n));
        let mut k = vec![0.0; n];
        let mut products = vec![0.0; orders.len()];
        // Tiles are added in order, some at a time, so that the sum does not depend on the threads.
        for some in tiles.chunks(64) {
            let part = |(i, j): &(usize, usize)| {
                let part = self.part((*i, *j), pairs.tile(*i, *j) - constant, orders);
                watch.advance(part.pairs, 0).map(|()| part)
            };
            let parts = blas::serial(|| for_each(self.threads, some.iter().collect(), part));
            for ((i, j), part) in some.iter().zip(parts) {
                let part = part?;
                part.rows.iter().enumerate().for_each(|(a, v)| k[i + a] += v);
                part.columns.iter().enumerate().for_each(|(b, v)| k[j + b] += v);
                part.products.iter().zip(&mut products).for_each(|(v, p)| *p += v);
            }
        }
        drop(watch);
        self.centred(&k, &products, orders, listener)
    }

    /// The same of a matrix that is read, its rows in order, less a constant near its mean.
    pub(crate) fn given_traces(
        &self,
        orders: &[Vec<u32>],
        constant: f64,
        read: &dyn Fn(&mut TakeRows<'_>) -> Result<()>,
        listener: &dyn Listener,
    ) -> Result<Vec<f64>> {
        let mut k = vec![0.0; self.rows];
        let mut products = vec![0.0; orders.len()];
        let all = self.weights(0..self.rows);
        read(&mut |first, rows| {
            let along = |part: ArrayView2<'_, f64>| {
                let part = part.mapv(|k| k - constant);
                (part.dot(&all), part)
            };
            let product = |(at, order, part): (usize, &Vec<u32>, &Array2<f64>)| {
                let l = self.labels.tile(&order[at..at + part.nrows()], order);
                self.sum(&(part * &l), (at, 0))
            };
            for (at, part) in rows.axis_chunks_iter(Axis(0), GIVEN_ROWS).enumerate() {
                let at = first + at * GIVEN_ROWS;
                let (sums, part) = along(part);
                sums.iter().enumerate().for_each(|(i, sum)| k[at + i] = *sum);
                let jobs = orders.iter().map(|order| (at, order, &part)).collect();
                let found = for_each(self.threads, jobs, product);
                found.iter().zip(&mut products).for_each(|(v, p)| *p += v);
            }
            Ok(())
        })?;
        self.centred(&k, &products, orders, listener)
    }

    /// Row sums of K and ΣK∘L under each order → traces.
    fn centred(
        &self,
        k: &[f64],
        products: &[f64],
        orders: &[Vec<u32>],
        listener: &dyn Listener,
    ) -> Result<Vec<f64>> {
        let l = self.label_sums(listener)?;
        let over = |v: &[f64]| v.iter().enumerate().map(|(i, v)| v * self.weight(i)).sum::<f64>();
        let (k_all, l_all) = (over(k), over(&l));
        let total = self.weights.map_or(self.rows as f64, |w| w.sum());
        let trace = |(order, product): (&Vec<u32>, &f64)| {
            let both = order.iter().zip(k).enumerate();
            let along: f64 = both.map(|(i, (at, k))| self.weight(i) * k * l[*at as usize]).sum();
            product - 2.0 / total * along + k_all * l_all / (total * total)
        };
        Ok(orders.iter().zip(products).map(trace).collect())
    }

    /// The tile at rows i and j and its mirror image.
    fn part(&self, (i, j): (usize, usize), k: Array2<f64>, orders: &[Vec<u32>]) -> Part {
        let (rows, columns) = k.dim();
        let (own, others) = (i..i + rows, j..j + columns);
        let product = |order: &Vec<u32>| {
            let l = self.labels.tile(&order[own.clone()], &order[others.clone()]);
            self.sum(&(&k * &l), (i, j))
        };
        let products = orders.iter().map(product);
        match i == j {
            true => Part {
                rows: k.dot(&self.weights(others.clone())),
                columns: Array1::zeros(0),
                products: products.collect(),
                pairs: (rows * (rows + 1) / 2) as u64,
            },
            false => Part {
                rows: k.dot(&self.weights(others.clone())),
                columns: k.t().dot(&self.weights(own.clone())),
                products: products.map(|product| 2.0 * product).collect(),
                pairs: (rows * columns) as u64,
            },
        }
    }

    /// l_i: by counting for classes, by a sum for the linear kernel, pair by pair for rbf.
    fn label_sums(&self, listener: &dyn Listener) -> Result<Vec<f64>> {
        let n = self.rows;
        Ok(match self.labels {
            LabelValues::Identity => vec![1.0; n],
            LabelValues::Classes(ids) => {
                let mut counts = HashMap::new();
                let rows = ids.iter().enumerate();
                rows.for_each(|(i, id)| *counts.entry(id).or_insert(0.0) += self.weight(i));
                ids.iter().map(|id| counts[id]).collect()
            }
            LabelValues::Numbers(y, Kernel::Linear { .. }) => {
                y.dot(&y.t().dot(&self.weights(0..n))).to_vec()
            }
            LabelValues::Numbers(y, kernel) => {
                let watch = Watch::new(listener, Stage::new("comparing labels", "rows", n as u64));
                let all = self.weights(0..n);
                let some = |first: usize| {
                    let rows = first..(first + GIVEN_ROWS).min(n);
                    let sums = kernel.tile(y.slice(s![rows.clone(), ..]), y.view()).dot(&all);
                    watch.advance(rows.len() as u64, 0).map(|()| sums)
                };
                let jobs = (0..n).step_by(GIVEN_ROWS).collect();
                let sums = blas::serial(|| for_each(self.threads, jobs, some));
                let sums: Vec<Array1<f64>> = sums.into_iter().collect::<Result<_>>()?;
                sums.iter().flatten().copied().collect()
            }
        })
    }
}
