//! From a row to its scores on kernel components.
//!
//! A component is a combination of what rows are compared with (training rows, landmarks, random
//! features), so with k(x) the comparisons of x, coefficients A (k × m) and the offset o:
//!
//! ```text
//! scores = A k(x) − o
//! kpca     A = Σ⁻¹Vᵀ (times √w), o = A m     m the kernel means: Σ⁻¹Vᵀ k̆(x),
//!                                            since the rows of A sum to 0
//! kspca    A = Θᵀ = Σ⁻¹VᵀΔᵀH, o = 0
//! Nyström  A = UᵀK_mm^{−½}, o = Uᵀμ          U, μ of the whitened comparisons with the landmarks
//! Fourier  A = Uᵀ, o = Uᵀμ
//! ```
//!
//! `mean` (m) writes the mean of all rows as such a combination and `grand_mean` is its squared
//! length, so that ‖φ(x) − φ̄‖² = k(x, x) − 2 meanᵀk(x) + grand_mean is known too.

use super::{Comparands, Fourier, Kernel};
use crate::workers::for_each;
use ndarray::{Array1, Array2, ArrayView2, s};
use std::ops::Range;

/// Rows of a tile; the bytes of a score do not depend on how many rows come at once.
const TILE_ROWS: usize = 256;
/// Columns of a tile.
const TILE_COLUMNS: usize = 1024;

/// What a row is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Basis {
    /// Rows, by a kernel.
    Rows {
        /// The kernel.
        kernel: Kernel,
        /// m × d, prepared as rows are before they are compared.
        rows: Array2<f64>,
    },
    /// Random features.
    Fourier(Fourier),
    /// The n training rows of a kernel that is given: a row has its values with them.
    Given {
        /// Which one.
        kernel: Kernel,
        /// n.
        rows: usize,
    },
}

impl Basis {
    /// m.
    pub fn len(&self) -> usize {
        match self {
            Basis::Rows { rows, .. } => rows.nrows(),
            Basis::Fourier(fourier) => fourier.len(),
            Basis::Given { rows, .. } => *rows,
        }
    }

    /// True when there is nothing to compare with.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// d.
    pub fn width(&self) -> usize {
        match self {
            Basis::Rows { rows, .. } => rows.ncols(),
            Basis::Fourier(fourier) => fourier.omega.nrows(),
            Basis::Given { rows, .. } => *rows,
        }
    }
}

/// The components of a kernel model.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelMap {
    /// What a row is compared with.
    pub basis: Basis,
    /// A, k × m.
    pub coefficients: Array2<f64>,
    /// o, k.
    pub offset: Array1<f64>,
    /// Mean of the kernel over all rows, for each row of the basis; where all pairs were seen.
    pub kernel_means: Option<Array1<f64>>,
    /// The mean of all rows over the basis; zeros where scores are not centred.
    pub mean: Array1<f64>,
    /// Its squared length.
    pub grand_mean: f64,
}

impl KernelMap {
    /// False where k(x, x) of a new row is not known, and so not its distance from the mean.
    pub fn knows_lengths(&self) -> bool {
        !matches!(self.basis, Basis::Given { kernel: Kernel::Precomputed, .. })
    }

    /// Ready to compare.
    pub fn comparer(&self) -> Comparer<'_> {
        let with = match &self.basis {
            Basis::Rows { kernel, rows } => With::Rows(Comparands::new(*kernel, rows)),
            Basis::Fourier(fourier) => With::Fourier(fourier),
            Basis::Given { kernel, .. } => With::Given(*kernel),
        };
        Comparer { map: self, with }
    }
}

enum With<'a> {
    Rows(Comparands<'a>),
    Fourier(&'a Fourier),
    Given(Kernel),
}

/// A kernel map with what it needs at hand.
pub struct Comparer<'a> {
    map: &'a KernelMap,
    with: With<'a>,
}

/// Some rows under a kernel map.
pub struct KernelScores {
    /// k × rows.
    pub scores: Array2<f64>,
    /// ‖φ(x) − φ̄‖² of each.
    pub lengths: Array1<f64>,
}

impl Comparer<'_> {
    /// Rows, or random features, that a row is compared with.
    pub fn len(&self) -> usize {
        self.map.basis.len()
    }

    /// True when there is nothing to compare with.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that one thread holds.
    pub fn bytes(features: u64) -> u64 {
        8 * (TILE_ROWS as u64) * (TILE_COLUMNS as u64 + 2 * features)
    }

    /// Scores of prepared rows on the first k components, and their distances from the mean, on so
    /// many threads.
    pub fn compare(&self, x: ArrayView2<'_, f64>, k: usize, threads: usize) -> KernelScores {
        let rows = x.nrows();
        let parts: Vec<Range<usize>> =
            (0..rows).step_by(TILE_ROWS).map(|i| i..(i + TILE_ROWS).min(rows)).collect();
        let work = |part: Range<usize>| self.part(x.slice(s![part, ..]), k);
        let mut scores = Array2::zeros((k, rows));
        let mut lengths = Array1::zeros(rows);
        let found = for_each(threads, parts.clone(), work);
        for (part, (some_scores, some_lengths)) in parts.into_iter().zip(found) {
            scores.slice_mut(s![.., part.clone()]).assign(&some_scores);
            lengths.slice_mut(s![part]).assign(&some_lengths);
        }
        KernelScores { scores, lengths }
    }

    fn part(&self, x: ArrayView2<'_, f64>, k: usize) -> (Array2<f64>, Array1<f64>) {
        let map = self.map;
        let mut scores = Array2::zeros((k, x.nrows()));
        let mut along: Array1<f64> = Array1::zeros(x.nrows());
        let own = self.tiles(x, |columns, tile| {
            let coefficients = map.coefficients.slice(s![..k, columns.clone()]);
            ndarray::linalg::general_mat_mul(1.0, &coefficients, &tile.t(), 1.0, &mut scores);
            along += &tile.dot(&map.mean.slice(s![columns]));
        });
        scores.rows_mut().into_iter().zip(&map.offset).for_each(|(mut row, o)| row -= *o);
        // What is no number stays none.
        let lengths =
            (own - 2.0 * &along + map.grand_mean).mapv(|l: f64| if l < 0.0 { 0.0 } else { l });
        (scores, lengths)
    }

    /// Compares rows with the whole basis, some columns at a time; gives k(x, x).
    pub fn tiles(
        &self,
        x: ArrayView2<'_, f64>,
        mut take: impl FnMut(Range<usize>, ArrayView2<'_, f64>),
    ) -> Array1<f64> {
        match &self.with {
            With::Fourier(fourier) => {
                let psi = fourier.apply(x);
                take(0..fourier.len(), psi.view());
                psi.rows().into_iter().map(|row| row.dot(&row)).collect()
            }
            With::Given(kernel) => {
                let values = kernel.given(x.to_owned());
                take(0..values.ncols(), values.view());
                kernel.diagonal(&vec![0.0; x.nrows()])
            }
            With::Rows(rows) => {
                let others = rows.others(x);
                let mut tile = Array2::zeros((others.len(), TILE_COLUMNS.min(rows.len())));
                for first in (0..rows.len()).step_by(TILE_COLUMNS) {
                    let columns = first..(first + TILE_COLUMNS).min(rows.len());
                    let mut part = tile.slice_mut(s![.., ..columns.len()]);
                    rows.against(&others, columns.clone(), part.view_mut());
                    take(columns, part.view());
                }
                rows.kernel().diagonal(others.squares())
            }
        }
    }
}
