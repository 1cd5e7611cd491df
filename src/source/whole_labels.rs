//! Which whole numbers a label has, as long as they are few: class numbers look like that.
//!
//! Enters: the labels of a block. Leaves: at most [`FEW`] numbers per label column, the same in
//! whatever order blocks are joined.

use super::labels::{ClassValue, Labels};
use serde::{Deserialize, Serialize};

/// The most distinct numbers that are remembered of a column.
pub(crate) const FEW: usize = 20;

/// Beyond, doubles are whole because they have no more digits.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// For each label column its distinct values, ascending; `None` once there are many, or some that
/// are not whole. Empty where no label was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WholeLabels(Vec<Option<Vec<i64>>>);

impl WholeLabels {
    /// Of the labels of some rows.
    pub(crate) fn of(labels: &Labels) -> WholeLabels {
        match labels {
            Labels::Numbers(y) => {
                let columns = y.columns().into_iter();
                WholeLabels(columns.map(|c| few(c.iter().map(|v| whole(*v)))).collect())
            }
            Labels::Classes { ids, classes } => {
                let mut used = vec![false; classes.len()];
                ids.iter().for_each(|id| used[*id as usize] = true);
                let used: Vec<_> = classes.iter().zip(&used).filter(|(_, used)| **used).collect();
                let columns = classes.first().map_or(0, Vec::len);
                let column = |j: usize| few(used.iter().map(|(class, _)| whole_class(&class[j])));
                WholeLabels((0..columns).map(column).collect())
            }
        }
    }

    /// True where nothing is known of any label.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of a column, if they are few and whole.
    pub(crate) fn column(&self, j: usize) -> Option<&[i64]> {
        self.0.get(j)?.as_deref()
    }

    /// Those of other rows, too.
    pub(crate) fn add(&mut self, other: WholeLabels) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine = match (mine.take(), more) {
                (Some(mine), Some(more)) => few(mine.into_iter().chain(more).map(Some)),
                _ => None,
            };
        }
    }

    /// Nothing is known of the columns any more.
    pub(crate) fn forget(&mut self) {
        self.0.iter_mut().for_each(|column| *column = None);
    }
}

fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i64)
}

fn whole_class(value: &ClassValue) -> Option<i64> {
    match value {
        ClassValue::Int(i) => Some(*i),
        ClassValue::Number(x) => whole(x.0),
        ClassValue::Bool(_) | ClassValue::Text(_) => None,
    }
}

/// The distinct ones, ascending, if they are few and all whole.
fn few(values: impl Iterator<Item = Option<i64>>) -> Option<Vec<i64>> {
    let mut distinct: Vec<i64> = Vec::new();
    for value in values {
        let value = value?;
        if let Err(at) = distinct.binary_search(&value) {
            distinct.insert(at, value);
        }
        if distinct.len() > FEW {
            return None;
        }
    }
    Some(distinct)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    fn numbers(values: &[f64]) -> WholeLabels {
        let y = Array2::from_shape_vec((values.len(), 1), values.to_vec()).unwrap();
        WholeLabels::of(&Labels::Numbers(y))
    }

    #[test]
    fn few_whole_numbers_are_remembered_and_many_are_not() {
        assert_eq!(numbers(&[2.0, 0.0, -0.0, 2.0, 1.0]).column(0), Some(&[0, 1, 2][..]));
        assert_eq!(numbers(&[0.0, 0.5]).column(0), None);
        assert_eq!(numbers(&[0.0, 1e300]).column(0), None);
        let many: Vec<f64> = (0..=FEW).map(|i| i as f64).collect();
        assert_eq!(numbers(&many).column(0), None);
        assert_eq!(numbers(&many[1..]).column(0).map(<[i64]>::len), Some(FEW));
    }

    #[test]
    fn any_order_of_blocks_gives_the_same() {
        let parts = [numbers(&[3.0, 1.0]), numbers(&[1.0, 7.0]), numbers(&[])];
        let joined = |order: [usize; 3]| {
            let mut all = parts[order[0]].clone();
            order[1..].iter().for_each(|i| all.add(parts[*i].clone()));
            all
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            assert_eq!(joined(order).column(0), Some(&[1, 3, 7][..]));
        }
    }

    #[test]
    fn classes_count_where_a_row_has_them() {
        let class = |i: i64| vec![ClassValue::Int(i), ClassValue::Text(format!("t{i}"))];
        let labels = Labels::Classes { ids: vec![2, 0, 2], classes: (0..3).map(class).collect() };
        let whole = WholeLabels::of(&labels);
        assert_eq!((whole.column(0), whole.column(1)), (Some(&[0, 2][..]), None));
    }
}
