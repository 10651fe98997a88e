"""Run an experiment for a command, with progress bars and one-line error messages, and show it on a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from clusterica.arrays import on_torch_device
from clusterica.cli._console import stop
from clusterica.display import check_matplotlib
from clusterica.experiments import Experiment, IncompleteError, Outcome, find, run
from clusterica.report import Page


def ready(
    name: str,
    *,
    output: Path,
    data: Path | None = None,
    device: str | None = None,
    rows: tuple[str, ...] = (),
) -> Experiment:
    """Find an experiment, check its options and create its folder; exit with a message if that fails."""
    try:
        experiment = find(name)
    except LookupError as error:
        stop(str(error), code=2)
    for option, value in (("data", data), ("device", device), ("rows", rows or None)):
        if value is not None and option not in experiment.options:
            stop(f"{experiment.name} does not use --{option}; leave it out.", code=2)
    try:
        if experiment.draws:
            check_matplotlib(f"Experiment {experiment.name}")
        if device is not None:
            on_torch_device(np.empty(0), device)  # raises if there is none
    except (ImportError, ValueError) as error:
        stop(str(error))
    try:
        output.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=output):
            pass  # raises if the folder is not writable
    except OSError as error:
        stop(f"cannot write to {output}: {error.strerror}. Choose a folder with --output.")
    return experiment


def run_watched(
    experiment: Experiment,
    *,
    console: Console,
    quick: bool,
    output: Path,
    seed: int = 0,
    data: Path | None = None,
    device: str | None = None,
    rows: tuple[str, ...] = (),
    fresh: bool = False,
) -> Outcome:
    """Run an experiment and print how long it took."""
    console.print(f"[bold]{experiment.name}[/]  {experiment.title}")
    callbacks: tuple[Any, ...] = ()
    if console.is_terminal:  # no progress bars in files and logs
        from sklearn.callback import ProgressBar

        callbacks = (ProgressBar(),)

    def progress(items: Collection[Any], description: str) -> Iterable[Any]:
        return track(items, description, console=console, disable=not console.is_terminal)

    try:
        outcome = run(
            experiment.name,
            quick=quick,
            output=output,
            seed=seed,
            callbacks=callbacks,
            progress=progress,
            data=data,
            device=device,
            rows=rows,
            fresh=fresh,
        )
    except IncompleteError as progress_so_far:
        console.print(str(progress_so_far), markup=False)
        raise SystemExit(0) from None  # some rows are done, as asked: no error
    except OSError as error:
        where = " Give the folder that contains the data set with --data." if data is None else ""
        stop(f"{experiment.name} stopped: {error}{where}")
    except (ValueError, ImportError) as error:
        stop(f"{experiment.name} stopped: {error}")
    console.print(f"done in {outcome.seconds:.1f} s", style="dim")
    return outcome


def add_outcome(page: Page, outcome: Outcome) -> None:
    """Add an outcome to a page: claim, figures, numbers, checks, and the command to repeat it."""
    experiment, result = outcome.experiment, outcome.result
    page.add_text(f"The claim, from {experiment.paper}: {experiment.claim}")
    for picture in result.pictures:
        page.add_figure(picture.figure, picture.caption, alt=picture.alt)
    page.add_table(result.rows, result.columns)
    for check in result.checks:
        page.add_text(str(check))
    page.add_text(result.note)
    page.add_text(f"This took {outcome.seconds:.1f} seconds. To run it again:")
    quick = " --quick" if outcome.quick else ""
    page.add_code(f"clusterica reproduce {experiment.name}{quick}")
