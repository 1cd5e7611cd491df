//! Seeded Parquet datasets of several kinds, in constant memory.
//!
//! Rows are low rank plus noise, x = μ + B·diag(σ)·z + 0.1·ε with orthonormal B, unless the kind says
//! otherwise. Every file has a random stream of its own, so the same seed gives the same bytes
//! whatever is generated before it. Holds the basis (r·d numbers) and one row group.

mod kinds;

pub use kinds::Kind;

use crate::cli::args::GenerateArgs;
use crate::error::{Error, Result};
use crate::report::Talk;
use crate::sink::{Compression, Encoder, ParquetSink, Sink};
use crate::words::count;
use kinds::Recipe;
use rand_pcg::Pcg64;
use std::path::PathBuf;

/// Writes the dataset.
pub fn run(args: &GenerateArgs, talk: Talk) -> Result<()> {
    let recipe = Recipe::new(args.kind, args.columns.map(|c| c as usize), args.seed)?;
    let group = args.row_group.map_or_else(|| recipe.row_group(), |g| g as usize) as u64;
    let names: Vec<PathBuf> =
        (0..args.files).map(|f| format!("part-{f:03}.parquet").into()).collect();
    if crate::source::inputs::is_parquet(&args.output) {
        return Err(Error::Misuse("generate writes a directory; name it without .parquet".into()));
    }
    let schema = recipe.schema();

    let encoder = Encoder::new(schema, &Default::default(), 1, Compression::Zstd)?;
    let mut sink = ParquetSink::create(&args.output, names, &encoder, None)?;
    let mut row = 0;
    for file in 0..u64::from(args.files) {
        let mut rng = Pcg64::new(u128::from(args.seed), u128::from(file) + 1);
        let end = args.rows * (file + 1) / u64::from(args.files);
        while row < end {
            let rows = group.min(end - row);
            let mut open = encoder.start()?;
            open.write(&recipe.batch(&mut rng, row, rows as usize)?)?;
            if let Some(done) = open.finish()? {
                sink.write(file as usize, done)?;
            }
            row += rows;
        }
    }
    sink.finish()?;
    talk.say(format!(
        "{}: {}, {} of {}",
        args.output.display(),
        count(u64::from(args.files), "file"),
        count(args.rows, "row"),
        recipe.describe()
    ));
    Ok(())
}
