"""
Text: clusters of documents
===========================

Documents become rows of word weights (TF-IDF), or embeddings of a language model. Both are compared by
direction: how long a document is says little about what it is about. Here are the docstrings of NumPy,
SciPy and scikit-learn, which are on every machine that runs this; embeddings of your own take the same
steps.
"""

# %%
# Some 1,500 docstrings, and the weights of their words: a sparse matrix, which stays sparse.

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from clusterica.cluster import SphericalKMeans, VonMisesFisherMixture

MODULES = [
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "numpy.random",
    "scipy.signal",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.special",
    "scipy.ndimage",
    "scipy.interpolate",
    "scipy.spatial",
    "sklearn.cluster",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.ensemble",
    "sklearn.preprocessing",
    "sklearn.datasets",
]

documents = {}
for module in map(importlib.import_module, MODULES):
    for name, thing in vars(module).items():
        text = inspect.getdoc(thing) if callable(thing) and not name.startswith("_") else None
        if text and len(text) > 300:
            documents.setdefault(f"{module.__name__}.{name}", text)
names, texts = list(documents), list(documents.values())
# Words with letters only, and none that are in every second document.
words = TfidfVectorizer(stop_words="english", max_df=0.3, min_df=5, token_pattern=r"[a-z]{3,}")
X = words.fit_transform(texts).astype(np.float32)
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.nnz / X.shape[0]:.0f} words in a document")

# %%
# :class:`~clusterica.cluster.SphericalKMeans` gives a document to the centre with the largest cosine. The
# largest entries of a centre are the words that its documents share.

kmeans = SphericalKMeans(12, n_init=5, random_state=0).fit(X)
vocabulary = words.get_feature_names_out()
centers, sizes = kmeans.cluster_centers_, np.bincount(kmeans.labels_, minlength=12)

fig, axes = plt.subplots(3, 4, figsize=(11, 6.6), layout="constrained")
for ax, j in zip(axes.flat, np.argsort(-sizes), strict=True):
    top = np.argsort(centers[j])[-6:]
    ax.barh(vocabulary[top], centers[j, top], color="#2f5d8c")
    ax.set_title(f"{sizes[j]} documents", fontsize=10)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
plt.show()

# %%
# The documents nearest to a query: any text gets the same weights, and cosines come from ``transform``.

query = words.transform(["smooth noisy samples of a signal with a window"]).astype(np.float32)
cluster = kmeans.predict(query)[0]
members = np.flatnonzero(kmeans.labels_ == cluster)
nearest = members[np.argsort(-(X[members] @ query.T).toarray()[:, 0])[:5]]
print("nearest:", *(names[i] for i in nearest), sep="\n   ")

# %%
# A mixture of von Mises-Fisher laws has soft clusters. Documents of small density belong nowhere, and
# documents with two large memberships stand between clusters.

mixture = VonMisesFisherMixture(12, concentration="tied", random_state=0).fit(X)
memberships = np.sort(mixture.predict_proba(X), axis=1)
between = np.argsort(memberships[:, -1])[:3]
unusual = np.argsort(mixture.score_samples(X))[:3]
print("between clusters:", *(names[i] for i in between), sep="\n   ")
print("of smallest density:", *(names[i] for i in unusual), sep="\n   ")
