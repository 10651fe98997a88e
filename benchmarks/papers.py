"""Write ``docs/results.rst`` from what experiments left in ``results/``: their tables, notes and pictures."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from benchmarks.tables import rst_table

ROOT = Path(__file__).parent.parent
RESULTS, PAGE, IMAGES = ROOT / "results", ROOT / "docs" / "results.rst", ROOT / "docs" / "images"
INTRODUCTION = """\
The papers' tables, and ours
============================

Every table below was written by ``clusterica reproduce NAME``, and is made from the file it left; the
label P0 to P4 names the paper, see :doc:`papers`. Where an experiment needs files of a data set, it was given
them by ``--data``. Runs on "cuda" were made on one NVIDIA H200.
"""


def section(record: dict[str, Any]) -> list[str]:
    """Return the part of the page about one experiment."""
    title = _text(f"{record['name']}: {record['title']}")
    minutes = record["seconds"] / 60
    took = f"{record['seconds']:.0f} seconds" if minutes < 3 else f"{minutes:.0f} minutes"
    device = record["settings"].get("device")
    where = f" on {device}" if device else ""
    said = _text(f"{record['paper']}. {record['claim']}")
    lines = [title, "-" * len(title), "", said, ""]
    rows = [[_cell(value) for value in row] for row in record["rows"]]
    lines += rst_table([_cell(c) for c in record["columns"]], rows)
    lines += [_text(record["note"]), "", f"Seed {record['seed']}, {took}{where}.", ""]
    for name in record["pictures"]:
        source = RESULTS / name
        if source.exists():
            shutil.copyfile(source, IMAGES / name)
            lines += [f".. image:: images/{name}", f"   :alt: {record['title']}", ""]
    return lines


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return _text(" ".join(str(value).split())) or r"\ "


def _text(words: str) -> str:
    """Return words of which none is taken for markup: a star, a bar or a backtick is what it is."""
    return re.sub(r"([\\*|`])", r"\\\1", words)


def main() -> None:
    """Write the page."""
    records = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    ]
    lines = [INTRODUCTION]
    for record in records:
        if not record["quick"]:
            lines += section(record)
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
