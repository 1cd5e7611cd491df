//! Adding rows to a state: what is read of them is what the state was made of.
//!
//! Enters: a state, what was asked, and the table to add. Leaves: the fit that its rows are read
//! for. Options that are given must agree with the state; those that are not are taken from it.

use super::{State, StateLabels};
use crate::error::{Error, Result};
use crate::fit::{ColumnOptions, Fit};
use crate::note::Note;
use crate::source::{ColumnKind, ColumnOrigin, Nulls, Precision, Table};
use crate::source::{covers_column, is_index_name};
use crate::state::{Scan, Statistics};
use std::collections::HashSet;

impl State {
    /// The fit of all rows, those of a table added: columns, labels, weights and null policy are
    /// the state's. `nulls` is the policy that was given, if one was.
    pub fn fit_of_more(&self, fit: &Fit, nulls: Option<Nulls>, table: &dyn Table) -> Result<Fit> {
        let mut more = fit.with_names(table)?;
        self.check_columns(&fit.columns)?;
        self.check_labels(&more)?;
        let about = &self.about;
        if let Some(given) = more.weight.as_ref().filter(|w| about.weight.as_ref() != Some(w)) {
            let has = match &about.weight {
                Some(weight) => format!("the weights of {weight}"),
                None => "no weights".into(),
            };
            return disagree("weight", given, &has);
        }
        if let Some(given) = nulls.filter(|given| *given != about.nulls) {
            let has = format!("⟦nulls={}⟧", about.nulls);
            return disagree("nulls", &given.to_string(), &has);
        }
        if ![Precision::default(), about.precision].contains(&more.precision) {
            return Error::misuse(
                "⟦precision=full⟧: the state has sums of products; leave it out, or choose another \
                 state",
            );
        }
        more.weight = about.weight.clone();
        more.nulls = about.nulls;
        more.precision = about.precision;
        more.columns.exactly = Some(about.columns.clone());
        if let Some(labels) = about.labels.as_ref().filter(|_| more.method.is_supervised()) {
            more.labels.columns = labels.columns.clone();
            more.labels.classes = labels.classes_given();
        }
        Ok(more)
    }

    /// The scan that adds a table's rows.
    pub fn scan_of_more(&self, fit: &Fit) -> Scan {
        let about = &self.about;
        let labels = about.labels.as_ref();
        let columns =
            ColumnOptions { exactly: Some(about.columns.clone()), ..ColumnOptions::default() };
        Scan {
            columns,
            labels: labels.map(|l| l.columns.clone()).unwrap_or_default(),
            classes: labels.is_some_and(StateLabels::classes_given),
            weight: about.weight.clone(),
            nulls: about.nulls,
            keep: match (self.has_covariance(), labels.is_some()) {
                (true, true) => Statistics::CovarianceAndLabels,
                (false, true) => Statistics::Labels,
                (_, false) => Statistics::Covariance,
            },
            folds: (self.n_folds() > 1).then(|| self.n_folds()),
            seed: about.fold_seed.unwrap_or(fit.seed),
            by: None,
            shard: None,
            precision: about.precision,
            resources: fit.resources.clone(),
        }
    }

    /// Numeric columns of a table that the state knows nothing of.
    pub fn columns_passed_over(&self, fit: &Fit, table: &dyn Table) -> Option<Note> {
        let about = &self.about;
        let labels = about.labels.iter().flat_map(|l| &l.columns);
        let features = about.columns.columns.iter().map(|c| &c.name);
        let known: HashSet<&String> = features.chain(labels).chain(&about.weight).collect();
        let index = table.index_columns();
        let new = table.columns().iter().filter(|c| {
            let proper = c.origin == ColumnOrigin::Column && !index.contains(&c.name);
            let excluded = fit.columns.exclude.iter().any(|e| covers_column(e, &c.name));
            let number = !matches!(c.kind, ColumnKind::Other(_));
            number && proper && !excluded && !is_index_name(&c.name) && !known.contains(&c.name)
        });
        let new: Vec<String> = new.map(|c| c.name.clone()).collect();
        (!new.is_empty()).then_some(Note::NotInState(new))
    }

    /// Refuses a choice of columns that is not the state's.
    fn check_columns(&self, asked: &ColumnOptions) -> Result<()> {
        let columns = &self.about.columns.columns;
        let has = || self.about.columns.summary();
        let covers =
            |entries: &[String], name: &str| entries.iter().any(|e| covers_column(e, name));
        let left_out = |name: &&str| {
            let included = asked.include.is_empty() || covers(&asked.include, name);
            !included || covers(&asked.exclude, name)
        };
        if let Some(name) = columns.iter().map(|c| c.name.as_str()).find(left_out) {
            return Error::misuse(format!(
                "⟦columns⟧ and ⟦exclude⟧ leave '{name}' out, but the state is of {}; leave them \
                 out, or choose another state",
                has()
            ));
        }
        let unknown = |entry: &&String| columns.iter().all(|c| !covers_column(entry, &c.name));
        match asked.include.iter().find(unknown) {
            None => Ok(()),
            Some(name) => Error::misuse(format!(
                "⟦columns⟧ names '{name}', but the state is of {}; choose another state for more",
                has()
            )),
        }
    }

    /// Refuses labels that are not the state's.
    fn check_labels(&self, fit: &Fit) -> Result<()> {
        let Some(labels) = &self.about.labels else { return Ok(()) };
        labels.check_named(&fit.labels.columns)?;
        match fit.labels.classes && !labels.classes {
            false => Ok(()),
            true => Error::misuse(format!(
                "⟦classes⟧: the state has label {} as numbers; leave it out, or choose another \
                 state",
                labels.columns.join(", ")
            )),
        }
    }
}

impl StateLabels {
    /// Refuses labels that were named and are others.
    pub(super) fn check_named(&self, named: &[String]) -> Result<()> {
        match named.is_empty() || named == self.columns {
            true => Ok(()),
            false => {
                let has = format!("label {}", self.columns.join(", "));
                disagree("label", &named.join(", "), &has)
            }
        }
    }

    /// True when numbers were said to be classes.
    fn classes_given(&self) -> bool {
        self.classes && !self.numeric.contains(&true)
    }
}

fn disagree<T>(option: &str, given: &str, has: &str) -> Result<T> {
    Error::misuse(format!(
        "⟦{option}={given}⟧: the state has {has}; leave it out, or choose another state"
    ))
}
