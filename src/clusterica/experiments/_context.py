"""What an experiment is told: how long it may take, its seed, and whom to tell of its progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
# Returns the items one by one while it shows how many are done, under a description.
Progress = Callable[[Collection[Any], str], Iterable[Any]]


class Store(Protocol):
    """Keeps the parts of a long experiment; see ``_parts.PartStore``."""

    def compute(
        self, name: str, job: Callable[[], Any], settings: Mapping[str, Any], *, always: bool
    ) -> None:
        """Compute a part and keep it, unless it is there or not asked for."""

    def values(self, names: Collection[str]) -> dict[str, Any]:
        """Return the values of parts, or raise an error if some are missing."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Circumstances of one run.

    Parameters
    ----------
    quick : bool, default=False
        Whether a few seconds must do.
    output : Path, default=Path(".")
        Folder of the results, for experiments that write more than the runner does.
    seed : int, default=0
        Seed of everything random in the run.
    callbacks : tuple of scikit-learn callbacks, default=()
        Set on the estimators that are worth watching, such as ``sklearn.callback.ProgressBar()``.
    progress : callable, default=None
        ``progress(items, description)`` returns the items while it shows how many are done.
    data : Path, default=None
        Folder with the official files of data sets, for experiments on real images.
    device : str, default=None
        Torch device to put images on, such as "cuda"; None works on NumPy arrays.
    store : Store, default=None
        Where parts of a long experiment are kept; None keeps none.
    """

    quick: bool = False
    output: Path = Path(".")
    seed: int = 0
    callbacks: tuple[Any, ...] = ()
    progress: Progress | None = None
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
            The one that applies.
        """
        return quick if self.quick else full

    def watch(self, estimator: Any) -> Any:
        """Set the callbacks on an estimator.

        Parameters
        ----------
        estimator : estimator
            One whose fit takes long enough to be watched.

        Returns
        -------
        estimator
            The same one.
        """
        return estimator.set_callbacks(*self.callbacks) if self.callbacks else estimator

    def track(self, items: Collection[T], description: str) -> Iterable[T]:
        """Show how far a loop is.

        Parameters
        ----------
        items : collection
            What the loop goes over.
        description : str
            What it does, in a few words.

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
        always: bool = False,
        description: str = "Rows",
    ) -> dict[str, Any]:
        """Compute the parts of a long experiment, or take those that an earlier run has left.

        Parameters
        ----------
        settings : mapping
            What all parts depend on, ready for JSON. A part that is there must come from the same ones.
        jobs : mapping of str to callable
            The parts by name, such as the rows of a table: each returns what goes into JSON.
        always : bool, default=False
            Whether the parts are needed by all others, and so are computed whatever rows are asked for.
        description : str, default="Rows"
            What the parts are, for the progress bar.

        Returns
        -------
        dict
            The value of every part, as JSON gives it back.

        Raises
        ------
        IncompleteError
            After the work, if parts are missing that this run was not asked for.
        """
        settings = {**settings, "seed": self.seed, "quick": self.quick}
        names = list(jobs)
        if self.store is None:
            return {name: jobs[name]() for name in self.track(names, description)}
        for name in self.track(names, description):
            self.store.compute(name, jobs[name], settings, always=always)
        return self.store.values(names)
