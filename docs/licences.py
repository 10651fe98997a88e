"""Write docs/licences.rst: the licence of every package that clusterica or one of its extras needs.

They are read from the metadata of the packages that are installed: ``make licences``.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

SHIPPED_EXTRAS = ("torch", "dask", "images", "plot", "files", "mne")
HEAD = """:orphan:

Licences
========

clusterica itself has the BSD 3-Clause licence. It needs these packages:

.. list-table::
   :header-rows: 1

   * - Package
     - Needed for
     - Licence"""
PAGE = Path(__file__).with_name("licences.rst")


def name_of(requirement: str) -> str:
    """Return the name of a package in a requirement such as ``dask[array]>=2024.8; extra == "dask"``."""
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower()


def licence_of(package: Distribution) -> str:
    """Return the licence that a package states, in the newest way in which it does."""
    meta = package.metadata
    if meta["License-Expression"]:
        return meta["License-Expression"]
    classifiers = [
        c.split(" :: ")[-1] for c in meta.get_all("Classifier", []) if c[:7] == "License"
    ]
    # Some packages have the whole text here.
    return ", ".join(classifiers) or (meta["License"] or "not stated").splitlines()[0]


def needed() -> dict[str, list[str]]:
    """Return the direct requirements of clusterica: by name, the extras that need them."""
    found: dict[str, list[str]] = {}
    for requirement in distribution("clusterica").requires or []:
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        name = name_of(requirement)
        if name != "clusterica" and (extra is None or extra[1] in SHIPPED_EXTRAS):
            found.setdefault(name, []).append(extra[1] if extra else "always")
    return found


def main() -> None:
    """Write the page."""
    lines = [HEAD]
    for name, extras in sorted(needed().items()):
        try:
            licence = licence_of(distribution(name))
        except PackageNotFoundError:
            licence = "not installed where this page was written"
        lines += [f"   * - {name}", f"     - {', '.join(extras)}", f"     - {licence}"]
    end = "``make licences`` writes this page from the metadata of the packages."
    PAGE.write_text("\n".join([*lines, "", end]) + "\n")


if __name__ == "__main__":
    main()
