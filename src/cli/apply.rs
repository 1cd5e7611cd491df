//! `transform` and `reconstruct`: a second streaming pass that writes as many rows as it reads.
//!
//! `Job` is what both share: the files, the columns read and kept, the output schema. What differs
//! is `Compute`: which columns come out of a block.

use super::args::{Dtype, Layout, OutputSpec, ReconstructArgs, TransformArgs};
use super::output::{Columns, file_names, number_field, number_type, vector_field};
use crate::error::{Error, Place, Result};
use crate::model::Model;
use crate::pass::{self, Crew};
use crate::project::Projector;
use crate::report::text::{count, thousands};
use crate::report::{self, Talk};
use crate::sink::parquet::is_one_file;
use crate::sink::{Encoder, ParquetSink, Sink};
use crate::source::{Block, Dataset, FeatureColumn, Features, Nulls, ParquetSource, Source, Tally, Want, inputs};
use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch};
use arrow::datatypes::Field;
use ndarray::{Array2, ArrayView2};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What to do about a missing value when the model says none may be.
const FITTED_ADVICE: &str = "the model was fitted with --nulls error; clean the row, or fit with --nulls drop or --nulls mean";

const ERROR_COLUMN: &str = "reconstruction_error";
const T2_COLUMN: &str = "hotelling_t2";

/// Rows → scores.
pub fn transform(args: &TransformArgs, talk: Talk) -> Result<()> {
    let model = Model::load(&args.model)?;
    let k = components(&model, &args.output, talk);
    if args.diagnostics && model.explained_variance().is_none() {
        let problem = "--diagnostics needs the variance along each component, which this supervised model does not have";
        return Err(Error::Misuse(format!("{problem}; fit it with --with-variance")));
    }
    let compute = Compute::Scores { layout: args.layout, diagnostics: args.diagnostics };
    let dataset = Dataset::open(&inputs::expand(&args.data)?)?;
    Job::plan(&model, k, dataset, &args.data, &args.output, fitted(&model), compute)?.run("transform", talk)
}

/// Rows, or scores → rows as the components see them.
pub fn reconstruct(args: &ReconstructArgs, talk: Talk) -> Result<()> {
    let model = Model::load(&args.model)?;
    let k = components(&model, &args.output, talk);
    let dataset = Dataset::open(&inputs::expand(&args.data)?)?;
    let (want, compute) = if args.from_scores {
        let features = score_columns(&dataset, &args.output.prefix, k)?;
        (Want { features, nulls: Nulls::Error, advice: "leave the row out", ..Want::default() }, Compute::RowsFromScores)
    } else {
        (fitted(&model), Compute::Rows)
    };
    Job::plan(&model, k, dataset, &args.data, &args.output, want, compute)?.run("reconstruct", talk)
}

/// The features as they were fitted, with the same policy for missing values.
fn fitted(model: &Model) -> Want {
    let features = model.header.features.clone();
    Want { features, nulls: model.header.nulls.policy, advice: FITTED_ADVICE, ..Want::default() }
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
    let wrong = |name: String, problem: String| Error::data(Place::file(dataset.first_path()).column(name), problem);
    let too_few = |found: usize| match found {
        0 => "is not here; --from-scores needs the score columns that transform wrote (see --prefix)".to_string(),
        n => format!("is not here; give -k {n} to use the {} that are", count(n as u64, "score")),
    };
    if let Some(Kind::Vector(value, width)) = kind(prefix) {
        let width = width.unwrap_or(k);
        if width < k {
            return Err(wrong(format!("{prefix}[{width}]"), too_few(width)));
        }
        let elements = (width > k).then(|| (0..k).collect());
        let column = FeatureColumn { name: prefix.into(), value: value.to_string(), width: Some(width), elements };
        return Ok(Features { columns: vec![column] });
    }
    let scalar = |i: usize| {
        let name = format!("{prefix}{i}");
        match kind(&name) {
            Some(Kind::Scalar(value)) => Ok(FeatureColumn { name, value: value.to_string(), width: None, elements: None }),
            Some(other) => Err(wrong(name, format!("is {}, not a number", other.describe()))),
            None => Err(wrong(name, too_few(i - 1))),
        }
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
    /// For each feature of the chosen columns, its value if it was constant and left out.
    constants: Vec<Option<f64>>,
    /// Computed numbers beyond the range of their type.
    overflowed: AtomicU64,
}

impl<'a> Job<'a> {
    fn plan(
        model: &'a Model,
        k: usize,
        dataset: Dataset,
        data: &[String],
        output: &'a OutputSpec,
        mut want: Want,
        compute: Compute,
    ) -> Result<Job<'a>> {
        want.features.check(&dataset)?;
        let projector = Projector::new(model, k);
        let columns = Columns::new(&dataset, output, computed_fields(model, &projector, output, compute))?;
        want.keep = columns.kept_names();
        let encoder = Encoder::new(columns.schema(), &columns.computed_names(), columns.row_bytes, output.compression)?;
        let crew = columns.crew(&dataset, &want, output)?;
        dataset.refuse_output(data, &output.output)?;
        let source = ParquetSource::new(&dataset, want);
        let (constants, overflowed) = (model.constant_features(), AtomicU64::new(0));
        Ok(Job { model, projector, output, compute, dataset, source, encoder, crew, constants, overflowed })
    }

    fn run(&self, what: &'static str, talk: Talk) -> Result<()> {
        let started = Instant::now();
        let names = file_names(&self.dataset, &self.output.output)?;
        let mut sink = ParquetSink::create(&self.output.output, names, &self.encoder)?;
        let mut tally = Tally::default();
        {
            let progress = talk.progress(what, "rows", self.dataset.rows(), self.dataset.bytes());
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
        let columns = &self.model.header.columns.columns;
        let mut constants = self.constants.iter();
        let mut next = 0;
        let mut arrays = Vec::with_capacity(columns.len());
        for column in columns {
            let mut wide = Array2::zeros((rows.nrows(), column.len()));
            for (mut target, constant) in wide.columns_mut().into_iter().zip(&mut constants) {
                match constant {
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
        let overflowed = |v: &&f64| match self.output.dtype {
            Dtype::F64 => !v.is_finite(),
            Dtype::F32 => !(**v as f32).is_finite(),
        };
        self.overflowed.fetch_add(values.iter().filter(overflowed).count() as u64, Ordering::Relaxed);
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
        let overflowed = self.overflowed.load(Ordering::Relaxed);
        if overflowed > 0 {
            let written = count(overflowed, "computed number");
            talk.say(format!("note: {written} beyond the range of {} written as inf or NaN", number_type(self.output.dtype)));
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
            "overflowed": overflowed,
            "seconds": seconds,
        })))
    }
}

/// What a worker hands over.
enum Piece {
    Group(crate::sink::RowGroup),
    Tally(Tally),
}

fn computed_fields(model: &Model, projector: &Projector<'_>, output: &OutputSpec, compute: Compute) -> Vec<Arc<Field>> {
    let number = |name: String| number_field(name, output.dtype);
    match compute {
        Compute::Scores { layout, diagnostics } => {
            let mut fields = match layout {
                Layout::Columns => (1..=projector.k()).map(|i| number(format!("{}{i}", output.prefix))).collect(),
                Layout::List => vec![vector_field(&output.prefix, output.dtype, projector.k())],
            };
            if diagnostics {
                fields.extend([number(ERROR_COLUMN.into()), number(T2_COLUMN.into())]);
            }
            fields
        }
        Compute::Rows | Compute::RowsFromScores => {
            let columns = model.header.columns.columns.iter();
            let field = |c: &FeatureColumn| match c.width {
                None => number(c.name.clone()),
                Some(_) => vector_field(&c.name, output.dtype, c.len()),
            };
            columns.map(field).collect()
        }
    }
}
