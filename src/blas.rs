//! The BLAS and LAPACK routines that ndarray does not reach, and OpenBLAS's thread count.
//!
//! Matrices enter as ndarray views in either memory order; a symmetric result is kept in its upper
//! triangle (row ≤ column, C order) until [`mirror`] fills the rest. Every call into BLAS and
//! LAPACK that is not ndarray's own is here, behind shape checks, and every size passes
//! `to_c_int` on its way: they count in 32 bits.
//!
//! | here | routine | for |
//! |---|---|---|
//! | [`syrk`] | dsyrk, ssyrk | YᵀY |
//! | [`eigh`] | dsyevd, dsyevr where its work area would not fit | A = VΛVᵀ |
//! | `eigh_leading` | dsyevr in place | a few of the same |
//! | [`solve_spd`] | dposv | A X = B |
//! | `orthonormalise` | dgeqrf, dorgqr | W = RᵀQ |
//! | `absorb_rows`, `absorb_triangle` | dgeqrt, dtpqrt | [R; Y] → R |
//! | `singular_values` | dgejsv | R = UΣVᵀ |

mod kernels;
mod lapack;
mod qr;

pub use lapack::eigh;
pub(crate) use lapack::{eigh_bytes, eigh_leading, eigh_leading_bytes, orthonormalise, solve_spd};
pub(crate) use qr::{absorb_bytes, absorb_rows, absorb_triangle, triangle_of};
pub(crate) use qr::{singular_bytes, singular_values};

use crate::error::{Error, Result};
use crate::words::thousands;
use cblas_sys::{CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_UPLO, cblas_dsyrk, cblas_ssyrk};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, LinalgScalar};
// Links the system's OpenBLAS.
use ndarray_linalg as _;
use std::cell::Cell;
use std::os::raw::c_int;
use std::sync::{Once, RwLock};

// SAFETY: as OpenBLAS's cblas.h declares it.
unsafe extern "C" {
    fn openblas_set_num_threads(n: c_int);
}

/// Held shared while workers multiply, alone while a decomposition uses all cores.
///
/// OpenBLAS has one thread count for the whole process and does not guard it against products that
/// run while it changes. So it is changed only by whoever holds this alone. It also stops its
/// threads when the process forks (not when it spawns): a program that forks during a decomposition
/// makes that decomposition wait for ever.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// True while this thread is inside [`serial`] or [`parallel`] and so holds the gate, or works
    /// for one that does.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as inside until it is dropped, by a panic too.
struct Inside {
    before: bool,
}

impl Inside {
    fn enter() -> Inside {
        Inside { before: INSIDE.replace(true) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// True when this thread is inside [`serial`] or [`parallel`]: its workers are, too.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Runs what a worker does for a thread that was inside, or was not, when it started the worker.
pub(crate) fn work_for<T>(inside: bool, work: impl FnOnce() -> T) -> T {
    let _inside = inside.then(Inside::enter);
    work()
}

/// OpenBLAS's threads back to one, by a panic too.
struct ManyThreads;

impl Drop for ManyThreads {
    fn drop(&mut self) {
        set_threads(1);
    }
}

fn set_threads(n: usize) {
    // SAFETY: takes any positive number; the caller holds the gate alone.
    unsafe { openblas_set_num_threads(n.clamp(1, 1024) as c_int) }
}

/// Runs work whose BLAS calls each use one thread: our own workers share the cores.
pub fn serial<T>(work: impl FnOnce() -> T) -> T {
    static FIRST: Once = Once::new();
    if INSIDE.get() {
        return work();
    }
    FIRST.call_once(|| {
        let _alone = GATE.write().unwrap_or_else(|e| e.into_inner());
        set_threads(1);
    });
    let _shared = GATE.read().unwrap_or_else(|e| e.into_inner());
    let _inside = Inside::enter();
    work()
}

/// Runs work whose BLAS calls may use this many threads, when no serial work is under way.
///
/// Within [`serial`] work, or its own, or a worker of either, it changes nothing and runs at once:
/// whoever waits for it holds the gate already.
pub fn parallel<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    if INSIDE.get() {
        return work();
    }
    let _alone = GATE.write().unwrap_or_else(|e| e.into_inner());
    let _inside = Inside::enter();
    let _many = ManyThreads;
    set_threads(threads);
    work()
}

/// A size as BLAS and LAPACK take it. No size reaches them by another way.
fn to_c_int(what: &str, size: u64) -> Result<c_int> {
    c_int::try_from(size).map_err(|_| {
        Error::Misuse(format!(
            "{what} of {} is beyond the {} that the linear algebra library counts to; choose \
             fewer columns or rows, or ask for fewer ⟦components⟧",
            thousands(size),
            thousands(c_int::MAX as u64)
        ))
    })
}

/// An element type with a symmetric rank-k update.
pub trait Element: LinalgScalar + Send + Sync {
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
        // SAFETY: the caller's promise is that of cblas.
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
        // SAFETY: the caller's promise is that of cblas.
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

/// C ← YᵀY + beta·C, upper triangle of C. Y is rows × d, C is d × d.
///
/// By dsyrk or ssyrk where Y is in C or F order and C in C order, as blocks are; by ndarray's own
/// product, which fills both triangles, where they are not or a side is beyond 32 bits.
///
/// # Panics
/// When C is not d × d.
pub fn syrk<T: Element>(y: ArrayView2<'_, T>, beta: T, mut c: ArrayViewMut2<'_, T>) {
    let (rows, d) = y.dim();
    assert_eq!(c.dim(), (d, d), "syrk: result is not d × d");
    if rows == 0 || d == 0 {
        return;
    }
    let Some(Operands { trans, n, k, lda, ldc }) = Operands::new(&y, &c) else {
        return general_mat_mul(T::one(), &y.t(), &y, beta, &mut c);
    };
    // SAFETY: y covers rows × d with leading dimension lda, c covers d × d with ldc: see Operands.
    unsafe { T::syrk(trans, n, k, y.as_ptr(), lda, beta, c.as_mut_ptr(), ldc) }
}

/// How syrk is told of Y and C.
struct Operands {
    trans: CBLAS_TRANSPOSE,
    n: c_int,
    k: c_int,
    lda: c_int,
    ldc: c_int,
}

impl Operands {
    /// `None` for what syrk cannot be told of.
    fn new<T>(y: &ArrayView2<'_, T>, c: &ArrayViewMut2<'_, T>) -> Option<Operands> {
        let (rows, d) = y.dim();
        // The stride along a side of one entry means nothing.
        let across = if rows == 1 { d as isize } else { y.strides()[0] };
        let down = if d == 1 { rows as isize } else { y.strides()[1] };
        // Row-major Y (rows × d): C = YᵀY is "Trans". Column-major Y is a row-major d × rows
        // matrix Z: C = ZZᵀ.
        let (trans, lda) = match (across, down) {
            (lda, _) if (d == 1 || down == 1) && lda >= d as isize => {
                (CBLAS_TRANSPOSE::CblasTrans, lda)
            }
            (_, lda) if (rows == 1 || across == 1) && lda >= rows as isize => {
                (CBLAS_TRANSPOSE::CblasNoTrans, lda)
            }
            _ => return None,
        };
        let ldc = if d == 1 { 1 } else { c.strides()[0] };
        if (d > 1 && c.strides()[1] != 1) || ldc < d as isize {
            return None;
        }
        let size = |what: &str, size: isize| to_c_int(what, size.try_into().ok()?).ok();
        Some(Operands {
            trans,
            n: size("a product", d as isize)?,
            k: size("a block", rows as isize)?,
            lda: size("a block", lda)?,
            ldc: size("a product", ldc)?,
        })
    }
}

/// Copies the upper triangle onto the lower.
pub(crate) fn mirror(c: &mut Array2<f64>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{ShapeBuilder, s};

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
    fn syrk_takes_any_strides() {
        let wide = sample(10, 12);
        let y = wide.slice(s![..;2, ..;3]);
        let mut c = Array2::ones((4, 4));
        syrk(y, 2.0, c.view_mut());
        mirror(&mut c);
        assert_eq!(c, y.t().dot(&y) + 2.0);
    }

    #[test]
    fn sizes_beyond_32_bits_are_refused_in_words() {
        assert_eq!(to_c_int("an order", 7).unwrap(), 7);
        assert_eq!(to_c_int("an order", c_int::MAX as u64).unwrap(), c_int::MAX);
        let error = to_c_int("an order", 1 << 31).unwrap_err();
        assert!(error.to_string().starts_with("an order of 2,147,483,648 is beyond"), "{error}");
    }

    #[test]
    fn parallel_work_within_serial_work_runs_at_once() {
        assert_eq!(serial(|| parallel(2, || serial(|| 3))), 3);
        assert_eq!(parallel(2, || parallel(2, || 4)), 4);
        assert!(!INSIDE.get());
    }
}
