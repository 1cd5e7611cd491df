"""What the engine tells while it works: notes to ``logging`` and ``warnings``, progress to a callback or tqdm."""

from __future__ import annotations

import logging
import warnings
from typing import Any, Callable, Optional, Protocol, Union

logger = logging.getLogger("eigenstream")

#: Called with what is done ("reading"), what is counted ("rows"), how many are done, and how many there are (0 where
#: only the end will tell).
ProgressCallback = Callable[[str, str, int, int], None]

#: ``None`` or ``False`` for none, ``True`` for a bar by tqdm where it is installed, or a function.
Progress = Union[None, bool, ProgressCallback]


class EigenstreamWarning(UserWarning):
    """Something about a result that should be known: dropped rows, fewer components, lost digits."""


class _Bar(Protocol):
    def update(self, n: int) -> Any: ...
    def close(self) -> Any: ...


class Listener:
    """Hears the engine, on the caller's thread."""

    def __init__(self, progress: Progress = None) -> None:
        self._callback = progress if callable(progress) else None
        self._tqdm = _find_tqdm() if progress is True else None
        self._bar: Optional[_Bar] = None
        self._stage = ("", "", 0)
        self._done = 0

    def note(self, level: str, text: str) -> None:
        if level == "info":
            logger.info(text)
            return
        logger.warning(text) if level == "warning" else logger.info(text)
        warnings.warn(text, EigenstreamWarning, stacklevel=_outside())

    def begin(self, work: str, noun: str, total: int) -> None:
        self._stage, self._done = (work, noun, total), 0
        logger.debug("%s: %s %s", work, total or "?", noun)
        if self._callback is not None:
            self._callback(work, noun, 0, total)
        if self._tqdm is not None:
            self._bar = self._tqdm(total=total or None, desc=work, unit=f" {noun}", leave=False)

    def advance(self, done: int) -> None:
        work, noun, total = self._stage
        if self._callback is not None:
            self._callback(work, noun, done, total)
        if self._bar is not None:
            self._bar.update(done - self._done)
        self._done = done

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _find_tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


def _outside() -> int:
    """How far up the stack the caller of this package is."""
    import sys

    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("eigenstream", "sklearn")):
        if frame.f_back is None:
            break
        frame, level = frame.f_back, level + 1
    return level
