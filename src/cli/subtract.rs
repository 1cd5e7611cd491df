//! `subtract`: a state less one that was added to it.

use super::args::SubtractArgs;
use super::scan::describe;
use super::solve::within;
use super::talk::Talk;
use super::writing;
use crate::error::Result;
use crate::listen::Listener;
use crate::note::Note;
use crate::staged::check_file;
use crate::state::{State, WARN_FROM_DIGITS};

pub(super) fn run(args: &SubtractArgs, talk: &Talk) -> Result<()> {
    check_file(&args.output)?;
    let mut state = State::load(&args.state)?;
    state.subtract(State::load(&args.part)?).map_err(|e| within(&args.part, e))?;
    let digits = state.lost_digits();
    if digits >= WARN_FROM_DIGITS {
        talk.note(&Note::LittleLeft(digits));
    }
    talk.during(writing(&args.output), || state.save(&args.output))?;
    talk.say(format!("{}: {}", args.output.display(), describe(&state)));
    Ok(())
}
