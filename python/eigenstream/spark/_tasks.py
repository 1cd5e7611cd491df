"""What runs on executors: record batches in, a few rows out. Nothing of Spark is needed here but the task's number.

Sums are given in rows of ``SUMS``; what went wrong with the data is a row, too, with ``problem`` in place of ``sums``.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from .. import _core, _data
from .._model import Model
from ._frames import PACKED

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of the rows that tasks give.
SUMS = "part long, value string, rows long, peak long, sums binary, problem string"

#: Numbers of a batch that are added at a time.
BLOCK_NUMBERS = 1 << 20

#: Bytes of the states of groups that a task holds before it gives them.
HELD_BYTES = 128 << 20

def task_number() -> int:
    """The partition that this task is of."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _rows(rows: List[Tuple[Any, ...]]) -> "pa.RecordBatch":
    import pyarrow as pa

    kinds = [pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.binary(), pa.string()]
    names = ["part", "value", "rows", "peak", "sums", "problem"]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(columns, names)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def given(part: int, value: Optional[str], rows: int, sums: bytes) -> "pa.RecordBatch":
    """A row of sums."""
    return _rows([(part, value, rows, _peak(), sums, None)])


def trouble(part: int, error: BaseException) -> "pa.RecordBatch":
    """A row that says what is wrong with a partition."""
    return _rows([(part, None, 0, _peak(), None, f"{type(error).__name__}: {error}")])


def unpacked(batch: "pa.RecordBatch", names: List[str]) -> "pa.RecordBatch":
    """The batch with columns of their own for the numbers that came side by side."""
    import numpy as np
    import pyarrow as pa

    if not names:
        return batch
    at = batch.schema.get_field_index(PACKED)
    values = batch.column(at).flatten()
    shape = (batch.num_rows, len(names))
    numbers = np.asarray(values.fill_null(0) if values.null_count else values).reshape(shape)
    by_column = np.ascontiguousarray(numbers.T)
    missing = None
    if values.null_count:
        missing = np.ascontiguousarray(np.asarray(values.is_null()).reshape(shape).T)
    columns = [pa.array(by_column[j], mask=None if missing is None else missing[j]) for j in range(len(names))]
    others = [i for i in range(batch.num_columns) if i != at]
    return pa.RecordBatch.from_arrays([*(batch.column(i) for i in others), *columns],
                                      [*(batch.schema.names[i] for i in others), *names])


def parts(batch: "pa.RecordBatch", width: int) -> "Iterator[pa.RecordBatch]":
    """The batch in pieces whose numbers stay in the cache."""
    step = max(64, BLOCK_NUMBERS // max(1, width))
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


def fold(empty: bytes, kind: str, width: int, packed: List[str],
         model: Optional[bytes] = None) -> "Callable[[Any], Any]":
    """Adds the batches of a task to sums that start as ``empty``; ``model`` makes scores of the rows first."""

    def task(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        part = task_number()
        try:
            found = _folded(batches, empty, kind, width, packed, model)
        except (ValueError, ArithmeticError, MemoryError) as error:
            yield trouble(part, error)
            return
        if found is not None:
            yield given(part, None, *found)

    return task


def _folded(batches: "Iterator[pa.RecordBatch]", empty: bytes, kind: str, width: int, packed: List[str],
            model: Optional[bytes]) -> Optional[Tuple[int, bytes]]:
    sums = getattr(_core, kind).from_bytes(empty)
    first = None if model is None else Model.from_bytes(model)
    for batch in batches:
        for piece in parts(batch, width):
            piece = unpacked(piece, packed)
            sums.update(piece if first is None else scored(first, piece))
    return (sums.n_rows, sums.to_bytes()) if sums.n_rows else None


def scored(model: Model, batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Scores as one column of vectors."""
    import pyarrow as pa

    scores = model.transform_batches(batch, layout="list", threads=1, keep=_beside(model, batch))
    return pa.Table.from_batches(list(scores)).combine_chunks().to_batches()[0]


def _beside(model: Model, batch: "pa.RecordBatch") -> Optional[List[str]]:
    features = set(model.feature_names) | {column["name"] for column in model.header["columns"]}
    return [name for name in batch.schema.names if name not in features] or None


def fold_groups(options: Dict[str, Any], width: int, packed: List[str]) -> "Callable[[Any], Any]":
    """One state for each value of a column, given whenever they are many."""

    def task(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        part, bytes_each = task_number(), 8 * width * (width + 1) + 4096
        held: Dict[str, _core.State] = {}
        try:
            for batch in batches:
                table = _data.table(unpacked(batch, packed))
                for value, state in _core.scan_groups(table, {**options, "threads": 1}):
                    if value in held:
                        held[value].merge(state)
                    else:
                        held[value] = state
                if len(held) * bytes_each > HELD_BYTES:
                    yield from _states(part, held)
                    held = {}
            yield from _states(part, held)
        except (ValueError, ArithmeticError, MemoryError) as error:
            yield trouble(part, error)

    return task


def _states(part: int, held: "Dict[str, _core.State]") -> "Iterator[pa.RecordBatch]":
    for value, state in held.items():
        yield given(part, value, state.n_rows, state.to_bytes())


def merge(kind: str) -> "Callable[[Any], Any]":
    """Adds sums of neighbouring partitions, in their order."""

    def group(table: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        rows = sorted(zip(table["part"].to_pylist(), range(table.num_rows)))
        value = table["value"][0].as_py()
        try:
            total = merged(kind, (table["sums"][at].as_py() for _, at in rows))
        except (ValueError, ArithmeticError, MemoryError) as error:
            return pa.Table.from_batches([trouble(rows[0][0], error)])
        return pa.Table.from_batches([given(rows[0][0], value, total.n_rows, total.to_bytes())])

    return group


def merged(kind: str, all_sums: "Iterator[bytes]") -> Any:
    """The sums of all, in this order."""
    total = None
    for sums in all_sums:
        more = getattr(_core, kind).from_bytes(sums)
        if total is None:
            total = more
        else:
            total.merge(more)
    return total


def transform(model: bytes, options: Dict[str, Any], kept: List[str], names: List[str],
              features: Dict[str, str], packed: List[str]) -> "Callable[[Any], Any]":
    """Scores of the batches of a task, after the columns that are kept.

    What is kept goes by names of its own: a column may be a feature, as a list of numbers, and be kept as it is.
    ``features`` are those that are not packed, by the names they come with.
    """

    def task(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        part, fitted = task_number(), Model.from_bytes(model)
        for batch in batches:
            if batch.num_rows == 0:
                continue
            beside = batch.select(kept)
            rows = unpacked(batch.select([*features, *([PACKED] if packed else [])]), packed)
            labels = [features.get(name, name) for name in rows.schema.names] + hidden(kept)
            given = pa.RecordBatch.from_arrays([*rows.columns, *beside.columns], labels)
            try:
                for scores in fitted.transform_batches(given, keep=hidden(kept) or None, **options):
                    yield renamed(scores, beside.schema, names)
            except ValueError as error:
                raise ValueError(f"partition {part}: {error}") from None

    return task


def hidden(names: List[str]) -> List[str]:
    """Names that no column has."""
    return [f"\u200bkept {i}" for i in range(len(names))]


def renamed(batch: "pa.RecordBatch", kept: "pa.Schema", names: List[str]) -> "pa.RecordBatch":
    """With the names of the output; scores as lists of any length, which Spark's arrays are."""
    import pyarrow as pa
    import pyarrow.types as types

    columns = []
    for at, column in enumerate(batch.columns):
        if at < len(kept):
            column = column if column.type == kept.field(at).type else column.cast(kept.field(at).type)
        elif types.is_fixed_size_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names)
