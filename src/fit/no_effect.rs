//! Options that change nothing, or less than they seem.
//!
//! Enters: a fit and its plan. Leaves: [`Unused`], each option that the run does not look at with
//! the sentence that says so, and the notes of those that were given. Whoever knows that an option
//! was given with the value it has anyway (the command line does) tells those, too.

use super::check::LabelProblem;
use super::label_factor::LabelFactor;
use super::options::{Approximate, DEFAULT_MAX_PASSES, Fit, Gamma, KernelOptions};
use super::plan::Plan;
use crate::kernel::KernelKind;
use crate::model::Method;
use crate::note::Note;
use crate::solve::Form;
use crate::solve::scoring::Score;
use crate::solve::supervised::LabelKernel;
use crate::source::labels::is_class;
use crate::source::{ColumnSelection, LabelRead, WidenedColumn};

/// An option that a run does not look at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unused {
    pub(crate) option: &'static str,
    pub(crate) sentence: String,
    /// True when it has another value than by default: somebody gave it.
    pub(crate) given: bool,
}

impl Unused {
    pub(crate) fn new(option: &'static str, given: bool, sentence: impl Into<String>) -> Unused {
        Unused { option, given, sentence: sentence.into() }
    }

    pub(crate) fn note(&self) -> Note {
        Note::NoEffect { option: self.option, sentence: self.sentence.clone() }
    }
}

/// The notes of those that were given.
pub(crate) fn given_notes(unused: &[Unused]) -> impl Iterator<Item = Note> {
    unused.iter().filter(|u| u.given).map(Unused::note)
}

/// What is told before a fit runs, beside what is unused.
pub(super) fn notes(fit: &Fit, plan: &Plan<'_>) -> Vec<Note> {
    let mut notes = columns(plan);
    notes.extend(label_kernel(fit, plan));
    let among = |name: &&String| plan.features().columns.iter().any(|c| c.name == **name);
    let by = fit.scoring.iter().map(|s| &s.by);
    let named = fit.labels.columns.iter().chain(by).filter(among);
    notes.extend(named.map(|name| Note::LabelIsFeature(name.clone())));
    notes
}

/// Every option that this fit does not look at.
pub(super) fn unused(fit: &Fit, plan: &Plan<'_>) -> Vec<Unused> {
    let mut unused = labels(fit);
    unused.extend(classes(fit, plan));
    unused.extend(kernels(fit, plan));
    unused.extend(iterations(fit, plan));
    unused.extend(scoring(fit, plan));
    if !is_random(fit, plan) {
        let sentence = "⟦seed⟧ has no effect: nothing here is random";
        unused.push(Unused::new("seed", fit.seed != 0, sentence));
    }
    unused
}

/// Features that nobody named and that look like none.
pub(crate) fn columns(plan: &Plan<'_>) -> Vec<Note> {
    let ColumnSelection { id_columns, widened, fitted_wider, .. } = plan.columns();
    let ids = (!id_columns.is_empty()).then(|| Note::IdFeatures(id_columns.clone()));
    let widths = WidenedColumn::note(widened, false);
    ids.into_iter().chain(widths).chain(WidenedColumn::note(fitted_wider, true)).collect()
}

/// Label options of a fit, or of a model that is made of a state.
pub(crate) fn labels(fit: &Fit) -> Vec<Unused> {
    let options = &fit.labels;
    let supervised = fit.method.is_supervised();
    let mut unused = Vec::new();
    let mut put = |option, given, sentence: &str| unused.push(Unused::new(option, given, sentence));
    if !supervised {
        put(
            "label",
            !options.columns.is_empty(),
            "⟦label⟧ only keeps its columns out of the features; ⟦method=spca⟧ and kspca make use \
             of them",
        );
        let sentence = "⟦label-kernel⟧ has no effect without ⟦method=spca⟧";
        put("label-kernel", options.kernel.is_some(), sentence);
        let sentence = "⟦with-variance⟧ has no effect without ⟦method=spca⟧";
        put("with-variance", options.with_variance, sentence);
    }
    if fit.method == Method::Kspca || fit.is_identity() {
        let known = match fit.method {
            Method::Kspca => "kspca",
            _ => "with the identity kernel spca is pca, which",
        };
        let sentence = format!("{known} knows its variances without ⟦with-variance⟧");
        put("with-variance", options.with_variance, &sentence);
    }
    if !fit.reads_labels() && fit.scoring.is_none() {
        put("classes", options.classes, "⟦classes⟧ has no effect without labels");
    }
    unused.extend(label_constants(fit));
    unused
}

/// Constants that the kernel over labels does not have.
fn label_constants(fit: &Fit) -> impl Iterator<Item = Unused> {
    let options = &fit.labels;
    let kernel = options.kernel.filter(|_| fit.method.is_supervised());
    let (rbf, poly) = (kernel == Some(LabelKernel::Rbf), kernel == Some(LabelKernel::Poly));
    let all = [
        (!rbf && !poly, "label-gamma", options.gamma.is_some(), "⟦label-kernel=rbf⟧ or poly"),
        (!poly, "label-coef0", options.coef0.is_some(), "⟦label-kernel=poly⟧"),
        (!poly, "label-degree", options.degree.is_some(), "⟦label-kernel=poly⟧"),
        (!rbf, "label-features", options.features.is_some(), "⟦label-kernel=rbf⟧"),
    ];
    let unused = all.into_iter().filter(|(unused, ..)| *unused);
    unused.map(|(_, name, given, of)| {
        Unused::new(name, given, format!("⟦{name}⟧ has no effect without {of}"))
    })
}

/// ⟦classes⟧ of labels that are classes anyway.
pub(crate) fn classes(fit: &Fit, plan: &Plan<'_>) -> Option<Unused> {
    let read = fit.labels.columns.iter().filter(|_| fit.reads_labels());
    let mut named = read.chain(fit.scoring.iter().map(|s| &s.by)).peekable();
    named.peek()?;
    let delta = fit.labels.kernel == Some(LabelKernel::Delta) && fit.scoring.is_none();
    let text = named.all(|name| plan.table.kind(name).is_some_and(is_class));
    let sentence = match (delta, text) {
        (_, true) => "⟦classes⟧ has no effect on labels that are no numbers: they are classes",
        (true, _) => "⟦classes⟧ has no effect with ⟦label-kernel=delta⟧, which is about classes",
        _ => return None,
    };
    Some(Unused::new("classes", fit.labels.classes, sentence))
}

/// What labels, and the kernel over them, turn out to be.
pub(crate) fn label_kernel(fit: &Fit, plan: &Plan<'_>) -> Vec<Note> {
    let Some(labels) = plan.problem.labels.read() else { return Vec::new() };
    let mut notes: Vec<Note> = mixed_labels(labels).into_iter().collect();
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
        notes.push(Unused::new("label-features", true, sentence).note());
    }
    notes
}

/// Numbers beside text say how each is read.
pub(crate) fn mixed_labels(labels: &LabelProblem) -> Option<Note> {
    let with = |number: bool| -> Vec<String> {
        let columns = labels.request.columns.iter().zip(&labels.numeric);
        columns.filter(|(_, n)| **n == number).map(|(name, _)| name.clone()).collect()
    };
    let (numbers, classes) = (with(true), with(false));
    let text_beside = labels.request.read == LabelRead::Classes && labels.given.is_none();
    let at = labels.numeric.iter().position(|n| *n)?;
    let combined = !labels.is_number(at);
    (text_beside && !classes.is_empty()).then_some(Note::MixedLabels { numbers, classes, combined })
}

fn kernels(fit: &Fit, plan: &Plan<'_>) -> Vec<Unused> {
    let options = &fit.kernel;
    let mut unused = Vec::new();
    match &plan.problem.kernel {
        Some(kernel) => unused.extend(constants_of(options, kernel.kind)),
        None => {
            let all = [
                ("kernel", options.kind.is_some()),
                ("gamma", options.gamma.is_some()),
                ("sigma", options.sigma.is_some()),
                ("coef0", options.coef0.is_some()),
                ("degree", options.degree.is_some()),
            ];
            unused.extend(all.map(|(name, given)| {
                let sentence = format!("⟦{name}⟧ has no effect without ⟦method=kpca⟧ or kspca");
                Unused::new(name, given, sentence)
            }));
        }
    }
    if fit.method == Method::Kspca && fit.is_identity() {
        let sentence =
            "with the identity kernel over labels kspca is kpca, and ⟦form⟧ has no effect";
        unused.push(Unused::new("form", fit.form.is_some(), sentence));
    }
    if !matches!(options.approximation, Some(Approximate::Landmarks { .. })) {
        let sentence = "⟦landmark-choice⟧ has no effect without ⟦landmarks⟧";
        unused.push(Unused::new("landmark-choice", false, sentence));
    }
    unused
}

/// Constants that a kernel does not have.
pub(crate) fn constants_of(options: &KernelOptions, kind: KernelKind) -> Vec<Unused> {
    use KernelKind::{Cosine, Linear, Poly, Rbf};
    let none = kind.is_given();
    let all = [
        (none || matches!(kind, Linear | Cosine), "gamma", options.gamma.is_some()),
        (none || matches!(kind, Rbf | Cosine), "coef0", options.coef0.is_some()),
        (kind != Poly, "degree", options.degree.is_some()),
    ];
    let unused = all.into_iter().filter(|(unused, ..)| *unused);
    let sentence = |name| format!("⟦{name}⟧ has no effect on the {kind} kernel");
    unused.map(|(_, name, given)| Unused::new(name, given, sentence(name))).collect()
}

/// True when the form that is taken goes on until it has converged.
fn iterates(plan: &Plan<'_>) -> bool {
    match plan.taken().form {
        Form::Randomized => true,
        Form::Exact => !plan.work.decomposes_whole(),
        _ => false,
    }
}

fn iterations(fit: &Fit, plan: &Plan<'_>) -> Vec<Unused> {
    if iterates(plan) {
        return Vec::new();
    }
    let options = &fit.iteration;
    let why = match plan.taken().form {
        Form::Exact => "a matrix of so few rows is decomposed at once".to_string(),
        form => format!("the {form} form does not iterate"),
    };
    let all = [
        ("tolerance", options.tolerance.is_some()),
        ("max-passes", options.max_passes != DEFAULT_MAX_PASSES),
        ("allow-unconverged", options.allow_unconverged),
    ];
    let sentence = |name| format!("⟦{name}⟧ has no effect: {why}");
    all.map(|(name, given)| Unused::new(name, given, sentence(name))).to_vec()
}

fn scoring(fit: &Fit, plan: &Plan<'_>) -> Option<Unused> {
    let Some(options) = &fit.scoring else {
        let sentence = "⟦score⟧ has no effect without ⟦score-by⟧";
        return Some(Unused::new("score", false, sentence));
    };
    let scored = plan.problem.scoring.as_ref()?;
    let sentence = "scores against classes have no sign, so ⟦score=signed⟧ changes nothing";
    let signed = options.score == Score::Signed;
    (scored.label.read == LabelRead::Classes).then(|| Unused::new("score", signed, sentence))
}

/// True when the seed has a say.
fn is_random(fit: &Fit, plan: &Plan<'_>) -> bool {
    // Of an rbf kernel over numbers, if they turn out to be many.
    let of_labels = |l: &LabelProblem| {
        l.factor.is_random() || (l.kernel == LabelKernel::Rbf && l.numeric.contains(&true))
    };
    let of_kernel = plan.problem.kernel.as_ref().is_some_and(|k| {
        k.kind.is_given() || fit.kernel.gamma == Some(Gamma::Median) || fit.kernel.preimage
    });
    let sampled = matches!(plan.taken().form, Form::Landmarks | Form::Fourier);
    iterates(plan) || sampled || of_kernel || plan.problem.labels.read().is_some_and(of_labels)
}
