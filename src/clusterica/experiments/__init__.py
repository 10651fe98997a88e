"""The tables and figures of the papers, one module each, compared with the results of this library."""

from clusterica.experiments._context import Context
from clusterica.experiments._parts import IncompleteError
from clusterica.experiments._registry import Experiment, available, experiment, find
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments._runner import Outcome, run

__all__ = [
    "Check",
    "Context",
    "Experiment",
    "IncompleteError",
    "Outcome",
    "Picture",
    "Result",
    "available",
    "experiment",
    "find",
    "run",
]
