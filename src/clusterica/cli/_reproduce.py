"""``clusterica reproduce``: run one experiment, or list all of them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clusterica.cli._console import show_table
from clusterica.cli._files import new_file
from clusterica.cli._running import add_outcome, ready, run_watched
from clusterica.experiments import Experiment, available
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
        cells = [(e.name, e.title, _time(e.minutes), e.needs) for e in entries]
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
    with new_file(html) as file:
        file.write_text(page.html(), encoding="utf-8")
    for path in (html, outcome.json_path, *outcome.picture_paths):
        console.print(str(path), soft_wrap=True, markup=False)


def _time(minutes: float | None) -> str:
    if minutes is None:
        return ""
    return "< 1 min" if minutes < 1 else f"{minutes:.0f} min"
