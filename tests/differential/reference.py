"""Slow references in float64: loops over rows that follow the definitions. No code of clusterica."""

import numpy as np


def contrast(X, eps):
    """``(x - mean) / sqrt(var + eps)`` of every row, and the root; rows without variance become zero."""
    Y, roots = np.zeros_like(X), np.zeros(len(X))
    for i, x in enumerate(X):
        centred = x - x.mean()
        roots[i] = np.sqrt((centred**2).mean() + eps)
        if roots[i] > 0:
            Y[i] = centred / roots[i]
    return Y, roots


def gaussian_mean(codes, rows, columns):
    """The mean of codes by row and column, by their distance from the middle of a cell in half its sides."""
    down = (np.arange(codes.shape[0]) - rows.mean()) / (len(rows) / 2)
    across = (np.arange(codes.shape[1]) - columns.mean()) / (len(columns) / 2)
    weights = np.exp(-(down[:, None] ** 2 + across**2) / 2)
    return np.average(codes, axis=(0, 1), weights=weights)


def covariance(X):
    mean = np.zeros(X.shape[1])
    for x in X:
        mean += x / len(X)
    total = np.zeros((X.shape[1], X.shape[1]))
    for x in X:
        total += np.outer(x - mean, x - mean)
    return mean, total / (len(X) - 1)


def rbf(X, W, gamma):
    K = np.empty((len(X), len(W)))
    for i, x in enumerate(X):
        for j, w in enumerate(W):
            K[i, j] = np.exp(-gamma * ((x - w) ** 2).sum())
    return K


def units(X):
    lengths = np.sqrt((X**2).sum(axis=1))
    return X / np.where(lengths > 0, lengths, 1)[:, None]


# --- K-means and its kin -----------------------------------------------------------------------------


def squared_distances(X, C):
    D = np.empty((len(X), len(C)))
    for i, x in enumerate(X):
        for j, c in enumerate(C):
            D[i, j] = ((x - c) ** 2).sum()
    return D


def losses(kind, X, C):
    """What every centre leaves of every row; the best centre has the least."""
    if kind == "euclidean":
        return squared_distances(X, C)
    inner = X @ C.T
    if kind == "direction":
        return np.where((X != 0).any(axis=1)[:, None], 1 - units(X) @ C.T, 0.0)
    if kind == "gain-shape":
        return (X**2).sum(axis=1)[:, None] - inner**2
    return -inner  # axis: C has both signs


def lloyd_step(kind, X, C, w, damping=1.0):
    """One iteration with all rows; a centre without rows stays."""
    labels = losses(kind, X, C).argmin(axis=1)
    if kind == "axis":  # the second half are negatives: a row counts with its sign
        half = len(C) // 2
        sums = np.zeros((half, X.shape[1]))
        for x, j, wi in zip(X, labels, w, strict=True):
            sums[j % half] += wi * x * np.sign(x @ C[j % half])
        new = np.where((sums != 0).any(axis=1)[:, None], units(sums), C[:half])
        return labels, np.concatenate([new, -new])
    new, counts = np.zeros_like(C), np.zeros(len(C))
    for x, j, wi in zip(X, labels, w, strict=True):
        share = {"euclidean": 1.0, "direction": 1.0, "gain-shape": x @ C[j]}[kind]
        new[j] += wi * share * (units(x[None])[0] if kind == "direction" else x)
        counts[j] += wi
    if kind == "euclidean":
        return labels, np.where(counts[:, None] > 0, new / np.where(counts, counts, 1)[:, None], C)
    if kind == "gain-shape":
        new = new + damping * C
    return labels, np.where((new != 0).any(axis=1)[:, None], units(new), C)


# --- Codes -------------------------------------------------------------------------------------------


def triangle(X, D):
    Z = np.sqrt(squared_distances(X, D))
    return np.maximum(0, Z.mean(axis=1, keepdims=True) - Z)


def omp(x, D, n_nonzero, least):
    """Matching pursuit of one row, the codes, and by how much the chosen atoms won at each step."""
    unit = units(D)
    chosen, code, margins = [], np.zeros(len(D)), []
    rest = x.copy()
    for _ in range(n_nonzero):
        responses = np.abs(unit @ rest)
        order = np.argsort(responses)[::-1]
        if responses[order[0]] <= least:
            break
        margins.append(responses[order[0]] - (responses[order[1]] if len(D) > 1 else 0.0))
        chosen.append(order[0])
        s = np.linalg.lstsq(unit[chosen].T, x, rcond=None)[0]
        rest = x - s @ unit[chosen]
    if chosen:
        lengths = np.sqrt((D[chosen] ** 2).sum(axis=1))
        code[chosen] = s / lengths
    return code, np.array(margins), chosen


def llc(x, D, k, ridge):
    """Codes by the k nearest atoms, and by how much the last of them is nearer than the next."""
    far = ((D - x) ** 2).sum(axis=1)
    order = np.argsort(far)
    near = order[:k]
    Z = D[near] - x
    C = Z @ Z.T
    trace = np.trace(C)
    C = C + (ridge * trace if trace > 0 else 1.0) * np.eye(k)
    w = np.linalg.solve(C, np.ones(k))
    code = np.zeros(len(D))
    code[near] = w / w.sum()
    return code, (far[order[k]] - far[order[k - 1]]) if k < len(D) else np.inf


def lasso(b, energy, G, alpha, n_sweeps=4000):
    """Coordinate descent on ``0.5 sᵀ G s - bᵀ s + 0.5 energy + alpha |s|_1``; the least value."""
    s = np.zeros(len(b))
    for _ in range(n_sweeps):
        before = s.copy()
        for j in range(len(b)):
            if G[j, j] > 0:
                v = b[j] - G[j] @ s + G[j, j] * s[j]
                s[j] = np.sign(v) * max(0.0, abs(v) - alpha) / G[j, j]
        if np.abs(s - before).max() <= 1e-14 * max(1.0, np.abs(s).max()):
            break
    return lasso_value(s, b, energy, G, alpha)


def lasso_value(s, b, energy, G, alpha):
    return 0.5 * s @ G @ s - b @ s + 0.5 * energy + alpha * np.abs(s).sum()


# --- Penalties and objectives ------------------------------------------------------------------------


def logcosh(S):
    return np.logaddexp(S, -S) - np.log(2)


PENALTIES = {
    "logcosh": logcosh,
    "l1": lambda S: np.sqrt(S**2 + 0.01**2),
    "sqrt": lambda S: np.sqrt(S**2 + 1e-4**2),
    "exp": lambda S: -np.exp(-(S**2) / 2),
}


def penalty(S, name, groups=None):
    """Sum over codes of G, or of the roots of the mean energy of their group; shape (n_rows,)."""
    if groups is None:
        return PENALTIES[name](S).sum(axis=1)
    total = np.zeros(len(S))
    for j in range(S.shape[1]):
        pool = [p for p in range(S.shape[1]) if groups[p] == groups[j]]
        total += np.sqrt(1e-6 + (S[:, pool] ** 2).mean(axis=1))
    return total


def discrimination(S, y, n_classes, eta):
    """``(sum of others)² - (sum of own)² + eta |s|²`` of every row; codes are ordered by class."""
    k = S.shape[1] // n_classes
    d = np.zeros(len(S))
    for i, (s, c) in enumerate(zip(S, y, strict=True)):
        own = s[c * k : (c + 1) * k].sum()
        d[i] = (s.sum() - own) ** 2 - own**2 + eta * (s @ s)
    return d


def rica_terms(X, W, tightness):
    """Reconstruction error and codes of rows about their mean."""
    centred = X - X.mean(axis=0)
    S = centred @ W.T
    errors = [((W.T @ s / tightness - x) ** 2).sum() for x, s in zip(centred, S, strict=True)]
    return np.array(errors), S


def kernel_rica_terms(X, W, gamma):
    """The best scale, the error of the reconstruction of every row, and the codes."""
    S, G = rbf(X, W, gamma), rbf(W, W, gamma)
    bent = np.array([s @ G @ s for s in S])
    scale = (S**2).sum() / bent.sum()
    return scale, scale**2 * bent - 2 * scale * (S**2).sum(axis=1) + 1, S


def autoencoder(X, model, target, sparsity, decay):
    """Objective of a tied auto-encoder, and the activations."""
    W, b, a = model
    H = 1 / (1 + np.exp(-(X @ W.T + b)))
    error = 0.5 * ((H @ W + a - X) ** 2).sum(axis=1).mean()
    mean = H.mean(axis=0)
    divergence = target * np.log(target / mean) + (1 - target) * np.log((1 - target) / (1 - mean))
    return error + decay / 2 * (W**2).sum() + sparsity * divergence.sum(), error, H


def svm_value(Z, t, s, w, b, C):
    """``|w|² / 2 + C sum s max(0, 1 - t (w z + b))²``."""
    total = 0.5 * w @ w
    for z, ti, si in zip(Z, t, s, strict=True):
        total += C * si * max(0.0, 1 - ti * (w @ z + b)) ** 2
    return total
