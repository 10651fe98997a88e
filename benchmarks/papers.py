"""Write ``docs/results.rst`` from what experiments left in ``results/``: tables, checks and pictures."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.tables import rst_table

ROOT = Path(__file__).parent.parent
RESULTS, PAGE, IMAGES = ROOT / "results", ROOT / "docs" / "results.rst", ROOT / "docs" / "images"
INTRODUCTION = """\
The papers' tables, and ours
============================

The tables below are made from the files that ``clusterica reproduce NAME`` leaves; the label P0 to P4 names
the paper, see :doc:`papers`. Each section ends with the commit, device and time of its run. Some values are
older than this tracing, or were put together from several runs: the section says so, and they are to be run
again. Where an experiment needs files of a data set, it was given them by ``--data``. A check is one thing
that the paper says; the experiment's code decides from the measured values whether it holds.
"""
# What experiments have gained since their files were made, until they are run again.
_WHITE = ("kRICA, white", "d-kRICA, white")
GAINED: dict[str, tuple[str, ...]] = {
    **{
        f"P4-{where}": _WHITE
        for where in ("table1", "table2", "table3", "table4", "fig1", "fig4", "fig5")
    },
    "P4-fig2": _WHITE[:1],
    "P4-fig3": _WHITE[1:],
}
UNTRACED = "This file is older than the tracing of results: it does not say its commit."


def summary(records: list[dict[str, Any]]) -> list[str]:
    """Return a table for each paper: how many checks of each experiment hold, and where it was run."""
    papers: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        papers.setdefault(record["name"].split("-")[0], []).append(record)
    lines = ["Summary", "-------", ""]
    for label, of_paper in papers.items():
        names = [re.split(r"\d{4}", record["paper"])[0] for record in of_paper]
        year = re.search(r"\d{4}", of_paper[0]["paper"])
        title = f"{label}: {names[0].strip()} {year[0] if year else ''}".strip()
        lines += [_text(title), "~" * len(title), ""]
        rows = [
            [
                f"`{record['name']}`_",
                _text(record["title"]),
                _holding(record),
                _text(", ".join(_made(record, "device")) or "not known"),
                ", ".join(_commits(record)) or "not known",
            ]
            for record in of_paper
        ]
        lines += rst_table(["Experiment", "What", "Checks that hold", "Device", "Commit"], rows)
    return lines


def section(record: dict[str, Any]) -> list[str]:
    """Return the part of the page about one experiment."""
    title = _text(f"{record['name']}: {record['title']}")
    said = _text(f"{record['paper']}. {record['claim']}")
    lines = [f".. _{record['name']}:", "", title, "-" * len(title), "", said, ""]
    rows = [[_cell(value) for value in row] for row in record["rows"]]
    lines += rst_table([_cell(c) for c in record["columns"]], rows)
    lines += [_text(record["note"]), ""]
    written = json.dumps([record["columns"], record["rows"]], ensure_ascii=False)
    # Quoted, since "kRICA, white" is the end of another name too; columns go on with a comma.
    absent = [name for name in GAINED.get(record["name"], ()) if f'"{name}' not in written]
    if absent:
        lines += [
            f"The experiment has more since: {'; '.join(absent)}. They are still to be run.",
            "",
        ]
    if "C" in record["columns"] and record.get("version") == "0.1.0.dev0":
        # A result file is left as its run wrote it.
        lines += [
            "C is that of ``LinearSVC`` before 0.1.0: now it is divided by the number of rows.",
            "",
        ]
    for name in record["pictures"]:
        source = RESULTS / name
        if source.exists():
            shutil.copyfile(source, IMAGES / name)
            lines += [f".. image:: images/{name}", f"   :alt: {record['title']}", ""]
    for check in record.get("checks", ()):
        verdict = "Holds" if check["holds"] else "Does not hold"
        lines.append(f"- {verdict}: {_text(check['claim'])} ({_text(check['found'])}).")
    return [*lines, "", provenance(record), ""]


def provenance(record: dict[str, Any]) -> str:
    """Return the sentence that says where a result comes from."""
    if "made" not in record:
        return UNTRACED
    stamps = [stamp for stamp in _stamps(record) if "untraced" not in stamp]
    older = _made_of(_stamps(record), "untraced")
    if not stamps:
        return _text(f"Values are {older[0]}: it does not say their commit.")
    commits = _commits(record)
    changed = any(stamp["uncommitted_changes"] for stamp in stamps)
    seconds = sum(stamp["seconds"] for stamp in stamps)
    took = f"{seconds:.0f} seconds" if seconds < 180 else f"{seconds / 60:.0f} minutes"
    parts = f" in {len(stamps)} parts" if record.get("parts") else ""
    where = ", ".join(commits) if commits else "a commit that is not known"
    name = "Commit" if len(commits) < 2 else "Commits"
    days = sorted({stamp["started"][:10] for stamp in stamps})
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    said = (
        f"{name} {where}{' with uncommitted changes' if changed else ''}; seed {record['made']['seed']}; "
        f"{', '.join(_made(record, 'device'))}; {took}{parts}; {when}."
    )
    return _text(said + (f" Other parts are {older[0]}." if older else ""))


def _stamps(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the provenance of every part, or of the whole where there are none."""
    parts = record.get("parts") or {}
    return [part["made"] for part in parts.values()] or [record["made"]]


def _made(record: dict[str, Any], key: str) -> list[str]:
    """Return what the parts say under a key, each once."""
    return _made_of(_stamps(record), key) if "made" in record else []


def _made_of(stamps: list[dict[str, Any]], key: str) -> list[str]:
    return _once(stamp.get(key) for stamp in stamps)


def _commits(record: dict[str, Any]) -> list[str]:
    return [commit[:7] for commit in _made(record, "commit")]


def _once(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _holding(record: dict[str, Any]) -> str:
    checks = record.get("checks", ())
    return f"{sum(check['holds'] for check in checks)} of {len(checks)}" if checks else "none made"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return _text(" ".join(str(value).split())) or r"\ "


def _text(words: str) -> str:
    """Return words of which none is taken for markup: a star, a bar or a backtick is what it is."""
    return re.sub(r"([\\*|`])", r"\\\1", words)


def main() -> None:
    """Write the page."""
    files = sorted(RESULTS.glob("*.json"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    records = [record for record in records if not record["quick"]]
    lines = [INTRODUCTION, *summary(records)]
    for record in records:
        lines += section(record)
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
