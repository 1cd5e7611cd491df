//! Scores of features against a label (seed, "Supervised PCA Using Scoring"; Bair et al. 2006).
//!
//! ```text
//! numeric label   s_j = x_jᵀy / √(x_jᵀx_j)                  centred columns, or raw ones
//! classes         s_j = √(Σ_c W_c (μ_cj − μ_j)² / x_jᵀx_j)  the root of the between-class share
//! ```
//!
//! The second is of centred columns always. For two classes it is the first's magnitude over √(W p
//! (1−p)), the norm of a centred 0/1 label. A feature without spread scores 0.

use crate::accumulate::{ClassMoments, CrossMoments, LabelMoments, Moments};
use ndarray::Array1;
use serde::{Deserialize, Serialize};

/// How a score counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// By magnitude.
    #[default]
    Abs,
    /// As it is: the largest first, the most negative last.
    Signed,
}

/// How many features are kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The best so many.
    Features(usize),
    /// Those that score so much.
    Threshold(f64),
}

/// x_jᵀx_j, of centred columns or raw ones.
fn squares(moments: &Moments, center: bool) -> Array1<f64> {
    match center {
        true => moments.squares.clone(),
        false => &moments.squares + &(moments.mean.mapv(|m| m * m) * moments.weight),
    }
}

fn over_root(value: f64, square: f64) -> f64 {
    if square > 0.0 { value / square.sqrt() } else { 0.0 }
}

/// The score of each feature against labels; the first of several numeric ones counts.
pub(crate) fn scores(labels: &LabelMoments, center: bool) -> Array1<f64> {
    match labels {
        LabelMoments::Classes(c) => classes(c),
        LabelMoments::Numbers(c) => numeric(c, center),
    }
}

/// Against one numeric label.
pub(crate) fn numeric(sums: &CrossMoments, center: bool) -> Array1<f64> {
    let squares = squares(&sums.moments, center);
    let y = sums.labels.mean[0];
    let raw = |j: usize| {
        if center { 0.0 } else { sums.moments.weight * sums.moments.mean[j] * y }
    };
    Array1::from_shape_fn(squares.len(), |j| over_root(sums.m[[0, j]] + raw(j), squares[j]))
}

/// Against classes. Centred even where columns are not: raw columns would be scored by the size of
/// their means.
pub(crate) fn classes(sums: &ClassMoments) -> Array1<f64> {
    let squares = &sums.moments.squares;
    let between =
        |j: usize| sums.m.column(j).iter().zip(&sums.weights).map(|(m, w)| m * m / w).sum::<f64>();
    Array1::from_shape_fn(squares.len(), |j| {
        if squares[j] > 0.0 { (between(j) / squares[j]).sqrt() } else { 0.0 }
    })
}

impl Score {
    /// How much a score counts.
    fn rank(self, score: f64) -> f64 {
        if self == Score::Abs { score.abs() } else { score }
    }
}

/// The features, the best first; of equals the earlier.
pub(crate) fn ranking(scores: &Array1<f64>, score: Score) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let rank = |j: &usize| score.rank(scores[*j]);
    order.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then(a.cmp(b)));
    order
}

/// The kept features, ascending, and the least score among them.
pub(crate) fn select(scores: &Array1<f64>, score: Score, keep: Keep) -> (Vec<usize>, f64) {
    let rank = |j: &usize| score.rank(scores[*j]);
    let mut order = ranking(scores, score);
    let count = match keep {
        Keep::Features(q) => q.min(order.len()),
        Keep::Threshold(t) => order.iter().take_while(|j| rank(j) >= t).count(),
    };
    order.truncate(count);
    let cut = order.last().map_or(f64::INFINITY, rank);
    order.sort_unstable();
    (order, cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn the_best_are_kept_in_their_own_order() {
        let scores = array![0.1, -0.9, 0.5, 0.5, 0.0];
        assert_eq!(select(&scores, Score::Abs, Keep::Features(2)), (vec![1, 2], 0.5));
        assert_eq!(select(&scores, Score::Signed, Keep::Features(3)), (vec![0, 2, 3], 0.1));
        assert_eq!(select(&scores, Score::Abs, Keep::Threshold(0.5)), (vec![1, 2, 3], 0.5));
        assert_eq!(select(&scores, Score::Abs, Keep::Threshold(2.0)).0, Vec::<usize>::new());
        assert_eq!(select(&scores, Score::Abs, Keep::Features(99)).0.len(), 5);
    }
}
