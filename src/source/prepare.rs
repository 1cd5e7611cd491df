//! What is done to a row before a model sees it: missing cells filled, features left out, shifted,
//! scaled, the row brought to unit length.
//!
//! Enters: a block. Leaves: its rows in C or F order, as the block had them. The fit and every
//! later pass do the same.

use super::{Block, dense};
use crate::error::{Error, Place, Result};
use ndarray::{Array1, Array2, Axis};

/// What is wrong with a row of length 0.
const NO_DIRECTION: &str = "has no direction: all its features are 0, and the cosine kernel \
                            divides by their length; leave it out, or choose another ⟦kernel⟧";

/// Steps, in this order; those that are `None` or false change nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepare {
    /// For missing cells.
    pub fill: Array1<f64>,
    /// The features that take part.
    pub active: Option<Vec<usize>>,
    /// Subtracted.
    pub shift: Option<Array1<f64>>,
    /// Multiplied with.
    pub factor: Option<Array1<f64>>,
    /// Divides each row by its length (cosine kernel).
    pub normalize: bool,
    /// Subtracted last.
    pub center: Option<Array1<f64>>,
}

impl Prepare {
    /// Rows ready for the model; `place` says where a row of the block is.
    pub(crate) fn apply(
        &self,
        mut block: Block,
        place: impl Fn(usize) -> Place,
    ) -> Result<Array2<f64>> {
        let missing = std::mem::take(&mut block.missing);
        let mut y = block.into_f64();
        for cell in &missing {
            y[[cell.row as usize, cell.feature as usize]] = self.fill[cell.feature as usize];
        }
        if let Some(active) = &self.active {
            y = y.select(Axis(1), active);
        }
        if self.shift.is_some() || self.factor.is_some() {
            dense::shift(&mut y, self.shift.as_ref(), self.factor.as_ref());
        }
        if self.normalize {
            let lengths = lengths(&y);
            if let Some(row) = lengths.iter().position(|l| !(*l > 0.0 && l.is_finite())) {
                return Err(Error::data(place(row), NO_DIRECTION));
            }
            dense::scale_rows(&mut y, &lengths.mapv(f64::recip));
        }
        if let Some(center) = &self.center {
            dense::shift(&mut y, Some(center), None);
        }
        Ok(y)
    }
}

/// ‖x‖ of each row, of rows whose squares may overflow too.
fn lengths(y: &Array2<f64>) -> Array1<f64> {
    let length = |row: ndarray::ArrayView1<'_, f64>| {
        let largest = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        if largest > 0.0 {
            largest * row.iter().map(|v| (v / largest) * (v / largest)).sum::<f64>().sqrt()
        } else {
            0.0
        }
    };
    y.rows().into_iter().map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn rows_are_filled_scaled_and_normalised_in_order() {
        let mut block = Block::dense(array![[3.0, 7.0, 0.0], [0.0, 7.0, 5.0]]);
        block.missing = vec![super::super::MissingCell { row: 1, feature: 0 }];
        let prepare = Prepare {
            fill: array![6.0, 7.0, 1.0],
            active: Some(vec![0, 2]),
            factor: Some(array![2.0, 1.0]),
            normalize: true,
            ..Prepare::default()
        };
        let y = prepare.apply(block, |_| Place::default()).unwrap();
        assert_eq!(y, array![[1.0, 0.0], [12.0 / 13.0, 5.0 / 13.0]]);
        let zero = prepare.apply(Block::dense(array![[1.0, 0.0, 0.0], [0.0, 9.0, 0.0]]), |row| {
            Place::file("f").row(row as u64)
        });
        let said = zero.unwrap_err().to_string();
        assert!(said.starts_with("f: row 1 (counted from 0): has no direction"), "{said}");
    }
}
