//! Which form, and why: what was asked for, or the cheapest exact one that fits, or the randomized
//! one.

use super::cost::{FormCost, KernelWork, Workload};
use super::kernel_choice::KernelRoute;
use crate::budget::Bytes;
use crate::solve::Form;
use crate::solve::supervised::smaller_side;
use crate::source::Precision;
use crate::words::count;

/// The form to take, as a position among these, and the reason.
pub(crate) fn choose(
    forms: &[FormCost],
    work: &Workload,
    asked: Option<Form>,
    tolerance: f64,
) -> (usize, String) {
    let at = |form: Form| forms.iter().position(|c| c.form == form).unwrap_or(0);
    if let Some(basis) = work.basis {
        let directions = count(basis.vectors, "given direction");
        return (0, format!("variances along {directions} add up row by row"));
    }
    if let Some(kernel) = work.route() {
        let form = asked.filter(|f| *f == Form::Direct).unwrap_or(forms[0].form);
        return (at(form), kernel_reason(kernel, work));
    }
    let describe = |form| describe(form, work, tolerance);
    if let Some(form) = asked {
        return (at(form), format!("{} (as asked)", describe(form)));
    }
    if let Some(labels) = work.labels {
        let form = smaller_side(work.d as usize, labels.shape.vectors as usize);
        let why = "M = XHΔ adds up row by row, and its smaller side is decomposed";
        return (at(form), why.into());
    }
    let few_rows = work.n < work.d;
    let (exact, other) =
        if few_rows { (Form::Dual, Form::Primal) } else { (Form::Primal, Form::Dual) };
    if forms[at(exact)].fits {
        let why = if few_rows { "fewer rows than features: " } else { "" };
        return (at(exact), format!("{why}{}", describe(exact)));
    }
    if forms[at(other)].fits {
        return (at(other), format!("{}, and the {exact} form does not fit", describe(other)));
    }
    if forms[at(Form::Randomized)].fits {
        let (n, d) = (work.n, work.d);
        let neither =
            format!("neither {d} × {d} ({}) nor {n} × {n} ({}) fits", square(d), square(n));
        return (at(Form::Randomized), format!("{neither}: {}", describe(Form::Randomized)));
    }
    (at(exact), describe(exact))
}

fn square(side: u64) -> Bytes {
    Bytes(8u64.saturating_mul(side.saturating_mul(side)))
}

fn describe(form: Form, work: &Workload, tolerance: f64) -> String {
    let (n, d) = (work.n, work.d);
    match form {
        _ if work.labels.is_some() => format!("the {form} side of M = XHΔ is decomposed"),
        Form::Primal if work.precision == Precision::Full => {
            format!("one {d} × {d} triangular factor ({}) takes in row by row", square(d))
        }
        Form::Primal => format!("one {d} × {d} matrix ({}) adds up row by row", square(d)),
        Form::Dual => format!("one {n} × {n} matrix ({}) adds up feature by feature", square(n)),
        _ => format!("block Krylov finds the leading components to {tolerance:e}"),
    }
}

/// What a kernel method does, and why.
fn kernel_reason(kernel: KernelWork, work: &Workload) -> String {
    let n = work.n;
    match kernel.route {
        KernelRoute::UnitPca => "a cosine kernel is PCA of the rows at unit length".into(),
        KernelRoute::Landmarks(m) => {
            format!("comparisons with {m} rows stand for the kernel: an approximation, as asked")
        }
        KernelRoute::Fourier(m) => {
            format!("{m} random features stand for the kernel: an approximation, as asked")
        }
        KernelRoute::Supervised if kernel.given => {
            "one product of the kernel matrix that is given with the labels".into()
        }
        KernelRoute::Supervised => {
            "one product of the kernel matrix, made by tiles, with the labels".into()
        }
        _ if work.decomposes_whole() => {
            format!("the {n} × {n} kernel matrix is small enough to hold")
        }
        _ if kernel.given => {
            format!("block Krylov on the {n} × {n} matrix that is given, read at each product")
        }
        _ => {
            let how = match kernel.spill {
                true => "kept in a temporary file",
                false => "made again for each product",
            };
            format!(
                "block Krylov on tiles of the {n} × {n} kernel matrix ({} in all, never held), \
                 {how}",
                square(n)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::fit::tests::workload;

    #[test]
    fn the_cheapest_exact_form_that_fits_is_taken() {
        let taken = |n: u64, d: u64, megabytes: u64, asked: Option<Form>| {
            let budget = Budget { bytes: Bytes(megabytes * 1_000_000), asked: true };
            let work = workload(n, d);
            let forms = work.forms(&budget);
            forms[choose(&forms, &work, asked, 1e-6).0].form
        };
        assert_eq!(taken(1_000_000, 64, 500, None), Form::Primal);
        assert_eq!(taken(500, 20_000, 500, None), Form::Dual);
        assert_eq!(taken(500, 20_000, 500, Some(Form::Randomized)), Form::Randomized);
        assert_eq!(taken(1_000_000, 9_000, 900, None), Form::Randomized);
        assert_eq!(taken(1_000_000, 9_000, 2_000, None), Form::Primal);
        // Where nothing fits the exact form is named, and refused with what it would take.
        assert_eq!(taken(1_000_000, 9_000, 50, None), Form::Primal);
    }
}
