//! The passes of kernel PCA and kernel supervised PCA: a plan → coefficients over rows.
//!
//! | way | passes |
//! |---|---|
//! | tiles of K; supervised | one that takes all rows into memory |
//! | PCA of unit rows | one for the means, one that adds up S |
//! | landmarks, random features | one for a sample and the means, one that adds up S of what stands for the kernel |

use super::args::{LandmarkChoice, cores};
use super::forms::Passes;
use super::kernels::{KernelPlan, Route};
use super::plan::LabelPlan;
use super::rows::{self, AllRows, RowLabels, Sample};
use super::supervised::EXACT_LABELS;
use crate::accumulate::{Moments, Scaling};
use crate::error::{Error, Place, Result};
use crate::kernel::ridge::LEARNED_FROM;
use crate::kernel::{Basis, Comparands, Fourier, Kernel, KernelMap, Ridge};
use crate::model::{Approximation, ClassReport, KernelParts, KernelReport, PreimageReport};
use crate::pass::Crew;
use crate::solve::kernel_matrix::{self, KernelMatrix};
use crate::solve::kernel_pca::{self, KernelMeans, KernelProblem, Negative, TOLERANCE};
use crate::solve::krylov::Tolerance;
use crate::solve::landmarks::{self, Landmarks, shuffled};
use crate::solve::supervised::{LabelKernel, label_factor, one_hot};
use crate::solve::{Form, Solution, solve};
use crate::source::{Block, Mapped, Prepare};
use crate::state::ask::{Fitted, LISTED_CLASSES, Supervision, text};
use crate::words::count;
use ndarray::{Array1, Array2, Axis};

/// Rows that landmarks are chosen among, for each of them.
const CANDIDATES: usize = 10;
/// Rows that an approximation is compared with the kernel on.
pub const CHECKED_ON: usize = 1_000;

/// Rows of the sample that an approximation with m landmarks or features starts from.
pub fn sample_rows(landmarks: usize, ridge: bool) -> usize {
    (CANDIDATES * landmarks).max(CHECKED_ON).max(if ridge { LEARNED_FROM } else { 0 })
}

/// Prepared rows, the kernel over them, and the features that take part.
struct Ready {
    x: Array2<f64>,
    kernel: Kernel,
    gamma_from: Option<String>,
    active: Vec<usize>,
    scale: Option<Array1<f64>>,
}

impl Passes<'_> {
    /// Fits a kernel method.
    pub(super) fn kernel(&self, plan: &KernelPlan) -> Result<Fitted> {
        match plan.route {
            Route::Exact | Route::Pca => self.exact(plan),
            Route::UnitPca => self.unit_pca(plan),
            Route::Landmarks(m) => self.approximate(plan, m, Form::Landmarks),
            Route::Fourier(m) => self.approximate(plan, m, Form::Fourier),
            Route::Supervised => self.kernel_supervised(plan),
        }
    }

    fn crew(&self) -> Crew {
        Crew { threads: self.plan.threads(), queue: 1 }
    }

    fn all_rows(&self) -> Result<AllRows> {
        let rows =
            rows::all(&self.source(), self.plan.dataset.rows(), self.crew(), &self.progress())?;
        crate::budget::release_freed_memory();
        self.check(&rows.moments, &rows.tally)?;
        Ok(rows)
    }

    /// What is done to rows before the kernel sees them.
    fn preparation(
        &self,
        plan: &KernelPlan,
        moments: &Moments,
    ) -> (Prepare, Vec<usize>, Option<Array1<f64>>) {
        let standardize = self.plan.scaling.standardize;
        let (active, scale) = self.plan.scaling.active(moments);
        let some = active.len() < moments.mean.len();
        let prepare = Prepare {
            fill: moments.mean.clone(),
            active: some.then(|| active.clone()),
            shift: standardize.then(|| moments.mean.select(Axis(0), &active)),
            factor: scale.as_ref().map(|s| s.mapv(f64::recip)),
            normalize: plan.kind == crate::kernel::KernelKind::Cosine,
            center: None,
        };
        (prepare, active, scale)
    }

    fn ready(
        &self,
        plan: &KernelPlan,
        x: Array2<f64>,
        weights: Option<&Array1<f64>>,
        moments: &Moments,
        whole: bool,
    ) -> Result<Ready> {
        let (prepare, active, scale) = self.preparation(plan, moments);
        if active.is_empty() {
            return Err(self.refusal(
                "every feature is constant: rows do not differ; choose other columns".into(),
            ));
        }
        let x = prepare.apply(Block::dense(x), |row| self.place_of(row, whole))?;
        let (kernel, gamma_from) = plan.resolve(&x, weights, self.spec.seed, self.talk);
        Ok(Ready { x, kernel, gamma_from, active, scale })
    }

    /// Where a row of all is, if none was dropped before it.
    fn place_of(&self, row: usize, whole: bool) -> Place {
        let mut left = row as u64;
        for file in self.plan.dataset.files.iter().filter(|_| whole) {
            if left < file.rows {
                return Place::file(&file.path).row(left);
            }
            left -= file.rows;
        }
        Place::file(self.plan.dataset.first_path())
    }

    fn exact(&self, plan: &KernelPlan) -> Result<Fitted> {
        let AllRows { x, weights, moments, tally, .. } = self.all_rows()?;
        let ready = self.ready(plan, x, weights.as_ref(), &moments, tally.dropped == 0)?;
        let comparands = Comparands::new(ready.kernel, &ready.x);
        let solved = self
            .problem(plan, &comparands, weights.as_ref(), &self.talk)?
            .solve()
            .map_err(|e| self.named(e))?;
        drop(comparands);
        self.converged(&solved.solution)?;
        let KernelMeans { rows: means, grand, .. } = solved.means;
        let offset = solved.solution.components.dot(&means);
        let n = ready.x.nrows();
        let mean = weights.map_or_else(|| Array1::from_elem(n, 1.0 / n as f64), |w| &w / w.sum());
        let side = Side { offset, means: Some(means), mean, grand, negative: solved.negative };
        let (solution, kernel) = self.assembled(plan, ready, solved.solution, side)?;
        Ok(Fitted { moments, solution, tally, supervision: None, kernel: Some(kernel) })
    }

    fn problem<'p>(
        &self,
        plan: &KernelPlan,
        comparands: &'p Comparands<'p>,
        weights: Option<&'p Array1<f64>>,
        listener: &'p dyn crate::listen::Listener,
    ) -> Result<KernelProblem<'p>> {
        let matrix = KernelMatrix::new(comparands, self.plan.threads(), plan.spill.as_deref())?;
        let tolerance = self.spec.tolerance.unwrap_or(TOLERANCE);
        Ok(KernelProblem {
            matrix,
            weights,
            asked: self.spec.components,
            tolerance: Tolerance { residual: tolerance, value: f64::INFINITY, score: tolerance },
            products: usize::from(self.spec.max_passes),
            dense: self.dense_bytes(comparands.len(), comparands.width())
                <= self.plan.budget.bytes.0,
            seed: self.spec.seed,
            threads: cores(),
            listener,
        })
    }

    /// Bytes of decomposing K whole, with its rows.
    fn dense_bytes(&self, n: usize, d: usize) -> u64 {
        let (n, d) = (n as u64, d as u64);
        crate::budget::PROGRAM_BYTES + crate::solve::bytes(n).saturating_add(24 * n * d)
    }

    /// An error of the kernel names the data.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::Data { problem, .. } => self.refusal(problem),
            other => other,
        }
    }

    /// Components that miss the tolerance are an error, or told.
    fn converged(&self, solution: &Solution) -> Result<()> {
        let Some(iteration) =
            solution.certificate.iteration.as_ref().filter(|i| !i.unconverged.is_empty())
        else {
            return Ok(());
        };
        let components = crate::words::ranges(&iteration.unconverged);
        let (passes, residual, tolerance) =
            (iteration.passes, solution.certificate.max_residual, iteration.tolerance);
        if !self.spec.allow_unconverged {
            let whole = self
                .dense_bytes(solution.components.ncols(), self.plan.want.features.len())
                .div_ceil(1_000_000);
            return Err(self.refusal(format!(
                "after {passes} products components {components} miss the tolerance {tolerance:e} (largest residual {residual:.1e}): allow more with --max-passes or --tolerance, keep them as they are with --allow-unconverged, or allow --memory {whole}MB to decompose the whole matrix"
            )));
        }
        self.talk.say(format!(
            "warning: after {passes} products components {components} miss the tolerance {tolerance:e} (largest residual {residual:.1e})"
        ));
        Ok(())
    }

    /// The solution over the rows whose coefficients are not all 0, and the map that goes with it.
    fn assembled(
        &self,
        plan: &KernelPlan,
        ready: Ready,
        mut solution: Solution,
        side: Side,
    ) -> Result<(Solution, KernelParts)> {
        let Ready { x, kernel, gamma_from, active, scale } = ready;
        let Side { offset, means, mean, grand, negative } = side;
        let some = |row: ndarray::ArrayView1<'_, f64>| row.iter().any(|c| *c != 0.0);
        let kept: Vec<usize> =
            (0..x.nrows()).filter(|i| some(solution.components.column(*i))).collect();
        let all = kept.len() == x.nrows() || kept.is_empty();
        let part = |a: Array1<f64>| if all { a } else { a.select(Axis(0), &kept) };
        let rows = if all { x } else { x.select(Axis(0), &kept) };
        if !all {
            solution.components =
                solution.components.select(Axis(1), &kept).as_standard_layout().into_owned();
        }
        (solution.active, solution.scale) = (active, scale);
        let map = KernelMap {
            basis: Basis::Rows { kernel, rows },
            coefficients: solution.components.clone(),
            offset,
            kernel_means: means.map(&part),
            mean: part(mean),
            grand_mean: grand,
        };
        self.tell_negative(negative);
        let sample = match &map.basis {
            Basis::Rows { rows, .. } if plan.ridge => {
                rows.select(Axis(0), &shuffled(rows.nrows(), LEARNED_FROM, self.spec.seed))
            }
            _ => Array2::zeros((0, 0)),
        };
        let (preimage, learned) = self.learned(plan, &map, sample)?.unzip();
        let report = KernelReport {
            rows: map.basis.len(),
            grand_mean: grand,
            negative_eigenvalues: negative.count,
            negative_at_least: !negative.all,
            preimage: learned,
            ..KernelReport::new(kernel, gamma_from)
        };
        Ok((solution, KernelParts { report, map: Some(Box::new(map)), unit_mean: None, preimage }))
    }

    fn tell_negative(&self, negative: Negative) {
        if negative.count > 0 {
            let least = if negative.all { "" } else { "at least " };
            self.talk.say(format!(
                "note: {least}{} dropped: the kernel is not positive semidefinite on these rows",
                count(negative.count as u64, "negative eigenvalue")
            ));
        }
    }

    /// The way back from scores, where it was asked for.
    fn learned(
        &self,
        plan: &KernelPlan,
        map: &KernelMap,
        sample: Array2<f64>,
    ) -> Result<Option<(Ridge, PreimageReport)>> {
        if !plan.ridge || map.coefficients.is_empty() {
            return Ok(None);
        }
        let k = map.coefficients.nrows();
        let compared =
            crate::blas::serial(|| map.comparer().compare(sample.view(), k, self.plan.threads()));
        let scores = compared.scores.reversed_axes().as_standard_layout().into_owned();
        let (ridge, learned) = Ridge::learn(&scores, &sample, cores())?;
        self.talk.say(format!(
            "pre-image: ridge over {} anchors, leaves {:.2} % of the spread of rows it was not learned from",
            ridge.anchors.nrows(),
            100.0 * learned.loss
        ));
        let report =
            PreimageReport { gamma: ridge.gamma, ridge: learned.ridge, loss: learned.loss };
        Ok(Some((ridge, report)))
    }

    /// The cosine kernel: PCA of the rows at unit length.
    fn unit_pca(&self, plan: &KernelPlan) -> Result<Fitted> {
        let Sample { moments, tally, .. } =
            rows::sample(&self.source(), 0, 0, self.crew(), &self.progress())?;
        self.check(&moments, &tally)?;
        let (prepare, active, scale) = self.preparation(plan, &moments);
        let source =
            Mapped::new(self.source(), active.len(), |block, place| prepare.apply(block, place));
        let sums = self.covariance(&source, self.plan.threads())?;
        let (units, mut solution) = solve(
            sums,
            Scaling { center: true, standardize: false },
            self.spec.components,
            cores(),
        )?;
        (solution.active, solution.scale) = (active, scale);
        let side = KernelParts {
            report: KernelReport::new(Kernel::Cosine, None),
            map: None,
            unit_mean: Some(units.mean),
            preimage: None,
        };
        Ok(Fitted { moments, solution, tally, supervision: None, kernel: Some(side) })
    }

    /// PCA of what stands for the kernel: whitened comparisons with landmarks, or random features.
    fn approximate(&self, plan: &KernelPlan, m: usize, form: Form) -> Result<Fitted> {
        let size = sample_rows(if form == Form::Landmarks { m } else { 0 }, plan.ridge);
        let Sample { x, weights, moments, tally } =
            rows::sample(&self.source(), size, self.spec.seed, self.crew(), &self.progress())?;
        self.check(&moments, &tally)?;
        let (prepare, ..) = self.preparation(plan, &moments);
        let ready = self.ready(plan, x, weights.as_ref(), &moments, false)?;
        let kernel = ready.kernel;
        let (basis, whitening, negative) = self.stand_in(plan, &ready, m, form)?;
        self.tell_negative(negative);
        // Its comparisons are the features that PCA sees.
        let width = whitening.as_ref().map_or(m, |w| w.nrows());
        if width == 0 {
            return Err(
                self.refusal("the kernel is 0 among all landmarks: there is nothing to decompose; choose another --gamma".into())
            );
        }
        let (empty, none) = (Array2::zeros((0, basis.len())), Array1::zeros(0));
        let mean = Array1::zeros(basis.len());
        let mut map = KernelMap {
            basis,
            coefficients: empty,
            offset: none,
            kernel_means: None,
            mean,
            grand_mean: 0.0,
        };
        let comparer = map.comparer();
        let phi = |x: ndarray::ArrayView2<'_, f64>| {
            let mut compared = Array2::zeros((x.nrows(), comparer.len()));
            comparer.tiles(x, |columns, tile| {
                compared.slice_mut(ndarray::s![.., columns]).assign(&tile)
            });
            whitening.as_ref().map_or_else(|| compared.clone(), |w| compared.dot(&w.t()))
        };
        let checked = shuffled(ready.x.nrows(), CHECKED_ON, self.spec.seed.wrapping_add(1));
        let checked = ready.x.select(Axis(0), &checked);
        let error =
            crate::blas::serial(|| landmarks::error(&kernel, checked.view(), &phi(checked.view())));
        let source = Mapped::new(self.source(), width, |block, place| {
            Ok(phi(prepare.apply(block, place)?.view()))
        });
        let sums = self.covariance(&source, self.plan.threads())?;
        let (units, mut solution) = solve(
            sums,
            Scaling { center: true, standardize: false },
            self.spec.components,
            cores(),
        )?;
        drop(source);
        drop(comparer);
        solution.form = form;
        let whitened = |a: &Array2<f64>| whitening.as_ref().map_or_else(|| a.clone(), |w| a.dot(w));
        map.offset = solution.components.dot(&units.mean);
        map.mean = whitened(&units.mean.clone().insert_axis(Axis(0))).remove_axis(Axis(0));
        map.grand_mean = units.mean.dot(&units.mean);
        map.coefficients = whitened(&solution.components);
        solution.components = map.coefficients.clone();
        (solution.active, solution.scale) = (ready.active, ready.scale);
        let kind = if form == Form::Landmarks { "landmark" } else { "random feature" };
        let sample = checked.nrows();
        self.talk.say(format!(
            "{} (rank {width}) stand for the kernel: off by {:.2e} of its size on {}",
            count(map.basis.len() as u64, kind),
            error,
            count(sample as u64, "sampled row")
        ));
        let choice = (form == Form::Landmarks).then(|| match plan.choice {
            LandmarkChoice::KMeans => "kmeans++".to_string(),
            LandmarkChoice::Uniform => "uniform".to_string(),
        });
        let approximation = Approximation {
            kind: form.to_string(),
            choice,
            size: map.basis.len(),
            rank: width,
            sample,
            error,
        };
        let learn_from = shuffled(ready.x.nrows(), LEARNED_FROM, self.spec.seed);
        let learn_from =
            if plan.ridge { ready.x.select(Axis(0), &learn_from) } else { Array2::zeros((0, 0)) };
        let (preimage, learned) = self.learned(plan, &map, learn_from)?.unzip();
        let report = KernelReport {
            rows: if form == Form::Landmarks { map.basis.len() } else { 0 },
            grand_mean: map.grand_mean,
            negative_eigenvalues: negative.count,
            negative_at_least: negative.count > 0,
            approximation: Some(approximation),
            preimage: learned,
            ..KernelReport::new(kernel, ready.gamma_from)
        };
        let side = KernelParts { report, map: Some(Box::new(map)), unit_mean: None, preimage };
        Ok(Fitted { moments, solution, tally, supervision: None, kernel: Some(side) })
    }

    /// Landmarks and the whitening of comparisons with them, or random features.
    fn stand_in(
        &self,
        plan: &KernelPlan,
        ready: &Ready,
        m: usize,
        form: Form,
    ) -> Result<(Basis, Option<Array2<f64>>, Negative)> {
        let (kernel, mut negative) = (ready.kernel, Negative { count: 0, all: false });
        if form == Form::Fourier {
            let fourier =
                Fourier::new(ready.x.ncols(), m, kernel.gamma().unwrap_or(1.0), self.spec.seed);
            return Ok((Basis::Fourier(fourier), None, negative));
        }
        let chosen = match plan.choice {
            LandmarkChoice::Uniform => shuffled(ready.x.nrows(), m, self.spec.seed),
            LandmarkChoice::KMeans => landmarks::spread_out(&kernel, &ready.x, m, self.spec.seed),
        };
        if chosen.len() < m {
            let few = count(chosen.len() as u64, "landmark");
            self.talk
                .say(format!("note: {few} instead of {m}: there are no more rows that differ"));
        }
        let Landmarks { rows, whitening, negative: below } =
            Landmarks::new(&kernel, ready.x.select(Axis(0), &chosen), cores())?;
        negative.count = below;
        Ok((Basis::Rows { kernel, rows }, Some(whitening), negative))
    }

    fn kernel_supervised(&self, plan: &KernelPlan) -> Result<Fitted> {
        let Some(labels) = &self.plan.labels else { return self.exact(plan) };
        let AllRows { x, weights, labels: read, moments, tally } = self.all_rows()?;
        let read = read.ok_or_else(|| Error::Internal("no labels were read".into()))?;
        let factor = self.label_rows(labels, &read, weights.as_ref())?;
        let ready = self.ready(plan, x, weights.as_ref(), &moments, tally.dropped == 0)?;
        let comparands = Comparands::new(ready.kernel, &ready.x);
        let problem = self.problem(plan, &comparands, weights.as_ref(), &self.talk)?;
        let form = self.plan.taken().form;
        let kernel_pca::SupervisedSolution { solution, scores, means } =
            kernel_pca::supervised(&problem, &factor.rows, form, factor.bound)
                .map_err(|e| self.named(e))?;
        if solution.certificate.orthogonality > 1e-6 {
            self.talk.say(format!(
                "note: ΘᵀKΘ differs from I by {:.1e}: the last components are near rounding, ask for fewer with -k",
                solution.certificate.orthogonality
            ));
        }
        drop(problem);
        drop(comparands);
        if solution.components.nrows() == 0 {
            let label = labels.want.columns.join(", ");
            return Err(self.refusal(format!(
                "the kernel sees nothing that depends on label '{label}'; try another --gamma"
            )));
        }
        let freedom = moments.weight - 1.0;
        let k = solution.components.nrows();
        let spec = labels.spec();
        let mut label = self.asked(|ask| {
            ask.report(&spec, &solution, None, factor.fourier, &moments, tally.unlabelled)
        });
        if let RowLabels::Classes { ids, classes } = &read
            && labels.kernel != LabelKernel::Rbf
        {
            label.n_classes = Some(classes.len());
            label.classes = centroids(&scores, ids, classes, weights.as_ref());
        }
        let hsic = solution.eigenvalues.iter().take(k).sum::<f64>() / (freedom * freedom);
        let variances = Some(spread(&scores, weights.as_ref(), moments.weight) / freedom);
        let supervision =
            Supervision { label, hsic, total_variance: means.trace / freedom, variances };
        self.asked(|ask| ask.tell_rank(&solution, &spec, factor.bound));
        let n = ready.x.nrows();
        let (offset, mean) = (Array1::zeros(k), Array1::zeros(n));
        let negative = Negative { count: 0, all: false };
        let side = Side { offset, means: Some(means.rows), mean, grand: 0.0, negative };
        let (solution, kernel) = self.assembled(plan, ready, solution, side)?;
        Ok(Fitted {
            moments,
            solution,
            tally,
            supervision: Some(supervision),
            kernel: Some(kernel),
        })
    }

    /// Nᵀ: the rows of Δ, centred and weighted.
    fn label_rows(
        &self,
        labels: &LabelPlan,
        read: &RowLabels,
        weights: Option<&Array1<f64>>,
    ) -> Result<LabelRows> {
        let name = labels.want.columns.join(", ");
        let (mut rows, bound, fourier) = match read {
            RowLabels::Numbers(y) => (y.t().as_standard_layout().into_owned(), y.ncols(), false),
            RowLabels::Classes { ids, classes } => {
                if classes.len() < 2 {
                    let only = classes
                        .first()
                        .map_or_else(String::new, |class| format!(" ({})", text(class)));
                    return Err(self
                        .refusal(format!("label '{name}' has one class only{only}; kernel supervised PCA needs two at least")));
                }
                self.class_rows(labels, ids, classes)?
            }
        };
        self.room_for(rows.nrows(), rows.ncols(), &name)?;
        let total = weights.map_or(rows.ncols() as f64, |w| w.sum());
        let mut varies = false;
        for mut row in rows.rows_mut() {
            let mean = weights.map_or_else(|| row.sum(), |w| w.dot(&row)) / total;
            let size = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            row -= mean;
            varies |= row.iter().any(|v| v.abs() > 4.0 * f64::EPSILON * size);
            if let Some(weights) = weights {
                row *= weights;
            }
        }
        match varies {
            true => Ok(LabelRows { rows, bound, fourier }),
            false => Err(self.refusal(format!(
                "label '{name}' is constant; there is nothing for rows to depend on"
            ))),
        }
    }

    /// r × n from the classes of rows, the largest rank, and whether random features stand for them.
    fn class_rows(
        &self,
        labels: &LabelPlan,
        ids: &[u32],
        classes: &[crate::source::labels::Class],
    ) -> Result<(Array2<f64>, usize, bool)> {
        let by_class = |factor: &Array2<f64>| {
            let mut rows = Array2::zeros((factor.nrows(), ids.len()));
            rows.columns_mut()
                .into_iter()
                .zip(ids)
                .for_each(|(mut to, id)| to.assign(&factor.column(*id as usize)));
            rows
        };
        self.room_for(classes.len().min(EXACT_LABELS), ids.len(), &labels.want.columns.join(", "))?;
        let bound = classes.len() - 1;
        Ok(match (labels.kernel, labels.gamma) {
            (LabelKernel::Rbf, Some(gamma)) if classes.len() <= EXACT_LABELS => {
                let (factor, values) = label_factor(classes, gamma, cores())?;
                let least = f64::EPSILON
                    * values.len() as f64
                    * values.iter().last().copied().unwrap_or(0.0);
                let first = values.iter().take_while(|v| **v <= least).count();
                (by_class(&factor.slice(ndarray::s![first.., ..]).to_owned()), bound, false)
            }
            (LabelKernel::Rbf, Some(gamma)) => {
                let columns = labels.want.columns.len();
                let value = |(id, column): (usize, usize)| {
                    classes[ids[id] as usize][column].number().unwrap_or(0.0)
                };
                let y = Array2::from_shape_fn((ids.len(), columns), value);
                let features = self.spec.label_features as usize;
                self.room_for(features, ids.len(), &labels.want.columns.join(", "))?;
                self.talk.say(format!(
                    "note: more than {EXACT_LABELS} distinct labels, so the rbf kernel over them is approximated by {features} random features (an entry is off by about {:.1e})",
                    (1.0 / features as f64).sqrt()
                ));
                let psi = Fourier::new(columns, features, gamma, self.spec.seed).apply(y.view());
                (psi.reversed_axes().as_standard_layout().into_owned(), features, true)
            }
            (LabelKernel::Linear, _) if labels.want.columns.len() > 1 => {
                let delta = one_hot(classes, &labels.numeric);
                let bound = delta.ncols();
                (by_class(&delta.reversed_axes().as_standard_layout().into_owned()), bound, false)
            }
            _ => {
                self.room_for(classes.len(), ids.len(), &labels.want.columns.join(", "))?;
                (by_class(&Array2::eye(classes.len())), bound, false)
            }
        })
    }

    /// Refuses more label features than there is room for, now that their number is known.
    fn room_for(&self, r: usize, n: usize, label: &str) -> Result<()> {
        let held = |r: u64| {
            let rows = 16 * (n * self.plan.want.features.len()) as u64;
            rows + 24 * r * n as u64
                + kernel_matrix::product_bytes(n as u64, r + 1, self.plan.threads())
                + crate::solve::bytes(r)
        };
        if held(r as u64) <= self.plan.budget.bytes.0 {
            return Ok(());
        }
        let most =
            (1..r as u64).take_while(|r| held(*r) <= self.plan.budget.bytes.0).last().unwrap_or(0);
        let hint = format!(
            "a label that names each row is an id; choose another, or allow --memory {}MB",
            held(r as u64).div_ceil(1_000_000)
        );
        Err(Error::TooManyClasses { label: label.into(), classes: most as usize, hint })
    }
}

/// What goes with coefficients over rows.
struct Side {
    offset: Array1<f64>,
    means: Option<Array1<f64>>,
    mean: Array1<f64>,
    grand: f64,
    negative: Negative,
}

struct LabelRows {
    /// r × n.
    rows: Array2<f64>,
    bound: usize,
    fourier: bool,
}

/// Σ w (z − z̄)² of each row of scores.
fn spread(scores: &Array2<f64>, weights: Option<&Array1<f64>>, total: f64) -> Array1<f64> {
    let along = |row: ndarray::ArrayView1<'_, f64>| {
        let mean = weights.map_or_else(|| row.sum(), |w| w.dot(&row)) / total;
        row.iter()
            .enumerate()
            .map(|(i, z)| weights.map_or(1.0, |w| w[i]) * (z - mean) * (z - mean))
            .sum::<f64>()
    };
    scores.rows().into_iter().map(along).collect()
}

/// The mean scores of each class.
fn centroids(
    scores: &Array2<f64>,
    ids: &[u32],
    classes: &[crate::source::labels::Class],
    weights: Option<&Array1<f64>>,
) -> Vec<ClassReport> {
    let mut sums = Array2::<f64>::zeros((classes.len(), scores.nrows()));
    let mut totals = vec![0.0; classes.len()];
    for (i, id) in ids.iter().enumerate() {
        let weight = weights.map_or(1.0, |w| w[i]);
        sums.row_mut(*id as usize).scaled_add(weight, &scores.column(i));
        totals[*id as usize] += weight;
    }
    let report = |((class, sum), weight): (
        (&crate::source::labels::Class, ndarray::ArrayView1<'_, f64>),
        &f64,
    )| ClassReport {
        class: class.clone(),
        weight: *weight,
        centroid: (&sum / weight.max(f64::MIN_POSITIVE)).to_vec(),
    };
    let listed = classes.len() <= LISTED_CLASSES;
    classes
        .iter()
        .zip(sums.rows())
        .zip(&totals)
        .filter(|(_, w)| listed && **w > 0.0)
        .map(report)
        .collect()
}
