"""Data that all tests share, and the command line that their numbers are compared with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eigenstream

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "fixtures" / "golden"
EXAMPLES = REPOSITORY / "python" / "examples"
ESTIMATORS = {"pca": "PCA", "spca": "SupervisedPCA", "kpca": "KernelPCA", "kspca": "KernelSupervisedPCA"}


def find_binary() -> Path:
    """The command line: ``EIGENSTREAM_BIN``, or what cargo has built."""
    if "EIGENSTREAM_BIN" in os.environ:
        return Path(os.environ["EIGENSTREAM_BIN"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", str(REPOSITORY / "target")))
    return target / "debug" / "eigenstream"


class CommandLine:
    """Runs the command line, quietly."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def __call__(self, *arguments: Any) -> str:
        command = [str(self.binary), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        return done.stdout

    def fit(self, data: Any, out: Path, options: Dict[str, Any]) -> bytes:
        """The bytes of the model file that a fit with these keywords writes."""
        self("fit", *as_list(data), *flags(options), "--quiet", "-o", out)
        return out.read_bytes()


def as_list(data: Any) -> List[Any]:
    return list(data) if isinstance(data, (list, tuple)) else [data]


def flags(options: Dict[str, Any]) -> List[str]:
    """Keywords as the command line writes them."""
    said: List[str] = []
    for name, value in options.items():
        if name == "center":
            said += [] if value else ["--no-center"]
        elif name == "score_center":
            said += ["--score-center", "yes" if value else "no"]
        elif value is True:
            said.append("--" + name.replace("_", "-"))
        elif value is not None and value is not False:
            flag = {"n_components": "components", "keep_for": "for"}.get(name, name).replace("_", "-")
            said += [f"--{flag}", ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
    return said


@pytest.fixture(scope="session")
def cli() -> CommandLine:
    binary = find_binary()
    if not binary.exists():
        pytest.fail(f"no command line at {binary}: build it with `cargo build`, or name it in EIGENSTREAM_BIN")
    return CommandLine(binary)


@pytest.fixture(scope="session")
def golden() -> Path:
    return GOLDEN


def numeric_columns(path: Path, prefix: str = "x") -> "np.ndarray[Any, Any]":
    """The columns x0, x1, … of a file as a matrix."""
    table = pq.read_table(path)
    names = [name for name in table.column_names if name.startswith(prefix)]
    return np.column_stack([table[name].to_numpy() for name in names])


@pytest.fixture(scope="session")
def plain() -> "np.ndarray[Any, Any]":
    """200 × 7."""
    return numeric_columns(GOLDEN / "plain.parquet")


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files: 8 features, a text label, two numeric ones, a weight, a group."""
    folder = tmp_path_factory.mktemp("labelled")
    rng = np.random.default_rng(7)
    for part in range(2):
        n = 150
        kind = rng.integers(0, 3, n)
        rows = rng.normal(size=(n, 8)) @ rng.normal(size=(8, 8)) + rng.normal(size=(3, 8))[kind] * 2
        columns = {f"f{j}": rows[:, j] for j in range(8)}
        columns["species"] = np.array(["adelie", "chinstrap", "gentoo"])[kind]
        columns["mass"] = rows[:, 0] * 3 + rng.normal(size=n)
        columns["grade"] = kind
        columns["times"] = rng.integers(1, 4, n)
        columns["day"] = np.where(np.arange(n) % 2 == 0, "mon", "tue")
        pq.write_table(pa.table(columns), folder / f"part{part}.parquet", row_group_size=64)
    return folder


FEATURES = [f"f{j}" for j in range(8)]


@pytest.fixture(scope="session")
def labelled_table(labelled: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(labelled.glob("*.parquet"))])


def assert_close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    """Equal to a tolerance that is relative to the largest number."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert ours.shape == theirs.shape
    scale = np.abs(theirs).max() if theirs.size else 1.0
    worst = np.abs(ours - theirs).max() if theirs.size else 0.0
    assert worst <= tolerance * max(scale, np.finfo(float).tiny), f"{worst} apart, at a scale of {scale}"


def run_python(script: str, *arguments: Any, timeout: float = 120, python: str = sys.executable) -> str:
    """Runs a script in a process of its own, with this package; another Python has libraries of its own."""
    package = str(Path(eigenstream.__file__).resolve().parents[1])
    found = [p for p in sys.path if p] if python == sys.executable else [package]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    command = [python, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
