//! What each form would hold and how often it would read the data. Pure arithmetic: a [`Workload`]
//! of numbers enters, a [`FormCost`] leaves; nothing is read.
//!
//! Bytes, for n rows, d features, k components, t threads, w = t + 1 units in flight, b rows a
//! block, g features a group, v vectors a Krylov block, r classes or label columns, m landmarks:
//!
//! | form | phase | buffer | bytes |
//! |---|---|---|---|
//! | all | stream | footers and pages | as parsed, those kept and one more; t × the columns' pages |
//! | primal | stream | batches and blocks | b·(8·d + a decoded row) a worker, and its scratch |
//! | | | sums below 1,024 features | (w + 1) × (8d² + …), six times that where cells take means |
//! | | | one shared S from there on | 8d², w + 1 blocks waiting (8·b·d), blocks gathered 8·1024·d |
//! | | decompose | matrix, vectors, work area | 32d²; 12d² for a few of 2,000 or more |
//! | | | of precision full | (w + 1) × (8d² + …) whatever d; to decompose 40d² |
//! | spca | stream | sums of labels | 8·r·d, w × those of a unit's classes, S if wanted |
//! | | decompose | the smaller side | as d² there |
//! | dual | stream | groups | (8·w + 8)·n·g, n·g about a million, and 16·b·g a worker |
//! | | | Gram matrix | 8n² and 8·1024·n |
//! | | decompose | matrix, vectors, work area | as d² there |
//! | | map | loadings | 16·k·(d + n) |
//! | randomized | stream | products | (w + 2) × 8·v·d |
//! | | | basis | 8·16·v·d |
//! | basis | stream | products | (w + 6) × 8·k·d |
//! | kernel | read | all rows | 8·n·d, and b·(16·t + 8·(w + 1))·d in blocks |
//! | | products | rows | 16·n·d |
//! | | | tiles and sums | 2 MiB a thread and (t + 4) × 8·n·v, v = k + 6 or r |
//! | | | basis | 8·16·n·v |
//! | landmarks | sample | 10 m rows, three times | 24·10·m·d |
//! | | stream | sums | as primal, with m for d |
//! | all | write | model | 24·k·d; of a kernel 24·n·(d + k) |

use super::basis::BasisWork;
use super::cost_parts::{decomposition, sums_text};
use super::given_labels::factoring;
use super::kernel_choice::KernelRoute;
use crate::accumulate::{Accumulate, ClassLimit, FeatureMoments, Gram, LabelSumsKind};
use crate::accumulate::{Product, Shape, Sketch, SumsKind};
use crate::budget::{Budget, MemoryPlan, Phase};
use crate::solve::rules::Components;
use crate::solve::{Form, kernel_matrix, krylov, randomized};
use crate::source::{Nulls, Precision, ReadCost, Storage, block_rows, columnwise};
use crate::words::count;
use crate::workers::window;

/// No label has more classes than this: it would be an id.
const MOST_CLASSES: u64 = 10_000_000;

/// What the bytes and passes of a fit depend on: numbers alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Rows (n).
    pub(crate) n: u64,
    /// Features (d).
    pub(crate) d: u64,
    pub(crate) components: Components,
    pub(crate) nulls: Nulls,
    pub(crate) precision: Precision,
    /// What workers read with.
    pub(crate) read: ReadCost,
    /// How numbers are copied, where the dual form needs a copy.
    pub(crate) spool: Option<Storage>,
    /// Threads wanted.
    pub(crate) threads: usize,
    pub(crate) max_passes: usize,
    pub(crate) labels: Option<LabelWork>,
    /// A pass over all features that scores them first.
    pub(crate) scored: Option<ScoredWork>,
    pub(crate) kernel: Option<KernelWork>,
    pub(crate) basis: Option<BasisWork>,
}

/// What is summed of labels: r vectors of d numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabelShape {
    /// Classes, or label features.
    pub(crate) vectors: u64,
    pub(crate) classes: bool,
}

/// What labels add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabelWork {
    /// Classes or label features (r), and which.
    pub(crate) shape: LabelShape,
    /// True when the labels may take a second pass: rbf over too many distinct ones.
    pub(crate) again: bool,
    /// True when S is gathered too.
    pub(crate) with_variance: bool,
    /// Rows of a kernel that is given, and columns of its factor.
    pub(crate) given: Option<(u64, u64)>,
}

/// The pass that scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScoredWork {
    pub(crate) shape: LabelShape,
    /// All features.
    pub(crate) d: u64,
    /// What workers read them with.
    pub(crate) read: ReadCost,
}

/// What a kernel method adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelWork {
    pub(crate) route: KernelRoute,
    /// True when a map back is learned.
    pub(crate) ridge: bool,
    /// True when tiles are kept in a temporary file.
    pub(crate) spill: bool,
    /// True when the matrix is given, and no row is held.
    pub(crate) given: bool,
}

/// One way to fit.
#[derive(Debug, Clone)]
pub struct FormCost {
    /// The form.
    pub form: Form,
    /// Fewest and most passes over the data, or over its copy.
    pub passes: (usize, usize),
    /// What is held when.
    pub memory: MemoryPlan,
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

impl Workload {
    /// All forms, exact ones first.
    pub(crate) fn forms(&self, budget: &Budget) -> Vec<FormCost> {
        let forms: &[Form] = match (self.kernel, self.labels) {
            _ if self.basis.is_some() => &[Form::Basis],
            (Some(kernel), _) => kernel.route.forms(),
            (None, Some(_)) => &[Form::Primal, Form::Dual],
            (None, None) if self.precision == Precision::Full => &[Form::Primal],
            (None, None) => &[Form::Primal, Form::Dual, Form::Randomized],
        };
        forms.iter().map(|form| self.form(*form, budget)).collect()
    }

    fn form(&self, form: Form, budget: &Budget) -> FormCost {
        let threads_wanted = self.threads.min(self.pieces(form)).max(1);
        let within = |t: &usize| self.memory(form, *t).peak_bytes() <= budget.bytes.0;
        let threads = (1..=threads_wanted).rev().find(within);
        let refusal = match form {
            Form::Randomized => randomized::refusal(self.components),
            _ => None,
        };
        FormCost {
            form,
            passes: self.passes(form),
            memory: self.memory(form, threads.unwrap_or(1)),
            disk: self.disk(form),
            threads: threads.unwrap_or(1),
            threads_wanted,
            fits: threads.is_some() && refusal.is_none(),
            refusal,
        }
    }

    /// A kernel method that is not plain PCA.
    pub(super) fn route(&self) -> Option<KernelWork> {
        self.kernel.filter(|k| k.route != KernelRoute::Pca)
    }

    /// What workers can share out.
    fn pieces(&self, form: Form) -> usize {
        match form {
            // Comparisons are shared out, not only units.
            Form::Exact | Form::Direct => usize::MAX,
            Form::Dual if self.route().is_some() => usize::MAX,
            _ if self.labels.is_some() => self.read.units,
            Form::Dual => self.d.div_ceil(self.group()).max(self.read.units as u64) as usize,
            _ => self.read.units,
        }
    }

    /// Passes over the data, or over a copy of it.
    fn passes(&self, form: Form) -> (usize, usize) {
        if let Some(basis) = self.basis {
            return (basis.passes, basis.passes);
        }
        let (least, most) = match (form, self.labels) {
            // A look at a matrix that is given, then a reading for each product.
            _ if self.kernel.is_some_and(|kernel| kernel.given) => {
                let once = form != Form::Exact || self.decomposes_whole();
                if once { (2, 2) } else { (2, 1 + self.max_passes) }
            }
            (Form::Exact | Form::Direct, _) => (1, 1),
            (Form::Landmarks | Form::Fourier, _) => (2, 2),
            (Form::Primal, _) if self.route().is_some() => (2, 2),
            _ if self.route().is_some() => (1, 1),
            (_, Some(labels)) => (1, 1 + usize::from(labels.again)),
            (Form::Dual, None) => {
                let again = usize::from(self.nulls == Nulls::Drop && self.spool.is_none());
                let copy = usize::from(self.spool.is_some());
                (2 + copy, 2 + copy + again)
            }
            (Form::Randomized, None) => {
                let least = if self.krylov_block() as u64 >= self.d { 1 } else { 2 };
                (self.max_passes.min(least), self.max_passes)
            }
            _ => {
                // One shared S needs the means first, where missing cells take them.
                let means = usize::from(self.sums(true, None).needs_means());
                (1 + means, 1 + means)
            }
        };
        // A pass that scores may be one that adds up, too.
        (least, most + usize::from(self.scored.is_some()))
    }

    /// Features of a group of the dual form.
    fn group(&self) -> u64 {
        columnwise::group_features(self.n as usize, self.d as usize) as u64
    }

    fn disk(&self, form: Form) -> u64 {
        match (form, self.spool) {
            (Form::Exact, _) if self.kernel.is_some_and(|k| k.spill) => {
                kernel_matrix::spill_bytes(self.n)
            }
            (Form::Dual, Some(number)) if self.labels.is_none() && self.route().is_none() => {
                self.n.saturating_mul(self.d).saturating_mul(number.bytes())
            }
            _ => 0,
        }
    }

    /// Components at most.
    fn k(&self) -> u64 {
        let rank = self.n.min(self.d);
        match self.components {
            Components::Count(k) => rank.min(k as u64),
            _ => rank,
        }
    }

    /// Vectors of a Krylov block over the data.
    pub(crate) fn krylov_block(&self) -> usize {
        krylov::block(randomized::sought(self.components), self.d as usize)
    }

    /// What is held when, in this form on so many threads.
    pub(crate) fn memory(&self, form: Form, threads: usize) -> MemoryPlan {
        if let Some(basis) = self.basis {
            return MemoryPlan { phases: self.along_basis(basis, threads) };
        }
        let mut phases = match (form, self.route()) {
            (Form::Primal, Some(_)) => self.unit_pca(threads),
            (Form::Landmarks | Form::Fourier, Some(kernel)) => self.approximate(kernel, threads),
            (_, Some(kernel)) => self.kernel_rows(kernel, threads),
            (_, None) if self.labels.is_some() => self.supervised(form, threads),
            (Form::Dual, None) => self.dual(threads),
            (Form::Randomized, None) => self.randomized(threads),
            _ => self.primal(threads),
        };
        if let Some(all) = self.scoring_pass(false) {
            let mut scoring = all.supervised(Form::Dual, threads).swap_remove(0);
            scoring.name = "scoring";
            phases.insert(0, scoring);
        }
        if let Some((n, r)) = self.labels.and_then(|labels| labels.given) {
            let bytes = 8u64.saturating_mul(n).saturating_mul(n + r);
            let hold = |phase: Phase| phase.hold("the kernel over labels and its factor", bytes);
            phases = std::iter::once(factoring(n)).chain(phases.into_iter().map(hold)).collect();
        }
        MemoryPlan { phases }
    }

    /// Footers and pages while `part` of the features are read.
    pub(crate) fn reading(&self, name: &'static str, threads: usize, part: u64) -> Phase {
        let pages = self.read.share(part, self.d).total(threads);
        let workers = count(threads as u64, "worker");
        Phase::new(name).hold(format!("footers and pages of {workers}"), pages)
    }

    pub(super) fn writing(&self, k: u64) -> Phase {
        // Components, their bytes, and the file's.
        let bytes = 24u64.saturating_mul(k).saturating_mul(self.d);
        Phase::new("writing").hold("the model, its bytes and its file", bytes)
    }

    /// The accumulator of this fit's features.
    pub(crate) fn sums(&self, covariance: bool, labels: Option<LabelShape>) -> SumsKind {
        let labels = labels.map(|l| match l.classes {
            true => LabelSumsKind::Classes(ClassLimit::of(l.vectors as usize)),
            false => LabelSumsKind::linear(l.vectors as usize),
        });
        let (features, nulls, precision) = (self.d as usize, self.nulls, self.precision);
        SumsKind { features, covariance, precision, nulls, labels, threads: 1, around: None }
    }

    /// A pass that adds up: blocks on their way, and the sums they go to.
    pub(super) fn adding_up(&self, phase: Phase, sums: SumsKind, threads: usize) -> Phase {
        let (t, rows) = (threads as u64, self.block_rows());
        let cells = |bytes: u64| rows.saturating_mul(self.d).saturating_mul(bytes);
        let sums = with_means(sums);
        let (held, busy) = (sums.bytes(0), sums.bytes(rows));
        let scratch = busy.saturating_sub(held);
        let mixed = self.precision == Precision::Mixed;
        let (what, made) = (sums_text(&sums), self.block_bytes());
        if sums.is_shared() {
            // The caller adds; blocks wait for it, half as large where products are in f32.
            let waiting = window(threads) as u64 + 1;
            let single = if mixed { scratch / 2 } else { 0 };
            return phase
                .hold("batches and blocks", t.saturating_mul(made) + waiting * cells(8))
                .hold("blocks to be multiplied", scratch.saturating_add(single))
                .hold(what, held);
        }
        // A product and a block in f32 beside those in f64.
        let single = if mixed { 4 * self.d * self.d + cells(4) } else { 0 };
        let each = made.saturating_add(scratch).saturating_add(single);
        // One per unit in flight, whose rows are of as many classes at most, and the total.
        let unit = sums.of_unit(self.read.unit_rows).bytes(0);
        let all = held.saturating_add(unit.saturating_mul(window(threads) as u64));
        phase.hold("batches and blocks", t.saturating_mul(each)).hold(what, all)
    }

    fn primal(&self, threads: usize) -> Vec<Phase> {
        let d = self.d;
        let stream = self.reading("streaming", threads, d);
        let stream = self.adding_up(stream, self.sums(true, None), threads);
        let decompose = match self.precision {
            Precision::Full => decomposition("factor", d, crate::solve::factor::bytes(d)),
            _ => decomposition("matrix", d, crate::solve::bytes(d, self.components)),
        };
        vec![stream, decompose, self.writing(self.k())]
    }

    fn supervised(&self, form: Form, threads: usize) -> Vec<Phase> {
        let d = self.d;
        let Some(LabelWork { shape, with_variance, .. }) = self.labels else {
            return self.primal(threads);
        };
        let sums = self.sums(with_variance, Some(shape));
        let held = with_means(sums.clone()).bytes(0);
        let stream = self.adding_up(self.reading("streaming", threads, d), sums, threads);
        let side = if form == Form::Primal { d } else { shape.vectors };
        let decompose = decomposition("matrix", side, crate::solve::bytes(side, self.components))
            // The sums, and M made of them.
            .hold("sums", held.saturating_add(8 * shape.vectors * d));
        vec![stream, decompose, self.writing(self.k().min(shape.vectors))]
    }

    fn dual(&self, threads: usize) -> Vec<Phase> {
        let (n, d, g, k) = (self.n, self.d, self.group(), self.k());
        // Where there are fewer groups than units, some workers only copy.
        let busy = threads.min(d.div_ceil(g) as usize);
        let (t, copying) = (busy as u64, threads as u64);
        let cells = |bytes: u64| n.saturating_mul(g).saturating_mul(bytes);
        // A group that each worker makes, those that wait, and the one in use.
        let waiting = (window(busy) - busy + 1) as u64;
        let made = t.saturating_mul(self.group_bytes(g));
        let groups = made.saturating_add(cells(8).saturating_mul(waiting));
        // Means, rests and squares, with what they are merged from.
        let moments = 8 * 8 * d;
        let mut phases = Vec::new();
        if self.spool.is_some() {
            let dense = 8 * self.block_rows() * d;
            let blocks = copying * self.block_bytes() + (copying + 3).saturating_mul(2 * dense);
            phases.push(self.reading("copying", threads, d).hold("batches and blocks", blocks));
        }
        let reading = |name| match self.spool {
            Some(_) => Phase::new(name),
            None => self.reading(name, busy, g),
        };
        let square = 8u64.saturating_mul(n.saturating_mul(n));
        let gram = Gram::bytes(Shape { rows: n, features: g, vectors: 0 });
        let gathered = gram.saturating_sub(square);
        let single = if self.precision == Precision::Mixed { gathered / 2 } else { 0 };
        phases.push(
            reading("streaming")
                .hold("groups of features", groups)
                .hold(
                    "groups to be multiplied",
                    gathered.saturating_add(single).saturating_add(moments),
                )
                .hold(format!("the {n} × {n} Gram matrix"), square),
        );
        phases.push(decomposition("matrix", n, crate::solve::bytes(n, self.components)));
        // Loadings and eigenvectors, each with a copy.
        let loadings = 16u64.saturating_mul(k).saturating_mul(d + n).saturating_add(moments);
        phases.push(
            reading("mapping to features")
                .hold("groups of features", groups)
                .hold("loadings", loadings),
        );
        phases.push(self.writing(k));
        phases
    }

    /// What a worker makes a group of g features with, all rows of it.
    fn group_bytes(&self, g: u64) -> u64 {
        let cells = |rows: u64, bytes: u64| rows.saturating_mul(g).saturating_mul(bytes);
        let whole = |bytes| cells(self.n, bytes);
        if self.spool.is_some() {
            // As read from the copy, as numbers, and as doubles.
            return whole(24);
        }
        // Filled from a block at a time, as decoded and dense. Rows are left out by way of copies.
        let rows = (block_rows(g as usize) as u64).min(self.read.unit_rows.max(1)).min(self.n);
        let copies = if self.nulls == Nulls::Drop { whole(16) } else { 0 };
        // A block of all rows is the group itself.
        let filled = if self.read.units == 1 && rows == self.n { 0 } else { whole(8) };
        filled.saturating_add(cells(rows, 16)).saturating_add(copies)
    }

    fn randomized(&self, threads: usize) -> Vec<Phase> {
        let (t, d, rows) = (threads as u64, self.d, self.block_rows());
        let v = self.krylov_block() as u64;
        let shape = |rows| Shape { features: d, rows, vectors: v };
        let scratch =
            Sketch::bytes(shape(rows)) - Sketch::bytes(shape(0)) + FeatureMoments::bytes(shape(0));
        let mixed = self.precision == Precision::Mixed;
        let single = if mixed { 4 * rows * d + 8 * v * d } else { 0 };
        let partial = Product::bytes(shape(0)).saturating_mul(window(threads) as u64 + 2);
        let basis = krylov::bytes(d, v, (v * randomized::BASIS_BLOCKS as u64).min(d));
        let stream = self
            .reading("streaming", threads, d)
            .hold("batches and blocks", t.saturating_mul(self.block_bytes() + scratch + single))
            .hold(format!("products with {v} vectors"), partial)
            .hold("the Krylov basis", basis);
        vec![stream, self.writing((v / 2).max(self.k().min(v)))]
    }

    /// The pass over all features that scores them, with or without their S.
    fn scoring_pass(&self, with_variance: bool) -> Option<Workload> {
        let ScoredWork { shape, d, read } = self.scored?;
        let labels = Some(LabelWork { shape, again: false, with_variance, given: None });
        Some(Workload { labels, d, read, scored: None, kernel: None, ..*self })
    }

    /// True when the scores and S of all features fit one pass, and S is what is wanted.
    pub(crate) fn scores_with_covariance(&self, threads: usize, budget: &Budget) -> bool {
        let exact = self.precision == Precision::Exact;
        let wanted = self.labels.is_none() && self.route().is_none() && exact;
        self.scoring_pass(true).is_some_and(|all| {
            let part = crate::solve::bytes(self.d, self.components);
            let peak = all.memory(Form::Dual, threads).peak_bytes().saturating_add(part);
            let shared = with_means(all.sums(true, None)).is_shared();
            wanted && peak <= budget.bytes.0 && !shared
        })
    }

    /// The most classes that fit on this many threads, of the labels or of what is scored by.
    pub(crate) fn most_classes(&self, form: Option<Form>, threads: usize, budget: &Budget) -> u64 {
        if let (None, Some(scoring)) = (self.labels, self.scoring_pass(false)) {
            return scoring.most_classes(None, threads, budget);
        }
        let forms = form.map_or_else(|| vec![Form::Primal, Form::Dual], |form| vec![form]);
        largest(MOST_CLASSES, |r| {
            let labels =
                self.labels.map(|l| LabelWork { shape: LabelShape { vectors: r, ..l.shape }, ..l });
            let work = Workload { labels, ..*self };
            forms.iter().any(|form| work.memory(*form, threads).peak_bytes() <= budget.bytes.0)
        })
    }
}

/// Bytes that one more fold of a scan takes: its S, once per unit in flight and the total.
pub(crate) fn fold_bytes(features: u64) -> u64 {
    4 * 8 * features.saturating_mul(features)
}

/// Bytes of one group of a scan, with as many classes as plans reckon with: S in the making and
/// stored, sums of classes with what they miss, and what is known of it.
pub(crate) fn group_bytes(features: u64, covariance: bool, classes: u64) -> u64 {
    let square = if covariance { fold_bytes(features) } else { 0 };
    square.saturating_add(64 * features * (1 + classes)).saturating_add(4096)
}

/// The same sums once a pass before has found the means that missing cells take, where they need
/// it: as if no cell were missing.
pub(super) fn with_means(sums: SumsKind) -> SumsKind {
    let nulls = if sums.needs_means() { Nulls::Drop } else { sums.nulls };
    SumsKind { nulls, ..sums }
}

/// The largest number below `most` for which this holds, which it does up to some number.
pub(crate) fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}
