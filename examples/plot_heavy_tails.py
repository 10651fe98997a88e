"""
Centroids of heavy-tailed data
==============================

Rows with two independent, heavy-tailed coordinates lie mostly near the axes. Two centroids that
have to explain each row by a multiple of one of them turn towards the tails, although there are no
clusters to find. This is figure 2 of Coates and Ng (2012), and the reason why K-means can recover
the filters of ICA (Vinnikov and Shalev-Shwartz, 2014).
"""

# %%
# Laplace sources, turned by an angle so that the right answer is not the coordinate axes. The
# columns of ``A`` are the directions of the tails. A rotation keeps the rows white.

import matplotlib.pyplot as plt
import numpy as np

from clusterica.cluster import CosineKMeans, GainShapeKMeans
from clusterica.datasets import make_sparse_sources
from clusterica.display import CentersDisplay

angle = np.deg2rad(25)
A = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
X = make_sparse_sources(20_000, 2, mixing=A, random_state=0).X

# %%
# Both rules treat a direction and its negative alike. They differ in how much a row counts:
# :class:`~clusterica.cluster.GainShapeKMeans` weighs a row by its response, so that the far ends of
# the tails lead, and :class:`~clusterica.cluster.CosineKMeans` keeps only the sign. The second one
# counts and returns both signs of a direction, so it is asked for four clusters.

models = [
    GainShapeKMeans(n_clusters=2, random_state=0),
    CosineKMeans(n_axes=2, random_state=0),
]

fig, axes = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained")
for ax, model in zip(axes, models, strict=True):
    name = type(model).__name__
    model.fit(X)
    CentersDisplay.from_estimator(model, X, length=4.0, title=name, ax=ax)
    # |cosine| between each of two centres and the nearest true direction
    cosines = np.abs(model.cluster_centers_[:2] @ A).max(axis=1)
    degrees = np.rad2deg(np.arccos(np.minimum(cosines, 1.0)))
    print(f"{name:>15}: off by {degrees[0]:.2f} and {degrees[1]:.2f} degrees")

plt.show()
