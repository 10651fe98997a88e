r"""
Kernel RICA: the width of the kernel, and three optimisers
==========================================================

Kernel RICA encodes a row by how much it is like each basis vector, :math:`s_p = k(w_p, x)`, and asks that
:math:`\sum_p s_p\, \phi(w_p)` be near to :math:`\phi(x)`. Basis vectors that are like the same rows do the
same work twice, so they push each other away. If the kernel is wide, some are pushed to where no row is: they
are dead. This shows how it looks on digits, and how the objective comes down.
"""

# %%
# 1797 digits of 8 by 8 pixels. ``normalize=True`` scales each to unit length, and ``scale=1.0`` is the
# objective of the paper, with which basis vectors die; the defaults avoid that. Forty basis vectors start at
# the centres of K-means. ``gamma="median"`` is one over the median squared distance of two rows.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from clusterica.display import FiltersDisplay
from clusterica.rica import KernelRICA

# Basis vectors die here on purpose, and a fit may end before it has converged.
warnings.filterwarnings("ignore", ".*are dead")
warnings.simplefilter("ignore", ConvergenceWarning)

X = load_digits().data
K = 40
paper = {"scale": 1.0, "sparsity": 0.01, "normalize": True, "tol": 1e-5, "random_state": 1}
wide = KernelRICA(K, gamma="median", **paper).fit(X)
# The last of the three ways down is "auto", the default.
ways = ("fixed-point", "lbfgs", "auto")
gamma = 4 * wide.gamma_
fits = {way: KernelRICA(K, gamma=gamma, optimizer=way, **paper).fit(X) for way in ways}
narrow = fits["auto"]

# %%
# The basis vectors, sorted by their largest code: those that no row is like come last. White is positive,
# black negative, and digits have no negative pixels. With the narrow kernel each basis vector is a digit that
# some rows are like. With the wide one they have moved out of the digits, to be unlike each other. How many
# die depends on the start: 3 to 11 in eight of them.

fig, axes = plt.subplots(2, 1, figsize=(7, 6.4), layout="constrained")
for ax, rica, name in [(axes[0], wide, "median"), (axes[1], narrow, "4 x median")]:
    largest = rica.transform(X).max(axis=0)
    order = np.argsort(-largest)
    title = f"gamma = {rica.gamma_:.1f} ({name}): {rica.n_dead_} of {K} dead"
    FiltersDisplay(rica.components_[order]).plot(ax=ax, n_columns=10, title=title)
    print(f"{title}; the largest codes are {largest.min():.1e} to {largest.max():.2f}")
plt.show()

# %%
# Three ways down, from the same start, with the narrow kernel. The gradient by a basis vector is
# :math:`c\, w - v`. The paper goes to the fixed point :math:`v / c`, but that leads down only where c is
# positive, and at the start it is positive nowhere: there, ``"fixed-point"`` goes down the gradient.
# ``"auto"`` begins like that and ends with L-BFGS. All of them take a step only if the objective falls, and
# a term may rise for another's sake. The objective is not convex, and they end at different places; which of
# them is lowest differs from start to start. On the right is the number of basis vectors whose fixed point
# lies uphill, for both kernels: with the wide one it swings, and stays above zero where vectors are dead.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for (way, rica), style in zip(fits.items(), ["-", "-", "--"], strict=True):
    for ax, term in zip(axes, ["reconstruction", "penalty"], strict=False):
        ax.plot(1 + np.arange(rica.n_iter_ + 1), rica.term_histories_[term], style, label=way)
    start, end = rica.objective_history_[[0, -1]]
    print(f"{way:>12}: objective {start:.3f}, and {end:.4f} after {rica.n_iter_} steps")
for rica, name in [(wide, "median"), (narrow, "4 x median")]:
    axes[2].plot(1 + np.arange(rica.n_iter_ + 1), rica.n_uphill_, lw=1, label=f"gamma: {name}")
axes[0].set(ylabel="reconstruction error", ylim=(0.74, 0.82))  # it starts far above
axes[1].set(ylabel="penalty, weighted")
axes[2].set(ylabel=f"basis vectors of {K} with c not positive", ylim=(-1, 52))
for ax in axes:
    ax.set(xlabel="step + 1", xscale="log")
    ax.legend(frameon=False, loc="upper right")
plt.show()
