"""Random streams: NumPy draws every random number on the host, so that all backends see the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy Generator for a scikit-learn ``random_state`` (None, int, RandomState, Generator)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, np.random.RandomState):
        random_state = check_random_state(random_state).randint(2**31, size=4)
    return np.random.default_rng(random_state)
