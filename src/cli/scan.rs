//! `scan`, and `fit --state` and `--checkpoint`: files → state, in one pass that can stop and go on.
//!
//! Rows are added as `fit` adds them, unit by unit in file order, so a state gives the bytes of a fit. A checkpoint is
//! the state after some units, with how many; going on from it adds the units that follow to the same sums.
//!
//! Holds what the plan of the fit holds; with `--folds` the sums once per fold.

use super::args::{CheckpointArgs, FitSpec, FormChoice, ScanArgs, Statistic};
use super::fit::{announce, tell};
use super::plan::{FitPlan, LabelPlan};
use crate::accumulate::{Accumulate, ClassLimit, SHARED_FROM};
use crate::accumulate::{LabelSumsKind, Sums, SumsKind};
use crate::budget::Bytes;
use crate::error::{Error, Place, Result};
use crate::model::{InputEntry, Method};
use crate::pass::{self, Crew};
use crate::report::{self, Talk};
use crate::solve::supervised::LabelKernel;
use crate::source::{Block, Dataset, LabelRead, LabelWant, Nulls, ParquetSource, Source, Tally};
use crate::staged::check_file;
use crate::state::folds::fold_of;
use crate::state::{About, Known, Ledger, Progress, State, StateLabels, StateTally};
use crate::words::count;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs a scan and writes the state, or one per group.
pub fn run(args: &ScanArgs, talk: Talk) -> Result<()> {
    let started = Instant::now();
    let spec = args.spec();
    let mut scan = Scan::new(&spec, &args.keep, talk)?;
    (scan.folds, scan.seed) = (args.folds.map_or(1, usize::from), args.seed);
    announce(&scan.plan, talk);
    scan.check()?;
    scan.plan.dataset.refuse_output(&args.data, &args.output)?;
    if let Some(column) = &args.by {
        return scan.by_group(column, args, started);
    }
    check_file(&args.output)?;
    args.checkpoint.apart_from(&[&args.output])?;
    let state = scan.run(None, &args.checkpoint)?;
    state.save(&args.output)?;
    args.checkpoint.done();
    let seconds = started.elapsed().as_secs_f64();
    talk.say(format!("{}: {}, {seconds:.2} s", args.output.display(), describe(&state)));
    if args.json {
        let summary = json!({"state": args.output, "rows": state.rows(), "seconds": seconds, "about": state.about});
        report::print(&report::json::pretty(&summary))?;
    }
    Ok(())
}

/// "4,000,000 rows × 64 features from 8 files".
pub fn describe(state: &State) -> String {
    format!(
        "{} × {} from {}",
        count(state.rows(), "row"),
        count(state.about.columns.len() as u64, "feature"),
        count(state.about.ledger.len() as u64, "file")
    )
}

impl ScanArgs {
    /// The fit whose pass it is.
    pub(super) fn spec(&self) -> FitSpec {
        FitSpec {
            data: self.data.clone(),
            columns: self.columns.clone(),
            exclude: self.exclude.iter().chain(&self.by).cloned().collect(),
            label: self.label.clone(),
            classes: self.classes,
            weight: self.weight.clone(),
            nulls: self.nulls,
            seed: self.seed,
            temp_dir: self.temp_dir.clone(),
            resources: self.resources.clone(),
            ..FitSpec::supervised()
        }
    }
}

/// True when two paths name the same file, also one that is not there yet.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |p: &Path| {
        let parent = p.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::canonicalize(p)
            .ok()
            .or_else(|| Some(std::fs::canonicalize(parent).ok()?.join(p.file_name()?)))
    };
    a == b || (whole(a).is_some() && whole(a) == whole(b))
}

impl CheckpointArgs {
    /// Refuses a checkpoint that is a result, too: it is removed in the end.
    pub fn apart_from(&self, results: &[&Path]) -> Result<()> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        check_file(path)?;
        match results.iter().any(|r| same_file(path, r)) {
            true => Err(Error::Misuse(format!(
                "--checkpoint {} is what is written in the end, too; name another file",
                path.display()
            ))),
            false => Ok(()),
        }
    }

    /// The checkpoint of a scan whose result is safe is removed.
    pub fn done(&self) {
        if let Some(path) = &self.checkpoint {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A scan that is known to be possible.
pub struct Scan {
    /// The fit whose pass it is.
    pub plan: FitPlan,
    pub(super) labels: Option<StateLabels>,
    pub(super) wanted: SumsKind,
    /// Folds; 1 without.
    folds: usize,
    seed: u64,
    pub(super) talk: Talk,
}

impl Scan {
    /// A scan of what a fit would read; `keep` is what to keep, all that one pass can give if it is empty.
    pub fn new(spec: &FitSpec, keep: &[Statistic], talk: Talk) -> Result<Scan> {
        let labelled = !spec.label.is_empty() && spec.label_kernel != Some(LabelKernel::Identity);
        let for_labels = keep.is_empty() || keep.iter().any(|k| *k != Statistic::Pca);
        if !keep.is_empty() && for_labels && !labelled {
            return Err(Error::Misuse(
                "--for spca and scored need labels; name their column with --label".into(),
            ));
        }
        if labelled && !for_labels {
            talk.say("note: --for pca keeps nothing of the label");
        }
        let (labelled, second) =
            (labelled && for_labels, keep.is_empty() || keep.contains(&Statistic::Pca));
        let method = if labelled { Method::Spca } else { Method::Pca };
        let form = if labelled { FormChoice::Auto } else { FormChoice::Primal };
        let spec =
            FitSpec { method, form, label_kernel: None, with_variance: second, ..spec.clone() };
        let plan = FitPlan::new(&spec)?;
        let d = plan.want.features.len();
        if spec.nulls == Nulls::Mean && d >= SHARED_FROM && second {
            return Err(Error::Misuse(format!(
                "--nulls mean of {d} features takes two passes, and a scan is one; choose --nulls drop, or fewer than {SHARED_FROM} features"
            )));
        }
        let labels = plan.labels.as_ref().map(state_labels);
        let wanted = SumsKind {
            features: d,
            covariance: second,
            nulls: spec.nulls,
            labels: plan.labels.as_ref().map(|l| labels_wanted(&plan, l)),
            threads: plan.threads(),
            around: None,
        };
        Ok(Scan { plan, labels, wanted, folds: 1, seed: spec.seed, talk })
    }

    /// Refuses what the budget cannot hold.
    pub fn check(&self) -> Result<()> {
        self.plan.check()?;
        let more =
            (self.folds as u64 - 1).saturating_mul(8 * (self.wanted.features as u64).pow(2) * 4);
        let (peak, budget) =
            (self.plan.taken().ledger.peak_bytes().saturating_add(more), self.plan.budget.bytes);
        if peak <= budget.0 {
            return Ok(());
        }
        Err(Error::Budget {
            what: format!("a scan into {} folds", self.folds),
            needs: Bytes(peak).to_string(),
            budget: budget.to_string(),
            hint: format!("allow --memory {}MB, or take fewer --folds", peak.div_ceil(1_000_000)),
        })
    }

    /// What the state is of, before a row is read.
    pub(super) fn about(&self) -> About {
        About {
            columns: self.plan.want.features.clone(),
            labels: self.labels.clone(),
            nulls: self.plan.want.nulls,
            weight: self.plan.want.weight.clone(),
            precision: self.plan.want.precision,
            tally: StateTally::default(),
            ledger: InputEntry::of(&self.plan.dataset),
            cancellation: 1.0,
            group: None,
            fold_seed: (self.folds > 1).then_some(self.seed),
            progress: None,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    fn fresh(&self) -> Vec<Sums> {
        (0..self.folds).map(|_| Sums::new(&self.wanted)).collect()
    }

    /// Adds all rows, to those of a state if one is given; from a checkpoint on if there is one.
    pub fn run(&self, onto: Option<State>, checkpoint: &CheckpointArgs) -> Result<State> {
        let entries = InputEntry::of(&self.plan.dataset);
        let mut start = match onto {
            None => State::new(About { ledger: Vec::new(), ..self.about() }, self.fresh()),
            Some(state) => {
                state.agrees(&self.about(), &self.fresh())?;
                state
            }
        };
        start.admit(&entries)?;
        no_twins(&entries)?;
        start.about.ledger.extend(entries);
        let source = ParquetSource::new(&self.plan.dataset, self.plan.want.clone());
        let of = source.units().len();
        let mut from = 0;
        if let Some(path) = checkpoint.checkpoint.as_deref().filter(|p| p.exists()) {
            let state = State::load(path)?;
            from = resumable(&state, &start, of, path)?;
            self.talk.say(format!("going on after {from} of {of} units"));
            start = state;
            start.about.progress = None;
        }
        self.add(start, &source, from, Saver::new(checkpoint, of))
    }

    /// One pass from a unit on, merged in unit order.
    fn add(
        &self,
        start: State,
        source: &ParquetSource,
        from: usize,
        saver: Saver<'_>,
    ) -> Result<State> {
        let (about, mut sums) = start.into_sums();
        if let Some(limit) = self.class_limit() {
            sums = sums.into_iter().map(|s| s.limited(&limit)).collect();
        }
        let tally: Tally = about.tally.clone().into();
        let mut adding = Adding { about, sums, tally, seen: Tally::default(), saver };
        match self.wanted.is_shared() {
            true => self.add_blocks(&mut adding, source, from)?,
            false => self.add_units(&mut adding, source, from)?,
        }
        let Adding { mut about, sums, tally, seen, .. } = adding;
        tell(&self.plan, &seen, self.talk);
        about.tally = tally.into();
        Ok(State::new(about, sums))
    }

    pub(super) fn crew(&self) -> Crew {
        Crew { threads: self.plan.threads(), queue: 1 }
    }

    pub(super) fn progress(&self) -> report::Progress {
        self.talk.progress("scan", "rows", self.plan.dataset.rows(), self.plan.dataset.bytes())
    }

    /// Workers add up units of their own.
    fn add_units(
        &self,
        adding: &mut Adding<'_>,
        source: &ParquetSource,
        from: usize,
    ) -> Result<()> {
        let work = |unit: usize,
                    blocks: &mut dyn Iterator<Item = Result<Block>>,
                    out: &pass::Output<(Vec<Sums>, Tally)>| {
            let (mut parts, mut tally) = (self.fresh(), Tally::default());
            for block in blocks {
                let mut block = block?;
                let more = std::mem::take(&mut block.tally);
                let split = self.split(source, unit, tally.rows, block);
                tally.add(more);
                for (sums, part) in parts.iter_mut().zip(split) {
                    sums.update(part);
                    sums.check()?;
                }
            }
            out.give((parts, tally));
            Ok(())
        };
        pass::map_from(source, from, self.crew(), &self.progress(), work, |unit, (parts, more)| {
            adding.sums.iter_mut().zip(parts).for_each(|(all, part)| all.merge(part));
            adding.count(more)?;
            adding.save(unit + 1)
        })
    }

    /// One S of many features: workers read, the caller adds.
    fn add_blocks(
        &self,
        adding: &mut Adding<'_>,
        source: &ParquetSource,
        from: usize,
    ) -> Result<()> {
        let work = |unit: usize,
                    blocks: &mut dyn Iterator<Item = Result<Block>>,
                    out: &pass::Output<(Vec<Block>, Tally)>| {
            let mut read = 0;
            for block in blocks {
                let mut block = block?;
                let more = std::mem::take(&mut block.tally);
                let first = read;
                read += more.rows;
                out.give((self.split(source, unit, first, block), more));
            }
            Ok(())
        };
        let mut last = from;
        pass::map_from(source, from, self.crew(), &self.progress(), work, |unit, (parts, more)| {
            if unit > last {
                adding.save(unit)?;
                last = unit;
            }
            adding.sums.iter_mut().zip(parts).for_each(|(s, part)| s.update(part));
            adding.count(more)
        })
    }

    fn class_limit(&self) -> Option<ClassLimit> {
        match &self.wanted.labels {
            Some(LabelSumsKind::Classes(limit)) => Some(limit.clone()),
            _ => None,
        }
    }

    /// The rows of each fold.
    fn split(&self, source: &ParquetSource, unit: usize, read: u64, block: Block) -> Vec<Block> {
        if self.folds == 1 {
            return vec![block];
        }
        let unit = &source.units()[unit];
        let (hash, first) =
            (self.plan.dataset.files[unit.input].footer_hash, unit.first_row + read);
        let mut rows = vec![Vec::new(); self.folds];
        (0..block.rows())
            .for_each(|i| rows[fold_of(self.seed, hash, first + i as u64, self.folds)].push(i));
        rows.iter().map(|rows| block.part(rows)).collect()
    }
}

/// A state while units are added to it.
struct Adding<'a> {
    about: About,
    sums: Vec<Sums>,
    /// Of all rows of the state, and of those of this scan.
    tally: Tally,
    seen: Tally,
    saver: Saver<'a>,
}

impl Adding<'_> {
    fn count(&mut self, more: Tally) -> Result<()> {
        self.seen.add(more.clone());
        self.tally.add(more);
        self.sums.iter().try_for_each(|s| s.check())
    }

    /// Saves the checkpoint after so many units, if it is time.
    fn save(&mut self, units: usize) -> Result<()> {
        if !self.saver.is_time(units) {
            return Ok(());
        }
        let tally = self.tally.clone().into();
        let about = About {
            tally,
            progress: Some(Progress { units, of: self.saver.of }),
            ..self.about.clone()
        };
        self.saver.save(&State::new(about, self.sums.clone()).to_bytes()?)
    }
}

/// How labels are kept.
fn state_labels(plan: &LabelPlan) -> StateLabels {
    let LabelWant { columns, read } = &plan.want;
    StateLabels {
        columns: columns.clone(),
        classes: *read == LabelRead::Classes,
        numeric: plan.numeric.clone(),
    }
}

fn labels_wanted(plan: &FitPlan, labels: &LabelPlan) -> LabelSumsKind {
    match labels.want.read {
        LabelRead::Numbers => LabelSumsKind::linear(labels.want.columns.len()),
        LabelRead::Classes => LabelSumsKind::Classes(ClassLimit {
            classes: plan.most_classes,
            label: labels.want.columns.join(", "),
            hint: "a label that names each row is an id; choose another, or allow more --memory"
                .into(),
        }),
    }
}

/// The same content twice among the files of one scan.
fn no_twins(entries: &[InputEntry]) -> Result<()> {
    let mut ledger = Ledger::default();
    for entry in entries {
        if let Some(Known::Same(other)) = ledger.known(entry) {
            let problem =
                format!("is the same as {other}; a state counts nothing twice, leave one out");
            return Err(Error::data(Place::file(&entry.path), problem));
        }
        ledger.add(entry);
    }
    Ok(())
}

/// Units that a checkpoint has done of this very scan.
fn resumable(state: &State, start: &State, of: usize, path: &Path) -> Result<usize> {
    let refuse = |problem: &str| {
        Err(Error::model(path, format!("{problem}; remove it, or name another --checkpoint")))
    };
    let Some(Progress { units, of: all }) = state.about.progress else {
        return refuse("is a state, not the checkpoint of a scan");
    };
    let (mine, theirs) = (&start.about, &state.about);
    let same =
        (&mine.columns, &mine.labels, mine.nulls, &mine.weight, mine.fold_seed, &mine.ledger)
            == (
                &theirs.columns,
                &theirs.labels,
                theirs.nulls,
                &theirs.weight,
                theirs.fold_seed,
                &theirs.ledger,
            );
    let fits =
        state.folds().len() == start.folds().len() && state.folds()[0].fits(&start.folds()[0]);
    match same && fits && all == of && units <= of {
        true => Ok(units),
        false => refuse("is the checkpoint of another scan, or of files that have changed since"),
    }
}

/// Saves a state on the way.
struct Saver<'a> {
    path: Option<&'a Path>,
    every: Duration,
    last: Instant,
    of: usize,
}

impl<'a> Saver<'a> {
    fn new(args: &'a CheckpointArgs, of: usize) -> Saver<'a> {
        Saver {
            path: args.checkpoint.as_deref(),
            every: Duration::from_secs(args.checkpoint_seconds),
            last: Instant::now(),
            of,
        }
    }

    /// After so many units.
    fn is_time(&self, units: usize) -> bool {
        self.path.is_some() && units < self.of && self.last.elapsed() >= self.every
    }

    fn save(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(path) = self.path {
            crate::model::container::save(path, bytes)?;
        }
        self.last = Instant::now();
        Ok(())
    }
}

/// Files of a dataset that a state does not know; those it does are passed over, changed ones refused.
pub fn only_new(state: &State, data: &[String], skip: bool, talk: Talk) -> Result<Vec<String>> {
    let dataset = Dataset::open(&crate::source::inputs::expand(data)?)?;
    let ledger = state.ledger();
    let mut new = Vec::new();
    let mut known = 0;
    for (entry, file) in InputEntry::of(&dataset).iter().zip(&dataset.files) {
        match ledger.known(entry) {
            Some(Known::Same(_)) if skip => known += 1,
            Some(_) => state.admit(std::slice::from_ref(entry))?,
            None => new.push(glob::Pattern::escape(&file.path.display().to_string())),
        }
    }
    if known > 0 {
        talk.say(format!("{} in the state already, passed over", count(known, "file")));
    }
    Ok(new)
}
