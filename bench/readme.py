"""Puts bench/results.md between the marks in README.md, so that its numbers are those of the benchmark."""
import os, re
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
results = open("bench/results.md").read().strip()
readme = open("README.md").read()
new = re.sub(r"(<!-- bench -->\n).*?(\n<!-- /bench -->)", lambda m: m[1] + results + m[2], readme, flags=re.S)
open("README.md", "w").write(new)
