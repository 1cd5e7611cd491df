"""Exact PCA, supervised PCA and kernel PCA on data larger than memory.

>>> import numpy as np, eigenstream as es
>>> rows = np.random.default_rng(0).normal(size=(1000, 8))
>>> pca = es.PCA(n_components=3).fit(rows)
>>> pca.transform(rows).shape
(1000, 3)

Rows are Parquet files of any size (a path, a glob, a list), NumPy arrays, pandas, polars, pyarrow or duckdb tables, or
an iterator of record batches. The numbers are those of the command line, to the last bit on the same files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._compare import ModelDiff, diff
from ._core import ConvergenceError, ModelFileError, __version__
from ._functions import HsicResult, Plan, State, fit, hsic, plan, scan, score_features
from ._listen import EigenstreamWarning
from ._model import Model
from ._report import Report, report

if TYPE_CHECKING:
    from ._estimators import PCA, KernelPCA, KernelSupervisedPCA, SupervisedPCA

__all__ = [
    "PCA", "SupervisedPCA", "KernelPCA", "KernelSupervisedPCA", "Model", "State", "Plan", "HsicResult", "fit", "plan",
    "scan", "hsic", "score_features", "diff", "report", "ModelDiff", "Report", "ConvergenceError", "ModelFileError",
    "EigenstreamWarning", "__version__",
]


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are asked for: scikit-learn takes a second."""
    if name in ("PCA", "SupervisedPCA", "KernelPCA", "KernelSupervisedPCA"):
        from . import _estimators

        return getattr(_estimators, name)
    raise AttributeError(f"module 'eigenstream' has no attribute '{name}'")


def __dir__() -> List[str]:
    return sorted(__all__)
