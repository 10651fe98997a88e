"""All targets, and how one is called: it raises an error that the documentation names, or has a defect."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from contextlib import redirect_stderr
from pathlib import Path

from fuzz import command, data_sets, models

TARGETS = models.TARGETS | data_sets.TARGETS | command.TARGETS


class Defect(Exception):
    """A reader raised something that the documentation does not name."""


def call(name: str, content: bytes) -> None:
    """Call a target with an input; its seeds have been made."""
    target = TARGETS[name]
    try:
        with redirect_stderr(io.StringIO()):  # messages of the command
            target.run(content)
    except target.errors:
        return
    # Also SystemExit and the like, which would end the fuzzer without a word.
    except BaseException as error:
        raise Defect(f"{name}: {type(error).__name__}: {error}") from error


def inputs(name: str) -> list[bytes]:
    """Return the inputs to begin with: the seeds of a target, and what earlier runs found worth keeping."""
    packed = Path(__file__).parent / "corpus" / f"{slug(name)}.zip"
    kept: list[bytes] = []
    if packed.exists():
        with zipfile.ZipFile(packed) as box:
            kept = [box.read(one) for one in box.infolist()]
    return TARGETS[name].seeds() + kept


def slug(name: str) -> str:
    """Return the name of the files of a target."""
    return re.sub(r"\W+", "-", name)


def quiet() -> None:
    """Ignore warnings, which inputs cause by the thousand."""
    warnings.simplefilter("ignore")
