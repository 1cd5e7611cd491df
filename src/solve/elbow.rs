//! Cattell's elbow (seed, "where the eigenvalue drops significantly"): the knee that people see in
//! a scree plot, by its distance from a straight line.
//!
//! Enters: eigenvalues above rounding, descending. Leaves: how many come before the knee. With n of
//! them in the picture, the line goes from λ₁, at the first, to 0, after the last:
//!
//! ```text
//! dᵢ = λ₁ (1 − i/n) − λ_{i+1}        how far the value after the first i lies below the line
//! ```
//!
//! The knee is the first whose d comes within [`VISIBLE`] of the largest. Where no value lies below
//! the line (all equal, an even decline) there is no knee, and nothing to cut.
//!
//! A drop that is taken relative to its own value finds the last one in a tail of next to nothing,
//! from 0.8 to 1e-9; the line is not moved by it. What the whole tail adds up to must be more than
//! [`NEGLIGIBLE`] to be in the picture, or a thousand zeros would make a wall of all that is left
//! of them.

/// Of the total, and of λ₁: a tail of less is out of the picture.
const NEGLIGIBLE: f64 = 1e-4;

/// Of λ₁: distances that differ by less are the same to the eye.
const VISIBLE: f64 = 0.01;

/// Of the line's step from one value to the next: a knee lies at least so far below it.
const LEAST_KNEE: f64 = 0.25;

/// How many values come before the knee; all of them where there is none.
pub(super) fn elbow(values: &[f64]) -> usize {
    let n = in_the_picture(values);
    let Some(largest) = values.first().copied() else { return 0 };
    let step = largest / n as f64;
    let below = |i: usize| largest - step * i as f64 - values[i];
    let farthest = (1..n).map(below).fold(0.0, f64::max);
    if farthest < LEAST_KNEE * step {
        return n;
    }
    let near = |i: &usize| below(*i) >= farthest - VISIBLE * largest;
    (1..n).find(near).unwrap_or(n)
}

/// Values before the tail that no eye could tell from 0.
fn in_the_picture(values: &[f64]) -> usize {
    let total: f64 = values.iter().sum();
    let largest = values.first().copied().unwrap_or(0.0);
    let mut tail = 0.0;
    let negligible = |value: &&f64| {
        tail += **value;
        tail <= NEGLIGIBLE * total && **value <= NEGLIGIBLE * largest
    };
    values.len() - values.iter().rev().take_while(negligible).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn powers(ratio: f64, n: i32) -> Vec<f64> {
        (0..n).map(|i| ratio.powi(i)).collect()
    }

    fn with_tail(head: &[f64], tail: f64, n: usize) -> Vec<f64> {
        head.iter().copied().chain(std::iter::repeat_n(tail, n)).collect()
    }

    /// Shapes of a scree plot, and where a person cuts them.
    #[test]
    fn the_elbow_is_where_people_see_it() {
        let even: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let floor: Vec<f64> = (0..98).map(|i| 1.5 - f64::from(i) / 98.0).collect();
        let spikes: Vec<f64> = [3.0, 2.5].into_iter().chain(floor.iter().copied()).collect();
        let head = [100.0, 50.0, 1.0, 0.9, 0.8];
        let smooth = [5.14, 4.23, 2.7, 1.92, 1.37, 0.77, 0.61, 0.45, 0.39, 0.19, 0.1, 0.05, 9.3e-8];
        let shapes: [(&str, Vec<f64>, usize); 22] = [
            ("two, then a tail, then next to nothing", with_tail(&head, 1e-9, 1), 2),
            ("the same with a thousand times next to nothing", with_tail(&head, 1e-9, 1000), 2),
            ("the same with a thousand small ones", with_tail(&head, 1e-4, 1000), 2),
            ("steep, then flat", vec![100.0, 90.0, 9.0, 8.0, 7.0], 2),
            ("Cattell's scree", vec![4.2, 2.1, 1.3, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.15], 3),
            ("one dominates", vec![100.0, 1.0, 0.9, 0.8, 0.7], 1),
            ("one is nearly all", with_tail(&[100.0], 1e-9, 5), 1),
            ("two plateaus", with_tail(&[10.0; 3], 1.0, 4), 3),
            ("three levels, the first far above", with_tail(&[100., 10., 10., 10.], 1.0, 6), 1),
            ("the last falls off", vec![10.0, 9.9, 9.5, 8.0, 1.2], 4),
            ("the last is next to nothing", vec![10.0, 9.9, 9.5, 8.0, 1e-9], 4),
            ("two above a floor of noise", spikes, 2),
            ("a floor of noise", floor, 98),
            ("halves", powers(0.5, 10), 3),
            ("halves down to rounding", powers(0.5, 50), 3),
            ("thirds, above a floor", with_tail(&[100., 36., 13., 4.7, 1.7, 0.6], 0.01, 18), 3),
            ("30 random rows under an rbf kernel", smooth.to_vec(), 5),
            ("an even decline", even, 10),
            ("all equal", vec![5.0; 1000], 1000),
            ("two, one small", vec![5.0, 1.0], 1),
            ("one", vec![5.0], 1),
            ("none", vec![], 0),
        ];
        for (shape, values, expected) in shapes {
            assert_eq!(elbow(&values), expected, "{shape}");
        }
    }

    #[test]
    fn the_elbow_does_not_depend_on_the_unit() {
        let values = [100.0, 50.0, 1.0, 0.9, 0.8, 1e-9];
        for unit in [1e-280, 1e-9, 1e9, 1e300] {
            assert_eq!(elbow(&values.map(|v| v * unit)), 2, "{unit}");
        }
    }
}
