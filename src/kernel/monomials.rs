//! Monomials: features whose products are the polynomial kernel.
//!
//! Enters: rows × q numbers y. Leaves: rows × r features ψ. Holds r·q exponents and r factors.
//!
//! ```text
//! (γ yᵀz + c)^p = c^p + Σ_α (p; α, p−|α|) γ^|α| c^(p−|α|) y^α z^α     0 < |α| ≤ p
//! ψ_α(y) = √((p; α, p−|α|) γ^|α| c^(p−|α|)) y^α
//! ```
//!
//! (p; α, p−|α|) is the multinomial coefficient; where c = 0 only |α| = p is left. The constant c^p
//! has no feature: centring takes it out.

use ndarray::{Array2, ArrayView2};

/// The features of one polynomial kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Monomials {
    /// r × q.
    exponents: Array2<u32>,
    /// r.
    factors: Vec<f64>,
    /// p.
    degree: u32,
}

impl Monomials {
    /// Of numbers of q columns; γ > 0 and c ≥ 0.
    pub fn new(columns: usize, gamma: f64, coef0: f64, degree: u32) -> Monomials {
        let least = if coef0 > 0.0 { 1 } else { degree };
        let mut exponents = Vec::new();
        for total in least..=degree {
            fill(&mut vec![0; columns], 0, total, &mut exponents);
        }
        let factor = |alpha: &[u32]| {
            let mut rest = degree;
            let mut ways = 1.0;
            for a in alpha {
                ways *= binomial(rest, *a);
                rest -= a;
            }
            let power = |x: f64, n: u32| x.sqrt().powi(n as i32);
            ways.sqrt() * power(gamma, degree - rest) * power(coef0, rest)
        };
        let factors: Vec<f64> = exponents.chunks(columns.max(1)).map(factor).collect();
        let of = |(at, column): (usize, usize)| exponents[at * columns + column];
        let exponents = Array2::from_shape_fn((factors.len(), columns), of);
        Monomials { exponents, factors, degree }
    }

    /// r of such a kernel, or about that where it is beyond counting.
    pub fn count(columns: usize, coef0: f64, degree: u32) -> f64 {
        let n = columns as u32;
        match coef0 > 0.0 {
            true => binomial(n + degree, degree) - 1.0,
            false => binomial((n + degree).saturating_sub(1), degree),
        }
    }

    /// r.
    pub fn len(&self) -> usize {
        self.factors.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// rows × r.
    pub fn apply(&self, y: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut psi = Array2::zeros((y.nrows(), self.len()));
        let most = self.degree as usize + 1;
        let mut powers = vec![1.0; y.ncols() * most];
        for (y, mut psi) in y.rows().into_iter().zip(psi.rows_mut()) {
            for (y, powers) in y.iter().zip(powers.chunks_mut(most)) {
                (1..most).for_each(|a| powers[a] = powers[a - 1] * y);
            }
            let features = psi.iter_mut().zip(self.exponents.rows()).zip(&self.factors);
            for ((psi, alpha), factor) in features {
                let of = |(column, a): (usize, &u32)| powers[column * most + *a as usize];
                *psi = factor * alpha.iter().enumerate().map(of).product::<f64>();
            }
        }
        psi
    }
}

/// All exponents of the columns from `at` on that add up to `total`, one after the other.
fn fill(alpha: &mut Vec<u32>, at: usize, total: u32, all: &mut Vec<u32>) {
    if at + 1 >= alpha.len() {
        if let Some(last) = alpha.last_mut() {
            *last = total;
        }
        all.extend(&*alpha);
        return;
    }
    for a in (0..=total).rev() {
        alpha[at] = a;
        fill(alpha, at + 1, total - a, all);
    }
}

/// n over k.
fn binomial(n: u32, k: u32) -> f64 {
    let k = k.min(n - k.min(n));
    (1..=k).fold(1.0, |b, i| b * f64::from(n - k + i) / f64::from(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_the_kernel_but_for_its_constant() {
        let y = Array2::from_shape_fn((6, 3), |(i, j)| ((i * 3 + j * 5) % 7) as f64 / 2.0 - 1.3);
        for columns in 1..=3 {
            let y = y.slice(ndarray::s![.., ..columns]);
            for (gamma, coef0, degree) in [(0.5, 0.0, 3), (0.7, 1.5, 1), (1.0, 0.3, 4)] {
                let map = Monomials::new(columns, gamma, coef0, degree);
                assert_eq!(map.len() as f64, Monomials::count(columns, coef0, degree));
                let psi = map.apply(y);
                let kernel = y.dot(&y.t()).mapv(|t| (gamma * t + coef0).powi(degree as i32));
                let found = psi.dot(&psi.t()) + coef0.powi(degree as i32);
                for (a, b) in found.iter().zip(&kernel) {
                    assert!((a - b).abs() < 1e-12 * kernel[[0, 0]].abs().max(1.0), "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn they_are_counted_before_they_are_made() {
        assert_eq!(Monomials::count(2, 1.0, 3), 9.0);
        assert_eq!(Monomials::count(2, 0.0, 3), 4.0);
        assert!(Monomials::count(1000, 1.0, 100) > 1e100);
    }
}
