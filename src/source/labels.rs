//! What rows are labelled with: classes, or numbers.
//!
//! Enters: the label columns of a record batch. Leaves: [`Labels`], one per row, and which rows
//! have none. Held: one number or class id per row and label column, and the block's distinct
//! classes.
//!
//! A class is a tuple of one value per label column; two rows are of the same class when their
//! values are equal. Ids count within a block; accumulators join blocks by the classes' values.

use super::numbers;
use super::table::ColumnKind;
use crate::error::{Error, Place, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use ndarray::{Array2, ArrayViewMut1, Axis};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;

/// Which columns are labels, and how they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRequest {
    /// The columns.
    pub columns: Vec<String>,
    /// As what.
    pub read: LabelRead,
}

/// How labels are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelRead {
    /// Equal or not.
    Classes,
    /// Numbers with distances.
    Numbers,
    /// Numbers, those of a row divided by their length: directions.
    UnitNumbers,
}

/// One value of a class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClassValue {
    /// true or false.
    Bool(bool),
    /// A whole number, whatever the type of its column: 3.0 is 3.
    Int(i64),
    /// Any other number.
    Number(Ordered),
    /// Text.
    Text(String),
}

/// The largest double below which all whole numbers are doubles.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// A double that can be compared and hashed; never NaN.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ordered(pub f64);

impl Eq for Ordered {}

impl std::hash::Hash for Ordered {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // 0 and −0 are equal.
        (self.0 + 0.0).to_bits().hash(state);
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> Ordering {
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

impl fmt::Display for ClassValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClassValue::Bool(b) => write!(f, "{b}"),
            ClassValue::Int(i) => write!(f, "{i}"),
            ClassValue::Number(x) => write!(f, "{}", x.0),
            ClassValue::Text(t) => f.write_str(t),
        }
    }
}

/// false and true, then numbers by size, then texts.
impl Ord for ClassValue {
    fn cmp(&self, other: &ClassValue) -> Ordering {
        use ClassValue::{Bool, Int, Number, Text};
        let rank = |v: &ClassValue| match v {
            Bool(_) => 0,
            Int(_) | Number(_) => 1,
            Text(_) => 2,
        };
        match (self, other) {
            (Bool(a), Bool(b)) => a.cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (Text(a), Text(b)) => a.cmp(b),
            (Number(a), Number(b)) => a.cmp(b),
            // What is no whole number is equal to none.
            (Int(a), Number(b)) => Ordered(*a as f64).cmp(b).then(Ordering::Less),
            (Number(a), Int(b)) => a.cmp(&Ordered(*b as f64)).then(Ordering::Greater),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for ClassValue {
    fn partial_cmp(&self, other: &ClassValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ClassValue {
    /// A number of any width.
    pub(crate) fn of_number(x: f64) -> ClassValue {
        match x.fract() == 0.0 && x.abs() <= WHOLE {
            true => ClassValue::Int(x as i64),
            false => ClassValue::Number(Ordered(x)),
        }
    }

    /// As it is read now: a whole number is one, also where a state of an earlier version has it
    /// as a double.
    pub(crate) fn normalized(self) -> ClassValue {
        match self {
            ClassValue::Number(x) => ClassValue::of_number(x.0),
            other => other,
        }
    }

    /// Bytes of its text, if it is one.
    pub(crate) fn text_bytes(&self) -> u64 {
        match self {
            ClassValue::Text(text) => text.len() as u64,
            _ => 0,
        }
    }

    /// As a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            ClassValue::Bool(b) => Some(f64::from(u8::from(*b))),
            ClassValue::Int(i) => Some(*i as f64),
            ClassValue::Number(x) => Some(x.0),
            ClassValue::Text(_) => None,
        }
    }
}

/// A class: one value per label column.
pub type Class = Vec<ClassValue>;

/// The labels of some rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// Positions among the distinct classes of the block.
    Classes {
        /// One per row.
        ids: Vec<u32>,
        /// The distinct classes, in the order they appear.
        classes: Vec<Class>,
    },
    /// rows × label columns.
    Numbers(Array2<f64>),
}

impl Labels {
    /// Only these rows.
    pub fn select(self, rows: &[usize]) -> Labels {
        match self {
            Labels::Numbers(y) => Labels::Numbers(y.select(Axis(0), rows)),
            Labels::Classes { ids, classes } => {
                Labels::Classes { ids: rows.iter().map(|r| ids[*r]).collect(), classes }
            }
        }
    }
}

/// What a column can be as a label: class values, numbers, or neither.
pub(crate) fn is_class(kind: &ColumnKind) -> bool {
    matches!(kind, ColumnKind::Scalar(DataType::Boolean))
        || matches!(kind, ColumnKind::Other(t) if is_text(t))
}

/// Text, or a dictionary of it.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// What is wrong with large integers as numbers.
const INDISTINCT: &str = "has integers beyond 2^53, which a number cannot tell apart; with \
                          ⟦classes⟧ they are labels all the same";

/// Reads the labels of a batch; gives the rows without one too.
pub(crate) fn read(
    request: &LabelRequest,
    arrays: &[&ArrayRef],
    place: impl Fn(&str, usize) -> Place,
) -> Result<(Labels, Vec<usize>)> {
    let rows = arrays.first().map_or(0, |a| a.len());
    let mut missing = vec![false; rows];
    let columns = arrays.iter().zip(&request.columns);
    let labels = match request.read {
        LabelRead::Numbers | LabelRead::UnitNumbers => {
            let mut y = Array2::zeros((rows, arrays.len()));
            for (target, (array, name)) in y.columns_mut().into_iter().zip(columns) {
                read_numbers(array, name, &place, target, &mut missing)?;
            }
            if request.read == LabelRead::UnitNumbers {
                let name = request.columns.join(", ");
                to_unit_length(&mut y, &missing).map_err(|row| no_direction(place(&name, row)))?;
            }
            Labels::Numbers(y)
        }
        LabelRead::Classes => {
            let columns = columns.map(|(array, name)| distinct(array, name, &place, &mut missing));
            joined(columns.collect::<Result<Vec<_>>>()?, rows)
        }
    };
    Ok((labels, (0..rows).filter(|row| missing[*row]).collect()))
}

/// One label column of numbers.
fn read_numbers(
    array: &ArrayRef,
    name: &str,
    place: &impl Fn(&str, usize) -> Place,
    mut target: ArrayViewMut1<'_, f64>,
    missing: &mut [bool],
) -> Result<()> {
    if numbers::count_rounded(array) > 0 {
        return Err(Error::data(place(name, 0), INDISTINCT));
    }
    let numbers = numbers::as_f64(array, &place(name, 0).file, name)?;
    for (row, slot) in target.iter_mut().enumerate() {
        let value = numbers.value(row);
        if numbers.is_null(row) || value.is_nan() {
            missing[row] = true;
        } else if value.is_infinite() {
            let problem = "is infinite; a label must be a finite number";
            return Err(Error::data(place(name, row), problem));
        } else {
            *slot = value;
        }
    }
    Ok(())
}

/// Divides rows by their length; those that are missing stay as they are. A row of zeros is an
/// error.
fn to_unit_length(y: &mut Array2<f64>, missing: &[bool]) -> std::result::Result<(), usize> {
    for (row, mut y) in y.rows_mut().into_iter().enumerate().filter(|(row, _)| !missing[*row]) {
        let largest = y.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        if largest == 0.0 {
            return Err(row);
        }
        // By the largest first: squares of numbers near the ends of the range have none.
        y /= largest;
        let length = y.dot(&y).sqrt();
        y /= length;
    }
    Ok(())
}

fn no_direction(place: Place) -> Error {
    let problem = "is 0, which has no direction for ⟦label-kernel=cosine⟧ to compare; leave such \
                   rows out or choose another kernel";
    Error::data(place, problem)
}

/// The values of one column: an id per row and the distinct ones.
struct Distinct {
    ids: Vec<u32>,
    values: Vec<ClassValue>,
}

impl Distinct {
    fn of<K: std::hash::Hash + Eq>(
        keys: impl Iterator<Item = Option<K>>,
        missing: &mut [bool],
        value: impl Fn(&K) -> ClassValue,
    ) -> Distinct {
        let mut seen: HashMap<K, u32> = HashMap::new();
        let mut values = Vec::new();
        let mut ids = Vec::with_capacity(missing.len());
        for (row, key) in keys.enumerate() {
            let Some(key) = key else {
                missing[row] = true;
                ids.push(0);
                continue;
            };
            ids.push(*seen.entry(key).or_insert_with_key(|key| {
                values.push(value(key));
                values.len() as u32 - 1
            }));
        }
        Distinct { ids, values }
    }
}

fn distinct(
    array: &ArrayRef,
    name: &str,
    place: &impl Fn(&str, usize) -> Place,
    missing: &mut [bool],
) -> Result<Distinct> {
    let text = |t: &&str| ClassValue::Text(t.to_string());
    Ok(match array.data_type() {
        DataType::Utf8 => Distinct::of(array.as_string::<i32>().iter(), missing, text),
        DataType::LargeUtf8 => Distinct::of(array.as_string::<i64>().iter(), missing, text),
        DataType::Utf8View => Distinct::of(array.as_string_view().iter(), missing, text),
        DataType::Boolean => {
            Distinct::of(array.as_boolean().iter(), missing, |b| ClassValue::Bool(*b))
        }
        DataType::Dictionary(_, _) => {
            let plain = numbers::unpacked(array, &place(name, 0).file, name)?;
            distinct(&plain, name, place, missing)?
        }
        kind if kind.is_integer() => {
            let whole = whole_numbers(array).ok_or_else(|| {
                Error::data(
                    place(name, 0),
                    "has numbers beyond the range of 64-bit integers; it cannot be a label",
                )
            })?;
            Distinct::of(whole.into_iter(), missing, |i| ClassValue::Int(*i))
        }
        _ => {
            let numbers = numbers::as_f64(array, &place(name, 0).file, name)?;
            // −0 is 0.
            let keys = numbers.iter().map(|x| x.filter(|x| !x.is_nan()).map(|x| Ordered(x + 0.0)));
            Distinct::of(keys, missing, |x| ClassValue::of_number(x.0))
        }
    })
}

/// Integers of any width; `None` where one is beyond the range of i64.
fn whole_numbers(array: &ArrayRef) -> Option<Vec<Option<i64>>> {
    macro_rules! whole {
        ($t:ty) => {
            array.as_primitive::<$t>().iter().map(|v| Some(v.map(i64::from))).collect()
        };
    }
    match array.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => {
            let narrowed = |v: Option<u64>| v.map(i64::try_from).transpose().ok();
            array.as_primitive::<UInt64Type>().iter().map(narrowed).collect()
        }
        _ => None,
    }
}

/// Classes from the values of all label columns.
fn joined(mut columns: Vec<Distinct>, rows: usize) -> Labels {
    if columns.len() == 1 {
        let Distinct { ids, values } = columns.remove(0);
        return Labels::Classes { ids, classes: values.into_iter().map(|v| vec![v]).collect() };
    }
    let keys = (0..rows).map(|row| columns.iter().map(|c| c.ids[row]).collect::<Vec<u32>>());
    let mut seen: HashMap<Vec<u32>, u32> = HashMap::new();
    let mut classes = Vec::new();
    let ids = keys
        .map(|key| {
            *seen.entry(key).or_insert_with_key(|key| {
                let value = |(c, id): (&Distinct, &u32)| {
                    c.values.get(*id as usize).cloned().unwrap_or(ClassValue::Bool(false))
                };
                classes.push(columns.iter().zip(key).map(value).collect());
                classes.len() as u32 - 1
            })
        })
        .collect();
    Labels::Classes { ids, classes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Float64Array, Int32Array, StringArray};
    use std::sync::Arc;

    fn read_classes(arrays: &[ArrayRef]) -> (Labels, Vec<usize>) {
        let columns = (0..arrays.len()).map(|i| format!("c{i}")).collect();
        let request = LabelRequest { columns, read: LabelRead::Classes };
        read(&request, &arrays.iter().collect::<Vec<_>>(), |_, _| Place::default()).unwrap()
    }

    #[test]
    fn classes_are_numbered_as_they_appear() {
        let text: ArrayRef =
            Arc::new(StringArray::from(vec![Some("b"), Some("a"), None, Some("b")]));
        let (labels, missing) = read_classes(std::slice::from_ref(&text));
        let value = |t: &str| vec![ClassValue::Text(t.into())];
        assert_eq!(
            labels,
            Labels::Classes { ids: vec![0, 1, 0, 0], classes: vec![value("b"), value("a")] }
        );
        assert_eq!(missing, [2]);
        let flag: ArrayRef = Arc::new(BooleanArray::from(vec![true, true, true, false]));
        let (labels, _) = read_classes(&[text, flag]);
        let Labels::Classes { ids, classes } = labels else { panic!() };
        assert_eq!((ids[0] == ids[3], classes.len()), (false, 3));
    }

    #[test]
    fn numbers_are_read_as_they_are() {
        let request = LabelRequest { columns: vec!["y".into()], read: LabelRead::Numbers };
        let y: ArrayRef = Arc::new(Int32Array::from(vec![Some(3), None, Some(-1)]));
        let (labels, missing) = read(&request, &[&y], |_, _| Place::default()).unwrap();
        assert_eq!(
            (labels, missing),
            (Labels::Numbers(ndarray::array![[3.0], [0.0], [-1.0]]), vec![1])
        );
    }

    #[test]
    fn directions_have_length_one_and_zeros_have_none() {
        let request =
            LabelRequest { columns: vec!["a".into(), "b".into()], read: LabelRead::UnitNumbers };
        let of = |a: [Option<f64>; 3], b: [Option<f64>; 3]| {
            let arrays: [ArrayRef; 2] = [a, b].map(|c| Arc::new(Float64Array::from_iter(c)) as _);
            read(&request, &[&arrays[0], &arrays[1]], |name, row| {
                Place::file("f").column(name).row(row as u64)
            })
        };
        let huge = f64::MAX / 2.0;
        let (labels, missing) =
            of([Some(3.0), None, Some(0.0)], [Some(-4.0), Some(0.0), Some(huge)]).unwrap();
        let y = ndarray::array![[0.6, -0.8], [0.0, 0.0], [0.0, 1.0]];
        let Labels::Numbers(found) = labels else { panic!() };
        assert!((found - y).iter().all(|v| v.abs() < 1e-15));
        assert_eq!(missing, [1]);
        let refused = of([Some(1.0), Some(0.0), None], [None, Some(-0.0), None]).unwrap_err();
        let said = refused.to_string();
        assert!(said.starts_with("f: column 'a, b', row 1 (counted from 0): is 0"), "{said}");
    }
}
