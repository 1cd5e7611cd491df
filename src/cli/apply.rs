//! `transform` and `reconstruct`: a second streaming pass that writes as many rows as it reads.
//!
//! `Job` is what both share: the files, the columns read and kept, the output schema. What differs
//! is `Compute`: which columns come out of a block.

use super::args::{Dtype, Layout, OutputSpec, Preimage, ReconstructArgs, TransformArgs};
use super::output::{Columns, ModelBytes, file_names, number_field, number_type, vector_field};
use crate::error::{Error, Place, Result};
use crate::kernel::Comparer;
use crate::model::Model;
use crate::pass::{self, Crew};
use crate::project::Projector;
use crate::project::preimage::FixedPoint;
use crate::report::{self, Talk};
use crate::sink::parquet::is_one_file;
use crate::sink::{Encoder, ParquetSink, Sink};
use crate::source::{
    Block, Dataset, FeatureColumn, Features, Nulls, ParquetSource, Source, Tally, UnitSubset, Want,
    inputs, places,
};
use crate::words::{count, thousands};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch};
use arrow_schema::Field;
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
    Job::plan(&model, k, dataset, &args.data, &args.output, fitted(&model), compute)?
        .run("transform", talk)
}

/// Rows, or scores → rows as the components see them.
pub fn reconstruct(args: &ReconstructArgs, talk: Talk) -> Result<()> {
    let model = Model::load(&args.model)?;
    let k = components(&model, &args.output, talk);
    let back = way_back(&model, k, args.preimage)?;
    let dataset = Dataset::open(&inputs::expand(&args.data)?)?;
    let (want, compute) = if args.from_scores {
        let features = score_columns(&dataset, &args.output.prefix, k)?;
        (
            Want { features, nulls: Nulls::Error, advice: "leave the row out", ..Want::default() },
            Compute::RowsFromScores(back),
        )
    } else {
        (fitted(&model), Compute::Rows(back))
    };
    Job::plan(&model, k, dataset, &args.data, &args.output, want, compute)?.run("reconstruct", talk)
}

/// How rows are got back from scores, or why they are not.
fn way_back(model: &Model, k: usize, asked: Option<Preimage>) -> Result<Back> {
    let misuse = |problem: &str| Err(Error::Misuse(problem.into()));
    if model.is_normalized() {
        return misuse(
            "the cosine kernel forgets the length of a row, so there is no way back to it; fit with another kernel",
        );
    }
    let Some(map) = model.kernel_map() else {
        return match asked {
            None => Ok(Back::Linear),
            Some(_) => misuse(
                "--preimage is for kernel models; this one is reconstructed exactly without it",
            ),
        };
    };
    match asked {
        None => misuse(
            "a kernel model has no reconstruction: its components live where the kernel maps to, not among the features; --preimage fixed-point (rbf) comes near, and --preimage ridge if it was fitted with it",
        ),
        Some(Preimage::FixedPoint) if FixedPoint::suits(map) => Ok(Back::FixedPoint),
        Some(Preimage::FixedPoint) => misuse(
            "--preimage fixed-point is for the rbf kernel over rows; fit with --preimage ridge and reconstruct with it",
        ),
        Some(Preimage::Ridge) if model.preimage.is_none() => {
            misuse("this model has learned no pre-image; fit it with --preimage ridge")
        }
        Some(Preimage::Ridge) if k < model.n_components() => misuse(
            "the learned pre-image needs all components of its model; leave -k out, or fit with fewer",
        ),
        Some(Preimage::Ridge) => Ok(Back::Ridge),
    }
}

/// The features as they were fitted, with the same policy for missing values.
fn fitted(model: &Model) -> Want {
    let features = model.header.features.clone();
    Want { features, nulls: model.header.nulls.policy, advice: FITTED_ADVICE, ..Want::default() }
}

fn components(model: &Model, output: &OutputSpec, talk: Talk) -> usize {
    let asked = output.components.map_or(model.n_components(), |k| k as usize);
    if asked > model.n_components() {
        talk.say(format!(
            "note: asked for {asked} components, the model has {}",
            model.n_components()
        ));
    }
    asked.min(model.n_components())
}

/// Where the scores are: `pc1 … pck`, or the first k elements of a vector column `pc`.
fn score_columns(dataset: &Dataset, prefix: &str, k: usize) -> Result<Features> {
    use crate::source::footer::Kind;
    let kind = |name: &str| dataset.columns.iter().find(|c| c.name == name).map(|c| &c.kind);
    let wrong = |name: String, problem: String| {
        Error::data(Place::file(dataset.first_path()).column(name), problem)
    };
    let too_few = |found: usize| match found {
        0 => {
            "is not here; --from-scores needs the score columns that transform wrote (see --prefix)"
                .to_string()
        }
        n => format!("is not here; give -k {n} to use the {} that are", count(n as u64, "score")),
    };
    if let Some(Kind::Vector(value, width)) = kind(prefix) {
        let width = width.unwrap_or(k);
        if width < k {
            return Err(wrong(format!("{prefix}[{width}]"), too_few(width)));
        }
        let elements = (width > k).then(|| (0..k).collect());
        let column = FeatureColumn {
            name: prefix.into(),
            value: value.to_string(),
            width: Some(width),
            elements,
        };
        return Ok(Features { columns: vec![column] });
    }
    let scalar = |i: usize| {
        let name = format!("{prefix}{i}");
        match kind(&name) {
            Some(Kind::Scalar(value)) => {
                Ok(FeatureColumn { name, value: value.to_string(), width: None, elements: None })
            }
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
    Rows(Back),
    RowsFromScores(Back),
}

/// The way from scores to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Back {
    Linear,
    FixedPoint,
    Ridge,
}

/// A second pass that is known to be possible.
struct Job<'a> {
    model: &'a Model,
    projector: Projector<'a>,
    fixed_point: Option<FixedPoint<'a>>,
    output: &'a OutputSpec,
    compute: Compute,
    dataset: Dataset,
    source: ParquetSource,
    encoder: Encoder,
    crew: Crew,
    /// For each feature of the chosen columns, its value if it was constant and left out.
    constants: Vec<Option<f64>>,
    /// Threads that a worker may use for comparisons.
    threads: usize,
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
        let columns = Columns::new(&dataset, output, computed_fields(model, k, output, compute))?;
        want.keep = columns.kept_names();
        let encoder = Encoder::new(
            columns.schema(),
            &columns.computed_names(),
            columns.row_bytes,
            output.compression,
        )?;
        let crew = columns.crew(&dataset, &want, output, &model_bytes(model, compute))?;
        dataset.refuse_output(data, &output.output)?;
        let source = ParquetSource::new(&dataset, want);
        // Few row groups leave threads over, which comparisons with a kernel's rows can use.
        let threads =
            (output.resources.threads() / crew.threads.min(source.units().len()).max(1)).max(1);
        let projector = Projector::new(model, k, threads);
        let fixed = matches!(
            compute,
            Compute::Rows(Back::FixedPoint) | Compute::RowsFromScores(Back::FixedPoint)
        );
        let fixed_point =
            model.kernel_map().filter(|_| fixed).and_then(|map| FixedPoint::new(map, k));
        let (constants, overflowed) = (model.constant_features(), AtomicU64::new(0));
        Ok(Job {
            model,
            projector,
            fixed_point,
            threads,
            output,
            compute,
            dataset,
            source,
            encoder,
            crew,
            constants,
            overflowed,
        })
    }

    fn run(&self, what: &'static str, talk: Talk) -> Result<()> {
        let started = Instant::now();
        let names = file_names(&self.dataset, &self.output.output)?;
        // One file is never taken up again, so it needs no name of its own.
        let key = if is_one_file(&self.output.output) { None } else { Some(self.key()?) };
        let mut sink = ParquetSink::create(&self.output.output, names, &self.encoder, key)?;
        let done = sink.complete();
        let known = done.iter().filter(|d| **d).count();
        if known > 0 {
            talk.say(format!(
                "{known} of {} complete already and kept",
                count(done.len() as u64, "file")
            ));
        }
        let source = UnitSubset::without_inputs(&self.source, &done);
        let mut tally = Tally::default();
        let mut loss = Loss::default();
        {
            let progress = talk.progress(what, "rows", self.dataset.rows(), self.dataset.bytes());
            pass::map(
                &source,
                self.crew,
                &progress,
                |unit, blocks, out| self.unit(&source, unit, blocks, out),
                |unit, piece| match piece {
                    Piece::Group(group) => sink.write(source.units()[unit].input, group),
                    Piece::Tally(more, part) => {
                        tally.add(more);
                        loss.add(part);
                        Ok(())
                    }
                },
            )?;
        }
        sink.finish()?;
        self.report(&tally, loss, known, started.elapsed().as_secs_f64(), talk)
    }

    /// Names what is written: the same model, rows and options give the same files.
    fn key(&self) -> Result<u64> {
        use std::hash::Hasher;
        let mut hash = twox_hash::XxHash64::with_seed(0);
        hash.write(&self.model.to_bytes()?);
        let OutputSpec { dtype, compression, prefix, .. } = self.output;
        let inputs = crate::model::InputEntry::of(&self.dataset);
        let (k, compute, schema) = (self.projector.k(), self.compute, self.encoder.schema());
        hash.write(
            format!("{k} {compute:?} {dtype:?} {compression:?} {prefix} {schema:?} {inputs:?}")
                .as_bytes(),
        );
        Ok(hash.finish())
    }

    /// One unit: project block by block, encode, hand over full row groups.
    fn unit(
        &self,
        source: &dyn Source,
        unit: usize,
        blocks: &mut dyn Iterator<Item = Result<Block>>,
        out: &pass::Output<Piece>,
    ) -> Result<()> {
        let mut group = self.encoder.start()?;
        let (mut tally, mut loss) = (Tally::default(), Loss::default());
        for block in blocks {
            let mut block = block?;
            let place =
                places(source, unit, tally.rows, block.tally.dropped == 0 && tally.dropped == 0);
            tally.add(std::mem::take(&mut block.tally));
            group.write(&self.batch(block, place, &mut loss)?)?;
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
        out.give(Piece::Tally(tally, loss));
        Ok(())
    }

    fn batch(
        &self,
        mut block: Block,
        place: impl Fn(usize) -> Place,
        loss: &mut Loss,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> =
            block.kept.take().map_or_else(Vec::new, |b| b.columns().to_vec());
        match self.compute {
            Compute::Scores { layout, diagnostics } => {
                let projected = self.projector.project(block, place)?;
                columns.extend(self.score_arrays(&projected.scores, layout)?);
                if diagnostics {
                    let d = self.projector.diagnostics(&projected);
                    columns.extend([self.numbers(d.error.to_vec()), self.numbers(d.t2.to_vec())]);
                }
            }
            Compute::Rows(back) => {
                let projected = self.projector.project(block, place)?;
                let rows =
                    self.back(back, &projected.scores, Some(projected.prepared.view()), loss);
                columns.extend(self.row_arrays(&rows)?);
            }
            Compute::RowsFromScores(back) => {
                let scores = block.into_f64().reversed_axes();
                columns.extend(self.row_arrays(&self.back(back, &scores, None, loss))?);
            }
        }
        RecordBatch::try_new(self.encoder.schema().clone(), columns)
            .map_err(|e| Error::Internal(format!("output batch: {e}")))
    }

    /// Rows from scores, and from the rows they belong to where those are known.
    fn back(
        &self,
        back: Back,
        scores: &Array2<f64>,
        rows: Option<ArrayView2<'_, f64>>,
        loss: &mut Loss,
    ) -> Array2<f64> {
        match (back, &self.fixed_point, &self.model.preimage) {
            (Back::FixedPoint, Some(fixed_point), _) => {
                let found = fixed_point.solve(scores, rows, self.threads);
                loss.add(Loss {
                    rows: scores.ncols() as u64,
                    left: found.losses.sum(),
                    of: 0.0,
                    restless: found.unsettled,
                });
                self.projector.unprepared(found.rows)
            }
            (Back::Ridge, _, Some(ridge)) => {
                let found = ridge.apply(scores.t());
                if let Some(rows) = rows {
                    let left = (&found - &rows).iter().map(|v| v * v).sum();
                    let of = (&rows - &ridge.mean).iter().map(|v| v * v).sum();
                    loss.add(Loss { rows: scores.ncols() as u64, left, of, restless: 0 });
                }
                self.projector.unprepared(found)
            }
            _ => self.projector.reconstruct(scores),
        }
    }

    fn score_arrays(&self, scores: &Array2<f64>, layout: Layout) -> Result<Vec<ArrayRef>> {
        match layout {
            Layout::Columns => {
                Ok(scores.rows().into_iter().map(|row| self.numbers(row.to_vec())).collect())
            }
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
        self.overflowed
            .fetch_add(values.iter().filter(overflowed).count() as u64, Ordering::Relaxed);
        match self.output.dtype {
            Dtype::F64 => Arc::new(Float64Array::from(values)),
            Dtype::F32 => {
                Arc::new(Float32Array::from_iter_values(values.iter().map(|v| *v as f32)))
            }
        }
    }

    fn list(&self, rows: ArrayView2<'_, f64>) -> Result<ArrayRef> {
        let values = self.numbers(rows.iter().copied().collect());
        let item = Arc::new(Field::new_list_field(number_type(self.output.dtype), false));
        let list = FixedSizeListArray::try_new(item, rows.ncols() as i32, values, None);
        Ok(Arc::new(list.map_err(|e| Error::Internal(format!("list column: {e}")))?))
    }

    /// Mean squared distance where the kernel maps to; of ridge, the share of the spread among the features.
    fn loss(&self, loss: Loss) -> Option<f64> {
        let over = if loss.of > 0.0 { loss.of } else { loss.rows as f64 };
        (loss.rows > 0).then_some(loss.left / over)
    }

    fn loss_text(&self, loss: Loss) -> Option<String> {
        let left = self.loss(loss)?;
        if loss.of > 0.0 {
            return Some(format!(
                "pre-images by ridge: {:.2} % of the rows' spread is not brought back",
                100.0 * left
            ));
        }
        let restless = match loss.restless {
            0 => String::new(),
            n => format!("; the iteration of {} did not come to rest", count(n, "row")),
        };
        Some(format!(
            "pre-images by fixed point: mean squared distance {left:.3e} from the projections, where the kernel maps to{restless}"
        ))
    }

    fn report(
        &self,
        tally: &Tally,
        loss: Loss,
        known: usize,
        seconds: f64,
        talk: Talk,
    ) -> Result<()> {
        if let Some(text) = self.loss_text(loss) {
            talk.say(text);
        }
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
            talk.say(format!(
                "note: {written} beyond the range of {} written as inf or NaN",
                number_type(self.output.dtype)
            ));
        }
        let files =
            if is_one_file(&self.output.output) { 1 } else { self.dataset.files.len() - known };
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
            "n_files_kept": known,
            "n_components": self.projector.k(),
            "rows_read": tally.rows,
            "rows_written": written,
            "rows_dropped": tally.dropped,
            "overflowed": overflowed,
            "preimage_loss": self.loss(loss),
            "preimage_restless": (loss.rows > 0).then_some(loss.restless),
            "seconds": seconds,
        })))
    }
}

/// What pre-images lose.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    rows: u64,
    /// Σ of squared distances: where the kernel maps to (fixed point) or among the features (ridge).
    left: f64,
    /// Σ of squared distances from the mean, of ridge.
    of: f64,
    restless: u64,
}

impl Loss {
    fn add(&mut self, more: Loss) {
        self.rows += more.rows;
        self.left += more.left;
        self.of += more.of;
        self.restless += more.restless;
    }
}

/// What a worker hands over.
enum Piece {
    Group(crate::sink::RowGroup),
    Tally(Tally, Loss),
}

/// What a kernel model takes while it is applied.
fn model_bytes(model: &Model, compute: Compute) -> ModelBytes {
    let Some(map) = model.kernel_map() else { return ModelBytes::default() };
    let (m, d, k) = (map.basis.len() as u64, map.basis.width() as u64, model.n_components() as u64);
    // The rows may be held once more, moved to the origin.
    let held = 8 * m * (2 * d + k + 4);
    let back = if matches!(compute, Compute::Scores { .. }) { 0 } else { 8 * 32 * (m + 1024) };
    ModelBytes { held, each: Comparer::bytes(d) + back }
}

fn computed_fields(
    model: &Model,
    k: usize,
    output: &OutputSpec,
    compute: Compute,
) -> Vec<Arc<Field>> {
    let number = |name: String| number_field(name, output.dtype);
    match compute {
        Compute::Scores { layout, diagnostics } => {
            let mut fields = match layout {
                Layout::Columns => {
                    (1..=k).map(|i| number(format!("{}{i}", output.prefix))).collect()
                }
                Layout::List => vec![vector_field(&output.prefix, output.dtype, k)],
            };
            if diagnostics {
                fields.extend([number(ERROR_COLUMN.into()), number(T2_COLUMN.into())]);
            }
            fields
        }
        Compute::Rows(_) | Compute::RowsFromScores(_) => {
            let columns = model.header.columns.columns.iter();
            let field = |c: &FeatureColumn| match c.width {
                None => number(c.name.clone()),
                Some(_) => vector_field(&c.name, output.dtype, c.len()),
            };
            columns.map(field).collect()
        }
    }
}
