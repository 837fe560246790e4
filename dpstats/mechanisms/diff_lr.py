"""Diff-LR: separate noise for the quadratic and the linear part of least squares (Zheng and Zou 2016).

The objective is that of the functional mechanism; only the ratio of the two scales differs. With the tight sensitivity
a split fixes the ratio and the joint bound the size, which composition of the parts would waste a part of.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

from dpstats.mechanisms.options import DiffLR
from dpstats.specification.objectives import (
    Scales,
    cost_without_squares,
    quadratic_constant,
    scales_at_ratio,
    squares_scale,
)

DEFAULT_SHARE, DEFAULT_SIGNAL = 0.75, 0.75
CURVATURE = 0.05
"""Public guess of the eigenvalues of X'X / n, features in [-1, 1]; as the default signal, chosen on the persons of
``benchmarks/functional_mechanism.py``."""
LEAST_RATIO = 0.2
"""Smallest epsilon_1 / epsilon_2 of the published composition, so that y'y keeps its place in the budget."""


def split_scales(options: DiffLR, d: int, size: float, usable: float, information: float) -> Scales:
    """Return the scales of the sums of x_j x_k, y x_j and y^2 for one draw at epsilon = 1.

    Parameters
    ----------
    options : DiffLR
        Split and sensitivity.
    d : int
        Number of features.
    size : float
        P = d B.
    usable : float
        What is not reserved for the number of complete rows: of all sums under the tight sensitivity, of y^2 under the
        published one, whose scales leave room.
    information : float
        n times the epsilon of a draw.

    Notes
    -----
    With a ridge r = m sqrt(2) t1 beside a matrix M near c times the identity, coefficients w are off by (noise - r w) /
    (c + r). The optimal split makes the expected square smallest: a t1^2 |w|^2 + 2 t2^2, over (c + r)^2. Here a is 2
    for the copied triangle or 1 for averaged pairs, plus 2 m^2 / d for the ridge's bias, and c is `CURVATURE` n B^2.
    Under composition t1 = Delta_1 / epsilon_1 and 2 t2 = Delta_2 / epsilon_2, else the joint bound ties t2 to t1.
    """
    k = quadratic_constant(d, options.entries)
    if options.sensitivity == "tight":
        first, second = k * size**2 / 4, 4 * size
    else:
        first, second = 2.0 * d**2, 4.0 * d

    def composed(split: float) -> tuple[float, float]:
        return first * (1 + split) / split, second * (1 + split) / 2

    def joint(ratio: float) -> tuple[float, float]:
        t2 = cost_without_squares(size, ratio, 1.0, k)
        return ratio * t2, t2

    if options.split == "paper":
        share = DEFAULT_SHARE if options.share is None else options.share
        split = max(share / (1 - share), LEAST_RATIO)
    elif options.split == "proportional":
        split = max(first / second, LEAST_RATIO)
    else:
        risk = _log_risk(options, d, CURVATURE * information * (size / d) ** 2)
        if options.sensitivity == "tight":
            return scales_at_ratio(size, _smallest(risk, joint, math.exp(-7.0), k * size / 2), k, usable)
        split = _smallest(risk, composed, LEAST_RATIO, math.exp(7.0))
    t1, t2 = composed(split)
    if options.sensitivity == "tight":
        return scales_at_ratio(size, t1 / t2, k, usable)
    return Scales(t1, t2, squares_scale(size, t1, t2, k, usable))


def _log_risk(options: DiffLR, d: int, curvature: float) -> Callable[[float, float], float]:
    """Return the logarithm of the expected squared error as a function of t1 and t2."""
    signal = DEFAULT_SIGNAL if options.signal is None else options.signal
    multiple = options.multiple if "regularize" in options.bounded else 0.0
    a = (2.0 if options.entries == "triangle" else 1.0) + 2 * multiple**2 / d

    def log_risk(t1: float, t2: float) -> float:
        variance = a * (t1 * signal) ** 2 + 2 * t2**2
        return math.log(variance) - 2 * math.log1p(multiple * math.sqrt(2) * t1 / curvature)

    return log_risk


def _smallest(
    log_risk: Callable[[float, float], float], scales: Callable[[float], tuple[float, float]], low: float, high: float
) -> float:
    """Return the split, or ratio, between two limits whose scales have the smallest risk."""
    found = minimize_scalar(
        lambda x: log_risk(*scales(math.exp(x))), bounds=(math.log(low), math.log(high)), method="bounded"
    )
    return math.exp(float(found.x))
