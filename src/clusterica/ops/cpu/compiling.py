"""One line to the user when loops are compiled for the first time: it takes seconds, in silence otherwise."""

from __future__ import annotations

import logging
from typing import Any

from numba.core import event

_log = logging.getLogger("clusterica")


class Announcer(event.Listener):
    """Logs a line at the first compilation of a function of this package; code from the cache is not one."""

    def __init__(self) -> None:
        self.silent = False

    def on_start(self, event: Any) -> None:
        """Say it once in a process."""
        module = getattr(event.data["dispatcher"].py_func, "__module__", "")
        if self.silent or not module.startswith("clusterica."):
            return
        self.silent = True
        # As a warning of the log, which Python prints unless told otherwise; information it does not.
        _log.warning(
            "clusterica compiles its loops for this machine, which takes some seconds; the result is kept on "
            "disk, and the next run begins at once"
        )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


ANNOUNCER = Announcer()
event.register("numba:compile", ANNOUNCER)  # type: ignore[no-untyped-call]
