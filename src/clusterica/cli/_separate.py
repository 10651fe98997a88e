"""``clusterica separate``: sources s of signals ``x = A s``; and what ``cluster`` shares with it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from cyclopts import Parameter
from rich.console import Console

from clusterica.cli._console import (
    OUTPUT,
    Count,
    JsonSwitch,
    Seed,
    Switch,
    note,
    print_json,
    show_table,
    stop,
)
from clusterica.cli._files import check_folder, new_files
from clusterica.cli.inputs.tables import Table, read_table, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Columns = Annotated[
    list[str] | None, Parameter(name="--columns", negative=(), consume_multiple=True)
]
# Names of columns that say when a row was measured, and are not a signal.
CLOCKS = ("time", "t", "seconds", "timestamp", "time (s)")


def separate(
    signals: list[Path],
    /,
    *,
    output: Annotated[Path, OUTPUT],
    sources: Count | None = None,
    method: Literal["cluster-ica", "rica"] = "cluster-ica",
    columns: Columns = None,
    transpose: Switch = False,
    picture: bool = True,
    seed: Seed = 0,
    json: JsonSwitch = False,
) -> None:
    """Separate mixed signals into independent sources.

    Each signal is a sum of the same sources with other weights, such as voices in several microphones.
    Writes to the folder OUTPUT: the sources in the format of the input (a WAV file for each), the mixing
    matrix (how much of each source is in each signal), the unmixing matrix, and a picture.

    For example:

        clusterica separate recording.wav -o voices
        clusterica separate left.wav right.wav -o voices
        clusterica separate eeg.csv --sources 10 -o eeg

    Parameters
    ----------
    signals
        A file with a signal in each column: .csv, .parquet, .npy or .wav; or several, whose columns are put
        side by side.
    output
        Folder for the results; it is created.
    sources
        Number of sources; as many as there are signals by default.
    method
        cluster-ica finds any independent sources, by clusters and maximum likelihood; rica finds sparse
        ones, by a reconstruction cost.
    columns
        Names of the columns to use, such as --columns C3 C4 Cz.
    transpose
        The file has a signal in each row.
    picture
        Draw the sources over time, to sources.png.
    seed
        Random seed.
    json
        Print the result as JSON.
    """
    from clusterica.metrics import excess_kurtosis

    if output.is_file():
        stop(f"{output} is a file; give the name of a folder with -o.")
    check_folder(output.parent)
    if output.resolve() in [path.resolve().parent for path in signals]:
        stop(f"{output} is the folder of the signals; choose another with -o.", code=2)
    check_picture(picture)
    table = _joined(signals, columns or ())
    if transpose:
        values = table.values.T
        table = Table(values, tuple(f"row {i + 1}" for i in range(values.shape[1])), (), table.rate)
    _check_signals(table, signals[0], sources, transpose=transpose)
    unmixing, mixing, found = _unmix(table.values, sources, method, seed)
    names = tuple(f"source {i + 1}" for i in range(found.shape[1]))
    own = r"source-\d+\.wav|sources\.(csv|tsv|txt|parquet|npy|png)"
    with new_files(output, own=own) as folder:
        suffix, all_sources = signals[0].suffix, Table(found, names, (), table.rate)
        if suffix.lower() != ".wav":
            write_table(folder / f"sources{suffix}", all_sources)
        else:  # one by one, to listen to
            for i, source in enumerate(found.T, 1):
                write_table(folder / f"source-{i}.wav", all_sources._replace(values=source))
        _write_matrix(folder / "mixing.csv", "signal", table.names, mixing, names)
        _write_matrix(folder / "unmixing.csv", "source", names, unmixing, table.names)
        if picture:
            from clusterica.display import SourcesDisplay

            # Twenty lines can be read; the files have all sources.
            n = min(20, len(names))
            figure = new_figure(1 + 0.9 * n)
            SourcesDisplay.from_sources(
                found[:, :n],
                names=list(names[:n]),
                sampling_rate=table.rate,
                title=None if n == len(names) else f"the first {n} of {len(names)} sources",
                ax=figure.subplots(),
            )
            figure.savefig(folder / "sources.png")
        files = [output / file.name for file in sorted(folder.iterdir())]
    kurtosis = excess_kurtosis(found)
    if json:
        print_json({"files": [str(f) for f in files], "kurtosis": kurtosis, "mixing": mixing})
        return
    console = Console(highlight=False)
    rows = [
        (name, float(k), table.names[int(np.abs(column).argmax())])
        for name, k, column in zip(names, kurtosis, mixing.T, strict=True)
    ]
    show_table(console, rows, ("source", "kurtosis", "loudest in"))
    for file in files:
        console.print(str(file), soft_wrap=True, markup=False)


def _joined(paths: list[Path], columns: list[str] | tuple[str, ...]) -> Table:
    """Return the columns of all files side by side."""
    if not paths:
        stop("give a file of signals: clusterica separate FILE -o FOLDER.", code=2)
    tables = [read_table(path, columns=columns) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if table.dropped:
            note(f"Left out of {path}, since they are not numbers: {', '.join(table.dropped)}.")
        if (len(table.values), table.rate) != (len(tables[0].values), tables[0].rate):
            stop(
                f"{path} has {len(table.values):,} rows and {paths[0]} has {len(tables[0].values):,}, or "
                "their rates differ; give recordings of the same length and rate."
            )
    values = np.concatenate([table.values for table in tables], axis=1)
    names = [
        name if len(paths) == 1 else f"{path.stem} {name}"
        for path, table in zip(paths, tables, strict=True)
        for name in table.names
    ]
    clocks = [i for i, name in enumerate(names) if name.lower() in CLOCKS and not columns]
    if clocks:
        note(f"Left out, since it is not a signal: {', '.join(names[i] for i in clocks)}.")
    kept = [i for i in range(len(names)) if i not in clocks]
    return Table(values[:, kept], tuple(names[i] for i in kept), (), tables[0].rate)


def _check_signals(table: Table, path: Path, n_sources: int | None, *, transpose: bool) -> None:
    """Exit with a message if signals can't be separated."""
    n_rows, n_signals = table.values.shape
    if n_rows <= n_signals:
        stop(
            f"{path} has {n_rows} rows and {n_signals} columns; signals are columns, with many more "
            f"rows. If they are rows, {'leave out' if transpose else 'add'} --transpose."
        )
    if n_signals < 2:
        stop(
            f"{path} has one signal; separation needs two or more, of the same sources: give all files of a "
            "recording, or one with several channels."
        )
    if n_sources is not None and n_sources > n_signals:
        stop(
            f"--sources {n_sources} is more than the {n_signals} signals; give at most that.",
            code=2,
        )
    silent = [name for name, s in zip(table.names, table.values.std(axis=0), strict=True) if s == 0]
    if silent:
        stop(
            f"{path}: {', '.join(silent[:5])} {'is' if len(silent) == 1 else 'are'} the same in all rows, "
            "which is not a signal. Choose other columns with --columns."
        )


def _unmix(
    X: np.ndarray, n_sources: int | None, method: str, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the unmixing matrix (sources, signals), the mixing matrix and the sources."""
    from clusterica.ica import ClusterICA
    from clusterica.preprocessing import Whitener
    from clusterica.rica import RICA

    if method == "cluster-ica":
        ica = ClusterICA(n_sources, random_state=seed).fit(X)
        return np.asarray(ica.components_), np.asarray(ica.mixing_), np.asarray(ica.transform(X))
    whitener = Whitener("pca", eps=0.0, n_components=n_sources).fit(X)
    rica = RICA(random_state=seed).fit(whitener.transform(X))
    unmixing = np.asarray(rica.components_ @ whitener.whitening_)
    found = (X - X.mean(axis=0)) @ unmixing.T
    # Sources of unit variance, as those of ClusterICA.
    scale = found.std(axis=0)
    unmixing = unmixing / scale[:, None]
    return unmixing, np.linalg.pinv(unmixing), found / scale


def _write_matrix(
    path: Path, corner: str, rows: tuple[str, ...], values: np.ndarray, columns: tuple[str, ...]
) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((corner, *columns))
        writer.writerows(
            (name, *(f"{x:.10g}" for x in row)) for name, row in zip(rows, values, strict=True)
        )


# --- What separate and cluster share ------------------------------------------------------------------


def check_picture(picture: bool) -> None:
    """Exit with a message before the work, where a picture is wanted and can't be drawn."""
    if picture:
        from clusterica.display import check_matplotlib

        try:
            check_matplotlib("The picture")
        except ImportError as error:
            stop(f"{error}, or add --no-picture")


def new_figure(height: float) -> Figure:
    """Return an empty figure of a height in inches."""
    # Not pyplot, which would look for a screen.
    from matplotlib.figure import Figure

    return Figure(figsize=(9, height), layout="constrained", dpi=120)
