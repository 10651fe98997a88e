"""Loops that turn sums over rows into the next parameters, with progress and early stopping."""

from clusterica.optim._adam import Averages, adam, no_averages
from clusterica.optim._lbfgs import LBFGS, Evaluation
from clusterica.optim._loop import LoopResult, LoopState, Step, iterate
from clusterica.optim._many_lbfgs import ManyLBFGS, Values
from clusterica.optim._progress import Progress, fit_progress
from clusterica.optim._restarts import best_of

__all__ = [
    "LBFGS",
    "Averages",
    "Evaluation",
    "LoopResult",
    "LoopState",
    "ManyLBFGS",
    "Progress",
    "Step",
    "Values",
    "adam",
    "best_of",
    "fit_progress",
    "iterate",
    "no_averages",
]
