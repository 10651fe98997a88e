"""The command line: ``clusterica demo``, ``clusterica reproduce``, ``clusterica --version``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter, validators

from clusterica import __version__
from clusterica.cli._console import stop

SWITCH = Parameter(negative=(), show_default=False)
LIST = Parameter(name="--list", negative=(), show_default=False)
SEED = Parameter(validator=validators.Number(gte=0))

app = App(
    name="clusterica",
    help="Learn features from unlabeled data, where clustering and ICA are two sides of one thing.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # main says so instead
)


@app.command
def demo(
    *,
    output: Path = Path("clusterica-demo"),
    quick: Annotated[bool, SWITCH] = False,
) -> None:
    """Learn filters from two photographs and write a page of pictures, in well under a minute.

    Parameters
    ----------
    output
        Folder for the page and its files.
    quick
        Use fewer patches and draws, for a result in a few seconds.
    """
    from clusterica.cli._demo import run_demo

    run_demo(output=output, quick=quick)


@app.command
def reproduce(
    name: str | None = None,
    /,
    *,
    list_: Annotated[bool, LIST] = False,
    quick: Annotated[bool, SWITCH] = False,
    output: Path = Path("clusterica-results"),
    seed: Annotated[int, SEED] = 0,
    data: Path | None = None,
    device: str | None = None,
    rows: list[str] | None = None,
    fresh: Annotated[bool, SWITCH] = False,
) -> None:
    """Repeat a figure or table of the papers and set the paper's word beside the result.

    Parameters
    ----------
    name
        Which one, such as P1-fig1.
    list_
        List the experiments and stop.
    quick
        A smaller version, for a result in seconds, or a minute or two: less data, smaller models, and where
        there is no --data, digits of scikit-learn in place of other images.
    output
        Folder for NAME.json and NAME.png.
    seed
        Seed of everything random.
    data
        Folder with the official files of CIFAR-10, STL-10 and Caltech-101, or with the images of BSDS500,
        for experiments on real images; --list says which take it.
    device
        Torch device to work on, such as cuda; --list says which experiments take it.
    rows
        Row of a long table to compute, such as --rows RICA --rows KICA. Each row is kept in the folder
        as soon as it is done; the table is written when all are there. By default all that are missing.
    fresh
        Compute again what is in the folder already.
    """
    from clusterica.cli._reproduce import list_experiments, run_one

    if list_:
        list_experiments()
    elif name is None:
        stop("Say which experiment to run: clusterica reproduce NAME, or --list for all.", code=2)
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
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The words after ``clusterica``; those of the process by default.
    """
    try:
        app(None if arguments is None else list(arguments))
    except KeyboardInterrupt:
        stop("Stopped.", code=130)
