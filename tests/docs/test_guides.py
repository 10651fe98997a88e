"""The code of the guide runs as it is printed, page by page."""

import re
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
    names: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
