"""Runs eigenstream and its peers alternately, three times each, and prints the best of each as a Markdown table.

    measure.py DATA BINARIES PYTHON

Time is wall time of the whole command. Memory is the child's peak RSS (wait4). The ratio is to the peer named in the
last column; the goal is what that ratio is to be at most.
"""
import glob, os, platform, subprocess, sys, tempfile, time

data, binaries, python = sys.argv[1:4]
here = os.path.dirname(os.path.abspath(__file__))
work = tempfile.mkdtemp()
es, floor = f"{binaries}/eigenstream", f"{binaries}/examples/floor"
model, scores = f"{work}/m", f"{work}/s.parquet"
tall, embed = f"{data}/tall", f"{data}/embed"
threads = str(os.cpu_count())
ROUNDS = 3


def fit(*a):
    return [es, "fit", *a, "-o", model, "--quiet"]


def peer(name, where, out="-", k="10"):
    return [python, f"{here}/peers.py", name, where, out, k]


def bare(prefix, where):
    return [floor, threads, prefix, *sorted(glob.glob(f"{where}/*.parquet"))]


# Each group is run in turns. (label, commands, compared with, at most)
GROUPS = [
    ("fit, 4M × 64 f64, k = 10", [
        ("eigenstream", [fit(tall, "--columns", "x*", "-k", "10")], None, None),
        ("oneDAL (scikit-learn-intelex IncrementalPCA)", [peer("sklearnex_ipca", tall)], 0.30, None),
        ("floor: decode + dsyrk", [bare("x", tall)], 1.25, None),
        ("numpy, shifted one-pass covariance", [peer("numpy_cov", tall)], None, None),
    ]),
    ("fit + transform, 4M × 64 f64, k = 10", [
        ("eigenstream", [fit(tall, "--columns", "x*", "-k", "10"), [es, "transform", model, tall, "-o", scores, "--quiet"]], None, None),
        ("eigenstream --compression zstd", [fit(tall, "--columns", "x*", "-k", "10"), [es, "transform", model, tall, "--compression", "zstd", "-o", scores, "--quiet"]], None, None),
        ("numpy, covariance and scores (zstd)", [peer("numpy_cov", tall, f"{work}/peer.parquet")], 0.30, None),
    ]),
    ("fit, 300k × 768 f32 vectors, k = 64", [
        ("eigenstream", [fit(embed, "--columns", "embedding", "-k", "64")], None, None),
        ("eigenstream --precision mixed", [fit(embed, "--columns", "embedding", "-k", "64", "--precision", "mixed")], None, None),
        ("numpy in f32", [peer("numpy_cov", embed, "-", "64")], 0.80, 0.50),
        ("floor: decode + dsyrk (f64)", [bare("embedding", embed)], 1.25, None),
    ]),
]


def run(commands):
    wall, peak = 0.0, 0
    for command in commands:
        start = time.time()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall += time.time() - start
        peak = max(peak, usage.ru_maxrss)
        if status:
            sys.exit(f"{command} failed:\n{said.decode()}")
    return wall, peak / 1024


def machine():
    names = {l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")}
    return f"{os.cpu_count()} cores ({', '.join(sorted(names))}), {platform.system()}, best of {ROUNDS} in turns, {time.strftime('%Y-%m-%d')}"


print(f"<!-- bench/run: {machine()} -->")
for label, entries in GROUPS:
    best = {}
    for _ in range(ROUNDS):
        for name, commands, *_ in entries:
            wall, peak = run(commands)
            old = best.get(name, (1e9, 0))
            best[name] = (min(old[0], wall), max(old[1], peak))
    print(f"\n**{label}**\n\n| | seconds | peak MB | eigenstream's share of its time | goal |\n|---|---|---|---|---|")
    ours = [n for n, *_ in entries if n.startswith("eigenstream")]
    for name, _, goal, mixed_goal in entries:
        wall, peak = best[name]
        shares = " ".join(f"{best[o][0] / wall:.2f}" for o in ours) if name not in ours else ""
        goals = " ".join(f"≤ {g:.2f}" for g in (goal, mixed_goal) if g)
        print(f"| {name} | {wall:.2f} | {peak:.0f} | {shares} | {goals} |", flush=True)
