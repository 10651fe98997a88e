"""Classifiers of images: features of networks learned without labels, and a classifier on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Array,
    Interval,
    Place,
    as_generator,
    check_labels,
    fit_context,
    namespace_of,
    to_host,
)
from clusterica.linear import KernelRidgeClassifier, LinearSVC
from clusterica.networks._network import FeatureNetwork


class FeatureBlocks(BaseEstimator):
    """The features of several fitted networks, one network at a time; they are never all in memory."""

    def __init__(self, networks: Sequence[FeatureNetwork]) -> None:
        self.networks = networks

    def __call__(self, X: Any) -> Iterator[Array]:
        """Yield the features of images by each network."""
        for network in self.networks:
            yield network.transform(X)


class ImageClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of images on the features of networks, which are learned without labels.

    fit learns every network, chooses settings of the features on images that a trial classifier does not
    see, and trains the classifier. Few labels are enough where many images without labels are at hand: give
    these as ``unlabeled``.

    Parameters
    ----------
    networks : sequence of FeatureNetwork
        Their features are joined. To a :class:`~clusterica.linear.KernelRidgeClassifier` they go one network
        at a time, so that memory holds those of one.
    classifier : classifier or None, default=None
        :class:`~clusterica.linear.KernelRidgeClassifier`, or any classifier with ``decision_function``. None
        takes :class:`~clusterica.linear.LinearSVC`.
    tune : dict or None, default=None
        Parameters of the networks, of those that matter only when features are computed, with the values to
        choose from: ``{"mirror": [False, True], "power": [0.5, 1.0], "grid": [(2, 2), (3, 3)]}``. One after
        the other takes the value with the best accuracy.
    n_tune : int, default=4000
        Number of training images to choose on, drawn at random.
    random_state : int, Generator, RandomState or None, default=None
        Seed of networks without a seed of their own, and of the images to choose on.

    Attributes
    ----------
    networks_ : list of FeatureNetwork
        The fitted networks, with the parameters that were chosen.
    classifier_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    tuned_ : dict
        The values that were chosen.
    tuning_ : dict
        For every parameter the accuracies of its values, in the order of ``tune``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.networks import FeatureNetwork, ImageClassifier, Layer
    >>> X, y = load_digits().images, load_digits().target
    >>> network = FeatureNetwork([Layer(64, patch_size=3, n_patches=10_000)])
    >>> model = ImageClassifier([network], tune={"mirror": [False, True]}, random_state=0)
    >>> model = model.fit(X[:200], y[:200], unlabeled=X[:1000])
    >>> model.tuned_["mirror"]
    False
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "networks": [list, tuple],
        "classifier": "no_validation",
        "tune": [dict, None],
        "n_tune": [Interval(Integral, 10, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        networks: Sequence[FeatureNetwork],
        classifier: Any = None,
        *,
        tune: dict[str, list[Any]] | None = None,
        n_tune: int = 4000,
        random_state: Any = None,
    ) -> None:
        self.networks = networks
        self.classifier = classifier
        self.tune = tune
        self.n_tune = n_tune
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, unlabeled: Any = None) -> Self:
        """Learn the features and the classifier.

        Parameters
        ----------
        X : array of shape (n, height, width) or (n, height, width, channels)
            Images of one size. NumPy array or tensor.
        y : array-like of shape (n,)
            Labels.
        unlabeled : array of images, default=None
            Images to learn the networks from; those in X if None.

        Returns
        -------
        self : ImageClassifier
        """
        X = _as_array(X)
        check_labels(self, y, len(X))  # before the time that features take
        return self.learn(X if unlabeled is None else unlabeled).fit_classifier(X, y)

    def learn(self, X: Any) -> Self:
        """Learn the networks, the part of fit that needs no labels.

        Parameters
        ----------
        X : array of images
            Images to learn from.

        Returns
        -------
        self : ImageClassifier
        """
        if not self.networks or not all(isinstance(n, FeatureNetwork) for n in self.networks):
            raise ValueError(
                "networks must be one FeatureNetwork or more, such as [FeatureNetwork([Layer()])]"
            )
        rng = as_generator(self.random_state)
        self.networks_ = [clone(network) for network in self.networks]
        for network in self.networks_:
            if network.random_state is None:
                network.set_params(random_state=int(rng.integers(2**31)))
            network.fit(X)
        return self

    def fit_classifier(self, X: Any, y: Any) -> Self:
        """Choose settings and train the classifier on networks that are learned: for new labels or images.

        Parameters
        ----------
        X, y : as in fit
            Images and labels.

        Returns
        -------
        self : ImageClassifier
        """
        check_is_fitted(self, "networks_")
        X = _as_array(X)
        self.classes_, codes = check_labels(self, y, len(X))
        # Another stream than that of the networks' seeds.
        rng = as_generator(self.random_state).spawn(1)[0]
        self._choose(X, codes, rng)
        self.classifier_ = self._fitted(X, self.classes_[codes])
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the decisions: positive for the second of two classes, or one column for each class.

        Parameters
        ----------
        X : as in fit
            Images of the size of those in fit.

        Returns
        -------
        decisions : array of shape (n,) or (n, n_classes)
        """
        check_is_fitted(self, "classifier_")
        return self.classifier_.decision_function(self._input(X))

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
        check_is_fitted(self, "classifier_")
        return np.asarray(to_host(self.classifier_.predict(self._input(X))))

    def validation_decisions(self, X: Any, y: Any) -> np.ndarray:
        """Return decisions on training images by a classifier that did not see them.

        Parameters
        ----------
        X, y : as in fit
            The images and labels that fit got.

        Returns
        -------
        decisions : ndarray of shape (n,) or (n, n_classes)
            Leave-one-out decisions of kernel ridge. Other classifiers are trained on four fifths of the
            images; decisions are those on every fifth, and NaN on the others.
        """
        check_is_fitted(self, "classifier_")
        if isinstance(self.classifier_, KernelRidgeClassifier):
            return np.asarray(self.classifier_.validation_decisions_)
        y, is_held = np.asarray(y), np.arange(len(y)) % 5 == 0
        F = self._input(X)
        trial = clone(self.classifier_).fit(_rows(F, ~is_held), y[~is_held])
        held = to_host(trial.decision_function(_rows(F, is_held)))
        decisions = np.full((len(y), *held.shape[1:]), np.nan)
        decisions[is_held] = held
        return decisions

    def _choose(self, X: Any, codes: np.ndarray, rng: np.random.Generator) -> None:
        """Set the parameters in ``tune``, one after the other, to the values that do best."""
        self.tuned_: dict[str, Any] = {}
        self.tuning_: dict[str, list[float]] = {}
        if not self.tune:
            return
        some = np.zeros(len(codes), dtype=bool)
        some[rng.permutation(len(codes))[: self.n_tune]] = True
        X, codes = _rows(X, some), codes[some]
        for name, values in self.tune.items():
            scores = []
            for value in values:
                self._set(name, value)
                scores.append(self._validated(X, codes))
            self.tuning_[name] = scores
            self.tuned_[name] = values[int(np.argmax(scores))]
            self._set(name, self.tuned_[name])

    def _set(self, name: str, value: Any) -> None:
        for network in self.networks_:
            network.set_params(**{name: value})

    def _validated(self, X: Any, codes: np.ndarray) -> float:
        """Return the accuracy on images that a trial classifier does not see."""
        self.classifier_ = self._fitted(X, codes)
        decisions = self.validation_decisions(X, codes)
        seen = ~np.isnan(decisions.reshape(len(codes), -1)[:, 0])
        return float(np.mean(labels_of(decisions[seen], self.classifier_.classes_) == codes[seen]))

    def _fitted(self, X: Any, y: np.ndarray) -> Any:
        classifier = (
            LinearSVC(random_state=0) if self.classifier is None else clone(self.classifier)
        )
        if isinstance(classifier, KernelRidgeClassifier):
            classifier.set_params(features=FeatureBlocks(self.networks_))
            return classifier.fit(X, y)
        return classifier.fit(self._joined(X), y)

    def _input(self, X: Any) -> Any:
        """Return what the classifier takes: images for kernel ridge, which asks for features itself."""
        X = _as_array(X)
        return X if isinstance(self.classifier_, KernelRidgeClassifier) else self._joined(X)

    def _joined(self, X: Any) -> Array:
        parts = [network.transform(X) for network in self.networks_]
        return parts[0] if len(parts) == 1 else namespace_of(*parts).concat(parts, axis=1)


def labels_of(decisions: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the classes with the largest decisions; one column decides between two."""
    if decisions.ndim == 1:
        return np.asarray(classes[(decisions > 0).astype(int)])
    return np.asarray(classes[np.argmax(decisions, axis=1)])


def _as_array(X: Any) -> Any:
    return X if hasattr(X, "shape") else np.asarray(X)


def _rows(X: Any, chosen: np.ndarray) -> Any:
    """Return the rows of a mask."""
    if isinstance(X, np.ndarray):
        return X[chosen]
    return namespace_of(X).take(X, Place(X).put(np.flatnonzero(chosen)), axis=0)
