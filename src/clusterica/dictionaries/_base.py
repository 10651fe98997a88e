"""What learners of dictionaries share: codes of rows by an encoder with the learned atoms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Rows,
    base_class,
    check_fitted_rows,
    warn_user,
)
from clusterica.dictionaries._alternate import HostArray
from clusterica.encoders import BaseEncoder
from clusterica.ops.kernels import MUCH_DEAD


@base_class
class BaseDictionary(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
    ABC,
):
    """A learner of unit atoms, whose transform is that of an encoder."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "init": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }
    init: Any
    max_iter: int
    tol: float
    random_state: Any

    @abstractmethod
    def _encoder(self) -> BaseEncoder:
        """Return the encoder of rows, without a dictionary; codes have their signs."""

    def transform(self, X: Any) -> Array:
        """Return the codes of the rows, of both signs.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        S : array of shape (n_samples, n_components_)
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "components_")
        return self._encoder().encode_rows(rows, self.components_, lazy=True)

    def _learned(self, rows: Rows, D: HostArray) -> dict[str, Any]:
        """Return the attributes that transform needs."""
        return {
            "components_": rows.learned(D),
            "n_components_": len(D),
            "_n_features_out": len(D),
        }

    def _warn_of_dead(self, uses: HostArray, remedy: str) -> None:
        """Count the atoms that no row uses, and warn if they are many."""
        self.n_dead_ = int((uses == 0).sum())
        # A few unused atoms are normal, and do no harm.
        if self.n_dead_ > MUCH_DEAD * len(uses):
            warn_user(f"{self.n_dead_} of {len(uses)} atoms are used by no row; {remedy}")
