//! Names → ordered features.
//!
//! `--columns` and `--exclude` (names or globs) and the dataset's schema enter; [`Features`] leave:
//! which columns are read and which feature each of their elements is. Names are resolved here
//! because parquet's own projection skips unknown names and returns file order.

use super::footer::{ColumnInfo, Dataset, Kind};
use super::parquet::first_width;
use crate::error::{Error, Place, Result};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// A column that gives one feature, or one per element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureColumn {
    /// Its name in the files.
    pub name: String,
    /// The type of its numbers, as arrow prints it.
    #[serde(rename = "type")]
    pub value: String,
    /// Numbers per row of a vector column; `None` for a scalar column.
    pub width: Option<usize>,
    /// Which elements of a vector column are features; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<Vec<usize>>,
}

impl FeatureColumn {
    /// How many features it gives.
    pub fn len(&self) -> usize {
        match (&self.elements, self.width) {
            (Some(elements), _) => elements.len(),
            (None, Some(width)) => width,
            (None, None) => 1,
        }
    }

    /// True for a vector column of no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of its i-th feature: `name`, or `name[element]`.
    pub fn feature_name(&self, i: usize) -> String {
        match (&self.elements, self.width) {
            (Some(elements), _) => format!("{}[{}]", self.name, elements[i]),
            (None, Some(_)) => format!("{}[{i}]", self.name),
            (None, None) => self.name.clone(),
        }
    }

    fn describe(&self) -> String {
        match self.width {
            Some(width) => format!("{}[{width}]", self.value),
            None => self.value.clone(),
        }
    }
}

/// The features, in the order of the model's rows and columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Features {
    /// The columns that give them.
    pub columns: Vec<FeatureColumn>,
}

impl Features {
    /// The numeric columns of a schema, or those named.
    pub fn of_schema(schema: &arrow_schema::Schema, names: &[&str]) -> Result<Features> {
        let column = |field: &arrow_schema::Field| match Kind::of(field.data_type(), None) {
            Kind::Scalar(t) => Some((t, None)),
            Kind::Vector(t, Some(width)) => Some((t, Some(width))),
            _ => None,
        };
        let feature =
            |field: &arrow_schema::Field,
             (value, width): (arrow_schema::DataType, Option<usize>)| {
                FeatureColumn {
                    name: field.name().clone(),
                    value: value.to_string(),
                    width,
                    elements: None,
                }
            };
        if names.is_empty() {
            let columns =
                schema.fields().iter().filter_map(|f| Some(feature(f, column(f)?))).collect();
            return Ok(Features { columns });
        }
        let named = |name: &&str| {
            let all = schema.fields().iter().map(|f| f.name().as_str());
            let field = schema
                .field_with_name(name)
                .map_err(|_| unknown(std::path::Path::new(""), name, all))?;
            let kind = column(field).ok_or_else(|| {
                Error::Misuse(format!("column '{name}' is {}, not numbers", field.data_type()))
            })?;
            Ok(feature(field, kind))
        };
        Ok(Features { columns: names.iter().map(named).collect::<Result<_>>()? })
    }

    /// Number of features (d).
    pub fn len(&self) -> usize {
        // A header may claim any width; it is compared with what is there.
        self.columns.iter().map(FeatureColumn::len).fold(0, usize::saturating_add)
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.columns.iter().flat_map(|c| (0..c.len()).map(|i| c.feature_name(i)))
    }

    /// The name of feature j.
    pub fn name(&self, j: usize) -> String {
        let mut rest = j;
        for column in &self.columns {
            if rest < column.len() {
                return column.feature_name(rest);
            }
            rest -= column.len();
        }
        format!("feature {j}")
    }

    /// The same features less those at these (ascending) positions.
    pub fn without(&self, left_out: &[usize]) -> Features {
        let gone: HashSet<usize> = left_out.iter().copied().collect();
        let mut columns = Vec::new();
        let mut first = 0;
        for column in &self.columns {
            let kept: Vec<usize> =
                (0..column.len()).filter(|i| !gone.contains(&(first + i))).collect();
            first += column.len();
            if kept.is_empty() {
                continue;
            }
            let mut column = column.clone();
            if kept.len() < column.len() {
                let element = |i: &usize| column.elements.as_ref().map_or(*i, |e| e[*i]);
                column.elements = Some(kept.iter().map(element).collect());
            }
            columns.push(column);
        }
        Features { columns }
    }

    /// "x0, x1, … x63" for messages.
    pub fn summary(&self) -> String {
        let parts: Vec<String> = self
            .columns
            .iter()
            .map(|c| match c.width {
                Some(_) => format!("{} ({} elements)", c.name, c.len()),
                None => c.name.clone(),
            })
            .collect();
        match parts.as_slice() {
            [] => "none".into(),
            few if few.len() <= 6 => few.join(", "),
            many => format!("{}, {}, … {}", many[0], many[1], many[many.len() - 1]),
        }
    }

    /// Checks that every column of the model is in the data under its name, with its type and width.
    pub fn check(&self, dataset: &Dataset) -> Result<()> {
        let schema = Schema::new(dataset);
        for column in &self.columns {
            let Ok(found) = schema.find(&column.name) else {
                let problem = format!("has no column '{}', which the model needs", column.name);
                return Err(Error::data(Place::file(dataset.first_path()), problem));
            };
            let here = match &found.kind {
                Kind::Vector(value, None) => {
                    format!("{value}[{}]", first_width(dataset, &column.name)?)
                }
                kind => kind.describe(),
            };
            if here != column.describe() {
                let problem = format!(
                    "is {here} here but was {} when the model was fitted; cast it, or fit again",
                    column.describe()
                );
                return Err(Error::data(
                    Place::file(dataset.first_path()).column(&column.name),
                    problem,
                ));
            }
        }
        schema.agree(self.columns.iter().map(|c| c.name.as_str()))
    }
}

/// What was asked about columns.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// `--columns`: names or globs; empty for all numeric columns.
    pub columns: Vec<String>,
    /// `--exclude`: names or globs.
    pub exclude: Vec<String>,
    /// Columns with another role (weight, label): never features by default.
    pub reserved: Vec<String>,
}

/// The features, and what was passed over on the way to them.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The features.
    pub features: Features,
    /// Columns that are not features, with the reason.
    pub passed_over: Vec<(String, String)>,
}

impl Choice {
    /// Resolves the names against the dataset and checks that all files agree on the chosen columns.
    pub fn resolve(&self, dataset: &Dataset) -> Result<Chosen> {
        let schema = Schema::new(dataset);
        let included = schema.matching(&self.columns)?;
        let excluded = schema.matching(&self.exclude)?;
        for name in &self.reserved {
            schema.find(name)?;
        }
        let mut features = Features::default();
        let mut passed_over = Vec::new();
        for column in &dataset.columns {
            let name = &column.name;
            let named = self.columns.contains(name);
            if excluded.contains(name.as_str()) {
                passed_over.push((name.clone(), "excluded".into()));
            } else if self.reserved.contains(name) && !named {
                passed_over.push((name.clone(), "has another role".into()));
            } else if !self.columns.is_empty() && !included.contains(name.as_str()) {
                continue;
            } else {
                match feature_column(dataset, column)? {
                    Some(feature) => features.columns.push(feature),
                    None if named => {
                        let place = Place::file(dataset.first_path()).column(name);
                        return Err(Error::data(
                            place,
                            format!("is {}, not numeric", column.kind.describe()),
                        ));
                    }
                    None => {
                        passed_over.push((name.clone(), format!("is {}", column.kind.describe())))
                    }
                }
            }
        }
        if features.is_empty() {
            let place = Place::file(dataset.first_path());
            let left = if self.exclude.is_empty() { "to work on" } else { "is left to work on" };
            return Err(Error::data(
                place,
                format!("no numeric column {left}; columns are {}", list(&dataset.columns)),
            ));
        }
        distinct_names(&features, dataset)?;
        let chosen: Vec<&str> = features.columns.iter().map(|c| c.name.as_str()).collect();
        schema.agree(chosen.into_iter().chain(self.reserved.iter().map(String::as_str)))?;
        if self.columns.is_empty() {
            self.no_extra_numbers(dataset, &excluded)?;
        }
        Ok(Chosen { features, passed_over })
    }

    /// With no `--columns`, all numeric columns are features: a later file with one more differs.
    fn no_extra_numbers(&self, dataset: &Dataset, excluded: &HashSet<String>) -> Result<()> {
        let globs = patterns(&self.exclude);
        let extra = dataset.differences.iter().find(|d| {
            d.extra_number
                && !excluded.contains(&d.column)
                && !globs.iter().any(|g| g.matches(&d.column))
        });
        match extra {
            None => Ok(()),
            Some(d) => {
                let place = Place::file(&dataset.files[d.file].path).column(&d.column);
                let problem = format!(
                    "{}; choose the features with ⟦columns⟧, or leave this one out with ⟦exclude⟧",
                    d.problem
                );
                Err(Error::data(place, problem))
            }
        }
    }
}

/// An element `a[0]` of a vector column and a column of that very name could not be told apart.
fn distinct_names(features: &Features, dataset: &Dataset) -> Result<()> {
    let mut seen = HashSet::new();
    let bracketed = features.columns.iter().any(|c| c.width.is_none() && c.name.ends_with(']'));
    match features.names().filter(|_| bracketed).find(|name| !seen.insert(name.clone())) {
        None => Ok(()),
        Some(name) => {
            let place = Place::file(dataset.first_path()).column(name);
            Err(Error::data(
                place,
                "is a column and an element of a vector column; leave one out with ⟦exclude⟧",
            ))
        }
    }
}

fn feature_column(dataset: &Dataset, column: &ColumnInfo) -> Result<Option<FeatureColumn>> {
    let (value, width) = match &column.kind {
        Kind::Scalar(value) => (value, None),
        Kind::Vector(value, Some(width)) => (value, Some(*width)),
        Kind::Vector(value, None) => (value, Some(first_width(dataset, &column.name)?)),
        Kind::Other(_) => return Ok(None),
    };
    Ok(Some(FeatureColumn {
        name: column.name.clone(),
        value: value.to_string(),
        width,
        elements: None,
    }))
}

fn list(columns: &[ColumnInfo]) -> String {
    let mut parts: Vec<String> =
        columns.iter().take(8).map(|c| format!("{} ({})", c.name, c.kind.describe())).collect();
    if columns.len() > parts.len() {
        parts.push(format!("and {} more", columns.len() - parts.len()));
    }
    parts.join(", ")
}

/// Positions of the features that names and globs choose, by column or by feature; `None` for all of them. Every entry
/// must cover one at least.
pub fn matching(
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
    let covered = |entries: &[String]| -> Result<HashSet<usize>> {
        let mut all = HashSet::new();
        for entry in entries {
            let pattern = glob::Pattern::new(entry)
                .map_err(|e| Error::Misuse(format!("'{entry}' is no glob: {e}")))?;
            let hit = |(owner, name): &(&str, String)| {
                pattern.matches(owner) || pattern.matches(name) || name == entry
            };
            let hits: Vec<usize> = (0..names.len()).filter(|j| hit(&names[*j])).collect();
            if hits.is_empty() {
                return Err(unknown(
                    std::path::Path::new(""),
                    entry,
                    names.iter().map(|(_, n)| n.as_str()),
                ));
            }
            all.extend(hits);
        }
        Ok(all)
    };
    let (included, excluded) = (covered(columns)?, covered(exclude)?);
    let chosen = |j: &usize| (columns.is_empty() || included.contains(j)) && !excluded.contains(j);
    let kept: Vec<usize> = (0..names.len()).filter(chosen).collect();
    match kept.is_empty() {
        true => Err(Error::Misuse("no feature is left; ⟦exclude⟧ leaves all of them out".into())),
        false => Ok(Some(kept)),
    }
}

fn patterns(names: &[String]) -> Vec<glob::Pattern> {
    names.iter().filter_map(|name| glob::Pattern::new(name).ok()).collect()
}

/// The first file's columns by name.
struct Schema<'a> {
    dataset: &'a Dataset,
    by_name: HashMap<&'a str, &'a ColumnInfo>,
    twice: HashSet<&'a str>,
}

impl<'a> Schema<'a> {
    fn new(dataset: &'a Dataset) -> Schema<'a> {
        let mut by_name = HashMap::new();
        let mut twice = HashSet::new();
        for column in &dataset.columns {
            if by_name.insert(column.name.as_str(), column).is_some() {
                twice.insert(column.name.as_str());
            }
        }
        Schema { dataset, by_name, twice }
    }

    fn find(&self, name: &str) -> Result<&'a ColumnInfo> {
        let names = || self.dataset.columns.iter().map(|c| c.name.as_str());
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| unknown(self.dataset.first_path(), name, names()))
    }

    /// Columns that a list of names and globs covers; each entry must cover one at least.
    fn matching(&self, names: &[String]) -> Result<HashSet<String>> {
        let mut covered = HashSet::new();
        for name in names {
            if self.by_name.contains_key(name.as_str()) {
                covered.insert(name.clone());
                continue;
            }
            if !name.contains(['*', '?', '[']) {
                self.find(name)?;
            }
            if let Some((vector, _)) = name
                .split_once('[')
                .filter(|(v, rest)| rest.ends_with(']') && self.by_name.contains_key(v))
            {
                return Err(Error::Misuse(format!(
                    "'{name}' is an element; columns are chosen whole, name '{vector}'"
                )));
            }
            let pattern = glob::Pattern::new(name)
                .map_err(|e| Error::Misuse(format!("'{name}' is no glob: {e}")))?;
            let before = covered.len();
            covered
                .extend(self.by_name.keys().filter(|n| pattern.matches(n)).map(|n| n.to_string()));
            if covered.len() == before && !self.by_name.keys().any(|n| pattern.matches(n)) {
                return Err(Error::Misuse(format!(
                    "no column matches '{name}'; columns are {}",
                    list(&self.dataset.columns)
                )));
            }
        }
        Ok(covered)
    }

    /// Every file has these columns, once, as the first file has them.
    fn agree<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<()> {
        let needed: HashSet<&str> = names.collect();
        if let Some(name) = needed.iter().find(|n| self.twice.contains(**n)) {
            let place = Place::file(self.dataset.first_path()).column(*name);
            return Err(Error::data(place, "is there more than once; rename one of them"));
        }
        match self.dataset.differences.iter().find(|d| needed.contains(d.column.as_str())) {
            None => Ok(()),
            Some(d) => {
                let place = Place::file(&self.dataset.files[d.file].path).column(&d.column);
                Err(Error::data(place, d.problem.clone()))
            }
        }
    }
}

/// Every file has these columns, once, as the first file has them.
pub fn agree<'n>(dataset: &Dataset, names: impl Iterator<Item = &'n str>) -> Result<()> {
    Schema::new(dataset).agree(names)
}

/// The error for a name that is not there: the nearest one that is, or some of them.
pub fn unknown<'a>(
    path: &std::path::Path,
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
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
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

    fn features() -> Features {
        let column = |name: &str, width| FeatureColumn {
            name: name.into(),
            value: "Float64".into(),
            width,
            elements: None,
        };
        Features { columns: vec![column("a", None), column("v", Some(3)), column("b", None)] }
    }

    #[test]
    fn features_are_named_and_counted() {
        let all = features();
        assert_eq!(all.names().collect::<Vec<_>>(), ["a", "v[0]", "v[1]", "v[2]", "b"]);
        assert_eq!((all.len(), all.name(3), all.name(4)), (5, "v[2]".into(), "b".into()));
    }

    #[test]
    fn features_can_be_left_out_twice() {
        let some = features().without(&[0, 2]);
        assert_eq!(some.names().collect::<Vec<_>>(), ["v[0]", "v[2]", "b"]);
        assert_eq!(some.without(&[0]).names().collect::<Vec<_>>(), ["v[2]", "b"]);
    }

    #[test]
    fn the_nearest_name_is_a_slip_away() {
        let names = ["height", "weight", "id"];
        assert_eq!(nearest("heigth", names.into_iter()).as_deref(), Some("height"));
        assert_eq!(nearest("salary", names.into_iter()), None);
    }
}
