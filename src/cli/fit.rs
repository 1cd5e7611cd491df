//! `fit`: plan → one pass → decomposition → model file.

use super::args::{FitArgs, FitSpec, cores};
use super::plan::{FitPlan, chosen_line, passed_over_lines, threads_line};
use crate::accumulate::{Accumulate, CoMoment, Covariance, ImputedCovariance};
use crate::budget::Bytes;
use crate::error::{Error, Place, Result};
use crate::model::{LedgerEntry, Model, Provenance};
use crate::pass;
use crate::report::text::{count, some, thousands};
use crate::report::{self, Talk};
use crate::sink::staged::check_file;
use crate::solve::rules::Components;
use crate::solve::solve;
use crate::source::{Nulls, ParquetSource, Tally};
use serde_json::json;
use std::time::Instant;

/// Runs a fit and writes the model.
pub fn run(args: &FitArgs, talk: Talk) -> Result<()> {
    let started = Instant::now();
    check_file(&args.output)?;
    let plan = FitPlan::new(&args.fit)?;
    plan.dataset.refuse_output(&[], &args.output)?;
    announce(&plan, talk);
    plan.check()?;
    let model = fit(&plan, &args.fit, talk)?;
    model.save(&args.output)?;
    let seconds = started.elapsed().as_secs_f64();
    talk.say(format!(
        "{}: {} explaining {:.2} % of the variance, {} in {seconds:.2} s",
        args.output.display(),
        count(model.n_components() as u64, "component"),
        100.0 * model.explained_variance_ratio().iter().sum::<f64>(),
        count(model.header.n_rows, "row"),
    ));
    if args.json {
        report::print(&report::json::pretty(&json!({
            "model": args.output,
            "n_rows": model.header.n_rows,
            "n_features": model.n_features(),
            "n_components": model.n_components(),
            "explained_variance_ratio": model.explained_variance_ratio(),
            "rows_dropped": model.header.nulls.rows_dropped,
            "missing": model.header.nulls.missing,
            "left_out": model.header.left_out,
            "rounded": model.header.rounded,
            "seconds": seconds,
        })))?;
    }
    Ok(())
}

fn announce(plan: &FitPlan, talk: Talk) {
    talk.say(format!(
        "{} in {}, {}; {}",
        count(plan.dataset.rows(), "row"),
        count(plan.dataset.files.len() as u64, "file"),
        Bytes(plan.dataset.bytes()),
        threads_line(plan)
    ));
    talk.say(format!("features: {}", chosen_line(&plan.chosen, plan.dataset.columns.len())));
    passed_over_lines(&plan.chosen).iter().for_each(|line| talk.say(format!("  {line}")));
}

/// The pass and the decomposition.
pub fn fit(plan: &FitPlan, spec: &FitSpec, talk: Talk) -> Result<Model> {
    if plan.dataset.rows() == 0 {
        return Err(Error::data(Place::file(plan.dataset.first_path()), "there are no rows to fit"));
    }
    // What the footers took while they were looked at.
    crate::budget::release_freed_memory();
    let source = ParquetSource::new(&plan.dataset, plan.want.clone());
    let (sums, tally) = {
        let progress = talk.progress("fit", plan.dataset.rows(), plan.dataset.bytes());
        let d = plan.want.features.len();
        match plan.want.nulls {
            Nulls::Mean => finish(pass::fold(&source, plan.threads, &progress, || ImputedCovariance::new(d))?),
            _ => finish(pass::fold(&source, plan.threads, &progress, || Covariance::new(d))?),
        }
    };
    drop(source);
    crate::budget::release_freed_memory();
    check_sums(plan, &sums, &tally)?;
    tell(plan, &tally, talk);
    let (moments, solution) = solve(sums, plan.scaling, spec.components, cores())?;
    let from = Provenance {
        columns: plan.want.features.clone(),
        asked: spec.components,
        scaling: plan.scaling,
        nulls: plan.want.nulls,
        weight: plan.want.weight.clone(),
        precision: plan.want.precision,
        ledger: LedgerEntry::of(&plan.dataset),
        tally,
    };
    let model = Model::new(&moments, solution, from);
    if model.n_components() == 0 {
        let problem = "every feature is constant (or so small that its squares vanish): there is no variance to decompose";
        return Err(Error::data(
            Place::file(plan.dataset.first_path()),
            format!("{problem}; choose other columns or scale them"),
        ));
    }
    tell_model(&model, spec, talk);
    Ok(model)
}

fn finish<A: Accumulate<Output = CoMoment>>((sums, tally): (A, Tally)) -> (CoMoment, Tally) {
    (sums.finish(), tally)
}

/// Sums that no model can be made of.
fn check_sums(plan: &FitPlan, sums: &CoMoment, tally: &Tally) -> Result<()> {
    let refuse = |problem: String| Err(Error::data(Place::file(plan.dataset.first_path()), problem));
    let name = |j: usize| plan.want.features.name(j);
    let moments = &sums.moments;
    if let Some(j) = moments.mean.iter().position(|m| m.is_nan()) {
        return refuse(format!("column '{}' is null in every row and has no mean; leave it out with --exclude", name(j)));
    }
    if moments.rows < 2 {
        let dropped = match tally.missing.iter().max_by_key(|(_, n)| **n) {
            Some((j, n)) if tally.dropped > 0 => {
                format!(
                    " ({} dropped for nulls, {} of them in column '{}')",
                    count(tally.dropped, "row"),
                    thousands(*n),
                    name(*j as usize)
                )
            }
            _ => String::new(),
        };
        return refuse(format!("{} left{dropped}, but a variance needs at least 2", count(moments.rows, "row")));
    }
    if let Some(weight) = plan.want.weight.as_ref().filter(|_| moments.weight <= 1.0) {
        return refuse(format!(
            "the weights in '{weight}' sum to {}, but they are frequencies (3 means three equal rows) and must sum to more than 1; scale them to sum to the number of rows",
            moments.weight
        ));
    }
    let squares = sums.s.diag();
    // The trace and the uncentred squares must be finite too.
    let reach = |j: usize| squares[j] + moments.weight * moments.mean[j] * moments.mean[j];
    let total: f64 = (0..squares.len()).map(reach).sum();
    if !total.is_finite() || !sums.s.iter().all(|v| v.is_finite()) {
        let largest = (0..squares.len()).max_by(|a, b| reach(*a).total_cmp(&reach(*b))).unwrap_or(0);
        return refuse(format!("column '{}' has values so large that their squares overflow; scale it down", name(largest)));
    }
    let lost = |s: &f64| *s > 0.0 && *s < f64::MIN_POSITIVE / f64::EPSILON;
    if let Some(j) = squares.iter().position(lost) {
        return refuse(format!("column '{}' has values so small that their squares lose digits; scale it up", name(j)));
    }
    Ok(())
}

/// Nothing is lost without a line that says so.
fn tell(plan: &FitPlan, tally: &Tally, talk: Talk) {
    let named = |counts: &std::collections::BTreeMap<u32, u64>| {
        let list: Vec<String> =
            counts.iter().map(|(j, n)| format!("{} ({})", plan.want.features.name(*j as usize), thousands(*n))).collect();
        some(&list)
    };
    if !tally.missing.is_empty() {
        let cells = count(tally.missing.values().sum(), "missing value");
        let done = match plan.want.nulls {
            Nulls::Drop => format!("{} of {} dropped for", count(tally.dropped, "row"), thousands(tally.rows)),
            _ => "the feature's mean put for".to_string(),
        };
        talk.say(format!("note: {done} {cells}: {}", named(&tally.missing)));
    }
    if !tally.rounded.is_empty() {
        talk.say(format!("note: numbers beyond 2^53 were rounded to the nearest double: {}", named(&tally.rounded)));
    }
}

fn tell_model(model: &Model, spec: &FitSpec, talk: Talk) {
    let header = &model.header;
    if !header.left_out.is_empty() {
        talk.say(format!("note: constant, so left out of the standardized features: {}", some(&header.left_out)));
    }
    if let Components::Count(asked) = spec.components
        && asked > model.n_components()
    {
        talk.say(format!(
            "note: kept {} of {asked} components: the data has rank {} ({} × {})",
            model.n_components(),
            header.rank,
            count(header.n_rows, "row"),
            count(model.n_features() as u64, "feature")
        ));
    }
    if spec.components == Components::All && header.rank < model.n_features() {
        talk.say(format!(
            "note: rank {} of {}: the other directions vary by no more than rounding",
            header.rank,
            count(model.n_features() as u64, "feature")
        ));
    }
    if let Some(error) = header.certificate.mixed_error {
        talk.say(format!("note: products in f32, largest relative error of those checked {error:.1e}"));
    }
}
