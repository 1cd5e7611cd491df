//! `generate`: a seeded dataset.

use super::args::GenerateArgs;
use super::talk::Talk;
use crate::error::Result;
use crate::generate::Generate;

pub(super) fn run(args: &GenerateArgs, talk: &Talk) -> Result<()> {
    let generate = Generate {
        kind: args.kind,
        output: args.output.clone(),
        rows: args.rows,
        columns: args.columns.map(|c| c as usize),
        files: args.files,
        row_group: args.row_group.map(|rows| rows as usize),
        seed: args.seed,
    };
    talk.say(generate.run(talk)?.to_string());
    Ok(())
}
