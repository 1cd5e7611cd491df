//! `transform`: rows → scores; and what `reconstruct` writes in the same way.

use super::args::{OutputArgs, TransformArgs, same_file};
use super::talk::Talk;
use super::{open, print_json, shards};
use crate::apply::{ApplyPlan, ApplySummary};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::words::{count, path_text};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// What files of scores end in.
const PARQUET: &str = "parquet";

pub(super) fn run(args: &TransformArgs, talk: &Talk) -> Result<()> {
    let model = Model::load(&args.model)?;
    let data = open(&args.data, &args.output.resources, talk)?;
    let plan = args.options().plan(&model, &data)?;
    let dir = &args.output.output;
    data.refuse_output(&args.data, dir)?;
    refuse_replacing_model(&args.model, dir)?;
    let Some(shard) = args.shard else { return write(&plan, &args.output, talk) };
    let output = shards::file_in(dir, shard, PARQUET)?;
    write(&plan, &OutputArgs { output, ..args.output.clone() }, talk)?;
    shards::told(dir, shard, PARQUET, talk)
}

/// A model is an input too.
pub(super) fn refuse_replacing_model(model: &Path, out: &Path) -> Result<()> {
    match same_file(model, out) {
        true => {
            Error::misuse("the output would replace the model that is applied; name another -o")
        }
        false => Ok(()),
    }
}

/// Runs a second pass and tells what it wrote.
pub(super) fn write(plan: &ApplyPlan<'_, '_>, output: &OutputArgs, talk: &Talk) -> Result<()> {
    let started = Instant::now();
    let done = plan.write_parquet(&output.parquet(), talk)?;
    let seconds = started.elapsed().as_secs_f64();
    talk.say(format!(
        "{}: {} in {}, {seconds:.2} s",
        output.output.display(),
        count(done.rows_written, "row"),
        count(done.files as u64, "file")
    ));
    if output.json { print_json(&summary(&done, output, seconds)) } else { Ok(()) }
}

fn summary(done: &ApplySummary, output: &OutputArgs, seconds: f64) -> serde_json::Value {
    json!({
        "output": path_text(&output.output),
        "n_files": done.files,
        "n_files_kept": done.files_kept,
        "n_components": done.components,
        "rows_read": done.rows_read,
        "rows_written": done.rows_written,
        "rows_dropped": done.rows_dropped,
        "rows_null": done.rows_null,
        "overflowed": done.overflowed,
        "preimage_loss": done.preimage.as_ref().map(|p| p.loss),
        "preimage_restless": done.preimage.as_ref().map(|p| p.unsettled),
        "seconds": seconds,
    })
}
