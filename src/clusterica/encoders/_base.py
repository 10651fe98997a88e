"""What all encoders share: rows are mapped to codes by a dictionary, ``f(x; D)``, block by block.

An encoder is a function of a block and of the dictionary, with settings but without state::

    prepared = encoder.prepare(D)  # once: a tuple of arrays that depend on D alone
    codes = encoder.encode(X, *prepared)  # any number of blocks, from any number of threads

``X`` is a block of shape (n_rows, n_features), ``D`` a dictionary of shape (n_atoms, n_features), and
the codes have shape ``(n_rows, encoder.n_features_out(n_atoms))``. All are of one library, one device
and one dtype, float32 or float64. What `prepare` returns holds arrays only, so that a walk can bring
it to where the blocks are::

    row_bytes = encoder.row_bytes(n_atoms, n_features, itemsize)
    map_rows(encoder.encode, rows, *encoder.prepare(D), row_bytes=row_bytes)

An encoder that is a function of the responses ``D x`` alone, or of the distances to the atoms, can say so:
`compiled_form` names that function, and images are then encoded by code compiled for it, without the codes
of single patches in memory. It is optional.

As an estimator an encoder keeps the dictionary as its parameter and does just that in `transform`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from clusterica.arrays import (
    Array,
    FloatOutputMixin,
    Rows,
    check_fitted_rows,
    check_rows,
    fit_context,
    map_rows,
    to_host,
)
from clusterica.ops.cpu.encode import Code


class BaseEncoder(
    FloatOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC
):
    """An encoder of rows by a dictionary; children say what the code of a block is."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {"dictionary": ["array-like", None]}
    dictionary: Any

    def __init_subclass__(cls) -> None:
        """Do not inherit the compiled form: a subclass may compute other codes."""
        super().__init_subclass__()
        if "compiled_form" not in vars(cls):
            cls.compiled_form = BaseEncoder.compiled_form  # type: ignore[method-assign]

    @abstractmethod
    def _function(self) -> Callable[..., Array]:
        """Return the pure function ``(X, *prepared) -> codes`` with the settings bound to it."""

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return what `encode` needs of a dictionary, computed once for all blocks.

        Parameters
        ----------
        D : array of shape (n_atoms, n_features)
            The dictionary, in the dtype of the rows to come.

        Returns
        -------
        prepared : tuple of arrays
            To be passed on as ``encode(X, *prepared)``.
        """
        return (D,)

    def encode(self, X: Array, *prepared: Array) -> Array:
        """Return the codes of one block of rows, which is not checked.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            A block, in the library, on the device and of the dtype of the dictionary.
        *prepared : arrays
            What `prepare` returned for the dictionary.

        Returns
        -------
        codes : array of shape (n_rows, n_features_out(n_atoms))
        """
        return self._function()(X, *prepared)

    def compiled_form(self) -> tuple[Code, float] | None:
        """Return the function by which compiled code computes these codes, and its threshold, or None."""
        return None

    def n_features_out(self, n_atoms: int) -> int:
        """Return how many features a row has after encoding with so many atoms."""
        return n_atoms

    def row_bytes(self, n_atoms: int, n_features: int, itemsize: int) -> int:
        """Return the working memory that `encode` takes for each row, its codes among it.

        Parameters
        ----------
        n_atoms, n_features : int
            Shape of the dictionary.
        itemsize : int
            Bytes of a number: 4 for float32, 8 for float64.
        """
        return (n_features + 3 * n_atoms + 2 * self.n_features_out(n_atoms)) * itemsize

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the dictionary and the rows belong together.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : ignored

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True)
        D = self._checked_dictionary(rows)
        self.prepare(D)  # refuses settings that do not go with the dictionary
        self.dictionary_ = rows.home.put(D)
        self._n_features_out = self.n_features_out(D.shape[0])
        return self

    def transform(self, X: Any) -> Array:
        """Encode the rows.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        codes : array of shape (n_samples, n_features_out)
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "dictionary_")
        D = np.asarray(to_host(self.dictionary_), dtype=rows.dtype)
        row_bytes = self.row_bytes(D.shape[0], D.shape[1], rows.dtype.itemsize)
        return map_rows(self._function(), rows, *self.prepare(D), row_bytes=row_bytes)

    def _checked_dictionary(self, rows: Rows) -> np.ndarray:
        """Return the dictionary in host memory, in the dtype of the rows."""
        name = type(self).__name__
        if self.dictionary is None:
            raise ValueError(
                f"{name} has no dictionary; give one of shape (n_atoms, {rows.n_features}), such as "
                f"{name}(kmeans.cluster_centers_)"
            )
        D = check_array(to_host(self.dictionary), dtype=rows.dtype, input_name="dictionary")
        if D.shape[1] != rows.n_features:
            raise ValueError(
                f"the dictionary of {name} has {D.shape[1]} features and X has {rows.n_features}; "
                "learn it from rows like X"
            )
        return D
