"""What all encoders share: rows are mapped to codes by a dictionary, ``f(x; D)``, block by block.

An encoder is a function of a block and of the dictionary, with settings but without state::

    prepared = encoder.prepare(D)  # once: a tuple of arrays that depend on D alone
    codes = encoder.encode(X, *prepared)  # any number of blocks, from any number of threads

``X`` is a block of shape (n_rows, n_features), ``D`` a dictionary of shape (n_atoms, n_features), and
the codes have shape ``(n_rows, encoder.n_features_out(n_atoms))``. All are of one library, one device
and one dtype, float32 or float64. What `prepare` returns holds arrays only, so that they can be moved to
the device of the blocks. `encode` should state its :func:`~clusterica.arrays.working_memory`, from which the
size of blocks follows; all encoders here do::

    map_rows(encoder.encode, rows, *encoder.prepare(D))

Two more methods are optional. An encoder that is a function of the responses ``D x`` alone, or of the
distances to the atoms, names that function in `compiled_form`: images are then encoded by compiled code,
without the codes of single patches in memory. An encoder whose solver may stop before it converges counts
the rows concerned in `encode_and_count`, and its `warn_not_converged` is called once for all blocks.

As an estimator an encoder keeps the dictionary as a parameter, and `transform` encodes with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Row,
    Rows,
    base_class,
    check_fitted_rows,
    check_not_masked,
    check_rows,
    fit_context,
    lazy_rows,
    map_rows_reduce,
    row_bytes_of,
    states,
    to_host,
    working_memory,
)
from clusterica.ops.cpu.encode import Code


def dense_bytes(encoder: BaseEncoder, row: Row, D: Array, *prepared: Array) -> int:
    """Return the working memory of codes made from responses: three arrays of responses, two of codes."""
    # The array API makes a new array at every step of an expression; compiled code needs less.
    n_atoms = int(D.shape[0])
    return (row.n_features + 3 * n_atoms + 2 * encoder.n_features_out(n_atoms)) * row.itemsize


@base_class
class BaseEncoder(
    FloatOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator, ABC
):
    """An encoder of rows by a dictionary; a subclass computes the codes of a block in `encode`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {"dictionary": ["array-like", None]}
    dictionary: Any

    def __init_subclass__(cls) -> None:
        """Do not inherit the compiled form: a subclass may compute other codes."""
        super().__init_subclass__()
        # Else images would be encoded by the function of the parent, without an error.
        if "compiled_form" not in vars(cls):
            cls.compiled_form = BaseEncoder.compiled_form  # type: ignore[method-assign]

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

    @abstractmethod
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

    @working_memory(
        lambda self, row, *prepared: row_bytes_of(self.encode, row, prepared),
        marks_overflow=lambda self: states(self.encode, "marks_overflow"),
    )
    def encode_and_count(
        self, X: Array, *prepared: Array
    ) -> tuple[Array, tuple[Array | int, ...] | None]:
        """Return the codes of one block, and a tuple of the number of rows that did not converge.

        None in place of the tuple stands for an encoder without iterations. The parameters are those of
        `encode`.
        """
        return self.encode(X, *prepared), None

    def warn_not_converged(self, n_rows: int) -> None:
        """Warn if the codes of ``n_rows`` rows, one or more, did not converge."""

    def _warn_of_zero_codes(self, X: np.ndarray, *prepared: np.ndarray) -> None:
        """Warn if the codes of all these rows, some of those of fit, are zero."""

    def compiled_form(self) -> tuple[Code, float] | None:
        """Return the function by which compiled code computes these codes, and its threshold, or None."""
        return None

    def n_features_out(self, n_atoms: int) -> int:
        """Return the number of features of a code, for a dictionary of ``n_atoms`` atoms."""
        return n_atoms

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
        # Nothing is learned: fit only checks, so that errors come here and not block by block in transform.
        rows = check_rows(self, X, reset=True)
        D = self._checked_dictionary(rows)
        prepared = self.prepare(D)  # refuses settings that do not go with the dictionary
        if rows.indexable and rows.engine is None:  # where a look at some rows costs little
            self._warn_of_zero_codes(rows.glance(), *prepared)
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
        return self.encode_rows(rows, self.dictionary_, lazy=True)

    def encode_rows(self, rows: Rows, D: Array, *, lazy: bool = False) -> Array:
        """Return the codes of checked rows by a dictionary; warn once of codes that did not converge.

        Parameters
        ----------
        rows : Rows
            The rows.
        D : array of shape (n_atoms, n_features)
            The dictionary, of any library and dtype.
        lazy : bool, default=False
            Whether the codes may be lazy (see :class:`clusterica.arrays.LazyRows`), as ``transform`` returns
            them. Lazy codes are not counted: that would compute all of them now.

        Returns
        -------
        codes : array of shape (n_samples, n_features_out)
            In the library and on the device of the rows.
        """
        # In the dtype of the rows, which may differ from that of the rows in fit.
        D = np.asarray(to_host(D), dtype=rows.dtype)
        params = self.prepare(D)
        if lazy and (later := lazy_rows(self.encode, rows, *params)) is not None:
            return later
        # Codes and counts in one walk: the solver would otherwise run twice.
        codes, counts = map_rows_reduce(self.encode_and_count, rows, *params)
        if counts is not None:
            self.warn_not_converged(int(counts[0]))
        return codes

    def _checked_dictionary(self, rows: Rows) -> np.ndarray:
        """Return the dictionary in host memory, in the dtype of the rows."""
        name = type(self).__name__
        if self.dictionary is None:
            raise ValueError(
                f"{name} has no dictionary; give one of shape (n_atoms, {rows.n_features}), such as "
                f"{name}(kmeans.cluster_centers_)"
            )
        check_not_masked(self.dictionary, "dictionary")
        D: np.ndarray = check_array(
            to_host(self.dictionary), dtype=rows.dtype, input_name="dictionary"
        )
        if D.shape[1] != rows.n_features:
            raise ValueError(
                f"the dictionary of {name} has {D.shape[1]} features and X has {rows.n_features}; "
                "learn it from rows like X"
            )
        return D
