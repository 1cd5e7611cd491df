//! Columns that are there to tell rows apart, not to measure them: the index of a pandas frame, row
//! numbers, ids.
//!
//! Enters: what footers, or batches in memory, say. Leaves: names. Held: a few numbers per column
//! that still may be one.
//!
//! | column | is known by | and is |
//! |---|---|---|
//! | pandas index | `pandas` metadata, or the name `__index_level_0__` | no feature |
//! | row number | integers that count the rows of each file | told |
//! | id | integers by the name of one, with room for a number per row | told |
//!
//! Of files that is what least and largest numbers of row groups tell: a row group of a counting
//! column starts where the last one ended, and has room for as many numbers as rows.

use super::footer::Footer;
use super::table::{ColumnInfo, ColumnKind, ColumnOrigin};
use ::parquet::file::statistics::Statistics;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};

/// Fewer rows than these are numbered by chance.
const LEAST_ROWS: u64 = 10;

/// The columns that the metadata of a schema names as the index of a pandas frame. A range, which
/// is no column, is an object there and not a name.
pub(super) fn pandas_index(schema: &Schema) -> Vec<String> {
    let Some(text) = schema.metadata().get("pandas") else { return Vec::new() };
    let about: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let columns = about["index_columns"].as_array();
    let names = columns.into_iter().flatten().filter_map(|c| c.as_str());
    names.map(str::to_string).collect()
}

/// True for the name that pandas gives an index that has none.
pub(crate) fn is_index_name(name: &str) -> bool {
    let level = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    level.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// True for id, row_id, userId, index, rownum and their like.
fn is_id_name(name: &str) -> bool {
    const NAMES: [&str; 9] =
        ["id", "idx", "index", "row", "rowid", "rownum", "row_num", "row_number", "rownumber"];
    let lower = name.to_lowercase();
    let ends = ["_id", "_idx", "_index", "-id", ".id"];
    NAMES.contains(&lower.as_str())
        || ends.iter().any(|end| lower.ends_with(end))
        || name.strip_suffix("Id").is_some_and(|n| n.ends_with(|c: char| c.is_lowercase()))
}

fn is_integer(kind: &ColumnKind) -> bool {
    matches!(kind, ColumnKind::Scalar(t) if t.is_integer())
}

/// A column of a dataset that may number its rows.
#[derive(Debug, Clone)]
struct Candidate {
    name: String,
    value: DataType,
    /// True while every row group goes on where the last one of its file ended.
    counts: bool,
    range: Option<(i128, i128)>,
}

impl Candidate {
    /// Goes through the row groups of a file; false when it is none after all.
    fn follow(&mut self, footer: &Footer, leaf: usize) -> bool {
        let mut next = None;
        for group in footer.arrow.metadata().row_groups().iter().filter(|g| g.num_rows() > 0) {
            let statistics = group.column(leaf).statistics();
            let range = statistics.and_then(|s| integer_range(s, &self.value));
            let Some((least, largest)) = range else { return false };
            let rows = i128::from(group.num_rows());
            self.counts &= next.is_none_or(|n| n == least) && largest - least + 1 == rows;
            next = Some(largest + 1);
            let (a, b) = self.range.unwrap_or((least, largest));
            self.range = Some((a.min(least), b.max(largest)));
            if !self.counts && !is_id_name(&self.name) {
                return false;
            }
        }
        true
    }

    fn numbers_rows(&self, rows: u64) -> bool {
        let room = self.range.map_or(0, |(least, largest)| largest - least + 1);
        self.counts || room >= i128::from(rows)
    }
}

/// Least and largest of a row group, if all of it is known.
fn integer_range(statistics: &Statistics, value: &DataType) -> Option<(i128, i128)> {
    if statistics.null_count_opt().is_some_and(|n| n > 0) {
        return None;
    }
    let (least, largest) = match statistics {
        Statistics::Int32(s) => (i64::from(*s.min_opt()?), i64::from(*s.max_opt()?)),
        Statistics::Int64(s) => (*s.min_opt()?, *s.max_opt()?),
        _ => return None,
    };
    // What has no sign is stored as what has one.
    let number = |n: i64| match value {
        DataType::UInt64 => i128::from(n as u64),
        DataType::UInt32 => i128::from(n as u32),
        _ => i128::from(n),
    };
    let (least, largest) = (number(least), number(largest));
    (least <= largest).then_some((least, largest))
}

/// The candidates of a dataset, file by file.
#[derive(Debug, Default)]
pub(super) struct FooterIds {
    candidates: Option<Vec<Candidate>>,
}

impl FooterIds {
    /// Looks at one more file.
    pub(super) fn add(&mut self, footer: &Footer, columns: &[ColumnInfo]) {
        let candidates = self.candidates.get_or_insert_with(|| {
            let proper = columns.iter().filter(|c| c.origin == ColumnOrigin::Column);
            let integers = proper.filter(|c| is_integer(&c.kind));
            integers.map(Candidate::of).collect()
        });
        if candidates.is_empty() {
            return;
        }
        let here = footer.file_columns();
        candidates.retain_mut(|candidate| match here.get(&candidate.name) {
            Some(at) => candidate.follow(footer, here.column(at).leaves.start),
            None => false,
        });
    }

    /// Those that number the rows.
    pub(super) fn finish(self, rows: u64) -> Vec<String> {
        let all = self.candidates.into_iter().flatten();
        let found = all.filter(|c| rows >= LEAST_ROWS && c.numbers_rows(rows));
        found.map(|c| c.name).collect()
    }
}

impl Candidate {
    fn of(column: &ColumnInfo) -> Candidate {
        let value = match &column.kind {
            ColumnKind::Scalar(t) | ColumnKind::Vector(t, _) | ColumnKind::Other(t) => t.clone(),
        };
        Candidate { name: column.name.clone(), value, counts: true, range: None }
    }
}

/// True when a column of batches in memory numbers their rows. Most columns are done with after two
/// numbers.
pub(super) fn numbers_rows(name: &str, arrays: &[&ArrayRef]) -> bool {
    let rows: usize = arrays.iter().map(|a| a.len()).sum();
    if (rows as u64) < LEAST_ROWS || arrays.iter().any(|a| a.null_count() > 0) {
        return false;
    }
    let numbers = || arrays.iter().flat_map(|a| integers(a));
    if numbers().zip(numbers().skip(1)).all(|(a, b)| b == a + 1) {
        return numbers().next().is_some();
    }
    let ends = is_id_name(name).then(|| numbers().min().zip(numbers().max())).flatten();
    ends.is_some_and(|(least, largest)| largest - least + 1 >= rows as i128)
}

/// The numbers of a column of integers; of any other none.
fn integers(array: &ArrayRef) -> Box<dyn Iterator<Item = i128> + '_> {
    macro_rules! of {
        ($($variant:ident => $native:ty),*) => {
            match array.data_type() {
                $(DataType::$variant => {
                    let values = array.as_primitive::<$native>().values();
                    Box::new(values.iter().map(|n| i128::from(*n)))
                })*
                _ => Box::new(std::iter::empty()),
            }
        };
    }
    of!(
        Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
        UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int64Array};
    use std::collections::HashMap;
    use std::sync::Arc;

    #[test]
    fn an_index_of_pandas_is_named_by_its_metadata() {
        let about = r#"{"index_columns": ["day", {"kind": "range", "start": 0}], "columns": []}"#;
        let schema = |text: &str| {
            let metadata = HashMap::from([("pandas".to_string(), text.to_string())]);
            Schema::empty().with_metadata(metadata)
        };
        assert_eq!(pandas_index(&schema(about)), ["day"]);
        assert!(pandas_index(&schema("no json")).is_empty());
        assert!(pandas_index(&Schema::empty()).is_empty());
        assert!(is_index_name("__index_level_0__") && !is_index_name("__index_level___"));
    }

    #[test]
    fn ids_are_known_by_their_names() {
        for name in ["id", "ID", "user_id", "userId", "index", "rownum", "row"] {
            assert!(is_id_name(name), "{name}");
        }
        for name in ["width", "acid", "arid", "grow", "identity", "Id"] {
            assert_eq!(is_id_name(name), name == "Id", "{name}");
        }
    }

    #[test]
    fn row_numbers_in_memory_go_up_by_one() {
        let ints = |n: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(n)) };
        let (a, b) = (ints((7..17).collect()), ints((17..20).collect()));
        assert!(numbers_rows("n", &[&a, &b]));
        assert!(!numbers_rows("n", &[&b, &a]));
        assert!(numbers_rows("n_id", &[&b, &a]), "a permutation of them, named as one");
        assert!(!numbers_rows("n_id", &[&ints(vec![1; 20])]));
        assert!(!numbers_rows("n", &[&b]), "three are chance");
        let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..20).map(f64::from)));
        assert!(!numbers_rows("id", &[&floats]));
    }
}
