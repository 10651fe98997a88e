"""Write docs/licences.rst: the licence of every package that clusterica, one of its extras or these need.

They are read from the metadata of the packages that are installed: ``make licences``.
"""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SHIPPED_EXTRAS = ("torch", "dask", "ray", "images", "plot", "files", "mne")
HEAD = """:orphan:

Licences
========

clusterica itself has the BSD 3-Clause licence. It needs these packages, always or for one of its extras; what
these need in turn is in the list as well.

.. list-table::
   :header-rows: 1

   * - Package
     - Needed for
     - Licence"""
PAGE = Path(__file__).with_name("licences.rst")


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


def needed() -> dict[str, set[str]]:
    """Return all that clusterica needs, and what that needs: by name, "always" or the extras."""
    found: dict[str, set[str]] = {}
    waiting = [("clusterica", extra, extra or "always") for extra in ("", *SHIPPED_EXTRAS)]
    known = set(waiting)
    while waiting:
        owner, extra, why = waiting.pop()
        for requirement in _requirements(owner, extra):
            name = canonicalize_name(requirement.name)
            if name != "clusterica":
                found.setdefault(name, set()).add(why)
            new = {(name, one, why) for one in ("", *requirement.extras)} - known
            known |= new
            waiting += new
    return {name: {"always"} if "always" in why else why for name, why in found.items()}


def _requirements(name: str, extra: str) -> list[Requirement]:
    """Return what a package needs on this platform, with one of its extras; none if it is not there."""
    try:
        all_of_it = [Requirement(text) for text in distribution(name).requires or []]
    except PackageNotFoundError:
        return []
    return [one for one in all_of_it if one.marker is None or one.marker.evaluate({"extra": extra})]


def main() -> None:
    """Write the page."""
    lines = [HEAD]
    for name, extras in sorted(needed().items()):
        try:
            licence = licence_of(distribution(name))
        except PackageNotFoundError:
            licence = "not installed where this page was written"
        lines += [f"   * - {name}", f"     - {', '.join(sorted(extras))}", f"     - {licence}"]
    end = "``make licences`` writes this page from the metadata of the packages."
    PAGE.write_text("\n".join([*lines, "", end]) + "\n")


if __name__ == "__main__":
    main()
