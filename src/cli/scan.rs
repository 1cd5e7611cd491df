//! `scan`: files → a state, or one per group.

use super::args::ScanArgs;
use super::fit::announce;
use super::talk::Talk;
use super::typed::Typed;
use super::{open, print_json, shards, writing};
use crate::error::Result;
use crate::listen::{Stage, Watch};
use crate::note::Note;
use crate::staged::{StagedDir, check_dir, check_file};
use crate::state::{Group, ScanPlan, State};
use crate::words::{count, path_text};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// States of groups that are synced at once. One each would be most of the time that many groups
/// take; all in the end would be seconds in which no signal ends the process; and what is synced
/// takes longer to remove.
const SYNCED_TOGETHER: usize = 50_000;

/// What files of states end in, where we name them.
pub(super) const STATE: &str = "state";

/// Runs a scan and writes the state, or one per group.
pub(super) fn run(args: &ScanArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    let started = Instant::now();
    let dataset = open(&args.data, &args.resources, talk)?;
    let scan = args.scan().plan(&dataset)?;
    talk.notes(&scan.notes());
    talk.notes(&unused(args, typed));
    announce(scan.plan(), &dataset, talk);
    scan.check()?;
    dataset.refuse_output(&args.data, &args.output)?;
    if args.by.is_some() {
        check_dir(&args.output)?;
        return groups(args, &scan, talk, started);
    }
    let output = match args.shard {
        Some(shard) => shards::file_in(&args.output, shard, STATE)?,
        None => args.output.clone(),
    };
    check_file(&output)?;
    let checkpoint = args.checkpoint.apart_from(&[&output])?;
    let state = scan.run_onto(None, checkpoint.as_ref(), talk)?;
    let classes = state.about.labels.as_ref().is_some_and(|labels| labels.classes);
    talk.notes(&state.label_notes(|_| !classes));
    talk.during(writing(&output), || state.save(&output))?;
    checkpoint.iter().for_each(|c| c.remove());
    let seconds = started.elapsed().as_secs_f64();
    talk.say(format!("{}: {}, {seconds:.2} s", output.display(), describe(&state)));
    args.shard.map_or(Ok(()), |shard| shards::told(&args.output, shard, STATE, talk))?;
    match args.json {
        false => Ok(()),
        true => print_json(&json!({
            "state": path_text(&output),
            "rows": state.rows(),
            "seconds": seconds,
            "about": state.about,
        })),
    }
}

/// Options of others that were not given.
fn unused(args: &ScanArgs, typed: &Typed) -> Vec<Note> {
    let all = [
        ("seed", "folds", args.folds.is_some()),
        ("temp-dir", "by", args.by.is_some()),
        ("checkpoint-seconds", "checkpoint", args.checkpoint.checkpoint.is_some()),
        ("classes", "label", !args.label.is_empty()),
    ];
    all.into_iter().filter_map(|(name, of, given)| typed.without(name, of, given)).collect()
}

/// "4,000,000 rows × 64 features from 8 files".
pub(super) fn describe(state: &State) -> String {
    format!(
        "{} × {} from {}",
        count(state.rows(), "row"),
        count(state.about.columns.len() as u64, "feature"),
        count(state.about.ledger.len() as u64, "file")
    )
}

/// A directory of states.
fn groups(args: &ScanArgs, scan: &ScanPlan<'_>, talk: &Talk, started: Instant) -> Result<()> {
    let states = scan.run_groups(talk)?;
    let names: Vec<PathBuf> = states.groups().iter().map(|g| group_file(g).into()).collect();
    let column = scan.grouped_by().unwrap_or_default();
    let staged = StagedDir::create(&args.output, names, None)?;
    let (mut index, mut rows) = (0, 0);
    let stage = Stage::new("writing", "groups", states.groups().len() as u64);
    let watch = Watch::new(talk, stage);
    states.each(|state| {
        rows += state.rows();
        staged.write_unsynced(index, &state.to_bytes()?)?;
        index += 1;
        if index % SYNCED_TOGETHER == 0 {
            staged.sync_all()?;
        }
        watch.advance(1, 0)
    })?;
    drop(watch);
    staged.sync_all()?;
    staged.commit()?;
    let seconds = started.elapsed().as_secs_f64();
    let (groups, shown) = (count(index as u64, "group"), args.output.display());
    talk.say(format!("{shown}: {groups} by {column}, {}, {seconds:.2} s", count(rows, "row")));
    match args.json {
        false => Ok(()),
        true => print_json(&json!({
            "states": path_text(&args.output),
            "by": column,
            "n_groups": index,
            "rows": rows,
            "seconds": seconds,
        })),
    }
}

/// "species=setosa.state", with what a file name cannot hold as %XX.
fn group_file(Group { column, value }: &Group) -> String {
    let text = format!("{column}={value}");
    let safe = |b: u8| b.is_ascii_alphanumeric() || b"=-_+.,@ ".contains(&b);
    let escaped = |b| if safe(b) { (b as char).to_string() } else { format!("%{b:02X}") };
    let name: String = text.bytes().map(escaped).collect();
    let name = name.trim_start_matches('.');
    if name.len() <= 200 {
        return format!("{name}.state");
    }
    let hash = twox_hash::XxHash64::oneshot(0, text.as_bytes());
    format!("{}~{hash:016x}.state", &name[..180])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ClassValue;

    #[test]
    fn groups_have_names_that_files_can_have() {
        let name = |column: &str, value| group_file(&Group { column: column.into(), value });
        let text = |t: &str| ClassValue::Text(t.into());
        assert_eq!(name("species", text("a/b c")), "species=a%2Fb c.state");
        assert_eq!(name("n", ClassValue::Int(-3)), "n=-3.state");
        let long = "x".repeat(500);
        let (a, b) = (name("c", text(&long)), name("c", text(&format!("{long}y"))));
        assert!(a.len() < 255 && a != b);
    }
}
