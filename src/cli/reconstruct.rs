//! `reconstruct`: rows, or scores → rows as the components see them.

use super::args::ReconstructArgs;
use super::talk::Talk;
use super::transform::write;
use super::typed::Typed;
use crate::error::Result;
use crate::model::Model;
use crate::source::Dataset;

pub(super) fn run(args: &ReconstructArgs, talk: &Talk, typed: &Typed) -> Result<()> {
    talk.notes(&typed.without("prefix", "from-scores", args.from_scores));
    let model = Model::load(&args.model)?;
    let data = Dataset::from_paths(&args.data)?;
    let plan = args.options().plan(&model, &data)?;
    data.refuse_output(&args.data, &args.output.output)?;
    write(&plan, &args.output, talk)
}
