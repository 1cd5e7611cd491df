"""Every kind of data gives the same numbers, and gets its scores back in its own kind."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eigenstream as es
from conftest import FEATURES, assert_close, run_python

pytestmark = pytest.mark.filterwarnings("ignore::eigenstream.EigenstreamWarning")


@pytest.fixture(scope="module")
def rows(labelled_table: pa.Table) -> "np.ndarray[Any, Any]":
    """300 × 8, the features of the folder."""
    return np.column_stack([labelled_table[name].to_numpy() for name in FEATURES])


@pytest.fixture(scope="module")
def features(labelled_table: pa.Table) -> pa.Table:
    return labelled_table.select(FEATURES)


@pytest.fixture(scope="module")
def expected(rows: Any) -> "es.Model":
    return es.fit(rows, n_components=3)


def assert_same(model: Any, expected: es.Model, tolerance: float = 1e-11) -> None:
    model = getattr(model, "model_", model)
    assert model.n_rows == expected.n_rows
    assert_close(model.components, expected.components, tolerance)
    assert_close(model.explained_variance, expected.explained_variance, tolerance)


def assert_no_spool(folder: Path) -> None:
    assert list(folder.iterdir()) == []


# Files


def test_paths_of_every_kind_are_the_same_data(labelled: Path, expected: es.Model) -> None:
    parts = sorted(labelled.glob("*.parquet"))
    for data in (str(labelled), labelled, str(labelled / "*.parquet"), parts, [str(path) for path in parts]):
        assert_same(es.PCA(3, columns=FEATURES).fit(data), expected)
        assert_same(es.fit(data, n_components=3, columns="f*"), expected)


def test_scores_of_files_are_an_array(labelled: Path, rows: Any, expected: es.Model) -> None:
    pca = es.PCA(3, columns=FEATURES).fit(labelled)
    scores = pca.transform(labelled)
    assert isinstance(scores, np.ndarray)
    assert_close(scores, expected.transform(rows), 1e-11)


# Arrays


def arrays(rows: Any, folder: Path) -> Dict[str, Any]:
    wide = np.zeros((600, 16))
    wide[::2, ::2] = rows
    read_only = rows.copy()
    read_only.flags.writeable = False
    np.save(folder / "rows.npy", rows)
    unaligned = np.frombuffer(b"\0" + rows.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(rows.shape)
    return {
        "C": np.ascontiguousarray(rows),
        "F": np.asfortranarray(rows),
        "strided": wide[::2, ::2],
        "negative strides": np.ascontiguousarray(rows[::-1, ::-1])[::-1, ::-1],
        "read-only": read_only,
        "memmap": np.load(folder / "rows.npy", mmap_mode="r"),
        "big-endian": rows.astype(">f8"),
        "unaligned": unaligned,
        "long double": rows.astype(np.longdouble),
        "list of lists": rows.tolist(),
    }


@pytest.mark.parametrize("kind", ["C", "F", "strided", "negative strides", "read-only", "memmap", "big-endian",
                                  "unaligned", "long double", "list of lists"])
def test_arrays_in_any_order_give_the_same_numbers(
    kind: str, rows: Any, expected: es.Model, tmp_path: Path
) -> None:
    array = arrays(rows, tmp_path)[kind]
    pca = es.PCA(3).fit(array)
    assert_same(pca, expected)
    assert_same(es.fit(array, n_components=3), expected)
    scores = pca.transform(array)
    assert type(scores) is np.ndarray and scores.dtype == np.float64
    assert_close(scores, expected.transform(rows), 1e-11)


@pytest.mark.parametrize("order", ["C", "F"])
def test_singles_stay_singles(order: Any, rows: Any, expected: es.Model) -> None:
    singles = rows.astype(np.float32, order=order)
    pca = es.PCA(3).fit(singles)
    # The products are in doubles: what is lost is lost in the cells.
    assert_same(pca, es.fit(singles.astype(np.float64), n_components=3))
    assert pca.transform(singles).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_, np.float16])
def test_other_numbers_are_read_as_doubles(dtype: Any) -> None:
    whole = np.random.default_rng(0).integers(0, 2 if dtype == np.bool_ else 100, (200, 5))
    assert_same(es.PCA(3).fit(whole.astype(dtype)), es.fit(whole.astype(np.float64), n_components=3))


def test_an_array_is_not_changed(rows: Any) -> None:
    before = rows.copy()
    es.PCA(3, standardize=True, whiten=True).fit_transform(rows)
    assert np.array_equal(rows, before)


# pandas


def test_frames_of_either_order_are_the_same_data(rows: Any, expected: es.Model) -> None:
    for array in (np.ascontiguousarray(rows), np.asfortranarray(rows)):
        frame = pd.DataFrame(array, columns=FEATURES)
        assert_same(es.PCA(3).fit(frame), expected)
        assert_same(es.fit(frame, n_components=3), expected)
    columns = pd.DataFrame({name: rows[:, j].copy() for j, name in enumerate(FEATURES)})
    assert_same(es.PCA(3).fit(columns), expected)


def test_scores_of_a_frame_have_its_index(rows: Any, expected: es.Model) -> None:
    frame = pd.DataFrame(rows, columns=FEATURES, index=[f"row {i}" for i in range(300)])
    for scores in (es.PCA(3).fit_transform(frame), es.fit(frame, n_components=3).transform(frame)):
        assert isinstance(scores, pd.DataFrame)
        assert list(scores.columns) == ["pc1", "pc2", "pc3"]
        assert scores.index.equals(frame.index)
        assert_close(scores.to_numpy(), expected.transform(rows), 1e-11)


def test_dropped_rows_are_dropped_from_the_index(rows: Any) -> None:
    frame = pd.DataFrame(rows.copy(), columns=FEATURES, index=np.arange(1000, 1300))
    frame.iloc[5, 2] = np.nan
    pca = es.PCA(3, nulls="drop").fit(frame)
    for scores in (pca.transform(frame), pca.model_.transform(frame)):
        assert list(scores.index) == [i for i in range(1000, 1300) if i != 1005]


def test_nullable_columns_have_missing_values(rows: Any) -> None:
    frame = pd.DataFrame(rows.copy(), columns=FEATURES)
    frame["f0"] = frame["f0"].round().astype("Int64")
    frame["f1"] = frame["f1"].astype("Float64")
    frame.loc[3, "f0"] = pd.NA
    frame.loc[4, "f1"] = pd.NA
    plain = frame.astype({"f0": float, "f1": float})
    assert_same(es.PCA(3, nulls="drop").fit(frame), es.fit(plain.dropna(), n_components=3))
    assert_same(es.PCA(3, nulls="mean").fit(frame), es.fit(plain.fillna(plain.mean()), n_components=3))
    with pytest.raises(ValueError, match='nulls="drop"'):
        es.PCA(3).fit(frame)


@pytest.mark.parametrize("kind", ["object", "category", "string"])
def test_texts_of_a_frame_are_labels_and_no_features(kind: str, labelled_table: pa.Table) -> None:
    expected = es.fit(labelled_table.select(FEATURES), y=labelled_table["species"].to_pylist(), method="spca",
                      n_components=2)
    frame = labelled_table.select([*FEATURES, "species"]).to_pandas()
    frame["species"] = frame["species"].astype(kind)
    named = es.SupervisedPCA(2, label="species").fit(frame)
    assert list(named.feature_names_in_) == FEATURES
    assert_close(named.components_, expected.components, 1e-11)
    as_y = es.SupervisedPCA(2).fit(frame[FEATURES], frame["species"])
    assert_close(as_y.components_, expected.components, 1e-11)
    assert_close(named.transform(frame).to_numpy(), as_y.transform(frame[FEATURES]).to_numpy(), 1e-11)


def test_bools_of_a_frame_are_labels(labelled_table: pa.Table) -> None:
    frame = labelled_table.select(FEATURES).to_pandas()
    is_adelie = pd.Series(np.asarray(labelled_table["species"]) == "adelie")
    expected = es.SupervisedPCA(1).fit(frame, is_adelie.map({True: "yes", False: "no"}))
    assert_close(np.abs(es.SupervisedPCA(1).fit(frame, is_adelie).components_), np.abs(expected.components_), 1e-11)
    nullable = is_adelie.astype("boolean")
    assert_close(np.abs(es.SupervisedPCA(1).fit(frame, nullable).components_), np.abs(expected.components_), 1e-11)


def test_columns_may_be_named_by_numbers(rows: Any, expected: es.Model) -> None:
    frame = pd.DataFrame(rows)
    pca = es.PCA(3).fit(frame)
    assert_same(pca, expected)
    assert not hasattr(pca, "feature_names_in_")
    assert_close(pca.transform(frame).to_numpy(), expected.transform(rows), 1e-11)


def test_a_frame_backed_by_arrow_is_read(rows: Any, features: pa.Table, expected: es.Model) -> None:
    frame = features.to_pandas(types_mapper=pd.ArrowDtype)
    assert_same(es.PCA(3).fit(frame), expected)


# polars


def test_polars_frames_give_polars_frames(labelled_table: pa.Table, rows: Any, expected: es.Model) -> None:
    frame = pl.DataFrame(labelled_table.select(FEATURES))
    pca = es.PCA(3)
    for scores in (pca.fit_transform(frame), es.fit(frame, n_components=3).transform(frame)):
        assert isinstance(scores, pl.DataFrame)
        assert scores.columns == ["pc1", "pc2", "pc3"]
        assert_close(scores.to_numpy(), expected.transform(rows), 1e-11)
    assert_same(pca, expected)


def test_texts_of_polars_are_labels(labelled_table: pa.Table) -> None:
    """Its texts are views, which is another Arrow type than that of files."""
    expected = es.SupervisedPCA(2).fit(labelled_table.select(FEATURES), labelled_table["species"])
    frame = pl.DataFrame(labelled_table.select([*FEATURES, "species"]))
    by_name = es.SupervisedPCA(2, label="species").fit(frame)
    by_y = es.SupervisedPCA(2).fit(frame.select(FEATURES), frame["species"])
    categories = frame.with_columns(pl.col("species").cast(pl.Categorical))
    by_category = es.SupervisedPCA(2, label="species").fit(categories)
    for fitted in (by_name, by_y, by_category):
        assert_close(fitted.components_, expected.components_, 1e-11)


# Arrow


def test_arrow_tables_and_batches_give_tables(labelled_table: pa.Table, rows: Any, expected: es.Model) -> None:
    features = labelled_table.select(FEATURES)
    for data in (features, features.combine_chunks().to_batches()[0]):
        pca = es.PCA(3).fit(data)
        assert_same(pca, expected)
        scores = pca.transform(data)
        assert isinstance(scores, pa.Table) and scores.column_names == ["pc1", "pc2", "pc3"]
        assert_close(np.column_stack(scores.columns), expected.transform(rows), 1e-11)


def test_kept_columns_come_beside_scores(labelled_table: pa.Table) -> None:
    model = es.fit(labelled_table, columns=FEATURES, n_components=2)
    scores = model.transform(labelled_table, keep=["species", "mass"], diagnostics=True)
    assert set(scores.column_names) == {"species", "mass", "pc1", "pc2", "reconstruction_error", "hotelling_t2"}
    assert scores["species"].to_pylist() == labelled_table["species"].to_pylist()


def test_a_vector_column_is_as_many_features(rows: Any, expected: es.Model) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    table = pa.table({"v": vectors, "id": np.arange(300)})
    assert_same(es.fit(table, columns="v", n_components=3), expected)
    pca = es.PCA(3, columns="v").fit(table)
    assert pca.n_features_in_ == 8
    for data in (table, table.select(["v"]), pl.DataFrame(table)):
        assert_close(_numbers(pca.transform(data)), expected.transform(rows), 1e-11)


def _numbers(table: Any) -> Any:
    return table.to_numpy() if isinstance(table, pl.DataFrame) else np.column_stack(table.columns)


def test_fields_of_a_struct_are_features(features: pa.Table, rows: Any, expected: es.Model) -> None:
    columns = [column.combine_chunks() for column in features.columns]
    table = pa.table({"s": pa.StructArray.from_arrays(columns, names=FEATURES)})
    pca = es.PCA(3, columns=[f"s.{name}" for name in FEATURES]).fit(table)
    assert_same(pca, expected)
    assert_close(_numbers(pca.transform(table)), expected.transform(rows), 1e-11)


def test_a_model_of_files_is_applied_to_frames(labelled: Path, labelled_table: pa.Table, rows: Any) -> None:
    pca = es.PCA(3, columns=FEATURES).fit(labelled)
    for data in (labelled_table.to_pandas(), labelled_table, pl.DataFrame(labelled_table)):
        assert_close(np.asarray(pca.transform(data)), pca.transform(labelled), 1e-11)


def test_only_an_object_with_the_interface_is_needed(features: pa.Table, expected: es.Model) -> None:
    class Exports:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return features.__arrow_c_stream__(requested_schema)

    assert_same(es.fit(Exports(), n_components=3), expected)


def test_duckdb_relations_are_read_once_per_pass(labelled: Path, rows: Any, expected: es.Model) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql(f"SELECT {', '.join(FEATURES)} FROM '{labelled}/*.parquet' ORDER BY filename")
    assert_same(es.fit(relation, n_components=3), expected)
    pca = es.PCA(3).fit(relation)
    assert_same(pca, expected)
    assert len(pca.transform(relation)) == 300


def test_datafusion_frames_are_read(labelled: Path, expected: es.Model) -> None:
    datafusion = pytest.importorskip("datafusion")
    frame = datafusion.SessionContext().read_parquet(str(labelled)).select(*[f'"{name}"' for name in FEATURES])
    assert_same(es.fit(frame, n_components=3), expected)


# Iterators


def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=37)


READERS: Dict[str, Callable[[pa.Table], Any]] = {
    "generator": batches,
    "reader": lambda table: pa.RecordBatchReader.from_batches(table.schema, batches(table)),
}


@pytest.mark.parametrize("kind", READERS)
def test_batches_are_fitted_in_one_pass(kind: str, features: pa.Table, expected: es.Model, tmp_path: Path) -> None:
    made = READERS[kind](features)
    assert_same(es.PCA(3, temp_dir=tmp_path).fit(made), expected)
    assert_no_spool(tmp_path)
    assert next(iter(made), None) is None


@pytest.mark.parametrize("kind", READERS)
def test_batches_are_spooled_for_more_passes(kind: str, features: pa.Table, tmp_path: Path) -> None:
    expected = es.KernelPCA(3, kernel="rbf", gamma=0.01).fit(features)
    fitted = es.KernelPCA(3, kernel="rbf", gamma=0.01, temp_dir=tmp_path).fit(READERS[kind](features))
    assert_close(fitted.eigenvalues_, expected.eigenvalues_)
    assert_no_spool(tmp_path)


@pytest.mark.parametrize("kind", READERS)
def test_batches_with_labels_are_fitted(kind: str, labelled_table: pa.Table, tmp_path: Path) -> None:
    expected = es.SupervisedPCA(2, label="species", columns=FEATURES).fit(labelled_table)
    fitted = es.SupervisedPCA(2, label="species", columns=FEATURES, temp_dir=tmp_path).fit(
        READERS[kind](labelled_table))
    assert_close(fitted.components_, expected.components_, 1e-11)
    assert_no_spool(tmp_path)


def test_fit_transform_of_batches_reads_them_once(features: pa.Table, rows: Any, expected: es.Model,
                                                  tmp_path: Path) -> None:
    scores = es.PCA(3, temp_dir=tmp_path).fit_transform(batches(features))
    assert_close(scores, expected.transform(rows), 1e-11)
    assert_no_spool(tmp_path)


def test_a_failing_iterator_leaves_nothing(features: pa.Table, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from features.to_batches(max_chunksize=50)
        raise OSError("the source went away")

    for estimator in (es.PCA(3, temp_dir=tmp_path), es.KernelPCA(3, kernel="rbf", temp_dir=tmp_path)):
        with pytest.raises(OSError, match="the source went away"):
            estimator.fit(failing())
        assert_no_spool(tmp_path)


def test_states_take_batches_frames_and_arrays(features: pa.Table, rows: Any, expected: es.Model) -> None:
    for data in (batches(features), features, features.to_pandas(), pl.DataFrame(features), rows):
        assert_same(es.State().update(data).solve(n_components=3), expected)


# Streams of scores


def test_streams_have_all_scores_in_order(labelled: Path, features: pa.Table, rows: Any, expected: es.Model) -> None:
    model = es.fit(labelled, columns=FEATURES, n_components=3)
    for data in (labelled, features, features.to_pandas(), batches(features)):
        parts: List[pa.RecordBatch] = list(model.transform_batches(data))
        assert all(isinstance(part, pa.RecordBatch) for part in parts)
        scores = pa.Table.from_batches(parts)
        assert_close(np.column_stack(scores.columns), expected.transform(rows), 1e-11)


def test_a_closed_stream_ends_its_thread(rows: Any) -> None:
    many = np.tile(rows, (2000, 1))
    model = es.fit(rows, n_components=3)
    before = engine_threads()
    stream = model.transform_batches(many)
    next(stream)
    assert engine_threads() > before
    stream.close()  # type: ignore[attr-defined]
    assert_threads_end(before)
    dropped = model.transform_batches(many)
    next(dropped)
    del dropped
    gc.collect()
    assert_threads_end(before)


def engine_threads() -> int:
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("threads are counted where there is /proc")
    count = 0
    for task in tasks.iterdir():
        try:
            count += (task / "comm").read_text().startswith("eigenstream")
        except OSError:  # It has ended meanwhile.
            pass
    return count


def assert_threads_end(before: int) -> None:
    deadline = time.monotonic() + 10
    while engine_threads() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert engine_threads() <= before


# Memory


PEAK = """
import resource, sys
import numpy as np, eigenstream as es

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""


@pytest.mark.parametrize("order,dtype", [("C", "f8"), ("F", "f8"), ("C", "f4")])
def test_an_array_is_read_where_it_is(order: str, dtype: str) -> None:
    said = run_python(PEAK + """
order, dtype = sys.argv[1:]
warm = es.PCA(4).fit(np.random.default_rng(0).normal(size=(1000, 8)))
columns = 64
n = 400_000_000 // columns // np.dtype(dtype).itemsize
rows = np.empty((n, columns), dtype, order)
rows[:] = np.random.default_rng(0).normal(size=(1000, columns)).astype(dtype)[np.arange(1000).repeat(1)][:1]
rows[:, 3] = np.arange(n)
before = peak_mb()
es.PCA(4).fit(rows)
print(peak_mb() - before)
""", order, dtype)
    assert float(said) < 150


def test_a_frame_is_read_where_it_is() -> None:
    said = run_python(PEAK + """
import pandas as pd
es.PCA(1).fit(pd.DataFrame(np.random.default_rng(0).normal(size=(1000, 8))))
rows = np.zeros((400_000_000 // 8 // 50, 50))
rows[:, 3] = np.arange(len(rows))
frame = pd.DataFrame(rows, columns=[f"f{j}" for j in range(50)], copy=False)
before = peak_mb()
es.PCA(1, columns=["f3", "f4"]).fit(frame)
es.PCA(1).fit(frame)
print(peak_mb() - before)
""")
    assert float(said) < 150


def test_streams_hold_the_same_for_ten_times_the_rows(tmp_path: Path) -> None:
    table = pa.table({f"f{j}": np.random.default_rng(j).normal(size=100_000) for j in range(16)})
    for times in (1, 10):
        with pq.ParquetWriter(tmp_path / f"{times}.parquet", table.schema, compression="none",
                              use_dictionary=False) as writer:
            for _ in range(times):
                writer.write_table(table, row_group_size=50_000)
    script = PEAK + """
model = es.fit(sys.argv[1] + "/1.parquet", n_components=8)
count = sum(batch.num_rows for batch in model.transform_batches(f"{sys.argv[1]}/{sys.argv[2]}.parquet"))
assert count == 100_000 * int(sys.argv[2])
print(peak_mb())
"""
    once, ten_times = (float(run_python(script, tmp_path, times)) for times in (1, 10))
    # Ten times the scores would be 64 MB, and ten times the rows 128 MB.
    assert ten_times < once + 30


def test_scores_of_no_row_have_their_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3))
    model = es.fit(rows, n_components=2, nulls="drop")
    with pytest.warns(es.EigenstreamWarning, match="4 rows of 4 dropped"):
        assert model.transform(np.full((4, 3), np.nan)).shape == (0, 2)
