//! What people and programs read of a model or a plan: a page of text, JSON, the scores of a
//! model's features.

mod feature_scores;
pub(crate) mod json;
pub(crate) mod plan;
mod table;
mod text;

use crate::model::Model;

impl Model {
    /// A page of text: what it is, the scree plot, the rules, the loadings.
    ///
    /// ```
    /// use eigenstream::{ArrowTable, Fit, Quiet};
    ///
    /// let table = ArrowTable::from(ndarray::array![[1.0, 2.0], [2.0, 4.1], [3.0, 5.8]]);
    /// let model = Fit::pca().plan(&table)?.run(&Quiet)?;
    /// assert!(model.page().starts_with("pca, primal form: 3 rows × 2 features"));
    /// assert_eq!(model.to_json()["n_components"], 2);
    /// # Ok::<(), eigenstream::Error>(())
    /// ```
    pub fn page(&self) -> String {
        text::model(self)
    }

    /// All of it, under names that are a promise.
    pub fn to_json(&self) -> serde_json::Value {
        json::model(self)
    }
}
