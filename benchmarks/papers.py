"""Write ``docs/results`` from what experiments left in ``results/``: a page for each paper."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from datetime import datetime
from itertools import permutations
from pathlib import Path
from typing import Any

from benchmarks.rst import rst_table
from clusterica.experiments import available

ROOT = Path(__file__).parent.parent
RESULTS, PAGES, IMAGES = ROOT / "results", ROOT / "docs" / "results", ROOT / "docs" / "images"
INTRODUCTION = """\
Results
=======

What the papers print, and what clusterica finds, on a page for each of :doc:`/papers`. ``clusterica reproduce
NAME`` repeats an experiment.

A *check* is one thing that a paper says; the code of the experiment decides from the measured values
whether it holds. *Paper* columns hold what the paper prints, a dash where it prints nothing. ``61.0 ±
0.9`` is a mean and a standard deviation over repetitions, ``0.03 (0.02–0.05)`` a median and the 10 % and
90 % quantiles; the text below a table says over what. *Dead* is the share of basis vectors that no row
responds to.

Every section ends with the commit, device and time of its run. Values without a known commit are
*untraced*, and are to be run again.
"""
UNTRACED = "This file is older than the tracing of results: it does not say its commit."


def by_paper(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of each paper, by its label."""
    papers: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        papers.setdefault(record["name"].split("-")[0], []).append(record)
    return papers


def paper_title(label: str, of_paper: list[dict[str, Any]]) -> str:
    """Return ``P1: Coates & Ng 2012``."""
    said = of_paper[0]["paper"]
    year = re.search(r"\d{4}", said)
    authors = re.split(r"\d{4}", said)[0].strip()
    return _text(f"{label}: {authors} {year[0] if year else ''}".strip())


def summary(records: list[dict[str, Any]]) -> list[str]:
    """Return a table for each paper: how many checks of each experiment hold, and where it was run."""
    lines, done = [], {record["name"] for record in records}
    for label, of_paper in by_paper(records).items():
        title = paper_title(label, of_paper)
        lines += [title, "-" * len(title), ""]
        rows = [
            [
                f":ref:`{record['name']} <{record['name']}>`",
                _text(record["title"]),
                _holding(record),
                _text("; ".join(_made(record, "device")) or "not known"),
                ", ".join(_commits(record) + ["untraced"] * bool(untraced(record))),
            ]
            for record in of_paper
        ]
        lines += rst_table(["Experiment", "What", "Checks that hold", "Device", "Commit"], rows)
        waiting = [
            f"{one.name} ({one.title})"
            for one in available()
            if one.name.startswith(f"{label}-") and one.name not in done
        ]
        if waiting:
            lines += [_text(f"Not run yet: {', '.join(waiting)}."), ""]
    return lines


def section(record: dict[str, Any]) -> list[str]:
    """Return the part of the page about one experiment."""
    title = _text(f"{record['name']}: {record['title']}")
    said = _text(f"{record['paper']}. {record['claim']}")
    lines = [f".. _{record['name']}:", "", title, "-" * len(title), "", said, ""]
    if untraced(record):
        lines += [_text(untraced(record)), ""]
    columns = record["columns"]
    rows = [[_cell(v, c) for v, c in zip(row, columns, strict=True)] for row in record["rows"]]
    lines += rst_table([_cell(c) for c in columns], rows)
    lines += [_text(record["note"]), ""]
    absent = absent_rows(record)
    if absent:
        lines += [
            f"Not run yet: {'; '.join(absent)}.",
            "",
        ]
    if "C" in record["columns"] and record.get("version") == "0.1.0.dev0":
        # A result file is left as its run wrote it.
        lines += [
            "C is that of ``LinearSVC`` before 0.1.0: now it is divided by the number of rows.",
            "",
        ]
    for picture in record["pictures"]:
        lines += figure(picture, record["title"])
    for check in record.get("checks", ()):
        verdict = "Holds" if check["holds"] else "Does not hold"
        lines.append(f"- {verdict}: {_text(check['claim'])} ({_text(check['found'])}).")
    return [*lines, "", provenance(record), ""]


def figure(picture: dict[str, str] | str, title: str) -> list[str]:
    """Return a picture with its caption; older files have its name alone."""
    if isinstance(picture, str):
        picture = {"file": picture, "caption": "", "alt": title}
    name = picture["file"]
    if not (RESULTS / name).exists():
        return []
    shutil.copyfile(RESULTS / name, IMAGES / name)
    caption = [f"   {_text(picture['caption'])}", ""] if picture["caption"] else []
    return [f".. figure:: /images/{name}", f"   :alt: {picture['alt']}", "", *caption]


def provenance(record: dict[str, Any]) -> str:
    """Return the sentence that says where a result comes from, nothing where it is untraced."""
    stamps = [stamp for stamp in _stamps(record).values() if "untraced" not in stamp]
    if not stamps:
        return ""
    commits = _commits(record)
    changed = any(stamp["uncommitted_changes"] for stamp in stamps)
    seconds = sum(stamp["seconds"] for stamp in stamps)
    took = f"{seconds:.0f} seconds" if seconds < 180 else f"{seconds / 60:.0f} minutes"
    parts = f" in {len(stamps)} parts" if len(stamps) > 1 else ""
    where = ", ".join(commits) if commits else "a commit that is not known"
    name = "Commit" if len(commits) < 2 else "Commits"
    days = sorted({stamp["started"][:10] for stamp in stamps})
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    said = (
        f"{name} {where}{' with uncommitted changes' if changed else ''}; seed {record['made']['seed']}; "
        f"{', '.join(_made(record, 'device'))}; {took}{parts}; {when}.{_at_once(_stamps(record))}"
    )
    return _text(said)


def _at_once(stamps: dict[str, dict[str, Any]]) -> str:
    """Name the parts that were computed while others were: their seconds are not those of a quiet machine."""
    spans = {}
    for name, made in stamps.items():
        if made.get("started") and made["seconds"] > 1:
            begun = datetime.fromisoformat(made["started"]).timestamp()
            spans[name] = (made["device"], begun, begun + made["seconds"])
    busy = {
        name
        for name, other in permutations(spans, 2)
        if spans[name][0] == spans[other][0]
        and max(spans[name][1], spans[other][1]) + 1 < min(spans[name][2], spans[other][2])
    }
    busy |= {name for name, made in stamps.items() if made.get("device_was_shared")}
    if not busy:
        return ""
    named = "; ".join(name for name in stamps if name in busy)
    return (
        f" Other work ran on the device at the same time, and seconds are longer for that: {named}."
    )


def untraced(record: dict[str, Any]) -> str:
    """Return a sentence that names the values whose commit is not known, or nothing."""
    stamps = _stamps(record)
    if not stamps:
        return UNTRACED
    why = {name: made["untraced"] for name, made in stamps.items() if "untraced" in made}
    if not why:
        return ""
    which = "All values" if len(why) == len(stamps) else f"The values of {', '.join(why)}"
    return f"{which} are untraced: {'; '.join(_once(why.values()))}."


def absent_rows(record: dict[str, Any]) -> list[str]:
    """Return the rows or columns that the code of an experiment has and its file does not."""
    modules = {one.name: sys.modules[one.run.__module__] for one in available()}
    module = modules.get(record["name"])
    named = [getattr(method, "name", method) for method in getattr(module, "METHODS", ())]
    # A dictionary of what the paper prints, by row.
    paper = getattr(module, "PAPER", {})
    if isinstance(paper, dict) and all(isinstance(figure, str) for figure in paper.values()):
        named += paper
    named += getattr(module, "WHITE_COLUMNS", ())
    written = json.dumps([record["columns"], record["rows"]], ensure_ascii=False)
    # Whole names: "kRICA, white" is the end of another one too. What is quoted was not run.
    return [
        name
        for name in _once(named)
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?!\w| \(quoted\))", written)
    ]


def _stamps(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the provenance of every part by name, or of the whole where there are none."""
    parts = record.get("parts") or {}
    whole = {"": record["made"]} if "made" in record else {}
    return {name: part["made"] for name, part in parts.items()} or whole


def _made(record: dict[str, Any], key: str) -> list[str]:
    """Return what the parts say under a key, each once."""
    return _once(stamp.get(key) for stamp in _stamps(record).values())


def _commits(record: dict[str, Any]) -> list[str]:
    return [commit[:7] for commit in _made(record, "commit")]


def _once(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _holding(record: dict[str, Any]) -> str:
    checks = record.get("checks", ())
    return f"{sum(check['holds'] for check in checks)} of {len(checks)}" if checks else "none made"


def _cell(value: Any, column: str = "") -> str:
    """Return the words of a cell; its lines stay lines, and nothing is a dash in a column of the paper."""
    if isinstance(value, float):
        return f"{value:.3g}"
    lines = [_text(" ".join(line.split())) for line in str(value).splitlines()]
    if len(lines) > 1:
        return "\n       ".join(f"| {line}" for line in lines)
    return "".join(lines) or ("—" if "aper" in column else r"\ ")


def _text(words: str) -> str:
    """Return words of which none is taken for markup: a star, a bar or a backtick is what it is."""
    return re.sub(r"([\\*|`])", r"\\\1", words)


def main() -> None:
    """Write the pages."""
    files = sorted(RESULTS.glob("*.json"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    records = [record for record in records if not record["quick"]]
    papers = by_paper(records)
    contents = [".. toctree::", "   :hidden:", "", *(f"   {label}" for label in papers), ""]
    pages = {"index": [INTRODUCTION, *summary(records), *contents]}
    for label, of_paper in papers.items():
        title = paper_title(label, of_paper)
        paper = f":ref:`{label} <paper-{label.lower()}>`"
        about = f":doc:`index` says how to read the tables, and {paper} is the paper."
        sections = [line for record in of_paper for line in section(record)]
        pages[label] = [title, "=" * len(title), "", about, "", *sections]
    PAGES.mkdir(exist_ok=True)
    for name, lines in pages.items():
        text = "\n".join(lines).rstrip() + "\n"
        (PAGES / f"{name}.rst").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
