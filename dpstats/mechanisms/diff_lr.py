"""Diff-LR: separate noise for the quadratic and the linear part of least squares (Zheng and Zou 2016).

The objective is that of the functional mechanism; only the ratio of the two scales differs. With the tight sensitivity
a split fixes the ratio and the joint bound the size, which composition of the parts would waste a part of.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from dpstats.mechanisms.options import DiffLR
from dpstats.specification.objectives import (
    Scales,
    cost_without_squares,
    quadratic_constant,
    scales_at_ratio,
    squares_scale,
)

DEFAULT_SHARE, DEFAULT_SIGNAL = 0.75, 0.7
LEAST_RATIO = 0.2
"""Smallest epsilon_1 / epsilon_2 of the published composition, so that y'y keeps its place in the budget."""


def split_scales(options: DiffLR, d: int, size: float, usable: float) -> Scales:
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

    Notes
    -----
    To first order the mean excess risk is tr(M^-1) times a t1^2 |w|^2 + 2 t2^2, the variance per direction of the noise
    in the normal equations at w: a = 2 for the copied triangle, 1 for averaged pairs. A ridge of m sqrt(2) t1 adds its
    squared bias, which for M near a multiple of the identity is 2 m^2 / d more of the first term. Under composition,
    t1 = Delta_1 / epsilon_1 and 2 t2 = Delta_2 / epsilon_2, this is smallest at epsilon_1 / epsilon_2 =
    (sqrt(2 a) Delta_1 |w| / Delta_2)^(2/3).
    """
    k = quadratic_constant(d, options.entries)
    a = 2.0 if options.entries == "triangle" else 1.0
    a += 2 * options.multiple**2 / d if "regularize" in options.bounded else 0.0
    if options.sensitivity == "tight":
        first, second = k * size**2 / 4, 4 * size
    else:
        first, second = 2.0 * d**2, 4.0 * d
    signal = DEFAULT_SIGNAL if options.signal is None else options.signal
    if options.split == "paper":
        share = DEFAULT_SHARE if options.share is None else options.share
        split = share / (1 - share)
    elif options.split == "proportional":
        split = first / second
    elif options.sensitivity == "paper":
        split = (math.sqrt(2 * a) * first * signal / second) ** (2 / 3)
    else:
        return scales_at_ratio(size, _best_ratio(size, k, a, signal), k, usable)
    split = max(split, LEAST_RATIO)
    t1, t2 = first * (1 + split) / split, second * (1 + split) / 2
    if options.sensitivity == "tight":
        return scales_at_ratio(size, t1 / t2, k, usable)
    return Scales(t1, t2, squares_scale(size, t1, t2, k, usable))


def _best_ratio(size: float, k: float, a: float, signal: float) -> float:
    """Return the t1 / t2 of the smallest excess risk under the joint bound, u^2 included at no cost."""

    def risk(log_ratio: float) -> float:
        ratio = math.exp(log_ratio)
        return math.log(a * (ratio * signal) ** 2 + 2) + 2 * math.log(cost_without_squares(size, ratio, 1.0, k))

    return math.exp(float(minimize_scalar(risk, bounds=(-7.0, math.log(k * size / 2)), method="bounded").x))
