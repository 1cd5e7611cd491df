//! `hsic`: how much the features, or a model's scores, depend on labels.

use super::args::{ColumnName, HsicArgs, NameList};
use super::plan::planning;
use super::talk::Talk;
use super::typed::Typed;
use super::{open, print, print_json};
use crate::error::Result;
use crate::fit::KernelOptions;
use crate::hsic::{Hsic, HsicResult};
use crate::model::Model;
use crate::words::{count, five_digits, list};
use serde_json::json;
use std::time::Instant;

/// Computes and prints it.
pub(super) fn run(args: &HsicArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    let started = Instant::now();
    let model = args.model.as_ref().map(Model::load).transpose()?;
    let data = open(&args.data, &args.resources, talk)?;
    let options = options(args, talk)?;
    let plan = planning(&options.labels, talk, || options.plan(&data, model.as_ref()))?;
    let landmarks = args.approximation.landmarks.is_some();
    talk.notes(&typed.without("landmark-choice", "landmarks", landmarks));
    talk.notes(plan.notes());
    let random = args.permutations > 0 || plan.is_random();
    talk.notes(&typed.without("seed", "permutations", random));
    let result = plan.run(talk)?;
    let seconds = started.elapsed().as_secs_f64();
    match args.json {
        true => print_json(&as_json(args, &result, seconds)),
        false => print(&as_text(args, &result)),
    }
}

fn options(args: &HsicArgs, talk: &Talk) -> Result<Hsic> {
    let approximation = args.approximation.approximation();
    Ok(Hsic {
        labels: args.labels.options(NameList::all(&args.label), args.resources.memory, talk)?,
        kernel: KernelOptions { approximation, ..(&args.kernel).into() },
        columns: (&args.columns).into(),
        standardize: args.standardize,
        weight: args.weight.clone().map(|ColumnName(name)| name),
        nulls: args.nulls,
        exact: args.exact,
        permutations: args.permutations,
        seed: args.seed,
        allow_duplicates: args.allow_duplicates,
        resources: args.resources.with_temp_dir(None),
    })
}

fn as_json(args: &HsicArgs, result: &HsicResult, seconds: f64) -> serde_json::Value {
    let label = json!({
        "columns": result.labels,
        "kernel": result.label_kernel,
        "gamma": result.label_gamma,
        "coef0": result.label_coef0,
        "degree": result.label_degree,
        "features": result.label_features,
    });
    json!({
        "hsic": result.hsic,
        "n_rows": result.rows,
        "n_features": result.features,
        "weight": args.weight.as_ref().map(|ColumnName(name)| name),
        "total_weight": result.weight,
        "standardize": args.standardize,
        "kernel": result.kernel,
        "approximation": result.approximation,
        "label": label,
        "model": args.model,
        "permutations": args.permutations,
        "p_value": result.p_value(),
        "shuffled": result.shuffled,
        "seed": args.seed,
        "rows_dropped": result.dropped,
        "seconds": seconds,
    })
}

fn as_text(args: &HsicArgs, result: &HsicResult) -> String {
    let what = if args.model.is_some() { "scores" } else { "features" };
    let mut page = format!(
        "HSIC {}  ({} kernel over {} {what}, {} kernel over {}, {})\n",
        five_digits(result.hsic),
        result.kernel.kind(),
        result.features,
        result.label_kernel,
        list(&result.labels),
        count(result.rows, "row")
    );
    if let Some(p) = result.p_value() {
        let largest = five_digits(result.shuffled.iter().copied().fold(0.0, f64::max));
        let shuffles = args.permutations;
        page += &format!(
            "p = {p:.4}  ({shuffles} shuffles of the labels, the largest HSIC {largest})\n"
        );
    }
    page
}
