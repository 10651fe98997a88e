"""The code and the commands of the guide run as they are printed, page by page."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
# Pages that need neither files of one's own nor a GPU.
PAGES = (
    "../architecture",
    "clusters",
    "dictionaries",
    "encoders",
    "extend",
    "figures",
    "files",
    "kernel_rica",
    "linear",
    "networks",
    "report",
    "rica",
    "sources",
    "text",
)


def code_blocks(text):
    indented = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in indented]


@pytest.mark.parametrize("page", PAGES)
# The guide says itself that a fit with few steps warns.
@pytest.mark.filterwarnings("error", f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_code_runs_as_printed(page):
    blocks = code_blocks((GUIDE / f"{page}.rst").read_text(encoding="utf-8"))
    assert blocks
    if any("import torch" in block for block in blocks):
        pytest.importorskip("torch")
    names: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


@pytest.mark.slow
def test_commands_run_as_printed(tmp_path, monkeypatch):
    text = (GUIDE / "command.rst").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^\.\. code-block:: (python|console)\n\n((?:   .*\n|\n)+)", text, re.MULTILINE
    )
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(re.sub(r"^   ", "", block, flags=re.MULTILINE), "command", "exec"), names)
            continue
        for line in re.findall(r"^   \$ clusterica (.+)$", block, re.MULTILINE):
            done = subprocess.run(
                [sys.executable, "-m", "clusterica", *shlex.split(line)],
                capture_output=True,
                text=True,
                env={**os.environ, "COLUMNS": "100"},
            )
            assert done.returncode == 0, f"{line}: {done.stderr}"
            output = re.search(r"-o (\S+)", line)
            assert output is None or (tmp_path / output[1]).exists(), line
