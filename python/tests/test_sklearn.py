"""scikit-learn's habits: its checks, its attributes, its pipelines."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any, List

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.decomposition as sk
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import eigenstream as es
from conftest import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::eigenstream.EigenstreamWarning")

ALL = [es.PCA, es.SupervisedPCA, es.KernelPCA, es.KernelSupervisedPCA]


def checks() -> List[Any]:
    """Those of check_estimator: all apply. Without SCIPY_ARRAY_API it skips check_array_api_input by itself."""
    return [pytest.param(estimator, check, id=f"{kind.__name__}-{check.func.__name__}")
            for kind in ALL for estimator, check in estimator_checks_generator(kind(), legacy=True)]


@pytest.mark.parametrize("estimator,check", checks())
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass(estimator: Any, check: Any) -> None:
    assert check(estimator) is None


@pytest.fixture(scope="module")
def rows() -> Any:
    rng = np.random.default_rng(3)
    return rng.normal(size=(120, 9)) @ rng.normal(size=(9, 9)) + rng.normal(size=9) * 5


@pytest.fixture(scope="module")
def y(rows: Any) -> Any:
    return np.array(["low", "middle", "high"])[np.digitize(rows[:, 0], np.quantile(rows[:, 0], [0.3, 0.6]))]


def fitted(kind: Any, rows: Any, y: Any, **parameters: Any) -> Any:
    return kind(n_components=2, **parameters).fit(rows, y)


def up_to_sign(ours: Any, theirs: Any) -> Any:
    """Columns of ours with the signs of theirs."""
    return ours * np.sign((ours * theirs).sum(axis=0))


# Parameters and copies


@pytest.mark.parametrize("kind", ALL)
def test_parameters_are_got_set_and_cloned(kind: Any) -> None:
    estimator = kind(n_components=3, memory="1GB").set_params(n_components=4, seed=7)
    copied = clone(estimator)
    assert copied is not estimator
    assert copied.get_params() == estimator.get_params()
    assert copied.get_params()["n_components"] == 4 and copied.get_params()["memory"] == "1GB"
    assert "n_components=4" in repr(copied)


@pytest.mark.parametrize("kind", ALL)
def test_copies_give_the_same_scores(kind: Any, rows: Any, y: Any) -> None:
    estimator = fitted(kind, rows, y)
    stored = io.BytesIO()
    joblib.dump(estimator, stored)
    stored.seek(0)
    copies = [pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator), joblib.load(stored)]
    for other in copies:
        assert np.array_equal(other.transform(rows), estimator.transform(rows))
        assert other.model_ == estimator.model_


def test_models_and_states_are_pickled(rows: Any) -> None:
    model = es.fit(rows, n_components=2)
    assert pickle.loads(pickle.dumps(model)) == model and hash(copy.deepcopy(model)) == hash(model)
    state = es.State(nulls="drop").update(rows)
    other = pickle.loads(pickle.dumps(state))
    assert other.to_bytes() == state.to_bytes()
    assert other.update(rows).n_rows == 240


# Pipelines


def test_components_are_chosen_by_grid_search() -> None:
    rows, y = make_classification(n_samples=200, n_features=12, n_informative=4, random_state=0)
    pipeline = make_pipeline(StandardScaler(), es.PCA(), LogisticRegression())
    search = GridSearchCV(pipeline, {"pca__n_components": [1, 4, 0.9]}, cv=3).fit(rows, y)
    reference = make_pipeline(StandardScaler(), sk.PCA(), LogisticRegression())
    expected = GridSearchCV(reference, {"pca__n_components": [1, 4, 0.9]}, cv=3).fit(rows, y)
    assert search.best_params_ == expected.best_params_
    assert_close(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], 1e-9)


def test_grid_search_runs_in_processes() -> None:
    rows, y = make_classification(n_samples=150, n_features=8, random_state=0)
    pipeline = make_pipeline(es.SupervisedPCA(), LogisticRegression())
    search = GridSearchCV(pipeline, {"supervisedpca__n_components": [1, 2]}, cv=2, n_jobs=2).fit(rows, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_fit_is_chosen_by_its_likelihood(rows: Any) -> None:
    ours = GridSearchCV(es.PCA(), {"n_components": [1, 3, 6]}, cv=3).fit(rows)
    theirs = GridSearchCV(sk.PCA(), {"n_components": [1, 3, 6]}, cv=3).fit(rows)
    assert_close(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], 1e-9)


@pytest.mark.parametrize("kind", ALL)
def test_output_is_set_to_frames(kind: Any, rows: Any, y: Any) -> None:
    plain = fitted(kind, rows, y).transform(rows)
    for library, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        scores = kind(n_components=2).set_output(transform=library).fit(rows, y).transform(rows)
        assert isinstance(scores, frame)
        assert list(scores.columns) == ["pc1", "pc2"]
        assert np.array_equal(scores.to_numpy(), plain)


def test_output_of_a_frame_is_set_to_another_kind(rows: Any) -> None:
    frame = pd.DataFrame(rows, columns=[f"f{j}" for j in range(9)], index=np.arange(120) * 2)
    scores = es.PCA(2).set_output(transform="polars").fit(frame).transform(frame)
    assert isinstance(scores, pl.DataFrame)
    kept = es.PCA(2).set_output(transform="pandas").fit(frame).transform(frame)
    assert kept.index.equals(frame.index)


@pytest.mark.parametrize("kind", ALL)
def test_names_of_scores_are_the_command_lines(kind: Any, rows: Any, y: Any) -> None:
    assert list(fitted(kind, rows, y).get_feature_names_out()) == ["pc1", "pc2"]


# Attributes beside scikit-learn's


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("k", [3, 9])
def test_pca_has_scikit_learns_attributes(k: int, whiten: bool, rows: Any) -> None:
    ours, theirs = es.PCA(k, whiten=whiten).fit(rows), sk.PCA(k, whiten=whiten).fit(rows)
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        assert_close(getattr(ours, name), getattr(theirs, name), 1e-10)
    assert_close(up_to_sign(ours.components_.T, theirs.components_.T).T, theirs.components_, 1e-9)
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-8)
    assert (ours.n_components_, ours.n_features_in_, ours.n_samples_) == (k, 9, 120)
    assert_close(up_to_sign(ours.transform(rows), theirs.transform(rows)), theirs.transform(rows), 1e-9)
    scores = ours.transform(rows)
    assert_close(ours.inverse_transform(scores), theirs.inverse_transform(theirs.transform(rows)), 1e-9)
    # A density of rows has nothing to do with whitening; scikit-learn's get_covariance multiplies by it all the same.
    theirs = sk.PCA(k).fit(rows)
    assert_close(ours.get_covariance(), theirs.get_covariance(), 1e-9)
    assert_close(ours.get_precision(), theirs.get_precision(), 1e-7)
    assert_close(ours.score_samples(rows), theirs.score_samples(rows), 1e-8)
    assert ours.score(rows) == pytest.approx(theirs.score(rows), rel=1e-9)


def test_standardized_pca_is_pca_of_standardized_rows(rows: Any) -> None:
    spread = rows.std(axis=0, ddof=1)
    standard = (rows - rows.mean(axis=0)) / spread
    ours, theirs = es.PCA(3, standardize=True).fit(rows), sk.PCA(3).fit(standard)
    assert_close(ours.explained_variance_, theirs.explained_variance_, 1e-10)
    assert_close(ours.scale_, spread, 1e-12)
    # A density of the rows themselves: that of the standardized ones over the volume of a cell.
    assert_close(ours.score_samples(rows), theirs.score_samples(standard) - np.log(spread).sum(), 1e-8)
    assert_close(ours.get_covariance(), theirs.get_covariance() * np.outer(spread, spread), 1e-9)
    assert_close(ours.get_precision() @ ours.get_covariance(), np.eye(9), 1e-8)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
def test_all_components_are_as_many_as_the_rank(shape: Any) -> None:
    wide = np.random.default_rng(0).normal(size=shape)
    pca = es.PCA().fit(wide)
    assert pca.n_components_ == min(shape[0] - 1, shape[1])
    assert_close(pca.inverse_transform(pca.transform(wide)), wide, 1e-10)


@pytest.mark.parametrize("n_components", [4, 0.8, "mle", None])
def test_components_are_chosen_as_scikit_learn_does(n_components: Any, rows: Any) -> None:
    ours, theirs = es.PCA(n_components).fit(rows), sk.PCA(n_components, svd_solver="full").fit(rows)
    assert ours.n_components_ == theirs.n_components_
    assert ours.components_.shape == theirs.components_.shape
    assert_close(ours.explained_variance_, theirs.explained_variance_, 1e-9)


KERNELS = [{"kernel": "rbf", "gamma": 0.01}, {"kernel": "rbf"}, {"kernel": "poly", "gamma": 0.02, "degree": 2},
           {"kernel": "poly"}, {"kernel": "sigmoid", "gamma": 0.001}, {"kernel": "cosine"}, {"kernel": "linear"}]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernel_pca_has_scikit_learns_attributes(kernel: Any, rows: Any) -> None:
    rows = rows / 4
    ours = es.KernelPCA(3, form="exact", **kernel).fit(rows)
    theirs = sk.KernelPCA(3, eigen_solver="dense", **kernel).fit(rows)
    assert_close(ours.eigenvalues_, theirs.eigenvalues_, 1e-8)
    assert_close(up_to_sign(ours.eigenvectors_, theirs.eigenvectors_), theirs.eigenvectors_, 1e-6)
    expected = theirs.transform(rows)
    assert_close(up_to_sign(ours.transform(rows), expected), expected, 1e-6)
    if "gamma" not in kernel and kernel["kernel"] in ("rbf", "poly"):
        assert ours.gamma_ == pytest.approx(1 / 9)


def test_a_linear_kernel_is_pca(rows: Any) -> None:
    kernel, pca = es.KernelPCA(3).fit(rows), es.PCA(3).fit(rows)
    assert_close(kernel.transform(rows), pca.transform(rows), 1e-10)


def test_rows_come_back_from_kernel_scores(rows: Any) -> None:
    kernel = es.KernelPCA(20, kernel="rbf", gamma=0.001, fit_inverse_transform=True).fit(rows)
    back = kernel.inverse_transform(kernel.transform(rows))
    assert back.shape == rows.shape
    spread = ((rows - rows.mean(axis=0)) ** 2).sum()
    assert ((back - rows) ** 2).sum() < 0.2 * spread


def test_a_kernel_can_be_given(rows: Any) -> None:
    from sklearn.metrics.pairwise import rbf_kernel

    matrix = rbf_kernel(rows, gamma=0.01)
    given = es.KernelPCA(3, kernel="precomputed").fit(matrix)
    computed = es.KernelPCA(3, kernel="rbf", gamma=0.01).fit(rows)
    assert_close(given.eigenvalues_, computed.eigenvalues_, 1e-10)
    assert_close(given.transform(matrix[:5]), computed.transform(rows[:5]), 1e-7)


# Weights


@pytest.mark.parametrize("kind", [es.PCA, es.SupervisedPCA])
def test_a_weight_is_so_many_equal_rows(kind: Any, rows: Any, y: Any) -> None:
    times = np.random.default_rng(0).integers(0, 4, len(rows))
    weighted = kind(n_components=2).fit(rows, y, sample_weight=times)
    repeated = kind(n_components=2).fit(rows.repeat(times, axis=0), y.repeat(times))
    assert_close(weighted.components_, repeated.components_, 1e-10)
    assert_close(weighted.mean_, repeated.mean_, 1e-11)
    assert_close(weighted.eigenvalues_, repeated.eigenvalues_, 1e-10)


def test_weighted_kernel_pca_is_that_of_equal_rows(rows: Any) -> None:
    times = np.random.default_rng(0).integers(1, 4, len(rows))
    weighted = es.KernelPCA(2, kernel="rbf", gamma=0.01).fit(rows, sample_weight=times)
    repeated = es.KernelPCA(2, kernel="rbf", gamma=0.01).fit(rows.repeat(times, axis=0))
    assert_close(weighted.eigenvalues_, repeated.eigenvalues_, 1e-8)
    assert_close(up_to_sign(weighted.transform(rows), repeated.transform(rows)), repeated.transform(rows), 1e-6)


# Supervised


def test_supervised_components_follow_the_labels(rows: Any) -> None:
    """With classes the directions are those of the class means: HSIC with a delta kernel."""
    kinds = np.repeat(["a", "b", "c"], 40)
    shifted = rows + np.array([[0.0] * 9, [6.0] + [0.0] * 8, [0.0] * 8 + [9.0]])[np.repeat([0, 1, 2], 40)]
    fitted_ = es.SupervisedPCA().fit(shifted, kinds)
    centred = shifted - shifted.mean(axis=0)
    sums = np.stack([centred[kinds == kind].sum(axis=0) for kind in "abc"])
    values, vectors = np.linalg.eigh(sums.T @ sums)
    assert fitted_.n_components_ == 2
    assert_close(fitted_.eigenvalues_, values[::-1][:2], 1e-9)
    theirs = vectors[:, ::-1][:, :2]
    assert_close(up_to_sign(fitted_.components_.T, theirs), theirs, 1e-8)
    assert fitted_.hsic_ == pytest.approx(es.hsic(shifted, kinds).hsic, rel=1e-9)


def test_several_numbers_are_labels(rows: Any) -> None:
    targets = rows[:, :2]
    fitted_ = es.SupervisedPCA(2).fit(rows, targets)
    cross = (rows - rows.mean(axis=0)).T @ (targets - targets.mean(axis=0))
    theirs = np.linalg.svd(cross)[0][:, :2]
    assert_close(up_to_sign(fitted_.components_.T, theirs), theirs, 1e-9)
    as_frame = es.SupervisedPCA(2).fit(rows, pd.DataFrame(targets, columns=["a", "b"]))
    assert_close(as_frame.components_, fitted_.components_)


def test_integers_are_classes_where_that_is_said(rows: Any) -> None:
    grades = np.repeat([3, 1, 2], 40)
    named = np.array(["one", "two", "three"])[grades - 1]
    as_classes = es.SupervisedPCA(2, classes=True).fit(rows, grades)
    assert_close(as_classes.components_, es.SupervisedPCA(2).fit(rows, named).components_, 1e-10)
