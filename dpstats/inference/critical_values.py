"""The exact law of a standardised sum of Laplace noises and a normal: tail probabilities and critical values.

W = (sum_k h_k eta_k + N(0, samp)) / sqrt(q0) with independent Laplace eta_k of variance v_k has the characteristic
function phi(s) = exp(-s^2 samp / (2 q0)) / prod_k (1 + s^2 v_k h_k^2 / (2 q0)), and

    P(|W| > u) = 1 - (2 / pi) int_0^inf phi(s) sin(s u) / s ds,

evaluated by the midpoint rule, whose error is of the order of P(|W| > 40). No simulation, and no Cornish-Fisher
expansion, which fails in the tails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

FAR = 20.0
"""Beyond it probabilities are below 1e-12 and a Chernoff bound is used."""
STEP = 2 * math.pi / (FAR + 40.0)
CHUNK = 128
LAST_NODE = 400.0
NEGLIGIBLE = 1e-14


class Law(Protocol):
    """Law of a statistic with mean 0 and variance 1, symmetric about 0."""

    def tail(self, u: float) -> float:
        """Return P(|W| > u)."""

    def critical_value(self, alpha: float) -> float:
        """Return u with P(|W| > u) = alpha."""


@dataclass(frozen=True)
class StandardLaw:
    """Law of W, mean 0 and variance 1 (zone: public, given a released fit).

    Attributes
    ----------
    shares : ndarray
        Share of each Laplace noise in the variance, shape (K,); empty for normal noise.
    normal_share : float
        Share of the normal part; shares and normal_share add up to 1.
    """

    shares: NDArray[np.float64]
    normal_share: float

    @cached_property
    def _quadrature(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return _midpoints(self.shares, self.normal_share)

    def tail(self, u: float) -> float:
        """Return P(|W| > u)."""
        if not len(self.shares):
            return float(2 * ndtr(-abs(u)))
        if u <= 0:
            return 1.0
        if u >= FAR:
            return self._bound(u)
        nodes, heights = self._quadrature
        return min(max(1 - 2 / math.pi * float(heights @ np.sin(u * nodes)), 0.0), 1.0)

    def critical_value(self, alpha: float) -> float:
        """Return u with P(|W| > u) = alpha; a little more where alpha is below what the quadrature resolves."""
        if not len(self.shares):
            return float(-ndtri(alpha / 2))
        if self.tail(FAR - STEP) >= alpha or alpha < 1e-7:
            return self._bound_inverse(alpha)
        return float(brentq(lambda u: self.tail(u) - alpha, 0.0, FAR - STEP, xtol=1e-10))

    def _chernoff(self) -> tuple[float, float]:
        """Return a rate r and log E exp(r W)."""
        rate = min(0.9 * math.sqrt(2 / float(self.shares.max())), 3.0)
        return rate, rate**2 / 2 * self.normal_share - float(np.log1p(-(rate**2) / 2 * self.shares).sum())

    def _bound(self, u: float) -> float:
        rate, log_moment = self._chernoff()
        return min(1.0, 2 * math.exp(log_moment - rate * u))

    def _bound_inverse(self, alpha: float) -> float:
        rate, log_moment = self._chernoff()
        return (math.log(2 / alpha) + log_moment) / rate


NORMAL = StandardLaw(np.empty(0), 1.0)


def standard_law(forms: NDArray[np.float64], variances: NDArray[np.float64], sampling: float, law: str) -> StandardLaw:
    """Return the law of (h'eta + N(0, sampling)) / sd.

    Parameters
    ----------
    forms : ndarray
        h, shape (K,).
    variances : ndarray
        Noise variances, shape (K,).
    sampling : float
        Variance of the normal part.
    law : {"laplace", "gaussian"}
        Law of the noise.
    """
    parts = variances * forms**2
    total = sampling + float(parts.sum())
    if law != "laplace" or not parts.any() or not total > 0:
        return NORMAL
    shares = parts[parts > 1e-12 * total] / total
    return StandardLaw(shares, 1 - float(shares.sum()))


def _midpoints(shares: NDArray[np.float64], normal_share: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return midpoints s and STEP phi(s) / s, up to where phi vanishes."""
    nodes, heights = [], []
    first = STEP / 2
    while first < LAST_NODE:
        s = first + STEP * np.arange(CHUNK)
        squares = s**2 / 2
        phi = np.exp(-squares * normal_share - np.log1p(np.outer(squares, shares)).sum(axis=1))
        nodes.append(s)
        heights.append(STEP * phi / s)
        if phi[-1] < NEGLIGIBLE:
            break
        first += STEP * CHUNK
    return np.concatenate(nodes), np.concatenate(heights)
