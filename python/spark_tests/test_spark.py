"""The same numbers from two executors as from the command line, whatever happens to the executors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import FEATURES, FILES, ROWS, CommandLine
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import eigenstream
import eigenstream.spark as es
from eigenstream.spark import _jobs, _tasks
from eigenstream.spark._frames import Frame

X = {"columns": "x*"}

#: Options of a fit here, and what the command line calls them.
FITS: Dict[str, Any] = {
    "pca": (X, "--columns x*"),
    "standardized": ({**X, "standardize": True}, "--columns x* --standardize"),
    "weighted": ({**X, "weight": "w"}, "--columns x* --weight w"),
    "nulls mean": ({"columns": ["x*", "hole"], "nulls": "mean"}, "--columns x*,hole --nulls mean"),
    "nulls drop": ({"columns": ["x*", "hole"], "nulls": "drop"}, "--columns x*,hole --nulls drop"),
    "spca delta": ({**X, "method": "spca", "label": ["kind"]}, "--columns x* --method spca --label kind"),
    "spca linear": ({**X, "method": "spca", "label": ["y"], "label_kernel": "linear"},
                    "--columns x* --method spca --label y --label-kernel linear"),
    "scored": ({**X, "score_by": "y", "keep_features": 4}, "--columns x* --score-by y --keep-features 4"),
    "randomized": ({**X, "form": "randomized"}, "--columns x* --form randomized"),
    "randomized, standardized, weighted": (
        {**X, "form": "randomized", "standardize": True, "weight": "w"},
        "--columns x* --form randomized --standardize --weight w"),
    "randomized, nulls mean": ({"columns": ["x*", "hole"], "nulls": "mean", "form": "randomized"},
                               "--columns x*,hole --nulls mean --form randomized"),
}


def collected(scores: DataFrame, names: List[str]) -> "np.ndarray[Any, Any]":
    table = scores.orderBy("id").toArrow()
    return np.column_stack([table[name].to_numpy() for name in names])


@pytest.mark.parametrize("name", FITS)
def test_the_numbers_are_those_of_the_command_line(
    name: str, rows: DataFrame, folder: Path, command: CommandLine, tmp_path: Path
) -> None:
    options, words = FITS[name]
    model = es.fit(rows, n_components=1 if name == "spca linear" else 2, **options)
    file, scores = tmp_path / "model", tmp_path / "scores.parquet"
    command("fit", folder, *words.split(), "-k", model.n_components, "-o", file)
    expected = eigenstream.Model.load(file)
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-12)
    assert model.n_rows == expected.n_rows and model.feature_names == expected.feature_names

    command("transform", file, folder, "--keep", "id", "-o", scores)
    theirs = pq.read_table(scores).sort_by("id")
    names = [f"pc{i + 1}" for i in range(model.n_components)]
    ours = collected(es.transform(model, rows, keep="id"), names)
    np.testing.assert_allclose(ours, np.column_stack([theirs[n].to_numpy() for n in names]), rtol=0, atol=1e-9)


def test_a_rerun_gives_the_same_bytes(rows: DataFrame) -> None:
    first, again = (es.fit(rows, **X, n_components=3).to_bytes() for _ in range(2))
    assert first == again


def test_large_states_are_merged_in_a_tree(rows: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = es.scan(rows, **X)
    monkeypatch.setattr(_jobs, "COLLECTED", 1_200)
    frame = Frame(rows, {**_options(), **X})
    assert _jobs.fan_in(len(frame.empty_state())) == 2
    tree = es.scan(rows, **X)
    assert tree.n_rows == whole.n_rows == ROWS * FILES
    a, b = tree.solve(n_components=3), whole.solve(n_components=3)
    np.testing.assert_allclose(a.eigenvalues, b.eigenvalues, rtol=1e-12)
    assert es.scan(rows, **X).to_bytes() == tree.to_bytes()


def _options() -> Dict[str, Any]:
    from eigenstream._functions import SCAN_OPTIONS

    return dict(SCAN_OPTIONS)


def test_an_executor_that_is_killed_changes_nothing(spark: SparkSession, rows: DataFrame) -> None:
    expected = es.fit(rows, **X, n_components=3)

    def slowly(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            time.sleep(0.5)
            yield batch

    slow = rows.mapInArrow(slowly, rows.schema)
    killed: List[int] = []

    def kill() -> None:
        time.sleep(1.5)
        executors = [process for process in psutil.process_iter(["cmdline"])
                     if any("CoarseGrainedExecutorBackend" in word for word in process.info["cmdline"] or [])]
        os.kill(executors[0].pid, signal.SIGKILL)
        killed.append(executors[0].pid)

    killer = threading.Thread(target=kill)
    killer.start()
    model = es.fit(slow, **X, n_components=3)
    killer.join()
    assert killed
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-12)


def test_empty_and_skewed_partitions(spark: SparkSession, rows: DataFrame) -> None:
    expected = es.fit(rows, **X, n_components=3)
    few = rows.where("id < 5")
    nothing = rows.where("id < 0")
    spread = rows.where("id >= 5").unionByName(few.repartition(20)).unionByName(nothing)
    skewed = rows.repartition(6, F.when(F.col("id") < 11_000, 0).otherwise(F.col("id")))
    for frame in (spread, skewed):
        model = es.fit(frame, **X, n_components=3)
        np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-12)
    with pytest.raises(ValueError, match="0 rows left"):
        es.fit(nothing, **X, n_components=3)
    assert es.transform(expected, nothing, keep="id").count() == 0


def test_vectors_of_every_kind(spark: SparkSession, rows: DataFrame) -> None:
    from pyspark.ml.feature import VectorAssembler

    expected = es.fit(rows, **X, n_components=3)
    dense = VectorAssembler(inputCols=FEATURES, outputCol="v").transform(rows).select("id", "v")
    for frame in (
        dense,
        rows.select("id", F.array(*FEATURES).alias("v")),
    ):
        model = es.fit(frame, vector="v", n_components=3)
        np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-12)
        scores = collected(es.transform(model, frame), ["pc1", "pc2", "pc3"])
        np.testing.assert_allclose(scores, collected(es.transform(expected, rows, keep="id"), ["pc1", "pc2", "pc3"]),
                                   rtol=0, atol=1e-9)
    single = rows.select("id", F.array(*[F.col(name).cast("float") for name in FEATURES]).alias("v"))
    model = es.fit(single, vector="v", n_components=3)
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-6)
    # What is kept is what it was: vectors stay vectors.
    assert es.transform(expected, dense.join(rows, "id"), keep=["id", "v"]).schema["v"] == dense.schema["v"]


def test_sparse_vectors_are_dense_ones(spark: SparkSession) -> None:
    from pyspark.ml.linalg import Vectors

    random = np.random.default_rng(1)
    numbers = random.normal(size=(200, 5)) * (random.random((200, 5)) < 0.4)
    vectors = [Vectors.dense(row) if i % 3 else Vectors.sparse(5, [(j, v) for j, v in enumerate(row) if v])
               for i, row in enumerate(numbers)]
    frame = spark.createDataFrame([(vector,) for vector in vectors], ["v"])
    model = es.fit(frame, vector="v", n_components=2)
    np.testing.assert_allclose(model.eigenvalues, eigenstream.fit(numbers, n_components=2).eigenvalues, rtol=1e-12)


def test_groups_and_hsic(rows: DataFrame, folder: Path) -> None:
    groups, expected = es.scan(rows, **X, by="kind"), eigenstream.scan(str(folder), columns="x*", by="kind")
    assert isinstance(groups, dict) and sorted(groups) == sorted(expected)
    for name, state in groups.items():
        assert state.n_rows == expected[name].n_rows
        np.testing.assert_allclose(state.solve(n_components=2).eigenvalues,
                                   expected[name].solve(n_components=2).eigenvalues, rtol=1e-12)
    for label, kernel in (("kind", None), ("y", "linear")):
        found = es.hsic(rows, label, columns="x*", label_kernel=kernel)
        there = eigenstream.hsic(str(folder), columns="x*", label=[label], label_kernel=kernel)
        assert found.n_rows == there.n_rows
        np.testing.assert_allclose(found.hsic, there.hsic, rtol=1e-12)


def test_output_is_columns_or_a_vector(rows: DataFrame) -> None:
    model = es.fit(rows, **X, n_components=2)
    columns = es.transform(model, rows, keep=["id", "kind"], diagnostics=True)
    assert columns.columns == ["id", "kind", "pc1", "pc2", "reconstruction_error", "hotelling_t2"]
    vector = es.transform(model, rows, keep="id", output="vector", prefix="score").orderBy("id")
    assert vector.columns == ["id", "score"]
    assert es.transform(model, rows).columns == [*rows.columns, "pc1", "pc2"]
    first = vector.first()
    assert first is not None
    np.testing.assert_allclose(first["score"], collected(columns.where("id = 0"), ["pc1", "pc2"])[0], rtol=0, atol=1e-9)


def test_kernel_pca_by_landmarks_and_random_features(rows: DataFrame) -> None:
    some = rows.where("id < 300")
    numbers = np.column_stack([some.orderBy("id").toArrow()[name].to_numpy() for name in FEATURES])
    exact = eigenstream.fit(numbers, method="kpca", kernel="rbf", gamma=0.02, n_components=4)
    # As many landmarks as rows: they can say all that the kernel says.
    model = es.fit(some, **X, method="kpca", kernel="rbf", gamma=0.02, landmarks=300, n_components=4)
    np.testing.assert_allclose(model.eigenvalues, exact.eigenvalues, rtol=1e-8)
    scores = collected(es.transform(model, some, keep="id"), ["pc1", "pc2", "pc3", "pc4"])
    theirs = exact.transform(numbers)
    np.testing.assert_allclose(np.abs(scores), np.abs(theirs), atol=1e-6)
    for options in ({"landmarks": 60}, {"random_features": 200}):
        model = es.fit(rows, **X, method="kpca", kernel="rbf", gamma=0.02, n_components=3, seed=2, **options)
        assert model.n_rows == ROWS * FILES
        scores = collected(es.transform(model, rows, keep="id"), ["pc1", "pc2", "pc3"])
        np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose((scores ** 2).sum(axis=0), model.eigenvalues, rtol=1e-9)
        # Distances from the mean are those of the same landmarks.
        error = es.transform(model, rows.limit(50), keep="id", diagnostics=True).toArrow()["reconstruction_error"]
        assert np.isfinite(error.to_numpy()).all()


def test_bad_data_is_told_with_its_partition(rows: DataFrame) -> None:
    with pytest.raises(ValueError, match=r"partition \d+: .*column 'hole'.* is null or NaN"):
        es.fit(rows, columns=["x*", "hole"], n_components=1)
    with pytest.raises(ValueError, match="column 'kind': is Utf8, not numeric"):
        es.fit(rows, columns=["kind"])
    with pytest.raises(ValueError, match="no column"):
        es.fit(rows, columns=["nothing"])
    with pytest.raises(ValueError, match="'kpca'"):
        es.fit(rows, **X, method="kspca", label=["kind"])
    with pytest.raises(ValueError, match="landmarks or random_features"):
        es.fit(rows, **X, method="kpca")
    uneven = rows.select(F.when(F.col("id") == 4_321, F.array("x0")).otherwise(F.array("x0", "x1")).alias("v"))
    with pytest.raises(ValueError, match="partition"):
        es.fit(uneven, vector="v", n_components=1)
    model = es.fit(rows, **X, n_components=1)
    with pytest.raises(ValueError, match="no column 'x3'"):
        es.transform(model, rows.drop("x3"))
    with pytest.raises(ValueError, match="keep='nothing' matches no column"):
        es.transform(model, rows, keep="nothing")


def test_bad_data_is_tried_once(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    seen = str(tmp_path)

    def count(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        open(f"{seen}/{time.time_ns()}-{os.getpid()}", "w").close()
        yield from batches

    bad = rows.where("id < 2000").coalesce(1).mapInArrow(count, rows.schema)
    with pytest.raises(ValueError, match="hole"):
        es.fit(bad, columns=["hole"], n_components=1)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_state_of_another_version_is_refused(rows: DataFrame) -> None:
    state = es.scan(rows, **X)
    assert isinstance(state, eigenstream.State)
    newer = state.to_bytes().replace(b'\\"format\\":3', b'\\"format\\":9')
    assert newer != state.to_bytes()
    with pytest.raises(ValueError, match="newer"):
        _tasks.merged("State", iter([newer]))


def test_a_worker_holds_what_the_plan_says(spark: SparkSession, folder: Path) -> None:
    wide = spark.range(0, 6_000, 1, 6).select(*[
        (F.sin(F.col("id") * (j % 17 + 1)) + F.col("id") % (j + 2)).alias(f"x{j}") for j in range(400)])
    plan = es.plan(wide)
    frame = Frame(wide, _options())
    _jobs.fold(frame, frame.empty_state())
    assert 0 < frame.worker_peak <= plan.worker_bytes, (frame.worker_peak, str(plan))


def test_a_pipeline_of_pyspark_ml(rows: DataFrame, tmp_path: Path) -> None:
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import VectorAssembler

    from eigenstream.spark.ml import EigenstreamPCA

    stages: List[Any] = [VectorAssembler(inputCols=FEATURES, outputCol="f"),
                         EigenstreamPCA(k=2, inputCol="f", outputCol="pc")]
    fitted = Pipeline(stages=stages).fit(rows)
    scored = fitted.transform(rows)
    assert scored.columns == [*rows.columns, "f", "pc"]
    assert scored.schema["pc"].dataType == scored.schema["f"].dataType
    fitted.save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    first, second = scored.orderBy("id").first(), again.transform(rows).orderBy("id").first()
    assert first is not None and first == second
    expected = es.fit(rows, **X, n_components=2)
    row = es.transform(expected, rows, keep="id").orderBy("id").first()
    assert row is not None
    np.testing.assert_allclose(first["pc"].toArray(), [row["pc1"], row["pc2"]], rtol=0, atol=1e-9)
    assert EigenstreamPCA(k=3, inputCol="f", outputCol="o").copy().getK() == 3


CONNECTED = """
import sys
from pyspark.sql import SparkSession
import eigenstream.spark as es
spark = SparkSession.builder.remote({remote!r}).getOrCreate()
rows = spark.read.parquet({folder!r})
model = es.fit(rows, columns="x*", n_components=2)
scores = es.transform(model, rows, keep="id")
print("found", *model.eigenvalues, scores.count())
"""


def _connected(python: str, remote: str, folder: Path, model: eigenstream.Model) -> None:
    program = CONNECTED.format(remote=remote, folder=str(folder))
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, env=environment, timeout=240)
    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("found")]
    assert found, done.stderr[-3000:]
    np.testing.assert_allclose([float(v) for v in found[0][:2]], model.eigenvalues, rtol=1e-12)
    assert int(found[0][2]) == ROWS * FILES


def test_spark_connect(rows: DataFrame, folder: Path) -> None:
    _connected(sys.executable, "local[2]", folder, es.fit(rows, **X, n_components=2))


SAIL = """
from pysail.spark import SparkConnectServer
server = SparkConnectServer(ip="127.0.0.1", port=0)
server.start()
remote = "sc://127.0.0.1:%d" % server.listening_address[1]
"""


@pytest.mark.skipif("EIGENSTREAM_SAIL" not in os.environ, reason="EIGENSTREAM_SAIL names no Python with Sail")
def test_sail(rows: DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connected = CONNECTED.replace("{remote!r}", "remote")
    monkeypatch.setitem(globals(), "CONNECTED", SAIL.replace("{", "{{").replace("}", "}}") + connected)
    _connected(os.environ["EIGENSTREAM_SAIL"], "", folder, es.fit(rows, **X, n_components=2))
