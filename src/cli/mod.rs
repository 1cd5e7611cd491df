//! Commands: arguments as typed → checked against the files' metadata → run.

pub mod apply;
pub mod args;
pub mod candidates;
pub mod demo;
pub mod fit;
pub mod forms;
pub mod groups;
pub mod hsic;
pub mod kernel_fit;
pub mod kernels;
pub mod output;
pub mod plan;
pub mod rows;
pub mod scan;
pub mod scoring;
pub mod states;
pub mod supervised;

use crate::error::Result;
use crate::model::Model;
use crate::report::{self, Talk};
use crate::state::State;
use args::{Cli, Command, InspectArgs};

/// The name of a command, which errors begin with.
pub fn name(command: &Command) -> &'static str {
    match command {
        Command::Plan(_) => "plan",
        Command::Fit(_) => "fit",
        Command::Transform(_) => "transform",
        Command::Reconstruct(_) => "reconstruct",
        Command::Inspect(_) => "inspect",
        Command::Hsic(_) => "hsic",
        Command::Scan(_) => "scan",
        Command::Merge(_) => "merge",
        Command::Subtract(_) => "subtract",
        Command::Solve(_) => "solve",
        Command::Generate(_) => "generate",
        Command::Demo(_) => "demo",
    }
}

/// Runs a command.
pub fn run(cli: &Cli) -> Result<()> {
    let talk = Talk::new(cli.quiet);
    match &cli.command {
        Command::Plan(args) => plan::run(args),
        Command::Fit(args) => fit::run(args, talk),
        Command::Transform(args) => apply::transform(args, talk),
        Command::Reconstruct(args) => apply::reconstruct(args, talk),
        Command::Inspect(args) => inspect(args),
        Command::Hsic(args) => hsic::run(args, talk),
        Command::Scan(args) => scan::run(args, talk),
        Command::Merge(args) => states::merge(args, talk),
        Command::Subtract(args) => states::subtract(args, talk),
        Command::Solve(args) => states::solve(args, talk),
        Command::Generate(args) => crate::generate::run(args, talk),
        Command::Demo(args) => demo::run(args, talk),
    }
}

fn inspect(args: &InspectArgs) -> Result<()> {
    let model = match Model::load(&args.model) {
        Ok(model) => model,
        // A state is shown as one; what is neither is told as a model would be.
        Err(error) => {
            return match State::load(&args.model) {
                Ok(state) if args.json => {
                    report::print(&report::json::pretty(&serde_json::json!(state.about)))
                }
                Ok(state) => report::print(&states::page(&state)),
                Err(_) => Err(error),
            };
        }
    };
    let text = if args.json {
        report::json::pretty(&report::json::model(&model))
    } else {
        report::text::model(&model)
    };
    report::print(&text)
}

/// A sentence with its options as they are typed: `⟦nulls=drop⟧` becomes `--nulls drop`.
pub fn phrase(sentence: &str) -> String {
    crate::error::phrase(sentence, |name, value| {
        let flag = match name {
            "components" => "-k".to_string(),
            "output" => "-o".to_string(),
            name => format!("--{name}"),
        };
        value.map_or_else(|| flag.clone(), |value| format!("{flag} {value}"))
    })
}
