//! `reconstruct`: rows, or scores → rows as the components see them.

use super::args::ReconstructArgs;
use super::open;
use super::talk::Talk;
use super::transform::{refuse_replacing_model, write};
use super::typed::Typed;
use crate::error::Result;
use crate::model::Model;

pub(super) fn run(args: &ReconstructArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    talk.notes(&typed.without("prefix", "from-scores", args.from_scores));
    let model = Model::load(&args.model)?;
    let data = open(&args.data, &args.output.resources, talk)?;
    let plan = args.options().plan(&model, &data)?;
    data.refuse_output(&args.data, &args.output.output)?;
    refuse_replacing_model(&args.model, &args.output.output)?;
    write(&plan, &args.output, talk)
}
