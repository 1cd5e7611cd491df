"""Runs eigenstream and its peers alternately, three times each, and prints the best of each as a Markdown table.

    measure.py DATA BINARIES PYTHON [GROUPS WHOSE NAME HAS THIS]

Time is wall time of the whole command. Memory is the child's peak RSS (wait4). The ratio is to the peer named in the
last column; the goal is what that ratio is to be at most.
"""
import glob, json, os, platform, subprocess, sys, tempfile, time

data, binaries, python = sys.argv[1:4]
only = sys.argv[4] if len(sys.argv) > 4 else ""
here = os.path.dirname(os.path.abspath(__file__))
work = tempfile.mkdtemp()
es, floor = f"{binaries}/eigenstream", f"{binaries}/examples/floor"
model, scores = f"{work}/m", f"{work}/s.parquet"
tall, embed, wide, both, flat, genes, tiny, few, kernel, rings, million = (
    f"{data}/{name}" for name in ("tall", "embed", "wide", "both", "flat", "genes", "tiny", "few", "kernel", "rings", "million"))
exact = f"{work}/exact"
threads = str(os.cpu_count())
ROUNDS = 3


def fit(*a, to=None):
    return [es, "fit", *a, "-o", to or model, "--quiet"]


def kpca(*a):
    return fit(*a, "--columns", "x*", "--method", "kpca")


def peer(name, where, out="-", k="10"):
    return [python, f"{here}/peers.py", name, where, out, k]


def bare(prefix, where):
    return [floor, threads, prefix, *sorted(glob.glob(f"{where}/*.parquet"))]


# Each group is run in turns. (label, commands, at most so much of its time, for a second variant of ours)
GROUPS = [
    ("fit, 4M × 64 f64, k = 10", [
        ("eigenstream", [fit(tall, "--columns", "x*", "-k", "10")], None, None),
        ("oneDAL (scikit-learn-intelex IncrementalPCA)", [peer("sklearnex_ipca", tall)], 0.30, None),
        ("floor: decode + dsyrk", [bare("x", tall)], 1.25, None),
        ("numpy, shifted one-pass covariance", [peer("numpy_cov", tall)], None, None),
    ]),
    ("scan, 4M × 64 f64: a state instead of a model", [
        ("eigenstream scan", [[es, "scan", tall, "--columns", "x*", "-o", model, "--quiet"]], None, None),
        ("eigenstream fit --checkpoint after every row group", [fit(tall, "--columns", "x*", "--checkpoint", f"{work}/c", "--checkpoint-seconds", "0")], None, None),
        ("our own PCA fit of the same columns", [fit(tall, "--columns", "x*")], None, None),
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
    ("supervised PCA (HSIC, delta kernel), 4M × 64 f64, 10 classes", [
        ("eigenstream", [fit(tall, "--columns", "x*", "--method", "spca", "--label", "y")], None, None),
        ("our own PCA fit of the same columns", [fit(tall, "--columns", "x*")], 1.15, None),
    ]),
    *[(f"supervised PCA, {n:,} × 64, as n grows", [
        ("eigenstream", [fit(f"{few}/n{n}.parquet", "--columns", "x*", "--method", "spca", "--label", "y")], None, None),
        ("numpy, the dense n × n formula", [peer("dense_spca", f"{few}/n{n}.parquet")], None, None),
    ]) for n in (2_500, 5_000, 10_000)],
    ("fit, 10 × 8,319 f64 columns (dual form)", [
        ("eigenstream", [fit(tiny)], None, None),
        ("scikit-learn PCA in memory", [peer("sklearn_inmem", tiny)], None, None),
    ]),
    ("fit, 103 × 207,400 f64 columns (dual form)", [
        ("eigenstream --memory 2GB", [fit(genes, "--memory", "2GB")], None, None),
        ("scikit-learn PCA in memory", [peer("sklearn_inmem", genes)], None, None),
    ]),
    ("fit, 1,000 × 20,000 f32 vectors, k = 10 (dual form)", [
        ("eigenstream", [fit(wide, "--columns", "v")], None, None),
        ("scikit-learn PCA in memory", [peer("sklearn_inmem", wide)], 0.50, None),
    ]),
    ("fit, 50,000 × 5,000 f32 vectors, k = 20", [
        ("eigenstream (primal form)", [fit(both, "--form", "primal", "-k", "20", to=exact)], None, None),
        ("eigenstream --memory 250MB (randomized form)", [fit(both, "-k", "20", "--memory", "250MB")], None, None),
        ("numpy, covariance (f32 products) and eigh", [peer("numpy_cov", both, "-", "20")], None, None),
        ("numpy, block Krylov (f32 products), 3 passes", [peer("numpy_krylov", both, "-", "20")], None, None),
    ]),
    ("fit, the same in the same arithmetic", [
        ("eigenstream (primal form)", [fit(both, "--form", "primal", "-k", "20")], None, None),
        ("eigenstream --precision mixed (primal form)", [fit(both, "--form", "primal", "-k", "20", "--precision", "mixed")], None, None),
        ("numpy, covariance (f64 products) and eigh", [peer("numpy_cov64", both, "-", "20")], 0.60, None),
        ("numpy, covariance (f32 products) and eigh", [peer("numpy_cov", both, "-", "20")], None, 0.60),
    ]),
    ("fit, the same with a flat spectrum near k", [
        ("eigenstream (primal form)", [fit(flat, "--form", "primal", "-k", "20", to=exact)], None, None),
        ("eigenstream --memory 250MB (randomized form)", [fit(flat, "-k", "20", "--memory", "250MB")], None, None),
    ]),
    ("kernel PCA, rbf, 10,000 × 32, k = 10", [
        ("eigenstream --memory 250MB", [kpca(kernel, "--memory", "250MB")], None, None),
        ("scikit-learn KernelPCA, randomized solver", [peer("sklearn_kpca", kernel)], 0.70, None),
    ]),
    *[(f"kernel PCA, rbf, {n:,} × 32, as n grows", [
        ("eigenstream --memory 500MB", [kpca(f"{rings}/n{n}.parquet", "--memory", "500MB")], None, None),
    ]) for n in (5_000, 20_000)],
    ("kernel supervised PCA, rbf, 50,000 × 32, 5 classes", [
        ("eigenstream --memory 500MB", [fit(f"{rings}/n50000.parquet", "--columns", "x*", "--method", "kspca", "--label", "y", "--classes", "-k", "4", "--memory", "500MB")], None, None),
        ("our own kernel PCA of the same rows, --memory 500MB", [kpca(f"{rings}/n50000.parquet", "--memory", "500MB")], 0.20, None),
    ]),
    ("kernel PCA, rbf, 1,000,000 × 32 by 500 landmarks", [
        ("eigenstream --memory 500MB", [kpca(million, "--landmarks", "500", "--memory", "500MB")], None, None),
    ]),
]

# After which groups the last model is compared with the exact one.
COMPARED = {"fit, 50,000 × 5,000 f32 vectors, k = 20", "fit, the same with a flat spectrum near k"}


def compared():
    a, b = (json.loads(subprocess.run([es, "inspect", m, "--json"], capture_output=True, check=True).stdout) for m in (model, exact))
    values = max(abs(x / y - 1) for x, y in zip(a["eigenvalues"], b["eigenvalues"]))
    vectors = max(abs(x - y) for u, v in zip(a["components"], b["components"]) for x, y in zip(u, v))
    passes = a["certificate"]["iteration"]["passes"]
    return (f"The randomized form took {passes} passes to a residual of {a['certificate']['max_residual']:.1e};\n"
            f"against the exact form its eigenvalues differ by {values:.1e} (relative) and its components by {vectors:.1e} (largest entry).")


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
    if only not in label:
        continue
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
        goals = " ".join(f"≤ {g:.2f}" if g else "–" for g in ((goal, mixed_goal) if mixed_goal else (goal,)) if g or mixed_goal)
        print(f"| {name} | {wall:.2f} | {peak:.0f} | {shares} | {goals} |", flush=True)
    if label in COMPARED:
        print(f"\n{compared()}", flush=True)
if only:
    sys.exit()
print("\n**20 leading eigenpairs of a 4,000 × 4,000 matrix in memory**\n")
for kind, what in (("lowrank", "decaying spectrum"), ("wishart", "flat spectrum")):
    said = subprocess.run([f"{binaries}/examples/topk", "4000", "20", kind], capture_output=True, text=True, check=True).stdout
    print(f"- {what}: {said.strip().splitlines()[-1]}", flush=True)
print("\n**an entry of a 256 × 1,024 kernel tile on one thread, nanoseconds (best of five)**\n")
print(subprocess.run([f"{binaries}/examples/tiles"], capture_output=True, text=True, check=True).stdout, flush=True)
