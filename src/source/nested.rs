//! Fields of structs as columns of their own: `a.b` is the field `b` of the column `a`.
//!
//! Enters: the fields of a schema, or the array of a root column. Leaves: where each field is, or
//! its array. Held: a name and a path per field; an array shares its numbers with the struct's.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use std::sync::Arc;

/// Fields of structs deeper than this have no names.
const DEEPEST: usize = 32;

/// A column of a schema, or a field within structs.
#[derive(Debug, Clone)]
pub(super) struct NestedField {
    /// The names on the way to it, joined by dots.
    pub(super) name: String,
    /// The root column it is, or is in.
    pub(super) root: usize,
    /// The names below the root.
    pub(super) path: Vec<String>,
    /// Its type; null where a struct around it may be.
    pub(super) field: FieldRef,
}

impl NestedField {
    /// Its array of a batch.
    pub(super) fn array(&self, batch: &RecordBatch) -> Option<ArrayRef> {
        nested_array(batch.column(self.root), &self.path)
    }
}

/// All columns of a schema: root columns, then the fields within structs.
pub(super) fn all_fields(fields: &Fields) -> Vec<NestedField> {
    let root = |(root, field): (usize, &FieldRef)| {
        let (name, path) = (field.name().clone(), Vec::new());
        NestedField { name, root, path, field: field.clone() }
    };
    let roots = fields.iter().enumerate().map(root);
    roots.chain(nested_fields(fields)).collect()
}

/// All fields within structs, in the order of the schema; those of structs within structs too.
pub(super) fn nested_fields(fields: &Fields) -> Vec<NestedField> {
    let mut found = Vec::new();
    for (root, field) in fields.iter().enumerate() {
        descend(root, &[], field, field.name(), &mut found);
    }
    found
}

fn descend(root: usize, path: &[String], field: &Field, name: &str, found: &mut Vec<NestedField>) {
    let DataType::Struct(children) = field.data_type() else { return };
    if path.len() == DEEPEST {
        return;
    }
    for child in children {
        let name = format!("{name}.{}", child.name());
        let path: Vec<String> = path.iter().chain([child.name()]).cloned().collect();
        let nullable = field.is_nullable() || child.is_nullable();
        let here = Arc::new(child.as_ref().clone().with_nullable(nullable));
        found.push(NestedField {
            name: name.clone(),
            root,
            path: path.clone(),
            field: here.clone(),
        });
        descend(root, &path, &here, &name, found);
    }
}

/// The field of a schema that a column is: a root column, or a field within structs, by its whole
/// name.
pub(crate) fn field_by_name(fields: &Fields, name: &str) -> Option<FieldRef> {
    let root = fields.iter().find(|f| f.name() == name).cloned();
    root.or_else(|| {
        let nested = nested_fields(fields).into_iter().find(|n| n.name == name)?;
        Some(Arc::new(nested.field.as_ref().clone().with_name(name)))
    })
}

/// The array of a field within structs; rows whose struct is null have none.
pub(super) fn nested_array(root: &ArrayRef, path: &[String]) -> Option<ArrayRef> {
    let Some((first, rest)) = path.split_first() else { return Some(root.clone()) };
    let parent = root.as_struct_opt()?;
    let child = parent.column_by_name(first)?;
    let nulls = NullBuffer::union(parent.nulls(), child.logical_nulls().as_ref());
    let array = match parent.null_count() {
        0 => child.clone(),
        _ => make_array(child.to_data().into_builder().nulls(nulls).build().ok()?),
    };
    nested_array(&array, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, StructArray};

    fn number(name: &str) -> FieldRef {
        Arc::new(Field::new(name, DataType::Float64, false))
    }

    #[test]
    fn fields_are_named_by_the_way_to_them() {
        let inner = Field::new("b", DataType::Struct(vec![number("c")].into()), true);
        let outer = DataType::Struct(vec![number("x"), Arc::new(inner)].into());
        let fields = Fields::from(vec![number("y"), Arc::new(Field::new("a", outer, false))]);
        let found = nested_fields(&fields);
        let names: Vec<&str> = found.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["a.x", "a.b", "a.b.c"]);
        assert_eq!((found[2].root, found[2].path.join("/")), (1, "b/c".into()));
        let nullable: Vec<bool> = found.iter().map(|n| n.field.is_nullable()).collect();
        assert_eq!(nullable, [false, true, true], "as what is around them");
        let found = field_by_name(&fields, "a.b.c").unwrap();
        assert_eq!((found.name().as_str(), found.data_type()), ("a.b.c", &DataType::Float64));
        assert!(field_by_name(&fields, "a.c").is_none());
    }

    #[test]
    fn a_field_of_a_null_struct_is_null() {
        let x: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), Some(2.0), None]));
        let fields = vec![Arc::new(Field::new("x", DataType::Float64, true))];
        let nulls = NullBuffer::from(vec![true, false, true]);
        let a: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![x], Some(nulls)));
        let found = nested_array(&a, &["x".into()]).unwrap();
        let expected: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, None]));
        assert_eq!(&found, &expected);
        assert!(nested_array(&a, &["y".into()]).is_none());
    }
}
