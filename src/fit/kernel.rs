//! The passes of kernel PCA and kernel supervised PCA that compare all rows: one that takes them
//! into memory, then products with tiles of the kernel matrix. And the cosine kernel, which
//! streams.

use super::assemble::{Decomposition, LabelOutcome};
use super::check::{LabelProblem, LabelUse};
use super::given::GivenLook;
use super::kernel_choice::KernelRoute;
use super::labels::{are_classes, class_centroids, score_squares};
use super::options::cores;
use super::plan::Plan;
use super::row_kernel::{PreparedRows, RowKernel, degenerate};
use super::run::Run;
use super::sums_pass::feature_moments;
use crate::accumulate::{Moments, Scaling};
use crate::budget::{PROGRAM_BYTES, release_freed_memory};
use crate::collect::{AllRows, RowLabels, collect_all};
use crate::error::{Error, IterationKind, Place, Result, Unconverged};
use crate::kernel::ridge::LEARNED_FROM;
use crate::kernel::{Basis, Comparands, Kernel, KernelMap, Ridge};
use crate::listen::Stage;
use crate::model::{KernelParts, KernelReport, PreimageReport};
use crate::note::Note;
use crate::solve::kernel_matrix::{KernelMatrix, TileMatrix};
use crate::solve::kernel_pca::{self, KernelMeans, KernelProblem, KernelSolution, Negative};
use crate::solve::krylov::Tolerance;
use crate::solve::landmarks::shuffled;
use crate::solve::{Solution, solve};
use crate::source::{MappedSource, Tally};
use ndarray::{Array1, Array2, Axis};

/// What goes with coefficients over rows.
pub(super) struct Centering {
    /// Subtracted from scores.
    pub(super) offset: Array1<f64>,
    /// Mean of the kernel for each row.
    pub(super) kernel_means: Option<Array1<f64>>,
    /// Coefficients of the mean.
    pub(super) mean: Array1<f64>,
    pub(super) grand_mean: f64,
    pub(super) negative: Negative,
}

/// What K is over.
pub(super) enum Compared {
    /// Rows in memory.
    Rows(PreparedRows),
    /// A matrix that is given.
    Given(GivenLook),
}

/// What the first pass of a kernel method leaves.
pub(super) struct KernelData {
    pub(super) compared: Compared,
    pub(super) weights: Option<Array1<f64>>,
    pub(super) labels: Option<RowLabels>,
    pub(super) moments: Moments,
    pub(super) tally: Tally,
}

impl Run<'_> {
    /// Fits a kernel method that is not plain PCA.
    pub(super) fn kernel(&self, route: KernelRoute) -> Result<Decomposition> {
        match (route, &self.plan.problem.labels) {
            (KernelRoute::UnitPca, _) => self.unit_pca(),
            (KernelRoute::Landmarks(_) | KernelRoute::Fourier(_), _) => {
                let choice = self.plan.problem.kernel.as_ref();
                let by = choice.and_then(|choice| choice.options.approximation);
                let missing = || Error::Internal("nothing stands for the kernel".into());
                self.approximate(by.ok_or_else(missing)?)
            }
            (KernelRoute::Supervised, LabelUse::Read(labels)) => self.kernel_supervised(labels),
            _ => self.exact(),
        }
    }

    fn all_rows(&self) -> Result<AllRows> {
        let source = self.source()?;
        let watch = self.watch_rows("reading", &*source);
        let rows = collect_all(&*source, self.plan.table.rows(), self.crew(), &watch)?;
        drop(watch);
        release_freed_memory();
        self.check(&rows.moments, &rows.tally)?;
        Ok(rows)
    }

    /// The kernel over the rows of this fit.
    pub(super) fn row_kernel(&self) -> Result<RowKernel<'_>> {
        let Plan { table, problem, .. } = self.plan;
        let Some(choice) = &problem.kernel else {
            return Err(Error::Internal("a kernel method without a kernel".into()));
        };
        let (scaling, seed) = (problem.centring.problem, problem.seed);
        Ok(RowKernel { table: *table, choice, scaling, seed, listener: self.listener })
    }

    fn exact(&self) -> Result<Decomposition> {
        let data = self.kernel_data()?;
        let solved = self.with_matrix(&data, |problem| problem.solve())?;
        self.check_converged(&solved.solution)?;
        let KernelSolution { solution, means, negative } = solved;
        self.tell_degenerate(&means, &data);
        let KernelData { compared, weights, moments, tally, .. } = data;
        let centering = self.centering(&solution, means, weights.as_ref(), negative);
        let (solution, kernel) = self.kernel_model(compared, solution, centering)?;
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: Some(kernel) })
    }

    /// The first pass: all rows in memory, prepared; or a look at a matrix that is given.
    fn kernel_data(&self) -> Result<KernelData> {
        if self.plan.problem.gives_kernel() {
            return self.given_data();
        }
        let AllRows { x, weights, labels, moments, tally } = self.all_rows()?;
        let whole = tally.dropped == 0;
        let rows = self.row_kernel()?.prepared(x, weights.as_ref(), &moments, whole)?;
        Ok(KernelData { compared: Compared::Rows(rows), weights, labels, moments, tally })
    }

    /// Works with K, however it is had.
    fn with_matrix<T>(
        &self,
        data: &KernelData,
        work: impl FnOnce(&KernelProblem<'_>) -> Result<T>,
    ) -> Result<T> {
        let weights = data.weights.as_ref();
        let rows = match &data.compared {
            Compared::Given(look) => return self.with_given(look, weights, work),
            Compared::Rows(rows) => rows,
        };
        let comparands = Comparands::new(rows.kernel, &rows.x);
        let spills = self.plan.work.kernel.is_some_and(|k| k.spill);
        let spill = spills.then_some(self.plan.problem.temp_dir.as_path());
        let matrix = KernelMatrix::Tiles(TileMatrix::new(&comparands, self.threads, spill)?);
        let (n, d) = rows.x.dim();
        work(&self.kernel_problem(matrix, weights, (n, d)))
    }

    /// What goes with the coefficients of these means: nothing is subtracted from scores that are
    /// not centred.
    fn centering(
        &self,
        solution: &Solution,
        means: KernelMeans,
        weights: Option<&Array1<f64>>,
        negative: Negative,
    ) -> Centering {
        let KernelMeans { rows, grand, .. } = means;
        let n = rows.len();
        let (offset, mean, grand_mean) = match self.plan.problem.centring.scores {
            true => {
                let mean =
                    weights.map_or_else(|| Array1::from_elem(n, 1.0 / n as f64), |w| w / w.sum());
                (solution.components.dot(&rows), mean, grand)
            }
            false => (Array1::zeros(solution.components.nrows()), Array1::zeros(n), 0.0),
        };
        Centering { offset, kernel_means: Some(rows), mean, grand_mean, negative }
    }

    /// Of n rows of which d numbers each are held.
    pub(super) fn kernel_problem<'p>(
        &'p self,
        matrix: KernelMatrix<'p>,
        weights: Option<&'p Array1<f64>>,
        (n, d): (usize, usize),
    ) -> KernelProblem<'p> {
        let problem = &self.plan.problem;
        let residual = problem.iteration.tolerance.unwrap_or(kernel_pca::TOLERANCE);
        KernelProblem {
            matrix,
            weights,
            asked: problem.components,
            tolerance: Tolerance { residual, value: f64::INFINITY, score: residual },
            products: problem.iteration.max_passes,
            dense: self.dense_bytes(n, d) <= problem.budget.bytes.0,
            seed: problem.seed,
            threads: cores(),
            listener: self.listener,
        }
    }

    /// Bytes of decomposing K whole, with its rows.
    fn dense_bytes(&self, n: usize, d: usize) -> u64 {
        let (n, d) = (n as u64, d as u64);
        PROGRAM_BYTES + crate::solve::whole_bytes(n).saturating_add(24 * n * d)
    }

    /// Components that miss the tolerance are an error, or told.
    fn check_converged(&self, solution: &Solution) -> Result<()> {
        let missed = solution.certificate.iteration.as_ref();
        let Some(iteration) = missed.filter(|i| !i.unconverged.is_empty()) else {
            return Ok(());
        };
        let given = self.plan.problem.gives_kernel();
        let d = if given { 0 } else { self.plan.problem.n_features() };
        let whole = self.dense_bytes(solution.components.ncols(), d);
        let outcome = Unconverged {
            place: self.plan.table.place(),
            components: iteration.unconverged.clone(),
            iterations: iteration.passes,
            what: IterationKind::Products { whole },
            residual: solution.certificate.max_residual,
            tolerance: iteration.tolerance,
        };
        if !self.plan.problem.iteration.allow_unconverged {
            return Err(Error::Unconverged(Box::new(outcome)));
        }
        self.listener.note(&Note::KeptUnconverged(outcome));
        Ok(())
    }

    fn kernel_model(
        &self,
        compared: Compared,
        solution: Solution,
        centering: Centering,
    ) -> Result<(Solution, KernelParts)> {
        match compared {
            Compared::Rows(rows) => self.row_model(rows, solution, centering),
            Compared::Given(look) => Ok(self.given_model(look.kernel, solution, centering)),
        }
    }

    /// The solution over the rows whose coefficients are not all 0, and the map that goes with it.
    fn row_model(
        &self,
        rows: PreparedRows,
        mut solution: Solution,
        centering: Centering,
    ) -> Result<(Solution, KernelParts)> {
        let PreparedRows { x, kernel, gamma_from, active, scale } = rows;
        let n = x.nrows();
        let counts = |i: &usize| solution.components.column(*i).iter().any(|c| *c != 0.0);
        let kept: Vec<usize> = (0..n).filter(counts).collect();
        let all = kept.len() == n || kept.is_empty();
        let part = |a: Array1<f64>| if all { a } else { a.select(Axis(0), &kept) };
        let x = if all { x } else { x.select(Axis(0), &kept) };
        if !all {
            let some = solution.components.select(Axis(1), &kept);
            solution.components = some.as_standard_layout().into_owned();
        }
        (solution.active, solution.scale) = (active, scale);
        let map = KernelMap {
            basis: Basis::Rows { kernel, rows: x },
            coefficients: solution.components.clone(),
            offset: centering.offset,
            kernel_means: centering.kernel_means.map(&part),
            mean: part(centering.mean),
            grand_mean: centering.grand_mean,
        };
        let negative = centering.negative;
        self.tell_negative(negative);
        let sample = match &map.basis {
            Basis::Rows { rows, .. } if self.learns_preimage() => {
                let picked = shuffled(rows.nrows(), LEARNED_FROM, self.plan.problem.seed);
                rows.select(Axis(0), &picked)
            }
            _ => Array2::zeros((0, 0)),
        };
        let (preimage, learned) = self.learn_preimage(&map, sample)?.unzip();
        let report = KernelReport {
            rows: map.basis.len(),
            grand_mean: map.grand_mean,
            negative_eigenvalues: negative.count,
            negative_at_least: !negative.all,
            preimage: learned,
            ..KernelReport::new(kernel, gamma_from)
        };
        let map = Some(Box::new(map));
        Ok((solution, KernelParts { report, map, unit_mean: None, preimage }))
    }

    /// Tells of rows that are like no other to the kernel, or all alike.
    fn tell_degenerate(&self, means: &KernelMeans, data: &KernelData) {
        let Compared::Rows(PreparedRows { kernel, .. }) = data.compared else { return };
        let total = data.moments.weight;
        let own = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
        let beside = |(i, mean): (usize, &f64)| mean * total - own(i);
        let others = means.rows.iter().enumerate().map(beside).fold(0.0, f64::max);
        let told = degenerate(kernel, others, means.grand);
        told.iter().for_each(|note| self.listener.note(note));
    }

    pub(super) fn tell_negative(&self, negative: Negative) {
        if negative.count > 0 {
            let (count, at_least) = (negative.count, !negative.all);
            self.listener.note(&Note::NegativeEigenvalues { count, at_least });
        }
    }

    pub(super) fn learns_preimage(&self) -> bool {
        self.plan.work.kernel.is_some_and(|k| k.ridge)
    }

    /// A map back from scores, where it was asked for.
    pub(super) fn learn_preimage(
        &self,
        map: &KernelMap,
        sample: Array2<f64>,
    ) -> Result<Option<(Ridge, PreimageReport)>> {
        if !self.learns_preimage() || map.coefficients.is_empty() {
            return Ok(None);
        }
        let k = map.coefficients.nrows();
        let _watch = self.watch(Stage::untold("learning the way back"));
        let compared =
            crate::blas::serial(|| map.comparer().compare(sample.view(), k, self.threads));
        let scores = compared.scores.reversed_axes().as_standard_layout().into_owned();
        let (ridge, learned) = Ridge::learn(&scores, &sample, cores())?;
        let anchors = ridge.anchors.nrows();
        self.listener.note(&Note::PreimageLearned { anchors, loss: learned.loss });
        let (gamma, loss) = (ridge.gamma, learned.loss);
        let report = PreimageReport { gamma, ridge: learned.ridge, loss };
        Ok(Some((ridge, report)))
    }

    /// The cosine kernel: PCA of the rows at unit length.
    fn unit_pca(&self) -> Result<Decomposition> {
        let rows = self.source()?;
        let (moments, tally) = feature_moments(&*rows, self.threads, self.listener)?;
        self.check(&moments, &tally)?;
        let (prepare, active, scale) = self.row_kernel()?.preparation(&moments);
        let unit = |block, place: &dyn Fn(usize) -> Place| prepare.apply(block, place);
        let source = MappedSource::new(rows, active.len(), unit);
        let sums = self.covariance(&source)?;
        let (units, mut solution) = self.solve_centred(sums)?;
        (solution.active, solution.scale) = (active, scale);
        let kernel = KernelParts {
            report: KernelReport::new(Kernel::Cosine, None),
            map: None,
            unit_mean: Some(units.mean),
            preimage: None,
        };
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: Some(kernel) })
    }

    /// PCA of what stands for rows.
    pub(super) fn solve_centred(
        &self,
        sums: crate::accumulate::CoMoment,
    ) -> Result<(Moments, Solution)> {
        let scaling = Scaling { center: true, standardize: false };
        let _watch = self.watch(Stage::decomposing(sums.s.nrows()));
        solve(sums, scaling, self.plan.problem.components, cores())
    }

    fn kernel_supervised(&self, labels: &LabelProblem) -> Result<Decomposition> {
        let context = self.context();
        let mut data = self.kernel_data()?;
        let labels_read = data.labels.take();
        let read = labels_read.ok_or_else(|| Error::Internal("no labels were read".into()))?;
        let columns = self.label_columns(&context, labels, &read, data.weights.as_ref())?;
        let form = self.plan.taken().form;
        let solved = self.with_matrix(&data, |problem| {
            kernel_pca::supervised(problem, &columns.rows, form, columns.bound)
        })?;
        let kernel_pca::SupervisedSolution { solution, scores, means, negative } = solved;
        self.tell_degenerate(&means, &data);
        let KernelData { compared, weights, moments, tally, .. } = data;
        let weights = weights.as_ref();
        if solution.certificate.orthogonality > 1e-6 {
            self.listener.note(&Note::NotOrthonormal(solution.certificate.orthogonality));
        }
        if solution.components.nrows() == 0 {
            let name = labels.name();
            return Err(self.refusal(format!(
                "the kernel sees nothing that depends on label '{name}'; try another ⟦gamma⟧"
            )));
        }
        let total_variance = means.trace / (moments.weight - 1.0);
        let centering = self.centering(&solution, means, weights, negative);
        let scores = scores - centering.offset.view().insert_axis(Axis(1));
        let random = columns.random;
        let mut report = context.label_report(labels, &solution, None, random, &moments, &tally);
        if let (RowLabels::Classes { ids, classes }, true) = (&read, are_classes(labels)) {
            report.n_classes = Some(classes.len());
            report.classes = class_centroids(&scores, ids, classes, weights);
        }
        let freedom = moments.weight - 1.0;
        let k = solution.components.nrows();
        let outcome = LabelOutcome {
            report,
            hsic: solution.eigenvalues.iter().take(k).sum::<f64>() / (freedom * freedom),
            total_variance,
            variances: Some(score_squares(&scores, weights, moments.weight) / freedom),
        };
        context.tell_capped(&solution, labels, columns.bound, &tally);
        let (solution, kernel) = self.kernel_model(compared, solution, centering)?;
        let (labels, kernel) = (Some(outcome), Some(kernel));
        Ok(Decomposition { moments, solution, tally, labels, kernel })
    }
}
