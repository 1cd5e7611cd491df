//! `hsic`: how much the features, or a model's scores, depend on labels.
//!
//! With a linear kernel over the features HSIC = ‖M‖² / (n−1)², M = XHΔ, in one pass that holds no row. Other
//! kernels, and permutations, need all rows in memory (8·n·d bytes) and go over their pairs in tiles.

use super::args::{FitSpec, HsicArgs, cores};
use super::kernels::median;
use super::plan::{FitPlan, LabelPlan};
use super::rows;
use crate::accumulate::{Accumulate, ClassLimit, ClassSums, CrossMoment, FeatureMoments, LabelMap};
use crate::budget::{Budget, MemoryPlan, Phase};
use crate::error::{Error, Place, Result};
use crate::kernel::{Kernel, KernelKind};
use crate::model::Model;
use crate::pass::{self, Crew};
use crate::project::Projector;
use crate::report::{self, Talk};
use crate::solve::hsic::{Dependence, RowLabels, linear_traces, permutations};
use crate::solve::supervised::{self, LabelKernel};
use crate::source::{LabelRead, Mapped, ParquetSource, Source, Tally, Want};
use crate::words::{count, five_digits};
use ndarray::{Array2, Axis};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// Computes and prints it.
pub fn run(args: &HsicArgs, talk: Talk) -> Result<()> {
    let started = Instant::now();
    let model = args.model.as_ref().map(|path| Model::load(path)).transpose()?;
    let mut spec = args.spec();
    if let Some(model) = &model {
        spec.columns =
            model.header.features.columns.iter().map(|c| glob::Pattern::escape(&c.name)).collect();
    }
    let plan = FitPlan::new(&spec)?;
    if let Some(model) = &model {
        model.header.features.check(&plan.dataset)?;
    }
    let labels = plan.labels.clone().unwrap_or_else(|| LabelPlan::identity(&spec));
    let question = Question { args, plan: &plan, labels: &labels, model: model.as_ref(), talk };
    let d = question.width();
    args.kernel.check(question.kind())?;
    question.without_effect();
    let (answer, kernel) = question.answer()?;
    let seconds = started.elapsed().as_secs_f64();
    let p = answer.p_value();
    if args.json {
        return report::print(&report::json::pretty(&json!({
            "hsic": answer.hsic,
            "n_rows": answer.rows,
            "n_features": d,
            "kernel": kernel,
            "label": {"columns": labels.want.columns, "kernel": labels.kernel, "gamma": labels.gamma},
            "model": args.model,
            "permutations": args.permutations,
            "p_value": p,
            "shuffled": answer.shuffled,
            "seed": args.seed,
            "rows_dropped": answer.dropped,
            "seconds": seconds,
        })));
    }
    let what = if model.is_some() { "scores" } else { "features" };
    let mut page = format!(
        "HSIC {}  ({} kernel over {d} {what}, {} kernel over {}, {})\n",
        five_digits(answer.hsic),
        question.kind(),
        labels.kernel,
        labels.want.columns.join(", "),
        count(answer.rows, "row")
    );
    if let Some(p) = p {
        let largest = answer.shuffled.iter().copied().fold(0.0, f64::max);
        page += &format!(
            "p = {p:.4}  ({} shuffles of the labels, the largest HSIC {})\n",
            args.permutations,
            five_digits(largest)
        );
    }
    if answer.dropped > 0 {
        talk.say(format!("note: {} dropped for nulls", count(answer.dropped, "row")));
    } else if answer.missing > 0 {
        talk.say(format!(
            "note: the feature's mean put for {}",
            count(answer.missing, "missing value")
        ));
    }
    report::print(&page)
}

struct Question<'a> {
    args: &'a HsicArgs,
    plan: &'a FitPlan,
    labels: &'a LabelPlan,
    model: Option<&'a Model>,
    talk: Talk,
}

struct Answer {
    hsic: f64,
    rows: u64,
    dropped: u64,
    missing: u64,
    shuffled: Vec<f64>,
}

impl Answer {
    /// The share of shuffles that reach the HSIC found, itself among them.
    fn p_value(&self) -> Option<f64> {
        if self.shuffled.is_empty() {
            return None;
        }
        let reach = self.shuffled.iter().filter(|h| **h >= self.hsic).count();
        Some((reach + 1) as f64 / (self.shuffled.len() + 1) as f64)
    }
}

impl Question<'_> {
    /// Features, or scores.
    fn width(&self) -> usize {
        self.model.map_or(self.plan.want.features.len(), Model::n_components)
    }

    fn kind(&self) -> KernelKind {
        self.args.kernel.kernel.unwrap_or_default()
    }

    /// Options that were given and change nothing.
    fn without_effect(&self) {
        let args = self.args;
        let when = |given: bool, note: &str| {
            if given {
                self.talk.say(format!("note: {note}"));
            }
        };
        args.kernel.without_effect(self.kind()).iter().for_each(|note| when(true, note));
        when(
            args.label_gamma.is_some() && self.labels.gamma.is_none(),
            "--label-gamma has no effect without --label-kernel rbf",
        );
        when(
            args.model.is_some() && !args.columns.is_empty(),
            "--columns has no effect with --model, which has features of its own",
        );
        when(
            args.permutations > 0 && self.labels.kernel == LabelKernel::Identity,
            "the identity kernel looks at no label, so shuffling them changes nothing",
        );
    }

    fn answer(&self) -> Result<(Answer, Kernel)> {
        if self.kind() == KernelKind::Linear && self.args.permutations == 0 {
            match self.streamed() {
                // Too many distinct labels to factor K_y: pair by pair, exactly.
                Err(Error::TooManyClasses { .. }) if self.labels.kernel == LabelKernel::Rbf => {}
                result => {
                    return Ok((
                        result?,
                        Kernel::Linear { coef0: self.args.kernel.coef0.unwrap_or(0.0) },
                    ));
                }
            }
        }
        self.in_memory()
    }

    fn source(&self, read: LabelRead) -> Box<dyn Source + '_> {
        let mut want = Want { keep: None, ..self.plan.want.clone() };
        if let Some(model) = self.model {
            want.features = model.header.features.clone();
            want.nulls = model.header.nulls.policy;
        }
        if let Some(labels) = &mut want.labels {
            labels.read = read;
        }
        let rows = ParquetSource::new(&self.plan.dataset, want);
        let Some(model) = self.model else { return Box::new(rows) };
        let projector = Projector::new(model, model.n_components(), 1);
        Box::new(Mapped::new(rows, projector.k(), move |block, place| {
            Ok(projector
                .project(block, place)?
                .scores
                .reversed_axes()
                .as_standard_layout()
                .into_owned())
        }))
    }

    fn progress(&self) -> report::progress::Progress {
        self.talk.progress("hsic", "rows", self.plan.dataset.rows(), self.plan.dataset.bytes())
    }

    /// ‖M‖² over (n−1)², in one pass.
    fn streamed(&self) -> Result<Answer> {
        if self.plan.labels.is_some() {
            self.plan.check()?;
        }
        let (d, threads) = (self.width(), self.plan.threads());
        let source = self.source(self.labels.want.read);
        let (moments, squares, tally) = match (self.labels.kernel, self.labels.want.read) {
            (LabelKernel::Identity, _) => {
                let (sums, tally) =
                    pass::fold(&*source, threads, &self.progress(), || FeatureMoments::new(d))?;
                let moments = sums.finish();
                let squares = moments.squares.sum();
                (moments, squares, tally)
            }
            (_, LabelRead::Numbers) => {
                let map = Arc::new(LabelMap::Linear { columns: self.labels.want.columns.len() });
                let (sums, tally) = pass::fold(&*source, threads, &self.progress(), || {
                    CrossMoment::new(d, map.clone())
                })?;
                let sums = sums.finish();
                (sums.moments, sums.m.iter().map(|m| m * m).sum(), tally)
            }
            (kernel, LabelRead::Classes) => {
                let exact = if kernel == LabelKernel::Rbf {
                    super::supervised::EXACT_LABELS
                } else {
                    usize::MAX
                };
                let limit = ClassLimit {
                    classes: self.plan.most_classes.min(exact),
                    label: self.labels.want.columns.join(", "),
                    hint: "a label that names each row is an id; choose another, or allow more --memory".into(),
                };
                let (sums, tally) = pass::fold(&*source, threads, &self.progress(), || {
                    ClassSums::new(d, limit.clone())
                })?;
                let sums = sums.finish();
                let m = match self.labels.gamma {
                    Some(gamma) => supervised::rbf_over_classes(&sums, gamma, cores())?,
                    None if self.mixes_columns() => {
                        supervised::one_hot(&sums.classes, &self.labels.numeric).t().dot(&sums.m)
                    }
                    None => sums.m.clone(),
                };
                (sums.moments, m.iter().map(|m| m * m).sum(), tally)
            }
        };
        self.enough(moments.rows)?;
        let freedom = moments.weight - 1.0;
        Ok(Answer {
            hsic: squares / (freedom * freedom),
            rows: moments.rows,
            dropped: tally.dropped,
            missing: tally.missing.values().sum(),
            shuffled: Vec::new(),
        })
    }

    /// All rows, pair by pair, for the labels as they are and shuffled.
    fn in_memory(&self) -> Result<(Answer, Kernel)> {
        let (n, d, shuffles) =
            (self.plan.dataset.rows(), self.width() as u64, self.args.permutations);
        let q = self.labels.want.columns.len() as u64;
        let budget = Budget::new(self.args.resources.memory);
        let phase = Phase::new("pairs of rows")
            .hold("all rows", 24u64.saturating_mul(n).saturating_mul(d))
            .hold("labels and row sums", 8 * n * (q + 4))
            .hold(
                "orders of the labels",
                4u64.saturating_mul(n).saturating_mul(shuffles as u64 + 1),
            );
        let ledger = MemoryPlan { phases: vec![phase] };
        ledger.check(&budget, || {
            let all = ledger.peak_bytes().div_ceil(1_000_000);
            format!("allow --memory {all}MB, or take the linear kernel without --permutations, which holds no row")
        })?;
        let read = if self.labels.want.read == LabelRead::Classes
            && self.labels.kernel != LabelKernel::Rbf
        {
            LabelRead::Classes
        } else {
            LabelRead::Numbers
        };
        let (mut x, labels, tally) = self.rows(read)?;
        self.enough(x.nrows() as u64)?;
        let (kernel, _) = self.args.kernel.resolve(
            self.kind(),
            x.ncols(),
            || median(&x, None, self.args.seed),
            self.talk,
        );
        if x.iter().map(|v| v * v).fold(0.0, f64::max) * x.ncols() as f64 == f64::INFINITY {
            let place = Place::file(self.plan.dataset.first_path());
            return Err(Error::data(
                place,
                "values are so large that their squares overflow; scale the columns down",
            ));
        }
        // Centring changes nothing of HSIC for a linear kernel and nothing at all of rbf, and keeps the digits.
        if kernel.is_shift_invariant() || matches!(kernel, Kernel::Linear { .. }) {
            let mean = x.mean_axis(Axis(0)).unwrap_or_default();
            x -= &mean;
        }
        let dependence = Dependence {
            x: &x,
            kernel,
            labels: &labels,
            label_kernel: self.labels.kernel,
            label_gamma: self.labels.gamma.unwrap_or(1.0),
            threads: self.args.resources.threads(),
        };
        let orders = permutations(x.nrows(), shuffles, self.args.seed);
        let factored = matches!(self.labels.kernel, LabelKernel::Delta | LabelKernel::Linear);
        let traces = match kernel {
            Kernel::Linear { .. } if factored => {
                linear_traces(&x, &labels, &orders, dependence.threads)
            }
            _ => dependence.traces(&orders),
        };
        let freedom = x.nrows() as f64 - 1.0;
        let mut hsic = traces.iter().map(|t| t / (freedom * freedom));
        let found = hsic.next().unwrap_or(0.0);
        let (rows, missing) = (x.nrows() as u64, tally.missing.values().sum());
        Ok((
            Answer { hsic: found, rows, dropped: tally.dropped, missing, shuffled: hsic.collect() },
            kernel,
        ))
    }

    /// True when the linear kernel adds up over several columns, some of them classes.
    fn mixes_columns(&self) -> bool {
        self.labels.kernel == LabelKernel::Linear && self.labels.want.columns.len() > 1
    }

    fn enough(&self, rows: u64) -> Result<()> {
        if rows >= 2 {
            return Ok(());
        }
        let place = Place::file(self.plan.dataset.first_path());
        Err(Error::data(
            place,
            format!("{} left, but dependence needs at least 2", count(rows, "row")),
        ))
    }

    fn rows(&self, read: LabelRead) -> Result<(Array2<f64>, RowLabels, Tally)> {
        let crew = Crew { threads: self.plan.threads(), queue: 1 };
        let all = rows::all(&*self.source(read), self.plan.dataset.rows(), crew, &self.progress())?;
        let labels = match all.labels {
            Some(rows::RowLabels::Classes { ids, classes }) if self.mixes_columns() => {
                let rows: Vec<usize> = ids.iter().map(|id| *id as usize).collect();
                RowLabels::Numbers(
                    supervised::one_hot(&classes, &self.labels.numeric).select(Axis(0), &rows),
                )
            }
            Some(rows::RowLabels::Classes { ids, .. }) => RowLabels::Classes(ids),
            Some(rows::RowLabels::Numbers(y)) => RowLabels::Numbers(y),
            None => RowLabels::Numbers(Array2::zeros((0, self.labels.want.columns.len()))),
        };
        Ok((all.x, labels, all.tally))
    }
}

impl HsicArgs {
    /// The columns and labels as a fit would take them.
    fn spec(&self) -> FitSpec {
        let kernel = self.label_kernel;
        FitSpec {
            data: self.data.clone(),
            label: self.label.clone(),
            label_kernel: kernel,
            label_gamma: self.label_gamma,
            classes: self.classes,
            columns: self.columns.clone(),
            exclude: self.exclude.clone(),
            nulls: self.nulls,
            resources: self.resources.clone(),
            ..FitSpec::supervised()
        }
    }
}
