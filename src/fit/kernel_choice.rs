//! The kernel of a fit or of HSIC: which one, with which constants, and which way a kernel method
//! takes.
//!
//! | method | kernel | way |
//! |---|---|---|
//! | kpca | linear | plain PCA, in any of its forms: the same eigenvectors, mapped |
//! | kpca | cosine, no more features than rows | PCA of the rows at unit length |
//! | kpca | any | all rows in memory, tiles of K |
//! | kpca with landmarks or random features | any; rbf | PCA of comparisons with some rows, or of random features, streaming |
//! | kspca | any | all rows in memory, one product with K |
//! | kpca, kspca | precomputed, distances | the same products, K read row by row each time |

use super::bounds;
use super::options::{Approximate, DEFAULT_DEGREE, Fit, Gamma, KernelOptions, cores};
use crate::blas;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, KernelKind, squared_distance};
use crate::listen::{Listener, Stage, Watch};
use crate::model::Method;
use crate::note::Note;
use crate::solve::Form;
use crate::solve::landmarks::shuffled;
use crate::source::{Nulls, Precision};
use ndarray::{Array1, Array2, Axis};

/// Rows that the median distance is taken over.
const MEDIAN_OF: usize = 1_000;

/// The way a kernel method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelRoute {
    /// Plain PCA gives the same.
    Pca,
    /// PCA of the rows at unit length gives the same.
    UnitPca,
    /// Tiles of the kernel matrix.
    Exact,
    /// Comparisons with this many rows.
    Landmarks(usize),
    /// This many random features.
    Fourier(usize),
    /// Kernel supervised PCA.
    Supervised,
}

impl KernelRoute {
    /// The forms it could take.
    pub(crate) fn forms(self) -> &'static [Form] {
        match self {
            KernelRoute::Pca => &[Form::Primal, Form::Dual, Form::Randomized],
            KernelRoute::UnitPca => &[Form::Primal],
            KernelRoute::Exact => &[Form::Exact],
            KernelRoute::Landmarks(_) => &[Form::Landmarks],
            KernelRoute::Fourier(_) => &[Form::Fourier],
            KernelRoute::Supervised => &[Form::Dual, Form::Direct],
        }
    }
}

/// A kernel whose options go together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KernelChoice {
    pub(crate) kind: KernelKind,
    pub(crate) options: KernelOptions,
}

impl KernelChoice {
    /// The kernel of a kernel method; `None` for the others, whose fits may name none.
    pub(crate) fn new(fit: &Fit) -> Result<Option<KernelChoice>> {
        let method = fit.method;
        if !method.is_kernel() {
            return refuse_kernel_options(fit).map(|()| None);
        }
        if !fit.scaling.center {
            return Error::misuse(format!(
                "⟦no-center⟧ does not go with ⟦method={method}⟧: kernel PCA centres where its \
                 kernel maps to, and kernel supervised PCA by its labels; leave it out"
            ));
        }
        if fit.precision != Precision::Exact {
            return Error::misuse(
                "⟦precision⟧ is for the products of pca; kernels are computed in f64, leave it out",
            );
        }
        let kind = fit.kernel.kind.unwrap_or(KernelKind::Rbf);
        check_constants(&fit.kernel, kind)?;
        check_given(fit, kind)?;
        let choice = KernelChoice { kind, options: fit.kernel.clone() };
        // What does not depend on the data is refused before it is looked at.
        let route = choice.route(method, fit.form, u64::MAX, 1)?;
        if choice.options.preimage && (kind == KernelKind::Cosine || route == KernelRoute::Pca) {
            return Error::misuse(match kind {
                KernelKind::Cosine => {
                    "the cosine kernel forgets the length of a row, so there is no way back to it; \
                     leave ⟦preimage⟧ out"
                }
                _ => "with a linear kernel reconstruct needs no ⟦preimage⟧; leave it out",
            });
        }
        Ok(Some(choice))
    }

    /// The way to take for n rows of d features.
    pub(crate) fn route(
        &self,
        method: Method,
        form: Option<Form>,
        n: u64,
        d: u64,
    ) -> Result<KernelRoute> {
        if method == Method::Kspca {
            return self.supervised_route(form);
        }
        match self.options.approximation {
            None => {}
            Some(_) if form.is_some() => {
                return Error::misuse(
                    "⟦landmarks⟧ and ⟦random-features⟧ are forms of their own; leave ⟦form⟧ out",
                );
            }
            Some(Approximate::Landmarks { count, .. }) => return Ok(KernelRoute::Landmarks(count)),
            Some(Approximate::Fourier(_)) if self.kind != KernelKind::Rbf => {
                return Error::misuse(format!(
                    "⟦random-features⟧ stand for the rbf kernel, not for {}; ⟦landmarks⟧ stand \
                     for any",
                    self.kind
                ));
            }
            Some(Approximate::Fourier(count)) => return Ok(KernelRoute::Fourier(count)),
        }
        match (form, self.kind) {
            (Some(Form::Exact), _) => Ok(KernelRoute::Exact),
            (Some(Form::Direct), _) => Error::misuse("⟦form=direct⟧ is of kspca; kpca is exact"),
            (_, KernelKind::Linear) => Ok(KernelRoute::Pca),
            (None, KernelKind::Cosine) if d <= n => Ok(KernelRoute::UnitPca),
            (Some(Form::Primal), KernelKind::Cosine) => Ok(KernelRoute::UnitPca),
            (None, _) => Ok(KernelRoute::Exact),
            (Some(form), kind) => {
                Error::misuse(format!("a {kind} kernel has no {form} form; leave ⟦form⟧ out"))
            }
        }
    }

    fn supervised_route(&self, form: Option<Form>) -> Result<KernelRoute> {
        if self.options.approximation.is_some() {
            return Error::misuse(
                "⟦landmarks⟧ and ⟦random-features⟧ are for kpca; kspca needs one product with the \
                 kernel matrix and is exact",
            );
        }
        match form {
            None | Some(Form::Dual | Form::Direct) => Ok(KernelRoute::Supervised),
            Some(_) => Error::misuse(
                "kernel supervised PCA has a dual and a direct form; choose one of them, or leave \
                 ⟦form⟧ out",
            ),
        }
    }

    /// The kernel over these rows, and where γ comes from.
    pub(crate) fn resolve(
        &self,
        rows: &Array2<f64>,
        weights: Option<&Array1<f64>>,
        seed: u64,
        listener: &dyn Listener,
    ) -> (Kernel, Option<String>) {
        let median = || {
            let _watch = Watch::new(listener, Stage::untold("measuring distances"));
            median_gamma(rows, weights, seed)
        };
        resolve(&self.options, self.kind, rows.ncols(), median, listener)
    }
}

/// A matrix that is given is taken as it is.
fn check_given(fit: &Fit, kind: KernelKind) -> Result<()> {
    if !kind.is_given() {
        return Ok(());
    }
    let option = [
        (fit.scaling.standardize, "⟦standardize⟧"),
        (fit.scoring.is_some(), "⟦score-by⟧"),
        (fit.nulls != Nulls::Error, "⟦nulls⟧"),
        (fit.kernel.preimage, "⟦preimage⟧"),
        (fit.kernel.approximation.is_some(), "⟦landmarks⟧ or ⟦random-features⟧"),
    ];
    match option.into_iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, option)) => Error::misuse(format!(
            "{option} is about features, and the rows of ⟦kernel={kind}⟧ have none, only their \
             values with each other; leave it out"
        )),
    }
}

/// A method without a kernel has none of its options.
fn refuse_kernel_options(fit: &Fit) -> Result<()> {
    let method = fit.method;
    if let Some(Form::Exact | Form::Direct) = fit.form {
        return Error::misuse(format!(
            "⟦form=exact⟧ and direct are of kernels (kpca, kspca); {method} has others"
        ));
    }
    let option = match fit.kernel.approximation {
        Some(Approximate::Landmarks { .. }) => "⟦landmarks⟧",
        Some(Approximate::Fourier(_)) => "⟦random-features⟧",
        None if fit.kernel.preimage => {
            return Error::misuse(
                "⟦preimage⟧ is for kernel models; others are reconstructed exactly",
            );
        }
        None => return Ok(()),
    };
    Error::misuse(format!("{option} stands for a kernel; use it with ⟦method=kpca⟧"))
}

/// Refuses constants that contradict each other.
pub(crate) fn check_constants(options: &KernelOptions, kind: KernelKind) -> Result<()> {
    bounds::kernel(options)?;
    let KernelOptions { gamma, sigma, .. } = options;
    if sigma.is_some() && kind != KernelKind::Rbf {
        return Error::misuse("⟦sigma⟧ is of the rbf kernel; poly and sigmoid take ⟦gamma⟧");
    }
    if sigma.is_some() && gamma.is_some() {
        return Error::misuse("⟦gamma⟧ and ⟦sigma⟧ say the same thing; give one");
    }
    let implied = sigma.map(|s| 0.5 / (s * s));
    if implied.is_some_and(|g| !g.is_finite() || g == 0.0) {
        return Error::misuse("⟦sigma⟧ is so far from 1 that gamma = 1/(2 sigma²) is no number");
    }
    if *gamma == Some(Gamma::Median) && kind != KernelKind::Rbf {
        return Error::misuse(
            "⟦gamma=median⟧ is about distances, which only the rbf kernel has; give a number",
        );
    }
    Ok(())
}

/// The kernel over d features, and where γ comes from; what was not given is told.
fn resolve(
    options: &KernelOptions,
    kind: KernelKind,
    d: usize,
    median: impl FnOnce() -> f64,
    listener: &dyn Listener,
) -> (Kernel, Option<String>) {
    let coef0 = options.coef0.unwrap_or(0.0);
    match kind {
        KernelKind::Linear => return (Kernel::Linear { coef0 }, None),
        KernelKind::Cosine => return (Kernel::Cosine, None),
        KernelKind::Precomputed => return (Kernel::Precomputed, None),
        KernelKind::Distances => return (Kernel::Distances, None),
        _ => {}
    }
    let (gamma, from) = match (options.gamma, options.sigma) {
        (Some(Gamma::Value(gamma)), _) => (gamma, "given"),
        (None, Some(sigma)) => (1.0 / (2.0 * sigma * sigma), "given"),
        (Some(Gamma::Median), _) => {
            let gamma = median();
            listener.note(&Note::MedianGamma(gamma));
            (gamma, "median")
        }
        (None, None) => {
            listener.note(&Note::DefaultGamma { features: d });
            (1.0 / d as f64, "default")
        }
    };
    let degree = options.degree.unwrap_or(DEFAULT_DEGREE);
    let kernel = match kind {
        KernelKind::Poly => Kernel::Poly { gamma, coef0, degree },
        KernelKind::Sigmoid => Kernel::Sigmoid { gamma, coef0 },
        _ => Kernel::Rbf { gamma },
    };
    (kernel, Some(from.into()))
}

/// 1 / (2 median ‖x − y‖²) over the pairs of a seeded sample that differ; a pair counts as often as
/// its rows do.
fn median_gamma(rows: &Array2<f64>, weights: Option<&Array1<f64>>, seed: u64) -> f64 {
    let n = rows.nrows();
    let picked = shuffled(n, MEDIAN_OF.min(n), seed);
    let sample = rows.select(Axis(0), &picked);
    let around = &sample - &sample.mean_axis(Axis(0)).unwrap_or_default();
    let products = blas::parallel(cores(), || around.dot(&around.t()));
    let mut pairs = Vec::with_capacity(picked.len() * picked.len() / 2);
    for i in 0..picked.len() {
        for j in i + 1..picked.len() {
            let lengths = products[[i, i]] + products[[j, j]];
            let mut distance = lengths - 2.0 * products[[i, j]];
            // Too near each other for products to tell how near.
            if distance <= 1e-6 * lengths {
                distance = squared_distance(sample.row(i), sample.row(j));
            }
            let weight = weights.map_or(1.0, |w| w[picked[i]] * w[picked[j]]);
            pairs.push((distance, weight));
        }
    }
    pairs.retain(|(d, w)| *d > 0.0 && *w > 0.0);
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = pairs.iter().map(|(_, w)| w).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (at, (distance, weight)) in pairs.iter().enumerate() {
        below += weight;
        if below > half {
            return 0.5 / distance;
        }
        if below == half {
            return 1.0 / (distance + pairs.get(at + 1).map_or(*distance, |p| p.0));
        }
    }
    // All rows are the same: any will do.
    1.0
}
