//! A basis that is given: the directions of another model, and what the rows of this table do along
//! them.
//!
//! ```text
//! U (k × d, as it was)      μ, D of the new rows      λ = diag(U A Uᵀ)      A = D⁻¹ S D⁻¹
//! ```
//!
//! Enters: a [`Model`] with directions among its features. Leaves: the same directions with the
//! means, deviations and variances of other rows. Since U is orthonormal, the projection
//! U(UᵀU)⁻¹Uᵀ onto its span is UUᵀ, which is what scores and reconstructions use. Holds k·d numbers
//! per unit in flight: one pass gives U S with the moments ([`Sketch`]). Where the deviations must
//! be known first, or the means that missing cells take, the moments have a pass of their own.

use super::assemble::Decomposition;
use super::cost::Workload;
use super::options::Fit;
use super::run::Run;
use super::sums_pass::feature_moments;
use crate::accumulate::{Accumulate, FeatureMoments, Product, Scaling, Shape, Sketch};
use crate::budget::Phase;
use crate::error::{Error, Result};
use crate::model::{BasisReport, Method, Model};
use crate::pass;
use crate::solve::orthogonality;
use crate::solve::randomized::Operator;
use crate::solve::rules::Components;
use crate::source::{ColumnSelection, Features, Nulls, Precision, Table, unknown};
use crate::words::count;
use crate::workers::window;
use ndarray::{Array2, Axis, s};
use std::path::Path;
use std::sync::Arc;

/// How far UUᵀ may be from I.
const ORTHONORMAL: f64 = 1e-8;

/// The directions of a model, for a fit along them.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenBasis {
    /// k × d over all columns of the model; 0 for those that were constant and left out.
    components: Arc<Array2<f64>>,
    columns: Features,
    pub(super) scaling: Scaling,
    report: BasisReport,
}

/// What a fit along a basis holds and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BasisWork {
    /// Directions (k).
    pub(crate) vectors: u64,
    pub(crate) passes: usize,
}

impl GivenBasis {
    /// The directions of a linear model. A kernel model has none among the features.
    pub fn of(model: &Model) -> Result<GivenBasis> {
        let linear = model.components().filter(|_| !model.is_normalized());
        let Some(u) = linear else {
            return Error::misuse(
                "⟦basis⟧ takes directions among the features, and this kernel model has none there",
            );
        };
        let off = orthogonality(u);
        if off > ORTHONORMAL || off.is_nan() {
            return Error::misuse(format!(
                "⟦basis⟧ takes orthonormal directions, and these are off by {off:.1e}"
            ));
        }
        let constants = model.constant_features();
        let active: Vec<usize> = (0..constants.len()).filter(|j| constants[*j].is_none()).collect();
        let mut components = Array2::zeros((u.nrows(), constants.len()));
        for (column, j) in u.columns().into_iter().zip(active) {
            components.column_mut(j).assign(&column);
        }
        let header = &model.header;
        Ok(GivenBasis {
            components: Arc::new(components),
            columns: header.columns.clone(),
            scaling: Scaling { center: header.center, standardize: header.standardize },
            report: BasisReport::of(model, u),
        })
    }

    /// The same, told where it is from.
    pub fn from_file(mut self, path: &Path) -> GivenBasis {
        self.report.path = Some(path.display().to_string());
        self
    }

    /// Where it is from.
    pub(crate) fn report(&self) -> &BasisReport {
        &self.report
    }

    /// Directions (k).
    pub(crate) fn len(&self) -> usize {
        self.components.nrows()
    }

    /// How many of them are wanted.
    pub(super) fn wanted(&self, asked: Components) -> usize {
        match asked {
            Components::Count(k) => k.min(self.len()),
            _ => self.len(),
        }
    }

    /// The features are those of the basis: checks them, and the options, against a table.
    pub(super) fn columns(&self, fit: &Fit, table: &dyn Table) -> Result<ColumnSelection> {
        check_options(fit)?;
        let fitted_wider = self.columns.check(table)?;
        if let Some(weight) = &fit.weight {
            if table.kind(weight).is_none() {
                let names = table.columns().iter().map(|c| c.name.as_str());
                return Err(unknown(&table.place().file, weight, names));
            }
            if self.columns.columns.iter().any(|c| c.name == *weight) {
                return Error::misuse(format!("⟦weight⟧ '{weight}' is a feature of the ⟦basis⟧"));
            }
            table.check_columns(&[weight.as_str()])?;
        }
        let features = self.columns.clone();
        Ok(ColumnSelection { features, fitted_wider, ..ColumnSelection::default() })
    }

    /// What a fit along it takes.
    pub(super) fn work(&self, asked: Components, nulls: Nulls) -> BasisWork {
        let two = self.scaling.standardize || nulls == Nulls::Mean;
        BasisWork { vectors: self.wanted(asked) as u64, passes: 1 + usize::from(two) }
    }
}

impl Fit {
    /// Along the directions of a linear model: its features, its order and signs, with the means,
    /// deviations and variances of the rows that it is run on.
    ///
    /// ```
    /// use eigenstream::{ArrowTable, Fit, Quiet};
    ///
    /// let old = ArrowTable::from(ndarray::array![[0.0, 0.0], [2.0, 0.1], [4.0, -0.1]]);
    /// let new = ArrowTable::from(ndarray::array![[7.0, 5.0], [8.0, 5.5], [9.0, 6.0]]);
    /// let model = Fit::pca().components(1).plan(&old)?.run(&Quiet)?;
    /// let moved = Fit::along(&model)?.plan(&new)?.run(&Quiet)?;
    /// assert_eq!(moved.components(), model.components());
    /// assert_eq!(moved.mean[0], 8.0);
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn along(model: &Model) -> Result<Fit> {
        let basis = Some(GivenBasis::of(model)?);
        Ok(Fit { basis, components: Components::All, ..Fit::default() })
    }
}

/// Refuses what a basis has decided already.
fn check_options(fit: &Fit) -> Result<()> {
    let (labels, kernel, scaling) = (&fit.labels, &fit.kernel, fit.scaling);
    let kernels = kernel.kind.is_some() || kernel.approximation.is_some() || kernel.preimage;
    let constants = kernel.gamma.is_some() || kernel.sigma.is_some() || kernel.coef0.is_some();
    let labelled = labels.kernel.is_some() || labels.gamma.is_some() || labels.classes;
    let given = [
        (fit.method != Method::Pca, "⟦method⟧"),
        (fit.form.is_some(), "⟦form⟧"),
        (!fit.columns.include.is_empty(), "⟦columns⟧"),
        (!fit.columns.exclude.is_empty(), "⟦exclude⟧"),
        (!scaling.center, "⟦no-center⟧"),
        (scaling.standardize, "⟦standardize⟧"),
        (!labels.columns.is_empty() || labelled, "⟦label⟧"),
        (labels.with_variance, "⟦with-variance⟧"),
        (kernels || constants || kernel.degree.is_some(), "⟦kernel⟧"),
        (fit.scoring.is_some(), "⟦score-by⟧"),
        (fit.precision != Precision::Exact, "⟦precision⟧"),
        (fit.iteration.tolerance.is_some(), "⟦tolerance⟧"),
    ];
    if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
        return Error::misuse(format!(
            "{option} does not go with ⟦basis⟧, whose features, scaling and directions are kept"
        ));
    }
    match fit.components {
        Components::Count(_) | Components::All => Ok(()),
        rule => Error::misuse(format!(
            "⟦components={rule}⟧ chooses by size, and a ⟦basis⟧ keeps its order; give a number of \
             components, or all"
        )),
    }
}

impl Run<'_> {
    /// Variances along the directions of a basis.
    pub(super) fn along(&self, basis: &GivenBasis) -> Result<Decomposition> {
        let problem = &self.plan.problem;
        let (source, threads) = (self.source()?, self.threads);
        let k = basis.wanted(problem.components);
        let u = Arc::new(basis.components.slice(s![..k, ..]).to_owned());
        let two = basis.work(problem.components, problem.request.nulls).passes > 1;
        let (moments, first, tally) = match two {
            true => {
                let (moments, tally) = feature_moments(&*source, threads, self.listener)?;
                (moments, None, tally)
            }
            false => {
                let fresh = || Sketch::new(u.clone());
                let watch = self.watch_rows("reading", &*source);
                let (sketch, tally) = pass::fold(&*source, threads, &watch, fresh)?;
                let first = sketch.finish();
                (first.moments, Some(first.z), tally)
            }
        };
        self.check(&moments, &tally)?;
        let operator = Operator::new(moments, basis.scaling);
        let u = self.active_directions(&operator, &u)?;
        let p = operator.operand(&u);
        let z = match first {
            Some(z) => z,
            None => {
                let empty = Product::new(p.clone(), Precision::Exact, operator.moments());
                let watch = self.watch_rows("reading", &*source);
                pass::fold(&*source, threads, &watch, || empty.clone())?.0.finish().0
            }
        };
        let solution = operator.along(u, operator.image(&p, z));
        let moments = operator.into_moments();
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: None })
    }

    /// The directions among the features that take part; the others must have no part in them.
    fn active_directions(&self, operator: &Operator, u: &Array2<f64>) -> Result<Array2<f64>> {
        if operator.trace() <= 0.0 {
            return Err(self.refusal(super::assemble::no_variance(false)));
        }
        let mut active = operator.active().iter().copied().peekable();
        for j in 0..u.ncols() {
            let takes_part = active.next_if_eq(&j).is_some();
            if !takes_part && u.column(j).iter().any(|v| *v != 0.0) {
                return Err(self.refusal(format!(
                    "column '{}' is constant here, so it has no deviation to be divided by as the \
                     ⟦basis⟧ wants it",
                    self.plan.problem.request.features.name(j)
                )));
            }
        }
        Ok(u.select(Axis(1), operator.active()).as_standard_layout().into_owned())
    }
}

impl Workload {
    /// What a fit along a basis holds.
    pub(super) fn along_basis(&self, basis: BasisWork, threads: usize) -> Vec<Phase> {
        let (d, rows, vectors) = (self.d, self.block_rows(), basis.vectors);
        let shape = |rows| Shape { features: d, rows, vectors };
        let scratch =
            Sketch::bytes(shape(rows)) - Sketch::bytes(shape(0)) + FeatureMoments::bytes(shape(0));
        // One per unit in flight, empty and total, and the directions: as read, cut, active,
        // divided.
        let partial = Product::bytes(shape(0)).saturating_mul(window(threads) as u64 + 6);
        let t = threads as u64;
        let stream = self
            .reading("streaming", threads, d)
            .hold("batches and blocks", t.saturating_mul(self.block_bytes() + scratch))
            .hold(format!("products with {}", count(vectors, "direction")), partial);
        vec![stream, self.writing(vectors)]
    }
}
