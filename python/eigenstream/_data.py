"""What a user hands over → a table of the engine, and scores back in the kind that came.

======================================================  ==========================================================
given                                                   read
======================================================  ==========================================================
a path, a glob, a directory, a list of them             Parquet, streamed
a NumPy array of float64 or float32                     where it is, whatever its order
a pandas frame                                          column by column, where they are
anything with ``__arrow_c_stream__`` and a length       its batches, where they are (pyarrow, polars)
anything else with ``__arrow_c_stream__``               opened again for each pass (duckdb, datafusion)
an iterator of record batches                           once; spooled to a temporary file where more passes are needed
======================================================  ==========================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from . import _core

PathLike = Union[str, "os.PathLike[str]"]


def is_paths(data: Any) -> bool:
    """A path, or a list of them."""
    if isinstance(data, (str, os.PathLike)):
        return True
    return isinstance(data, (list, tuple)) and len(data) > 0 and all(isinstance(p, (str, os.PathLike)) for p in data)


def is_pandas(data: Any) -> bool:
    return _library(data) == "pandas" and hasattr(data, "columns")


def is_polars(data: Any) -> bool:
    return _library(data) == "polars" and hasattr(data, "columns")


def is_arrow(data: Any) -> bool:
    """Columns by Arrow's interface. One column by itself is none of them: it is an array of one dimension."""
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        return False
    has_columns = hasattr(data, "columns") or hasattr(data, "schema")
    return has_columns or _library(data) not in ("pandas", "polars", "pyarrow")


def _library(data: Any) -> str:
    return str(type(data).__module__.split(".")[0])


def is_batches(data: Any) -> bool:
    """An iterator of record batches, which can be read once."""
    return isinstance(data, Iterator) or (hasattr(data, "read_next_batch") and hasattr(data, "schema"))


def is_table(data: Any) -> bool:
    """Data with columns of its own, as opposed to an array."""
    return is_paths(data) or is_pandas(data) or is_arrow(data) or is_batches(data)


def paths(data: Any) -> List[str]:
    given = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    return [os.fspath(path) for path in given]


def table(data: Any) -> _core.Table:
    """The table that data is."""
    if isinstance(data, _core.Table):
        return data
    if is_paths(data):
        return _core.Table.from_paths(paths(data))
    if is_pandas(data):
        return _pandas_table(data)
    if is_batches(data):
        raise TypeError("an iterator of record batches is read once: hand it to fit, State.update or transform_batches")
    if is_arrow(data):
        held = hasattr(data, "__len__") or hasattr(data, "num_rows") or not hasattr(data, "__arrow_c_stream__")
        return _core.Table.from_arrow(data) if held else _core.Table.from_reader(lambda: data)
    return matrix_table(_as_array(data))


def _as_array(data: Any) -> np.ndarray[Any, Any]:
    if type(data).__name__ == "LazyFrame":
        raise TypeError("a LazyFrame has no rows yet: collect() it, or give its files")
    array = np.asarray(data)
    if array.ndim == 0:
        raise TypeError("expected paths of Parquet files, a two-dimensional array, a frame, Arrow data or an iterator "
                        f"of record batches, got {type(data).__name__}")
    if array.size == 0 and array.ndim == 1:
        raise ValueError("the list is empty: there are no files and no rows")
    return array


def matrix_table(array: np.ndarray[Any, Any]) -> _core.Table:
    """Of a two-dimensional array; doubles and singles are not copied."""
    if array.ndim != 2:
        dimensions = "1 dimension" if array.ndim == 1 else f"{array.ndim} dimensions"
        raise ValueError(f"expected a two-dimensional array, got one of {dimensions}: reshape it")
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"expected an array of numbers, got one of {array.dtype}")
    if array.dtype not in (np.float64, np.float32) or not array.dtype.isnative:
        array = array.astype(np.float64)
    regular = all(s >= 0 and s % array.itemsize == 0 for s in array.strides) and array.flags.aligned
    return _core.Table.from_matrix(array if regular else np.array(array, order="C"))


def column_names(frame: Any) -> List[str]:
    """Of any frame: pyarrow's ``columns`` are the columns themselves."""
    return [str(name) for name in getattr(frame, "column_names", None) or frame.columns]


def _pandas_table(frame: Any) -> _core.Table:
    names = [str(name) for name in frame.columns]
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and names and next(iter(kinds)) in (np.dtype(np.float64), np.dtype(np.float32)):
        array = frame.to_numpy(copy=False)
        shared = array.flags.aligned and np.shares_memory(array, frame.iloc[:, 0].to_numpy())
        if shared and not array.T.flags.c_contiguous:
            # Rows of a matrix: columns of it are not in one piece, and are read a block at a time.
            return _core.Table.from_matrix(array, names)
    return _core.Table.from_columns(names, [column(frame.iloc[:, i]) for i in range(len(names))])


def column(values: Any) -> Any:
    """A column as the engine takes it: a one-dimensional array of numbers or bools, or a list of texts."""
    dtype = getattr(values, "dtype", None)
    if _library(values) == "pandas":
        kind = getattr(dtype, "kind", "O")
        if isinstance(dtype, np.dtype) and kind in "fiub":
            return _plain(values.to_numpy())
        if kind in "fiu" and not isinstance(dtype, np.dtype):
            return _plain(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "b" and not values.isna().any():
            return values.to_numpy(dtype=bool)
        values = values.to_numpy(dtype=object)
    elif is_polars_series(values):
        values = values.to_numpy()
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return _plain(array)
    return [None if _is_missing(v) else str(v) for v in array.tolist()]


def is_polars_series(values: Any) -> bool:
    return _library(values) == "polars"


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype == np.float16 or array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return np.require(array, requirements=["C", "A"])


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


class SpooledBatches:
    """Record batches of an iterator in a temporary Parquet file, for those who read it more than once."""

    def __init__(self, batches: Any, temp_dir: Optional[PathLike] = None) -> None:
        import tempfile

        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError("more than one pass over an iterator of batches takes pyarrow to spool them") from error
        folder = None if temp_dir is None else os.fspath(temp_dir)
        self._dir = tempfile.TemporaryDirectory(prefix="eigenstream-", dir=folder)
        self.path = Path(self._dir.name) / "spooled.parquet"
        writer = None
        try:
            for batch in record_batches(batches):
                batch = pa.record_batch(batch)
                if writer is None:
                    writer = pq.ParquetWriter(self.path, batch.schema, compression="none", use_dictionary=False)
                writer.write_batch(batch)
        except BaseException:
            self.close()
            raise
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            self.close()
            raise ValueError("the iterator has no batches, so there are no columns")

    def close(self) -> None:
        self._dir.cleanup()

    def __enter__(self) -> "SpooledBatches":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record_batches(data: Any) -> Iterator[Any]:
    """The batches of an iterator, or of a reader."""
    if hasattr(data, "read_next_batch") and not isinstance(data, Iterator):
        while True:
            try:
                yield data.read_next_batch()
            except StopIteration:
                return
    for batch in data:
        if not is_arrow(batch):
            raise TypeError(f"expected record batches, got {type(batch).__name__}")
        yield batch


def to_kind(batches: _core.Batches, like: Any) -> Any:
    """Scores in the kind of frame that the rows came in."""
    if is_polars(like):
        import polars

        return polars.DataFrame(batches)
    if _library(like) == "pyarrow":
        import pyarrow as pa

        return pa.table(batches)
    try:
        import pyarrow as pa
    except ImportError:
        return batches
    return pa.table(batches)


def to_pandas(scores: np.ndarray[Any, Any], names: Sequence[str], frame: Any, features: Sequence[str]) -> Any:
    """Scores with the index of their rows: where rows were dropped, of those that miss no feature."""
    import pandas

    index = frame.index
    if len(scores) < len(frame):
        known = set(features)
        present = [i for i, name in enumerate(frame.columns) if str(name) in known] or list(range(frame.shape[1]))
        index = index[frame.iloc[:, present].notna().all(axis=1).to_numpy()]

    return pandas.DataFrame(scores, columns=list(names), index=index)
