"""The paper's methods as learners of image features: RICA, its kernel and supervised forms, KICA and KSR."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline, make_pipeline

from clusterica.arrays import to_host
from clusterica.cluster import GainShapeKMeans, KMeans
from clusterica.dictionaries import KernelSparseCoding, SparseAutoencoder, SparseRBM
from clusterica.encoders import LLCEncoder, SoftThresholdEncoder
from clusterica.experiments._recognition import POOLINGS, percent
from clusterica.ica import KernelICA
from clusterica.images import ImageFeatures
from clusterica.ops.kernels import DEAD
from clusterica.preprocessing import KernelWhitener
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA

WHITE = ("kRICA, white", "d-kRICA, white")
"""RICA and d-RICA in the white space of a kernel, section 4.1 of the paper."""
NAMES = ("RICA", "KICA", "KSR", "DRICA", "d-RICA", "kRICA", "d-kRICA", *WHITE)
SUPERVISED = ("DRICA", "d-RICA", "d-kRICA", "d-kRICA, white")
KERNEL = ("KICA", "KSR", "kRICA", "d-kRICA", *WHITE)
UNITS = ("Sparse auto-encoder", "Sparse RBM")
"""Networks of units that the paper compares with; their activities are the codes."""
OTHERS = (*UNITS, "LLC")
"""Systems that the paper compares with and that are learned here with the settings of their classes."""
STEPLESS = ("K-means", "KICA", *OTHERS)
"""Methods whose number of steps is not one of the settings."""
SLOW = ("KICA", "KSR", *WHITE)
"""Methods whose own codes take long: a kernel with every landmark, or a lasso, for every patch."""
# Least variance of a white dimension, as a share of the largest: the paper has none, this was not tuned.
FLOOR = 1e-3


class Setting(NamedTuple):
    """What is set for a method, besides its name.

    ``threshold`` is None for the method's own codes: both signs of W x, k(w, x), or the codes of the
    learner; else codes are soft thresholds of the responses of the learned basis, of both signs.
    ``from_clusters`` starts linear methods at K-means, as the paper starts kernel methods; else at random.
    ``pooled`` is whether the penalty of linear methods takes 3 x 3 neighbours together, as in the paper;
    else it is log cosh of every code.
    ``pooling`` is a name of `POOLINGS`.
    ``landmarks`` is the number of patches that span the white space of a kernel.
    """

    sparsity: float = 0.01
    discrimination: float = 0.1
    gamma: float = 0.1
    kernel: str = "rbf"
    max_iter: int = 100
    from_clusters: bool = False
    pooled: bool = True
    threshold: float | None = None
    pooling: str = next(iter(POOLINGS))
    landmarks: int = 500


def is_slow(name: str, setting: Setting) -> bool:
    """Whether codes take so long that fewer patches are encoded."""
    return name in SLOW and setting.threshold is None


def describe(name: str, setting: Setting) -> str:
    """Return in words what is set for a method, without what it does not read."""
    linear = name in ("RICA", "DRICA", "d-RICA")
    codes = "own codes" if setting.threshold is None else f"threshold {setting.threshold:g}"
    words = {
        f"λ {setting.sparsity:g}": name not in STEPLESS,
        f"α {setting.discrimination:g}": name in SUPERVISED,
        f"γ {setting.gamma:g}": name in KERNEL,
        f"{setting.landmarks} landmarks": name in WHITE,
        f"{setting.max_iter} steps": name not in STEPLESS,
        "K-means start": linear and setting.from_clusters,
        "random start": linear and not setting.from_clusters,
        "log cosh": linear and not setting.pooled,
        codes: True,
        setting.pooling: setting.pooling != Setting().pooling,
    }
    return ", ".join(word for word, counts in words.items() if counts)


def candidates(name: str, paper: Setting, *, quick: bool) -> list[Setting]:
    """Return the settings among which validation chooses, that of the paper first; two in a quick run."""
    if name == "K-means":
        found = [paper._replace(threshold=t) for t in (0.25, 0.5)]
    elif name in OTHERS:
        # Filters of units can be used as others are; LLC's centres are those of K-means.
        found = [paper] if name == "LLC" else [paper, paper._replace(threshold=0.25)]
    elif name == "KICA":
        found = [paper, paper._replace(gamma=1.0)]
    elif name == "KSR":
        paper = paper._replace(max_iter=min(paper.max_iter, 10))
        narrow = paper._replace(gamma=3.0)
        found = [paper, narrow, paper._replace(gamma=1.0, sparsity=0.1)]
        found.append(narrow._replace(max_iter=2, threshold=0.25))
    elif name in WHITE:
        # Its filters are no patches: own codes alone.
        medium = paper._replace(gamma=1.0)
        found = [paper, medium, medium._replace(landmarks=2000), paper._replace(gamma=3.0)]
    elif name in KERNEL:
        paper = paper._replace(max_iter=min(paper.max_iter, 50))
        narrow = paper._replace(gamma=3.0, max_iter=10)
        few = narrow._replace(max_iter=2)
        found = [paper, narrow, narrow._replace(threshold=0.25), few._replace(threshold=0.25)]
    else:
        # Clusters lie in no order, so that neighbours among them have nothing in common.
        started = paper._replace(from_clusters=True, threshold=0.25, pooled=False)
        brief = [started._replace(max_iter=n) for n in (10, 2)]
        found = [paper, paper._replace(threshold=0.25), *brief]
    if name in SUPERVISED:
        found.append(found[-1]._replace(discrimination=paper.discrimination / 10))
    return [found[0], found[-1]] if quick else found


def make_learner(name: str, setting: Setting) -> Any:
    """Return the unfitted learner of a method; the number of filters is set by ImageFeatures."""
    weights: dict[str, Any] = {"sparsity": setting.sparsity, "max_iter": setting.max_iter}
    kernel: dict[str, Any] = {"kernel": setting.kernel}
    if setting.kernel == "rbf":
        kernel["gamma"] = setting.gamma
    # The paper's objective has no factor; that patches have unit length, it does not say.
    paper: dict[str, Any] = {"scale": 1.0, "normalize": True, "unit_codes": False, "tol": 1e-5}
    linear: dict[str, Any] = {
        "init": "k-means" if setting.from_clusters else "gaussian",
        "pooling": "2d" if setting.pooled else None,
    }
    if name == "K-means":
        return GainShapeKMeans(max_iter=20, compute_labels=False)
    if name == "LLC":
        return KMeans(max_iter=50, compute_labels=False)
    if name in UNITS:
        return SparseAutoencoder() if name == UNITS[0] else SparseRBM()
    if name == "RICA":
        return RICA(**linear, **weights)
    if name in ("DRICA", "d-RICA"):
        constraint = "both" if name == "d-RICA" else "inhomogeneous"
        return DiscriminativeRICA(
            discrimination=setting.discrimination, constraint=constraint, **linear, **weights
        )
    if name == "kRICA":
        return KernelRICA(**kernel, **weights, **paper)
    if name == "d-kRICA":
        return DiscriminativeKernelRICA(
            discrimination=setting.discrimination, **kernel, **weights, **paper
        )
    if name == "KICA":
        return KernelICA(**kernel)
    if name in WHITE:
        whitener = KernelWhitener(eigenvalue_floor=FLOOR, n_landmarks=setting.landmarks, **kernel)
        free: dict[str, Any] = {"unit_norm": False, "pooling": "2d", **weights}
        if name in SUPERVISED:
            return make_pipeline(
                whitener, DiscriminativeRICA(discrimination=setting.discrimination, **free)
            )
        return make_pipeline(whitener, RICA(**free))
    return KernelSparseCoding(**kernel, **weights)


def make_features(
    name: str,
    setting: Setting,
    *,
    n_filters: int,
    patch_size: int,
    n_patches: int,
    stride: int = 1,
    steps: dict[str, Any],
    seed: int,
) -> ImageFeatures:
    """Return unfitted features by a method.

    Parameters
    ----------
    name : str
        One of `NAMES` or `OTHERS`, or "K-means".
    setting : Setting
        Its weights and codes.
    n_filters, patch_size, n_patches, stride : int
        As in ImageFeatures.
    steps : dict
        The normaliser and the whitener.
    seed : int
        Seed of everything random.
    """
    return ImageFeatures(
        n_filters,
        patch_size=patch_size,
        n_patches=n_patches,
        stride=stride,
        learner=make_learner(name, setting),
        encoder=_encoder(name, setting),
        random_state=seed,
        **POOLINGS[setting.pooling],
        **steps,
    )


def _encoder(name: str, setting: Setting) -> Any:
    if setting.threshold is not None:
        return SoftThresholdEncoder(alpha=setting.threshold)
    if name == "LLC":
        return LLCEncoder(n_neighbors=5)
    if name in ("kRICA", "d-kRICA", *UNITS):
        return "transform"  # k(w, x) and activities have no signs
    return "transform-both-signs" if name in SLOW else SoftThresholdEncoder(alpha=0.0)


@contextmanager
def few_steps() -> Iterator[None]:
    """Let fits end early without a word: the number of steps is one of the settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*dead.*")
        yield


def share_dead(features: ImageFeatures) -> float | None:
    """Return the share of basis vectors that no patch is near to, where the method counts them.

    In white kernel space codes have the deviation |w|: dead are those below 0.01.
    """
    learner = features.learner_
    if isinstance(learner, Pipeline):
        return float(np.mean(np.linalg.norm(to_host(learner[-1].components_), axis=1) < DEAD))
    n_dead = getattr(learner, "n_dead_", None)
    return None if n_dead is None else n_dead / features.n_filters


def most_dead(members: Sequence[ImageFeatures]) -> float | None:
    """Return the largest share of dead basis vectors, where the method counts them."""
    shares = [share for share in map(share_dead, members) if share is not None]
    return max(shares, default=None)


def share_in_words(share: float) -> str:
    """Return a share in percent, which is 0 or 100 only if all or none are meant."""
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def accuracy_cell(accuracies: Sequence[float], dead: float | None) -> str:
    """Return accuracies for a table, with the share of dead basis vectors where there are any."""
    return percent(accuracies) + (f" ({share_in_words(dead)} dead)" if dead else "")


class Scored(NamedTuple):
    """An accuracy, and the share of dead basis vectors where the method counts them."""

    accuracy: float
    dead: float | None = None

    def __str__(self) -> str:
        return accuracy_cell([self.accuracy], self.dead)


def first_columns(data: str) -> tuple[str, ...]:
    """Return the columns with which the tables of methods begin."""
    return (
        "Method",
        "Paper (%)",
        f"Ours, {data}, the paper's λ, α, γ (%)",
        "Settings by validation (%)",
    )


def cells(found: dict[str, Any]) -> tuple[str, ...]:
    """Return what a table prints of a method: the paper's weights, the best settings, several features.

    The first of them belong to `first_columns`, after the method and the paper's figure.
    """
    scores = [found.get(key) for key in ("paper", "best", "several")]
    paper, best, several = (
        "" if score is None else accuracy_cell([score["accuracy"]], score["dead"])
        for score in scores
    )
    return paper, best, found["best"]["setting"], several
