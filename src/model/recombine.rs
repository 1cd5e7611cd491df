//! A kernel model and PCA of its scores over other rows → one kernel model of those rows.
//!
//! A model whose components span all that its landmarks or random features can say is a rotation of
//! them: z = A k(x) − o. With V and ν the components and mean of PCA over z,
//!
//! ```text
//! scores       z' = V (z − ν) = (VA) k(x) − V (o + ν)
//! mean over k  μ + Aᵀν                squared length  ‖μ‖² + 2 oᵀν + ‖ν‖²
//! ```
//!
//! so a sample decides on what rows are compared with, and all rows on the components.

use super::{Model, Projection};
use crate::error::{Error, Result};

impl Model {
    /// This kernel model with components of its own scores, found by PCA over other rows.
    pub fn recombined(&self, scores: &Model) -> Result<Model> {
        let Projection::Kernel(map) = &self.projection else {
            return Error::misuse("only a kernel model is put together with PCA of its scores");
        };
        let components =
            scores.components().filter(|_| scores.header.center && scores.scale.is_none());
        let Some(components) = components.filter(|v| v.ncols() == self.n_components()) else {
            return Error::misuse(format!(
                "the scores of this model are {} numbers a row; fit PCA to all of them, centred \
                 and not standardized",
                self.n_components()
            ));
        };
        let mut map = map.clone();
        let shift = &scores.mean;
        map.mean += &map.coefficients.t().dot(shift);
        map.grand_mean += 2.0 * map.offset.dot(shift) + shift.dot(shift);
        map.offset = components.dot(&(&map.offset + shift));
        map.coefficients = components.dot(&map.coefficients);
        map.kernel_means = None;
        let (mut header, of) = (self.header.clone(), &scores.header);
        header.n_rows = of.n_rows;
        header.rank = of.rank;
        header.total_variance = of.total_variance;
        header.degrees_of_freedom = of.degrees_of_freedom;
        header.selection = of.selection.clone();
        header.certificate = of.certificate.clone();
        header.weight = of.weight.clone();
        header.ledger = of.ledger.clone();
        if let Some(kernel) = &mut header.kernel {
            kernel.grand_mean = map.grand_mean;
            // A way back that was learned from other scores is none.
            kernel.preimage = None;
        }
        Ok(Model {
            header,
            projection: Projection::Kernel(map),
            eigenvalues: scores.eigenvalues.clone(),
            variances: scores.variances.clone(),
            preimage: None,
            ..self.clone()
        })
    }
}
