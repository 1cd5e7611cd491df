//! One column of two types: which differences are only of width, and the type that both become.
//!
//! | here | there | together |
//! |---|---|---|
//! | Int32 | Int64 | Int64 |
//! | Float32 | Float64 | Float64 |
//! | integers without and with a sign | | Int64, or Float64 where that is too narrow |
//! | integers, decimals | floats, other decimals | Float64 |
//! | Utf8, a dictionary of it | LargeUtf8 | LargeUtf8, Utf8 where none is large |
//! | vectors of one length | of other numbers, or otherwise stored | vectors of the wider numbers |
//!
//! Anything else is a change of kind, and bools are a kind of their own. Enters: types, or an array
//! and the type it is to have. Leaves: a type, or the array. Held: the array made.

use super::labels::is_text;
use super::numbers::{as_f64, unpacked};
use super::table::numeric_type;
use crate::error::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, LargeStringArray, ListArray,
};
use arrow_array::{GenericListArray, OffsetSizeTrait, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use std::path::Path;
use std::sync::Arc;

/// The type of a column that has both, if they differ in width alone.
pub(crate) fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    if is_text(a) && is_text(b) {
        let large = is_large_text(a) || is_large_text(b);
        return Some(if large { DataType::LargeUtf8 } else { DataType::Utf8 });
    }
    match (numeric_type(a), numeric_type(b)) {
        (Some(a), Some(b)) => common_number(&a, &b),
        (None, None) => common_vector(a, b),
        _ => None,
    }
}

fn is_large_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_large_text(value),
        other => *other == DataType::LargeUtf8,
    }
}

/// The type that holds numbers of both, as near as there is one.
pub(super) fn common_number(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Boolean, Float16, Float32, Float64, Int16, Int32, Int64};
    let rank = |t: &DataType| t.primitive_width().unwrap_or(usize::MAX);
    let wider = if rank(a) >= rank(b) { a } else { b };
    Some(match (a, b) {
        _ if a == b => a.clone(),
        (Boolean, _) | (_, Boolean) => return None,
        _ if is_float(a) && is_float(b) => wider.clone(),
        // Whole numbers of so few bits are floats of that width.
        (Float32, Int16 | DataType::Int8 | DataType::UInt8 | DataType::UInt16) => Float32,
        (Int16 | DataType::Int8 | DataType::UInt8 | DataType::UInt16, Float32) => Float32,
        (Float16, DataType::Int8 | DataType::UInt8) => Float16,
        (DataType::Int8 | DataType::UInt8, Float16) => Float16,
        _ if a.is_signed_integer() && b.is_signed_integer() => wider.clone(),
        _ if a.is_unsigned_integer() && b.is_unsigned_integer() => wider.clone(),
        _ if a.is_integer() && b.is_integer() => {
            let unsigned = if a.is_unsigned_integer() { a } else { b };
            let signed = if a.is_unsigned_integer() { b } else { a };
            match (rank(unsigned), rank(signed)) {
                (8, _) => Float64,
                (u, s) if s > u => signed.clone(),
                (4, _) => Int64,
                (2, _) => Int32,
                _ => Int16,
            }
        }
        _ => Float64,
    })
}

fn is_float(data_type: &DataType) -> bool {
    data_type.is_floating()
}

fn common_vector(a: &DataType, b: &DataType) -> Option<DataType> {
    let (x, y) = (item(a)?, item(b)?);
    let value = common_type(x.data_type(), y.data_type())?;
    let nullable = x.is_nullable() || y.is_nullable();
    let item = Arc::new(Field::new(x.name(), value, nullable));
    match (a, b) {
        (DataType::FixedSizeList(_, n), DataType::FixedSizeList(_, m)) => {
            (n == m).then_some(DataType::FixedSizeList(item, *n))
        }
        (DataType::LargeList(_), _) | (_, DataType::LargeList(_)) => {
            Some(DataType::LargeList(item))
        }
        _ => Some(DataType::List(item)),
    }
}

/// The field of a list's items, if it is a list of numbers.
fn item(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            numeric_type(item.data_type()).map(|_| item)
        }
        _ => None,
    }
}

/// The same values in a type that [`common_type`] has given.
pub(crate) fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(array.clone());
    }
    let found = match to {
        _ if matches!(from, DataType::Dictionary(_, _)) => {
            return converted(&unpacked(array, Path::new(""), "")?, to);
        }
        DataType::Utf8 | DataType::LargeUtf8 => text(array, to),
        DataType::FixedSizeList(_, _) | DataType::List(_) | DataType::LargeList(_) => {
            vectors(array, to)?
        }
        _ => numbers(array, to)?,
    };
    found.ok_or_else(|| Error::Internal(format!("{from} does not become {to}")))
}

fn text(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    macro_rules! collected {
        ($values:expr) => {
            match to {
                DataType::LargeUtf8 => Arc::new($values.iter().collect::<LargeStringArray>()) as _,
                _ => Arc::new($values.iter().collect::<StringArray>()) as _,
            }
        };
    }
    Some(match array.data_type() {
        DataType::Utf8 => collected!(array.as_string::<i32>()),
        DataType::LargeUtf8 => collected!(array.as_string::<i64>()),
        DataType::Utf8View => collected!(array.as_string_view()),
        _ => return None,
    })
}

fn numbers(array: &ArrayRef, to: &DataType) -> Result<Option<ArrayRef>> {
    macro_rules! widened {
        ($to:ty: $($from:ident $type:ty),*) => {
            match array.data_type() {
                $(DataType::$from => {
                    let wide = array.as_primitive::<$type>().unary::<_, $to>(|v| v.into());
                    Some(Arc::new(wide) as ArrayRef)
                })*
                _ => None,
            }
        };
    }
    Ok(match to {
        DataType::Float64 => Some(Arc::new(as_f64(array, Path::new(""), "")?)),
        DataType::Float32 => widened!(Float32Type: Float16 Float16Type, Int8 Int8Type,
            Int16 Int16Type, UInt8 UInt8Type, UInt16 UInt16Type),
        DataType::Float16 => widened!(Float16Type: Int8 Int8Type, UInt8 UInt8Type),
        DataType::Int64 => widened!(Int64Type: Int8 Int8Type, Int16 Int16Type, Int32 Int32Type,
            UInt8 UInt8Type, UInt16 UInt16Type, UInt32 UInt32Type),
        DataType::Int32 => widened!(Int32Type: Int8 Int8Type, Int16 Int16Type, UInt8 UInt8Type,
            UInt16 UInt16Type),
        DataType::Int16 => widened!(Int16Type: Int8 Int8Type, UInt8 UInt8Type),
        DataType::UInt64 => widened!(UInt64Type: UInt8 UInt8Type, UInt16 UInt16Type,
            UInt32 UInt32Type),
        DataType::UInt32 => widened!(UInt32Type: UInt8 UInt8Type, UInt16 UInt16Type),
        DataType::UInt16 => widened!(UInt16Type: UInt8 UInt8Type),
        _ => None,
    })
}

fn vectors(array: &ArrayRef, to: &DataType) -> Result<Option<ArrayRef>> {
    let Some(item) = item(to) else { return Ok(None) };
    let values = |values: &ArrayRef| converted(values, item.data_type());
    let nulls = array.nulls().cloned();
    let made: std::result::Result<ArrayRef, _> = match (array.data_type(), to) {
        (DataType::FixedSizeList(_, _), DataType::FixedSizeList(_, n)) => {
            let values = values(array.as_fixed_size_list().values())?;
            FixedSizeListArray::try_new(item.clone(), *n, values, nulls).map(|a| Arc::new(a) as _)
        }
        (DataType::FixedSizeList(_, n), _) => {
            let values = values(array.as_fixed_size_list().values())?;
            list(item, values, std::iter::repeat_n(*n as usize, array.len()), nulls, to)
        }
        (DataType::List(_), _) => {
            let (lengths, values) = trimmed(array.as_list::<i32>());
            list(item, converted(&values, item.data_type())?, lengths, nulls, to)
        }
        (DataType::LargeList(_), _) => {
            let (lengths, values) = trimmed(array.as_list::<i64>());
            list(item, converted(&values, item.data_type())?, lengths, nulls, to)
        }
        _ => return Ok(None),
    };
    made.map(Some).map_err(|e| Error::Internal(format!("lists of wider numbers: {e}")))
}

/// The length of each list, and the values that they have.
fn trimmed<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> (Vec<usize>, ArrayRef) {
    let offsets = array.offsets();
    let (begin, end) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
    let lengths = offsets.windows(2).map(|o| o[1].as_usize() - o[0].as_usize()).collect();
    (lengths, array.values().slice(begin, end - begin))
}

fn list(
    item: &FieldRef,
    values: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
    nulls: Option<arrow_buffer::NullBuffer>,
    to: &DataType,
) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
    let item = item.clone();
    match to {
        DataType::LargeList(_) => {
            let offsets = OffsetBuffer::<i64>::from_lengths(lengths);
            LargeListArray::try_new(item, offsets, values, nulls).map(|a| Arc::new(a) as _)
        }
        _ => {
            let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
            ListArray::try_new(item, offsets, values, nulls).map(|a| Arc::new(a) as _)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, UInt32Array};
    use arrow_array::{DictionaryArray, Float32Array, Float64Array, Int16Array, Int64Array};

    fn lists(width: i32, value: DataType) -> DataType {
        DataType::FixedSizeList(Arc::new(Field::new("item", value, false)), width)
    }

    #[test]
    fn widths_differ_and_kinds_do_not() {
        use DataType::*;
        let decimal = Decimal128(10, 2);
        let dictionary = Dictionary(Box::new(Int32), Box::new(Utf8));
        let cases = [
            (Int32, Int64, Some(Int64)),
            (Float32, Float64, Some(Float64)),
            (Float16, Float32, Some(Float32)),
            (Int32, Float32, Some(Float64)),
            (Int16, Float32, Some(Float32)),
            (UInt32, Int32, Some(Int64)),
            (UInt8, Int64, Some(Int64)),
            (UInt64, Int64, Some(Float64)),
            (decimal, Int64, Some(Float64)),
            (Utf8, LargeUtf8, Some(LargeUtf8)),
            (dictionary, Utf8View, Some(Utf8)),
            (lists(3, Float32), lists(3, Float64), Some(lists(3, Float64))),
            (lists(3, Float32), lists(4, Float32), None),
            (Boolean, Int64, None),
            (Utf8, Int64, None),
            (Float64, lists(1, Float64), None),
        ];
        for (a, b, both) in cases {
            assert_eq!(common_type(&a, &b), both, "{a} and {b}");
            assert_eq!(common_type(&b, &a), both, "{b} and {a}");
        }
    }

    #[test]
    fn values_stay_what_they_are() {
        let check = |from: ArrayRef, to: ArrayRef| {
            assert_eq!(&converted(&from, to.data_type()).unwrap(), &to);
        };
        check(
            Arc::new(Int16Array::from(vec![Some(-3), None])),
            Arc::new(Int64Array::from(vec![Some(-3), None])),
        );
        check(Arc::new(UInt32Array::from(vec![7])), Arc::new(Int64Array::from(vec![7])));
        let decimal = Decimal128Array::from(vec![125]).with_precision_and_scale(5, 2).unwrap();
        check(Arc::new(decimal), Arc::new(Float64Array::from(vec![1.25])));
        let keyed: DictionaryArray<Int32Type> = [Some("a"), None, Some("a")].into_iter().collect();
        check(Arc::new(keyed), Arc::new(LargeStringArray::from(vec![Some("a"), None, Some("a")])));
    }

    #[test]
    fn vectors_widen_whatever_they_are_stored_in() {
        let three = |x: [f32; 6]| -> ArrayRef {
            let item = Arc::new(Field::new("item", DataType::Float32, false));
            let values = Arc::new(Float32Array::from(x.to_vec()));
            Arc::new(FixedSizeListArray::new(item, 3, values, None))
        };
        let fixed = three([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(0.0)]),
            Some(vec![Some(1.0), Some(2.0), Some(3.0)]),
            Some(vec![Some(4.0), Some(5.0), Some(6.0)]),
        ]);
        let rest: ArrayRef = Arc::new(list.slice(1, 2));
        let common = common_type(fixed.data_type(), rest.data_type()).unwrap();
        let (a, b) = (converted(&fixed, &common).unwrap(), converted(&rest, &common).unwrap());
        assert_eq!(&a, &b);
        let wide = converted(&fixed, &lists(3, DataType::Float64)).unwrap();
        assert_eq!(wide.data_type(), &lists(3, DataType::Float64));
    }
}
