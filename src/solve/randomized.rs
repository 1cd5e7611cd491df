//! The randomized form: block Krylov with a pass over the data for every product.
//!
//! The operator is the seed's matrix, never formed. With S the centred co-moment, W the weight, μ
//! the mean and D the deviations (I without standardizing), for vectors q as rows:
//!
//! ```text
//! q A = (q D⁻¹ (S + W μμᵀ)) D⁻¹          the second term only without centring
//! ```
//!
//! A pass gives p S for p = q D⁻¹; the rest is done here, in memory, and cancels nothing. Holds
//! what [`krylov`](super::krylov) holds. One product tells what given directions are to the rows:
//! λ = uᵀAu, ‖Au − λu‖, and off the diagonal of UAUᵀ how their scores go together.

use super::krylov::{RitzPairs, Tolerance};
use super::rules::{Components, Measure, Rules, cumulated};
use super::spectrum::{self, Spectrum, rank_tolerance};
use super::{Certificate, Form, Iteration, Scaling, Solution};
use crate::accumulate::{Moments, worst};
use crate::error::{Error, Result};
use ndarray::{Array1, Array2, ArrayView1, Axis};

/// Blocks of the basis before it is cut. The same whatever the memory, as the results are.
pub(crate) const BASIS_BLOCKS: usize = 12;

/// Components that a share of the variance is first looked for among.
const FIRST_GUESS: usize = 20;

/// Components that a block is made for.
pub(crate) fn sought(asked: Components) -> usize {
    match asked {
        Components::Count(k) => k,
        _ => FIRST_GUESS,
    }
}

/// Why a rule cannot be answered from the leading eigenvalues.
pub(crate) fn refusal(asked: Components) -> Option<String> {
    match asked {
        leading if leading.is_leading() => None,
        rule => Some(format!(
            "⟦components={rule}⟧ needs the whole spectrum, and it finds the leading components only"
        )),
    }
}

/// What the eigenvalues that were looked at say of a rule that they do not answer.
pub(crate) fn out_of_reach(asked: Components, values: &[f64], total: f64) -> String {
    let all = values.len();
    match asked {
        Components::Ratio(_) => {
            let share = 100.0 * cumulated(values, total).last().unwrap_or(0.0);
            format!("{all} components explain {share:.1} % of the variance")
        }
        _ => format!("of {all} components that were looked at, too many are near it or exceed it"),
    }
}

/// The seed's matrix as an operator.
pub(crate) struct Operator {
    moments: Moments,
    scaling: Scaling,
    active: Vec<usize>,
    /// Deviations of the active features.
    scale: Option<Array1<f64>>,
}

impl Operator {
    /// Once the moments are known.
    pub(crate) fn new(moments: Moments, scaling: Scaling) -> Operator {
        let (active, scale) = scaling.active(&moments);
        Operator { moments, scaling, active, scale }
    }

    /// Features that take part.
    pub(crate) fn order(&self) -> usize {
        self.active.len()
    }

    /// Their positions, ascending.
    pub(crate) fn active(&self) -> &[usize] {
        &self.active
    }

    /// n, W, μ, spread.
    pub(crate) fn moments(&self) -> &Moments {
        &self.moments
    }

    /// p = q D⁻¹, over all features.
    pub(crate) fn operand(&self, q: &Array2<f64>) -> Array2<f64> {
        let Some(scale) = &self.scale else { return q.clone() };
        let mut p = Array2::zeros((q.nrows(), self.moments.mean.len()));
        for (j, (column, s)) in self.active.iter().zip(q.columns().into_iter().zip(scale)) {
            p.column_mut(*j).assign(&(&column / *s));
        }
        p
    }

    /// q A from p and z = p S.
    pub(crate) fn image(&self, p: &Array2<f64>, mut z: Array2<f64>) -> Array2<f64> {
        let Moments { mean, weight, .. } = &self.moments;
        if !self.scaling.center {
            let along = p.dot(mean) * *weight;
            z.rows_mut().into_iter().zip(&along).for_each(|(mut row, a)| row.scaled_add(*a, mean));
        }
        match &self.scale {
            Some(scale) => {
                (z.select(Axis(1), &self.active) / scale).as_standard_layout().into_owned()
            }
            None => z,
        }
    }

    /// Trace of A, from the spread of the features.
    pub(crate) fn trace(&self) -> f64 {
        let Moments { mean, weight, squares, .. } = &self.moments;
        let moment = |j: &usize| {
            squares[*j] + if self.scaling.center { 0.0 } else { weight * mean[*j] * mean[*j] }
        };
        match &self.scale {
            Some(scale) => self.active.iter().zip(scale).map(|(j, s)| moment(j) / (s * s)).sum(),
            None => self.active.iter().map(moment).sum(),
        }
    }

    /// What eigenvalues are measured by.
    pub(crate) fn measure(&self) -> Measure {
        Measure { total: self.trace(), unit: self.moments.weight - 1.0 }
    }

    /// The solution, or why there is none.
    pub(crate) fn solution(
        &self,
        found: RitzPairs,
        asked: Components,
        tolerance: Tolerance,
        passes: usize,
    ) -> Result<Solution> {
        let k = found.vectors.nrows();
        if k == 0 && !matches!(asked, Components::Count(_)) {
            return Err(self.out_of_reach(&found, asked));
        }
        let (moments, order) = (&self.moments, self.order());
        let bound = super::rank_bound(moments.rows, order, self.scaling);
        let rounding = rank_tolerance(moments.rows, order);
        let leading = found.values.iter().copied();
        let spectrum = match found.complete {
            true => Spectrum::whole(leading, rounding, bound),
            false => Spectrum::leading(leading.take(k), rounding, bound),
        };
        let trace = self.trace();
        let rules = Rules::new(&spectrum, trace, moments.weight, order, self.scaling.center)
            .exhausting(asked);
        let kept = rules.keep_found(asked, k)?;
        let mut components = found.vectors.slice(ndarray::s![..kept, ..]).to_owned();
        spectrum::fix_signs(&mut components);
        let iteration = Iteration::new(&found, tolerance, kept, passes);
        let certificate = Certificate {
            max_residual: iteration.max_residual(),
            orthogonality: super::orthogonality(&components),
            trace_error: found.complete.then(|| super::relative(trace, found.values.iter().sum())),
            mixed_error: moments.mixed_error,
            iteration: Some(iteration),
            ..Certificate::default()
        };
        let (rank, eigenvalues) = (spectrum.rank(), spectrum.values);
        let (active, scale) = (self.active.clone(), self.scale.clone());
        Ok(Solution {
            form: Form::Randomized,
            active,
            scale,
            components,
            eigenvalues,
            rank,
            trace,
            rules,
            certificate,
        })
    }

    /// What directions u (orthonormal rows) are to A, given their image u A: λ = uᵀAu in the order
    /// that they have.
    pub(crate) fn along(&self, u: Array2<f64>, image: Array2<f64>) -> Solution {
        let within = u.dot(&image.t());
        let values = within.diag().mapv(|v| v.max(0.0));
        let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let residual =
            |((u, image), lambda): ((ArrayView1<'_, f64>, ArrayView1<'_, f64>), &f64)| {
                let left = (&image - &(&u * *lambda)) / largest;
                left.dot(&left).sqrt()
            };
        let pairs = u.rows().into_iter().zip(image.rows()).zip(&values);
        let (trace, order) = (self.trace(), self.order());
        let rounding = rank_tolerance(self.moments.rows, order);
        let certificate = Certificate {
            max_residual: pairs.map(residual).fold(0.0, f64::max),
            orthogonality: super::orthogonality(&u),
            score_correlation: Some(largest_correlation(&within, rounding * largest)),
            ..Certificate::default()
        };
        let spectrum = Spectrum { above: values.len(), values, whole: false };
        let centred = self.scaling.center;
        Solution {
            form: Form::Basis,
            active: self.active.clone(),
            scale: self.scale.clone(),
            components: u,
            rank: None,
            trace,
            rules: Rules::new(&spectrum, trace, self.moments.weight, order, centred),
            eigenvalues: spectrum.values,
            certificate,
        }
    }

    fn out_of_reach(&self, found: &RitzPairs, asked: Components) -> Error {
        let said = out_of_reach(asked, &found.values, self.trace());
        Error::Misuse(format!(
            "⟦components={asked}⟧ is out of reach of the randomized form: {said}; give a number of \
             components, or allow more memory for an exact form"
        ))
    }

    /// Remembers the error of f32 products.
    pub(crate) fn note_mixed_error(&mut self, error: Option<f64>) {
        self.moments.mixed_error = worst(self.moments.mixed_error, error);
    }

    /// The moments, when the operator is no longer needed.
    pub(crate) fn into_moments(self) -> Moments {
        self.moments
    }
}

/// max |c_ij| / √(c_ii c_jj) off the diagonal, where both vary by more than `least`.
fn largest_correlation(c: &Array2<f64>, least: f64) -> f64 {
    let varies: Vec<usize> = (0..c.nrows()).filter(|i| c[[*i, *i]] > least).collect();
    let of = |i: usize, j: usize| c[[i, j]].abs() / (c[[i, i]].sqrt() * c[[j, j]].sqrt());
    let pairs = varies.iter().flat_map(|i| varies.iter().map(move |j| (*i, *j)));
    pairs.filter(|(i, j)| i < j).map(|(i, j)| of(i, j)).fold(0.0, f64::max)
}
