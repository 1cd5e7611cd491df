//! `merge`, `subtract` and `solve`, and `fit` by way of a state.

use super::args::{FitArgs, MergeArgs, SolveArgs, Statistic, SubtractArgs, cores};
use super::fit::{achievement, announce, summary, tell_model};
use super::scan::{Scan, describe, only_new, same_file};
use crate::error::{Error, Result};
use crate::model::{Method, Model};
use crate::report::{self, Talk};
use crate::solve::scoring::Keep;
use crate::solve::supervised::LabelKernel;
use crate::solve::{Form, Scaling};
use crate::source::columns::matching;
use crate::staged::{StagedDir, check_file};
use crate::state::folds::Choice;
use crate::state::{Select, Solve, State, WARN_FROM_DIGITS};
use crate::words::{count, five_digits};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Adds states up.
pub fn merge(args: &MergeArgs, talk: Talk) -> Result<()> {
    check_file(&args.output)?;
    let mut states = args.states.iter();
    let first = states.next().ok_or_else(|| Error::Misuse("there is nothing to merge".into()))?;
    let mut all = State::load(first)?;
    if all.about.progress.is_some() {
        return Err(Error::model(
            first,
            "is the checkpoint of a scan that is not done; finish the scan first",
        ));
    }
    for path in states {
        let next = State::load(path)?;
        let ledger = all.ledger();
        if args.skip_known
            && !next.about.ledger.is_empty()
            && next.about.ledger.iter().all(|e| ledger.known(e).is_some())
        {
            talk.say(format!("{}: all its inputs are there already, passed over", path.display()));
            continue;
        }
        all.merge(next).map_err(|e| within(path, e))?;
    }
    all.save(&args.output)?;
    talk.say(format!("{}: {}", args.output.display(), describe(&all)));
    Ok(())
}

/// A state as a page of text.
pub fn page(state: &State) -> String {
    use std::fmt::Write;
    let about = &state.about;
    let mut page = format!("state: {}, eigenstream {}\n", describe(state), about.version);
    let sums = &state.folds()[0];
    let mut kept = Vec::new();
    kept.extend(sums.has_covariance().then_some("covariance"));
    kept.extend(sums.has_labels().then_some("label sums"));
    let folds = if state.folds().len() > 1 {
        format!(", in {} folds", state.folds().len())
    } else {
        String::new()
    };
    let _ = writeln!(page, "keeps {}{folds}", kept.join(" and "));
    let _ = writeln!(page, "features {}", about.columns.summary());
    if let Some(labels) = &about.labels {
        let _ = writeln!(
            page,
            "label {} as {}",
            labels.columns.join(", "),
            if labels.classes { "classes" } else { "numbers" }
        );
    }
    if let Some(group) = &about.group {
        let _ = writeln!(page, "group {} = {}", group.column, group.value);
    }
    if let Some(progress) = about.progress {
        let _ = writeln!(page, "checkpoint: {} of {} units done", progress.units, progress.of);
    }
    if about.cancellation > 1.0 {
        let _ = writeln!(page, "{:.1} digits lost by subtraction", state.lost_digits());
    }
    for entry in about.ledger.iter().take(10) {
        let _ = writeln!(page, "  {}  {}", count(entry.rows, "row"), entry.path);
    }
    if about.ledger.len() > 10 {
        let _ = writeln!(page, "  … and {} more", about.ledger.len() - 10);
    }
    page
}

/// Takes a state out.
pub fn subtract(args: &SubtractArgs, talk: Talk) -> Result<()> {
    check_file(&args.output)?;
    let mut state = State::load(&args.state)?;
    state.subtract(State::load(&args.part)?).map_err(|e| within(&args.part, e))?;
    let digits = state.lost_digits();
    if digits >= WARN_FROM_DIGITS {
        talk.say(format!("warning: what is left is so little of what was there that about {digits:.0} of 16 digits are lost"));
    }
    state.save(&args.output)?;
    talk.say(format!("{}: {}", args.output.display(), describe(&state)));
    Ok(())
}

/// An error about one of several states names it.
fn within(path: &Path, error: Error) -> Error {
    match error {
        Error::Misuse(problem) => Error::Misuse(format!("{}: {problem}", path.display())),
        other => other,
    }
}

/// Makes models of states.
pub fn solve(args: &SolveArgs, talk: Talk) -> Result<()> {
    if same_file(&args.state, &args.output) {
        return Err(Error::Misuse(format!(
            "{} would be replaced by its model; name another -o",
            args.state.display()
        )));
    }
    without_effect(args).iter().for_each(|note| talk.say(format!("note: {note}")));
    if !args.state.is_dir() {
        check_file(&args.output)?;
        let state = State::load(&args.state)?;
        let (model, choice) = one(&state, args, talk)?;
        model.save(&args.output)?;
        told(&model, &args.output, None, talk);
        if args.json {
            let mut said = summary(&model, &args.output);
            said["folds"] = json!(choice.map(|c| json!({"best": c.best, "tried": c.tried})));
            report::print(&report::json::pretty(&said))?;
        }
        return Ok(());
    }
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&args.state)
        .map_err(Error::io("list", &args.state))?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "state"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        return Err(Error::Misuse(format!(
            "{} has no *.state files; scan with --by makes some",
            args.state.display()
        )));
    }
    let mut solved = Vec::new();
    for path in &paths {
        let name = PathBuf::from(format!(
            "{}.safetensors",
            path.file_stem().unwrap_or_default().to_string_lossy()
        ));
        match State::load(path).and_then(|state| one(&state, args, Talk::new(true))) {
            Ok((model, _)) => solved.push((name, model)),
            // A group that is too small for a model does not take the others down.
            Err(e @ Error::Data { .. }) => {
                talk.say(format!("note: {}: no model: {e}", path.display()))
            }
            Err(e) => return Err(within(path, e)),
        }
    }
    if solved.is_empty() {
        return Err(Error::Misuse(format!("no state in {} can be solved", args.state.display())));
    }
    let staged = StagedDir::create(
        &args.output,
        solved.iter().map(|(name, _)| name.clone()).collect(),
        None,
    )?;
    let mut models = Vec::new();
    for (i, (_, model)) in solved.iter().enumerate() {
        let mut file = staged.create_file(i)?;
        let bytes = model.to_bytes()?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_all())
            .map_err(Error::io("write", staged.target(i)))?;
        models.push(summary(model, &staged.target(i)));
    }
    staged.commit()?;
    talk.say(format!("{}: {}", args.output.display(), count(models.len() as u64, "model")));
    if args.json {
        report::print(&report::json::pretty(&json!(models)))?;
    }
    Ok(())
}

/// Options that were given and change nothing.
fn without_effect(args: &SolveArgs) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if args.method != Method::Spca {
        notes.extend(
            args.label_kernel.map(|_| "--label-kernel has no effect without --method spca"),
        );
        notes.extend(
            args.with_variance.then_some("--with-variance has no effect without --method spca"),
        );
    }
    notes
}

fn told(model: &Model, path: &Path, seconds: Option<f64>, talk: Talk) {
    let (kept, rows) =
        (count(model.n_components() as u64, "component"), count(model.header.n_rows, "row"));
    let seconds = seconds.map_or_else(String::new, |s| format!(" in {s:.2} s"));
    talk.say(format!("{}: {kept} {}, {rows}{seconds}", path.display(), achievement(model)));
}

fn one(state: &State, args: &SolveArgs, talk: Talk) -> Result<(Model, Option<Choice>)> {
    let mut ask = asked(state, args)?;
    let mut choice = None;
    if args.folds {
        let found = if args.score_by.is_some() {
            state.choose_features(&ask)?
        } else {
            state.choose_components(&ask)?
        };
        let what = if args.score_by.is_some() { "feature" } else { "component" };
        let tried: Vec<String> =
            found.tried.iter().map(|(n, e)| format!("{n} → {}", five_digits(*e))).collect();
        talk.say(format!(
            "by {} folds, the share of the label left untold: {}",
            state.folds().len(),
            tried.join(", ")
        ));
        talk.say(format!("best: {}", count(found.best as u64, what)));
        match &mut ask.select {
            Some(select) => select.keep = Keep::Features(found.best),
            _ => ask.components = crate::solve::rules::Components::Count(found.best),
        }
        choice = Some(found);
    }
    let model = state.solve(&ask, &|text| talk.say(text))?;
    tell_model(&model, ask.components, talk);
    Ok((model, choice))
}

fn asked(state: &State, args: &SolveArgs) -> Result<Solve> {
    let misuse = |problem: &str| Err(Error::Misuse(problem.into()));
    if args.folds && args.score_by.is_none() && args.method != Method::Spca {
        return misuse(
            "--folds chooses features with --score-by, or components with --method spca",
        );
    }
    if args.folds && (args.keep_features.is_some() || args.score_threshold.is_some()) {
        return misuse(
            "--folds chooses how many features to keep; leave --keep-features and --score-threshold out",
        );
    }
    let keep = match (args.keep_features, args.score_threshold) {
        (Some(_), Some(_)) => {
            return misuse("--keep-features and --score-threshold are two ways to cut; give one");
        }
        (Some(q), None) => Some(Keep::Features(q as usize)),
        (None, Some(t)) => Some(Keep::Threshold(t)),
        (None, None) if args.score_by.is_some() && !args.folds => {
            return misuse(
                "--score-by needs --keep-features Q, --score-threshold T, or --folds to choose",
            );
        }
        (None, None) => args.score_by.is_some().then_some(Keep::Features(1)),
    };
    if let (Some(by), Some(labels)) = (&args.score_by, &state.about.labels)
        && labels.columns != [by.clone()]
    {
        let has = labels.columns.join(", ");
        return Err(Error::Misuse(format!(
            "--score-by {by}: this state was scanned with label {has}, and has no sums of others"
        )));
    }
    let form = args.form.form();
    let allowed: &[Form] =
        if args.method == Method::Spca { &[Form::Primal, Form::Dual] } else { &[Form::Primal] };
    if let Some(form) = form.filter(|f| !allowed.contains(f)) {
        return Err(Error::Misuse(format!(
            "--form {form} needs the rows, or is of another method; a state has the covariance and the labels' sums"
        )));
    }
    let identity = args.label_kernel == Some(LabelKernel::Identity);
    Ok(Solve {
        method: args.method,
        components: args.components,
        features: matching(&state.about.columns, &args.columns, &args.exclude)?,
        scaling: Scaling { center: !args.no_center || identity, standardize: args.standardize },
        select: keep.map(|keep| Select { keep, score: args.score }),
        form,
        with_variance: args.with_variance,
        label_kernel: args.label_kernel,
        threads: cores(),
    })
}

/// `fit --state` and `fit --checkpoint`: a scan, then a model of the state.
pub fn fit(args: &FitArgs, talk: Talk) -> Result<()> {
    let started = Instant::now();
    let spec = &args.fit;
    if spec.method.is_kernel() {
        return Err(Error::Misuse(
            "--state and --checkpoint are for pca and spca; kernel methods compare rows".into(),
        ));
    }
    if spec.score_by.is_some()
        || spec.label_kernel == Some(LabelKernel::Rbf)
        || spec.precision != Default::default()
    {
        return Err(Error::Misuse(
            "--score-by, rbf labels and --precision mixed do not go with --state and --checkpoint; scan, then solve".into(),
        ));
    }
    if !matches!(spec.form.form(), None | Some(crate::solve::Form::Primal))
        && spec.method == Method::Pca
    {
        return Err(Error::Misuse(
            "--state and --checkpoint keep the covariance, which is the primal form; leave --form out".into(),
        ));
    }
    check_file(&args.output)?;
    if args.state.as_ref().is_some_and(|state| same_file(state, &args.output)) {
        return Err(Error::Misuse(
            "--state would be replaced by its model; name another -o".into(),
        ));
    }
    let results: Vec<&Path> =
        args.state.iter().map(PathBuf::as_path).chain([args.output.as_path()]).collect();
    args.checkpoint.apart_from(&results)?;
    let old = args.state.as_deref().filter(|p| p.exists()).map(State::load).transpose()?;
    let mut spec = spec.clone();
    if let Some(state) = &old {
        spec.data = only_new(state, &spec.data, args.skip_known, talk)?;
    }
    let state = match (old, spec.data.is_empty()) {
        (Some(state), true) => state,
        (old, _) => {
            // A state that is kept has everything; one that is not, what the model needs.
            let supervised = spec.method == Method::Spca;
            let keep: &[Statistic] = match (&args.state, supervised) {
                (Some(_), _) => &[],
                (None, false) => &[Statistic::Pca],
                (None, true) if spec.with_variance => &[Statistic::Pca, Statistic::Spca],
                (None, true) => &[Statistic::Spca],
            };
            let scan = Scan::new(&spec, keep, talk)?;
            announce(&scan.plan, talk);
            scan.check()?;
            scan.run(old, &args.checkpoint)?
        }
    };
    if let Some(path) = &args.state {
        state.save(path)?;
        talk.say(format!("{}: {}", path.display(), describe(&state)));
    }
    let identity = super::supervised::is_identity(&spec);
    let ask = Solve {
        method: spec.method,
        components: spec.components,
        features: None,
        scaling: Scaling { center: !spec.no_center || identity, standardize: spec.standardize },
        select: None,
        form: spec.form.form(),
        with_variance: spec.with_variance,
        label_kernel: spec.label_kernel,
        threads: cores(),
    };
    let mut model = state.solve(&ask, &|text| talk.say(text))?;
    model.header.center = !spec.no_center;
    model.save(&args.output)?;
    args.checkpoint.done();
    tell_model(&model, spec.components, talk);
    told(&model, &args.output, Some(started.elapsed().as_secs_f64()), talk);
    if args.json {
        report::print(&report::json::pretty(&summary(&model, &args.output)))?;
    }
    Ok(())
}
