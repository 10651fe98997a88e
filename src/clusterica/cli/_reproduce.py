"""``clusterica reproduce``: one experiment in the terminal, or the list of all."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clusterica.cli._console import show_table
from clusterica.cli._running import ready, run_watched
from clusterica.experiments import Experiment, available


def list_experiments() -> None:
    """Print the experiments, paper by paper, with the time and what a full run needs."""
    console = Console(highlight=False)
    groups: dict[str, list[Experiment]] = {}
    for entry in available():
        groups.setdefault(entry.group, []).append(entry)
    for group, entries in groups.items():
        console.print(f"\n[bold]{escape(group)}[/]", soft_wrap=True)
        table = Table(box=None, show_header=False, pad_edge=False)
        for entry in entries:
            table.add_row(entry.name, escape(entry.title), _time(entry), escape(entry.needs))
        console.print(table)
    console.print("\nTimes are those of full runs; --quick takes a minute or two at most.")


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
    """Run one experiment, print its table and where its files are."""
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
            "A quick run: less data and smaller models, not to be compared with the paper's figures.\n"
        )
    for path in (outcome.json_path, *outcome.picture_paths):
        console.print(str(path), soft_wrap=True, markup=False)
