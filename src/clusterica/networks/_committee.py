"""A committee: classifiers whose decisions are added, with weights that training images choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import as_generator, check_labels, to_host
from clusterica.linear import fit_temperature
from clusterica.networks._classifier import (
    BaseImageClassifier,
    ImageClassifier,
    accuracy,
    as_array,
)
from clusterica.ops.margin import winners


class Committee(BaseImageClassifier):
    """The weighted sum of the decisions of several image classifiers.

    Classifiers on different patch sizes, layers or seeds make different errors. The weights are those with
    the best accuracy on training images that the members did not see (leave-one-out decisions of kernel
    ridge, held-out images of others). One member after the other is added, with repetition, and the best sum
    on the way is kept [1]_.

    Parameters
    ----------
    members : sequence of ImageClassifier
        The classifiers.
    random_state : int, Generator, RandomState or None, default=None
        Seed of members without a seed of their own.

    Attributes
    ----------
    members_ : list of ImageClassifier
        The fitted members.
    weights_ : ndarray of shape (n_members,)
        Weights of their decisions, with sum 1.
    scales_ : ndarray of shape (n_members,)
        Standard deviations of their decisions, by which these are divided first.
    validation_accuracies_ : ndarray of shape (n_members,)
        Accuracy of each member on images that it did not see.
    validation_accuracy_ : float
        That of the committee. The weights are chosen on the same images, so it is a little too high.
    temperature_ : float
        Divides the decisions in :meth:`predict_proba`: the value with the smallest log loss on the same
        images.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    References
    ----------
    .. [1] R. Caruana, A. Niculescu-Mizil, G. Crew and A. Ksikes, "Ensemble selection from libraries of
       models", 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.networks import Committee, FeatureNetwork, ImageClassifier, Layer
    >>> X, y = load_digits().images, load_digits().target
    >>> members = [
    ...     ImageClassifier([FeatureNetwork([Layer(48, patch_size=p, n_patches=5000)])])
    ...     for p in (3, 4)
    ... ]
    >>> model = Committee(members, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "members": [list, tuple],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(self, members: Sequence[ImageClassifier], *, random_state: Any = None) -> None:
        self.members = members
        self.random_state = random_state

    def learn(self, X: Any) -> Self:
        """Learn the networks of all members, the part of fit that needs no labels.

        Parameters
        ----------
        X : array of images
            Images to learn from.

        Returns
        -------
        self : Committee
        """
        if not self.members or not all(isinstance(m, ImageClassifier) for m in self.members):
            raise ValueError("members must be one ImageClassifier or more")
        rng = as_generator(self.random_state)
        self.members_ = [clone(member) for member in self.members]
        for member in self.members_:
            # Members with the same seed would make the same errors, and add nothing to each other.
            if member.random_state is None:
                member.set_params(random_state=int(rng.integers(2**31)))
            member.learn(X)
        return self

    def fit_classifier(self, X: Any, y: Any) -> Self:
        """Train the classifiers of members whose networks are already learned, and choose the weights.

        Parameters
        ----------
        X, y : as in fit
            Images and labels.

        Returns
        -------
        self : Committee
        """
        check_is_fitted(self, "members_")
        X = as_array(X)
        self.classes_, codes = check_labels(self, y, len(X), min_classes=2)
        unseen = [member.fit_classifier(X, y).validation_decisions_ for member in self.members_]
        # Members may leave out different images: those that every member has a decision on.
        seen = np.isfinite(np.stack([d.reshape(len(codes), -1) for d in unseen])).all(axis=(0, 2))
        if not seen.any():
            raise ValueError(
                "there is no training image that every member has left out; give the members the same "
                "validation"
            )
        # Decisions of a margin and of least squares have different sizes: without scales the larger ones
        # would outvote the others whatever their weight.
        self.scales_ = np.array([float(d[seen].std()) or 1.0 for d in unseen])
        scaled = [d[seen] / s for d, s in zip(unseen, self.scales_, strict=True)]
        codes = codes[seen]
        self.validation_accuracies_ = np.array([accuracy(d, codes) for d in scaled])
        counts, total = np.zeros(len(scaled)), np.zeros(scaled[0].shape)
        self.validation_accuracy_ = -1.0
        # Add the member that helps most, again and again, and keep the best sum on the way. After 20 times
        # weights are multiples of 1/20: finer ones fit the noise of some thousand images.
        for _ in range(20):
            scores = [accuracy(total + d, codes) for d in scaled]
            added = int(np.argmax(scores))
            counts[added] += 1
            total = total + scaled[added]
            if scores[added] > self.validation_accuracy_:
                self.validation_accuracy_ = scores[added]
                self.weights_ = counts / counts.sum()
        joined = sum(w * d for w, d in zip(self.weights_, scaled, strict=True))
        self.temperature_ = fit_temperature(joined, codes)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the weighted sum of the members' decisions.

        Parameters
        ----------
        X : as in fit
            Images of the size of those in fit.

        Returns
        -------
        decisions : ndarray of shape (n,) or (n, n_classes)
        """
        check_is_fitted(self, "weights_")
        used = zip(self.members_, self.weights_, self.scales_, strict=True)
        parts = [
            (weight / scale) * to_host(member.decision_function(X))
            for member, weight, scale in used
            if weight > 0  # a member without weight need not compute its features
        ]
        return np.asarray(np.sum(parts, axis=0))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of every image.

        Parameters
        ----------
        X : as in fit
            Images of the size of those in fit.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        decisions = self.decision_function(X)
        return np.asarray(self.classes_[winners(decisions.reshape(len(decisions), -1))])
