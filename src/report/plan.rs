//! A plan as a page and as JSON: what a fit would do and hold, from metadata alone.
//!
//! Options in the page are marked as in notes ([`crate::error::phrase`]): each front end writes
//! them in its own way.

use crate::budget::{Bytes, Phase};
use crate::fit::{FormCost, Plan};
use crate::source::LabelRead;
use crate::words::{constant, count, one_line, some, thousands};
use serde_json::{Value, json};
use std::fmt::Write;

impl Plan<'_> {
    /// What people read before a fit; options are marked for [`crate::phrase`].
    pub fn page(&self) -> String {
        page(self)
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        plan_json(self)
    }
}

fn plan_json(plan: &Plan<'_>) -> Value {
    let taken = plan.taken();
    let kernel = plan
        .problem
        .kernel
        .as_ref()
        .map(|k| json!({"name": k.kind, "spilled": plan.work.kernel.is_some_and(|w| w.spill)}));
    let label = plan.problem.labels.read().map(|l| {
        json!({
            "columns": l.request.columns,
            "kernel": l.kernel,
            "gamma": l.gamma(),
            "coef0": l.coef0(),
            "degree": l.degree(),
            "most_classes": plan.most_classes,
        })
    });
    let passed_over = plan.columns.passed_over.iter();
    let passed_over = passed_over.map(|(name, why)| json!({"column": name, "reason": why}));
    json!({
        "method": plan.problem.method,
        "kernel": kernel,
        "model_bytes": plan.model_bytes(),
        "label": label,
        "basis": plan.problem.basis.as_ref().map(|b| b.report()),
        "form": taken.form,
        "reason": plan.reason(),
        "candidates": plan.forms().iter().map(|c| form_json(c, taken)).collect::<Vec<_>>(),
        "n_files": plan.table.inputs().len(),
        "n_rows": plan.table.rows(),
        "n_features": plan.features().len(),
        "features": plan.features().columns,
        "passed_over": passed_over.collect::<Vec<_>>(),
        "data_bytes": plan.table.bytes(),
        "passes": taken.passes.1,
        "threads": taken.threads,
        "peak_bytes": taken.memory.peak_bytes(),
        "disk_bytes": taken.disk,
        "temp_dir": plan.temp_dir(),
        "memory": {"bytes": plan.budget().bytes.0, "asked": plan.budget().asked},
        "fits": taken.fits,
        "phases": taken.memory.phases.iter().map(phase_json).collect::<Vec<_>>(),
    })
}

fn form_json(cost: &FormCost, taken: &FormCost) -> Value {
    json!({
        "form": cost.form,
        "chosen": cost.form == taken.form,
        "peak_bytes": cost.memory.peak_bytes(),
        "disk_bytes": cost.disk,
        "passes": {"least": cost.passes.0, "most": cost.passes.1},
        "threads": cost.threads,
        "fits": cost.fits,
        "refusal": cost.refusal,
    })
}

fn phase_json(phase: &Phase) -> Value {
    let items = phase.items.iter().map(|i| json!({"what": i.what, "bytes": i.bytes}));
    json!({"name": phase.name, "bytes": phase.bytes(), "items": items.collect::<Vec<_>>()})
}

fn page(plan: &Plan<'_>) -> String {
    let mut page = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(page, "{name:<10}{}", one_line(&text));
    };
    let bytes = Bytes(plan.table.bytes());
    line("data", format!("{}, {bytes}", plan.table.describe()));
    line("rows", thousands(plan.table.rows()));
    line("features", columns_line(plan));
    passed_over_lines(plan).into_iter().for_each(|text| line("", text));
    if let Some(scoring) = &plan.problem.scoring {
        let by = scoring.label.columns.join(", ");
        line("scoring", format!("by {by}, {}", scoring.describe()));
    }
    if let Some(text) = label_line(plan) {
        line("label", text);
    }
    let (taken, method) = (plan.taken(), plan.problem.method);
    line("method", format!("{method}, {} form: {}", taken.form, plan.reason()));
    form_lines(plan).into_iter().for_each(|text| line("", text));
    line("passes", format!("{} over {bytes}, {}", passes(taken), threads_line(plan)));
    if let Some(dir) = plan.temp_dir() {
        let what = match plan.spool() {
            Some(_) => "a copy cut by features",
            None => "tiles of the kernel matrix",
        };
        let (disk, dir) = (Bytes(taken.disk), dir.display());
        line("disk", format!("{disk} in {dir} for {what}, removed at the end"));
    }
    if let Some(bytes) = plan.model_bytes() {
        let bytes = Bytes(bytes);
        line("model", format!("{bytes}: what rows are compared with is part of it"));
    }
    let budget = plan.budget();
    let source = if budget.asked { "⟦memory⟧" } else { "a quarter of this machine" };
    let peak = Bytes(taken.memory.peak_bytes());
    line("memory", format!("peak {peak} of {} ({source})", budget.bytes));
    for phase in &taken.memory.phases {
        let items: Vec<String> =
            phase.items.iter().map(|i| format!("{} {}", i.what, Bytes(i.bytes))).collect();
        line("", format!("{}: {} ({})", phase.name, Bytes(phase.bytes()), items.join(", ")));
    }
    page
}

fn label_line(plan: &Plan<'_>) -> Option<String> {
    let labels = plan.problem.labels.read()?;
    let mut constants =
        labels.gamma().map_or_else(String::new, |g| format!(", gamma {}", constant(g)));
    if let (Some(c), Some(p)) = (labels.coef0(), labels.degree()) {
        constants += &format!(", coef0 {c}, degree {p}");
    }
    let room = match labels.request.read {
        LabelRead::Classes => {
            format!("; there is room for {} classes", thousands(plan.most_classes as u64))
        }
        LabelRead::Numbers | LabelRead::UnitNumbers => String::new(),
    };
    Some(format!("{}, {} kernel{constants}{room}", labels.name(), labels.kernel))
}

/// "1", "2", "2 to 30".
fn passes(cost: &FormCost) -> String {
    match cost.passes {
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// A table of the forms, the one taken marked.
fn form_lines(plan: &Plan<'_>) -> Vec<String> {
    let line = |c: &FormCost| {
        let mark = if c.form == plan.taken().form { '→' } else { ' ' };
        let verdict = match &c.refusal {
            Some(_) => "not for these ⟦components⟧",
            None if c.fits => "fits",
            None => "too large",
        };
        let disk = match c.disk {
            0 => String::new(),
            bytes => format!(", {} on disk", Bytes(bytes)),
        };
        let memory = Bytes(c.memory.peak_bytes()).to_string();
        format!("{mark} {:<10}  {memory:>9}  {:>7}  {verdict}{disk}", c.form.to_string(), passes(c))
    };
    let head = format!("  {:<10}  {:>9}  {:>7}", "form", "memory", "passes");
    std::iter::once(head).chain(plan.forms().iter().map(line)).collect()
}

/// "64 of 66 columns: x0, x1, … x63".
pub(crate) fn columns_line(plan: &Plan<'_>) -> String {
    let features = &plan.columns.features;
    let from = match features.len() == features.columns.len() {
        true => String::new(),
        false => format!("{} in ", count(features.len() as u64, "feature")),
    };
    let taken = thousands(features.columns.len() as u64);
    let all = count(plan.table.columns().len() as u64, "column");
    format!("{from}{taken} of {all}: {}", features.summary())
}

/// What was passed over, grouped by reason.
pub(crate) fn passed_over_lines(plan: &Plan<'_>) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, reason) in &plan.columns.passed_over {
        match reasons.iter_mut().find(|(r, _)| *r == reason.as_str()) {
            Some((_, names)) => names.push(name.clone()),
            None => reasons.push((reason, vec![name.clone()])),
        }
    }
    reasons.into_iter().map(|(reason, names)| format!("not {} ({reason})", some(&names))).collect()
}

/// "2 threads", and why not more.
pub(crate) fn threads_line(plan: &Plan<'_>) -> String {
    let FormCost { threads, threads_wanted, .. } = *plan.taken();
    let all = count(threads as u64, "thread");
    match threads < threads_wanted {
        true => format!("{all} ({threads_wanted} would not fit the memory)"),
        false => all,
    }
}
