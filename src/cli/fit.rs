//! `fit`: plan → the passes of its form → model file.

use super::args::{FitArgs, FitSpec, FormChoice, LandmarkChoice};
use super::forms;
use super::kernels::{KernelPlan, Route};
use super::plan::{FitPlan, chosen_line, passed_over_lines, threads_line};
use super::scoring::narrow;
use super::supervised::is_identity;
use crate::budget::Bytes;
use crate::error::{Error, Place, Result};
use crate::model::{InputEntry, KernelParts, KernelReport, Method, Model, Provenance};
use crate::report::{self, Talk};
use crate::solve::rules::Components;
use crate::solve::scoring::Score;
use crate::solve::supervised::LabelKernel;
use crate::solve::{Form, Scaling};
use crate::source::{LabelRead, Nulls, Tally};
use crate::staged::check_file;
use crate::state::ask::{Fitted, identity_of};
use crate::words::{count, passes, products, some, thousands};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Runs a fit and writes the model.
pub fn run(args: &FitArgs, talk: Talk) -> Result<()> {
    if args.state.is_some() || args.checkpoint.checkpoint.is_some() {
        return super::states::fit(args, talk);
    }
    let started = Instant::now();
    check_file(&args.output)?;
    let plan = FitPlan::new(&args.fit)?;
    plan.dataset.refuse_output(&[], &args.output)?;
    announce(&plan, talk);
    without_effect(&plan, &args.fit).iter().for_each(|line| talk.say(format!("note: {line}")));
    plan.check()?;
    let model = fit(plan, &args.fit, talk)?;
    model.save(&args.output)?;
    let seconds = started.elapsed().as_secs_f64();
    talk.say(format!(
        "{}: {} {}, {} in {seconds:.2} s",
        args.output.display(),
        count(model.n_components() as u64, "component"),
        achievement(&model),
        count(model.header.n_rows, "row"),
    ));
    if args.json {
        let mut said = summary(&model, &args.output);
        said["seconds"] = json!(seconds);
        report::print(&report::json::pretty(&said))?;
    }
    Ok(())
}

/// What `--json` tells of a model.
pub fn summary(model: &Model, path: &Path) -> serde_json::Value {
    json!({
        "model": path,
        "n_rows": model.header.n_rows,
        "n_features": model.n_features(),
        "n_components": model.n_components(),
        "form": model.header.form,
        "explained_variance_ratio": model.explained_variance_ratio(),
        "hsic": model.header.hsic,
        "label": model.header.label,
        "scoring": model.header.selection.scoring,
        "certificate": model.header.certificate,
        "rows_dropped": model.header.nulls.rows_dropped,
        "missing": model.header.nulls.missing,
        "left_out": model.header.left_out,
        "rounded": model.header.rounded,
    })
}

/// "explaining 95 % of the variance", "carrying 99 % of the dependence on the labels".
pub fn achievement(model: &Model) -> String {
    let percent = |shares: &[f64]| 100.0 * shares.iter().sum::<f64>();
    match (&model.header.label, model.explained_variance_ratio()) {
        (Some(label), _) if label.kernel != LabelKernel::Identity => {
            let hsic = crate::words::five_digits(model.header.hsic.unwrap_or(0.0));
            let about = if label.features.is_some() { "about " } else { "" };
            format!(
                "carrying {:.2} % of the dependence on the labels (HSIC {about}{hsic})",
                percent(&label.hsic_share)
            )
        }
        (_, ratio) => {
            let approximated =
                model.header.kernel.as_ref().is_some_and(|k| k.approximation.is_some());
            let what = if approximated { "approximated variance" } else { "variance" };
            format!("explaining {:.2} % of the {what}", percent(&ratio.unwrap_or_default()))
        }
    }
}

/// What is about to be read.
pub fn announce(plan: &FitPlan, talk: Talk) {
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

/// Options that were given and change nothing.
fn without_effect(plan: &FitPlan, spec: &FitSpec) -> Vec<String> {
    let supervised = spec.method.is_supervised();
    let kernel = plan.labels.as_ref().map(|l| l.kernel);
    let mut notes = Vec::new();
    let mut when = |given: bool, note: &str| {
        if given {
            notes.push(note.to_string());
        }
    };
    when(
        !spec.label.is_empty() && !supervised,
        "--label only keeps its columns out of the features; --method spca and kspca make use of them",
    );
    when(
        spec.label_kernel.is_some() && !supervised,
        "--label-kernel has no effect without --method spca",
    );
    when(
        spec.with_variance && spec.method == Method::Kspca,
        "kspca knows its variances without --with-variance",
    );
    when(
        !spec.method.is_kernel() && spec.kernel.any(),
        "--kernel and its constants have no effect without --method kpca or kspca",
    );
    when(
        spec.method == Method::Kspca && plan.labels.is_none() && spec.form != FormChoice::Auto,
        "with the identity kernel over labels kspca is kpca, and --form has no effect",
    );
    when(
        spec.landmark_choice == LandmarkChoice::Uniform && spec.landmarks.is_none(),
        "--landmark-choice has no effect without --landmarks",
    );
    when(spec.with_variance && !supervised, "--with-variance has no effect without --method spca");
    when(
        spec.classes && !supervised && spec.score_by.is_none(),
        "--classes has no effect without labels",
    );
    when(
        spec.label_gamma.is_some() && kernel != Some(LabelKernel::Rbf),
        "--label-gamma has no effect without --label-kernel rbf",
    );
    when(
        spec.score == Score::Signed && spec.score_by.is_none(),
        "--score has no effect without --score-by",
    );
    let classes = plan.scoring.as_ref().is_some_and(|s| s.label.read == LabelRead::Classes);
    when(
        spec.score == Score::Signed && classes,
        "scores against classes have no sign, so --score signed changes nothing",
    );
    let iterates = matches!(plan.taken().form, Form::Randomized | Form::Exact);
    when(
        spec.allow_unconverged && !iterates,
        "--allow-unconverged is for the randomized form and for kpca",
    );
    if let Some(kernel) = &plan.kernel {
        notes.extend(spec.kernel.without_effect(kernel.kind));
    }
    let among = |name: &&String| plan.want.features.columns.iter().any(|c| c.name == **name);
    notes.extend(
        spec.label
            .iter()
            .chain(&spec.score_by)
            .filter(among)
            .map(|n| format!("label '{n}' is among the features")),
    );
    notes
}

/// The passes and the decomposition.
pub fn fit(plan: FitPlan, spec: &FitSpec, talk: Talk) -> Result<Model> {
    if plan.dataset.rows() == 0 {
        return Err(Error::data(
            Place::file(plan.dataset.first_path()),
            "there are no rows to fit",
        ));
    }
    // What the footers took while they were looked at.
    crate::budget::release_freed_memory();
    let mut plan = plan;
    let (mut scoring, mut feature_scores, mut fitted) = (None, None, None);
    if plan.scoring.is_some() {
        let scored = forms::score(&plan, spec, talk)?;
        (scoring, feature_scores, fitted) =
            (Some(scored.report), Some(scored.scores), scored.fitted);
        plan = narrow(plan, spec, &scored.kept)?;
        plan.check()?;
    }
    let plan = &plan;
    let fitted = match fitted {
        Some(fitted) => fitted,
        None => forms::run(plan, spec, talk)?,
    };
    let Fitted { moments, solution, tally, mut supervision, mut kernel } = fitted;
    tell(plan, &tally, talk);
    if is_identity(spec) {
        supervision = Some(identity_of(&solution, &moments, spec.label.clone()));
    }
    let (mut label, mut hsic, mut total_variance, mut variances) = (None, None, None, None);
    if let Some(s) = supervision {
        (label, hsic, total_variance, variances) =
            (Some(s.label), Some(s.hsic), Some(s.total_variance), s.variances);
    }
    if let Some(k) = plan.kernel.as_ref().filter(|k| k.route == Route::Pca) {
        kernel = Some(linear(k, spec, talk));
    }
    let iterated = solution.certificate.iteration.is_some()
        || matches!(solution.form, Form::Landmarks | Form::Fourier);
    let random = iterated || label.as_ref().is_some_and(|l| l.features.is_some());
    // The scores of kernel supervised PCA are the seed's Θᵀk.
    let uncentred = spec.no_center || (spec.method == Method::Kspca && plan.labels.is_some());
    let from = Provenance {
        method: spec.method,
        label,
        hsic,
        kernel,
        total_variance,
        variances,
        scoring,
        feature_scores,
        columns: plan.want.features.clone(),
        asked: spec.components,
        scaling: Scaling { center: !uncentred, ..plan.scaling },
        nulls: plan.want.nulls,
        weight: plan.want.weight.clone(),
        precision: plan.want.precision,
        seed: random.then_some(spec.seed),
        ledger: InputEntry::of(&plan.dataset),
        tally,
    };
    let model = Model::new(&moments, solution, from);
    if model.n_components() == 0 {
        if plan.kernel.is_some() {
            let problem = "all rows look the same to the kernel: there is no variance to decompose; choose other columns, or another --kernel or --gamma";
            return Err(Error::data(Place::file(plan.dataset.first_path()), problem));
        }
        let problem = "every feature is constant (or so small that its squares vanish): there is no variance to decompose";
        return Err(Error::data(
            Place::file(plan.dataset.first_path()),
            format!("{problem}; choose other columns or scale them"),
        ));
    }
    tell_model(&model, spec.components, talk);
    Ok(model)
}

/// The linear kernel, whose kernel PCA is PCA.
fn linear(plan: &KernelPlan, spec: &FitSpec, talk: Talk) -> KernelParts {
    talk.say("note: with a linear kernel kernel PCA is PCA, and is fitted as such (--form exact goes by the kernel matrix)");
    let (kernel, gamma_from) = spec.kernel.resolve(plan.kind, 1, || 1.0, talk);
    KernelParts {
        report: KernelReport::new(kernel, gamma_from),
        map: None,
        unit_mean: None,
        preimage: None,
    }
}

/// Nothing is lost without a line that says so.
pub fn tell(plan: &FitPlan, tally: &Tally, talk: Talk) {
    let named = |counts: &std::collections::BTreeMap<u32, u64>| {
        let list: Vec<String> = counts
            .iter()
            .map(|(j, n)| format!("{} ({})", plan.want.features.name(*j as usize), thousands(*n)))
            .collect();
        some(&list)
    };
    if !tally.missing.is_empty() {
        let cells = count(tally.missing.values().sum(), "missing value");
        let done = match plan.want.nulls {
            Nulls::Drop => {
                format!("{} of {} dropped for", count(tally.dropped, "row"), thousands(tally.rows))
            }
            _ => "the feature's mean put for".to_string(),
        };
        talk.say(format!("note: {done} {cells}: {}", named(&tally.missing)));
    }
    if tally.unlabelled > 0 {
        talk.say(format!("note: {} without a label dropped", count(tally.unlabelled, "row")));
    }
    if !tally.rounded.is_empty() {
        talk.say(format!(
            "note: numbers beyond 2^53 were rounded to the nearest double: {}",
            named(&tally.rounded)
        ));
    }
}

/// What was left out of a model, and how good it is.
pub fn tell_model(model: &Model, components: Components, talk: Talk) {
    let header = &model.header;
    if !header.left_out.is_empty() {
        talk.say(format!(
            "note: constant, so left out of the standardized features: {}",
            some(&header.left_out)
        ));
    }
    let unsupervised = header.label.as_ref().is_none_or(|l| l.kernel == LabelKernel::Identity);
    if let Components::Count(asked) = components
        && unsupervised
        && asked > model.n_components()
    {
        talk.say(format!(
            "note: kept {} of {asked} components: the {} has rank {} ({} × {})",
            model.n_components(),
            if model.kernel_map().is_some() { "kernel" } else { "data" },
            header.rank.unwrap_or(model.n_components()),
            count(header.n_rows, "row"),
            count(model.n_features() as u64, "feature")
        ));
    }
    if components == Components::All
        && unsupervised
        && model.n_components() < model.n_features()
        && model.kernel_map().is_none()
    {
        talk.say(format!(
            "note: rank {} of {}: the other directions vary by no more than rounding",
            model.n_components(),
            count(model.n_features() as u64, "feature")
        ));
    }
    if let Some(iteration) = &header.certificate.iteration {
        let residual = header.certificate.max_residual;
        let passes = if header.form == Form::Exact {
            products(iteration.passes)
        } else {
            passes(iteration.passes)
        };
        talk.say(format!("{passes}, largest residual {residual:.1e}"));
    }
    if let Some(error) = header.certificate.mixed_error {
        talk.say(format!(
            "note: products in f32, largest relative error of those checked {error:.1e}"
        ));
    }
}
