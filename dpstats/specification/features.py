"""Model columns as features of a noisy objective: each coded to one public box, the response to [-1, 1].

The functional mechanism and its relatives perturb an objective over the columns of the model matrix itself, so that a
record is one point of a box and the sensitivity is a polynomial in the box's size. Columns are centred only beside an
explicit intercept, because centring is then a change of parameters and not of the model; the response likewise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.coding import Coding
from dpstats.specification.coercion import array_of
from dpstats.specification.grids import as_frame, factorial_values, schema_values
from dpstats.specification.model_columns import ModelColumn
from dpstats.specification.polynomials import Polynomial
from dpstats.specification.rowmap import RowMap
from dpstats.specification.symbols import WIDENING, ScalarSymbol
from dpstats.specification.view import ModelView

Scaling = Literal["box", "ball"]
Interval = tuple[float, float]

ROUNDING = 1e-14
PROBABILITY_SLOPE = 2.0
"""Least squares of u = 2y - 1, times 2, is 4 x least squares of y - 1/2: the minimiser of the Taylor logistic loss."""


@dataclass(frozen=True)
class Features:
    """The d columns of a model on a common box (zone: public).

    Attributes
    ----------
    coding : Coding
        Coded columns from which features are combined.
    view : ModelView
        The model; its contrast gives model columns in raw units from features in [-1, 1], shape (d, d).
    scaling : {"box", "ball"}
        Which box.
    box : float
        B: in units of their box, features are in [-B, B].
    combine : ndarray
        Shape (d + 1, D): feature in [-1, 1], the response last, = row @ coded columns.
    constant : ndarray
        Shape (d,): gives 1 for every complete row; zeros if the model does not span the constant.
    intercept : int
        Position of an explicit intercept, -1 without one.
    mid, half : float
        The response in raw units is mid + half times the coded one.
    """

    coding: Coding
    view: ModelView
    scaling: Scaling
    box: float
    combine: NDArray[np.float64]
    constant: NDArray[np.float64]
    intercept: int
    mid: float
    half: float

    @cached_property
    def row_map(self) -> RowMap:
        """From raw columns to the coded ones, the response included."""
        return RowMap(self.coding)

    @property
    def n_features(self) -> int:
        """d: number of model columns, the intercept included."""
        return len(self.combine) - 1

    @property
    def has_intercept(self) -> bool:
        """True if the model has an explicit intercept."""
        return self.intercept >= 0

    @property
    def coded_range(self) -> str:
        """What the columns but the intercept are coded to, before they are scaled to the box."""
        return "[0, 1]" if self.scaling == "ball" and self.has_intercept else "[-1, 1]"

    @cached_property
    def multiples(self) -> NDArray[np.float64] | None:
        """What each feature is of the coded column at its place, shape (d + 1,), between -1 and 1; None otherwise."""
        rows, columns = self.combine.shape
        own = np.diag(self.combine)
        if rows != columns or np.count_nonzero(self.combine) > np.count_nonzero(own):
            return None
        return np.clip(own, -1.0, 1.0) if np.abs(own).max() <= 1.0 + ROUNDING else None

    @property
    def size(self) -> float:
        """P = d B, the largest L1 norm of a row."""
        return self.n_features * self.box

    def lattice_radii(self, bits: int) -> NDArray[np.float64]:
        """Largest whole number that a feature, or the response, may be on the lattice, shape (d + 1,)."""
        whole = math.floor(self.box * 2.0**bits)
        return np.append(np.full(self.n_features, float(whole)), 2.0**bits)

    def lattice_box(self, bits: int) -> float:
        """Return the box as the lattice holds it, at most B."""
        return float(self.lattice_radii(bits)[0]) / 2.0**bits

    def code_public(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
        """Return the features of public rows, in [-1, 1], shape (n_rows, d)."""
        coded = RowMap(self.coding, with_response=False).code(columns, n_rows).columns
        return np.asarray(coded @ self.combine[:-1, :-1].T)

    def raw_coefficients(self, solution: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the model columns' coefficients in raw units from those of the features on the coded response."""
        centred = solution + self.mid / self.half * self.constant
        return np.asarray(self.half * np.linalg.solve(self.view.contrast.T, centred), dtype=np.float64)


def build_features(view: ModelView, coding: Coding, scaling: Scaling, *, binary: bool = False) -> Features:
    """Place the columns of a model on a common box.

    Parameters
    ----------
    view : ModelView
        The model's columns in terms of coded columns.
    coding : Coding
        From `code_design`.
    scaling : {"box", "ball"}
        ``"box"``: features in [-1, 1], as in the authors' code of the functional mechanism. ``"ball"``: features in
        [0, 1 / sqrt(d)], or about 0 without an intercept, so that a row has norm at most 1, as in their paper.
    binary : bool
        A binary response is coded -1 and +1 and not shifted back: coefficients are those of a linear predictor.
    """
    design = view.design
    ranges = [column_range(column, j, view, coding) for j, column in enumerate(design.columns)]
    low, high = np.array(ranges).T
    intercept = next((j for j, column in enumerate(design.columns) if column.term == "1"), -1)
    if intercept < 0:
        mid, half = np.zeros(len(low)), np.maximum(np.abs(low), np.abs(high))
    elif scaling == "box":
        mid, half = (low + high) / 2, (high - low) / 2
    else:
        mid, half = low, high - low
    contrast = np.diag(half)
    if intercept >= 0:
        mid[intercept], half[intercept], contrast[intercept, intercept] = 0.0, 1.0, 1.0
        contrast[:, intercept] += mid
    centre, reach = _response_range(design.response, intercept >= 0 or binary)
    combine = np.zeros((len(low) + 1, coding.n_columns))
    combine[:-1, :-1] = (view.contrast - np.outer(mid, coding.constant)) / half[:, None]
    combine[-1, -1] = design.response.half / reach
    combine[-1, :-1] = (design.response.mid - centre) / reach * coding.constant
    constant: NDArray[np.float64] = np.zeros(len(low))
    if intercept >= 0:
        constant[intercept] = 1.0
    elif view.ones is not None:
        constant = view.ones * half
    return Features(
        coding,
        ModelView(design, contrast, view.ones),
        scaling,
        1.0 if scaling == "box" else 1 / math.sqrt(len(low)),
        np.where(np.abs(combine) < ROUNDING, 0.0, combine),
        constant,
        intercept,
        *((0.0, PROBABILITY_SLOPE) if binary else (centre, reach)),
    )


def _response_range(response: ScalarSymbol, centred: bool) -> Interval:
    """Return the middle and half width of the response's range, about 0 where it is not centred."""
    if centred:
        return response.mid, response.half
    return 0.0, max(abs(response.lower), abs(response.upper))


def column_range(column: ModelColumn, position: int, view: ModelView, coding: Coding) -> Interval:
    """Return public bounds of a model column.

    Exact where the column is one product of independent parts; otherwise its extremes on a factorial grid over the
    declared bounds, widened a little. The clip to the box, not the grid, is what makes the bound hold.

    Parameters
    ----------
    column : ModelColumn
        Polynomial x contrast weights x vector columns.
    position : int
        Its row in the view's contrast.
    view : ModelView
        The model's columns in terms of coded columns.
    coding : Coding
        The coded columns.
    """
    factors = [(symbol.variables, exponent) for monomial in column.polynomial for symbol, exponent in monomial]
    used = [name for variables, _ in factors for name in variables] + list(column.weights)
    if len(column.polynomial) == 1 and not column.vectors and len(set(used)) == len(used):
        total = _polynomial_range(column.polynomial, view.design.scalars)
        for weights in column.weights.values():
            total = _times(total, (float(weights.min()), float(weights.max())))
        return total
    used += [name for symbol, _ in column.vectors for name in symbol.variables]
    values = _on_grid(view.contrast[position], list(dict.fromkeys(used)), coding)
    margin = WIDENING * float(values.max() - values.min())
    return float(values.min()) - margin, float(values.max()) + margin


def _on_grid(weights: NDArray[np.float64], names: Sequence[str], coding: Coding) -> NDArray[np.float64]:
    """Return a model column on the factorial grid of its raw columns, all others held fixed."""
    design = coding.design
    values = factorial_values(design.schema, names)
    size = len(values[names[0]])
    others = [name for name in design.regressor_variables if name not in values]
    fixed = {name: column[:1].repeat(size) for name, column in schema_values(design.schema, others).items()}
    frame = as_frame(design.schema, {**values, **fixed})
    coded = RowMap(coding, with_response=False).code({name: array_of(frame[name]) for name in frame.columns}, size)
    return np.asarray(coded.columns @ weights)


def _polynomial_range(polynomial: Polynomial, scalars: Mapping[str, ScalarSymbol]) -> Interval:
    low = high = 0.0
    for monomial, coefficient in polynomial.items():
        part = (float(coefficient), float(coefficient))
        for symbol, exponent in monomial:
            bounded = scalars[symbol.text]
            part = _times(part, _power((bounded.lower, bounded.upper), exponent))
        low, high = low + part[0], high + part[1]
    return low, high


def _power(base: Interval, exponent: int) -> Interval:
    ends = base[0] ** exponent, base[1] ** exponent
    if exponent % 2 == 0 and base[0] < 0 < base[1]:
        return 0.0, max(ends)
    return min(ends), max(ends)


def _times(first: Interval, second: Interval) -> Interval:
    products = [a * b for a in first for b in second]
    return min(products), max(products)
