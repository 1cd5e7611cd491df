//! `subtract`: a state less one that was added to it.

use super::args::{SubtractArgs, waiting};
use super::scan::describe;
use super::solve::within;
use super::talk::Talk;
use super::writing;
use crate::error::Result;
use crate::listen::Listener;
use crate::note::Note;
use crate::state::{State, StateFile, WARN_FROM_DIGITS};

pub(super) fn run(args: &SubtractArgs, talk: &Talk) -> Result<()> {
    let output = StateFile::lock(&args.output, waiting(args.no_wait), talk)?;
    let mut state = State::load(&args.state)?;
    state.subtract(State::load(&args.part)?).map_err(|e| within(&args.part, e))?;
    let digits = state.lost_digits();
    if digits >= WARN_FROM_DIGITS {
        talk.note(&Note::LittleLeft(digits));
    }
    talk.during(writing(&args.output), || output.save(&state))?;
    talk.say(format!("{}: {}", args.output.display(), describe(&state)));
    Ok(())
}
