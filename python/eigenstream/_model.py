"""Models: what a fit gives. Files are those of the command line, byte for byte."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from typing import Any, Dict, List, Literal, Optional, Sequence, Union

import numpy as np

from . import _core, _data
from ._data import PathLike
from ._listen import Listener, Progress

Array = np.ndarray[Any, np.dtype[Any]]
Keep = Union[None, str, Sequence[str]]
Nulls = Literal["error", "drop", "mean", "null"]
Memory = Union[None, int, str]


class Model:
    """A fitted model: from rows to scores, and back where there is a way back.

    >>> import numpy as np, eigenstream as es
    >>> rows = np.random.default_rng(0).normal(size=(200, 5)) @ np.diag([9, 5, 2, 1, 1])
    >>> model = es.fit(rows, n_components=2)
    >>> model.transform(rows).shape
    (200, 2)
    >>> model.method, model.n_components, model.n_rows
    ('pca', 2, 200)
    """

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self._header: Optional[Dict[str, Any]] = None

    @classmethod
    def load(cls, path: PathLike) -> "Model":
        """Reads a model file."""
        return cls(_core.Model.load(os.fspath(path)))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Model":
        """The model that :meth:`to_bytes` gave."""
        return cls(_core.Model.from_bytes(data))

    def save(self, path: PathLike) -> None:
        """Writes a model file: whole, or not at all."""
        self._core.save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self._core.to_bytes()

    def __reduce__(self) -> Any:
        return Model.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    @property
    def header(self) -> Dict[str, Any]:
        """All of the model that is not arrays: options, inputs, certificate."""
        if self._header is None:
            self._header = json.loads(self._core.header_json())
        return self._header

    def to_dict(self) -> Dict[str, Any]:
        """What ``eigenstream inspect --json`` prints."""
        return dict(json.loads(self._core.to_json()))

    @property
    def method(self) -> str:
        """``"pca"``, ``"spca"``, ``"kpca"`` or ``"kspca"``."""
        return str(self.header["method"])

    @property
    def form(self) -> str:
        """How it was computed: ``"primal"``, ``"dual"``, ``"randomized"``, …"""
        return str(self.header["form"])

    @property
    def n_rows(self) -> int:
        """Rows that counted."""
        return int(self.header["n_rows"])

    @property
    def n_components(self) -> int:
        """Components kept."""
        return self._core.n_components

    @property
    def feature_names(self) -> List[str]:
        """The features, in the order of the columns of :attr:`components`."""
        return self._core.feature_names

    @property
    def components(self) -> Optional[Array]:
        """k × d; ``None`` of a kernel model."""
        return self._core.components

    @property
    def mean(self) -> Array:
        """Of the features, whether or not it is subtracted."""
        return self._core.mean

    @property
    def scale(self) -> Optional[Array]:
        """Standard deviations that the features are divided by."""
        return self._core.scale

    @property
    def eigenvalues(self) -> Array:
        """Of the kept components, descending: of S without 1/n, of HKH, …"""
        return self._core.eigenvalues

    @property
    def spectrum(self) -> Array:
        """Every eigenvalue that is known."""
        return self._core.spectrum

    @property
    def explained_variance(self) -> Optional[Array]:
        """Variance along each component, over n − 1; ``None`` where the fit did not gather it."""
        return self._core.explained_variance

    @property
    def explained_variance_ratio(self) -> Optional[Array]:
        """Its share of the total variance."""
        return self._core.explained_variance_ratio

    @property
    def total_variance(self) -> Optional[float]:
        """Variance of all features together."""
        return self._core.total_variance

    @property
    def certificate(self) -> Dict[str, Any]:
        """How good the numbers are: residual, orthogonality, trace."""
        return dict(self.header["certificate"])

    @property
    def feature_scores(self) -> Optional[Dict[str, float]]:
        """The score of every feature that was scored against a label."""
        scores = self._core.feature_scores
        return None if scores is None else dict(scores)

    def transform(
        self,
        data: Any,
        *,
        n_components: Optional[int] = None,
        keep: Keep = None,
        diagnostics: bool = False,
        residuals: bool = False,
        whiten: bool = False,
        dtype: Literal["f64", "f32"] = "f64",
        prefix: str = "pc",
        nulls: Optional[Nulls] = None,
        memory: Memory = None,
        threads: Optional[int] = None,
        progress: Progress = None,
    ) -> Any:
        """Scores of all rows, in the kind that they came in: an array for arrays and files, a frame for frames.

        ``keep``, ``diagnostics`` and ``residuals`` give columns beside the scores, and so a table.
        """
        options = dict(n_components=n_components, keep=keep, diagnostics=diagnostics, residuals=residuals,
                       whiten=whiten, dtype=dtype, prefix=prefix, nulls=nulls, memory=memory, threads=threads)
        with_columns = keep is not None or diagnostics or residuals
        return self._apply(data, "transform", options, with_columns, progress)

    def reconstruct(
        self,
        data: Any,
        *,
        n_components: Optional[int] = None,
        keep: Keep = None,
        dtype: Literal["f64", "f32"] = "f64",
        preimage: Optional[Literal["fixed-point", "ridge"]] = None,
        nulls: Optional[Nulls] = None,
        memory: Memory = None,
        threads: Optional[int] = None,
        progress: Progress = None,
    ) -> Any:
        """Rows as the components see them, in the kind that they came in."""
        options = dict(n_components=n_components, keep=keep, dtype=dtype, preimage=preimage, nulls=nulls,
                       memory=memory, threads=threads)
        return self._apply(data, "reconstruct", options, keep is not None, progress)

    def inverse_transform(
        self,
        scores: Any,
        *,
        whitened: bool = False,
        preimage: Optional[Literal["fixed-point", "ridge"]] = None,
        memory: Memory = None,
        threads: Optional[int] = None,
    ) -> Array:
        """Rows from their scores, n × k → n × d. A kernel model comes near them by a ``preimage``."""
        scores = np.asarray(scores)
        table = _data.matrix_table(scores)
        k = scores.shape[1]
        if k > self.n_components:
            raise ValueError(f"X has {k} columns, but the model has {self.n_components} components")
        options = dict(n_components=k, from_scores=True, prefix="x", whiten=whitened, preimage=preimage,
                       memory=memory, threads=threads)
        return self._core.apply(table, "reconstruct", options, Listener())

    def transform_to(
        self,
        data: Any,
        out: PathLike,
        *,
        n_components: Optional[int] = None,
        keep: Keep = None,
        diagnostics: bool = False,
        residuals: bool = False,
        whiten: bool = False,
        layout: Literal["columns", "list"] = "columns",
        dtype: Literal["f64", "f32"] = "f64",
        prefix: str = "pc",
        nulls: Optional[Nulls] = None,
        compression: Literal["auto", "zstd", "snappy", "lz4", "gzip", "none"] = "auto",
        memory: Memory = None,
        threads: Optional[int] = None,
        progress: Progress = None,
    ) -> Dict[str, int]:
        """Scores as Parquet: one file where ``out`` ends in ``.parquet``, otherwise a directory, a file per input.

        Gives what was done: ``rows_written``, ``rows_dropped``, ``files``, …
        """
        options = dict(n_components=n_components, keep=keep, diagnostics=diagnostics, residuals=residuals,
                       whiten=whiten, layout=layout, dtype=dtype, prefix=prefix, nulls=nulls,
                       compression=compression, memory=memory, threads=threads)
        return self._write(data, "transform", out, options, progress)

    def reconstruct_to(
        self,
        data: Any,
        out: PathLike,
        *,
        n_components: Optional[int] = None,
        keep: Keep = None,
        from_scores: bool = False,
        whitened: bool = False,
        dtype: Literal["f64", "f32"] = "f64",
        prefix: str = "pc",
        preimage: Optional[Literal["fixed-point", "ridge"]] = None,
        nulls: Optional[Nulls] = None,
        compression: Literal["auto", "zstd", "snappy", "lz4", "gzip", "none"] = "auto",
        memory: Memory = None,
        threads: Optional[int] = None,
        progress: Progress = None,
    ) -> Dict[str, int]:
        """Rows as the components see them, or rows of scores, as Parquet."""
        options = dict(n_components=n_components, keep=keep, from_scores=from_scores, whiten=whitened, dtype=dtype,
                       prefix=prefix, preimage=preimage, nulls=nulls, compression=compression, memory=memory,
                       threads=threads)
        return self._write(data, "reconstruct", out, options, progress)

    def transform_batches(
        self,
        data: Any,
        *,
        n_components: Optional[int] = None,
        keep: Keep = None,
        diagnostics: bool = False,
        residuals: bool = False,
        whiten: bool = False,
        layout: Literal["columns", "list"] = "columns",
        dtype: Literal["f64", "f32"] = "f64",
        prefix: str = "pc",
        nulls: Optional[Nulls] = None,
        memory: Memory = None,
        threads: Optional[int] = None,
    ) -> Iterator[Any]:
        """Record batches of scores, in order, a few held at a time. Data may be an iterator of batches, too.

        Batches are pyarrow's where it is installed, and otherwise objects with ``__arrow_c_array__``.
        """
        options = dict(n_components=n_components, keep=keep, diagnostics=diagnostics, residuals=residuals,
                       whiten=whiten, layout=layout, dtype=dtype, prefix=prefix, nulls=nulls, memory=memory,
                       threads=threads)
        if not _data.is_batches(data):
            return _batches(self._core.apply_stream(_data.table(data), "transform", options))
        return self._each_batch(data, options)

    def _each_batch(self, data: Any, options: Dict[str, Any]) -> Iterator[Any]:
        for batch in _data.record_batches(data):
            yield from _batches(self._core.apply_stream(_data.table(batch), "transform", options))

    def _apply(self, data: Any, what: str, options: Dict[str, Any], with_columns: bool, progress: Progress) -> Any:
        if _data.is_batches(data):
            raise TypeError("scores of an iterator of batches come by transform_batches")
        table, listener = _data.table(data), Listener(progress)
        frame = _data.is_arrow(data) or _data.is_pandas(data)
        if not with_columns and (not frame or _data.is_pandas(data)):
            what = "matrix" if what == "transform" else what
            single = options["dtype"] == "f32"
            apply = self._core.apply_f32 if single else self._core.apply
            array = apply(table, what, options, listener)
            if not _data.is_pandas(data):
                return array
            names = self._column_names(options) if what == "matrix" else self.feature_names
            return _data.to_pandas(array, names, data, self.feature_names)
        batches = self._core.apply_batches(table, what, options, listener)
        kind = _data.to_kind(batches, data)
        return kind.to_pandas() if _data.is_pandas(data) and hasattr(kind, "to_pandas") else kind

    def _column_names(self, options: Dict[str, Any]) -> List[str]:
        k = min(options["n_components"] or self.n_components, self.n_components)
        return [f"{options['prefix']}{i + 1}" for i in range(k)]

    def _write(
        self, data: Any, what: str, out: PathLike, options: Dict[str, Any], progress: Progress
    ) -> Dict[str, int]:
        return self._core.apply_to(_data.table(data), what, os.fspath(out), options, Listener(progress))

    def __repr__(self) -> str:
        k, d = self.n_components, len(self.feature_names)
        return f"<eigenstream.Model {self.method}, {self.form} form: {self.n_rows} rows × {d} features, {k} components>"

    def __str__(self) -> str:
        return self._core.page()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._core.page())}</pre>"


def _batches(stream: _core.BatchStream) -> Iterator[Any]:
    try:
        import pyarrow as pa
    except ImportError:
        pa = None
    try:
        for batch in stream:
            yield batch if pa is None else pa.record_batch(batch)
    finally:
        stream.close()
