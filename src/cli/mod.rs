//! The command line: arguments as typed → the library → words and files. One file per command.

pub(crate) mod args;
mod demo;
mod fit;
mod generate;
mod hsic;
mod inspect;
mod merge;
mod passes;
mod plan;
mod process;
mod product;
mod reconstruct;
mod scan;
mod shards;
mod solve;
mod subtract;
mod talk;
mod transform;
mod typed;

use crate::budget::{self, Budget};
use crate::error::{Error, Result};
use crate::source::Dataset;
use crate::words::one_line;
use crate::{staged, workers};
use args::{Cli, Command, ResourceArgs};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use talk::Talk;
use typed::Typed;

pub use process::check_address_space;

/// The whole program: argv → run → exit code.
pub fn main() -> ExitCode {
    budget::keep_freed_memory();
    process::fail_on_large_files();
    process::with_stack(work).unwrap_or_else(|error| {
        eprintln!("eigenstream: {error}");
        ExitCode::from(error.exit_code())
    })
}

fn work() -> ExitCode {
    let (cli, typed) = typed::parse();
    workers::record_panics();
    let command = name(&cli.command);
    let stopped = move |left: &str| tell_stopped(command, left);
    let done =
        staged::exit_on_signals(stopped).and_then(|()| workers::caught(|| run(&cli, &typed)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            let said = one_line(&phrase(&error.sentence()));
            eprintln!("{}: {said}", name(&cli.command));
            ExitCode::from(error.exit_code())
        }
    }
}

/// The last line of a run that a signal ends, in place of a bar.
fn tell_stopped(command: &str, left: &str) {
    let mut out = std::io::stderr();
    let clear = if out.is_terminal() { "\r\x1b[2K" } else { "" };
    let _ = writeln!(out, "{clear}{command}: stopped; {left}");
}

/// The name of a command, which errors begin with.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Plan(_) => "plan",
        Command::Fit(_) => "fit",
        Command::Transform(_) => "transform",
        Command::Reconstruct(_) => "reconstruct",
        Command::Inspect(_) => "inspect",
        Command::Hsic(_) => "hsic",
        Command::Scan(_) => "scan",
        Command::Product(_) => "product",
        Command::Merge(_) => "merge",
        Command::Subtract(_) => "subtract",
        Command::Solve(_) => "solve",
        Command::Generate(_) => "generate",
        Command::Demo(_) => "demo",
    }
}

fn run(cli: &Cli, typed: &Typed) -> Result<()> {
    let talk = &Talk::new(name(&cli.command), cli.quiet);
    match &cli.command {
        Command::Plan(args) => plan::run(args, talk, typed),
        Command::Fit(args) => fit::run(args, talk, typed),
        Command::Transform(args) => transform::run(args, talk),
        Command::Reconstruct(args) => reconstruct::run(args, talk, typed),
        Command::Inspect(args) => inspect::run(args),
        Command::Hsic(args) => hsic::run(args, talk, typed),
        Command::Scan(args) => scan::run(args, talk, typed),
        Command::Product(args) => product::run(args, talk),
        Command::Merge(args) => merge::run(args, talk),
        Command::Subtract(args) => subtract::run(args, talk),
        Command::Solve(args) => solve::run(args, talk, typed),
        Command::Generate(args) => generate::run(args, talk),
        Command::Demo(args) => demo::run(args, talk),
    }
}

/// A sentence with its options as they are typed: `⟦nulls=drop⟧` becomes `--nulls drop`.
fn phrase(sentence: &str) -> String {
    crate::error::phrase(sentence, |name, value| {
        let flag = match name {
            "components" => "-k".to_string(),
            "output" => "-o".to_string(),
            name => format!("--{name}"),
        };
        match value {
            // The shell would take it for the name of a file.
            Some(value) if value.contains('>') => format!("{flag} '{value}'"),
            Some(value) => format!("{flag} {value}"),
            None => flag,
        }
    })
}

/// The files that were named, as far as their footers tell.
fn open(data: &[OsString], resources: &ResourceArgs, talk: &Talk) -> Result<Dataset> {
    let budget = Budget::new(resources.memory);
    talk.during("reading footers", || Dataset::from_paths_within(data, &budget))
}

/// What is done while a file is written.
fn writing(path: &Path) -> String {
    format!("writing {}", path.display())
}

/// Writes a result to stdout. A reader that went away is told from other errors by
/// [`Error::is_broken_pipe`].
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end));
    written.and_then(|()| out.flush()).map_err(Error::io("write", "standard output"))
}

/// The same, as JSON.
fn print_json(value: &serde_json::Value) -> Result<()> {
    print(&crate::report::json::pretty(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Every option that a sentence of the library names can be typed.
    #[test]
    fn options_in_sentences_exist() {
        let command = Cli::command();
        let known: BTreeSet<String> = command
            .get_subcommands()
            .flat_map(|c| c.get_arguments().filter_map(|a| a.get_long().map(str::to_string)))
            .collect();
        let files = glob::glob(concat!(env!("CARGO_MANIFEST_DIR"), "/src/**/*.rs")).unwrap();
        let mut seen = 0;
        for path in files.map(|p| p.unwrap()).filter(|p| !p.ends_with("error.rs")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            for marked in code.flat_map(|l| l.split('⟦').skip(1)) {
                let name = marked.split(['⟧', '=']).next().unwrap_or_default();
                if name.starts_with('{') || name == "…" || name.is_empty() {
                    continue;
                }
                seen += 1;
                assert!(known.contains(name), "{}: no option --{name}", path.display());
            }
        }
        assert!(seen > 50, "{seen} sentences name options");
    }

    /// Nobody but the command line names a flag.
    #[test]
    fn flags_are_named_here_alone() {
        let files = glob::glob(concat!(env!("CARGO_MANIFEST_DIR"), "/src/**/*.rs")).unwrap();
        let own = |p: &std::path::PathBuf| p.components().any(|c| c.as_os_str() == "cli");
        for path in files.map(|p| p.unwrap()).filter(|p| !own(p)) {
            let text = std::fs::read_to_string(&path).unwrap();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                let named = code
                    .match_indices(" --")
                    .any(|(at, _)| code[at + 3..].starts_with(|c: char| c.is_ascii_lowercase()));
                let first = code.contains("\"--");
                assert!(!named && !first, "{}:{}: {line}", path.display(), number + 1);
            }
        }
    }
}
