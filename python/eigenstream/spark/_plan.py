"""What a fit on Spark holds, from the schema alone."""

from __future__ import annotations

from dataclasses import dataclass

from . import _jobs
from ._frames import Frame

#: A Python worker with Arrow, NumPy and the engine in it (measured: 110 MB), and what its allocator keeps.
WORKER_BYTES = 160 << 20

#: Rows of a batch, unless ``spark.sql.execution.arrow.maxRecordsPerBatch`` says otherwise.
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class SparkPlan:
    """Bytes of a fit, in one place or another."""

    #: Features.
    n_features: int
    #: The state that a task gives.
    state_bytes: int
    #: A Python worker at its peak.
    worker_bytes: int
    #: States that one merge adds up.
    fan_in: int
    #: A Python worker that merges, at its peak.
    merge_bytes: int
    #: The driver, at its peak.
    driver_bytes: int

    @staticmethod
    def of(frame: Frame) -> "SparkPlan":
        """From the features alone."""
        d = frame.n_features
        stored = len(frame.empty_state())
        # S whole; its upper half as numbers, as bytes, and as Arrow's.
        state = 8 * d * d + 3 * stored
        # A batch as Arrow has it, as JVM and Python pass it on, and a block of it.
        batch = 3 * 8 * d * BATCH_ROWS
        fan_in = _jobs.fan_in(stored)
        collected = max(_jobs.COLLECTED, stored)
        return SparkPlan(
            n_features=d,
            state_bytes=stored,
            worker_bytes=WORKER_BYTES + state + batch,
            fan_in=fan_in,
            merge_bytes=WORKER_BYTES + 3 * fan_in * stored + 2 * state,
            driver_bytes=WORKER_BYTES + 2 * collected + 2 * state + 3 * 8 * d * d,
        )

    def __str__(self) -> str:
        lines = [
            ("features", f"{self.n_features:,}"),
            ("state", f"{_mega(self.state_bytes)} a task"),
            ("worker", f"{_mega(self.worker_bytes)} at most"),
            ("merge", f"{self.fan_in} states at a time, {_mega(self.merge_bytes)}"),
            ("driver", f"{_mega(self.driver_bytes)} at most"),
        ]
        return "".join(f"{name:10}{text}\n" for name, text in lines)


def _mega(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
