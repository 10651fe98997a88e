"""``clusterica reproduce``: list the experiments, run one and show it on a page; the demo runs some, too."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from clusterica.arrays import on_torch_device
from clusterica.cli._console import show_table, stop
from clusterica.cli._files import check_folder
from clusterica.display import check_matplotlib
from clusterica.experiments import Experiment, IncompleteError, Outcome, available, find, run
from clusterica.files import write_file
from clusterica.report import Page


def list_experiments() -> None:
    """Print the experiments, grouped by paper, with the run time and the data and device they need."""
    console = Console(highlight=False)
    groups: dict[str, list[Experiment]] = {}
    for entry in available():
        groups.setdefault(entry.group, []).append(entry)
    for group, entries in groups.items():
        console.print(f"\n[bold]{escape(group)}[/]", soft_wrap=True)
        table = Table(box=None, pad_edge=False, show_header=False)
        times = [
            "" if e.minutes is None else "< 1 min" if e.minutes < 1 else f"{e.minutes:.0f} min"
            for e in entries
        ]
        cells = [(e.name, e.title, t, e.needs) for e, t in zip(entries, times, strict=True)]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        # One line each: where the terminal is narrow the titles are cut, and nothing else.
        widths[1] = max(20, min(widths[1], console.width - widths[0] - widths[2] - widths[3] - 6))
        for i, width in enumerate(widths):
            table.add_column(no_wrap=True, width=width, justify="right" if i == 2 else "left")
        for row in cells:
            table.add_row(*map(escape, row))
        console.print(table, crop=False)
    console.print(
        "\nTimes are those of full runs; --quick takes a minute or two at most. "
        "Give the folder of a data set with --data, and run on a GPU with --device cuda."
    )


def run_one(
    name: str,
    *,
    quick: bool,
    output: Path,
    seed: int,
    data: Path | None,
    device: str | None,
    rows: tuple[str, ...],
    fresh: bool,
) -> None:
    """Run one experiment and print its table and the paths of its files."""
    console = Console(highlight=False)
    experiment = ready(name, output=output, data=data, device=device, rows=rows)
    outcome = run_watched(
        experiment,
        console=console,
        quick=quick,
        output=output,
        seed=seed,
        data=data,
        device=device,
        rows=rows,
        fresh=fresh,
    )
    console.print(f"\n{experiment.paper}\n{experiment.claim}\n", markup=False)
    show_table(console, outcome.result.rows, outcome.result.columns)
    for check in outcome.result.checks:
        console.print(str(check), markup=False)
    console.print(f"{outcome.result.note}\n", style="dim", markup=False)
    page = Page(experiment.title)
    if quick:
        warning = (
            "This was a quick run with less data and smaller models. "
            "Do not compare its numbers with those of the paper."
        )
        console.print(f"{warning}\n")
        page.add_text(warning)
    add_outcome(page, outcome)
    html = outcome.json_path.with_suffix(".html")
    write_file(html, page.html())
    for path in (html, outcome.json_path, *outcome.picture_paths):
        console.print(str(path), soft_wrap=True, markup=False)


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
        if experiment.draws and not rows:  # chosen rows are saved, and drawn when all are there
            check_matplotlib(f"Experiment {experiment.name}")
        if device is not None:
            on_torch_device(np.empty(0), device)  # raises if there is none
    except (ImportError, ValueError) as error:
        stop(str(error))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        stop(f"cannot create {output}: {error.strerror}. Choose another folder with -o.")
    check_folder(output)
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
