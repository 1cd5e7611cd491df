//! Asked, then checked: [`Transform`] or [`Reconstruct`], a model and a table → [`ApplyPlan`]. No
//! row is read.

use super::columns::{OutputColumns, computed_fields, nullable};
use super::options::{Dtype, KeepColumns, Layout, Preimage, Reconstruct, RowNulls, Transform};
use crate::error::{Error, Result};
use crate::fit::{Resources, bounds};
use crate::model::Model;
use crate::note::Note;
use crate::project::preimage::FixedPoint;
use crate::source::{ColumnKind, FeatureColumn, Features, ReadCost, ReadRequest, Shard, Table};
use crate::source::{WidenedColumn, widened_among};
use crate::words::count;
use arrow_schema::SchemaRef;
use ndarray::Array1;

/// What to do about a missing value when the model says none may be.
const FITTED_ADVICE: &str = "the model was fitted with ⟦nulls=error⟧; clean the row, or choose \
                             ⟦nulls=null⟧, which keeps it without scores, drop or mean";

/// The same where that was asked for.
const ASKED_ADVICE: &str = "clean the row, or choose ⟦nulls=null⟧, drop or mean";

/// What comes out of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compute {
    Scores { layout: Layout, added: Added },
    Rows(Inverse),
    RowsFromScores(Inverse),
}

/// What comes with the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) error: bool,
    pub(super) hotelling: bool,
    pub(super) residuals: bool,
}

/// The way from scores to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inverse {
    Linear,
    Preimage(Preimage),
}

impl Compute {
    /// The way back, if there is one.
    pub(super) fn preimage(self) -> Option<Preimage> {
        match self {
            Compute::Rows(Inverse::Preimage(way))
            | Compute::RowsFromScores(Inverse::Preimage(way)) => Some(way),
            _ => None,
        }
    }

    /// True when x − x̂ is written.
    pub(super) fn has_residuals(self) -> bool {
        matches!(self, Compute::Scores { added: Added { residuals: true, .. }, .. })
    }
}

/// A second pass that is known to be possible.
pub struct ApplyPlan<'m, 't> {
    pub(super) model: &'m Model,
    pub(super) table: &'t dyn Table,
    /// ComponentCount asked for, and applied.
    pub(super) asked: usize,
    pub(super) k: usize,
    pub(super) request: ReadRequest,
    pub(super) compute: Compute,
    pub(super) dtype: Dtype,
    /// Standard deviations of the scores in the fit, where scores are whitened.
    pub(super) deviations: Option<Array1<f64>>,
    pub(super) nulls: AppliedNulls,
    pub(super) columns: OutputColumns,
    pub(super) schema: SchemaRef,
    /// What reading takes.
    pub(super) read: ReadCost,
    /// Bytes of an output row, about.
    pub(super) row_bytes: u64,
    /// What should be known of the columns.
    pub(super) notes: Vec<Note>,
    /// Only these rows of the files.
    pub(super) shard: Option<Shard>,
    pub(super) resources: Resources,
}

/// What is done about missing values, and whether that was asked for or is as fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AppliedNulls {
    pub(super) policy: RowNulls,
    pub(super) asked: bool,
}

impl AppliedNulls {
    fn of(model: &Model, asked: Option<RowNulls>) -> AppliedNulls {
        let policy = asked.unwrap_or_else(|| model.header.nulls.policy.into());
        AppliedNulls { policy, asked: asked.is_some() }
    }

    /// Among scores, of which there is no mean.
    fn of_scores(asked: Option<RowNulls>) -> Result<AppliedNulls> {
        match asked {
            Some(RowNulls::Mean) => Error::misuse(
                "⟦nulls=mean⟧ is for rows, whose means a model has; among scores choose error, \
                 drop or null",
            ),
            _ => Ok(AppliedNulls { policy: asked.unwrap_or(RowNulls::Error), asked: true }),
        }
    }

    /// True when rows come out with nulls.
    pub(super) fn keeps_rows(self) -> bool {
        self.policy == RowNulls::Null
    }
}

impl Transform {
    /// Checks the options against a model and a table; no row is read.
    ///
    /// What does not fit the memory is planned all the same, and refused when it runs, before the
    /// first row is read.
    pub fn plan<'m, 't>(
        &self,
        model: &'m Model,
        table: &'t dyn Table,
    ) -> Result<ApplyPlan<'m, 't>> {
        let Transform { layout, diagnostics, residuals, .. } = *self;
        let hotelling = diagnostics && model.explained_variance().is_some();
        let added = Added { error: diagnostics, hotelling, residuals };
        let compute = Compute::Scores { layout, added };
        let nulls = AppliedNulls::of(model, self.nulls);
        if residuals {
            check_residuals(model)?;
        }
        // A feature that was constant has a residual, too.
        let fitted = if residuals { Fitted::Columns } else { Fitted::Features };
        let request = rows_request(model, table, nulls, fitted, self.by_position)?;
        if self.diagnostics && model.kernel_map().is_some_and(|map| !map.knows_lengths()) {
            return Error::misuse(
                "⟦diagnostics⟧ needs k(x, x), which is not among the kernel values of a new row; \
                 leave it out",
            );
        }
        let components = ComponentCount::of(model, self.components)?;
        let output = OutputOptions {
            keep: &self.keep,
            dtype: self.dtype,
            deviations: self.whiten.then(|| deviations(model, components.k)).transpose()?,
            nulls,
            prefix: &self.prefix,
            resources: &self.resources,
        };
        let plan = ApplyPlan::new(model, table, components, request, compute, output)?;
        Ok(ApplyPlan { shard: self.shard, ..plan })
    }
}

impl Reconstruct {
    /// Checks the options against a model and a table; no row is read.
    ///
    /// What does not fit the memory is planned all the same, and refused when it runs, before the
    /// first row is read.
    pub fn plan<'m, 't>(
        &self,
        model: &'m Model,
        table: &'t dyn Table,
    ) -> Result<ApplyPlan<'m, 't>> {
        let components = ComponentCount::of(model, self.components)?;
        let inverse = inverse(model, components.k, self.preimage)?;
        let (request, compute, nulls) = if self.from_scores {
            let nulls = AppliedNulls::of_scores(self.nulls)?;
            let request = ReadRequest {
                features: score_columns(table, &self.prefix, components.k)?,
                nulls: nulls.policy.read(),
                advice: "leave the row out, or choose ⟦nulls=null⟧ or drop",
                ..ReadRequest::default()
            };
            (request, Compute::RowsFromScores(inverse), nulls)
        } else {
            let nulls = AppliedNulls::of(model, self.nulls);
            let request = rows_request(model, table, nulls, Fitted::Features, self.by_position)?;
            (request, Compute::Rows(inverse), nulls)
        };
        let whitened = self.whitened && self.from_scores;
        let output = OutputOptions {
            keep: &self.keep,
            dtype: self.dtype,
            deviations: whitened.then(|| deviations(model, components.k)).transpose()?,
            nulls,
            prefix: &self.prefix,
            resources: &self.resources,
        };
        ApplyPlan::new(model, table, components, request, compute, output)
    }
}

/// How many components were asked for, and are applied.
struct ComponentCount {
    asked: usize,
    k: usize,
}

impl ComponentCount {
    fn of(model: &Model, asked: Option<usize>) -> Result<ComponentCount> {
        let has = model.n_components();
        match asked {
            Some(0) => Error::misuse("⟦components⟧ must be 1 or more to cut a model to"),
            _ => {
                let asked = asked.unwrap_or(has);
                Ok(ComponentCount { asked, k: asked.min(has) })
            }
        }
    }
}

/// What both passes are asked of their output.
struct OutputOptions<'a> {
    keep: &'a KeepColumns,
    dtype: Dtype,
    deviations: Option<Array1<f64>>,
    nulls: AppliedNulls,
    prefix: &'a str,
    resources: &'a Resources,
}

impl<'m, 't> ApplyPlan<'m, 't> {
    fn new(
        model: &'m Model,
        table: &'t dyn Table,
        components: ComponentCount,
        mut request: ReadRequest,
        compute: Compute,
        output: OutputOptions<'_>,
    ) -> Result<ApplyPlan<'m, 't>> {
        bounds::threads(output.resources)?;
        bounds::rows(table)?;
        let fitted_wider = request.features.check(table)?;
        let ComponentCount { asked, k } = components;
        let computed = computed_fields(model, k, compute, output.dtype, output.prefix);
        let computed = match output.nulls.keeps_rows() {
            true => nullable(&computed),
            false => computed,
        };
        let columns = OutputColumns::new(table, output.keep, compute, computed)?;
        request.keep = columns.kept_names();
        let names: Vec<&str> = request.names().collect();
        let wider = WidenedColumn::note(&widened_among(table, &names), false);
        let notes = WidenedColumn::note(&fitted_wider, true).into_iter().chain(wider).collect();
        let read = table.cost(&request)?;
        Ok(ApplyPlan {
            model,
            table,
            asked,
            k,
            request,
            compute,
            dtype: output.dtype,
            deviations: output.deviations,
            nulls: output.nulls,
            schema: columns.schema(),
            row_bytes: read.kept_row.saturating_add(columns.computed_bytes()),
            columns,
            read,
            notes,
            shard: None,
            resources: output.resources.clone(),
        })
    }

    /// The columns that come out: those kept, then those computed.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many components are applied.
    pub fn n_components(&self) -> usize {
        self.k
    }
}

/// Which of a model's features are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fitted {
    /// Those that have loadings.
    Features,
    /// Those that were constant, too.
    Columns,
}

/// The features as they were fitted, or what stands in their places.
fn rows_request(
    model: &Model,
    table: &dyn Table,
    nulls: AppliedNulls,
    fitted: Fitted,
    by_position: bool,
) -> Result<ReadRequest> {
    let header = &model.header;
    let features = match (by_position, fitted) {
        (false, Fitted::Features) => header.features.clone(),
        (false, Fitted::Columns) => header.columns.clone(),
        (true, Fitted::Columns) => positional(model, table)?,
        (true, Fitted::Features) => {
            let constants = model.constant_features().into_iter().enumerate();
            let left_out = constants.filter_map(|(j, constant)| constant.map(|_| j));
            positional(model, table)?.without(&left_out.collect::<Vec<_>>())
        }
    };
    Ok(ReadRequest {
        features,
        nulls: nulls.policy.read(),
        advice: if nulls.asked { ASKED_ADVICE } else { FITTED_ADVICE },
        ..ReadRequest::default()
    })
}

/// The numeric columns of a table, which must be as many features as were fitted.
fn positional(model: &Model, table: &dyn Table) -> Result<Features> {
    let features = Features::of_table(table)?;
    let (here, fitted) = (features.len(), model.header.columns.len());
    if here == fitted {
        return Ok(features);
    }
    let problem =
        format!("has {} where the model was fitted on {fitted}", { count(here as u64, "feature") });
    Err(Error::data(table.place(), problem))
}

/// Standard deviations along the first k components, none of which may be 0.
fn deviations(model: &Model, k: usize) -> Result<Array1<f64>> {
    let Some(variances) = model.explained_variance() else {
        return Error::misuse(
            "whitening divides by the variance along each component, which this model does not \
             have; fit it with ⟦with-variance⟧",
        );
    };
    let deviations: Array1<f64> = variances.iter().take(k).map(|v| v.sqrt()).collect();
    match deviations.iter().position(|s| s.is_nan() || *s <= 0.0) {
        None => Ok(deviations),
        Some(at) => Error::misuse(format!(
            "whitening: rows did not vary along component {} in the fit; keep fewer with \
             ⟦components={at}⟧",
            at + 1
        )),
    }
}

/// Refuses models whose components do not live among the features.
fn check_residuals(model: &Model) -> Result<()> {
    if model.is_normalized() {
        return Error::misuse(
            "the cosine kernel forgets the length of a row, so there is no reconstruction to take \
             from it; ⟦diagnostics⟧ tells how far it is from the model",
        );
    }
    if model.kernel_map().is_some() {
        return Error::misuse(
            "a kernel model has no residuals: its components live where the kernel maps to, not \
             among the features; ⟦diagnostics⟧ tells how long they are there",
        );
    }
    Ok(())
}

/// How rows are got back from scores, or why they are not.
fn inverse(model: &Model, k: usize, asked: Option<Preimage>) -> Result<Inverse> {
    if model.is_normalized() {
        return Error::misuse(
            "the cosine kernel forgets the length of a row, so there is no way back to it; fit \
             with another kernel",
        );
    }
    let Some(map) = model.kernel_map() else {
        return match asked {
            None => Ok(Inverse::Linear),
            Some(_) => Error::misuse(
                "⟦preimage⟧ is for kernel models; this one is reconstructed exactly without it",
            ),
        };
    };
    match asked {
        None => Error::misuse(
            "a kernel model has no reconstruction: its components live where the kernel maps to, \
             not among the features; ⟦preimage=fixed-point⟧ (rbf) comes near, and \
             ⟦preimage=ridge⟧ if it was fitted with it",
        ),
        Some(Preimage::FixedPoint) if !FixedPoint::suits(map) => Error::misuse(
            "⟦preimage=fixed-point⟧ is for the rbf kernel over rows; fit with ⟦preimage=ridge⟧ \
             and reconstruct with it",
        ),
        Some(Preimage::Ridge) if model.preimage.is_none() => {
            Error::misuse("this model has learned no pre-image; fit it with ⟦preimage=ridge⟧")
        }
        Some(Preimage::Ridge) if k < model.n_components() => Error::misuse(
            "the learned pre-image needs all components of its model; leave ⟦components⟧ out, or \
             fit with fewer",
        ),
        Some(way) => Ok(Inverse::Preimage(way)),
    }
}

/// Where the scores are: `pc1 … pck`, or the first k elements of a vector column `pc`.
fn score_columns(table: &dyn Table, prefix: &str, k: usize) -> Result<Features> {
    let wrong = |name: String, problem: String| Error::data(table.place().column(name), problem);
    if let Some(ColumnKind::Vector(value, width)) = table.kind(prefix) {
        let width = width.map_or_else(|| table.vector_width(prefix), Ok)?;
        if width < k {
            return Err(wrong(format!("{prefix}[{width}]"), too_few(width)));
        }
        let column = FeatureColumn {
            name: prefix.into(),
            value: value.to_string(),
            width: Some(width),
            elements: (width > k).then(|| (0..k).collect()),
        };
        return Ok(Features { columns: vec![column] });
    }
    let scalar = |i: usize| {
        let name = format!("{prefix}{i}");
        match table.kind(&name) {
            Some(ColumnKind::Scalar(value)) => {
                Ok(FeatureColumn { name, value: value.to_string(), width: None, elements: None })
            }
            Some(other) => Err(wrong(name, format!("is {}, not a number", other.describe()))),
            None => Err(wrong(name, too_few(i - 1))),
        }
    };
    Ok(Features { columns: (1..=k).map(scalar).collect::<Result<_>>()? })
}

fn too_few(found: usize) -> String {
    match found {
        0 => "is not here; ⟦from-scores⟧ needs the score columns that transform wrote (see \
              ⟦prefix⟧)"
            .into(),
        n => {
            let scores = count(n as u64, "score");
            format!("is not here; give ⟦components={n}⟧ to use the {scores} that are")
        }
    }
}
