"""The minimiser of a perturbed loss, to a certified accuracy (zone: PRIVATE).

Privacy needs the exact minimiser of J(theta) = sum loss + (lam / 2) ||theta||^2 + b'theta for a real b. What is
computed is a point at which ||grad J|| <= tau for certain, tau public. As J is lam-strongly convex, the point is within
tau / lam of the exact minimiser, on any table; `dpstats.mechanisms.minimum` adds noise to that distance before it is
published.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpstats.records.predictors import HIGH_BITS, Table, hessian, sum_scores
from dpstats.records.source import silence
from dpstats.specification.losses import Loss
from dpstats.specification.predictors import BITS

Vector = NDArray[np.float64]

ROW_ERROR = 2.0**-48
"""Error of one row's score, in units of its size and of max(1, 4 bound): twice what `sum_scores` needs."""
SMALLEST_STEP = 2.0**-20
QUICK = 1e-3
"""A step that shrinks the gradient by this factor makes a new Hessian unnecessary."""
HEAD_BLOCKS, HEAD_TOLERANCE = 8, 1e-4
"""How many blocks of rows of a long table give a starting point, and to which gradient per row."""


def tolerance(row_size: float, n_rows: int, bound: float) -> float:
    """Return tau, a public constant that is five times the certificate's own error or more.

    Parameters
    ----------
    row_size : float
        R2.
    n_rows : int
        Public length of the table.
    bound : float
        Largest second derivative of the loss.
    """
    return float(np.sqrt(row_size)) * max(1.0, 4 * bound) * max(1e-8, 2e-14 * n_rows)


@dataclass(frozen=True, slots=True, repr=False)
class Point:
    """A parameter as the sum of two floats, so that its resolution is no limit (zone: PRIVATE)."""

    high: Vector
    low: Vector

    def __repr__(self) -> str:
        return f"Point(shape={self.high.shape})"

    def moved(self, step: Vector) -> Point:
        """Return the point plus a step; what float64 would drop is kept."""
        total = self.high + step
        virtual = total - self.high
        dropped = (self.high - (total - virtual)) + (step - virtual) + self.low
        high = total + dropped
        return Point(high, dropped - (high - total))

    def exact(self) -> list[Fraction]:
        """Return the coordinates as rational numbers."""
        return [Fraction(a) + Fraction(b) for a, b in zip(self.high.tolist(), self.low.tolist(), strict=True)]


@dataclass(frozen=True, slots=True, repr=False)
class Objective:
    """J over some rows (zone: PRIVATE).

    Attributes
    ----------
    table : Table
        The rows.
    loss : Loss
        Of one record.
    ridge : Fraction
        lam.
    b : list of Fraction
        Linear term, length q.
    """

    table: Table
    loss: Loss
    ridge: Fraction
    b: list[Fraction]

    def __repr__(self) -> str:
        return "Objective()"

    def gradient(self, point: Point) -> Vector:
        """Return the gradient of J; only the rows' own scores are not exact."""
        scores = sum_scores(self.table, self.loss, point.high, point.low)
        unit = 1 << (BITS + HIGH_BITS)
        parts = zip(scores.upper, scores.lower.tolist(), point.exact(), self.b, strict=True)
        return np.array([float(self.ridge * t + b - Fraction(up, unit) - Fraction(low)) for up, low, t, b in parts])

    def hessian(self, point: Point, *, steepest: bool = False) -> Vector:
        """Return the Hessian of J, in floating point."""
        return hessian(self.table, self.loss, point.high, steepest=steepest) + float(self.ridge) * np.eye(len(self.b))

    def error(self) -> float:
        """Return a bound on the norm by which `gradient` can be wrong, on any table of this public length."""
        size = self.table.source.n_rows * float(np.sqrt(self.table.predictors.row_size))
        return size * max(1.0, 4 * self.loss.bound) * ROW_ERROR


@dataclass(frozen=True, slots=True, repr=False)
class State:
    """A point of the iteration (zone: PRIVATE).

    Attributes
    ----------
    point : Point
        Where it is.
    gradient : ndarray
        There.
    hessian : ndarray
        There or nearby.
    least : float
        Smallest gradient norm so far.
    """

    point: Point
    gradient: Vector
    hessian: Vector
    least: float

    def __repr__(self) -> str:
        return "State()"

    @property
    def size(self) -> float:
        """Norm of the gradient."""
        return float(np.linalg.norm(self.gradient))


def minimize(table: Table, loss: Loss, ridge: float, b: list[Fraction], b_error: float, tau: float) -> list[Fraction]:
    """Return a point with ||grad J|| <= tau, for certain; PRIVATE, length q.

    Parameters
    ----------
    table : Table
        The rows.
    loss : Loss
        Of one record.
    ridge : float
        lam.
    b : list of Fraction
        Secret linear term, length q.
    b_error : float
        How far b is at most from the real draw that it stands for, in Euclidean norm.
    tau : float
        From `tolerance`.

    Notes
    -----
    Newton's method from the minimiser of the first rows of a long table. The first step has a bound on the Hessian,
    because a hinge loss has no curvature at 0; later steps keep the Hessian as long as the gradient shrinks quickly.

    It ends on every table. A step is accepted if J still falls at its end, or if the gradient is at most half of the
    smallest so far. The latter happens a limited number of times. Steps of the former kind make J fall by at least half
    of what the best step along their direction would, which converges because J is strongly convex and smooth. If
    rounding hides every such step, one step is made with the bound on the Hessian, after which J is never larger. How
    long it takes is not protected.
    """
    objective = Objective(table, loss, Fraction(ridge), b)
    with silence():
        state = _start(objective)
        while certified_norm(objective, b_error, state.gradient) > tau:
            state = _step(objective, state)
        return state.point.exact()


def certified_norm(objective: Objective, b_error: float, gradient: Vector) -> float:
    """Return a norm that the exact gradient for a real linear term does not exceed.

    Parameters
    ----------
    objective : Objective
        J.
    b_error : float
        How far b is at most from the real draw that it stands for.
    gradient : ndarray
        As computed by the objective, shape (q,).
    """
    return float(np.linalg.norm(gradient)) * (1 + 2.0**-40) + objective.error() + b_error


def _start(objective: Objective) -> State:
    """Return the minimiser of the first rows of a long table, or 0."""
    zero = Point(np.zeros(len(objective.b)), np.zeros(len(objective.b)))
    head = objective.table.head(HEAD_BLOCKS)
    if head is None or objective.table.kept is None:
        return _state(objective, zero, steepest=True)
    share = Fraction(HEAD_BLOCKS, len(objective.table.kept))
    first = Objective(head, objective.loss, share * objective.ridge, [share * b for b in objective.b])
    state = _state(first, zero, steepest=True)
    enough = HEAD_TOLERANCE * sum(len(rows.u) for rows in head.kept or [])
    while state.size > enough:
        state = _step(first, state)
    return _state(objective, state.point)


def _state(objective: Objective, point: Point, *, steepest: bool = False) -> State:
    gradient = objective.gradient(point)
    return State(point, gradient, objective.hessian(point, steepest=steepest), float(np.linalg.norm(gradient)))


def _step(objective: Objective, state: State) -> State:
    """Make one damped Newton step."""
    direction = _solve(state.hessian, -state.gradient, float(objective.ridge))
    share = 1.0
    while share >= SMALLEST_STEP:
        point = state.point.moved(share * direction)
        found = objective.gradient(point)
        size = float(np.linalg.norm(found))
        if size <= state.least / 2 or float(found @ direction) <= 0:
            quick = size <= QUICK * state.size
            return State(point, found, state.hessian if quick else objective.hessian(point), min(size, state.least))
        share /= 2
    bound = objective.hessian(state.point, steepest=True)
    after = _state(objective, state.point.moved(_solve(bound, -state.gradient, float(objective.ridge))))
    return State(after.point, after.gradient, after.hessian, min(after.least, state.least))


def _solve(matrix: Vector, target: Vector, floor: float) -> Vector:
    """Solve with a symmetric matrix whose eigenvalues are known to be at least `floor`; it cannot fail."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors @ ((vectors.T @ target) / np.maximum(values, floor)))
