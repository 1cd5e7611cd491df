//! Names → ordered features.
//!
//! Names or globs of columns, and the columns of a table, enter; [`Features`] leave. Names are
//! resolved here because parquet's own projection skips unknown names and returns file order.

use super::features::{FeatureColumn, Features, known_kind};
use super::id_columns::is_index_name;
use super::inputs::is_glob;
use super::table::{ColumnInfo, ColumnKind, ColumnOrigin, Difference, Table, WidenedColumn};
use crate::error::{Error, Place, Result};
use arrow_schema::DataType;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Which columns are to be features.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnChoice {
    /// Names or globs; empty for all numeric columns.
    pub columns: Vec<String>,
    /// Names or globs that are left out.
    pub exclude: Vec<String>,
    /// Columns with another role (weight, label): never features by default.
    pub reserved: Vec<String>,
}

/// The features, and what was passed over on the way to them.
#[derive(Debug, Clone, Default)]
pub struct ColumnSelection {
    /// The features.
    pub features: Features,
    /// Columns that are not features, with the reason.
    pub passed_over: Vec<(String, String)>,
    /// Features that nobody named and that number the rows, or look like ids.
    pub id_columns: Vec<String>,
    /// Columns that take part and are wider in some inputs than in others.
    pub widened: Vec<WidenedColumn>,
    /// Features that were given, and are of another width here.
    pub fitted_wider: Vec<WidenedColumn>,
}

impl ColumnChoice {
    /// Resolves the names against a table and checks that all its inputs agree on the chosen
    /// columns.
    pub(crate) fn resolve(&self, table: &dyn Table) -> Result<ColumnSelection> {
        let index = ColumnIndex::of(table.columns());
        let included = index.matching(&self.columns, table)?;
        let excluded = index.matching(&self.exclude, table)?;
        for name in &self.reserved {
            index.find(name, table)?;
        }
        let mut chosen = ColumnSelection::default();
        let index_columns = table.index_columns();
        for column in table.columns() {
            let is_index = index_columns.contains(&column.name) || is_index_name(&column.name);
            match self.reason_against(column, &included, &excluded, is_index) {
                Some(Some(reason)) => chosen.passed_over.push((column.name.clone(), reason)),
                Some(None) => {}
                None => self.add(&mut chosen, column, table)?,
            }
        }
        let ColumnSelection { features, .. } = &chosen;
        if features.is_empty() {
            let left = if self.exclude.is_empty() { "to work on" } else { "is left to work on" };
            let all = list(table.columns());
            let problem = format!("no numeric column {left}; columns are {all}");
            return Err(Error::data(table.place(), problem));
        }
        distinct_names(features, table)?;
        let names = features.columns.iter().map(|c| &c.name).chain(&self.reserved);
        let names: Vec<&str> = names.map(String::as_str).collect();
        table.check_columns(&names)?;
        chosen.widened = widened_among(table, &names);
        if self.columns.is_empty() {
            self.no_extra_numbers(table, &excluded)?;
            let taken = |name: &String| chosen.features.columns.iter().any(|c| c.name == *name);
            chosen.id_columns = table.id_columns().into_iter().filter(taken).collect();
        }
        Ok(chosen)
    }

    /// Why a column is no feature, if it is none: with a reason worth telling, or since it was not
    /// among those named.
    fn reason_against(
        &self,
        column: &ColumnInfo,
        included: &HashSet<String>,
        excluded: &HashSet<String>,
        is_index: bool,
    ) -> Option<Option<String>> {
        let name = &column.name;
        if excluded.contains(name) {
            Some(Some("excluded".into()))
        } else if self.reserved.contains(name) && !self.columns.contains(name) {
            Some(Some("has another role".into()))
        } else if !self.columns.is_empty() && !included.contains(name) {
            Some(None)
        } else if self.columns.is_empty() && is_index {
            Some(Some("pandas index".into()))
        } else if self.columns.is_empty() && column.origin == ColumnOrigin::PartitionKey {
            Some(Some("partition key".into()))
        } else if self.columns.is_empty() && column.origin == ColumnOrigin::StructField {
            Some(None)
        } else {
            None
        }
    }

    /// Adds a column, if it is numeric; one that was named must be.
    fn add(
        &self,
        chosen: &mut ColumnSelection,
        column: &ColumnInfo,
        table: &dyn Table,
    ) -> Result<()> {
        let ColumnInfo { name, kind, .. } = column;
        match FeatureColumn::of(name, &known_kind(column, table)?) {
            Some(feature) => chosen.features.columns.push(feature),
            None if self.columns.contains(name) => {
                let problem = format!("is {}, not numeric", kind.describe());
                return Err(Error::data(table.place().column(name), problem));
            }
            None => chosen.passed_over.push((name.clone(), not_numeric(name, kind))),
        }
        Ok(())
    }

    /// Where no columns are named, all numeric ones are features: a later input with one more
    /// differs.
    fn no_extra_numbers(&self, table: &dyn Table, excluded: &HashSet<String>) -> Result<()> {
        let left_out = |name: &str| {
            excluded.contains(name) || self.exclude.iter().any(|entry| covers_column(entry, name))
        };
        let extra = |d: &&Difference| d.extra_number && !left_out(&d.column);
        match table.differences().iter().find(extra) {
            None => Ok(()),
            Some(d) => {
                let problem = format!(
                    "{}; choose the features with ⟦columns⟧, or leave this one out with ⟦exclude⟧",
                    d.problem
                );
                Err(Error::data(table.place_of(d), problem))
            }
        }
    }
}

/// Those of the columns that are wider in some inputs than in others.
pub(crate) fn widened_among(table: &dyn Table, names: &[&str]) -> Vec<WidenedColumn> {
    let widened = table.widened();
    if widened.is_empty() {
        return Vec::new();
    }
    let names: HashSet<&str> = names.iter().copied().collect();
    widened.iter().filter(|w| names.contains(w.column.as_str())).cloned().collect()
}

/// Why a column that nobody named is no feature.
fn not_numeric(name: &str, kind: &ColumnKind) -> String {
    match kind {
        ColumnKind::Other(DataType::Struct(fields)) => {
            let field = fields.first().map_or("field", |f| f.name());
            format!("a struct; its fields are named like {name}.{field}")
        }
        other => format!("is {}", other.describe()),
    }
}

/// The columns that names and globs stand for, in the order they are given, each once.
pub(crate) fn named_columns(table: &dyn Table, names: &[String]) -> Result<Vec<String>> {
    let index = ColumnIndex::of(table.columns());
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for name in names {
        let exact = index.get(name).is_some();
        let found = index.named(name, table)?;
        // One that is named twice is for the reader of the names to judge.
        all.extend(found.into_iter().filter(|n| seen.insert(*n) || exact).map(str::to_string));
    }
    Ok(all)
}

/// The one column that a name or glob stands for; `option` says what it is to be.
pub(crate) fn named_column(table: &dyn Table, option: &str, name: &str) -> Result<String> {
    let found = named_columns(table, &[name.to_string()])?;
    match &found[..] {
        [one] => Ok(one.clone()),
        several => Error::misuse(format!(
            "⟦{option}⟧ is one column, but '{name}' matches {}",
            crate::words::some(several)
        )),
    }
}

/// An element `a[0]` of a vector column and a column of that very name could not be told apart.
fn distinct_names(features: &Features, table: &dyn Table) -> Result<()> {
    let mut seen = HashSet::new();
    let bracketed = features.columns.iter().any(|c| c.width.is_none() && c.name.ends_with(']'));
    match features.names().filter(|_| bracketed).find(|name| !seen.insert(name.clone())) {
        None => Ok(()),
        Some(name) => Err(Error::data(
            table.place().column(name),
            "is a column and an element of a vector column; leave one out with ⟦exclude⟧",
        )),
    }
}

fn list(columns: &[ColumnInfo]) -> String {
    let mut parts: Vec<String> =
        columns.iter().take(8).map(|c| format!("{} ({})", c.name, c.kind.describe())).collect();
    if columns.len() > parts.len() {
        parts.push(format!("and {} more", columns.len() - parts.len()));
    }
    parts.join(", ")
}

/// Positions of the features that names and globs choose, by column or by feature; `None` for all
/// of them. Every entry must cover one at least.
pub(crate) fn matching(
    features: &Features,
    columns: &[String],
    exclude: &[String],
) -> Result<Option<Vec<usize>>> {
    if columns.is_empty() && exclude.is_empty() {
        return Ok(None);
    }
    let owners =
        features.columns.iter().flat_map(|c| std::iter::repeat_n(c.name.as_str(), c.len()));
    let names: Vec<(&str, String)> = owners.zip(features.names()).collect();
    let (included, excluded) = (covered(&names, columns)?, covered(&names, exclude)?);
    let chosen = |j: &usize| (columns.is_empty() || included.contains(j)) && !excluded.contains(j);
    let kept: Vec<usize> = (0..names.len()).filter(chosen).collect();
    match kept.is_empty() {
        true => Err(Error::Misuse("no feature is left; ⟦exclude⟧ leaves all of them out".into())),
        false => Ok(Some(kept)),
    }
}

/// Positions of the features that some entries cover, by the names of their columns and their own.
fn covered(names: &[(&str, String)], entries: &[String]) -> Result<HashSet<usize>> {
    let mut all = HashSet::new();
    for entry in entries {
        let pattern = pattern(entry)?;
        let hit = |(owner, name): &(&str, String)| {
            pattern.matches(owner) || pattern.matches(name) || name == entry
        };
        let hits: Vec<usize> = (0..names.len()).filter(|j| hit(&names[*j])).collect();
        if hits.is_empty() {
            return Err(unknown(Path::new(""), entry, names.iter().map(|(_, n)| n.as_str())));
        }
        all.extend(hits);
    }
    Ok(all)
}

/// True when a name or glob stands for a column.
pub(crate) fn covers_column(entry: &str, name: &str) -> bool {
    entry == name || glob::Pattern::new(entry).is_ok_and(|pattern| pattern.matches(name))
}

fn pattern(name: &str) -> Result<glob::Pattern> {
    glob::Pattern::new(name).map_err(|e| Error::Misuse(format!("'{name}' is no glob: {e}")))
}

/// The columns of a table by name.
pub(super) struct ColumnIndex<'a> {
    columns: &'a [ColumnInfo],
    by_name: HashMap<&'a str, &'a ColumnInfo>,
    twice: HashSet<&'a str>,
}

impl<'a> ColumnIndex<'a> {
    pub(super) fn of(columns: &'a [ColumnInfo]) -> ColumnIndex<'a> {
        let mut by_name = HashMap::with_capacity(columns.len());
        let mut twice = HashSet::new();
        for column in columns {
            if by_name.insert(column.name.as_str(), column).is_some() {
                twice.insert(column.name.as_str());
            }
        }
        ColumnIndex { columns, by_name, twice }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a ColumnInfo> {
        self.by_name.get(name).copied()
    }

    /// The column, or an error that has a better name.
    fn find(&self, name: &str, table: &dyn Table) -> Result<&'a ColumnInfo> {
        let names = || self.columns.iter().map(|c| c.name.as_str());
        self.get(name).ok_or_else(|| unknown(&table.place().file, name, names()))
    }

    /// Columns that a list of names and globs covers; each entry must cover one at least.
    fn matching(&self, names: &[String], table: &dyn Table) -> Result<HashSet<String>> {
        let mut covered = HashSet::new();
        for name in names {
            if self.by_name.contains_key(name.as_str()) {
                covered.insert(name.clone());
                continue;
            }
            covered.extend(self.globbed(name, table)?.into_iter().map(str::to_string));
        }
        Ok(covered)
    }

    /// The columns that a name or glob stands for, in the order of the table; one at least.
    fn named(&self, name: &str, table: &dyn Table) -> Result<Vec<&'a str>> {
        match self.get(name) {
            Some(column) => Ok(vec![column.name.as_str()]),
            None => self.globbed(name, table),
        }
    }

    /// The columns that a glob matches, in the order of the table; one at least. Fields of structs
    /// are matched by globs with a dot.
    fn globbed(&self, name: &str, table: &dyn Table) -> Result<Vec<&'a str>> {
        if !is_glob(name) {
            self.find(name, table)?;
        }
        let element = name
            .split_once('[')
            .filter(|(vector, rest)| rest.ends_with(']') && self.by_name.contains_key(vector));
        if let Some((vector, _)) = element {
            return Err(Error::Misuse(format!(
                "'{name}' is an element; columns are chosen whole, name '{vector}'"
            )));
        }
        let pattern = pattern(name)?;
        let fields = name.contains('.');
        let covers = |c: &&ColumnInfo| {
            pattern.matches(&c.name) && (fields || c.origin != ColumnOrigin::StructField)
        };
        let hits = self.columns.iter().filter(covers).map(|c| c.name.as_str());
        let hits: Vec<&str> = hits.collect();
        if hits.is_empty() {
            let all = list(self.columns);
            return Error::misuse(format!("no column matches '{name}'; columns are {all}"));
        }
        Ok(hits)
    }

    /// None of these is there more than once.
    pub(super) fn once(&self, place: Place, names: &HashSet<&str>) -> Result<()> {
        match self.twice.iter().find(|name| names.contains(**name)) {
            None => Ok(()),
            Some(name) => {
                let problem = "is there more than once; rename one of them";
                Err(Error::data(place.column(*name), problem))
            }
        }
    }
}

/// The error for a name that is not there: the nearest one that is, or some of them.
pub(crate) fn unknown<'a>(
    path: &Path,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Error {
    let hint = match nearest(name, names.clone()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!(
            "columns are {}",
            crate::words::some(&names.map(str::to_string).collect::<Vec<_>>())
        ),
    };
    Error::UnknownColumn { path: path.to_path_buf(), name: name.to_string(), hint }
}

/// The existing name that is nearest in spelling, if one is near enough to be a slip.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).max(1);
    names
        .filter(|n| !n.is_empty())
        .map(|n| (strsim::damerau_levenshtein(&name.to_lowercase(), &n.to_lowercase()), n))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, n)| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_a_slip_away() {
        let names = ["height", "weight", "id"];
        assert_eq!(nearest("heigth", names.into_iter()).as_deref(), Some("height"));
        assert_eq!(nearest("salary", names.into_iter()), None);
    }
}
