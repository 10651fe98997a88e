"""A contender in a process of its own, asked to work in turn with others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


class Contender:
    """A process that fits on demand."""

    def __init__(
        self, library: str, environment: dict[str, str], module: str = "benchmarks.contenders"
    ) -> None:
        threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads | environment,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a contender died; its error is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
