//! `fit`: data → a model file, directly or by way of a state.

use super::args::{FitArgs, same_file, waiting};
use super::passes::PassFiles;
use super::plan::planning;
use super::scan::describe;
use super::talk::Talk;
use super::typed::Typed;
use super::{open, print, print_json, writing};
use crate::budget::{Budget, Bytes};
use crate::error::{Error, Result};
use crate::fit::{ColumnOptions, Fit, Plan};
use crate::model::{InputEntry, Model};
use crate::report::plan::{columns_line, passed_over_lines, threads_line};
use crate::sink::write_table;
use crate::solve::supervised::LabelKernel;
use crate::source::inputs::{check_output, is_parquet};
use crate::source::{Dataset, Precision, Table};
use crate::staged::check_file;
use crate::state::{Checkpoint, Scan, State, StateFile, Statistics};
use crate::words::{count, five_digits, path_text};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs a fit and writes the model.
pub(super) fn run(args: &FitArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    let started = Instant::now();
    let fit = args.fit.fit(talk)?;
    check_file(&args.output)?;
    check_scores(args.scores_out.as_deref(), &fit, &args.output)?;
    let timed = args.checkpoint.checkpoint.is_some();
    talk.notes(&typed.without("checkpoint-seconds", "checkpoint", timed));
    let dataset = open(&args.fit.data, &args.fit.resources, talk)?;
    let results = [Some(&args.output), args.state.as_ref(), args.checkpoint.checkpoint.as_ref()];
    for out in results.into_iter().flatten() {
        // Only what ends like data is found by the next reading of a directory.
        let data: &[OsString] = if is_parquet(out) { &args.fit.data } else { &[] };
        dataset.refuse_output(data, out)?;
    }
    args.scores_out.iter().try_for_each(|out| dataset.refuse_output(&args.fit.data, out))?;
    let (model, checkpoint) = match args.state.is_some() || args.checkpoint.checkpoint.is_some() {
        true => by_state(args, &fit, dataset, talk, typed)?,
        false => {
            let plan = planned(&fit, &dataset, talk, typed)?;
            plan.check()?;
            (ran(&plan, &dataset, args.passes.as_deref(), talk)?, None)
        }
    };
    write_scores(&model, args.scores_out.as_deref(), talk)?;
    talk.during(writing(&args.output), || model.save(&args.output))?;
    checkpoint.iter().for_each(Checkpoint::remove);
    let seconds = started.elapsed().as_secs_f64();
    tell_saved(&model, &args.output, Some(seconds), talk);
    if !args.json {
        return Ok(());
    }
    let mut said = summary(&model, &args.output);
    said["seconds"] = json!(seconds);
    print_json(&said)
}

/// The model of a plan; with `--passes` of passes that others make, the next of which is printed.
fn ran(plan: &Plan<'_>, data: &Dataset, passes: Option<&Path>, talk: &Talk) -> Result<Model> {
    let Some(dir) = passes else { return plan.run(talk) };
    let passes = PassFiles { dir, inputs: InputEntry::of(data), talk };
    let model = plan.run_by(&passes, talk);
    if let Err(Error::PassWanted { operand, .. }) = &model {
        print(&path_text(operand))?;
    }
    model
}

/// `--scores-out` is a place of its own that can be written.
pub(super) fn check_scores(scores: Option<&Path>, fit: &Fit, model: &Path) -> Result<()> {
    let Some(scores) = scores else { return Ok(()) };
    if fit.scoring.is_none() {
        return Error::misuse("--scores-out needs a label to score by; name it with --score-by");
    }
    if same_file(scores, model) {
        return Error::misuse("--scores-out would be replaced by the model; name another");
    }
    check_output(scores)?;
    check_file(scores)
}

/// `--scores-out`: the score of every feature.
pub(super) fn write_scores(model: &Model, path: Option<&Path>, talk: &Talk) -> Result<()> {
    let (Some(path), Some(table)) = (path, model.feature_score_table()?) else { return Ok(()) };
    write_table(&table, path)?;
    let scored = count(table.num_rows() as u64, "feature");
    talk.say(format!("{}: the scores of {scored}", path.display()));
    Ok(())
}

/// The plan of a fit, announced, with what should be known before it runs.
fn planned<'t>(fit: &Fit, data: &'t Dataset, talk: &Talk, typed: &Typed) -> Result<Plan<'t>> {
    let plan = planning(&fit.labels, talk, || fit.plan(data))?;
    announce(&plan, data, talk);
    talk.notes(plan.notes());
    talk.notes(&typed.notes(&plan.unused).collect::<Vec<_>>());
    Ok(plan)
}

/// `--state` and `--checkpoint`: a scan, then a model of the state.
fn by_state(
    args: &FitArgs,
    fit: &Fit,
    dataset: Dataset,
    talk: &Talk,
    typed: &Typed,
) -> Result<(Model, Option<Checkpoint>)> {
    let checkpoint = check_by_state(args, fit)?;
    // Until it is written back: what another run adds meanwhile would be lost.
    let lock = |path: &PathBuf| StateFile::lock(path, waiting(args.no_wait), talk);
    let file = args.state.as_ref().map(lock).transpose()?;
    let old = file.as_ref().map(StateFile::load).transpose()?.flatten();
    let fit = &match &old {
        None => fit.with_names(&dataset)?,
        Some(state) => state.fit_of_more(fit, args.fit.nulls, &dataset)?,
    };
    // The state has the columns that were chosen, and no others to choose among.
    let of_state = Fit { columns: ColumnOptions::default(), ..fit.clone() };
    if let Some(state) = &old {
        state.check_fit(&of_state)?;
    }
    let state = match (new_data(args, dataset, old.as_ref(), talk)?, old) {
        (None, Some(state)) => state,
        (None, None) => return Err(Error::Internal("there is no data and no state".into())),
        (Some(dataset), old) => {
            // A state has the last word on copies.
            let allowing = Fit { allow_duplicates: true, ..fit.clone() };
            planned(&allowing, &dataset, talk, typed)?;
            let passed_over = old.as_ref().and_then(|s| s.columns_passed_over(fit, &dataset));
            talk.notes(passed_over.as_slice());
            let scan = added(args, fit, old.as_ref()).plan(&dataset)?;
            scan.check_fit(&of_state)?;
            scan.run_onto(old, checkpoint.as_ref(), talk)?
        }
    };
    if let (Some(file), Some(path)) = (file, &args.state) {
        file.save(&state)?;
        talk.say(format!("{}: {}", path.display(), describe(&state)));
    }
    Ok((state.solve(&of_state, talk)?, checkpoint))
}

/// Refuses what a state cannot give, and places that are none for it; the checkpoint, if there is
/// to be one.
fn check_by_state(args: &FitArgs, fit: &Fit) -> Result<Option<Checkpoint>> {
    if fit.basis.is_some() {
        return Error::misuse("--basis does not go with --state and --checkpoint");
    }
    if fit.precision == Precision::Mixed {
        return Error::misuse("--precision mixed does not go with --state and --checkpoint");
    }
    if args.state.as_ref().is_some_and(|state| same_file(state, &args.output)) {
        return Error::misuse("--state would be replaced by its model; name another -o");
    }
    args.state.iter().try_for_each(|state| check_file(state))?;
    let kept = args.state.iter().map(PathBuf::as_path);
    let results: Vec<&Path> = kept.chain([args.output.as_path()]).collect();
    args.checkpoint.apart_from(&results)
}

/// The scan of rows that are new.
fn added(args: &FitArgs, fit: &Fit, old: Option<&State>) -> Scan {
    match (old, &args.state) {
        (Some(state), _) => state.scan_of_more(fit),
        // A state that is kept has everything; one that is not, what the model needs.
        (None, Some(_)) => Scan::of_fit(fit, Statistics::All),
        (None, None) => Scan::for_fit(fit),
    }
}

/// The files that a state does not have; `None` when it has all of them.
fn new_data(
    args: &FitArgs,
    dataset: Dataset,
    old: Option<&State>,
    talk: &Talk,
) -> Result<Option<Dataset>> {
    let Some(state) = old else { return Ok(Some(dataset)) };
    let new = state.new_inputs(&InputEntry::of(&dataset), args.skip_known, talk)?;
    if new.is_empty() {
        return Ok(None);
    }
    dataset.only(&new, &Budget::new(args.fit.resources.memory)).map(Some)
}

/// What is about to be read.
pub(super) fn announce(plan: &Plan<'_>, data: &Dataset, talk: &Talk) {
    talk.say(format!(
        "{} in {}, {}; {}",
        count(data.rows(), "row"),
        count(data.inputs().len() as u64, "file"),
        Bytes(data.bytes()),
        threads_line(plan)
    ));
    talk.say(format!("features: {}", columns_line(plan)));
    passed_over_lines(plan).iter().for_each(|line| talk.say(format!("  {line}")));
}

/// "model.safetensors: 10 components explaining 95 % of the variance, 4,000 rows in 2.81 s".
pub(super) fn tell_saved(model: &Model, path: &Path, seconds: Option<f64>, talk: &Talk) {
    let components = count(model.n_components() as u64, "component");
    let rows = count(model.header.n_rows, "row");
    let seconds = seconds.map_or_else(String::new, |s| format!(" in {s:.2} s"));
    let path = path.display();
    talk.say(format!("{path}: {components} {}, {rows}{seconds}", achievement(model)));
}

/// What `--json` tells of a model.
pub(super) fn summary(model: &Model, path: &Path) -> serde_json::Value {
    json!({
        "model": path_text(path),
        "n_rows": model.header.n_rows,
        "n_features": model.n_features(),
        "n_components": model.n_components(),
        "form": model.header.form,
        "explained_variance_ratio": model.explained_variance_ratio(),
        "variance_kind": model.variance_kind(),
        "hsic": model.header.hsic,
        "label": model.header.label,
        "scoring": model.header.selection.scoring,
        "basis": model.header.basis,
        "certificate": model.header.certificate,
        "rows_dropped": model.header.nulls.rows_dropped,
        "missing": model.header.nulls.missing,
        "left_out": model.header.left_out,
        "rounded": model.header.rounded,
    })
}

/// "explaining 95 % of the variance", "carrying 99 % of the dependence on the labels".
fn achievement(model: &Model) -> String {
    let percent = |shares: &[f64]| 100.0 * shares.iter().sum::<f64>();
    match (&model.header.label, model.explained_variance_ratio()) {
        (Some(label), _) if label.kernel != LabelKernel::Identity => {
            let hsic = five_digits(model.header.hsic.unwrap_or(0.0));
            let about = if label.features.is_some() { "about " } else { "" };
            let share = percent(&label.hsic_share);
            format!("carrying {share:.2} % of the dependence on the labels (HSIC {about}{hsic})")
        }
        (_, ratio) => {
            let kernel = model.header.kernel.as_ref();
            let what = match kernel.is_some_and(|k| k.approximation.is_some()) {
                true => "approximated variance",
                false => model.variance_kind().words(),
            };
            format!("explaining {:.2} % of the {what}", percent(&ratio.unwrap_or_default()))
        }
    }
}
