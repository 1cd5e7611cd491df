"""What is written down runs: docstrings, examples, the notebook; and types are as they say."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eigenstream as es
from conftest import EXAMPLES, REPOSITORY

MODULES = ["eigenstream"] + [f"eigenstream.{m.name}" for m in pkgutil.iter_modules(es.__path__) if m.name != "_core"]
NOTEBOOK = REPOSITORY / "docs" / "python.ipynb"


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_every_public_name_has_a_docstring_and_an_example() -> None:
    for name in es.__all__:
        thing = getattr(es, name)
        assert name == "__version__" or thing.__doc__, name
    for name in ("PCA", "SupervisedPCA", "KernelPCA", "KernelSupervisedPCA", "Model", "State", "fit", "plan", "hsic",
                 "score_features"):
        assert ">>>" in getattr(es, name).__doc__, name


def test_the_package_and_the_examples_are_strictly_typed() -> None:
    pytest.importorskip("mypy")
    project = REPOSITORY / "python"
    command = [sys.executable, "-m", "mypy", "--config-file", str(project / "tests" / "mypy.ini"),
               str(project / "eigenstream"), *map(str, sorted(EXAMPLES.glob("*.py")))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_have_what_the_extension_has() -> None:
    stub = (Path(es.__file__).parent / "_core.pyi").read_text()
    core: Any = importlib.import_module("eigenstream._core")
    for name in dir(core):
        if not name.startswith("_"):
            assert f"class {name}" in stub or f"def {name}(" in stub, name


def load_example(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_the_example_of_embeddings_runs(tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    for part in range(2):
        vectors = np.random.default_rng(part).normal(size=(200, 32)).astype(np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 32)
        table = pa.table({"id": np.arange(200) + 200 * part, "vector": column})
        pq.write_table(table, tmp_path / "vectors" / f"{part}.parquet")
    model = load_example("embeddings")["reduce_embeddings"](tmp_path / "vectors", tmp_path / "scores", 8)
    assert model.n_components == 8
    scores = pq.read_table(tmp_path / "scores")
    assert scores.num_rows == 400 and sorted(scores["id"].to_pylist()) == list(range(400))
    assert es.Model.load(tmp_path / "scores.safetensors") == model


def test_the_example_of_days_runs(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 4))
    for day in range(3):
        part = rows[day * 100:(day + 1) * 100]
        pq.write_table(pa.table({f"f{j}": part[:, j] for j in range(4)}), tmp_path / f"2026-11-1{day}.parquet")
    example = load_example("daily_states")
    states = example["scan_days"](tmp_path)
    assert example["last_days"](states, 2).n_rows == 200
    expected = es.fit(rows[100:], n_components=2)
    np.testing.assert_allclose(example["last_days"](states, 2).components, expected.components, atol=1e-9)
    np.testing.assert_allclose(example["without_day"](states, "2026-11-10").components, expected.components, atol=1e-9)
    assert sorted(example["scan_days"](tmp_path)) == sorted(states)


def test_the_example_of_species_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_example("supervised")
    with_labels, without = example["accuracy"](example["measurements"]())
    assert with_labels > without
    example["main"]()
    assert "accuracy with labels" in capsys.readouterr().out


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("matplotlib")
    # The kernel is a process of its own, in another folder; what it writes goes with the test.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(os.path.abspath(path) for path in sys.path if path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
