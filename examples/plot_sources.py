"""
ICA by clustering
=================

Two sparse sources, mixed so that their directions are not even orthogonal. After whitening they are, and
K-means with four clusters lands on both sides of each. Read back through the whitening matrix, the
centroids are the columns of the mixing matrix (Vinnikov and Shalev-Shwartz, 2014).
"""

# %%
# The mixture, and what :class:`~clusterica.ica.ClusterICA` makes of it. ``refine=None`` stays with the
# clusters.

import matplotlib.pyplot as plt
import numpy as np

from clusterica.datasets import make_sparse_sources
from clusterica.ica import ClusterICA
from clusterica.metrics import amari_distance

A = np.array([[1.0, 0.8], [0.2, 0.9]])
X, S, _ = make_sparse_sources(20_000, 2, mixing=A, random_state=0)
ica = ClusterICA(refine=None, random_state=0).fit(X)

# %%
# Left the mixture with the columns found, right the white data with the centroids.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained")
Y = ica.whitener_.transform(X)
for ax, rows, arrows, title in (
    (left, X, ica.mixing_centroids_, "mixture, and columns of the mixing matrix"),
    (right, Y, ica.clusterer_.cluster_centers_, "white, and centroids"),
):
    ax.plot(*rows[:6000].T, ",", color="0.45")
    for arrow in arrows:
        ax.annotate(
            "", 2.5 * arrow, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "C3", "lw": 2}
        )
    ax.set(title=title, aspect="equal", xlim=(-5, 5), ylim=(-5, 5))
plt.show()

# %%
# The columns are right up to scale, sign and order. The Amari distance, which does not depend on scale and
# order, measures how near they are; a few iterations on the likelihood bring it down.

refined = ClusterICA(random_state=0).fit(X)
for name, model in (("clusters", ica), ("refined", refined)):
    print(f"{name:>9}: Amari distance {amari_distance(model.components_, A):.4f}")
