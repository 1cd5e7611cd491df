//! What each form would hold and how often it would read the data: one place for `plan` and `fit`.
//!
//! Bytes as formulas, for n rows, d features, k components, t threads, b rows a block, g features a
//! group, v vectors a Krylov block:
//!
//! | form | phase | buffer | bytes |
//! |---|---|---|---|
//! | all | stream | footers | as parsed, those kept and one more |
//! | | | pages being decoded | t × (pages of the columns read, from their headers) |
//! | primal | stream | batches and blocks | t × 24·b·d |
//! | | | sums | (t + 2) × 8d² below 1024 features (× 6 with `--nulls mean`), else 8d² and 8·1024·d |
//! | | decompose | matrix, vectors, work area | 32d² |
//! | dual | stream | groups | (2t + 1) × 24·n·g, n·g about a million |
//! | | | Gram matrix | 8n² and 8·1024·n |
//! | | decompose | matrix, vectors, work area | 32n² |
//! | | map | loadings | 16·k·d |
//! | randomized | stream | batches and blocks | t × 24·b·d |
//! | | | products | (t + 3) × 8·v·d |
//! | | | basis | 8·16·v·d |
//! | kernel | read | all rows | 8·n·d |
//! | | products | rows | 16·n·d |
//! | | | tiles and sums of b vectors | t MB and (t + 4) × 8·n·b, b = k + 6 or the labels' columns |
//! | | | basis | 8·16·n·b |
//! | landmarks | sample | 10 m rows | 8·10·m·d |
//! | | stream | sums | as primal, with m for d |
//! | all | write | model | 24·k·d; of a kernel 24·n·(d + k) |

use super::args::FitSpec;
use super::kernel_fit::{CHECKED_ON, sample_rows};
use super::kernels::{KernelPlan, Route};
use crate::accumulate::{
    Accumulate, ClassSums, Covariance, CrossMoment, FeatureMoments, Gram, ImputedCovariance,
    Product, SHARED_FROM, Shape, Sketch, TiledCovariance,
};
use crate::budget::{Budget, MemoryPlan, Phase};
use crate::kernel::ridge;
use crate::pass::window;
use crate::solve::rules::Components;
use crate::solve::supervised::smaller_side;
use crate::solve::{Form, kernel_matrix, kernel_pca, krylov, randomized};
use crate::source::block::Precision;
use crate::source::parquet::DecodeBytes;
use crate::source::spool::Number;
use crate::source::{Nulls, Want, block_rows, columnwise};
use crate::words::count;

/// No label has more classes than this: it would be an id.
const MOST_CLASSES: u64 = 10_000_000;

/// What the bytes and passes of a form depend on.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// Rows.
    pub n: u64,
    /// Features.
    pub d: u64,
    /// `-k`.
    pub asked: Components,
    /// What is read of each row.
    pub want: &'a Want,
    /// What workers decode with.
    pub pages: DecodeBytes,
    /// Pieces that row-wise workers share.
    pub units: usize,
    /// How numbers are copied, where the dual form needs a copy.
    pub spool: Option<Number>,
    /// Threads wanted.
    pub threads: usize,
    /// The most passes of an iteration.
    pub max_passes: usize,
    /// Of supervised PCA.
    pub labels: Option<LabelShape>,
    /// Of a pass that scores the features first.
    pub scored: Option<ScoredShape>,
    /// Of a kernel method.
    pub kernel: Option<&'a KernelPlan>,
}

/// What a scoring pass depends on.
#[derive(Debug, Clone, Copy)]
pub struct ScoredShape {
    /// The label.
    pub labels: LabelShape,
    /// All features.
    pub d: u64,
    /// What workers decode them with.
    pub pages: DecodeBytes,
}

/// What the bytes of supervised PCA depend on.
#[derive(Debug, Clone, Copy)]
pub struct LabelShape {
    /// Columns of M: classes or label features (r).
    pub r: u64,
    /// True when the labels are classes.
    pub classes: bool,
    /// True when the kernel is rbf, which may take a second pass.
    pub rbf: bool,
    /// True when S is gathered too.
    pub with_variance: bool,
}

/// One way to fit.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The form.
    pub form: Form,
    /// Fewest and most passes over the data, or over its copy.
    pub passes: (usize, usize),
    /// What is held when.
    pub ledger: MemoryPlan,
    /// Bytes of temporary files.
    pub disk: u64,
    /// Worker threads that fit the budget.
    pub threads: usize,
    /// Worker threads that were wanted.
    pub threads_wanted: usize,
    /// Why it cannot be had at all.
    pub refusal: Option<String>,
    /// True when it can be had within the budget.
    pub fits: bool,
}

impl Question<'_> {
    /// All forms, exact ones first.
    pub fn candidates(&self, budget: &Budget) -> Vec<Candidate> {
        if let Some(kernel) = self.kernel {
            return kernel.forms().into_iter().map(|form| self.candidate(form, budget)).collect();
        }
        if self.labels.is_some() {
            return [Form::Primal, Form::Dual]
                .into_iter()
                .map(|form| self.candidate(form, budget))
                .collect();
        }
        [Form::Primal, Form::Dual, Form::Randomized]
            .into_iter()
            .map(|form| self.candidate(form, budget))
            .collect()
    }

    fn candidate(&self, form: Form, budget: &Budget) -> Candidate {
        let threads_wanted = self.threads.min(self.pieces(form)).max(1);
        let within = |t: &usize| self.ledger(form, *t).peak_bytes() <= budget.bytes.0;
        let threads = (1..=threads_wanted).rev().find(within);
        let ledger = self.ledger(form, threads.unwrap_or(1));
        let refusal = match form {
            Form::Randomized => randomized::refusal(self.asked),
            _ => None,
        };
        let fits = threads.is_some() && refusal.is_none();
        let threads = threads.unwrap_or(1);
        let spilled = self.kernel.is_some_and(|k| k.spill.is_some());
        let disk = match form {
            Form::Exact if spilled => kernel_matrix::spill_bytes(self.n),
            Form::Dual if self.labels.is_none() && self.way().is_none() => self.disk(),
            _ => 0,
        };
        let passes = self.passes(form);
        Candidate { form, passes, ledger, disk, threads, threads_wanted, refusal, fits }
    }

    /// The way of a kernel method that is not plain PCA.
    fn way(&self) -> Option<&KernelPlan> {
        self.kernel.filter(|k| k.route != Route::Pca)
    }

    fn pieces(&self, form: Form) -> usize {
        match form {
            // Comparisons are shared out, not only row groups.
            Form::Exact | Form::Direct => usize::MAX,
            Form::Dual if self.way().is_some() => usize::MAX,
            _ if self.labels.is_some() => self.units,
            Form::Dual => (self.d as usize).div_ceil(self.group() as usize).max(self.units),
            _ => self.units,
        }
    }

    /// Passes over the data, or over a copy of it.
    fn passes(&self, form: Form) -> (usize, usize) {
        let twice = usize::from(self.two_passes());
        let (least, most) = match form {
            Form::Exact | Form::Direct => (1, 1),
            Form::Landmarks | Form::Fourier => (2, 2),
            Form::Primal if self.way().is_some() => (2, 2),
            _ if self.way().is_some() => (1, 1),
            _ if self.labels.is_some() => (1, 1 + usize::from(self.labels.is_some_and(|l| l.rbf))),
            Form::Primal => (1 + twice, 1 + twice),
            Form::Dual => {
                let again = usize::from(self.want.nulls == Nulls::Drop && self.spool.is_none());
                let copy = usize::from(self.spool.is_some());
                (2 + copy, 2 + copy + again)
            }
            Form::Randomized => {
                (self.max_passes.min(if self.whole_space() { 1 } else { 2 }), self.max_passes)
            }
        };
        // A pass that scores may be one that gathers, too.
        (least, most + usize::from(self.scored.is_some()))
    }

    /// `--nulls mean` with one shared S needs the means first.
    fn two_passes(&self) -> bool {
        self.shared() && self.want.nulls == Nulls::Mean
    }

    fn shared(&self) -> bool {
        self.d as usize >= SHARED_FROM
    }

    fn group(&self) -> u64 {
        columnwise::group_features(self.n as usize, self.d as usize) as u64
    }

    fn disk(&self) -> u64 {
        self.spool.map_or(0, |number| self.n.saturating_mul(self.d).saturating_mul(number.bytes()))
    }

    /// Components at most.
    fn k(&self) -> u64 {
        let rank = self.n.min(self.d);
        match self.asked {
            Components::Count(k) => rank.min(k as u64),
            _ => rank,
        }
    }

    /// Vectors of a Krylov block.
    pub fn block(&self) -> usize {
        krylov::block(randomized::sought(self.asked), self.d as usize)
    }

    fn whole_space(&self) -> bool {
        self.block() as u64 >= self.d
    }

    /// What this many features hold in this form.
    pub fn ledger(&self, form: Form, threads: usize) -> MemoryPlan {
        let mut phases = match (form, self.way()) {
            (Form::Primal, Some(_)) => self.unit_pca(threads),
            (Form::Landmarks | Form::Fourier, Some(kernel)) => self.approximate(kernel, threads),
            (_, Some(kernel)) => self.kernel(kernel, threads),
            _ if self.labels.is_some() => self.supervised(form, threads),
            (Form::Dual, _) => self.dual(threads),
            (Form::Randomized, _) => self.randomized(threads),
            _ => self.primal(threads),
        };
        if let Some(question) = self.scoring(false) {
            let mut scoring = question.supervised(Form::Dual, threads).swap_remove(0);
            scoring.name = "scoring";
            phases.insert(0, scoring);
        }
        MemoryPlan { phases }
    }

    fn decoding(&self, phase: Phase, threads: usize, part: u64) -> Phase {
        let pages = self.pages.share(part, self.d).total(threads);
        phase.hold(format!("footers and pages of {}", count(threads as u64, "worker")), pages)
    }

    fn writing(&self, k: u64) -> Phase {
        Phase::new("writing").hold(
            "the model, its bytes and its file",
            24u64.saturating_mul(k).saturating_mul(self.d),
        )
    }

    fn primal(&self, threads: usize) -> Vec<Phase> {
        let (t, d) = (threads as u64, self.d);
        let rows = block_rows(d as usize) as u64;
        let mixed = self.want.precision == Precision::Mixed;
        let cells = |bytes: u64| rows.saturating_mul(d).saturating_mul(bytes);
        let stream = self.decoding(Phase::new("streaming"), threads, d);
        let stream = if self.shared() {
            let held = Shape { features: d, rows, vectors: 0 };
            let waiting = window(threads) as u64 + 1;
            let single = if mixed { TiledCovariance::bytes(held) / 2 - 4 * d * d } else { 0 };
            let gathered = TiledCovariance::bytes(held) - 8 * d * d;
            stream
                .hold(
                    "batches and blocks",
                    t.saturating_mul(cells(16)).saturating_add(waiting * cells(8)),
                )
                .hold("blocks to be multiplied", gathered.saturating_add(single))
                .hold(
                    format!("the {d} × {d} sum of products"),
                    8u64.saturating_mul(d.saturating_mul(d)),
                )
        } else {
            let bytes = |rows: u64| {
                let shape = Shape { features: d, rows, vectors: 0 };
                if self.want.nulls == Nulls::Mean {
                    ImputedCovariance::bytes(shape)
                } else {
                    Covariance::bytes(shape)
                }
            };
            let single = if mixed { 4 * d * d + cells(4) } else { 0 };
            let sums = bytes(0).saturating_mul(window(threads) as u64 + 1);
            stream
                .hold(
                    "batches and blocks",
                    t.saturating_mul(cells(16) + (bytes(rows) - bytes(0)) + single),
                )
                .hold(format!("sums of {d} × {d} products"), sums)
        };
        let decompose = Phase::new("decomposition")
            .hold(format!("{d} × {d} matrix, vectors and work area"), crate::solve::bytes(d));
        vec![stream, decompose, self.writing(self.k())]
    }

    fn dual(&self, threads: usize) -> Vec<Phase> {
        let (t, n, d, g, k) = (threads as u64, self.n, self.d, self.group(), self.k());
        let cells = |bytes: u64| n.saturating_mul(g).saturating_mul(bytes);
        let groups = t
            .saturating_mul(cells(24))
            .saturating_add((window(threads) as u64 + 1).saturating_mul(cells(8)));
        let moments = 8 * 8 * d;
        let mut phases = Vec::new();
        if self.spool.is_some() {
            let rows = block_rows(d as usize) as u64;
            let blocks = (2 * t + 3).saturating_mul(16 * rows * d);
            phases.push(
                self.decoding(Phase::new("copying"), threads, d).hold("batches and blocks", blocks),
            );
        }
        let reading = |name| match self.spool {
            Some(_) => Phase::new(name),
            None => self.decoding(Phase::new(name), threads, g),
        };
        let held = Gram::bytes(Shape { rows: n, features: g, vectors: 0 });
        let square = 8u64.saturating_mul(n.saturating_mul(n));
        let single = if self.want.precision == Precision::Mixed {
            held.saturating_sub(square) / 2
        } else {
            0
        };
        phases.push(
            reading("streaming")
                .hold("groups of features", groups)
                .hold(
                    "groups to be multiplied",
                    held.saturating_sub(square).saturating_add(single).saturating_add(moments),
                )
                .hold(format!("the {n} × {n} Gram matrix"), square),
        );
        phases.push(
            Phase::new("decomposition")
                .hold(format!("{n} × {n} matrix, vectors and work area"), crate::solve::bytes(n)),
        );
        phases.push(
            reading("mapping to features").hold("groups of features", groups).hold(
                "loadings",
                16u64
                    .saturating_mul(k)
                    .saturating_mul(d)
                    .saturating_add(16 * k * n)
                    .saturating_add(moments),
            ),
        );
        phases.push(self.writing(k));
        phases
    }

    /// All rows are read, then compared.
    fn kernel(&self, plan: &KernelPlan, threads: usize) -> Vec<Phase> {
        let (t, n, d) = (threads as u64, self.n, self.d);
        let rows = block_rows(d as usize) as u64;
        let all = 8u64.saturating_mul(n).saturating_mul(d);
        let labels = self.labels.map_or(0, |l| l.r);
        let read = self
            .decoding(Phase::new("reading"), threads, d)
            .hold("batches and blocks", (3 * t + 3).saturating_mul(16 * rows * d))
            .hold(format!("all {n} rows"), all.saturating_add(16 * n));
        let products = match plan.route {
            Route::Supervised if labels > 0 => Phase::new("products")
                .hold("rows", all.saturating_mul(2))
                .hold(
                    format!("labels and their images ({labels} columns)"),
                    24u64.saturating_mul(labels).saturating_mul(n),
                )
                .hold("tiles and sums", kernel_matrix::product_bytes(n, labels + 1, threads)),
            _ if self.decomposes_whole() => Phase::new("decomposition")
                .hold("rows", all.saturating_mul(2))
                .hold(format!("{n} × {n} matrix, vectors and work area"), crate::solve::bytes(n)),
            _ => {
                let k = randomized::sought(self.asked);
                let block = kernel_pca::block(k, n as usize) as u64;
                Phase::new("products")
                    .hold("rows", all.saturating_mul(2))
                    .hold(
                        format!("tiles and sums of {block} vectors"),
                        kernel_matrix::product_bytes(n, block + 1, threads),
                    )
                    .hold("the Krylov basis", kernel_pca::basis_bytes(n, k))
            }
        };
        let writing = Phase::new("writing")
            .hold("the model, its bytes and its file", self.model_bytes().saturating_mul(3));
        let learning = plan.ridge.then(|| self.learning());
        [read, products].into_iter().chain(learning).chain([writing]).collect()
    }

    /// A way back is learned from a sample and its scores.
    fn learning(&self) -> Phase {
        let (sample, anchors) =
            ((ridge::LEARNED_FROM as u64).min(self.n), (ridge::ANCHORS as u64).min(self.n));
        let (d, k) = (self.d, self.kernel_components());
        Phase::new("learning the way back")
            .hold("the model", self.model_bytes().saturating_mul(2))
            .hold(
                "a sample, its scores and comparisons",
                16 * sample * (2 * anchors + 3 * d + 2 * k),
            )
            .hold("anchors squared", 8 * 5 * anchors * anchors + 24 * anchors * d)
    }

    /// Bytes of a kernel model: what rows are compared with, and its coefficients.
    pub fn model_bytes(&self) -> u64 {
        let (n, d, k) = (self.n, self.d, self.kernel_components());
        let each = match self.way().map(|w| w.route) {
            Some(Route::Landmarks(m)) => n.min(m as u64).saturating_mul(d + k + 1),
            Some(Route::Fourier(m)) => (m as u64).saturating_mul(d + k + 2),
            Some(Route::Exact | Route::Supervised) => n.saturating_mul(d + k + 2),
            _ => k.saturating_mul(d),
        };
        let back = match self.way().filter(|w| w.ridge) {
            Some(_) => (ridge::ANCHORS as u64).min(n).saturating_mul(d + k),
            None => 0,
        };
        8u64.saturating_mul(each.saturating_add(back))
    }

    fn kernel_components(&self) -> u64 {
        let most = self.labels.map_or(self.n, |l| l.r);
        match self.asked {
            Components::Count(k) => most.min(k as u64),
            Components::Ratio(_) => {
                most.min(kernel_pca::block(randomized::sought(self.asked), self.n as usize) as u64)
            }
            _ => most,
        }
    }

    /// True when K is held and decomposed as a whole.
    fn decomposes_whole(&self) -> bool {
        let whole = !matches!(self.asked, Components::Count(_) | Components::Ratio(_));
        self.n as usize <= kernel_pca::DENSE_UP_TO || whole
    }

    fn unit_pca(&self, threads: usize) -> Vec<Phase> {
        let mut phases = self.primal(threads);
        let rows = block_rows(self.d as usize) as u64;
        let prepared =
            phases.swap_remove(0).hold("prepared rows", 16 * rows * self.d * threads as u64);
        phases.insert(0, prepared);
        phases
    }

    /// A sample first, then PCA of what stands for the kernel.
    fn approximate(&self, plan: &KernelPlan, threads: usize) -> Vec<Phase> {
        let (t, d) = (threads as u64, self.d);
        let rows = block_rows(d as usize) as u64;
        let (m, landmarks) = match plan.route {
            Route::Landmarks(m) => (m as u64, m),
            Route::Fourier(m) => (m as u64, 0),
            _ => (0, 0),
        };
        let sample = (sample_rows(landmarks, plan.ridge) as u64).min(self.n);
        let sampled = 8u64.saturating_mul(sample).saturating_mul(d);
        let look = self
            .decoding(Phase::new("sampling"), threads, d)
            .hold("batches and blocks", (3 * t + 3).saturating_mul(16 * rows * d))
            .hold(format!("a sample of {sample} rows"), sampled.saturating_mul(3));
        let checked = CHECKED_ON as u64;
        let choose = Phase::new("choosing")
            .hold("the sample", sampled.saturating_mul(2))
            .hold(format!("{m} × {m} comparisons, vectors and work area"), crate::solve::bytes(m))
            .hold("the check", 8 * checked * (4 * checked + 3 * m));
        let mapped = Question { d: m, kernel: None, labels: None, scored: None, ..self.clone() };
        let widened = 8u64.saturating_mul(rows).saturating_mul(2 * m + 2 * d).saturating_mul(t);
        let sums = |rows: u64| {
            let shape = Shape { features: m, rows, vectors: 0 };
            match mapped.shared() {
                true => TiledCovariance::bytes(shape)
                    .saturating_add((window(threads) as u64 + 1) * 8 * rows * m),
                false => {
                    let scratch = t.saturating_mul(
                        Covariance::bytes(shape) - Covariance::bytes(Shape { rows: 0, ..shape }),
                    );
                    scratch.saturating_add(
                        Covariance::bytes(Shape { rows: 0, ..shape })
                            .saturating_mul(window(threads) as u64 + 1),
                    )
                }
            }
        };
        let stream = self
            .decoding(Phase::new("streaming"), threads, d)
            .hold("batches and blocks", t.saturating_mul(24 * rows * d))
            .hold(format!("comparisons with {m}"), widened)
            .hold(format!("sums of {m} × {m} products"), sums(rows))
            .hold("the sample and the whitening", sampled.saturating_add(16 * m * m));
        let decompose = Phase::new("decomposition")
            .hold(format!("{m} × {m} matrix, vectors and work area"), crate::solve::bytes(m))
            .hold("the sample and the whitening", sampled.saturating_add(16 * m * m));
        let writing = Phase::new("writing")
            .hold("the model, its bytes and its file", self.model_bytes().saturating_mul(3));
        let learning = plan.ridge.then(|| self.learning());
        [look, choose, stream, decompose].into_iter().chain(learning).chain([writing]).collect()
    }

    fn supervised(&self, form: Form, threads: usize) -> Vec<Phase> {
        let (t, d) = (threads as u64, self.d);
        let LabelShape { r, classes, with_variance, .. } = self.labels.unwrap_or(LabelShape {
            r: 0,
            classes: false,
            rbf: false,
            with_variance: false,
        });
        let rows = block_rows(d as usize) as u64;
        let bytes = |rows: u64| {
            let shape = Shape { features: d, rows, vectors: r };
            let labels = if classes { ClassSums::bytes(shape) } else { CrossMoment::bytes(shape) };
            let sums = match (with_variance, self.want.nulls) {
                (false, _) => 0,
                (true, Nulls::Mean) => ImputedCovariance::bytes(shape).saturating_add(8 * rows * d),
                (true, _) => Covariance::bytes(shape).saturating_add(8 * rows * d),
            };
            labels.saturating_add(sums)
        };
        let what = if classes { "classes" } else { "label features" };
        let stream = self
            .decoding(Phase::new("streaming"), threads, d)
            .hold("batches and blocks", t.saturating_mul(16 * rows * d + (bytes(rows) - bytes(0))))
            .hold(
                format!("sums of {r} {what} × {d} features"),
                bytes(0).saturating_mul(window(threads) as u64 + 1),
            );
        let side = if form == Form::Primal { d } else { r };
        let decompose = Phase::new("decomposition")
            .hold(
                format!("{side} × {side} matrix, vectors and work area"),
                crate::solve::bytes(side),
            )
            .hold("sums", bytes(0).saturating_add(8 * r * d));
        vec![stream, decompose, self.writing(self.k().min(r))]
    }

    /// The pass over all features that scores them, with or without their co-moment.
    fn scoring(&self, with_variance: bool) -> Option<Question<'_>> {
        let ScoredShape { labels, d, pages } = self.scored?;
        Some(Question {
            labels: Some(LabelShape { with_variance, ..labels }),
            d,
            pages,
            scored: None,
            kernel: None,
            ..self.clone()
        })
    }

    /// True when the scores and the co-moment of all features fit one pass, and the co-moment is what is wanted.
    pub fn scores_and_s(&self, threads: usize, budget: &Budget) -> bool {
        let wanted = self.labels.is_none()
            && self.way().is_none()
            && self.want.precision == Precision::Exact;
        self.scoring(true).is_some_and(|all| {
            let part = crate::solve::bytes(self.d);
            let fits =
                all.ledger(Form::Dual, threads).peak_bytes().saturating_add(part) <= budget.bytes.0;
            wanted && fits && (all.d as usize) < SHARED_FROM
        })
    }

    /// The most classes that fit on this many threads, of the labels or of what is scored by.
    pub fn most_classes(&self, form: Option<Form>, threads: usize, budget: &Budget) -> u64 {
        if let (None, Some(scoring)) = (self.labels, self.scoring(false)) {
            return scoring.most_classes(None, threads, budget);
        }
        let fits = |r: u64| {
            let labels = self.labels.map(|l| LabelShape { r, ..l });
            let question = Question { labels, ..self.clone() };
            let forms = form.map_or(vec![Form::Primal, Form::Dual], |f| vec![f]);
            forms
                .into_iter()
                .any(|form| question.ledger(form, threads).peak_bytes() <= budget.bytes.0)
        };
        let (mut low, mut high) = (0, MOST_CLASSES);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    fn randomized(&self, threads: usize) -> Vec<Phase> {
        let (t, d) = (threads as u64, self.d);
        let rows = block_rows(d as usize) as u64;
        let block = self.block() as u64;
        let shape = |rows| Shape { features: d, rows, vectors: block };
        let scratch = Sketch::bytes(shape(rows)) - Sketch::bytes(shape(0))
            + FeatureMoments::bytes(Shape { rows: 0, ..shape(0) });
        let single =
            if self.want.precision == Precision::Mixed { 4 * rows * d + 8 * block * d } else { 0 };
        let partial = Product::bytes(shape(0)).saturating_mul(window(threads) as u64 + 2);
        let basis = krylov::bytes(d, block, (block * randomized::BASIS_BLOCKS as u64).min(d));
        let stream = self
            .decoding(Phase::new("streaming"), threads, d)
            .hold("batches and blocks", t.saturating_mul(16 * rows * d + scratch + single))
            .hold(format!("products with {block} vectors"), partial)
            .hold("the Krylov basis", basis);
        vec![stream, self.writing((block / 2).max(self.k().min(block)))]
    }
}

/// Which form to take and why: what was asked for, or the cheapest exact one that fits, or the randomized one.
pub fn choose(
    candidates: &[Candidate],
    spec: &FitSpec,
    question: &Question<'_>,
) -> (usize, String) {
    use crate::budget::Bytes;
    let (n, d, label_features) = (question.n, question.d, question.labels.map(|l| l.r));
    let at = |form: Form| candidates.iter().position(|c| c.form == form).unwrap_or(0);
    if let Some(kernel) = question.kernel.filter(|k| k.route != Route::Pca) {
        let form = spec.form.form().filter(|f| *f == Form::Direct).unwrap_or(candidates[0].form);
        return (at(form), kernel_reason(kernel, n, question.decomposes_whole()));
    }
    let square = |size: u64| Bytes(8u64.saturating_mul(size.saturating_mul(size)));
    let describe = |form: Form| match form {
        _ if label_features.is_some() => format!("the {form} side of M = XHΔ is decomposed"),
        Form::Primal => format!("one {d} × {d} matrix ({}) adds up row by row", square(d)),
        Form::Dual => format!("one {n} × {n} matrix ({}) adds up feature by feature", square(n)),
        _ => format!("block Krylov finds the leading components to {:e}", spec.tolerance()),
    };
    if let Some(form) = spec.form.form() {
        return (at(form), format!("{} (as asked)", describe(form)));
    }
    if let Some(r) = label_features {
        let form = smaller_side(d as usize, r as usize);
        let why = "M = XHΔ adds up row by row, and its smaller side is decomposed".to_string();
        return (at(form), why);
    }
    let exact = if n < d { Form::Dual } else { Form::Primal };
    if candidates[at(exact)].fits {
        let why = if n < d { "fewer rows than features: " } else { "" };
        return (at(exact), format!("{why}{}", describe(exact)));
    }
    let other = if exact == Form::Dual { Form::Primal } else { Form::Dual };
    if candidates[at(other)].fits {
        return (at(other), format!("{}, and the {exact} form does not fit", describe(other)));
    }
    if candidates[at(Form::Randomized)].fits {
        let neither =
            format!("neither {d} × {d} ({}) nor {n} × {n} ({}) fits", square(d), square(n));
        return (at(Form::Randomized), format!("{neither}: {}", describe(Form::Randomized)));
    }
    (at(exact), describe(exact))
}

/// What a kernel method does, and why.
fn kernel_reason(plan: &KernelPlan, n: u64, whole: bool) -> String {
    use crate::budget::Bytes;
    match plan.route {
        Route::UnitPca => "a cosine kernel is PCA of the rows at unit length".into(),
        Route::Landmarks(m) => {
            format!("comparisons with {m} rows stand for the kernel: an approximation, as asked")
        }
        Route::Fourier(m) => {
            format!("{m} random features stand for the kernel: an approximation, as asked")
        }
        Route::Supervised => {
            "one product of the kernel matrix, made by tiles, with the labels".into()
        }
        _ if whole => format!("the {n} × {n} kernel matrix is small enough to hold"),
        _ => {
            let how = if plan.spill.is_some() {
                "kept in a temporary file"
            } else {
                "made again for each product"
            };
            let all = Bytes(8u64.saturating_mul(n.saturating_mul(n)));
            format!(
                "block Krylov on tiles of the {n} × {n} kernel matrix ({all} in all, never held), {how}"
            )
        }
    }
}
