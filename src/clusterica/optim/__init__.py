"""Loops that turn sums over rows into the next parameters, with progress and early stopping."""

from clusterica.optim._adam import Averages, adam, no_averages
from clusterica.optim._lbfgs import LBFGS, Evaluation, Position
from clusterica.optim._loop import (
    LoopResult,
    LoopState,
    Progress,
    Recorder,
    Step,
    Stored,
    best_of,
    fit_progress,
    iterate,
    recorder,
    stored_draws,
    stored_with,
)
from clusterica.optim._many_lbfgs import ManyLBFGS, Moves, Positions, Values
from clusterica.optim._many_newton import Losses, ManyNewton

__all__ = [
    "LBFGS",
    "Averages",
    "Evaluation",
    "LoopResult",
    "LoopState",
    "Losses",
    "ManyLBFGS",
    "ManyNewton",
    "Moves",
    "Position",
    "Positions",
    "Progress",
    "Recorder",
    "Step",
    "Stored",
    "Values",
    "adam",
    "best_of",
    "fit_progress",
    "iterate",
    "no_averages",
    "recorder",
    "stored_draws",
    "stored_with",
]
