"""The worked examples of CONTRIBUTING run as they are printed."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### … (.*)\n((?:(?!#{2,3} ).*\n)*)", TEXT, re.MULTILINE))
EXAMPLES = {
    title: dedent(code)
    for title, text in SECTIONS.items()
    for code in re.findall(r"^ *```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
}


@pytest.mark.parametrize("title", ["a contrast", "a kernel"])
def test_code_runs_as_printed(title):
    exec(compile(EXAMPLES[title], "CONTRIBUTING.md", "exec"), {"__name__": "example"})
