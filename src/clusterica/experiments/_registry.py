"""The experiments by name. Each paper has a folder, and each of its tables and figures a module in it."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import NamedTuple

from clusterica.experiments._context import Context
from clusterica.experiments._result import Result

Run = Callable[[Context], Result]

_registered: dict[str, Experiment] = {}


class Experiment(NamedTuple):
    """One table or figure of a paper."""

    name: str
    """Name on the command line, such as ``P1-fig1``."""
    title: str
    """Title, in one line."""
    paper: str
    """Paper and figure or table."""
    claim: str
    """Claim of the paper."""
    run: Run
    """The function that runs it."""
    draws: bool = True
    """Whether it draws figures, and so needs matplotlib."""
    options: tuple[str, ...] = ()
    """Which of "data", "device" and "rows" it takes."""
    needs: str = ""
    """Data sets and device that a full run needs, as text."""
    minutes: float | None = None
    """Approximate run time of a full run, in minutes."""

    @property
    def group(self) -> str:
        """Authors, year and title of the paper: the docstring of the folder of the experiment."""
        package = self.run.__module__.rpartition(".")[0]
        return (sys.modules[package].__doc__ or package).strip().rstrip(".")


def experiment(
    name: str,
    *,
    title: str,
    paper: str,
    claim: str,
    draws: bool = True,
    options: tuple[str, ...] = (),
    needs: str = "",
    minutes: float | None = None,
) -> Callable[[Run], Run]:
    """Register the decorated function as an experiment.

    Parameters
    ----------
    name : str
        Name on the command line and of the files that a run writes.
    title : str
        Title, in one line.
    paper : str
        Paper and figure or table.
    claim : str
        Claim of the paper.
    draws : bool, default=True
        Whether it draws figures, and so needs matplotlib.
    options : tuple of str, default=()
        Which of "data", "device" and "rows" (a long table, computed row by row) it takes.
    needs : str, default=""
        Data sets and device that a full run needs, as text.
    minutes : float, default=None
        Approximate run time of a full run, in minutes.

    Returns
    -------
    callable
        A decorator that returns the function ``run(ctx) -> Result`` unchanged.
    """

    def register(run: Run) -> Run:
        known = _registered.get(name.lower())
        if known is not None and known.run.__module__ != run.__module__:
            raise ValueError(
                f"experiment {name!r} is already registered by {known.run.__module__}; "
                "give the new one another name."
            )
        _registered[name.lower()] = Experiment(
            name, title, paper, claim, run, draws, options, needs, minutes
        )
        return run

    return register


def available() -> tuple[Experiment, ...]:
    """List the experiments.

    Returns
    -------
    tuple of Experiment
        Sorted by name.
    """
    package = importlib.import_module("clusterica.experiments")
    for paper in pkgutil.iter_modules(package.__path__, "clusterica.experiments."):
        if paper.ispkg:
            for module in pkgutil.iter_modules(importlib.import_module(paper.name).__path__):
                if not module.name.startswith("_"):
                    importlib.import_module(f"{paper.name}.{module.name}")
    return tuple(sorted(_registered.values(), key=lambda entry: entry.name))


def find(name: str) -> Experiment:
    """Return the experiment with a name; case does not matter.

    Parameters
    ----------
    name : str
        Such as ``P1-fig1``.

    Returns
    -------
    Experiment
    """
    names = [entry.name for entry in available()]
    found = _registered.get(name.lower())
    if found is not None:
        return found
    by_lower = {known.lower(): known for known in names}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower)]
    guess = f" Did you mean {' or '.join(close)}?" if close else ""
    raise LookupError(f"There is no experiment {name!r}.{guess} There are: {', '.join(names)}.")
