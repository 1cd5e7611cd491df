//! What Δ of K_y = ΔΔᵀ is made of: a kernel over labels, and whether they are classes or numbers →
//! [`LabelFactor`]. Decided from metadata, before a row is read.
//!
//! | labels | delta | linear | rbf | poly | cosine |
//! |---|---|---|---|---|---|
//! | one column of classes | classes | classes | classes, scaled | classes, scaled | classes |
//! | several, some classes | classes | one-hot | distinct | distinct | distinct |
//! | numbers | classes | numbers | distinct, or random features | monomials | numbers at length 1 |

use super::check::LabelProblem;
use super::labels::EXACT_LABELS;
use super::options::{DEFAULT_DEGREE, LabelOptions};
use crate::accumulate::LabelMap;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, Monomials};
use crate::solve::supervised::{LabelKernel, scale_over_classes};
use crate::source::LabelRead;
use crate::words::thousands;
use std::sync::Arc;

/// Monomials of a polynomial kernel over labels at most.
const MOST_MONOMIALS: usize = 10_000;

/// What Δ is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LabelFactor {
    /// A column per class, times √scale: the delta kernel times it.
    Classes { scale: f64 },
    /// A column per class of each label column, and numbers beside them: the linear kernel.
    OneHot,
    /// L of K = LLᵀ over the distinct labels, classes one-hot.
    Distinct,
    /// A column per feature of the numbers.
    Numbers(Arc<LabelMap>),
}

/// rbf, poly and cosine with their constants, over labels of so many columns.
pub(crate) fn kernel_function(
    kernel: LabelKernel,
    options: &LabelOptions,
    columns: usize,
) -> Option<Kernel> {
    let gamma = options.gamma.unwrap_or(1.0 / columns.max(1) as f64);
    match kernel {
        LabelKernel::Rbf => Some(Kernel::Rbf { gamma }),
        LabelKernel::Poly => Some(Kernel::Poly {
            gamma,
            coef0: options.coef0.unwrap_or(0.0),
            degree: options.degree.unwrap_or(DEFAULT_DEGREE),
        }),
        LabelKernel::Cosine => Some(Kernel::Cosine),
        LabelKernel::Delta
        | LabelKernel::Linear
        | LabelKernel::Identity
        | LabelKernel::Precomputed => None,
    }
}

impl LabelFactor {
    /// Of labels that are classes or numbers, and a kernel with its function where it has one.
    pub(crate) fn new(
        kernel: LabelKernel,
        function: Option<Kernel>,
        read: LabelRead,
        columns: usize,
        random: Option<(usize, u64)>,
    ) -> Result<LabelFactor> {
        if read == LabelRead::Classes {
            return match function {
                Some(_) if columns > 1 => Ok(LabelFactor::Distinct),
                Some(function) => scaled_classes(function),
                None if kernel == LabelKernel::Linear && columns > 1 => Ok(LabelFactor::OneHot),
                None => Ok(LabelFactor::Classes { scale: 1.0 }),
            };
        }
        let map = match (function, random) {
            (Some(Kernel::Rbf { gamma }), Some((features, seed))) => {
                LabelMap::fourier(columns, features, gamma, seed)
            }
            (Some(Kernel::Rbf { .. }), None) => return Ok(LabelFactor::Distinct),
            (Some(Kernel::Poly { gamma, coef0, degree }), _) => {
                monomials(columns, gamma, coef0, degree)?
            }
            // The cosine of labels at unit length is their product.
            _ => LabelMap::Linear { columns },
        };
        Ok(LabelFactor::Numbers(Arc::new(map)))
    }

    /// How labels are read for it, if they are classes or numbers otherwise.
    pub(crate) fn read(&self, function: Option<Kernel>, read: LabelRead) -> LabelRead {
        match (self, function) {
            // Distinct values of a number are classes whose distances count.
            (LabelFactor::Distinct, _) => LabelRead::Classes,
            (LabelFactor::Numbers(_), Some(Kernel::Cosine)) => LabelRead::UnitNumbers,
            _ => read,
        }
    }

    /// True when random features stand for the kernel.
    pub(crate) fn is_random(&self) -> bool {
        matches!(self, LabelFactor::Numbers(map) if matches!(**map, LabelMap::Fourier(_)))
    }

    /// True when its sums are those of the classes or numbers themselves.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            LabelFactor::Classes { .. } | LabelFactor::OneHot => true,
            LabelFactor::Distinct => false,
            LabelFactor::Numbers(map) => matches!(**map, LabelMap::Linear { .. }),
        }
    }
}

fn scaled_classes(function: Kernel) -> Result<LabelFactor> {
    let scale = scale_over_classes(function);
    if scale > 0.0 && scale.is_finite() {
        return Ok(LabelFactor::Classes { scale });
    }
    Error::misuse(format!(
        "over classes the {} kernel with these constants is the delta kernel times {scale}, which \
         says nothing; choose another ⟦label-gamma⟧",
        function.kind()
    ))
}

fn monomials(columns: usize, gamma: f64, coef0: f64, degree: u32) -> Result<LabelMap> {
    if Monomials::count(columns, coef0, degree) > MOST_MONOMIALS as f64 {
        let most = thousands(MOST_MONOMIALS as u64);
        return Error::misuse(format!(
            "⟦label-kernel=poly⟧ of degree {degree} over {columns} labels has more than {most} \
             monomials; choose a smaller ⟦label-degree⟧ or fewer labels"
        ));
    }
    Ok(LabelMap::Poly(Monomials::new(columns, gamma, coef0, degree)))
}

impl LabelProblem {
    /// γ, where the kernel has one.
    pub(crate) fn gamma(&self) -> Option<f64> {
        self.function.and_then(|f| f.gamma())
    }

    /// c, where the kernel has one.
    pub(crate) fn coef0(&self) -> Option<f64> {
        self.function.and_then(|f| f.coef0())
    }

    /// p, where the kernel has one.
    pub(crate) fn degree(&self) -> Option<u32> {
        self.function.and_then(|f| f.degree())
    }

    /// γ of the rbf kernel over numbers, for which random features may stand.
    pub(crate) fn random_gamma(&self) -> Option<f64> {
        let numbers = self.factor == LabelFactor::Distinct && self.numeric.iter().all(|n| *n);
        match self.function {
            Some(Kernel::Rbf { gamma }) if numbers => Some(gamma),
            _ => None,
        }
    }

    /// What is said of more distinct labels than are factored.
    pub(crate) fn too_many_distinct(&self) -> String {
        let (name, kernel, most) = (self.name(), self.kernel, thousands(EXACT_LABELS as u64));
        format!(
            "labels '{name}' have more than {most} distinct values, as many as the {kernel} kernel \
             over classes beside others is factored for; use ⟦label-kernel=linear⟧, or one column"
        )
    }

    /// What is said of labels in which the kernel sees no difference.
    pub(crate) fn constant(&self) -> String {
        match self.function {
            Some(f) => {
                format!("label '{}' is the same everywhere to the {} kernel", self.name(), f.kind())
            }
            None => format!("label '{}' is constant", self.name()),
        }
    }

    /// What is said of numbers beyond doubles.
    pub(crate) fn overflow(&self) -> String {
        let (name, kernel) = (self.name(), self.kernel);
        format!(
            "label '{name}' is so large that the {kernel} kernel over it is beyond doubles; scale \
             it down"
        )
    }
}
