"""Kernel PCA: a sample decides what rows are compared with, all rows decide on the components.

The model of the sample keeps every component, so its scores say all that landmarks or random features can; PCA of the
scores of all rows, put in front of them, is kernel PCA of all rows.
"""

from __future__ import annotations

from typing import Any, Dict

from .. import _core, _data
from .._functions import SCAN_OPTIONS, fit_core
from .._listen import Listener
from .._model import Model
from . import _jobs, _tasks
from ._frames import Frame

#: Rows that landmarks are chosen among, for each of them; and rows that random features are compared on.
CANDIDATES, COMPARED = 10, 2_000

#: What cannot be had of a sample.
REFUSED = ("standardize", "preimage", "score_by", "basis")


def fit(df: Any, options: Dict[str, Any]) -> Model:
    """Kernel PCA of all rows, by landmarks or random features."""
    size = options["landmarks"] or options["random_features"]
    if size is None:
        raise ValueError("kernel PCA on Spark takes landmarks or random_features: all pairs of rows are too many")
    for name in REFUSED:
        if options[name]:
            raise ValueError(f"{name} is not to be had with kernel PCA on Spark, where a sample decides on the kernel")
    if options["nulls"] == "mean":
        raise ValueError("nulls='mean' is not to be had with kernel PCA on Spark; 'drop' is")
    chosen = {name: options[name] for name in ("columns", "exclude", "weight", "nulls")}
    frame = Frame(df, {**SCAN_OPTIONS, **chosen})
    sampled = Model(_sampled(frame, options, int(size)))
    # Scores of a row, and its weight.
    width, names = sampled.n_components, {"columns": ["pc"], "weight": options["weight"]}
    empty = _core.State.empty(_score_table(width, frame, options["weight"]), {**SCAN_OPTIONS, **names})
    total = _jobs.fold(frame, empty.to_bytes(), model=sampled.to_bytes(), width=max(width, frame.n_features))
    asked = options["n_components"]
    scores = _core.State.from_bytes(total).solve({"n_components": asked}, Listener())
    return Model(sampled._core.recombined(scores))


def _sampled(frame: Frame, options: Dict[str, Any], size: int) -> _core.Model:
    """The model of some rows, with as many components as there can be."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    rows = max(CANDIDATES * size, COMPARED) if options["landmarks"] else COMPARED
    taken = frame.df.orderBy(F.rand(options["seed"] or 0)).limit(rows).toArrow()
    table = pa.Table.from_batches([_tasks.unpacked(batch, frame.packed) for batch in taken.to_batches()])
    chosen = {**options, "n_components": size, "threads": None}
    return fit_core(table, chosen, Listener())


def _score_table(width: int, frame: Frame, weight: Any) -> _core.Table:
    import pyarrow as pa

    fields = [pa.field("pc", pa.list_(pa.float64(), width))]
    if weight is not None:
        fields.append(frame.schema.field(weight))
    return _data.table(pa.schema(fields).empty_table())
