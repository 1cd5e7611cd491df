"""eigenstream in Python beside scikit-learn and FAISS: the same arrays and files, as a user would call them.

    python.py DATA [CASES WHOSE NAME HAS THIS]

Each of them has a process of its own, which makes the data, then makes the call three times.
Time is the best call's; memory is what the process held during it beyond what it held before (the array, the libraries).
DATA is where bench/gen.py has made `tall`. Prints a Markdown table, and writes it into docs/python.md.
"""
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
import warnings

ROUNDS = 3

#: case → (data, [(who, what of theirs ours is compared with at most, or None)])
CASES = {
    "fit, 4M × 64 f64 array, k = 10": ("tall", [("eigenstream", None), ("sklearn covariance_eigh", 0.5)]),
    "transform, the same": ("tall", [("eigenstream transform", None), ("sklearn transform", 0.5)]),
    "fit, 4M × 64 f64 Parquet, k = 10": ("files", [("eigenstream files", None), ("pyarrow + sklearn covariance_eigh", 0.5)]),
    "fit, 300k × 768 f32 array, k = 64": ("embed", [
        ("eigenstream", None), ("eigenstream mixed", None), ("sklearn covariance_eigh", 0.5), ("faiss", 2.0)]),
    "KernelPCA rbf, 10,000 × 32, k = 10": ("kernel", [("eigenstream kernel", None), ("sklearn randomized", 0.5)]),
}
MIXED_GOAL = 1.1


def make(kind):
    import numpy as np

    rng = np.random.default_rng(0)
    if kind == "tall":
        rows = rng.standard_normal((4_000_000, 64))
        rows *= np.linspace(3, 1, 64)
        return rows
    if kind == "embed":
        rows = rng.standard_normal((300_000, 768), dtype=np.float32)
        rows *= np.linspace(3, 1, 768, dtype=np.float32)
        return rows
    if kind == "kernel":
        return rng.standard_normal((10_000, 32))
    return None


def call(who, kind, data):
    """What is timed, of one peer."""
    rows, k = make(kind), 64 if kind == "embed" else 10
    if who.startswith("eigenstream"):
        import eigenstream as es

        es.PCA  # Imports scikit-learn, which a user has done before the first call that counts.
        if who == "eigenstream files":
            return lambda: es.PCA(k, columns="x*").fit(os.path.join(data, "tall"))
        if who == "eigenstream kernel":
            return lambda: es.KernelPCA(k, kernel="rbf", gamma=1 / 32).fit(rows)
        if who == "eigenstream transform":
            fitted = es.PCA(k).fit(rows)
            return lambda: fitted.transform(rows)
        precision = "mixed" if who.endswith("mixed") else "exact"
        return lambda: es.PCA(k, precision=precision).fit(rows)
    if who == "faiss":
        import faiss

        return lambda: faiss.PCAMatrix(768, 64).train(rows)
    from sklearn.decomposition import PCA, KernelPCA

    if kind == "kernel":
        return lambda: KernelPCA(k, kernel="rbf", gamma=1 / 32, eigen_solver="randomized").fit(rows)
    if who == "sklearn transform":
        theirs = PCA(k, svd_solver="covariance_eigh").fit(rows)
        return lambda: theirs.transform(rows)
    solver = who.split()[-1]
    if kind == "files":
        def from_files():
            import numpy as np
            import pyarrow.parquet as pq

            table = pq.read_table(os.path.join(data, "tall"))
            names = [name for name in table.column_names if name.startswith("x")]
            array = np.empty((table.num_rows, len(names)))
            for j, name in enumerate(names):
                array[:, j] = table.column(name).to_numpy()
            return PCA(k, svd_solver=solver).fit(array)

        return from_files
    return lambda: PCA(k, svd_solver=solver).fit(rows)


def measured(work):
    """Seconds of one call, and bytes held beyond those before it."""
    def held():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before, peak, done = held(), [0], threading.Event()

    def watch():
        while not done.wait(0.005):
            peak[0] = max(peak[0], held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    peak[0] = max(peak[0], held())
    done.set()
    watcher.join()
    return seconds, max(peak[0] - before, 0)


def child(who, kind, data):
    warnings.simplefilter("ignore")
    work = call(who, kind, data)
    calls = [measured(work) for _ in range(ROUNDS)]
    print(json.dumps({"seconds": min(c[0] for c in calls), "bytes": max(c[1] for c in calls)}))


def run(who, kind, data):
    command = [sys.executable, os.path.abspath(__file__), "--child", who, kind, data]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(data, only):
    lines = ["| work | who | time | beyond the array | eigenstream's share of it | goal |", "|---|---|---|---|---|---|"]
    for case, (kind, peers) in CASES.items():
        if only not in case:
            continue
        found = {who: run(who, kind, data) for who, _ in peers}
        ours = found[peers[0][0]]["seconds"]
        for who, goal in peers:
            f = found[who]
            share = "" if who.startswith("eigenstream") else f"{ours / f['seconds']:.2f}"
            most = "" if goal is None else f"{goal:.2f}"
            if who == "faiss":
                mixed = found["eigenstream mixed"]["seconds"] / f["seconds"]
                share, most = f"{share}; mixed {mixed:.2f}", f"{most}; mixed {MIXED_GOAL:.2f}"
            lines.append(f"| {case} | {who} | {f['seconds']:.2f} s | {f['bytes'] / 1e6:,.0f} MB | {share} | {most} |")
            print(lines[-1], file=sys.stderr, flush=True)
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    lines.append(f"\n{os.cpu_count()} cores ({model}), Linux, best of {ROUNDS}, {time.strftime('%Y-%m-%d')}.")
    return "\n".join(lines) + "\n"


def main():
    data, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    text = table(data, only)
    print(text)
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "python.md")
    if not only and os.path.exists(page):
        with open(page, encoding="utf-8") as file:
            whole = file.read()
        whole = re.sub(r"<!-- speed -->.*<!-- /speed -->", lambda _: f"<!-- speed -->\n\n{text}\n<!-- /speed -->", whole, flags=re.S)
        with open(page, "w", encoding="utf-8") as file:
            file.write(whole)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(*sys.argv[2:5])
    else:
        main()
