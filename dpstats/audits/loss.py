"""Lower bounds of a privacy loss from how often an event was seen on each of two neighbouring tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaincinv, chdtri, ndtri
from scipy.stats import nct

from dpstats.privacy.notions import Budget, gaussian_mu

LARGEST_ORDER = 1e6
LARGEST_T = 40.0


@dataclass(frozen=True, slots=True)
class Counted:
    """How often an event was seen on two tables (zone: of the auditor; not private).

    Attributes
    ----------
    hits, other_hits : int
        On the table on which the event is likelier, and on the other one.
    runs : int
        Calls counted on each table.
    """

    hits: int
    other_hits: int
    runs: int

    def probabilities(self, alpha: float) -> tuple[float, float]:
        """Return a lower bound of the first probability and an upper bound of the second; both hold with 1 - alpha."""
        return lower_probability(self.hits, self.runs, alpha / 2), upper_probability(
            self.other_hits, self.runs, alpha / 2
        )


def lower_probability(hits: int, runs: int, alpha: float) -> float:
    """Return the one-sided bound of Clopper and Pearson (1934), wrong with probability alpha at most."""
    return float(betaincinv(hits, runs - hits + 1, alpha)) if hits else 0.0


def upper_probability(hits: int, runs: int, alpha: float) -> float:
    """Return the one-sided bound from above."""
    return 1.0 - lower_probability(runs - hits, runs, alpha)


def epsilon_of(p: float, q: float, delta: float = 0.0) -> float:
    """Return the smallest epsilon with p <= exp(epsilon) q + delta, at least 0.

    Parameters
    ----------
    p, q : float
        Probabilities of an event on two neighbouring tables.
    delta : float
        Of (epsilon, delta)-DP.
    """
    return float(epsilons_of(np.array([p]), np.array([q]), delta)[0])


def epsilons_of(p: NDArray[np.float64], q: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """Return the same for many events."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(p - delta, q)) - np.log(q)


def mus_of(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the smallest mu of Gaussian DP that allows events to have probabilities p and q."""
    return np.asarray(np.maximum(ndtri(p) - ndtri(q), 0.0), dtype=np.float64)


def rho_of(p: float, q: float) -> float:
    """Return the smallest rho of zCDP that allows an event to have probabilities p and q.

    Notes
    -----
    The largest D_a(p || q) / a over orders a > 1, D_a the Renyi divergence of two coins: data processing says that the
    release's is no smaller. It grows with p and falls with q where p > q, so bounds of both may be put in.
    """
    if p <= q:
        return 0.0
    if q <= 0 or p >= 1:
        return math.inf
    terms = np.log([[p, q], [1 - p, 1 - q]])

    def negative(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        divergence = np.logaddexp.reduce(terms @ [order, 1 - order]) / (order - 1)
        return float(-divergence / order)

    found = minimize_scalar(negative, bounds=(-12.0, math.log(LARGEST_ORDER)), method="bounded")
    return max(0.0, -float(found.fun))


def distance_bound(first: NDArray[np.float64], second: NDArray[np.float64], alpha: float) -> float:
    """Return a lower bound of the distance of two normal means in their common standard deviation.

    Parameters
    ----------
    first, second : ndarray
        Independent normal draws with one variance; shapes (m,) and (n,).
    alpha : float
        The bound is above the truth with this probability at most.

    Notes
    -----
    The two-sample t statistic has a noncentral t law; its noncentrality is mu sqrt(m n / (m + n)). Far out, where that
    law is hard to compute, separate bounds of mean and variance share alpha.
    """
    m, n = len(first), len(second)
    df, root = m + n - 2, math.sqrt(m * n / (m + n))
    pooled = ((m - 1) * first.var(ddof=1) + (n - 1) * second.var(ddof=1)) / df
    gap = float(first.mean() - second.mean())
    if pooled <= 0:
        return math.inf if gap > 0 else 0.0
    t = gap / math.sqrt(pooled) * root
    if t > LARGEST_T:
        return float((t * math.sqrt(chdtri(df, 1 - alpha / 2) / df) + ndtri(alpha / 2)) / root)
    if t <= 0 or float(nct.sf(t, df, 0.0)) >= alpha:
        return 0.0
    return float(brentq(lambda noncentrality: float(nct.sf(t, df, noncentrality)) - alpha, 0.0, t)) / root


def claimed_mu(claimed: Budget) -> float | None:
    """Return the largest mu that Gaussian noise may have under a claim, None for a pure claim."""
    if claimed.rho is not None:
        return math.sqrt(2 * claimed.rho)
    if claimed.delta is None:
        return None
    return gaussian_mu(claimed.epsilon or 0.0, claimed.delta)
