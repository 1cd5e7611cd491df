//! `merge`: states → one state.

use super::args::{MergeArgs, waiting};
use super::scan::{STATE, describe};
use super::shards;
use super::solve::within;
use super::talk::Talk;
use super::writing;
use crate::error::{Error, Result};
use crate::listen::{Listener, Stage, Watch};
use crate::note::Note;
use crate::state::{State, StateFile};
use std::path::PathBuf;

pub(super) fn run(args: &MergeArgs, talk: &Talk) -> Result<()> {
    // It may be one of them: what is read is what is replaced.
    let output = StateFile::lock(&args.output, waiting(args.no_wait), talk)?;
    let files = files(&args.states)?;
    let mut states = files.iter();
    let first = states.next().ok_or_else(|| Error::Misuse("there is nothing to merge".into()))?;
    let mut all = State::load(first)?;
    if all.about.progress.is_some() {
        let problem = "is the checkpoint of a scan that is not done; finish the scan first";
        return Err(Error::model(first, problem));
    }
    let stage = Stage::new("adding up", "states", files.len() as u64 - 1);
    let watch = Watch::new(talk, stage);
    for path in states {
        let next = State::load(path)?;
        if args.skip_known && all.has_inputs_of(&next).map_err(|e| within(path, e))? {
            talk.note(&Note::KnownState(path.display().to_string()));
        } else {
            all.merge(next).map_err(|e| within(path, e))?;
        }
        watch.advance(1, 0)?;
    }
    drop(watch);
    talk.during(writing(&args.output), || output.save(&all))?;
    talk.say(format!("{}: {}", args.output.display(), describe(&all)));
    Ok(())
}

/// The states that were named, those of directories among them.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let files = |path: &PathBuf| match path.is_dir() {
        true => shards::all_in(path, STATE),
        false => Ok(vec![path.clone()]),
    };
    Ok(named.iter().map(files).collect::<Result<Vec<_>>>()?.concat())
}
