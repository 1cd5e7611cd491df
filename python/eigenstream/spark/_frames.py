"""A DataFrame as the engine sees it: which of its columns are read, checked on the driver before a task starts.

Vectors of ``pyspark.ml`` and arrays have no width in Spark's schema; the first that is there tells it.
"""

from __future__ import annotations

import fnmatch
import json
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import _core, _data

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def is_vector(column: "DataType") -> bool:
    """A vector of ``pyspark.ml``."""
    return type(column).__name__ == "VectorUDT"


def _is_numbers(column: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, NumericType

    return isinstance(column, ArrayType) and isinstance(column.elementType, NumericType)


def widths(df: "DataFrame", names: List[str]) -> Dict[str, int]:
    """Numbers of a row of these columns of vectors: of their first rows that have one."""
    from pyspark.sql import functions as F

    if not names:
        return {}
    first = df.select(*[quoted(name) for name in names]).first()
    found = {}
    for name in names:
        value = None if first is None else first[name]
        if value is None:
            row = df.select(quoted(name)).where(F.col(quoted(name)).isNotNull()).first()
            value = None if row is None else row[0]
        if value is not None:
            found[name] = len(value)
    return found


def quoted(name: str) -> str:
    """As Spark takes a name for what it is, dots and all."""
    return "`" + name.replace("`", "``") + "`"


#: Numbers of a row that go to workers side by side. Spark makes Arrow columns value by value: an array of them all takes
#: two thirds of the time of a column for each.
PACKED = "\u200bpacked"


class Selection:
    """Columns for workers: numbers that doubles, or singles, hold as they are side by side, vectors as arrays."""

    def __init__(self, df: "DataFrame", names: List[str], features: List[str]) -> None:
        from pyspark.sql import functions as F
        from pyspark.sql.types import ByteType, DoubleType, FloatType, IntegerType, ShortType

        kinds = {field.name: field.dataType for field in df.schema.fields}
        exact = (ByteType, DoubleType, FloatType, IntegerType, ShortType)
        packed = [name for name in names if name in features and isinstance(kinds[name], exact)]
        #: The columns that are packed, in their order.
        self.packed = packed if len(packed) > 1 else []
        #: The others.
        self.others = [name for name in names if name not in set(self.packed)]
        self._columns = [self._column(name, kinds[name], name in features) for name in self.others]
        if self.packed:
            single = all(isinstance(kinds[name], FloatType) for name in self.packed)
            numbers = [F.col(quoted(name)).cast("float" if single else "double") for name in self.packed]
            self._columns.append(F.array(*numbers).alias(PACKED))

    @staticmethod
    def _column(name: str, kind: "DataType", feature: bool) -> Any:
        from pyspark.sql import functions as F

        if feature and is_vector(kind):
            from pyspark.ml.functions import vector_to_array

            return vector_to_array(F.col(quoted(name))).alias(name)
        return F.col(quoted(name))

    def columns(self, rename: Dict[str, str]) -> List[Any]:
        """Of a DataFrame, some under other names."""
        named = [*self.others, PACKED]
        return [column.alias(rename.get(name, name)) for name, column in zip(named, self._columns)]


def arrow_schema(df: "DataFrame", vectors: Dict[str, int]) -> "pa.Schema":
    """As the engine reads batches of it: vectors have the widths given."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
    from pyspark.sql.types import StructType

    fields = []
    for field in df.schema.fields:
        width = vectors.get(field.name)
        if width is not None:
            kind: Any = field.dataType
            element = pa.float64() if is_vector(kind) else to_arrow_type(kind.elementType)
            fields.append(pa.field(field.name, pa.list_(element, width), field.nullable))
        else:
            fields.append(to_arrow_schema(StructType([field])).field(0))
    return pa.schema(fields)


class Frame:
    """Some columns of a DataFrame, with what is read of them."""

    def __init__(self, df: "DataFrame", options: Dict[str, Any], score_by: Optional[str] = None) -> None:
        names = [field.name for field in df.schema.fields]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"the DataFrame has several columns named {sorted(doubled)[0]!r}; rename all but one")
        self.options = dict(options)
        #: Bytes that the largest worker of the last job held.
        self.worker_peak = 0
        label = options["label"] if options["label"] is not None else score_by
        self.options["label"] = [label] if isinstance(label, str) else label
        self._vectors = widths(df, self._candidates(df))
        schema = arrow_schema(df, self._vectors)
        self._table = _data.table(schema.empty_table())
        self._empty = _core.State.empty(self._table, {**self.options, "threads": 1})
        self.about: Dict[str, Any] = json.loads(self._empty.about_json())
        self.schema = schema
        features = [column["name"] for column in self.about["columns"]]
        chosen = Selection(df, self._read(names), features)
        #: Columns that workers find side by side in one.
        self.packed = chosen.packed
        self.df = df.select(*chosen.columns({}))

    def _candidates(self, df: "DataFrame") -> List[str]:
        """Columns of vectors that may be chosen."""
        patterns, out = self.options["columns"], self.options["exclude"] or []
        patterns = [patterns] if isinstance(patterns, str) else patterns
        patterns = None if patterns is None else [p for given in patterns for p in given.split(",")]
        out = [out] if isinstance(out, str) else out
        beside = {*(self.options["label"] or []), self.options["weight"], self.options["by"]}

        def chosen(name: str) -> bool:
            taken = patterns is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
            return taken and name not in beside and not any(fnmatch.fnmatchcase(name, pattern) for pattern in out)

        fields = [f for f in df.schema.fields if is_vector(f.dataType) or _is_numbers(f.dataType)]
        return [field.name for field in fields if chosen(field.name)]

    def _read(self, names: List[str]) -> List[str]:
        labels = (self.about["labels"] or {"columns": []})["columns"]
        wanted = [column["name"] for column in self.about["columns"]] + labels
        wanted += [name for name in (self.about["weight"], self.options["by"]) if name is not None]
        return [name for name in names if any(w == name or w.startswith(f"{name}.") for w in wanted)]

    @property
    def n_features(self) -> int:
        return len(self._empty.feature_names)

    @property
    def table(self) -> _core.Table:
        """Its columns, and no row."""
        return self._table

    def empty_state(self) -> bytes:
        """Sums of no rows yet: what every task starts with."""
        return self._empty.to_bytes()
