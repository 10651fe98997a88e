"""``clusterica cluster``: clusters of the rows of a table, with a picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from rich.console import Console
from scipy.sparse import issparse

from clusterica.arrays import Array
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
from clusterica.cli._files import check_output
from clusterica.cli._separate import Columns, check_picture, new_figure
from clusterica.cli.inputs.sparse import read_sparse
from clusterica.cli.inputs.tables import Table, read_table, write_table
from clusterica.files import replacing, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#e45756", "#9d755d", "#767676")


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

    For example:

        clusterica cluster iris.csv --clusters 3 -o labels.csv
        clusterica cluster iris.csv --method kurtosis -o labels.csv
        clusterica cluster words.npz --method spherical -o labels.csv

    Parameters
    ----------
    table
        The table: .csv, .parquet or .npy, or a sparse matrix of scipy.sparse.save_npz (.npz), such as
        counts of words. Columns that are not numbers are left out.
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
    check_picture(picture)
    if table.suffix.lower() == ".npz":
        if columns:
            stop(f"{table} is a sparse matrix, whose columns have no names; leave out --columns.")
        data = read_sparse(table)
    else:
        data = read_table(table, columns=columns or (), others=(".npz",))
    if data.dropped:
        note(f"Left out, since they are not numbers: {', '.join(data.dropped)}.")
    if clusters is not None and clusters > data.values.shape[0]:
        n_rows = data.values.shape[0]
        stop(f"--clusters {clusters} is more than the {n_rows} rows of {table}.", code=2)
    X = _prepared(data, table, method, standardize=standardize)
    model = _clusterer(method, clusters, seed, n_rows=X.shape[0]).fit(X)
    raw = np.asarray((model[-1] if method == "kurtosis" else model).labels_)
    # Numbered by size, so that they mean the same whatever the start was.
    order = np.argsort(-np.bincount(raw), kind="stable")
    labels = np.argsort(order, kind="stable")[raw]
    drawn = _drawn(model, X, labels) if picture else b""
    if output.suffix.lower() == ".npy":
        with replacing(output) as file:
            np.save(file, labels)
    else:
        write_table(output, Table(labels[:, None], ("cluster",)))
    files = [output]
    if picture:
        files.append(write_file(output.with_suffix(".png"), drawn))
    if json:
        # Of a sparse table, which is wide, the largest means: 20 tell what a cluster is about.
        means = [
            _largest(data, mean, 20)
            if issparse(data.values)
            else dict(zip(data.names, mean.tolist(), strict=True))
            for mean in _means(data, labels)
        ]
        sizes = np.bincount(labels)
        print_json({"files": [str(f) for f in files], "sizes": sizes, "means": means})
        return
    console = Console(highlight=False)
    _show(console, data, labels)
    for path in files:
        console.print(str(path), soft_wrap=True, markup=False)


def _prepared(table: Table, path: Path, method: str, *, standardize: bool) -> Array:
    """Return the rows to cluster; exit with a message where a sparse table would have to be filled."""
    X = table.values
    if issparse(X):
        option = "--method kurtosis" if method == "kurtosis" else "--standardize"
        if standardize or method == "kurtosis":
            stop(
                f"{path} is a sparse matrix, and {option} would fill it: leave that out, or reduce the "
                "matrix to a table of few columns first, such as with scikit-learn's TruncatedSVD."
            )
        return X
    if standardize:
        return (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    spread = X.std(axis=0)
    if method != "kurtosis" and spread.any():  # kurtosis does not depend on units
        largest, least = int(spread.argmax()), int(np.where(spread > 0, spread, np.inf).argmin())
        # Squares count: with a factor of 30, the smaller column has a thousandth of the weight.
        if spread[largest] > 30 * spread[least]:
            note(
                f"{table.names[largest]} varies {spread[largest] / spread[least]:,.0f} times as much as "
                f"{table.names[least]}, and so decides the clusters. Add --standardize if units differ."
            )
    return X


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


# --- What is shown ------------------------------------------------------------------------------------


def _means(table: Table, labels: np.ndarray) -> list[np.ndarray]:
    """Return the mean of the rows of each cluster, in the units of the table."""
    return [np.asarray(table.values[labels == i].mean(axis=0)) for i in range(labels.max() + 1)]


def _largest(table: Table, mean: np.ndarray, n: int) -> dict[str, float]:
    """Return the largest means by the names of their columns, without those that are 0."""
    places = np.argsort(-np.abs(mean), kind="stable")[:n]
    return {table.names[i]: float(mean[i]) for i in places if mean[i]}


def _show(console: Console, table: Table, labels: np.ndarray) -> None:
    """Print sizes and means of the clusters as a table."""
    means, sizes = _means(table, labels), np.bincount(labels)
    if issparse(table.values):
        largest = [", ".join(_largest(table, mean, 5)) for mean in means]
        named = [(str(i), f"{n:,}", largest[i]) for i, n in enumerate(sizes)]
        show_table(console, named, ("cluster", "rows", "columns of largest mean"))
        return
    shown = min(6, len(table.names))  # more columns do not fit a terminal
    rows = [(str(i), f"{n:,}", *map(float, means[i][:shown])) for i, n in enumerate(sizes)]
    show_table(
        console, rows, ("cluster", "rows", *(f"mean of {name}" for name in table.names[:shown]))
    )
    if shown < len(table.names):
        note(f"The means of {len(table.names) - shown} more columns are in the result of --json.")


def _drawn(model: Any, X: Array, labels: np.ndarray) -> bytes:
    """Return a picture of the clusters, as a PNG file."""
    figure = new_figure(4.5)
    if hasattr(model, "steps"):  # one direction, cut where few rows are
        from clusterica.display import DensityDisplay

        title = "Density along the direction of least kurtosis"
        DensityDisplay.from_estimator(model, X, ax=figure.subplots(), title=title)
    else:
        _draw_clusters(figure, X, labels)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _draw_clusters(figure: Figure, X: Array, labels: np.ndarray) -> None:
    """Draw rows in the plane of their two largest principal components, in the colour of their cluster."""
    from sklearn.decomposition import PCA, TruncatedSVD

    places, n = np.zeros((X.shape[0], 2)), min(2, *X.shape)  # a second component need not exist
    if X.shape[0] > 1:
        with np.errstate(all="ignore"):  # shares of a variance of 0, which nobody reads
            if issparse(X):  # ten directions in place of many columns, so that rows can be centred
                few = TruncatedSVD(min(10, X.shape[0]), random_state=0)
                X = few.fit_transform(X) if X.shape[1] > 10 else X.toarray()
            places[:, :n] = PCA(n, random_state=0).fit_transform(X)
    step = -(-len(places) // 5000)  # more dots only cover each other
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
