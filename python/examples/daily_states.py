"""A state a day: models of any days, without reading a row again.

    python daily_states.py days/        with days/2026-11-17.parquet and so on
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict

import eigenstream as es


def scan_days(folder: Path) -> Dict[str, es.State]:
    """The sums of each day, kept beside its file: a day that was scanned before is not read."""
    states = {}
    for day in sorted(folder.glob("*.parquet")):
        kept = day.with_suffix(".state")
        if not kept.exists():
            es.State(nulls="drop").update(day).save(kept)
        states[day.stem] = es.State.load(kept)
    return states


def last_days(states: Dict[str, es.State], count: int, n_components: int = 2) -> es.Model:
    """A model of the last few days."""
    window = es.State()
    for day in sorted(states)[-count:]:
        window.merge(states[day])
    return window.solve(n_components=n_components)


def without_day(states: Dict[str, es.State], day: str, n_components: int = 2) -> es.Model:
    """A model of all days but one: its rows are taken out of the sums of all."""
    everything = es.State()
    for state in states.values():
        everything.merge(state)
    return everything.subtract(states[day]).solve(n_components=n_components)


if __name__ == "__main__":
    scanned = scan_days(Path(sys.argv[1]))
    week, before = last_days(scanned, 7), last_days(scanned, len(scanned))
    print(week)
    print(es.diff(before, week))
