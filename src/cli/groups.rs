//! `scan --by`: one state per value of a column, in one pass.
//!
//! Enters: blocks with the group of each row. Leaves: a directory of states. Holds as many groups as the memory has room
//! for; the others wait in a temporary file without a name and go on from there, so that their bytes do not depend on
//! the memory.

use super::args::ScanArgs;
use super::fit::tell;
use super::plan::{LabelPlan, PLANNED_CLASSES};
use super::scan::Scan;
use crate::accumulate::Sums;
use crate::accumulate::{Accumulate, Parts, Stored};
use crate::error::{Error, Result};
use crate::model::InputEntry;
use crate::pass;
use crate::report;
use crate::source::labels::{Class, ClassValue};
use crate::source::{Block, LabelRead, LabelWant, Labels, ParquetSource, Source, Tally, Want};
use crate::staged::StagedDir;
use crate::state::{About, Group, State, StateTally};
use crate::words::{count, thousands};
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

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
        let file =
            tempfile::tempfile_in(dir).map_err(Error::io("create a temporary file in", dir))?;
        Ok(Shelf {
            groups: HashMap::new(),
            order: Default::default(),
            file,
            dir: dir.to_path_buf(),
            end: 0,
            room,
            swaps: 0,
        })
    }

    /// The group, fresh at first sight; another may go for it.
    fn group(
        &mut self,
        value: &ClassValue,
        d: usize,
        fresh: impl FnOnce() -> Sums,
    ) -> Result<&mut Shelved> {
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
        self.file
            .write_all_at(&bytes, self.end)
            .map_err(Error::io("write a temporary file in", &self.dir))?;
        self.groups.insert(value, Held::Away(self.end, bytes.len() as u64));
        self.end += bytes.len() as u64;
        self.swaps += 1;
        Ok(())
    }

    fn read(&self, at: u64, len: u64, d: usize) -> Result<Shelved> {
        let mut bytes = vec![0; len as usize];
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(Error::io("read a temporary file in", &self.dir))?;
        Shelved::from_bytes(&bytes, d)
            .map_err(|e| Error::Internal(format!("a group that was put away: {e}")))
    }

    /// All groups in the order of their values, one at a time.
    fn each(
        mut self,
        d: usize,
        mut take: impl FnMut(ClassValue, Shelved) -> Result<()>,
    ) -> Result<()> {
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
        container::to_bytes(Content::State, &parts.facts, &container::named(&parts))
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
    pub(super) fn by_group(&self, column: &str, args: &ScanArgs, started: Instant) -> Result<()> {
        let dataset = &self.plan.dataset;
        LabelPlan::new(&args.spec(), dataset, &[column.to_string()], None)?;
        let mut columns = vec![column.to_string()];
        columns.extend(self.labels.iter().flat_map(|l| l.columns.clone()));
        let want = Want {
            labels: Some(LabelWant { columns, read: LabelRead::Classes }),
            ..self.plan.want.clone()
        };
        let source = ParquetSource::new(dataset, want);
        let dir = args.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        crate::source::spool::check_dir(&dir, 0)?;
        let d = self.wanted.features as u64;
        let each = 4 * 8 * if self.wanted.covariance { d * d } else { 0 }
            + 64 * d * (1 + PLANNED_CLASSES)
            + 4096;
        let spare = self.plan.budget.bytes.0.saturating_sub(self.plan.taken().ledger.peak_bytes());
        let mut shelf = Shelf::new(&dir, (spare / each).clamp(2, 1_000_000) as usize)?;
        let seen = pass::each_of_unit(&source, self.crew(), &self.progress(), |unit, block| {
            self.shelve(&mut shelf, source.units()[unit].input, block)
        })?;
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
            part.missing
                .iter()
                .for_each(|cell| *tally.missing.entry(cell.feature).or_default() += 1);
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
            return Some(Labels::Classes {
                ids,
                classes: classes.iter().map(|c| c[1..].to_vec()).collect(),
            });
        }
        let value =
            |(i, j): (usize, usize)| classes[ids[i] as usize][1 + j].number().unwrap_or(0.0);
        Some(Labels::Numbers(ndarray::Array2::from_shape_fn(
            (ids.len(), labels.columns.len()),
            value,
        )))
    }

    fn write_groups(
        &self,
        shelf: Shelf,
        column: &str,
        args: &ScanArgs,
        started: Instant,
    ) -> Result<()> {
        let mut values: Vec<ClassValue> = shelf.groups.keys().cloned().collect();
        values.sort();
        let names: Vec<PathBuf> =
            values.iter().map(|v| PathBuf::from(group_file(column, v))).collect();
        let staged = StagedDir::create(&args.output, names, None)?;
        let ledger = InputEntry::of(&self.plan.dataset);
        let (mut index, mut rows) = (0, 0);
        shelf.each(self.wanted.features, |value, shelved| {
            let about = About {
                ledger: shelved
                    .ledger
                    .iter()
                    .map(|(file, n)| InputEntry { rows: *n, ..ledger[*file].clone() })
                    .collect(),
                tally: shelved.tally.into(),
                group: Some(Group { column: column.into(), value }),
                ..self.about()
            };
            rows += about.tally.rows;
            let bytes = State::new(about, vec![shelved.sums]).to_bytes()?;
            let target = staged.target(index);
            let mut file = staged.create_file(index)?;
            index += 1;
            file.write_all(&bytes)
                .and_then(|()| file.sync_all())
                .map_err(Error::io("write", target))
        })?;
        staged.commit()?;
        let seconds = started.elapsed().as_secs_f64();
        let (groups, shown) = (count(index as u64, "group"), args.output.display());
        self.talk
            .say(format!("{shown}: {groups} by {column}, {}, {seconds:.2} s", count(rows, "row")));
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
    let name: String = text
        .bytes()
        .map(|b| if safe(b) { (b as char).to_string() } else { format!("%{b:02X}") })
        .collect();
    let name = name.trim_start_matches('.').to_string();
    format!(
        "{}.state",
        if name.len() > 200 {
            format!("{}~{:016x}", &name[..180], twox_hash::XxHash64::oneshot(0, text.as_bytes()))
        } else {
            name
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_that_files_can_have() {
        assert_eq!(
            group_file("species", &ClassValue::Text("a/b c".into())),
            "species=a%2Fb c.state"
        );
        assert_eq!(group_file("n", &ClassValue::Int(-3)), "n=-3.state");
        let long = "x".repeat(500);
        let (a, b) = (
            group_file("c", &ClassValue::Text(long.clone())),
            group_file("c", &ClassValue::Text(format!("{long}y"))),
        );
        assert!(a.len() < 255 && a != b);
    }
}
