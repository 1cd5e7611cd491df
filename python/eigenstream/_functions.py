"""Fits, plans, sums and measures as functions: the command line's, with its options as keywords."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from . import _core, _data
from ._data import PathLike
from ._listen import Listener, Progress
from ._model import Model

#: Every option of a fit, with what it is where it is not given.
FIT_OPTIONS: Dict[str, Any] = dict.fromkeys([
    "method", "form", "n_components", "basis", "columns", "exclude", "center", "standardize", "center_scores", "weight",
    "nulls", "precision", "label", "label_kernel", "label_gamma", "label_coef0", "label_degree", "label_features",
    "label_matrix", "classes", "with_variance", "kernel", "gamma", "sigma", "coef0", "degree", "landmarks",
    "landmark_choice", "random_features", "preimage", "score_by", "keep_features", "score_threshold", "score",
    "score_center", "tolerance", "max_passes", "allow_unconverged", "seed", "allow_duplicates", "memory", "threads",
    "temp_dir",
])

SCAN_OPTIONS: Dict[str, Any] = dict.fromkeys([
    "columns", "exclude", "label", "classes", "weight", "nulls", "precision", "keep", "folds", "seed", "by", "memory",
    "threads", "temp_dir",
])

HSIC_OPTIONS: Dict[str, Any] = dict.fromkeys([
    "columns", "exclude", "label", "label_kernel", "label_gamma", "label_coef0", "label_degree", "label_features",
    "label_matrix", "classes", "kernel", "gamma", "sigma", "coef0", "degree", "landmarks", "landmark_choice",
    "random_features", "standardize", "weight", "nulls", "exact", "permutations", "seed", "allow_duplicates", "memory",
    "threads", "temp_dir",
])

#: Features up to which a fit of an iterator holds S, and reads it once.
ONE_PASS_FEATURES = 4096


def checked(known: Dict[str, Any], given: Dict[str, Any], what: str) -> Dict[str, Any]:
    """The options, all of which must be known."""
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"{what}() got an unexpected keyword argument '{name}'{hint}")
    return {**known, **given}


def fit_options(given: Dict[str, Any], what: str) -> Dict[str, Any]:
    """Options of a fit, all of which must be known; a basis is a model, an estimator that has one, or its file."""
    options = checked(FIT_OPTIONS, given, what)
    basis = options["basis"]
    if basis is not None:
        options["basis"] = os.fspath(basis) if isinstance(basis, (str, os.PathLike)) else as_model(basis)._core
    return options


def beside(
    table: _core.Table, options: Dict[str, Any], y: Any, sample_weight: Any
) -> Tuple[_core.Table, Dict[str, Any]]:
    """The table with labels and weights as columns of it, and the options that name them."""
    taken = {name for name, _ in table.columns()}
    options = dict(options)
    if y is not None:
        if options.get("label") is not None:
            raise ValueError("y and label are both given; labels are either an argument or columns of the data")
        columns = label_columns(y)
        names = [_free(f"y{i + 1}" if len(columns) > 1 else "y", taken) for i in range(len(columns))]
        for name, values in zip(names, columns):
            table = table.with_column(name, values)
        options["label"] = names
    if sample_weight is not None:
        if options.get("weight") is not None:
            raise ValueError("sample_weight and weight are both given; weights are either an argument or a column")
        name = _free("sample_weight", taken)
        table = table.with_column(name, _data.column(sample_weight))
        options["weight"] = name
    return table, options


def _free(name: str, taken: "set[str]") -> str:
    while name in taken:
        name = f"_{name}"
    taken.add(name)
    return name


def label_columns(y: Any) -> List[Any]:
    """One column, or one of each column of a frame or a two-dimensional array."""
    if _data.is_pandas(y):
        return [_data.column(y.iloc[:, i]) for i in range(y.shape[1])]
    if getattr(y, "ndim", 1) == 2:
        return [_data.column(y[:, i]) for i in range(y.shape[1])]
    return [_data.column(y)]


def fit_core(
    data: Any, options: Dict[str, Any], listener: Listener, y: Any = None, sample_weight: Any = None
) -> _core.Model:
    """The one way that every fit goes."""
    if _data.is_batches(data):
        return _fit_batches(data, options, listener)
    table, options = beside(_data.table(data), options, y, sample_weight)
    return _core.fit(table, options, listener)


def _fit_batches(data: Any, options: Dict[str, Any], listener: Listener) -> _core.Model:
    """Once through a state where that will do, otherwise through a temporary file."""
    batches = _data.record_batches(data)
    first = next(batches, None)
    if first is None:
        raise ValueError("the iterator has no batches, so there are no columns")

    def everything() -> Any:
        yield first
        yield from batches

    state = _state_for(first, options)
    if state is None:
        with _data.SpooledBatches(everything(), options.get("temp_dir")) as spooled:
            return _core.fit(_data.table(spooled.path), options, listener)
    for batch in everything():
        state.update(batch)
    solved = {**options, "columns": None, "exclude": None}
    return state.solve(solved, listener)


def _state_for(batch: Any, options: Dict[str, Any]) -> Optional[_core.State]:
    """A state that gives this fit, or none where it takes more passes than one."""
    supervised = options.get("method") == "spca" and options.get("label_kernel") in (None, "delta", "linear")
    one_pass = options.get("method") in (None, "pca") or supervised
    others = ("basis", "label_matrix", "score_by", "label_features")
    if not one_pass or options.get("form") not in (None, "auto", "primal") or any(options.get(o) for o in others):
        return None
    if options.get("precision") == "mixed":
        return None
    names = [name for name in SCAN_OPTIONS if name not in ("keep", "folds", "by")]
    state = _core.State.empty(_data.table(batch), {**SCAN_OPTIONS, **{n: options.get(n) for n in names}})
    return state if len(state.feature_names) <= ONE_PASS_FEATURES else None


def fit(data: Any, *, y: Any = None, sample_weight: Any = None, progress: Progress = None, **options: Any) -> Model:
    """Fits a model: ``method`` is ``"pca"``, ``"spca"``, ``"kpca"`` or ``"kspca"``; the options are the command line's.

    >>> import numpy as np, eigenstream as es
    >>> rows = np.random.default_rng(0).normal(size=(300, 4))
    >>> es.fit(rows, method="kpca", kernel="rbf", gamma=0.1, n_components=3)
    <eigenstream.Model kpca, exact form: 300 rows × 4 features, 3 components>
    """
    options = fit_options(options, "fit")
    return Model(fit_core(data, options, Listener(progress), y, sample_weight))


class Plan:
    """What a fit would do and hold, from metadata alone. ``print`` it, or look at :attr:`details`."""

    def __init__(self, core: _core.Plan) -> None:
        self._text = core.text
        #: What ``eigenstream plan --json`` prints.
        self.details: Dict[str, Any] = json.loads(core.json)

    @property
    def form(self) -> str:
        """The form that is taken."""
        return str(self.details["form"])

    @property
    def peak_bytes(self) -> int:
        """The most that is held at a time."""
        return int(self.details["peak_bytes"])

    @property
    def passes(self) -> int:
        """The most passes over the data."""
        return int(self.details["passes"])

    @property
    def fits(self) -> bool:
        """Whether that is within the memory."""
        return bool(self.details["fits"])

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        rows = []
        for line in self._text.splitlines():
            name, rest = line[:10].strip(), line[10:]
            rows.append(f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(name)}</th>"
                        "<td style='text-align:left;white-space:pre-wrap;font-family:monospace'>"
                        f"{html.escape(rest)}</td></tr>")
        return "<table>" + "".join(rows) + "</table>"


def plan(data: Any, *, y: Any = None, sample_weight: Any = None, **options: Any) -> Plan:
    """What a fit with these options would do and hold. No row is read.

    >>> import numpy as np, eigenstream as es
    >>> es.plan(np.zeros((500, 2000)), n_components=5).form
    'dual'
    """
    options = fit_options(options, "plan")
    table, options = beside(_data.table(data), options, y, sample_weight)
    return Plan(_core.plan(table, options, Listener()))


@dataclass(frozen=True)
class HsicResult:
    """How much features, or scores, depend on labels."""

    #: The empirical HSIC, with 1/(n−1)².
    hsic: float
    #: The share of shuffles that reach it, itself among them; ``None`` without permutations.
    p_value: Optional[float]
    #: Rows that counted.
    n_rows: int
    #: Features, or scores of the model.
    n_features: int
    #: Rows left out for missing values or labels.
    rows_dropped: int
    #: HSIC of the labels in other orders.
    shuffled: List[float]
    #: The label columns.
    labels: List[str]


def hsic(data: Any, y: Any = None, *, model: Any = None, sample_weight: Any = None, progress: Progress = None,
         **options: Any) -> HsicResult:
    """The HSIC of features and labels, or with ``model`` of its scores and labels.

    >>> import numpy as np, eigenstream as es
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> es.hsic(x, x[:, 0] > 0, permutations=99).p_value
    0.01
    """
    options = checked(HSIC_OPTIONS, options, "hsic")
    table, options = beside(_data.table(data), options, y, sample_weight)
    core = None if model is None else as_model(model)._core
    return HsicResult(**_core.hsic(table, options, core, Listener(progress)))


def score_features(data: Any, y: Any = None, *, score_by: Optional[str] = None, progress: Progress = None,
                   **options: Any) -> Dict[str, float]:
    """How much each feature depends on a label (Bair's scores), best first.

    >>> import numpy as np, eigenstream as es
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> next(iter(es.score_features(x, x[:, 1] * 2)))
    'x[1]'
    """
    if (y is None) == (score_by is None):
        raise ValueError("give the label as y, or name its column with score_by")
    options = fit_options(options, "score_features")
    table, named = beside(_data.table(data), {**options, "label": None}, y, None)
    by = score_by if score_by is not None else named["label"][0]
    options = {**options, "score_by": by, "keep_features": 1, "n_components": 1}
    scores = dict(_core.fit(table, options, Listener(progress)).feature_scores or [])
    signed = options.get("score") == "signed"
    order = sorted(scores, key=lambda name: -(scores[name] if signed else abs(scores[name])))
    return {name: scores[name] for name in order}


def as_model(model: Any) -> Model:
    """A model, of an estimator that has one too."""
    if isinstance(model, Model):
        return model
    fitted = getattr(model, "model_", None)
    if isinstance(fitted, Model):
        return fitted
    raise TypeError(f"expected a Model or a fitted estimator, got {type(model).__name__}")


class State:
    """Sums that are kept: any linear model of them without reading a row again.

    >>> import numpy as np, eigenstream as es
    >>> rows = np.random.default_rng(0).normal(size=(400, 3))
    >>> monday, tuesday = es.State().update(rows[:200]), es.State().update(rows[200:])
    >>> week = monday.merge(tuesday)
    >>> week.n_rows
    400
    >>> week.solve(n_components=2).n_components
    2
    """

    def __init__(self, **options: Any) -> None:
        self._options = checked(SCAN_OPTIONS, options, "State")
        self._core: Optional[_core.State] = None

    @classmethod
    def _of(cls, core: _core.State) -> "State":
        state = cls()
        state._core = core
        return state

    @classmethod
    def load(cls, path: PathLike) -> "State":
        """Reads a state file."""
        return cls._of(_core.State.load(os.fspath(path)))

    @classmethod
    def from_bytes(cls, data: bytes) -> "State":
        """The state that :meth:`to_bytes` gave."""
        return cls._of(_core.State.from_bytes(data))

    def save(self, path: PathLike) -> None:
        """Writes a state file: whole, or not at all."""
        self._whole().save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self._whole().to_bytes()

    def update(self, data: Any, y: Any = None, sample_weight: Any = None, *, progress: Progress = None) -> "State":
        """Adds rows: batches, frames, arrays, files. The first ones decide which columns there are."""
        if _data.is_batches(data):
            for batch in _data.record_batches(data):
                self.update(batch)
            return self
        table, options = beside(_data.table(data), self._options, y, sample_weight)
        added = _core.scan(table, options, Listener(progress))
        if self._core is None:
            self._core = added
        else:
            self._core.merge(added)
        return self

    def merge(self, other: "State") -> "State":
        """Adds the rows of another state. Columns are matched by name."""
        if self._core is None:
            self._core = _core.State.from_bytes(other.to_bytes())
        elif other._core is not None:
            self._core.merge(other._core)
        return self

    def subtract(self, part: "State") -> "State":
        """Takes rows out that were added."""
        self._whole().subtract(part._whole())
        return self

    def solve(self, *, progress: Progress = None, **options: Any) -> Model:
        """A model of all rows so far: ``method="pca"`` or ``"spca"``, any number of components, …"""
        options = fit_options(options, "solve")
        return Model(self._whole().solve(options, Listener(progress)))

    def hsic(self, *, label_kernel: Optional[str] = None) -> HsicResult:
        """The HSIC of features and labels, ``"delta"`` or ``"linear"`` over labels, without a row."""
        options = {**FIT_OPTIONS, "method": "spca", "label_kernel": label_kernel}
        hsic, rows, features, dropped, labels = self._whole().hsic(options)
        return HsicResult(hsic, None, rows, features, dropped, [], labels)

    @property
    def n_rows(self) -> int:
        """Rows that were read."""
        return 0 if self._core is None else self._core.n_rows

    @property
    def feature_names(self) -> List[str]:
        """The features."""
        return [] if self._core is None else self._core.feature_names

    @property
    def about(self) -> Dict[str, Any]:
        """What it is of: columns, labels, inputs."""
        return dict(json.loads(self._whole().about_json()))

    def _whole(self) -> _core.State:
        if self._core is None:
            raise ValueError("this State has no rows yet; call update first")
        return self._core

    def __getstate__(self) -> Dict[str, Any]:
        return {"options": self._options, "bytes": None if self._core is None else self._core.to_bytes()}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._options = state["options"]
        self._core = None if state["bytes"] is None else _core.State.from_bytes(state["bytes"])

    def __repr__(self) -> str:
        return f"<eigenstream.State: {self.n_rows} rows × {len(self.feature_names)} features>"


def scan(data: Any, y: Any = None, *, sample_weight: Any = None, progress: Progress = None, **options: Any) -> Any:
    """The sums of all rows; with ``by`` a dictionary of one state per value of that column."""
    options = checked(SCAN_OPTIONS, options, "scan")
    if _data.is_batches(data):
        return State(**options).update(data)
    table, options = beside(_data.table(data), options, y, sample_weight)
    if options["by"] is not None:
        return {value: State._of(core) for value, core in _core.scan_groups(table, options, Listener(progress))}
    return State._of(_core.scan(table, options, Listener(progress)))
