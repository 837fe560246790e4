"""What it costs to publish the minimiser of an objective with a random linear term: objective perturbation.

    J(theta) = sum_i loss(u_i, z_i'theta) + (lam / 2) ||theta||^2 + b'theta ,

a sum, not a mean, where b has a density proportional to exp(-gamma N(b)). N is a norm with N(z) <= 1 for every row, and
R2 >= ||z||^2; an incomplete row is z = 0. Neighbouring tables replace one row. |loss'| <= 1 and 0 <= loss'' <= t.

Theorem (logistic). The exact minimiser is epsilon-private for

    epsilon = gamma + max over 0 <= s <= 1 of [ gamma s + log(1 + kappa s (1 - s)) ],     kappa = R2 / lam .

Theorem (any such loss). It is epsilon-private for epsilon = 2 gamma + log(1 + t R2 / lam).

Proof. For fixed data, theta -> b = sum z r - lam theta, with r minus the loss's derivative, is minus the gradient of a
strongly convex function: a bijection of R^D, continuously differentiable for a C^2 loss, bi-Lipschitz and
differentiable almost everywhere for the losses of Huber, where the change of variables holds as well (area formula). So
the minimiser has the density f(b(theta)) det(sum w z z' + lam I), w the curvature. Replace (z, r, w) by (z*, r*, w*).
(1) b changes by z r - z* r*, so log f changes by at most gamma (|r| + |r*|). (2) With H the common part + lam I, the
log ratio of determinants is log(1 + w z'H^-1 z) - log(1 + w* z*'H^-1 z*) <= log(1 + w R2 / lam): one factor of rank
one; the other one only helps. With |r|, |r*| <= 1 and w <= t the second theorem follows. For the logistic loss of an
outcome y in [0, 1], r = y - p and w = p (1 - p); at given p, |r| is largest at y = 0 or 1, where w = |r| (1 - |r|), so
that gamma |r| + log(1 + w kappa) is at most the maximum above, and gamma |r*| <= gamma.

The maximum is attained at s = 1, and the logarithm costs nothing, if gamma >= kappa. Both theorems bound the cost from
above; a search over pairs of tables comes within a hair of them (tests/test_perturbation.py).

Published rules. Chaudhuri, Monteleoni and Sarwate (2011) pay the logarithm twice; Wang, Kifer and Lee (2019) once, with
||z|| <= 1 and the spherical density (N the Euclidean norm): the second theorem. In their notation lam = 2 n c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from dpstats.specification.losses import Loss

MULTIPLE = 2.0
"""kappa / gamma of the default calibration for the logistic loss."""
JACOBIAN_SHARE, JACOBIAN_LIMIT = 0.15, 10.0
"""Share of epsilon that goes to the determinant for other losses, and what is enough in any case."""
SMALLEST_RIDGE = 1e-6
"""In units of R2: a smaller ridge would not be seen."""
NO_RIDGE = 1e-8
"""Ridge, in units of R2, of a fit without noise: there only for the minimum to exist where classes are separated."""
SAFETY = 1 - 1e-12
"""Relative margin for rounding errors of the calibration."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Size of the random linear term, and of the ridge that it needs (zone: public).

    Attributes
    ----------
    gamma : float
        Rate of the noise b; inf without noise.
    ridge : float
        lam, in the objective's sum form.
    """

    gamma: float
    ridge: float


def logistic_cost(gamma: float, kappa: float) -> float:
    """Return epsilon of the first theorem.

    Examples
    --------
    >>> round(logistic_cost(0.476636, 2 * 0.476636), 5)
    1.0
    """
    return gamma + _largest(gamma, kappa)


def _largest(gamma: float, kappa: float) -> float:
    """Return the maximum over s of gamma s + log(1 + kappa s (1 - s)), a concave function."""
    if gamma >= kappa:
        return gamma
    a, b, c = gamma * kappa, 2 * kappa - gamma * kappa, gamma + kappa
    s = min(1.0, 2 * c / (b + math.hypot(b, 2 * math.sqrt(a) * math.sqrt(c))))
    return gamma * s + math.log1p(kappa * s * (1 - s))


def cost(loss: Loss, gamma: float, row_size: float, ridge: float) -> float:
    """Return epsilon of publishing the exact minimiser.

    Parameters
    ----------
    loss : Loss
        Of one record.
    gamma : float
        Rate of the noise.
    row_size : float
        R2, the largest squared Euclidean norm of a row.
    ridge : float
        lam.
    """
    if loss.is_logistic:
        return logistic_cost(gamma, row_size / ridge)
    return 2 * gamma + math.log1p(loss.bound * row_size / ridge)


def calibrate(loss: Loss, row_size: float, epsilon: float) -> Perturbation:
    """Choose rate and ridge for a budget: the ridge small, almost all of the budget for the noise.

    Parameters
    ----------
    loss : Loss
        Of one record.
    row_size : float
        R2.
    epsilon : float
        What the exact minimiser may cost.

    Notes
    -----
    Logistic: kappa = 2 gamma, which leaves 94 % of epsilon or more for the noise. Other losses: 15 % of epsilon for the
    determinant.
    """
    usable = epsilon * SAFETY
    if loss.is_logistic:
        gamma = float(brentq(lambda g: logistic_cost(g, MULTIPLE * g) - usable, 0.0, usable, xtol=1e-300, rtol=1e-14))
        ridge = row_size / (MULTIPLE * gamma)
        if ridge >= SMALLEST_RIDGE * row_size:
            return Perturbation(gamma * SAFETY, ridge)
        return with_ridge(loss, row_size, epsilon, SMALLEST_RIDGE * row_size)
    ridge = loss.bound * row_size / math.expm1(min(JACOBIAN_SHARE * usable, JACOBIAN_LIMIT))
    return with_ridge(loss, row_size, epsilon, ridge)


def with_ridge(loss: Loss, row_size: float, epsilon: float, ridge: float) -> Perturbation:
    """Return the largest rate for a given ridge; a rate of 0 or less means that the ridge is too small.

    Parameters
    ----------
    loss, row_size, epsilon
        As for `calibrate`.
    ridge : float
        lam.

    Notes
    -----
    For the logistic loss gamma = epsilon / 2, the logarithm free, as soon as epsilon ridge >= 2 R2.
    """
    usable = epsilon * SAFETY
    if not loss.is_logistic:
        return Perturbation((usable - math.log1p(loss.bound * row_size / ridge)) / 2, ridge)
    kappa = row_size / ridge
    if usable / 2 >= kappa:
        return Perturbation(usable / 2, ridge)
    if math.log1p(kappa / 4) >= usable:
        return Perturbation(0.0, ridge)
    return Perturbation(
        float(brentq(lambda g: logistic_cost(g, kappa) - usable, 0.0, usable, xtol=1e-300, rtol=1e-14)) * SAFETY, ridge
    )
