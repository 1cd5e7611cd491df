//! `merge`, `subtract` and `solve`, and `fit` by way of a state.

use super::args::{FitArgs, MergeArgs, SolveArgs, Statistic, SubtractArgs, cores};
use super::fit::{achievement, summary};
use super::scan::{Scan, describe, only_new};
use crate::error::{Error, Result};
use crate::model::{Method, Model};
use crate::report::text::{count, number};
use crate::report::{self, Talk};
use crate::sink::staged::{StagedDir, check_file};
use crate::solve::Scaling;
use crate::solve::scoring::Keep;
use crate::solve::supervised::LabelKernel;
use crate::source::columns::matching;
use crate::state::folds::Choice;
use crate::state::{Select, Solve, State, WARN_FROM_DIGITS};
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
        return Err(Error::model(first, "is the checkpoint of a scan that is not done; finish the scan first"));
    }
    for path in states {
        let next = State::load(path)?;
        if args.skip_known && !next.about.ledger.is_empty() && next.about.ledger.iter().all(|e| all.known(e).is_some()) {
            talk.say(format!("{}: all its inputs are there already, passed over", path.display()));
            continue;
        }
        all.merge(next).map_err(|e| within(path, e))?;
    }
    all.save(&args.output)?;
    talk.say(format!("{}: {}", args.output.display(), describe(&all)));
    Ok(())
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
    if !args.state.is_dir() {
        check_file(&args.output)?;
        let state = State::load(&args.state)?;
        let (model, choice) = one(&state, args, talk)?;
        model.save(&args.output)?;
        told(&model, &args.output, talk);
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
        return Err(Error::Misuse(format!("{} has no *.state files; scan with --by makes some", args.state.display())));
    }
    let names = paths.iter().filter_map(|p| Some(PathBuf::from(format!("{}.safetensors", p.file_stem()?.to_string_lossy()))));
    let staged = StagedDir::create(&args.output, names.collect(), None)?;
    let mut models = Vec::new();
    for (i, path) in paths.iter().enumerate() {
        let solved = State::load(path).and_then(|state| one(&state, args, Talk::new(true)));
        let (model, _) = solved.map_err(|e| within(path, e))?;
        let bytes = model.to_bytes()?;
        let mut file = staged.create_file(i)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(Error::io("write", staged.target(i)))?;
        models.push(summary(&model, &staged.target(i)));
    }
    staged.commit()?;
    talk.say(format!("{}: {}", args.output.display(), count(models.len() as u64, "model")));
    if args.json {
        report::print(&report::json::pretty(&json!(models)))?;
    }
    Ok(())
}

fn told(model: &Model, path: &Path, talk: Talk) {
    let kept = count(model.n_components() as u64, "component");
    talk.say(format!("{}: {kept} {}, {}", path.display(), achievement(model), count(model.header.n_rows, "row")));
}

fn one(state: &State, args: &SolveArgs, talk: Talk) -> Result<(Model, Option<Choice>)> {
    let mut ask = asked(state, args)?;
    let mut choice = None;
    if args.folds {
        let found = if args.scored { state.choose_features(&ask)? } else { state.choose_components(&ask)? };
        let what = if args.scored { "features" } else { "components" };
        let tried: Vec<String> = found.tried.iter().map(|(n, e)| format!("{n} → {}", number(*e))).collect();
        talk.say(format!("by {} folds, the share of the label left untold: {}", state.folds().len(), tried.join(", ")));
        talk.say(format!("best: {} {what}", found.best));
        match (&mut ask.select, args.scored) {
            (Some(select), true) => select.keep = Keep::Features(found.best),
            _ => ask.components = crate::solve::rules::Components::Count(found.best),
        }
        choice = Some(found);
    }
    let model = state.solve(&ask, &|text| talk.say(text))?;
    Ok((model, choice))
}

fn asked(state: &State, args: &SolveArgs) -> Result<Solve> {
    let misuse = |problem: &str| Err(Error::Misuse(problem.into()));
    if args.folds && !args.scored && args.method != Method::Spca {
        return misuse("--folds chooses features with --scored, or components with --method spca");
    }
    if args.folds && (args.keep_features.is_some() || args.score_threshold.is_some()) {
        return misuse("--folds chooses how many features to keep; leave --keep-features and --score-threshold out");
    }
    let keep = match (args.keep_features, args.score_threshold) {
        (Some(_), Some(_)) => return misuse("--keep-features and --score-threshold are two ways to cut; give one"),
        (Some(q), None) => Some(Keep::Features(q as usize)),
        (None, Some(t)) => Some(Keep::Threshold(t)),
        (None, None) if args.scored && !args.folds => {
            return misuse("--scored needs --keep-features Q, --score-threshold T, or --folds to choose");
        }
        (None, None) => args.scored.then_some(Keep::Features(1)),
    };
    let identity = args.label_kernel == Some(LabelKernel::Identity);
    Ok(Solve {
        method: args.method,
        components: args.components,
        features: matching(&state.about.columns, &args.columns, &args.exclude)?,
        scaling: Scaling { center: !args.no_center || identity, standardize: args.standardize },
        select: keep.map(|keep| Select { keep, score: args.score }),
        form: args.form.form(),
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
        return Err(Error::Misuse("--state and --checkpoint are for pca and spca; kernel methods compare rows".into()));
    }
    if spec.score_by.is_some() || spec.label_kernel == Some(LabelKernel::Rbf) || spec.precision != Default::default() {
        return Err(Error::Misuse(
            "--score-by, rbf labels and --precision mixed do not go with --state and --checkpoint; scan, then solve".into(),
        ));
    }
    if !matches!(spec.form.form(), None | Some(crate::solve::Form::Primal)) && spec.method == Method::Pca {
        return Err(Error::Misuse(
            "--state and --checkpoint keep the covariance, which is the primal form; leave --form out".into(),
        ));
    }
    check_file(&args.output)?;
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
    talk.say(format!("{:.2} s", started.elapsed().as_secs_f64()));
    told(&model, &args.output, talk);
    if args.json {
        report::print(&report::json::pretty(&summary(&model, &args.output)))?;
    }
    Ok(())
}
