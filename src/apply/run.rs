//! A plan, run: record batches to a [`Sink`], or Parquet files.
//!
//! ```text
//! worker: unit ─► blocks ─► batches ─► [row groups] ─┐
//! worker: unit ─► blocks ─► batches ─► [row groups] ─┼─► sink, in the order of the input
//! ```
//!
//! A run that fails, or that the listener ends, drops its sink, and with it what was written.

use super::batches::{Batches, Loss, Totals};
use super::memory::PieceKind;
use super::options::{Dtype, Preimage};
use super::plan::{AppliedNulls, ApplyPlan, Compute};
use crate::error::{Error, Place, Result};
use crate::listen::{Listener, Stage, Watch};
use crate::model::InputEntry;
use crate::note::Note;
use crate::pass;
use crate::sink::{Encoder, ParquetOutput, ParquetSink, Sink};
use crate::source::{ReadLimit, ReadRequest, Source, UnitSubset, refuse_replacing};
use crate::workers::{Crew, Output};
use arrow_array::RecordBatch;
use std::collections::HashMap;
use std::hash::Hasher;
use std::path::PathBuf;

/// The one file of a directory whose rows come from no file.
const ONLY_FILE: &str = "part-000.parquet";

/// What a second pass has done, with what an earlier run had completed of its output. Cells, nulls
/// and losses are those of this run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApplySummary {
    /// Components applied.
    pub components: usize,
    /// Rows read.
    pub rows_read: u64,
    /// Rows that came out.
    pub rows_written: u64,
    /// Rows left out for missing values.
    pub rows_dropped: u64,
    /// Rows that came out with nulls, for missing values.
    pub rows_null: u64,
    /// Missing cells that were met.
    pub missing: u64,
    /// Computed numbers beyond the range of their type, written as inf or NaN.
    pub overflowed: u64,
    /// What pre-images lose, where that is known.
    pub preimage: Option<PreimageLoss>,
    /// Files of the output; 0 where batches went to a sink.
    pub files: usize,
    /// Those of an earlier run that were complete, and kept.
    pub files_kept: usize,
}

/// What pre-images lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PreimageLoss {
    /// How they were found.
    pub by: Preimage,
    /// By ridge: the share of the rows' spread that is not brought back. By fixed point: the mean
    /// squared distance from the projections, where the kernel maps to.
    pub loss: f64,
    /// Rows whose iteration did not come to rest.
    pub unsettled: u64,
}

/// What an earlier run has completed.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    files: usize,
    rows_read: u64,
    rows_written: u64,
}

/// The batches of a unit.
type UnitBatches<'a> = dyn Iterator<Item = Result<RecordBatch>> + 'a;

/// What a worker hands over.
enum Piece<P> {
    Part(P),
    Totals(Totals),
}

impl ApplyPlan<'_, '_> {
    /// Gives the sink every batch, in the order of the input; `&mut Vec<RecordBatch>` keeps them.
    ///
    /// A failed or cancelled run drops the sink without finishing it.
    pub fn run(&self, mut sink: impl Sink, listener: &dyn Listener) -> Result<ApplySummary> {
        let crew = self.crew(PieceKind::Batch)?;
        self.tell_left_out(listener);
        let encode = |batches: &mut UnitBatches<'_>, give: &mut dyn FnMut(RecordBatch)| {
            for batch in batches {
                let batch = batch?;
                if batch.num_rows() > 0 {
                    give(batch);
                }
            }
            Ok(())
        };
        let totals = self.stream(crew, &[], listener, encode, &mut sink)?;
        sink.finish()?;
        Ok(self.applied(&totals, Kept::default(), listener))
    }

    /// Writes Parquet: one file, or a directory with one file per input, which appears when all of
    /// it is written.
    ///
    /// A directory that a killed process left unfinished is taken up where the model, the files
    /// and the options are the same.
    pub fn write_parquet(
        &self,
        output: &ParquetOutput,
        listener: &dyn Listener,
    ) -> Result<ApplySummary> {
        let crew = self.crew(PieceKind::RowGroup(output.compression))?;
        refuse_replacing(self.table.inputs(), &output.path)?;
        self.tell_left_out(listener);
        let computed = self.columns.computed_names();
        let schema = self.schema.clone();
        let encoder = Encoder::new(schema, &computed, self.row_bytes, output.compression)?;
        let names = self.file_names(output)?;
        let all = names.len();
        let mut sink = ParquetSink::create(output, names, &encoder, self.key(output)?)?;
        let done = sink.complete();
        let kept = self.kept(&done, sink.complete_rows()?);
        if kept.files > 0 {
            listener.note(&Note::FilesKept { kept: kept.files, of: all as u64 });
        }
        let encode =
            |batches: &mut UnitBatches<'_>, give: &mut dyn FnMut(_)| encoder.encode(batches, give);
        let totals = self.stream(crew, &done, listener, encode, &mut sink)?;
        let watch = Watch::new(listener, Stage::untold("finishing"));
        sink.finish()?;
        drop(watch);
        let files = if output.is_one_file() { 1 } else { all };
        Ok(ApplySummary { files, ..self.applied(&totals, kept, listener) })
    }

    /// The pass: workers make batches and encode them, the sink takes what they give.
    fn stream<P: Send>(
        &self,
        (crew, limit): (Crew, ReadLimit),
        done: &[bool],
        listener: &dyn Listener,
        encode: impl Fn(&mut UnitBatches<'_>, &mut dyn FnMut(P)) -> Result<()> + Sync,
        sink: &mut impl Sink<P>,
    ) -> Result<Totals> {
        let whole = self.table.read(&ReadRequest { limit, ..self.request.clone() })?;
        let source = match &self.shard {
            Some(_) => UnitSubset::of_shard(&*whole, self.shard),
            None => UnitSubset::without_inputs(&*whole, done),
        };
        // Few units leave threads over, which comparisons with a kernel's rows can use.
        let busy = crew.threads.min(whole.units().len()).max(1);
        let batches = Batches::new(self, (self.resources.threads() / busy).max(1));
        let work = |unit: usize, blocks: &mut pass::Blocks<'_>, out: &Output<Piece<P>>| {
            let mut totals = Totals::default();
            let mut made = blocks.map(|block| batches.batch(&source, unit, block?, &mut totals));
            encode(&mut made, &mut |part| out.give(Piece::Part(part)))?;
            out.give(Piece::Totals(totals));
            Ok(())
        };
        let mut totals = Totals::default();
        let watch = Watch::new(listener, pass::stage("mapping", "rows", &source, 0));
        pass::map(&source, crew, &watch, work, |unit, piece| match piece {
            Piece::Part(part) => sink.write(source.units()[unit].input, part),
            Piece::Totals(more) => {
                totals.add(more);
                Ok(())
            }
        })?;
        Ok(totals)
    }

    /// One name per input below the output directory; none for a single file.
    pub(super) fn file_names(&self, output: &ParquetOutput) -> Result<Vec<PathBuf>> {
        let inputs = self.table.inputs();
        if output.is_one_file() {
            return Ok(Vec::new());
        }
        if inputs.is_empty() {
            return Ok(vec![ONLY_FILE.into()]);
        }
        let mut seen = HashMap::new();
        for file in inputs {
            if let Some(other) = seen.insert(&file.relative, &file.path) {
                let problem = format!(
                    "has the name of {} and they would share an output file; give their common \
                     directory, or write one .parquet file",
                    other.display()
                );
                return Err(Error::data(Place::file(&file.path), problem));
            }
        }
        Ok(inputs.iter().map(|f| f.relative.clone()).collect())
    }

    /// Names what is written: the same model, rows and options give the same files. `None` where
    /// nothing is taken up again: of one file, and of rows that come from no file.
    pub(super) fn key(&self, output: &ParquetOutput) -> Result<Option<u64>> {
        let inputs = InputEntry::of(self.table);
        if output.is_one_file() || inputs.is_empty() {
            return Ok(None);
        }
        let mut hash = twox_hash::XxHash64::with_seed(0);
        hash.write(&self.model.to_bytes()?);
        let ApplyPlan { k, compute, dtype, schema, nulls: AppliedNulls { policy, .. }, .. } = self;
        let (features, compression) = (&self.request.features, output.compression);
        let mut options =
            format!("{k} {compute:?} {dtype:?} {policy:?} {compression:?} {features:?}");
        if self.deviations.is_some() {
            options += " white";
        }
        hash.write(format!("{options} {schema:?} {inputs:?}").as_bytes());
        Ok(Some(hash.finish()))
    }

    fn tell_left_out(&self, listener: &dyn Listener) {
        self.notes.iter().for_each(|note| listener.note(note));
        let added = match self.compute {
            Compute::Scores { added, .. } => Some(added),
            _ => None,
        };
        if added.is_some_and(|added| added.error && !added.hotelling) {
            listener.note(&Note::NoHotelling);
        }
        let (asked, has) = (self.asked, self.model.n_components());
        if asked > has {
            listener.note(&Note::ModelHasFewer { asked, has });
        }
    }

    /// What an earlier run has completed, in so many rows.
    fn kept(&self, done: &[bool], rows_written: u64) -> Kept {
        let inputs = self.table.inputs().iter().zip(done).filter(|(_, done)| **done);
        let rows_read = inputs.map(|(input, _)| input.rows).sum();
        Kept { files: done.iter().filter(|d| **d).count(), rows_read, rows_written }
    }

    /// What was done, and told.
    fn applied(&self, totals: &Totals, kept: Kept, listener: &dyn Listener) -> ApplySummary {
        let tally = &totals.tally;
        let dropped = tally.dropped + kept.rows_read.saturating_sub(kept.rows_written);
        let applied = ApplySummary {
            components: self.k,
            rows_read: tally.rows + kept.rows_read,
            rows_written: tally.rows - tally.dropped + kept.rows_written,
            rows_dropped: dropped,
            rows_null: totals.rows_null,
            missing: tally.missing.values().sum(),
            overflowed: totals.overflowed,
            preimage: self.compute.preimage().and_then(|by| preimage_loss(by, totals.loss)),
            files: 0,
            files_kept: kept.files,
        };
        applied.notes(self.dtype, self.nulls.asked).iter().for_each(|note| listener.note(note));
        applied
    }
}

fn preimage_loss(by: Preimage, loss: Loss) -> Option<PreimageLoss> {
    let over = if loss.of > 0.0 { loss.of } else { loss.rows as f64 };
    let unsettled = loss.unsettled;
    (loss.rows > 0).then(|| PreimageLoss { by, loss: loss.left / over, unsettled })
}

impl ApplySummary {
    /// What a user should know of it.
    fn notes(&self, dtype: Dtype, asked: bool) -> Vec<Note> {
        let mut notes = Vec::new();
        notes.extend(self.preimage.map(|p| match p.by {
            Preimage::Ridge => Note::RidgeLoss(p.loss),
            Preimage::FixedPoint => {
                Note::FixedPointLoss { distance: p.loss, unsettled: p.unsettled }
            }
        }));
        let rows = self.rows_read;
        if self.rows_null > 0 {
            notes.push(Note::RowsNull { null: self.rows_null, rows });
        } else if self.rows_dropped > 0 {
            notes.push(Note::RowsDroppedAgain { dropped: self.rows_dropped, rows, asked });
        } else if self.missing > 0 {
            notes.push(Note::CellsFilledAgain { cells: self.missing, asked });
        }
        if self.overflowed > 0 {
            let dtype = match dtype {
                Dtype::F64 => "Float64",
                Dtype::F32 => "Float32",
            };
            notes.push(Note::Overflowed { numbers: self.overflowed, dtype });
        }
        notes
    }
}
