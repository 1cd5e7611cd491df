"""Puts the numbers of bench/results.md into the pages, so that they are those of the benchmark.

All tables go into docs/benchmarks.md, between its marks; the headlines and the memory table go into README.md. A mark
or a row that is not there is an error: nothing is left as it was without a word.
"""
import os, re, sys

# What the README shows: group, our row, the peer's row, and how the peer is called there.
HEADLINES = [
    ("fit, 4M × 64 f64, k = 10", "eigenstream", "oneDAL (scikit-learn-intelex IncrementalPCA)", "oneDAL incremental PCA"),
    ("fit, 300k × 768 f32 vectors, k = 64", "eigenstream", "numpy in f32", "numpy in f32"),
    ("fit, 103 × 207,400 f64 columns (dual form)", "eigenstream --memory 2GB", "scikit-learn PCA in memory", "scikit-learn PCA"),
    ("supervised PCA, 10,000 × 64, as n grows", "eigenstream", "numpy, the dense n × n formula", "numpy, n × n formula"),
    ("kernel PCA, rbf, 10,000 × 32, k = 10", "eigenstream --memory 250MB", "scikit-learn KernelPCA, randomized solver",
     "scikit-learn, randomized"),
]

# Group, our row, the form, and what is not held.
MEMORY = [
    ("fit, 4M × 64 f64, k = 10", "eigenstream", "primal", "2.0 GB of rows"),
    ("fit, 300k × 768 f32 vectors, k = 64", "eigenstream", "primal", "922 MB of rows"),
    ("fit, 50,000 × 5,000 f32 vectors, k = 20", "eigenstream (primal form)", "primal", "1.0 GB of rows"),
    ("fit, 50,000 × 5,000 f32 vectors, k = 20", "eigenstream --memory 250MB (randomized form)", "randomized", "1.0 GB of rows"),
    ("fit, 103 × 207,400 f64 columns (dual form)", "eigenstream --memory 2GB", "dual", "344 GB of covariance"),
    ("supervised PCA (HSIC, delta kernel), 4M × 64 f64, 10 classes", "eigenstream", "one pass", "128 TB of label kernel"),
    ("kernel supervised PCA, rbf, 50,000 × 32, 5 classes", "our own kernel PCA of the same rows, --memory 500MB",
     "exact", "20 GB of kernel matrix"),
    ("kernel PCA, rbf, 1,000,000 × 32 by 500 landmarks", "eigenstream --memory 500MB", "landmarks", "8 TB of kernel matrix"),
]


def tables(text):
    """Of each group and row: seconds and peak MB, as they are printed."""
    rows = {}
    for line in text.splitlines():
        if line.startswith("**"):
            group = line.strip("*")
        elif line.startswith("| ") and not line.startswith("| |"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            rows[group, name] = cells
    return rows


def short(group):
    """A group's name where there is little room: without what only tells it from its neighbours."""
    return re.sub(r", as n grows| \((dual form|HSIC, delta kernel)\)|, 5 classes", "", group)


def headlines(rows, about):
    yield "| work | eigenstream | today | share of its time |\n|---|---|---|---|"
    for group, ours, theirs, name in HEADLINES:
        (s, mb, *_), (other, more, share, *_) = rows[group, ours], rows[group, theirs]
        yield f"| {short(group)} | **{s} s, {mb} MB** | {name}: {other} s, {int(more):,} MB | {share.split()[0]} |"
    yield f"\n{about}; whole commands on the same files."


def memory(rows):
    yield "| work | way | peak | not held |\n|---|---|---|---|"
    for group, name, way, instead in MEMORY:
        yield f"| {short(group).replace('kernel supervised', 'kernel')} | {way} | {rows[group, name][1]} MB | {instead} |"


def put(path, mark, content):
    text = open(path).read()
    new, times = re.subn(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", lambda m: f"{m[1]}\n{content}\n\n{m[2]}", text, flags=re.S)
    if times != 1:
        sys.exit(f"{path} has the marks of {mark} {times} times, not once")
    open(path, "w").write(new)


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
results = open("bench/results.md").read().strip()
about = re.search(r"<!-- bench/run: (.*) -->", results)[1]
rows = tables(results)
put("docs/benchmarks.md", "bench", results.replace(f"<!-- bench/run: {about} -->", f"{about}:"))
put("README.md", "headlines", "\n".join(headlines(rows, about)))
put("README.md", "memory", "\n".join(memory(rows)))
