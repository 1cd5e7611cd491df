//! Seeded Parquet datasets of several kinds, in constant memory.
//!
//! Enters: [`Generate`]. Leaves: a directory of Parquet files, whole or not at all. Holds the basis
//! (r·d numbers) and one row group.
//!
//! Rows are low rank plus noise, x = μ + B·diag(σ)·z + 0.1·ε with orthonormal B, unless the kind
//! says otherwise. Every file has a random stream of its own, so the same seed gives the same bytes
//! whatever is generated before it.

mod kinds;

pub(crate) use kinds::DatasetKind;

use crate::error::{Error, Result};
use crate::listen::{Listener, Stage, Watch};
use crate::sink::{Compression, Encoder, ParquetOutput, ParquetSink, Sink};
use crate::words::count;
use kinds::Recipe;
use rand_pcg::Pcg64;
use std::fmt;
use std::path::PathBuf;

/// A dataset to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generate {
    /// What kind of data.
    pub(crate) kind: DatasetKind,
    /// The directory to write.
    pub(crate) output: PathBuf,
    /// Rows in all files.
    pub(crate) rows: u64,
    /// Features; by default what suits the kind.
    pub(crate) columns: Option<usize>,
    /// Files to spread the rows over.
    pub(crate) files: u32,
    /// Rows per row group; by default what suits the kind.
    pub(crate) row_group: Option<usize>,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
}

/// What was made. Prints as "data: 2 files, 10,000 rows of columns id, x0, … x15".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GenerateSummary {
    /// The directory.
    pub(crate) output: PathBuf,
    /// Files in it.
    pub(crate) files: u32,
    /// Rows in all files.
    pub(crate) rows: u64,
    /// "columns id, x0, x1, … x15".
    pub(crate) columns: String,
}

impl fmt::Display for GenerateSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, rows) = (count(u64::from(self.files), "file"), count(self.rows, "row"));
        write!(f, "{}: {files}, {rows} of {}", self.output.display(), self.columns)
    }
}

impl Generate {
    fn check(&self) -> Result<()> {
        let zero = [
            ("columns", self.columns == Some(0)),
            ("files", self.files == 0),
            ("row-group", self.row_group == Some(0)),
        ];
        if let Some((name, _)) = zero.iter().find(|(_, is_zero)| *is_zero) {
            return Error::misuse(format!("⟦{name}⟧ must be 1 or more"));
        }
        match crate::source::inputs::is_parquet(&self.output) {
            true => Error::misuse("generate writes a directory; name it without .parquet"),
            false => Ok(()),
        }
    }

    /// Writes the dataset.
    pub(crate) fn run(&self, listener: &dyn Listener) -> Result<GenerateSummary> {
        self.check()?;
        let recipe = Recipe::new(self.kind, self.columns, self.seed)?;
        let name = |f: u32| PathBuf::from(format!("part-{f:03}.parquet"));
        let names = (0..self.files).map(name).collect();
        let output = ParquetOutput::new(&self.output).compression(Compression::Zstd);
        // A batch is a row group.
        let encoder = Encoder::new(recipe.schema(), &Default::default(), 1, output.compression)?;
        let mut sink = ParquetSink::create(&output, names, &encoder, None)?;
        let watch = Watch::new(listener, Stage::new("writing", "rows", self.rows));
        (0..self.files).try_for_each(|f| self.file(f, &recipe, &encoder, &mut sink, &watch))?;
        drop(watch);
        let watch = Watch::new(listener, Stage::untold("finishing"));
        sink.finish()?;
        drop(watch);
        let Generate { output, files, rows, .. } = self.clone();
        Ok(GenerateSummary { output, files, rows, columns: recipe.describe() })
    }

    fn file(
        &self,
        file: u32,
        recipe: &Recipe,
        encoder: &Encoder,
        sink: &mut ParquetSink,
        watch: &Watch<'_>,
    ) -> Result<()> {
        let group = self.row_group.unwrap_or_else(|| recipe.row_group()) as u64;
        let mut rng = Pcg64::new(u128::from(self.seed), u128::from(file) + 1);
        let first =
            |file: u32| (u128::from(self.rows) * u128::from(file) / u128::from(self.files)) as u64;
        let (mut row, end) = (first(file), first(file + 1));
        while row < end {
            let rows = group.min(end - row);
            let batch = recipe.batch(&mut rng, row, rows as usize);
            let mut groups = Vec::new();
            encoder.encode(&mut std::iter::once(batch), &mut |group| groups.push(group))?;
            for group in groups {
                sink.write(file as usize, group)?;
            }
            row += rows;
            watch.advance(rows, 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::Quiet;
    use crate::source::Dataset;

    fn options(kind: DatasetKind, output: PathBuf) -> Generate {
        let (rows, columns, row_group) = (1_001, None, None);
        Generate { kind, output, rows, columns, files: 2, row_group, seed: 1 }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, seed: u64| {
            let output = dir.path().join(name);
            let generate = Generate { seed, ..options(DatasetKind::Labels, output.clone()) };
            let made = generate.run(&Quiet).unwrap();
            let end = "2 files, 1,001 rows of columns id, x0, x1, … weight";
            assert!(made.to_string().ends_with(end), "{made}");
            let files = Dataset::from_paths(&[output.display().to_string()]);
            let files = files.unwrap();
            assert_eq!(files.files.iter().map(|f| f.rows).collect::<Vec<_>>(), [500, 501]);
            files.files.iter().map(|f| std::fs::read(&f.path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(make("a", 7), make("b", 7));
        assert_ne!(make("c", 8), make("d", 9));
        let none = Generate { files: 0, ..options(DatasetKind::Wide, dir.path().join("e")) };
        assert_eq!(none.run(&Quiet).unwrap_err().to_string(), "files must be 1 or more");
    }
}
