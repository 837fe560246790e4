"""Private rows of a model's predictors, and sums of gradients and curvatures over them at a parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.records.features import feature_rows
from dpstats.records.moments import EXACT_ROWS
from dpstats.records.rows import lattice_rows
from dpstats.records.scores import whole_steps
from dpstats.records.source import Partition, Source, silence
from dpstats.records.watched import unwatched
from dpstats.specification.forms import Forms
from dpstats.specification.losses import Loss
from dpstats.specification.predictors import BITS, Predictors

KEPT_ENTRIES = 2**27
"""Tables of up to so many numbers (1 GB) are coded once and kept while they are needed; larger ones are read again."""
HIGH_BITS = 20
"""Bits of a residual whose products with rows add up exactly."""

T = TypeVar("T")
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Some rows on the lattice (zone: PRIVATE).

    Attributes
    ----------
    z : ndarray
        Predictors, shape (n, q), multiples of 2**-20; 0 for an incomplete row.
    u : ndarray
        Outcome in [-1, 1], shape (n,).
    """

    z: Vector
    u: Vector

    def __repr__(self) -> str:
        return f"Rows(shape={self.z.shape})"


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """All rows of a model's predictors (zone: PRIVATE), read again and again by iterative methods.

    Attributes
    ----------
    source : Source
        The table.
    predictors : Predictors
        The model's columns.
    kept : list of Rows or None
        The rows, if they were few enough to be kept.
    """

    source: Source
    predictors: Predictors
    kept: list[Rows] | None

    def __repr__(self) -> str:
        return "Table()"

    def map_reduce(self, function: Callable[[Rows], T], add: Callable[[T, T], T]) -> T:
        """Apply a function to blocks of rows and add up."""
        if self.kept is None:
            predictors = self.predictors
            return self.source.map_reduce(
                predictors.row_map.variables, lambda part: function(predictor_rows(part, predictors)), add
            )
        with silence():
            total = function(self.kept[0])
            for rows in self.kept[1:]:
                total = add(total, function(rows))
            return total

    def head(self, blocks: int) -> Table | None:
        """Return the first blocks of rows, if the table is kept and has at least twice as many."""
        if self.kept is None or len(self.kept) < 2 * blocks:
            return None
        return Table(self.source, self.predictors, self.kept[:blocks])


def as_table(source: Source, predictors: Predictors) -> Table:
    """Code a table's rows, keeping them if its public size allows and they are in this process.

    Parameters
    ----------
    source : Source
        The table.
    predictors : Predictors
        The model's columns.
    """
    if source.is_distributed or source.n_rows * (predictors.n_columns + 1) > KEPT_ENTRIES:
        return Table(unwatched(source), predictors, None)
    kept = source.map_reduce(
        predictors.row_map.variables, lambda part: [predictor_rows(part, predictors)], lambda a, b: [*a, *b]
    )
    return Table(source, predictors, kept)


def predictor_rows(partition: Partition, predictors: Predictors) -> Rows:
    """Code a partition; every row's size is within the predictors' public bounds, exactly."""
    if predictors.features is not None:
        rows, _ = feature_rows(partition, predictors.features, BITS)
    else:
        rows, _ = lattice_rows(partition, predictors.row_map, BITS)
    z = np.ascontiguousarray(rows[:, predictors.keep])
    z *= 2.0**-BITS
    return Rows(z, rows[:, -1] * 2.0**-BITS)


@dataclass(frozen=True, slots=True, repr=False)
class SplitSum:
    """A sum over rows in two parts (zone: PRIVATE).

    Attributes
    ----------
    upper : ndarray of int
        Exact, in units of 2**-40, as Python integers, shape (q,).
    lower : ndarray
        What is left, in floating point: about 2**-21 per row, so that its rounding does not matter; shape (q,).
    """

    upper: NDArray[np.object_]
    lower: Vector

    def __repr__(self) -> str:
        return f"SplitSum(shape={self.lower.shape})"

    def __add__(self, other: SplitSum) -> SplitSum:
        return SplitSum(self.upper + other.upper, self.lower + other.lower)


def sum_scores(table: Table, loss: Loss, high: Vector, low: Vector) -> SplitSum:
    """Return the sum of scores z r at the parameter high + low, r the loss's residual.

    Parameters
    ----------
    table : Table
        The rows.
    loss : Loss
        Of one record.
    high, low : ndarray
        Parameter as a sum of two floats, shape (q,): its resolution is that of the smaller one.

    Notes
    -----
    The error is that of one residual evaluation per row, less than 2**-49 max(1, 4 bound) times the row's size,
    whatever the parameter, the order of the rows and their number. The parameter is split into two parts of some 27
    bits, whose products with rows on the 2**-20 lattice are exact in float64 in any order of additions, and a remainder
    2**-54 as large. The residual is split into a part of 20 bits, whose products with rows add up exactly over 8,192
    rows and then as Python integers, and a remainder of at most 2**-21.
    """
    parts = np.column_stack([*_split(high, low)])

    def of(rows: Rows) -> SplitSum:
        products = rows.z @ parts
        residual = loss.residual((products[:, 0] + products[:, 1]) + products[:, 2], rows.u)
        upper = np.rint(residual * 2.0**HIGH_BITS) * 2.0**-HIGH_BITS
        total, rest = np.zeros(len(high), dtype=object), np.zeros(len(high))
        for start in range(0, len(residual), EXACT_ROWS):
            block = slice(start, start + EXACT_ROWS)
            exact = (upper[block] @ rows.z[block]) * 2.0 ** (BITS + HIGH_BITS)
            total += exact.astype(np.int64).astype(object)
            rest += (residual - upper)[block] @ rows.z[block]
        return SplitSum(total, rest)

    total: SplitSum = table.map_reduce(of, lambda a, b: a + b)
    return total


def _split(high: Vector, low: Vector) -> tuple[Vector, Vector, Vector]:
    """Split a parameter into two parts with few bits and a remainder."""
    bits = 52 - BITS - 1 - int(np.ceil(np.log2(max(len(high), 2))))
    largest = max(float(np.abs(high).max()), 2.0**-100)
    unit = 2.0 ** (np.ceil(np.log2(largest)) - bits)
    first = np.rint(high / unit) * unit
    left = high - first
    finer = unit * 2.0**-bits
    second = np.rint(left / finer) * finer
    return first, second, (left - second) + low


def hessian(table: Table, loss: Loss, theta: Vector, *, steepest: bool = False) -> Vector:
    """Return the Hessian of the summed loss at a parameter, in floating point, shape (q, q) (zone: PRIVATE).

    Parameters
    ----------
    table : Table
        The rows.
    loss : Loss
        Of one record.
    theta : ndarray
        Shape (q,).
    steepest : bool
        Give every row the largest curvature that the loss has anywhere: a bound on the Hessian.
    """

    def of(rows: Rows) -> Vector:
        weights = loss.bound if steepest else loss.curvature(rows.z @ theta, rows.u)[:, None]
        return (rows.z * weights).T @ rows.z

    return table.map_reduce(of, lambda a, b: a + b)


def sum_weighted_products(
    table: Table, weight: Callable[[Vector, Vector], Vector], theta: Vector, bits: int
) -> NDArray[np.int64]:
    """Return sum_i w_i z_i z_i' exactly, for weights in [0, 1], shape (q, q), in units of 2**(-3 bits) (zone: PRIVATE).

    Parameters
    ----------
    table : Table
        The rows.
    weight : callable
        Maps predictors eta and outcomes to weights.
    theta : ndarray
        A released parameter, shape (q,).
    bits : int
        Weights and rows are rounded to multiples of 2**-bits, weights clipped to [0, 1]; at most 15, with
        n * 2**(3 bits) < 2**62.
    """
    exact_rows = 2 ** (53 - 3 * bits)

    def of(rows: Rows) -> NDArray[np.int64]:
        w = np.rint(weight(stable_product(rows.z, theta), rows.u) * 2.0**bits)
        w = np.fmax(np.fmin(w, 2.0**bits), 0.0)
        z = np.rint(rows.z * 2.0**bits)
        total = np.zeros((z.shape[1], z.shape[1]), dtype=np.int64)
        for start in range(0, len(z), exact_rows):
            block = z[start : start + exact_rows]
            total += ((block * w[start : start + exact_rows, None]).T @ block).astype(np.int64)
        return total

    return table.map_reduce(of, lambda a, b: a + b)


def sum_squared_losses(
    table: Table, loss: Loss, theta: Vector, forms: Forms, ranges: Vector, steps: int
) -> NDArray[np.int64]:
    """Return sum_i (l'z_i)^2 r_i^2 for each form l, r the loss's residual at theta, in units of its range / steps.

    Parameters
    ----------
    table : Table
        The rows.
    loss : Loss
        Its residual is in [-1, 1].
    theta : ndarray
        A released parameter, shape (q,).
    forms : Forms
        Of predictors.
    ranges : ndarray
        Largest term of one row, one for each form.
    steps : int
        Each row's term is rounded to {0, ..., steps}.
    """

    def of(rows: Rows) -> NDArray[np.int64]:
        squares = loss.residual(stable_product(rows.z, theta), rows.u) ** 2
        terms = [
            whole_steps(square * squares * (steps / size), steps).sum()
            for square, size in zip(forms.squares(lambda form: stable_product(rows.z, form)), ranges, strict=True)
        ]
        return np.array(terms, dtype=np.int64)

    return table.map_reduce(of, lambda a, b: a + b)


def stable_product(z: Vector, theta: Vector) -> Vector:
    """Return z @ theta by a loop over columns in fixed order, so that a row's value does not depend on others."""
    total = np.zeros(len(z))
    for j, coefficient in enumerate(theta):
        total += coefficient * z[:, j]
    return total
