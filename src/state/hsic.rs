//! A state → HSIC of its features and labels, without a row: ‖M‖² of the sums that supervised PCA
//! decomposes, over (W − 1)².

use super::State;
use crate::accumulate::{Accumulate, LabelMoments};
use crate::error::{Error, Result};
use crate::fit::Fit;
use crate::fit::check::LabelUse;
use crate::fit::supervise::label_matrix;
use crate::listen::Quiet;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct StateHsic {
    /// The empirical HSIC.
    pub hsic: f64,
    /// Rows that counted.
    pub rows: u64,
    /// Features.
    pub features: usize,
    /// Rows left out for missing values or labels.
    pub dropped: u64,
    /// The label columns.
    pub labels: Vec<String>,
}

impl State {
    /// HSIC by the linear kernel over all features and the labels' kernel of `fit`, which is delta
    /// or linear.
    pub fn hsic(&self, fit: &Fit) -> Result<StateHsic> {
        self.check_fit(fit)?;
        let LabelUse::Read(labels) = self.label_use(fit)? else {
            return Error::misuse("HSIC compares with labels; name their ⟦label⟧ columns");
        };
        let none = || Error::Misuse("this state has no sums of labels; scan with ⟦label⟧".into());
        let sums = self.whole().finish().labels.ok_or_else(none)?;
        let moments = match &sums {
            LabelMoments::Classes(sums) => &sums.moments,
            LabelMoments::Numbers(sums) => &sums.moments,
        };
        let (rows, weight) = (moments.rows, moments.weight);
        self.context(fit, LabelUse::None, &Quiet).check(moments, &self.about.tally)?;
        let (m, _) = label_matrix(&sums, &labels)?;
        let trace: f64 = m.iter().map(|v| v * v).sum();
        let freedom = weight - 1.0;
        Ok(StateHsic {
            hsic: trace / (freedom * freedom),
            rows,
            features: self.about.columns.len(),
            dropped: self.about.tally.dropped,
            labels: labels.request.columns,
        })
    }
}
