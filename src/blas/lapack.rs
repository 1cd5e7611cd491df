//! LAPACK's decompositions, on matrices in C order.
//!
//! They hold the gate: by [`super::parallel`] where that is around them, else as [`serial`] work,
//! so that nobody changes the thread count under them.

use super::{mirror, serial, to_c_int};
use crate::error::{Error, Result};
use ndarray::{Array1, Array2};
use std::os::raw::{c_char, c_int};

/// LAPACK's triangle for our upper one: a row-major upper triangle is a column-major lower one.
const LOWER: c_char = b'L' as c_char;

/// And for our lower one.
const UPPER: c_char = b'U' as c_char;

/// Which routine decomposes a symmetric matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// `dsyevd`: the fastest, with a work area of 1 + 6n + 2n² numbers.
    DivideAndConquer,
    /// `dsyevr`: a work area of some n numbers, and the vectors beside the matrix.
    RelativelyRobust,
}

impl Driver {
    /// Divide and conquer, up to the order whose work area can still be told in 32 bits (32,766).
    fn for_order(n: u64) -> Driver {
        match divide_and_conquer_work(n) <= c_int::MAX as u64 {
            true => Driver::DivideAndConquer,
            false => Driver::RelativelyRobust,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Driver::DivideAndConquer => "dsyevd",
            Driver::RelativelyRobust => "dsyevr",
        }
    }
}

/// Numbers that dsyevd works in.
fn divide_and_conquer_work(n: u64) -> u64 {
    n.saturating_mul(n).saturating_mul(2).saturating_add(n.saturating_mul(6)).saturating_add(1)
}

/// Bytes that [`eigh`] holds for a d × d matrix: the matrix and LAPACK's work area; from 32,767 on
/// the matrix, the vectors, and a work area that is linear in d.
pub(crate) fn eigh_bytes(d: u64) -> u64 {
    let square = d.saturating_mul(d);
    let (squares, lines) = match Driver::for_order(d) {
        Driver::DivideAndConquer => (3, 7),
        // 70 of work (at LAPACK's block size of 64), and in half numbers 10 and 2.
        Driver::RelativelyRobust => (2, 77),
    };
    let held = square.saturating_mul(squares).saturating_add(d.saturating_mul(lines));
    held.saturating_mul(8)
}

/// A work area of what a query answered, or the least that the documentation asks for.
///
/// The query's own arithmetic is of 32 bits and may have wrapped, so it is never less than `least`.
pub(super) fn work_size(routine: &str, answered: f64, least: u64) -> Result<(usize, c_int)> {
    let answered = if answered.is_finite() && answered > 0.0 { answered as u64 } else { 0 };
    let size = answered.min(c_int::MAX as u64).max(least);
    let length = to_c_int(&format!("the work area of {routine}"), size)?;
    Ok((size as usize, length))
}

/// LAPACK's answer: 0, or what went wrong.
pub(super) fn checked(routine: &str, info: c_int) -> Result<()> {
    match info {
        0 => Ok(()),
        info => Err(Error::Internal(format!("LAPACK {routine} failed with info {info}"))),
    }
}

/// Eigenvalues, ascending, and eigenvectors as *rows*, of a symmetric matrix in C order (its upper
/// triangle is read).
///
/// # Errors
/// When LAPACK's iteration does not converge.
///
/// # Panics
/// When the matrix is not square or not in C order.
pub fn eigh(a: Array2<f64>) -> Result<(Array1<f64>, Array2<f64>)> {
    eigh_by(Driver::for_order(a.nrows() as u64), a)
}

fn eigh_by(driver: Driver, a: Array2<f64>) -> Result<(Array1<f64>, Array2<f64>)> {
    assert!(a.is_square() && a.is_standard_layout(), "eigh: matrix is not square in C order");
    if a.is_empty() {
        return Ok((Array1::zeros(0), a));
    }
    serial(|| match driver {
        Driver::DivideAndConquer => divide_and_conquer(a),
        Driver::RelativelyRobust => {
            let n = to_c_int("a matrix", a.nrows() as u64)?;
            relatively_robust(&mut { a }, LOWER, n)
        }
    })
}

/// The k largest eigenvalues, ascending, and their vectors as *rows*, of a symmetric matrix in C
/// order, both of whose triangles are filled.
///
/// LAPACK works in one triangle and the diagonal, which are put back from the other: nothing but
/// the vectors is held beside the matrix, and afterwards it is what it was.
///
/// # Errors
/// When LAPACK's iteration does not converge.
///
/// # Panics
/// When the matrix is not square or not in C order.
pub(crate) fn eigh_leading(a: &mut Array2<f64>, k: usize) -> Result<(Array1<f64>, Array2<f64>)> {
    assert!(a.is_square() && a.is_standard_layout(), "eigh: matrix is not square in C order");
    let k = to_c_int("vectors", k.min(a.nrows()) as u64)?;
    if k == 0 {
        return Ok((Array1::zeros(0), Array2::zeros((0, a.ncols()))));
    }
    let diagonal = a.diag().to_owned();
    let found = serial(|| relatively_robust(a, UPPER, k));
    a.diag_mut().assign(&diagonal);
    mirror(a);
    found
}

/// Bytes that [`eigh_leading`] holds beside a d × d matrix.
pub(crate) fn eigh_leading_bytes(d: u64, k: u64) -> u64 {
    d.saturating_mul(k.saturating_add(78)).saturating_mul(8)
}

fn divide_and_conquer(mut a: Array2<f64>) -> Result<(Array1<f64>, Array2<f64>)> {
    let (d, name) = (a.nrows(), Driver::DivideAndConquer.name());
    let (jobz, n) = (b'V' as c_char, to_c_int("a matrix", d as u64)?);
    let mut values = Array1::<f64>::zeros(d);
    let mut run = |work: &mut [f64], lwork: c_int, iwork: &mut [c_int], liwork: c_int| {
        let mut info: c_int = 0;
        // SAFETY: a is d × d, values holds d, work and iwork hold at least one and, when lwork and
        // liwork are not queries, as many as they say.
        unsafe {
            lapack_sys::dsyevd_(
                &jobz,
                &LOWER,
                &n,
                a.as_mut_ptr(),
                &n,
                values.as_mut_ptr(),
                work.as_mut_ptr(),
                &lwork,
                iwork.as_mut_ptr(),
                &liwork,
                &mut info,
            )
        };
        checked(name, info)
    };
    let (mut size, mut isize) = ([0.0], [0]);
    run(&mut size, -1, &mut isize, -1)?;
    let (work, lwork) = work_size(name, size[0], divide_and_conquer_work(d as u64))?;
    let (iwork, liwork) = work_size(name, f64::from(isize[0]), 3 + 5 * d as u64)?;
    run(&mut vec![0.0; work], lwork, &mut vec![0; iwork], liwork)?;
    Ok((values, a))
}

/// The k largest pairs, by what is in one triangle, which is used up.
fn relatively_robust(
    a: &mut Array2<f64>,
    triangle: c_char,
    k: c_int,
) -> Result<(Array1<f64>, Array2<f64>)> {
    let (d, name) = (a.nrows(), Driver::RelativelyRobust.name());
    let (jobz, range, n) = (b'V' as c_char, b'I' as c_char, to_c_int("a matrix", d as u64)?);
    let mut values = Array1::<f64>::zeros(d);
    let mut vectors = Array2::<f64>::zeros((k as usize, d));
    let mut support = vec![0; 2 * k as usize];
    let (first, mut found): (c_int, c_int) = (n - k + 1, 0);
    let mut run = |work: &mut [f64], lwork: c_int, iwork: &mut [c_int], liwork: c_int| {
        let mut info: c_int = 0;
        // SAFETY: a is d × d, vectors k × d, values holds d, support 2k, for the k values from
        // `first` to n (range 'I' reads no other bounds); work and iwork as in divide_and_conquer.
        unsafe {
            lapack_sys::dsyevr_(
                &jobz,
                &range,
                &triangle,
                &n,
                a.as_mut_ptr(),
                &n,
                &0.0,
                &0.0,
                &first,
                &n,
                &0.0,
                &mut found,
                values.as_mut_ptr(),
                vectors.as_mut_ptr(),
                &n,
                support.as_mut_ptr(),
                work.as_mut_ptr(),
                &lwork,
                iwork.as_mut_ptr(),
                &liwork,
                &mut info,
            )
        };
        checked(name, info)
    };
    let (mut size, mut isize) = ([0.0], [0]);
    run(&mut size, -1, &mut isize, -1)?;
    let (work, lwork) = work_size(name, size[0], 26 * d as u64)?;
    let (iwork, liwork) = work_size(name, f64::from(isize[0]), 10 * d as u64)?;
    run(&mut vec![0.0; work], lwork, &mut vec![0; iwork], liwork)?;
    all_found(name, found, k)?;
    Ok((values.slice_move(ndarray::s![..k as usize]), vectors))
}

/// As many eigenvalues as there are by their order.
fn all_found(name: &str, found: c_int, k: c_int) -> Result<()> {
    match found == k {
        true => Ok(()),
        false => Err(Error::Internal(format!("LAPACK {name} found {found} of {k} eigenvalues"))),
    }
}

/// X with A X = B for a symmetric A in C order (its upper triangle is read), by Cholesky's factors
/// (`dposv`); `None` when A is not positive definite.
///
/// # Panics
/// When the shapes do not fit.
pub(crate) fn solve_spd(mut a: Array2<f64>, b: Array2<f64>) -> Result<Option<Array2<f64>>> {
    let (n, m) = b.dim();
    assert!(a.dim() == (n, n) && a.is_standard_layout(), "solve_spd: shapes do not fit");
    if n == 0 || m == 0 {
        return Ok(Some(b));
    }
    let (order, columns) = (to_c_int("a matrix", n as u64)?, to_c_int("right sides", m as u64)?);
    // LAPACK's columns are our rows: B is solved for transposed.
    let mut x = b.reversed_axes().as_standard_layout().into_owned();
    let mut info: c_int = 0;
    // SAFETY: a is n × n, x holds m columns of n.
    serial(|| unsafe {
        lapack_sys::dposv_(
            &LOWER,
            &order,
            &columns,
            a.as_mut_ptr(),
            &order,
            x.as_mut_ptr(),
            &order,
            &mut info,
        )
    });
    if info > 0 {
        return Ok(None);
    }
    checked("dposv", info)?;
    Ok(Some(x.reversed_axes().as_standard_layout().into_owned()))
}

/// W = RᵀQ for the b rows of W, b ≤ d: leaves orthonormal rows Q in W's place and gives R (b × b,
/// upper).
///
/// LAPACK's Householder QR (`dgeqrf`, `dorgqr`) in place: a row-major b × d matrix is its d × b
/// one. Where W lacks rank, Q has some orthonormal rows all the same and R zeros.
///
/// # Panics
/// When W has more rows than columns, or is not in C order.
pub(crate) fn orthonormalise(w: &mut Array2<f64>) -> Result<Array2<f64>> {
    let (b, d) = w.dim();
    assert!(
        b <= d && w.is_standard_layout(),
        "orthonormalise: more rows than columns, or not in C order"
    );
    let mut r = Array2::zeros((b, b));
    if b > 0 {
        serial(|| factors(w, &mut r))?;
    }
    Ok(r)
}

/// Q in W's place, and R.
fn factors(w: &mut Array2<f64>, r: &mut Array2<f64>) -> Result<()> {
    let (b, d) = w.dim();
    let mut tau = vec![0.0; b];
    let mut size = [0.0];
    reflectors(w, &mut tau, &mut size, -1)?;
    let (work, lwork) = work_size("dgeqrf", size[0], b as u64)?;
    let mut work = vec![0.0; work];
    reflectors(w, &mut tau, &mut work, lwork)?;
    for i in 0..b {
        for j in i..b {
            r[[i, j]] = w[[j, i]];
        }
    }
    let (m, n) = (to_c_int("a row", d as u64)?, to_c_int("a block", b as u64)?);
    let mut info: c_int = 0;
    // SAFETY: w holds the reflectors that dgeqrf left, tau their factors, work lwork numbers.
    unsafe {
        lapack_sys::dorgqr_(
            &m,
            &n,
            &n,
            w.as_mut_ptr(),
            &m,
            tau.as_ptr(),
            work.as_mut_ptr(),
            &lwork,
            &mut info,
        );
    }
    checked("dorgqr", info)
}

/// Leaves R and the reflectors in W; with an `lwork` of −1 only asks for the size of the work area.
fn reflectors(w: &mut Array2<f64>, tau: &mut [f64], work: &mut [f64], lwork: c_int) -> Result<()> {
    let (b, d) = w.dim();
    let (m, n) = (to_c_int("a row", d as u64)?, to_c_int("a block", b as u64)?);
    let mut info: c_int = 0;
    // SAFETY: w is b × d row-major, that is d × b column-major with leading dimension d; tau holds
    // b; work holds lwork numbers, or one for the answer.
    unsafe {
        lapack_sys::dgeqrf_(
            &m,
            &n,
            w.as_mut_ptr(),
            &m,
            tau.as_mut_ptr(),
            work.as_mut_ptr(),
            &lwork,
            &mut info,
        );
    }
    checked("dgeqrf", info)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, d), |(i, j)| ((i * 7 + j * 13) % 11) as f64 - 5.0)
    }

    #[test]
    fn rows_become_orthonormal_and_r_leads_back() {
        let mut w = sample(4, 30);
        w.row_mut(3).assign(&sample(4, 30).row(0));
        let before = w.clone();
        let r = orthonormalise(&mut w).unwrap();
        assert!((w.dot(&w.t()) - Array2::<f64>::eye(4)).iter().all(|e| e.abs() < 1e-14));
        assert!((r.t().dot(&w) - &before).iter().all(|e| e.abs() < 1e-13));
        assert!(r[[3, 3]].abs() < 1e-13, "the last row adds no direction");
    }

    #[test]
    fn the_driver_goes_by_what_32_bits_hold() {
        assert_eq!(Driver::for_order(1_000), Driver::DivideAndConquer);
        assert_eq!(Driver::for_order(32_766), Driver::DivideAndConquer);
        assert_eq!(Driver::for_order(32_767), Driver::RelativelyRobust);
        assert_eq!(Driver::for_order(u64::MAX), Driver::RelativelyRobust);
        assert_eq!(eigh_bytes(1_000), 8 * (3_000_000 + 7_000));
        assert_eq!(eigh_bytes(40_000), 8 * (2 * 1_600_000_000 + 77 * 40_000));
        assert_eq!(eigh_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_wrapped_query_is_not_believed() {
        assert_eq!(work_size("x", 1.1e6, 2_000_000).unwrap(), (2_000_000, 2_000_000));
        assert_eq!(work_size("x", -3.0, 10).unwrap(), (10, 10));
        assert_eq!(work_size("x", f64::NAN, 10).unwrap(), (10, 10));
        assert_eq!(work_size("x", 64.0, 10).unwrap(), (64, 64));
        assert!(work_size("x", 1.0, 1 << 31).is_err());
    }

    /// Values from far apart to equal, and some that are 0.
    fn known(n: usize) -> (Array2<f64>, Array1<f64>) {
        let mut q = Array2::from_shape_fn((n, n), |(i, j)| ((i * 31 + j * 17 + i * j) % 23) as f64);
        q.diag_mut().mapv_inplace(|v| v + 40.0);
        orthonormalise(&mut q).unwrap();
        let values = Array1::from_shape_fn(n, |i| match i {
            0..3 => 0.0,
            3..6 => 2.0,
            _ => 1.3f64.powi(i as i32),
        });
        let a = q.t().dot(&Array2::from_diag(&values)).dot(&q);
        (((&a + &a.t()) / 2.0).as_standard_layout().into_owned(), values)
    }

    #[test]
    fn both_drivers_find_the_same_pairs() {
        for n in [1, 2, 7, 40] {
            let (a, truth) = known(n);
            let largest = truth[n - 1].max(1.0);
            let eps = f64::EPSILON * n as f64 * largest;
            for driver in [Driver::DivideAndConquer, Driver::RelativelyRobust] {
                let (values, v) = eigh_by(driver, a.clone()).unwrap();
                assert!((&values - &truth).iter().all(|e| e.abs() < 40.0 * eps), "{driver:?} {n}");
                let unit = v.dot(&v.t()) - Array2::<f64>::eye(n);
                let off = unit.iter().fold(0.0f64, |m, e| m.max(e.abs()));
                assert!(off < 1e-13, "{driver:?} {n}: off orthonormal by {off:e}");
                let rest = v.dot(&a) - Array2::from_diag(&values).dot(&v);
                assert!(rest.iter().all(|e| e.abs() < 40.0 * eps), "{driver:?} {n}: residual");
            }
            // Equal values have a space in common, not vectors.
            let space = |driver| {
                let (_, v) = eigh_by(driver, a.clone()).unwrap();
                let some = v.slice(ndarray::s![..n.min(3), ..]).to_owned();
                some.t().dot(&some)
            };
            let apart = space(Driver::DivideAndConquer) - space(Driver::RelativelyRobust);
            assert!(n < 3 || apart.iter().all(|e| e.abs() < 1e-9 * largest), "{n}: spans");
        }
    }

    #[test]
    fn the_largest_pairs_leave_the_matrix_as_it_was() {
        for (n, k) in [(1, 1), (7, 3), (40, 5), (40, 40), (40, 0)] {
            let (a, truth) = known(n);
            let mut kept = a.clone();
            let (values, v) = eigh_leading(&mut kept, k).unwrap();
            assert_eq!(kept, a, "{n}");
            assert_eq!((values.len(), v.dim()), (k, (k, n)));
            let eps = 40.0 * f64::EPSILON * n as f64 * truth[n - 1].max(1.0);
            let largest = truth.slice(ndarray::s![n - k..]);
            assert!((&values - &largest).iter().all(|e| e.abs() < eps), "{n}, {k}");
            let rest = v.dot(&a) - Array2::from_diag(&values).dot(&v);
            assert!(rest.iter().all(|e| e.abs() < eps), "{n}, {k}: residual");
            let unit = v.dot(&v.t()) - Array2::<f64>::eye(k);
            assert!(unit.iter().all(|e| e.abs() < 1e-13), "{n}, {k}: off orthonormal");
        }
    }

    #[test]
    fn only_positive_definite_matrices_are_solved_for() {
        let a = ndarray::array![[4.0, 1.0], [9.0, 3.0]];
        let x = solve_spd(a, ndarray::array![[9.0], [7.0]]).unwrap().unwrap();
        assert!(
            (x - ndarray::array![[20.0 / 11.0], [19.0 / 11.0]]).iter().all(|e| e.abs() < 1e-14)
        );
        let indefinite = ndarray::array![[1.0, 2.0], [2.0, 1.0]];
        assert_eq!(solve_spd(indefinite, Array2::ones((2, 1))).unwrap(), None);
    }
}
