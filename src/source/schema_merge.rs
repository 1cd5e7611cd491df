//! The columns of many files as those of one table.
//!
//! Enters: the columns of one file after another. Leaves: the first file's columns, each of a type
//! that holds what all files have of it; which of them differ in width; what cannot go together.
//! Held: a name and a type per column of the first file, and the differences.

use super::common_type::{common_number, common_type};
use super::id_columns::is_index_name;
use super::labels::is_text;
use super::table::{ColumnInfo, ColumnKind, ColumnOrigin, Difference, WidenedColumn};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The columns so far.
#[derive(Debug, Default)]
pub(super) struct SchemaMerge {
    /// What messages call the first file.
    first: String,
    fields: Fields,
    pub(super) columns: Vec<ColumnInfo>,
    by_name: HashMap<String, usize>,
    pub(super) differences: Vec<Difference>,
    pub(super) widened: Vec<WidenedColumn>,
    pub(super) wider: WiderFields,
}

/// Root columns whose type in the first file is not that of all.
#[derive(Debug, Clone, Default)]
pub(super) struct WiderFields {
    by_name: HashMap<String, (DataType, bool)>,
}

impl WiderFields {
    /// The first file's schema, as that of all.
    pub(super) fn apply(&self, schema: &SchemaRef) -> SchemaRef {
        if self.by_name.is_empty() {
            return schema.clone();
        }
        let wider = |field: &Arc<Field>| match self.by_name.get(field.name()) {
            None => field.clone(),
            Some((data_type, nullable)) => {
                let field = field.as_ref().clone().with_data_type(data_type.clone());
                Arc::new(field.with_nullable(*nullable))
            }
        };
        let fields: Vec<_> = schema.fields().iter().map(wider).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    fn add(&mut self, first: &Field, here: &Field) {
        let known = self.by_name.get(first.name());
        let (known, nullable) =
            known.map_or((first.data_type(), first.is_nullable()), |(t, nullable)| (t, *nullable));
        let nullable = nullable || here.is_nullable();
        let Some(both) = common_type(known, here.data_type()) else { return };
        if both != *first.data_type() || nullable != first.is_nullable() {
            self.by_name.insert(first.name().clone(), (both, nullable));
        }
    }
}

/// What becomes of a column's kind when another file has it, too.
enum Meeting {
    Same,
    /// Both are this, of which one is narrower.
    Widened(ColumnKind),
    Different,
}

impl SchemaMerge {
    /// Of the first file.
    pub(super) fn new(first: String, fields: &Fields, columns: Vec<ColumnInfo>) -> SchemaMerge {
        SchemaMerge { first, fields: fields.clone(), columns, ..SchemaMerge::default() }
    }

    /// Adds the columns of one more file; `index` are those that number rows of a pandas frame.
    pub(super) fn add(
        &mut self,
        input: usize,
        fields: &Fields,
        columns: &[ColumnInfo],
        index: &[String],
    ) {
        if self.by_name.is_empty() {
            let names = self.columns.iter().enumerate();
            self.by_name = names.rev().map(|(at, c)| (c.name.clone(), at)).collect();
        }
        let mut seen = 0;
        for column in columns {
            let Some(at) = self.by_name.get(&column.name).copied() else {
                let is_index = index.contains(&column.name) || is_index_name(&column.name);
                self.extra(input, column, is_index);
                continue;
            };
            seen += 1;
            self.meet(input, at, &column.kind);
        }
        if seen < self.by_name.len() {
            self.missing(input, columns);
        }
        if *fields != self.fields {
            let here: HashMap<&str, &Arc<Field>> =
                fields.iter().map(|f| (f.name().as_str(), f)).collect();
            for first in &self.fields {
                if let Some(here) = here.get(first.name().as_str()) {
                    self.wider.add(first, here);
                }
            }
        }
    }

    /// A column of this file is one of the first file's.
    fn meet(&mut self, input: usize, at: usize, here: &ColumnKind) {
        let ColumnInfo { name, kind, .. } = &mut self.columns[at];
        match meeting(kind, here) {
            Meeting::Same => {}
            Meeting::Widened(both) => {
                let (a, b) = (kind.stored().to_string(), here.stored().to_string());
                *kind = both;
                match self.widened.iter_mut().find(|w| w.column == *name) {
                    // Only that a footer could not tell the width of a vector.
                    None if a == b => {}
                    None => {
                        let (column, types) = (name.clone(), vec![a, b]);
                        self.widened.push(WidenedColumn { column, types });
                    }
                    Some(known) if known.types.contains(&b) => {}
                    Some(known) => known.types.push(b),
                }
            }
            Meeting::Different => {
                let (here, there) = (here.describe(), kind.describe());
                let what = format!("is {here} here but {there} in {}", self.first);
                let problem = format!("{what}; give it one type, or leave it out");
                let column = name.clone();
                self.differences.push(Difference { input, column, problem, extra_number: false });
            }
        }
    }

    fn extra(&mut self, input: usize, column: &ColumnInfo, is_index: bool) {
        let is_number = !matches!(column.kind, ColumnKind::Other(_));
        let extra_number = is_number && !is_index && column.origin == ColumnOrigin::Column;
        let problem = format!("is not in {}", self.first);
        let column = column.name.clone();
        self.differences.push(Difference { input, column, problem, extra_number });
    }

    fn missing(&mut self, input: usize, columns: &[ColumnInfo]) {
        let here: HashSet<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        for column in self.columns.iter().filter(|c| !here.contains(c.name.as_str())) {
            self.differences.push(missing_here(input, &column.name, &self.first));
        }
    }
}

/// A column that one input does not have.
pub(super) fn missing_here(input: usize, column: &str, first: &str) -> Difference {
    let problem = format!("is missing here but is in {first}; add it, or leave it out");
    Difference { input, column: column.to_string(), problem, extra_number: false }
}

/// A vector width that one footer could not tell is taken from the other.
fn meeting(known: &ColumnKind, here: &ColumnKind) -> Meeting {
    let widened = |both: ColumnKind| match both == *known && both == *here {
        true => Meeting::Same,
        false => Meeting::Widened(both),
    };
    match (known, here) {
        (ColumnKind::Scalar(a), ColumnKind::Scalar(b)) => match common_number(a, b) {
            Some(both) => widened(ColumnKind::Scalar(both)),
            None => Meeting::Different,
        },
        (ColumnKind::Vector(a, n), ColumnKind::Vector(b, m)) => {
            let width = match (n, m) {
                (Some(n), Some(m)) if n != m => return Meeting::Different,
                (n, m) => n.or(*m),
            };
            match common_number(a, b) {
                Some(both) => widened(ColumnKind::Vector(both, width)),
                None => Meeting::Different,
            }
        }
        (ColumnKind::Other(a), ColumnKind::Other(b)) if a == b => Meeting::Same,
        (ColumnKind::Other(a), ColumnKind::Other(b)) if is_text(a) && is_text(b) => {
            match common_type(a, b) {
                Some(both) => widened(ColumnKind::Other(both)),
                None => Meeting::Different,
            }
        }
        _ => Meeting::Different,
    }
}
