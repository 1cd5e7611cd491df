"""What 1, 10 and 100 TB take, from rates measured here: prints the tables of docs/scale.md.

    python bench/scale.py rates EIGENSTREAM     measures this machine's rates, on generated data
    python bench/scale.py                       prints the tables, from the rates below
    python bench/scale.py check EIGENSTREAM DIR merges 1,000 states of d = 4,096, and runs 200 shards over 40M rows

A task reads a shard: t = bytes / decode + n·d² / products. Tasks share out cores; a state of each is written, and
merged in a tree: t = states · size / merge, over the workers of each level.
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

#: Of one core of an Intel Xeon (2 cores, 24 GB), as `rates` measured them.
RATES = {"decode": 0.58e9, "products": 51e9, "merge": 0.48e9}

#: A named machine: cores (half of its vCPUs), network bytes a second, dollars an hour on demand.
MACHINE = {"name": "m7i.4xlarge", "cores": 8, "network": 1.56e9, "dollars": 0.81}

#: Kinds of data: features, stored bytes of a value.
KINDS = [("64 doubles", 64, 8.0), ("embeddings, 768 singles", 768, 4.0), ("4,096 doubles", 4_096, 8.0)]

MACHINES, SHARD, FAN_IN = 32, 1e9, 16


def state_bytes(d):
    """The upper half of S, the means, and the header."""
    return 4 * d * (d + 1) + 24 * d + 4096


def cost(terabytes, d, width):
    """Everything that one line of the table says."""
    data = terabytes * 1e12
    rows = data / (d * width)
    cores = MACHINES * MACHINE["cores"]
    reading = data / RATES["decode"] / cores
    network = data / MACHINE["network"] / MACHINES
    products = rows * d * d / RATES["products"] / cores
    tasks, size = math.ceil(data / SHARD), state_bytes(d)
    depth = max(1, math.ceil(math.log(max(tasks, 2), FAN_IN)))
    merged = merging = 0.0
    left = tasks
    for _ in range(depth):
        groups = math.ceil(left / FAN_IN)
        merged += left * size
        each = min(left, FAN_IN) * size
        merging += math.ceil(groups / cores) * each * (1 / RATES["merge"] + 2 / MACHINE["network"])
        left = groups
    seconds = max(reading + products, network) + merging
    return {"rows": rows, "tasks": tasks, "state": size, "depth": depth, "network": data + 2 * merged, "seconds": seconds,
            "dollars": seconds / 3600 * MACHINES * MACHINE["dollars"]}


def said(seconds):
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def amount(size):
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"


def tables():
    print(f"{MACHINES} × {MACHINE['name']} ({MACHINE['cores']} cores, {MACHINE['network'] * 8 / 1e9:.1f} Gbit/s, "
          f"${MACHINE['dollars']:.2f} an hour), tasks of {amount(SHARD)}:\n")
    print("| data | of | rows | tasks | state | merge depth | network | wall time | dollars |")
    print("|---|---|---|---|---|---|---|---|---|")
    for terabytes in (1, 10, 100):
        for name, d, width in KINDS:
            found = cost(terabytes, d, width)
            print(f"| {terabytes} TB | {name} | {found['rows']:.2g} | {found['tasks']:,} | {amount(found['state'])} | "
                  f"{found['depth']} | {amount(found['network'])} | {said(found['seconds'])} | "
                  f"{found['dollars']:,.2f} |")


def timed(*words, limit=None):
    """Seconds and peak bytes of a child; under a limit of address space where one is given."""
    def bounded():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    started = time.perf_counter()
    child = subprocess.Popen([str(word) for word in words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             preexec_fn=bounded if limit else None)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit {child.returncode}")
    return time.perf_counter() - started, usage.ru_maxrss * 1024


def size_of(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


def rates(program):
    with tempfile.TemporaryDirectory() as work:
        tall, wide, state = (os.path.join(work, name) for name in ("tall", "wide", "state"))
        timed(program, "generate", "lowrank", "--rows", 3_000_000, "--columns", 16, "--files", 4, "-o", tall)
        timed(program, "generate", "lowrank", "--rows", 16_384, "--columns", 4_096, "--files", 4, "-o", wide)
        scan = ["--exclude", "id", "--threads", "1", "-o", state]
        decode = size_of(tall) / min(timed(program, "scan", tall, *scan)[0] for _ in range(3))
        seconds = min(timed(program, "scan", wide, *scan)[0] for _ in range(3)) - size_of(wide) / decode
        products = 16_384 * 4_096 ** 2 / seconds
        size = os.path.getsize(state)
        merging = min(timed(program, "merge", *states(work, 16), "-o", state)[0] for _ in range(3))
        print(json.dumps({"decode": decode, "products": products, "merge": 16 * size / merging}))


def states(work, count):
    """Names of one state of d = 4,096 that is of no file, so that it may be added many times."""
    import numpy as np

    import eigenstream

    path = os.path.join(work, "one.state")
    rows = np.random.default_rng(0).normal(size=(64, 4_096))
    eigenstream.State().update(rows).save(path)
    return [path] * count


def check(program, work):
    all_states = states(work, 1000)
    level, peaks, started = [], [], time.perf_counter()
    for first in range(0, 1000, FAN_IN):
        out = os.path.join(work, f"level-{first}.state")
        peaks.append(timed(program, "merge", *all_states[first:first + FAN_IN], "-o", out, limit=1200 << 20)[1])
        level.append(out)
    while len(level) > 1:
        above = []
        for first in range(0, len(level), FAN_IN):
            out = os.path.join(work, f"up-{len(level)}-{first}.state")
            peaks.append(timed(program, "merge", *level[first:first + FAN_IN], "-o", out, limit=1200 << 20)[1])
            above.append(out)
        for path in level:
            os.remove(path)
        level = above
    seconds = time.perf_counter() - started
    print(f"1,000 states of d = 4,096 in a tree of {FAN_IN}: {seconds:.0f} s, {max(peaks) / 1e6:.0f} MB at most")

    data, shards = os.path.join(work, "rows"), os.path.join(work, "shards")
    timed(program, "generate", "lowrank", "--rows", 40_000_000, "--columns", 8, "--files", 50, "-o", data)
    timed(program, "scan", data, "--exclude", "id", "-o", os.path.join(work, "whole.state"))
    whole, _ = timed(program, "scan", data, "--exclude", "id", "-o", os.path.join(work, "whole.state"))
    started, peaks = time.perf_counter(), []
    for index in range(1, 201):
        words = ["scan", data, "--exclude", "id", "--shard", f"{index}/200", "-o", shards]
        peaks.append(timed(program, *words)[1])
    merge, _ = timed(program, "merge", shards, "-o", os.path.join(work, "all.state"))
    seconds = time.perf_counter() - started
    print(f"200 shards over 40M rows, {amount(size_of(data))}: {seconds:.1f} s with the merge of {merge:.2f} s, "
          f"{max(peaks) / 1e6:.0f} MB at most; one process {whole:.1f} s")


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else "tables"
    {"tables": lambda: tables(), "rates": lambda: rates(sys.argv[2]),
     "check": lambda: check(sys.argv[2], sys.argv[3])}[asked]()
