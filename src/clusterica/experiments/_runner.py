"""Run an experiment and write NAME.json, with its numbers and settings, and NAME.png."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clusterica import __version__
from clusterica.display import check_matplotlib
from clusterica.experiments._context import Context, Progress
from clusterica.experiments._registry import Experiment, find
from clusterica.experiments._result import Picture, Result
from clusterica.report import png_bytes


class Outcome(NamedTuple):
    """A run and the files it left."""

    experiment: Experiment
    """What was run."""
    result: Result
    """What it measured."""
    quick: bool
    """Whether it was the quick version."""
    seconds: float
    """How long it took, the writing of files aside."""
    json_path: Path
    """File with the numbers."""
    picture_paths: tuple[Path, ...]
    """PNG files, in the order of the result's pictures."""


def run(
    name: str,
    *,
    quick: bool = False,
    output: str | Path = ".",
    seed: int = 0,
    callbacks: tuple[Any, ...] = (),
    progress: Progress | None = None,
    data: str | Path | None = None,
    device: str | None = None,
) -> Outcome:
    """Run one experiment and write its files.

    Parameters
    ----------
    name : str
        Such as ``P1-fig1``; :func:`available` lists all.
    quick : bool, default=False
        Whether a few seconds must do.
    output : str or Path, default="."
        Folder for the files, made where missing.
    seed : int, default=0
        Seed of everything random in the run.
    callbacks : tuple of scikit-learn callbacks, default=()
        Set on the estimators, such as ``sklearn.callback.ProgressBar()``.
    progress : callable, default=None
        ``progress(items, description)`` returns the items while it shows how many are done.
    data : str or Path, default=None
        Folder with the official files of data sets, for experiments on real images.
    device : str, default=None
        Torch device to put images on, such as "cuda"; None works on NumPy arrays.

    Returns
    -------
    Outcome
    """
    chosen = find(name)
    if chosen.draws:
        check_matplotlib(f"Experiment {chosen.name}")  # before the work, not after it
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

    start = time.perf_counter()
    result = chosen.run(context)
    seconds = time.perf_counter() - start

    pictures = tuple(_write_picture(picture, chosen.name, folder) for picture in result.pictures)
    record = {
        "name": chosen.name,
        "title": chosen.title,
        "paper": chosen.paper,
        "claim": chosen.claim,
        "version": __version__,
        "seed": seed,
        "quick": quick,
        "seconds": round(seconds, 3),
        "settings": dict(result.settings),
        "values": dict(result.values),
        "columns": list(result.columns),
        "rows": [list(row) for row in result.rows],
        "note": result.note,
        "pictures": [path.name for path in pictures],
    }
    json_path = folder / f"{chosen.name}.json"
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    json_path.write_text(text + "\n", encoding="utf-8")
    return Outcome(chosen, result, quick, seconds, json_path, pictures)


def _write_picture(picture: Picture, name: str, folder: Path) -> Path:
    """Write a picture as NAME.png, or NAME-b.png for one that is named b."""
    path = folder / (f"{name}-{picture.name}.png" if picture.name else f"{name}.png")
    path.write_bytes(png_bytes(picture.figure))
    return path


def _plain(value: Any) -> Any:
    """Turn NumPy numbers and arrays into what JSON knows."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} does not go into JSON; give plain numbers and text.")
