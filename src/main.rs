//! argv → run → exit code.

use clap::Parser;
use eigenstream::cli::{self, args::Cli};
use eigenstream::pass;
use eigenstream::staged;
use std::process::ExitCode;

fn main() -> ExitCode {
    eigenstream::budget::keep_freed_memory();
    let cli = Cli::parse();
    // Panics are caught and told as errors; the hook would print them a second time.
    std::panic::set_hook(Box::new(|_| {}));
    let done = staged::exit_on_signals().and_then(|()| pass::caught(|| cli::run(&cli)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {}", cli::name(&cli.command), cli::phrase(&error.sentence()));
            ExitCode::from(error.exit_code())
        }
    }
}
