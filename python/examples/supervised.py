"""Supervised PCA of a pandas frame: the directions that tell species apart, in a scikit-learn pipeline."""

from __future__ import annotations

from typing import Tuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import eigenstream as es


def measurements(n: int = 300) -> pd.DataFrame:
    """Three species that differ in a direction of little variance."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)
    rows = rng.normal(size=(n, 6)) * [9.0, 7.0, 5.0, 1.0, 1.0, 1.0]
    rows[:, 3] += 4.0 * kind
    rows[:, 4] += 4.0 * (kind == 1)
    frame = pd.DataFrame(rows, columns=[f"measure_{j}" for j in range(6)])
    frame["species"] = np.array(["adelie", "chinstrap", "gentoo"])[kind]
    return frame


def accuracy(frame: pd.DataFrame, n_components: int = 2) -> Tuple[float, float]:
    """Of a classifier on two components that know the labels, and on two that do not."""
    rows, species = frame.drop(columns="species"), frame["species"]
    supervised = make_pipeline(es.SupervisedPCA(n_components), LogisticRegression())
    plain = make_pipeline(es.PCA(n_components), LogisticRegression())
    scores = [cross_val_score(pipeline, rows, species, cv=5) for pipeline in (supervised, plain)]
    return float(scores[0].mean()), float(scores[1].mean())


def main() -> None:
    frame = measurements()
    fitted = es.SupervisedPCA(2, label="species").fit(frame)
    print(fitted.transform(frame).head())
    print(f"HSIC {fitted.hsic_:.4g}, p {es.hsic(frame, label='species', permutations=99).p_value}")
    print("accuracy with labels {:.2f}, without {:.2f}".format(*accuracy(frame)))


if __name__ == "__main__":
    main()
