//! What the numbers among options must be. A front end may refuse them earlier and in its own
//! words; here nothing else gets by.

use super::options::{Approximate, Fit, Gamma, KernelOptions, LabelOptions, Resources};
use crate::accumulate::MOST_ROWS;
use crate::error::{Error, Result};
use crate::model::Method;
use crate::solve::rules::Components;
use crate::solve::scoring::Keep;
use crate::source::Table;

/// The most worker threads.
pub(crate) const MOST_THREADS: usize = 1024;

/// The most random features that stand for a kernel over labels.
pub(crate) const MOST_LABEL_FEATURES: usize = 1_000_000;

/// The most landmarks, or random features, that stand for a kernel over rows.
pub(crate) const MOST_LANDMARKS: usize = 20_000;

/// The most passes, or products, that may be allowed.
pub(crate) const MOST_PASSES: usize = 10_000;

/// The largest degree of a polynomial kernel.
pub(crate) const MOST_DEGREE: usize = 100;

/// Tolerances that an iteration may have.
pub(crate) const TOLERANCES: std::ops::Range<f64> = 1e-12..1.0;

/// Refuses numbers that no fit can work with.
pub(crate) fn check(fit: &Fit) -> Result<()> {
    let (labels, iteration) = (&fit.labels, &fit.iteration);
    match fit.components {
        Components::Count(0) => return Error::misuse("⟦components⟧ must be 1 or more"),
        Components::Ratio(r) if !(r > 0.0 && r < 1.0) => {
            return Error::misuse("a share of the variance is more than 0 and less than 1");
        }
        Components::ValueAbove(t) if !(t >= 0.0 && t.is_finite()) => {
            return Error::misuse("a threshold of values is a number from 0 on");
        }
        Components::RatioAbove(r) if !(0.0..1.0).contains(&r) => {
            return Error::misuse("a threshold of ratios is at least 0 and less than 1");
        }
        _ => {}
    }
    if fit.scaling.center_scores && fit.method != Method::Kspca {
        return Error::misuse(format!(
            "⟦center-scores⟧ is of kspca; the scores of {} are centred already, leave it out",
            fit.method
        ));
    }
    threads(&fit.resources)?;
    label_constants(labels)?;
    if iteration.tolerance.is_some_and(|t| !TOLERANCES.contains(&t)) {
        return Error::misuse("⟦tolerance⟧ is at least 1e-12 and less than 1");
    }
    within("max-passes", iteration.max_passes, 1..=MOST_PASSES)?;
    match fit.kernel.approximation {
        Some(Approximate::Landmarks { count, .. }) => {
            within("landmarks", count, 1..=MOST_LANDMARKS)?
        }
        Some(Approximate::Fourier(count)) => within("random-features", count, 1..=MOST_LANDMARKS)?,
        None => {}
    }
    match fit.scoring.as_ref().map(|s| s.keep) {
        Some(Keep::Features(0)) => Error::misuse("⟦keep-features⟧ must be 1 or more"),
        Some(Keep::Threshold(t)) if !t.is_finite() => {
            Error::misuse("⟦score-threshold⟧ must be a number")
        }
        _ => kernel(&fit.kernel),
    }
}

/// The same of the constants of a kernel over labels.
fn label_constants(options: &LabelOptions) -> Result<()> {
    positive("label-gamma", options.gamma)?;
    if options.coef0.is_some_and(|c| !(c >= 0.0 && c.is_finite())) {
        return Error::misuse(
            "⟦label-coef0⟧ must be 0 or more: with less, (γ yᵀy' + c)^p is no positive kernel",
        );
    }
    if let Some(degree) = options.degree {
        within("label-degree", degree as usize, 1..=MOST_DEGREE)?;
    }
    match options.features {
        Some(features) => within("label-features", features, 1..=MOST_LABEL_FEATURES),
        None => Ok(()),
    }
}

/// Threads that there may be, of any run.
pub(crate) fn threads(resources: &Resources) -> Result<()> {
    match resources.threads {
        Some(threads) => within("threads", threads, 1..=MOST_THREADS),
        None => Ok(()),
    }
}

/// Refuses a table that says it has more rows than can be counted.
pub(crate) fn rows(table: &dyn Table) -> Result<()> {
    match table.rows() <= MOST_ROWS {
        true => Ok(()),
        false => Err(Error::data(table.place(), format!("cannot have {} rows", table.rows()))),
    }
}

/// The same of a kernel's constants.
pub(super) fn kernel(options: &KernelOptions) -> Result<()> {
    let gamma = match options.gamma {
        Some(Gamma::Value(gamma)) => Some(gamma),
        _ => None,
    };
    positive("gamma", gamma)?;
    positive("sigma", options.sigma)?;
    if options.coef0.is_some_and(|c| !c.is_finite()) {
        return Error::misuse("⟦coef0⟧ must be a number");
    }
    match options.degree {
        Some(degree) => within("degree", degree as usize, 1..=MOST_DEGREE),
        None => Ok(()),
    }
}

fn positive(option: &str, value: Option<f64>) -> Result<()> {
    match value.filter(|v| !(*v > 0.0 && v.is_finite())) {
        None => Ok(()),
        Some(v) => Error::misuse(format!("⟦{option}⟧ must be a number greater than 0, not {v}")),
    }
}

fn within(option: &str, value: usize, range: std::ops::RangeInclusive<usize>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Error::misuse(format!("⟦{option}⟧ is {least} to {most}, not {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, KernelKind};

    #[test]
    fn numbers_that_no_fit_can_work_with_are_refused() {
        assert!(check(&Fit::pca()).is_ok());
        let mut wrong = vec![
            Fit::pca().components(0),
            Fit::pca().components(Components::Ratio(f64::NAN)),
            Fit::pca().components(Components::Ratio(1.5)),
            Fit::pca().components(Components::ValueAbove(-1.0)),
            Fit::pca().components(Components::RatioAbove(f64::NAN)),
            Fit::pca().threads(0),
            Fit::pca().threads(usize::MAX),
            Fit::pca().score_by("y", Keep::Features(0)),
            Fit::pca().score_by("y", Keep::Threshold(f64::INFINITY)),
            Fit::kpca(Kernel::Rbf { gamma: f64::NAN }),
            Fit::kpca(Kernel::Rbf { gamma: -1.0 }),
            Fit::kpca(Kernel::Poly { gamma: 1.0, coef0: f64::NAN, degree: 2 }),
            Fit::kpca(Kernel::Poly { gamma: 1.0, coef0: 0.0, degree: 0 }),
        ];
        let mut kernel = KernelOptions::from(KernelKind::Rbf);
        for count in [0, 20_001] {
            kernel.approximation = Some(Approximate::Fourier(count));
            wrong.push(Fit::kpca(kernel.clone()));
        }
        let mut fit = Fit::pca();
        fit.iteration.max_passes = 0;
        wrong.push(fit);
        let mut fit = Fit::pca();
        fit.iteration.tolerance = Some(f64::NAN);
        wrong.push(fit);
        let mut fit = Fit::spca(["y"]);
        fit.labels.features = Some(0);
        wrong.push(fit);
        for (coef0, degree) in [(Some(-1.0), None), (Some(f64::NAN), None), (None, Some(0))] {
            let mut fit = Fit::spca(["y"]);
            (fit.labels.coef0, fit.labels.degree) = (coef0, degree);
            wrong.push(fit);
        }
        for fit in wrong {
            let refused = check(&fit).expect_err(&format!("{fit:?}"));
            assert_eq!(refused.exit_code(), 2);
        }
    }
}
