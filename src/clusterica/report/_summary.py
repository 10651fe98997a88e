"""A bounded summary of a fitted model: data, settings, filters with their numbers, accuracy and errors."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clusterica import __version__
from clusterica.arrays import as_generator, to_host
from clusterica.cluster import cluster_sizes, learned_vectors
from clusterica.metrics import excess_kurtosis
from clusterica.report._banks import (
    find_networks,
    history_of,
    layer_rows,
    spectrum_of,
    summarize_banks,
)
from clusterica.report._measures import as_bytes

# Rows that are looked at, of images and of tables: a share of 1 % is then known to about a tenth of it.
N_SAMPLED = 20_000
# Errors on the page, and the largest side of their pictures in pixels.
N_ERRORS, ERROR_SIDE = 24, 64
# Rows and columns of centres or components that are kept.
MOST_ROWS, MOST_COLUMNS = 200, 512


def summarize(
    model: Any,
    images: Any = None,
    *,
    labels: Any = None,
    validation: tuple[Any, ...] | None = None,
    source: str | None = None,
    seconds: float | None = None,
    random_state: Any = 0,
) -> dict[str, Any]:
    """Summarize a fitted model for a page, or for the file of the model.

    Numbers are those of up to 20,000 patches or rows, so that this takes seconds, and pictures are kept of as
    many filters as fit on a page of 10 MB.

    Parameters
    ----------
    model : estimator
        :class:`~clusterica.images.ImageFeatures`, :class:`~clusterica.networks.FeatureNetwork`,
        :class:`~clusterica.networks.ImageClassifier`, :class:`~clusterica.networks.Committee`, or a pipeline
        with one of them; or a learner of rows, such as one of the K-means family,
        :class:`~clusterica.ica.ClusterICA`, :class:`~clusterica.rica.RICA` or
        :class:`~clusterica.preprocessing.Whitener`.
    images : array or list of images, or array of shape (n, n_features), default=None
        What the model was learned from, or some of it. Without it, there is no kurtosis of the responses, and
        there are no histograms and no patches.
    labels : array-like of shape (n,), default=None
        Classes of the images, to count them.
    validation : tuple (X, y) or (X, y, predictions), default=None
        Data that the model did not see, for the accuracy, the confusion matrix and examples of errors.
        ``model.predict`` is called if there are no predictions.
    source : str, default=None
        Where the data is from: a folder, a file, a name.
    seconds : float, default=None
        How long the fit took.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the sample.

    Returns
    -------
    dict
        Strings, numbers, lists, dicts and NumPy arrays, as ``clusterica.save(model, path, summary=...)``
        takes them.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.images import ImageFeatures
    >>> from clusterica.report import summarize
    >>> X = load_digits().images
    >>> model = ImageFeatures(16, patch_size=4, n_patches=5000, random_state=0).fit(X)
    >>> summary = summarize(model, X, source="digits")
    >>> summary["data"]["n"], summary["banks"][0]["pixels"].shape
    (1797, (16, 4, 4, 1))
    """
    check_is_fitted(model)
    rng = as_generator(random_state)
    data: dict[str, Any] = {"source": source, "n": None, "shape": None, "classes": [], "counts": []}
    if images is not None:
        # Only images in a list differ in shape.
        many = isinstance(images, list)
        shapes = {tuple(np.shape(one)) for one in images} if many else {tuple(images.shape[1:])}
        data["n"] = len(images)
        data["shape"] = list(shapes.pop()) if len(shapes) == 1 else None
    if labels is not None:
        classes, counts = np.unique(np.asarray(to_host(labels)), return_counts=True)
        data["classes"], data["counts"] = [str(c) for c in classes], counts.tolist()
    settings = {k: " ".join(repr(v).split()) for k, v in model.get_params(deep=False).items()}
    found: dict[str, Any] = {
        "model": type(model).__name__,
        "data": data,
        # A pipeline of steps prints pages; 300 characters show what it is.
        "settings": {k: v if len(v) <= 300 else v[:299] + "…" for k, v in settings.items()},
        "versions": {
            "python": platform.python_version(),
            "clusterica": __version__,
            **{name: version(name) for name in ("numpy", "scikit-learn")},
        },
        "seconds": None if seconds is None else float(seconds),
        "banks": [],
        "layers": [],
    }
    networks = find_networks(model)
    if networks:
        found["layers"] = layer_rows(networks)
        found["banks"] = summarize_banks(networks, images, n_patches=N_SAMPLED, rng=rng)
    else:
        found["rows"] = _rows(model, images, rng)
    if hasattr(model, "validation_accuracy_"):
        found["estimated_accuracy"] = float(model.validation_accuracy_)
    if validation is not None:
        found["validation"] = _validation(model, validation, rng)
    return found


def _rows(model: Any, X: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Summarize a learner of rows: its vectors, sizes, kurtosis, spectrum and convergence."""
    if hasattr(model, "mixing_"):  # what each source looks like in the data
        vectors = np.asarray(to_host(model.mixing_), np.float32).T
    else:
        learned = learned_vectors(model)
        vectors = np.asarray(to_host(learned[0]), np.float32) if learned else np.empty((0, 0), "f4")
    sizes = cluster_sizes(model)
    kurtosis = getattr(model, "kurtosis_", None)
    kurtosis = None if kurtosis is None else np.asarray(to_host(kurtosis), np.float64)
    if X is not None and hasattr(model, "components_") and hasattr(model, "transform"):
        X = np.asarray(X) if isinstance(X, list) else X
        some = np.sort(rng.permutation(len(X))[:N_SAMPLED])
        sources = model.transform(X.iloc[some] if hasattr(X, "iloc") else X[some])
        kurtosis = excess_kurtosis(sources)
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_vectors": len(vectors),
        "n_features": int(vectors.shape[1]),
        "vectors": vectors[:MOST_ROWS, :MOST_COLUMNS],
        "names": [] if names is None else [str(name) for name in names[:MOST_COLUMNS]],
        "sizes": None if sizes is None else np.asarray(sizes, np.float64),
        "kurtosis": kurtosis,
        "spectrum": spectrum_of(getattr(model, "whitener_", model)),
        "history": history_of(model),
    }


def _validation(
    model: Any, validation: tuple[Any, ...], rng: np.random.Generator
) -> dict[str, Any]:
    """Return accuracy, confusion matrix (true class by row) and some errors."""
    from sklearn.metrics import confusion_matrix

    if len(validation) not in (2, 3):
        raise ValueError(
            f"validation has {len(validation)} parts; give (X, y), or (X, y, predictions)"
        )
    X, y = validation[0], np.asarray(to_host(validation[1]))
    sizes = [len(part) for part in validation]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"validation has parts of {', '.join(map(str, sizes))} entries; give a label for each image"
        )
    predicted = np.asarray(to_host(validation[2] if len(validation) == 3 else model.predict(X)))
    classes = np.unique(np.concatenate([y, predicted]))
    wrong = np.sort(rng.permutation(np.flatnonzero(y != predicted))[:N_ERRORS])
    errors: list[dict[str, Any]] = [
        {"true": str(y[i]), "predicted": str(predicted[i])} for i in wrong
    ]
    for error, i in zip(errors, wrong, strict=True):
        image = np.asarray(to_host(X[int(i)]))
        if image.ndim in (2, 3):  # not a row
            image = image[..., None] if image.ndim == 2 else image
            # Three channels are colours; of other numbers the first one is shown.
            image = image if image.shape[2] == 3 else image[:, :, :1]
            step = -(-max(image.shape[:2]) // ERROR_SIDE)
            image = image[::step, ::step]
            error["image"] = image if image.dtype == np.uint8 else as_bytes(image, (0, 1, 2))
    return {
        "n": len(y),
        "accuracy": float(np.mean(y == predicted)),
        "classes": [str(c) for c in classes],
        "confusion": confusion_matrix(y, predicted, labels=classes),
        "n_errors": int((y != predicted).sum()),
        "errors": errors,
    }
