//! Exact k-fold cross-validation from the sums of the folds: how many features to keep, how many components, by how
//! well the label is told on rows that were left out. No row is read again.
//!
//! Trained on the other folds: μ, D, U and B, the regression of the label on the scores z = U D⁻¹(x − μ). On the fold
//! that was left out, with its own W_f, μ_f, ȳ_f, S_f, M_f and Σ(y − ȳ_f)²:
//!
//! ```text
//! P = B U D⁻¹        e = (ȳ_f − ȳ) − P (μ_f − μ)
//! Σ‖y − ŷ‖² = Σ(y − ȳ_f)² − 2 tr(P M_fᵀ) + tr(P S_f Pᵀ) + W_f ‖e‖²
//! ```
//!
//! Classes are one-hot labels. Holds the sums of all folds and of those trained on: 8d² each.

use super::State;
use super::solve::{Select, Solve};
use crate::accumulate::{Accumulate, CoMoment, FinishedSums, LabelMoments, Sums};
use crate::blas;
use crate::error::{Error, Result};
use crate::model::{Method, Model};
use crate::solve::rules::Components;
use crate::solve::scoring::Keep;
use crate::source::labels::Class;
use ndarray::{Array1, Array2, Axis, s};

/// The most folds.
pub const MOST: usize = 100;

/// What was tried and what was best.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The best number.
    pub best: usize,
    /// Each number tried, with the share of the label's spread that it leaves untold on rows left out.
    pub tried: Vec<(usize, f64)>,
}

/// The fold of a row: a seeded hash of its file's footer and its place there, so that it does not depend on what
/// else is scanned.
pub fn fold_of(seed: u64, footer_hash: u64, row: u64, folds: usize) -> usize {
    let mut h = seed ^ footer_hash.rotate_left(17) ^ row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((h ^ (h >> 31)) % folds as u64) as usize
}

/// One fold's sums of features and labels, over all classes of the state.
struct Side {
    second: CoMoment,
    /// r × d.
    m: Array2<f64>,
    /// r: means and spreads of the labels.
    mean: Array1<f64>,
    spread: Array1<f64>,
}

impl State {
    /// The number of features that tells the label best.
    pub fn choose_features(&self, ask: &Solve) -> Result<Choice> {
        let d = ask.features.as_ref().map_or(self.about.columns.len(), Vec::len);
        let select =
            ask.select.ok_or_else(|| Error::Misuse("there is nothing to score by".into()))?;
        let tries: Vec<usize> = grid(d);
        self.cross_validate(tries.clone(), |train| {
            let fit = |q: &usize| {
                let select = Some(Select { keep: Keep::Features(*q), ..select });
                Ok((*q, train.solve(&Solve { select, ..ask.clone() }, &|_| {})?, usize::MAX))
            };
            tries.iter().map(fit).collect()
        })
    }

    /// The number of components that tells the label best.
    pub fn choose_components(&self, ask: &Solve) -> Result<Choice> {
        let Components::Count(most) = ask.components else {
            return Err(Error::Misuse(
                "⟦folds⟧ tries components up to a number; give ⟦components⟧ as one".into(),
            ));
        };
        let ask = Solve { method: Method::Spca, ..ask.clone() };
        self.cross_validate((1..=most).collect(), |train| {
            let model = train.solve(&ask, &|_| {})?;
            Ok((1..=model.n_components()).map(|k| (k, model.clone(), k)).collect())
        })
    }

    /// Trains on all folds but one at a time; `fit` gives for each number tried a model and how many components count.
    fn cross_validate(
        &self,
        tries: Vec<usize>,
        fit: impl Fn(&State) -> Result<Vec<(usize, Model, usize)>>,
    ) -> Result<Choice> {
        if self.sums.len() < 2 {
            return Err(Error::Misuse("this state has no folds; scan with ⟦folds⟧".into()));
        }
        let classes = self.classes();
        let mut left = vec![(0.0, 0usize); tries.len()];
        let mut all = 0.0;
        for out in 0..self.sums.len() {
            let train = self.without_fold(out);
            let (known, held) = (side(&train.whole(), &classes)?, side(&self.sums[out], &classes)?);
            if held.second.moments.weight == 0.0 || known.second.moments.weight <= 1.0 {
                return Err(Error::Misuse(format!(
                    "fold {} has too few rows; scan with fewer ⟦folds⟧",
                    out + 1
                )));
            }
            let off = &held.mean - &known.mean;
            all += held.spread.sum() + held.second.moments.weight * off.dot(&off);
            for (value, model, k) in fit(&train)? {
                let at = tries.iter().position(|t| *t == value).unwrap_or(0);
                left[at].0 += self.error(&model, k, &known, &held)?;
                left[at].1 += 1;
            }
        }
        // A number that some fold could not have is no candidate.
        let whole = tries.iter().zip(&left).filter(|(_, (_, folds))| *folds == self.sums.len());
        let tried: Vec<(usize, f64)> =
            whole.map(|(t, (sum, _))| (*t, if all > 0.0 { sum / all } else { 0.0 })).collect();
        let best =
            tried.iter().copied().reduce(|best, next| if next.1 < best.1 { next } else { best });
        let best =
            best.ok_or_else(|| Error::Misuse("no number could be tried on every fold".into()))?.0;
        Ok(Choice { best, tried })
    }

    fn without_fold(&self, out: usize) -> State {
        let mut rest =
            self.sums.iter().enumerate().filter(|(i, _)| *i != out).map(|(_, s)| s.clone());
        let mut sums = rest.next().unwrap_or_else(|| self.sums[0].clone());
        rest.for_each(|more| sums.merge(more));
        State { about: self.about.clone(), sums: vec![sums] }
    }

    fn classes(&self) -> Vec<Class> {
        match self.whole().finish().labels {
            Some(LabelMoments::Classes(c)) => c.classes,
            _ => Vec::new(),
        }
    }

    /// Σ‖y − ŷ‖² on what was left out.
    fn error(&self, model: &Model, k: usize, known: &Side, held: &Side) -> Result<f64> {
        let place: std::collections::HashMap<String, usize> =
            self.about.columns.names().enumerate().map(|(j, n)| (n, j)).collect();
        let kept: Vec<usize> =
            model.header.features.names().filter_map(|n| place.get(&n).copied()).collect();
        let components = model
            .components()
            .ok_or_else(|| Error::Internal("a state gave a kernel model".into()))?;
        let mut u = components.slice(s![..k.min(components.nrows()), ..]).to_owned();
        if let Some(scale) = &model.scale {
            u /= scale;
        }
        let part = |m: &Array2<f64>| m.select(Axis(1), &kept);
        let square = |c: &CoMoment| c.s.select(Axis(0), &kept).select(Axis(1), &kept);
        // B = M Uᵀ (U S Uᵀ)⁻¹
        let gram = u.dot(&square(&known.second)).dot(&u.t()).as_standard_layout().into_owned();
        let right = u.dot(&part(&known.m).t()).as_standard_layout().into_owned();
        let Some(b) = blas::solve_spd(gram, right)? else { return Ok(f64::INFINITY) };
        let p = b.t().dot(&u);
        let mean = |c: &CoMoment| c.moments.mean.select(Axis(0), &kept);
        let off = (&held.mean - &known.mean) - p.dot(&(mean(&held.second) - mean(&known.second)));
        let along: f64 = (&p * &part(&held.m)).sum();
        let within: f64 = (&p.dot(&square(&held.second)) * &p).sum();
        Ok(held.spread.sum() - 2.0 * along + within + held.second.moments.weight * off.dot(&off))
    }
}

fn side(sums: &Sums, classes: &[Class]) -> Result<Side> {
    let missing = || {
        Error::Misuse(
            "cross-validation needs covariance and labels; scan with ⟦label⟧ and ⟦for=pca,spca⟧"
                .into(),
        )
    };
    let FinishedSums { covariance, labels } = sums.clone().finish();
    let second = covariance.ok_or_else(missing)?;
    let weight = second.moments.weight;
    match labels.ok_or_else(missing)? {
        LabelMoments::Numbers(c) => {
            Ok(Side { second, m: c.m, mean: c.labels.mean, spread: c.labels.squares })
        }
        LabelMoments::Classes(c) => {
            let mut m = Array2::zeros((classes.len(), second.s.ncols()));
            let mut mean = Array1::zeros(classes.len());
            for ((class, w), row) in c.classes.iter().zip(&c.weights).zip(c.m.rows()) {
                let at = classes
                    .binary_search(class)
                    .map_err(|_| Error::Internal("a class is in one fold only".into()))?;
                m.row_mut(at).assign(&row);
                mean[at] = w / weight.max(f64::MIN_POSITIVE);
            }
            // Σ w (δ − p)² of a one-hot column.
            let spread = mean.mapv(|p: f64| weight * p * (1.0 - p));
            Ok(Side { second, m, mean, spread })
        }
    }
}

/// 1, 2, 4, 7, 12, … and all.
fn grid(d: usize) -> Vec<usize> {
    let mut tries: Vec<usize> = vec![1];
    while let Some(next) = tries.last().map(|t| (t * 8).div_ceil(5)).filter(|t| *t < d) {
        tries.push(next);
    }
    if d > 1 {
        tries.push(d);
    }
    tries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_even_and_seeded() {
        let mut counts = [0; 5];
        (0..10_000).for_each(|row| counts[fold_of(7, 99, row, 5)] += 1);
        assert!(counts.iter().all(|c| (1_800..2_200).contains(c)), "{counts:?}");
        assert_ne!(
            (0..50).map(|r| fold_of(1, 99, r, 5)).collect::<Vec<_>>(),
            (0..50).map(|r| fold_of(2, 99, r, 5)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_grid_ends_with_all() {
        assert_eq!(grid(1), [1]);
        assert_eq!(grid(10), [1, 2, 4, 7, 10]);
        assert!(grid(200_000).len() < 40);
    }
}
