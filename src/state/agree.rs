//! Whether two states go together, and how their columns do: by name, whatever their order and the
//! width of their numbers.

use super::{About, State, StateLabels};
use crate::accumulate::{Stored, Sums};
use crate::error::{Error, Result};
use crate::source::{FeatureColumn, Features, LabelRead};
use std::collections::HashMap;

/// How the features of one state are those of another.
struct FeatureMatch {
    /// Those of the first, as wide as both need them.
    columns: Features,
    /// Where each of the first is in the other; none where that is the same place.
    order: Option<Vec<usize>>,
}

impl State {
    /// Another state, its features in the order of this one; refuses one of other columns or
    /// options.
    pub(super) fn aligned(&self, other: State) -> Result<State> {
        let found = self.agrees(&other.about, &other.sums)?;
        let State { mut about, mut sums } = other;
        if let Some(order) = &found.order {
            sums.iter_mut().for_each(|sums| sums.reorder(order));
            about.tally = about.tally.reordered(order);
        }
        about.columns = found.columns;
        Ok(State { about, sums })
    }

    fn agrees(&self, other: &About, sums: &[Sums]) -> Result<FeatureMatch> {
        let mine = &self.about;
        if mine.progress.is_some() || other.progress.is_some() {
            return Error::misuse(
                "one of them is the checkpoint of a scan that is not done; finish the scan first",
            );
        }
        let found = matched(&mine.columns, &other.columns)?;
        let fold_count = (sums.len(), self.sums.len());
        let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".into());
        match () {
            () if mine.labels != other.labels => {
                differ("labels", label_text(&mine.labels), label_text(&other.labels))
            }
            () if mine.nulls != other.nulls => differ("⟦nulls⟧", mine.nulls, other.nulls),
            () if mine.weight != other.weight => {
                differ("weights", named(&mine.weight), named(&other.weight))
            }
            () if mine.precision != other.precision => refuse("different ⟦precision⟧"),
            () if mine.group != other.group => refuse("different groups"),
            () if fold_count.0 != fold_count.1 || mine.fold_seed != other.fold_seed => {
                refuse("different folds")
            }
            () if !sums.iter().all(|s| s.fits(&self.sums[0])) => {
                refuse("different statistics (⟦for⟧)")
            }
            () => Ok(found),
        }
    }
}

fn differ<T>(what: &str, a: impl std::fmt::Display, b: impl std::fmt::Display) -> Result<T> {
    refuse(&format!("different {what} ({a}, {b})"))
}

fn refuse<T>(what: &str) -> Result<T> {
    Error::misuse(format!("the states have {what}, so they cannot go together"))
}

/// "species as classes", "none".
fn label_text(labels: &Option<StateLabels>) -> String {
    match labels {
        None => "none".into(),
        Some(labels) => {
            let read = match labels.read() {
                LabelRead::Classes => "classes",
                _ => "numbers",
            };
            format!("{} as {read}", labels.columns.join(", "))
        }
    }
}

/// Finds the features of one among those of another, by the names of their columns.
fn matched(mine: &Features, theirs: &Features) -> Result<FeatureMatch> {
    let mut at = 0;
    let mut places: HashMap<&str, (&FeatureColumn, usize)> = HashMap::new();
    for column in &theirs.columns {
        places.insert(&column.name, (column, at));
        at += column.len();
    }
    let (mut columns, mut order) = (Vec::new(), Vec::with_capacity(mine.len()));
    for column in &mine.columns {
        let Some((other, first)) = places.remove(column.name.as_str()) else {
            return only_in_one(&column.name);
        };
        let Some(both) = column.widened(other) else {
            let (name, a, b) = (&column.name, column.describe(), other.describe());
            return refuse(&format!("a column '{name}' each, but of {a} and {b}"));
        };
        columns.push(both);
        order.extend(first..first + column.len());
    }
    if let Some(column) = theirs.columns.iter().find(|c| places.contains_key(c.name.as_str())) {
        return only_in_one(&column.name);
    }
    let as_they_are = order.iter().enumerate().all(|(i, j)| i == *j);
    Ok(FeatureMatch { columns: Features { columns }, order: (!as_they_are).then_some(order) })
}

fn only_in_one<T>(name: &str) -> Result<T> {
    refuse(&format!("different features ('{name}' is in one of them only)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(columns: &[(&str, &str, Option<usize>)]) -> Features {
        let column = |(name, value, width): &(&str, &str, Option<usize>)| FeatureColumn {
            name: name.to_string(),
            value: value.to_string(),
            width: *width,
            elements: None,
        };
        Features { columns: columns.iter().map(column).collect() }
    }

    #[test]
    fn columns_are_matched_by_name() {
        let mine = features(&[("a", "Int32", None), ("v", "Float32", Some(2))]);
        let theirs = features(&[("v", "Float64", Some(2)), ("a", "Int64", None)]);
        let found = matched(&mine, &theirs).unwrap();
        assert_eq!(found.order, Some(vec![2, 0, 1]));
        assert_eq!(found.columns, features(&[("a", "Int64", None), ("v", "Float64", Some(2))]));
        assert_eq!(matched(&mine, &mine).unwrap().order, None);
    }

    #[test]
    fn a_refusal_names_the_column_and_both_types() {
        let said = |theirs: &[(&str, &str, Option<usize>)]| {
            let mine = features(&[("a", "Int32", None), ("v", "Float32", Some(2))]);
            matched(&mine, &features(theirs)).err().unwrap().to_string()
        };
        let other = said(&[("a", "Boolean", None), ("v", "Float32", Some(2))]);
        assert!(other.contains("a column 'a' each, but of Int32 and Boolean"), "{other}");
        let longer = said(&[("a", "Int32", None), ("v", "Float32", Some(3))]);
        assert!(longer.contains("of Float32[2] and Float32[3]"), "{longer}");
        assert!(said(&[("a", "Int32", None)]).contains("'v' is in one of them only"));
        let more = [("a", "Int32", None), ("v", "Float32", Some(2)), ("w", "Int8", None)];
        assert!(said(&more).contains("'w' is in one of them only"));
    }
}
