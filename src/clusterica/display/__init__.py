"""Figures of fitted estimators, with matplotlib, which is imported at its first use."""

from clusterica.display._centers import CentersDisplay
from clusterica.display._curves import ConvergenceDisplay, SpectrumDisplay
from clusterica.display._density import DensityDisplay
from clusterica.display._filters import FiltersDisplay
from clusterica.display._groups import GroupsDisplay
from clusterica.display._mpl import check_matplotlib
from clusterica.display._responses import ResponsesDisplay
from clusterica.display._sizes import ClusterSizesDisplay
from clusterica.display._sources import MixingDisplay, SourcesDisplay
from clusterica.display._stages import StagesDisplay
from clusterica.display._tiles import tile_images

__all__ = [
    "CentersDisplay",
    "ClusterSizesDisplay",
    "ConvergenceDisplay",
    "DensityDisplay",
    "FiltersDisplay",
    "GroupsDisplay",
    "MixingDisplay",
    "ResponsesDisplay",
    "SourcesDisplay",
    "SpectrumDisplay",
    "StagesDisplay",
    "check_matplotlib",
    "tile_images",
]
