"""A model on one page of HTML: what was fitted, the scree, the loadings. No network, no script."""

from __future__ import annotations

import html
import os
from typing import Any, List

import numpy as np

from ._data import PathLike
from ._functions import as_model
from ._model import Model

#: Components and features that are shown; the others are counted.
MOST_COMPONENTS, MOST_FEATURES = 40, 12

_STYLE = """
.es-report{font:14px/1.45 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem;color:#1b1f24}
.es-report h1{font-size:1.25rem;margin:.2rem 0}.es-report h2{font-size:1rem;margin:1.2rem 0 .4rem}
.es-report table{border-collapse:collapse}.es-report td,.es-report th{padding:.15rem .6rem;text-align:right}
.es-report th{font-weight:600}.es-report td:first-child,.es-report th:first-child{text-align:left}
.es-report svg{max-width:100%;height:auto}.es-report .bar{fill:#3b76c4}.es-report .line{stroke:#c4583b;fill:none}
.es-report .axis{stroke:#8a929c;fill:none}.es-report text{fill:currentColor;font-size:11px}
@media(prefers-color-scheme:dark){.es-report{color:#e4e8ec}.es-report .bar{fill:#7fb0ee}}
"""


class Report:
    """A page about a model: it shows itself in a notebook, and :meth:`save` writes it."""

    def __init__(self, body: str, title: str) -> None:
        self._body, self._title = body, title

    def _repr_html_(self) -> str:
        return f"<style>{_STYLE}</style><div class='es-report'>{self._body}</div>"

    def to_html(self) -> str:
        """The whole page, which opens from disk."""
        head = "<meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        scheme = "<style>:root{color-scheme:light dark}</style>"
        title = html.escape(self._title)
        head = f"<head>{head}{scheme}<title>{title}</title></head>"
        return f"<!doctype html><html lang='en'>{head}<body>{self._repr_html_()}</body></html>"

    def save(self, path: PathLike) -> None:
        """Writes the page: whole, or not at all."""
        target = os.fspath(path)
        part = f"{target}.part-{os.getpid()}"
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(self.to_html())
            os.replace(part, target)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise

    def __repr__(self) -> str:
        return f"<eigenstream.Report of {self._title}: show it in a notebook, or save it>"


def report(model: Any) -> Report:
    """A page about a model, or about the model of an estimator.

    >>> import numpy as np, eigenstream as es
    >>> page = es.report(es.fit(np.random.default_rng(0).normal(size=(100, 3))))
    >>> page.to_html().count("<svg")
    1
    """
    model = as_model(model)
    title = f"{model.method} of {model.n_rows:,} rows × {len(model.feature_names):,} features"
    parts = [f"<h1>{html.escape(title)}</h1>", _facts(model), "<h2>Scree</h2>", _scree(model), _loadings(model)]
    return Report("".join(parts), title)


def _facts(model: Model) -> str:
    header, certificate = model.header, model.certificate
    inputs = header.get("ledger") or []
    rows = [
        ("form", model.form),
        ("components", f"{model.n_components} (asked for {header['selection']['asked']})"),
        ("centred", "yes" if header["center"] else "no"),
        ("standardized", "yes" if header["standardize"] else "no"),
        ("missing values", f"{header['nulls']['policy']}, {header['nulls']['rows_dropped']:,} rows dropped"),
        ("inputs", f"{len(inputs):,} files" if inputs else "in memory"),
        ("residual", f"{certificate['max_residual']:.1e}"),
        ("orthogonality", f"{certificate['orthogonality']:.1e}"),
        ("version", str(header["version"])),
    ]
    if header.get("hsic") is not None:
        rows.insert(2, ("HSIC of the scores", f"{header['hsic']:.5g}"))
    cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _scree(model: Model) -> str:
    """Bars of what each component carries, and a line of what they carry together."""
    ratio = model.explained_variance_ratio
    values = np.asarray(ratio if ratio is not None else model.eigenvalues, dtype=float)
    shown = values[:MOST_COMPONENTS]
    width, height, left, base = 640, 220, 46, 190
    step = (width - left - 10) / max(len(shown), 1)
    top = float(shown.max()) if len(shown) and shown.max() > 0 else 1.0
    bars: List[str] = []
    for i, value in enumerate(shown):
        tall = 160 * float(value) / top
        said = f"pc{i + 1}: {value:.4g}"
        place = f"x='{left + i * step + 1:.1f}' y='{base - tall:.1f}' width='{max(step - 2, 1):.1f}'"
        bars.append(f"<rect class='bar' {place} height='{tall:.1f}'><title>{said}</title></rect>")
    line = ""
    if ratio is not None:
        points = " ".join(f"{left + (i + .5) * step:.1f},{base - 160 * float(c):.1f}"
                          for i, c in enumerate(np.clip(np.cumsum(shown), 0, 1)))
        line = f"<polyline class='line' points='{points}'><title>share of the variance so far</title></polyline>"
    axis = f"<path class='axis' d='M{left} 25V{base}H{width - 5}'/>"
    name = "share of the variance" if ratio is not None else "eigenvalue"
    texts = [
        f"<text x='{left - 4}' y='34' text-anchor='end'>{top:.3g}</text>",
        f"<text x='{left - 4}' y='{base}' text-anchor='end'>0</text>",
        f"<text x='{left}' y='{base + 18}'>component 1 … {len(shown)}</text><text x='{left}' y='16'>{name}</text>",
    ]
    if len(values) > len(shown):
        texts.append(f"<text x='{width - 8}' y='20' text-anchor='end'>{len(values) - len(shown)} more</text>")
    inside = "".join([axis, *bars, line, *texts])
    return f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='scree plot'>{inside}</svg>"


def _loadings(model: Model) -> str:
    components = model.components
    if components is None:
        kernel = (model.header.get("kernel") or {}).get("name", "?")
        named = html.escape(str(kernel))
        return f"<p>A kernel model ({named}) has no loadings: its components live where the kernel maps to.</p>"
    names, rows = model.feature_names, []
    for i, component in enumerate(np.asarray(components)[:MOST_COMPONENTS]):
        best = np.argsort(-np.abs(component), kind="stable")[:MOST_FEATURES]
        said = ", ".join(f"{component[j]:+.3f} {names[j]}" for j in best)
        rows.append(f"<tr><td>pc{i + 1}</td><td style='text-align:left'>{html.escape(said)}</td></tr>")
    return f"<h2>Largest loadings</h2><table>{''.join(rows)}</table>"
