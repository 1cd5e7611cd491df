//! `inspect`: a model or a state, for people or programs.

use super::args::InspectArgs;
use super::scan::describe;
use super::{print, print_json};
use crate::error::Result;
use crate::model::Model;
use crate::source::Features;
use crate::state::State;
use crate::words::{count, list, one_line};
use serde_json::json;
use std::fmt::Write;

/// Inputs that are listed.
const SHOWN_INPUTS: usize = 10;

pub(super) fn run(args: &InspectArgs) -> Result<()> {
    let model = match Model::load(&args.model) {
        Ok(model) => model,
        // A state is shown as one; what is neither is told as a model would be.
        Err(error) => {
            return match State::load(&args.model) {
                Ok(state) if args.features => print(&names(&state.about.columns)),
                Ok(state) if args.json => print_json(&json!(state.about)),
                Ok(state) => print(&page(&state)),
                Err(_) => Err(error),
            };
        }
    };
    match (args.features, args.json) {
        (true, _) => print(&names(&model.header.features)),
        (_, true) => print_json(&model.to_json()),
        _ => print(&model.page()),
    }
}

/// One a line.
fn names(features: &Features) -> String {
    features.names().map(|name| one_line(&name) + "\n").collect()
}

/// A state as a page of text.
fn page(state: &State) -> String {
    let about = &state.about;
    let mut page = format!("state: {}, eigenstream {}\n", describe(state), about.version);
    let mut kept = Vec::new();
    kept.extend(state.has_covariance().then_some("covariance"));
    kept.extend(about.labels.is_some().then_some("label sums"));
    let folds = match state.n_folds() {
        1 => String::new(),
        n => format!(", in {n} folds"),
    };
    let _ = writeln!(page, "keeps {}{folds}", kept.join(" and "));
    let _ = writeln!(page, "features {}", about.columns.summary());
    if let Some(labels) = &about.labels {
        let kind = if labels.classes { "classes" } else { "numbers" };
        let _ = writeln!(page, "label {} as {kind}", list(&labels.columns));
    }
    if let Some(group) = &about.group {
        let _ = writeln!(
            page,
            "group {} = {}",
            one_line(&group.column),
            one_line(&group.value.to_string())
        );
    }
    if let Some(progress) = about.progress {
        let _ = writeln!(page, "checkpoint: {} of {} units done", progress.units, progress.of);
    }
    if about.cancellation > 1.0 {
        let _ = writeln!(page, "{:.1} digits lost by subtraction", state.lost_digits());
    }
    for entry in about.ledger.iter().take(SHOWN_INPUTS) {
        let _ = writeln!(page, "  {}  {}", count(entry.rows, "row"), one_line(&entry.path));
    }
    if about.ledger.len() > SHOWN_INPUTS {
        let _ = writeln!(page, "  … and {} more", about.ledger.len() - SHOWN_INPUTS);
    }
    page
}
