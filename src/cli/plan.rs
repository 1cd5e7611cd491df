//! `plan`: what a fit would do and hold, from footers alone.

use super::args::PlanArgs;
use super::talk::Talk;
use super::typed::Typed;
use super::{open, phrase, print, print_json};
use crate::error::Result;
use crate::fit::LabelOptions;

/// Prints a plan, and fails if it does not fit.
pub(super) fn run(args: &PlanArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    let dataset = open(&args.fit.data, &args.fit.resources, talk)?;
    let fit = args.fit.fit(talk)?;
    let plan = planning(&fit.labels, talk, || fit.plan(&dataset))?;
    match args.json {
        true => print_json(&plan.to_json())?,
        false => print(&phrase(&plan.page()))?,
    }
    talk.notes(plan.notes());
    talk.notes(&typed.notes(&plan.unused).collect::<Vec<_>>());
    plan.check()
}

/// Makes a plan, which factors the kernel over labels where it is given.
pub(super) fn planning<P>(
    labels: &LabelOptions,
    talk: &Talk,
    plan: impl FnOnce() -> Result<P>,
) -> Result<P> {
    let work = match labels.given {
        Some(_) => "factoring the kernel over labels",
        None => "planning",
    };
    talk.during(work, plan)
}
