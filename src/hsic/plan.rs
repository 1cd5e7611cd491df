//! Asked, then checked: [`Hsic`], a table and perhaps a model → [`HsicPlan`]. No row is read.

use super::options::Hsic;
use crate::budget::{MemoryPlan, Phase};
use crate::collect::given::NO_HOLES;
use crate::error::{Error, Result};
use crate::fit::check::LabelProblem;
use crate::fit::given::check_square;
use crate::fit::kernel_choice::check_constants;
use crate::fit::label_factor::LabelFactor;
use crate::fit::no_effect;
use crate::fit::{ColumnOptions, Fit, KernelOptions, LabelOptions, Plan};
use crate::kernel::KernelKind;
use crate::model::{Method, Model};
use crate::note::Note;
use crate::solve::supervised::LabelKernel;
use crate::source::{Nulls, ReadRequest, Table};
use crate::words::megabytes;

impl Hsic {
    /// Checks the options against a table; no row is read. With a model its scores are measured
    /// instead of the features.
    pub fn plan<'a>(&self, table: &'a dyn Table, model: Option<&'a Model>) -> Result<HsicPlan<'a>> {
        let kind = self.kernel.kind.unwrap_or_default();
        self.check(kind)?;
        let fit = self.fit(model);
        let plan = fit.plan(table)?;
        let mut request = plan.problem.request.clone();
        if kind.is_given() {
            request.advice = NO_HOLES;
        }
        if let Some(model) = model {
            model.header.features.check(table)?;
            request.features = model.header.features.clone();
            request.nulls = model.header.nulls.policy;
        }
        let planned = HsicPlan {
            notes: self.notes(&fit, &plan, kind, model),
            plan,
            model,
            request,
            kind,
            kernel: self.kernel.clone(),
            permutations: self.permutations,
            seed: self.seed,
            threads: self.resources.threads(),
        };
        if kind.is_given() {
            planned.check_given()?;
        } else if !planned.streams() {
            planned.check_pairs(planned.label_numbers())?;
        }
        Ok(planned)
    }

    fn check(&self, kind: KernelKind) -> Result<()> {
        if self.labels.columns.is_empty() && self.labels.given.is_none() {
            return Error::misuse("dependence is on labels; name their column with ⟦label⟧");
        }
        if self.kernel.approximation.is_some() || self.kernel.preimage {
            return Error::misuse(
                "HSIC compares rows by the kernel itself; leave ⟦landmarks⟧, ⟦random-features⟧ \
                 and ⟦preimage⟧ out",
            );
        }
        check_constants(&self.kernel, kind)
    }

    /// Supervised PCA with the same columns and labels, whose sums these are.
    fn fit(&self, model: Option<&Model>) -> Fit {
        let columns = match model {
            None => self.columns.clone(),
            Some(model) => {
                let columns = model.header.features.columns.iter();
                let include = columns.map(|c| glob::Pattern::escape(&c.name)).collect();
                ColumnOptions { include, exclude: Vec::new() }
            }
        };
        Fit {
            method: Method::Spca,
            columns,
            labels: LabelOptions { with_variance: false, ..self.labels.clone() },
            nulls: self.nulls,
            seed: self.seed,
            allow_duplicates: self.allow_duplicates,
            resources: self.resources.clone(),
            ..Fit::default()
        }
    }

    /// Options that were given and change nothing.
    fn notes(
        &self,
        fit: &Fit,
        plan: &Plan<'_>,
        kind: KernelKind,
        model: Option<&Model>,
    ) -> Vec<Note> {
        let mut notes = no_effect::columns(plan);
        let mut unused = no_effect::constants_of(&self.kernel, kind);
        unused.extend(no_effect::labels(fit));
        unused.extend(no_effect::classes(fit, plan));
        notes.extend(no_effect::given_notes(&unused));
        notes.extend(no_effect::label_kernel(fit, plan));
        let ColumnOptions { include, exclude } = &self.columns;
        let of_model = "has no effect with ⟦model⟧, which has features of its own";
        let given = [
            (model.is_some() && !include.is_empty(), "columns", format!("⟦columns⟧ {of_model}")),
            (model.is_some() && !exclude.is_empty(), "exclude", format!("⟦exclude⟧ {of_model}")),
            (
                self.permutations > 0 && fit.is_identity(),
                "permutations",
                "the identity kernel looks at no label, so shuffling them changes nothing".into(),
            ),
        ];
        let told = given.into_iter().filter(|(given, ..)| *given);
        notes.extend(told.map(|(_, option, sentence)| Note::NoEffect { option, sentence }));
        notes
    }
}

/// A measure of dependence that is known to be possible.
pub struct HsicPlan<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) model: Option<&'a Model>,
    pub(super) request: ReadRequest,
    pub(super) kind: KernelKind,
    pub(super) kernel: KernelOptions,
    pub(super) permutations: usize,
    pub(super) seed: u64,
    pub(super) threads: usize,
    notes: Vec<Note>,
}

impl HsicPlan<'_> {
    /// What should be known before it runs: options without effect.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// True when the seed has a say without shuffles, too.
    #[cfg(feature = "cli")]
    pub(crate) fn is_random(&self) -> bool {
        self.kind.is_given() || self.kernel.gamma == Some(crate::fit::Gamma::Median)
    }

    /// Features, or scores of the model.
    pub fn n_features(&self) -> usize {
        self.model.map_or(self.request.features.len(), Model::n_components)
    }

    /// True when one pass will do that holds no row.
    pub fn streams(&self) -> bool {
        self.kind == KernelKind::Linear && self.permutations == 0
    }

    /// The labels that are read; none for K_y = I.
    pub(super) fn labels(&self) -> Option<&LabelProblem> {
        self.plan.problem.labels.read()
    }

    /// The kernel over the labels.
    pub(super) fn label_kernel(&self) -> LabelKernel {
        self.labels().map_or(LabelKernel::Identity, |l| l.kernel)
    }

    /// Refuses what is no matrix of its own rows, or too many shuffles for the memory.
    fn check_given(&self) -> Result<()> {
        if self.model.is_some() {
            return Error::misuse(
                "⟦model⟧ gives scores, and a kernel matrix is of rows; leave one of them out",
            );
        }
        if self.request.nulls != Nulls::Error {
            return Error::misuse(
                "a kernel matrix loses its columns with its rows; leave ⟦nulls⟧ out",
            );
        }
        check_square(self.kind, &self.request.features, self.plan.table)?;
        // Vectors of the first look, and what is read ahead is planned as for supervised PCA.
        let n = self.plan.table.rows();
        let memory =
            MemoryPlan { phases: vec![pairs_phase(n, 8, self.label_numbers(), self.permutations)] };
        memory.check(&self.plan.budget(), || "ask for fewer ⟦permutations⟧".into())
    }

    /// Numbers that the labels of a row are, as far as metadata tells.
    pub(super) fn label_numbers(&self) -> u64 {
        let read = self.labels().map_or(1, |l| l.request.columns.len()) as u64;
        match self.labels().map(|l| &l.factor) {
            Some(LabelFactor::Numbers(map)) => read.max(map.len() as u64),
            _ => read,
        }
    }

    /// Refuses rows, with so many numbers as labels, and shuffles that the memory does not hold.
    pub(super) fn check_pairs(&self, q: u64) -> Result<()> {
        let (n, d) = (self.plan.table.rows(), self.n_features() as u64);
        let memory = MemoryPlan { phases: vec![pairs_phase(n, d, q, self.permutations)] };
        memory.check(&self.plan.budget(), || {
            let all = megabytes(memory.peak_bytes());
            let fewer =
                if self.permutations > 0 { "ask for fewer ⟦permutations⟧, " } else { "" };
            format!(
                "allow ⟦memory={all}⟧, {fewer}or take the linear kernel without ⟦permutations⟧, \
                 which holds no row"
            )
        })
    }
}

/// What n rows of d features and q labels hold, with so many shuffles. Saturates: any number may be
/// asked for.
fn pairs_phase(n: u64, d: u64, q: u64, shuffles: usize) -> Phase {
    // An order of the labels, its traces, and what 64 tiles in flight add to it.
    let order = n.saturating_mul(4).saturating_add(64 + 64 * 8);
    let orders = (shuffles as u64).saturating_add(1);
    Phase::new("pairs of rows")
        .hold("all rows", 24u64.saturating_mul(n).saturating_mul(d))
        .hold("labels and row sums", 8u64.saturating_mul(n).saturating_mul(q + 4))
        .hold("orders of the labels", order.saturating_mul(orders))
}
