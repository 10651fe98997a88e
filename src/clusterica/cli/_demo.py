"""``clusterica demo``: two experiments on one HTML page, with the claims of the papers."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from clusterica.cli._console import stop
from clusterica.cli._running import ready, run_watched
from clusterica.experiments import Outcome
from clusterica.report import Page

NAMES = ("P1-fig1", "P1-fig2")
INTRODUCTION = (
    "K-means on whitened data tends to find what ICA finds: the directions in which the data is "
    "sparse. This page reproduces two figures of the papers that show it."
)


def run_demo(*, output: Path, quick: bool) -> None:
    """Run the experiments of the demo and write the page."""
    console = Console(highlight=False)
    # All are checked first, so that a missing library is reported before a minute of work.
    experiments = [ready(name, output=output) for name in NAMES]
    outcomes = [
        run_watched(experiment, console=console, quick=quick, output=output)
        for experiment in experiments
    ]
    try:
        path = demo_page(outcomes).write(output / "index.html")
    except OSError as error:
        stop(f"cannot write the page: {error}. Choose a folder with --output.")
    console.print("\n[bold]Open this page in a browser:[/]")
    console.print(str(path), soft_wrap=True, markup=False)


def demo_page(outcomes: list[Outcome]) -> Page:
    """Return a page with a section for each outcome: claim, figure, numbers and the command to repeat it."""
    page = Page("clusterica: features from unlabeled data")
    page.add_text(INTRODUCTION)
    for outcome in outcomes:
        experiment, result = outcome.experiment, outcome.result
        page.add_heading(experiment.title)
        page.add_text(f"The claim, from {experiment.paper}: {experiment.claim}")
        for picture, path in zip(result.pictures, outcome.picture_paths, strict=True):
            page.add_figure(path, picture.caption, alt=picture.alt)
        page.add_table(result.rows, result.columns)
        for check in result.checks:
            page.add_text(str(check))
        page.add_text(result.note)
        page.add_text(f"This took {outcome.seconds:.1f} seconds. To run it again:")
        quick = " --quick" if outcome.quick else ""
        page.add_code(f"clusterica reproduce {experiment.name}{quick}")
    return page
