"""Classifiers of images: features of networks learned without labels, and a classifier on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    AccuracyMixin,
    Array,
    Estimator,
    Interval,
    as_generator,
    base_class,
    check_labels,
    fit_context,
    namespace_of,
    take,
    to_host,
)
from clusterica.linear import (
    KernelRidgeClassifier,
    LinearSVC,
    RidgeClassifier,
    every_fifth,
    fit_temperature,
    probabilities,
)
from clusterica.networks._network import FeatureNetwork
from clusterica.ops.margin import winners

# Parameters of a network that change its features but not what it learned.
TUNABLE = ("grid", "mirror", "output", "power")


class FeatureBlocks(Estimator):
    """The features of several fitted networks, one network at a time; they are never all in memory."""

    def __init__(self, networks: Sequence[FeatureNetwork]) -> None:
        self.networks = networks

    def __call__(self, X: Any) -> Iterator[Array]:
        """Yield the features of images by each network."""
        for network in self.networks:
            yield network.transform(X)


@base_class
class BaseImageClassifier(AccuracyMixin, ClassifierMixin, Estimator, ABC):
    """What image classifiers share: features are learned without labels, then a classifier with them."""

    temperature_: float

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
        self
        """
        X = as_array(X)
        check_labels(self, y, len(X), min_classes=2)  # before the time that features take
        if unlabeled is not None:
            check_same_size(unlabeled, X)
        return self.learn(X if unlabeled is None else unlabeled).fit_classifier(X, y)

    @abstractmethod
    def learn(self, X: Any) -> Self:
        """Learn the networks, the part of fit that needs no labels."""

    @abstractmethod
    def fit_classifier(self, X: Any, y: Any) -> Self:
        """Train the classifier on networks that are already learned, for new labels or images."""

    @abstractmethod
    def decision_function(self, X: Any) -> Array:
        """Return the decisions: positive for the second of two classes, or one column for each class."""

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        They are the softmax of the decisions (for two classes the sigmoid of the one decision) divided by
        ``temperature_``.

        Parameters
        ----------
        X : as in fit
            Images of the size of those in fit.

        Returns
        -------
        probabilities : array of shape (n, n_classes)
            In the order of ``classes_``.
        """
        return probabilities(self.decision_function(X), self.temperature_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn then skips its checks with tables, which the tests replace by checks with images.
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class ImageClassifier(BaseImageClassifier):
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
        Parameters of the networks that are used only when features are computed (grid, mirror, output,
        power), with the values to choose from: ``{"mirror": [False, True], "grid": [(2, 2), (3, 3)]}``. They
        are chosen one after the other, each by its accuracy on images that a trial classifier does not see.
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
    validation_decisions_ : ndarray of shape (n,) or (n, n_classes)
        Decisions on training images by a classifier that did not see them: those that the fit of
        the classifier gives (leave-one-out of kernel ridge, cross-validation of ``LinearSVC(C="auto")``), or
        those of a second fit that leaves out every fifth image of each class. NaN for images that were not
        left out.
    temperature_ : float
        Divides the decisions in :meth:`predict_proba`: the value with the smallest log loss on
        ``validation_decisions_``.
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
        # All settings are checked before the networks are learned, which takes long.
        if not self.networks or not all(isinstance(n, FeatureNetwork) for n in self.networks):
            raise ValueError(
                "networks must be one FeatureNetwork or more, such as [FeatureNetwork([Layer()])]"
            )
        for name, values in (self.tune or {}).items():
            if name not in TUNABLE or not len(values):
                raise ValueError(
                    f"tune has {name!r}: {values!r}; it must have a list of values for some of "
                    f"{', '.join(TUNABLE)}"
                )
        if self.classifier is not None and not hasattr(self.classifier, "decision_function"):
            raise ValueError(
                f"{type(self.classifier).__name__} has no decision_function, which ImageClassifier needs; "
                "take a classifier that has one, such as LinearSVC or LogisticRegression"
            )
        rng = as_generator(self.random_state)
        self.networks_ = [clone(network) for network in self.networks]
        for network in self.networks_:
            if network.random_state is None:
                network.set_params(random_state=int(rng.integers(2**31)))
            network.fit(X)
        return self

    def fit_classifier(self, X: Any, y: Any) -> Self:
        """Train the classifier on networks that are already learned, for new labels or images.

        Parameters
        ----------
        X, y : as in fit
            Images and labels.

        Returns
        -------
        self : ImageClassifier
        """
        check_is_fitted(self, "networks_")
        X = as_array(X)
        self.classes_, codes = check_labels(self, y, len(X), min_classes=2)
        # Another stream than that of the networks' seeds.
        rng = as_generator(self.random_state).spawn(1)[0]
        # On some of the images: their features are computed once for every value that is tried.
        trial = np.sort(rng.permutation(len(codes))[: self.n_tune])
        # Numbered again: few images may lack a class.
        trial_codes = np.unique(codes[trial], return_inverse=True)[1]
        self.tuned_: dict[str, Any] = {}
        self.tuning_: dict[str, list[float]] = {}
        for name, values in (self.tune or {}).items():
            scores = []
            for value in values:
                self._set(name, value)
                self._train(take(X, trial), trial_codes)
                scores.append(accuracy(self.validation_decisions_, trial_codes))
            self.tuning_[name] = scores
            # Of equal accuracies the first value wins.
            self.tuned_[name] = values[int(np.argmax(scores))]
            self._set(name, self.tuned_[name])
        # On all images, and with the names of the classes, which predict returns.
        self._train(X, self.classes_[codes])
        self.temperature_ = fit_temperature(self.validation_decisions_, codes)
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
        """Return the predicted class of every image.

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

    def _set(self, name: str, value: Any) -> None:
        for network in self.networks_:
            network.set_params(**{name: value})

    def _train(self, X: Any, y: np.ndarray) -> None:
        """Fit the classifier on images, and set its decisions on images that it did not see."""
        classifier = (
            LinearSVC(random_state=0) if self.classifier is None else clone(self.classifier)
        )
        if isinstance(classifier, KernelRidgeClassifier):
            # It asks for the features itself, one network at a time, and keeps images rather than features.
            classifier.set_params(features=FeatureBlocks(self.networks_))
        self.classifier_ = classifier
        F = self._input(X)
        # A classifier that chose its strength on held-out rows has these decisions already: no second fit.
        if isinstance(classifier, LinearSVC | RidgeClassifier):
            known = classifier.fit_validate(F, y)
        else:
            known = getattr(classifier.fit(F, y), "validation_decisions_", None)
        if known is None:
            # A second fit without every fifth image, for decisions on images that it does not see.
            is_held = every_fifth(np.unique(y, return_inverse=True)[1])
            if not is_held.any():
                raise ValueError(
                    "no class has two images, so that none can be left out to calibrate probabilities; give "
                    "more images"
                )
            seen, held_out = np.flatnonzero(~is_held), np.flatnonzero(is_held)
            trial = clone(classifier).fit(take(F, seen), y[seen])
            held = to_host(trial.decision_function(take(F, held_out)))
            n_classes = len(trial.classes_)
            if held.shape[1:] != ((n_classes,) if n_classes > 2 else ()):
                raise ValueError(
                    f"decisions of {type(classifier).__name__} have shape {held.shape}; they must have one "
                    "column for each class, or be (n,) for two classes"
                )
            known = np.full((len(y), *held.shape[1:]), np.nan)
            known[is_held] = held
        self.validation_decisions_ = np.asarray(known)

    def _input(self, X: Any) -> Any:
        """Return what the classifier takes: images for kernel ridge, which asks for features itself."""
        X = as_array(X)
        if isinstance(self.classifier_, KernelRidgeClassifier):
            return X
        parts = [network.transform(X) for network in self.networks_]
        return parts[0] if len(parts) == 1 else namespace_of(*parts).concat(parts, axis=1)


def accuracy(decisions: np.ndarray, codes: np.ndarray) -> float:
    """Return the share of images whose class is right, of those with decisions."""
    columns = decisions.reshape(len(codes), -1)  # one column decides between two classes
    seen = ~np.isnan(columns).any(axis=1)
    return float(np.mean(winners(columns[seen]) == codes[seen]))


def check_same_size(unlabeled: Any, X: Any) -> None:
    """Refuse images to learn from that have another size than the images to classify."""
    learned, labeled = (tuple(as_array(images).shape[1:]) for images in (unlabeled, X))
    if learned != labeled:
        raise ValueError(
            f"images in unlabeled have shape {learned} and those in X have {labeled}; resize them"
        )


def as_array(X: Any) -> Any:
    """Return images as an array: a list becomes one."""
    return X if hasattr(X, "shape") else np.asarray(X)
