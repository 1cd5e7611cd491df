//! Rows mean the same wherever they come from: every table against a Parquet file of its rows.

use super::arrow::MATRIX_COLUMN;
use super::labels::LabelRead;
use super::*;
use crate::error::Error;
use arrow_array::types::{Float32Type, Float64Type, Int8Type};
use arrow_array::*;
use arrow_schema::{Field, Schema};
use half::f16;
use ndarray::{Array2, Axis, ShapeBuilder};
use std::path::Path;
use std::sync::Arc;

/// Rows `first..first + rows` of a table with a column of every kind; every 7th cell is null.
fn batch(first: usize, rows: usize) -> RecordBatch {
    let range = first..first + rows;
    let some = |i: &usize| !i.is_multiple_of(7);
    let cell = |i: usize| (some(&i)).then(|| (i as f64 * 0.37).sin() * 10.0);
    let list = || range.clone().map(|i| some(&(i + 3)).then(|| vec![cell(i), cell(i + 1)]));
    let single = |x: Vec<Option<f64>>| x.into_iter().map(|x| x.map(|x| x as f32)).collect();
    let singles = list().map(|row| row.map(single).map(|row: Vec<Option<f32>>| row));
    let decimals: Decimal128Array = range.clone().map(|i| Some(i as i128 * 10 - 55)).collect();
    let names = range.clone().map(|i| some(&(i + 1)).then_some(["red", "green", "blue"][i % 3]));
    let words: DictionaryArray<Int8Type> = names.clone().collect();
    let choices = Int8Array::from_iter(range.clone().map(|i| some(&i).then_some((i % 3) as i8)));
    let values = Arc::new(Float64Array::from(vec![0.5, -2.0, 8.25]));
    let ints = Int64Array::from_iter(range.clone().map(|i| cell(i + 2).map(|x| x as i64)));
    let big = Int64Array::from_iter_values(range.clone().map(|i| (1 << 53) + i as i64));
    let flags =
        BooleanArray::from_iter(range.clone().map(|i| some(&(i + 5)).then_some(i % 2 == 0)));
    let halves = range.clone().map(|i| cell(i).map(f16::from_f64));
    let weights = Float64Array::from_iter_values(range.clone().map(|i| (i % 4) as f64));
    let arrays: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Float64Array::from_iter(range.clone().map(cell)))),
        ("b", Arc::new(Float32Array::from_iter(range.clone().map(|i| cell(i).map(|x| x as f32))))),
        ("h", Arc::new(Float16Array::from_iter(halves))),
        ("i", Arc::new(ints)),
        ("big", Arc::new(big)),
        ("flag", Arc::new(flags)),
        ("dec", Arc::new(decimals.with_precision_and_scale(12, 1).unwrap())),
        ("pick", Arc::new(DictionaryArray::<Int8Type>::new(choices, values))),
        ("v", Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(list()))),
        ("s", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(singles, 2))),
        ("word", Arc::new(words)),
        ("text", Arc::new(StringArray::from_iter(names))),
        ("w", Arc::new(weights)),
    ];
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(arrays.iter().map(field).collect::<Vec<_>>());
    let columns = arrays.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Batches of uneven sizes, one of them empty and two of them slices of a larger one.
fn batches() -> Vec<RecordBatch> {
    let large = batch(1_000, 6_000);
    vec![
        batch(0, 900),
        batch(900, 0),
        batch(900, 100),
        large.slice(0, 5_000),
        large.slice(5_000, 1_000),
    ]
}

fn parquet(dir: &Path, batches: &[RecordBatch]) -> Dataset {
    let path = dir.join("d.parquet");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer =
        ::parquet::arrow::ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    Dataset::from_paths(&[path.to_str().unwrap()]).unwrap()
}

fn reader(batches: Vec<RecordBatch>) -> ReaderTable<'static> {
    ReaderTable::new(move || {
        let schema = batches[0].schema();
        let rows = batches.clone().into_iter().map(Ok);
        Ok(Box::new(RecordBatchIterator::new(rows, schema)))
    })
    .unwrap()
}

/// The features by name, from what the table says of its columns.
fn request(table: &dyn Table, names: &[&str]) -> ReadRequest {
    let columns = names.iter().map(|n| n.to_string()).collect();
    let choice = ColumnChoice { columns, ..ColumnChoice::default() };
    ReadRequest { features: choice.resolve(table).unwrap().features, ..ReadRequest::default() }
}

/// All that blocks say, whatever their sizes and order.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    values: Vec<f64>,
    single: bool,
    missing: Vec<(usize, u32)>,
    weights: Vec<f64>,
    numbers: Vec<f64>,
    classes: Vec<Vec<String>>,
    kept: Vec<RecordBatch>,
    tally: Tally,
}

impl Contents {
    fn of(source: &dyn Source) -> Contents {
        let mut all = Contents::default();
        let mut rows = 0;
        for unit in 0..source.units().len() {
            let mut read = 0;
            for block in source.blocks(unit).unwrap() {
                let block = block.unwrap();
                assert!(block.tally.rows as usize <= block_rows(source.n_features()));
                read += block.tally.rows;
                rows += all.add(block, rows);
            }
            assert_eq!(read, source.units()[unit].rows);
        }
        all.kept = match all.kept.first() {
            Some(first) => {
                vec![arrow_select::concat::concat_batches(&first.schema(), &all.kept).unwrap()]
            }
            None => Vec::new(),
        };
        all
    }

    fn add(&mut self, mut block: Block, first: usize) -> usize {
        let rows = block.rows();
        self.single = matches!(block.values, Values::F32(_));
        self.missing.extend(block.missing.iter().map(|c| (first + c.row as usize, c.feature)));
        self.weights.extend(block.weights.iter().flatten());
        match &block.labels {
            Some(Labels::Numbers(y)) => self.numbers.extend(y.iter()),
            Some(Labels::Classes { ids, classes }) => self.classes.extend(
                ids.iter().map(|id| classes[*id as usize].iter().map(|v| v.to_string()).collect()),
            ),
            None => {}
        }
        self.kept.extend(block.kept.take());
        self.tally.add(std::mem::take(&mut block.tally));
        self.values.extend(block.into_f64().iter());
        rows
    }
}

const ALL: [&str; 10] = ["a", "b", "h", "i", "big", "flag", "dec", "pick", "v", "s"];

#[test]
fn tables_give_what_a_parquet_file_of_their_rows_gives() {
    let dir = tempfile::tempdir().unwrap();
    let file = parquet(dir.path(), &batches());
    let memory = ArrowTable::try_new(batches()).unwrap();
    let opened = reader(batches());
    let tables: [&dyn Table; 2] = [&memory, &opened];
    let labels = |columns: &[&str], read| {
        let columns = columns.iter().map(|c| c.to_string()).collect();
        Some(LabelRequest { columns, read })
    };
    let label_sets = [
        None,
        labels(&["text"], LabelRead::Classes),
        labels(&["word", "flag"], LabelRead::Classes),
        labels(&["i", "b"], LabelRead::Numbers),
    ];
    for names in [&ALL[..], &["v"], &["s"], &["a", "dec"], &["b", "v", "a"]] {
        for labels in &label_sets {
            for precision in [Precision::Exact, Precision::Mixed] {
                let nulls = Nulls::Drop;
                let asked = request(&file, names);
                let asked = ReadRequest { labels: labels.clone(), precision, nulls, ..asked };
                let asked = ReadRequest {
                    weight: Some("w".into()),
                    keep: Some(vec!["text".into(), "a".into()]),
                    ..asked
                };
                let expected = Contents::of(&*file.read(&asked).unwrap());
                assert!(expected.tally.dropped > 0 && expected.tally.rows == 7_000);
                for table in tables {
                    assert_eq!(request(table, names).features, asked.features);
                    let found = Contents::of(&*table.read(&asked).unwrap());
                    assert_eq!(found, expected, "{names:?} {labels:?} {precision:?}");
                }
            }
        }
        let asked = ReadRequest { nulls: Nulls::Mean, ..request(&file, names) };
        let expected = Contents::of(&*file.read(&asked).unwrap());
        assert!(!expected.missing.is_empty());
        for table in tables {
            assert_eq!(Contents::of(&*table.read(&asked).unwrap()), expected, "{names:?}");
        }
    }
}

fn refusal(table: &dyn Table, request: &ReadRequest) -> Error {
    let source = table.read(request).unwrap();
    let units = 0..source.units().len();
    let mut errors = units.filter_map(|unit| source.blocks(unit).unwrap().find_map(Result::err));
    errors.next().expect("something is wrong with these rows")
}

#[test]
fn nulls_are_refused_at_the_same_place() {
    let dir = tempfile::tempdir().unwrap();
    let batches = vec![batch(1, 5), batch(6, 9)];
    let file = parquet(dir.path(), &batches);
    let memory = ArrowTable::try_new(batches.clone()).unwrap();
    let opened = reader(batches);
    let tables: [&dyn Table; 3] = [&file, &memory, &opened];
    for table in tables {
        let asked = ReadRequest { advice: "mind them", ..request(table, &["a", "big"]) };
        let said = refusal(table, &asked).to_string();
        let expected = "column 'a', row 6 (counted from 0): is null or NaN; mind them";
        assert!(said.ends_with(expected), "{said}");
        let labels = LabelRequest { columns: vec!["text".into()], read: LabelRead::Classes };
        let asked = ReadRequest { labels: Some(labels), ..request(table, &["big"]) };
        let said = refusal(table, &asked).to_string();
        assert!(said.contains("column 'text', row 5 (counted from 0): has no label"), "{said}");
        let source = table.read(&asked).unwrap();
        assert_eq!(source.place(0, 6).row, Some(6));
    }
}

#[test]
fn features_are_read_by_groups_in_place_or_from_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let file = parquet(dir.path(), &batches());
    let memory = ArrowTable::try_new(batches()).unwrap();
    let asked = ReadRequest {
        nulls: Nulls::Mean,
        weight: Some("w".into()),
        ..request(&memory, &["a", "b", "i", "dec", "pick"])
    };
    let [there, here] = [&file as &dyn Table, &memory].map(|table| {
        let groups = table.by_features(&asked, &[0..2, 2..5]).unwrap();
        groups.iter().map(|group| Contents::of(&**group)).collect::<Vec<_>>()
    });
    assert_eq!(here, there);
    assert_eq!(here[1].tally.missing.keys().copied().collect::<Vec<_>>(), [0, 2]);
    let by_columns = [&file as &dyn Table, &memory].map(|table| {
        let source = Columnwise::in_place(table, &asked).unwrap();
        assert_eq!((source.rows(), source.n_features()), (7_000, 5));
        source.blocks(0).unwrap().next().unwrap().unwrap().into_f64()
    });
    assert_eq!(by_columns[0], by_columns[1]);
    let vectors = request(&memory, &["a", "v"]);
    for table in [&file as &dyn Table, &memory, &reader(batches())] {
        assert!(columnwise::needs_spool(table, &vectors));
        assert!(Columnwise::in_place(table, &vectors).is_err());
    }
    assert!(columnwise::needs_spool(&reader(batches()), &asked));
}

#[test]
fn units_are_cut_by_the_rows_alone() {
    let plain = |rows: usize| {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0; rows]));
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    };
    let table = ArrowTable::try_new([40_000, 0, 100, 20_000].map(plain).to_vec()).unwrap();
    let source = table.read(&request(&table, &["a"])).unwrap();
    let cut: Vec<_> = source.units().iter().map(|u| (u.first_row, u.rows)).collect();
    assert_eq!(
        cut,
        [(0, 16_384), (16_384, 16_384), (32_768, 7_332), (40_100, 16_384), (56_484, 3_616)]
    );
    assert_eq!(Contents::of(&*source).tally.rows, table.rows());
    assert_eq!(table.cost(&request(&table, &["a"])).unwrap().units, 5);
}

#[test]
fn a_matrix_is_a_column_of_vectors() {
    let rows = Array2::from_shape_fn((5_000, 3), |(i, j)| (i * 3 + j) as f64);
    let wide = Array2::from_shape_fn((5_000, 3).f(), |(i, j)| (i * 3 + j) as f64);
    let inner = Array2::from_shape_fn((5_001, 3), |(i, j)| (i * 3 + j) as f64 - 3.0);
    let inner = inner.slice_move(ndarray::s![1.., ..]);
    let singles = ArrowTable::from(rows.mapv(|x| x as f32));
    for table in [ArrowTable::from(rows.clone()), wide.into(), inner.into(), singles] {
        let asked = request(&table, &[MATRIX_COLUMN]);
        assert_eq!(asked.features.names().collect::<Vec<_>>(), ["x[0]", "x[1]", "x[2]"]);
        let source = table.read(&asked).unwrap();
        let blocks: Vec<_> = source.blocks(0).unwrap().map(|b| b.unwrap().into_f64()).collect();
        let views: Vec<_> = blocks.iter().map(|b| b.view()).collect();
        assert_eq!(ndarray::concatenate(Axis(0), &views).unwrap(), rows);
    }
    let at = rows.as_ptr();
    let table = ArrowTable::from(rows);
    assert_eq!(table.matrix_numbers(), at, "it is not copied");
    let labels: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000));
    let table = table.with_column("y", labels.clone()).unwrap();
    assert_eq!(table.kind("y"), Some(&ColumnKind::Scalar(arrow_schema::DataType::Int64)));
    let said = table.with_column("z", labels.slice(0, 3)).unwrap_err().to_string();
    assert_eq!(said, "record batches: column 'z': has 3 rows where the table has 5000");
}

#[test]
fn batches_that_differ_are_named() {
    let one = |name: &str, array: ArrayRef| RecordBatch::try_from_iter([(name, array)]).unwrap();
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let first = one("a", doubles.clone());
    let other = one("a", Arc::new(Int64Array::from(vec![1])));
    let said = ArrowTable::try_new(vec![first.clone(), other]).unwrap_err().to_string();
    assert_eq!(said, "record batch 1: column 'a': is Int64 here but Float64 in batch 0");
    let said = ArrowTable::try_new(vec![first.clone(), one("b", doubles.clone())]).unwrap_err();
    assert_eq!(said.to_string(), "record batch 1: column 'b': is where batch 0 has 'a'");
    let both = [("a", doubles.clone()), ("b", doubles)];
    let both = RecordBatch::try_from_iter(both).unwrap();
    let said = ArrowTable::try_new(vec![first, both]).unwrap_err().to_string();
    assert_eq!(said, "record batch 1: column 'b': is not in batch 0");
    assert!(ArrowTable::try_new(Vec::new()).is_err());
}

#[test]
fn a_reader_that_gives_other_rows_is_refused() {
    let open = || {
        let batch = batch(1, 6);
        let schema = batch.schema();
        Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)) as Box<dyn RecordBatchReader>)
    };
    for (rows, than) in [(7, "fewer"), (5, "more")] {
        let table = ReaderTable::with_rows(open, rows).unwrap();
        assert_eq!(table.vector_width("v").unwrap(), 2);
        let said = refusal(&table, &request(&table, &["big"])).to_string();
        let expected = format!("record batches: gave {than} rows than the {rows} there should be");
        assert_eq!(said, expected);
    }
    let table = ReaderTable::with_rows(open, 6).unwrap();
    assert_eq!(Contents::of(&*table.read(&request(&table, &["big"])).unwrap()).tally.rows, 6);
}
