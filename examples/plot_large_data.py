"""
Data larger than memory
=======================

Every learner here adds up sums over blocks of rows. So the rows need not be in memory: a memory-mapped
file, a Dask array, or any object that gives blocks is read block by block, and nothing else changes.
"""

# %%
# A file of 200,000 patches, written piece by piece. It has 50 MB so that this page builds quickly; a file
# of 50 GB takes the same lines.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import clusterica
from clusterica.cluster import GainShapeKMeans
from clusterica.datasets import photo_patches
from clusterica.display import FiltersDisplay
from clusterica.preprocessing import ContrastNormalizer, Whitener

folder = tempfile.TemporaryDirectory()
path = Path(folder.name)
n, step = 200_000, 50_000
patches = np.lib.format.open_memmap(path / "patches.npy", "w+", np.float32, (n, 64))
for start in range(0, n, step):
    patches[start : start + step] = photo_patches(step, 8, random_state=start)
patches.flush()
print(f"{(path / 'patches.npy').stat().st_size / 2**20:.0f} MiB in the file")

# %%
# An object that prepares each block when it is read. It must be able to start again: learners read it
# once for each iteration. ``memory`` limits the blocks that are worked on at the same time.

X = np.load(path / "patches.npy", mmap_mode="r")
normalizer = ContrastNormalizer(eps=10.0).fit(X[:1000])


class Normalized:
    def __iter__(self):
        for start in range(0, n, step):
            yield normalizer.transform(X[start : start + step])


with clusterica.config_context(memory="64MiB"):
    whitener = Whitener(eps=0.1).fit(Normalized())


class Whitened:
    def __iter__(self):
        for block in Normalized():
            yield whitener.transform(block)


# %%
# ``compute_labels=False`` spares one more pass, and one label for each row. A long run is kept in
# checkpoints: stopped and repeated, it goes on where it was, and ends with the same bits.

kmeans = GainShapeKMeans(64, max_iter=10, tol=0.0, compute_labels=False, random_state=0)
with clusterica.config_context(memory="64MiB"), clusterica.checkpoints(path / "run", every=60):
    kmeans.fit(Whitened())

# %%
# The filters are those of rows in memory, up to the last digits: another division into blocks may change
# the order of sums.

in_memory = GainShapeKMeans(64, max_iter=10, tol=0.0, compute_labels=False, random_state=0)
in_memory.fit(np.concatenate(list(Whitened())))
difference = np.abs(in_memory.cluster_centers_ - kmeans.cluster_centers_).max()
print(f"largest difference of a number: {difference:.1e}")

FiltersDisplay.from_estimator(kmeans, whitener=whitener, title="learned from a file")
plt.show()

# %%
# New rows one batch at a time: ``partial_fit`` learns from each as it comes, and keeps nothing of it.

stream = GainShapeKMeans(64, random_state=0)
for block in Whitened():
    stream.partial_fit(block)
scores = [model.score(np.concatenate(list(Whitened()))[:20_000]) for model in (stream, kmeans)]
print(f"score after one pass {scores[0]:.4g}, after ten {scores[1]:.4g}")
folder.cleanup()
