//! The kinds of data, each a recipe for batches.

use crate::error::{Error, Result};
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ndarray::{Array1, Array2, Axis};
use ndarray_linalg::QR;
use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;
use std::sync::Arc;

/// Hidden causes behind the rows.
const RANK: usize = 6;
const CLASSES: usize = 4;

/// What kind of data to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum DatasetKind {
    /// id and f64 columns of low rank plus noise.
    Lowrank,
    /// id and one FixedSizeList column of f32, rows of length 1.
    Embedding,
    /// Many f32 columns.
    Wide,
    /// Noisy rings in two hidden directions, with their class.
    Rings,
    /// Low rank with a mean of 1e8.
    Offset,
    /// Low rank with nulls and NaN.
    Nulls,
    /// Low rank in row groups of 100 rows.
    Smallgroups,
    /// Low rank with string, int, bool and dictionary labels and a weight.
    Labels,
    /// Every numeric type that can be a feature.
    Types,
}

/// A kind with its random constants.
pub(super) struct Recipe {
    kind: DatasetKind,
    /// RANK × d, rows scaled by their deviation.
    basis: Array2<f64>,
    mean: Array1<f64>,
}

impl Recipe {
    /// Draws the constants.
    pub(super) fn new(kind: DatasetKind, columns: Option<usize>, seed: u64) -> Result<Recipe> {
        let d = columns.unwrap_or(match kind {
            DatasetKind::Embedding => 128,
            DatasetKind::Wide => 2_000,
            DatasetKind::Types => 6,
            _ => 16,
        });
        let mut rng = Pcg64::new(u128::from(seed), 0);
        let directions = if kind == DatasetKind::Rings { 2 } else { RANK }.min(d);
        let gaussian =
            Array2::from_shape_simple_fn((d, directions), || rng.sample::<f64, _>(StandardNormal));
        let (orthonormal, _) = gaussian.qr().map_err(|e| Error::Internal(format!("QR: {e}")))?;
        let mut basis = orthonormal.t().as_standard_layout().into_owned();
        if kind != DatasetKind::Rings {
            for (i, mut row) in basis.rows_mut().into_iter().enumerate() {
                row *= 10.0 * 0.6f64.powi(i as i32);
            }
        }
        let offset = if kind == DatasetKind::Offset { 1e8 } else { 0.0 };
        let spread = if kind == DatasetKind::Embedding { 0.1 } else { 5.0 };
        let mean = Array1::from_shape_simple_fn(d, || {
            offset + spread * rng.sample::<f64, _>(StandardNormal)
        });
        Ok(Recipe { kind, basis, mean })
    }

    fn d(&self) -> usize {
        self.mean.len()
    }

    /// Rows per row group when none are given.
    pub(super) fn row_group(&self) -> usize {
        match self.kind {
            DatasetKind::Smallgroups => 100,
            _ => ((1 << 21) / self.d()).clamp(64, 65_536),
        }
    }

    /// "columns id, x0, x1, … x23".
    pub(super) fn describe(&self) -> String {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let shown = if names.len() > 6 {
            format!("{}, … {}", names[..3].join(", "), names[names.len() - 1])
        } else {
            names.join(", ")
        };
        let columns = names.len();
        format!("{} {shown}", if columns == 1 { "column" } else { "columns" })
    }

    /// The columns.
    pub(super) fn schema(&self) -> SchemaRef {
        let nullable = self.kind == DatasetKind::Nulls;
        let id = Field::new("id", DataType::Int64, false);
        let xs = |t: DataType| {
            (0..self.d()).map(move |j| Field::new(format!("x{j}"), t.clone(), nullable))
        };
        let fields: Vec<Field> = match self.kind {
            DatasetKind::Embedding => {
                vec![id, Field::new("embedding", vector_type(DataType::Float32, self.d()), false)]
            }
            DatasetKind::Wide => xs(DataType::Float32).collect(),
            DatasetKind::Rings => {
                xs(DataType::Float64).chain([Field::new("ring", DataType::Int32, false)]).collect()
            }
            DatasetKind::Labels => {
                std::iter::once(id).chain(xs(DataType::Float64)).chain(label_fields()).collect()
            }
            DatasetKind::Types => type_fields(),
            _ => std::iter::once(id).chain(xs(DataType::Float64)).collect(),
        };
        Arc::new(Schema::new(fields))
    }

    /// Some rows.
    pub(super) fn batch(&self, rng: &mut Pcg64, first: u64, rows: usize) -> Result<RecordBatch> {
        let id: ArrayRef =
            Arc::new(Int64Array::from_iter_values(first as i64..(first as i64 + rows as i64)));
        let columns: Vec<ArrayRef> = match self.kind {
            DatasetKind::Rings => self.rings(rng, rows),
            DatasetKind::Types => self.types(rng, rows)?,
            DatasetKind::Embedding => {
                let mut x = self.low_rank(rng, rows);
                for mut row in x.rows_mut() {
                    let norm = row.dot(&row).sqrt();
                    row /= norm;
                }
                let values: Float32Array = x.iter().map(|v| *v as f32).collect();
                vec![id, vector(Arc::new(values), self.d())?]
            }
            DatasetKind::Wide => {
                self.low_rank(rng, rows).columns().into_iter().map(single).collect()
            }
            DatasetKind::Nulls => {
                let x = self.low_rank(rng, rows);
                std::iter::once(id)
                    .chain(x.columns().into_iter().map(|c| with_nulls(rng, c)))
                    .collect()
            }
            DatasetKind::Labels => self.labelled(rng, id, rows)?,
            _ => std::iter::once(id)
                .chain(self.low_rank(rng, rows).columns().into_iter().map(double))
                .collect(),
        };
        RecordBatch::try_new(self.schema(), columns)
            .map_err(|e| Error::Internal(format!("generated batch: {e}")))
    }

    fn low_rank(&self, rng: &mut Pcg64, rows: usize) -> Array2<f64> {
        let mut normal = |shape: (usize, usize)| {
            Array2::from_shape_simple_fn(shape, || rng.sample::<f64, _>(StandardNormal))
        };
        let hidden = normal((rows, self.basis.nrows()));
        let noise = normal((rows, self.d()));
        // The small parts first: added to a large mean they would lose digits one by one.
        hidden.dot(&self.basis) + noise * 0.1 + &self.mean
    }

    fn rings(&self, rng: &mut Pcg64, rows: usize) -> Vec<ArrayRef> {
        let ring: Vec<i32> = (0..rows).map(|_| rng.random_range(0..CLASSES as i32)).collect();
        let mut plane = Array2::zeros((rows, self.basis.nrows()));
        for (mut row, ring) in plane.rows_mut().into_iter().zip(&ring) {
            let (sin, cos) = rng.random_range(0.0..std::f64::consts::TAU).sin_cos();
            for (slot, part) in row.iter_mut().zip([cos, sin]) {
                *slot = f64::from(ring + 1) * part;
            }
        }
        let noise = Array2::from_shape_simple_fn((rows, self.d()), || {
            0.1 * rng.sample::<f64, _>(StandardNormal)
        });
        let x = plane.dot(&self.basis) + noise;
        let ring: ArrayRef = Arc::new(Int32Array::from(ring));
        x.columns().into_iter().map(double).chain([ring]).collect()
    }

    fn labelled(&self, rng: &mut Pcg64, id: ArrayRef, rows: usize) -> Result<Vec<ArrayRef>> {
        let class: Vec<usize> = (0..rows).map(|_| rng.random_range(0..CLASSES)).collect();
        let mut x = self.low_rank(rng, rows);
        for (mut row, class) in x.axis_iter_mut(Axis(0)).zip(&class) {
            // Each class is shifted along a feature of its own.
            row[class % self.d()] += 3.0;
        }
        let name = |c: &usize| format!("class{c}");
        let weights = class.iter().map(|c| *c as f64 * 0.5);
        let labels: [ArrayRef; 5] = [
            Arc::new(StringArray::from_iter_values(class.iter().map(name))),
            Arc::new(Int64Array::from_iter_values(class.iter().map(|c| *c as i64))),
            Arc::new(BooleanArray::from(class.iter().map(|c| *c > 1).collect::<Vec<_>>())),
            Arc::new(
                class
                    .iter()
                    .map(name)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|s| Some(s.as_str()))
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
            Arc::new(Float64Array::from_iter_values(weights)),
        ];
        Ok(std::iter::once(id).chain(x.columns().into_iter().map(double)).chain(labels).collect())
    }

    fn types(&self, rng: &mut Pcg64, rows: usize) -> Result<Vec<ArrayRef>> {
        let x = self.low_rank(rng, rows);
        let cell = |i: usize, j: usize| x[[i, j % self.d()]];
        let failed =
            |e: arrow_schema::ArrowError| Error::Internal(format!("generated column: {e}"));
        let d128 =
            Decimal128Array::from_iter_values((0..rows).map(|i| (cell(i, 0) * 100.0) as i128))
                .with_precision_and_scale(18, 2);
        let d256 = Decimal256Array::from_iter_values(
            (0..rows).map(|i| arrow_buffer::i256::from_i128((cell(i, 1) * 1e6) as i128)),
        );
        let keys = Int32Array::from_iter_values((0..rows).map(|i| (cell(i, 2).abs() as i32) % 5));
        let dictionary = DictionaryArray::try_new(
            keys,
            Arc::new(Float64Array::from(vec![0.5, -1.25, 3.0, 7.5, 11.0])),
        );
        let list = ListArray::from_iter_primitive::<arrow_array::types::Float64Type, _, _>(
            (0..rows).map(|i| Some((0..3).map(move |j| Some(cell(i, j))))),
        );
        let large = LargeListArray::from_iter_primitive::<arrow_array::types::Float32Type, _, _>(
            (0..rows).map(|i| Some((0..2).map(move |j| Some(cell(i, j) as f32)))),
        );
        let fixed: Int16Array =
            (0..rows).flat_map(|i| (0..2).map(move |j| cell(i, j + 3) as i16)).collect();
        let mut columns = integers(rows, cell);
        columns.extend::<[ArrayRef; 10]>([
            Arc::new(Float16Array::from_iter_values(
                (0..rows).map(|i| half::f16::from_f64(cell(i, 2))),
            )),
            Arc::new(Float32Array::from_iter_values((0..rows).map(|i| cell(i, 3) as f32))),
            Arc::new(Float64Array::from_iter_values((0..rows).map(|i| cell(i, 4)))),
            Arc::new(BooleanArray::from((0..rows).map(|i| cell(i, 5) > 0.0).collect::<Vec<_>>())),
            Arc::new(d128.map_err(failed)?),
            Arc::new(d256.with_precision_and_scale(40, 6).map_err(failed)?),
            Arc::new(dictionary.map_err(failed)?),
            vector(Arc::new(fixed), 2)?,
            Arc::new(list),
            Arc::new(large),
        ]);
        Ok(columns)
    }
}

fn vector_type(item: DataType, width: usize) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new_list_field(item, false)), width as i32)
}

fn vector(values: ArrayRef, width: usize) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    let list = FixedSizeListArray::try_new(item, width as i32, values, None);
    Ok(Arc::new(list.map_err(|e| Error::Internal(format!("generated vector: {e}")))?))
}

fn label_fields() -> Vec<Field> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let field = |name: &str, t: DataType, nullable: bool| Field::new(name, t, nullable);
    vec![
        field("label_string", DataType::Utf8, false),
        field("label_int", DataType::Int64, false),
        field("label_bool", DataType::Boolean, false),
        field("label_dictionary", dictionary, true),
        field("weight", DataType::Float64, false),
    ]
}

fn type_fields() -> Vec<Field> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Float64));
    let list = |t: DataType| Arc::new(Field::new_list_field(t, true));
    let types = [
        ("i8", DataType::Int8),
        ("i16", DataType::Int16),
        ("i32", DataType::Int32),
        ("i64", DataType::Int64),
        ("u8", DataType::UInt8),
        ("u16", DataType::UInt16),
        ("u32", DataType::UInt32),
        ("u64", DataType::UInt64),
        ("f16", DataType::Float16),
        ("f32", DataType::Float32),
        ("f64", DataType::Float64),
        ("bool", DataType::Boolean),
        ("decimal128", DataType::Decimal128(18, 2)),
        ("decimal256", DataType::Decimal256(40, 6)),
        ("dictionary", dictionary),
        ("fixed", vector_type(DataType::Int16, 2)),
        ("list", DataType::List(list(DataType::Float64))),
        ("large_list", DataType::LargeList(list(DataType::Float32))),
    ];
    types.into_iter().map(|(name, t)| Field::new(name, t, true)).collect()
}

fn double(column: ndarray::ArrayView1<'_, f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(column.iter().copied()))
}

fn single(column: ndarray::ArrayView1<'_, f64>) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(column.iter().map(|v| *v as f32)))
}

/// One value in 25 is missing: null, or NaN for every fifth of them.
fn with_nulls(rng: &mut Pcg64, column: ndarray::ArrayView1<'_, f64>) -> ArrayRef {
    let value = |v: &f64| match rng.random_range(0..125) {
        0 => Some(f64::NAN),
        1..5 => None,
        _ => Some(*v),
    };
    Arc::new(column.iter().map(value).collect::<Float64Array>())
}

/// A column of each integer type.
fn integers(rows: usize, cell: impl Fn(usize, usize) -> f64) -> Vec<ArrayRef> {
    macro_rules! ints {
        ($array:ty, $t:ty, $j:expr) => {
            Arc::new(<$array>::from_iter_values((0..rows).map(|i| (cell(i, $j).abs() * 4.0) as $t)))
                as ArrayRef
        };
    }
    vec![
        ints!(Int8Array, i8, 0),
        ints!(Int16Array, i16, 1),
        ints!(Int32Array, i32, 2),
        ints!(Int64Array, i64, 3),
        ints!(UInt8Array, u8, 4),
        ints!(UInt16Array, u16, 5),
        ints!(UInt32Array, u32, 0),
        ints!(UInt64Array, u64, 1),
    ]
}
