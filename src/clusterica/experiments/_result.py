"""The result of an experiment: a table that compares the paper with this run, figures, numbers, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Picture(NamedTuple):
    """A figure of a result."""

    figure: Any
    """A matplotlib figure, or the path of a PNG file."""
    caption: str
    """Text below it."""
    alt: str
    """What it shows, for readers who cannot see it."""
    name: str = ""
    """Suffix of its file name; empty for the main figure."""


class Check(NamedTuple):
    """One claim of the paper, and whether it holds in this run, decided by the code of the experiment."""

    claim: str
    """The claim of the paper, as a statement that is true or false."""
    holds: bool
    """Whether the run agrees."""
    found: str
    """The numbers of the run that decide it."""

    def __str__(self) -> str:
        return f"{'Holds' if self.holds else 'Does not hold'}: {self.claim} ({self.found})."


class Result(NamedTuple):
    """The result of one run."""

    columns: Sequence[str]
    """Headings of the table."""
    rows: Sequence[Sequence[object]]
    """The table: numbers or claims of the paper, and those of the run."""
    values: Mapping[str, Any]
    """Every measured number by name, as JSON values."""
    settings: Mapping[str, Any]
    """Settings of the run, as JSON values; the same on every machine."""
    pictures: Sequence[Picture] = ()
    """Figures, the main one first."""
    note: str = ""
    """How to read the table, and where the run differs from the paper."""
    checks: Sequence[Check] = ()
    """Whether each claim of the paper holds in this run."""
