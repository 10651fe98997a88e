"""Checks of parameters that the readers and generators of data share."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise an error if a value is not one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, allowed))}.")


def check_count(name: str, value: Any, *, largest: int | None = None, what: str = "") -> None:
    """Raise an error if a value is not a whole number from 1 to ``largest``, which is ``what``."""
    if is_count(value) and (largest is None or value <= largest):
        return
    rule = "of at least 1" if largest is None else f"from 1 to {largest}, {what}"
    raise ValueError(f"{name} is {value!r}; it must be a whole number {rule}.")


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 1; NumPy's are, True is not."""
    if isinstance(value, bool):
        return False
    return isinstance(value, numbers.Integral) and int(value) >= 1
