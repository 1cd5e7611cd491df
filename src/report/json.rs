//! The same facts for programs. Names are a promise; new ones may be added.

use crate::model::Model;
use ndarray::Array1;
use serde_json::{Value, json};

/// All of a model. Arrays named after components have one entry per kept component; `spectrum` has
/// every eigenvalue that is known.
pub(crate) fn model(model: &Model) -> Value {
    let header = &model.header;
    let k = model.n_components();
    let list = |a: &Array1<f64>| a.to_vec();
    let rows =
        |m: &ndarray::Array2<f64>| m.rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>();
    json!({
        "method": header.method,
        "form": header.form,
        "n_rows": header.n_rows,
        "n_features": model.n_features(),
        "features": header.features.names().collect::<Vec<_>>(),
        "columns": header.columns,
        "left_out": header.left_out,
        "n_components": k,
        "rank": header.rank,
        "eigenvalues": model.eigenvalues.iter().take(k).collect::<Vec<_>>(),
        "spectrum": list(&model.eigenvalues),
        "explained_variance": model.explained_variance(),
        "explained_variance_ratio": model.explained_variance_ratio(),
        "total_variance": header.total_variance,
        "variance_kind": model.variance_kind(),
        "degrees_of_freedom": header.degrees_of_freedom,
        "center": header.center,
        "standardize": header.standardize,
        "mean": list(&model.mean),
        "scale": model.scale.as_ref().map(list),
        "components": model.components().map(rows),
        "kernel": header.kernel.as_ref().map_or_else(|| json!({}), |k| json!(k)),
        "coefficients": model.kernel_map().map(|m| rows(&m.coefficients)),
        "offset": model.kernel_map().map(|m| list(&m.offset)),
        "label": header.label.as_ref().map_or_else(|| json!({}), |l| json!(l)),
        "hsic": header.hsic,
        "basis": header.basis,
        "selection": selection(model),
        "certificate": header.certificate,
        "nulls": header.nulls,
        "weight": header.weight,
        "precision": header.precision,
        "rounded": header.rounded,
        "seed": header.seed,
        "ledger": header.ledger,
        "version": header.version,
    })
}

/// How k came about, and with scoring the score of every feature by name.
fn selection(model: &Model) -> Value {
    let selection = &model.header.selection;
    let mut value = json!(selection);
    if let (Some(scoring), Some(scores)) = (&selection.scoring, &model.feature_scores) {
        let names =
            scoring.candidates.names().zip(scores).map(|(name, score)| (name, json!(score)));
        value["scoring"]["scores"] = Value::Object(names.collect());
        value["scoring"]["features"] = json!(model.header.features.names().collect::<Vec<_>>());
    }
    value
}

/// Indented, with a newline at the end. What a terminal would act on is escaped, also what JSON
/// itself lets pass.
#[cfg(feature = "cli")]
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = format!("{value:#}\n");
    let acts = |c: char| !c.is_ascii() && crate::words::is_hidden(c);
    if text.chars().any(|c| acts(c) || c == '\u{7f}') {
        let shown = |c: char| match acts(c) || c == '\u{7f}' {
            true => format!("\\u{:04x}", c as u32),
            false => c.to_string(),
        };
        text = text.chars().map(shown).collect();
    }
    text
}
