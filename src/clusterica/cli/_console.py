"""What the commands share in a terminal: options, tables, progress, JSON, and one-line messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

from cyclopts import Parameter, validators
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

# Options that several commands have: on or off, a seed, a whole number from one.
Switch = Annotated[bool, Parameter(negative=(), show_default=False)]
Seed = Annotated[int, Parameter(validator=validators.Number(gte=0))]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
JsonSwitch = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]
ListSwitch = Annotated[bool, Parameter(name="--list", negative=(), show_default=False)]
OUTPUT = Parameter(name=("--output", "-o"))


def stop(message: str, *, code: int = 1) -> NoReturn:
    """Print an error message and exit with a code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]Error:[/] {escape(message)}")
    raise SystemExit(code)


def note(message: str) -> None:
    """Print a remark where it does not mix with results: on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(message), style="dim")


def print_json(values: Any) -> None:
    """Print values as JSON that a program can read; arrays and numbers of NumPy as lists and numbers."""
    print(json.dumps(values, indent=2, ensure_ascii=False, default=lambda value: value.tolist()))


class _Rate(ProgressColumn):
    """How many items a second are done."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f}/s", style="progress.data.speed")


@contextmanager
def progress_of(total: int, description: str, *, done: int = 0) -> Iterator[Any]:
    """Show a progress bar with rate and time left on standard error; yields ``advance(n)``."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    # No bars in files and logs.
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=total, completed=done)
        yield lambda n: progress.advance(task, n)


def show_table(console: Console, rows: Iterable[Sequence[object]], columns: Sequence[str]) -> None:
    """Print a table; floats have three significant digits and are aligned to the right.

    Words are never broken. If the columns do not fit the terminal, they lose their padding first; if that is
    not enough, the table is wider than the terminal.
    """
    values = [list(row) for row in rows]
    texts = [
        [name, *(f"{row[i]:.3g}" if isinstance(row[i], float) else str(row[i]) for row in values)]
        for i, name in enumerate(columns)
    ]
    words = [" ".join(column).split() for column in texts]
    # cell_len counts columns of the terminal: some characters are two wide.
    least = [max(map(cell_len, column), default=1) for column in words]
    lines = len(texts) + 1
    spaces = 2 * len(texts) if sum(least) + lines + 2 * len(texts) <= console.width else 0
    widths = _widths(texts, least, console.width - lines - spaces)
    table = Table(
        header_style="bold",
        show_lines=True,
        padding=(0, int(spaces > 0)),
        width=sum(widths) + lines + spaces,
    )
    for i, width in enumerate(widths):
        numeric = bool(values) and all(isinstance(row[i], float) for row in values)
        table.add_column(escape(texts[i][0]), justify="right" if numeric else "left", width=width)
    for row in zip(*(column[1:] for column in texts), strict=True):
        table.add_row(*map(escape, row))
    console.print(table, crop=False)


def _widths(texts: Sequence[Sequence[str]], least: list[int], room: int) -> list[int]:
    """Return the widths of the columns: the widest shrink until all fit, but not below ``least``."""
    widths = [max(w, *map(cell_len, column)) for w, column in zip(least, texts, strict=True)]
    # One column of the terminal at a time; tables are small.
    while sum(widths) > room and widths != least:
        widest = max(
            (i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i]
        )
        widths[widest] -= 1
    return widths
