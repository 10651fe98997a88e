"""What the commands show in a terminal: text, tables, and errors in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table

LONGEST_IN_ONE_LINE = 20  # columns of longer texts share the width that is left


def stop(message: str, *, code: int = 1) -> NoReturn:
    """Print an error and end the process with a code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]Error:[/] {escape(message)}")
    raise SystemExit(code)


def show_table(console: Console, rows: Iterable[Sequence[object]], columns: Sequence[str]) -> None:
    """Print a table, floats with three significant digits and to the right."""
    values = [list(row) for row in rows]
    table = Table(header_style="bold", show_lines=True)
    for index, name in enumerate(columns):
        column = [row[index] for row in values]
        numeric = bool(values) and all(isinstance(value, float) for value in column)
        longest = max(len(_text(value)) for value in [name, *column])
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=longest <= LONGEST_IN_ONE_LINE
        )
    for row in values:
        table.add_row(*(escape(_text(value)) for value in row))
    console.print(table)


def _text(value: object) -> str:
    """Write a value of a table."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
