"""
Signals: clean a recording by its sources
=========================================

Electrodes on the scalp record the brain, and also eyes and heart: every channel is a sum of the same
sources with other weights. Independent component analysis finds the sources. Without those of eyes and
heart, the rest can be mixed again: a clean recording. The same steps separate voices in several
microphones.
"""

# %%
# Thirty seconds of six channels, in volts: a rhythm of 10 Hz that comes and goes, blinks, heartbeats, and
# three sources of short spikes. Nobody knows the weights in real life; here they are drawn.

import matplotlib.pyplot as plt
import numpy as np

from clusterica.display import MixingDisplay, SourcesDisplay
from clusterica.ica import ClusterICA

rate, rng = 250, np.random.default_rng(0)
t = np.arange(30 * rate) / rate


def pulses(times, width):
    return sum(np.exp(-((t - at) ** 2) / (2 * width**2)) for at in times)


rhythm = np.sin(2 * np.pi * 10 * t) * np.clip(np.sin(2 * np.pi * 0.2 * t), 0, None)
blinks = pulses(rng.uniform(0, 30, 9), 0.12)
heart = pulses(np.arange(0.4, 30, 0.83), 0.02) - 0.4 * pulses(np.arange(0.46, 30, 0.83), 0.03)
spikes = rng.laplace(size=(3, len(t)))
sources = np.vstack([rhythm, blinks, heart, spikes])
sources = sources / sources.std(axis=1, keepdims=True)
weights = rng.uniform(0.2, 1.0, (6, 6)) * rng.choice([-1, 1], (6, 6))
recording = 1e-5 * (weights @ sources)  # (channels, samples), in volts
channels = ["Fp1", "Fp2", "C3", "C4", "O1", "O2"]

fig, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
SourcesDisplay.from_sources(
    recording.T, names=channels, sampling_rate=rate, stop=10, title="recording", ax=ax
)
plt.show()

# %%
# Estimators take samples as rows. :class:`~clusterica.ica.ClusterICA` orders the sources by kurtosis:
# those that are mostly silent come first.

X = recording.T
ica = ClusterICA(random_state=0).fit(X)
fig, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
SourcesDisplay.from_estimator(ica, X, sampling_rate=rate, stop=10, title="sources", ax=ax)
plt.show()

# %%
# How much of each source every channel receives. With the positions of electrodes,
# :func:`~clusterica.ica.to_mne` draws these as maps of the head.

MixingDisplay.from_estimator(ica, feature_names=channels)
plt.show()

# %%
# The sources of blinks and heartbeats are those most like two reference channels. Sources without them,
# mixed again, are the clean recording.

S = ica.transform(X)
likeness = np.abs(np.corrcoef(S.T, [blinks, heart])[:-2, -2:])
artefacts = likeness.argmax(axis=0)
print("likeness of blinks and heart:", likeness.max(axis=0).round(3))
S[:, artefacts] = 0
clean = ica.inverse_transform(S)

truth = 1e-5 * (weights[:, [0, 3, 4, 5]] @ sources[[0, 3, 4, 5]]).T
before, after = (1e6 * np.std(signals - truth, axis=0).mean() for signals in (X, clean))
print(f"error before {before:.1f} µV, after {after:.2f} µV")

fig, ax = plt.subplots(figsize=(9, 2.6), layout="constrained")
shown = t < 10
ax.plot(t[shown], 1e6 * X[shown, 0], color="0.7", label="recording")
ax.plot(
    t[shown], 1e6 * clean[shown, 0], color="#2f5d8c", linewidth=1, label="without blinks and heart"
)
ax.set(xlabel="time (s)", ylabel="Fp1 (µV)")
ax.legend(frameon=False, ncols=2, loc="upper right")
plt.show()
