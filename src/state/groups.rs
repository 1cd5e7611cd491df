//! One state per value of a column, in one pass.
//!
//! Enters: blocks with the group of each row. Leaves: states, in the order of their values. Holds
//! as many groups as the memory has room for; the others wait in a temporary file without a name
//! and go on from there, so that their bytes do not depend on the memory.

use super::scan::ScanPlan;
use super::{Group, State};
use crate::accumulate::{Accumulate, Parts, Stored, Sums, SumsKind};
use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::fit::PLANNED_CLASSES;
use crate::fit::assemble::tally_notes;
use crate::fit::check::label_problem;
use crate::fit::cost::group_bytes;
use crate::fit::{Fit, LabelOptions};
use crate::listen::{Listener, Watch};
use crate::model::InputEntry;
use crate::model::container::{self, Content};
use crate::note::Note;
use crate::pass;
use crate::scratch::{self, Scratch};
use crate::source::labels::{Class, ClassValue};
use crate::source::{Block, LabelRead, LabelRequest, Labels, ReadRequest, Tally, WholeLabels};
use crate::workers::Crew;
use std::collections::{HashMap, VecDeque};
use std::path::Path;

/// The name of a group is held in the index, among those in memory, and twice when all are written.
const NAME_COPIES: u64 = 4;

/// The sums of all groups of a scan.
pub struct GroupStates<'s, 't> {
    scan: &'s ScanPlan<'t>,
    column: String,
    store: GroupStore,
}

/// The sums of one group, on their way.
struct GroupSums {
    sums: Sums,
    tally: Tally,
    /// Rows by input.
    inputs: Vec<(usize, u64)>,
}

/// Where a group is.
enum Placement {
    Resident(Box<GroupSums>),
    /// Offset and length in the file.
    Spilled(u64, u64),
}

/// Groups: as many in memory as there is room for, the others in a file.
struct GroupStore {
    /// The column that groups.
    column: String,
    groups: HashMap<ClassValue, Placement>,
    /// Those in memory, the one that came first at the front.
    resident: VecDeque<ClassValue>,
    file: Scratch,
    end: u64,
    /// Groups that may be in memory.
    room: usize,
    swaps: u64,
    /// Features.
    d: usize,
    /// What the names of all groups take, and may.
    name_bytes: u64,
    most_name_bytes: u64,
}

impl GroupStore {
    fn new(dir: &Path, column: String, scan: &ScanPlan<'_>) -> Result<GroupStore> {
        Ok(GroupStore {
            column,
            groups: HashMap::new(),
            resident: VecDeque::new(),
            file: Scratch::create(dir)?,
            end: 0,
            room: scan.groups_in_memory(),
            swaps: 0,
            d: scan.kind.features,
            name_bytes: 0,
            most_name_bytes: scan.spare() / 4,
        })
    }

    /// The group, fresh at first sight; another may go for it.
    fn group(
        &mut self,
        value: &ClassValue,
        fresh: impl FnOnce() -> Sums,
    ) -> Result<&mut GroupSums> {
        let spilled = match self.groups.get(value) {
            Some(Placement::Resident(_)) => None,
            Some(Placement::Spilled(at, len)) => Some(self.read(*at, *len)?),
            None => {
                self.name_bytes += NAME_COPIES * value.text_bytes();
                Some(GroupSums { sums: fresh(), tally: Tally::default(), inputs: Vec::new() })
            }
        };
        if self.name_bytes > self.most_name_bytes {
            return Err(self.long_names());
        }
        if let Some(group) = spilled {
            while self.resident.len() >= self.room {
                self.spill_oldest()?;
            }
            self.groups.insert(value.clone(), Placement::Resident(Box::new(group)));
            self.resident.push_back(value.clone());
        }
        match self.groups.get_mut(value) {
            Some(Placement::Resident(group)) => Ok(group),
            _ => Err(Error::Internal("a group that is in memory is not".into())),
        }
    }

    fn long_names(&self) -> Error {
        let names = Bytes(self.name_bytes / NAME_COPIES);
        let hint =
            format!("their names alone take {names}: ⟦by⟧ shorter values, or allow more ⟦memory⟧");
        Error::TooManyClasses { label: self.column.clone(), classes: self.groups.len(), hint }
    }

    /// The one that has been in memory longest goes to the file.
    fn spill_oldest(&mut self) -> Result<()> {
        let Some(value) = self.resident.pop_front() else { return Ok(()) };
        let Some(Placement::Resident(group)) = self.groups.remove(&value) else { return Ok(()) };
        let bytes = group.to_bytes()?;
        self.file.write(&bytes, self.end)?;
        let len = bytes.len() as u64;
        self.groups.insert(value, Placement::Spilled(self.end, len));
        self.end += len;
        self.swaps += 1;
        Ok(())
    }

    fn read(&self, at: u64, len: u64) -> Result<GroupSums> {
        let mut bytes = vec![0; len as usize];
        self.file.read(&mut bytes, at)?;
        GroupSums::from_bytes(&bytes, self.d)
            .map_err(|e| Error::Internal(format!("a group that was put away: {e}")))
    }

    fn values(&self) -> Vec<ClassValue> {
        let mut values: Vec<ClassValue> = self.groups.keys().cloned().collect();
        values.sort();
        values
    }

    fn take(&mut self, value: &ClassValue) -> Result<Option<GroupSums>> {
        match self.groups.remove(value) {
            Some(Placement::Resident(group)) => Ok(Some(*group)),
            Some(Placement::Spilled(at, len)) => self.read(at, len).map(Some),
            None => Ok(None),
        }
    }
}

impl GroupSums {
    fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut parts = Parts::default();
        self.sums.store("group", &mut parts);
        parts.fact("group", "tally", &self.tally);
        parts.fact("group", "inputs", &self.inputs);
        let Parts { numbers, facts } = parts;
        container::to_bytes(Content::State, &facts, &container::named(numbers))
    }

    fn from_bytes(bytes: &[u8], d: usize) -> std::result::Result<GroupSums, String> {
        let (facts, tensors) = container::open(Content::State, bytes)?;
        let mut parts = Parts { numbers: tensors.matrices()?, facts };
        let tally = parts.take("group", "tally")?;
        let inputs = parts.take("group", "inputs")?;
        Ok(GroupSums { sums: Sums::restore("group", d, &mut parts)?, tally, inputs })
    }
}

impl<'t> ScanPlan<'t> {
    /// Adds up the rows of each value of the column that groups.
    pub fn run_groups(&self, listener: &dyn Listener) -> Result<GroupStates<'_, 't>> {
        self.check()?;
        let Some(column) = &self.by else {
            return Error::misuse("a scan without ⟦by⟧ has no groups");
        };
        let (plan, table) = (self.plan(), self.plan().table);
        let as_label = Fit { labels: LabelOptions::from([column.as_str()]), ..Fit::default() };
        label_problem(&as_label, table, std::slice::from_ref(column), None)?;
        let labels = self.labels.iter().flat_map(|l| &l.columns);
        let columns = std::iter::once(column).chain(labels).cloned().collect();
        let mut request = ReadRequest {
            labels: Some(LabelRequest { columns, read: LabelRead::Classes }),
            ..plan.problem.request.clone()
        };
        // Groups have the other half of what is free.
        request.limit = request.limit.halved();
        let dir = &plan.problem.temp_dir;
        scratch::check_dir(dir, 0)?;
        let mut store = GroupStore::new(dir, column.clone(), self)?;
        let source = table.read(&request)?;
        let crew = Crew { threads: plan.threads(), queue: 1 };
        let watch = Watch::new(listener, pass::stage("reading", "rows", &*source, 0));
        let seen = pass::each_of_unit(&*source, crew, &watch, |unit, block| {
            self.add_to_groups(&mut store, source.units()[unit].input, block)
        })?;
        drop(watch);
        let notes = tally_notes(&request.features, request.nulls, &seen);
        notes.iter().for_each(|note| listener.note(note));
        if store.swaps > 0 {
            let (groups, swaps) = (store.groups.len(), store.swaps);
            listener.note(&Note::GroupsSwapped { groups, swaps });
        }
        Ok(GroupStates { scan: self, column: column.clone(), store })
    }

    /// Bytes that the plan leaves free: a half is for pages, a quarter for sums and one for names.
    fn spare(&self) -> u64 {
        let peak = self.plan().taken().memory.peak_bytes();
        self.plan().budget().bytes.0.saturating_sub(peak)
    }

    fn groups_in_memory(&self) -> usize {
        let SumsKind { features, covariance, .. } = self.kind;
        let each = group_bytes(features as u64, covariance, PLANNED_CLASSES);
        (self.spare() / 4 / each).clamp(2, 1_000_000) as usize
    }

    /// Adds the rows of a block to their groups.
    fn add_to_groups(&self, store: &mut GroupStore, input: usize, mut block: Block) -> Result<()> {
        let Some(Labels::Classes { ids, classes }) = block.labels.take() else { return Ok(()) };
        for (value, rows) in rows_by_group(&ids, &classes) {
            let mut part = block.select_rows(&rows);
            part.labels = self.labels_behind(&rows, &ids, &classes);
            let n = rows.len() as u64;
            let whole_labels = part.labels.as_ref().map(WholeLabels::of).unwrap_or_default();
            let weight_squares = part.weights.iter().flatten().map(|w| w * w).sum();
            let mut tally = Tally { rows: n, whole_labels, weight_squares, ..Tally::default() };
            for cell in &part.missing {
                *tally.missing.entry(cell.feature).or_default() += 1;
            }
            let group = store.group(&value, || Sums::new(&self.kind))?;
            group.tally.add(tally);
            match group.inputs.last_mut() {
                Some((last, rows)) if *last == input => *rows += n,
                _ => group.inputs.push((input, n)),
            }
            group.sums.update(part);
            group.sums.check()?;
        }
        Ok(())
    }

    /// The labels behind the column that groups.
    fn labels_behind(&self, rows: &[usize], ids: &[u32], classes: &[Class]) -> Option<Labels> {
        let labels = self.labels.as_ref()?;
        let ids: Vec<u32> = rows.iter().map(|r| ids[*r]).collect();
        if labels.classes {
            let classes = classes.iter().map(|c| c[1..].to_vec()).collect();
            return Some(Labels::Classes { ids, classes });
        }
        let value =
            |(i, j): (usize, usize)| classes[ids[i] as usize][1 + j].number().unwrap_or(0.0);
        let shape = (ids.len(), labels.columns.len());
        Some(Labels::Numbers(ndarray::Array2::from_shape_fn(shape, value)))
    }
}

/// Rows of each group, groups in the order they appear.
fn rows_by_group(ids: &[u32], classes: &[Class]) -> Vec<(ClassValue, Vec<usize>)> {
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
    groups
}

impl GroupStates<'_, '_> {
    /// The groups, in the order of their values.
    pub fn groups(&self) -> Vec<Group> {
        let column = &self.column;
        let group = |value| Group { column: column.clone(), value };
        self.store.values().into_iter().map(group).collect()
    }

    /// All states, in the same order, one at a time.
    pub fn each(mut self, mut take: impl FnMut(State) -> Result<()>) -> Result<()> {
        let entries = InputEntry::of(self.scan.plan().table);
        for group in self.groups() {
            let Some(GroupSums { sums, tally, inputs }) = self.store.take(&group.value)? else {
                continue;
            };
            let entry = |(at, rows): &(usize, u64)| {
                Some(InputEntry { rows: *rows, ..entries.get(*at)?.clone() })
            };
            let mut about = self.scan.about();
            about.ledger = inputs.iter().filter_map(entry).collect();
            about.tally = tally;
            about.group = Some(group);
            take(State::new(about, vec![sums]))?;
        }
        Ok(())
    }
}
