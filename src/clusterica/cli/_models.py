"""``clusterica report``, ``info``, ``download`` and ``bench``: about models, data sets and this machine."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from clusterica import __version__
from clusterica.arrays import get_config
from clusterica.cli._console import (
    OUTPUT,
    JsonSwitch,
    ListSwitch,
    note,
    print_json,
    show_table,
    stop,
)
from clusterica.cli._files import check_output
from clusterica.cli._learn import networks_of
from clusterica.cli.inputs.images import BUILT_IN, load_built_in
from clusterica.files import write_file


class KnownDataSet(NamedTuple):
    """How much is downloaded for a data set, and the folders of which one is there afterwards."""

    size: str
    folders: tuple[str, ...]


DOWNLOADS = {
    "cifar10": KnownDataSet("162 MiB", ("cifar-10-batches-bin", "cifar-10-batches-py")),
    "stl10": KnownDataSet("2.5 GiB", ("stl10_binary",)),
    "mnist": KnownDataSet("11 MiB", ("mnist",)),
    "fashion-mnist": KnownDataSet("30 MiB", ("fashion-mnist",)),
    "caltech101": KnownDataSet("131 MiB", ("101_ObjectCategories", "caltech-101")),
}
"""Data sets that are downloaded, by name."""


def report(
    model: Path,
    /,
    *,
    output: Annotated[Path, OUTPUT] = Path("report.html"),
    json: JsonSwitch = False,
) -> None:
    """Write a page about a model, to open in a browser: its filters, data, settings and accuracy.

    The page is one file and needs no network.

    For example:

        clusterica report filters.safetensors -o page.html

    Parameters
    ----------
    model
        A model file of clusterica learn or train.
    output
        The page, .html.
    json
        Print the path of the page and its advice as JSON.
    """
    from clusterica.io import load, load_summary
    from clusterica.report import advise, model_page, summarize

    check_output(output, (".html", ".htm"), inputs=[model])
    fitted = load(model)
    summary = load_summary(model) or summarize(fitted)
    write_file(output, model_page(fitted, summary=summary).html())
    if json:
        print_json({"file": str(output), "advice": advise(summary)})
        return
    note("Open this page in a browser:")
    print(output.absolute())


def info(model: Path, /, *, json: JsonSwitch = False) -> None:
    """Show what a model file contains: kind, settings, classes, sizes, data, accuracy and versions.

    Parameters
    ----------
    model
        The model file.
    json
        Print it as JSON.
    """
    facts = model_facts(model)
    if json:
        print_json(facts)
        return
    data, tried, seconds = facts["data"], facts["validation"], facts["seconds"]
    rows = [
        ("kind", facts["kind"]),
        ("size", f"{facts['bytes'] / 2**20:,.1f} MiB"),
        ("settings", ", ".join(f"{k}={v}" for k, v in facts["settings"].items())),
        ("classes", ", ".join(facts["classes"])),
        ("features", "" if facts["features"] is None else f"{facts['features']:,}"),
        ("data", f"{data['n']:,} images of {data['source']}" if data else ""),
        (
            "accuracy",
            f"{100 * facts['accuracy']:.2f} % of {tried['n']:,} held-out images" if tried else "",
        ),
        ("time", "" if seconds is None else f"{seconds:.1f} s"),
        ("written by", ", ".join(f"{name} {v}" for name, v in facts["versions"].items())),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows:
        if text:
            table.add_row(name, text)
    Console(highlight=False, markup=False).print(table)


def model_facts(path: Path) -> dict[str, Any]:
    """Return what ``clusterica info`` shows of a model file, by name."""
    from clusterica.io import load, load_summary, load_versions

    fitted, summary = load(path), load_summary(path) or {}
    data, tried = summary.get("data") or {}, summary.get("validation")
    # A classifier has the features of all its networks, and a committee those of all its members.
    counts = [
        int(part.n_features_out_)
        for part in networks_of(fitted)
        if hasattr(part, "n_features_out_")
    ]
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "kind": type(fitted).__name__,
        "settings": {name: _plain(value) for name, value in fitted.get_params(deep=False).items()},
        "classes": [str(c) for c in getattr(fitted, "classes_", [])],
        "features": sum(counts) if counts else None,
        "data": data,
        "accuracy": None if tried is None else tried["accuracy"],
        "validation": tried and {name: tried[name] for name in ("n", "classes", "confusion")},
        "seconds": summary.get("seconds"),
        "versions": load_versions(path),
    }


def download(
    name: str | None = None,
    /,
    *,
    list_: ListSwitch = False,
    data: Path | None = None,
    json: JsonSwitch = False,
) -> None:
    """Download a data set of images, so that other commands can use it by its name.

    An interrupted download is resumed by the same command.

    For example:

        clusterica download cifar10

    Parameters
    ----------
    name
        cifar10, stl10, mnist, fashion-mnist or caltech101.
    list_
        List the data sets with their sizes, and whether they are there.
    data
        Folder for the data sets; by default that of the environment variable CLUSTERICA_DATA, or a
        folder in the user's cache.
    json
        Print the list as JSON.
    """
    from clusterica.datasets import data_folder

    folder = data or data_folder()
    if list_:
        rows = [
            {
                "name": name,
                "what": BUILT_IN[name],
                "download": one.size,
                "there": any((folder / inside).is_dir() for inside in one.folders),
            }
            for name, one in DOWNLOADS.items()
        ]
        if json:
            print_json({"folder": str(folder), "sets": rows})
            return
        console = Console(highlight=False)
        table = Table("name", "what", "download", "there", box=None, pad_edge=False)
        for row in rows:
            table.add_row(
                *(str(row[key]) for key in ("name", "what", "download")),
                "yes" if row["there"] else "no",
            )
        console.print(table)
        console.print(f"Folder: {folder}", soft_wrap=True, markup=False)
        console.print("digits and photos come with scikit-learn and need no download.")
        return
    if name is None or name.lower() not in DOWNLOADS:
        what = "Give the name of a data set" if name is None else f"there is no data set {name}"
        stop(f"{what}. They are {', '.join(DOWNLOADS)}.", code=2)
    chosen = name.lower()
    console = Console(stderr=True)
    with console.status(f"downloading {chosen} ({DOWNLOADS[chosen].size}) to {folder}"):
        try:
            found = load_built_in(chosen, data=folder, download=True)
        except OSError as error:
            stop(f"{chosen} could not be downloaded: {error}")
    note(f"{chosen}: {len(found.images):,} images, in")
    print(folder)


def bench(*, json: JsonSwitch = False) -> None:
    """Measure this machine in under a minute: K-means against scikit-learn, products, and features of images.

    The two libraries take turns on the same data, with the same start and iterations.

    Parameters
    ----------
    json
        Print the result as JSON.
    """
    facts = measure()
    if json:
        print_json(facts)
        return
    console = Console(highlight=False)
    rows = [
        ("K-means, 100,000 x 64, k = 256, 10 iterations", f"{facts['kmeans_seconds']:.2f} s"),
        ("the same with scikit-learn", f"{facts['sklearn_kmeans_seconds']:.2f} s"),
        ("scikit-learn / clusterica", f"{facts['speed_up']:.2f}"),
        ("product of float32 matrices", f"{facts['product_gflops']:.0f} GFLOP/s"),
        ("features, 32 x 32 x 3, 256 filters", f"{facts['images_per_second']:,.0f} images/s"),
    ]
    show_table(console, rows, ("measured", "result"))
    console.print(f"{facts['processor']}, {facts['threads']} threads, clusterica {__version__}")


def measure(*, n_rows: int = 100_000, n_images: int = 500, repeats: int = 3) -> dict[str, Any]:
    """Return medians of a few repetitions; contenders are interleaved, so that both see the same load."""
    import sklearn
    from sklearn.cluster import KMeans as TheirKMeans

    from clusterica.arrays import active_config
    from clusterica.cluster import KMeans
    from clusterica.images import ImageFeatures

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 64), dtype=np.float32)
    start = X[:256].copy()
    A = rng.standard_normal((2048, 2048), dtype=np.float32)
    images = rng.integers(256, size=(n_images, 32, 32, 3), dtype=np.uint8)
    model = ImageFeatures(256, n_patches=20_000, random_state=0).fit(images)
    jobs: dict[str, Callable[[], Any]] = {
        "kmeans": lambda: KMeans(256, init=start, max_iter=10, tol=0).fit(X),
        "sklearn": lambda: TheirKMeans(256, init=start, n_init=1, max_iter=10, tol=0).fit(X),
        "product": lambda: A @ A,
        "encode": lambda: model.transform(images),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten iterations do not converge
        for repeat in range(repeats + 1):
            for name, job in jobs.items():
                begin = time.perf_counter()
                job()
                if repeat > 0:  # the first one compiles
                    times[name].append(time.perf_counter() - begin)
    median = {name: float(np.median(values)) for name, values in times.items()}
    return {
        "kmeans_seconds": median["kmeans"],
        "sklearn_kmeans_seconds": median["sklearn"],
        "speed_up": median["sklearn"] / median["kmeans"],
        "product_gflops": 2 * len(A) ** 3 / median["product"] / 1e9,
        "images_per_second": n_images / median["encode"],
        "processor": platform.processor() or platform.machine(),
        "threads": active_config().n_threads,
        "memory": get_config()["memory"],
        "versions": {
            "clusterica": __version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }


def _plain(value: Any) -> Any:
    """Return a setting as a value of JSON; estimators and functions as text."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return " ".join(str(value).split())
