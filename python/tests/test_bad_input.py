"""Bad input: the exception and the sentence that scikit-learn's users know, and nothing half written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

import eigenstream as es

pytestmark = pytest.mark.filterwarnings("ignore::eigenstream.EigenstreamWarning")

ALL = [es.PCA, es.SupervisedPCA, es.KernelPCA, es.KernelSupervisedPCA]
FLAG = re.compile(r"(^|\s)--\w|(^|\s)-k\b")


@pytest.fixture(scope="module")
def rows() -> Any:
    return np.random.default_rng(0).normal(size=(60, 4))


@pytest.fixture(scope="module")
def y() -> Any:
    return np.repeat(["a", "b", "c"], 20)


@pytest.fixture(scope="module")
def frame(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list("abcd"))


def with_cell(rows: Any, value: float) -> Any:
    changed = rows.copy()
    changed[3, 1] = value
    return changed


# Arrays


@pytest.mark.parametrize("kind", ALL)
def test_dimensions_other_than_two_are_refused(kind: Any, rows: Any, y: Any) -> None:
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        kind(2).fit(rows[:, 0], y)
    with pytest.raises(ValueError, match="Found array with dim 3"):
        kind(2).fit(rows[None], y)
    fitted = kind(2).fit(rows, y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        fitted.transform(rows[0])
    with pytest.raises(ValueError, match=f"X has 3 features, but {kind.__name__} is expecting 4 features as input"):
        fitted.transform(rows[:, :3])


def test_functions_say_what_they_expect(rows: Any, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="expected a two-dimensional array, got one of 1 dimension"):
        es.fit(rows[:, 0])
    with pytest.raises(TypeError, match="expected paths of Parquet files, .* got NoneType"):
        es.fit(None)
    with pytest.raises(TypeError, match=r"a LazyFrame has no rows yet: collect\(\) it"):
        es.fit(pl.DataFrame(frame).lazy())
    with pytest.raises(ValueError, match="the list is empty"):
        es.fit([])


@pytest.mark.parametrize("column", [pd.Series([1.0, 2.0]), pl.Series([1.0, 2.0]), pa.array([1.0, 2.0])], ids=type)
def test_one_column_is_no_table(column: Any) -> None:
    with pytest.raises(ValueError, match="Expected (2D array|a 2-dimensional container)"):
        es.PCA(1).fit(column)
    with pytest.raises(ValueError, match="expected a two-dimensional array"):
        es.fit(column)


@pytest.mark.parametrize("kind", ALL)
def test_missing_cells_are_told_with_the_policy(kind: Any, rows: Any, y: Any) -> None:
    with pytest.raises(ValueError, match=r'(?s)Input X contains NaN.*row 3.*nulls="drop" or nulls="mean"'):
        kind(2).fit(with_cell(rows, np.nan), y)
    with pytest.raises(ValueError, match=r"(?s)Input X contains NaN.*row 3"):
        kind(2).fit(rows, y).transform(with_cell(rows, np.nan))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("nulls", ["error", "drop", "mean"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_cells_are_refused_by_every_policy(kind: Any, nulls: str, value: float, rows: Any, y: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)Input X contains infinity.*'x\[1\]', row 3"):
        kind(2, nulls=nulls).fit(with_cell(rows, value), y)


@pytest.mark.parametrize("kind", ALL)
def test_texts_and_objects_are_no_features(kind: Any, y: Any) -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        kind(2).fit(np.array([["a", "b"]] * 60), y)
    with pytest.raises(TypeError, match="not 'dict'"):
        kind(2).fit(np.array([[{}, 1.0]] * 60, dtype=object), y)
    with pytest.raises(ValueError, match="no numeric column"):
        kind(2).fit(pd.DataFrame({"a": ["x"] * 60, "b": ["y"] * 60}), y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        kind(2).fit(np.ones((60, 2)) * 1j, y)


def test_functions_take_numbers_only(rows: Any) -> None:
    for array in (np.array([["a", "b"]]), rows * 1j, np.zeros((5, 2), "M8[s]")):
        with pytest.raises(ValueError, match="expected an array of numbers, got one of"):
            es.fit(array)


def test_sparse_data_are_refused(rows: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="Sparse data was passed"):
        es.PCA(2).fit(sparse.csr_matrix(rows))


@pytest.mark.parametrize("kind", ALL)
def test_empty_data_are_refused(kind: Any, rows: Any, y: Any, frame: pd.DataFrame) -> None:
    for empty in (rows[:0], frame[:0], pl.DataFrame(frame[:0]), pa.table(frame)[:0]):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            kind(2).fit(empty, y[:0])
    for one in (rows[:1], frame[:1], pa.table(frame)[:1]):
        with pytest.raises(ValueError, match="minimum of 2 is required"):
            kind(2).fit(one, y[:1])
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        kind(2).fit(np.empty((60, 0)), y)


def test_empty_files_are_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    pq.write_table(pa.table(frame)[:0], tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="no rows"):
        es.PCA(2).fit(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="no batches"):
        es.PCA(2).fit(iter([]))


@pytest.mark.parametrize("kind", ALL)
def test_labels_and_weights_are_as_many_as_rows(kind: Any, rows: Any, y: Any, frame: pd.DataFrame) -> None:
    for data in (rows, frame):
        if "Supervised" in kind.__name__:
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                kind(2).fit(data, y[:7])
        with pytest.raises(ValueError, match="sample_weight|rows"):
            kind(2).fit(data, y, sample_weight=np.ones(7))
        with pytest.raises(ValueError, match="Negative values|a weight must be a number ≥ 0"):
            kind(2).fit(data, y, sample_weight=-np.ones(60))


def test_labels_are_needed(rows: Any, y: Any, golden: Path, frame: pd.DataFrame) -> None:
    for data in (rows, golden / "plain.parquet", frame):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            es.SupervisedPCA(2).fit(data)
    with pytest.raises(ValueError, match="name them with label and weight"):
        es.SupervisedPCA(2).fit(golden / "plain.parquet", y)
    with pytest.raises(ValueError, match="y and label are both given"):
        es.SupervisedPCA(2, label="a").fit(frame, y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        es.SupervisedPCA(2).fit(rows, np.r_[np.nan, np.ones(59)])


# Estimators


@pytest.mark.parametrize("kind", ALL)
def test_an_unfitted_estimator_says_so(kind: Any, rows: Any, tmp_path: Path) -> None:
    calls: List[Callable[[Any], Any]] = [
        lambda e: e.transform(rows), lambda e: e.inverse_transform(rows), lambda e: e.get_feature_names_out(),
        lambda e: e.transform_to(rows, tmp_path / "s.parquet"), lambda e: e.transform_batches(rows),
    ]
    if kind is es.PCA:
        calls += [lambda e: e.score_samples(rows), lambda e: e.score(rows), lambda e: e.get_covariance(),
                  lambda e: e.get_precision()]
    for call in calls:
        with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
            call(kind(2))


KINDS: Dict[str, Callable[[pd.DataFrame], Any]] = {"pandas": lambda f: f, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("labelled", [False, True])
def test_features_by_other_names_or_in_another_order_are_refused(
    library: str, labelled: bool, frame: pd.DataFrame
) -> None:
    make = KINDS[library]
    if labelled:
        frame = frame.assign(name=["x", "y"] * 30)
    pca = es.PCA(2).fit(make(frame))
    assert list(pca.feature_names_in_) == list("abcd")
    assert len(pca.transform(make(frame))) == 60
    others = [c for c in frame.columns if c not in "abcd"]
    for renamed, sentence in (
        (frame.rename(columns={"a": "z"}), "now missing:\n- a"),
        (frame[["b", "c", "d", *others]], "now missing:\n- a"),
        (frame[["b", "a", "c", "d", *others]], "must be in the same order as they were in fit"),
    ):
        with pytest.raises(ValueError, match="The feature names should match those that were passed during fit") as e:
            pca.transform(make(renamed))
        assert sentence in str(e.value)


def test_columns_that_were_no_features_may_be_missing(frame: pd.DataFrame) -> None:
    pca = es.PCA(2).fit(frame.assign(name="x"))
    assert np.array_equal(pca.transform(frame), pca.transform(frame.assign(other="y")))


def test_names_are_missed_as_scikit_learn_misses_them(rows: Any, frame: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="X does not have valid feature names, but PCA was fitted with"):
        es.PCA(2).fit(frame).transform(rows)
    with pytest.warns(UserWarning, match="X has feature names, but PCA was fitted without"):
        es.PCA(2).fit(rows).transform(frame)


def test_frames_of_other_widths_are_refused_without_names(rows: Any, frame: pd.DataFrame) -> None:
    fitted = es.PCA(2).fit(rows)
    with pytest.raises(ValueError, match="4|3"), pytest.warns(UserWarning):
        fitted.transform(frame[list("abc")])


def test_scores_of_another_number_are_not_inverted(rows: Any) -> None:
    with pytest.raises(ValueError, match="X has 4 features, but PCA has 2 components"):
        es.PCA(2).fit(rows).inverse_transform(rows)
    with pytest.raises(ValueError, match='preimage="ridge"'):
        es.KernelPCA(2, kernel="rbf").fit(rows).inverse_transform(rows[:, :2])


# Parameters


@pytest.mark.parametrize("parameters,sentence", [
    ({"n_components": 0}, "n_components: 0 components are none"),
    ({"n_components": -1}, "n_components: '-1'"),
    ({"n_components": 1.5}, "n_components: '1.5'"),
    ({"n_components": "many"}, "n_components: 'many'"),
    ({"n_components": True}, "n_components=True"),
    ({"form": "bogus"}, 'form="bogus": expected one of'),
    ({"nulls": "ignore"}, 'nulls="ignore": expected one of'),
    ({"precision": "mixed"}, 'precision="mixed" needs f32 features'),
    ({"memory": "lots"}, "memory: 'lots' is no size"),
    ({"threads": 0}, "threads is 1 to 1024"),
    ({"keep_features": 2}, "name it with score_by"),
    ({"score_by": "a", "keep_features": 1, "score_threshold": 1.0}, "give one"),
])
def test_a_value_that_cannot_be_is_told_by_its_parameter(parameters: Any, sentence: str, rows: Any) -> None:
    with pytest.raises(ValueError) as e:
        es.PCA(**parameters).fit(rows)
    assert sentence in str(e.value)
    assert not FLAG.search(str(e.value))


@pytest.mark.parametrize("parameters", [{"n_components": [2]}, {"seed": "a"}, {"max_passes": "b"}, {"columns": 3}])
def test_a_value_of_another_type_is_told_by_its_parameter(parameters: Any, rows: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(parameters))):
        es.PCA(**parameters).fit(rows)


def test_an_unknown_keyword_is_told_with_a_hint(rows: Any, y: Any) -> None:
    calls: List[Any] = [
        (lambda: es.fit(rows, n_component=2), "n_component", "did you mean n_components?"),
        (lambda: es.plan(rows, standardise=True), "standardise", "did you mean standardize?"),
        (lambda: es.hsic(rows, y, permutation=3), "permutation", "did you mean permutations?"),
        (lambda: es.State(labels="a"), "labels", "did you mean label?"),
        (lambda: es.scan(rows, null="drop"), "null", "did you mean nulls?"),
        (lambda: es.scan(rows).solve(n_compnents=2), "n_compnents", "did you mean n_components?"),
    ]
    for call, name, hint in calls:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'") as e:
            call()
        assert hint in str(e.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_comps'"):
        es.PCA(n_comps=3)  # type: ignore[call-arg]


def test_columns_that_are_not_there_are_named(frame: pd.DataFrame) -> None:
    for parameters in ({"columns": "heigth"}, {"weight": "heigth"}, {"score_by": "heigth", "keep_features": 2}):
        with pytest.raises(ValueError, match="no column 'heigth'"):
            es.PCA(2, **parameters).fit(frame.rename(columns={"a": "height"}))  # type: ignore[arg-type]


def test_sentences_name_python_parameters_and_no_flags(rows: Any, y: Any, golden: Path) -> None:
    wide = np.zeros((300, 3000))
    calls: List[Callable[[], Any]] = [
        lambda: es.fit(golden / "holes.parquet", exclude="id"),
        lambda: es.fit(wide, memory="1MB"),
        lambda: es.fit(rows, form="direct"),
        lambda: es.fit(rows, method="spca"),
        lambda: es.fit(rows, y=y, method="pca", label_kernel="delta"),
        lambda: es.fit(rows, method="kpca", gamma=1.0, sigma=1.0),
        lambda: es.fit(rows, method="kpca", kernel="linear", landmarks=5),
        lambda: es.fit(rows, gamma=3.0),
        lambda: es.fit(rows, landmarks=3),
        lambda: es.fit(rows, label_gamma=1.0),
        lambda: es.fit(rows, center=False, standardize=True, method="kpca"),
        lambda: es.fit(rows, tolerance=2.0, form="randomized", n_components=1),
        lambda: es.fit(rows, n_components="all", form="randomized"),
        lambda: es.fit(rows, method="kspca", y=y, nulls="mean", weight="x"),
        lambda: es.fit(rows, with_variance=True),
        lambda: es.fit(rows, center_scores=True),
        lambda: es.fit(rows, allow_unconverged=True, preimage="ridge"),
        lambda: es.hsic(rows),
        lambda: es.scan(rows, by="x", folds=3),
        lambda: es.scan(rows).solve(method="spca"),
        lambda: es.scan(rows).solve(form="dual"),
        lambda: es.SupervisedPCA(2, whiten=True).fit(rows, y).transform(rows),
        lambda: es.fit(rows, n_components=2).transform_to(rows, "scores.csv"),
        lambda: es.fit(rows, n_components=2).transform(rows, n_components=3),
        lambda: es.KernelPCA(2, kernel="rbf").fit(rows).model_.reconstruct(rows),
    ]
    said = []
    for number, call in enumerate(calls):
        try:
            call()
        except (ValueError, MemoryError, TypeError) as error:
            said.append((number, str(error)))
    assert len(said) > 15
    assert [sentence for sentence in said if FLAG.search(sentence[1])] == []


# Files


def test_a_file_that_is_gone_is_not_found(tmp_path: Path, frame: pd.DataFrame) -> None:
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    fitted = es.PCA(2).fit(path)
    path.unlink()
    calls: List[Callable[[], Any]] = [
        lambda: es.PCA(2).fit(path), lambda: es.fit(path), lambda: es.plan(path), lambda: es.scan(path),
        lambda: fitted.transform(path), lambda: fitted.transform_to(path, tmp_path / "s.parquet"),
        lambda: es.Model.load(path), lambda: es.State.load(path),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError) as e:
            call()
        assert e.value.errno == 2
        assert str(path) in str(e.value)
    with pytest.raises((ValueError, FileNotFoundError), match="no file matches"):
        es.fit(tmp_path / "*.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_told_by_its_name(tmp_path: Path, golden: Path) -> None:
    whole = (golden / "plain.parquet").read_bytes()
    damaged = bytearray(whole)
    damaged[200:2000] = bytes(1800)
    for name, content in {"cut": whole[:5000], "text": b"a,b\n1,2\n", "none": b"", "damaged": bytes(damaged)}.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(path.name)):
            es.PCA(2, exclude=["id", "w"]).fit(path)


@pytest.mark.parametrize("name", [
    "dictionary_1e9_doubles", "encrypted_columns", "page_2gb_gzip", "page_2gb_hidden", "page_2gb_zstd",
    "page_larger_than_it_says", "row_groups_2e9", "schema_10000_deep", "schema_1e9_elements", "second_page_bomb",
])
def test_a_hostile_file_raises_and_is_named(name: str, golden: Path) -> None:
    path = golden.parent / "bad" / f"{name}.parquet"
    with pytest.raises((ValueError, MemoryError)) as e:
        es.fit(path, n_components=1, memory="200MB")
    assert path.name in str(e.value) or "memory=" in str(e.value)
    assert not FLAG.search(str(e.value))


def test_a_damaged_model_is_a_model_file_error(tmp_path: Path, rows: Any) -> None:
    model = es.fit(rows, n_components=2)
    flipped = bytearray(model.to_bytes())
    flipped[-5] ^= 1
    for content in (bytes(flipped), model.to_bytes()[:100], b"", b"not a model", es.scan(rows).to_bytes()):
        with pytest.raises(es.ModelFileError):
            es.Model.from_bytes(content)
        (tmp_path / "m.model").write_bytes(content)
        with pytest.raises(es.ModelFileError, match="m.model"):
            es.Model.load(tmp_path / "m.model")
    with pytest.raises(es.ModelFileError):
        es.State.from_bytes(model.to_bytes())
    assert issubclass(es.ModelFileError, ValueError)


def test_a_budget_is_a_memory_error_that_names_memory(rows: Any) -> None:
    for call in (lambda: es.PCA(memory="1MB").fit(rows), lambda: es.fit(np.zeros((3000, 3000)), memory="30MB"),
                 lambda: es.PCA(2).fit(rows).set_params(memory=1000).transform(rows)):
        with pytest.raises(MemoryError, match="memory="):
            call()


def test_an_iteration_that_does_not_converge_is_told() -> None:
    noise = np.random.default_rng(0).normal(size=(2500, 60))
    # So little memory that the whole matrix cannot be decomposed instead.
    few = {"kernel": "rbf", "gamma": 0.01, "tolerance": 1e-12, "max_passes": 1, "memory": "60MB"}
    with pytest.raises(es.ConvergenceError, match="max_passes or tolerance, .* allow_unconverged") as e:
        es.KernelPCA(5, **few).fit(noise)  # type: ignore[arg-type]
    assert not FLAG.search(str(e.value))
    assert issubclass(es.ConvergenceError, RuntimeError)
    with pytest.warns(es.EigenstreamWarning):
        kept = es.KernelPCA(5, allow_unconverged=True, **few).fit(noise)  # type: ignore[arg-type]
    assert kept.n_components_ == 5


# Nothing half written


def test_a_failed_transform_to_leaves_nothing(tmp_path: Path, rows: Any, frame: pd.DataFrame) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    good = pa.table(frame)
    pq.write_table(good, data / "1.parquet", row_group_size=10)
    pq.write_table(pa.table(pd.DataFrame(with_cell(rows, np.nan), columns=list("abcd"))), data / "2.parquet")
    pca = es.PCA(2).fit(data / "1.parquet")
    with pytest.raises(ValueError, match="null or NaN"):
        pca.transform_to(data, out / "scores.parquet")
    assert list(out.iterdir()) == []
    with pytest.raises(ValueError, match="no column 'zz'"):
        pca.transform_to(data / "1.parquet", out / "scores.parquet", keep="zz")
    assert list(out.iterdir()) == []


def test_a_failed_transform_to_leaves_what_was_there(tmp_path: Path, rows: Any) -> None:
    pca = es.PCA(2).fit(rows)
    pca.transform_to(rows, tmp_path / "scores.parquet")
    before = (tmp_path / "scores.parquet").read_bytes()
    with pytest.raises(ValueError, match="NaN"):
        pca.transform_to(with_cell(rows, np.nan), tmp_path / "scores.parquet")
    assert (tmp_path / "scores.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failed_update_leaves_the_state_as_it_was(rows: Any) -> None:
    state = es.State().update(rows)
    before = state.to_bytes()
    for wrong in (with_cell(rows, np.nan), rows[:, :3]):
        with pytest.raises(ValueError):
            state.update(wrong)
        assert state.to_bytes() == before
    with pytest.raises(ValueError, match="more than the 60"):
        state.subtract(es.State().update(rows).update(rows + 1))
    assert state.to_bytes() == before
    with pytest.raises(ValueError, match="no rows yet; call update first"):
        es.State().solve()


def test_a_failed_fit_leaves_the_estimator_as_it_was(rows: Any) -> None:
    pca = es.PCA(2).fit(rows)
    with pytest.raises(ValueError, match="NaN"):
        pca.fit(with_cell(rows, np.nan))
    assert pca.transform(rows).shape == (60, 2)


def test_batches_of_another_kind_are_refused(rows: Any, frame: pd.DataFrame) -> None:
    def changing() -> Iterator[pa.RecordBatch]:
        yield pa.table(frame).to_batches()[0]
        yield pa.table(frame[list("abc")]).to_batches()[0]

    with pytest.raises((ValueError, TypeError), match="d"):
        es.PCA(2).fit(changing())
    with pytest.raises(TypeError, match="expected record batches, got ndarray"):
        es.PCA(2).fit(iter([rows]))
    with pytest.raises(TypeError, match="transform_batches"):
        es.PCA(2).fit(rows).transform(iter([rows]))
