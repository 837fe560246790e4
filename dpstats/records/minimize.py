"""The minimiser of a perturbed loss, to a certified accuracy (zone: PRIVATE).

Privacy needs the exact minimiser of J(theta) = sum loss + (lam / 2) ||theta||^2 + b'theta for a real b. What is
computed is a point at which ||grad J|| <= tau for certain, tau public. As J is lam-strongly convex, the point is within
tau / lam of the exact minimiser, on any table; `dpstats.mechanisms.minimum` adds noise to that distance before it is
published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.records.predictors import Derivatives, Table, accurate_gradient, derivatives
from dpstats.records.source import silence
from dpstats.specification.losses import Loss

ROW_ERROR = 2.0**-48
"""Error of one row's accurately computed gradient, in units of its norm: twice what `accurate_gradient` needs."""
ENOUGH = 0.25
"""Share of tau at which an approximate gradient norm is checked accurately."""
SMALLEST_STEP = 2.0**-40


def tolerance(row_size: float, n_rows: int) -> float:
    """Return tau, a public constant that five times the certificate's own error stays below.

    Parameters
    ----------
    row_size : float
        R2.
    n_rows : int
        Public length of the table.
    """
    return float(np.sqrt(row_size)) * max(1e-8, 2e-14 * n_rows)


def minimize(
    table: Table, loss: Loss, ridge: float, b: NDArray[np.float64], b_error: float, tau: float
) -> NDArray[np.float64]:
    """Return a point with ||grad J|| <= tau, for certain; PRIVATE, shape (q,).

    Parameters
    ----------
    table : Table
        The rows.
    loss : Loss
        Of one record.
    ridge : float
        lam.
    b : ndarray
        Secret linear term, shape (q,).
    b_error : float
        How far b is at most from the real draw that it stands for.
    tau : float
        From `tolerance`.

    Notes
    -----
    Newton's method, the first step with a bound on the Hessian, because a hinge loss has no curvature at 0; a step is
    halved until the slope along it is still downhill at its end, or the gradient is half as long. It ends on every
    table, because J is strongly convex; how long it takes is not protected.
    """

    def at(theta: NDArray[np.float64], *, steepest: bool = False) -> Derivatives:
        found = derivatives(table, loss, theta, steepest=steepest)
        return Derivatives(found.gradient + ridge * theta + b, found.hessian + ridge * np.eye(len(b)))

    with silence():
        theta = np.zeros(len(b))
        current = at(theta, steepest=True)
        while True:
            if np.linalg.norm(current.gradient) <= ENOUGH * tau:
                certificate = certify(table, loss, ridge, b, b_error, theta)
                if certificate.bound <= tau:
                    return theta
                current = Derivatives(certificate.gradient, current.hessian)
            theta, current = _step(at, theta, current)


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """Gradient of J at a point, and a bound on its exact norm (zone: PRIVATE)."""

    gradient: NDArray[np.float64]
    bound: float

    def __repr__(self) -> str:
        return "Certificate()"


def certify(
    table: Table, loss: Loss, ridge: float, b: NDArray[np.float64], b_error: float, theta: NDArray[np.float64]
) -> Certificate:
    """Return the gradient of J at theta, and a norm that the exact gradient for a real b does not exceed.

    Parameters
    ----------
    table, loss, ridge, b, b_error
        As for `minimize`.
    theta : ndarray
        Shape (q,).
    """
    gradient = accurate_gradient(table, loss, theta) + ridge * theta + b
    size = table.source.facts.n_rows * float(np.sqrt(table.predictors.row_size))
    rounding = 2.0**-50 * float(ridge * np.linalg.norm(theta) + np.linalg.norm(b))
    return Certificate(gradient, float(np.linalg.norm(gradient)) + size * ROW_ERROR + rounding + b_error)


def _step(
    at: Callable[[NDArray[np.float64]], Derivatives], theta: NDArray[np.float64], current: Derivatives
) -> tuple[NDArray[np.float64], Derivatives]:
    """Make one damped Newton step."""
    direction = -np.linalg.solve(current.hessian, current.gradient)
    size = float(np.linalg.norm(current.gradient))
    share = 1.0
    while True:
        point = theta + share * direction
        found = at(point)
        downhill = float(found.gradient @ direction) <= 0
        if downhill or np.linalg.norm(found.gradient) <= size / 2 or share < SMALLEST_STEP:
            return point, found
        share /= 2
