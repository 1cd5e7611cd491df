//! Exact k-fold cross-validation from the sums of the folds: how many features to keep, how many
//! components, by how well the label is told on rows that were left out. No row is read again.
//!
//! Trained on the other folds: μ, D, U and B, the regression of the label on the scores
//! z = U D⁻¹(x − μ). On the fold that was left out, with its own W_f, μ_f, ȳ_f, S_f, M_f and
//! Σ(y − ȳ_f)²:
//!
//! ```text
//! P = B U D⁻¹        e = (ȳ_f − ȳ) − P (μ_f − μ)
//! Σ‖y − ŷ‖² = Σ(y − ȳ_f)² − 2 tr(P M_fᵀ) + tr(P S_f Pᵀ) + W_f ‖e‖²
//! ```
//!
//! Classes are one-hot labels. Holds the sums of all folds and of those trained on: 8d² each.

use super::State;
use crate::accumulate::{Accumulate, CoMoment, LabelMoments, Sums, SumsResult};
use crate::blas;
use crate::error::{Error, Result};
use crate::fit::{ColumnOptions, Fit, ScoringOptions};
use crate::listen::Quiet;
use crate::model::{Method, Model};
use crate::solve::rules::Components;
use crate::solve::scoring::Keep;
use crate::source::labels::Class;
use crate::source::matching;
use ndarray::{Array1, Array2, Axis, s};

/// What was tried and what was best.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldChoice {
    /// The best number.
    pub best: usize,
    /// Each number tried, with the share of the label's spread that it leaves untold on rows left
    /// out.
    pub tried: Vec<(usize, f64)>,
}

/// One fold's sums of features and labels, over all classes of the state.
struct FoldMoments {
    second: CoMoment,
    /// r × d.
    m: Array2<f64>,
    /// r: means and spreads of the labels.
    mean: Array1<f64>,
    spread: Array1<f64>,
}

impl State {
    /// The number of features that tells the label best.
    pub fn choose_features(&self, fit: &Fit) -> Result<FoldChoice> {
        let Some(scoring) = &fit.scoring else {
            return Error::misuse("there is no label to score by; name it with ⟦score-by⟧");
        };
        let ColumnOptions { include, exclude, .. } = &fit.columns;
        let some = matching(&self.about.columns, include, exclude)?;
        let tries: Vec<usize> = grid(some.map_or(self.about.columns.len(), |kept| kept.len()));
        self.cross_validate(tries.clone(), |train| {
            let model = |q: &usize| {
                let scoring = ScoringOptions { keep: Keep::Features(*q), ..scoring.clone() };
                let fit = Fit { scoring: Some(scoring), ..fit.clone() };
                Ok((*q, train.solve(&fit, &Quiet)?, usize::MAX))
            };
            tries.iter().map(model).collect()
        })
    }

    /// The number of components that tells the label best.
    pub fn choose_components(&self, fit: &Fit) -> Result<FoldChoice> {
        let Components::Count(most) = fit.components else {
            return Err(Error::Misuse(
                "⟦folds⟧ tries components up to a number; give ⟦components⟧ as one".into(),
            ));
        };
        let fit = Fit { method: Method::Spca, ..fit.clone() };
        self.cross_validate((1..=most).collect(), |train| {
            let model = train.solve(&fit, &Quiet)?;
            Ok((1..=model.n_components()).map(|k| (k, model.clone(), k)).collect())
        })
    }

    /// Trains on all folds but one at a time; `fit` gives for each number tried a model and how
    /// many components count.
    fn cross_validate(
        &self,
        tries: Vec<usize>,
        fit: impl Fn(&State) -> Result<Vec<(usize, Model, usize)>>,
    ) -> Result<FoldChoice> {
        if self.sums.len() < 2 {
            return Err(Error::Misuse("this state has no folds; scan with ⟦folds⟧".into()));
        }
        let classes = self.classes();
        let mut left = vec![(0.0, 0usize); tries.len()];
        let mut all = 0.0;
        for out in 0..self.sums.len() {
            let train = self.without_fold(out);
            let (known, held) =
                (fold_moments(&train.whole(), &classes)?, fold_moments(&self.sums[out], &classes)?);
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
        Ok(FoldChoice { best, tried })
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
    fn error(
        &self,
        model: &Model,
        k: usize,
        known: &FoldMoments,
        held: &FoldMoments,
    ) -> Result<f64> {
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

fn fold_moments(sums: &Sums, classes: &[Class]) -> Result<FoldMoments> {
    let missing = || {
        Error::Misuse(
            "cross-validation needs covariance and labels; scan with ⟦label⟧ and ⟦for=pca,spca⟧"
                .into(),
        )
    };
    let SumsResult { covariance, labels } = sums.clone().finish();
    let second = covariance.ok_or_else(missing)?.into_product();
    let weight = second.moments.weight;
    match labels.ok_or_else(missing)? {
        LabelMoments::Numbers(c) => {
            Ok(FoldMoments { second, m: c.m, mean: c.labels.mean, spread: c.labels.squares })
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
            Ok(FoldMoments { second, m, mean, spread })
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
    fn the_grid_ends_with_all() {
        assert_eq!(grid(1), [1]);
        assert_eq!(grid(10), [1, 2, 4, 7, 10]);
        assert!(grid(200_000).len() < 40);
    }
}
