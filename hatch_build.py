"""Write the commit into sdists and wheels, so that results made with an installed package can be traced."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_TARGETS = {"sdist": "src/clusterica/_commit.txt", "wheel": "clusterica/_commit.txt"}


class CommitHook(BuildHookInterface):
    """Add ``_commit.txt`` to what is built from a clean checkout; a wheel made from an sdist keeps it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, unless git is missing or src has uncommitted changes."""
        if version == "editable":
            return
        try:
            if self._git("status", "--short", "src"):
                return
            commit = self._git("rev-parse", "HEAD")
        except (OSError, subprocess.CalledProcessError):
            return
        path = Path(tempfile.mkdtemp()) / "_commit.txt"
        path.write_text(f"{commit}\n")
        build_data["force_include"][str(path)] = _TARGETS[self.target_name]

    def _git(self, *words: str) -> str:
        command = ["git", "-C", self.root, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
