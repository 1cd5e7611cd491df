//! What a second pass writes: columns, file names, and what that holds in memory.
//!
//! Enters: what was asked of the output, and the dataset's footers. Leaves: the output schema (kept
//! columns, then computed ones), and a crew of workers that fits the budget.

use super::args::{Dtype, OutputSpec};
use crate::budget::{Budget, MemoryPlan, Phase};
use crate::error::{Error, Place, Result};
use crate::pass::{Crew, window};
use crate::sink::parquet::{group_rows, is_one_file, writer_bytes};
use crate::source::columns;
use crate::source::footer::Footer;
use crate::source::parquet::{decode_bytes, row_bytes};
use crate::source::{Dataset, Want, block_rows};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The columns of the output.
pub struct Columns {
    /// Passed through, with the types they have in the first file.
    pub kept: Vec<Arc<Field>>,
    /// Computed.
    pub computed: Vec<Arc<Field>>,
    /// Bytes of a row, about.
    pub row_bytes: u64,
}

impl Columns {
    /// Resolves `--keep` and `--keep-all` and checks that no name comes out twice.
    pub fn new(
        dataset: &Dataset,
        output: &OutputSpec,
        computed: Vec<Arc<Field>>,
    ) -> Result<Columns> {
        let kept = kept_fields(dataset, output, &computed)?;
        let mut seen = HashSet::new();
        for field in kept.iter().chain(&computed) {
            if !seen.insert(field.name()) {
                let problem = format!(
                    "the output would have two columns '{}'; keep it once, and under a name",
                    field.name()
                );
                return Err(Error::Misuse(format!(
                    "{problem} that no computed column has (see --prefix)"
                )));
            }
        }
        let names = kept.iter().map(|f| f.name().as_str()).collect();
        let row_bytes = row_bytes(dataset, &names)?
            + computed.iter().map(|f| 8 * width(f.data_type()) as u64).sum::<u64>();
        Ok(Columns { kept, computed, row_bytes })
    }

    /// Kept columns, then computed ones.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.kept.iter().chain(&self.computed).cloned().collect::<Vec<_>>()))
    }

    /// Names of the computed columns.
    pub fn computed_names(&self) -> HashSet<String> {
        self.computed.iter().map(|f| f.name().clone()).collect()
    }

    /// Names of the kept columns, if there are any.
    pub fn kept_names(&self) -> Option<Vec<String>> {
        (!self.kept.is_empty()).then(|| self.kept.iter().map(|f| f.name().clone()).collect())
    }

    /// As many workers as the budget holds, then as long a queue: at least one worker, or a refusal.
    ///
    /// A queue that holds all row groups of a unit lets a worker go on to its next unit; a shorter one
    /// makes it wait until the units before its own are written.
    pub fn crew(
        &self,
        dataset: &Dataset,
        want: &Want,
        output: &OutputSpec,
        model: &ModelBytes,
    ) -> Result<Crew> {
        let budget = Budget::new(output.resources.memory);
        let pages = decode_bytes(dataset, want)?;
        let d = want.features.len();
        let rows = group_rows(self.row_bytes) as u64;
        let block = block_rows(d) as u64 * (24 * d as u64 + 3 * self.row_bytes);
        let writers = writer_bytes(
            &self.schema(),
            &self.computed_names(),
            self.row_bytes,
            output.compression,
        );
        let ledger = |crew: Crew| {
            let t = crew.threads as u64;
            let waiting = (window(crew.threads) * crew.queue) as u64;
            let phase = Phase::new("streaming")
                .hold("footers and pages", pages.total(crew.threads))
                .hold("the model", model.held)
                .hold("comparisons", model.each.saturating_mul(output.resources.threads() as u64))
                .hold("batches and blocks", t.saturating_mul(block))
                .hold("column writers", t.saturating_mul(writers))
                .hold(
                    "row groups being written",
                    (t + waiting).saturating_mul(rows * self.row_bytes),
                );
            MemoryPlan { phases: vec![phase] }
        };
        let fits = |crew: &Crew| ledger(*crew).peak_bytes() <= budget.bytes.0;
        // Its row groups and its tally.
        let whole = pages.unit_rows.div_ceil(rows) as usize + 1;
        let least = Crew { threads: 1, queue: 1 };
        let crew = (1..=output.resources.threads())
            .rev()
            .map(|threads| Crew { threads, queue: 2 })
            .find(fits)
            .unwrap_or(least);
        let crew = (crew.queue..=whole.max(crew.queue))
            .rev()
            .map(|queue| Crew { queue, ..crew })
            .find(fits)
            .unwrap_or(crew);
        let ledger = ledger(crew);
        ledger.check(&budget, || {
            format!("allow --memory {}MB", ledger.peak_bytes().div_ceil(1_000_000))
        })?;
        Ok(crew)
    }
}

/// What a model takes while it is applied.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelBytes {
    /// For all workers.
    pub held: u64,
    /// For each thread.
    pub each: u64,
}

fn kept_fields(
    dataset: &Dataset,
    output: &OutputSpec,
    computed: &[Arc<Field>],
) -> Result<Vec<Arc<Field>>> {
    if !output.keep_all && output.keep.is_empty() {
        return Ok(Vec::new());
    }
    let schema = Footer::read(dataset.first_path())?.arrow.schema().clone();
    if output.keep_all {
        if let Some(d) = dataset.differences.first() {
            let place = Place::file(&dataset.files[d.input].path).column(&d.column);
            return Err(Error::data(
                place,
                format!(
                    "{}; --keep-all needs the same columns in every file, name them with --keep",
                    d.problem
                ),
            ));
        }
        // What is computed under the same name takes its place: `reconstruct` of rows recomputes their features.
        let names: HashSet<&String> = computed.iter().map(|c| c.name()).collect();
        let again = |f: &&Arc<Field>| !names.contains(f.name());
        return Ok(schema.fields().iter().filter(again).cloned().collect());
    }
    columns::agree(dataset, output.keep.iter().map(String::as_str))?;
    let field = |name: &String| {
        let found = schema.fields().iter().find(|f| f.name() == name).cloned();
        found.ok_or_else(|| {
            columns::unknown(
                dataset.first_path(),
                name,
                schema.fields().iter().map(|f| f.name().as_str()),
            )
        })
    };
    output.keep.iter().map(field).collect()
}

/// The type of computed numbers.
pub fn number_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::F64 => DataType::Float64,
        Dtype::F32 => DataType::Float32,
    }
}

/// A computed column of one number per row.
pub fn number_field(name: impl Into<String>, dtype: Dtype) -> Arc<Field> {
    Arc::new(Field::new(name, number_type(dtype), false))
}

/// A computed column of several numbers per row.
pub fn vector_field(name: &str, dtype: Dtype, width: usize) -> Arc<Field> {
    let item = Arc::new(Field::new_list_field(number_type(dtype), false));
    Arc::new(Field::new(name, DataType::FixedSizeList(item, width as i32), false))
}

fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(_, width) => *width as usize,
        _ => 1,
    }
}

/// One name per input below the output directory; none for a single file.
pub fn file_names(dataset: &Dataset, out: &Path) -> Result<Vec<PathBuf>> {
    if is_one_file(out) {
        return Ok(Vec::new());
    }
    let mut seen = std::collections::HashMap::new();
    for file in &dataset.files {
        if let Some(other) = seen.insert(&file.relative, &file.path) {
            let problem = format!(
                "has the name of {} and they would share an output file; give their common directory, or write one .parquet file",
                other.display()
            );
            return Err(Error::data(Place::file(&file.path), problem));
        }
    }
    Ok(dataset.files.iter().map(|f| f.relative.clone()).collect())
}
