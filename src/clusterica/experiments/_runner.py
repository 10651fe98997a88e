"""Run an experiment and write NAME.json (numbers, settings, provenance) and NAME.png."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from clusterica.display import check_matplotlib
from clusterica.experiments._context import Context, Track
from clusterica.experiments._parts import PartStore, write_json
from clusterica.experiments._provenance import provenance, source_commit
from clusterica.experiments._registry import Experiment, find
from clusterica.experiments._result import Result
from clusterica.files import write_file
from clusterica.report import png_bytes


class Outcome(NamedTuple):
    """A finished run and its files."""

    experiment: Experiment
    """The experiment."""
    result: Result
    """Its result."""
    quick: bool
    """Whether it was a quick run."""
    seconds: float
    """Run time, without writing the files and without parts that were saved before."""
    json_path: Path
    """File with the numbers."""
    picture_paths: tuple[Path, ...]
    """PNG files, in the order of the result's pictures."""
    parts: Mapping[str, Any]
    """Values of the parts of a long experiment by name; empty for others."""


def run(
    name: str,
    *,
    quick: bool = False,
    output: str | Path = ".",
    seed: int = 0,
    callbacks: tuple[Any, ...] = (),
    progress: Track | None = None,
    data: str | Path | None = None,
    device: str | None = None,
    rows: tuple[str, ...] = (),
    fresh: bool = False,
) -> Outcome:
    """Run one experiment and write its files.

    Parameters
    ----------
    name : str
        Such as ``P1-fig1``; :func:`available` lists all.
    quick : bool, default=False
        Whether to run a small version that takes seconds.
    output : str or Path, default="."
        Folder for the files; created if missing.
    seed : int, default=0
        Random seed of the run.
    callbacks : tuple of scikit-learn callbacks, default=()
        Set on the estimators, such as ``sklearn.callback.ProgressBar()``.
    progress : callable, default=None
        ``progress(items, description)`` yields the items and shows a progress bar.
    data : str or Path, default=None
        Folder with the data sets, for experiments on real images.
    device : str, default=None
        PyTorch device for the images, such as "cuda"; None uses NumPy arrays.
    rows : tuple of str, default=()
        Rows of a long table to compute; empty computes all that are not saved in the folder. Of the
        others, those that the table can do without are left out if they are not saved.
    fresh : bool, default=False
        Whether to recompute rows that are saved already.

    Returns
    -------
    Outcome

    Raises
    ------
    IncompleteError
        If ``rows`` leaves out rows that the table needs and that are not saved in the folder. The computed
        rows are saved.
    """
    chosen = find(name)
    if rows and "rows" not in chosen.options:
        raise ValueError(f"{chosen.name} has no rows to choose; leave rows out")
    if chosen.draws and not rows:
        # Before the work starts. Chosen rows are saved as they are done, and drawn when all are there.
        check_matplotlib(f"Experiment {chosen.name}")
    folder = Path(output).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    context = Context(
        quick=quick,
        output=folder,
        seed=seed,
        callbacks=callbacks,
        progress=progress,
        data=None if data is None else Path(data),
        device=device,
    )
    commit = source_commit()  # now: the tree may change while the experiment runs

    def stamp(started: datetime, seconds: float) -> dict[str, Any]:
        return provenance(context, commit, started=started, seconds=seconds)

    store = PartStore(chosen.name, folder, stamp, tuple(rows), fresh)

    started, seconds = datetime.now(UTC), 0.0
    json_path = folder / f"{chosen.name}.json"
    while True:
        start = time.perf_counter()
        result = chosen.run(replace(context, store=store))
        store.check_rows()
        seconds += time.perf_counter() - start
        pictures = _drawn(chosen, result, folder)
        with store.alone():
            parts = store.join()
            # Rows that another process has saved meanwhile get into the table too: once more, with all saved.
            if parts == store.seen:
                for path, picture in pictures:
                    write_file(path, picture)
                paths = tuple(path for path, _ in pictures)
                record = _record(chosen, result, paths, quick, stamp(started, seconds), parts)
                write_json(json_path, record)
                store.clean()
                break
    values = {row: part["value"] for row, part in parts.items()}
    return Outcome(chosen, result, quick, seconds, json_path, paths, values)


def _drawn(chosen: Experiment, result: Result, folder: Path) -> list[tuple[Path, bytes]]:
    """Return the pictures and the paths of their files: NAME.png, or NAME-b.png for one that is named b."""
    names = [f"-{picture.name}" if picture.name else "" for picture in result.pictures]
    return [
        (folder / f"{chosen.name}{name}.png", png_bytes(picture.figure))
        for name, picture in zip(names, result.pictures, strict=True)
    ]


def _record(
    chosen: Experiment,
    result: Result,
    paths: tuple[Path, ...],
    quick: bool,
    made: dict[str, Any],
    parts: dict[str, Any],
) -> dict[str, Any]:
    """Return what is written to NAME.json."""
    return {
        "name": chosen.name,
        "title": chosen.title,
        "paper": chosen.paper,
        "claim": chosen.claim,
        "quick": quick,
        "made": made,
        "settings": dict(result.settings),
        "values": dict(result.values),
        "columns": list(result.columns),
        "rows": [list(row) for row in result.rows],
        "checks": [check._asdict() for check in result.checks],
        "note": result.note,
        "pictures": [
            {"file": path.name, "caption": picture.caption, "alt": picture.alt}
            for path, picture in zip(paths, result.pictures, strict=True)
        ],
        "parts": parts,
    }
