//! exp and tanh of a row of a tile, several numbers at a time.
//!
//! A libm call per entry took longer than the product that a tile is made from (`examples/tiles`
//! has the figures). Here no entry takes a branch, so the compiler puts four of them (AVX2) or two
//! into a register:
//!
//! ```text
//! y = n ln2 + r, |r| ≤ ln2 / 2         n by adding and taking away 1.5 · 2⁵², ln2 in two parts
//! p = eʳ − 1                           Taylor's polynomial of degree 13, whose rest is below 1e-17
//! eʸ = 2ⁿ + 2ⁿ p,  eʸ − 1 = (2ⁿ − 1) + 2ⁿ p
//! tanh x = sign(x) (e^{2|x|} − 1) / (e^{2|x|} + 1)
//! ```
//!
//! Within two units in the last place of libm's, which the tests hold it against. With fused
//! multiply-add the last bit may differ from a machine without.

use super::near;

/// y·LOG2_E + this − this is the nearest whole number.
const ROUND: f64 = 6_755_399_441_055_744.0;
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Beyond, eʸ is as good as 0: 3e-308.
const LEAST: f64 = -708.0;
/// Beyond, tanh is 1 to the last digit.
const MOST: f64 = 20.0;

/// 1/13!, 1/12!, … 1/2!.
const TAYLOR: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// a·b + c, rounded once or twice.
trait MulAdd {
    fn mul_add(a: f64, b: f64, c: f64) -> f64;
}

#[allow(dead_code)] // on machines that have but one of the two
struct Fused;

#[allow(dead_code)]
struct Plain;

impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

impl MulAdd for Plain {
    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
}

/// 2ⁿ and eʳ − 1.
#[inline(always)]
fn parts<M: MulAdd>(y: f64) -> (f64, f64) {
    let t = M::mul_add(y, std::f64::consts::LOG2_E, ROUND);
    let n = t - ROUND;
    let r = M::mul_add(n, -LN2_LOW, M::mul_add(n, -LN2_HIGH, y));
    let mut q = TAYLOR[0];
    for c in &TAYLOR[1..] {
        q = M::mul_add(q, r, *c);
    }
    // The low bits of t are n; as an exponent they are 2ⁿ.
    let power = f64::from_bits((t.to_bits() << 52).wrapping_add(1023 << 52));
    (power, M::mul_add(q * r, r, r))
}

#[inline(always)]
fn exp<M: MulAdd>(y: f64) -> f64 {
    let (power, p) = parts::<M>(y.max(LEAST));
    M::mul_add(power, p, power)
}

#[inline(always)]
fn tanh<M: MulAdd>(x: f64) -> f64 {
    let (power, p) = parts::<M>(2.0 * x.abs().min(MOST));
    let less_one = M::mul_add(power, p, power - 1.0);
    (less_one / (less_one + 2.0)).copysign(x)
}

#[inline(always)]
fn rbf_row<M: MulAdd>(row: &mut [f64], gamma: f64, a: f64, b: &[f64]) -> bool {
    let mut felt = 0u64;
    // ‖x−y‖² is never negative but for rounding; where squares overflow it is beyond all numbers,
    // and k is 0.
    row.iter_mut().zip(b).for_each(|(t, b)| {
        let distance = a + b - 2.0 * *t;
        *t = exp::<M>(-gamma * if distance < 0.0 { 0.0 } else { distance });
        felt |= u64::from(near::is_felt(*t, gamma, a + b));
    });
    felt != 0
}

#[inline(always)]
fn tanh_row<M: MulAdd>(row: &mut [f64], gamma: f64, coef0: f64) {
    row.iter_mut().for_each(|t| *t = tanh::<M>(gamma * *t + coef0));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn rbf_avx2(row: &mut [f64], gamma: f64, a: f64, b: &[f64]) -> bool {
    rbf_row::<Fused>(row, gamma, a, b)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn tanh_avx2(row: &mut [f64], gamma: f64, coef0: f64) {
    tanh_row::<Fused>(row, gamma, coef0);
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// xᵀy → exp(−γ(‖x‖² + ‖y‖² − 2xᵀy)) along a row; `a` is ‖x‖², `b` has the ‖y‖². True when some of
/// them have lost digits that are felt.
pub(super) fn rbf(row: &mut [f64], gamma: f64, a: f64, b: &[f64]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the machine has what the function was compiled for.
        return unsafe { rbf_avx2(row, gamma, a, b) };
    }
    #[cfg(target_arch = "aarch64")]
    return rbf_row::<Fused>(row, gamma, a, b);
    #[cfg(not(target_arch = "aarch64"))]
    rbf_row::<Plain>(row, gamma, a, b)
}

/// xᵀy → tanh(γxᵀy + c) along a row.
pub(super) fn sigmoid(row: &mut [f64], gamma: f64, coef0: f64) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the machine has what the function was compiled for.
        return unsafe { tanh_avx2(row, gamma, coef0) };
    }
    #[cfg(target_arch = "aarch64")]
    return tanh_row::<Fused>(row, gamma, coef0);
    #[cfg(not(target_arch = "aarch64"))]
    tanh_row::<Plain>(row, gamma, coef0)
}

/// xᵀy → (γxᵀy + c)^degree along a row, by squaring.
pub(super) fn poly(row: &mut [f64], gamma: f64, coef0: f64, degree: u32) {
    for chunk in row.chunks_mut(64) {
        chunk.iter_mut().for_each(|t| *t = gamma * *t + coef0);
        let mut square = [0.0; 64];
        let square = &mut square[..chunk.len()];
        square.copy_from_slice(chunk);
        chunk.fill(1.0);
        let mut rest = degree;
        while rest > 0 {
            if rest & 1 == 1 {
                chunk.iter_mut().zip(&*square).for_each(|(t, s)| *t *= s);
            }
            square.iter_mut().for_each(|s| *s *= *s);
            rest >>= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps(found: f64, expected: f64) -> f64 {
        (found - expected).abs() / (expected.abs() * f64::EPSILON).max(f64::MIN_POSITIVE)
    }

    /// 40,000 numbers over many magnitudes.
    fn samples(most: f64) -> impl Iterator<Item = f64> {
        (0..40_000).map(move |i| {
            let x = most * ((i as f64 * 0.754_877_666_2).fract() * 2.0 - 1.0);
            if i % 3 == 0 { x } else { x * 10f64.powi(-(i % 17)) }
        })
    }

    fn compared<M: MulAdd>() {
        for y in samples(700.0) {
            assert!(
                ulps(exp::<M>(y), y.exp()) <= 2.0,
                "exp {y}: {} against {}",
                exp::<M>(y),
                y.exp()
            );
        }
        for x in samples(25.0).chain([0.0, -0.0, 1e-300, 1e308, f64::MIN]) {
            assert!(
                ulps(tanh::<M>(x), x.tanh()) <= 3.0,
                "tanh {x}: {} against {}",
                tanh::<M>(x),
                x.tanh()
            );
        }
        assert_eq!((exp::<M>(0.0), tanh::<M>(0.0)), (1.0, 0.0));
        assert!(exp::<M>(-1e6) < 1e-300 && exp::<M>(f64::NEG_INFINITY) < 1e-300);
    }

    #[test]
    fn they_are_libms_but_for_the_last_digit() {
        compared::<Fused>();
        compared::<Plain>();
    }

    #[test]
    fn powers_are_powers() {
        for degree in [1, 2, 3, 7, 10] {
            let mut row: Vec<f64> = (0..150).map(|i| i as f64 / 50.0 - 1.4).collect();
            let expected: Vec<f64> =
                row.iter().map(|t| (0.5 * t + 0.3f64).powi(degree as i32)).collect();
            poly(&mut row, 0.5, 0.3, degree);
            row.iter()
                .zip(&expected)
                .for_each(|(a, b)| assert!((a - b).abs() <= 1e-14 * b.abs().max(1e-10), "{a} {b}"));
        }
    }
}
