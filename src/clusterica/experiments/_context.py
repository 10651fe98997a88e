"""The settings of one run of an experiment: quick or full, seed, data, device, progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
# track(items, description) yields the items and shows a progress bar with the description.
Track = Callable[[Collection[Any], str], Iterable[Any]]


class Store(Protocol):
    """Keeps the parts of a long experiment; see ``_parts.PartStore``."""

    def compute(
        self, name: str, job: Callable[[], Any], settings: Mapping[str, Any], *, always: bool
    ) -> None:
        """Compute a part and save it, unless it is saved already or was not requested."""

    def values(self, names: Collection[str], *, optional: Collection[str]) -> dict[str, Any]:
        """Return the values of the parts; raise an error if some that are not optional are missing."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Settings of one run.

    Parameters
    ----------
    quick : bool, default=False
        Whether to run a small version that takes seconds.
    output : Path, default=Path(".")
        Folder of the results, for experiments that write files of their own.
    seed : int, default=0
        Random seed of the run.
    callbacks : tuple of scikit-learn callbacks, default=()
        Set on the estimators whose fits take long, such as ``sklearn.callback.ProgressBar()``.
    progress : callable, default=None
        ``progress(items, description)`` yields the items and shows a progress bar.
    data : Path, default=None
        Folder with the data sets, for experiments on real images.
    device : str, default=None
        PyTorch device for the images, such as "cuda"; None uses NumPy arrays.
    store : Store, default=None
        Where the parts of a long experiment are saved; None saves none.
    """

    quick: bool = False
    output: Path = Path(".")
    seed: int = 0
    callbacks: tuple[Any, ...] = ()
    progress: Track | None = None
    data: Path | None = None
    device: str | None = None
    store: Store | None = None

    def choose(self, *, full: T, quick: T) -> T:
        """Return the setting for a full or a quick run.

        Parameters
        ----------
        full, quick : object
            The two settings.

        Returns
        -------
        object
            ``quick`` in a quick run, else ``full``.
        """
        return quick if self.quick else full

    def watch(self, estimator: Any) -> Any:
        """Set the callbacks on an estimator.

        Parameters
        ----------
        estimator : estimator
            An estimator whose fit takes long.

        Returns
        -------
        estimator
            The same estimator.
        """
        return estimator.set_callbacks(*self.callbacks) if self.callbacks else estimator

    def track(self, items: Collection[T], description: str) -> Iterable[T]:
        """Show the progress of a loop.

        Parameters
        ----------
        items : collection
            The items of the loop.
        description : str
            Text of the progress bar.

        Returns
        -------
        iterable
            The items.
        """
        return items if self.progress is None else self.progress(items, description)

    def parts(
        self,
        settings: Mapping[str, Any],
        jobs: Mapping[str, Callable[[], Any]],
        *,
        more: Mapping[str, Mapping[str, Any]] | None = None,
        always: bool = False,
        needed: Collection[str] = (),
        optional: Collection[str] = (),
        description: str = "Rows",
    ) -> dict[str, Any]:
        """Compute the parts of a long experiment, or read those that an earlier run has saved.

        Parameters
        ----------
        settings : mapping
            Settings that all parts depend on, as JSON values. A saved part must have the same ones.
        jobs : mapping of str to callable
            The parts by name, such as the rows of a table; each returns JSON values.
        more : mapping of str to mapping, default=None
            Settings that one part alone depends on, by its name.
        always : bool, default=False
            Whether all other parts need these, so that they are computed for any choice of rows.
        needed : collection of str, default=()
            Parts of an earlier call that must be there by now.
        optional : collection of str, default=()
            Parts that the result can do without: if only other rows were requested and these are not
            saved, they are left out.
        description : str, default="Rows"
            Text of the progress bar.

        Returns
        -------
        dict
            The value of every part that is there, as read from JSON.

        Raises
        ------
        IncompleteError
            If parts that are not optional are missing at the end, because this run computed only some.
        """
        settings = {**settings, "seed": self.seed, "quick": self.quick}
        names = list(jobs)
        if self.store is None:
            return {name: jobs[name]() for name in self.track(names, description)}
        for name in self.track(names, description):
            its_own = (more or {}).get(name, {})
            self.store.compute(name, jobs[name], {**settings, **its_own}, always=always)
        return self.store.values([*needed, *names], optional=optional)
