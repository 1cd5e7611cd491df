//! What stands for a kernel, by landmarks or random features, and the passes of kernel PCA with it:
//! one for a sample and the means, one that adds up S of what stands for the kernel. Holds no rows
//! but the sample.

use super::assemble::Decomposition;
use super::options::{Approximate, LandmarkChoice, cores};
use super::row_kernel::{CHECKED_ON, PreparedRows, RowKernel};
use super::run::Run;
use crate::accumulate::Moments;
use crate::budget::release_freed_memory;
use crate::collect::{RowSample, Sample, reservoir_sample};
use crate::error::{Error, Place, Result};
use crate::kernel::ridge::LEARNED_FROM;
use crate::kernel::{Basis, Comparer, Fourier, KernelMap};
use crate::listen::{Stage, Watch};
use crate::model::{Approximation, KernelParts, KernelReport};
use crate::note::Note;
use crate::solve::kernel_pca::Negative;
use crate::solve::landmarks::{self, Landmarks, shuffled};
use crate::solve::{Form, Solution};
use crate::source::{Block, MappedSource};
use ndarray::{Array1, Array2, ArrayView2, Axis, s};

/// Rows that landmarks are chosen among, for each of them.
const CANDIDATES: usize = 10;

/// Rows of the sample that an approximation with m landmarks or features starts from.
pub(crate) fn sample_rows(landmarks: usize, ridge: bool) -> usize {
    let learned = if ridge { LEARNED_FROM } else { 0 };
    (CANDIDATES * landmarks).max(CHECKED_ON).max(learned)
}

/// What rows are compared with, and how comparisons become features whose PCA stands for the
/// kernel's.
pub(crate) struct KernelFeatures {
    map: KernelMap,
    /// m' × m: of landmarks; random features are features already.
    whitening: Option<Array2<f64>>,
    pub(crate) negative: Negative,
    /// How far they are from the kernel.
    pub(crate) fidelity: Fidelity,
    /// The mean of the features over some rows.
    pub(crate) near_mean: Array1<f64>,
}

/// How far what stands for a kernel is from it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fidelity {
    /// ‖K̂ − K‖ / ‖K‖.
    pub(crate) error: f64,
    /// On so many rows.
    pub(crate) sample: usize,
}

impl KernelFeatures {
    fn new(basis: Basis, whitening: Option<Array2<f64>>, negative: Negative) -> KernelFeatures {
        let m = basis.len();
        let map = KernelMap {
            basis,
            coefficients: Array2::zeros((0, m)),
            offset: Array1::zeros(0),
            kernel_means: None,
            mean: Array1::zeros(m),
            grand_mean: 0.0,
        };
        let near_mean = Array1::zeros(whitening.as_ref().map_or(m, |w| w.nrows()));
        KernelFeatures { map, whitening, negative, fidelity: Fidelity::default(), near_mean }
    }

    /// Features of each row.
    pub(crate) fn width(&self) -> usize {
        self.near_mean.len()
    }

    /// Landmarks or random features that rows are compared with.
    pub(crate) fn size(&self) -> usize {
        self.map.basis.len()
    }

    /// Ready to compare.
    pub(crate) fn comparer(&self) -> Comparer<'_> {
        self.map.comparer()
    }

    /// φ of some rows; the comparer is made once for all of them.
    pub(crate) fn of(&self, comparer: &Comparer<'_>, x: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut compared = Array2::zeros((x.nrows(), comparer.len()));
        comparer.tiles(x, |columns, tile| {
            compared.slice_mut(s![.., columns]).assign(&tile);
        });
        match &self.whitening {
            Some(w) => compared.dot(&w.t()),
            None => compared,
        }
    }

    /// The map whose scores are those of components over these features with these means.
    fn with_components(mut self, solution: &Solution, moments: &Moments) -> KernelMap {
        let whitened =
            |a: &Array2<f64>| self.whitening.as_ref().map_or_else(|| a.clone(), |w| a.dot(w));
        let mean = &moments.mean;
        let as_row = mean.clone().insert_axis(Axis(0));
        let (coefficients, mean_row) = (whitened(&solution.components), whitened(&as_row));
        self.map.coefficients = coefficients;
        self.map.mean = mean_row.remove_axis(Axis(0));
        self.map.offset = solution.components.dot(mean);
        self.map.grand_mean = mean.dot(mean);
        self.map
    }
}

impl Run<'_> {
    /// PCA of what stands for the kernel: whitened comparisons with landmarks, or random features.
    pub(super) fn approximate(&self, by: Approximate) -> Result<Decomposition> {
        let kernel = self.row_kernel()?;
        let source = self.source()?;
        let sample = Sample {
            rows: sample_rows(by.landmarks(), self.learns_preimage()),
            seed: self.plan.problem.seed,
        };
        let watch = self.watch_rows("sampling", &*source);
        let sampled = reservoir_sample(&*source, sample, self.crew(), &watch, None);
        drop(watch);
        let RowSample { x, weights, moments, tally } = sampled?;
        release_freed_memory();
        self.check(&moments, &tally)?;
        let rows = kernel.prepared(x, weights.as_ref(), &moments, false)?;
        let features = kernel.features(&rows, by)?;
        release_freed_memory();
        let (prepare, ..) = kernel.preparation(&moments);
        let comparer = features.comparer();
        let phi = |block: Block, place: &dyn Fn(usize) -> Place| {
            Ok(features.of(&comparer, prepare.apply(block, place)?.view()))
        };
        let mapped = MappedSource::new(source, features.width(), phi);
        let sums = self.covariance(&mapped)?;
        drop(mapped);
        drop(comparer);
        let (units, mut solution) = self.solve_centred(sums)?;
        let (negative, width, fidelity) = (features.negative, features.width(), features.fidelity);
        let map = features.with_components(&solution, &units);
        solution.form = by.form();
        solution.components = map.coefficients.clone();
        let Fidelity { error, sample } = fidelity;
        let approximation = Approximation {
            kind: by.form().to_string(),
            choice: by.choice().map(|choice| choice.name().to_string()),
            size: map.basis.len(),
            rank: width,
            sample,
            error,
        };
        let kernel = self.landmark_parts(rows, map, approximation, negative, &mut solution)?;
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: Some(kernel) })
    }

    fn landmark_parts(
        &self,
        rows: PreparedRows,
        map: KernelMap,
        approximation: Approximation,
        negative: Negative,
        solution: &mut Solution,
    ) -> Result<KernelParts> {
        (solution.active, solution.scale) = (rows.active, rows.scale);
        let sample = match self.learns_preimage() {
            true => {
                let picked = shuffled(rows.x.nrows(), LEARNED_FROM, self.plan.problem.seed);
                rows.x.select(Axis(0), &picked)
            }
            false => Array2::zeros((0, 0)),
        };
        let (preimage, learned) = self.learn_preimage(&map, sample)?.unzip();
        let report = KernelReport {
            rows: if solution.form == Form::Landmarks { map.basis.len() } else { 0 },
            grand_mean: map.grand_mean,
            negative_eigenvalues: negative.count,
            negative_at_least: negative.count > 0,
            approximation: Some(approximation),
            preimage: learned,
            ..KernelReport::new(rows.kernel, rows.gamma_from)
        };
        Ok(KernelParts { report, map: Some(Box::new(map)), unit_mean: None, preimage })
    }
}

impl Approximate {
    /// Landmarks, if there are any.
    pub(crate) fn landmarks(self) -> usize {
        match self {
            Approximate::Landmarks { count, .. } => count,
            Approximate::Fourier(_) => 0,
        }
    }

    /// How landmarks are chosen, if there are any.
    pub(crate) fn choice(self) -> Option<LandmarkChoice> {
        match self {
            Approximate::Landmarks { choice, .. } => Some(choice),
            Approximate::Fourier(_) => None,
        }
    }

    pub(crate) fn form(self) -> Form {
        match self {
            Approximate::Landmarks { .. } => Form::Landmarks,
            Approximate::Fourier(_) => Form::Fourier,
        }
    }

    /// "landmark", "random feature".
    fn noun(self) -> &'static str {
        match self {
            Approximate::Landmarks { .. } => "landmark",
            Approximate::Fourier(_) => "random feature",
        }
    }
}

impl RowKernel<'_> {
    /// What stands for the kernel over a sample of rows, and how far it is from it; both are told.
    pub(crate) fn features(&self, rows: &PreparedRows, by: Approximate) -> Result<KernelFeatures> {
        let mut features = match by {
            Approximate::Fourier(m) => {
                let gamma = rows.kernel.gamma().unwrap_or(1.0);
                let basis = Basis::Fourier(Fourier::new(rows.x.ncols(), m, gamma, self.seed));
                KernelFeatures::new(basis, None, Negative { count: 0, all: false })
            }
            Approximate::Landmarks { count, choice } => self.landmarks(rows, count, choice)?,
        };
        let negative = features.negative.count;
        if negative > 0 {
            self.listener.note(&Note::NegativeEigenvalues { count: negative, at_least: true });
        }
        if features.width() == 0 {
            return Err(Error::data(
                self.table.place(),
                "the kernel is 0 among all landmarks: there is nothing to decompose; choose \
                 another ⟦gamma⟧",
            ));
        }
        (features.fidelity, features.near_mean) = self.fidelity(rows, &features);
        let (kind, size, rank) = (by.noun(), features.size(), features.width());
        let Fidelity { error, sample } = features.fidelity;
        self.listener.note(&Note::KernelApproximated { kind, size, rank, error, sample });
        Ok(features)
    }

    /// How far features are from the kernel, on some rows, and their mean over them.
    fn fidelity(&self, rows: &PreparedRows, features: &KernelFeatures) -> (Fidelity, Array1<f64>) {
        let _watch = Watch::new(self.listener, Stage::untold("comparing with the kernel"));
        let checked = self.some_rows(&rows.x);
        let (k, phi) = crate::blas::serial(|| {
            let k = rows.kernel.tile(checked.view(), checked.view());
            (k, features.of(&features.comparer(), checked.view()))
        });
        self.tell_degenerate(rows.kernel, &k);
        let mean = phi.mean_axis(Axis(0)).unwrap_or_default();
        let error = crate::blas::serial(|| landmarks::error(k, &phi));
        (Fidelity { error, sample: checked.nrows() }, mean)
    }

    /// Landmarks and the whitening of comparisons with them.
    fn landmarks(
        &self,
        rows: &PreparedRows,
        m: usize,
        choice: LandmarkChoice,
    ) -> Result<KernelFeatures> {
        let kernel = rows.kernel;
        let chosen = match choice {
            LandmarkChoice::Uniform => shuffled(rows.x.nrows(), m, self.seed),
            LandmarkChoice::KMeans => {
                let most = m.min(rows.x.nrows()) as u64;
                let stage = Stage::new("choosing", "landmarks", most);
                let watch = Watch::new(self.listener, stage);
                landmarks::spread_out(&kernel, &rows.x, m, self.seed, &watch)?
            }
        };
        if chosen.len() < m {
            self.listener.note(&Note::FewerLandmarks { found: chosen.len(), asked: m });
        }
        let some = rows.x.select(Axis(0), &chosen);
        let _watch = Watch::new(self.listener, Stage::decomposing(some.nrows()));
        let Landmarks { rows, whitening, negative } = Landmarks::new(&kernel, some, cores())?;
        let negative = Negative { count: negative, all: false };
        Ok(KernelFeatures::new(Basis::Rows { kernel, rows }, Some(whitening), negative))
    }
}
