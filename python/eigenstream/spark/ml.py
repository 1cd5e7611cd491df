"""PCA for pipelines of ``pyspark.ml``, in the place of ``pyspark.ml.feature.PCA``: centred, and as exact as the engine.

>>> from eigenstream.spark.ml import EigenstreamPCA                                      # doctest: +SKIP
>>> pipeline = Pipeline(stages=[assembler, EigenstreamPCA(k=3, inputCol="f", outputCol="pc")])  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol, HasOutputCol, HasWeightCol
from pyspark.ml.util import (
    DefaultParamsReadable, DefaultParamsReader, DefaultParamsWritable, DefaultParamsWriter, MLReadable, MLReader,
    MLWritable, MLWriter,
)
from pyspark.sql import DataFrame

from .. import _model
from . import fit, transform

__all__ = ["EigenstreamPCA", "EigenstreamPCAModel"]


class _Params(HasInputCol, HasOutputCol, HasWeightCol):
    k: "Param[int]" = Param(Params._dummy(), "k", "the number of components", typeConverter=TypeConverters.toInt)
    standardize: "Param[bool]" = Param(Params._dummy(), "standardize", "divide features by their deviations",
                                       typeConverter=TypeConverters.toBoolean)

    def getK(self) -> int:
        """The number of components."""
        return int(self.getOrDefault(self.k))

    def getStandardize(self) -> bool:
        """True where features are divided by their deviations."""
        return bool(self.getOrDefault(self.standardize))


class EigenstreamPCA(Estimator["EigenstreamPCAModel"], _Params, DefaultParamsReadable["EigenstreamPCA"],
                     DefaultParamsWritable):
    """Fits PCA to a column of vectors or arrays."""

    @keyword_only
    def __init__(self, *, k: Optional[int] = None, inputCol: Optional[str] = None, outputCol: Optional[str] = None,
                 standardize: bool = False, weightCol: Optional[str] = None) -> None:
        super().__init__()
        self._setDefault(standardize=False)
        self._set(**self._given())

    @keyword_only
    def setParams(self, *, k: Optional[int] = None, inputCol: Optional[str] = None, outputCol: Optional[str] = None,
                  standardize: bool = False, weightCol: Optional[str] = None) -> "EigenstreamPCA":
        """Sets what is given."""
        return self._set(**self._given())

    def _given(self) -> Dict[str, Any]:
        given: Dict[str, Any] = getattr(self, "_input_kwargs")
        return {name: value for name, value in given.items() if value is not None}

    def setK(self, value: int) -> "EigenstreamPCA":
        """Sets the number of components."""
        return self._set(k=value)

    def setInputCol(self, value: str) -> "EigenstreamPCA":
        """Sets the column of vectors."""
        return self._set(inputCol=value)

    def setOutputCol(self, value: str) -> "EigenstreamPCA":
        """Sets the column of scores."""
        return self._set(outputCol=value)

    def _fit(self, dataset: DataFrame) -> "EigenstreamPCAModel":
        weight = self.getWeightCol() if self.isDefined("weightCol") else None
        model = fit(dataset, vector=self.getInputCol(), n_components=self.getK(), weight=weight,
                    standardize=self.getStandardize())
        return self._copyValues(EigenstreamPCAModel(model))


class EigenstreamPCAModel(Model, _Params, MLReadable["EigenstreamPCAModel"], MLWritable):
    """A fitted model: adds a column of scores, as vectors."""

    def __init__(self, model: Optional[_model.Model] = None) -> None:
        super().__init__()
        self._setDefault(standardize=False)
        #: The engine's model, which the command line reads too: ``model.save("model.safetensors")``.
        self.model = model

    def _fitted(self) -> _model.Model:
        if self.model is None:
            raise ValueError("this EigenstreamPCAModel has no model; fit an EigenstreamPCA, or load one")
        return self.model

    @property
    def pc(self) -> Any:
        """The components, d × k, as a matrix of ``pyspark.ml.linalg``."""
        from pyspark.ml.linalg import DenseMatrix

        components = self._fitted().components
        assert components is not None
        return DenseMatrix(components.shape[1], components.shape[0], components.reshape(-1).tolist())

    @property
    def explainedVariance(self) -> Any:
        """The share of the variance along each component."""
        from pyspark.ml.linalg import DenseVector

        shares = self._fitted().explained_variance_ratio
        assert shares is not None
        return DenseVector(shares)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        name = self.getOutputCol()
        if name in dataset.columns:
            raise ValueError(f"output column {name} already exists")
        scored = transform(self._fitted(), dataset, output="vector", prefix=name)
        return scored.withColumn(name, array_to_vector(scored[name]))

    def write(self) -> MLWriter:
        """Saves the model and its parameters, wherever Spark can write."""
        return _Writer(self)

    @classmethod
    def read(cls) -> "MLReader[EigenstreamPCAModel]":
        """Loads what was saved."""
        return _Reader()


class _Writer(MLWriter):
    def __init__(self, instance: EigenstreamPCAModel) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sparkSession)
        rows = [(bytearray(self.instance._fitted().to_bytes()),)]
        self.sparkSession.createDataFrame(rows, "model binary").coalesce(1).write.parquet(f"{path}/data")


class _Reader(MLReader[EigenstreamPCAModel]):
    def load(self, path: str) -> EigenstreamPCAModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        row = self.sparkSession.read.parquet(f"{path}/data").first()
        if row is None:
            raise ValueError(f"{path}/data has no model in it")
        instance = EigenstreamPCAModel(_model.Model.from_bytes(bytes(row["model"])))
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance
