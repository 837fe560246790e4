"""Symbols with public bounds: how a raw column or a transform becomes a coded number in [-1, 1].

A transform's bounds are its extremes on a factorial grid over the declared bounds, widened a little, because extremes
between grid points are missed; the clip, not the grid, is what makes a bound hold. State (spline knots, centres) is
learned by formulaic on the public schema frame.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula
from numpy.typing import NDArray

from dpstats.errors import DesignError, FormulaError
from dpstats.specification.allowlist import SCALAR_STATEFUL, call_name
from dpstats.specification.evaluate import RowEvaluator, without_sign_of_zero
from dpstats.specification.grids import Values, factorial_values, quoting, schema_frame
from dpstats.specification.polynomials import Symbol
from dpstats.specification.schema import Categorical, Continuous, Schema
from dpstats.specification.spelling import escape_quoted

WIDENING = 5e-4
RADIUS_WIDENING = 1e-3


@dataclass(frozen=True, slots=True)
class VectorEvaluator:
    """A spline or polynomial basis over one continuous column, its state learned on public rows (zone: public).

    Attributes
    ----------
    column : str
        The raw column.
    specification : object
        formulaic's, applied to a frame with this one float64 column.
    """

    column: str
    specification: Any

    def __call__(self, values: Values, n_rows: int) -> NDArray[np.float64]:
        """Return the basis, shape (n_rows, width); not finite where it is not."""
        if n_rows == 0:  # formulaic would raise
            return np.empty((0, len(self.specification.column_names)))
        frame = pd.DataFrame({self.column: without_sign_of_zero(values[self.column])})
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            columns = self.specification.get_model_matrix(frame, context=quoting(frame))
        return np.asarray(columns, dtype=np.float64).reshape(n_rows, -1)


def _specify(text: str, variables: Sequence[str], schema: Schema) -> Any:
    """Let formulaic learn the state of an expression on the schema frame.

    The text is unparsed from a checked syntax tree. Where no quote, backtick or backslash stands inside its names, the
    text that formulaic evaluates after its own rewriting has that same tree.
    """
    if set(text) & set('"`\\'):
        raise FormulaError(f"{text!r}: a column's name has a quote, backtick or backslash; rename the column")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            frame = schema_frame(schema, variables)
            columns = Formula(f"0 + {escape_quoted(text)}").get_model_matrix(
                frame, context=quoting(frame), output="numpy", na_action="ignore", ensure_full_rank=False
            )
        except Exception as error:
            raise FormulaError(f"cannot evaluate {text!r}: {str(error).splitlines()[0]}") from None
    return columns.model_spec


def _learn_vector(symbol: Symbol, schema: Schema) -> VectorEvaluator:
    """Learn a basis, and refuse it if a row's value depends on the rows beside it."""
    evaluate = VectorEvaluator(symbol.variables[0], _specify(symbol.text, symbol.variables, schema))
    values = factorial_values(schema, symbol.variables)
    third = {name: column[::3] for name, column in values.items()}
    try:
        whole, part = (evaluate(v, len(v[symbol.variables[0]])) for v in (values, third))
    except Exception as error:
        raise FormulaError(f"cannot evaluate {symbol.text!r}: {str(error).splitlines()[0]}") from None
    if not whole.shape[1]:
        raise FormulaError(f"{symbol.text!r} has no columns")
    if not np.array_equal(part, whole[::3], equal_nan=True):
        raise FormulaError(f"{symbol.text!r}: a row's value depends on other rows, which would be an unpaid release")
    return evaluate


def _learn_scalar(symbol: Symbol, schema: Schema) -> RowEvaluator:
    """Prepare a scalar expression; the state of ``center(x)`` and the like comes from the schema frame."""
    columns = {name: schema[name] for name in symbol.variables}
    levels = {name: column.levels for name, column in columns.items() if isinstance(column, Categorical)}
    calls = [node for node in ast.walk(ast.parse(symbol.text, mode="eval")) if _is_stateful(node)]
    states: dict[str, tuple[float | None, float | None]] = {}
    if calls:
        learned = _specify(f"I({symbol.text})", symbol.variables, schema).transform_state
        for node in calls:
            state = learned[ast.unparse(node)]
            states[ast.unparse(node)] = (_as_float(state["center"]), _as_float(state["scale"]))
    return RowEvaluator(symbol.text, levels, states)


def _is_stateful(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and call_name(node) in SCALAR_STATEFUL


def _as_float(value: Any) -> float | None:
    return None if value is None else float(value)


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
    evaluate : RowEvaluator or None
        None for a raw column.
    """

    symbol: Symbol
    lower: float
    upper: float
    sign: bool
    evaluate: RowEvaluator | None

    @property
    def half(self) -> float:
        """Half the width of the range."""
        return (self.upper - self.lower) / 2

    @property
    def mid(self) -> float:
        """Middle of the range."""
        return self.lower + self.half

    def of(self, values: Values, n_rows: int) -> NDArray[np.float64]:
        """Return the symbol's value per row, clipped to its bounds; nan where it is not finite."""
        raw = (
            np.asarray(values[self.symbol.text], dtype=np.float64)
            if self.evaluate is None
            else (self.evaluate(values, n_rows))
        )
        return np.where(np.isfinite(raw), np.clip(raw, self.lower, self.upper), np.nan)


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
    evaluate : VectorEvaluator
        Gives the raw columns.
    """

    symbol: Symbol
    width: int
    radius_l1: float
    radius_l2: float
    evaluate: VectorEvaluator


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
    evaluate = _learn_scalar(symbol, schema)
    values = _finite_on_grid(symbol, evaluate, schema)
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
    evaluate = _learn_vector(symbol, schema)
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


def _finite_on_grid(symbol: Symbol, evaluate: RowEvaluator | VectorEvaluator, schema: Schema) -> NDArray[np.float64]:
    grid = factorial_values(schema, symbol.variables)
    values = evaluate(grid, len(grid[symbol.variables[0]]))
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
