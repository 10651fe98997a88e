"""What the commands share in a terminal: options, tables, progress, JSON, and one-line messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any, NoReturn

import numpy as np
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

from clusterica.arrays import config_context, on_torch_device

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
        speed = task.speed
        if (
            task.finished and task.finished_time
        ):  # of all of it; rich forgets it where the total changes
            speed = task.completed / task.finished_time
        return Text("" if speed is None else f"{speed:,.1f}/s", style="progress.data.speed")


@contextmanager
def progress_of(total: int, description: str, *, done: int = 0) -> Iterator[Any]:
    """Show a progress bar with rate and time left on standard error; yields ``advance(n)``."""
    console = Console(stderr=True)
    # No bars in files and logs.
    with Progress(*_columns(), console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=total, completed=done)
        yield lambda n: progress.advance(task, n)


class FitProgress:
    """Callback that shows the iterations of a fit as bars with rate and time left, on standard error.

    scikit-learn's ``ProgressBar`` has no rate.
    """

    max_propagation_depth = None  # inner estimators are shown too

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin to draw."""
        self._progress = Progress(*_columns(), console=Console(stderr=True))
        self._bars: dict[tuple[Any, ...], Any] = {}
        self._progress.start()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Add a bar for what has several parts, or not a known number."""
        if context.max_subtasks not in (0, 1):
            path = _path(context)
            self._bars[path] = self._progress.add_task(
                context.estimator_name, total=context.max_subtasks
            )

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Show that a part of the task above is done."""
        path = _path(context)
        if path in self._bars:  # it may have taken fewer parts than it could have
            done = max(1, self._progress.tasks[self._bars[path]].completed)
            self._progress.update(self._bars[path], completed=done, total=done)
        if path[:-1] in self._bars:
            self._progress.advance(self._bars[path[:-1]])

    def teardown(self, estimator: Any, context: Any) -> None:
        """Leave the bars as they are."""
        self._progress.stop()
        del self._progress, self._bars


def _path(context: Any) -> tuple[Any, ...]:
    """Return where a task is among all, from the outermost fit on."""
    above = () if context.parent is None else _path(context.parent)
    return (*above, (context.estimator_name, context.task_id))


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )


def settings(
    *, memory: str | None, threads: int | None, device: str | None
) -> AbstractContextManager[None]:
    """Return the configuration that the options ask for; exit with a message if it can't be had."""
    given: dict[str, Any] = {"memory": memory, "threads": threads, "device": device}
    try:
        if device is not None:
            on_torch_device(np.empty(0), device)  # raises if there is none
        with config_context(**{name: v for name, v in given.items() if v is not None}):
            pass  # raises where it is called, and not where it is entered
    except (ValueError, ImportError) as error:
        stop(str(error).splitlines()[0], code=2)
    return config_context(**{name: v for name, v in given.items() if v is not None})


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
    lines = len(texts) + 1  # vertical ones, between the columns and at both ends
    spaces = 2 * len(texts) if sum(least) + lines + 2 * len(texts) <= console.width else 0
    # The widest column shrinks by one column of the terminal at a time, but never below its longest word.
    # Tables are small, so that nothing faster is needed.
    widths = [max(w, *map(cell_len, column)) for w, column in zip(least, texts, strict=True)]
    while sum(widths) > console.width - lines - spaces and widths != least:
        wide = [i for i in range(len(widths)) if widths[i] > least[i]]
        widths[max(wide, key=lambda i: widths[i])] -= 1
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


def show_confusion(console: Console, classes: Sequence[str], counts: np.ndarray) -> None:
    """Print a confusion matrix, true classes by row; of many classes those with most errors."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column()
    if len(classes) > 20:  # more columns fit no terminal
        console.print("The classes with most errors:")
        shares = np.diag(counts) / np.maximum(counts.sum(axis=1), 1)
        table.add_column("correct", justify="right")
        for i in np.argsort(shares)[:10]:
            table.add_row(f"[bold]{escape(classes[i])}[/]", f"{100 * shares[i]:.0f} %")
    else:
        console.print("Rows are classes, columns what was predicted:")
        for name in classes:
            table.add_column(escape(name), justify="right")
        for i, row in enumerate(counts):
            cells = [f"[bold]{n}[/]" if i == j else str(n or "·") for j, n in enumerate(row)]
            table.add_row(f"[bold]{escape(classes[i])}[/]", *cells)
    console.print(table)
