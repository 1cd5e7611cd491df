//! The kernel of a fit or of `hsic`: which one, with which constants, and which way a kernel method takes.
//!
//! | method | kernel | way |
//! |---|---|---|
//! | kpca | linear | plain PCA, in any of its forms: the same eigenvectors, mapped |
//! | kpca | cosine, no more features than rows | PCA of the rows at unit length |
//! | kpca | any | all rows in memory, tiles of K |
//! | kpca `--landmarks`, `--random-features` | any; rbf | PCA of comparisons with some rows, or of random features, streaming |
//! | kspca | any | all rows in memory, one product with K |

use super::args::{FitSpec, FormChoice, Gamma, KernelArgs, LandmarkChoice};
use crate::error::{Error, Result};
use crate::kernel::{Kernel, KernelKind};
use crate::model::Method;
use crate::report::Talk;
use crate::solve::Form;
use crate::solve::kernel_matrix::{SPILL_FROM, spill_bytes};
use crate::solve::kernel_pca::DENSE_UP_TO;
use crate::source::block::Precision;
use crate::source::spool::free_bytes;
use crate::words::five_digits;
use ndarray::{Array1, Array2};
use std::path::PathBuf;

/// Rows that the median distance is taken over.
const MEDIAN_OF: usize = 1_000;

/// The way a kernel method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
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

/// A kernel method that is known to be possible.
#[derive(Debug, Clone)]
pub struct KernelPlan {
    /// Which way.
    pub route: Route,
    /// The kernel's name.
    pub kind: KernelKind,
    /// Its constants as typed.
    args: KernelArgs,
    /// How landmarks are chosen.
    pub choice: LandmarkChoice,
    /// Where tiles are kept, if that is cheaper than making them again.
    pub spill: Option<PathBuf>,
    /// True when a way back is to be learned.
    pub ridge: bool,
}

impl KernelPlan {
    /// What was typed, for n rows and d features.
    pub fn new(spec: &FitSpec, n: u64, d: u64) -> Result<Option<KernelPlan>> {
        let misuse = |problem: String| Err(Error::Misuse(problem));
        let method = spec.method;
        if !method.is_kernel() {
            if let FormChoice::Exact | FormChoice::Direct = spec.form {
                return misuse(format!(
                    "--form exact and direct are of kernels (kpca, kspca); {method} has others"
                ));
            }
            let approximation =
                [("--landmarks", spec.landmarks), ("--random-features", spec.random_features)];
            return match approximation.iter().find(|(_, asked)| asked.is_some()) {
                Some((flag, _)) => {
                    misuse(format!("{flag} stands for a kernel; use it with --method kpca"))
                }
                None if spec.preimage.is_some() => misuse(
                    "--preimage is for kernel models; others are reconstructed exactly".into(),
                ),
                None => Ok(None),
            };
        }
        if spec.no_center {
            let seed = "kernel PCA centres where its kernel maps to, and kernel supervised PCA by its labels";
            return misuse(format!(
                "--no-center does not go with --method {method}: {seed}; leave it out"
            ));
        }
        if spec.precision == Precision::Mixed {
            return misuse("--precision mixed is for the products of pca; kernels are computed in f64, leave it out".into());
        }
        let kind = spec.kernel.kernel.unwrap_or(KernelKind::Rbf);
        spec.kernel.check(kind)?;
        let route = route(spec, kind, n, d)?;
        if spec.preimage.is_some() && (kind == KernelKind::Cosine || route == Route::Pca) {
            return misuse(match kind {
                KernelKind::Cosine => {
                    "the cosine kernel forgets the length of a row, so there is no way back to it; leave --preimage out".into()
                }
                _ => "with a linear kernel reconstruct needs no --preimage; leave it out".to_string(),
            });
        }
        let recomputed =
            n as usize <= DENSE_UP_TO || (d as usize) < SPILL_FROM || route != Route::Exact;
        let dir = spec.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        // Without room for all tiles they are made again; a directory that was asked for and is none is refused later.
        let room = free_bytes(&dir).is_none_or(|free| free / 2 > spill_bytes(n));
        let spill = (!recomputed && room).then_some(dir);
        let (args, choice, ridge) =
            (spec.kernel.clone(), spec.landmark_choice, spec.preimage.is_some());
        Ok(Some(KernelPlan { route, kind, args, choice, spill, ridge }))
    }

    /// The kernel for so many features, and where γ comes from.
    pub fn resolve(
        &self,
        sample: &Array2<f64>,
        weights: Option<&Array1<f64>>,
        seed: u64,
        talk: Talk,
    ) -> (Kernel, Option<String>) {
        self.args.resolve(self.kind, sample.ncols(), || median(sample, weights, seed), talk)
    }

    /// The forms it could take.
    pub fn forms(&self) -> Vec<Form> {
        match self.route {
            Route::Pca => vec![Form::Primal, Form::Dual, Form::Randomized],
            Route::UnitPca => vec![Form::Primal],
            Route::Exact => vec![Form::Exact],
            Route::Landmarks(_) => vec![Form::Landmarks],
            Route::Fourier(_) => vec![Form::Fourier],
            Route::Supervised => vec![Form::Dual, Form::Direct],
        }
    }
}

fn route(spec: &FitSpec, kind: KernelKind, n: u64, d: u64) -> Result<Route> {
    let misuse = |problem: String| Err(Error::Misuse(problem));
    let form = spec.form;
    if spec.method == Method::Kspca {
        if spec.landmarks.is_some() || spec.random_features.is_some() {
            return misuse(
                "--landmarks and --random-features are for kpca; kspca needs one product with the kernel matrix and is exact"
                    .into(),
            );
        }
        return match form {
            FormChoice::Auto | FormChoice::Dual | FormChoice::Direct => Ok(Route::Supervised),
            _ => misuse("kernel supervised PCA has a dual and a direct form; choose one of them, or leave --form out".into()),
        };
    }
    match (spec.landmarks, spec.random_features) {
        (None, None) => {}
        _ if form != FormChoice::Auto => {
            return misuse(
                "--landmarks and --random-features are forms of their own; leave --form out".into(),
            );
        }
        (Some(m), _) => return Ok(Route::Landmarks(m as usize)),
        (_, Some(_)) if kind != KernelKind::Rbf => {
            return misuse(format!(
                "--random-features stand for the rbf kernel, not for {kind}; --landmarks stand for any"
            ));
        }
        (_, Some(m)) => return Ok(Route::Fourier(m as usize)),
    }
    match (form, kind) {
        (FormChoice::Exact, _) => Ok(Route::Exact),
        (FormChoice::Direct, _) => misuse("--form direct is of kspca; kpca is exact".into()),
        (_, KernelKind::Linear) => Ok(Route::Pca),
        (FormChoice::Auto, KernelKind::Cosine) if d <= n => Ok(Route::UnitPca),
        (FormChoice::Primal, KernelKind::Cosine) => Ok(Route::UnitPca),
        (FormChoice::Auto, _) => Ok(Route::Exact),
        (other, _) => misuse(format!(
            "a {kind} kernel has no {} form; leave --form out",
            other.form().map_or_else(String::new, |f| f.to_string())
        )),
    }
}

impl KernelArgs {
    /// Refuses what contradicts itself.
    pub fn check(&self, kind: KernelKind) -> Result<()> {
        if self.sigma.is_some() && kind != KernelKind::Rbf {
            return Err(Error::Misuse(
                "--sigma is of the rbf kernel; poly and sigmoid take --gamma".into(),
            ));
        }
        if self.sigma.is_some() && self.gamma.is_some() {
            return Err(Error::Misuse("--gamma and --sigma say the same thing; give one".into()));
        }
        if self.sigma.is_some_and(|s| !(0.5 / (s * s)).is_finite() || 0.5 / (s * s) == 0.0) {
            return Err(Error::Misuse(
                "--sigma is so far from 1 that gamma = 1/(2 sigma²) is no number".into(),
            ));
        }
        if self.gamma == Some(Gamma::Median) && kind != KernelKind::Rbf {
            return Err(Error::Misuse(
                "--gamma median is about distances, which only the rbf kernel has; give a number"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Options that were given and change nothing.
    pub fn without_effect(&self, kind: KernelKind) -> Vec<String> {
        let mut notes = Vec::new();
        let mut when = |given: bool, flag: &str| {
            if given {
                notes.push(format!("{flag} has no effect on the {kind} kernel"));
            }
        };
        when(
            self.gamma.is_some() && matches!(kind, KernelKind::Linear | KernelKind::Cosine),
            "--gamma",
        );
        when(
            self.coef0.is_some() && matches!(kind, KernelKind::Rbf | KernelKind::Cosine),
            "--coef0",
        );
        when(self.degree.is_some() && kind != KernelKind::Poly, "--degree");
        notes
    }

    /// True when any of them was given.
    pub fn any(&self) -> bool {
        let KernelArgs { kernel, gamma, sigma, coef0, degree } = self;
        kernel.is_some()
            || gamma.is_some()
            || sigma.is_some()
            || coef0.is_some()
            || degree.is_some()
    }

    /// The kernel over d features, and where γ comes from; what is not said by the user is told.
    pub fn resolve(
        &self,
        kind: KernelKind,
        d: usize,
        median: impl FnOnce() -> f64,
        talk: Talk,
    ) -> (Kernel, Option<String>) {
        let coef0 = self.coef0.unwrap_or(0.0);
        match kind {
            KernelKind::Linear => return (Kernel::Linear { coef0 }, None),
            KernelKind::Cosine => return (Kernel::Cosine, None),
            _ => {}
        }
        let (gamma, from) = match (self.gamma, self.sigma) {
            (Some(Gamma::Value(gamma)), _) => (gamma, "given"),
            (None, Some(sigma)) => (1.0 / (2.0 * sigma * sigma), "given"),
            (Some(Gamma::Median), _) => {
                let gamma = median();
                talk.say(format!(
                    "gamma {}: 1 over twice the median squared distance of a sample",
                    five_digits(gamma)
                ));
                (gamma, "median")
            }
            (None, None) => {
                talk.say(format!("note: gamma is 1/{d} unless --gamma says otherwise"));
                (1.0 / d as f64, "default")
            }
        };
        let kernel = match kind {
            KernelKind::Poly => Kernel::Poly { gamma, coef0, degree: self.degree.unwrap_or(3) },
            KernelKind::Sigmoid => Kernel::Sigmoid { gamma, coef0 },
            _ => Kernel::Rbf { gamma },
        };
        (kernel, Some(from.into()))
    }
}

/// 1 / (2 median ‖x − y‖²) over the pairs of a seeded sample that differ; a pair counts as often as its rows do.
pub fn median(rows: &Array2<f64>, weights: Option<&Array1<f64>>, seed: u64) -> f64 {
    let n = rows.nrows();
    let picked = crate::solve::landmarks::shuffled(n, MEDIAN_OF.min(n), seed);
    let mut pairs = Vec::with_capacity(picked.len() * picked.len() / 2);
    for (at, i) in picked.iter().enumerate() {
        for j in &picked[at + 1..] {
            let distance =
                rows.row(*i).iter().zip(rows.row(*j)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            pairs.push((distance, weights.map_or(1.0, |w| w[*i] * w[*j])));
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
