"""How loops are compiled: at their first call, kept on disk, with one line to the user, who waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

_log = logging.getLogger("clusterica")


class Announcer(event.Listener):
    """Logs a line at the first compilation of a function of this package; code from the cache is not one."""

    def __init__(self) -> None:
        self.silent = False
        self.keeps = True  # whether what is compiled can be kept on disk

    def on_start(self, event: Any) -> None:
        """Say it once in a process."""
        module = getattr(event.data["dispatcher"].py_func, "__module__", "")
        if self.silent or not module.startswith("clusterica."):
            return
        self.silent = True
        # As a warning of the log, which Python prints unless told otherwise; information it does not.
        _log.warning(
            "clusterica compiles its loops for this machine, which takes some seconds; %s",
            "the result is kept on disk, and the next run begins at once"
            if self.keeps
            else "to keep the result, set NUMBA_CACHE_DIR to a folder that can be written to",
        )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


ANNOUNCER = Announcer()
event.register("numba:compile", ANNOUNCER)  # type: ignore[no-untyped-call]


def compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function at its first call; options as in ``numba.njit``."""

    def decorate(function: Callable[..., Any]) -> Any:
        given = {"nogil": True, "error_model": "numpy", **options}
        try:
            return numba.njit(cache=True, **given)(function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written to
            ANNOUNCER.keeps = False
            return numba.njit(**given)(function)

    return decorate


compiled = compiler()
# A part of its caller: compiled with it, and not once more alone, which saves seconds at first use.
inlined = compiler(inline="always")
# Sums over the features of one row may be taken in any order, so that they vectorise.
compiled_sum = compiler(fastmath={"reassoc", "contract"})
