r"""
RICA with and without pooling
=============================

Reconstruction ICA (RICA) replaces the orthogonal filters of ICA by a cost: codes :math:`W x` should be
sparse, and :math:`W^\top W x` should be x again. So there may be more filters than pixels. With pooling,
filters that fire together come to lie next to each other on a map. With labels, every class gets a part of
the filters.
"""

# %%
# Patches of the two photographs that come with scikit-learn, normalised and whitened: 64 pixels each, and
# twice as many filters.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterica.contrasts import TorusPooling
from clusterica.datasets import photo_patches
from clusterica.display import FiltersDisplay
from clusterica.preprocessing import ContrastNormalizer, Whitener
from clusterica.rica import RICA, DiscriminativeRICA

# Each fit is stopped early here, to be quick.
warnings.simplefilter("ignore", ConvergenceWarning)

patches = ContrastNormalizer(eps=10.0).fit_transform(photo_patches(8000, 8, random_state=0))
X = Whitener(eps=0.1).fit_transform(patches)
print("rows x pixels:", X.shape)

# %%
# Without pooling, each filter is on its own. With pooling on a grid of 8 by 16 whose edges are joined, the
# penalty is the root of the mean square of 3 by 3 neighbours: they are active together at little cost, and
# neighbours become alike in place and direction, as in the visual cortex.

alone = RICA(128, sparsity=1.0, max_iter=100, random_state=0).fit(X)
map_of_filters = RICA(
    128, sparsity=1.0, pooling=TorusPooling((8, 16)), max_iter=100, random_state=0
).fit(X)

fig, axes = plt.subplots(2, 1, figsize=(7, 7.4), layout="constrained")
for ax, rica, title in [(axes[0], alone, "no pooling"), (axes[1], map_of_filters, "3 x 3 pooling")]:
    FiltersDisplay(rica.components_).plot(ax=ax, n_columns=16, title=title)
plt.show()

# %%
# In numbers: how much the energies of neighbours on the map go together, and those of other pairs.


def together(rica):
    """Mean correlation of the squared codes of neighbours to the right, and of all pairs."""
    C = np.corrcoef(rica.transform(X).T ** 2)
    neighbour = np.arange(128).reshape(8, 16)
    right = np.roll(neighbour, -1, axis=1)
    return C[neighbour, right].mean(), C[~np.eye(128, dtype=bool)].mean()


for name, rica in [("no pooling", alone), ("3 x 3 pooling", map_of_filters)]:
    print(f"{name:>14}: neighbours {together(rica)[0]:.2f}, all pairs {together(rica)[1]:.2f}")

# %%
# Labels. d-RICA adds :math:`\alpha\, d(s)`: the sum of the codes of other classes, squared, minus that of the
# own class, plus :math:`\eta \|s\|^2`. It is convex in the codes for :math:`\eta > k`, the number of filters
# of a class. But from k + 1 on it can only shrink codes, and it does so at the expense of the reconstruction.
# Here are digits, a linear classifier on both signs of the codes, and three draws of 900 digits to learn
# from; the accuracy is that on the other 897. On these digits the labels gain nothing over RICA, and a large
# eta ruins the codes.

images, y = load_digits(return_X_y=True)
images = images / 16
k, draws = 5, 3
etas = [0, k / 2, k, k + 1, 10 * k]
splits = [np.random.default_rng(seed).permutation(len(y)) for seed in range(draws)]


def accuracy(rica, split):
    """Learn filters and a classifier on the first 900, and try them on the others."""
    learn, check = split[:900], split[900:]
    rica.fit(images[learn], y[learn])
    codes = rica.transform(images)
    codes = np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)])
    head = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    return 100 * head.fit(codes[learn], y[learn]).score(codes[check], y[check])


warnings.filterwarnings("ignore", "eta=.* is not above")  # smaller ones are tried on purpose
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for unit_norm, colour in [("tight", "C0"), (False, "C1")]:
    settings = {"sparsity": 0.1, "unit_norm": unit_norm, "max_iter": 40}
    plain = [accuracy(RICA(10 * k, random_state=0, **settings), split) for split in splits]
    found = [
        [
            accuracy(DiscriminativeRICA(k, eta=eta, random_state=0, **settings), split)
            for split in splits
        ]
        for eta in etas
    ]
    name = "unit length" if unit_norm else "free lengths"
    mean, spread = np.mean(found, axis=1), np.std(found, axis=1)
    ax.errorbar(
        range(5), mean, spread, color=colour, marker="o", capsize=3, label=f"d-RICA, {name}"
    )
    ax.axhline(np.mean(plain), color=colour, ls="--", lw=1, label=f"RICA, {name}")
    print(
        f"{name:>12}: RICA {np.mean(plain):.1f},",
        *(f"{m:.1f} ± {s:.1f}," for m, s in zip(mean, spread, strict=True)),
    )
ax.set_xticks(range(5), ["0", "k/2", "k", "k + 1", "10 k"])
ax.set(xlabel="eta", ylabel="accuracy on held-out digits (%)")
ax.legend(frameon=False, loc="lower left")
plt.show()
