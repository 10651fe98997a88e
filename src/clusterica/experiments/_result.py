"""What an experiment hands back: a table with the paper's word beside ours, pictures, numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Picture(NamedTuple):
    """A picture of a result."""

    figure: Any
    """A matplotlib figure, or the path of a PNG file."""
    caption: str
    """Text below it."""
    alt: str
    """What it shows, for readers who cannot see it."""
    name: str = ""
    """What sets its file apart; the first picture of an experiment needs none."""


class Check(NamedTuple):
    """One thing that the paper says, and whether it holds in this run. The experiment's code decides."""

    claim: str
    """What the paper says, as a clause that can be true or false."""
    holds: bool
    """Whether the run agrees."""
    found: str
    """The numbers of the run that decide it."""

    def __str__(self) -> str:
        return f"{'Holds' if self.holds else 'Does not hold'}: {self.claim} ({self.found})."


class Result(NamedTuple):
    """What one run measured."""

    columns: Sequence[str]
    """Headings of the table."""
    rows: Sequence[Sequence[object]]
    """The table, the paper's figures or claims beside those of the run."""
    values: Mapping[str, Any]
    """Every measured number by name, ready for JSON."""
    settings: Mapping[str, Any]
    """What the run was set to, ready for JSON; the same on every machine."""
    pictures: Sequence[Picture] = ()
    """Pictures, the main one first."""
    note: str = ""
    """How to read the table and where the run departs from the paper."""
    checks: Sequence[Check] = ()
    """Whether each claim of the paper holds in this run."""
