//! The BLAS and LAPACK routines that ndarray does not reach, and OpenBLAS's thread count.
//!
//! Matrices enter as ndarray views in either memory order; a symmetric result is kept in its upper
//! triangle (row ≤ column, C order) until [`mirror`] fills the rest. All `unsafe` of the crate that
//! touches numbers is here, behind shape checks.

use cblas_sys::{CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_UPLO, cblas_dsyrk, cblas_ssyrk};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, s};
// Links the system's OpenBLAS.
use ndarray_linalg as _;
use std::os::raw::{c_char, c_int};
use std::sync::{Once, RwLock};

unsafe extern "C" {
    fn openblas_set_num_threads(n: c_int);
}

/// Held shared while workers multiply, alone while a decomposition uses all cores.
///
/// OpenBLAS has one thread count for the whole process and does not guard it against products that
/// run while it changes. So it is changed only by whoever holds this alone. It also stops its threads
/// when the process forks (not when it spawns): a program that forks during a decomposition makes
/// that decomposition wait for ever.
static GATE: RwLock<()> = RwLock::new(());

fn set_threads(n: usize) {
    // SAFETY: takes any positive number; the caller holds the gate alone.
    unsafe { openblas_set_num_threads(n.clamp(1, 1024) as c_int) }
}

/// Runs work whose BLAS calls each use one thread: our own workers share the cores.
pub fn serial<T>(work: impl FnOnce() -> T) -> T {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let _alone = GATE.write().unwrap_or_else(|e| e.into_inner());
        set_threads(1);
    });
    let _shared = GATE.read().unwrap_or_else(|e| e.into_inner());
    work()
}

/// Runs work whose BLAS calls may use this many threads, when no serial work is under way.
pub fn parallel<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let _alone = GATE.write().unwrap_or_else(|e| e.into_inner());
    set_threads(threads);
    let result = work();
    set_threads(1);
    result
}

/// An element type with a symmetric rank-k update.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// C ← AAᵀ or AᵀA + beta·C in C order, upper triangle.
    ///
    /// # Safety
    /// `a` and `c` must cover the shapes that n, k and the leading dimensions give.
    #[allow(clippy::too_many_arguments)]
    unsafe fn syrk(
        trans: CBLAS_TRANSPOSE,
        n: c_int,
        k: c_int,
        a: *const Self,
        lda: c_int,
        beta: Self,
        c: *mut Self,
        ldc: c_int,
    );
}

impl Element for f64 {
    unsafe fn syrk(
        trans: CBLAS_TRANSPOSE,
        n: c_int,
        k: c_int,
        a: *const f64,
        lda: c_int,
        beta: f64,
        c: *mut f64,
        ldc: c_int,
    ) {
        unsafe {
            cblas_dsyrk(
                CBLAS_LAYOUT::CblasRowMajor,
                CBLAS_UPLO::CblasUpper,
                trans,
                n,
                k,
                1.0,
                a,
                lda,
                beta,
                c,
                ldc,
            )
        }
    }
}

impl Element for f32 {
    unsafe fn syrk(
        trans: CBLAS_TRANSPOSE,
        n: c_int,
        k: c_int,
        a: *const f32,
        lda: c_int,
        beta: f32,
        c: *mut f32,
        ldc: c_int,
    ) {
        unsafe {
            cblas_ssyrk(
                CBLAS_LAYOUT::CblasRowMajor,
                CBLAS_UPLO::CblasUpper,
                trans,
                n,
                k,
                1.0,
                a,
                lda,
                beta,
                c,
                ldc,
            )
        }
    }
}

/// C ← YᵀY + beta·C, upper triangle of C only. Y is rows × d in C or F order, C is d × d in C order.
pub fn syrk<T: Element>(y: ArrayView2<'_, T>, beta: T, mut c: ArrayViewMut2<'_, T>) {
    let (rows, d) = y.dim();
    if rows == 0 || d == 0 {
        return;
    }
    assert_eq!(c.dim(), (d, d), "syrk: result is not d × d");
    let ldc = c.strides()[0] as c_int;
    assert!(c.strides()[1] == 1 && ldc >= d as c_int, "syrk: result is not in C order");
    // Row-major Y (rows × d): C = YᵀY is "Trans". Column-major Y is a row-major d × rows matrix Z: C = ZZᵀ.
    // The stride along a side of one entry means nothing.
    let across = if rows == 1 { d as isize } else { y.strides()[0] };
    let down = if d == 1 { rows as isize } else { y.strides()[1] };
    let (trans, lda) = match (across, down) {
        (lda, _) if (d == 1 || down == 1) && lda >= d as isize => {
            (CBLAS_TRANSPOSE::CblasTrans, lda)
        }
        (_, lda) if (rows == 1 || across == 1) && lda >= rows as isize => {
            (CBLAS_TRANSPOSE::CblasNoTrans, lda)
        }
        _ => panic!("syrk: block is neither in C nor in F order"),
    };
    // SAFETY: y covers rows × d with leading dimension lda, c covers d × d with ldc; both checked above.
    unsafe {
        T::syrk(
            trans,
            d as c_int,
            rows as c_int,
            y.as_ptr(),
            lda as c_int,
            beta,
            c.as_mut_ptr(),
            ldc,
        )
    }
}

/// Side of the tiles that d × d results are cut into: large, since what a product copies before it multiplies
/// goes with 1/side, but enough of them to share out.
fn tile_side(d: usize) -> usize {
    (d / 6).clamp(256, 1024)
}

/// An element type whose products can be added up, tile by tile, in a matrix of doubles.
pub trait TileElement: Element {
    /// C ← C + AᵀB, where C is a tile; only its upper triangle needs to be right if A is B.
    fn add_product(
        a: ArrayView2<'_, Self>,
        b: ArrayView2<'_, Self>,
        diagonal: bool,
        c: ArrayViewMut2<'_, f64>,
    );
}

impl TileElement for f64 {
    fn add_product(
        a: ArrayView2<'_, f64>,
        b: ArrayView2<'_, f64>,
        diagonal: bool,
        mut c: ArrayViewMut2<'_, f64>,
    ) {
        match diagonal {
            true => syrk(a, 1.0, c),
            false => general_mat_mul(1.0, &a.t(), &b, 1.0, &mut c),
        }
    }
}

impl TileElement for f32 {
    fn add_product(
        a: ArrayView2<'_, f32>,
        b: ArrayView2<'_, f32>,
        _diagonal: bool,
        mut c: ArrayViewMut2<'_, f64>,
    ) {
        let product = a.t().dot(&b);
        c.zip_mut_with(&product, |c, p| *c += f64::from(*p));
    }
}

/// C ← C + Σ BᵀB over some blocks of d columns, upper triangle, on this many threads.
///
/// One C for all threads: each job owns a tile of it. The cut depends on d alone, and every tile is
/// made by one thread in the order of the blocks, so the bytes do not depend on the threads. Entries
/// below the diagonal may be written too; [`mirror`] sets them right.
pub fn syrk_tiles<T: TileElement>(
    blocks: &[ArrayView2<'_, T>],
    c: &mut Array2<f64>,
    threads: usize,
) {
    let side = tile_side(c.ncols());
    let range = |i: usize, d: usize| i * side..((i + 1) * side).min(d);
    let mut tiles = Vec::new();
    for (i, rows) in c.axis_chunks_iter_mut(Axis(0), side).enumerate() {
        let mut rest = rows.split_at(Axis(1), i * side).1;
        for j in i.. {
            let width = side.min(rest.ncols());
            let (tile, more) = rest.split_at(Axis(1), width);
            tiles.push((i, j, tile));
            if more.is_empty() {
                break;
            }
            rest = more;
        }
    }
    for_each(threads, tiles, |(i, j, mut tile)| {
        for block in blocks {
            let d = block.ncols();
            let (a, b) = (block.slice(s![.., range(i, d)]), block.slice(s![.., range(j, d)]));
            T::add_product(a, b, i == j, tile.view_mut());
        }
    });
}

/// Does every job, on this many threads, each taking the next one that is left.
pub fn for_each<J: Send>(threads: usize, jobs: Vec<J>, work: impl Fn(J) + Sync) {
    let jobs = std::sync::Mutex::new(jobs.into_iter());
    let next = || jobs.lock().unwrap_or_else(|e| e.into_inner()).next();
    std::thread::scope(|scope| {
        let run = || {
            while let Some(job) = next() {
                work(job);
            }
        };
        (1..threads).for_each(|_| {
            scope.spawn(run);
        });
        run();
    });
}

/// Copies the upper triangle onto the lower.
pub fn mirror(c: &mut Array2<f64>) {
    let d = c.nrows();
    const SIDE: usize = 64;
    for i0 in (0..d).step_by(SIDE) {
        for j0 in (i0..d).step_by(SIDE) {
            for i in i0..(i0 + SIDE).min(d) {
                for j in j0.max(i + 1)..(j0 + SIDE).min(d) {
                    c[[j, i]] = c[[i, j]];
                }
            }
        }
    }
}

/// Bytes that [`eigh`] holds for a d × d matrix: the matrix, which becomes the vectors, and LAPACK's work area.
pub fn eigh_bytes(d: u64) -> u64 {
    8u64.saturating_mul(3 * d.saturating_mul(d) + 7 * d)
}

/// Eigenvalues, ascending, and eigenvectors as *rows*, of a symmetric matrix (its upper triangle is read).
///
/// LAPACK's divide and conquer (`dsyevd`). Err carries LAPACK's `info`, which is positive when the
/// iteration did not converge.
pub fn eigh(mut a: Array2<f64>) -> Result<(Array1<f64>, Array2<f64>), c_int> {
    let d = a.nrows();
    assert!(a.is_square() && a.is_standard_layout(), "eigh: matrix is not square in C order");
    let mut values = Array1::<f64>::zeros(d);
    if d == 0 {
        return Ok((values, a));
    }
    // The row-major upper triangle is LAPACK's column-major lower one.
    let (jobz, uplo, n) = (b'V' as c_char, b'L' as c_char, d as c_int);
    let mut run = |work: &mut [f64], lwork: c_int, iwork: &mut [c_int], liwork: c_int| {
        let mut info: c_int = 0;
        // SAFETY: a is d × d, values holds d, work and iwork hold at least one and, when lwork and
        // liwork are not queries, as many as they say.
        unsafe {
            lapack_sys::dsyevd_(
                &jobz,
                &uplo,
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
        info
    };
    let (mut size, mut isize) = ([0.0], [0]);
    match run(&mut size, -1, &mut isize, -1) {
        0 => {}
        info => return Err(info),
    }
    let (lwork, liwork) = (size[0] as usize, isize[0] as usize);
    match run(&mut vec![0.0; lwork], lwork as c_int, &mut vec![0; liwork], liwork as c_int) {
        0 => Ok((values, a)),
        info => Err(info),
    }
}

/// X with A X = B for a symmetric positive definite A (its upper triangle is read) by Cholesky's factors (`dposv`).
///
/// Err carries LAPACK's `info`, which is positive when A is not positive definite.
pub fn solve_spd(mut a: Array2<f64>, b: Array2<f64>) -> Result<Array2<f64>, c_int> {
    let (n, m) = b.dim();
    assert!(a.dim() == (n, n) && a.is_standard_layout(), "solve_spd: shapes do not fit");
    if n == 0 || m == 0 {
        return Ok(b);
    }
    // LAPACK's columns are our rows: B is solved for transposed, and the row-major upper triangle is its lower one.
    let mut x = b.reversed_axes().as_standard_layout().into_owned();
    let (uplo, order, columns) = (b'L' as c_char, n as c_int, m as c_int);
    let mut info: c_int = 0;
    // SAFETY: a is n × n, x holds m columns of n.
    unsafe {
        lapack_sys::dposv_(
            &uplo,
            &order,
            &columns,
            a.as_mut_ptr(),
            &order,
            x.as_mut_ptr(),
            &order,
            &mut info,
        )
    };
    if info == 0 { Ok(x.reversed_axes().as_standard_layout().into_owned()) } else { Err(info) }
}

/// W = RᵀQ for the b rows of W, b ≤ d: leaves orthonormal rows Q in W's place and gives R (b × b, upper).
///
/// LAPACK's Householder QR (`dgeqrf`, `dorgqr`) in place: a row-major b × d matrix is its d × b one.
/// Where W lacks rank, Q has some orthonormal rows all the same and R zeros.
pub fn orthonormalise(w: &mut Array2<f64>) -> Result<Array2<f64>, c_int> {
    let (b, d) = w.dim();
    assert!(
        b <= d && w.is_standard_layout(),
        "orthonormalise: more rows than columns, or not in C order"
    );
    let mut r = Array2::zeros((b, b));
    if b == 0 {
        return Ok(r);
    }
    let (m, n) = (d as c_int, b as c_int);
    let mut tau = vec![0.0; b];
    let mut size = [0.0];
    let mut info: c_int = 0;
    // SAFETY: w is b × d row-major, that is d × b column-major with leading dimension d; tau holds b;
    // the first call only asks for the size of the work area.
    unsafe {
        lapack_sys::dgeqrf_(
            &m,
            &n,
            w.as_mut_ptr(),
            &m,
            tau.as_mut_ptr(),
            size.as_mut_ptr(),
            &-1,
            &mut info,
        );
    }
    let mut work = vec![0.0; (size[0] as usize).max(b)];
    let lwork = work.len() as c_int;
    // SAFETY: as above, with a work area of lwork numbers.
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
    if info != 0 {
        return Err(info);
    }
    for i in 0..b {
        for j in i..b {
            r[[i, j]] = w[[j, i]];
        }
    }
    // SAFETY: w holds the reflectors that dgeqrf left, tau their factors.
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
    if info == 0 { Ok(r) } else { Err(info) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::ShapeBuilder;

    #[test]
    fn tiles_give_what_one_product_gives_on_any_number_of_threads() {
        for d in [3, 256, 700] {
            let blocks = [sample(40, d), sample(7, d)];
            let mut f = Array2::zeros((40, d).f());
            f.assign(&blocks[0]);
            let mut expected = blocks[0].t().dot(&blocks[0]) + blocks[1].t().dot(&blocks[1]);
            mirror(&mut expected);
            for threads in [1, 3] {
                for first in [blocks[0].view(), f.view()] {
                    let mut c = Array2::zeros((d, d));
                    syrk_tiles(&[first, blocks[1].view()], &mut c, threads);
                    mirror(&mut c);
                    assert_eq!(c, expected, "exact: all numbers are small integers");
                }
                let single: Vec<_> = blocks.iter().map(|b| b.mapv(|v| v as f32)).collect();
                let mut c = Array2::zeros((d, d));
                syrk_tiles(&[single[0].view(), single[1].view()], &mut c, threads);
                mirror(&mut c);
                assert_eq!(c, expected);
            }
        }
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

    fn sample(rows: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, d), |(i, j)| ((i * 7 + j * 13) % 11) as f64 - 5.0)
    }

    #[test]
    fn syrk_takes_both_orders() {
        for (rows, d) in [(5, 3), (1, 4), (4, 1), (1, 1), (3, 70)] {
            let y = sample(rows, d);
            let mut f = Array2::zeros((rows, d).f());
            f.assign(&y);
            let expected = y.t().dot(&y);
            for block in [y.view(), f.view()] {
                let mut c = Array2::zeros((d, d));
                syrk(block, 0.0, c.view_mut());
                mirror(&mut c);
                assert_eq!(c, expected);
            }
        }
    }

    #[test]
    fn eigh_gives_rows_that_diagonalise() {
        let y = sample(20, 6);
        let a = y.t().dot(&y);
        let (values, vectors) = eigh(a.clone()).unwrap();
        let back = vectors.t().dot(&Array2::from_diag(&values)).dot(&vectors);
        assert!((&back - &a).iter().all(|e| e.abs() < 1e-11 * values[5]));
    }
}
