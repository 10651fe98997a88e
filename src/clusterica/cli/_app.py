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
ROWS = Parameter(negative=())
SEED = Parameter(validator=validators.Number(gte=0))

app = App(
    name="clusterica",
    help="Learn features from unlabeled data by clustering and ICA.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # main prints the message
)


@app.command
def demo(
    *,
    output: Path = Path("clusterica-demo"),
    quick: Annotated[bool, SWITCH] = False,
) -> None:
    """Learn filters from two photographs and write an HTML page with figures. Takes less than a minute.

    Parameters
    ----------
    output
        Folder for the page and its files.
    quick
        Use less data, for a result in a few seconds.
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
    rows: Annotated[list[str] | None, ROWS] = None,
    fresh: Annotated[bool, SWITCH] = False,
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
        Folder for the results: NAME.json and NAME.png.
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

    Parameters
    ----------
    arguments : sequence of str, default=None
        Command-line arguments; ``sys.argv[1:]`` by default.
    """
    try:
        app(None if arguments is None else list(arguments))
    except KeyboardInterrupt:
        stop("Stopped.", code=130)
