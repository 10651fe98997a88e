"""What all written pages share: tables, and sentences on where, when and with what figures were made."""

from __future__ import annotations

from typing import Any

BUSY = 0.1  # share of the processor that others take, from which on times say little


def rst_table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Return a list-table."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [columns, *rows]:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def heading(title: str) -> list[str]:
    """Return the title of a section."""
    return [title, "-" * len(title), ""]


def when(report: dict[str, Any]) -> str:
    """Return ``at commit 1234567 on 2026-11-18``, or that the file is older than the recording of commits."""
    machine = report["machine"]
    if "commit" not in machine:
        return "before commits were recorded"
    day = f" on {machine['date']}" if "date" in machine else ""
    return f"at commit {machine['commit'] or 'unknown'}{day}"


def slow_blas(report: dict[str, Any]) -> str:
    """Return a warning if OpenBLAS had kernels without AVX-512 on a processor that has it, else nothing."""
    machine = report["machine"]
    wide = "AVX-512" in machine["cpu"] and "no AVX-512" not in machine["cpu"]
    if wide and any(blas.endswith("Haswell") for blas in machine["blas"]):
        return (
            " **OpenBLAS had to use kernels of an older processor (Haswell), which multiply about half as "
            "fast: times and ratios are to be measured again.**"
        )
    return ""


def provenance(report: dict[str, Any]) -> list[str]:
    """Return a paragraph: when the figures were made, on what machine, with what libraries."""
    machine = report["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["libraries"].items())
    text = f"Measured {when(report)}, on {machine['cpu']}, {machine['cores']} cores, with Python "
    text += f"{machine['python']}, {versions}; BLAS: {'; '.join(machine['blas'])}."
    share = report.get("share_of_others") or 0
    if share > BUSY:
        text += f" **Other programs took {share:.0%} of the processor meanwhile.**"
    return [text + slow_blas(report), ""]
