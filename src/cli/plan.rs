//! Asked, then checked: [`FitSpec`] and footers → [`FitPlan`]. No row is read.
//!
//! The plan knows n, d, the passes and every big buffer. Once planned, a fit does not fail on its
//! arguments and its bytes are known. Bytes as formulas, for t threads, d features, b rows a block:
//!
//! | phase | buffer | bytes |
//! |---|---|---|
//! | stream | footers | as parsed, those kept and one more |
//! | | pages being decoded | t × (pages of all columns, from their headers) |
//! | | batches and blocks | t × 24·b·d |
//! | | partial sums | (t + 2) × 8d² (× 6 with `--nulls mean`) |
//! | decompose | matrix, vectors, work area | 32d² |

use super::args::{FitSpec, PlanArgs};
use crate::accumulate::{Accumulate, Covariance, ImputedCovariance};
use crate::budget::{Budget, Bytes, Ledger, Phase};
use crate::error::{Error, Result};
use crate::pass::window;
use crate::report;
use crate::report::text::{count, some, thousands};
use crate::solve::Scaling;
use crate::source::block::Precision;
use crate::source::columns::{Choice, Chosen};
use crate::source::parquet::{DecodeBytes, decode_bytes, units};
use crate::source::{Dataset, Nulls, Want, block_rows, inputs};
use serde_json::json;
use std::fmt::Write;

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
    /// Worker threads that fit the budget.
    pub threads: usize,
    /// Worker threads that were wanted.
    pub threads_wanted: usize,
    /// What workers decode with.
    pub pages: DecodeBytes,
    /// What is held when.
    pub ledger: Ledger,
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
            reserved: spec.weight.iter().cloned().collect(),
        };
        let chosen = choice.resolve(&dataset)?;
        check_weight(spec, &dataset)?;
        check_precision(spec, &chosen)?;
        let want = Want {
            features: chosen.features.clone(),
            weight: spec.weight.clone(),
            keep: None,
            nulls: spec.nulls,
            precision: spec.precision,
            advice: ADVICE,
        };
        let budget = Budget::new(spec.resources.memory);
        let pages = decode_bytes(&dataset, &want)?;
        let units = units(&dataset.files).len();
        let threads_wanted = spec.resources.threads().min(units.max(1));
        let d = want.features.len() as u64;
        let fits = |t: &usize| ledger(*t, pages, d, &want).peak_bytes() <= budget.bytes.0;
        let threads = (1..=threads_wanted).rev().find(fits).unwrap_or(1);
        let scaling = Scaling { center: !spec.no_center, standardize: spec.standardize };
        let ledger = ledger(threads, pages, d, &want);
        Ok(FitPlan { dataset, chosen, want, scaling, threads, threads_wanted, pages, ledger, budget })
    }

    /// Refuses what the budget cannot hold, and says what would fit.
    pub fn check(&self) -> Result<()> {
        self.ledger.check(&self.budget, || {
            let needed = Bytes(self.ledger.peak_bytes().div_ceil(1_000_000) * 1_000_000);
            let features = self.most_features();
            let fewer = if features > 0 {
                format!(", or choose at most {} with --columns", count(features, "feature"))
            } else {
                String::new()
            };
            format!("allow --memory {}MB{fewer}", needed.0 / 1_000_000)
        })
    }

    /// The most features that fit the budget on one thread, if their pages are like those of all.
    fn most_features(&self) -> u64 {
        let all = self.want.features.len() as u64;
        let fits = |d: u64| ledger(1, self.pages.share(d, all), d, &self.want).peak_bytes() <= self.budget.bytes.0;
        let (mut low, mut high) = (0, all);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// Why the form was taken.
    fn reason(&self) -> String {
        let d = self.want.features.len() as u64;
        format!("one {d} × {d} matrix ({}) adds up row by row", Bytes(8 * d * d))
    }
}

/// What d features hold on this many threads.
fn ledger(threads: usize, pages: DecodeBytes, d: u64, want: &Want) -> Ledger {
    let t = threads as u64;
    let rows = block_rows(d as usize) as u64;
    let held = |d: u64, rows: u64| match want.nulls {
        Nulls::Mean => ImputedCovariance::bytes(d, rows),
        _ => Covariance::bytes(d, rows),
    };
    let sums = held(d, 0).saturating_mul(window(threads) as u64 + 1);
    let scratch = held(d, rows) - held(d, 0);
    let mixed = if want.precision == Precision::Mixed { 4 * d * d + 4 * rows * d } else { 0 };
    let stream = Phase::new("streaming")
        .hold(format!("footers and pages of {}", count(t, "worker")), pages.total(threads))
        .hold("batches and blocks", t.saturating_mul(16 * rows * d + scratch + mixed))
        .hold(format!("sums of {d} × {d} products"), sums);
    let decompose = Phase::new("decomposition").hold(format!("{d} × {d} matrix, vectors and work area"), crate::solve::bytes(d));
    Ledger { phases: vec![stream, decompose] }
}

fn check_weight(spec: &FitSpec, dataset: &Dataset) -> Result<()> {
    use crate::source::footer::Kind;
    let Some(name) = &spec.weight else {
        return Ok(());
    };
    let column = dataset.columns.iter().find(|c| c.name == *name);
    match column.map(|c| &c.kind) {
        Some(Kind::Scalar(_)) | None => Ok(()),
        Some(other) => Err(Error::Misuse(format!("--weight '{name}' is {}; weights are one number per row", other.describe()))),
    }
}

fn check_precision(spec: &FitSpec, chosen: &Chosen) -> Result<()> {
    if spec.precision == Precision::Exact {
        return Ok(());
    }
    if spec.nulls == Nulls::Mean {
        return Err(Error::Misuse("--precision mixed does not go with --nulls mean; leave one out".into()));
    }
    let wide = chosen.features.columns.iter().find(|c| c.value != "Float32" && c.value != "Float16");
    match wide {
        None => Ok(()),
        Some(c) => Err(Error::Misuse(format!("--precision mixed needs f32 features, but column '{}' is {}", c.name, c.value))),
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
        let items: Vec<_> = p.items.iter().map(|i| json!({"what": i.what, "bytes": i.bytes})).collect();
        json!({"name": p.name, "bytes": p.bytes(), "items": items})
    };
    json!({
        "method": "pca",
        "form": "primal",
        "reason": plan.reason(),
        "n_files": plan.dataset.files.len(),
        "n_rows": plan.dataset.rows(),
        "n_features": plan.want.features.len(),
        "features": plan.want.features.columns,
        "passed_over": plan.chosen.passed_over.iter().map(|(name, why)| json!({"column": name, "reason": why})).collect::<Vec<_>>(),
        "data_bytes": plan.dataset.bytes(),
        "passes": 1,
        "threads": plan.threads,
        "peak_bytes": plan.ledger.peak_bytes(),
        "memory": {"bytes": plan.budget.bytes.0, "asked": plan.budget.asked},
        "fits": plan.ledger.peak_bytes() <= plan.budget.bytes.0,
        "phases": plan.ledger.phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

fn as_text(plan: &FitPlan) -> String {
    let mut page = String::new();
    let groups: usize = plan.dataset.files.iter().map(|f| f.row_groups.len()).sum();
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
    let _ = writeln!(page, "method    pca, primal form: {}", plan.reason());
    let _ = writeln!(page, "passes    1 over {}, {}", Bytes(plan.dataset.bytes()), threads_line(plan));
    let source = if plan.budget.asked { "--memory" } else { "a quarter of this machine" };
    let _ = writeln!(page, "memory    peak {} of {} ({source})", Bytes(plan.ledger.peak_bytes()), plan.budget.bytes);
    for phase in &plan.ledger.phases {
        let items: Vec<String> = phase.items.iter().map(|i| format!("{} {}", i.what, Bytes(i.bytes))).collect();
        let _ = writeln!(page, "          {}: {} ({})", phase.name, Bytes(phase.bytes()), items.join(", "));
    }
    page
}

/// "64 of 66 columns: x0, x1, … x63".
pub fn chosen_line(chosen: &Chosen, columns: usize) -> String {
    let features = &chosen.features;
    let from = if features.len() == features.columns.len() {
        String::new()
    } else {
        format!("{} in ", count(features.len() as u64, "feature"))
    };
    format!("{from}{} of {}: {}", thousands(features.columns.len() as u64), count(columns as u64, "column"), features.summary())
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
    if plan.threads < plan.threads_wanted {
        return format!("{} ({} would not fit the memory)", count(plan.threads as u64, "thread"), plan.threads_wanted);
    }
    count(plan.threads as u64, "thread")
}
