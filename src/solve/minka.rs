//! Minka's Bayesian evidence, *Automatic choice of dimensionality for PCA*, eq. 78.
//!
//! Enters: all eigenvalues of S, descending. Leaves: the number of components with the largest
//! evidence, or why there is none. O(d²) time, O(d) numbers.

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
pub(super) fn mle(
    values: &[f64],
    d: usize,
    n: f64,
    centered: bool,
) -> std::result::Result<usize, String> {
    if !centered {
        return Err("Minka's rule is about centred data".into());
    }
    if n <= d as f64 {
        return Err(format!("Minka's rule needs more rows than features ({n} rows, {d} features)"));
    }
    // Directions without variance are noise of 0, whose evidence is beyond all others': every
    // direction that varies is kept.
    if values.len() < d {
        return Ok(values.len());
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
    // rests[k] = Σ_{j ≥ k} λ_j, the small ones first: beside λ_1 they would lose their digits.
    let mut rests = lambda.to_vec();
    (0..d - 1).rev().for_each(|k| rests[k] += rests[k + 1]);
    let mut out = Vec::with_capacity(d - 1);
    for (k, rest) in rests.iter().enumerate().skip(1) {
        let new = k - 1;
        let half = (d - new) as f64 / 2.0;
        log_prior += libm::lgamma(half) - half * PI.ln() - LN_2;
        log_kept += lambda[new].ln();
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

    /// scikit-learn's answers: 61 for its digits (64 pixels, of which three never vary), 4 for rows
    /// of rank 4.
    #[test]
    fn directions_that_do_not_vary_are_not_kept_and_no_reason_to_refuse() {
        let digits: Vec<f64> = (1..=61).map(|i| 1e6 / f64::from(i)).collect();
        assert_eq!(mle(&digits, 64, 1797.0, true), Ok(61));
        assert_eq!(mle(&[9.0, 4.0, 2.0, 1.0], 7, 200.0, true), Ok(4));
        assert!(mle(&[9.0, 4.0], 7, 7.0, true).is_err());
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
