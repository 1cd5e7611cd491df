//! The scores of a model's candidate features as a table.

use crate::error::{Error, Result};
use crate::model::Model;
use crate::solve::scoring::ranking;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array};
use std::collections::HashSet;
use std::sync::Arc;

impl Model {
    /// Of a model whose features were scored: `feature`, `score`, `rank` (1 is the best) and `kept`
    /// of every one of them, in the order of the columns.
    pub fn feature_score_table(&self) -> Result<Option<RecordBatch>> {
        let (Some(scoring), Some(scores)) = (&self.header.selection.scoring, &self.feature_scores)
        else {
            return Ok(None);
        };
        let names: Vec<String> = scoring.candidates.names().collect();
        let mut ranks = vec![0; names.len()];
        for (place, j) in ranking(scores, scoring.score).into_iter().enumerate() {
            ranks[j] = place as u32 + 1;
        }
        let features: HashSet<String> = self.header.features.names().collect();
        let left_out: HashSet<&String> = self.header.left_out.iter().collect();
        let kept = names.iter().map(|n| Some(features.contains(n) || left_out.contains(n)));
        let columns: [(&str, ArrayRef); 4] = [
            ("kept", Arc::new(BooleanArray::from_iter(kept))),
            ("rank", Arc::new(UInt32Array::from(ranks))),
            ("score", Arc::new(Float64Array::from(scores.to_vec()))),
            ("feature", Arc::new(StringArray::from(names))),
        ];
        RecordBatch::try_from_iter(columns.into_iter().rev())
            .map(Some)
            .map_err(|e| Error::Internal(format!("a table of scores: {e}")))
    }
}
