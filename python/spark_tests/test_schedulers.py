"""Shards by other schedulers, as docs/shards.md has them: those that run here are run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, CommandLine

import eigenstream

SCHEDULERS = REPOSITORY / "docs" / "schedulers"


@pytest.fixture(scope="module")
def data(command: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("shards") / "data"
    command("generate", "lowrank", "--rows", 20_000, "--columns", 12, "--files", 5, "-o", data)
    return data


def _run(folder: Path, *words: Any) -> None:
    binaries = str(Path(CommandLine().binary).parent)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run([str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def _same(model: Path, data: Path) -> None:
    expected = eigenstream.fit(str(data), exclude="id", n_components=3)
    np.testing.assert_allclose(eigenstream.Model.load(model).eigenvalues, expected.eigenvalues, rtol=1e-12)


def test_gnu_parallel(data: Path, tmp_path: Path) -> None:
    _run(tmp_path, "sh", SCHEDULERS / "parallel.sh", data, 4)
    _same(tmp_path / "model.safetensors", data)
    assert len(list((tmp_path / "scores").glob("*.parquet"))) == 4 and (tmp_path / "scores" / "_SUCCESS").exists()


def test_gnu_parallel_makes_the_passes_of_the_randomized_form(data: Path, tmp_path: Path) -> None:
    _run(tmp_path, "sh", SCHEDULERS / "randomized.sh", data, 3)
    _same(tmp_path / "model.safetensors", data)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_dask_and_ray(name: str, data: Path, tmp_path: Path) -> None:
    pytest.importorskip(name)
    _run(tmp_path, sys.executable, SCHEDULERS / f"{name}_shards.py", data, "model")
    _same(tmp_path / "model", data)


def test_the_page_has_what_is_run() -> None:
    page = (REPOSITORY / "docs" / "shards.md").read_text()
    for path in sorted(SCHEDULERS.iterdir()):
        assert path.read_text() in page, path
    job = yaml.safe_load((SCHEDULERS / "job.yaml").read_text())
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["template"]["spec"]["containers"]
    compile((SCHEDULERS / "dag.py").read_text(), "dag.py", "exec")
    _run(SCHEDULERS, "sh", "-n", "array.slurm")
