//! Sums → model: any method they allow, on any of their columns, without touching the data.

use super::ask::{Ask, Fitted, Gathered, LabelSpec, identity_of, narrowed};
use super::{REFUSE_FROM_DIGITS, State, WARN_FROM_DIGITS};
use crate::accumulate::{Accumulate, CoMoment, FinishedSums, LabelMoments};
use crate::error::{Error, Result};
use crate::model::{Method, Model, Provenance, ScoringReport};
use crate::solve::rules::Components;
use crate::solve::scoring::{self, Keep, Score};
use crate::solve::supervised::LabelKernel;
use crate::solve::{Form, Scaling, solve};
use crate::source::{Features, LabelRead, Tally};
use ndarray::Array1;
use std::path::PathBuf;

/// What model to make of a state.
#[derive(Debug, Clone)]
pub struct Solve {
    /// pca or spca.
    pub method: Method,
    /// How many components.
    pub components: Components,
    /// Positions of the features that take part, ascending; `None` for all.
    pub features: Option<Vec<usize>>,
    /// What is done to them.
    pub scaling: Scaling,
    /// Features kept by their score against the label.
    pub select: Option<Select>,
    /// Of spca: primal or dual.
    pub form: Option<Form>,
    /// Of spca: tell the variance along each component, where S is kept.
    pub with_variance: bool,
    /// Of spca: delta or linear; by default what the labels are.
    pub label_kernel: Option<LabelKernel>,
    /// BLAS threads of the decomposition: a property of the machine, since it may change the last digits.
    pub threads: usize,
}

/// Which features are kept by their score against the label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Select {
    /// How many, or how good.
    pub keep: Keep,
    /// By magnitude or not.
    pub score: Score,
}

impl Default for Solve {
    /// Centred PCA of all features, ten components.
    fn default() -> Solve {
        Solve {
            method: Method::Pca,
            components: Components::default(),
            features: None,
            scaling: Scaling { center: true, standardize: false },
            select: None,
            form: None,
            with_variance: false,
            label_kernel: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The sums of a state, finished and cut to some features.
struct Finished {
    features: Features,
    sums: FinishedSums,
    tally: Tally,
}

impl Finished {
    fn select_features(self, kept: &[usize]) -> Finished {
        let keep: std::collections::HashSet<usize> = kept.iter().copied().collect();
        let gone: Vec<usize> = (0..self.features.len()).filter(|j| !keep.contains(j)).collect();
        if gone.is_empty() {
            return self;
        }
        Finished {
            features: self.features.without(&gone),
            sums: self.sums.select_features(kept),
            tally: narrowed(self.tally, kept),
        }
    }
}

impl State {
    /// Makes a model; `say` is told what users must know.
    pub fn solve(&self, ask: &Solve, say: &dyn Fn(String)) -> Result<Model> {
        if self.about.progress.is_some() {
            return Err(Error::Misuse(
                "this is the checkpoint of a scan that is not done; finish the scan first".into(),
            ));
        }
        let digits = self.lost_digits();
        if digits >= REFUSE_FROM_DIGITS {
            return Err(Error::Misuse(format!(
                "subtractions have cost this state about {digits:.0} of 16 digits, and nothing can be made of what is left; scan again"
            )));
        }
        if digits >= WARN_FROM_DIGITS {
            say(format!(
                "warning: subtractions have cost this state about {digits:.0} of 16 digits; scan again for a better one"
            ));
        }
        let dropped = self.about.tally.dropped;
        if dropped > 0 && (ask.features.is_some() || ask.select.is_some()) {
            let rows = crate::words::count(dropped, "row");
            say(format!(
                "note: {rows} were dropped for nulls in any feature of the state, also those that are left out here"
            ));
        }
        let finished = Finished {
            features: self.about.columns.clone(),
            sums: self.whole().finish(),
            tally: self.about.tally.clone().into(),
        };
        let mut finished = match &ask.features {
            Some(kept) => finished.select_features(kept),
            None => finished,
        };
        let (mut report, mut scores) = (None, None);
        if let Some(select) = ask.select {
            let (cut, kept, all) = self.select(&finished, ask, select, say)?;
            finished = finished.select_features(&kept);
            (report, scores) = (Some(cut), Some(all));
        }
        self.model(finished, ask, report, scores, say)
    }

    fn select(
        &self,
        finished: &Finished,
        ask: &Solve,
        select: Select,
        say: &dyn Fn(String),
    ) -> Result<(ScoringReport, Vec<usize>, Array1<f64>)> {
        let (Some(labels), Some(about)) = (&finished.sums.labels, &self.about.labels) else {
            return Err(Error::Misuse(
                "this state has no labels to score by; scan with ⟦label⟧".into(),
            ));
        };
        if about.columns.len() > 1 {
            return Err(Error::Misuse(
                "features are scored against one label column; scan with one ⟦label⟧".into(),
            ));
        }
        let scores = scoring::scores(labels, ask.scaling);
        let label = (about.columns.join(", "), about.classes);
        let asked = self.asked(ask, &finished.features, say);
        let (kept, report) = asked.selected(&scores, label, select).map_err(Error::Misuse)?;
        Ok((report, kept, scores))
    }

    /// What is asked of the sums of these features.
    fn asked<'a>(&self, ask: &Solve, features: &'a Features, say: &'a dyn Fn(String)) -> Ask<'a> {
        let place = match &self.about.ledger[..] {
            [one] => PathBuf::from(&one.path),
            files => PathBuf::from(format!("state of {} files", files.len())),
        };
        Ask {
            features,
            weight: self.about.weight.clone(),
            scaling: ask.scaling,
            components: ask.components,
            form: ask.form,
            label_features: 0,
            place,
            threads: ask.threads,
            say,
        }
    }

    fn model(
        &self,
        finished: Finished,
        ask: &Solve,
        scoring: Option<ScoringReport>,
        feature_scores: Option<Array1<f64>>,
        say: &dyn Fn(String),
    ) -> Result<Model> {
        let features = finished.features.clone();
        let asked = self.asked(ask, &features, say);
        let Fitted { moments, solution, tally, supervision, .. } =
            self.fitted(ask, &asked, finished)?;
        let (mut label, mut hsic, mut total_variance, mut variances) = (None, None, None, None);
        if let Some(s) = supervision {
            (label, hsic, total_variance, variances) =
                (Some(s.label), Some(s.hsic), Some(s.total_variance), s.variances);
        }
        let from = Provenance {
            method: ask.method,
            label,
            hsic,
            kernel: None,
            total_variance,
            variances,
            scoring,
            feature_scores,
            columns: features.clone(),
            asked: ask.components,
            scaling: ask.scaling,
            nulls: self.about.nulls,
            weight: self.about.weight.clone(),
            precision: self.about.precision,
            seed: None,
            ledger: self.about.ledger.clone(),
            tally,
        };
        let mut model = Model::new(&moments, solution, from);
        if model.n_components() == 0 {
            return Err(asked.refusal("every feature is constant (or so small that its squares vanish): there is no variance to decompose; choose other columns or scale them".into()));
        }
        if self.about.cancellation > 1.0 {
            model.header.certificate.lost_digits = Some(self.lost_digits());
        }
        Ok(model)
    }

    /// The components that the method finds in the sums.
    fn fitted(&self, ask: &Solve, asked: &Ask<'_>, finished: Finished) -> Result<Fitted> {
        if ask.method == Method::Spca && ask.label_kernel != Some(LabelKernel::Identity) {
            return self.supervised(ask, asked, finished);
        }
        let Finished { sums: FinishedSums { covariance: second, .. }, tally, .. } = finished;
        let covariance = |second: Option<CoMoment>| {
            let second = second.ok_or_else(|| {
                Error::Misuse("this state has no covariance; scan with ⟦for=pca⟧".into())
            })?;
            asked.check(&second.moments, &tally)?;
            solve(second, ask.scaling, ask.components, ask.threads)
        };
        match ask.method {
            Method::Pca => {
                let (moments, solution) = covariance(second)?;
                Ok(Fitted { moments, solution, tally, supervision: None, kernel: None })
            }
            Method::Spca => {
                let (moments, solution) = covariance(second)?;
                let columns =
                    self.about.labels.as_ref().map_or_else(Vec::new, |l| l.columns.clone());
                let supervision = Some(identity_of(&solution, &moments, columns));
                Ok(Fitted { moments, solution, tally, supervision, kernel: None })
            }

            Method::Kpca | Method::Kspca => Err(Error::Misuse(
                "kernel methods compare rows, which a state does not have; use fit".into(),
            )),
        }
    }

    fn supervised(&self, ask: &Solve, asked: &Ask<'_>, finished: Finished) -> Result<Fitted> {
        let Finished { sums: FinishedSums { covariance: second, labels }, tally, .. } = finished;
        let spec = self.label_spec(ask)?;
        if ask.with_variance && second.is_none() {
            (asked.say)(
                "note: this state has no covariance to tell variances by; scan with ⟦for=pca,spca⟧"
                    .into(),
            );
        }
        let s = second.filter(|_| ask.with_variance).map(|c| c.s);
        let gathered = match labels {
            Some(LabelMoments::Classes(c)) => Gathered::of_classes(c, tally),
            Some(LabelMoments::Numbers(c)) => Gathered::of_numbers(c, tally),
            None => {
                return Err(Error::Misuse("this state has no labels; scan with ⟦label⟧".into()));
            }
        };
        let mut gathered = Gathered { s, ..gathered };
        if spec.kernel == LabelKernel::Linear && spec.columns.len() > 1 {
            gathered = gathered.mixing_columns(&spec.numeric);
        }
        asked.check(&gathered.moments, &gathered.tally)?;
        asked.supervise(&spec, gathered)
    }

    fn label_spec(&self, ask: &Solve) -> Result<LabelSpec> {
        let labels =
            self.about.labels.as_ref().ok_or_else(|| {
                Error::Misuse("this state has no labels; scan with ⟦label⟧".into())
            })?;
        let (columns, numeric) = (labels.columns.clone(), labels.numeric.clone());
        let read = labels.read();
        let kernel = match (ask.label_kernel, read) {
            (None, LabelRead::Classes) => LabelKernel::Delta,
            (None, LabelRead::Numbers) => LabelKernel::Linear,
            (Some(LabelKernel::Delta), LabelRead::Numbers) => {
                return Err(Error::Misuse(
                    "this state has its labels as numbers; scan with ⟦classes⟧ for ⟦label-kernel=delta⟧".into(),
                ));
            }
            (Some(LabelKernel::Rbf), _) => {
                return Err(Error::Misuse(
                    "an rbf kernel over labels needs the rows; use fit".into(),
                ));
            }
            (Some(kernel), _) => kernel,
        };
        Ok(LabelSpec { columns, read, kernel, gamma: None, numeric })
    }
}
