//! Record batches of numbers → one matrix, a row of it for each row, columns side by side.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, Schema};
use eigenstream::{Error, Result, Sink};
use ndarray::{Array2, LinalgScalar, s};

/// Numbers that batches may have.
pub(crate) trait Number: ArrowNativeType + LinalgScalar {
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// What stands for a null.
    const NONE: Self;
}

impl Number for f64 {
    type Arrow = Float64Type;
    const NONE: f64 = f64::NAN;
}

impl Number for f32 {
    type Arrow = Float32Type;
    const NONE: f32 = f32::NAN;
}

/// Numbers of a row of these columns.
pub(crate) fn width(schema: &Schema) -> usize {
    schema.fields().iter().map(|field| column_width(field.data_type())).sum()
}

fn column_width(column: &DataType) -> usize {
    match column {
        DataType::FixedSizeList(_, width) => *width as usize,
        _ => 1,
    }
}

/// A matrix of zeros whose pages come two megabytes at a time where the system has such, as those
/// of NumPy's own arrays do: a page of 4 kB at a time was a quarter of a transform.
pub(crate) fn room<T: Number>(shape: (usize, usize)) -> Array2<T> {
    let mut matrix: Array2<T> = Array2::zeros(shape);
    #[cfg(target_os = "linux")]
    if let Some(numbers) = matrix.as_slice_mut() {
        const PAGE: usize = 4096;
        let bytes = size_of_val(numbers);
        let start = numbers.as_mut_ptr().cast::<u8>();
        let before = start.align_offset(PAGE);
        if bytes >= 4 << 20 && before < bytes {
            let length = (bytes - before) / PAGE * PAGE;
            // SAFETY: whole pages within the matrix, whose bytes this leaves as they are; a system
            // that has no such pages says so, and nothing is lost.
            unsafe { libc::madvise(start.add(before).cast(), length, libc::MADV_HUGEPAGE) };
        }
    }
    matrix
}

/// Fills a matrix, which is cut to the rows that come.
pub(crate) struct MatrixSink<'a, T> {
    matrix: &'a mut Array2<T>,
    rows: usize,
}

impl<'a, T: Number> MatrixSink<'a, T> {
    pub(crate) fn new(matrix: &'a mut Array2<T>) -> MatrixSink<'a, T> {
        MatrixSink { matrix, rows: 0 }
    }
}

impl<T: Number> Sink for MatrixSink<'_, T> {
    fn write(&mut self, _input: usize, batch: RecordBatch) -> Result<()> {
        let rows = self.rows..self.rows + batch.num_rows();
        self.rows = rows.end;
        let mut target = self.matrix.slice_mut(s![rows, ..]);
        let mut first = 0;
        for column in batch.columns() {
            let width = column_width(column.data_type());
            let list = matches!(column.data_type(), DataType::FixedSizeList(..));
            let values = if list { column.as_fixed_size_list().values() } else { column };
            let Some(values) = values.as_primitive_opt::<T::Arrow>() else {
                return Err(Error::Internal(format!("a column of {}", column.data_type())));
            };
            if let (true, Some(target)) = (column.null_count() == 0, target.as_slice_mut())
                && batch.num_columns() == 1
            {
                target.copy_from_slice(values.values());
                continue;
            }
            let mut part = target.slice_mut(s![.., first..first + width]);
            let from = values.values().chunks_exact(width.max(1));
            for (row, (mut to, from)) in part.rows_mut().into_iter().zip(from).enumerate() {
                match column.is_null(row) {
                    true => to.fill(T::NONE),
                    false => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
                }
            }
            first += width;
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let columns = self.matrix.ncols();
        let (mut numbers, _) = std::mem::take(self.matrix).into_raw_vec_and_offset();
        numbers.truncate(self.rows * columns);
        let cut = Array2::from_shape_vec((self.rows, columns), numbers);
        *self.matrix = cut.map_err(|e| Error::Internal(format!("a matrix of scores: {e}")))?;
        Ok(())
    }
}
