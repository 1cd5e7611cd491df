//! Asked, then checked: [`FitSpec`] and footers → [`FitPlan`]. No row is read.
//!
//! The plan knows n, d, the form, the passes and every big buffer ([`super::candidates`] has the
//! formulas). Once planned, a fit does not fail on its arguments and its bytes are known.

use super::args::{FitSpec, FormChoice, PlanArgs};
use super::candidates::{Candidate, LabelShape, Question, ScoredShape, choose};
use super::kernels::{KernelPlan, Route};
use super::scoring::ScoringPlan;
use super::supervised::EXACT_LABELS;
use crate::accumulate::{Accumulate, ClassSums, Shape};
use crate::budget::{Budget, Bytes, Phase};
use crate::error::{Error, Result};
use crate::model::Method;
use crate::pass::window;
use crate::report;
use crate::solve::rules::Components;
use crate::solve::supervised::LabelKernel;
use crate::solve::{Form, Scaling, randomized};
use crate::source::block::Precision;
use crate::source::columns::{Choice, Chosen};
use crate::source::footer::Kind;
use crate::source::labels::{self, LabelRead, LabelWant};
use crate::source::parquet::{DecodeBytes, decode_bytes};
use crate::source::spool::Number;
use crate::source::{Dataset, Features, Nulls, Want, columnwise, inputs};
use crate::state::ask::LabelSpec;
use crate::words::{count, some, thousands};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

/// What to do about a missing value under `--nulls error`.
const ADVICE: &str = "choose --nulls drop or --nulls mean, or --exclude the column";

/// A fit that is known to be possible.
pub struct FitPlan {
    /// The files.
    pub dataset: Dataset,
    /// The features, and the columns that are none.
    pub chosen: Chosen,
    /// What is read of each row.
    pub want: Want,
    /// What is done to the columns.
    pub scaling: Scaling,
    /// The method.
    pub method: Method,
    /// The kernel of kernel PCA and kernel supervised PCA.
    pub kernel: Option<KernelPlan>,
    /// Bytes of the model file, about, where rows are part of it.
    pub model_bytes: Option<u64>,
    /// The labels of supervised PCA.
    pub labels: Option<LabelPlan>,
    /// What features are scored by, first.
    pub scoring: Option<ScoringPlan>,
    /// True when the pass that scores all features can gather their co-moment too.
    pub together: bool,
    /// Classes that the memory has room for.
    pub most_classes: usize,
    /// All forms.
    pub candidates: Vec<Candidate>,
    /// Which of them is taken.
    choice: usize,
    /// True when the choice was left to the plan.
    auto: bool,
    /// Why.
    pub reason: String,
    /// Where and how a copy of the data is kept, if the form needs one.
    pub spool: Option<(PathBuf, Number)>,
    /// Vectors of a Krylov block.
    pub block: usize,
    /// What `-k` says.
    asked: Components,
    /// What workers decode with.
    pages: DecodeBytes,
    /// The ceiling.
    pub budget: Budget,
}

impl FitPlan {
    /// Checks everything that footers can tell, except the budget (see [`FitPlan::check`]).
    pub fn new(spec: &FitSpec) -> Result<FitPlan> {
        let dataset = Dataset::open(&inputs::expand(&spec.data)?)?;
        let choice = Choice {
            columns: spec.columns.clone(),
            exclude: spec.exclude.clone(),
            reserved: spec
                .weight
                .iter()
                .chain(&spec.label)
                .chain(&spec.score_by)
                .cloned()
                .collect(),
        };
        let chosen = choice.resolve(&dataset)?;
        FitPlan::of(spec, dataset, chosen)
    }

    /// The same fit without the features at these (ascending) positions, which scoring has left out.
    pub fn without(self, spec: &FitSpec, gone: &[usize]) -> Result<FitPlan> {
        let FitPlan { dataset, chosen, .. } = self;
        let chosen = Chosen { features: chosen.features.without(gone), ..chosen };
        FitPlan::of(spec, dataset, chosen)
    }

    fn of(spec: &FitSpec, dataset: Dataset, chosen: Chosen) -> Result<FitPlan> {
        check_weight(spec, &dataset)?;
        check_precision(spec, &chosen)?;
        let all = chosen.features.len() as u64;
        let kernel = KernelPlan::new(
            spec,
            dataset.rows(),
            spec.keep_features.map_or(all, |q| all.min(u64::from(q))),
        )?;
        let labels = LabelPlan::of(spec, &dataset)?;
        let read = |name: &str| {
            LabelPlan::new(spec, &dataset, &[name.to_string()], None).map(|l| l.want.read)
        };
        let scoring = ScoringPlan::new(spec, read)?;
        let want = Want {
            features: chosen.features.clone(),
            weight: spec.weight.clone(),
            labels: labels.as_ref().map(|l| l.want.clone()),
            keep: None,
            nulls: spec.nulls,
            precision: spec.precision,
            advice: ADVICE,
        };
        let budget = Budget::new(spec.resources.memory);
        let pages = decode_bytes(&dataset, &want)?;
        let number = if is_single(&want.features) { Number::F32 } else { Number::F64 };
        let spool = columnwise::needs_spool(&dataset, &want).then_some(number);
        let d = scoring.as_ref().map_or(all, |s| s.most_features(all));
        let question = Question {
            n: dataset.rows(),
            d,
            asked: spec.components,
            want: &want,
            pages: pages.share(d, all),
            units: pages.units,
            spool,
            threads: spec.resources.threads(),
            max_passes: usize::from(spec.max_passes),
            labels: labels.as_ref().map(|l| l.planned),
            scored: scoring.as_ref().map(|s| ScoredShape { labels: s.shape(), d: all, pages }),
            kernel: kernel.as_ref(),
        };
        let candidates = question.candidates(&budget);
        let (choice, reason) = choose(&candidates, spec, &question);
        let model_bytes = kernel
            .as_ref()
            .filter(|k| !matches!(k.route, Route::Pca | Route::UnitPca))
            .map(|_| question.model_bytes());
        let together = candidates[choice].form == Form::Primal
            && question.scores_and_s(candidates[choice].threads, &budget);
        let most_classes =
            question.most_classes(spec.form.form(), candidates[choice].threads, &budget) as usize;
        let block = question.block();
        let temp_dir = spec.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        let copied = candidates[choice].form == Form::Dual
            && labels.is_none()
            && kernel.as_ref().is_none_or(|k| k.route == Route::Pca);
        let spool = spool.filter(|_| copied).map(|number| (temp_dir, number));
        // H centres whatever is projected afterwards, also where K_y = I.
        let center = !spec.no_center || super::supervised::is_identity(spec);
        let scaling = Scaling { center, standardize: spec.standardize };
        let (asked, auto) = (spec.components, spec.form == FormChoice::Auto);
        Ok(FitPlan {
            dataset,
            chosen,
            want,
            scaling,
            method: spec.method,
            kernel,
            model_bytes,
            labels,
            scoring,
            together,
            most_classes,
            candidates,
            choice,
            auto,
            reason,
            spool,
            block,
            asked,
            pages,
            budget,
        })
    }

    /// The form that is taken.
    pub fn taken(&self) -> &Candidate {
        &self.candidates[self.choice]
    }

    /// Another form, if it fits.
    pub fn alternative(&self, form: Form) -> Option<&Candidate> {
        self.candidates.iter().find(|c| c.form == form && c.fits)
    }

    /// Bytes that one more class takes, on all workers.
    pub fn class_bytes(&self) -> u64 {
        let shape = |vectors| Shape { features: self.want.features.len() as u64, rows: 0, vectors };
        let each = ClassSums::bytes(shape(1)) - ClassSums::bytes(shape(0));
        each.saturating_mul(window(self.threads()) as u64 + 2)
    }

    /// Worker threads that fit the budget.
    pub fn threads(&self) -> usize {
        self.taken().threads
    }

    /// Refuses what cannot be had, what the budget cannot hold, or what the disk has no room for, and says what would do.
    pub fn check(&self) -> Result<()> {
        let taken = self.taken();
        if let Some(refusal) = &taken.refusal {
            return Err(Error::Misuse(format!(
                "--form {} cannot: {refusal}; give a number of components",
                taken.form
            )));
        }
        taken.ledger.check(&self.budget, || self.hint())?;
        match self.temp_dir() {
            Some(dir) => crate::source::spool::check_dir(dir, taken.disk),
            None => Ok(()),
        }
    }

    /// Where temporary files go, if there are any.
    pub fn temp_dir(&self) -> Option<&PathBuf> {
        self.spool
            .as_ref()
            .map(|(dir, _)| dir)
            .or(self.kernel.as_ref().and_then(|k| k.spill.as_ref()))
    }

    /// What would fit instead.
    fn hint(&self) -> String {
        let fitting = self.candidates.iter().find(|c| c.fits);
        if let Some(c) = fitting {
            return format!("--form {} takes {}", c.form, Bytes(c.ledger.peak_bytes()));
        }
        let least = self
            .candidates
            .iter()
            .filter(|c| c.refusal.is_none())
            .min_by_key(|c| c.ledger.peak_bytes());
        let least = least.unwrap_or(self.taken());
        let form = if least.form == self.taken().form {
            String::new()
        } else {
            format!(" and --form {}", least.form)
        };
        let features = self.most_features();
        let whole = self.want.features.columns.iter().all(|c| c.width.is_none());
        let fewer = if features > 0 && whole {
            format!(", or choose at most {} with --columns", count(features, "feature"))
        } else {
            String::new()
        };
        let kernel = self.kernel.as_ref().is_some_and(|k| k.route != Route::Pca);
        let other = match randomized::refusal(self.asked) {
            Some(_) if kernel => ", or give -k as a number".to_string(),
            Some(_) => ", or give -k as a number, which --form randomized can find".to_string(),
            None => String::new(),
        };
        let landmarks = match self.kernel.as_ref().map(|k| k.route) {
            Some(Route::Exact) => ", or approximate with --landmarks, which holds no row",
            _ => "",
        };
        format!(
            "allow --memory {}MB{form}{fewer}{other}{landmarks}",
            least.ledger.peak_bytes().div_ceil(1_000_000)
        )
    }

    /// The most features that fit the budget, if their pages are like those of all.
    fn most_features(&self) -> u64 {
        let all = self.want.features.len() as u64;
        let fits = |d: u64| {
            let question = Question {
                n: self.dataset.rows(),
                d,
                asked: self.asked,
                want: &self.want,
                pages: self.pages.share(d, all),
                units: 1,
                spool: None,
                threads: 1,
                max_passes: 1,
                labels: self.labels.as_ref().map(|l| l.planned),
                scored: None,
                kernel: self.kernel.as_ref(),
            };
            let candidates = question.candidates(&self.budget);
            candidates.iter().any(|c| c.fits && (self.auto || c.form == self.taken().form))
        };
        let (mut low, mut high) = (0, all);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// The labels of supervised PCA, and the kernel over them.
#[derive(Debug, Clone)]
pub struct LabelPlan {
    /// What is read.
    pub want: LabelWant,
    /// The kernel.
    pub kernel: LabelKernel,
    /// γ of the rbf kernel.
    pub gamma: Option<f64>,
    /// For each column, whether it counts as a number beside classes.
    pub numeric: Vec<bool>,
    /// What it is planned to hold.
    pub planned: LabelShape,
}

/// Columns of Δ that a plan of kernel supervised PCA reckons with: each takes as much as a column of all rows.
const PLANNED_COLUMNS: u64 = 20;

/// Classes that a plan reckons with, since footers do not tell how many there are.
pub const PLANNED_CLASSES: u64 = 100;

impl LabelPlan {
    fn of(spec: &FitSpec, dataset: &Dataset) -> Result<Option<LabelPlan>> {
        if !spec.method.is_supervised() || spec.label_kernel == Some(LabelKernel::Identity) {
            return Ok(None);
        }
        let misuse = |problem: String| Err(Error::Misuse(problem));
        if spec.label.is_empty() {
            return misuse(format!(
                "--method {} needs labels; name their column with --label",
                spec.method
            ));
        }
        if spec.form == FormChoice::Randomized {
            return misuse(
                "supervised PCA has a primal and a dual form; M = XHΔ is small, so no randomized one is needed".into(),
            );
        }
        if spec.precision == Precision::Mixed {
            return misuse(
                "--precision mixed is for the products of pca; spca has none, leave it out".into(),
            );
        }
        LabelPlan::new(spec, dataset, &spec.label, spec.label_kernel).map(Some)
    }

    /// What a model is told of them.
    pub fn spec(&self) -> LabelSpec {
        let LabelPlan { want, kernel, gamma, numeric, .. } = self;
        LabelSpec {
            columns: want.columns.clone(),
            read: want.read,
            kernel: *kernel,
            gamma: *gamma,
            numeric: numeric.clone(),
        }
    }

    /// The identity kernel, which looks at no label.
    pub fn identity(spec: &FitSpec) -> LabelPlan {
        let want = LabelWant { columns: spec.label.clone(), read: LabelRead::Numbers };
        let planned = LabelShape { r: 0, classes: false, rbf: false, with_variance: false };
        LabelPlan { want, kernel: LabelKernel::Identity, gamma: None, numeric: Vec::new(), planned }
    }

    /// What these columns are as labels.
    pub(super) fn new(
        spec: &FitSpec,
        dataset: &Dataset,
        columns: &[String],
        asked: Option<LabelKernel>,
    ) -> Result<LabelPlan> {
        let misuse = |problem: String| Err(Error::Misuse(problem));
        let mut classes = spec.classes || asked == Some(LabelKernel::Delta);
        for name in columns {
            let kind = dataset.columns.iter().find(|c| c.name == *name).map(|c| &c.kind);
            match kind {
                Some(kind) if labels::is_class(kind) => classes = true,
                Some(Kind::Scalar(_)) | None => {}
                Some(other) => {
                    return misuse(format!(
                        "--label '{name}' is {}; a label is a string, a bool or a number per row",
                        other.describe()
                    ));
                }
            }
        }
        let kernel =
            asked.unwrap_or(if classes { LabelKernel::Delta } else { LabelKernel::Linear });
        let text = |name: &&String| {
            let kind = dataset.columns.iter().find(|c| c.name == **name).map(|c| &c.kind);
            matches!(kind, Some(Kind::Other(_)))
        };
        if let Some(name) = columns.iter().find(text).filter(|_| kernel == LabelKernel::Rbf) {
            return misuse(format!(
                "--label-kernel rbf needs numbers, but label '{name}' is text; use delta"
            ));
        }
        if kernel == LabelKernel::Rbf && spec.classes {
            return misuse(
                "--classes says that labels have no distances, and --label-kernel rbf is about them; leave one out".into(),
            );
        }
        let is_number = |name: &String| {
            let kind = dataset.columns.iter().find(|c| c.name == *name).map(|c| &c.kind);
            !spec.classes && kind.is_some_and(|k| !labels::is_class(k))
        };
        let numeric = columns.iter().map(is_number).collect();
        // Distinct values of an rbf label are classes whose distances count.
        let read = if classes || kernel == LabelKernel::Rbf {
            LabelRead::Classes
        } else {
            LabelRead::Numbers
        };
        let gamma = (kernel == LabelKernel::Rbf)
            .then(|| spec.label_gamma.unwrap_or(1.0 / columns.len() as f64));
        let want = LabelWant { columns: columns.to_vec(), read };
        let rbf = kernel == LabelKernel::Rbf;
        let r = match read {
            // A guess: what is held is asked for again when the labels are known.
            _ if spec.method == Method::Kspca && (rbf || read == LabelRead::Classes) => {
                PLANNED_COLUMNS
            }
            // As many as are factored, or the random features that stand for more.
            _ if rbf => u64::from(spec.label_features).max(EXACT_LABELS as u64),
            LabelRead::Classes => PLANNED_CLASSES,
            LabelRead::Numbers => columns.len() as u64,
        };
        let planned = LabelShape {
            r,
            classes: read == LabelRead::Classes && !rbf,
            rbf,
            with_variance: spec.with_variance,
        };
        Ok(LabelPlan { want, kernel, gamma, numeric, planned })
    }
}

/// True when every number of these features is an f32 number.
fn is_single(features: &Features) -> bool {
    features.columns.iter().all(|c| {
        matches!(c.value.as_str(), "Float32" | "Float16" | "Int8" | "Int16" | "UInt8" | "UInt16")
    })
}

fn check_weight(spec: &FitSpec, dataset: &Dataset) -> Result<()> {
    let Some(name) = &spec.weight else {
        return Ok(());
    };
    let column = dataset.columns.iter().find(|c| c.name == *name);
    match column.map(|c| &c.kind) {
        Some(Kind::Scalar(_)) | None => Ok(()),
        Some(other) => Err(Error::Misuse(format!(
            "--weight '{name}' is {}; weights are one number per row",
            other.describe()
        ))),
    }
}

fn check_precision(spec: &FitSpec, chosen: &Chosen) -> Result<()> {
    if spec.precision == Precision::Exact {
        return Ok(());
    }
    if spec.nulls == Nulls::Mean {
        return Err(Error::Misuse(
            "--precision mixed does not go with --nulls mean; leave one out".into(),
        ));
    }
    let wide =
        chosen.features.columns.iter().find(|c| c.value != "Float32" && c.value != "Float16");
    match wide {
        None => Ok(()),
        Some(c) => Err(Error::Misuse(format!(
            "--precision mixed needs f32 features, but column '{}' is {}",
            c.name, c.value
        ))),
    }
}

/// Prints a plan, and fails if it does not fit.
pub fn run(args: &PlanArgs) -> Result<()> {
    let plan = FitPlan::new(&args.fit)?;
    report::print(&if args.json { report::json::pretty(&as_json(&plan)) } else { as_text(&plan) })?;
    plan.check()
}

fn as_json(plan: &FitPlan) -> serde_json::Value {
    let phase = |p: &Phase| {
        let items: Vec<_> =
            p.items.iter().map(|i| json!({"what": i.what, "bytes": i.bytes})).collect();
        json!({"name": p.name, "bytes": p.bytes(), "items": items})
    };
    let candidate = |c: &Candidate| {
        json!({
            "form": c.form,
            "chosen": c.form == plan.taken().form,
            "peak_bytes": c.ledger.peak_bytes(),
            "disk_bytes": c.disk,
            "passes": {"least": c.passes.0, "most": c.passes.1},
            "threads": c.threads,
            "fits": c.fits,
            "refusal": c.refusal,
        })
    };
    let taken = plan.taken();
    json!({
        "method": plan.method,
        "kernel": plan.kernel.as_ref().map(|k| json!({"name": k.kind, "spilled": k.spill.is_some()})),
        "model_bytes": plan.model_bytes,
        "label": plan.labels.as_ref().map(|l| json!({"columns": l.want.columns, "kernel": l.kernel, "gamma": l.gamma, "most_classes": plan.most_classes})),
        "form": taken.form,
        "reason": plan.reason,
        "candidates": plan.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "n_files": plan.dataset.files.len(),
        "n_rows": plan.dataset.rows(),
        "n_features": plan.want.features.len(),
        "features": plan.want.features.columns,
        "passed_over": plan.chosen.passed_over.iter().map(|(name, why)| json!({"column": name, "reason": why})).collect::<Vec<_>>(),
        "data_bytes": plan.dataset.bytes(),
        "passes": taken.passes.1,
        "threads": taken.threads,
        "peak_bytes": taken.ledger.peak_bytes(),
        "disk_bytes": taken.disk,
        "temp_dir": plan.temp_dir(),
        "memory": {"bytes": plan.budget.bytes.0, "asked": plan.budget.asked},
        "fits": taken.fits,
        "phases": taken.ledger.phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

fn as_text(plan: &FitPlan) -> String {
    let mut page = String::new();
    let groups: usize = plan.dataset.row_groups.iter().map(Vec::len).sum();
    let _ = writeln!(
        page,
        "data      {}, {}, {}",
        count(plan.dataset.files.len() as u64, "file"),
        count(groups as u64, "row group"),
        Bytes(plan.dataset.bytes())
    );
    let _ = writeln!(page, "rows      {}", thousands(plan.dataset.rows()));
    let _ = writeln!(page, "features  {}", chosen_line(&plan.chosen, plan.dataset.columns.len()));
    for line in passed_over_lines(&plan.chosen) {
        let _ = writeln!(page, "          {line}");
    }
    if let Some(scoring) = &plan.scoring {
        let _ = writeln!(
            page,
            "scoring   by {}, {}",
            scoring.label.columns.join(", "),
            scoring.describe()
        );
    }
    if let Some(labels) = &plan.labels {
        let gamma = labels.gamma.map_or_else(String::new, |g| format!(", gamma {g}"));
        let room = match labels.want.read {
            LabelRead::Classes => {
                format!("; there is room for {} classes", thousands(plan.most_classes as u64))
            }
            LabelRead::Numbers => String::new(),
        };
        let _ = writeln!(
            page,
            "label     {}, {} kernel{gamma}{room}",
            labels.want.columns.join(", "),
            labels.kernel
        );
    }
    let taken = plan.taken();
    let _ = writeln!(page, "method    {}, {} form: {}", plan.method, taken.form, plan.reason);
    candidate_lines(plan).iter().for_each(|line| {
        let _ = writeln!(page, "          {line}");
    });
    let _ = writeln!(
        page,
        "passes    {} over {}, {}",
        passes(taken),
        Bytes(plan.dataset.bytes()),
        threads_line(plan)
    );
    if let Some(dir) = plan.temp_dir() {
        let what = if plan.spool.is_some() {
            "a copy cut by features"
        } else {
            "tiles of the kernel matrix"
        };
        let _ = writeln!(
            page,
            "disk      {} in {} for {what}, removed at the end",
            Bytes(taken.disk),
            dir.display()
        );
    }
    if let Some(bytes) = plan.model_bytes {
        let _ =
            writeln!(page, "model     {}: what rows are compared with is part of it", Bytes(bytes));
    }
    let source = if plan.budget.asked { "--memory" } else { "a quarter of this machine" };
    let _ = writeln!(
        page,
        "memory    peak {} of {} ({source})",
        Bytes(taken.ledger.peak_bytes()),
        plan.budget.bytes
    );
    for phase in &taken.ledger.phases {
        let items: Vec<String> =
            phase.items.iter().map(|i| format!("{} {}", i.what, Bytes(i.bytes))).collect();
        let _ = writeln!(
            page,
            "          {}: {} ({})",
            phase.name,
            Bytes(phase.bytes()),
            items.join(", ")
        );
    }
    page
}

/// "1", "2", "2 to 30".
fn passes(candidate: &Candidate) -> String {
    match candidate.passes {
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// A table of the forms, the one taken marked.
fn candidate_lines(plan: &FitPlan) -> Vec<String> {
    let line = |c: &Candidate| {
        let mark = if c.form == plan.taken().form { '→' } else { ' ' };
        let verdict = match &c.refusal {
            Some(_) => "not for this -k",
            None if c.fits => "fits",
            None => "too large",
        };
        let disk = if c.disk > 0 { format!(", {} on disk", Bytes(c.disk)) } else { String::new() };
        let memory = Bytes(c.ledger.peak_bytes()).to_string();
        format!("{mark} {:<10}  {memory:>9}  {:>7}  {verdict}{disk}", c.form.to_string(), passes(c))
    };
    let head = format!("  {:<10}  {:>9}  {:>7}", "form", "memory", "passes");
    std::iter::once(head).chain(plan.candidates.iter().map(line)).collect()
}

/// "64 of 66 columns: x0, x1, … x63".
pub fn chosen_line(chosen: &Chosen, columns: usize) -> String {
    let features = &chosen.features;
    let from = if features.len() == features.columns.len() {
        String::new()
    } else {
        format!("{} in ", count(features.len() as u64, "feature"))
    };
    format!(
        "{from}{} of {}: {}",
        thousands(features.columns.len() as u64),
        count(columns as u64, "column"),
        features.summary()
    )
}

/// What was passed over, grouped by reason.
pub fn passed_over_lines(chosen: &Chosen) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, reason) in &chosen.passed_over {
        match reasons.iter_mut().find(|(r, _)| *r == reason.as_str()) {
            Some((_, names)) => names.push(name.clone()),
            None => reasons.push((reason, vec![name.clone()])),
        }
    }
    reasons.into_iter().map(|(reason, names)| format!("not {} ({reason})", some(&names))).collect()
}

/// "2 threads", and why not more.
pub fn threads_line(plan: &FitPlan) -> String {
    let Candidate { threads, threads_wanted, .. } = *plan.taken();
    if threads < threads_wanted {
        return format!(
            "{} ({threads_wanted} would not fit the memory)",
            count(threads as u64, "thread")
        );
    }
    count(threads as u64, "thread")
}
