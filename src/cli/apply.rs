//! `transform` and `reconstruct`: a second streaming pass that writes as many rows as it reads.
//!
//! `Job` is what both share: the files, the columns read and kept, the output schema. What differs
//! is `Compute`: which columns come out of a block.

use super::args::{Dtype, Layout, OutputSpec, ReconstructArgs, TransformArgs};
use crate::budget::{Budget, Ledger, Phase};
use crate::error::{Error, Place, Result};
use crate::model::Model;
use crate::pass::{self, Crew, window};
use crate::project::Projector;
use crate::report::text::{count, thousands};
use crate::report::{self, Talk};
use crate::sink::parquet::{group_bytes, group_rows, is_one_file};
use crate::sink::{Encoder, ParquetSink, Sink};
use crate::source::parquet::decode_bytes;
use crate::source::{
    Block, Dataset, FeatureColumn, Features, Nulls, ParquetSource, Source, Tally, UNIT_ROWS, Want, block_rows, inputs,
};
use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use ndarray::{Array2, ArrayView2};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const ERROR_COLUMN: &str = "reconstruction_error";
const T2_COLUMN: &str = "hotelling_t2";

/// Rows → scores.
pub fn transform(args: &TransformArgs, talk: Talk) -> Result<()> {
    let model = Model::load(&args.model)?;
    let k = components(&model, &args.output, talk);
    let compute = Compute::Scores { layout: args.layout, diagnostics: args.diagnostics };
    let want = Want { features: model.header.features.clone(), nulls: model.header.nulls.policy, ..Want::default() };
    Job::plan(&model, k, &args.data, &args.output, want, compute)?.run("transform", talk)
}

/// Rows, or scores → rows as the components see them.
pub fn reconstruct(args: &ReconstructArgs, talk: Talk) -> Result<()> {
    let model = Model::load(&args.model)?;
    let k = components(&model, &args.output, talk);
    if !args.from_scores {
        let want = Want { features: model.header.features.clone(), nulls: model.header.nulls.policy, ..Want::default() };
        return Job::plan(&model, k, &args.data, &args.output, want, Compute::Rows)?.run("reconstruct", talk);
    }
    let dataset = Dataset::open(&inputs::expand(&args.data)?)?;
    let features = score_columns(&dataset, &args.output.prefix, k)?;
    let want = Want { features, nulls: Nulls::Error, ..Want::default() };
    Job::plan(&model, k, &args.data, &args.output, want, Compute::RowsFromScores)?.run("reconstruct", talk)
}

fn components(model: &Model, output: &OutputSpec, talk: Talk) -> usize {
    let asked = output.components.map_or(model.n_components(), |k| k as usize);
    if asked > model.n_components() {
        talk.say(format!("note: asked for {asked} components, the model has {}", model.n_components()));
    }
    asked.min(model.n_components())
}

/// Where the scores are: `pc1 … pck`, or the first k elements of a vector column `pc`.
fn score_columns(dataset: &Dataset, prefix: &str, k: usize) -> Result<Features> {
    use crate::source::footer::Kind;
    let kind = |name: &str| dataset.columns.iter().find(|c| c.name == name).map(|c| &c.kind);
    let lacking = |name: String| {
        Error::data(
            Place::file(dataset.first_path()).column(name),
            "is not here; --from-scores needs the score columns that transform wrote (see --prefix)",
        )
    };
    if let Some(Kind::Vector(value, width)) = kind(prefix) {
        let width = width.unwrap_or(k);
        if width < k {
            return Err(lacking(format!("{prefix}[{}]", k - 1)));
        }
        let elements = (width > k).then(|| (0..k).collect());
        let column = FeatureColumn { name: prefix.into(), value: value.to_string(), width: Some(width), elements };
        return Ok(Features { columns: vec![column] });
    }
    let scalar = |i: usize| match kind(&format!("{prefix}{i}")) {
        Some(Kind::Scalar(value)) => {
            Ok(FeatureColumn { name: format!("{prefix}{i}"), value: value.to_string(), width: None, elements: None })
        }
        _ => Err(lacking(format!("{prefix}{i}"))),
    };
    Ok(Features { columns: (1..=k).map(scalar).collect::<Result<_>>()? })
}

/// What comes out of a block.
#[derive(Debug, Clone, Copy)]
enum Compute {
    Scores { layout: Layout, diagnostics: bool },
    Rows,
    RowsFromScores,
}

/// A second pass that is known to be possible.
struct Job<'a> {
    model: &'a Model,
    projector: Projector<'a>,
    output: &'a OutputSpec,
    compute: Compute,
    dataset: Dataset,
    source: ParquetSource,
    encoder: Encoder,
    crew: Crew,
}

impl<'a> Job<'a> {
    fn plan(
        model: &'a Model,
        k: usize,
        data: &[String],
        output: &'a OutputSpec,
        mut want: Want,
        compute: Compute,
    ) -> Result<Job<'a>> {
        let dataset = Dataset::open(&inputs::expand(data)?)?;
        want.features.check(&dataset)?;
        let projector = Projector::new(model, k);
        let computed = computed_fields(model, &projector, output, compute);
        let kept = kept_fields(&dataset, output)?;
        let clash = kept.iter().find(|f| computed.iter().any(|c| c.name() == f.name()));
        if let Some(field) = clash {
            let hint = match compute {
                Compute::Scores { .. } => "choose another --prefix, or do not keep it",
                _ => "do not keep it",
            };
            return Err(Error::Misuse(format!("the kept column '{}' has the name of a computed one; {hint}", field.name())));
        }
        want.keep = (!kept.is_empty()).then(|| kept.iter().map(|f| f.name().clone()).collect());
        let plain: Vec<String> = computed.iter().map(|f| f.name().clone()).collect();
        let width = computed.iter().map(|f| width(f.data_type())).sum();
        let schema: SchemaRef = Arc::new(Schema::new(kept.into_iter().chain(computed).collect::<Vec<_>>()));
        let encoder = Encoder::new(schema, &plain, width, output.compression)?;
        let crew = fitting_crew(&dataset, &want, output, width)?;
        let source = ParquetSource::new(&dataset, want);
        Ok(Job { model, projector, output, compute, dataset, source, encoder, crew })
    }

    fn run(&self, what: &'static str, talk: Talk) -> Result<()> {
        let started = Instant::now();
        refuse_overwriting_inputs(&self.dataset, &self.output.output)?;
        let names = output_names(&self.dataset, &self.output.output)?;
        let mut sink = ParquetSink::create(&self.output.output, names, &self.encoder)?;
        let mut tally = Tally::default();
        {
            let progress = talk.progress(what, self.dataset.rows(), self.dataset.bytes());
            crate::blas::set_threads(1);
            pass::map(
                &self.source,
                self.crew,
                &progress,
                |_, blocks, out| self.unit(blocks, out),
                |unit, piece| match piece {
                    Piece::Group(group) => sink.write(self.source.units()[unit].file, group),
                    Piece::Tally(more) => {
                        tally.add(more);
                        Ok(())
                    }
                },
            )?;
        }
        sink.finish()?;
        self.report(&tally, started.elapsed().as_secs_f64(), talk)
    }

    /// One unit: project block by block, encode, hand over full row groups.
    fn unit(&self, blocks: &mut dyn Iterator<Item = Result<Block>>, out: &pass::Output<Piece>) -> Result<()> {
        let mut group = self.encoder.start()?;
        let mut tally = Tally::default();
        for block in blocks {
            let mut block = block?;
            tally.add(std::mem::take(&mut block.tally));
            group.write(&self.batch(block)?)?;
            if group.is_full() {
                if let Some(full) = group.finish()? {
                    out.give(Piece::Group(full));
                }
                group = self.encoder.start()?;
            }
        }
        if let Some(last) = group.finish()? {
            out.give(Piece::Group(last));
        }
        out.give(Piece::Tally(tally));
        Ok(())
    }

    fn batch(&self, mut block: Block) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = block.kept.take().map_or_else(Vec::new, |b| b.columns().to_vec());
        match self.compute {
            Compute::Scores { layout, diagnostics } => {
                let centred = self.projector.centred(block);
                let scores = self.projector.scores(&centred);
                columns.extend(self.score_arrays(&scores, layout)?);
                if diagnostics {
                    let d = self.projector.diagnostics(&centred, &scores);
                    columns.extend([self.numbers(d.error.to_vec()), self.numbers(d.t2.to_vec())]);
                }
            }
            Compute::Rows => {
                let scores = self.projector.scores(&self.projector.centred(block));
                columns.extend(self.row_arrays(&self.projector.reconstruct(&scores))?);
            }
            Compute::RowsFromScores => {
                let scores = block.into_f64().reversed_axes();
                columns.extend(self.row_arrays(&self.projector.reconstruct(&scores))?);
            }
        }
        RecordBatch::try_new(self.encoder.schema().clone(), columns).map_err(|e| Error::Internal(format!("output batch: {e}")))
    }

    fn score_arrays(&self, scores: &Array2<f64>, layout: Layout) -> Result<Vec<ArrayRef>> {
        match layout {
            Layout::Columns => Ok(scores.rows().into_iter().map(|row| self.numbers(row.to_vec())).collect()),
            Layout::List => Ok(vec![self.list(scores.t())?]),
        }
    }

    /// x̂ in the shape of the columns that were fitted, constants put back.
    fn row_arrays(&self, rows: &Array2<f64>) -> Result<Vec<ArrayRef>> {
        let header = &self.model.header;
        let left_out: std::collections::HashMap<&str, f64> =
            header.left_out.iter().map(String::as_str).zip(self.model.constants.iter().copied()).collect();
        let mut next = 0;
        let mut arrays = Vec::with_capacity(header.columns.columns.len());
        for column in &header.columns.columns {
            let mut wide = Array2::zeros((rows.nrows(), column.len()));
            for (i, mut target) in wide.columns_mut().into_iter().enumerate() {
                match left_out.get(column.feature_name(i).as_str()).filter(|_| !left_out.is_empty()) {
                    Some(constant) => target.fill(*constant),
                    None => {
                        target.assign(&rows.column(next));
                        next += 1;
                    }
                }
            }
            arrays.push(match column.width {
                None => self.numbers(wide.into_raw_vec_and_offset().0),
                Some(_) => self.list(wide.view())?,
            });
        }
        Ok(arrays)
    }

    fn numbers(&self, values: Vec<f64>) -> ArrayRef {
        match self.output.dtype {
            Dtype::F64 => Arc::new(Float64Array::from(values)),
            Dtype::F32 => Arc::new(Float32Array::from_iter_values(values.iter().map(|v| *v as f32))),
        }
    }

    fn list(&self, rows: ArrayView2<'_, f64>) -> Result<ArrayRef> {
        let values = self.numbers(rows.iter().copied().collect());
        let item = Arc::new(Field::new_list_field(number_type(self.output.dtype), false));
        let list = FixedSizeListArray::try_new(item, rows.ncols() as i32, values, None);
        Ok(Arc::new(list.map_err(|e| Error::Internal(format!("list column: {e}")))?))
    }

    fn report(&self, tally: &Tally, seconds: f64, talk: Talk) -> Result<()> {
        let written = tally.rows - tally.dropped;
        if tally.dropped > 0 {
            talk.say(format!(
                "note: {} of {} dropped for nulls, as in the fit (--nulls drop)",
                count(tally.dropped, "row"),
                thousands(tally.rows)
            ));
        } else if !tally.missing.is_empty() {
            talk.say(format!(
                "note: {} filled with the training mean, as in the fit (--nulls mean)",
                count(tally.missing.values().sum(), "missing value")
            ));
        }
        let files = if is_one_file(&self.output.output) { 1 } else { self.dataset.files.len() };
        talk.say(format!(
            "{}: {} in {}, {seconds:.2} s",
            self.output.output.display(),
            count(written, "row"),
            count(files as u64, "file")
        ));
        if !self.output.json {
            return Ok(());
        }
        report::print(&report::json::pretty(&json!({
            "output": self.output.output,
            "n_files": files,
            "n_components": self.projector.k(),
            "rows_read": tally.rows,
            "rows_written": written,
            "rows_dropped": tally.dropped,
            "seconds": seconds,
        })))
    }
}

/// What a worker hands over.
enum Piece {
    Group(crate::sink::RowGroup),
    Tally(Tally),
}

fn number_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::F64 => DataType::Float64,
        Dtype::F32 => DataType::Float32,
    }
}

fn list_type(dtype: Dtype, width: usize) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new_list_field(number_type(dtype), false)), width as i32)
}

fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(_, width) => *width as usize,
        _ => 1,
    }
}

fn computed_fields(model: &Model, projector: &Projector<'_>, output: &OutputSpec, compute: Compute) -> Vec<Arc<Field>> {
    let number = |name: String| Arc::new(Field::new(name, number_type(output.dtype), false));
    let vector = |name: &str, width: usize| Arc::new(Field::new(name, list_type(output.dtype, width), false));
    match compute {
        Compute::Scores { layout, diagnostics } => {
            let mut fields = match layout {
                Layout::Columns => (1..=projector.k()).map(|i| number(format!("{}{i}", output.prefix))).collect(),
                Layout::List => vec![vector(&output.prefix, projector.k())],
            };
            if diagnostics {
                fields.extend([number(ERROR_COLUMN.into()), number(T2_COLUMN.into())]);
            }
            fields
        }
        Compute::Rows | Compute::RowsFromScores => model
            .header
            .columns
            .columns
            .iter()
            .map(|c| match c.width {
                None => number(c.name.clone()),
                Some(_) => vector(&c.name, c.len()),
            })
            .collect(),
    }
}

/// The fields of the kept columns, with the types they have in the first file.
fn kept_fields(dataset: &Dataset, output: &OutputSpec) -> Result<Vec<Arc<Field>>> {
    if !output.keep_all && output.keep.is_empty() {
        return Ok(Vec::new());
    }
    let schema = crate::source::footer::Footer::read(dataset.first_path())?.arrow.schema().clone();
    if output.keep_all {
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        crate::source::columns::agree(dataset, names.into_iter())?;
        return Ok(schema.fields().iter().cloned().collect());
    }
    crate::source::columns::agree(dataset, output.keep.iter().map(String::as_str))?;
    let field = |name: &String| {
        let found = schema.fields().iter().find(|f| f.name() == name).cloned();
        found.ok_or_else(|| Error::UnknownColumn {
            path: dataset.first_path().to_path_buf(),
            name: name.clone(),
            nearest: crate::source::columns::nearest(name, schema.fields().iter().map(|f| f.name().as_str())),
        })
    };
    output.keep.iter().map(field).collect()
}

/// As many workers as the budget holds, then as long a queue: at least one worker, or a refusal.
///
/// A queue that holds all row groups of a unit lets a worker go on to its next unit; a shorter one
/// makes it wait until the units before its own are written.
fn fitting_crew(dataset: &Dataset, want: &Want, output: &OutputSpec, width: usize) -> Result<Crew> {
    let budget = Budget::new(output.resources.memory);
    let pages = decode_bytes(dataset, want)?;
    let d = want.features.len();
    let (block, computed) = (8 * (block_rows(d) * d) as u64, 8 * (block_rows(d) * width) as u64);
    let ledger = |crew: Crew| {
        let t = crew.threads as u64;
        let waiting = (window(crew.threads) * crew.queue) as u64;
        let phase = Phase::new("streaming")
            .hold("pages", pages.saturating_mul(t))
            .hold("batches and blocks", t * (3 * block + 3 * computed))
            .hold("row groups being written", (t + waiting).saturating_mul(group_bytes(width)));
        Ledger { phases: vec![phase] }
    };
    let fits = |crew: &Crew| ledger(*crew).peak_bytes() <= budget.bytes.0;
    let largest = dataset.files.iter().flat_map(|f| &f.row_groups).map(|g| g.rows).max().unwrap_or(0).max(UNIT_ROWS);
    // Its row groups and its tally.
    let whole = largest.div_ceil(group_rows(width) as u64) as usize + 1;
    let least = Crew { threads: 1, queue: 1 };
    let crew = (1..=output.resources.threads()).rev().map(|threads| Crew { threads, queue: 2 }).find(fits).unwrap_or(least);
    let crew = (crew.queue..=whole.max(crew.queue)).rev().map(|queue| Crew { queue, ..crew }).find(fits).unwrap_or(crew);
    let ledger = ledger(crew);
    ledger.check(&budget, || format!("allow --memory {}MB", ledger.peak_bytes().div_ceil(1_000_000)))?;
    Ok(crew)
}

fn refuse_overwriting_inputs(dataset: &Dataset, out: &Path) -> Result<()> {
    let Ok(out) = std::fs::canonicalize(out) else {
        return Ok(());
    };
    let inside = |path: &Path| std::fs::canonicalize(path).is_ok_and(|p| p == out || p.starts_with(&out));
    match dataset.files.iter().find(|f| inside(&f.path)) {
        None => Ok(()),
        Some(f) => Err(Error::Misuse(format!("the output would replace the input {}; choose another -o", f.path.display()))),
    }
}

/// One name per input below the output directory; unused for a single file.
fn output_names(dataset: &Dataset, out: &Path) -> Result<Vec<PathBuf>> {
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
