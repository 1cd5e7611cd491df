//! All rows of a source in memory, for what compares rows pair by pair; or a seeded sample of them.
//!
//! Holds 8·n·d bytes for n rows as the table counts them, and the blocks that are being read.

pub(crate) mod given;

use crate::accumulate::{Accumulate, FeatureMoments, Moments};
use crate::error::Result;
use crate::listen::Watch;
use crate::pass;
use crate::source::labels::Class;
use crate::source::{Block, Labels, Source, Tally, Values};
use crate::workers::Crew;
use ndarray::{Array1, Array2, ArrayViewMut2, s};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::HashMap;

/// Rows, and what was read with them.
pub(crate) struct AllRows {
    /// n × d, missing cells at the mean of their feature.
    pub x: Array2<f64>,
    /// One per row, where they were asked for.
    pub weights: Option<Array1<f64>>,
    /// The labels, where they were asked for.
    pub labels: Option<RowLabels>,
    /// n, W, μ, spread.
    pub moments: Moments,
    /// What must be told.
    pub tally: Tally,
}

/// The labels of all rows.
pub(crate) enum RowLabels {
    /// Positions among the classes.
    Classes {
        /// One per row.
        ids: Vec<u32>,
        /// In the order of their values.
        classes: Vec<Class>,
    },
    /// n × label columns.
    Numbers(Array2<f64>),
}

/// Reads all rows, at most `most` of them.
pub(crate) fn collect_all(
    source: &dyn Source,
    most: u64,
    crew: Crew,
    watch: &Watch<'_>,
) -> Result<AllRows> {
    let d = source.n_features();
    let mut x = Array2::zeros((most as usize, d));
    let mut moments = FeatureMoments::new(d);
    let (mut weights, mut labels, mut rows) = (Vec::new(), LabelRows::default(), 0);
    let tally = pass::each(source, crew, watch, |mut block| {
        labels.take(block.labels.take());
        weights.extend(block.weights.iter().flatten());
        let from = rows;
        rows += block.rows();
        put_rows(&block, x.slice_mut(s![from..rows, ..]));
        moments.update(block);
        Ok(())
    })?;
    let moments = moments.finish();
    let mut x = x.slice_move(s![..rows, ..]);
    if !tally.missing.is_empty() {
        fill(&mut x, &moments.mean);
    }
    let weights = (!weights.is_empty()).then(|| Array1::from_vec(weights));
    Ok(AllRows { x, weights, labels: labels.finish(), moments, tally })
}

/// A seeded sample of rows, all equally likely, in the order of the files.
pub(crate) struct RowSample {
    /// At most as many rows as asked for.
    pub x: Array2<f64>,
    /// Their weights, where there are any.
    pub weights: Option<Array1<f64>>,
    /// n, W, μ, spread of all rows.
    pub moments: Moments,
    /// What must be told.
    pub tally: Tally,
}

/// How many rows are sampled, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// At most so many.
    pub rows: usize,
    /// Which.
    pub seed: u64,
}

/// One pass: the moments of all rows and a sample of those that weigh something (Vitter's
/// reservoir); and the labels of all, where they are wanted.
pub(crate) fn reservoir_sample(
    source: &dyn Source,
    Sample { rows: count, seed }: Sample,
    crew: Crew,
    watch: &Watch<'_>,
    mut labels: Option<&mut LabelRows>,
) -> Result<RowSample> {
    let d = source.n_features();
    let mut moments = FeatureMoments::new(d);
    let mut rng = Pcg64::new(u128::from(seed), 0x5A4D_91E5);
    // Where each came from, so that the sample is in file order.
    let mut kept: Vec<(u64, Array1<f64>, f64)> = Vec::new();
    let mut weighted = false;
    let mut seen = 0u64;
    let tally = pass::each(source, crew, watch, |mut block| {
        if let Some(labels) = &mut labels {
            labels.take(block.labels.take());
        }
        let weights = block.weights.clone();
        weighted |= weights.is_some();
        let looked_at = if count == 0 { 0 } else { block.rows() };
        for i in 0..looked_at {
            let weight = weights.as_ref().map_or(1.0, |w| w[i]);
            if weight == 0.0 {
                continue;
            }
            if kept.len() < count {
                kept.push((seen, row_with_nan(&block, i), weight));
            } else {
                let at = rng.random_range(0..=seen) as usize;
                if at < count {
                    kept[at] = (seen, row_with_nan(&block, i), weight);
                }
            }
            seen += 1;
        }
        moments.update(block);
        Ok(())
    })?;
    kept.sort_unstable_by_key(|(at, ..)| *at);
    let moments = moments.finish();
    let mut x = Array2::zeros((kept.len(), d));
    x.rows_mut().into_iter().zip(&kept).for_each(|(mut to, (_, from, _))| to.assign(from));
    let weights = weighted.then(|| kept.iter().map(|(.., w)| *w).collect());
    fill(&mut x, &moments.mean);
    Ok(RowSample { x, weights, moments, tally })
}

/// The rows of a block, NaN where a cell is missing.
fn put_rows(block: &Block, mut to: ArrayViewMut2<'_, f64>) {
    match &block.values {
        Values::F64(from) => to.assign(from),
        Values::F32(from) => to.zip_mut_with(from, |to, from| *to = f64::from(*from)),
    }
    for cell in &block.missing {
        to[[cell.row as usize, cell.feature as usize]] = f64::NAN;
    }
}

/// A row of a block, NaN where a cell is missing: they are in the order of their rows.
fn row_with_nan(block: &Block, row: usize) -> Array1<f64> {
    let mut values = match &block.values {
        Values::F64(x) => x.row(row).to_owned(),
        Values::F32(x) => x.row(row).mapv(f64::from),
    };
    let before = block.missing.partition_point(|cell| (cell.row as usize) < row);
    let cells = block.missing[before..].iter().take_while(|cell| cell.row as usize == row);
    cells.for_each(|cell| values[cell.feature as usize] = f64::NAN);
    values
}

/// Missing cells take the mean.
fn fill(x: &mut Array2<f64>, mean: &Array1<f64>) {
    for mut row in x.rows_mut() {
        row.zip_mut_with(mean, |x, mean| *x = if x.is_nan() { *mean } else { *x });
    }
}

/// Labels as they come, classes numbered for all blocks.
#[derive(Default)]
pub(crate) struct LabelRows {
    ids: Vec<u32>,
    known: HashMap<Class, u32>,
    numbers: Option<(usize, Vec<f64>)>,
}

impl LabelRows {
    fn take(&mut self, labels: Option<Labels>) {
        match labels {
            None => {}
            Some(Labels::Numbers(y)) => {
                let (_, numbers) = self.numbers.get_or_insert_with(|| (y.ncols(), Vec::new()));
                numbers.extend(y.iter());
            }
            Some(Labels::Classes { ids, classes }) => {
                let mut seen = vec![None; classes.len()];
                for id in ids {
                    let place = seen[id as usize].get_or_insert_with(|| {
                        let next = self.known.len() as u32;
                        *self.known.entry(classes[id as usize].clone()).or_insert(next)
                    });
                    self.ids.push(*place);
                }
            }
        }
    }

    /// All of them.
    pub(crate) fn finish(self) -> Option<RowLabels> {
        if let Some((columns, numbers)) = self.numbers {
            let rows = numbers.len() / columns.max(1);
            return Array2::from_shape_vec((rows, columns), numbers).ok().map(RowLabels::Numbers);
        }
        let mut order: Vec<(Class, u32)> = self.known.into_iter().collect();
        order.sort_unstable();
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, (_, id))| place[*id as usize] = at as u32);
        let ids: Vec<u32> = self.ids.iter().map(|id| place[*id as usize]).collect();
        (!ids.is_empty()).then(|| RowLabels::Classes {
            ids,
            classes: order.into_iter().map(|(class, _)| class).collect(),
        })
    }
}
