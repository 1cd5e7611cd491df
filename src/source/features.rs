//! Which columns are features, and which feature each of their elements is.
//!
//! Held: a name, a type and a width per column, and the elements where not all are features. This
//! is what a model keeps of its columns.

use super::column_choice::{ColumnIndex, unknown};
use super::common_type::common_number;
use super::table::{ColumnInfo, ColumnKind, ColumnOrigin, Table, WidenedColumn};
use crate::error::{Error, Result};
use crate::words::one_line;
use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;

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

    /// Numbers that are decoded of a row, whichever of them are features.
    pub(crate) fn row_elements(&self) -> usize {
        self.width.unwrap_or(1)
    }

    /// The name of its i-th feature: `name`, or `name[element]`.
    pub fn feature_name(&self, i: usize) -> String {
        match (&self.elements, self.width) {
            (Some(elements), _) => format!("{}[{}]", self.name, elements[i]),
            (None, Some(_)) => format!("{}[{i}]", self.name),
            (None, None) => self.name.clone(),
        }
    }

    /// A column of this kind, if its numbers and their width are known.
    pub(super) fn of(name: &str, kind: &ColumnKind) -> Option<FeatureColumn> {
        let (value, width) = match kind {
            ColumnKind::Scalar(value) => (value, None),
            ColumnKind::Vector(value, Some(width)) => (value, Some(*width)),
            ColumnKind::Vector(_, None) | ColumnKind::Other(_) => return None,
        };
        let (name, value) = (name.to_string(), value.to_string());
        Some(FeatureColumn { name, value, width, elements: None })
    }

    /// The type of numbers that holds both its own and those of another column of that kind; none
    /// where there is one, or many, per row and not here.
    fn together_with(&self, here: &ColumnKind) -> Option<DataType> {
        let (value, width) = match here {
            ColumnKind::Scalar(value) => (value, None),
            ColumnKind::Vector(value, width) => (value, *width),
            ColumnKind::Other(_) => return None,
        };
        let own = self.value.parse::<DataType>().ok()?;
        common_number(&own, value).filter(|_| width == self.width)
    }

    /// The same column, as wide as another of that kind needs it.
    pub(crate) fn widened(&self, other: &FeatureColumn) -> Option<FeatureColumn> {
        let value = other.value.parse::<DataType>().ok()?;
        let kind = match other.width {
            None => ColumnKind::Scalar(value),
            width => ColumnKind::Vector(value, width),
        };
        let value = self.together_with(&kind).filter(|_| self.elements == other.elements)?;
        Some(FeatureColumn { value: value.to_string(), ..self.clone() })
    }

    /// What people read: `Float64`, `Float32[768]`.
    pub(crate) fn describe(&self) -> String {
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
    /// Numbers that are decoded of a row: those of vector columns all, whichever are features.
    pub(crate) fn row_elements(&self) -> u64 {
        self.columns.iter().map(|c| c.row_elements() as u64).sum()
    }

    /// The numeric columns of a schema, or those named.
    pub fn of_schema(schema: &Schema, names: &[&str]) -> Result<Features> {
        let feature = |field: &Field| FeatureColumn::of(field.name(), &field_kind(field));
        if names.is_empty() {
            let columns = schema.fields().iter().filter_map(|f| feature(f)).collect();
            return Ok(Features { columns });
        }
        let named = |name: &&str| {
            let all = schema.fields().iter().map(|f| f.name().as_str());
            let field = schema.field_with_name(name);
            let field = field.map_err(|_| unknown(Path::new(""), name, all))?;
            feature(field).ok_or_else(|| {
                Error::Misuse(format!("column '{name}' is {}, not numbers", field.data_type()))
            })
        };
        Ok(Features { columns: names.iter().map(named).collect::<Result<_>>()? })
    }

    /// All numeric columns of a table, in their order; fields of structs and partition keys are
    /// none.
    pub(crate) fn of_table(table: &dyn Table) -> Result<Features> {
        let proper = table.columns().iter().filter(|c| c.origin == ColumnOrigin::Column);
        let numeric = proper.filter(|c| !matches!(c.kind, ColumnKind::Other(_)));
        let feature =
            |column: &ColumnInfo| Ok(FeatureColumn::of(&column.name, &known_kind(column, table)?));
        let columns = numeric.map(feature).collect::<Result<Vec<_>>>()?;
        Ok(Features { columns: columns.into_iter().flatten().collect() })
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

    /// Only the features at these (ascending) positions.
    pub(crate) fn only(&self, kept: &[usize]) -> Features {
        let keep: HashSet<usize> = kept.iter().copied().collect();
        let gone: Vec<usize> = (0..self.len()).filter(|j| !keep.contains(j)).collect();
        self.without(&gone)
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
                Some(_) => format!("{} ({} elements)", one_line(&c.name), c.len()),
                None => one_line(&c.name),
            })
            .collect();
        match parts.as_slice() {
            [] => "none".into(),
            few if few.len() <= 6 => few.join(", "),
            many => format!("{}, {}, … {}", many[0], many[1], many[many.len() - 1]),
        }
    }

    /// Checks that every column is in the data under its name, of its kind and with its number of
    /// elements. Gives those that are of another width here.
    pub fn check(&self, table: &dyn Table) -> Result<Vec<WidenedColumn>> {
        let index = ColumnIndex::of(table.columns());
        let mut widened = Vec::new();
        for column in &self.columns {
            let Some(found) = index.get(&column.name) else {
                let problem = format!("has no column '{}', which the model needs", column.name);
                return Err(Error::data(table.place(), problem));
            };
            let here = known_kind(found, table)?;
            if here.describe() == column.describe() {
                continue;
            }
            if column.together_with(&here).is_none() {
                let problem = format!(
                    "is {} here but was {} when the model was fitted; cast it, or fit again",
                    here.describe(),
                    column.describe()
                );
                return Err(Error::data(table.place().column(&column.name), problem));
            }
            let types = vec![column.value.clone(), here.stored().to_string()];
            widened.push(WidenedColumn { column: column.name.clone(), types });
        }
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        table.check_columns(&names)?;
        Ok(widened)
    }
}

/// The kind of a column, with the number of its elements, for which a row may be asked.
pub(super) fn known_kind(column: &ColumnInfo, table: &dyn Table) -> Result<ColumnKind> {
    Ok(match &column.kind {
        ColumnKind::Vector(value, None) => {
            ColumnKind::Vector(value.clone(), Some(table.vector_width(&column.name)?))
        }
        known => known.clone(),
    })
}

/// What a field of a schema is.
fn field_kind(field: &Field) -> ColumnKind {
    ColumnKind::of(field.data_type(), None)
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
}
