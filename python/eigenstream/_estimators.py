"""Estimators with scikit-learn's habits, on the engine of the command line."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Sequence, Tuple, Union

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    _get_feature_names,
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from . import _core, _data, _functions
from ._data import PathLike
from ._listen import Listener, Progress
from ._model import Array, Keep, Memory, Model

Components = Union[None, int, float, str]
Names = Union[None, str, Sequence[str]]
Form = Literal["auto", "primal", "dual", "randomized", "exact", "direct"]
Precision = Literal["exact", "mixed", "full"]
Nulls = Literal["error", "drop", "mean"]
Preimage = Optional[Literal["fixed-point", "ridge"]]
Gamma = Union[None, float, Literal["median"]]


class _Estimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What all four have in common. ``model_`` is the fitted :class:`Model`."""

    _method = "pca"
    #: Parameters that are not options of a fit.
    _apart = ("whiten", "progress", "fit_inverse_transform")

    model_: Model
    n_features_in_: int
    feature_names_in_: Array

    # Fitting

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "_Estimator":
        """Fits the model.

        Parameters
        ----------
        X : path, glob or list of them, array, frame, Arrow data, or an iterator of record batches
            Rows. Of files and frames the numeric columns are features, or those that ``columns`` names.
        y : array of n labels or n × q of them, or None
            Labels of rows in memory. Those of files are columns: name them with ``label``.
        sample_weight : array of n numbers, or None
            Frequencies: a row of weight 3 counts as three. Those of files are a column: ``weight``.
        """
        options = self._options()
        if _data.is_table(X):
            self._fit_table(X, y, sample_weight, options)
        else:
            self._fit_array(X, y, sample_weight, options)
        self._set_fitted()
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fits the model, and gives the scores of its rows."""
        if _data.is_batches(X):
            with _data.SpooledBatches(X, self.get_params()["temp_dir"]) as spooled:
                return self.fit(spooled.path, y, sample_weight).transform(spooled.path)
        return self.fit(X, y, sample_weight).transform(X)

    def _options(self) -> Dict[str, Any]:
        given = self.get_params(deep=False)
        options = {name: value for name, value in given.items() if name not in self._apart}
        return {**_functions.FIT_OPTIONS, "method": self._method, **options}

    def _labels(self, y: Any) -> Any:
        """The labels that count; these methods have none."""
        return None

    def _fit_array(self, X: Any, y: Any, sample_weight: Any, options: Dict[str, Any]) -> None:
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_samples=2)
        y = self._labels(y)
        if y is not None:
            check_consistent_length(X, y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        self.model_ = Model(self._told(X, lambda: _functions.fit_core(X, options, self._listener(), y, sample_weight)))

    def _fit_table(self, X: Any, y: Any, sample_weight: Any, options: Dict[str, Any]) -> None:
        in_memory = not (_data.is_paths(X) or _data.is_batches(X))
        if not in_memory and (sample_weight is not None or (y is not None and self._labels(y) is not None)):
            raise ValueError("labels and weights of files are columns of theirs: name them with label and weight")
        names = _get_feature_names(X) if in_memory and hasattr(X, "columns") else None
        if in_memory:
            y = self._labels(y)
            self._check_rows(X)
            if y is not None:
                check_consistent_length(X, y)
        else:
            y = None
            self._labels(None)
        self.model_ = Model(_functions.fit_core(X, options, self._listener(), y, sample_weight))
        fitted = self.model_.feature_names
        self.n_features_in_ = len(fitted)
        self._all_columns = names is not None and list(names) == fitted
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        unnamed = in_memory and hasattr(X, "columns") and names is None
        if not unnamed:
            self.feature_names_in_ = np.asarray(fitted, dtype=object)

    def _check_rows(self, X: Any) -> None:
        n = len(X) if hasattr(X, "__len__") else None
        if n is not None and n < 2:
            columns = len(getattr(X, "columns", ()))
            raise ValueError(f"Found array with {n} sample(s) (shape=({n}, {columns})) while a minimum of 2 is "
                             f"required by {type(self).__name__}.")

    def _listener(self) -> Listener:
        return Listener(self.get_params(deep=False)["progress"])

    def _told(self, X: Array, work: Any) -> Any:
        """Does work on an array; cells that are not finite are told as scikit-learn tells them, with our hint."""
        try:
            return work()
        except ValueError as error:
            if np.isfinite(X).all():
                raise
            what = "NaN" if np.isnan(X).any() else "infinity or a value too large for dtype('float64')"
            raise ValueError(f"Input X contains {what}.\n{error}") from None

    def _set_fitted(self) -> None:
        model = self.model_
        self.n_components_ = model.n_components
        self.n_samples_ = model.n_rows
        self.mean_ = model.mean
        self.eigenvalues_ = model.eigenvalues

    # Applying

    def transform(self, X: Any) -> Any:
        """Scores of rows, in the kind that they came in; of files an array."""
        check_is_fitted(self, "model_")
        options: Dict[str, Any] = {"whiten": self._whitens(), "prefix": "pc", "n_components": None, "dtype": "f64",
                                   **self._resources()}
        table, X, by_position = self._table(X)
        options["by_position"] = by_position
        return self._told_of(X, lambda: self._scores(table, X, options))

    def _scores(self, table: _core.Table, X: Any, options: Dict[str, Any]) -> Any:
        core, listener = self.model_._core, self._listener()
        if _data.is_arrow(X) and not _data.is_pandas(X):
            return _data.to_kind(core.apply_batches(table, "transform", options, listener), X)
        if isinstance(X, np.ndarray) and X.dtype == np.float32:
            return core.apply_f32(table, "matrix", {**options, "dtype": "f32"}, listener)
        scores = core.apply(table, "matrix", options, listener)
        if not _data.is_pandas(X):
            return scores
        return _data.to_pandas(scores, list(self.get_feature_names_out()), X, self.model_.feature_names)

    def _told_of(self, X: Any, work: Any) -> Any:
        return self._told(X, work) if isinstance(X, np.ndarray) else work()

    def _table(self, X: Any) -> Tuple[_core.Table, Any, bool]:
        """Rows to apply the model to, as a table and as they came, and whether columns go by their position."""
        if not _data.is_table(X):
            X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], ensure_all_finite=False)
            return _data.matrix_table(X), X, True
        if _data.is_batches(X):
            raise TypeError("scores of an iterator of batches come by transform_batches")
        if hasattr(X, "columns") and not _data.is_paths(X):
            self._check_names(X)
        return _data.table(X), X, not hasattr(self, "feature_names_in_")

    def _check_names(self, X: Any) -> None:
        """Frames have the columns of the fit, in its order, or scikit-learn's sentence is said."""
        if getattr(self, "_all_columns", False) or not hasattr(self, "feature_names_in_"):
            _check_feature_names(self, X, reset=False)
            return
        # Some columns were no features, and may be there or not; one of vectors is many features.
        columns, given = [column["name"] for column in self.model_.header["columns"]], _data.column_names(X)
        missing = [name for name in columns if name not in given and name.split(".")[0] not in given]
        if missing:
            what = "\n- ".join(["Feature names seen at fit time, yet now missing:", *missing])
        elif [name for name in columns if name in given] != [name for name in given if name in columns]:
            what = "Feature names must be in the same order as they were in fit."
        else:
            return
        raise ValueError(f"The feature names should match those that were passed during fit.\n{what}\n")

    def _whitens(self) -> bool:
        return bool(self.get_params(deep=False).get("whiten", False))

    def _resources(self) -> Dict[str, Any]:
        given = self.get_params(deep=False)
        return {name: given[name] for name in ("memory", "threads", "temp_dir")}

    def transform_to(self, X: Any, out: PathLike, *, keep: Keep = None, diagnostics: bool = False,
                     residuals: bool = False, layout: Literal["columns", "list"] = "columns",
                     dtype: Literal["f64", "f32"] = "f64", nulls: Any = None, compression: Any = "auto"
                     ) -> Dict[str, int]:
        """Scores as Parquet, with the columns that ``keep`` names: a file, or a directory with a file per input."""
        check_is_fitted(self, "model_")
        return self.model_.transform_to(X, out, keep=keep, diagnostics=diagnostics, residuals=residuals, layout=layout,
                                        dtype=dtype, nulls=nulls, compression=compression, whiten=self._whitens(),
                                        progress=self.get_params()["progress"], **self._ceilings())

    def transform_batches(self, X: Any, *, keep: Keep = None, diagnostics: bool = False, residuals: bool = False,
                          layout: Literal["columns", "list"] = "columns", dtype: Literal["f64", "f32"] = "f64",
                          nulls: Any = None) -> Any:
        """Record batches of scores, in order, in constant memory."""
        check_is_fitted(self, "model_")
        return self.model_.transform_batches(X, keep=keep, diagnostics=diagnostics, residuals=residuals, layout=layout,
                                             dtype=dtype, nulls=nulls, whiten=self._whitens(), **self._ceilings())

    def _ceilings(self) -> Dict[str, Any]:
        return {name: value for name, value in self._resources().items() if name != "temp_dir"}

    def inverse_transform(self, X: Any) -> Array:
        """Rows from their scores, n × k → n × d."""
        check_is_fitted(self, "model_")
        scores = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=True)
        if scores.shape[1] != self.model_.n_components:
            raise ValueError(f"X has {scores.shape[1]} features, but {type(self).__name__} has "
                             f"{self.model_.n_components} components")
        preimage: Preimage = "ridge" if self.model_.method in ("kpca", "kspca") and self._has_ridge() else None
        return self.model_.inverse_transform(scores, whitened=self._whitens(), preimage=preimage, **self._ceilings())

    def _has_ridge(self) -> bool:
        return bool(self.get_params(deep=False).get("fit_inverse_transform", False))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``pc1``, ``pc2``, …: the columns that the command line writes."""
        check_is_fitted(self, "model_")
        return np.asarray([f"pc{i + 1}" for i in range(self.model_.n_components)], dtype=object)

    @property
    def _n_features_out(self) -> int:
        return self.model_.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self.get_params(deep=False)["nulls"] != "error"
        return tags


class _Supervised(_Estimator):
    """Labels are needed: as y, or as columns of the data."""

    def _labels(self, y: Any) -> Any:
        named = self.get_params(deep=False)["label"] is not None
        if y is None and not named and self.get_params(deep=False)["label_matrix"] is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None; labels of "
                             "files are named with label")
        if y is None:
            return None
        if type(y).__module__.split(".")[0] in ("pandas", "polars"):
            return y
        if type(y).__module__.split(".")[0] == "pyarrow":
            return np.asarray(y.to_pylist())
        return check_array(y, ensure_2d=False, allow_nd=False, dtype=None, ensure_all_finite=True, input_name="y")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.get_params(deep=False)["label"] is None
        tags.target_tags.multi_output = True
        return tags


class PCA(_Estimator):
    """Principal component analysis of data of any size, exact, in one pass.

    Parameters
    ----------
    n_components : int, float, "mle", "elbow", "value>T", "ratio>R", "all" or None
        How many: a number, the share of variance to explain, or a rule. None keeps all.
    whiten : bool
        Divide scores by their standard deviation.
    center, standardize : bool
        Subtract the mean; divide by the standard deviation.
    form : "auto", "primal", "dual" or "randomized"
        How it is computed; by default what the shape and the memory make best.
    precision : "exact", "mixed" or "full"
        Arithmetic: f64; f32 products of f32 rows; a triangular factor that keeps the digits of small components.
    columns, exclude : names or globs, or None
        Which columns of files and frames are features.
    weight : str or None
        The column of frequencies.
    score_by, keep_features, score_threshold
        Keep only the features that depend most on this column (Bair).
    nulls : "error", "drop" or "mean"
        What to do about missing values.
    memory : int, str like "500MB", or None
        The most to hold; by default a quarter of the machine's.
    progress : bool or callable
        A bar by tqdm, or ``f(work, noun, done, total)``.

    Examples
    --------
    >>> import numpy as np
    >>> from eigenstream import PCA
    >>> rows = np.random.default_rng(0).normal(size=(500, 6)) @ np.diag([8, 5, 3, 1, 1, 1])
    >>> pca = PCA(n_components=0.9).fit(rows)
    >>> pca.n_components_
    3
    >>> pca.transform(rows).shape
    (500, 3)
    """

    _method = "pca"

    def __init__(
        self,
        n_components: Components = None,
        *,
        whiten: bool = False,
        center: bool = True,
        standardize: bool = False,
        form: Form = "auto",
        precision: Precision = "exact",
        columns: Names = None,
        exclude: Names = None,
        weight: Optional[str] = None,
        score_by: Optional[str] = None,
        keep_features: Optional[int] = None,
        score_threshold: Optional[float] = None,
        nulls: Nulls = "error",
        tolerance: Optional[float] = None,
        max_passes: int = 30,
        allow_unconverged: bool = False,
        seed: int = 0,
        memory: Memory = None,
        threads: Optional[int] = None,
        temp_dir: Optional[PathLike] = None,
        progress: Progress = None,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.center = center
        self.standardize = standardize
        self.form = form
        self.precision = precision
        self.columns = columns
        self.exclude = exclude
        self.weight = weight
        self.score_by = score_by
        self.keep_features = keep_features
        self.score_threshold = score_threshold
        self.nulls = nulls
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.allow_unconverged = allow_unconverged
        self.seed = seed
        self.memory = memory
        self.threads = threads
        self.temp_dir = temp_dir
        self.progress = progress

    def _set_fitted(self) -> None:
        super()._set_fitted()
        model = self.model_
        self.components_ = model.components
        self.scale_ = model.scale
        self.explained_variance_ = model.explained_variance
        self.explained_variance_ratio_ = model.explained_variance_ratio
        self.singular_values_ = np.sqrt(model.eigenvalues)
        k, most = model.n_components, min(model.n_rows, len(model.feature_names))
        total, variances = model.total_variance, model.explained_variance
        left = 0.0 if total is None or variances is None else total - float(variances.sum())
        self.noise_variance_ = left / (most - k) if most > k else 0.0

    def score_samples(self, X: Any) -> Array:
        """The log-likelihood of each row under the probabilistic model (Tipping and Bishop)."""
        check_is_fitted(self, "model_")
        table, X, by_position = self._table(X)
        options = {"diagnostics": True, "by_position": by_position, "dtype": "f64", **self._resources()}
        parts = self._told_of(X, lambda: self.model_._core.apply(table, "matrix", options, self._listener()))
        error, distance = parts[:, -2], parts[:, -1]
        k, d = self.model_.n_components, len(self.model_.feature_names)
        variances = np.asarray(self.explained_variance_)
        log_det = float(np.log(variances).sum())
        if d > k and self.noise_variance_ > 0:
            log_det += (d - k) * float(np.log(self.noise_variance_))
            distance = distance + error**2 / self.noise_variance_
        if self.scale_ is not None:
            log_det += 2 * float(np.log(self.scale_[self.scale_ > 0]).sum())
        return np.asarray(-0.5 * (d * np.log(2 * np.pi) + log_det + distance))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def get_covariance(self) -> Array:
        """The covariance of the probabilistic model, d × d."""
        check_is_fitted(self, "model_")
        components, sigma = np.asarray(self.components_), self.noise_variance_
        spread = np.maximum(np.asarray(self.explained_variance_) - sigma, 0.0)
        covariance = components.T @ (components * spread[:, None]) + sigma * np.eye(components.shape[1])
        if self.scale_ is not None:
            covariance *= np.outer(self.scale_, self.scale_)
        return np.asarray(covariance)

    def get_precision(self) -> Array:
        """Its inverse."""
        return np.asarray(np.linalg.inv(self.get_covariance()))


class SupervisedPCA(_Supervised):
    """The directions that depend most on labels (HSIC), in one pass over data of any size.

    Parameters
    ----------
    label : names, or None
        Columns of files and frames that are labels; those of rows in memory are ``y``.
    label_kernel : "delta", "linear", "rbf", "poly", "cosine", "identity", "precomputed" or None
        The kernel over labels; by default delta for texts and classes, linear for numbers.
    classes : bool
        Numbers are classes: equal or not.
    with_variance : bool
        Gather the covariance too, so that there are shares of variance (and whitening).

    The others are those of :class:`PCA`.

    Examples
    --------
    >>> import numpy as np
    >>> from eigenstream import SupervisedPCA
    >>> rng = np.random.default_rng(0)
    >>> kind = np.repeat(["a", "b", "c"], 100)
    >>> rows = rng.normal(size=(300, 5)); rows[kind == "b", 3] += 4; rows[kind == "c", 1] += 4
    >>> SupervisedPCA(n_components=2).fit_transform(rows, kind).shape
    (300, 2)
    """

    _method = "spca"

    def __init__(
        self,
        n_components: Components = None,
        *,
        label: Names = None,
        label_kernel: Optional[str] = None,
        label_gamma: Optional[float] = None,
        label_coef0: Optional[float] = None,
        label_degree: Optional[int] = None,
        label_features: Optional[int] = None,
        label_matrix: Any = None,
        classes: bool = False,
        with_variance: bool = False,
        whiten: bool = False,
        center: bool = True,
        standardize: bool = False,
        form: Form = "auto",
        columns: Names = None,
        exclude: Names = None,
        weight: Optional[str] = None,
        nulls: Nulls = "error",
        seed: int = 0,
        memory: Memory = None,
        threads: Optional[int] = None,
        temp_dir: Optional[PathLike] = None,
        progress: Progress = None,
    ) -> None:
        self.n_components = n_components
        self.label = label
        self.label_kernel = label_kernel
        self.label_gamma = label_gamma
        self.label_coef0 = label_coef0
        self.label_degree = label_degree
        self.label_features = label_features
        self.label_matrix = label_matrix
        self.classes = classes
        self.with_variance = with_variance
        self.whiten = whiten
        self.center = center
        self.standardize = standardize
        self.form = form
        self.columns = columns
        self.exclude = exclude
        self.weight = weight
        self.nulls = nulls
        self.seed = seed
        self.memory = memory
        self.threads = threads
        self.temp_dir = temp_dir
        self.progress = progress

    def _set_fitted(self) -> None:
        super()._set_fitted()
        self.components_ = self.model_.components
        self.scale_ = self.model_.scale
        self.hsic_ = self.model_.header.get("hsic")
        self.explained_variance_ = self.model_.explained_variance
        self.explained_variance_ratio_ = self.model_.explained_variance_ratio


class _Kernel(_Estimator):
    """What kernel methods have in common."""

    def _options(self) -> Dict[str, Any]:
        options = super()._options()
        if self.get_params(deep=False)["fit_inverse_transform"]:
            options["preimage"] = "ridge"
        # As scikit-learn: constants that a kernel does not have are passed over.
        kernel = options["kernel"]
        if kernel not in ("poly", "sigmoid"):
            options["coef0"] = None
        if kernel != "poly":
            options["degree"] = None
        if kernel not in ("rbf", "poly", "sigmoid"):
            options["gamma"] = None
        return options

    def _set_fitted(self) -> None:
        super()._set_fitted()
        kernel = self.model_.header.get("kernel") or {}
        self.gamma_ = kernel.get("gamma")
        coefficients = self.model_._core.coefficients
        if coefficients is None:
            return
        if self._method == "kpca" and coefficients.shape[1] == self.model_.n_rows:
            self.eigenvectors_ = coefficients.T * np.sqrt(self.eigenvalues_)
        else:
            self.coefficients_ = coefficients

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.get_params(deep=False)["kernel"] in ("precomputed", "distances")
        return tags


class KernelPCA(_Kernel):
    """Kernel PCA without the n × n matrix, exact; of very many rows by landmarks or random features.

    Parameters
    ----------
    kernel : "linear", "poly", "rbf", "sigmoid", "cosine", "precomputed" or "distances"
    gamma : float, "median" or None
        Of rbf, poly and sigmoid; by default 1 over the number of features.
    degree, coef0
        Of poly, and of poly and sigmoid.
    fit_inverse_transform : bool
        Learn a way back to rows, by ridge regression.
    landmarks, random_features : int or None
        What stands for the kernel: comparisons with so many rows, or so many random Fourier features (rbf).
    tolerance : float or None
        The largest residual over the first eigenvalue; by default 1e-8.

    The others are those of :class:`PCA`.

    Examples
    --------
    >>> import numpy as np
    >>> from eigenstream import KernelPCA
    >>> angle = np.linspace(0, 6.28, 200)
    >>> ring = np.c_[np.cos(angle), np.sin(angle)] * np.repeat([1, 3], 100)[:, None]
    >>> KernelPCA(n_components=2, kernel="rbf", gamma=0.5).fit_transform(ring).shape
    (200, 2)
    """

    _method = "kpca"

    def __init__(
        self,
        n_components: Components = None,
        *,
        kernel: str = "linear",
        gamma: Gamma = None,
        degree: int = 3,
        coef0: float = 1.0,
        fit_inverse_transform: bool = False,
        landmarks: Optional[int] = None,
        landmark_choice: Literal["kmeans++", "uniform"] = "kmeans++",
        random_features: Optional[int] = None,
        standardize: bool = False,
        form: Form = "auto",
        columns: Names = None,
        exclude: Names = None,
        weight: Optional[str] = None,
        nulls: Nulls = "error",
        tolerance: Optional[float] = None,
        max_passes: int = 30,
        allow_unconverged: bool = False,
        seed: int = 0,
        memory: Memory = None,
        threads: Optional[int] = None,
        temp_dir: Optional[PathLike] = None,
        progress: Progress = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_inverse_transform = fit_inverse_transform
        self.landmarks = landmarks
        self.landmark_choice = landmark_choice
        self.random_features = random_features
        self.standardize = standardize
        self.form = form
        self.columns = columns
        self.exclude = exclude
        self.weight = weight
        self.nulls = nulls
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.allow_unconverged = allow_unconverged
        self.seed = seed
        self.memory = memory
        self.threads = threads
        self.temp_dir = temp_dir
        self.progress = progress


class KernelSupervisedPCA(_Kernel, _Supervised):
    """Supervised PCA where a kernel maps rows to: directions that no linear method sees.

    The parameters are those of :class:`KernelPCA` and :class:`SupervisedPCA`; scores are Θᵀk, around their mean
    with ``center_scores``.

    Examples
    --------
    >>> import numpy as np
    >>> from eigenstream import KernelSupervisedPCA
    >>> angle = np.linspace(0, 6.28, 200)
    >>> ring = np.c_[np.cos(angle), np.sin(angle)] * np.repeat([1, 3], 100)[:, None]
    >>> which = np.repeat(["inner", "outer"], 100)
    >>> KernelSupervisedPCA(n_components=1, gamma=1.0).fit_transform(ring, which).shape
    (200, 1)
    """

    _method = "kspca"

    def __init__(
        self,
        n_components: Components = None,
        *,
        kernel: str = "rbf",
        gamma: Gamma = None,
        degree: int = 3,
        coef0: float = 1.0,
        fit_inverse_transform: bool = False,
        label: Names = None,
        label_kernel: Optional[str] = None,
        label_gamma: Optional[float] = None,
        label_coef0: Optional[float] = None,
        label_degree: Optional[int] = None,
        label_features: Optional[int] = None,
        label_matrix: Any = None,
        classes: bool = False,
        center_scores: bool = False,
        standardize: bool = False,
        form: Form = "auto",
        columns: Names = None,
        exclude: Names = None,
        weight: Optional[str] = None,
        nulls: Nulls = "error",
        seed: int = 0,
        memory: Memory = None,
        threads: Optional[int] = None,
        temp_dir: Optional[PathLike] = None,
        progress: Progress = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_inverse_transform = fit_inverse_transform
        self.label = label
        self.label_kernel = label_kernel
        self.label_gamma = label_gamma
        self.label_coef0 = label_coef0
        self.label_degree = label_degree
        self.label_features = label_features
        self.label_matrix = label_matrix
        self.classes = classes
        self.center_scores = center_scores
        self.standardize = standardize
        self.form = form
        self.columns = columns
        self.exclude = exclude
        self.weight = weight
        self.nulls = nulls
        self.seed = seed
        self.memory = memory
        self.threads = threads
        self.temp_dir = temp_dir
        self.progress = progress

    def _set_fitted(self) -> None:
        super()._set_fitted()
        self.hsic_ = self.model_.header.get("hsic")


ESTIMATORS: List[str] = ["PCA", "SupervisedPCA", "KernelPCA", "KernelSupervisedPCA"]
