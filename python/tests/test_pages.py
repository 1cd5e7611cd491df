"""What the README and docs/python.md show of Python is what happens."""

import doctest
import re
from pathlib import Path

import eigenstream as es

ROOT = Path(__file__).resolve().parents[2]


def test_the_examples_of_the_page_print_what_it_shows():
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False, optionflags=options)
    assert found.attempted > 15 and found.failed == 0


def test_the_readmes_first_screen_runs_and_gives_the_command_lines_bytes(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(import eigenstream.*?)```", readme, re.S)
    command = re.search(r"`eigenstream (fit data [^`]*)`", readme)
    assert shown and command
    cli("generate", "lowrank", "--rows", "20000", "--columns", "24", "--files", "4", "-o", "data")
    cli("generate", "labels", "--rows", "5000", "--columns", "8", "-o", "species")
    exec(shown.group(1), {})  # noqa: S102
    by_python = Path("model.safetensors").read_bytes()
    cli(*command.group(1).split())
    assert by_python == Path("model.safetensors").read_bytes()
    assert es.Model.load("model.safetensors").n_components == 3
    assert Path("scores.parquet").exists()
