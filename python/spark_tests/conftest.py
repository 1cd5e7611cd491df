"""Two executors on this machine, a folder of Parquet, and the command line that numbers are compared with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, List

# Nothing leaves the machine, and workers are of this environment.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

REPOSITORY = Path(__file__).resolve().parents[2]
FEATURES = [f"x{j}" for j in range(8)]
ROWS, FILES = 2_000, 6


def session(master: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("eigenstream")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.files.maxPartitionBytes": "100k",
        "spark.driver.host": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two real executor processes."""
    running = session("local-cluster[2,1,1024]")
    running.sparkContext.setLogLevel("OFF")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers, labels, weights, and in some rows nothing."""
    folder = tmp_path_factory.mktemp("spark") / "data"
    folder.mkdir()
    random = np.random.default_rng(7)
    mix = random.normal(size=(8, 8))
    for part in range(FILES):
        x = random.normal(size=(ROWS, 8)) @ mix + np.arange(8)
        columns: dict[str, Any] = {name: x[:, j] for j, name in enumerate(FEATURES)}
        kind = random.integers(0, 3, ROWS)
        columns["kind"] = [f"kind {k}" for k in kind]
        columns["y"] = x[:, 0] * 0.5 + random.normal(size=ROWS) + kind
        columns["w"] = random.integers(1, 5, ROWS).astype(float)
        columns["hole"] = pa.array(x[:, 3] + x[:, 1], mask=random.random(ROWS) < 0.02)
        columns["id"] = np.arange(ROWS) + part * ROWS
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet", row_group_size=500)
    return folder


@pytest.fixture(scope="session")
def rows(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder))


class CommandLine:
    def __init__(self) -> None:
        target = os.environ.get("CARGO_TARGET_DIR", str(REPOSITORY / "target"))
        self.binary = os.environ.get("EIGENSTREAM_BIN", str(Path(target) / "debug" / "eigenstream"))

    def __call__(self, *words: Any) -> str:
        command: List[str] = [self.binary, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def command() -> CommandLine:
    return CommandLine()
