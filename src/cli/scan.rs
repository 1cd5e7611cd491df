//! `scan`, and `fit --state` and `--checkpoint`: files → state, in one pass that can stop and go on.
//!
//! Rows are added as `fit` adds them, unit by unit in file order, so a state gives the bytes of a fit. A checkpoint is
//! the state after some units, with how many; going on from it adds the units that follow to the same sums.
//!
//! Holds what the plan of the fit holds; with `--folds` the sums once per fold; with `--by` as many groups as the
//! memory has room for, the others in a temporary file without a name (`Shelf`).

use super::args::{CheckpointArgs, FitSpec, FormChoice, ScanArgs, Statistic};
use super::fit::{announce, tell};
use super::plan::{FitPlan, LabelPlan};
use crate::accumulate::{Accumulate, ClassLimit, Parts, SHARED_FROM, Stored};
use crate::budget::Bytes;
use crate::error::{Error, Place, Result};
use crate::model::{LedgerEntry, Method};
use crate::pass::{self, Crew};
use crate::report::text::{count, thousands};
use crate::report::{self, Talk};
use crate::sink::staged::{StagedDir, check_file};
use crate::solve::supervised::LabelKernel;
use crate::source::labels::{Class, ClassValue};
use crate::source::{Block, Dataset, LabelRead, LabelWant, Labels, Nulls, ParquetSource, Source, Tally, Want};
use crate::state::folds::fold_of;
use crate::state::sums::{LabelsWanted, Sums, Wanted};
use crate::state::{About, Group, Known, Progress, State, StateLabels, StateTally};
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
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
    fn spec(&self) -> FitSpec {
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
        std::fs::canonicalize(p).ok().or_else(|| Some(std::fs::canonicalize(parent).ok()?.join(p.file_name()?)))
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
    labels: Option<StateLabels>,
    wanted: Wanted,
    /// Folds; 1 without.
    folds: usize,
    seed: u64,
    talk: Talk,
}

impl Scan {
    /// A scan of what a fit would read; `keep` is what to keep, all that one pass can give if it is empty.
    pub fn new(spec: &FitSpec, keep: &[Statistic], talk: Talk) -> Result<Scan> {
        let labelled = !spec.label.is_empty() && spec.label_kernel != Some(LabelKernel::Identity);
        let for_labels = keep.is_empty() || keep.iter().any(|k| *k != Statistic::Pca);
        if !keep.is_empty() && for_labels && !labelled {
            return Err(Error::Misuse("--for spca and scored need labels; name their column with --label".into()));
        }
        if labelled && !for_labels {
            talk.say("note: --for pca keeps nothing of the label");
        }
        let (labelled, second) = (labelled && for_labels, keep.is_empty() || keep.contains(&Statistic::Pca));
        let method = if labelled { Method::Spca } else { Method::Pca };
        let form = if labelled { FormChoice::Auto } else { FormChoice::Primal };
        let spec = FitSpec { method, form, label_kernel: None, with_variance: second, ..spec.clone() };
        let plan = FitPlan::new(&spec)?;
        let d = plan.want.features.len();
        if spec.nulls == Nulls::Mean && d >= SHARED_FROM && second {
            return Err(Error::Misuse(format!(
                "--nulls mean of {d} features takes two passes, and a scan is one; choose --nulls drop, or fewer than {SHARED_FROM} features"
            )));
        }
        let labels = plan.labels.as_ref().map(state_labels);
        let wanted = Wanted {
            features: d,
            second,
            nulls: spec.nulls,
            labels: plan.labels.as_ref().map(|l| labels_wanted(&plan, l)),
            threads: plan.threads(),
        };
        Ok(Scan { plan, labels, wanted, folds: 1, seed: spec.seed, talk })
    }

    /// Refuses what the budget cannot hold.
    pub fn check(&self) -> Result<()> {
        self.plan.check()?;
        let more = (self.folds as u64 - 1).saturating_mul(8 * (self.wanted.features as u64).pow(2) * 4);
        let (peak, budget) = (self.plan.taken().ledger.peak_bytes().saturating_add(more), self.plan.budget.bytes);
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
    fn about(&self) -> About {
        About {
            columns: self.plan.want.features.clone(),
            labels: self.labels.clone(),
            nulls: self.plan.want.nulls,
            weight: self.plan.want.weight.clone(),
            precision: self.plan.want.precision,
            tally: StateTally::default(),
            ledger: LedgerEntry::of(&self.plan.dataset),
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
        let base = match onto {
            None => State::new(About { ledger: Vec::new(), ..self.about() }, self.fresh()),
            Some(state) => {
                state.agrees(&self.about(), &self.fresh())?;
                state
            }
        };
        base.admit(&LedgerEntry::of(&self.plan.dataset))?;
        no_twins(&self.plan.dataset)?;
        let mut start = base;
        start.about.ledger.extend(LedgerEntry::of(&self.plan.dataset));
        let source = ParquetSource::new(&self.plan.dataset, self.plan.want.clone());
        let of = source.units().len();
        let mut from = 0;
        if let Some(state) = checkpoint.checkpoint.as_deref().filter(|p| p.exists()).map(State::load).transpose()? {
            let path = checkpoint.checkpoint.as_deref().unwrap_or(Path::new(""));
            from = resumable(&state, &start, of, path)?;
            self.talk.say(format!("going on after {from} of {of} units"));
            start = state;
            start.about.progress = None;
        }
        let saver = Saver::new(checkpoint, of);
        let mut state = self.add(start, &source, from, saver)?;
        state.about.progress = None;
        Ok(state)
    }

    /// One pass from a unit on, merged in unit order.
    fn add(&self, start: State, source: &ParquetSource, from: usize, mut saver: Saver<'_>) -> Result<State> {
        let (mut about, mut sums) = start.into_sums();
        if let Some(limit) = self.class_limit() {
            sums = sums.into_iter().map(|s| s.limited(&limit)).collect();
        }
        let mut tally: Tally = about.tally.clone().into();
        let mut seen = Tally::default();
        let crew = Crew { threads: self.plan.threads(), queue: 1 };
        let progress = self.talk.progress("scan", "rows", self.plan.dataset.rows(), self.plan.dataset.bytes());
        let shared = self.wanted.features >= SHARED_FROM && self.wanted.second;
        let saved = |units: usize, about: &mut About, sums: &[Sums], tally: &Tally, saver: &mut Saver<'_>| -> Result<()> {
            saver.after(units, || {
                about.tally = tally.clone().into();
                about.progress = Some(Progress { units, of: saver_of(source) });
                State::new(about.clone(), sums.to_vec()).to_bytes()
            })
        };
        if shared {
            // One S: workers read, the caller adds.
            let mut last = from;
            pass::map_from(
                source,
                from,
                crew,
                &progress,
                |unit, blocks, out| {
                    let mut read = 0;
                    for block in blocks {
                        let mut block = block?;
                        let more = std::mem::take(&mut block.tally);
                        let first = read;
                        read += more.rows;
                        out.give((self.split(source, unit, first, block), more));
                    }
                    Ok(())
                },
                |unit, (parts, more): (Vec<Block>, Tally)| {
                    if unit > last {
                        saved(unit, &mut about, &sums, &tally, &mut saver)?;
                        last = unit;
                    }
                    sums.iter_mut().zip(parts).for_each(|(s, part)| s.update(part));
                    seen.add(more.clone());
                    tally.add(more);
                    sums.iter().try_for_each(|s| s.check())
                },
            )?;
        } else {
            pass::map_from(
                source,
                from,
                crew,
                &progress,
                |unit, blocks, out| {
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
                },
                |unit, (parts, more): (Vec<Sums>, Tally)| {
                    sums.iter_mut().zip(parts).for_each(|(all, part)| all.merge(part));
                    seen.add(more.clone());
                    tally.add(more);
                    sums.iter().try_for_each(|s| s.check())?;
                    saved(unit + 1, &mut about, &sums, &tally, &mut saver)
                },
            )?;
        }
        drop(progress);
        tell(&self.plan, &seen, self.talk);
        about.tally = tally.into();
        Ok(State::new(about, sums))
    }

    fn class_limit(&self) -> Option<ClassLimit> {
        match &self.wanted.labels {
            Some(LabelsWanted::Classes(limit)) => Some(limit.clone()),
            _ => None,
        }
    }

    /// The rows of each fold.
    fn split(&self, source: &ParquetSource, unit: usize, read: u64, block: Block) -> Vec<Block> {
        if self.folds == 1 {
            return vec![block];
        }
        let unit = &source.units()[unit];
        let (hash, first) = (self.plan.dataset.files[unit.file].footer_hash, unit.first_row + read);
        let mut rows = vec![Vec::new(); self.folds];
        (0..block.rows()).for_each(|i| rows[fold_of(self.seed, hash, first + i as u64, self.folds)].push(i));
        rows.iter().map(|rows| block.part(rows)).collect()
    }
}

fn saver_of(source: &ParquetSource) -> usize {
    source.units().len()
}

/// How labels are kept.
fn state_labels(plan: &LabelPlan) -> StateLabels {
    let LabelWant { columns, read } = &plan.want;
    StateLabels { columns: columns.clone(), classes: *read == LabelRead::Classes, numeric: plan.numeric.clone() }
}

fn labels_wanted(plan: &FitPlan, labels: &LabelPlan) -> LabelsWanted {
    match labels.want.read {
        LabelRead::Numbers => LabelsWanted::Numbers(labels.want.columns.len()),
        LabelRead::Classes => LabelsWanted::Classes(ClassLimit {
            classes: plan.most_classes,
            label: labels.want.columns.join(", "),
            hint: "a label that names each row is an id; choose another, or allow more --memory".into(),
        }),
    }
}

/// The same content twice among the files of one scan.
fn no_twins(dataset: &Dataset) -> Result<()> {
    let mut seen: HashMap<(u64, u64, u64), &PathBuf> = HashMap::new();
    for file in dataset.files.iter().filter(|f| f.rows > 0) {
        if let Some(other) = seen.insert((file.size, file.rows, file.footer_hash), &file.path) {
            let problem = format!("is the same as {}; a state counts nothing twice, leave one out", other.display());
            return Err(Error::data(Place::file(&file.path), problem));
        }
    }
    Ok(())
}

/// Units that a checkpoint has done of this very scan.
fn resumable(state: &State, start: &State, of: usize, path: &Path) -> Result<usize> {
    let refuse = |problem: &str| Err(Error::model(path, format!("{problem}; remove it, or name another --checkpoint")));
    let Some(Progress { units, of: all }) = state.about.progress else {
        return refuse("is a state, not the checkpoint of a scan");
    };
    let (mine, theirs) = (&start.about, &state.about);
    let same = (&mine.columns, &mine.labels, mine.nulls, &mine.weight, mine.fold_seed, &mine.ledger)
        == (&theirs.columns, &theirs.labels, theirs.nulls, &theirs.weight, theirs.fold_seed, &theirs.ledger);
    let fits = state.folds().len() == start.folds().len() && state.folds()[0].fits(&start.folds()[0]);
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
        Saver { path: args.checkpoint.as_deref(), every: Duration::from_secs(args.checkpoint_seconds), last: Instant::now(), of }
    }

    /// After so many units, if it is time.
    fn after(&mut self, units: usize, bytes: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        let Some(path) = self.path.filter(|_| units < self.of && self.last.elapsed() >= self.every) else { return Ok(()) };
        crate::model::container::save(path, &bytes()?)?;
        self.last = Instant::now();
        Ok(())
    }
}

/// Files of a dataset that a state does not know; those it does are passed over, changed ones refused.
pub fn only_new(state: &State, data: &[String], skip: bool, talk: Talk) -> Result<Vec<String>> {
    let dataset = Dataset::open(&crate::source::inputs::expand(data)?)?;
    let mut new = Vec::new();
    let mut known = 0;
    for (entry, file) in LedgerEntry::of(&dataset).iter().zip(&dataset.files) {
        match state.known(entry) {
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

/// Groups of a scan by group: as many in memory as there is room for, the others in a file without a name.
///
/// A group that is wanted again is read back and goes on as it was, so that its bytes do not depend on the memory.
struct Shelf {
    groups: HashMap<ClassValue, Held>,
    /// Most recently used last.
    order: std::collections::VecDeque<ClassValue>,
    file: File,
    dir: PathBuf,
    end: u64,
    /// Groups that may be in memory.
    room: usize,
    swaps: u64,
}

enum Held {
    Here(Box<Shelved>),
    Away(u64, u64),
}

struct Shelved {
    sums: Sums,
    tally: Tally,
    ledger: Vec<(usize, u64)>,
}

impl Shelf {
    fn new(dir: &Path, room: usize) -> Result<Shelf> {
        let file = tempfile::tempfile_in(dir).map_err(Error::io("create a temporary file in", dir))?;
        Ok(Shelf { groups: HashMap::new(), order: Default::default(), file, dir: dir.to_path_buf(), end: 0, room, swaps: 0 })
    }

    /// The group, fresh at first sight; another may go for it.
    fn group(&mut self, value: &ClassValue, d: usize, fresh: impl FnOnce() -> Sums) -> Result<&mut Shelved> {
        let here = matches!(self.groups.get(value), Some(Held::Here(_)));
        if !here {
            let shelved = match self.groups.get(value) {
                Some(Held::Away(at, len)) => self.read(*at, *len, d)?,
                _ => Shelved { sums: fresh(), tally: Tally::default(), ledger: Vec::new() },
            };
            while self.order.len() >= self.room {
                self.put_away()?;
            }
            self.groups.insert(value.clone(), Held::Here(Box::new(shelved)));
            self.order.push_back(value.clone());
        }
        match self.groups.get_mut(value) {
            Some(Held::Here(shelved)) => Ok(shelved),
            _ => Err(Error::Internal("a group that is here is not".into())),
        }
    }

    /// The one that has been here longest goes to the file.
    fn put_away(&mut self) -> Result<()> {
        let Some(value) = self.order.pop_front() else { return Ok(()) };
        let Some(Held::Here(shelved)) = self.groups.remove(&value) else { return Ok(()) };
        let bytes = shelved.to_bytes()?;
        self.file.write_all_at(&bytes, self.end).map_err(Error::io("write a temporary file in", &self.dir))?;
        self.groups.insert(value, Held::Away(self.end, bytes.len() as u64));
        self.end += bytes.len() as u64;
        self.swaps += 1;
        Ok(())
    }

    fn read(&self, at: u64, len: u64, d: usize) -> Result<Shelved> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, at).map_err(Error::io("read a temporary file in", &self.dir))?;
        Shelved::from_bytes(&bytes, d).map_err(|e| Error::Internal(format!("a group that was put away: {e}")))
    }

    /// All groups in the order of their values, one at a time.
    fn each(mut self, d: usize, mut take: impl FnMut(ClassValue, Shelved) -> Result<()>) -> Result<()> {
        let mut values: Vec<ClassValue> = self.groups.keys().cloned().collect();
        values.sort();
        for value in values {
            let shelved = match self.groups.remove(&value) {
                Some(Held::Here(shelved)) => *shelved,
                Some(Held::Away(at, len)) => self.read(at, len, d)?,
                None => continue,
            };
            take(value, shelved)?;
        }
        Ok(())
    }
}

impl Shelved {
    fn to_bytes(&self) -> Result<Vec<u8>> {
        use crate::model::container::{self, Content};
        let mut parts = Parts::default();
        self.sums.store("group", &mut parts);
        parts.fact("group", "tally", StateTally::from(self.tally.clone()));
        parts.fact("group", "ledger", &self.ledger);
        let tensors: Vec<_> = parts.numbers.iter().map(|(name, m)| container::matrix(name, m)).collect();
        container::to_bytes(Content::State, &parts.facts, &tensors)
    }

    fn from_bytes(bytes: &[u8], d: usize) -> std::result::Result<Shelved, String> {
        use crate::model::container::{self, Content};
        let (facts, tensors) = container::open(Content::State, bytes)?;
        let mut parts = Parts { numbers: tensors.matrices()?, facts };
        let tally: StateTally = parts.take("group", "tally")?;
        let ledger = parts.take("group", "ledger")?;
        Ok(Shelved { sums: Sums::restore("group", d, &mut parts)?, tally: tally.into(), ledger })
    }
}

impl Scan {
    /// One state per value of a column.
    fn by_group(&self, column: &str, args: &ScanArgs, started: Instant) -> Result<()> {
        let dataset = &self.plan.dataset;
        LabelPlan::new(&args.spec(), dataset, &[column.to_string()], None)?;
        let mut columns = vec![column.to_string()];
        columns.extend(self.labels.iter().flat_map(|l| l.columns.clone()));
        let want = Want { labels: Some(LabelWant { columns, read: LabelRead::Classes }), ..self.plan.want.clone() };
        let source = ParquetSource::new(dataset, want);
        let dir = args.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        crate::source::spool::check_dir(&dir, 0)?;
        let d = self.wanted.features as u64;
        let each = 4 * 8 * if self.wanted.second { d * d } else { 0 } + 64 * d * (1 + super::plan::PLANNED_CLASSES) + 4096;
        let spare = self.plan.budget.bytes.0.saturating_sub(self.plan.taken().ledger.peak_bytes());
        let mut shelf = Shelf::new(&dir, (spare / each).clamp(2, 1_000_000) as usize)?;
        let crew = Crew { threads: self.plan.threads(), queue: 1 };
        let progress = self.talk.progress("scan", "rows", dataset.rows(), dataset.bytes());
        let give = |_: usize, blocks: &mut dyn Iterator<Item = Result<Block>>, out: &pass::Output<Block>| {
            for block in blocks {
                out.give(block?);
            }
            Ok(())
        };
        let mut seen = Tally::default();
        pass::map(&source, crew, &progress, give, |unit, mut block| {
            seen.add(std::mem::take(&mut block.tally));
            self.shelve(&mut shelf, source.units()[unit].file, block)
        })?;
        drop(progress);
        tell(&self.plan, &seen, self.talk);
        if shelf.swaps > 0 {
            self.talk.say(format!(
                "{} groups did not fit the memory together, {} swaps",
                shelf.groups.len(),
                thousands(shelf.swaps)
            ));
        }
        self.write_groups(shelf, column, args, started)
    }

    /// Adds the rows of a block to their groups.
    fn shelve(&self, shelf: &mut Shelf, file: usize, mut block: Block) -> Result<()> {
        let Some(Labels::Classes { ids, classes }) = block.labels.take() else { return Ok(()) };
        let mut groups: Vec<(ClassValue, Vec<usize>)> = Vec::new();
        let mut place: HashMap<&ClassValue, usize> = HashMap::new();
        for (row, id) in ids.iter().enumerate() {
            let value = &classes[*id as usize][0];
            let at = *place.entry(value).or_insert_with(|| {
                groups.push((value.clone(), Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push(row);
        }
        for (value, rows) in groups {
            let mut part = block.part(&rows);
            part.labels = self.group_labels(&rows, &ids, &classes);
            let mut tally = Tally { rows: rows.len() as u64, ..Tally::default() };
            part.missing.iter().for_each(|cell| *tally.missing.entry(cell.feature).or_default() += 1);
            let group = shelf.group(&value, self.wanted.features, || Sums::new(&self.wanted))?;
            group.tally.add(tally);
            match group.ledger.last_mut() {
                Some((f, n)) if *f == file => *n += rows.len() as u64,
                _ => group.ledger.push((file, rows.len() as u64)),
            }
            group.sums.update(part);
            group.sums.check()?;
        }
        Ok(())
    }

    /// The labels behind the column that groups.
    fn group_labels(&self, rows: &[usize], ids: &[u32], classes: &[Class]) -> Option<Labels> {
        let labels = self.labels.as_ref()?;
        let ids: Vec<u32> = rows.iter().map(|r| ids[*r]).collect();
        if labels.classes {
            return Some(Labels::Classes { ids, classes: classes.iter().map(|c| c[1..].to_vec()).collect() });
        }
        let value = |(i, j): (usize, usize)| classes[ids[i] as usize][1 + j].number().unwrap_or(0.0);
        Some(Labels::Numbers(ndarray::Array2::from_shape_fn((ids.len(), labels.columns.len()), value)))
    }

    fn write_groups(&self, shelf: Shelf, column: &str, args: &ScanArgs, started: Instant) -> Result<()> {
        let mut values: Vec<ClassValue> = shelf.groups.keys().cloned().collect();
        values.sort();
        let names: Vec<PathBuf> = values.iter().map(|v| PathBuf::from(group_file(column, v))).collect();
        let staged = StagedDir::create(&args.output, names, None)?;
        let ledger = LedgerEntry::of(&self.plan.dataset);
        let (mut index, mut rows) = (0, 0);
        shelf.each(self.wanted.features, |value, shelved| {
            let about = About {
                ledger: shelved.ledger.iter().map(|(file, n)| LedgerEntry { rows: *n, ..ledger[*file].clone() }).collect(),
                tally: shelved.tally.into(),
                group: Some(Group { column: column.into(), value }),
                ..self.about()
            };
            rows += about.tally.rows;
            let bytes = State::new(about, vec![shelved.sums]).to_bytes()?;
            let target = staged.target(index);
            let mut file = staged.create_file(index)?;
            index += 1;
            file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(Error::io("write", target))
        })?;
        staged.commit()?;
        let seconds = started.elapsed().as_secs_f64();
        let (groups, shown) = (count(index as u64, "group"), args.output.display());
        self.talk.say(format!("{shown}: {groups} by {column}, {}, {seconds:.2} s", count(rows, "row")));
        if args.json {
            let summary = json!({"states": args.output, "by": column, "n_groups": index, "rows": rows, "seconds": seconds});
            report::print(&report::json::pretty(&summary))?;
        }
        Ok(())
    }
}

/// "species=setosa.state", with what a file name cannot hold as %XX.
fn group_file(column: &str, value: &ClassValue) -> String {
    let text = format!("{column}={value}");
    let safe = |b: u8| b.is_ascii_alphanumeric() || b"=-_+.,@ ".contains(&b);
    let name: String = text.bytes().map(|b| if safe(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect();
    let name = name.trim_start_matches('.').to_string();
    format!("{}.state", if name.len() > 200 { format!("{}~{:016x}", &name[..180], short_hash(&text)) } else { name })
}

fn short_hash(text: &str) -> u64 {
    use std::hash::Hasher;
    let mut hash = twox_hash::XxHash64::with_seed(0);
    hash.write(text.as_bytes());
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_that_files_can_have() {
        assert_eq!(group_file("species", &ClassValue::Text("a/b c".into())), "species=a%2Fb c.state");
        assert_eq!(group_file("n", &ClassValue::Int(-3)), "n=-3.state");
        let long = "x".repeat(500);
        let (a, b) = (group_file("c", &ClassValue::Text(long.clone())), group_file("c", &ClassValue::Text(format!("{long}y"))));
        assert!(a.len() < 255 && a != b);
    }
}
