//! Triangular factors, and the singular values of one: [R; Y] → R, R = UΣVᵀ.
//!
//! Matrices are in F order, as LAPACK has them. Householder's reflections are stable column by
//! column: a feature of size 1e-9 beside one of size 1 keeps its digits in R, and so do the
//! singular values that one-sided Jacobi finds in it (Drmač & Veselić 2008), where a
//! bidiagonal form would lose them against the largest.

use super::lapack::{checked, work_size};
use super::{serial, to_c_int};
use crate::error::{Error, Result};
use ndarray::{Array1, Array2, ArrayViewMut2, Axis, ShapeBuilder};
use std::os::raw::{c_char, c_int};

/// Columns that are reflected together.
const PANEL: usize = 16;

/// Numbers of the rows that are reflected at once: half a megabyte stays near the core.
const NEAR: usize = 1 << 16;

/// Rows of a chunk for d columns: some times d at least, so that the triangle on top costs little.
fn chunk_rows(d: usize) -> usize {
    (NEAR / d.max(1)).max(4 * d)
}

/// Bytes that [`absorb_rows`] works in beside its arguments.
pub(crate) fn absorb_bytes(d: u64) -> u64 {
    (2 * PANEL as u64).saturating_mul(8).saturating_mul(d)
}

/// R with RᵀR = R₀ᵀR₀ + YᵀY, in R₀'s place: upper, d × d. The rows of Y are used up.
///
/// `dgeqrt` reduces many rows to a triangle first; `dtpqrt` takes a triangle or few rows below R.
///
/// # Panics
/// When the shapes do not fit, or a matrix is not in F order.
pub(crate) fn absorb_rows(r: &mut Array2<f64>, y: &mut Array2<f64>) -> Result<()> {
    let d = check_triangle(r);
    assert!(y.ncols() == d && is_f_order(y), "absorb_rows: the rows do not fit");
    if d == 0 {
        return Ok(());
    }
    let mut work = Work::new(d);
    serial(|| {
        y.axis_chunks_iter_mut(Axis(0), chunk_rows(d)).try_for_each(|mut chunk| {
            let many = chunk.nrows() >= 2 * d;
            if !many {
                return below(r, chunk, Shape::Rows, &mut work);
            }
            reduce(&mut chunk, &mut work)?;
            let (top, _) = chunk.split_at(Axis(0), d);
            below(r, top, Shape::Triangle, &mut work)
        })
    })
}

/// The same of an upper triangle, which is used up.
pub(crate) fn absorb_triangle(r: &mut Array2<f64>, more: &mut Array2<f64>) -> Result<()> {
    let d = check_triangle(r);
    assert_eq!(check_triangle(more), d, "absorb_triangle: the triangles do not fit");
    if d == 0 {
        return Ok(());
    }
    serial(|| below(r, more.view_mut(), Shape::Triangle, &mut Work::new(d)))
}

/// R of all columns of A: upper, of as many rows as A has columns. A is used up.
pub(crate) fn triangle_of(mut a: Array2<f64>) -> Result<Array2<f64>> {
    let d = a.ncols();
    let mut r = Array2::zeros((d, d).f());
    absorb_rows(&mut r, &mut a)?;
    Ok(r)
}

fn is_f_order(a: &Array2<f64>) -> bool {
    a.t().is_standard_layout()
}

fn check_triangle(r: &Array2<f64>) -> usize {
    assert!(r.is_square() && is_f_order(r), "a triangle is square and in F order");
    r.nrows()
}

/// What stands below R.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Rows,
    Triangle,
}

/// Factors of the reflections, which nobody needs, and a work area.
struct Work {
    panel: usize,
    factors: Vec<f64>,
    area: Vec<f64>,
}

impl Work {
    fn new(d: usize) -> Work {
        let panel = PANEL.min(d);
        Work { panel, factors: vec![0.0; panel * d], area: vec![0.0; panel * d] }
    }
}

/// The leading dimension of some rows of a matrix in F order.
fn leading(y: &ArrayViewMut2<'_, f64>) -> Result<c_int> {
    let stride = if y.ncols() > 1 { y.strides()[1].unsigned_abs() } else { y.nrows() };
    to_c_int("a block", stride.max(y.nrows()).max(1) as u64)
}

/// Rows → their triangle, on top of what is left of them.
fn reduce(y: &mut ArrayViewMut2<'_, f64>, work: &mut Work) -> Result<()> {
    let (m, n) = (to_c_int("a block", y.nrows() as u64)?, to_c_int("a row", y.ncols() as u64)?);
    let (ld, nb) = (leading(y)?, work.panel as c_int);
    let mut info: c_int = 0;
    // SAFETY: y covers m × n in F order with leading dimension ld, m ≥ n; the factors and the area
    // hold nb · n numbers each, nb ≤ n.
    unsafe {
        lapack_sys::dgeqrt_(
            &m,
            &n,
            &nb,
            y.as_mut_ptr(),
            &ld,
            work.factors.as_mut_ptr(),
            &nb,
            work.area.as_mut_ptr(),
            &mut info,
        );
    }
    checked("dgeqrt", info)
}

/// [R; Y] → R.
fn below(
    r: &mut Array2<f64>,
    mut y: ArrayViewMut2<'_, f64>,
    shape: Shape,
    work: &mut Work,
) -> Result<()> {
    let (m, n) = (to_c_int("a block", y.nrows() as u64)?, to_c_int("a row", y.ncols() as u64)?);
    let l = if shape == Shape::Triangle { m.min(n) } else { 0 };
    let (ld, nb) = (leading(&y)?, work.panel as c_int);
    let mut info: c_int = 0;
    // SAFETY: r is n × n in F order, y covers m × n in F order with leading dimension ld, its last
    // l rows an upper trapezoid; the factors and the area hold nb · n numbers each, nb ≤ n.
    unsafe {
        lapack_sys::dtpqrt_(
            &m,
            &n,
            &l,
            &nb,
            r.as_mut_ptr(),
            &n,
            y.as_mut_ptr(),
            &ld,
            work.factors.as_mut_ptr(),
            &nb,
            work.area.as_mut_ptr(),
            &mut info,
        );
    }
    checked("dtpqrt", info)
}

/// Bytes that [`singular_values`] holds for an m × n matrix: the matrix, the vectors, and a work
/// area that is linear in both.
pub(crate) fn singular_bytes(m: u64, n: u64) -> u64 {
    let squares = n.saturating_mul(m).saturating_add(n.saturating_mul(n));
    squares.saturating_add(jacobi_work(m, n)).saturating_add(2 * (m + n)).saturating_mul(8)
}

/// Numbers that dgejsv works in, at LAPACK's block size of 64.
fn jacobi_work(m: u64, n: u64) -> u64 {
    let blocked = n.saturating_add(1).saturating_mul(64).saturating_add(n.saturating_mul(4));
    blocked.max(m.saturating_mul(2).saturating_add(n)).max(7)
}

/// Singular values, descending, and right singular vectors as *rows*, of a matrix in F order with
/// at least as many rows as columns. The matrix is used up.
///
/// By one-sided Jacobi after pivoting rows and columns (`dgejsv`): a small singular value has the
/// relative accuracy that the scaled matrix allows.
///
/// # Errors
/// When the iteration does not converge.
///
/// # Panics
/// When there are fewer rows than columns, or the matrix is not in F order.
pub(crate) fn singular_values(mut a: Array2<f64>) -> Result<(Array1<f64>, Array2<f64>)> {
    let (m, n) = a.dim();
    assert!(m >= n && is_f_order(&a), "singular_values: too few rows, or not in F order");
    if n == 0 {
        return Ok((Array1::zeros(0), Array2::zeros((0, 0))));
    }
    let (rows, order) = (to_c_int("a matrix", m as u64)?, to_c_int("a matrix", n as u64)?);
    let (work, lwork) = work_size("dgejsv", 0.0, jacobi_work(m as u64, n as u64))?;
    let (mut work, mut whole) = (vec![0.0; work], vec![0; m + 3 * n]);
    let (mut values, mut vectors) = (Array1::zeros(n), Array2::zeros((n, n)));
    let mut unused = [0.0];
    let job = |letter: u8| letter as c_char;
    let mut info: c_int = 0;
    // SAFETY: a is m × n in F order, m ≥ n; values holds n and vectors n²; U is not asked for; the
    // work areas are as large as the documentation of dgejsv asks for.
    serial(|| unsafe {
        lapack_sys::dgejsv_(
            &job(b'F'),
            &job(b'N'),
            &job(b'V'),
            &job(b'R'),
            &job(b'N'),
            &job(b'N'),
            &rows,
            &order,
            a.as_mut_ptr(),
            &rows,
            values.as_mut_ptr(),
            unused.as_mut_ptr(),
            &rows,
            vectors.as_mut_ptr(),
            &order,
            work.as_mut_ptr(),
            &lwork,
            whole.as_mut_ptr(),
            &mut info,
        )
    });
    if info > 0 {
        return Err(Error::Internal("LAPACK dgejsv did not converge".into()));
    }
    checked("dgejsv", info)?;
    // It scales where values come near the ends of the range.
    if work[0] != work[1] {
        values *= work[0] / work[1];
    }
    Ok((values, vectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, d: usize) -> Array2<f64> {
        let cell = |(i, j): (usize, usize)| ((i * 7 + j * 13 + i * j) % 11) as f64 - 5.0;
        Array2::from_shape_fn((n, d).f(), cell)
    }

    fn upper(r: &Array2<f64>) -> bool {
        r.indexed_iter().all(|((i, j), v)| i <= j || *v == 0.0)
    }

    #[test]
    fn rows_and_triangles_add_up_to_their_products() {
        for (n, d) in [(1, 1), (3, 5), (9, 5), (40, 5), (70, 33), (2_000, 40)] {
            let y = rows(n, d);
            let expected = y.t().dot(&y) * 2.0;
            let mut r = triangle_of(y.clone()).unwrap();
            absorb_rows(&mut r, &mut y.clone()).unwrap();
            assert!(upper(&r), "{n} × {d}");
            let scale = expected.diag().sum();
            let off = (r.t().dot(&r) - &expected).iter().fold(0.0f64, |m, e| m.max(e.abs()));
            assert!(off < 1e-14 * scale, "{n} × {d}: off by {off:e}");
        }
    }

    #[test]
    fn two_triangles_are_one() {
        let (a, b) = (rows(30, 6), rows(20, 6) * 3.0);
        let expected = a.t().dot(&a) + b.t().dot(&b);
        let (mut r, mut more) = (triangle_of(a).unwrap(), triangle_of(b).unwrap());
        absorb_triangle(&mut r, &mut more).unwrap();
        assert!(upper(&r));
        assert!((r.t().dot(&r) - expected).iter().all(|e| e.abs() < 1e-11));
    }

    /// Columns of sizes from 1 to 1e-12, rows of sizes from 1 to 1e6: the values of such a matrix
    /// are those of its parts, all to the last digits.
    #[test]
    fn small_singular_values_keep_their_digits() {
        let d = 4;
        let mut a: Array2<f64> = Array2::zeros((d + 1, d).f());
        for i in 0..d {
            a[[i, i]] = 1e-4f64.powi(i as i32);
        }
        let (values, v) = singular_values(a.clone()).unwrap();
        for i in 0..d {
            assert!((values[i] / 1e-4f64.powi(i as i32) - 1.0).abs() < 1e-15, "{values}");
        }
        assert!((v.dot(&v.t()) - Array2::<f64>::eye(d)).iter().all(|e| e.abs() < 1e-15));
        // A column of zeros, and a triangle of them, have no direction, and do no harm.
        let (values, _) = singular_values(Array2::zeros((3, 3).f())).unwrap();
        assert_eq!(values, Array1::<f64>::zeros(3));
        a.column_mut(1).fill(0.0);
        let (values, v) = singular_values(a).unwrap();
        assert!(values[3] == 0.0 && v.iter().all(|x| x.is_finite()), "{values}");
    }
}
