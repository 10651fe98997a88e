"""A committee: classifiers whose decisions are added, with weights that training images choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import as_generator, check_labels, fit_context, to_host
from clusterica.networks._classifier import ImageClassifier, labels_of

# Members are added one by one, the same more than once. Weights then are multiples of 1/20: finer ones fit
# the noise of some thousand images.
ROUNDS = 20


class Committee(ClassifierMixin, BaseEstimator):
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

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, unlabeled: Any = None) -> Self:
        """Fit the members and choose their weights.

        Parameters
        ----------
        X, y, unlabeled : as in ImageClassifier.fit
            Images, labels, and images to learn features from.

        Returns
        -------
        self : Committee
        """
        check_labels(self, y, len(X))  # before the time that features take
        return self.learn(X if unlabeled is None else unlabeled).fit_classifier(X, y)

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
            if member.random_state is None:
                member.set_params(random_state=int(rng.integers(2**31)))
            member.learn(X)
        return self

    def fit_classifier(self, X: Any, y: Any) -> Self:
        """Train the classifiers of members whose networks are learned, and choose the weights.

        Parameters
        ----------
        X, y : as in fit
            Images and labels.

        Returns
        -------
        self : Committee
        """
        check_is_fitted(self, "members_")
        self.classes_, codes = check_labels(self, y, len(X))
        decisions = [
            member.fit_classifier(X, y).validation_decisions(X, y) for member in self.members_
        ]
        # Rows that every member has a decision on.
        seen = np.isfinite(np.stack([d.reshape(len(codes), -1) for d in decisions])).all(
            axis=(0, 2)
        )
        self.scales_ = np.array([d[seen].std() or 1.0 for d in decisions])
        scaled = [d[seen] / s for d, s in zip(decisions, self.scales_, strict=True)]
        labels = self.classes_[codes[seen]]
        self.validation_accuracies_ = np.array([self._accuracy(d, labels) for d in scaled])
        self.weights_, self.validation_accuracy_ = self._weights(scaled, labels)
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
        """Return the labels.

        Parameters
        ----------
        X : as in fit
            Images of the size of those in fit.

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return labels_of(self.decision_function(X), self.classes_)

    def _weights(self, decisions: list[np.ndarray], labels: np.ndarray) -> tuple[np.ndarray, float]:
        """Add the member that helps most, again and again; return the best weights on the way."""
        counts = np.zeros(len(decisions))
        total: Any = 0.0
        best = (counts, -1.0)
        for _ in range(ROUNDS):
            scores = [self._accuracy(total + d, labels) for d in decisions]
            added = int(np.argmax(scores))
            counts[added] += 1
            total = total + decisions[added]
            if scores[added] > best[1]:
                best = (counts / counts.sum(), scores[added])
        return best

    def _accuracy(self, decisions: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean(labels_of(decisions, self.classes_) == labels))
