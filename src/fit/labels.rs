//! Δ row by row, for kernel supervised PCA: what the labels of rows are as columns of numbers.
//!
//! Enters: the labels of all rows. Leaves: Nᵀ = (HΔ)ᵀ, r × n, weighted. Holds it, 8·r·n bytes.

use super::assemble::ModelContext;
use super::check::LabelProblem;
use super::cost_kernel::LABEL_BYTES;
use super::label_factor::LabelFactor;
use super::options::cores;
use super::run::Run;
use super::supervise::{LISTED_CLASSES, has_squares};
use crate::collect::RowLabels;
use crate::error::{Error, Result};
use crate::kernel::Fourier;
use crate::model::ClassReport;
use crate::note::Note;
use crate::solve::supervised::{label_factor, one_hot};
use crate::source::Tally;
use crate::source::labels::Class;
use crate::words::megabytes;
use ndarray::{Array1, Array2, ArrayView1, s};

/// Distinct labels up to which the rbf kernel over them is factored exactly.
pub(crate) const EXACT_LABELS: usize = 1_000;

/// Columns of Δ for all rows.
pub(super) struct LabelColumns {
    /// r × n: centred, and weighted where rows are.
    pub(super) rows: Array2<f64>,
    /// The largest rank.
    pub(super) bound: usize,
    /// True when random features stand for the kernel over labels.
    pub(super) random: bool,
}

impl Run<'_> {
    /// Nᵀ: the rows of Δ, centred and weighted.
    pub(super) fn label_columns(
        &self,
        context: &ModelContext<'_>,
        labels: &LabelProblem,
        read: &RowLabels,
        weights: Option<&Array1<f64>>,
    ) -> Result<LabelColumns> {
        let mut columns = match read {
            RowLabels::Numbers(y) => self.number_columns(labels, y)?,
            RowLabels::Classes { ids, classes } => {
                context.check_classes(classes, labels, "kernel supervised PCA")?;
                self.class_columns(labels, ids, classes)?
            }
        };
        let (r, n) = columns.rows.dim();
        self.room_for(r, n, labels)?;
        if !has_squares(&columns.rows) {
            return Err(self.refusal(labels.overflow()));
        }
        match centre(&mut columns.rows, weights) {
            true => Ok(columns),
            false => Err(self
                .refusal(format!("{}; there is nothing for rows to depend on", labels.constant()))),
        }
    }

    fn number_columns(&self, labels: &LabelProblem, y: &Array2<f64>) -> Result<LabelColumns> {
        let LabelFactor::Numbers(map) = &labels.factor else {
            return Err(Error::Internal("numbers were read where classes are wanted".into()));
        };
        self.room_for(map.len(), y.nrows(), labels)?;
        let rows = map.apply(y.clone()).reversed_axes().as_standard_layout().into_owned();
        Ok(LabelColumns { rows, bound: map.len(), random: labels.factor.is_random() })
    }

    fn class_columns(
        &self,
        labels: &LabelProblem,
        ids: &[u32],
        classes: &[Class],
    ) -> Result<LabelColumns> {
        let (n, bound) = (ids.len(), classes.len() - 1);
        let by_class = |factor: &Array2<f64>| {
            let mut rows = Array2::zeros((factor.nrows(), n));
            let columns = rows.columns_mut().into_iter().zip(ids);
            columns.for_each(|(mut to, id)| to.assign(&factor.column(*id as usize)));
            rows
        };
        self.room_for(classes.len().min(EXACT_LABELS), n, labels)?;
        let one_hot = || one_hot(classes, &labels.numeric);
        match (&labels.factor, labels.function) {
            (LabelFactor::Distinct, Some(kernel)) if classes.len() <= EXACT_LABELS => {
                let (factor, values) = label_factor(&one_hot(), kernel, cores())?;
                let largest = values.iter().last().copied().unwrap_or(0.0);
                let least = f64::EPSILON * values.len() as f64 * largest;
                let first = values.iter().take_while(|v| **v <= least).count();
                let rows = by_class(&factor.slice(s![first.., ..]).to_owned());
                Ok(LabelColumns { rows, bound, random: false })
            }
            (LabelFactor::Distinct, _) => self.random_columns(labels, ids, classes),
            (LabelFactor::OneHot, _) => {
                let delta = one_hot();
                let bound = delta.ncols();
                let rows = by_class(&delta.reversed_axes().as_standard_layout().into_owned());
                Ok(LabelColumns { rows, bound, random: false })
            }
            (factor, _) => {
                self.room_for(classes.len(), n, labels)?;
                let scale = if let LabelFactor::Classes { scale } = factor { *scale } else { 1.0 };
                let rows = by_class(&(Array2::eye(classes.len()) * scale.sqrt()));
                Ok(LabelColumns { rows, bound, random: false })
            }
        }
    }

    /// Random Fourier features of many distinct labels.
    fn random_columns(
        &self,
        labels: &LabelProblem,
        ids: &[u32],
        classes: &[Class],
    ) -> Result<LabelColumns> {
        let Some(gamma) = labels.random_gamma() else {
            return Err(self.refusal(labels.too_many_distinct()));
        };
        let (columns, features) = (labels.request.columns.len(), labels.features);
        self.room_for(features, ids.len(), labels)?;
        let value = |(row, column): (usize, usize)| {
            classes[ids[row] as usize][column].number().unwrap_or(0.0)
        };
        let y = Array2::from_shape_fn((ids.len(), columns), value);
        let exact = Some(EXACT_LABELS);
        self.listener.note(&Note::LabelFeatures { exact, features, another_pass: false });
        let psi = Fourier::new(columns, features, gamma, self.plan.problem.seed).apply(y.view());
        let rows = psi.reversed_axes().as_standard_layout().into_owned();
        Ok(LabelColumns { rows, bound: features, random: true })
    }

    /// Refuses more label features than there is room for, now that their number is known.
    fn room_for(&self, r: usize, n: usize, labels: &LabelProblem) -> Result<()> {
        let budget = self.plan.problem.budget.bytes.0;
        let held = |r: u64| {
            // Rows twice, labels and their images, tiles or the r × r problem.
            let rows = 16 * (n * self.plan.problem.n_features()) as u64;
            rows + LABEL_BYTES * r * n as u64 + self.plan.work.labelled(r, self.plan.threads())
        };
        if held(r as u64) <= budget {
            return Ok(());
        }
        let most = super::cost::largest(r as u64, |r| held(r) <= budget);
        let memory = megabytes(held(r as u64));
        let hint = format!(
            "a label that names each row is an id; choose another, or allow ⟦memory={memory}⟧"
        );
        Err(Error::TooManyClasses { label: labels.name(), classes: most as usize, hint })
    }
}

/// Fewer rows than this per distinct value are no classes.
const ROWS_PER_CLASS: u64 = 5;

/// Labels that are taken as numbers and look like classes: few whole numbers, each of many rows.
///
/// Two numbers are as far from each other as two classes are, so nothing is told of them.
pub(crate) fn whole_number_notes(
    columns: &[String],
    is_number: impl Fn(usize) -> bool,
    tally: &Tally,
    scanned: bool,
) -> Vec<Note> {
    let rows = tally.rows.saturating_sub(tally.dropped);
    let note = |(j, label): (usize, &String)| {
        let values = tally.whole_labels.column(j).filter(|_| is_number(j))?;
        let classes = values.len() as u64;
        (classes > 2 && classes.saturating_mul(ROWS_PER_CLASS) <= rows).then(|| {
            Note::WholeNumberLabel { label: label.clone(), values: values.to_vec(), scanned }
        })
    };
    columns.iter().enumerate().filter_map(note).collect()
}

/// Centres and weighs each row; false where none of them varies.
fn centre(rows: &mut Array2<f64>, weights: Option<&Array1<f64>>) -> bool {
    let total = weights.map_or(rows.ncols() as f64, |w| w.sum());
    let mut varies = false;
    for mut row in rows.rows_mut() {
        let mean = weights.map_or_else(|| row.sum(), |w| w.dot(&row)) / total;
        let size = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        row -= mean;
        varies |= row.iter().any(|v| v.abs() > 4.0 * f64::EPSILON * size);
        if let Some(weights) = weights {
            row *= weights;
        }
    }
    varies
}

/// True when classes, and not distances between them, are what the labels are.
pub(super) fn are_classes(labels: &LabelProblem) -> bool {
    labels.factor != LabelFactor::Distinct
}

/// The mean scores (k × n) of each class.
pub(super) fn class_centroids(
    scores: &Array2<f64>,
    ids: &[u32],
    classes: &[Class],
    weights: Option<&Array1<f64>>,
) -> Vec<ClassReport> {
    if classes.len() > LISTED_CLASSES {
        return Vec::new();
    }
    let mut sums = Array2::<f64>::zeros((classes.len(), scores.nrows()));
    let mut totals = vec![0.0; classes.len()];
    for (i, id) in ids.iter().enumerate() {
        let weight = weights.map_or(1.0, |w| w[i]);
        sums.row_mut(*id as usize).scaled_add(weight, &scores.column(i));
        totals[*id as usize] += weight;
    }
    let rows = classes.iter().zip(sums.rows()).zip(&totals);
    let report = |((class, sum), weight): ((&Class, ArrayView1<'_, f64>), &f64)| ClassReport {
        class: class.clone(),
        weight: *weight,
        centroid: (&sum / weight.max(f64::MIN_POSITIVE)).to_vec(),
    };
    rows.filter(|(_, weight)| **weight > 0.0).map(report).collect()
}

/// Σ w (z − z̄)² of each row of scores.
pub(super) fn score_squares(
    scores: &Array2<f64>,
    weights: Option<&Array1<f64>>,
    total: f64,
) -> Array1<f64> {
    let along = |row: ArrayView1<'_, f64>| {
        let mean = weights.map_or_else(|| row.sum(), |w| w.dot(&row)) / total;
        let weighted =
            |(i, z): (usize, &f64)| weights.map_or(1.0, |w| w[i]) * (z - mean) * (z - mean);
        row.iter().enumerate().map(weighted).sum::<f64>()
    };
    scores.rows().into_iter().map(along).collect()
}
