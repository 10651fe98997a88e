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


def call(name: str, content: bytes) -> bool:
    """Call a target with an input, after its seeds were made; return whether it was valid."""
    target = TARGETS[name]
    try:
        with redirect_stderr(io.StringIO()):  # messages of the command
            target.run(content)
        return True
    except target.errors:
        return False
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


def replay() -> None:
    """Call all targets with the inputs to begin with; of each one must be valid."""
    quiet()
    for name in TARGETS:
        n_valid = sum(call(name, content) for content in inputs(name))
        print(f"{name}: {len(inputs(name))} inputs, {n_valid} of them valid")
        # Else a fuzzer would never come behind the first check of the reader.
        if not n_valid:
            raise Defect(f"{name}: no input is valid")


def slug(name: str) -> str:
    """Return the name of the files of a target."""
    return re.sub(r"\W+", "-", name)


def quiet() -> None:
    """Ignore warnings, which inputs cause by the thousand."""
    warnings.simplefilter("ignore")
