//! Sums that can be written down, read back, and have a part taken out of them again.
//!
//! What is stored is the sum as it stands between two blocks, to the last bit: going on from it
//! gives the bytes that going on without stopping gives. A symmetric matrix is stored as its upper
//! triangle, 4·d·(d+1) bytes.
//!
//! Taking a part out is merging backwards. With A the rest, B the part and T both:
//!
//! ```text
//! W_A = W_T − W_B        μ_A = μ_T + (μ_T − μ_B) W_B / W_A
//! S_A = S_T − S_B − W_A W_B / W_T · δδᵀ        δ = μ_B − μ_A
//! ```
//!
//! Where B was most of T, what is left has lost digits: S_A carries the rounding of S_T, so the
//! largest ratio of a feature's spread before and after says how many.

use super::{Accumulate, Center};
use ndarray::{Array1, Array2, Axis};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// No state counts more: sums of counts stay within their type.
pub(crate) const MOST_ROWS: u64 = 1 << 56;

/// Numbers and facts by name.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Matrices; a vector is one row.
    pub numbers: BTreeMap<String, Array2<f64>>,
    /// Counts, flags and names.
    pub facts: BTreeMap<String, serde_json::Value>,
}

/// What is wrong with stored sums.
pub(crate) type Restored<T> = std::result::Result<T, String>;

/// Sums that can be stored.
pub trait Stored: Accumulate {
    /// Writes all of it under names that start with `at`.
    fn store(&self, at: &str, parts: &mut Parts);

    /// Reads what [`Stored::store`] has written; checks shapes and numbers.
    fn restore(at: &str, d: usize, parts: &mut Parts) -> Restored<Self>;

    /// Takes out rows that were added.
    fn subtract(&mut self, part: Self);

    /// Σ w (x−μ)² of each feature, for how much a subtraction lost.
    fn spread(&self) -> Array1<f64>;

    /// Puts the features into another order: the one at `order[i]` comes to i.
    fn reorder(&mut self, order: &[usize]);
}

/// A number per feature, in another order of them.
pub(super) fn reordered(v: &Array1<f64>, order: &[usize]) -> Array1<f64> {
    v.select(Axis(0), order)
}

/// The upper triangle of a symmetric matrix, in another order of the features.
pub(super) fn reordered_upper(s: &Array2<f64>, order: &[usize]) -> Array2<f64> {
    Array2::from_shape_fn(s.dim(), |(i, j)| match i <= j {
        true => s[[order[i].min(order[j]), order[i].max(order[j])]],
        false => 0.0,
    })
}

impl Parts {
    /// Puts a vector.
    pub fn vector(&mut self, at: &str, name: &str, v: &Array1<f64>) {
        self.numbers.insert(format!("{at}.{name}"), v.clone().insert_axis(Axis(0)));
    }

    /// Puts a matrix.
    pub fn matrix(&mut self, at: &str, name: &str, m: &Array2<f64>) {
        self.numbers.insert(format!("{at}.{name}"), m.clone());
    }

    /// Puts the upper triangle of a square matrix.
    pub fn upper(&mut self, at: &str, name: &str, s: &Array2<f64>) {
        let packed = (0..s.nrows()).flat_map(|i| s.row(i).into_iter().skip(i).copied()).collect();
        self.vector(at, name, &packed);
    }

    pub(super) fn center(&mut self, at: &str, name: &str, center: &Center) {
        self.vector(at, &format!("{name}.near"), &center.near);
        self.vector(at, &format!("{name}.rest"), &center.rest);
    }

    /// Puts a fact.
    pub fn fact(&mut self, at: &str, name: &str, value: impl Serialize) {
        self.facts.insert(format!("{at}.{name}"), serde_json::json!(value));
    }

    /// True when there is a fact of this name.
    pub fn knows(&self, at: &str, name: &str) -> bool {
        self.facts.contains_key(&format!("{at}.{name}"))
    }

    /// Takes a matrix of this shape out.
    pub fn take_matrix(
        &mut self,
        at: &str,
        name: &str,
        shape: (usize, usize),
    ) -> Restored<Array2<f64>> {
        let name = format!("{at}.{name}");
        let found =
            self.numbers.remove(&name).ok_or_else(|| format!("tensor '{name}' is missing"))?;
        if found.dim() != shape {
            return Err(format!(
                "tensor '{name}' is {:?} where {shape:?} is expected",
                found.dim()
            ));
        }
        match found.iter().all(|v| v.is_finite()) {
            true => Ok(found),
            false => Err(format!("tensor '{name}' holds numbers that are not finite")),
        }
    }

    /// Takes a vector out.
    pub fn take_vector(&mut self, at: &str, name: &str, len: usize) -> Restored<Array1<f64>> {
        self.take_matrix(at, name, (1, len)).map(|m| m.remove_axis(Axis(0)))
    }

    /// Takes an upper triangle out; what is below the diagonal is 0.
    pub fn take_upper(&mut self, at: &str, name: &str, d: usize) -> Restored<Array2<f64>> {
        let packed = self.take_vector(at, name, d.saturating_mul(d.saturating_add(1)) / 2)?;
        let mut s = Array2::zeros((d, d));
        let mut next = packed.iter();
        for i in 0..d {
            s.row_mut(i).iter_mut().skip(i).zip(&mut next).for_each(|(to, from)| *to = *from);
        }
        Ok(s)
    }

    pub(super) fn take_center(&mut self, at: &str, name: &str, d: usize) -> Restored<Center> {
        let near = self.take_vector(at, &format!("{name}.near"), d)?;
        Ok(Center::new(near, self.take_vector(at, &format!("{name}.rest"), d)?))
    }

    /// Takes a fact out.
    pub fn take<T: DeserializeOwned>(&mut self, at: &str, name: &str) -> Restored<T> {
        let name = format!("{at}.{name}");
        let value = self.facts.remove(&name).ok_or_else(|| format!("'{name}' is missing"))?;
        serde_json::from_value(value).map_err(|e| format!("'{name}': {e}"))
    }

    /// Takes a count of rows out: one that can be added to.
    pub fn take_rows(&mut self, at: &str) -> Restored<u64> {
        let rows: u64 = self.take(at, "rows")?;
        if rows <= MOST_ROWS {
            Ok(rows)
        } else {
            Err(format!("'{at}.rows' is {rows}, more than there can be"))
        }
    }

    /// Takes a weight out: a finite number that is not negative.
    pub fn take_weight(&mut self, at: &str) -> Restored<f64> {
        let weight: f64 = self.take(at, "weight")?;
        if weight >= 0.0 && weight.is_finite() {
            Ok(weight)
        } else {
            Err(format!("'{at}.weight' is no weight"))
        }
    }
}

/// Takes S_B and its coupling out of S_T and gives μ_A; `rest` is W_A, and not 0.
pub(super) fn take_out(
    s: &mut Array2<f64>,
    (mean, weight): (&Center, f64),
    part: &Array2<f64>,
    (part_mean, part_weight): (&Center, f64),
    rest: f64,
) -> Center {
    let moved = mean.minus(part_mean) * (part_weight / rest);
    let left = mean.plus(&moved);
    s.zip_mut_with(part, |t, b| *t -= b);
    super::add_outer(s, -rest * part_weight / weight, &part_mean.minus(&left));
    left
}

/// The weight that is left, 0 where that is only rounding.
pub(super) fn left(total: f64, part: f64) -> f64 {
    let left = total - part;
    if left > 8.0 * f64::EPSILON * total { left } else { 0.0 }
}
