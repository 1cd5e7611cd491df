//! Record batches of numbers → one matrix, a row of it for each row, columns side by side.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use eigenstream::{Error, Result, Sink};
use ndarray::{Array2, Axis, LinalgScalar, s};

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

/// Fills a matrix of at most so many rows.
pub(crate) struct MatrixSink<'a, T> {
    matrix: &'a mut Array2<T>,
    most: usize,
    rows: usize,
}

impl<'a, T: Number> MatrixSink<'a, T> {
    pub(crate) fn new(matrix: &'a mut Array2<T>, most: u64) -> MatrixSink<'a, T> {
        MatrixSink { matrix, most: most as usize, rows: 0 }
    }
}

impl<T: Number> Sink for MatrixSink<'_, T> {
    fn write(&mut self, _input: usize, batch: RecordBatch) -> Result<()> {
        let width = |c: &ArrayRef| match c.data_type() {
            DataType::FixedSizeList(_, width) => *width as usize,
            _ => 1,
        };
        if self.matrix.ncols() == 0 {
            let columns = batch.columns().iter().map(width).sum();
            *self.matrix = Array2::zeros((self.most, columns));
        }
        let rows = self.rows..self.rows + batch.num_rows();
        self.rows = rows.end;
        let mut target = self.matrix.slice_mut(s![rows, ..]);
        let mut first = 0;
        for column in batch.columns() {
            let width = width(column);
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
        if self.rows < self.matrix.nrows() {
            let kept = self.matrix.slice_axis(Axis(0), (..self.rows).into()).to_owned();
            *self.matrix = kept;
        }
        Ok(())
    }
}
