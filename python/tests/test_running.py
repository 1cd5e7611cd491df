"""While it runs: the interpreter goes on, Ctrl-C is heard, progress is told, and other threads and libraries live."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List, Optional, Tuple

import numpy as np
import pytest

import eigenstream as es
from conftest import run_python


@pytest.fixture(scope="module")
def rows() -> Any:
    return np.random.default_rng(0).normal(size=(4000, 40))


def slow_rows() -> Any:
    return np.random.default_rng(1).normal(size=(6000, 30))


#: Takes many seconds: every pair of 40,000 rows, many times.
SLOW_FIT = """
import sys, numpy as np, eigenstream as es
rows = np.random.default_rng(1).normal(size=(40_000, 60))
print("started", flush=True)
es.KernelPCA(40, kernel="rbf", gamma=0.01, tolerance=1e-12, max_passes=500).fit(rows)
print("finished", flush=True)
"""

#: Takes many seconds: comparisons of very many rows with 4,000.
SLOW_TRANSFORM = """
import sys, numpy as np, eigenstream as es
rows = np.random.default_rng(1).normal(size=(4000, 20))
model = es.fit(rows, method="kpca", kernel="rbf", gamma=0.01, landmarks=2000, n_components=8)
many = np.broadcast_to(rows[:, None], (4000, 500, 20)).reshape(-1, 20)
print("started", flush=True)
model.transform_to(many, sys.argv[1])
print("finished", flush=True)
"""


# The interpreter


def test_other_threads_go_on_during_a_fit() -> None:
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    rows = slow_rows()
    thread.start()
    before = counted[0]
    started = time.monotonic()
    es.KernelPCA(4, kernel="rbf", gamma=0.01).fit(rows)
    elapsed, during = time.monotonic() - started, counted[0] - before
    done.set()
    thread.join()
    # A lock that was held would leave two or three; a busy machine leaves some hundred a second.
    assert during > 10 * min(elapsed, 3)


def interrupt(script: str, *arguments: Any) -> Tuple[float, "subprocess.CompletedProcess[str]"]:
    """Runs a script, sends SIGINT shortly after it has started, and tells how long it went on."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        time.sleep(0.5)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        return time.monotonic() - sent, subprocess.CompletedProcess(command, child.returncode, out, err)
    finally:
        child.kill()


def test_ctrl_c_interrupts_a_fit() -> None:
    elapsed, child = interrupt(SLOW_FIT)
    assert "KeyboardInterrupt" in child.stderr and "finished" not in child.stdout
    assert child.returncode != 0
    assert elapsed < 5


@pytest.mark.parametrize("out", ["scores.parquet", "scores"])
def test_ctrl_c_during_transform_to_leaves_nothing(out: str, tmp_path: Path) -> None:
    elapsed, child = interrupt(SLOW_TRANSFORM, tmp_path / out)
    assert "KeyboardInterrupt" in child.stderr and "finished" not in child.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert elapsed < 5


def test_a_process_goes_on_after_ctrl_c() -> None:
    script = SLOW_FIT.replace("es.KernelPCA", "try:\n    es.KernelPCA").replace(
        'print("finished", flush=True)',
        'except KeyboardInterrupt:\n    print(es.PCA(2).fit(rows[:500]).transform(rows[:500]).shape)')
    _, child = interrupt(script)
    assert child.stdout.strip() == "(500, 2)"
    assert child.returncode == 0


# Progress


def test_progress_is_told_in_rising_counts(rows: Any) -> None:
    told: List[Tuple[str, str, int, int]] = []
    es.PCA(3, progress=lambda *said: told.append(said)).fit(rows)
    assert told
    stages = {(work, noun) for work, noun, _, _ in told}
    for stage in stages:
        counts = [done for work, noun, done, _ in told if (work, noun) == stage]
        assert counts == sorted(counts)
    assert ("reading", "rows") in stages
    assert all(done <= total for _, _, done, total in told if total)


def test_the_last_count_of_a_stage_is_its_total(rows: Any) -> None:
    for _ in range(100):
        told: List[Tuple[str, str, int, int]] = []
        es.PCA(3, progress=lambda *said: told.append(said)).fit(rows)
        assert [done for work, _, done, _ in told if work == "reading"][-1] == len(rows)


@pytest.mark.parametrize("call", ["fit", "transform", "scan", "hsic", "transform_to"])
def test_an_exception_of_the_callback_stops_the_work(call: str, rows: Any, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Enough

    model = es.fit(rows, n_components=2)
    with pytest.raises(Enough):
        if call == "fit":
            es.fit(rows, progress=stop)
        elif call == "transform":
            model.transform(rows, progress=stop)
        elif call == "scan":
            es.scan(rows, progress=stop)
        elif call == "hsic":
            es.hsic(rows, rows[:, 0] > 0, progress=stop)
        else:
            # So many that it has not ended when it is told to stop.
            model.transform_to(np.tile(rows, (100, 1)), tmp_path / "scores.parquet", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_a_bar_of_tqdm(rows: Any, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    es.PCA(3, progress=True).fit(rows)
    assert "rows" in capfd.readouterr().err


def test_without_tqdm_there_is_no_bar(rows: Any, monkeypatch: pytest.MonkeyPatch,
                                      capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert es.PCA(3, progress=True).fit(rows).n_components_ == 3
    assert capfd.readouterr().err == ""


# Notes


def test_notes_are_warnings_of_the_callers_line(rows: Any, caplog: pytest.LogCaptureFixture) -> None:
    holes = rows.copy()
    holes[5, 5] = np.nan
    with caplog.at_level(logging.INFO, logger="eigenstream"), pytest.warns(es.EigenstreamWarning) as warned:
        es.PCA(2, nulls="drop").fit(holes)
    notes = [note for note in warned if "dropped" in str(note.message)]
    assert len(notes) == 1 and notes[0].filename == __file__
    assert any("dropped" in record.getMessage() and record.name == "eigenstream" for record in caplog.records)


def test_a_warning_that_is_an_error_stops_the_fit(rows: Any) -> None:
    import warnings

    holes = rows.copy()
    holes[5, 5] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", es.EigenstreamWarning)
        with pytest.raises(es.EigenstreamWarning, match="dropped"):
            es.PCA(2, nulls="drop").fit(holes)


def test_a_quiet_fit_warns_of_nothing(rows: Any, recwarn: pytest.WarningsRecorder) -> None:
    es.PCA(2).fit(rows).transform(rows)
    assert [str(warning.message) for warning in recwarn] == []


# Processes and threads


FORK = """
import multiprocessing, sys
import numpy as np, eigenstream as es

rows = np.random.default_rng(0).normal(size=(3000, 200))

def fitted(seed):
    rows = np.random.default_rng(seed).normal(size=(3000, 200))
    return float(es.PCA(3).fit(rows).explained_variance_[0])

if __name__ == "__main__":
    here = [fitted(seed) for seed in range(4)]  # OpenBLAS has run before the fork.
    rows @ rows.T
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        there = pool.map(fitted, range(4))
    assert here == there, (here, there)
    assert [fitted(seed) for seed in range(4)] == here
    print("same")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_fit_after_their_parent_has(method: str, tmp_path: Path) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    script = tmp_path / "children.py"
    script.write_text(FORK)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, str(script), method], capture_output=True, text=True, timeout=100,
                          env=environment)
    assert done.stdout == "same\n", done.stderr


def test_fits_on_several_threads_do_not_disturb_each_other(rows: Any) -> None:
    kernel = rows[:800]

    def work(which: int) -> bytes:
        if which % 2:
            return es.KernelPCA(3, kernel="rbf", gamma=0.01).fit(kernel).model_.to_bytes()
        return es.PCA(3).fit(rows).model_.to_bytes()

    alone = [work(0), work(1)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, range(8)))
    assert together == alone * 4


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("library", ["numpy", "scipy", "torch"])
def test_two_blas_libraries_live_in_one_process(library: str, order: str) -> None:
    python = python_with(library)
    if python is None:
        pytest.skip(f"no Python here has {library}")
    multiply = {
        "numpy": "import numpy as np\ndef product(a): return np.linalg.eigvalsh(a @ a.T)[-1]",
        "scipy": "import scipy.linalg\ndef product(a): return scipy.linalg.eigh(a @ a.T)[0][-1]",
        "torch": "import torch\ndef product(a):\n    b = torch.from_numpy(a)\n"
                 "    return torch.linalg.eigvalsh(b @ b.T)[-1].item()",
    }[library]
    imports = [multiply, "import eigenstream as es"]
    script = "\n".join(imports if order == "before" else imports[::-1]) + """
import numpy as np
rows = np.random.default_rng(0).normal(size=(500, 60))
first = product(rows)
ours = es.fit(rows, n_components=3)
again = product(rows)
assert np.isclose(first, again, rtol=1e-12), (first, again)
assert es.fit(rows, n_components=3) == ours
centred = rows - rows.mean(0)
assert np.isclose(product(centred), ours.eigenvalues[0], rtol=1e-10)
print("alive")
"""
    assert run_python(script, python=python).strip() == "alive"


def python_with(library: str) -> Optional[str]:
    """This Python, or the system's, whichever has the library: torch is a package of the system's where pip's is huge."""
    for python in (sys.executable, "/usr/bin/python3"):
        tried = [python, "-c", f"import numpy, {library}"]
        if os.path.exists(python) and subprocess.run(tried, capture_output=True).returncode == 0:
            return python
    return None


def test_threads_of_a_fit_end_with_it() -> None:
    said = run_python("""
import os, time
import numpy as np, eigenstream as es

def threads():
    return len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0

rows = np.random.default_rng(0).normal(size=(3000, 300))
before = threads()
for _ in range(10):
    es.PCA(5).fit(rows).transform(rows)
    es.KernelPCA(5, kernel="rbf", gamma=0.01).fit(rows[:500])
time.sleep(0.3)
print(threads() - before, os.cpu_count())
""")
    more, cores = map(int, said.split())
    # OpenBLAS keeps a thread a core, and no more of them for more fits.
    assert more <= cores + 1


def test_threads_are_as_many_as_asked_for() -> None:
    if not Path("/proc/self/task").exists():
        pytest.skip("threads are counted where there is /proc")
    said = run_python("""
import os, threading, time
import numpy as np, eigenstream as es

def ours():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            names.append(open(f"/proc/self/task/{task}/comm").read())
        except OSError:  # It has ended meanwhile.
            pass
    return sum(name.startswith("eigenstream") for name in names)

counts, done = [], threading.Event()

def watch():
    while not done.wait(0.002):
        counts.append(ours())

rows = np.random.default_rng(0).normal(size=(200_000, 60))
pca = es.PCA(5, threads=1).fit(rows)
time.sleep(0.3)
lasting = ours()  # OpenBLAS's own wait, and have the name of the thread that started them.
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(3):
    pca.fit(rows)
done.set()
watcher.join()
counts = [count - lasting for count in counts if count > lasting]
print(sorted(counts)[len(counts) // 2])
""")
    # The one that is asked for, and the one that arranges its work; some that have ended are still seen for a moment.
    assert 1 <= int(said) <= 2
