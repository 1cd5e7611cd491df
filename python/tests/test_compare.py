"""Differences between models, and pages about them."""

import numpy as np
import pytest

import eigenstream as es


def turned(degrees: float) -> "tuple[np.ndarray, np.ndarray]":
    """Rows that vary along two axes, and the same rows turned out of that plane."""
    rows = np.random.default_rng(1).normal(size=(4000, 5)) @ np.diag([9.0, 5.0, 0.1, 0.1, 0.1])
    angle, turn = np.radians(degrees), np.eye(5)
    turn[[0, 0, 2, 2], [0, 2, 0, 2]] = [np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)]
    return rows, rows @ turn


@pytest.mark.parametrize("degrees", [1e-7, 0.5, 30.0, 80.0])
def test_principal_angles_are_those_of_the_turn(degrees):
    before, after = turned(degrees)
    found = es.diff(es.fit(before, n_components=2), es.fit(after, n_components=2))
    assert found.angles.shape == (2,)
    assert found.largest_angle == pytest.approx(degrees, rel=1e-6, abs=2e-9)
    assert all(b == pytest.approx(a) for a, b in found.variances)


def test_features_and_means_that_changed_are_named():
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(2).normal(size=(300, 3))
    a = es.fit(pandas.DataFrame(rows, columns=["a", "b", "c"]), n_components=2)
    b = es.fit(pandas.DataFrame(rows + [0, 7, 0], columns=["a", "b", "d"]), n_components=2)
    found = es.diff(a, b)
    assert (found.added, found.gone) == (["d"], ["c"])
    assert next(iter(found.mean_shift)) == "b" and found.mean_shift["b"] == pytest.approx(7)
    assert "b +7" in str(found)


def test_kernel_models_and_strangers_are_refused_with_a_sentence():
    rows = np.random.default_rng(3).normal(size=(50, 3))
    linear, kernel = es.fit(rows), es.fit(rows, method="kpca", gamma=1.0, n_components=2)
    with pytest.raises(ValueError, match="kpca model has no components among the features"):
        es.diff(linear, kernel)
    with pytest.raises(TypeError, match="expected a Model or a fitted estimator, got int"):
        es.diff(linear, 3)


def test_a_report_shows_itself_and_is_saved_whole(tmp_path):
    rows = np.random.default_rng(4).normal(size=(200, 60))
    page = es.report(es.PCA().fit(rows))
    text = page.to_html()
    assert text.count("<rect") == 40 and "20 more" in text and "http" not in text
    assert page._repr_html_() in text
    page.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    with pytest.raises(FileNotFoundError):
        page.save(tmp_path / "none" / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_reports_of_kernel_models_and_hostile_names_are_escaped():
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(5).normal(size=(40, 2))
    frame = pandas.DataFrame(rows, columns=["<script>alert(1)</script>", "b"])
    assert "<script>" not in es.report(es.fit(frame)).to_html()
    kernel = es.report(es.fit(rows, method="kpca", gamma=1.0, n_components=2)).to_html()
    assert "has no loadings" in kernel and "rbf" in kernel
