"""
Filters of photographs, without and with whitening
==================================================

Nearby pixels of a photograph are strongly correlated. K-means on such patches spends its centroids
on the few directions with the most variance, and gives blurred edges. Whitening evens out the
variance first, and the same algorithm finds sharp, localised edges and bars. This is figure 1 of
Coates and Ng (2012).
"""

# %%
# Grey patches of 8 by 8 pixels from the two photographs that come with scikit-learn, one patch a
# row, with the brightness and contrast of each patch normalised. The constant 10 suits pixels in
# 0..255: it keeps flat patches from being blown up to noise.

import matplotlib.pyplot as plt
import numpy as np

from clusterica.cluster import GainShapeKMeans
from clusterica.datasets import photo_patches
from clusterica.display import FiltersDisplay
from clusterica.preprocessing import ContrastNormalizer, Whitener

patches = photo_patches(40_000, 8, random_state=0)
X = ContrastNormalizer(eps=10.0).fit_transform(patches)

# %%
# ZCA whitening is the whitening that changes the patches least, so whitened rows and centroids can
# be looked at as pictures. For patches of this size 0.1 is a good first value of ``eps``; a smaller
# one lets more of the photographs' noise through.

whitener = Whitener(method="zca", eps=0.1).fit(X)
X_white = whitener.transform(X)

# %%
# The same estimator on both.

kmeans = GainShapeKMeans(n_clusters=100, max_iter=20, tol=0.0, random_state=0)
raw = kmeans.fit(X).cluster_centers_
white = kmeans.fit(X_white).cluster_centers_

fig, axes = plt.subplots(1, 2, figsize=(8, 4.3), layout="constrained")
for ax, D, title in [(axes[0], raw, "without whitening"), (axes[1], white, "with whitening")]:
    FiltersDisplay(D).plot(ax=ax, n_columns=10, title=title)

# %%
# The gain in numbers: the response of a good filter is near zero for most patches and large for a
# few, which shows as a large kurtosis (0 for a Gaussian).


def excess_kurtosis(S):
    """Excess kurtosis of each column."""
    S = (S - S.mean(axis=0)) / S.std(axis=0)
    return (S**4).mean(axis=0) - 3


for name, rows, D in [("without", X, raw), ("with", X_white, white)]:
    kurtosis = np.median(excess_kurtosis(rows @ D.T))
    print(f"{name:>8} whitening: median excess kurtosis {kurtosis:.1f}")

plt.show()
