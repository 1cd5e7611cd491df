//! Hive partition keys: what directories named `key=value` say of the rows of the files in them.
//!
//! Enters: the paths of files, as they were given. Leaves: columns, one value per file. Held: a
//! value per key and file.
//!
//! A key whose values are all whole numbers is a column of integers, of other numbers one of
//! doubles, else one of text. `%3A` and its like stand for the characters that a path cannot have,
//! and `__HIVE_DEFAULT_PARTITION__` for null. A column of that name in the files goes first.

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use std::path::{Component, Path};
use std::sync::Arc;

/// What stands for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The keys of all files.
#[derive(Debug, Clone, Default)]
pub(super) struct PartitionKeys {
    keys: Vec<PartitionKey>,
}

/// A key, and its value of each file.
#[derive(Debug, Clone)]
struct PartitionKey {
    name: String,
    data_type: DataType,
    /// By file; `None` inside for null, outside where the path of the file does not have the key.
    values: Vec<Option<Option<String>>>,
}

impl PartitionKeys {
    /// Of files at these paths.
    pub(super) fn of<'a>(paths: impl Iterator<Item = &'a Path>) -> PartitionKeys {
        let mut keys: Vec<PartitionKey> = Vec::new();
        for (file, path) in paths.enumerate() {
            for (name, value) in path_keys(path) {
                let known = keys.iter().position(|k| k.name == name).unwrap_or_else(|| {
                    let (data_type, values) = (DataType::Utf8, vec![None; file]);
                    keys.push(PartitionKey { name, data_type, values });
                    keys.len() - 1
                });
                // The innermost of a name counts, as of directories of files.
                keys[known].values.truncate(file);
                keys[known].values.push(Some(value));
            }
            keys.iter_mut().for_each(|key| key.values.resize(file + 1, None));
        }
        for key in &mut keys {
            key.data_type = value_type(&key.values);
        }
        PartitionKeys { keys }
    }

    /// The fields of the keys, in the order of the directories.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        self.keys.iter().map(|key| Field::new(&key.name, key.data_type.clone(), key.has_nulls()))
    }

    /// The position of a key.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.keys.iter().position(|key| key.name == name)
    }

    /// Leaves the keys out that these columns have the names of.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.keys.retain(|key| keep(&key.name));
    }

    /// For each key, the first file whose path does not have it.
    pub(super) fn missing(&self) -> impl Iterator<Item = (&str, usize)> {
        let without = |key: &PartitionKey| key.values.iter().position(Option::is_none);
        self.keys.iter().filter_map(move |key| Some((key.name.as_str(), without(key)?)))
    }

    /// The value of a key in a file, for so many rows.
    pub(super) fn array(&self, key: usize, file: usize, rows: usize) -> ArrayRef {
        let PartitionKey { data_type, values, .. } = &self.keys[key];
        let value = values[file].as_ref().and_then(Option::as_deref);
        match data_type {
            DataType::Int64 => {
                let number = value.and_then(|v| v.parse::<i64>().ok());
                Arc::new(Int64Array::from(vec![number; rows]))
            }
            DataType::Float64 => {
                let number = value.and_then(|v| v.parse::<f64>().ok());
                Arc::new(Float64Array::from(vec![number; rows]))
            }
            _ => Arc::new(StringArray::from(vec![value; rows])),
        }
    }
}

impl PartitionKey {
    fn has_nulls(&self) -> bool {
        self.values.iter().flatten().any(Option::is_none)
    }
}

/// The keys in a path, outermost first, with their values.
fn path_keys(path: &Path) -> Vec<(String, Option<String>)> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    let key = |part: Component<'_>| match part {
        Component::Normal(name) => {
            let (key, value) = name.to_str()?.split_once('=')?;
            let value = (value != NULL).then(|| unescaped(value));
            (!key.is_empty()).then(|| (unescaped(key), value))
        }
        _ => None,
    };
    directories.filter_map(key).collect()
}

/// The narrowest type that all values have.
fn value_type(values: &[Option<Option<String>>]) -> DataType {
    let values = || values.iter().flatten().flatten();
    let is_number = |v: &String| v.parse::<f64>().is_ok_and(f64::is_finite);
    match () {
        () if values().next().is_none() => DataType::Utf8,
        () if values().all(|v| v.parse::<i64>().is_ok()) => DataType::Int64,
        () if values().all(is_number) => DataType::Float64,
        () => DataType::Utf8,
    }
}

/// The text that `%` and two hexadecimal digits stand for; what is no such thing stays.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = match (first, after) {
            (b'%', [a, b, ..]) => hex(*a).zip(hex(*b)).map(|(a, b)| 16 * a + b),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_string())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    fn keys(paths: &[&str]) -> PartitionKeys {
        PartitionKeys::of(paths.iter().map(Path::new))
    }

    #[test]
    fn directories_tell_names_values_and_types() {
        let found = keys(&[
            "d/year=2024/share=1/at=10%3A30/k=v.parquet",
            "d/year=__HIVE_DEFAULT_PARTITION__/share=0.5/at=x%2/b.parquet",
        ]);
        let fields: Vec<String> = found
            .fields()
            .map(|f| format!("{} {} {}", f.name(), f.data_type(), f.is_nullable()))
            .collect();
        assert_eq!(fields, ["year Int64 true", "share Float64 false", "at Utf8 false"]);
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![2024, 2024]));
        assert_eq!(&found.array(0, 0, 2), &whole);
        assert_eq!(found.array(0, 1, 2).null_count(), 2);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["10:30"]));
        assert_eq!(&found.array(2, 0, 1), &text);
        let kept: ArrayRef = Arc::new(StringArray::from(vec!["x%2"]));
        assert_eq!(&found.array(2, 1, 1), &kept);
        assert!(found.missing().next().is_none());
    }

    #[test]
    fn a_key_that_a_path_lacks_is_known() {
        let found = keys(&["a=1/x.parquet", "x.parquet", "a=1/a=2/x.parquet"]);
        assert_eq!(found.missing().collect::<Vec<_>>(), [("a", 1)]);
        let innermost: ArrayRef = Arc::new(Int64Array::from(vec![2]));
        assert_eq!(&found.array(0, 2, 1), &innermost);
        assert!(keys(&["=1/x.parquet", "a/b=c.parquet"]).fields().next().is_none());
    }
}
