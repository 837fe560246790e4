"""Draws from a known noise law, for tests whose null distribution has no closed form.

The law is public and nothing drawn here is added to a statistic, so a fixed seed is fine: it makes a p-value
reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from dpstats.inference.moments import NoisyMoments
from dpstats.specification.predictors import Ball

DRAWS = 10_000
LAW_DRAWS, FEWEST_DRAWS, LAW_ENTRIES = 100_000, 10_000, 20_000_000
SEED = 20_190_211
BIN = 0.01
"""Width, in standard deviations, of the bins in which a simulated law is kept."""


@lru_cache(maxsize=4)
def draws_in_ball(ball: Ball) -> NDArray[np.float64]:
    """Return draws with density proportional to exp(-N(b)), shape (n, D), the same ones every time.

    There are 100,000 of them, fewer where there are very many columns.

    Parameters
    ----------
    ball : Ball
        The norm N.
    """
    rng = np.random.default_rng(SEED)
    d = ball.n_columns
    n = min(LAW_DRAWS, max(FEWEST_DRAWS, LAW_ENTRIES // d))
    if ball.is_euclidean:
        points = rng.normal(size=(n, d))
        points *= ball.radii[0] / np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(points * rng.gamma(d, size=(n, 1)))
    points = np.empty((n, d))
    for where, size, radius in ball.spans():
        if size == 1:
            points[:, where] = radius * rng.uniform(-1, 1, (n, 1))
            continue
        waits = rng.exponential(size=(n, size + 1))
        signs = radius * rng.choice([-1.0, 1.0], (n, size))
        points[:, where] = signs * waits[:, :-1] / waits.sum(axis=1, keepdims=True)
    return np.asarray(points * rng.gamma(d + 1, size=(n, 1)))


LARGEST = 24
"""Laplace noises that are drawn one by one."""


def sum_of_laplace(scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw a sum of independent Laplace noises, shape (LAW_DRAWS,); beyond the largest ones their sum is normal.

    Parameters
    ----------
    scales : ndarray
        Standard deviations, shape (K,).
    """
    order = np.argsort(-scales)
    large, small = scales[order[:LARGEST]], scales[order[LARGEST:]]
    laplace, normal = _standard_draws()
    return np.asarray(laplace[:, : len(large)] @ large + np.linalg.norm(small) * normal)


@lru_cache(maxsize=1)
def _standard_draws() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(SEED + 1)
    return rng.laplace(size=(LAW_DRAWS, LARGEST)) / np.sqrt(2), rng.normal(size=LAW_DRAWS)


@dataclass(frozen=True, slots=True)
class SimulatedLaw:
    """Law of a sum of simulated draws, made symmetric, and a normal; mean 0, variance 1 (zone: public, given a fit).

    Attributes
    ----------
    points : ndarray
        |draw|, in bins, shape (m,).
    weights : ndarray
        Share of the draws in each bin, shape (m,).
    sd : float
        Standard deviation of the normal part; at least that of a bin.
    n_draws : int
        How many draws there were.
    """

    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    sd: float
    n_draws: int

    def tail(self, u: float) -> float:
        """Return P(|W| > u), at least 1 / (2 draws + 1), below which draws say nothing."""
        return max(self._tail(abs(u)), 1 / (2 * self.n_draws + 1))

    def _tail(self, u: float) -> float:
        beyond = ndtr((self.points - u) / self.sd) + ndtr(-(self.points + u) / self.sd)
        return float(self.weights @ beyond)

    def critical_value(self, alpha: float) -> float:
        """Return u with P(|W| > u) = alpha."""
        far = float(self.points[-1]) + 40 * self.sd
        return float(brentq(lambda u: self._tail(u) - alpha, 0.0, far, xtol=1e-10))


def simulated_law(draws: NDArray[np.float64], normal_share: float) -> SimulatedLaw:
    """Return the law of draws + N(0, normal_share), symmetric about 0.

    Parameters
    ----------
    draws : ndarray
        Shape (n,), in standard deviations of the sum.
    normal_share : float
        Variance of the normal part.
    """
    bins = np.bincount((np.abs(draws) / BIN).astype(np.intp))
    points = np.asarray((np.arange(len(bins)) + 0.5) * BIN, dtype=np.float64)
    return SimulatedLaw(points, bins / len(draws), max(float(np.sqrt(normal_share)), BIN / np.sqrt(12)), len(draws))


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
    noise = moments.draw_noise(rng, DRAWS, used)
    values, vectors = np.linalg.eigh(sampling)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(noise @ forms[:, used].T + rng.normal(size=(DRAWS, len(sampling))) @ root.T)


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
