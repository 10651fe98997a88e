"""``clusterica reproduce``: run one experiment, or list all of them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clusterica.cli._console import show_table
from clusterica.cli._running import ready, run_watched
from clusterica.experiments import Experiment, available


def list_experiments() -> None:
    """Print the experiments, grouped by paper, with the run time and the data and device they need."""
    console = Console(highlight=False)
    groups: dict[str, list[Experiment]] = {}
    for entry in available():
        groups.setdefault(entry.group, []).append(entry)
    for group, entries in groups.items():
        console.print(f"\n[bold]{escape(group)}[/]", soft_wrap=True)
        table = Table("name", "shows", "time", "data, device", box=None, pad_edge=False)
        for entry in entries:
            table.add_row(entry.name, escape(entry.title), _time(entry), escape(entry.needs) or "-")
        console.print(table)
    console.print(
        "\nThe times are those of full runs; --quick takes a minute or two at most. "
        "Give the folder of a data set with --data, and run on a GPU with --device cuda."
    )


def _time(entry: Experiment) -> str:
    if entry.minutes is None:
        return ""
    return f"{entry.minutes:.0f} min" if entry.minutes >= 1 else "under 1 min"


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
    if quick:
        console.print(
            "This was a quick run with less data and smaller models. "
            "Do not compare its numbers with those of the paper.\n"
        )
    for path in (outcome.json_path, *outcome.picture_paths):
        console.print(str(path), soft_wrap=True, markup=False)
