r"""
Coming from MATLAB's rica
=========================

``rica`` of MATLAB's Statistics and Machine Learning Toolbox and :class:`~clusterica.rica.RICA` minimise
the same objective, scaled by another constant. This separates mixed signals as ``rica`` would be asked
to; :doc:`/matlab` has a table of all arguments.
"""

# %%
# Six signals: four with heavy tails, such as speech, and two with light ones. In MATLAB:
#
# .. code-block:: text
#
#    X = prewhiten(S * A);
#    model = rica(X, 6, 'NonGaussianityIndicator', [1;1;1;1;-1;-1], 'Lambda', 1, 'IterationLimit', 400);
#    Z = transform(model, X);

import matplotlib.pyplot as plt
import numpy as np

from clusterica.contrasts import LogCosh
from clusterica.display import ConvergenceDisplay, SourcesDisplay
from clusterica.metrics import amari_distance
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

rng = np.random.default_rng(0)
time = np.arange(5000) / 1000
S = np.column_stack(
    [
        *(
            rng.laplace(size=5000) * (1 + np.sin(2 * np.pi * f * time))
            for f in (0.5, 0.9, 1.3, 2.1)
        ),
        np.sin(2 * np.pi * 7 * time),
        np.mod(3 * time, 1) - 0.5,
    ]
)
A = rng.standard_normal((6, 6))
whitener = Whitener("pca", eps=0.0)
X = whitener.fit_transform(S @ A)

# %%
# The same here. ``sparsity`` is one over ``Lambda``; ``LogCosh(scale=2)`` is MATLAB's ``'logcosh'``, up
# to a factor that is the same for all; ``signs`` is ``NonGaussianityIndicator``.

model = RICA(
    6,
    unit_norm=True,
    sparsity=1.0,
    penalty=LogCosh(scale=2),
    signs=[1, 1, 1, 1, -1, -1],
    max_iter=400,
    random_state=0,
)
Z = model.fit_transform(X)

fig, axes = plt.subplots(2, 1, figsize=(9, 6.4), layout="constrained")
for ax, signals, title in [(axes[0], S @ A, "mixed"), (axes[1], Z, "separated")]:
    SourcesDisplay.from_sources(signals, sampling_rate=1000, stop=2, title=title, ax=ax)
plt.show()

# %%
# The Amari distance is 0 where the sources are found, up to order, sign and scale.

unmixing = model.components_ @ whitener.whitening_
print(f"Amari distance {amari_distance(unmixing, A.T):.3f}")

# %%
# MATLAB's ``FitInfo`` is in ``n_iter_``, ``objective_history_`` and ``term_histories_``.

ConvergenceDisplay.from_estimator(model)
plt.show()
