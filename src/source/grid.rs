//! A dense block in the making: numbers put where they belong, whatever their type and order.

use super::block::MissingCell;
use super::dense;
use super::features::FeatureColumn;
use crate::error::{Error, Result};
use arrow_buffer::NullBuffer;
use num_traits::{AsPrimitive, Float};

/// A number as it is stored.
pub(super) trait Numeric: AsPrimitive<f64> + AsPrimitive<f32> {}
impl<S: AsPrimitive<f64> + AsPrimitive<f32>> Numeric for S {}

/// A number as it is in a block.
pub(super) trait Target: Float + Default + 'static {
    fn of<S: Numeric>(value: S) -> Self;

    /// An empty vector with room for so many.
    fn with_room(len: usize) -> Vec<Self>;

    /// The same vector, if it holds doubles.
    fn doubles(data: &mut Vec<Self>) -> Option<&mut Vec<f64>>;
}

impl Target for f64 {
    fn of<S: Numeric>(value: S) -> f64 {
        value.as_()
    }

    fn with_room(len: usize) -> Vec<f64> {
        dense::with_room(len)
    }

    fn doubles(data: &mut Vec<f64>) -> Option<&mut Vec<f64>> {
        Some(data)
    }
}

impl Target for f32 {
    fn of<S: Numeric>(value: S) -> f32 {
        value.as_()
    }

    fn with_room(len: usize) -> Vec<f32> {
        Vec::with_capacity(len)
    }

    fn doubles(_: &mut Vec<f32>) -> Option<&mut Vec<f64>> {
        None
    }
}

/// Where a column's numbers lie among its values.
pub(super) enum Cells {
    Scalar,
    Vector { starts: Vec<Option<usize>>, width: usize },
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Order {
    C,
    F,
}

/// A dense block in the making.
pub(super) struct Grid<T> {
    data: Vec<T>,
    rows: usize,
    d: usize,
    order: Order,
    missing: Vec<MissingCell>,
}

impl<T: Target> Grid<T> {
    pub(super) fn new(rows: usize, d: usize, order: Order) -> Grid<T> {
        Grid { data: T::with_room(rows * d), rows, d, order, missing: Vec::new() }
    }

    /// The numbers and the missing cells.
    pub(super) fn into_parts(self) -> (Vec<T>, Vec<MissingCell>) {
        (self.data, self.missing)
    }

    fn index(&self, row: usize, feature: usize) -> usize {
        match self.order {
            Order::C => row * self.d + feature,
            Order::F => feature * self.rows + row,
        }
    }

    /// Zeros for what is filled cell by cell: up to this feature in F order, everything in C order.
    fn make_room(&mut self, features: usize) {
        let features = if self.order == Order::C { self.d } else { features };
        self.data.resize(self.rows * features, T::zero());
    }

    fn miss(&mut self, row: usize, feature: usize) {
        let index = self.index(row, feature);
        self.data[index] = T::zero();
        self.missing.push(MissingCell { row: row as u32, feature: feature as u32 });
    }

    pub(super) fn put<S: Numeric>(
        &mut self,
        values: &[S],
        nulls: Option<&NullBuffer>,
        cells: &Cells,
        column: &FeatureColumn,
        first: usize,
    ) {
        let nulls = nulls.filter(|n| n.null_count() > 0);
        match cells {
            Cells::Scalar => self.put_scalar(values, nulls, first),
            Cells::Vector { starts, width } => {
                self.put_vector(values, nulls, starts, *width, column, first)
            }
        }
    }

    /// A whole column at the end of an F-order grid of doubles.
    pub(super) fn put_direct(
        &mut self,
        feature: usize,
        decode: impl FnOnce(&mut Vec<f64>, &mut dyn FnMut(usize)) -> Result<()>,
    ) -> Result<()> {
        let missing = &mut self.missing;
        let mut miss =
            |row: usize| missing.push(MissingCell { row: row as u32, feature: feature as u32 });
        match T::doubles(&mut self.data) {
            Some(data) if self.order == Order::F => decode(data, &mut miss),
            _ => Err(Error::Internal(
                "only blocks of doubles in F order are decoded directly".into(),
            )),
        }
    }

    fn put_scalar<S: Numeric>(&mut self, values: &[S], nulls: Option<&NullBuffer>, feature: usize) {
        match self.order {
            // Columns come in order, so the next one goes to the end: nothing is zeroed first.
            Order::F => self.data.extend(values.iter().map(|v| T::of(*v))),
            Order::C => {
                self.make_room(feature + 1);
                for (row, value) in values.iter().enumerate() {
                    self.data[row * self.d + feature] = T::of(*value);
                }
            }
        }
        if let Some(nulls) = nulls {
            for row in (0..self.rows).filter(|r| nulls.is_null(*r)) {
                self.miss(row, feature);
            }
        }
    }

    fn put_vector<S: Numeric>(
        &mut self,
        values: &[S],
        nulls: Option<&NullBuffer>,
        starts: &[Option<usize>],
        width: usize,
        column: &FeatureColumn,
        first: usize,
    ) {
        let alone = self.order == Order::C && column.elements.is_none() && width == self.d;
        if alone && nulls.is_none() && starts.iter().all(Option::is_some) {
            for start in starts.iter().flatten() {
                self.data.extend(values[*start..start + width].iter().map(|v| T::of(*v)));
            }
            return;
        }
        self.make_room(first + column.len());
        for (row, start) in starts.iter().enumerate() {
            let Some(start) = *start else {
                (0..column.len()).for_each(|i| self.miss(row, first + i));
                continue;
            };
            if self.order == Order::C && column.elements.is_none() {
                let target = &mut self.data[row * self.d + first..][..width];
                for (slot, value) in target.iter_mut().zip(&values[start..start + width]) {
                    *slot = T::of(*value);
                }
            } else {
                for i in 0..column.len() {
                    let element = column.elements.as_ref().map_or(i, |e| e[i]);
                    let index = self.index(row, first + i);
                    self.data[index] = T::of(values[start + element]);
                }
            }
            if let Some(nulls) = nulls {
                for i in 0..column.len() {
                    let element = column.elements.as_ref().map_or(i, |e| e[i]);
                    if nulls.is_null(start + element) {
                        self.miss(row, first + i);
                    }
                }
            }
        }
    }

    /// Turns NaN into missing cells; hands the first infinity to `refuse`.
    pub(super) fn find_nan(&mut self, refuse: impl Fn(usize, usize) -> Result<()>) -> Result<()> {
        if all_finite(&self.data) {
            return Ok(());
        }
        for row in 0..self.rows {
            for feature in 0..self.d {
                let value = self.data[self.index(row, feature)];
                if value.is_nan() {
                    self.miss(row, feature);
                } else if value.is_infinite() {
                    refuse(row, feature)?;
                }
            }
        }
        Ok(())
    }
}

/// One pass without branches: 0·x is 0 for finite x and NaN otherwise, in eight lanes.
fn all_finite<T: Float>(data: &[T]) -> bool {
    let mut lanes = [T::zero(); 8];
    let chunks = data.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = *lane + *x * T::zero();
        }
    }
    lanes.iter().chain(rest).all(|x| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_finite_sees_every_place() {
        for len in [0, 1, 7, 8, 9, 64, 65] {
            assert!(all_finite(&vec![1e308; len]));
            for at in 0..len {
                for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut data = vec![1.0; len];
                    data[at] = bad;
                    assert!(!all_finite(&data));
                }
            }
        }
    }
}
