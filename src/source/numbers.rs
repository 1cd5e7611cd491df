//! Arrow arrays of any numeric type as numbers.

use crate::error::{Error, Place, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray};
use arrow_schema::DataType;
use std::path::Path;

/// Integers beyond this are not all f64 numbers.
const EXACT: u64 = 1 << 53;

/// Anything numeric as f64: the slow road for bools, decimals and dictionaries.
pub(super) fn as_f64(array: &ArrayRef, path: &Path, column: &str) -> Result<Float64Array> {
    macro_rules! widened {
        ($t:ty) => {
            array.as_primitive::<$t>().unary(|v| v as f64)
        };
    }
    // A decimal's digits divided by a power of ten is the nearest f64 while both are exact.
    macro_rules! scaled {
        ($t:ty, $scale:expr) => {{
            let unit = 10f64.powi(i32::from(*$scale));
            array.as_primitive::<$t>().unary(|v| v as f64 / unit)
        }};
    }
    Ok(match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().clone(),
        DataType::Float32 => widened!(Float32Type),
        DataType::Float16 => array.as_primitive::<Float16Type>().unary(f64::from),
        DataType::Int8 => widened!(Int8Type),
        DataType::Int16 => widened!(Int16Type),
        DataType::Int32 => widened!(Int32Type),
        DataType::Int64 => widened!(Int64Type),
        DataType::UInt8 => widened!(UInt8Type),
        DataType::UInt16 => widened!(UInt16Type),
        DataType::UInt32 => widened!(UInt32Type),
        DataType::UInt64 => widened!(UInt64Type),
        DataType::Boolean => {
            array.as_boolean().iter().map(|b| b.map(|b| f64::from(u8::from(b)))).collect()
        }
        DataType::Decimal32(_, scale) => scaled!(Decimal32Type, scale),
        DataType::Decimal64(_, scale) => scaled!(Decimal64Type, scale),
        DataType::Decimal128(_, scale) => scaled!(Decimal128Type, scale),
        DataType::Decimal256(_, scale) => {
            let unit = 10f64.powi(i32::from(*scale));
            let digits = array.as_primitive::<Decimal256Type>();
            digits.unary(|v| num_traits::ToPrimitive::to_f64(&v).unwrap_or(f64::NAN) / unit)
        }
        DataType::Dictionary(_, _) => as_f64(&unpacked(array, path, column)?, path, column)?,
        other => {
            let place = Place::file(path).column(column);
            return Err(Error::data(place, format!("is {other}, which cannot be read as numbers")));
        }
    })
}

/// The values behind a dictionary's keys.
pub(super) fn unpacked(array: &ArrayRef, path: &Path, column: &str) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None);
    let place = || Place::file(path).column(column);
    values.map_err(|e| Error::data(place(), format!("has a dictionary that cannot be read: {e}")))
}

/// How many numbers f64 cannot hold exactly because they have more than 53 bits.
pub(super) fn count_rounded(array: &ArrayRef) -> u64 {
    macro_rules! count {
        ($t:ty, $beyond:expr) => {
            count_if(array.as_primitive::<$t>(), $beyond)
        };
    }
    let limit = arrow_buffer::i256::from_i128(i128::from(EXACT));
    let count = match array.data_type() {
        DataType::Int64 => count!(Int64Type, |v| v.unsigned_abs() > EXACT),
        DataType::UInt64 => count!(UInt64Type, |v| *v > EXACT),
        DataType::Decimal64(_, _) => count!(Decimal64Type, |v| v.unsigned_abs() > EXACT),
        DataType::Decimal128(_, _) => {
            count!(Decimal128Type, |v| v.unsigned_abs() > u128::from(EXACT))
        }
        DataType::Decimal256(_, _) => count!(Decimal256Type, |v| *v > limit || -*v > limit),
        // Of rows, not of the values they choose from.
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            if count_rounded(dictionary.values()) == 0 {
                return 0;
            }
            let rows = arrow_select::take::take(dictionary.values(), dictionary.keys(), None);
            return rows.map_or(0, |rows| count_rounded(&rows));
        }
        _ => 0,
    };
    count as u64
}

/// How many values a test holds for; slots of null rows may hold anything.
fn count_if<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    test: impl Fn(&T::Native) -> bool,
) -> usize {
    let slots = array.values().iter().filter(|v| test(v)).count();
    match slots > 0 && array.null_count() > 0 {
        true => array.iter().flatten().filter(|v| test(v)).count(),
        false => slots,
    }
}

/// The length of the first list of an array that is not null.
pub(super) fn first_width(array: &ArrayRef) -> Option<usize> {
    let row = (0..array.len()).find(|row| array.is_valid(*row))?;
    match array.data_type() {
        DataType::FixedSizeList(_, width) => Some(*width as usize),
        DataType::List(_) => Some(array.as_list::<i32>().value_length(row) as usize),
        DataType::LargeList(_) => Some(array.as_list::<i64>().value_length(row) as usize),
        _ => None,
    }
}

/// The error for a vector column without a row that tells its width.
pub(super) fn all_null(place: Place, column: &str) -> Error {
    Error::data(place.column(column), "is null in every row; leave it out with ⟦exclude⟧")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Int64Array};
    use std::sync::Arc;

    #[test]
    fn decimals_are_the_nearest_f64() {
        let array: ArrayRef = Arc::new(
            Decimal128Array::from(vec![1234, -5, 0]).with_precision_and_scale(10, 2).unwrap(),
        );
        let numbers = as_f64(&array, Path::new("f"), "c").unwrap();
        assert_eq!(numbers.values(), &[12.34, -0.05, 0.0]);
    }

    #[test]
    fn large_integers_are_counted() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1 << 53, (1 << 53) + 1, i64::MIN, 7]));
        assert_eq!(count_rounded(&array), 2);
    }
}
