//! `solve`: a state → a model, or a directory of them → a directory of models.

use super::args::SolveArgs;
use super::fit::{check_scores, summary, tell_saved, write_scores};
use super::talk::Talk;
use super::typed::Typed;
use super::{print_json, writing};
use crate::cli::args::same_file;
use crate::error::{Error, Result};
use crate::fit::Fit;
use crate::fit::no_effect::{given_notes, labels};
use crate::listen::{Listener, Quiet, Stage, Watch};
use crate::model::Model;
use crate::note::Note;
use crate::solve::rules::Components;
use crate::solve::scoring::Keep;
use crate::staged::{StagedDir, check_dir, check_file};
use crate::state::{FoldChoice, State};
use crate::words::{count, five_digits};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &SolveArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    if same_file(&args.state, &args.output) {
        return Error::misuse(format!(
            "{} would be replaced by its model; name another -o",
            args.state.display()
        ));
    }
    let fit = args.fit()?;
    talk.notes(&given_notes(&labels(&fit)).collect::<Vec<_>>());
    talk.notes(&typed.without("score", "score-by", fit.scoring.is_some()));
    if args.state.is_dir() {
        if args.scores_out.is_some() {
            return Error::misuse(
                "--scores-out is of one state; each model of a directory has its scores inside \
                 (inspect --json)",
            );
        }
        return directory(args, &fit, talk);
    }
    check_file(&args.output)?;
    check_scores(args.scores_out.as_deref(), &fit, &args.output)?;
    if args.scores_out.as_ref().is_some_and(|out| same_file(out, &args.state)) {
        return Error::misuse("--scores-out would replace the state; name another");
    }
    let state = State::load(&args.state)?;
    let (fit, choice) = by_folds(&state, args, fit, talk)?;
    let model = state.solve(&fit, talk)?;
    write_scores(&model, args.scores_out.as_deref(), talk)?;
    talk.during(writing(&args.output), || model.save(&args.output))?;
    tell_saved(&model, &args.output, None, talk);
    if !args.json {
        return Ok(());
    }
    let mut said = summary(&model, &args.output);
    said["folds"] = json!(choice.map(|c| json!({"best": c.best, "tried": c.tried})));
    print_json(&said)
}

/// An error about one of several states names it.
pub(super) fn within(path: &Path, error: Error) -> Error {
    match error {
        Error::Misuse(problem) => Error::Misuse(format!("{}: {problem}", path.display())),
        other => other,
    }
}

/// How many features or components, by the folds of the state, where that was asked.
fn by_folds(
    state: &State,
    args: &SolveArgs,
    mut fit: Fit,
    talk: &Talk,
) -> Result<(Fit, Option<FoldChoice>)> {
    if !args.folds {
        return Ok((fit, None));
    }
    let (choice, what) = talk.during("fitting folds", || match fit.scoring.is_some() {
        true => (state.choose_features(&fit), "feature"),
        false => (state.choose_components(&fit), "component"),
    });
    let choice = choice?;
    let tried: Vec<String> =
        choice.tried.iter().map(|(n, e)| format!("{n} → {}", five_digits(*e))).collect();
    let folds = state.n_folds();
    talk.say(format!("by {folds} folds, the share of the label left untold: {}", tried.join(", ")));
    talk.say(format!("best: {}", count(choice.best as u64, what)));
    match &mut fit.scoring {
        Some(scoring) => scoring.keep = Keep::Features(choice.best),
        None => fit.components = Components::Count(choice.best),
    }
    Ok((fit, Some(choice)))
}

fn directory(args: &SolveArgs, fit: &Fit, talk: &Talk) -> Result<()> {
    check_dir(&args.output)?;
    let paths = state_files(&args.state)?;
    let mut solved: Vec<(PathBuf, Model)> = Vec::new();
    let watch = Watch::new(talk, Stage::new("solving", "states", paths.len() as u64));
    for path in &paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = PathBuf::from(format!("{stem}.safetensors"));
        let quiet = Talk::new("solve", true);
        let model = State::load(path).and_then(|state| {
            let (fit, _) = by_folds(&state, args, fit.clone(), &quiet)?;
            state.solve(&fit, &Quiet)
        });
        match model {
            Ok(model) => solved.push((name, model)),
            // A group that is too small for a model does not take the others down.
            Err(e @ Error::Data { .. }) => {
                let (state, why) = (path.display().to_string(), e.sentence());
                talk.note(&Note::NoModel { state, why });
            }
            Err(e) => return Err(within(path, e)),
        }
        watch.advance(1, 0)?;
    }
    drop(watch);
    if solved.is_empty() {
        return Error::misuse(format!("no state in {} can be solved", args.state.display()));
    }
    let names = solved.iter().map(|(name, _)| name.clone()).collect();
    let staged = StagedDir::create(&args.output, names, None)?;
    let mut models = Vec::new();
    for (i, (_, model)) in solved.iter().enumerate() {
        staged.write_file(i, &model.to_bytes()?)?;
        models.push(summary(model, &staged.target(i)));
    }
    staged.commit()?;
    talk.say(format!("{}: {}", args.output.display(), count(models.len() as u64, "model")));
    if args.json { print_json(&json!(models)) } else { Ok(()) }
}

fn state_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("list", dir))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "state"))
        .collect();
    paths.sort();
    match paths.is_empty() {
        false => Ok(paths),
        true => Error::misuse(format!(
            "{} has no *.state files; scan with --by makes some",
            dir.display()
        )),
    }
}
