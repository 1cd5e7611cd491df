//! Options that were given and change nothing, or less than they seem.

use super::label_factor::LabelFactor;
use super::options::{Approximate, Fit, KernelOptions};
use super::plan::Plan;
use crate::kernel::KernelKind;
use crate::model::Method;
use crate::note::Note;
use crate::solve::Form;
use crate::solve::scoring::Score;
use crate::solve::supervised::LabelKernel;
use crate::source::{ColumnSelection, LabelRead, WidenedColumn};

/// What is told before a fit runs.
pub(super) fn notes(fit: &Fit, plan: &Plan<'_>) -> Vec<Note> {
    let mut notes = columns(plan);
    notes.extend(labels(fit));
    notes.extend(label_kernel(fit, plan));
    notes.extend(kernels(fit, plan));
    let iterates = matches!(plan.taken().form, Form::Randomized | Form::Exact);
    if fit.iteration.allow_unconverged && !iterates {
        let sentence = "⟦allow-unconverged⟧ is for the randomized form and for kpca";
        notes.push(no_effect("allow-unconverged", sentence));
    }
    let scored_by_classes =
        plan.problem.scoring.as_ref().is_some_and(|s| s.label.read == LabelRead::Classes);
    let signed = fit.scoring.as_ref().is_some_and(|s| s.score == Score::Signed);
    if signed && scored_by_classes {
        let sentence = "scores against classes have no sign, so ⟦score=signed⟧ changes nothing";
        notes.push(no_effect("score", sentence));
    }
    let among = |name: &&String| plan.features().columns.iter().any(|c| c.name == **name);
    let by = fit.scoring.iter().map(|s| &s.by);
    let named = fit.labels.columns.iter().chain(by).filter(among);
    notes.extend(named.map(|name| Note::LabelIsFeature(name.clone())));
    notes
}

/// Features that nobody named and that look like none.
pub(crate) fn columns(plan: &Plan<'_>) -> Vec<Note> {
    let ColumnSelection { id_columns, widened, fitted_wider, .. } = plan.columns();
    let ids = (!id_columns.is_empty()).then(|| Note::IdFeatures(id_columns.clone()));
    let widths = WidenedColumn::note(widened, false);
    ids.into_iter().chain(widths).chain(WidenedColumn::note(fitted_wider, true)).collect()
}

fn no_effect(option: &'static str, sentence: impl Into<String>) -> Note {
    Note::NoEffect { option, sentence: sentence.into() }
}

/// Label options of a fit, or of a model that is made of a state.
pub(crate) fn labels(fit: &Fit) -> Vec<Note> {
    let options = &fit.labels;
    let supervised = fit.method.is_supervised();
    let scored = fit.scoring.is_some();
    let given = [
        (
            !options.columns.is_empty() && !supervised,
            "label",
            "⟦label⟧ only keeps its columns out of the features; ⟦method=spca⟧ and kspca make use \
             of them",
        ),
        (
            options.kernel.is_some() && !supervised,
            "label-kernel",
            "⟦label-kernel⟧ has no effect without ⟦method=spca⟧",
        ),
        (
            options.with_variance && fit.method == Method::Kspca,
            "with-variance",
            "kspca knows its variances without ⟦with-variance⟧",
        ),
        (
            options.with_variance && !supervised,
            "with-variance",
            "⟦with-variance⟧ has no effect without ⟦method=spca⟧",
        ),
        (
            options.classes && !supervised && !scored,
            "classes",
            "⟦classes⟧ has no effect without labels",
        ),
    ];
    let told = given.into_iter().filter(|(given, ..)| *given);
    let told = told.map(|(_, option, sentence)| no_effect(option, sentence));
    told.chain(label_constants(fit)).collect()
}

/// Constants that the kernel over labels does not have.
fn label_constants(fit: &Fit) -> impl Iterator<Item = Note> {
    let options = &fit.labels;
    let kernel = options.kernel.filter(|_| fit.method.is_supervised());
    let (rbf, poly) = (kernel == Some(LabelKernel::Rbf), kernel == Some(LabelKernel::Poly));
    let given = [
        (options.gamma.is_some() && !rbf && !poly, "label-gamma", "⟦label-kernel=rbf⟧ or poly"),
        (options.coef0.is_some() && !poly, "label-coef0", "⟦label-kernel=poly⟧"),
        (options.degree.is_some() && !poly, "label-degree", "⟦label-kernel=poly⟧"),
        (options.features.is_some() && !rbf, "label-features", "⟦label-kernel=rbf⟧"),
    ];
    let told = given.into_iter().filter(|(given, ..)| *given);
    told.map(|(_, name, of)| no_effect(name, format!("⟦{name}⟧ has no effect without {of}")))
}

/// What the kernel over labels turns out to be, given what they are.
pub(crate) fn label_kernel(fit: &Fit, plan: &Plan<'_>) -> Vec<Note> {
    let Some(labels) = plan.problem.labels.read() else { return Vec::new() };
    let mut notes = Vec::new();
    if let (LabelFactor::Classes { scale }, Some(function)) = (&labels.factor, labels.function) {
        let kernel = function.kind().to_string();
        notes.push(Note::LabelKernelIsDelta { kernel, scale: *scale });
    }
    if labels.factor.is_random() {
        let features = labels.features;
        notes.push(Note::LabelFeatures { exact: None, features, another_pass: false });
    } else if labels.kernel == LabelKernel::Rbf && fit.labels.features.is_some() {
        let sentence = "⟦label-features⟧ has no effect on labels that are classes: the rbf kernel \
                        over them is exact";
        notes.push(no_effect("label-features", sentence));
    }
    notes
}

fn kernels(fit: &Fit, plan: &Plan<'_>) -> Vec<Note> {
    let KernelOptions { kind, gamma, sigma, coef0, degree, .. } = &fit.kernel;
    let constants = gamma.is_some() || sigma.is_some() || coef0.is_some() || degree.is_some();
    let Some(kernel) = &plan.problem.kernel else {
        let sentence = "⟦kernel⟧ and its constants have no effect without ⟦method=kpca⟧ or kspca";
        let given = kind.is_some() || constants;
        return given.then(|| no_effect("kernel", sentence)).into_iter().collect();
    };
    let mut notes = constants_of(&fit.kernel, kernel.kind);
    if fit.method == Method::Kspca && fit.is_identity() && fit.form.is_some() {
        let sentence =
            "with the identity kernel over labels kspca is kpca, and ⟦form⟧ has no effect";
        notes.push(no_effect("form", sentence));
    }
    if let Some(Approximate::Fourier(_)) = fit.kernel.approximation
        && fit.iteration.tolerance.is_some()
    {
        let sentence = "⟦tolerance⟧ has no effect on random features, which do not iterate";
        notes.push(no_effect("tolerance", sentence));
    }
    notes
}

/// Constants that a kernel does not have.
pub(crate) fn constants_of(options: &KernelOptions, kind: KernelKind) -> Vec<Note> {
    use KernelKind::{Cosine, Linear, Poly, Rbf};
    let none = kind.is_given();
    let given = [
        (options.gamma.is_some() && (none || matches!(kind, Linear | Cosine)), "gamma"),
        (options.coef0.is_some() && (none || matches!(kind, Rbf | Cosine)), "coef0"),
        (options.degree.is_some() && kind != Poly, "degree"),
    ];
    let told = given.into_iter().filter(|(given, _)| *given);
    let sentence = |name| format!("⟦{name}⟧ has no effect on the {kind} kernel");
    told.map(|(_, name)| no_effect(name, sentence(name))).collect()
}
