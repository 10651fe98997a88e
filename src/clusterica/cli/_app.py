"""The command line: all commands by name, and how errors and Ctrl-C end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import (
    App,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnusedCliTokensError,
)
from rich.console import Console
from rich.text import Text

from clusterica import __version__
from clusterica.cli._cluster import cluster
from clusterica.cli._console import OUTPUT, ListSwitch, Seed, Switch, note, stop
from clusterica.cli._learn import learn
from clusterica.cli._models import bench, download, info, report
from clusterica.cli._predict import features, predict
from clusterica.cli._separate import separate
from clusterica.cli._train import train

OPTIONS = Group("Options", sort_key=5)


def _wrong_arguments(error: CycloptsError) -> Text:
    """Return what is wrong with the arguments in the words of our own messages, on one line."""
    command = " ".join(("clusterica", *(error.command_chain or ())))
    what = str(error)
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        names = error.argument.names
        what = (
            f"{' or '.join(names)} {'needs a value' if names[0].startswith('-') else 'is missing'}."
        )
    elif isinstance(error, UnusedCliTokensError):
        what = f"There is nothing to do with {' '.join(error.unused_tokens or ())}."
    return Text.assemble(("Error: ", "bold red"), f"{what} See: {command} --help")


app = App(
    name="clusterica",
    help=(
        "Learn features from unlabeled data by clustering and ICA.\n\n"
        "`clusterica COMMAND --help` describes a command. `clusterica --install-completion` makes the "
        "shell complete commands and options."
    ),
    help_format="markdown",
    version=__version__,
    group_commands=OPTIONS,
    suppress_keyboard_interrupt=False,  # main prints the message
    error_formatter=_wrong_arguments,
    error_console=Console(stderr=True, soft_wrap=True),
)
app.register_install_completion_command(
    help="Install completion for your shell (bash, zsh or fish).",
)
for group, commands in {
    Group("Images", sort_key=1): (learn, train, features, predict),
    Group("Signals and tables", sort_key=2): (separate, cluster),
    Group("Models and data sets", sort_key=3): (report, info, download, bench),
}.items():
    for place, command in enumerate(commands):
        app.command(command, group=group, sort_key=place)


@app.command(group=Group("To begin with", sort_key=0))
def demo(
    *,
    output: Annotated[Path, OUTPUT] = Path("clusterica-demo"),
    quick: Switch = False,
) -> None:
    """Learn filters, recognise digits, separate signals, and write a page of it all, in about a minute.

    Parameters
    ----------
    output
        Folder for the page and its files.
    quick
        Use less data, for a result in a few seconds.
    """
    # Imported here, so that --help and --version answer at once.
    from clusterica.cli._demo import run_demo

    run_demo(output=output, quick=quick)


@app.command(group=Group("Papers", sort_key=4))
def reproduce(
    name: str | None = None,
    /,
    *,
    list_: ListSwitch = False,
    quick: Switch = False,
    output: Annotated[Path, OUTPUT] = Path("clusterica-results"),
    seed: Seed = 0,
    data: Path | None = None,
    device: str | None = None,
    rows: Annotated[list[str] | None, Parameter(negative=())] = None,
    fresh: Switch = False,
) -> None:
    """Reproduce a figure or table of a paper and compare the result with the paper.

    Parameters
    ----------
    name
        Name of the experiment, such as P1-fig1.
    list_
        List all experiments with their run time and the data and device they need, then exit.
    quick
        Run a smaller version that takes a minute or two at most: less data and smaller models. Without
        --data it uses the digits of scikit-learn instead of other images.
    output
        Folder for the results: NAME.html (a page with all of it), NAME.json and NAME.png.
    seed
        Random seed.
    data
        Folder that contains the data sets an experiment needs (CIFAR-10, STL-10, Caltech-101 or BSDS500, as
        downloaded); see --list.
    device
        PyTorch device to run on, such as cuda; see --list.
    rows
        Compute only these rows of a long table, for example --rows RICA --rows KICA. Each finished row is
        saved, and the table is written when all rows are done. By default all missing rows are computed.
    fresh
        Recompute rows that are already saved in the output folder.
    """
    from clusterica.cli._reproduce import list_experiments, run_one

    if list_:
        list_experiments()
    elif name is None:
        stop("Give the name of an experiment: clusterica reproduce NAME. --list shows all.", code=2)
    else:
        run_one(
            name,
            quick=quick,
            output=output,
            seed=seed,
            data=data,
            device=device,
            rows=tuple(rows or ()),
            fresh=fresh,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the ``clusterica`` command.

    The exit code is 0 if all went well, 1 if it failed, 2 for wrong arguments and 130 after Ctrl-C. With the
    environment variable CLUSTERICA_TRACEBACK=1 an error shows where it was raised.

    Parameters
    ----------
    arguments : sequence of str, default=None
        Command-line arguments; ``sys.argv[1:]`` by default.
    """
    expected = (ValueError, TypeError, OSError, ImportError, MemoryError)
    with warnings.catch_warnings():
        # Only the message: the file and line that warned do not help whoever typed a command.
        warnings.showwarning = lambda message, *_, **__: note(f"Warning: {message}")
        try:
            app(None if arguments is None else list(arguments))
        except KeyboardInterrupt:
            stop("Stopped.", code=130)  # 128 + SIGINT, as shells expect
        except BrokenPipeError:
            # The reader has enough, such as head; nothing more can be printed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise SystemExit(0) from None
        except expected as error:
            if os.environ.get("CLUSTERICA_TRACEBACK"):
                raise
            lines = str(error).splitlines() or [type(error).__name__]
            stop(
                "not enough memory; lower --memory" if isinstance(error, MemoryError) else lines[0]
            )
