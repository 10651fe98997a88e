"""Long experiments in parts: each row of a table is computed once, saved in a file, and joined by the code.

A part is saved as ``NAME-parts/ROW.json`` as soon as it is done, so that a run can be resumed, and
several processes can share the work. When all parts are done they move into ``NAME.json``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from clusterica.files import write_file

# Joining reads and writes a few small files: after so many seconds its process was killed in the middle.
STALE = 60


class IncompleteError(Exception):
    """Some parts of an experiment are done and saved, others are not computed yet."""

    def __init__(self, name: str, done: list[str], missing: list[str]) -> None:
        self.name, self.done, self.missing = name, done, missing
        super().__init__(
            f"{name}: {len(done)} of {len(done) + len(missing)} parts are done. Missing: "
            f"{'; '.join(missing)}. Run the same command without --rows, or with --rows for these."
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
        Whether to recompute parts that are saved already.
    """

    name: str
    folder: Path
    stamp: Callable[[datetime, float], dict[str, Any]]
    rows: tuple[str, ...] = ()
    fresh: bool = False
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The parts whose values the experiment has read."""
    _computed: set[str] = field(default_factory=set)
    _known: dict[str, Any] = field(default_factory=dict)
    """The settings of this run for each part."""

    def __post_init__(self) -> None:
        self._read()

    def compute(
        self, name: str, job: Callable[[], Any], settings: Mapping[str, Any], *, always: bool
    ) -> None:
        """Compute a part and save it, unless it is saved already or not in ``rows``.

        A saved part must have the same settings. ``always`` is for parts that all rows need: they are
        computed for any ``rows``.
        """
        settings = self._known[name] = _through_json(settings)
        wanted = always or not self.rows or name in self.rows
        # Parts that all rows need are not recomputed for each call with --rows.
        again = self.fresh and name not in self._computed and not (always and self.rows)
        if wanted and (again or name not in self.parts):
            started, start = datetime.now(UTC), time.perf_counter()
            value = _through_json(job())
            made = self.stamp(started, time.perf_counter() - start)
            part = {"row": name, "settings": settings, "made": made, "value": value}
            self._parts_folder.mkdir(parents=True, exist_ok=True)
            # A name such as "RICA, 8 x 8" becomes one that all file systems accept.
            file_name = re.sub(r"[^\w.-]+", "-", name)
            write_json(self._parts_folder / f"{file_name}.json", part)
            self.parts[name] = part
            self._computed.add(name)
        elif name in self.parts:
            self._check_settings(name)

    def values(self, names: Collection[str], *, optional: Collection[str] = ()) -> dict[str, Any]:
        """Return the values of parts by name, as read from JSON, without optional ones that are missing."""
        self._read()  # what other processes have finished in the meantime
        done = [name for name in names if name in self.parts]
        for name in done:
            self._check_settings(name)
        if {*names} - {*done} - {*optional}:
            self.check_rows()
            missing = [name for name in names if name not in self.parts]
            raise IncompleteError(self.name, done, missing)
        self.seen |= {name: self.parts[name] for name in done}
        return {name: self.parts[name]["value"] for name in done}

    def check_rows(self) -> None:
        """Raise an error if ``rows`` contains a name that is no part of the experiment."""
        for row in self.rows:
            if row not in self._known:
                known = "; ".join(self._known)
                raise ValueError(f"{self.name} has no row {row!r}; --rows takes: {known}")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from joining parts meanwhile: one would overwrite the file of the other."""
        lock = self.folder / f"{self.name}.lock"
        while True:
            try:
                lock.touch(exist_ok=False)
                break
            except FileExistsError:
                with suppress(FileNotFoundError):  # the other process has just ended
                    if time.time() - lock.stat().st_mtime > STALE:
                        lock.unlink()
            time.sleep(0.05)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)

    def join(self) -> dict[str, dict[str, Any]]:
        """Return the parts in the order of the experiment, for its file.

        They are more than what the experiment has seen if another process has saved some since.
        """
        self._read()
        return {name: self.parts[name] for name in self._known if name in self.parts}

    def clean(self) -> None:
        """Remove the files of the parts, once they are in the file of the experiment."""
        for path, part in self._saved():
            # Another process may have saved a part since.
            if part == self.parts.get(part["row"]):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # not there, or not empty
            self._parts_folder.rmdir()

    def _check_settings(self, name: str) -> None:
        """Refuse a part of other settings than those of this run: rows of a table must be comparable."""
        there, settings = self.parts[name]["settings"], self._known[name]
        differing = [k for k in {**there, **settings} if there.get(k) != settings.get(k)]
        if differing:
            words = ", ".join(
                f"{k} was {there.get(k)!r} and is now {settings.get(k)!r}" for k in differing
            )
            raise ValueError(
                f"row {name!r} of {self.name} was saved by a run with other settings ({words}); "
                "recompute it with --fresh, or write to another --output folder"
            )

    def _read(self) -> None:
        """Read what is saved, also by other processes, but for what this one has computed: that is newer."""
        # First the files of parts: what another process joins after that is in the file of the experiment.
        saved = {part["row"]: part for _, part in self._saved()}
        joined = self.folder / f"{self.name}.json"
        if joined.exists():
            saved = json.loads(joined.read_text(encoding="utf-8")).get("parts", {}) | saved
        self.parts |= {row: part for row, part in saved.items() if row not in self._computed}

    def _saved(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the files of parts, and the parts."""
        for path in sorted(self._parts_folder.glob("*.json")):
            with suppress(FileNotFoundError):  # another process has just joined all parts
                yield path, json.loads(path.read_text(encoding="utf-8"))

    @property
    def _parts_folder(self) -> Path:
        return self.folder / f"{self.name}-parts"


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file in one step, so that an interrupted run leaves no incomplete file."""
    write_file(path, _json(content) + "\n")


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)


def _through_json(content: Any) -> Any:
    """Return content as read back from JSON, so that computed and saved parts are equal."""
    return json.loads(_json(content))


def _plain(value: Any) -> Any:
    """Convert NumPy numbers and arrays for JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(
        f"{type(value).__name__} cannot be written to JSON; use plain numbers and text."
    )
