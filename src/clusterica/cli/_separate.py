"""``clusterica separate`` and ``cluster``: sources s of signals ``x = A s``, and clusters of rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from clusterica.cli._files import check_folder, check_output, new_files
from clusterica.cli.inputs.tables import Table, read_table, write_table
from clusterica.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Columns = Annotated[
    list[str] | None, Parameter(name="--columns", negative=(), consume_multiple=True)
]
# Names of columns that say when a row was measured, and are no signal.
CLOCKS = ("time", "t", "seconds", "timestamp", "time (s)")
COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#e45756", "#9d755d", "#767676")


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

    Examples: ``clusterica separate recording.wav -o voices``,
    ``clusterica separate left.wav right.wav -o voices``, ``clusterica separate eeg.csv --sources 10 -o eeg``

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
    _check_picture(picture)
    table = _joined(signals, columns or ())
    if transpose:
        values = table.values.T
        table = Table(values, tuple(f"row {i + 1}" for i in range(values.shape[1])), (), table.rate)
    _check_signals(table, signals[0], sources, transpose=transpose)
    unmixing, mixing, found = _unmix(table.values, sources, method, seed)
    names = tuple(f"source {i + 1}" for i in range(found.shape[1]))
    with new_files(output) as folder:
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
            figure = _new_figure(1 + 0.9 * n)
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


def cluster(
    table: Path,
    /,
    *,
    output: Annotated[Path, OUTPUT],
    clusters: Count | None = None,
    method: Literal["k-means", "spherical", "kurtosis"] = "k-means",
    columns: Columns = None,
    standardize: Switch = False,
    picture: bool = True,
    seed: Seed = 0,
    json: JsonSwitch = False,
) -> None:
    """Find clusters of the rows of a table.

    Writes the number of the cluster of each row, from 0, the largest first, and a picture beside it.

    Examples: ``clusterica cluster iris.csv --clusters 3 -o labels.csv``,
    ``clusterica cluster iris.csv --method kurtosis -o labels.csv``

    Parameters
    ----------
    table
        The table: .csv, .parquet or .npy. Columns that are not numbers are left out.
    output
        File for the clusters: .csv, .parquet or .npy.
    clusters
        Number of clusters; 8 by default. kurtosis finds the number itself if it is not given.
    method
        k-means: round clusters around a centre. spherical: by the angle between rows, for embeddings and
        counts of words. kurtosis: along the one direction in which the table falls apart most clearly.
    columns
        Names of the columns to use, such as --columns height weight.
    standardize
        Give all columns the mean 0 and the standard deviation 1, where their units differ.
    picture
        Draw the clusters, to a .png file beside the output.
    seed
        Random seed.
    json
        Print the result as JSON.
    """
    check_output(output, (".csv", ".parquet", ".npy"), inputs=[table])
    _check_picture(picture)
    data = read_table(table, columns=columns or ())
    if data.dropped:
        note(f"Left out, since they are not numbers: {', '.join(data.dropped)}.")
    X = data.values
    if standardize:
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    elif method != "kurtosis":  # which does not depend on units
        _note_scales(data)
    if clusters is not None and clusters > len(X):
        stop(f"--clusters {clusters} is more than the {len(X)} rows of {table}.", code=2)
    model = _clusterer(method, clusters, seed, n_rows=len(X)).fit(X)
    raw = np.asarray((model[-1] if method == "kurtosis" else model).labels_)
    # Numbered by size, so that they mean the same whatever the start was.
    order = np.argsort(-np.bincount(raw), kind="stable")
    labels = np.argsort(order, kind="stable")[raw]
    sizes = np.bincount(labels)
    files = [output, output.with_suffix(".png")][: 1 + picture]
    if picture:
        figure = _new_figure(4.5)
        if method == "kurtosis":
            from clusterica.display import DensityDisplay

            title = "Density along the direction of least kurtosis"
            DensityDisplay.from_estimator(model, X, ax=figure.subplots(), title=title)
        else:
            _draw_clusters(figure, X, labels)
        with replacing(files[1]) as file:
            figure.savefig(file, format="png")
    if output.suffix.lower() == ".npy":
        with replacing(output) as file:
            np.save(file, labels)
    else:
        write_table(output, Table(labels[:, None], ("cluster",)))
    means = [data.values[labels == i].mean(axis=0) for i in range(len(sizes))]
    if json:
        centers = [dict(zip(data.names, mean.tolist(), strict=True)) for mean in means]
        print_json({"files": [str(f) for f in files], "sizes": sizes, "means": centers})
        return
    console = Console(highlight=False)
    shown = min(6, len(data.names))  # more columns fit no terminal
    rows = [(str(i), f"{n:,}", *map(float, means[i][:shown])) for i, n in enumerate(sizes)]
    show_table(
        console, rows, ("cluster", "rows", *(f"mean of {name}" for name in data.names[:shown]))
    )
    if shown < len(data.names):
        note(f"The means of {len(data.names) - shown} more columns are in the result of --json.")
    for path in files:
        console.print(str(path), soft_wrap=True, markup=False)


# --- Signals ------------------------------------------------------------------------------------------


def _check_picture(picture: bool) -> None:
    if picture:
        from clusterica.display import check_matplotlib

        try:
            check_matplotlib("The picture")
        except ImportError as error:
            stop(f"{error}, or add --no-picture")


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
        note(f"Left out, since it is no signal: {', '.join(names[i] for i in clocks)}.")
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
        stop(f"{path} has one signal; separation needs two or more, of the same sources.")
    if n_sources is not None and n_sources > n_signals:
        stop(
            f"--sources {n_sources} is more than the {n_signals} signals; give at most that.",
            code=2,
        )
    silent = [name for name, s in zip(table.names, table.values.std(axis=0), strict=True) if s == 0]
    if silent:
        stop(
            f"{path}: {', '.join(silent[:5])} {'is' if len(silent) == 1 else 'are'} the same in all rows, "
            "which is no signal. Choose other columns with --columns."
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


# --- Tables -------------------------------------------------------------------------------------------


def _note_scales(table: Table) -> None:
    """Say that one column decides alone, where its spread is far larger than that of another."""
    spread = table.values.std(axis=0)
    if spread.any():
        largest, least = int(spread.argmax()), int(np.where(spread > 0, spread, np.inf).argmin())
        # Squares count: with a factor of 30, the smaller column has a thousandth of the weight.
        if spread[largest] > 30 * spread[least]:
            note(
                f"{table.names[largest]} varies {spread[largest] / spread[least]:,.0f} times as much as "
                f"{table.names[least]}, and so decides the clusters. Add --standardize if units differ."
            )


def _clusterer(method: str, n_clusters: int | None, seed: int, *, n_rows: int) -> Any:
    from sklearn.pipeline import make_pipeline

    from clusterica.cluster import DensityClusterer, KMeans, SphericalKMeans
    from clusterica.ica import KurtosisPursuit

    n = min(8, n_rows) if n_clusters is None else n_clusters  # 8 as in scikit-learn
    if method == "k-means":
        return KMeans(n, n_init=10, random_state=seed)
    if method == "spherical":
        return SphericalKMeans(n, n_init=10, random_state=seed)
    return make_pipeline(KurtosisPursuit(random_state=seed), DensityClusterer(n_clusters))


# --- Pictures -----------------------------------------------------------------------------------------


def _new_figure(height: float) -> Figure:
    # Not pyplot, which would look for a screen.
    from matplotlib.figure import Figure

    return Figure(figsize=(9, height), layout="constrained", dpi=120)


def _draw_clusters(figure: Figure, X: np.ndarray, labels: np.ndarray) -> None:
    """Draw rows in the plane of their two largest principal components, in the colour of their cluster."""
    centered = X - X.mean(axis=0)
    axes_of_rows = np.linalg.svd(np.cov(centered.T).reshape(X.shape[1], -1))[2][:2]
    places = centered @ axes_of_rows.T
    if places.shape[1] == 1:
        places = np.column_stack([places, np.zeros(len(places))])
    step = -(-len(X) // 5000)  # more dots only cover each other
    sizes = np.bincount(labels)
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    badge = {"facecolor": "white", "edgecolor": "0.6", "boxstyle": "round,pad=0.2", "alpha": 0.9}
    for i in range(len(sizes)):
        rows = places[::step][labels[::step] == i]
        left.plot(
            rows[:, 0], rows[:, 1], "o", markersize=3, alpha=0.7, color=COLORS[i % len(COLORS)]
        )
        if len(sizes) <= 30 and len(rows):  # more numbers would hide the rows
            left.text(
                *rows.mean(axis=0), str(i), weight="bold", ha="center", va="center", bbox=badge
            )
    left.set(xlabel="first principal component", ylabel="second principal component")
    right.barh(range(len(sizes)), sizes, color=[COLORS[i % len(COLORS)] for i in range(len(sizes))])
    right.invert_yaxis()
    right.set(xlabel="rows", ylabel="cluster")
    right.yaxis.get_major_locator().set_params(integer=True)
