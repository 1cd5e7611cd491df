//! The permutation test without a row in memory.
//!
//! Enters: the labels of all rows, and rows as features φ (b × m at a time), in order. Leaves:
//! ‖M_π‖² of each order π of the labels. With HSIC = ‖M‖² / (n−1)² and labels as features ψ:
//!
//! ```text
//! M_π = Σ_i (ψ_π(i) − ψ̄)(φ_i − c)ᵀ        for any c; one near the mean of φ keeps the digits
//! classes: S_c = Σ_{y_π(i) = c} (φ_i − c), M_c = S_c − n_c/n ΣS, and Lᵀ M for a kernel K = LLᵀ
//! ```
//!
//! Holds the labels, and per order that is summed at the same time 8·r·m + 4·n bytes. Each order
//! has sums of its own, added block by block in file order, so neither threads nor how many orders
//! share a pass change a digit.

use crate::accumulate::LabelMap;
use crate::solve::hsic::Shuffles;
use crate::workers::for_each;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, Axis};
use std::sync::Arc;

/// Rows whose labels become features at a time, to find their mean.
const AT_A_TIME: usize = 4_096;

/// The labels of all rows.
pub(super) enum LabelRows {
    /// Which of some classes each row is of.
    Classes {
        /// One per row.
        ids: Vec<u32>,
        /// Rows of each class over all rows.
        shares: Array1<f64>,
        /// Lᵀ, r × classes; without it the delta kernel.
        factor: Option<Array2<f64>>,
    },
    /// Numbers, which a map turns into features.
    Numbers {
        /// n × q.
        y: Array2<f64>,
        map: Arc<LabelMap>,
        /// ψ̄.
        mean: Array1<f64>,
    },
}

impl LabelRows {
    /// Classes of a kernel K = LLᵀ over them; `None` for the delta kernel.
    pub(super) fn classes(ids: Vec<u32>, classes: usize, factor: Option<Array2<f64>>) -> LabelRows {
        let mut shares = Array1::zeros(classes);
        ids.iter().for_each(|id| shares[*id as usize] += 1.0);
        shares /= ids.len().max(1) as f64;
        LabelRows::Classes { ids, shares, factor }
    }

    /// Numbers and what they are turned into. Linear ones are centred, twice: the second round
    /// takes out the rounding of the first mean.
    pub(super) fn numbers(mut y: Array2<f64>, map: Arc<LabelMap>) -> LabelRows {
        if let LabelMap::Linear { columns } = *map {
            for _ in 0..2 {
                let mean = y.mean_axis(Axis(0)).unwrap_or_default();
                y -= &mean;
            }
            return LabelRows::Numbers { y, map, mean: Array1::zeros(columns) };
        }
        let mut sum = Array1::<f64>::zeros(map.len());
        for some in y.axis_chunks_iter(Axis(0), AT_A_TIME) {
            sum += &map.apply(some.to_owned()).sum_axis(Axis(0));
        }
        let mean = sum / y.nrows().max(1) as f64;
        LabelRows::Numbers { y, map, mean }
    }

    /// n.
    pub(super) fn len(&self) -> usize {
        match self {
            LabelRows::Classes { ids, .. } => ids.len(),
            LabelRows::Numbers { y, .. } => y.nrows(),
        }
    }

    /// Vectors that are summed: classes, or label features.
    pub(super) fn vectors(&self) -> usize {
        match self {
            LabelRows::Classes { shares, .. } => shares.len(),
            LabelRows::Numbers { map, .. } => map.len(),
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            LabelRows::Classes { ids, factor, .. } => {
                4 * ids.len() as u64 + factor.as_ref().map_or(0, |f| 8 * f.len() as u64)
            }
            LabelRows::Numbers { y, .. } => 8 * y.len() as u64,
        }
    }

    /// True when ‖ψ‖² of all rows is a number.
    pub(super) fn has_squares(&self) -> bool {
        match self {
            LabelRows::Classes { .. } => true,
            LabelRows::Numbers { y, map, mean } => {
                let chunks = y.axis_chunks_iter(Axis(0), AT_A_TIME);
                let squares = |some: ArrayView2<'_, f64>| {
                    map.apply(some.to_owned()).iter().map(|v| v * v).sum::<f64>()
                };
                mean.iter().all(|m| m.is_finite()) && chunks.map(squares).sum::<f64>().is_finite()
            }
        }
    }

    /// Adds rows φ − c whose labels are those at these places.
    fn add(&self, phi: &Array2<f64>, places: &[u32], sums: &mut Array2<f64>) {
        match self {
            LabelRows::Classes { ids, .. } => {
                for (row, at) in phi.rows().into_iter().zip(places) {
                    let mut sum = sums.row_mut(ids[*at as usize] as usize);
                    sum += &row;
                }
            }
            LabelRows::Numbers { y, map, mean } => {
                let at: Vec<usize> = places.iter().map(|at| *at as usize).collect();
                let psi = map.apply(y.select(Axis(0), &at)) - mean;
                general_mat_mul(1.0, &psi.t(), phi, 1.0, sums);
            }
        }
    }

    /// ‖M‖² of what was added up.
    fn squares(&self, sums: Array2<f64>) -> f64 {
        let squares = |m: &Array2<f64>| m.iter().map(|v| v * v).sum::<f64>();
        let LabelRows::Classes { shares, factor, .. } = self else { return squares(&sums) };
        let total = sums.sum_axis(Axis(0));
        let mut m = sums;
        for (mut row, share) in m.rows_mut().into_iter().zip(shares) {
            row.scaled_add(-share, &total);
        }
        match factor {
            Some(factor) => squares(&factor.dot(&m)),
            None => squares(&m),
        }
    }
}

/// Some orders of the labels, and what was added up in each of them.
pub(super) struct Shuffling<'a> {
    labels: &'a LabelRows,
    orders: Vec<(Vec<u32>, Array2<f64>)>,
    /// Rows that are in the sums.
    rows: usize,
    threads: usize,
}

impl<'a> Shuffling<'a> {
    /// The next `count` orders, for features of a width.
    pub(super) fn new(
        labels: &'a LabelRows,
        shuffles: &mut Shuffles,
        count: usize,
        width: usize,
        threads: usize,
    ) -> Shuffling<'a> {
        let empty = || Array2::zeros((labels.vectors(), width));
        let orders = (0..count).map(|_| (shuffles.next_order(), empty())).collect();
        Shuffling { labels, orders, rows: 0, threads }
    }

    /// Orders.
    pub(super) fn len(&self) -> usize {
        self.orders.len()
    }

    /// Adds the next rows to all orders.
    pub(super) fn add(&mut self, phi: &Array2<f64>) {
        let (labels, rows) = (self.labels, self.rows..self.rows + phi.nrows());
        self.rows = rows.end;
        let add = |(order, sums): &mut (Vec<u32>, Array2<f64>)| {
            labels.add(phi, &order[rows.clone()], sums);
        };
        for_each(self.threads, self.orders.iter_mut().collect(), add);
    }

    /// ‖M_π‖² of each order.
    pub(super) fn finish(self) -> Vec<f64> {
        let Shuffling { labels, orders, threads, .. } = self;
        for_each(threads, orders, |(_, sums)| labels.squares(sums))
    }
}
