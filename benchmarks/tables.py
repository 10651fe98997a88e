"""Write the measured figures into the README and the docs, from the results files alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from benchmarks.sections import codes, images, kmeans, large, linear, planning, sources, text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.rst"
MARKS = "<!-- benchmark-table -->", "<!-- end of benchmark-table -->"
INTRODUCTION = """\
Benchmarks
==========

Times of clusterica and of other libraries, in turns on one machine. Every section says at which commit, on
which machine and with which libraries it was measured; *before commits were recorded* means by older code.
``python -m benchmarks`` measures all of it.
"""
# The sections of the page in their order, by the names of their results files.
SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "kmeans-cpu": kmeans.cpu_section,
    "kmeans-gpu": kmeans.gpu_section,
    "ica-cpu": sources.cpu_section,
    "ica-gpu": sources.gpu_section,
    "spherical-cpu": text.section,
    "images-cpu": images.cpu_section,
    "images-gpu": images.gpu_section,
    "rica-cpu": codes.rica_section,
    "rica-gpu": codes.rica_section,
    "sparse-coding-cpu": codes.sparse_coding_section,
    "linear-cpu": linear.section,
    "linear-gpu": linear.section,
    "planning-cpu": planning.section,
    "out-of-core": large.section,
    "stream-gpu": large.stream_section,
}


def main() -> None:
    """Write the tables."""
    files = {name: RESULTS / f"{name}.json" for name in SECTIONS}
    reports = {name: json.loads(path.read_text()) for name, path in files.items() if path.exists()}
    lines = [line for name, report in reports.items() for line in SECTIONS[name](report)]
    PAGE.write_text("\n".join([INTRODUCTION, *_missing(reports), *lines]).rstrip() + "\n")
    block = [kmeans.readme_table(reports["kmeans-cpu"])]
    if "kmeans-gpu" in reports:
        block.append(kmeans.readme_gpu(reports["kmeans-gpu"]))
    block.append(images.readme_images(reports["images-cpu"]))
    begin, end = MARKS
    pattern = f"{re.escape(begin)}.*{re.escape(end)}"
    found = "\n".join([begin, "\n\n".join(block), end])
    README.write_text(re.sub(pattern, lambda _: found, README.read_text(), flags=re.DOTALL))


def _missing(reports: Collection[str]) -> list[str]:
    """Return a sentence on what is not measured yet; none if all is."""
    names = [f"``{name}``" for name in SECTIONS if name not in reports]
    return [f"Not measured yet: {', '.join(names)}.", ""] if names else []


if __name__ == "__main__":
    main()
