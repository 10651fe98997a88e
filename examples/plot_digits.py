"""
Classifying digits with few labels
==================================

A thousand handwritten digits, of which only a few have labels. Filters are learned from all of them, without
the labels; codes of all patches, pooled over a grid, are then the features of a linear classifier. It needs
fewer labels than the same classifier on raw pixels (Coates and Ng, 2012).
"""

# %%
# The digits of scikit-learn, 8 by 8 pixels each: ones to learn from, of which few have labels, and others
# to test on.

import matplotlib.pyplot as plt
import numpy as np

from clusterica.datasets import load_digits_images
from clusterica.display import ClusterSizesDisplay, FiltersDisplay, StagesDisplay
from clusterica.images import ImageFeatures, sample_patches
from clusterica.linear import LinearSVC

digits = load_digits_images()
order = np.random.default_rng(0).permutation(len(digits.images))
train, test = order[:1000], order[1000:]

# %%
# :class:`~clusterica.images.ImageFeatures` normalises the contrast of patches, whitens them and clusters
# them. The patterns of pixels that its filters look for are strokes and edges.

features = ImageFeatures(n_filters=64, patch_size=4, n_patches=20_000, random_state=0)
features.fit(digits.images[train])

fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.7), layout="constrained")
FiltersDisplay.from_estimator(features, title="patterns of the filters", ax=left)
FiltersDisplay.from_estimator(features, show="whitened", title="the filters, whitened", ax=right)
plt.show()

# %%
# What becomes of a patch on the way, column by column: whitening brings out the edges, and the last line is
# the whitened patch as its best filter explains it.

patches = sample_patches(digits.images[train], 16, patch_size=4, random_state=2)
StagesDisplay.from_estimator(features, patches)
plt.show()

# %%
# No cluster is nearly empty, which would be a sign of too few patches or of badly set constants.

ClusterSizesDisplay.from_estimator(features)
plt.show()

# %%
# Now the labels: a few images of every class, drawn three times. Both classifiers choose their strength on a
# part of those.

X, pixels = features.transform(digits.images), digits.images.reshape(len(digits.images), -1)
y = digits.labels
counts = (3, 10, 30)
scores = {"features": [], "raw pixels": []}
for n in counts:
    rng = np.random.default_rng(n)
    draws = [
        np.concatenate([rng.choice(train[y[train] == c], n, replace=False) for c in range(10)])
        for _ in range(3)
    ]
    for name, rows in (("features", X), ("raw pixels", pixels)):
        heads = [LinearSVC(C="auto", random_state=0).fit(rows[draw], y[draw]) for draw in draws]
        scores[name].append([head.score(rows[test], y[test]) for head in heads])

# %%
# Features are right more often, and most of all where labels are few.

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for name, found in scores.items():
    percent = 100 * np.array(found)
    ax.errorbar(
        counts, percent.mean(axis=1), percent.std(axis=1), marker="o", capsize=3, label=name
    )
ax.set(xscale="log", xlabel="labels a class", ylabel="accuracy on other digits (%)")
ax.set_xticks(counts, [str(n) for n in counts])
ax.minorticks_off()
ax.legend(frameon=False, loc="lower right")
plt.show()
