//! The columns of the output: those kept, with the types they have, then those computed.
//!
//! Enters: what was asked, a model, the columns of a table. Leaves: arrow fields. No row is read.

use super::options::{Dtype, KeepColumns, Layout};
use super::plan::{Added, Compute};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::source::{FeatureColumn, Table, converted, field_by_name, named_columns, unknown};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::collections::HashSet;
use std::sync::Arc;

/// Distance between a row and its reconstruction.
const ERROR_COLUMN: &str = "reconstruction_error";
/// Hotelling's T² of a row.
const T2_COLUMN: &str = "hotelling_t2";

/// What the components leave of a row, and of each column of it.
const RESIDUAL_COLUMN: &str = "residual";

/// The columns of the output.
pub(super) struct OutputColumns {
    kept: Vec<FieldRef>,
    computed: Vec<FieldRef>,
}

impl OutputColumns {
    /// Finds the kept columns and checks that no name comes out twice.
    pub(super) fn new(
        table: &dyn Table,
        keep: &KeepColumns,
        compute: Compute,
        computed: Vec<FieldRef>,
    ) -> Result<OutputColumns> {
        let mut kept = kept_fields(table, keep)?;
        if *keep == KeepColumns::All && !matches!(compute, Compute::Scores { .. }) {
            // A reconstruction of rows computes their features again.
            let again: HashSet<&String> = computed.iter().map(|c| c.name()).collect();
            kept.retain(|f| !again.contains(f.name()));
        }
        let mut seen = HashSet::new();
        match kept.iter().chain(&computed).find(|f| !seen.insert(f.name().as_str())) {
            None => Ok(OutputColumns { kept, computed }),
            Some(field) => Error::misuse(format!(
                "the output would have two columns '{}'; keep it once, and under a name that no \
                 computed column has (see ⟦prefix⟧)",
                field.name()
            )),
        }
    }

    /// Kept columns, then computed ones.
    pub(super) fn schema(&self) -> SchemaRef {
        let fields = self.kept.iter().chain(&self.computed).cloned();
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The arrays of kept columns, each of the type that comes out.
    pub(super) fn conformed(&self, kept: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let columns = kept.columns().iter().zip(&self.kept);
        columns.map(|(array, field)| converted(array, field.data_type())).collect()
    }

    /// Names of the computed columns.
    pub(super) fn computed_names(&self) -> HashSet<String> {
        self.computed.iter().map(|f| f.name().clone()).collect()
    }

    /// Names of the kept columns, if there are any.
    pub(super) fn kept_names(&self) -> Option<Vec<String>> {
        (!self.kept.is_empty()).then(|| self.kept.iter().map(|f| f.name().clone()).collect())
    }

    /// Bytes of the computed numbers of a row.
    pub(super) fn computed_bytes(&self) -> u64 {
        self.computed.iter().map(|f| 8 * width(f.data_type()) as u64).sum()
    }
}

fn kept_fields(table: &dyn Table, keep: &KeepColumns) -> Result<Vec<FieldRef>> {
    match keep {
        KeepColumns::None => Ok(Vec::new()),
        KeepColumns::All => all_fields(table),
        KeepColumns::Columns(names) => {
            let names = named_columns(table, names)?;
            table.check_columns(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
            let schema = table.schema()?;
            let all = || table.columns().iter().map(|c| c.name.as_str());
            let field = |name: &String| {
                let found = field_by_name(schema.fields(), name);
                found.ok_or_else(|| unknown(&table.place().file, name, all()))
            };
            names.iter().map(field).collect()
        }
    }
}

/// All columns, which must be those of every file.
fn all_fields(table: &dyn Table) -> Result<Vec<FieldRef>> {
    if let Some(d) = table.differences().first() {
        let problem = format!(
            "{}; ⟦keep-all⟧ needs the same columns in every file, name them with ⟦keep⟧",
            d.problem
        );
        return Err(Error::data(table.place_of(d), problem));
    }
    Ok(table.schema()?.fields().iter().cloned().collect())
}

/// The columns that are computed.
pub(super) fn computed_fields(
    model: &Model,
    k: usize,
    compute: Compute,
    dtype: Dtype,
    prefix: &str,
) -> Vec<FieldRef> {
    let number = |name: String| Arc::new(Field::new(name, number_type(dtype), false));
    let columns = &model.header.columns;
    let shaped = |prefix: &str| {
        let field = |c: &FeatureColumn| match (format!("{prefix}{}", c.name), c.width) {
            (name, None) => number(name),
            (name, Some(_)) => vector_field(&name, dtype, c.len()),
        };
        columns.columns.iter().map(field).collect::<Vec<_>>()
    };
    let Compute::Scores { layout, added } = compute else { return shaped("") };
    let Added { error, hotelling, residuals } = added;
    let mut fields = match layout {
        Layout::Columns => (1..=k).map(|i| number(format!("{prefix}{i}"))).collect(),
        Layout::List => vec![vector_field(prefix, dtype, k)],
    };
    fields.extend(error.then(|| number(ERROR_COLUMN.into())));
    fields.extend(hotelling.then(|| number(T2_COLUMN.into())));
    match layout {
        _ if !residuals => {}
        Layout::Columns => fields.extend(shaped(&format!("{RESIDUAL_COLUMN}_"))),
        Layout::List => fields.push(vector_field(RESIDUAL_COLUMN, dtype, columns.len())),
    }
    fields
}

/// The same, where a row may have none.
pub(super) fn nullable(fields: &[FieldRef]) -> Vec<FieldRef> {
    fields.iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true))).collect()
}

/// The type of computed numbers.
pub(super) fn number_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::F64 => DataType::Float64,
        Dtype::F32 => DataType::Float32,
    }
}

/// A computed column of several numbers per row.
fn vector_field(name: &str, dtype: Dtype, width: usize) -> FieldRef {
    let item = Arc::new(Field::new_list_field(number_type(dtype), false));
    Arc::new(Field::new(name, DataType::FixedSizeList(item, width as i32), false))
}

fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(_, width) => *width as usize,
        _ => 1,
    }
}
