"""The minimiser of a perturbed loss, to a certified accuracy (zone: PRIVATE).

Privacy needs the exact minimiser of J(theta) = sum loss + (lam / 2) ||theta||^2 + b'theta for a real b. What is
computed is a point at which ||grad J|| <= tau for certain, tau public. As J is lam-strongly convex, the point is within
tau / lam of the exact minimiser, on any table; `dpstats.mechanisms.minimum` adds noise to that distance before it is
published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.records.predictors import Table, accurate_gradient, gradient, hessian
from dpstats.records.source import silence
from dpstats.specification.losses import Loss

ROW_ERROR = 2.0**-48
"""Error of one row's accurately computed gradient, in units of its norm: twice what `accurate_gradient` needs."""
ENOUGH = 0.25
"""Share of tau at which an approximate gradient norm is checked accurately."""
SMALLEST_STEP = 2.0**-40
QUICK = 1e-3
"""A step that shrinks the gradient by this factor makes a new Hessian unnecessary."""
HEAD_BLOCKS, HEAD_TOLERANCE = 8, 1e-4
"""How many blocks of rows of a long table give a starting point, and to which gradient per row."""

Vector = NDArray[np.float64]


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
    Newton's method from the minimiser of the first rows of a long table. The first step has a bound on the Hessian,
    because a hinge loss has no curvature at 0; later steps keep the Hessian as long as the gradient shrinks quickly. A
    step is halved until the slope along it is still downhill at its end, or the gradient is half as long. It ends on
    every table, because J is strongly convex; how long it takes is not protected.
    """
    objective = Objective(table, loss, ridge, b)
    with silence():
        state = _start(objective)
        while True:
            if state.size <= ENOUGH * tau:
                certificate = certify(objective, b_error, state.theta)
                if certificate.bound <= tau:
                    return state.theta
                state = replace(state, gradient=certificate.gradient)
            state = _step(objective, state)


@dataclass(frozen=True, slots=True, repr=False)
class Objective:
    """J over some rows (zone: PRIVATE).

    Attributes
    ----------
    table : Table
        The rows.
    loss : Loss
        Of one record.
    ridge : float
        lam.
    b : ndarray
        Linear term, shape (q,).
    """

    table: Table
    loss: Loss
    ridge: float
    b: Vector

    def __repr__(self) -> str:
        return "Objective()"

    def gradient(self, theta: Vector) -> Vector:
        """Return the gradient of J."""
        return gradient(self.table, self.loss, theta) + self.ridge * theta + self.b

    def hessian(self, theta: Vector, *, steepest: bool = False) -> Vector:
        """Return the Hessian of J."""
        return hessian(self.table, self.loss, theta, steepest=steepest) + self.ridge * np.eye(len(theta))


@dataclass(frozen=True, slots=True, repr=False)
class State:
    """A point of the iteration with the gradient there and a Hessian near it (zone: PRIVATE)."""

    theta: Vector
    gradient: Vector
    hessian: Vector

    def __repr__(self) -> str:
        return "State()"

    @property
    def size(self) -> float:
        """Norm of the gradient."""
        return float(np.linalg.norm(self.gradient))


def _start(objective: Objective) -> State:
    """Return the minimiser of the first rows of a long table, or 0."""
    head = objective.table.head(HEAD_BLOCKS)
    zero = np.zeros(len(objective.b))
    if head is None or objective.table.kept is None:
        return State(zero, objective.gradient(zero), objective.hessian(zero, steepest=True))
    share = HEAD_BLOCKS / len(objective.table.kept)
    first = Objective(head, objective.loss, share * objective.ridge, share * objective.b)
    state = State(zero, first.gradient(zero), first.hessian(zero, steepest=True))
    enough = HEAD_TOLERANCE * sum(len(rows.u) for rows in head.kept or [])
    while state.size > enough:
        state = _step(first, state)
    return State(state.theta, objective.gradient(state.theta), objective.hessian(state.theta))


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """Gradient of J at a point, and a bound on its exact norm (zone: PRIVATE)."""

    gradient: Vector
    bound: float

    def __repr__(self) -> str:
        return "Certificate()"


def certify(objective: Objective, b_error: float, theta: Vector) -> Certificate:
    """Return the gradient of J at theta, and a norm that the exact gradient for a real b does not exceed.

    Parameters
    ----------
    objective : Objective
        J.
    b_error : float
        How far b is at most from the real draw that it stands for.
    theta : ndarray
        Shape (q,).
    """
    table, b = objective.table, objective.b
    found = accurate_gradient(table, objective.loss, theta) + objective.ridge * theta + b
    size = table.source.facts.n_rows * float(np.sqrt(table.predictors.row_size))
    rounding = 2.0**-50 * float(objective.ridge * np.linalg.norm(theta) + np.linalg.norm(b))
    return Certificate(found, float(np.linalg.norm(found)) + size * ROW_ERROR + rounding + b_error)


def _step(objective: Objective, state: State) -> State:
    """Make one damped Newton step."""
    direction = -np.linalg.solve(state.hessian, state.gradient)
    share = 1.0
    while True:
        point = state.theta + share * direction
        found = objective.gradient(point)
        size = float(np.linalg.norm(found))
        if size <= state.size / 2 or float(found @ direction) <= 0 or share < SMALLEST_STEP:
            break
        share /= 2
    kept = size <= QUICK * state.size
    return State(point, found, state.hessian if kept else objective.hessian(point))
