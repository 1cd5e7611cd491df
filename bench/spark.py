"""eigenstream on Spark beside MLlib's PCA, in one warm session, on the same Parquet folder.

    python bench/spark.py bench/data     writes the table of docs/spark.md, between its markers

Both get the 64 columns assembled as they ask for them: MLlib a vector of `VectorAssembler`, eigenstream the columns,
and also that vector. Best of three, in turns, after one call each that is not counted.
"""

import os
import sys
import time
from pathlib import Path

os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.ml.feature import PCA, VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import eigenstream.spark as es

K, TURNS = 10, 3
PAGE = Path(__file__).resolve().parents[1] / "docs" / "spark.md"


def session():
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in {"spark.ui.enabled": "false", "spark.driver.memory": "6g", "spark.driver.host": "127.0.0.1",
                        "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def works(rows):
    """What is timed, by what is written of it."""
    names = [name for name in rows.columns if name.startswith("x")]
    vectors = VectorAssembler(inputCols=names, outputCol="f").transform(rows).select("f")

    def theirs():
        return PCA(k=K, inputCol="f", outputCol="pc").fit(vectors)

    def theirs_both():
        scored = theirs().transform(vectors).select(F.expr("pc"))
        scored.write.format("noop").mode("overwrite").save()

    def ours_both():
        scored = es.transform(es.fit(rows, columns=names, n_components=K), rows, keep=None, output="vector")
        scored.write.format("noop").mode("overwrite").save()

    return {
        "fit": (lambda: es.fit(rows, columns=names, n_components=K), theirs),
        "fit, rows as vectors": (lambda: es.fit(vectors, vector="f", n_components=K), theirs),
        "fit and transform": (ours_both, theirs_both),
    }


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(data):
    rows = session().read.parquet(os.path.join(data, "tall"))
    lines = ["| 4M × 64, Parquet | eigenstream | MLlib | ratio |", "|---|---|---|---|"]
    for name, (ours, theirs) in works(rows).items():
        ours(), theirs()
        turns = [(seconds(ours), seconds(theirs)) for _ in range(TURNS)]
        best, other = (min(turn[i] for turn in turns) for i in (0, 1))
        lines.append(f"| {name} | {best:.2f} s | {other:.2f} s | {best / other:.2f} |")
        print(lines[-1], flush=True)
    before, _, rest = PAGE.read_text().partition("<!-- speed -->\n")
    _, _, after = rest.partition("<!-- /speed -->")
    PAGE.write_text(before + "<!-- speed -->\n" + "\n".join(lines) + "\n<!-- /speed -->" + after)


if __name__ == "__main__":
    main(sys.argv[1])
