//! The floor under a fit: decode every wanted value and multiply it once, nothing else.
//!
//! No centring, no checks for NaN or infinity, no order, no merge, no model: each thread takes the next row group,
//! decodes it with the same reader, copies the columns into a block and calls dsyrk. What a fit takes beyond this
//! is the price of being exact and safe. `bench/run` compares the two.
//!
//!     cargo run --release --example floor -- THREADS PREFIX FILES...

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_schema::DataType;
use ndarray::{Array2, ShapeBuilder};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    eigenstream::internals::keep_freed_memory();
    let mut args = std::env::args().skip(1);
    let threads: usize = args.next().ok_or("THREADS PREFIX FILES...")?.parse()?;
    let prefix = args.next().ok_or("THREADS PREFIX FILES...")?;
    let files: Vec<String> = args.collect();
    let mut groups = Vec::new();
    for (f, path) in files.iter().enumerate() {
        let metadata = ArrowReaderMetadata::load(&File::open(path)?, Default::default())?;
        groups.extend((0..metadata.metadata().num_row_groups()).map(|g| (f, g, metadata.clone())));
    }

    let next = AtomicUsize::new(0);
    let multiply_all = || {
        std::thread::scope(|scope| {
            let worker = || {
                let mut s = Array2::<f64>::zeros((0, 0));
                while let Some((f, g, metadata)) = groups.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    multiply(
                        File::open(&files[*f]).unwrap(),
                        *g,
                        metadata.clone(),
                        &prefix,
                        &mut s,
                    );
                }
                s.diag().sum()
            };
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            handles.into_iter().map(|h| h.join().unwrap()).collect::<Vec<f64>>()
        })
    };
    let traces = eigenstream::internals::serial(multiply_all);
    println!("trace of XᵀX {:e}", traces.iter().sum::<f64>());
    Ok(())
}

fn multiply(
    file: File,
    group: usize,
    metadata: ArrowReaderMetadata,
    prefix: &str,
    s: &mut Array2<f64>,
) {
    let fields = metadata.schema().fields().clone();
    let wanted = fields.iter().enumerate().filter(|(_, f)| f.name().starts_with(prefix));
    let mut d = 0;
    let mut roots = Vec::new();
    for (root, field) in wanted {
        roots.push(root);
        d += if let DataType::FixedSizeList(_, width) = field.data_type() {
            *width as usize
        } else {
            1
        };
    }
    if s.is_empty() {
        *s = Array2::zeros((d, d));
    }
    let rows = eigenstream::internals::block_rows(d);
    let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_batch_size(rows)
        .build()
        .unwrap();
    for batch in reader {
        let batch = batch.unwrap();
        let n = batch.num_rows();
        let block = if let DataType::FixedSizeList(_, _) = batch.column(0).data_type() {
            let values = batch.column(0).as_fixed_size_list().values().clone();
            Array2::from_shape_vec(
                (n, d),
                values
                    .as_primitive::<Float32Type>()
                    .values()
                    .iter()
                    .map(|v| f64::from(*v))
                    .collect(),
            )
            .unwrap()
        } else {
            let mut data = Vec::with_capacity(n * d);
            batch
                .columns()
                .iter()
                .for_each(|c| data.extend_from_slice(c.as_primitive::<Float64Type>().values()));
            Array2::from_shape_vec((n, d).f(), data).unwrap()
        };
        eigenstream::internals::syrk(block.view(), 1.0, s.view_mut());
    }
}
