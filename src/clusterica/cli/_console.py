"""Output of the commands in a terminal: tables, and one-line error messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def stop(message: str, *, code: int = 1) -> NoReturn:
    """Print an error message and exit with a code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]Error:[/] {escape(message)}")
    raise SystemExit(code)


def show_table(console: Console, rows: Iterable[Sequence[object]], columns: Sequence[str]) -> None:
    """Print a table; floats have three significant digits and are aligned to the right.

    Words are never broken. If the columns do not fit the terminal, they lose their padding first; if that is
    not enough, the table is wider than the terminal.
    """
    values = [list(row) for row in rows]
    texts = [[name, *(_text(row[i]) for row in values)] for i, name in enumerate(columns)]
    words = [" ".join(column).split() for column in texts]
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
    while sum(widths) > room and widths != least:
        widest = max(
            (i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i]
        )
        widths[widest] -= 1
    return widths


def _text(value: object) -> str:
    """Format a value of a table."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
