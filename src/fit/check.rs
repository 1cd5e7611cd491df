//! Options × columns → [`FitProblem`]: every name found, every contradiction refused.
//!
//! Enters: a [`Fit`] and a table, of which no row is read. Leaves: all that planning and running
//! need, so that neither looks at an option again.

use super::basis::GivenBasis;
use super::bounds;
use super::given::check_square;
use super::given_labels::given_problem;
use super::kernel_choice::KernelChoice;
use super::label_factor::{LabelFactor, kernel_function};
use super::options::{DEFAULT_LABEL_FEATURES, Fit, IterationOptions, ScoringOptions};
use crate::accumulate::Scaling;
use crate::budget::Budget;
use crate::collect::given::NO_HOLES;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::model::{InputEntry, Method, no_twins};
use crate::solve::Form;
use crate::solve::rules::Components;
use crate::solve::scoring::{Keep, Score};
use crate::solve::supervised::LabelKernel;
use crate::source::labels::{self, LabelRead, LabelRequest};
use crate::source::{ColumnChoice, ColumnKind, ColumnSelection, Features, Nulls, Precision};
use crate::source::{ReadLimit, ReadRequest, Table, named_column, named_columns};
use ndarray::Array2;
use std::path::PathBuf;
use std::sync::Arc;

/// What to do about a missing value that is an error.
const ADVICE: &str = "choose ⟦nulls=drop⟧ or ⟦nulls=mean⟧, or ⟦exclude⟧ the column";

/// What to do about two files of the same content.
const TWIN_ADVICE: &str =
    "its rows would count twice; leave one out, or say ⟦allow-duplicates⟧ if they should";

/// The tolerance of an iteration over the data.
const TOLERANCE: f64 = 1e-6;

/// A fit whose options are known to go together and with the columns.
#[derive(Debug, Clone)]
pub(crate) struct FitProblem {
    pub(crate) method: Method,
    /// The form asked for; `None` leaves it to the plan.
    pub(crate) form: Option<Form>,
    pub(crate) components: Components,
    /// Directions that are given.
    pub(crate) basis: Option<GivenBasis>,
    /// What is read of each row.
    pub(crate) request: ReadRequest,
    pub(crate) centring: Centring,
    pub(crate) labels: LabelUse,
    pub(crate) kernel: Option<KernelChoice>,
    pub(crate) scoring: Option<ScoringProblem>,
    pub(crate) iteration: IterationOptions,
    pub(crate) seed: u64,
    pub(crate) budget: Budget,
    /// Worker threads wanted.
    pub(crate) threads: usize,
    pub(crate) temp_dir: PathBuf,
}

/// What is centred: the matrix that is decomposed, and the scores. The one place that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Centring {
    /// Of the matrix that is decomposed. H centres it whatever is projected, also where K_y = I.
    pub(crate) problem: Scaling,
    /// True when scores are of x − μ.
    pub(crate) scores: bool,
}

impl Centring {
    pub(crate) fn of(fit: &Fit) -> Centring {
        if let Some(GivenBasis { scaling, .. }) = &fit.basis {
            return Centring { problem: *scaling, scores: scaling.center };
        }
        let super::options::ScalingOptions { center, standardize, center_scores } = fit.scaling;
        let problem = Scaling { center: center || fit.is_identity(), standardize };
        // The scores of kernel supervised PCA are the seed's Θᵀk, whatever the labels' kernel.
        let scores = if fit.method == Method::Kspca { center_scores } else { center };
        Centring { problem, scores }
    }
}

/// What labels are to a fit.
#[derive(Debug, Clone)]
pub(crate) enum LabelUse {
    /// Nothing.
    None,
    /// K_y = I looks at no label; the model names these columns all the same.
    Identity(Vec<String>),
    /// They are read.
    Read(LabelProblem),
}

impl LabelUse {
    /// The labels that are read.
    pub(crate) fn read(&self) -> Option<&LabelProblem> {
        match self {
            LabelUse::Read(labels) => Some(labels),
            _ => None,
        }
    }
}

/// Labels, and the kernel over them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelProblem {
    /// Which columns, as classes or as numbers.
    pub(crate) request: LabelRequest,
    pub(crate) kernel: LabelKernel,
    /// rbf, poly or cosine with its constants.
    pub(crate) function: Option<Kernel>,
    /// What K_y = ΔΔᵀ is made of.
    pub(crate) factor: LabelFactor,
    /// For each column, whether it counts as a number beside classes.
    pub(crate) numeric: Vec<bool>,
    /// Random features that stand for rbf over many distinct labels.
    pub(crate) features: usize,
    /// True when S is gathered too.
    pub(crate) with_variance: bool,
    /// Δ, where K_y is given.
    pub(crate) given: Option<Arc<Array2<f64>>>,
}

impl LabelProblem {
    /// "a, b".
    pub(crate) fn name(&self) -> String {
        self.request.columns.join(", ")
    }

    /// True when the numbers of this column count as such, and not as names of classes.
    pub(crate) fn is_number(&self, column: usize) -> bool {
        let beside_classes = matches!(self.factor, LabelFactor::Distinct | LabelFactor::OneHot);
        match self.request.read {
            LabelRead::Numbers => true,
            // What is read are directions, not the column's numbers.
            LabelRead::UnitNumbers => false,
            LabelRead::Classes => beside_classes && self.numeric.get(column) == Some(&true),
        }
    }
}

/// The kernel over labels that nobody named.
pub(crate) fn default_label_kernel(read: LabelRead) -> LabelKernel {
    match read {
        LabelRead::Classes => LabelKernel::Delta,
        LabelRead::Numbers | LabelRead::UnitNumbers => LabelKernel::Linear,
    }
}

/// What features are scored by, and how much of them is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScoringProblem {
    pub(crate) label: LabelRequest,
    pub(crate) keep: Keep,
    pub(crate) score: Score,
    /// True when centred columns are scored.
    pub(crate) center: bool,
}

impl ScoringProblem {
    /// Of a label read so. Classes are scored by their means around the common one, so there is
    /// nothing raw about them.
    pub(crate) fn new(
        fit: &Fit,
        options: &ScoringOptions,
        label: LabelRequest,
    ) -> Result<ScoringProblem> {
        let ScoringOptions { keep, score, center, .. } = *options;
        if center == Some(false) && label.read == LabelRead::Classes {
            let by = &options.by;
            return Error::misuse(format!(
                "⟦score-center=no⟧ is for numbers, but label '{by}' is read as classes, which are \
                 scored by how their means differ; leave it out"
            ));
        }
        let center = center.unwrap_or(Centring::of(fit).problem.center);
        Ok(ScoringProblem { label, keep, score, center })
    }

    /// "the best 20 features", "features that score 0.3 or more".
    pub(crate) fn describe(&self) -> String {
        match self.keep {
            Keep::Features(q) => format!("the best {}", crate::words::count(q as u64, "feature")),
            Keep::Threshold(t) => format!("features that score {t} or more"),
        }
    }

    /// Features that are kept at most.
    pub(crate) fn most_features(&self, all: u64) -> u64 {
        match self.keep {
            Keep::Features(q) => all.min(q as u64),
            Keep::Threshold(_) => all,
        }
    }
}

impl Fit {
    /// The same fit with the names of the columns that its globs stand for.
    pub(crate) fn with_names(&self, table: &dyn Table) -> Result<Fit> {
        let mut fit = self.clone();
        fit.labels.columns = named_columns(table, &self.labels.columns)?;
        if let Some(weight) = &mut fit.weight {
            *weight = named_column(table, "weight", weight)?;
        }
        // With a basis it is refused, whatever it names.
        if let Some(scoring) = fit.scoring.as_mut().filter(|_| self.basis.is_none()) {
            scoring.by = named_column(table, "score-by", &scoring.by)?;
        }
        Ok(fit)
    }
}

impl FitProblem {
    /// Checks a fit against a table; gives the columns it has chosen, too.
    pub(crate) fn new(fit: &Fit, table: &dyn Table) -> Result<(FitProblem, ColumnSelection)> {
        bounds::check(fit)?;
        bounds::rows(table)?;
        if !fit.allow_duplicates {
            no_twins(&InputEntry::of(table), TWIN_ADVICE)?;
        }
        let chosen = chosen_columns(fit, table)?;
        check_weight(fit, table)?;
        check_precision(fit, &chosen.features)?;
        let kernel = KernelChoice::new(fit)?;
        if let Some(kernel) = &kernel {
            check_square(kernel.kind, &chosen.features, table)?;
        }
        let labels = label_use(fit, table)?;
        let scoring = fit.scoring.as_ref().map(|s| scoring(fit, s, table)).transpose()?;
        let request = ReadRequest {
            features: chosen.features.clone(),
            weight: fit.weight.clone(),
            labels: labels.read().filter(|l| l.given.is_none()).map(|l| l.request.clone()),
            keep: None,
            nulls: fit.nulls,
            precision: fit.precision,
            advice: match &kernel {
                Some(kernel) if kernel.kind.is_given() => NO_HOLES,
                _ => ADVICE,
            },
            limit: ReadLimit::default(),
        };
        let problem = FitProblem {
            method: fit.method,
            form: fit.form,
            components: fit.components,
            basis: fit.basis.clone(),
            request,
            centring: Centring::of(fit),
            labels,
            kernel,
            scoring,
            iteration: fit.iteration,
            seed: fit.seed,
            budget: Budget::new(fit.resources.memory),
            threads: fit.resources.threads(),
            temp_dir: fit.resources.temp_dir(),
        };
        Ok((problem, chosen))
    }

    /// True when the kernel matrix is given.
    pub(crate) fn gives_kernel(&self) -> bool {
        self.kernel.as_ref().is_some_and(|k| k.kind.is_given())
    }

    /// Features (d).
    pub(crate) fn n_features(&self) -> usize {
        self.request.features.len()
    }

    /// The tolerance of passes over the data.
    pub(crate) fn tolerance(&self) -> f64 {
        self.iteration.tolerance.unwrap_or(TOLERANCE)
    }

    /// The same fit of these features alone, which scoring has kept.
    pub(crate) fn of_kept(&self, kept: &[usize]) -> FitProblem {
        let mut problem = self.clone();
        problem.request.features = self.request.features.only(kept);
        problem.scoring = None;
        problem
    }
}

/// The columns of a basis, or those that were chosen.
fn chosen_columns(fit: &Fit, table: &dyn Table) -> Result<ColumnSelection> {
    if let Some(basis) = &fit.basis {
        return basis.columns(fit, table);
    }
    let scored_by = fit.scoring.iter().map(|s| &s.by);
    let reserved = fit.weight.iter().chain(&fit.labels.columns).chain(scored_by);
    if let Some(features) = &fit.columns.exactly {
        table.check_columns(&reserved.map(String::as_str).collect::<Vec<_>>())?;
        let fitted_wider = features.check(table)?;
        let features = features.clone();
        return Ok(ColumnSelection { features, fitted_wider, ..ColumnSelection::default() });
    }
    let choice = ColumnChoice {
        columns: fit.columns.include.clone(),
        exclude: fit.columns.exclude.clone(),
        reserved: reserved.cloned().collect(),
    };
    choice.resolve(table)
}

fn label_use(fit: &Fit, table: &dyn Table) -> Result<LabelUse> {
    if fit.is_identity() {
        return Ok(LabelUse::Identity(fit.labels.columns.clone()));
    }
    if !fit.method.is_supervised() {
        return Ok(LabelUse::None);
    }
    let given = fit.labels.kernel == Some(LabelKernel::Precomputed);
    if fit.labels.columns.is_empty() && !given {
        let method = fit.method;
        return Error::misuse(format!(
            "⟦method={method}⟧ needs labels; name their column with ⟦label⟧"
        ));
    }
    if fit.form == Some(Form::Randomized) {
        return Error::misuse(
            "supervised PCA has a primal and a dual form; M = XHΔ is small, so no randomized one \
             is needed",
        );
    }
    if fit.precision == Precision::Mixed {
        return Error::misuse(
            "⟦precision=mixed⟧ is for the products of pca; spca has none, leave it out",
        );
    }
    if given {
        return given_problem(fit, table).map(LabelUse::Read);
    }
    let labels = label_problem(fit, table, &fit.labels.columns, fit.labels.kernel)?;
    Ok(LabelUse::Read(labels))
}

/// What these columns are as labels.
pub(crate) fn label_problem(
    fit: &Fit,
    table: &dyn Table,
    columns: &[String],
    asked: Option<LabelKernel>,
) -> Result<LabelProblem> {
    let mut classes = fit.labels.classes || asked == Some(LabelKernel::Delta);
    for name in columns {
        match table.kind(name) {
            Some(kind) if labels::is_class(kind) => classes = true,
            Some(ColumnKind::Scalar(_)) | None => {}
            Some(other) => {
                return Error::misuse(format!(
                    "⟦label⟧ '{name}' is {}; a label is a string, a bool or a number per row",
                    other.describe()
                ));
            }
        }
    }
    let read = if classes { LabelRead::Classes } else { LabelRead::Numbers };
    let kernel = asked.unwrap_or(default_label_kernel(read));
    let function = kernel_function(kernel, &fit.labels, columns.len());
    let random = fit.labels.features.map(|features| (features, fit.seed));
    let factor = LabelFactor::new(kernel, function, read, columns.len(), random)?;
    let is_number = |name: &String| {
        !fit.labels.classes && table.kind(name).is_some_and(|k| !labels::is_class(k))
    };
    Ok(LabelProblem {
        request: LabelRequest { columns: columns.to_vec(), read: factor.read(function, read) },
        kernel,
        function,
        factor,
        numeric: columns.iter().map(is_number).collect(),
        features: fit.labels.features.unwrap_or(DEFAULT_LABEL_FEATURES),
        with_variance: fit.labels.with_variance,
        given: None,
    })
}

fn scoring(fit: &Fit, options: &ScoringOptions, table: &dyn Table) -> Result<ScoringProblem> {
    let label = label_problem(fit, table, std::slice::from_ref(&options.by), None)?.request;
    ScoringProblem::new(fit, options, label)
}

fn check_weight(fit: &Fit, table: &dyn Table) -> Result<()> {
    let Some(name) = &fit.weight else { return Ok(()) };
    match table.kind(name) {
        Some(ColumnKind::Scalar(_)) | None => Ok(()),
        Some(other) => Error::misuse(format!(
            "⟦weight⟧ '{name}' is {}; weights are one number per row",
            other.describe()
        )),
    }
}

fn check_precision(fit: &Fit, features: &Features) -> Result<()> {
    match fit.precision {
        Precision::Exact => Ok(()),
        Precision::Mixed => check_mixed(fit, features),
        Precision::Full => check_full(fit),
    }
}

/// A factor is of S: it needs the primal form, and a method that has one.
fn check_full(fit: &Fit) -> Result<()> {
    if let Some(form) = fit.form.filter(|f| *f != Form::Primal && !fit.reads_labels()) {
        return Error::misuse(format!(
            "⟦precision=full⟧ keeps a factor of the primal form's matrix, and does not go with \
             ⟦form={form}⟧; leave one out"
        ));
    }
    if fit.reads_labels() && !fit.labels.with_variance && !fit.method.is_kernel() {
        return Error::misuse(
            "⟦precision=full⟧ keeps a factor of the covariance, and spca gathers one only for \
             ⟦with-variance⟧; leave it out",
        );
    }
    Ok(())
}

fn check_mixed(fit: &Fit, features: &Features) -> Result<()> {
    if fit.nulls == Nulls::Mean {
        return Error::misuse("⟦precision=mixed⟧ does not go with ⟦nulls=mean⟧; leave one out");
    }
    let wide = features.columns.iter().find(|c| c.value != "Float32" && c.value != "Float16");
    match wide {
        None => Ok(()),
        Some(c) => Error::misuse(format!(
            "⟦precision=mixed⟧ needs f32 features, but column '{}' is {}",
            c.name, c.value
        )),
    }
}
