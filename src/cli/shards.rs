//! A directory that several processes fill, each with a file of its own shard.
//!
//! Names come from the shards, files appear whole, and the same shard gives the same bytes: any of
//! them may be run again. Whoever finds all of them there writes `_SUCCESS`.

use super::talk::Talk;
use crate::error::{Error, Result};
use crate::source::Shard;
use crate::staged::StagedFile;
use crate::words::{count, some};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Says that all shards are there, and which.
const SUCCESS: &str = "_SUCCESS";

/// The file of a shard, in a directory that is made for it.
pub(super) fn file_in(dir: &Path, shard: Shard, extension: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    let others = found(dir, extension)?.into_iter().find(|other| other.of != shard.of);
    match others {
        None => Ok(dir.join(shard.file_name(extension))),
        Some(other) => Err(Error::model(
            dir,
            format!("has {other} in it, and this is one of {}; name another directory", shard.of),
        )),
    }
}

/// Tells which shards are still missing, or that all are there.
pub(super) fn told(dir: &Path, shard: Shard, extension: &str, talk: &Talk) -> Result<()> {
    let there = found(dir, extension)?;
    let missing = missing(&there, shard.of);
    if !missing.is_empty() {
        let left = count(missing.len() as u64, "shard");
        talk.say(format!("{}: {left} of {} to come: {}", dir.display(), shard.of, some(&missing)));
        return Ok(());
    }
    let names: Vec<String> = there.iter().map(|shard| shard.file_name(extension)).collect();
    let path = dir.join(SUCCESS);
    let mut staged = StagedFile::create(&path)?;
    let text = format!("{:#}\n", json!({ "shards": shard.of, "files": names }));
    staged.file().write_all(text.as_bytes()).map_err(Error::io("write", &path))?;
    staged.commit()?;
    talk.say(format!("{}: all {} are there", dir.display(), count(shard.of as u64, "shard")));
    Ok(())
}

/// The files to be merged that a directory stands for: its shards, all of which must be there, in
/// their order; or all that it has.
pub(super) fn all_in(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let there = found(dir, extension)?;
    let Some(first) = there.first() else { return others_in(dir, extension) };
    if let Some(other) = there.iter().find(|other| other.of != first.of) {
        return Err(Error::model(dir, format!("has {first} and {other}; keep those of one cut")));
    }
    let missing = missing(&there, first.of);
    if !missing.is_empty() {
        let left = count(missing.len() as u64, "shard");
        let problem = format!(
            "{left} of {} not there: {}; run with ⟦shard⟧ for each",
            first.of,
            some(&missing)
        );
        return Err(Error::model(dir, problem));
    }
    Ok(there.iter().map(|shard| dir.join(shard.file_name(extension))).collect())
}

/// The files of all shards, in their order; `None` while some are missing.
pub(super) fn complete(dir: &Path, extension: &str) -> Result<Option<Vec<PathBuf>>> {
    let there = found(dir, extension)?;
    let Some(first) = there.first() else { return Ok(None) };
    match missing(&there, first.of).is_empty() {
        true => all_in(dir, extension).map(Some),
        false => Ok(None),
    }
}

/// Shards by the names of their files, in order.
fn found(dir: &Path, extension: &str) -> Result<Vec<Shard>> {
    let names = names(dir)?;
    let mut shards: Vec<Shard> =
        names.iter().filter_map(|name| Shard::of_file_name(name, extension)).collect();
    shards.sort_by_key(|shard| (shard.of, shard.from));
    Ok(shards)
}

fn others_in(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let end = format!(".{extension}");
    let mut names = names(dir)?;
    names.retain(|name| name.ends_with(&end) && !name.starts_with('.'));
    names.sort();
    match names.is_empty() {
        true => Err(Error::model(dir, format!("has no {end} file in it"))),
        false => Ok(names.iter().map(|name| dir.join(name)).collect()),
    }
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("read", dir))?;
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.map_err(Error::io("read", dir))?;
        Ok(entry.file_name().into_string().ok())
    };
    entries.filter_map(|entry| name(entry).transpose()).collect()
}

/// "2/4" of those that are not there.
fn missing(there: &[Shard], of: usize) -> Vec<String> {
    let mut next = there.iter().map(|shard| shard.from).peekable();
    let mut is_missing = |index: &usize| next.next_if_eq(index).is_none();
    (1..=of).filter(|index| is_missing(index)).map(|index| format!("{index}/{of}")).collect()
}
