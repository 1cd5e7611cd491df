//! `--score-by`: keep the features that depend most on a label, then fit as if there were no others.
//!
//! One pass gives all scores; where the covariance of all features is held anyway (primal PCA), the same pass
//! gives it too and the model is made from its part.

use super::args::{FitSpec, cores};
use super::candidates::LabelShape;
use super::forms::Passes;
use super::plan::{FitPlan, PLANNED_CLASSES};
use crate::accumulate::{ClassLimit, ClassSums, CoMoment, CrossMoment, LabelMap, Moments};
use crate::error::{Error, Result};
use crate::model::ScoringReport;
use crate::solve::scoring::{self, Keep};
use crate::solve::solve;
use crate::source::block::Precision;
use crate::source::{LabelRead, LabelWant, ParquetSource, Tally, Want};
use crate::state::Select;
use crate::state::ask::{Fitted, Gathered, narrowed};
use crate::words::count;
use ndarray::{Array1, Axis};
use std::sync::Arc;

/// What is scored, and how much of it is kept.
#[derive(Debug, Clone)]
pub struct ScoringPlan {
    /// The label.
    pub label: LabelWant,
    /// How many, or how good.
    pub keep: Keep,
}

impl ScoringPlan {
    /// From what was typed; `labels` knows what a column can be.
    pub fn new(
        spec: &FitSpec,
        read: impl FnOnce(&str) -> Result<LabelRead>,
    ) -> Result<Option<ScoringPlan>> {
        let misuse = |problem: &str| Err(Error::Misuse(problem.into()));
        let keep = match (&spec.score_by, spec.keep_features, spec.score_threshold) {
            (None, None, None) => return Ok(None),
            (None, ..) => {
                return misuse(
                    "--keep-features and --score-threshold need a label to score by; name it with --score-by",
                );
            }
            (Some(_), None, None) => {
                return misuse("--score-by needs --keep-features Q or --score-threshold T");
            }
            (Some(_), Some(_), Some(_)) => {
                return misuse(
                    "--keep-features and --score-threshold are two ways to cut; give one",
                );
            }
            (Some(_), Some(q), None) => Keep::Features(q as usize),
            (Some(_), None, Some(t)) => Keep::Threshold(t),
        };
        let name = spec.score_by.clone().unwrap_or_default();
        let read = read(&name)?;
        Ok(Some(ScoringPlan { label: LabelWant { columns: vec![name], read }, keep }))
    }

    /// "the best 20 features", "features that score 0.3 or more".
    pub fn describe(&self) -> String {
        match self.keep {
            Keep::Features(q) => format!("the best {}", count(q as u64, "feature")),
            Keep::Threshold(t) => format!("features that score {t} or more"),
        }
    }

    /// Features that are kept at most.
    pub fn most_features(&self, all: u64) -> u64 {
        match self.keep {
            Keep::Features(q) => all.min(q as u64),
            Keep::Threshold(_) => all,
        }
    }

    /// For the planner.
    pub fn shape(&self) -> LabelShape {
        let classes = self.label.read == LabelRead::Classes;
        LabelShape {
            r: if classes { PLANNED_CLASSES } else { 1 },
            classes,
            rbf: false,
            with_variance: false,
        }
    }
}

/// Scores of all features and those kept.
pub struct Scored {
    /// For the model.
    pub report: ScoringReport,
    /// One per feature.
    pub scores: Array1<f64>,
    /// Positions of the kept features.
    pub kept: Vec<usize>,
    /// The fit, where the same pass gave it.
    pub fitted: Option<Fitted>,
}

impl Passes<'_> {
    /// The scores, and the fit too where one pass gives both.
    pub(super) fn score(&self, scoring: &ScoringPlan) -> Result<Scored> {
        let plan = self.plan;
        let d = plan.want.features.len();
        let want = Want {
            labels: Some(scoring.label.clone()),
            precision: Precision::Exact,
            ..plan.want.clone()
        };
        let source = ParquetSource::new(&plan.dataset, want);
        let together = plan.together;
        // Where the label to score by is the label of spca, its sums are what spca needs.
        let plain = |l: &&super::plan::LabelPlan| {
            l.want == scoring.label && l.gamma.is_none() && plan.kernel.is_none()
        };
        let same = plan.labels.as_ref().filter(plain).filter(|_| !self.spec.with_variance);
        let (s, gathered, moments, scores, tally) = match scoring.label.read {
            LabelRead::Numbers => {
                let map = Arc::new(LabelMap::Linear { columns: 1 });
                let (s, sums, tally) =
                    self.sums(&source, together, || CrossMoment::new(d, map.clone()))?;
                self.varies(&scoring.label, sums.labels.deviations().iter().any(|s| *s > 0.0))?;
                let (scores, moments) =
                    (scoring::numeric(&sums, plan.scaling), sums.moments.clone());
                let gathered = same.map(|_| Gathered::of_numbers(sums, tally.clone()));
                (s, gathered, moments, scores, tally)
            }
            LabelRead::Classes => {
                let limit = ClassLimit {
                    classes: plan.most_classes.max(2),
                    label: scoring.label.columns.join(", "),
                    hint: "a label that names each row is an id; choose another to score by".into(),
                };
                let (s, sums, tally) =
                    self.sums(&source, together, || ClassSums::new(d, limit.clone()))?;
                self.varies(&scoring.label, sums.classes.len() > 1)?;
                let (scores, moments) = (scoring::classes(&sums), sums.moments.clone());
                let gathered = same.map(|_| Gathered::of_classes(sums, tally.clone()));
                (s, gathered, moments, scores, tally)
            }
        };
        self.check(&moments, &tally)?;
        if tally.unlabelled > 0 {
            self.talk.say(format!(
                "note: {} without a label left out of the scoring",
                count(tally.unlabelled, "row")
            ));
        }
        let label = (scoring.label.columns.join(", "), scoring.label.read == LabelRead::Classes);
        let select = Select { keep: scoring.keep, score: self.spec.score };
        let (kept, report) = self.asked(|ask| {
            ask.selected(&scores, label, select).map_err(|problem| ask.refusal(problem))
        })?;
        // Rows that were dropped for features that are not kept belong to the fit.
        let fitted = match (s, gathered, same) {
            _ if tally.dropped > 0 => None,
            (Some(s), ..) => Some(self.fit_part(s, &moments, &kept, tally)?),
            (None, Some(gathered), Some(labels)) => {
                let fitted = self
                    .asked(|ask| ask.supervise(&labels.spec(), gathered.select_features(&kept)))?;
                Some(Fitted { tally: narrowed(tally, &kept), ..fitted })
            }
            _ => None,
        };
        Ok(Scored { report, scores, kept, fitted })
    }

    /// A label that is the same everywhere tells nothing of any feature.
    fn varies(&self, label: &LabelWant, varies: bool) -> Result<()> {
        match varies {
            true => Ok(()),
            false => Err(self.refusal(format!(
                "label '{}' is constant; there is nothing to score by",
                label.columns.join(", ")
            ))),
        }
    }

    /// The model of the kept features from the co-moment of all.
    fn fit_part(
        &self,
        s: ndarray::Array2<f64>,
        all: &Moments,
        kept: &[usize],
        tally: Tally,
    ) -> Result<Fitted> {
        let moments = all.select_features(kept);
        let s = s.select(Axis(0), kept).select(Axis(1), kept).as_standard_layout().into_owned();
        let (moments, solution) =
            solve(CoMoment { moments, s }, self.plan.scaling, self.spec.components, cores())?;
        Ok(Fitted {
            moments,
            solution,
            tally: narrowed(tally, kept),
            supervision: None,
            kernel: None,
        })
    }
}

/// The plan for the kept features alone.
pub fn narrow(plan: FitPlan, spec: &FitSpec, kept: &[usize]) -> Result<FitPlan> {
    let d = plan.want.features.len();
    let keep: std::collections::HashSet<usize> = kept.iter().copied().collect();
    let gone: Vec<usize> = (0..d).filter(|j| !keep.contains(j)).collect();
    plan.without(spec, &gone)
}
