//! `product`: one pass that `fit --passes` asked for, over all rows or a shard of them.

use super::args::ProductArgs;
use super::talk::Talk;
use super::{open, print_json, shards, writing};
use crate::error::Result;
use crate::product::PassSums;
use crate::source::Shard;
use crate::words::{count, path_text};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// What files of products end in.
pub(super) const PRODUCT: &str = "product";

pub(super) fn run(args: &ProductArgs, talk: &Talk) -> Result<()> {
    let started = Instant::now();
    let mut sums = PassSums::load(&args.operand)?;
    let beside = args.operand.parent().unwrap_or(Path::new("."));
    let dir = args.output.as_deref().unwrap_or(beside);
    let dataset = open(&args.data, &args.resources, talk)?;
    dataset.refuse_output(&[], dir)?;
    let shard = match args.shard {
        Some(shard) => shard,
        None => Shard::new(1, 1)?,
    };
    let output = shards::file_in(dir, shard, PRODUCT)?;
    sums.add_table(&dataset, Some(shard), &args.resources.with_temp_dir(None), talk)?;
    talk.during(writing(&output), || sums.save(&output))?;
    let seconds = started.elapsed().as_secs_f64();
    let (pass, rows) = (sums.about.pass, count(sums.rows(), "row"));
    talk.say(format!("{}: pass {pass}, {rows}, {seconds:.2} s", output.display()));
    shards::told(dir, shard, PRODUCT, talk)?;
    match args.json {
        false => Ok(()),
        true => print_json(&json!({
            "product": path_text(&output),
            "pass": pass,
            "rows": sums.rows(),
            "seconds": seconds,
        })),
    }
}
