"""
Filters of a sparse auto-encoder and a sparse RBM
=================================================

Two networks of units that are rarely active, of the kind that is stacked in deep learning. On white patches
of photographs the filters of both become edges of all directions, as their papers show.
"""

# %%
# Patches of the two photographs that come with scikit-learn, normalised and whitened.

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from clusterica.datasets import photo_patches
from clusterica.dictionaries import SparseAutoencoder, SparseRBM
from clusterica.display import FiltersDisplay
from clusterica.preprocessing import ContrastNormalizer, Whitener

# Each fit is stopped early here, to be quick.
warnings.simplefilter("ignore", ConvergenceWarning)

patches = ContrastNormalizer().fit_transform(photo_patches(8000, 10, random_state=0))
X = Whitener(eps=0.1).fit_transform(patches)

# %%
# The mean activity of a unit shall be 0.02. The filters of the machine are noisier: it looks at 100 patches
# in a step, and draws the states of its units.

units = SparseAutoencoder(64, max_iter=120, random_state=0).fit(X)
machine = SparseRBM(64, max_iter=15, random_state=0).fit(X)

fig, axes = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
for ax, model in zip(axes, (units, machine), strict=True):
    FiltersDisplay.from_estimator(model, ax=ax)
    ax.set_title(type(model).__name__)
