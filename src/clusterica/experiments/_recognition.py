"""Image classification as in the papers: filters, codes, pooling, and a linear SVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline

from clusterica.arrays import namespace_of, on_torch_device, to_host
from clusterica.datasets import ImageSet, load_cifar10, load_digits_images, load_stl10
from clusterica.experiments._context import Context
from clusterica.experiments._measures import peak_memory
from clusterica.images import ImageFeatures
from clusterica.io import load, save
from clusterica.linear import LinearSVC
from clusterica.networks import FeatureNetwork
from clusterica.preprocessing import ContrastNormalizer, Whitener


class Labeled(NamedTuple):
    """Images and their labels; the images may be on a device."""

    images: Any
    labels: np.ndarray


class Split(NamedTuple):
    """Training images and test images."""

    train: Labeled
    test: Labeled
    name: str
    """What the images are, for the table."""


class Score(NamedTuple):
    """Accuracy of a method, the time of its steps, and the C that validation chose.

    ``classifier_passes`` counts passes over the features in its fit, the choice of C included; ``gib`` is the
    peak memory of the GPU or the process, None where it is not known.
    """

    accuracy: float
    learn_seconds: float
    encode_seconds: float
    classifier_seconds: float
    C: float | None = None
    n_features: int | None = None
    classifier_passes: int | None = None
    gib: float | None = None
    neighbors: float | None = None
    """Accuracy of the nearest neighbours, if asked for."""
    last: float | None = None
    """Accuracy with the features of the last layer alone, if asked for."""


def cifar10(ctx: Context) -> Split:
    """Return CIFAR-10, or the digits of scikit-learn in a quick run without data."""
    if ctx.data is None and ctx.quick:
        return _digits(ctx)
    train, test = (load_cifar10(_folder(ctx, "CIFAR-10"), split=s) for s in ("train", "test"))
    if ctx.quick:
        train, test = _first(train, 2000), _first(test, 1000)
    return Split(_labeled(ctx, train), _labeled(ctx, test), "CIFAR-10")


def stl10(ctx: Context) -> tuple[Labeled, tuple[np.ndarray, ...], str]:
    """Return the training images of STL-10 and their ten folds, or digits with folds in a quick run."""
    if ctx.data is None and ctx.quick:
        digits = _digits(ctx)
        rng = np.random.default_rng(ctx.seed)
        n = len(digits.train.labels)
        return digits.train, tuple(np.sort(rng.permutation(n)[:400]) for _ in range(3)), digits.name
    found = load_stl10(_folder(ctx, "STL-10"), split="train")
    assert found.folds is not None
    folds = found.folds[:2] if ctx.quick else found.folds
    return _labeled(ctx, found), folds, "STL-10"


def evaluate(
    features: Any,
    split: Split,
    *,
    classifier: LinearSVC | None = None,
    mirrored: bool = False,
    readouts: bool = False,
    supervised: bool = False,
) -> Score:
    """Learn filters from the training images, train a classifier on their features, score the test images.

    Parameters
    ----------
    features : ImageFeatures or FeatureNetwork
        Not fitted yet; supervised learners get the labels.
    split : Split
        The images.
    classifier : LinearSVC, optional
        Not fitted yet; by default C is chosen by validation on training images.
    mirrored : bool, default=False
        Whether to train the classifier on mirror images as well. C is then chosen on a fifth of the images
        and their mirror images, so that no image is in both parts.
    readouts : bool, default=False
        Whether to score nearest neighbours as well, and the last layer of a network alone.
    supervised : bool, default=False
        Whether features learn from the labels: C is then chosen on others, learned without the labels of the
        images that choose it.
    """
    classifier = LinearSVC(C="auto", random_state=0) if classifier is None else classifier
    return _fit_and_score(
        features,
        split,
        classifier,
        mirrored=mirrored,
        mirrored_test=False,
        readouts=readouts,
        supervised=supervised,
    )[1]


def evaluate_classifier(model: Any, split: Split) -> Score:
    """Fit a classifier of images and score the test images.

    ``learn_seconds`` has the time of the whole fit, in which features are learned and encoded more than once.
    """
    memory = PeakMemory(split.train.images)
    with _clock(split.train.images) as fit:
        model.fit(split.train.images, split.train.labels)
    with _clock(split.train.images) as predict:
        accuracy = float((model.predict(split.test.images) == split.test.labels).mean())
    return Score(accuracy, fit[0], predict[0], 0.0, gib=memory.gib())


class JointScore(NamedTuple):
    """Accuracy of several methods together, and the score of each."""

    accuracy: float
    members: list[Score]


def evaluate_committee(
    members: Sequence[ImageFeatures],
    split: Split,
    *,
    mirrored: bool = True,
    supervised: bool = False,
) -> JointScore:
    """Train a classifier for each kind of features, and classify by the sum of their decision functions.

    With ``mirrored``, classifiers are trained on mirror images as well, and decide on a test image together
    with its mirror image. ``supervised`` is that of :func:`evaluate`.
    """
    judged = [
        _fit_and_score(
            features,
            split,
            LinearSVC(C="auto", random_state=0),
            mirrored=mirrored,
            mirrored_test=mirrored,
            supervised=supervised,
        )
        for features in members
    ]
    decisions, outcomes = zip(*judged, strict=True)
    return JointScore(_accuracy(np.sum(decisions, axis=0), split), list(outcomes))


def _fit_and_score(
    features: Any,
    split: Split,
    classifier: LinearSVC,
    *,
    mirrored: bool,
    mirrored_test: bool,
    readouts: bool = False,
    supervised: bool = False,
) -> tuple[np.ndarray, Score]:
    """Fit features and classifier; return the decisions on the test images, and the score."""
    train, test = split.train, split.test
    memory = PeakMemory(train.images)
    if supervised:
        learn_again = learn_and_encode(partial(clone, features), train, mirrored=mirrored)
        classifier.set_params(C=score_unseen(learn_again, train.labels, n_scored=1).C)
    elif mirrored:
        # An image and its mirror image are held out together: else validation would be too easy.
        classifier.set_params(validation=np.tile(a_fifth(len(train.labels)), 2))
    with _clock(train.images) as learn:
        features.fit(train.images, train.labels)
    with _clock(train.images) as encode:
        X, y = encode_training(features, train, mirrored=mirrored)
        tests = [test.images, _mirrored(test.images)] if mirrored_test else [test.images]
        X_tests = [features.transform(images) for images in tests]
    with _clock(train.images) as fit:
        classifier.fit(X, y)
    decisions = np.sum(
        [to_host(classifier.decision_function(X_test)) for X_test in X_tests], axis=0
    )
    score = Score(
        _accuracy(decisions, split),
        learn[0],
        encode[0],
        fit[0],
        float(classifier.C_),
        X.shape[1],
        int(classifier.n_passes_),
        memory.gib(),
    )
    if readouts:
        neighbors = neighbor_labels(X[: len(train.labels), :], train.labels, X_tests[0])
        score = score._replace(neighbors=float((neighbors == test.labels).mean()))
        if isinstance(features, FeatureNetwork):
            columns = last_layer(features)
            classifier.fit(X[:, columns], y)
            predicted = to_host(classifier.predict(X_tests[0][:, columns]))
            score = score._replace(last=float((predicted == test.labels).mean()))
    return decisions, score


def last_layer(network: FeatureNetwork) -> slice:
    """Return which features of a fitted network are those of its last layer."""
    n_last = network.set_params(output="last").n_features_out_
    n_all = network.set_params(output="all").n_features_out_
    return slice(n_all - n_last, n_all)


N_NEIGHBORS = 10


def neighbor_labels(X: Any, y: np.ndarray, X_test: Any) -> np.ndarray:
    """Return the labels that most of the ten nearest training rows have, by cosine of standardised features.

    Features are learned and compared without labels: the accuracy says how near images of a class lie.
    """
    xp = namespace_of(X)
    mean, deviation = xp.mean(X, axis=0), xp.std(X, axis=0)
    deviation = xp.where(deviation > 0, deviation, xp.ones_like(deviation))

    def units(rows: Any) -> Any:
        rows = rows - mean
        rows /= deviation  # in place: features of a network may take a tenth of a GPU
        rows /= xp.maximum(xp.linalg.vector_norm(rows, axis=1, keepdims=True), 1e-12)
        return rows

    classes, codes = np.unique(y, return_inverse=True)
    references, found = units(X), []
    for start in range(0, X_test.shape[0], 500):
        cosines = units(X_test[start : start + 500, :]) @ references.T
        nearest = to_host(xp.argsort(-cosines, axis=1)[:, :N_NEIGHBORS])
        votes = np.apply_along_axis(np.bincount, 1, codes[nearest], minlength=len(classes))
        found.append(classes[votes.argmax(axis=1)])
    return np.concatenate(found)


class PeakMemory:
    """The peak memory from now on: of the GPU where the images are on one, else of this process."""

    def __init__(self, like: Any) -> None:
        self.on_gpu = not isinstance(like, np.ndarray) and like.device.type == "cuda"
        if self.on_gpu:
            import torch

            torch.cuda.reset_peak_memory_stats()
            return
        self.is_known = True
        try:
            # Linux only: the peak of the process begins anew, else it would be that of an earlier row.
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            self.is_known = False

    def gib(self) -> float | None:
        """Return the peak in GiB, of a process with the interpreter and all data; None if not known."""
        if self.on_gpu:
            import torch

            return float(torch.cuda.max_memory_allocated() / 2**30)
        peak = peak_memory() if self.is_known else None
        return None if peak is None else peak / 2**30


def _accuracy(decisions: np.ndarray, split: Split) -> float:
    """Return the share of test images whose largest decision is that of their class."""
    # Columns of decisions are in the order of the sorted classes, as in scikit-learn.
    predicted = np.unique(split.train.labels)[np.argmax(decisions, axis=1)]
    return float((predicted == split.test.labels).mean())


class Constants(NamedTuple):
    """The eps of contrast normalisation and of whitening."""

    contrast: float = 10.0
    whitening: float = 0.1

    def steps(self) -> dict[str, Any]:
        """Return them as settings of :class:`ImageFeatures`."""
        return {
            "normalizer": ContrastNormalizer(self.contrast),
            "whitener": Whitener(eps=self.whitening),
        }


# From the values of Coates & Ng upwards: in our runs validation chose those or larger ones.
_CONTRASTS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
_WHITENINGS = (0.1, 0.3, 1.0)


def choose_constants(score: Callable[[Constants], float]) -> tuple[Constants, dict[str, float]]:
    """Return the constants with the best validation score, and all scores.

    Parameters
    ----------
    score : callable
        From constants to the accuracy on held-out training images. First contrast is raised as long as the
        score improves, then whitening.
    """
    best, scores = Constants(), {}
    for name, values in (("contrast", _CONTRASTS), ("whitening", _WHITENINGS)):
        for value in values:
            trial = best._replace(**{name: value})
            if trial not in scores:
                scores[trial] = score(trial)
            # Validation scores rise and then fall: the first fall ends the search.
            if scores[trial] < scores[best]:
                break
            best = trial
    return best, {f"contrast {c:g}, whitening {w:g}": value for (c, w), value in scores.items()}


POOLINGS: dict[str, dict[str, Any]] = {
    "sum over 2 x 2": {"pooling": "sum", "grid": (2, 2)},
    "L2 over 2 x 2": {"pooling": "l2", "grid": (2, 2)},
    "L2 over 1, 2 x 2 and 3 x 3": {"pooling": "l2", "grid": [(1, 1), (2, 2), (3, 3)]},
}
"""Ways to pool codes among which validation may choose, as settings of ImageFeatures; Coates & Ng's first."""


def smaller(method: Any) -> Any:
    """Return a row of a table with a fortieth of the filters, for a quick run, with the number in its name.

    Parameters
    ----------
    method : NamedTuple
        With name, paper and n_filters.
    """
    n = method.n_filters // 40
    return method._replace(
        name=method.name.replace(f"{method.n_filters} maps", f"{n} maps"),
        paper=f"{method.paper} ({method.n_filters} maps)" if method.paper else "",
        n_filters=n,
    )


def validation_score(
    features: ImageFeatures, train: Labeled, *, seed: int, per_class: int | None = None
) -> float:
    """Return the accuracy on a fifth of the training images of a classifier trained on the others.

    With ``per_class`` only that many labels of each class are used, the same for all features, so that
    one draw is enough to compare them.
    """
    split = hold_out(train, seed)
    features.fit(split.train.images, split.train.labels)
    rest = np.arange(len(split.train.labels))
    if per_class is not None:
        rest = label_subsets(split.train.labels, per_class, 1, seed)[0]
    X = features.transform(rows_of(split.train.images, rest))
    classifier = LinearSVC(C="auto", random_state=0).fit(X, split.train.labels[rest])
    predicted = classifier.predict(features.transform(split.test.images))
    return float((to_host(predicted) == split.test.labels).mean())


N_INNER = 3
"""Parts of the training images by which settings of supervised methods are chosen."""


class Unseen(NamedTuple):
    """An accuracy on images whose labels nothing has seen, and the C that gave it."""

    accuracy: float
    C: float


def score_unseen(
    learn: Callable[[np.ndarray], Any], labels: np.ndarray, *, n_scored: int = N_INNER
) -> Unseen:
    """Choose C in a cross-validation with features and classifier learned anew for every part.

    For features that learn from labels: rows that are held out from the classifier alone have been seen.

    Parameters
    ----------
    learn : callable
        Learns features from the training images with some numbers, and returns those of all training images;
        those of their mirror images may follow.
    labels : ndarray
        Of all training images.
    n_scored : int, default=3
        How many of the three parts are scored; each has its share of every class.
    """
    found = []
    parts = StratifiedKFold(N_INNER, shuffle=True, random_state=0)
    for rest, held in islice(parts.split(labels, labels), n_scored):
        X = learn(rest)
        copies = X.shape[0] // len(labels)
        mask = np.zeros(len(labels), dtype=bool)
        mask[held] = True
        classifier = LinearSVC(C="auto", validation=np.tile(mask, copies), random_state=0)
        classifier.fit(X, np.tile(labels, copies))
        found.append((float(classifier.validation_scores_.max()), classifier.C_))
    accuracies, strengths = np.transpose(found)
    return Unseen(float(accuracies.mean()), float(np.exp(np.log(strengths).mean())))


def learn_and_encode(
    new: Callable[[], Any], train: Labeled, *, mirrored: bool = False
) -> Callable[[np.ndarray], Any]:
    """Return what `score_unseen` calls: it learns from some images, and encodes all.

    Parameters
    ----------
    new : callable
        Returns unfitted features.
    train : Labeled
        All training images, an array or a list, with labels.
    mirrored : bool, default=False
        Whether mirror images follow the images.
    """

    def learn(some: np.ndarray) -> Any:
        features = new().fit(rows_of(train.images, some), train.labels[some])
        return encode_training(features, train, mirrored=mirrored)[0]

    return learn


def hold_out(train: Labeled, seed: int) -> Split:
    """Split the training images: four fifths for training, one fifth for validation."""
    # [seed, 1]: another stream than the draws of patches, which use the seed itself.
    order = np.random.default_rng([seed, 1]).permutation(len(train.labels))
    cut = len(order) // 5
    held, rest = (
        Labeled(rows_of(train.images, i), train.labels[i])
        for i in (np.sort(order[:cut]), np.sort(order[cut:]))
    )
    return Split(rest, held, "held-out training images")


def a_fifth(n: int) -> np.ndarray:
    """Return a mask of a fifth of n rows, drawn at random."""
    mask = np.zeros(n, dtype=bool)
    mask[np.random.default_rng(0).permutation(n)[: max(1, n // 5)]] = True
    return mask


def save_classifier(ctx: Context, features: Any, classifier: LinearSVC, name: str) -> str:
    """Write images-to-class as one model file in the folder of the results; return its name.

    ``clusterica.load`` reads it, and ``predict`` of the model takes images as the data set has them. What
    was learned on a GPU is written as if in host memory, so that it is read on any machine.
    """
    path = ctx.output / f"{name}.safetensors"
    save(Pipeline([("features", features), ("classifier", classifier)]), path)
    # Read back and written again: the file names the device of its tensors.
    if ctx.device is not None:
        save(load(path, device="cpu"), path)
    return path.name


def encode_training(
    features: ImageFeatures, train: Labeled, *, mirrored: bool
) -> tuple[Any, np.ndarray]:
    """Return features and labels of the training images, with their mirror images if ``mirrored``."""
    X = features.transform(train.images)
    if not mirrored:
        return X, train.labels
    xp = namespace_of(X)
    mirrored_X = features.transform(_mirrored(train.images))
    return xp.concat([X, mirrored_X], axis=0), np.tile(train.labels, 2)


def _mirrored(images: Any) -> Any:
    """Return images mirrored left to right."""
    return namespace_of(images).flip(images, axis=2)


def label_subsets(labels: np.ndarray, per_class: int, n: int, seed: int) -> list[np.ndarray]:
    """Return n random subsets with ``per_class`` images of each class, as sorted indices."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return [
        np.sort(np.concatenate([rng.choice(m, per_class, replace=False) for m in members]))
        for _ in range(n)
    ]


def rows_of(X: Any, indices: np.ndarray) -> Any:
    """Return some rows of an array or tensor, or items of a list."""
    if isinstance(X, list):
        return [X[i] for i in indices]
    if isinstance(X, np.ndarray):
        return X[indices]
    xp = namespace_of(X)
    return xp.take(X, xp.asarray(indices, device=X.device), axis=0)


def percent(accuracies: Sequence[float]) -> str:
    """Return the mean accuracy in percent, with its standard deviation over folds if there are several."""
    mean = 100 * float(np.mean(accuracies))
    if len(accuracies) == 1:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {100 * float(np.std(accuracies, ddof=1)):.1f}"


def _labeled(ctx: Context, found: ImageSet) -> Labeled:
    assert found.labels is not None
    return Labeled(placed(ctx, found.images), found.labels)


def _digits(ctx: Context) -> Split:
    found = load_digits_images()
    assert found.labels is not None
    order = np.random.default_rng(ctx.seed).permutation(len(found.labels))
    parts = [Labeled(found.images[i], found.labels[i]) for i in (order[:1200], order[1200:])]
    return Split(parts[0], parts[1], "digits of scikit-learn")


def _folder(ctx: Context, name: str) -> Any:
    """Return the folder of a data set; None for the default folder of the reader."""
    if ctx.data is None:
        return None
    known = {"CIFAR-10": "cifar-10-batches-bin", "STL-10": "stl10_binary"}[name]
    return ctx.data / known if (ctx.data / known).is_dir() else ctx.data


def _first(found: Any, n: int) -> Any:
    return found._replace(images=found.images[:n], labels=found.labels[:n])


def placed(ctx: Context, images: np.ndarray) -> Any:
    """Return images as a contiguous array, on the device of the run."""
    images = np.ascontiguousarray(images)
    return images if ctx.device is None else on_torch_device(images, ctx.device)


@contextmanager
def _clock(like: Any) -> Iterator[list[float]]:
    """Measure the seconds inside the ``with`` block, work on a GPU included."""
    seconds = [0.0]
    start = time.perf_counter()
    yield seconds
    if not isinstance(like, np.ndarray) and like.device.type == "cuda":
        import torch

        torch.cuda.synchronize()
    seconds[0] = time.perf_counter() - start
