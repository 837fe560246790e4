"""How much signal the noise leaves: kappa for the whole fit, in a word (methods, 1.12)."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import null_space

from dpstats.inference.estimates import ModelSpace, noise_level
from dpstats.inference.moments import NoisyMoments

GOOD, USABLE = 0.2, 0.5
WEAK_JOINT_TEST = 0.6
GOOD_SIGNAL, USABLE_SIGNAL = 20.0, 8.0
"""Forecast signal-to-noise ratios that go with kappa = .2 and .5 on five uniform columns."""


def kappa(moments: NoisyMoments, space: ModelSpace) -> float:
    """Return the noise-to-signal number of the Gram matrix; inf where the noise exceeds the signal.

    Notes
    -----
    2 sqrt(p) t / lambda_min (`noise_level`) with p non-constant directions, and lambda_min the smallest eigenvalue of
    the Gram matrix after partialling out the constant.
    """
    if not moments.variances.any():
        return 0.0
    gram = space.q.T @ moments.matrix[:-1, :-1] @ space.q
    directions = _varying(space)
    p = directions.shape[1]
    if p == 0:
        rows, sd = sum_of_weights(moments, space)
        return sd / max(rows, 1.0)
    if space.ones is not None:
        total = space.ones @ gram @ space.ones
        if total <= 0:
            return math.inf
        gram = gram - np.outer(gram @ space.ones, gram @ space.ones) / total
    smallest = float(np.linalg.eigvalsh(directions.T @ gram @ directions)[0])
    return noise_level(moments, p) / smallest if smallest > 0 else math.inf


def sum_of_weights(moments: NoisyMoments, space: ModelSpace) -> tuple[float, float]:
    """Return the Gram matrix in the constant: the sum of all rows' weights, with noise, and the noise's deviation."""
    form = moments.forms(space.constant[None], space.constant)[0]
    return float(form @ moments.values), math.sqrt(moments.variance_of(form))


def _varying(space: ModelSpace) -> np.ndarray:
    """Orthonormal basis, in the model's basis, of what is orthogonal to the constant; shape (q, p)."""
    return np.eye(space.n_params) if space.ones is None else null_space(space.ones[None])


def word(number: float) -> str:
    """Return good, usable or weak for a kappa."""
    return "good" if number <= GOOD else "usable" if number <= USABLE else "weak"


def word_for_signal(signal: float) -> str:
    """Return good, usable or weak for a forecast signal-to-noise ratio; a weak one may have an unbounded interval."""
    return "good" if signal >= GOOD_SIGNAL else "usable" if signal >= USABLE_SIGNAL else "weak"
