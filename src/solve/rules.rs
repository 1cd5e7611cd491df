//! How many components to keep (seed, "Determining the Number of Principal Directions").
//!
//! | `-k` | rule |
//! |---|---|
//! | 10 | that many, at most the rank |
//! | 0.95 | the fewest whose share of the total variance reaches it (Abdi & Williams' ratio) |
//! | mle | Minka's Bayesian evidence, *Automatic choice of dimensionality for PCA*, eq. 78 |
//! | elbow | the largest relative drop (λ_i − λ_{i+1}) / λ_i of Cattell's scree |
//! | all | the rank |
//!
//! Every rule's answer is computed, whichever was asked, so that a person can judge. O(d²) time.

use super::spectrum::Spectrum;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Components kept when `-k` is not given.
pub(crate) const DEFAULT_COMPONENTS: usize = 10;

/// Ratios whose answers are always told.
const RATIOS: [f64; 3] = [0.90, 0.95, 0.99];

/// `-k` as asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Components {
    /// A number.
    Count(usize),
    /// A share of the variance.
    Ratio(f64),
    /// Minka.
    Mle,
    /// Cattell.
    Elbow,
    /// As many as there are.
    All,
}

impl From<usize> for Components {
    fn from(count: usize) -> Components {
        Components::Count(count)
    }
}

impl Default for Components {
    fn default() -> Self {
        Components::Count(DEFAULT_COMPONENTS)
    }
}

impl FromStr for Components {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "mle" => return Ok(Components::Mle),
            "elbow" => return Ok(Components::Elbow),
            "all" => return Ok(Components::All),
            _ => {}
        }
        match (text.parse::<usize>(), text.parse::<f64>()) {
            (Ok(0), _) => Err("0 components are none at all; ask for at least 1".into()),
            (Ok(k), _) => Ok(Components::Count(k)),
            (_, Ok(r)) if r > 0.0 && r < 1.0 => Ok(Components::Ratio(r)),
            _ => Err(format!(
                "'{text}' is neither a number of components, a ratio between 0 and 1, mle, elbow \
                 nor all"
            )),
        }
    }
}

impl fmt::Display for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Components::Count(k) => write!(f, "{k}"),
            Components::Ratio(r) => write!(f, "{r}"),
            Components::Mle => f.write_str("mle"),
            Components::Elbow => f.write_str("elbow"),
            Components::All => f.write_str("all"),
        }
    }
}

/// A rule's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleAnswer {
    /// The rule, as `-k` takes it.
    pub rule: String,
    /// How many components it keeps; null where it does not apply.
    pub components: Option<usize>,
    /// Why it does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Everything the rules say of one spectrum.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Shares of the total of the known values, cumulated.
    cumulated: Vec<f64>,
    elbow: std::result::Result<usize, String>,
    mle: std::result::Result<usize, String>,
    rank: std::result::Result<usize, String>,
}

impl Rules {
    /// `weight` stands for n in Minka's evidence, `d` is the number of features.
    pub fn new(spectrum: &Spectrum, trace: f64, weight: f64, d: usize, centered: bool) -> Rules {
        let values = &spectrum.values.as_slice().unwrap_or_default()[..spectrum.above];
        let cumulated = cumulated(values, trace).collect();
        let unknown =
            || format!("only the {} leading eigenvalues were computed", spectrum.values.len());
        if !spectrum.whole {
            return Rules {
                cumulated,
                elbow: Err(unknown()),
                mle: Err(unknown()),
                rank: Err(unknown()),
            };
        }
        let elbow = elbow(values).unwrap_or(spectrum.above);
        Rules {
            cumulated,
            elbow: Ok(elbow),
            mle: mle(values, d, weight, centered),
            rank: Ok(spectrum.above),
        }
    }

    /// For supervised PCA: the shares are of the dependence on the labels.
    pub fn supervised(spectrum: &Spectrum, trace: f64) -> Rules {
        let mle = Err("Minka's rule is about variances, not about the dependence on labels".into());
        Rules { mle, ..Rules::new(spectrum, trace, 0.0, 0, false) }
    }

    /// For kernel PCA: Minka's rule needs the features of the space the kernel maps to.
    pub fn kernel(spectrum: &Spectrum, trace: f64) -> Rules {
        let mle = Err("Minka's rule is about the features, and a kernel has no end of them".into());
        Rules { mle, ..Rules::new(spectrum, trace, 0.0, 0, false) }
    }

    /// How many components to keep.
    pub fn keep(&self, asked: Components) -> Result<usize> {
        let answer = match asked {
            Components::Count(k) => return Ok(k.min(self.cumulated.len())),
            Components::Ratio(r) => self.ratio(r),
            Components::All => self.rank.clone(),
            Components::Elbow => self.elbow.clone(),
            Components::Mle => self.mle.clone(),
        };
        answer.map_err(|reason| {
            Error::Misuse(format!(
                "⟦components={asked}⟧ cannot choose: {reason}; give a number of components"
            ))
        })
    }

    /// The answers of all rules.
    pub fn answers(&self) -> Vec<RuleAnswer> {
        let answer = |rule: String, said: &std::result::Result<usize, String>| RuleAnswer {
            rule,
            components: said.as_ref().ok().copied(),
            reason: said.as_ref().err().cloned(),
        };
        let ratios = RATIOS.iter().map(|r| answer(r.to_string(), &self.ratio(*r)));
        let others = [("mle", &self.mle), ("elbow", &self.elbow), ("all", &self.rank)];
        ratios.chain(others.map(|(rule, said)| answer(rule.into(), said))).collect()
    }

    fn ratio(&self, share: f64) -> std::result::Result<usize, String> {
        let below = self.cumulated.iter().take_while(|c| **c < share).count();
        match &self.rank {
            // The last cumulated share may miss 1 by rounding; no share below 1 is out of reach.
            Ok(rank) => Ok((below + 1).min(*rank)),
            Err(_) if below < self.cumulated.len() => Ok(below + 1),
            Err(unknown) => Err(unknown.clone()),
        }
    }
}

/// λ₁, λ₁ + λ₂, … over the total.
pub(crate) fn cumulated(values: &[f64], total: f64) -> impl Iterator<Item = f64> + '_ {
    values.iter().scan(0.0, move |sum, v| {
        *sum += v;
        Some(*sum / total)
    })
}

fn elbow(values: &[f64]) -> Option<usize> {
    let drop = |i: usize| (values[i] - values[i + 1]) / values[i];
    let best = (0..values.len().saturating_sub(1))
        .reduce(|best, i| if drop(i) > drop(best) { i } else { best });
    best.map(|i| i + 1)
}

/// Minka's evidence for each k, by its Laplace approximation; the best k.
///
/// With λ the covariance eigenvalues (over n), v the mean of those not kept and λ̂ = (λ_1…λ_k,
/// v…v):
///
/// ```text
/// log p = log p(U) − n/2 Σ_{i≤k} log λ_i − n(d−k)/2 log v
///         + (m+k)/2 log 2π − log|A_z|/2 − k/2 log n
/// log p(U) = −k log 2 + Σ_{i≤k} [log Γ((d−i+1)/2) − (d−i+1)/2 log π]        m = dk − k(k+1)/2
/// log|A_z| = Σ_{i≤k} Σ_{j>i} log[(1/λ̂_j − 1/λ̂_i)(λ_i − λ_j) n]
/// ```
///
/// The double sum is kept up from k to k+1, so that all k together cost O(d²).
fn mle(values: &[f64], d: usize, n: f64, centered: bool) -> std::result::Result<usize, String> {
    if !centered {
        return Err("Minka's rule is about centred data".into());
    }
    if n <= d as f64 {
        return Err(format!("Minka's rule needs more rows than features ({n} rows, {d} features)"));
    }
    if values.len() < d {
        return Err(format!("Minka's rule needs full rank ({} of {d})", values.len()));
    }
    if d <= 1 {
        return Ok(d);
    }
    let lambda: Vec<f64> = values.iter().map(|v| v / (n - 1.0)).collect();
    let evidence = evidence(&lambda, n);
    let best =
        (0..evidence.len()).reduce(|best, i| if evidence[i] > evidence[best] { i } else { best });
    Ok(best.map_or(1, |i| i + 1))
}

/// log p for k = 1 … d−1.
fn evidence(lambda: &[f64], n: f64) -> Vec<f64> {
    use std::f64::consts::{LN_2, PI};
    let d = lambda.len();
    // tails[i] = Σ_{j ≥ k} log(λ_i − λ_j) for the current k.
    let gap = |i: usize, j: usize| (lambda[i] - lambda[j]).max(f64::MIN_POSITIVE).ln();
    let mut tails: Vec<f64> = Vec::with_capacity(d);
    let (mut log_prior, mut log_kept, mut pairs) = (0.0, 0.0, 0.0);
    let mut rest: f64 = lambda.iter().sum();
    let mut out = Vec::with_capacity(d - 1);
    for k in 1..d {
        let new = k - 1;
        let half = (d - new) as f64 / 2.0;
        log_prior += libm::lgamma(half) - half * PI.ln() - LN_2;
        log_kept += lambda[new].ln();
        rest -= lambda[new];
        let v = (rest / (d - k) as f64).max(f64::MIN_POSITIVE);
        // Pairs (i, new) move from the tail, where λ̂_j = v, to the kept ones, where λ̂_j = λ_j.
        for (i, tail) in tails.iter_mut().enumerate() {
            *tail -= gap(i, new);
            pairs +=
                gap(i, new) + (1.0 / lambda[new] - 1.0 / lambda[i]).max(f64::MIN_POSITIVE).ln();
        }
        tails.push((k..d).map(|j| gap(new, j)).sum());
        let across: f64 = (0..k)
            .map(|i| {
                tails[i] + (d - k) as f64 * (1.0 / v - 1.0 / lambda[i]).max(f64::MIN_POSITIVE).ln()
            })
            .sum();
        let m = (d * k) as f64 - (k * (k + 1)) as f64 / 2.0;
        let log_a = pairs + across + m * n.ln();
        out.push(
            log_prior - n / 2.0 * log_kept - n * (d - k) as f64 / 2.0 * v.ln()
                + (m + k as f64) / 2.0 * (2.0 * PI).ln()
                - log_a / 2.0
                - k as f64 / 2.0 * n.ln(),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_read_as_typed() {
        assert_eq!("12".parse(), Ok(Components::Count(12)));
        assert_eq!("0.95".parse(), Ok(Components::Ratio(0.95)));
        assert_eq!("mle".parse(), Ok(Components::Mle));
        for bad in ["0", "1.0", "-3", "0.0", "many", "nan", ""] {
            assert!(bad.parse::<Components>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_elbow_is_the_largest_relative_drop() {
        assert_eq!(elbow(&[100.0, 90.0, 9.0, 8.0, 7.0]), Some(2));
        assert_eq!(elbow(&[5.0]), None);
    }

    /// The double sum as it stands in the paper, O(d³).
    fn plain_evidence(lambda: &[f64], n: f64, k: usize) -> f64 {
        use std::f64::consts::PI;
        let d = lambda.len();
        let v = lambda[k..].iter().sum::<f64>() / (d - k) as f64;
        let hat = |j: usize| if j < k { lambda[j] } else { v };
        let mut p = -(k as f64) * 2f64.ln();
        for i in 0..k {
            let half = (d - i) as f64 / 2.0;
            p += libm::lgamma(half) - half * PI.ln();
        }
        let m = (d * k) as f64 - (k * (k + 1)) as f64 / 2.0;
        let mut log_a = 0.0;
        for i in 0..k {
            for j in i + 1..d {
                log_a += ((1.0 / hat(j) - 1.0 / lambda[i]) * (lambda[i] - lambda[j])).ln() + n.ln();
            }
        }
        p - n / 2.0 * lambda[..k].iter().map(|l| l.ln()).sum::<f64>()
            - n * (d - k) as f64 / 2.0 * v.ln()
            + (m + k as f64) / 2.0 * (2.0 * PI).ln()
            - log_a / 2.0
            - k as f64 / 2.0 * n.ln()
    }

    #[test]
    fn the_fast_evidence_is_the_plain_one() {
        let lambda: Vec<f64> =
            (0..12).map(|i| 30.0 * 0.7f64.powi(i) + 0.1 / (1.0 + i as f64)).collect();
        let fast = evidence(&lambda, 500.0);
        for k in 1..12 {
            let plain = plain_evidence(&lambda, 500.0, k);
            assert!(
                (fast[k - 1] - plain).abs() < 1e-10 * plain.abs(),
                "k = {k}: {} against {plain}",
                fast[k - 1]
            );
        }
    }
}
