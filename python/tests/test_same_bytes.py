"""The same numbers as the command line: byte for byte of the same files, to 1e-12 of arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eigenstream as es
from conftest import ESTIMATORS, FEATURES, CommandLine, as_list, assert_close, flags, numeric_columns

pytestmark = pytest.mark.filterwarnings("ignore::eigenstream.EigenstreamWarning")

FEW = {"n_components": 3, "exclude": ["id", "w"]}
SPECIES = {"method": "spca", "columns": ["f*"], "label": "species", "n_components": 2}
KERNEL = {"method": "kpca", "exclude": ["id", "w"], "n_components": 4, "standardize": True}
RINGS = {"method": "kspca", "columns": ["f*"], "label": "species", "n_components": 2, "kernel": "rbf", "gamma": 0.05}

#: A name, the file, the options.
CASES: Dict[str, Any] = {
    "pca": ("plain", {**FEW}),
    "pca all": ("plain", {**FEW, "n_components": "all"}),
    "pca share": ("plain", {**FEW, "n_components": 0.9}),
    "pca mle": ("plain", {**FEW, "n_components": "mle"}),
    "pca elbow": ("plain", {**FEW, "n_components": "elbow"}),
    "pca ratio rule": ("plain", {**FEW, "n_components": "ratio>0.01"}),
    "pca primal": ("plain", {**FEW, "form": "primal"}),
    "pca dual": ("plain", {**FEW, "form": "dual"}),
    "pca randomized": ("plain", {**FEW, "form": "randomized", "seed": 5}),
    "pca standardized": ("plain", {**FEW, "standardize": True}),
    "pca without centring": ("plain", {**FEW, "center": False}),
    "pca weighted": ("plain", {"n_components": 3, "exclude": ["id"], "weight": "w"}),
    "pca full precision": ("offset", {"n_components": 3, "precision": "full"}),
    "pca offset": ("offset", {"n_components": 3}),
    "pca vectors": ("vectors", {"n_components": 4}),
    "pca mixed precision": ("vectors", {"n_components": 4, "precision": "mixed"}),
    "pca nulls dropped": ("holes", {"n_components": 3, "exclude": ["id"], "nulls": "drop"}),
    "pca nulls as means": ("holes", {"n_components": 3, "exclude": ["id"], "nulls": "mean"}),
    "pca one thread": ("plain", {**FEW, "threads": 1}),
    "pca ceiling": ("plain", {**FEW, "memory": "200MB"}),
    "pca bytes": ("digits", {"n_components": 5}),
    "pca scored features": ("folder", {"columns": ["f*"], "score_by": "mass", "keep_features": 4, "n_components": 2}),
    "pca score threshold": ("folder", {"columns": ["f*"], "score_by": "mass", "score_threshold": 1.0,
                                       "n_components": 1}),
    "spca classes": ("folder", {**SPECIES}),
    "spca numbers": ("folder", {**SPECIES, "label": "mass", "n_components": 1}),
    "spca two labels": ("folder", {**SPECIES, "label": ["mass", "grade"]}),
    "spca numeric classes": ("folder", {**SPECIES, "label": "grade", "classes": True}),
    "spca with variance": ("folder", {**SPECIES, "with_variance": True}),
    "spca standardized": ("folder", {**SPECIES, "standardize": True}),
    "spca weighted": ("folder", {**SPECIES, "weight": "times"}),
    "spca rbf labels": ("folder", {**SPECIES, "label": "mass", "label_kernel": "rbf", "label_gamma": 0.1}),
    "spca rbf labels by features": ("folder", {**SPECIES, "label": "mass", "label_kernel": "rbf", "label_gamma": 0.1,
                                               "label_features": 50, "seed": 3}),
    "spca poly labels": ("folder", {**SPECIES, "label": "mass", "label_kernel": "poly", "label_degree": 2,
                                    "label_coef0": 1.0}),
    "spca cosine labels": ("folder", {**SPECIES, "label": ["mass", "grade"], "label_kernel": "cosine"}),
    "spca identity": ("folder", {**SPECIES, "label_kernel": "identity"}),
    "spca dual": ("folder", {**SPECIES, "form": "dual"}),
    "kpca rbf": ("plain", {**KERNEL, "kernel": "rbf", "gamma": 0.1}),
    "kpca median": ("plain", {**KERNEL, "kernel": "rbf", "gamma": "median"}),
    "kpca poly": ("plain", {**KERNEL, "kernel": "poly", "gamma": 0.2, "coef0": 1.0, "degree": 2}),
    "kpca sigmoid": ("plain", {**KERNEL, "kernel": "sigmoid", "gamma": 0.05, "coef0": 0.1}),
    "kpca cosine": ("plain", {**KERNEL, "kernel": "cosine"}),
    "kpca linear": ("plain", {**KERNEL, "kernel": "linear"}),
    "kpca linear exact": ("plain", {**KERNEL, "kernel": "linear", "form": "exact"}),
    "kpca landmarks": ("plain", {**KERNEL, "kernel": "rbf", "gamma": 0.1, "landmarks": 40}),
    "kpca uniform landmarks": ("plain", {**KERNEL, "kernel": "rbf", "gamma": 0.1, "landmarks": 40,
                                         "landmark_choice": "uniform", "seed": 2}),
    "kpca random features": ("plain", {**KERNEL, "kernel": "rbf", "gamma": 0.1, "random_features": 64}),
    "kpca weighted": ("folder", {**KERNEL, "exclude": ["grade", "mass"], "kernel": "rbf", "gamma": 0.1,
                                 "weight": "times"}),
    "kspca": ("folder", {**RINGS}),
    "kspca numbers": ("folder", {**RINGS, "label": "mass", "n_components": 1}),
    "kspca centred scores": ("folder", {**RINGS, "center_scores": True}),
    "kspca poly": ("folder", {**RINGS, "kernel": "poly", "gamma": 0.1, "coef0": 1.0, "degree": 2}),
    "kspca direct": ("folder", {**RINGS, "form": "direct"}),
}


def path_of(name: str, golden: Path, labelled: Path) -> Path:
    return labelled if name == "folder" else golden / f"{name}.parquet"


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_files_has_the_bytes_of_the_command_lines(
    case: str, cli: CommandLine, golden: Path, labelled: Path, tmp_path: Path
) -> None:
    name, options = CASES[case]
    data = path_of(name, golden, labelled)
    theirs = cli.fit(data, tmp_path / "cli.model", options)
    es.fit(data, **options).save(tmp_path / "py.model")
    assert (tmp_path / "py.model").read_bytes() == theirs


@pytest.mark.parametrize("case", CASES)
def test_an_estimator_on_files_has_the_same_bytes(
    case: str, cli: CommandLine, golden: Path, labelled: Path, tmp_path: Path
) -> None:
    name, options = CASES[case]
    data = path_of(name, golden, labelled)
    given = {key: value for key, value in options.items() if key != "method"}
    estimator = getattr(es, ESTIMATORS[options.get("method", "pca")])(**given).fit(data)
    assert estimator.model_.to_bytes() == cli.fit(data, tmp_path / "cli.model", options)


def test_a_preimage_is_learnt_to_the_same_bytes(cli: CommandLine, golden: Path, tmp_path: Path) -> None:
    options = {**KERNEL, "kernel": "rbf", "gamma": 0.1}
    theirs = cli.fit(golden / "plain.parquet", tmp_path / "cli.model", {**options, "preimage": "ridge"})
    given = {key: value for key, value in options.items() if key != "method"}
    ours = es.KernelPCA(fit_inverse_transform=True, **given).fit(golden / "plain.parquet")
    assert ours.model_.to_bytes() == theirs


def test_a_given_basis_gives_the_same_model(cli: CommandLine, golden: Path, tmp_path: Path) -> None:
    data = golden / "plain.parquet"
    cli.fit(data, tmp_path / "basis.model", FEW)
    written = cli.fit(data, tmp_path / "cli.model", {"basis": tmp_path / "basis.model"})
    assert es.fit(data, basis=tmp_path / "basis.model").to_bytes() == written
    # A model in memory is of no file, and otherwise the same.
    ours, theirs = es.fit(data, basis=es.Model.load(tmp_path / "basis.model")), es.Model.from_bytes(written)
    ours.header["basis"]["path"] = theirs.header["basis"]["path"]
    assert ours.header == theirs.header
    assert np.array_equal(ours.components, theirs.components)
    assert np.array_equal(ours.eigenvalues, theirs.eigenvalues)


@pytest.mark.parametrize("kernel", ["precomputed", "distances"])
def test_a_given_kernel_gives_the_same_bytes(kernel: str, cli: CommandLine, plain: Any, tmp_path: Path) -> None:
    rows = plain[:60]
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    matrix = np.exp(-0.01 * distances**2) if kernel == "precomputed" else distances
    pq.write_table(pa.table({f"k{j}": matrix[:, j] for j in range(60)}), tmp_path / "k.parquet")
    options = {"method": "kpca", "kernel": kernel, "n_components": 3}
    theirs = cli.fit(tmp_path / "k.parquet", tmp_path / "cli.model", options)
    assert es.fit(tmp_path / "k.parquet", **options).to_bytes() == theirs
    of_array = es.fit(matrix, **options)
    assert_close(of_array.eigenvalues, es.Model.from_bytes(theirs).eigenvalues)


def test_a_matrix_of_label_comparisons_gives_the_same_numbers(
    cli: CommandLine, labelled: Path, labelled_table: pa.Table, tmp_path: Path
) -> None:
    mass = labelled_table["mass"].to_numpy()
    matrix = np.exp(-0.1 * (mass[:, None] - mass[None]) ** 2)
    pq.write_table(pa.table({f"k{j}": matrix[:, j] for j in range(len(mass))}), tmp_path / "l.parquet")
    options = {"method": "spca", "columns": ["f*"], "label_kernel": "precomputed", "n_components": 2}
    cli.fit(labelled, tmp_path / "cli.model", {**options, "label_data": tmp_path / "l.parquet"})
    theirs = es.Model.load(tmp_path / "cli.model")
    assert_close(es.fit(labelled, label_matrix=matrix, **options).components, theirs.components)


# Arrays


def assert_same_model(ours: es.Model, theirs: es.Model) -> None:
    assert ours.form == theirs.form and ours.n_rows == theirs.n_rows
    assert_close(ours.eigenvalues, theirs.eigenvalues)
    assert_close(ours.mean, theirs.mean)
    if theirs.components is not None:
        assert_close(ours.components, theirs.components)


@pytest.mark.parametrize("options", [
    {"n_components": 3}, {"n_components": 0.9}, {"n_components": 3, "standardize": True},
    {"n_components": 3, "center": False}, {"n_components": 3, "form": "dual"},
    {"n_components": 3, "precision": "full"},
    {"method": "kpca", "n_components": 3, "kernel": "rbf", "gamma": 0.001},
    {"method": "kpca", "n_components": 3, "kernel": "poly", "gamma": 0.01, "degree": 2},
    {"method": "kpca", "n_components": 3, "kernel": "cosine"},
], ids=str)
def test_an_array_gives_the_numbers_of_the_file(options: Any, golden: Path, plain: Any) -> None:
    theirs = es.fit(golden / "plain.parquet", exclude=["id", "w"], **options)
    ours = es.fit(plain, **options)
    assert_same_model(ours, theirs)
    rows = pq.read_table(golden / "plain.parquet")
    assert_close(ours.transform(plain), theirs.transform(plain_table(rows)))


def plain_table(table: pa.Table) -> Any:
    """Columns in one piece, so that scores come as an array."""
    return table.select([f"x{j}" for j in range(7)]).to_pandas()


@pytest.mark.parametrize("options", [
    {"method": "spca", "n_components": 2}, {"method": "spca", "n_components": 2, "standardize": True},
    {"method": "kspca", "n_components": 2, "kernel": "rbf", "gamma": 0.05},
], ids=str)
@pytest.mark.parametrize("label", ["species", "mass"])
def test_an_array_and_y_give_the_numbers_of_the_file(
    options: Any, label: str, labelled: Path, labelled_table: pa.Table
) -> None:
    options = {**options, "n_components": 1 if label == "mass" else 2}
    theirs = es.fit(labelled, columns=FEATURES, label=label, **options)
    rows = np.column_stack([labelled_table[name].to_numpy() for name in FEATURES])
    y = labelled_table[label].to_numpy(zero_copy_only=False)
    ours = es.fit(rows, y=y, **options)
    assert_same_model(ours, theirs)
    assert ours.header["hsic"] == pytest.approx(theirs.header["hsic"], rel=1e-12)


def test_sample_weights_of_arrays_are_those_of_the_file(golden: Path, plain: Any) -> None:
    weights = pq.read_table(golden / "plain.parquet")["w"].to_numpy()
    theirs = es.fit(golden / "plain.parquet", exclude=["id"], weight="w", n_components=3)
    assert_same_model(es.fit(plain, sample_weight=weights, n_components=3), theirs)


# The golden numbers of scikit-learn and numpy


def test_golden_numbers_are_met(golden: Path, plain: Any) -> None:
    expected = json.loads((golden / "golden.json").read_text())
    pca = es.PCA().fit(plain)
    assert_close(pca.explained_variance_, expected["pca"]["explained_variance"], 1e-10)
    assert_close(pca.components_, expected["pca"]["components"], 1e-9)
    assert es.PCA("mle").fit(plain).n_components_ == expected["mle"]
    assert es.PCA(0.9).fit(plain).n_components_ == expected["ratio_0.9"]
    assert_close(es.PCA(standardize=True).fit(plain).scale_, expected["standardize"]["scale"], 1e-10)
    holes = numeric_columns(golden / "holes.parquet")
    dropped = es.PCA(nulls="drop").fit(holes)
    assert dropped.n_samples_ == expected["drop"]["rows"]
    assert_close(dropped.explained_variance_, expected["drop"]["explained_variance"], 1e-10)
    imputed = es.PCA(nulls="mean").fit(holes)
    assert_close(imputed.explained_variance_, expected["impute"]["explained_variance"], 1e-10)


def test_golden_kernels_are_met(golden: Path, plain: Any) -> None:
    expected = json.loads((golden / "kernel.json").read_text())
    rows = (plain - plain.mean(0)) / plain.std(0, ddof=1)
    kernels = {"rbf": {"gamma": 0.1}, "poly": {"gamma": 0.2, "coef0": 1, "degree": 2},
               "sigmoid": {"gamma": 0.05, "coef0": 0.1}, "cosine": {}, "linear": {}}
    for kernel, constants in kernels.items():
        # Without form="exact" a linear kernel is fitted as PCA, and signed by its components instead.
        fitted = es.KernelPCA(4, kernel=kernel, form="exact", **constants).fit(rows)  # type: ignore[arg-type]
        assert_close(fitted.eigenvalues_, expected[kernel]["eigenvalues"], 1e-8)
        assert_close(fitted.transform(rows[:5]), expected[kernel]["scores_head"], 1e-7)


# Scores


@pytest.mark.parametrize("options", [
    {}, {"keep": ["species", "mass"]}, {"keep": "all"}, {"diagnostics": True}, {"residuals": True},
    {"layout": "list"}, {"dtype": "f32"}, {"prefix": "score"}, {"n_components": 2}, {"compression": "zstd"},
], ids=str)
@pytest.mark.parametrize("out", ["scores.parquet", "scores"])
def test_files_of_scores_have_the_bytes_of_the_command_lines(
    options: Any, out: str, cli: CommandLine, labelled: Path, tmp_path: Path
) -> None:
    model = es.fit(labelled, columns=["f*"], n_components=3)
    model.save(tmp_path / "m.model")
    for folder in ("cli", "py"):
        (tmp_path / folder).mkdir()
    said = {"keep_all": True} if options.get("keep") == "all" else options
    cli("transform", tmp_path / "m.model", labelled, "--quiet", *flags(said), "-o", tmp_path / "cli" / out)
    done = model.transform_to(labelled, tmp_path / "py" / out, **options)
    assert done["rows_written"] == 300
    assert_same_files(tmp_path / "py" / out, tmp_path / "cli" / out)


def assert_same_files(ours: Path, theirs: Path) -> None:
    if theirs.is_file():
        assert ours.read_bytes() == theirs.read_bytes()
        return
    names = sorted(path.name for path in theirs.iterdir())
    assert names == sorted(path.name for path in ours.iterdir())
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()


@pytest.mark.parametrize("case", ["spca classes", "kpca rbf", "kpca landmarks", "kpca random features", "kspca"])
def test_scores_of_every_method_have_the_same_bytes(
    case: str, cli: CommandLine, golden: Path, labelled: Path, tmp_path: Path
) -> None:
    name, options = CASES[case]
    data = path_of(name, golden, labelled)
    cli.fit(data, tmp_path / "m.model", options)
    cli("transform", tmp_path / "m.model", data, "--quiet", "-o", tmp_path / "cli.parquet")
    es.Model.load(tmp_path / "m.model").transform_to(data, tmp_path / "py.parquet")
    assert_same_files(tmp_path / "py.parquet", tmp_path / "cli.parquet")
    scores = es.Model.load(tmp_path / "m.model").transform(data)
    table = pq.read_table(tmp_path / "cli.parquet")
    assert np.array_equal(scores, np.column_stack([column.to_numpy() for column in table.columns]))


@pytest.mark.parametrize("nulls", ["drop", "mean", "null"])
def test_scores_of_missing_values_have_the_same_bytes(
    nulls: Any, cli: CommandLine, golden: Path, tmp_path: Path
) -> None:
    data = golden / "holes.parquet"
    model = es.fit(data, exclude=["id"], nulls="mean", n_components=3)
    model.save(tmp_path / "m.model")
    cli("transform", tmp_path / "m.model", data, "--keep", "id", "--nulls", nulls, "--quiet", "-o",
        tmp_path / "cli.parquet")
    model.transform_to(data, tmp_path / "py.parquet", keep="id", nulls=nulls)
    assert_same_files(tmp_path / "py.parquet", tmp_path / "cli.parquet")


def test_reconstructions_have_the_same_bytes(cli: CommandLine, labelled: Path, tmp_path: Path) -> None:
    model = es.fit(labelled, columns=["f*"], n_components=3)
    model.save(tmp_path / "m.model")
    cli("reconstruct", tmp_path / "m.model", labelled, "--keep", "species", "--quiet", "-o", tmp_path / "cli.parquet")
    model.reconstruct_to(labelled, tmp_path / "py.parquet", keep="species")
    assert_same_files(tmp_path / "py.parquet", tmp_path / "cli.parquet")


# Models and states


def test_a_model_of_the_command_line_is_read(cli: CommandLine, golden: Path, tmp_path: Path) -> None:
    theirs = cli.fit(golden / "plain.parquet", tmp_path / "m.model", FEW)
    model = es.Model.load(tmp_path / "m.model")
    assert model.to_bytes() == theirs
    assert model.to_dict() == json.loads(cli("inspect", tmp_path / "m.model", "--json"))


def test_a_model_of_python_is_inspected(cli: CommandLine, golden: Path, tmp_path: Path) -> None:
    model = es.PCA(3, exclude=["id", "w"]).fit(golden / "plain.parquet").model_
    model.save(tmp_path / "m.model")
    assert cli("inspect", tmp_path / "m.model") == str(model)


def test_a_model_of_an_array_is_inspected(cli: CommandLine, plain: Any, tmp_path: Path) -> None:
    es.fit(plain, n_components=2).save(tmp_path / "m.model")
    said = json.loads(cli("inspect", tmp_path / "m.model", "--json"))
    assert said["n_rows"] == 200


def test_models_of_older_versions_are_read(golden: Path) -> None:
    models = sorted((golden.parent / "models").rglob("*.safetensors"))
    assert models
    for path in models:
        assert es.Model.load(path).n_components >= 1


SCANS: Dict[str, Any] = {
    "plain": {"columns": ["f*"]},
    "labels": {"columns": ["f*"], "label": "species"},
    "numbers": {"columns": ["f*"], "label": ["mass", "grade"]},
    "classes": {"columns": ["f*"], "label": "grade", "classes": True},
    "weights": {"columns": ["f*"], "weight": "times"},
    "folds": {"columns": ["f*"], "label": "mass", "folds": 5, "seed": 3},
    "full precision": {"columns": ["f*"], "precision": "full"},
}


@pytest.mark.parametrize("case", SCANS)
def test_a_state_has_the_bytes_of_the_command_lines(
    case: str, cli: CommandLine, labelled: Path, tmp_path: Path
) -> None:
    options = SCANS[case]
    cli("scan", labelled, *flags(options), "--quiet", "-o", tmp_path / "cli.state")
    state = es.scan(labelled, **options)
    state.save(tmp_path / "py.state")
    theirs = (tmp_path / "cli.state").read_bytes()
    assert (tmp_path / "py.state").read_bytes() == theirs == state.to_bytes()
    assert es.State.from_bytes(theirs).to_bytes() == es.State.load(tmp_path / "cli.state").to_bytes() == theirs


@pytest.mark.parametrize("solved", [
    {"n_components": 3}, {"n_components": 0.9, "standardize": True}, {"n_components": 2, "method": "spca"},
    {"n_components": 2, "score_by": "species", "keep_features": 4},
], ids=str)
def test_a_solved_state_has_the_bytes_of_the_command_lines(
    solved: Any, cli: CommandLine, labelled: Path, tmp_path: Path
) -> None:
    label = "mass" if "score_by" in solved else "species"
    solved = {**solved, "score_by": "mass"} if "score_by" in solved else solved
    cli("scan", labelled, "--columns", "f*", "--label", label, "--quiet", "-o", tmp_path / "s.state")
    cli("solve", tmp_path / "s.state", *flags(solved), "--quiet", "-o", tmp_path / "cli.model")
    state = es.State(columns=["f*"], label=label).update(labelled)
    assert state.solve(**solved).to_bytes() == (tmp_path / "cli.model").read_bytes()


def test_merged_and_subtracted_states_have_the_same_bytes(cli: CommandLine, labelled: Path, tmp_path: Path) -> None:
    parts = sorted(labelled.glob("*.parquet"))
    files = [tmp_path / f"{i}.state" for i in range(2)]
    for part, file in zip(parts, files):
        cli("scan", part, "--columns", "f*", "--quiet", "-o", file)
    cli("merge", *files, "--quiet", "-o", tmp_path / "both.state")
    cli("subtract", tmp_path / "both.state", files[0], "--quiet", "-o", tmp_path / "rest.state")
    both = es.scan(parts[0], columns=["f*"]).merge(es.scan(parts[1], columns=["f*"]))
    assert both.to_bytes() == (tmp_path / "both.state").read_bytes()
    both.subtract(es.State.load(files[0]))
    assert both.to_bytes() == (tmp_path / "rest.state").read_bytes()


def test_a_state_per_group_has_the_same_bytes(cli: CommandLine, labelled: Path, tmp_path: Path) -> None:
    cli("scan", labelled, "--columns", "f*", "--by", "day", "--quiet", "-o", tmp_path / "days")
    days = es.scan(labelled, columns=["f*"], by="day")
    assert set(days) == {"mon", "tue"}
    theirs = {path.read_bytes() for path in (tmp_path / "days").rglob("*") if path.is_file()}
    assert {state.to_bytes() for state in days.values()} <= theirs


def test_states_of_rows_in_memory_give_the_numbers_of_a_fit(plain: Any) -> None:
    state = es.State()
    for part in np.array_split(plain, 3):
        state.update(part)
    assert state.n_rows == 200
    assert_close(state.solve(n_components=3).components, es.fit(plain, n_components=3).components, 1e-11)


@pytest.mark.parametrize("case", ["pca", "spca classes", "kpca rbf"])
def test_plans_are_those_of_the_command_line(case: str, cli: CommandLine, golden: Path, labelled: Path) -> None:
    name, options = CASES[case]
    data = path_of(name, golden, labelled)
    theirs = json.loads(cli("plan", *as_list(data), *flags(options), "--json", "--quiet"))
    ours = es.plan(data, **options)
    assert ours.details == theirs
    assert ours.form == theirs["form"] and ours.fits


@pytest.mark.parametrize("options", [{"label": "species"}, {"label": "mass", "permutations": 49, "seed": 4},
                                     {"label": "mass", "kernel": "rbf", "gamma": 0.1}], ids=str)
def test_hsic_is_the_command_lines(options: Any, cli: CommandLine, labelled: Path) -> None:
    options = {"columns": ["f*"], **options}
    theirs = json.loads(cli("hsic", labelled, *flags(options), "--json", "--quiet"))
    ours = es.hsic(labelled, **options)
    assert ours.hsic == theirs["hsic"]
    assert ours.p_value == theirs.get("p_value")
