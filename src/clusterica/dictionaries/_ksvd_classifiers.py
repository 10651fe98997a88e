"""D-KSVD and LC-KSVD: ``min |x - Dᵀ s|² + γ |h - W s|² + α |q - A s|²`` over D, W, A and sparse codes s."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from clusterica.arrays import Interval, Labels, Rows
from clusterica.dictionaries._base_ksvd_classifier import AtomPlan, BaseKSVDClassifier


class DiscriminativeKSVD(BaseKSVDClassifier):
    r"""Discriminative K-SVD: a dictionary and a linear classifier of its codes, learned together (D-KSVD).

    :class:`KSVD` with a classifier W on the codes, which is learned with the atoms [1]_:

    .. math::
        \min \; \sum_i \|x_i - D^\top s_i\|^2 + \gamma \|h_i - W s_i\|^2 \quad\text{where}\quad
        \|s_i\|_0 \le k ,

    with :math:`h_i` one at the class of the row and zero elsewhere.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of atoms. None is the number of features.
    n_nonzero : int or None, default=None
        The k: maximum number of atoms of a row. None is a tenth of the number of features, at least 1 and at
        most all atoms.
    classification : float, default=0.1
        The :math:`\gamma`. It compares with the squared length of rows: scale them to about unit length.
    init : array-like of shape (n_components, n_features) or None, default=None
        Atoms to begin with; None takes those of some passes of :class:`KSVD`.
    max_iter : int, default=50
        Maximum number of passes over the rows.
    tol : float, default=1e-4
        Ends the fit when a pass changes neither the objective nor (in squared length) the atoms by more than
        this, relative to their size.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The atoms D, of unit length, one per row.
    coef_ : array of shape (n_classes, n_components_)
        The classifier W.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_nonzero_ : int
        Maximum number of atoms of a row.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Half of the mean of the objective at the start and after every pass.
    n_iter_ : int
        Number of passes.
    n_replaced_ : int
        Number of atoms that were replaced, as in :class:`KSVD`.
    n_dead_ : int
        Number of atoms that no row uses, coded without its label.
    n_components_ : int
        Number of atoms.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    LabelConsistentKSVD : With a part of the atoms for every class.

    References
    ----------
    .. [1] Q. Zhang and B. Li, "Discriminative K-SVD for dictionary learning in face recognition", 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from clusterica.dictionaries import DiscriminativeKSVD
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> model = DiscriminativeKSVD(100, tol=1e-2, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKSVDClassifier._parameter_constraints,
        "classification": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero: int | None = None,
        classification: float = 0.1,
        init: Any = None,
        max_iter: int = 50,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.classification = classification
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _plan(self, rows: Rows, labels: Labels) -> AtomPlan:
        # The root of the weight: targets stand beside the features of a row, and their residuals are
        # squared together.
        targets = float(np.sqrt(self.classification)) * np.eye(len(labels.classes))
        return AtomPlan(self.n_components or rows.n_features, None, targets)


class LabelConsistentKSVD(BaseKSVDClassifier):
    r"""Label-consistent K-SVD: atoms belong to classes, and rows use those of their class (LC-KSVD).

    :class:`KSVD` with a linear map A of the codes to targets :math:`q_i`, which are one at the atoms of the
    class of the row and zero elsewhere (LC-KSVD1); LC-KSVD2 also learns a classifier W [1]_:

    .. math::
        \min \; \sum_i \|x_i - D^\top s_i\|^2 + \alpha \|q_i - A s_i\|^2 + \beta \|h_i - W s_i\|^2
        \quad\text{where}\quad \|s_i\|_0 \le k .

    Parameters
    ----------
    n_components_per_class : int or None, default=None
        Number of atoms of every class. None is the number of features divided by the number of classes, one
        at least.
    n_nonzero : int or None, default=None
        The k: maximum number of atoms of a row. None is a tenth of the number of features, at least 1 and at
        most all atoms.
    consistency : float, default=0.1
        The :math:`\alpha`. It compares with the squared length of rows: scale them to about unit length.
    classification : float, default=0.1
        The :math:`\beta`. 0 is LC-KSVD1: the classifier follows from the codes, by ridge regression.
    init : array-like of shape (n_components, n_features) or None, default=None
        Atoms to begin with, ordered by class; None takes those of some passes of :class:`KSVD` on the rows
        of every class.
    max_iter : int, default=50
        Maximum number of passes over the rows.
    tol : float, default=1e-4
        Ends the fit when a pass changes neither the objective nor (in squared length) the atoms by more than
        this, relative to their size.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The atoms D, of unit length, ordered by class as ``classes_`` are.
    component_classes_ : ndarray of shape (n_components_,)
        The class of every atom.
    coef_ : array of shape (n_classes, n_components_)
        The classifier W.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    n_nonzero_ : int
        Maximum number of atoms of a row.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Half of the mean of the objective at the start and after every pass.
    n_iter_ : int
        Number of passes.
    n_replaced_ : int
        Number of atoms that were replaced, as in :class:`KSVD`.
    n_dead_ : int
        Number of atoms that no row uses, coded without its label.
    n_components_ : int
        Number of atoms.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    DiscriminativeKSVD : Without classes of atoms.

    References
    ----------
    .. [1] Z. Jiang, Z. Lin and L. S. Davis, "Learning a discriminative dictionary for sparse coding via label
       consistent K-SVD", 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from clusterica.dictionaries import LabelConsistentKSVD
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> model = LabelConsistentKSVD(10, tol=1e-2, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        key: value
        for key, value in BaseKSVDClassifier._parameter_constraints.items()
        if key != "n_components"
    } | {
        "n_components_per_class": [Interval(Integral, 1, None, closed="left"), None],
        "consistency": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components_per_class: int | None = None,
        *,
        n_nonzero: int | None = None,
        consistency: float = 0.1,
        classification: float = 0.1,
        init: Any = None,
        max_iter: int = 50,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components_per_class = n_components_per_class
        self.n_nonzero = n_nonzero
        self.consistency = consistency
        self.classification = classification
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _plan(self, rows: Rows, labels: Labels) -> AtomPlan:
        n_classes = len(labels.classes)
        # As many atoms as features in all, or a few less, as KSVD has by default.
        k = self.n_components_per_class or max(1, rows.n_features // n_classes)
        # The start takes the atoms of a class from its rows.
        labels.check_class_sizes(k, "atoms")
        of_class = np.repeat(np.arange(n_classes), k)
        self.component_classes_ = labels.classes[of_class]
        # One at the atoms of the row's class, so that rows of a class use the same atoms.
        targets = [np.sqrt(self.consistency) * (np.arange(n_classes)[:, None] == of_class)]
        if self.classification > 0:  # LC-KSVD2; else the classifier follows from the codes
            targets.insert(0, np.sqrt(self.classification) * np.eye(n_classes))
        return AtomPlan(k * n_classes, of_class, np.hstack(targets))
