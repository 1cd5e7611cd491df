"""Embeddings in Parquet → 64 numbers a row, in Parquet again: two streaming passes, whatever the size.

    python embeddings.py vectors/ scores/
"""

from __future__ import annotations

import sys
from pathlib import Path

import eigenstream as es


def reduce_embeddings(vectors: Path, out: Path, n_components: int = 64) -> es.Model:
    """Fits the vectors in a folder, and writes a file of scores for each of its files."""
    plan = es.plan(vectors, exclude="id", n_components=n_components)
    print(plan)
    pca = es.PCA(n_components, exclude="id", progress=True).fit(vectors)
    done = pca.transform_to(vectors, out, keep="id", layout="list", dtype="f32")
    shares = pca.explained_variance_ratio_
    kept = 1.0 if shares is None else float(shares.sum())
    print(f"{done['rows_written']} rows in {done['files']} files, {kept:.1%} of the variance")
    pca.model_.save(out.with_suffix(".safetensors"))
    return pca.model_


if __name__ == "__main__":
    reduce_embeddings(Path(sys.argv[1]), Path(sys.argv[2]))
