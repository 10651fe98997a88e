"""Long experiments in parts: each row of a table is computed once, kept in a file, and joined by the code.

A part is kept as ``NAME-parts/ROW.json`` as soon as it is done, so that a run can be stopped and resumed, and
several processes can share the work. When all parts are there they move into ``NAME.json``.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np


class IncompleteError(Exception):
    """Some parts of an experiment are done and kept, others are not computed yet."""

    def __init__(self, name: str, done: list[str], missing: list[str]) -> None:
        self.name, self.done, self.missing = name, done, missing
        super().__init__(
            f"{name}: {len(done)} of {len(done) + len(missing)} parts are done. Missing: "
            f"{'; '.join(missing)}. Run the same command again without --rows, or with these."
        )


@dataclass
class PartStore:
    """The parts of one experiment, in memory and on disk.

    Parameters
    ----------
    name : str
        Name of the experiment.
    folder : Path
        Folder of its results.
    stamp : callable
        ``stamp(started, seconds)`` returns the provenance of a part.
    rows : tuple of str
        Parts to compute; empty computes all.
    fresh : bool
        Whether to compute parts again that are there already.
    """

    name: str
    folder: Path
    stamp: Callable[[datetime, float], dict[str, Any]]
    rows: tuple[str, ...] = ()
    fresh: bool = False
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _computed: set[str] = field(default_factory=set)
    _known: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read()

    def compute(
        self, name: str, job: Callable[[], Any], settings: Mapping[str, Any], *, always: bool
    ) -> None:
        """Compute a part and keep it, unless it is there already or ``rows`` asks for others.

        A part that is there must come from the same settings. ``always`` is for parts that all rows need:
        they are computed whatever ``rows`` asks for.
        """
        self._known.append(name)
        settings = _through_json(settings)
        wanted = always or not self.rows or name in self.rows
        again = self.fresh and not (always and self.rows)
        if wanted and (again or name not in self.parts):
            self._keep(name, job, settings)
        elif name in self.parts:
            _check_settings(self.name, name, self.parts[name]["settings"], settings)

    def values(self, names: Collection[str]) -> dict[str, Any]:
        """Return the values of parts by name, as JSON gives them back."""
        self._read()  # what other processes have finished in the meantime
        missing = [name for name in names if name not in self.parts]
        if missing:
            self.check_rows()
            raise IncompleteError(self.name, [n for n in names if n in self.parts], missing)
        return {name: self.parts[name]["value"] for name in names}

    def check_rows(self) -> None:
        """Raise an error if ``rows`` names something that is no part of the experiment."""
        for row in self.rows:
            if row not in self._known:
                known = "; ".join(self._known)
                raise ValueError(f"{self.name} has no row {row!r}; --rows takes: {known}")

    def join(self) -> dict[str, dict[str, Any]]:
        """Return the parts of the experiment in its own order, for its file."""
        return {name: self.parts[name] for name in self._known}

    def clean(self) -> None:
        """Remove the files of the parts, once they are in the file of the experiment."""
        shutil.rmtree(self._parts_folder, ignore_errors=True)

    def _keep(self, name: str, job: Callable[[], Any], settings: Mapping[str, Any]) -> None:
        started, start = datetime.now(UTC), time.perf_counter()
        value = _through_json(job())
        made = self.stamp(started, time.perf_counter() - start)
        part = {"row": name, "settings": settings, "made": made, "value": value}
        self._parts_folder.mkdir(parents=True, exist_ok=True)
        file_name = re.sub(r"[^\w.-]+", "-", name)
        write_json(self._parts_folder / f"{file_name}.json", part)
        self.parts[name] = part
        self._computed.add(name)

    def _read(self) -> None:
        joined = self.folder / f"{self.name}.json"
        if joined.exists() and not self.parts:
            self.parts |= json.loads(joined.read_text(encoding="utf-8")).get("parts", {})
        for path in sorted(self._parts_folder.glob("*.json")):
            try:
                part = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:  # another process has just joined all parts
                continue
            if part["row"] not in self._computed:
                self.parts[part["row"]] = part

    @property
    def _parts_folder(self) -> Path:
        return self.folder / f"{self.name}-parts"


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file whole or not at all, so that a stopped run leaves no half of one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(_json(content) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)


def _through_json(content: Any) -> Any:
    """Return content as JSON gives it back, so that computed and stored parts are alike."""
    return json.loads(_json(content))


def _plain(value: Any) -> Any:
    """Turn NumPy numbers and arrays into what JSON knows."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} does not go into JSON; give plain numbers and text.")


def _check_settings(
    experiment: str, row: str, there: Mapping[str, Any], here: Mapping[str, Any]
) -> None:
    differing = [key for key in {**there, **here} if there.get(key) != here.get(key)]
    if differing:
        words = ", ".join(
            f"{k} is {there.get(k)!r} there and {here.get(k)!r} here" for k in differing
        )
        raise ValueError(
            f"row {row!r} of {experiment} is there from a run with other settings ({words}); compute it "
            "again with --fresh, or write to another --output folder"
        )
