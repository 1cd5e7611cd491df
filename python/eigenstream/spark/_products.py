"""PCA where d² numbers are too many: a job for every product with S, the operand sent with it.

Held: on workers and the driver 2·b·d numbers, b = 2k or so. The search is the engine's own, and so is its certificate.
"""

from __future__ import annotations

from typing import Any, Dict

from .. import _core
from .._functions import ONE_PASS_FEATURES
from .._listen import Listener
from .._model import Model
from . import _jobs
from ._frames import Frame


def suits(frame: Frame, options: Dict[str, Any]) -> bool:
    """True where products are asked for, or nothing is and S would be large."""
    if options["form"] == "randomized":
        return True
    plain = options["method"] in (None, "pca") and options["score_by"] is None
    return plain and options["form"] in (None, "auto") and frame.n_features > ONE_PASS_FEATURES


def fit(frame: Frame, options: Dict[str, Any]) -> Model:
    """A model to the tolerance that is asked for."""

    def fold(empty: bytes) -> bytes:
        return _jobs.fold(frame, empty, "PassSums")

    options = {**options, "form": "randomized"}
    return Model(_core.fit_by_passes(frame.table, frame.df.count(), options, fold, Listener()))
