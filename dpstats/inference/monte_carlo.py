"""Draws from a known noise law, for tests whose null distribution has no closed form.

The law is public and nothing drawn here is added to a statistic, so a fixed seed is fine: it makes a p-value
reproducible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.moments import NoisyMoments

DRAWS = 10_000
SEED = 20_190_211


def simulate_forms(
    moments: NoisyMoments, forms: NDArray[np.float64], sampling: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw linear forms of the noise, plus a normal with the sampling covariance.

    Parameters
    ----------
    moments : NoisyMoments
        Whose noise law is meant.
    forms : ndarray
        Coefficients on the atoms' own noises, shape (m, K).
    sampling : ndarray
        Covariance of the normal part, shape (m, m).

    Returns
    -------
    ndarray
        Shape (DRAWS, m).
    """
    rng = np.random.default_rng(SEED)
    used = np.flatnonzero(np.abs(forms).max(axis=0) > 0)
    scale = np.sqrt(moments.variances[used])
    shape = (DRAWS, len(used))
    noise = rng.laplace(size=shape) / np.sqrt(2) if moments.law == "laplace" else rng.normal(size=shape)
    values, vectors = np.linalg.eigh(sampling)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray((noise * scale) @ forms[:, used].T + rng.normal(size=(DRAWS, len(sampling))) @ root.T)


def share_bounded(moments: NoisyMoments) -> float:
    """Return the share of noise draws under which X'X with noise is positive definite, from 400 draws.

    Parameters
    ----------
    moments : NoisyMoments
        Moments without noise, with the variances of the noise.
    """
    rng = np.random.default_rng(SEED)
    scale = np.sqrt(moments.variances)
    noise = rng.laplace(size=(400, len(scale))) / np.sqrt(2) * scale
    values = (moments.values + noise)[:, moments.index[:-1, :-1]]
    return float((np.linalg.eigvalsh(values)[:, 0] > 0).mean())
