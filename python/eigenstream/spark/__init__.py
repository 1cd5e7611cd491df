"""The same sums on Spark: executors hold them, the driver solves, the numbers are those of one machine.

>>> import eigenstream.spark as es                                                      # doctest: +SKIP
>>> model = es.fit(df, vector="embedding", n_components=64)                             # doctest: +SKIP
>>> scored = es.transform(model, df, keep=["id"])                                       # doctest: +SKIP

==============  ===============================================================================================
job             what a task does
==============  ===============================================================================================
fit, scan       folds its record batches into one state, of d²/2 numbers, and gives its bytes
merges          adds states of neighbouring partitions, in their order, where they are too large to be collected
transform       maps its batches, one at a time
==============  ===============================================================================================

A task that meets bad data says so in a row of its own instead of failing: Spark would try it four times. States are
merged in the order of partitions, so a rerun over the same partitions gives the same bytes. Workers need the package
installed; ``docs/spark.md`` says how to ship it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Literal, Optional, Sequence, Union

from .._functions import SCAN_OPTIONS, HsicResult, State, as_model, checked, fit_options
from .._model import Keep, Model
from . import _jobs, _kernels, _products
from ._frames import Frame
from ._plan import SparkPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkPlan", "fit", "hsic", "plan", "scan", "transform"]

Columns = Union[None, str, Sequence[str]]

#: Options of a scan that a fit has, too.
_OF_ROWS = ("columns", "exclude", "label", "classes", "weight", "nulls", "precision")


def _chosen(columns: Columns, vector: Optional[str]) -> Columns:
    if vector is None:
        return columns
    if columns is not None:
        raise ValueError("columns and vector are both given; features are columns of numbers, or one of vectors")
    return [vector]


def _scan_options(options: Dict[str, Any]) -> Dict[str, Any]:
    return {**SCAN_OPTIONS, **{name: options.get(name) for name in _OF_ROWS}}


def fit(df: "DataFrame", *, columns: Columns = None, vector: Optional[str] = None, **options: Any) -> Model:
    """Fits a model to the rows of a DataFrame; the options are those of :func:`eigenstream.fit`.

    ``method="pca"`` and ``"spca"`` make one job, and another for merges where d is large. ``form="randomized"``, which
    is taken by itself from more than 4,096 features on, makes a job per product. ``method="kpca"`` samples rows, then
    makes a job over all of them; it takes ``landmarks`` or ``random_features``.
    """
    options = fit_options({**options, "columns": _chosen(columns, vector)}, "fit")
    method = options["method"] or "pca"
    if method == "kpca":
        return _kernels.fit(df, options)
    if method not in ("pca", "spca"):
        raise ValueError(f"method={method!r}: on Spark there are 'pca', 'spca' and 'kpca'")
    frame = Frame(df, _scan_options(options), options["score_by"])
    if _products.suits(frame, options):
        return _products.fit(frame, options)
    state = State.from_bytes(_jobs.fold(frame, frame.empty_state()))
    return state.solve(**{**_given(options), "columns": None, "exclude": None})


def _given(options: Dict[str, Any]) -> Dict[str, Any]:
    """What says something of a state: the rest is in it."""
    left = ("weight", "nulls", "precision", "memory", "threads", "temp_dir", "allow_duplicates", "seed", "form")
    return {name: value for name, value in options.items() if value is not None and name not in left}


def scan(df: "DataFrame", *, columns: Columns = None, vector: Optional[str] = None, by: Optional[str] = None,
         **options: Any) -> Union[State, Dict[str, State]]:
    """The sums of all rows; with ``by`` one state for each value of that column."""
    options = checked(SCAN_OPTIONS, {**options, "columns": _chosen(columns, vector), "by": by}, "scan")
    frame = Frame(df, options)
    if by is not None:
        return {value: State.from_bytes(data) for value, data in _jobs.fold_groups(frame).items()}
    return State.from_bytes(_jobs.fold(frame, frame.empty_state()))


def hsic(df: "DataFrame", label: Columns, *, columns: Columns = None, vector: Optional[str] = None,
         label_kernel: Optional[Literal["delta", "linear"]] = None, **options: Any) -> HsicResult:
    """The HSIC of features and labels, by the linear kernel over features and ``delta`` or ``linear`` over labels."""
    if label_kernel not in (None, "delta", "linear"):
        raise ValueError(f"label_kernel={label_kernel!r}: on Spark there are 'delta' and 'linear'")
    classes = True if label_kernel == "delta" else options.pop("classes", None)
    options = checked(SCAN_OPTIONS, {**options, "columns": _chosen(columns, vector), "label": label,
                                     "classes": classes, "keep": "spca"}, "hsic")
    frame = Frame(df, options)
    state = State.from_bytes(_jobs.fold(frame, frame.empty_state()))
    return state.hsic(label_kernel=label_kernel)


def transform(model: Any, df: "DataFrame", *, keep: Keep = "*", output: Literal["columns", "vector"] = "columns",
              diagnostics: bool = False, n_components: Optional[int] = None, whiten: bool = False,
              dtype: Literal["f64", "f32"] = "f64", prefix: str = "pc", nulls: Optional[str] = None) -> "DataFrame":
    """A DataFrame of scores, after the columns that ``keep`` names: all of them where nothing is said.

    ``output="columns"`` gives a column for each component, ``"vector"`` one ``array<double>`` named by ``prefix``.
    """
    options = dict(diagnostics=diagnostics, n_components=n_components, whiten=whiten, dtype=dtype, prefix=prefix,
                   nulls=nulls, layout="list" if output == "vector" else "columns", threads=1)
    if output not in ("columns", "vector"):
        raise ValueError(f"output={output!r}: expected 'columns' or 'vector'")
    return _jobs.transform(as_model(model), df, keep, options)


def plan(df: "DataFrame", *, columns: Columns = None, vector: Optional[str] = None, **options: Any) -> SparkPlan:
    """What a fit would do and hold: on each worker, in each merge, on the driver. No job is made but for the width of
    a vector column."""
    options = fit_options({**options, "columns": _chosen(columns, vector)}, "plan")
    return SparkPlan.of(Frame(df, _scan_options(options), options["score_by"]))

