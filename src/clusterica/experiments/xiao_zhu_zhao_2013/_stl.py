"""STL-10 by a method of the paper: features once or fold by fold, a classifier for every fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    N_INNER,
    Labeled,
    Unseen,
    learn_and_encode,
    rows_of,
    save_classifier,
    score_unseen,
)
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    Scored,
    accuracy_cell,
    few_steps,
    share_dead,
)
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

FOLDS_NOTE = (
    "Each classifier is trained on the {n_fold:,} images of a fold, with C chosen on parts of them, and "
    "scored on the {n_outside:,} training images outside it, for {n_folds} folds; the paper scored the test "
    "images. Filters are learned from all training images without labels, and those of supervised methods "
    "from the images of the fold, and anew for the choice of C; the share of these that is dead is that of "
    "the first fold."
)


class FoldScores(NamedTuple):
    """The share of the images outside each fold that is right, and how that came about."""

    accuracies: list[float]
    """Of the candidate that was chosen."""
    chosen: list[int]
    """Which of the candidates did best inside the fold, for every fold."""
    first: list[float]
    """Accuracies of the first candidate, whether chosen or not."""
    dead: list[float]
    """Share of dead basis vectors of every candidate that counts them."""
    models: list[str]
    """Names of the files that were written, one for every fold."""

    @property
    def scored(self) -> Scored:
        """The mean accuracy of what was chosen, with the dead share of the first candidate."""
        return Scored(float(np.mean(self.accuracies)), self.dead[0] if self.dead else None)


def score_cell(scores: FoldScores) -> str:
    """Return accuracies for a table, with the share of dead basis vectors where there are any."""
    return accuracy_cell(scores.accuracies, scores.scored.dead)


def folds_note(train: Labeled, folds: Sequence[np.ndarray]) -> str:
    """Return how classifiers are trained and scored, in words."""
    n = len(folds[0])
    return FOLDS_NOTE.format(n_fold=n, n_outside=len(train.labels) - n, n_folds=len(folds))


class Fitted(NamedTuple):
    """Features that were learned, and what they make of all images."""

    features: Any
    X: Any


Maker = Callable[[], ImageFeatures]
"""Makes unfitted features."""


def score_folds(
    ctx: Context,
    make: Sequence[Maker | list[Maker]],
    train: Labeled,
    folds: Sequence[np.ndarray],
    *,
    supervised: bool = False,
    name: str | None = None,
    n_scored: int = N_INNER,
) -> FoldScores:
    """Train a classifier on every fold and score it on the images outside.

    Parameters
    ----------
    ctx : Context
        The run.
    make : sequence of callables, or of lists with a callable for every fold
        The candidates: each makes unfitted features. Those in a list depend on the fold, and learn from
        labels. The one whose classifier does best in the
        cross-validation inside the fold that chooses its C is scored. Features that learn from labels are
        learned anew for every part of it.
    train : Labeled
        All training images.
    folds : sequence of ndarray
        Indices of the images of each fold.
    supervised : bool, default=False
        Whether features are learned with labels: then from the images of the fold alone, anew for each.
    name : str, optional
        Write the model of every fold to files with names that begin so.
    n_scored : int, default=3
        How many of the three parts of a fold are scored to choose settings and C of supervised methods.
    """
    with few_steps():
        once = [] if supervised else [_fitted(new(), train, None) for new in _of_fold(make, 0)]
        accuracies, chosen, first, dead, models = [], [], [], _dead(once), []
        for i, fold in enumerate(ctx.track(folds, "Folds")):
            here = _of_fold(make, i)
            tried = once or [_fitted(new(), train, fold) for new in here]
            unseen: list[Unseen] = []
            if supervised:
                inside = Labeled(rows_of(train.images, fold), train.labels[fold])
                unseen = [
                    score_unseen(learn_and_encode(new, inside), inside.labels, n_scored=n_scored)
                    for new in here
                ]
            classifiers = [
                LinearSVC(C=found.C if found else "auto", random_state=0).fit(
                    rows_of(X, fold), train.labels[fold]
                )
                for (_, X), found in zip_longest(tried, unseen)
            ]
            validation = [found.accuracy for found in unseen] or [
                float(h.validation_scores_.max()) for h in classifiers
            ]
            best = int(np.argmax(validation))
            right = [
                _outside(h, X, train.labels, fold)
                for h, (_, X) in zip(classifiers, tried, strict=True)
            ]
            accuracies.append(right[best])
            first.append(right[0])
            chosen.append(best)
            dead = dead or _dead(tried)
            if name is not None:
                features = tried[best].features
                models.append(save_classifier(ctx, features, classifiers[best], f"{name}-fold{i}"))
    return FoldScores(accuracies, chosen, first, dead, models)


def _of_fold(make: Sequence[Maker | list[Maker]], i: int) -> list[Maker]:
    """Return the candidates of the i-th fold."""
    return [new[i] if isinstance(new, list) else new for new in make]


def _outside(classifier: LinearSVC, X: Any, labels: np.ndarray, fold: np.ndarray) -> float:
    """Return the share of the images outside a fold that is right."""
    outside = np.setdiff1d(np.arange(len(labels)), fold)
    predicted = to_host(classifier.predict(rows_of(X, outside)))
    return float((predicted == labels[outside]).mean())


def _fitted(features: Any, train: Labeled, fold: np.ndarray | None) -> Fitted:
    """Learn from all images without labels, or from those of a fold with them."""
    if fold is None:
        features.fit(train.images)
    else:
        features.fit(rows_of(train.images, fold), train.labels[fold])
    return Fitted(features, features.transform(train.images))


def _dead(fitted: Sequence[Fitted]) -> list[float]:
    if not all(hasattr(one.features, "learner_") for one in fitted):
        return []
    shares = [share_dead(one.features) for one in fitted]
    return [share for share in shares if share is not None]
