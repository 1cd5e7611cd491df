//! argv → run → exit code.

use clap::Parser;
use eigenstream::cli::{self, args::Cli};
use eigenstream::{staged, workers};
use std::process::ExitCode;

fn main() -> ExitCode {
    eigenstream::budget::keep_freed_memory();
    let cli = Cli::parse();
    workers::record_panics();
    let done = staged::exit_on_signals().and_then(|()| workers::caught(|| cli::run(&cli)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {}", cli::name(&cli.command), cli::phrase(&error.sentence()));
            ExitCode::from(error.exit_code())
        }
    }
}
