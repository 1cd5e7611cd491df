//! Some rows, dense, and what must be told about them.
//!
//! A block is a rows × d matrix in C or F order, the list of its missing cells (their slots hold
//! 0), weights, and the columns that are passed through untouched. `densify` makes blocks,
//! accumulators and projections use them up.

use super::Labels;
use super::whole_labels::WholeLabels;
use crate::error::{Error, Result};
use arrow_array::RecordBatch;
use ndarray::{Array1, Array2, Axis};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is done with a row that has a missing (null or NaN) feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Nulls {
    /// Stop and name the first one.
    #[default]
    Error,
    /// Leave the row out, and say how many were.
    Drop,
    /// Put the feature's own mean over its present values.
    Mean,
}

impl fmt::Display for Nulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Nulls::Error => "error",
            Nulls::Drop => "drop",
            Nulls::Mean => "mean",
        })
    }
}

/// Arithmetic of the block products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// f64 throughout.
    #[default]
    Exact,
    /// f32 products of centred f32 blocks, added up in f64.
    Mixed,
    /// A triangular factor in f64 instead of products: small components keep their digits too.
    Full,
}

/// The numbers of a block.
#[derive(Debug, Clone)]
pub enum Values {
    /// The usual.
    F64(Array2<f64>),
    /// Under [`Precision::Mixed`].
    F32(Array2<f32>),
}

/// A cell without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingCell {
    /// Row of the block.
    pub row: u32,
    /// Feature.
    pub feature: u32,
}

/// What must be told at the end of a pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Rows that were read.
    pub rows: u64,
    /// Rows left out by [`Nulls::Drop`].
    pub dropped: u64,
    /// Rows without a label.
    pub unlabelled: u64,
    /// Missing cells per feature, ascending by feature.
    #[serde(with = "pairs")]
    pub missing: std::collections::BTreeMap<u32, u64>,
    /// Integers or decimals that f64 rounds, per feature.
    #[serde(with = "pairs")]
    pub rounded: std::collections::BTreeMap<u32, u64>,
    /// The values of labels that have few, all of them whole numbers.
    #[serde(default, skip_serializing_if = "WholeLabels::is_empty")]
    pub whole_labels: WholeLabels,
    /// Σw², of rows with weights; 0 without.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight_squares: f64,
}

fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

/// Σw² of the rows of a block.
pub(super) fn weight_squares(weights: Option<&Array1<f64>>) -> f64 {
    weights.map_or(0.0, |w| w.iter().map(|w| w * w).sum())
}

impl Tally {
    /// Adds another tally to this one.
    pub fn add(&mut self, other: Tally) {
        match (self.whole_labels.is_empty(), other.whole_labels.is_empty()) {
            (false, false) => self.whole_labels.add(other.whole_labels),
            (true, false) if self.rows == 0 => self.whole_labels = other.whole_labels,
            // Rows of a state whose labels were not looked at.
            (true, false) => {
                self.whole_labels = other.whole_labels;
                self.whole_labels.forget();
            }
            (false, true) if other.rows > 0 => self.whole_labels.forget(),
            (_, true) => {}
        }
        self.rows += other.rows;
        self.dropped += other.dropped;
        self.unlabelled += other.unlabelled;
        self.weight_squares += other.weight_squares;
        for (feature, count) in other.missing {
            *self.missing.entry(feature).or_default() += count;
        }
        for (feature, count) in other.rounded {
            *self.rounded.entry(feature).or_default() += count;
        }
    }
}

impl Tally {
    /// Takes out what was added.
    pub(crate) fn subtract(&mut self, part: &Tally) {
        self.rows = self.rows.saturating_sub(part.rows);
        self.dropped = self.dropped.saturating_sub(part.dropped);
        self.unlabelled = self.unlabelled.saturating_sub(part.unlabelled);
        self.weight_squares = (self.weight_squares - part.weight_squares).max(0.0);
        // Which of them are left is not known.
        self.whole_labels.forget();
        let both = [(&mut self.missing, &part.missing), (&mut self.rounded, &part.rounded)];
        for (counts, less) in both {
            for (feature, count) in less {
                if let Some(c) = counts.get_mut(feature) {
                    *c = c.saturating_sub(*count);
                }
            }
            counts.retain(|_, count| *count > 0);
        }
    }

    /// Of the same features in another order: the one at `order[i]` comes to i.
    pub(crate) fn reordered(&self, order: &[usize]) -> Tally {
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, from)| place[*from] = to as u32);
        let moved = |counts: &std::collections::BTreeMap<u32, u64>| {
            counts.iter().map(|(j, n)| (place[*j as usize], *n)).collect()
        };
        Tally { missing: moved(&self.missing), rounded: moved(&self.rounded), ..self.clone() }
    }

    /// True when it can be of so many features, and counts no more than `most` of anything.
    pub(crate) fn is_possible(&self, features: usize, most: u64) -> bool {
        let cells = || self.missing.iter().chain(&self.rounded);
        let mut counts = [self.rows, self.dropped, self.unlabelled].into_iter();
        counts.all(|n| n <= most)
            && cells().all(|(feature, n)| *n <= most && (*feature as usize) < features)
    }

    /// Of these features alone, by their new positions.
    pub(crate) fn select_features(&self, kept: &[usize]) -> Tally {
        let place = |j: &u32| kept.binary_search(&(*j as usize)).ok().map(|at| at as u32);
        let only = |counts: &std::collections::BTreeMap<u32, u64>| {
            counts.iter().filter_map(|(j, n)| Some((place(j)?, *n))).collect()
        };
        Tally { missing: only(&self.missing), rounded: only(&self.rounded), ..self.clone() }
    }
}

/// Counts by feature as a list of pairs: JSON has no numbers for keys.
mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(
        counts: &BTreeMap<u32, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(counts.iter())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<u32, u64>, D::Error> {
        Ok(Vec::<(u32, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Some rows, dense.
#[derive(Debug, Clone)]
pub struct Block {
    /// rows × d.
    pub values: Values,
    /// One per row, where there is a weight column.
    pub weights: Option<Array1<f64>>,
    /// One per row, where labels are wanted.
    pub labels: Option<Labels>,
    /// Cells whose value is to be the feature's mean; sorted. Empty unless the policy is `mean`.
    pub missing: Vec<MissingCell>,
    /// Columns passed through, one row per row of the block.
    pub kept: Option<RecordBatch>,
    /// What this block adds to the tally.
    pub tally: Tally,
}

impl Block {
    /// A block of plain numbers.
    pub fn dense(values: Array2<f64>) -> Block {
        let tally = Tally { rows: values.nrows() as u64, ..Tally::default() };
        Block {
            values: Values::F64(values),
            weights: None,
            labels: None,
            missing: Vec::new(),
            kept: None,
            tally,
        }
    }

    /// The rows that have no missing cell and are not among the others given, in C order.
    pub(super) fn without_missing(mut self, others: &[usize]) -> Result<Block> {
        let mut whole = vec![true; self.rows()];
        others.iter().for_each(|row| whole[*row] = false);
        for cell in self.missing.drain(..) {
            whole[cell.row as usize] = false;
        }
        let rows: Vec<usize> = (0..whole.len()).filter(|r| whole[*r]).collect();
        self.tally.dropped += (whole.len() - rows.len()) as u64;
        self.values = match self.values {
            Values::F64(x) => Values::F64(x.select(Axis(0), &rows)),
            Values::F32(x) => Values::F32(x.select(Axis(0), &rows)),
        };
        self.weights = self.weights.map(|w| w.select(Axis(0), &rows));
        self.labels = self.labels.map(|labels| labels.select(&rows));
        let mask = arrow_array::BooleanArray::from(whole);
        let kept = self
            .kept
            .map(|batch| arrow_select::filter::filter_record_batch(&batch, &mask))
            .transpose();
        self.kept = kept.map_err(|e| Error::Internal(format!("filter: {e}")))?;
        Ok(self)
    }

    /// The rows that have no missing cell.
    pub(crate) fn complete_rows(&self) -> Vec<usize> {
        let mut whole = vec![true; self.rows()];
        self.missing.iter().for_each(|cell| whole[cell.row as usize] = false);
        (0..whole.len()).filter(|row| whole[*row]).collect()
    }

    /// Some of its rows, ascending, with nothing to be told of them.
    pub fn select_rows(&self, rows: &[usize]) -> Block {
        let place: std::collections::HashMap<u32, u32> = match self.missing.is_empty() {
            true => Default::default(),
            false => rows.iter().enumerate().map(|(to, from)| (*from as u32, to as u32)).collect(),
        };
        let missing = |cell: &MissingCell| {
            Some(MissingCell { row: *place.get(&cell.row)?, feature: cell.feature })
        };
        Block {
            values: match &self.values {
                Values::F64(x) => Values::F64(x.select(Axis(0), rows)),
                Values::F32(x) => Values::F32(x.select(Axis(0), rows)),
            },
            weights: self.weights.as_ref().map(|w| w.select(Axis(0), rows)),
            labels: self.labels.clone().map(|labels| labels.select(rows)),
            missing: self.missing.iter().filter_map(missing).collect(),
            kept: None,
            tally: Tally::default(),
        }
    }

    /// Its numbers as f64, in the block's own order.
    pub fn into_f64(self) -> Array2<f64> {
        match self.values {
            Values::F64(x) => x,
            Values::F32(x) => x.mapv(f64::from),
        }
    }

    /// Rows in the block, after any were dropped.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::F64(x) => x.nrows(),
            Values::F32(x) => x.nrows(),
        }
    }
}
