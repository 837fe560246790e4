"""Symbols with public bounds: how a raw column or a transform becomes a coded number in [-1, 1].

A transform is evaluated by formulaic, with a specification learned on the public schema frame. Its bounds are the
extremes on a factorial grid, widened a little, because extremes between grid points are missed; the clip, not the
grid, is what makes a bound hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula
from numpy.typing import NDArray

from dpstats.errors import DesignError, FormulaError
from dpstats.specification.grids import factorial_frame, schema_frame
from dpstats.specification.polynomials import Symbol
from dpstats.specification.schema import Categorical, Continuous, Schema

WIDENING = 5e-4
RADIUS_WIDENING = 1e-3


@dataclass(frozen=True, slots=True)
class Evaluator:
    """One expression with its state learned on public rows (zone: public); applied row by row."""

    specification: Any

    def __call__(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return the expression's columns, shape (n, width); not finite where the expression is not."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            columns = self.specification.get_model_matrix(frame, context={})
        return np.asarray(columns, dtype=np.float64).reshape(len(frame), -1)


def learn(symbol: Symbol, schema: Schema) -> Evaluator:
    """Learn the state of an expression (spline knots, centres) on the schema frame.

    Raises
    ------
    FormulaError
        If formulaic cannot evaluate it, or if a row's value depends on the rows beside it.
    """
    frame = schema_frame(schema, symbol.variables)
    text = symbol.text if symbol.form == "vector" else f"I({symbol.text})"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            columns = Formula(f"0 + {text}").get_model_matrix(
                frame, context={}, output="numpy", na_action="ignore", ensure_full_rank=False
            )
        except Exception as error:
            raise FormulaError(f"cannot evaluate {symbol.text!r}: {str(error).splitlines()[0]}") from None
    evaluate = Evaluator(columns.model_spec)
    third = np.arange(0, len(frame), 3)
    part = evaluate(frame.iloc[third].reset_index(drop=True))
    if not np.array_equal(part, evaluate(frame)[third], equal_nan=True):
        raise FormulaError(f"{symbol.text!r}: a row's value depends on other rows, which would be an unpaid release")
    return evaluate


@dataclass(frozen=True, slots=True)
class ScalarSymbol:
    """A symbol with one column (zone: public).

    Attributes
    ----------
    symbol : Symbol
        The expression.
    lower, upper : float
        Public bounds in raw units; values are clipped to them.
    sign : bool
        True if only the two bounds occur, so that the coded value is -1 or +1.
    evaluate : Evaluator or None
        None for a raw column.
    """

    symbol: Symbol
    lower: float
    upper: float
    sign: bool
    evaluate: Evaluator | None

    @property
    def half(self) -> float:
        """Half the width of the range."""
        return (self.upper - self.lower) / 2

    @property
    def mid(self) -> float:
        """Middle of the range."""
        return self.lower + self.half


@dataclass(frozen=True, slots=True)
class VectorSymbol:
    """A symbol with several columns, such as a spline (zone: public).

    Attributes
    ----------
    symbol : Symbol
        The expression.
    width : int
        Number of columns.
    radius_l1, radius_l2 : float
        Largest L1 and L2 norm of a row of raw values; rows are clipped to them.
    evaluate : Evaluator
        Gives the raw columns.
    """

    symbol: Symbol
    width: int
    radius_l1: float
    radius_l2: float
    evaluate: Evaluator


def scalar_symbol(symbol: Symbol, schema: Schema) -> ScalarSymbol:
    """Attach public bounds to a scalar symbol.

    Raises
    ------
    DesignError
        If the expression is not finite, or constant, on the declared bounds.
    """
    if symbol.form == "column":
        column = schema[symbol.text]
        if isinstance(column, Continuous):
            return ScalarSymbol(symbol, column.lower, column.upper, sign=False, evaluate=None)
        return ScalarSymbol(symbol, 0.0, 1.0, sign=True, evaluate=None)
    evaluate = learn(symbol, schema)
    values = _finite_on_grid(symbol, evaluate, schema)
    if values.shape[1] != 1:
        raise FormulaError(f"{symbol.text!r} has {values.shape[1]} columns where one is expected")
    lower, upper = float(values.min()), float(values.max())
    if not lower < upper:
        raise DesignError(
            f"{symbol.text!r} is constant on the declared range ({describe(symbol.variables, schema)}); drop the term"
        )
    if symbol.form == "boolean":
        return ScalarSymbol(symbol, 0.0, 1.0, sign=True, evaluate=evaluate)
    margin = WIDENING * (upper - lower)
    return ScalarSymbol(symbol, lower - margin, upper + margin, sign=False, evaluate=evaluate)


def vector_symbol(symbol: Symbol, schema: Schema) -> VectorSymbol:
    """Attach public radii to a symbol with several columns.

    Raises
    ------
    DesignError
        If the expression is not finite on the declared bounds.
    """
    evaluate = learn(symbol, schema)
    values = _finite_on_grid(symbol, evaluate, schema)
    stretch = 1 + RADIUS_WIDENING
    return VectorSymbol(
        symbol,
        values.shape[1],
        radius_l1=stretch * float(np.abs(values).sum(axis=1).max()),
        radius_l2=stretch * float(np.sqrt((values**2).sum(axis=1)).max()),
        evaluate=evaluate,
    )


def describe(variables: Sequence[str], schema: Schema) -> str:
    """Describe the declared ranges of some columns for a message."""
    parts = []
    for name in variables:
        column = schema[name]
        if isinstance(column, Continuous):
            parts.append(f"{name}: ({column.lower:g}, {column.upper:g})")
        elif isinstance(column, Categorical):
            parts.append(f"{name}: {list(column.levels)}")
        else:
            parts.append(f"{name}: {column.levels}")
    return ", ".join(parts)


def _finite_on_grid(symbol: Symbol, evaluate: Evaluator, schema: Schema) -> NDArray[np.float64]:
    values = evaluate(factorial_frame(schema, symbol.variables))
    if not np.isfinite(values).all():
        raise DesignError(
            f"{symbol.text} is unbounded on the declared range ({describe(symbol.variables, schema)}); give bounds on "
            "which it is finite, such as a lower bound > 0 for a logarithm"
        )
    if np.abs(values).max() > 1e150:
        raise DesignError(
            f"{symbol.text} reaches {np.abs(values).max():.1e} on the declared range "
            f"({describe(symbol.variables, schema)}); give tighter bounds"
        )
    return values
