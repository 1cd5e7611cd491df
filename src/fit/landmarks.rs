//! The passes of kernel PCA by landmarks or random features: one for a sample and the means, one
//! that adds up S of what stands for the kernel. Holds no rows but the sample.

use super::assemble::Decomposition;
use super::kernel::PreparedRows;
use super::options::{LandmarkChoice, cores};
use super::run::Run;
use crate::accumulate::Moments;
use crate::budget::release_freed_memory;
use crate::collect::{RowSample, reservoir_sample};
use crate::error::{Place, Result};
use crate::kernel::ridge::LEARNED_FROM;
use crate::kernel::{Basis, Comparer, Fourier, KernelMap};
use crate::model::{Approximation, KernelParts, KernelReport};
use crate::note::Note;
use crate::solve::kernel_pca::Negative;
use crate::solve::landmarks::{self, Landmarks, shuffled};
use crate::solve::{Form, Solution};
use crate::source::{Block, MappedSource};
use ndarray::{Array1, Array2, ArrayView2, Axis, s};

/// Rows that landmarks are chosen among, for each of them.
const CANDIDATES: usize = 10;

/// Rows that an approximation is compared with the kernel on.
pub(super) const CHECKED_ON: usize = 1_000;

/// Rows of the sample that an approximation with m landmarks or features starts from.
pub(super) fn sample_rows(landmarks: usize, ridge: bool) -> usize {
    let learned = if ridge { LEARNED_FROM } else { 0 };
    (CANDIDATES * landmarks).max(CHECKED_ON).max(learned)
}

/// What rows are compared with, and how comparisons become features whose PCA stands for the
/// kernel's.
struct KernelFeatures {
    map: KernelMap,
    /// m' × m: of landmarks; random features are features already.
    whitening: Option<Array2<f64>>,
    negative: Negative,
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
        KernelFeatures { map, whitening, negative }
    }

    /// Features of each row.
    fn width(&self) -> usize {
        self.whitening.as_ref().map_or(self.map.basis.len(), |w| w.nrows())
    }

    /// φ of some rows; the comparer is made once for all of them.
    fn of(&self, comparer: &Comparer<'_>, x: ArrayView2<'_, f64>) -> Array2<f64> {
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
    pub(super) fn approximate(&self, m: usize, form: Form) -> Result<Decomposition> {
        let landmarks = if form == Form::Landmarks { m } else { 0 };
        let size = sample_rows(landmarks, self.learns_preimage());
        let seed = self.plan.problem.seed;
        let source = self.source()?;
        let RowSample { x, weights, moments, tally } =
            reservoir_sample(&*source, size, seed, self.crew(), &self.watch_rows())?;
        release_freed_memory();
        self.check(&moments, &tally)?;
        let rows = self.prepared(x, weights.as_ref(), &moments, false)?;
        let features = self.kernel_features(&rows, m, form)?;
        self.tell_negative(features.negative);
        let width = features.width();
        if width == 0 {
            return Err(self.refusal(
                "the kernel is 0 among all landmarks: there is nothing to decompose; choose \
                 another ⟦gamma⟧",
            ));
        }
        let (prepare, ..) = self.preparation(&moments);
        let comparer = features.map.comparer();
        let (error, sample) = self.approximation_error(&rows, &features, &comparer);
        release_freed_memory();
        let phi = |block: Block, place: &dyn Fn(usize) -> Place| {
            Ok(features.of(&comparer, prepare.apply(block, place)?.view()))
        };
        let mapped = MappedSource::new(source, width, phi);
        let sums = self.covariance(&mapped)?;
        drop(mapped);
        drop(comparer);
        let (units, mut solution) = self.solve_centred(sums)?;
        let negative = features.negative;
        let map = features.with_components(&solution, &units);
        solution.form = form;
        solution.components = map.coefficients.clone();
        let approximation = self.approximation(&map, form, (width, sample, error));
        let kernel = self.landmark_parts(rows, map, approximation, negative, &mut solution)?;
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: Some(kernel) })
    }

    /// ‖K̂ − K‖ / ‖K‖ on some rows of the sample, and how many.
    fn approximation_error(
        &self,
        rows: &PreparedRows,
        features: &KernelFeatures,
        comparer: &Comparer<'_>,
    ) -> (f64, usize) {
        let seed = self.plan.problem.seed.wrapping_add(1);
        let picked = shuffled(rows.x.nrows(), CHECKED_ON, seed);
        let checked = rows.x.select(Axis(0), &picked);
        let error = crate::blas::serial(|| {
            landmarks::error(&rows.kernel, checked.view(), &features.of(comparer, checked.view()))
        });
        (error, checked.nrows())
    }

    /// Told, and for the model.
    fn approximation(
        &self,
        map: &KernelMap,
        form: Form,
        (rank, sample, error): (usize, usize, f64),
    ) -> Approximation {
        let size = map.basis.len();
        let kind = if form == Form::Landmarks { "landmark" } else { "random feature" };
        self.listener.note(&Note::KernelApproximated { kind, size, rank, error, sample });
        let chosen = form == Form::Landmarks;
        let choice = chosen.then(|| self.plan.landmark_choice().name().to_string());
        Approximation { kind: form.to_string(), choice, size, rank, sample, error }
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

    /// Landmarks and the whitening of comparisons with them, or random features.
    fn kernel_features(&self, rows: &PreparedRows, m: usize, form: Form) -> Result<KernelFeatures> {
        let (kernel, seed) = (rows.kernel, self.plan.problem.seed);
        let mut negative = Negative { count: 0, all: false };
        if form == Form::Fourier {
            let gamma = kernel.gamma().unwrap_or(1.0);
            let basis = Basis::Fourier(Fourier::new(rows.x.ncols(), m, gamma, seed));
            return Ok(KernelFeatures::new(basis, None, negative));
        }
        let chosen = match self.plan.landmark_choice() {
            LandmarkChoice::Uniform => shuffled(rows.x.nrows(), m, seed),
            LandmarkChoice::KMeans => landmarks::spread_out(&kernel, &rows.x, m, seed),
        };
        if chosen.len() < m {
            self.listener.note(&Note::FewerLandmarks { found: chosen.len(), asked: m });
        }
        let some = rows.x.select(Axis(0), &chosen);
        let Landmarks { rows, whitening, negative: below } =
            Landmarks::new(&kernel, some, cores())?;
        negative.count = below;
        Ok(KernelFeatures::new(Basis::Rows { kernel, rows }, Some(whitening), negative))
    }
}
