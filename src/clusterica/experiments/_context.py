"""What an experiment is told: how long it may take, its seed, and whom to tell of its progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
# Returns the items one by one while it shows how many are done, under a description.
Progress = Callable[[Collection[Any], str], Iterable[Any]]


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
    """

    quick: bool = False
    output: Path = Path(".")
    seed: int = 0
    callbacks: tuple[Any, ...] = ()
    progress: Progress | None = None
    data: Path | None = None
    device: str | None = None

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
