"""Jobs: sums of all partitions on the driver, without the driver ever holding more than a few of them.

Memory: a worker holds one state and a batch; a merge ``fan_in`` states; the driver those of the last level, 64 MB or
one state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from .. import _data
from .._model import Keep, Model
from . import _tasks
from ._frames import Frame, Selection, arrow_schema, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Bytes of sums that are collected, or merged in one task.
COLLECTED = 64 << 20

#: Exceptions that a row of a task may name.
ERRORS = {"ValueError": ValueError, "MemoryError": MemoryError, "ArithmeticError": ArithmeticError}


def on_disk() -> Any:
    """States wait on the executors' disks: in their heaps they would take the room that merges need."""
    from pyspark.storagelevel import StorageLevel

    return StorageLevel.DISK_ONLY


def fan_in(each: int) -> int:
    """States of this many bytes that one task adds up."""
    return max(2, min(64, COLLECTED // max(1, each)))


def fold(frame: Frame, empty: bytes, kind: str = "State", model: Optional[bytes] = None,
         width: Optional[int] = None) -> bytes:
    """The sums of all rows."""
    task = _tasks.fold(empty, kind, width or frame.n_features, frame.packed, model)
    levels = [frame.df.mapInArrow(task, _tasks.SUMS).persist(on_disk())]
    try:
        return _collected(frame, levels, empty, kind)
    finally:
        for level in levels:
            level.unpersist()


def _collected(frame: Frame, levels: "List[DataFrame]", empty: bytes, kind: str) -> bytes:
    """One after the other where they are few, by a tree of merges where they are large."""
    from pyspark.sql import functions as F

    told = _told(levels[-1])
    frame.worker_peak = told.peak
    while told.total > COLLECTED and told.last > 0:
        together = fan_in(told.largest)
        slot = F.floor(F.col("part") / together)
        merged = levels[-1].groupBy(slot.alias("slot")).applyInArrow(_tasks.merge(kind), _tasks.SUMS)
        levels.append(merged.withColumn("part", F.floor(F.col("part") / together)).persist(on_disk()))
        told = _told(levels[-1])
    sums = levels[-1]
    rows = sorted(sums.select("part", "sums").collect(), key=lambda row: int(row["part"]))
    if not rows:
        return empty
    return bytes(_tasks.merged(kind, (bytes(row["sums"]) for row in rows)).to_bytes())


class _Told(NamedTuple):
    """What there is to know of sums before they are collected."""

    last: int
    total: int
    largest: int
    peak: int


def _told(sums: "DataFrame") -> _Told:
    """The last partition, the bytes of all sums and of the largest; raises what a partition met."""
    from pyspark.sql import functions as F

    size = F.length("sums")
    problem = F.min(F.when(F.col("problem").isNotNull(), F.struct("part", "problem")))
    said = sums.agg(F.max("part"), F.sum(size), F.max(size), F.max("peak"), problem).first()
    if said is None or said[0] is None:
        return _Told(0, 0, 0, 0)
    _raise(said[4])
    return _Told(*(int(number or 0) for number in said[:4]))


def _raise(problem: Any) -> None:
    if problem is not None:
        kind, _, sentence = problem["problem"].partition(": ")
        raise ERRORS.get(kind, ValueError)(f"partition {problem['part']}: {sentence}")


def fold_groups(frame: Frame) -> Dict[str, bytes]:
    """The state of each group."""
    task = _tasks.fold_groups(frame.options, frame.n_features, frame.packed)
    sums = frame.df.mapInArrow(task, _tasks.SUMS).persist()
    try:
        _told(sums)
        merged = sums.groupBy("value").applyInArrow(_tasks.merge("State"), _tasks.SUMS)
        rows = merged.select("value", "sums", "part", "problem").collect()
    finally:
        sums.unpersist()
    for row in rows:
        _raise(row if row["problem"] is not None else None)
    return {row["value"]: bytes(row["sums"]) for row in sorted(rows, key=lambda row: str(row["value"]))}


def transform(model: Model, df: "DataFrame", keep: Keep, options: Dict[str, Any]) -> "DataFrame":
    """Scores, after what is kept. The schema is found, and checked, without a row."""
    fields = {field.name: field for field in df.schema.fields}
    wanted = [column["name"] for column in model.header["columns"]]
    read = [name for name in fields if any(w == name or w.startswith(f"{name}.") for w in wanted)]
    kept = _kept(keep, list(fields))
    scores = _score_schema(model, df, read, options)
    from pyspark.sql.types import StructType

    schema = StructType([fields[name] for name in kept] + list(scores.fields))
    names = schema.fieldNames()
    doubled = sorted(name for name in set(names) if names.count(name) > 1)
    if doubled:
        raise ValueError(f"column {doubled[0]!r} is kept and computed; leave it out with keep, or choose a prefix")
    chosen = Selection(df, read, wanted)
    features = {f"\u200bfeature {i}": name for i, name in enumerate(chosen.others)}
    columns = chosen.columns({name: hidden for hidden, name in features.items()})
    task = _tasks.transform(model.to_bytes(), options, kept, names, features, chosen.packed)
    return df.select(*columns, *[quoted(name) for name in kept]).mapInArrow(task, schema)


def _kept(keep: Keep, names: List[str]) -> List[str]:
    import fnmatch

    patterns = [] if keep is None else keep.split(",") if isinstance(keep, str) else list(keep)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"keep={pattern!r} matches no column; there are {', '.join(names[:20])}")
    found = [name for pattern in patterns for name in names if fnmatch.fnmatchcase(name, pattern)]
    return list(dict.fromkeys(found))


def _score_schema(model: Model, df: "DataFrame", read: List[str], options: Dict[str, Any]) -> Any:
    """Columns that are computed, from the features without a row."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    fitted = {column["name"]: column.get("width") for column in model.header["columns"]}
    vectors = {name: fitted[name] for name in read if fitted.get(name) is not None}
    missing = [name for name in fitted if not any(name == r or name.startswith(f"{r}.") for r in read)]
    if missing:
        raise ValueError(f"the DataFrame has no column {missing[0]!r}, which the model was fitted on; there are "
                         f"{', '.join(df.columns[:20])}")
    schema = arrow_schema(df.select(*[quoted(name) for name in read]), vectors)
    batches = model._core.apply_batches(_data.table(schema.empty_table()), "transform", options)
    fields = pa.RecordBatchReader.from_stream(batches).schema
    return from_arrow_schema(pa.schema([field.with_type(_any_length(field.type)) for field in fields]))


def _any_length(kind: Any) -> Any:
    """Spark's arrays may have any."""
    import pyarrow as pa

    return pa.list_(kind.value_type) if pa.types.is_fixed_size_list(kind) else kind
