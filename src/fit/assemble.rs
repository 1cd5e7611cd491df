//! The one place where sums and decompositions become a [`Model`], whoever has added them up: a
//! pass over a table, or a state from disk.
//!
//! Enters: a [`Decomposition`]. Leaves: a model, or a refusal that names the data. Holds the model.

use super::check::{Centring, LabelUse};
use super::options::cores;
use crate::accumulate::{Moments, SecondMoment};
use crate::error::{Error, Place, Result};
use crate::listen::{Listener, Stage, Watch};
use crate::model::ScoringReport;
use crate::model::{Header, InputEntry, KernelParts, LabelReport, Method, Model, Provenance};
use crate::note::Note;
use crate::solve::rules::Components;
use crate::solve::spectrum::rank_tolerance;
use crate::solve::supervised::LabelKernel;
use crate::solve::{Form, Scaling, Solution, accuracy, factor, solve};
use crate::source::{Features, Nulls, Precision, Tally};
use crate::words::{count, five_digits, thousands};
use ndarray::Array1;
use std::collections::BTreeMap;

/// What a model is of, besides its numbers: the same for a fit and for a state.
pub(crate) struct ModelContext<'a> {
    pub(crate) method: Method,
    /// The form asked for.
    pub(crate) form: Option<Form>,
    pub(crate) components: Components,
    pub(crate) centring: Centring,
    pub(crate) labels: LabelUse,
    /// The features of the sums.
    pub(crate) features: Features,
    pub(crate) weight: Option<String>,
    pub(crate) nulls: Nulls,
    pub(crate) precision: Precision,
    pub(crate) seed: u64,
    pub(crate) inputs: Vec<InputEntry>,
    /// Decimal digits that subtractions have cost; `None` where nothing was taken out.
    pub(crate) lost_digits: Option<f64>,
    /// What refusals name.
    pub(crate) place: Place,
    pub(crate) listener: &'a dyn Listener,
}

/// Sums, decomposed.
pub(crate) struct Decomposition {
    /// n, W, μ, spread.
    pub(crate) moments: Moments,
    pub(crate) solution: Solution,
    /// What was met in the rows.
    pub(crate) tally: Tally,
    pub(crate) labels: Option<LabelOutcome>,
    pub(crate) kernel: Option<KernelParts>,
}

/// What labels add to a model.
pub(crate) struct LabelOutcome {
    pub(crate) report: LabelReport,
    /// HSIC of the scores.
    pub(crate) hsic: f64,
    /// Variance of all features.
    pub(crate) total_variance: f64,
    /// Variance along each component, where S was gathered.
    pub(crate) variances: Option<Array1<f64>>,
}

/// How features were selected, and the scores of all of them.
pub(crate) struct FeatureScores {
    pub(crate) report: ScoringReport,
    pub(crate) scores: Array1<f64>,
}

impl ModelContext<'_> {
    pub(crate) fn scaling(&self) -> Scaling {
        self.centring.problem
    }

    /// Something is wrong with the data as a whole.
    pub(crate) fn refusal(&self, problem: impl Into<String>) -> Error {
        Error::data(self.place.clone(), problem)
    }

    /// S → components: PCA.
    pub(crate) fn decompose(&self, sums: SecondMoment, tally: Tally) -> Result<Decomposition> {
        self.check(sums.moments(), &tally)?;
        let (scaling, asked) = (self.scaling(), self.components);
        let watch = Watch::new(self.listener, Stage::decomposing(sums.moments().mean.len()));
        let solved = match sums {
            SecondMoment::Product(s) => solve(s, scaling, asked, cores()).map(|(m, s)| {
                let accurate = accuracy::of_products(&s, &m, self.lost_digits);
                (m, s.with_accurate_components(accurate))
            }),
            SecondMoment::Factor(r) => factor::solve(r, scaling, asked, cores()),
        };
        drop(watch);
        let (moments, solution) = solved.map_err(|e| e.about(&self.place))?;
        Ok(Decomposition { moments, solution, tally, labels: None, kernel: None })
    }

    /// Refuses sums that no model can be made of.
    pub(crate) fn check(&self, moments: &Moments, tally: &Tally) -> Result<()> {
        let name = |j: usize| self.features.name(j);
        let missing = |j: usize| tally.missing.get(&(j as u32)).copied().unwrap_or(0);
        let unknown = |j: &usize| !moments.mean[*j].is_finite() && missing(*j) < tally.rows;
        if let Some(j) = (0..moments.mean.len()).find(unknown) {
            return Err(self.refusal(too_large(&name(j))));
        }
        if let Some(j) = moments.mean.iter().position(|m| m.is_nan()) {
            return Err(self.refusal(format!(
                "column '{}' is null in every row and has no mean; leave it out with ⟦exclude⟧",
                name(j)
            )));
        }
        if moments.rows < 2 {
            let left = count(moments.rows, "row");
            let dropped = self.dropped_text(tally);
            return Err(
                self.refusal(format!("{left} left{dropped}, but a variance needs at least 2"))
            );
        }
        if let Some(weight) = self.weight.as_ref().filter(|_| moments.weight <= 1.0) {
            return Err(self.refusal(format!(
                "the weights in '{weight}' sum to {}, but they are frequencies (3 means three \
                 equal rows) and must sum to more than 1; scale them to sum to the number of rows",
                five_digits(moments.weight)
            )));
        }
        self.check_effective_rows(moments.weight, tally.weight_squares)?;
        self.check_range(moments)
    }

    /// Rows of which one has all the weight are one row, and have no variance but that of rounding.
    fn check_effective_rows(&self, weight: f64, squares: f64) -> Result<()> {
        let effective = weight * weight / squares;
        match &self.weight {
            Some(column) if squares > 0.0 && effective < 2.0 - 1e-9 => Err(self.refusal(format!(
                "the weights in '{column}' leave {effective:.2} rows ((Σw)²/Σw²), but a \
                     variance needs at least 2; one row has nearly all the weight"
            ))),
            _ => Ok(()),
        }
    }

    fn dropped_text(&self, tally: &Tally) -> String {
        match tally.missing.iter().max_by_key(|(_, n)| **n) {
            Some((j, n)) if tally.dropped > 0 => format!(
                " ({} dropped for nulls, {} of them in column '{}')",
                count(tally.dropped, "row"),
                thousands(*n),
                self.features.name(*j as usize)
            ),
            _ => String::new(),
        }
    }

    /// Squares must neither overflow nor vanish.
    fn check_range(&self, moments: &Moments) -> Result<()> {
        // No product of two features is larger than the larger one's square, and the trace must be
        // finite too.
        let reach =
            |j: usize| moments.squares[j] + moments.weight * moments.mean[j] * moments.mean[j];
        let d = moments.squares.len();
        if !(0..d).map(reach).sum::<f64>().is_finite() {
            let largest = (0..d).max_by(|a, b| reach(*a).total_cmp(&reach(*b))).unwrap_or(0);
            return Err(self.refusal(too_large(&self.features.name(largest))));
        }
        let lost = |s: &f64| *s > 0.0 && *s < f64::MIN_POSITIVE / f64::EPSILON;
        match moments.squares.iter().position(lost) {
            None => Ok(()),
            Some(j) => Err(self.refusal(format!(
                "column '{}' has values so small that their squares lose digits; scale it up",
                self.features.name(j)
            ))),
        }
    }

    /// Puts the model together and tells what was left out of it.
    pub(crate) fn model(
        self,
        parts: Decomposition,
        scored: Option<FeatureScores>,
    ) -> Result<Model> {
        let Decomposition { moments, solution, tally, labels, kernel } = parts;
        let labels = match &self.labels {
            LabelUse::Identity(columns) => {
                Some(identity_outcome(&solution, &moments, columns.clone()))
            }
            _ => labels,
        };
        let of_kernel = kernel.is_some();
        let iterated = solution.certificate.iteration.is_some()
            || matches!(solution.form, Form::Landmarks | Form::Fourier);
        let random = iterated || labels.as_ref().is_some_and(|l| l.report.features.is_some());
        let (scoring, feature_scores) = scored.map(|s| (s.report, s.scores)).unzip();
        let (label, hsic, total_variance, variances) = match labels {
            Some(l) => (Some(l.report), Some(l.hsic), Some(l.total_variance), l.variances),
            None => (None, None, None, None),
        };
        let from = Provenance {
            method: self.method,
            label,
            hsic,
            kernel,
            total_variance,
            variances,
            scoring,
            feature_scores,
            columns: self.features.clone(),
            asked: self.components,
            scaling: Scaling { center: self.centring.scores, ..self.scaling() },
            nulls: self.nulls,
            weight: self.weight.clone(),
            precision: self.precision,
            seed: random.then_some(self.seed),
            ledger: self.inputs.clone(),
            tally,
        };
        let mut model = Model::new(&moments, solution, from);
        if model.n_components() == 0 {
            return Err(self.refusal(no_variance(of_kernel)));
        }
        model.header.certificate.lost_digits = self.lost_digits;
        self.tell(&model, &moments);
        Ok(model)
    }

    /// What should be known of a model.
    fn tell(&self, model: &Model, moments: &Moments) {
        let mut notes = model_notes(model, self.components);
        let at_rank = |n: &Note| {
            matches!(n, Note::CappedAtRank { of: "data", .. } | Note::RankDeficient { .. })
        };
        if notes.iter().any(at_rank) && !model.header.standardize {
            notes.extend(scales_note(model, moments));
        }
        notes.iter().for_each(|note| self.listener.note(note));
    }
}

pub(super) fn no_variance(of_kernel: bool) -> &'static str {
    match of_kernel {
        true => {
            "all rows look the same to the kernel: there is no variance to decompose; choose other \
             columns, or another ⟦kernel⟧ or ⟦gamma⟧"
        }
        false => {
            "every feature is constant (or so small that its squares vanish): there is no variance \
             to decompose; choose other columns or scale them"
        }
    }
}

/// With K_y = I the seed's matrix is S: PCA, in the words of supervised PCA.
fn identity_outcome(solution: &Solution, moments: &Moments, columns: Vec<String>) -> LabelOutcome {
    let k = solution.components.nrows();
    let freedom = moments.weight - 1.0;
    let kept = || solution.eigenvalues.iter().take(k);
    let report = LabelReport {
        columns,
        kernel: LabelKernel::Identity,
        gamma: None,
        coef0: None,
        degree: None,
        features: None,
        approximation: None,
        n_classes: None,
        classes: Vec::new(),
        hsic_share: kept().map(|v| v / solution.trace).collect(),
        unlabelled: 0,
    };
    LabelOutcome {
        report,
        hsic: kept().sum::<f64>() / (freedom * freedom),
        total_variance: solution.trace / freedom,
        variances: Some(kept().map(|v| v / freedom).collect()),
    }
}

fn too_large(column: &str) -> String {
    format!("column '{column}' has values so large that their squares overflow; scale it down")
}

/// What was met in the rows of a pass: nothing is lost without a line that says so.
pub(crate) fn tally_notes(features: &Features, nulls: Nulls, tally: &Tally) -> Vec<Note> {
    let named = |counts: &BTreeMap<u32, u64>| -> Vec<(String, u64)> {
        counts.iter().map(|(j, n)| (features.name(*j as usize), *n)).collect()
    };
    let mut notes = Vec::new();
    if !tally.missing.is_empty() {
        let missing = named(&tally.missing);
        notes.push(match nulls {
            Nulls::Drop => Note::RowsDropped { dropped: tally.dropped, rows: tally.rows, missing },
            _ => Note::CellsFilled { missing },
        });
    }
    if tally.unlabelled > 0 {
        notes.push(Note::Unlabelled(tally.unlabelled));
    }
    if !tally.rounded.is_empty() {
        notes.push(Note::Rounded(named(&tally.rounded)));
    }
    notes
}

/// What was left out of a model, and how good it is.
fn model_notes(model: &Model, asked: Components) -> Vec<Note> {
    let header = &model.header;
    let (kept, features) = (model.n_components(), model.n_features() as u64);
    let mut notes = Vec::new();
    if !header.left_out.is_empty() {
        notes.push(Note::ConstantFeatures(header.left_out.clone()));
    }
    let by_labels = header.label.as_ref().is_some_and(|l| l.kernel != LabelKernel::Identity);
    let of_kernel = model.kernel_map().is_some();
    match asked {
        _ if header.form == Form::Basis => notes.extend(basis_notes(model, asked)),
        Components::Count(asked) if !by_labels && asked > kept => {
            notes.push(Note::CappedAtRank {
                kept,
                asked,
                of: if of_kernel { "kernel" } else { "data" },
                rank: header.rank.unwrap_or(kept),
                rows: header.n_rows,
                features,
            });
        }
        Components::All if !by_labels && !of_kernel && (kept as u64) < features => {
            notes.push(Note::RankDeficient { kept, features });
        }
        _ => {}
    }
    let certificate = &header.certificate;
    notes.extend(certificate.iteration.as_ref().map(|i| Note::Iterated {
        count: i.passes,
        products: header.form == Form::Exact,
        residual: certificate.max_residual,
    }));
    notes.extend(certificate.mixed_error.map(Note::MixedError));
    notes.extend(inaccurate(header, asked));
    notes
}

/// Components that are kept and not known to six digits; f32 products have a note of their own.
///
/// Of uncentred rows whose mean is large products see nothing else, and keep nothing else.
fn inaccurate(header: &Header, asked: Components) -> Option<Note> {
    let accurate = header.certificate.accurate_components?;
    let full = header.precision == Precision::Full;
    let wanted = match asked {
        Components::All if !header.center && !full => header.features.len(),
        _ => header.selection.kept,
    };
    let told = accurate < wanted && header.precision != Precision::Mixed;
    told.then_some(Note::InaccurateComponents { accurate, wanted, full })
}

/// A feature that varies, and by so little beside another that it is below the rank.
fn scales_note(model: &Model, moments: &Moments) -> Option<Note> {
    let names = &model.header.features;
    let around = if model.header.center { 0.0 } else { moments.weight };
    let size = |j: usize| moments.squares[j] + around * moments.mean[j] * moments.mean[j];
    // What rounding leaves of a constant is no variance.
    let rounding = |j: usize| moments.weight * (4.0 * f64::EPSILON * moments.mean[j]).powi(2);
    let by_size = |a: &usize, b: &usize| size(*a).total_cmp(&size(*b));
    let all = 0..moments.squares.len();
    let largest = all.clone().max_by(by_size)?;
    let smallest = all.filter(|j| size(*j) > rounding(*j)).min_by(by_size)?;
    let least = rank_tolerance(model.header.n_rows, model.n_features()) * model.eigenvalues[0];
    (size(smallest) <= least).then(|| Note::ScalesDiffer {
        largest: names.name(largest),
        smallest: names.name(smallest),
        times: (size(largest) / size(smallest)).sqrt(),
    })
}

/// What rows do along directions that were found in others.
fn basis_notes(model: &Model, asked: Components) -> Vec<Note> {
    let (has, certificate) = (model.n_components(), &model.header.certificate);
    let mut notes = vec![Note::AlongBasis {
        residual: certificate.max_residual,
        correlation: certificate.score_correlation.unwrap_or(0.0),
    }];
    if let Components::Count(asked) = asked
        && asked > has
    {
        notes.push(Note::ModelHasFewer { asked, has });
    }
    let values = &model.eigenvalues;
    let least = rank_tolerance(model.header.n_rows, model.n_features())
        * values.iter().copied().fold(0.0, f64::max);
    let flat: Vec<usize> = (0..has).filter(|i| values[*i] <= least).map(|i| i + 1).collect();
    let larger = |i: &usize| values[*i] > values[*i - 1] + least;
    let larger: Vec<usize> = (1..has).filter(larger).map(|i| i + 1).collect();
    if !larger.is_empty() {
        notes.push(Note::BasisOrder(larger));
    }
    if !flat.is_empty() {
        notes.push(Note::BasisFlat(flat));
    }
    notes
}
