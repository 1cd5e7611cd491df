//! argv → arguments: which options were typed, and tips for those that do not exist.
//!
//! Enters: the command line. Leaves: [`Cli`] and [`Typed`], or clap's error with such tips only as
//! are near in spelling.

use super::args::Cli;
use crate::fit::no_effect::Unused;
use crate::note::Note;
use crate::source::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// The options that were typed, by their long names: also those that have the value they would have
/// anyway.
#[derive(Debug, Clone, Default)]
pub(super) struct Typed(BTreeSet<String>);

impl Typed {
    fn of(command: &Command, matches: &ArgMatches) -> Typed {
        let Some((name, matches)) = matches.subcommand() else { return Typed::default() };
        let Some(command) = command.find_subcommand(name) else { return Typed::default() };
        let typed = |id: &str| {
            let known = matches.try_contains_id(id).unwrap_or(false);
            known && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let arguments = command.get_arguments().filter(|a| typed(a.get_id().as_str()));
        Typed(arguments.filter_map(|a| a.get_long().map(str::to_string)).collect())
    }

    /// Whether an option was typed.
    pub(super) fn has(&self, option: &str) -> bool {
        self.0.contains(option)
    }

    /// What is told of options that were typed with the value they have anyway; others are told by
    /// the plan.
    pub(super) fn notes<'a>(&'a self, unused: &'a [Unused]) -> impl Iterator<Item = Note> + 'a {
        unused.iter().filter(|u| !u.given && self.has(u.option)).map(Unused::note)
    }

    /// Of an option that is of another one, which was not given.
    pub(super) fn without(&self, option: &'static str, other: &str, given: bool) -> Option<Note> {
        let sentence = format!("⟦{option}⟧ has no effect without ⟦{other}⟧");
        (self.has(option) && !given).then(|| Unused::new(option, true, sentence).note())
    }
}

/// What was typed, or clap's own way out: help, version, or an error.
pub(super) fn parse() -> (Cli, Typed) {
    let args: Vec<OsString> = std::env::args_os().collect();
    let mut command = Cli::command();
    let parsed = command.try_get_matches_from_mut(&args);
    let matches = parsed.unwrap_or_else(|error| near_tips(error, &mut command, &args).exit());
    let typed = Typed::of(&command, &matches);
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => (cli, typed),
        Err(error) => error.format(&mut command).exit(),
    }
}

/// The error with tips that are a slip away from what was typed, and no others.
fn near_tips(mut error: clap::Error, command: &mut Command, args: &[OsString]) -> clap::Error {
    match error.kind() {
        ErrorKind::UnknownArgument => unknown_argument(&mut error, command, args),
        ErrorKind::InvalidSubcommand => {
            let names = command.get_subcommands().map(|c| c.get_name().to_string()).collect();
            error.remove(ContextKind::SuggestedSubcommand);
            if let Some(near) = near(&error, ContextKind::InvalidSubcommand, names) {
                let tip = ContextValue::Strings(vec![near]);
                error.insert(ContextKind::SuggestedSubcommand, tip);
            }
        }
        ErrorKind::InvalidValue => {
            let values = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) => values.clone(),
                _ => Vec::new(),
            };
            error.remove(ContextKind::SuggestedValue);
            if let Some(near) = near(&error, ContextKind::InvalidValue, values) {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(near));
            }
        }
        _ => return error,
    }
    error.remove(ContextKind::Suggested);
    error
}

/// Which of these is meant by what was typed.
fn near(error: &clap::Error, typed: ContextKind, names: Vec<String>) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(typed) else { return None };
    nearest(typed, names.iter().map(String::as_str))
}

fn unknown_argument(error: &mut clap::Error, command: &mut Command, args: &[OsString]) {
    error.remove(ContextKind::SuggestedArg);
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return };
    let typed = typed.trim_start_matches('-').to_string();
    command.build();
    let named = args.iter().skip(1).filter_map(|a| a.to_str());
    let Some(name) = named.into_iter().find(|a| command.find_subcommand(a).is_some()) else {
        return;
    };
    let Some(of) = command.find_subcommand_mut(name) else { return };
    error.insert(ContextKind::Usage, ContextValue::StyledStr(of.render_usage()));
    let longs = of.get_arguments().filter(|a| !a.is_hide_set()).filter_map(|a| a.get_long());
    // A letter is no word that could be misspelt.
    if let Some(near) = nearest(&typed, longs).filter(|_| typed.chars().count() > 1) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{near}")));
    }
}
