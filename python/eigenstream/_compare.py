"""How far apart two linear models are: the angles between their subspaces, and what moved.

With orthonormal rows U of the one and V of the other, over the features that both have::

    cos θ = singular values of U Vᵀ        sin θ = singular values of Vᵀ − Uᵀ(U Vᵀ)

An angle is taken from its sine where that is the smaller one, so that 1e-10 degrees are not lost in 1 − cos.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

import numpy as np

from ._functions import as_model
from ._model import Array, Model


@dataclass(frozen=True)
class ModelDiff:
    """What changed from one model to another."""

    #: Principal angles between the subspaces, in degrees, ascending: as many as the smaller model has components.
    angles: Array
    #: The angle between the i-th components themselves.
    component_angles: Array
    #: Variances of the components that both have, before and after (eigenvalues where there are none).
    variances: List[Tuple[float, float]]
    #: Features whose mean moved, most first: by how many standard deviations (plain differences without them).
    mean_shift: Dict[str, float]
    #: Features that only the second, or only the first, has.
    added: List[str] = field(default_factory=list)
    gone: List[str] = field(default_factory=list)

    @property
    def largest_angle(self) -> float:
        """The angle that a pipeline would watch, in degrees."""
        return float(self.angles[-1]) if len(self.angles) else 0.0

    def __str__(self) -> str:
        lines = [f"largest angle between the subspaces {self.largest_angle:.4g}°, of {len(self.angles)}"]
        for i, ((a, b), angle) in enumerate(zip(self.variances, self.component_angles)):
            lines.append(f"  {i + 1:>3}  {a:.5g} → {b:.5g}  turned by {angle:.4g}°")
        moved = [f"{name} {shift:+.3g}" for name, shift in list(self.mean_shift.items())[:5] if shift]
        if moved:
            lines.append("means that moved most: " + ", ".join(moved))
        for what, names in (("added", self.added), ("gone", self.gone)):
            if names:
                lines.append(f"{what}: {len(names)} features, {', '.join(names[:5])}{', …' if len(names) > 5 else ''}")
        return "\n".join(lines)

    __repr__ = __str__


def diff(a: Any, b: Any) -> ModelDiff:
    """Compares two linear models, or estimators that have one.

    >>> import numpy as np, eigenstream as es
    >>> rows = np.random.default_rng(0).normal(size=(500, 4)) @ np.diag([5, 3, 1, 1])
    >>> es.diff(es.fit(rows, n_components=2), es.fit(rows, n_components=2)).largest_angle < 1e-6
    True
    """
    a, b = as_model(a), as_model(b)
    for model in (a, b):
        if model.components is None:
            raise ValueError(f"a {model.method} model has no components among the features, so there are no angles "
                             "to another; compare scores of the same rows instead")
    names_a, names_b = a.feature_names, b.feature_names
    at_b = {name: i for i, name in enumerate(names_b)}
    common = [(i, at_b[name]) for i, name in enumerate(names_a) if name in at_b]
    if not common:
        raise ValueError("the models have no feature in common, so there is nothing to compare")
    at, bt = (list(side) for side in zip(*common))
    u, v = np.asarray(a.components)[:, at], np.asarray(b.components)[:, bt]
    return ModelDiff(
        angles=_principal_angles(u, v),
        component_angles=_pair_angles(u, v),
        variances=_variances(a, b),
        mean_shift=_mean_shift(a, b, at, bt),
        added=[name for name in names_b if name not in set(names_a)],
        gone=[name for name in names_a if name not in at_b],
    )


def _principal_angles(u: Array, v: Array) -> Array:
    u, v = _orthonormal(u), _orthonormal(v)
    if len(u) < len(v):
        u, v = v, u
    product = u @ v.T
    cosines = np.clip(np.linalg.svd(product, compute_uv=False), 0.0, 1.0)
    sines = np.clip(np.sort(np.linalg.svd(v.T - u.T @ product, compute_uv=False)), 0.0, 1.0)
    k = len(cosines)
    return np.asarray(np.degrees(np.where(cosines > np.sqrt(0.5), np.arcsin(sines[:k]), np.arccos(cosines))))


def _orthonormal(rows: Array) -> Array:
    """Rows that lost features are no longer orthonormal."""
    return np.asarray(np.linalg.qr(rows.T)[0].T)


def _pair_angles(u: Array, v: Array) -> Array:
    k = min(len(u), len(v))
    lengths = np.linalg.norm(u[:k], axis=1) * np.linalg.norm(v[:k], axis=1)
    cosines = np.abs(np.einsum("ij,ij->i", u[:k], v[:k])) / np.where(lengths > 0, lengths, 1.0)
    return np.asarray(np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0))))


def _variances(a: Model, b: Model) -> List[Tuple[float, float]]:
    both = a.explained_variance is not None and b.explained_variance is not None
    first, second = (m.explained_variance if both else m.eigenvalues for m in (a, b))
    return [(float(x), float(y)) for x, y in zip(np.asarray(first), np.asarray(second))]


def _mean_shift(a: Model, b: Model, at: List[int], bt: List[int]) -> Dict[str, float]:
    shift = b.mean[bt] - a.mean[at]
    if a.scale is not None:
        scale = a.scale[at]
        shift = np.divide(shift, scale, out=np.zeros_like(shift), where=scale > 0)
    order = np.argsort(-np.abs(shift), kind="stable")
    names = a.feature_names
    return {names[at[i]]: float(shift[i]) for i in order}
