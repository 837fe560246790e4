"""Public frames: tables made of declared bounds and levels only, on which formulas are learned and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import SchemaError
from dpstats.specification.evaluate import without_sign_of_zero
from dpstats.specification.schema import Categorical, Continuous, Schema

SCHEMA_ROWS = 500
FACTORIAL_ROWS = 50_000

Values = dict[str, NDArray[np.generic]]
"""Per column numbers of a continuous column, or codes 0, 1, ... of the others."""


def as_frame(schema: Schema, values: Mapping[str, NDArray[np.generic]]) -> pd.DataFrame:
    """Return a frame as formulas see it.

    Parameters
    ----------
    schema : Schema
        Declarations of the columns.
    values : mapping of str to ndarray
        Per column an array of shape (n,): numbers of a continuous column, codes 0, 1, ... of the others.

    Returns
    -------
    pandas.DataFrame
        Shape (n, k): float64, categorical with all declared levels, or 0/1 as int64 or bool.
    """
    return pd.DataFrame({name: _as_column(schema, name, array) for name, array in values.items()})


def _as_column(schema: Schema, name: str, array: NDArray[np.generic]) -> pd.Series:
    column = schema[name]
    if isinstance(column, Continuous):
        return pd.Series(without_sign_of_zero(array))
    if isinstance(column, Categorical):
        return pd.Series(pd.Categorical.from_codes(array.astype(np.int64), categories=pd.Index(column.levels)))
    return pd.Series(array.astype(bool) if isinstance(column.levels[0], bool) else array.astype(np.int64))


def quoting(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the context in which formulaic evaluates a frame: ``Q('name')`` finds a column, anywhere in a term."""
    return {"Q": frame.__getitem__}


def n_codes(schema: Schema, name: str) -> int:
    """Return the number of levels of a categorical or binary column."""
    column = schema[name]
    if isinstance(column, Continuous):
        raise SchemaError(f"column {name!r} has bounds, not levels")
    return len(column.levels)


def schema_frame(schema: Schema, names: Sequence[str]) -> pd.DataFrame:
    """Return the frame on which stateful transforms are learned: even grids over the bounds, levels in turn."""
    return as_frame(schema, schema_values(schema, names))


def schema_values(schema: Schema, names: Sequence[str]) -> Values:
    """Return the columns of `schema_frame`: numbers, or codes."""
    values: Values = {}
    n = max([SCHEMA_ROWS, *(n_codes(schema, name) for name in names if not isinstance(schema[name], Continuous))])
    for name in names:
        column = schema[name]
        if isinstance(column, Continuous):
            values[name] = np.linspace(column.lower, column.upper, n)
        else:
            values[name] = np.arange(n) % len(column.levels)
    return values


def factorial_values(schema: Schema, names: Sequence[str]) -> Values:
    """Return the full factorial grid over a few columns, with at most about 50,000 rows: numbers, or codes."""
    coded = [n_codes(schema, name) for name in names if not isinstance(schema[name], Continuous)]
    numeric = len(names) - len(coded)
    points = max(2, math.floor((FACTORIAL_ROWS / math.prod(coded)) ** (1 / numeric))) if numeric else 0
    axes = [
        np.linspace(column.lower, column.upper, points)
        if isinstance(column, Continuous)
        else np.arange(len(column.levels))
        for column in (schema[name] for name in names)
    ]
    mesh = np.meshgrid(*axes, indexing="ij")
    return {name: axis.ravel() for name, axis in zip(names, mesh, strict=True)}


def spread_frame(schema: Schema, names: Sequence[str], n: int, fill: float | Mapping[str, float] = 1.0) -> pd.DataFrame:
    """Return `n` public rows spread over all columns jointly; nothing is random.

    Numbers follow an additive recurrence. Levels are equally frequent, in an order of their own for each column that
    looks random: two recurrences can leave cells of two factors empty however many rows there are.

    Parameters
    ----------
    schema : Schema
        Declarations.
    names : sequence of str
        Columns wanted.
    n : int
        Rows wanted.
    fill : float or mapping of str to float
        Share of its declared range, about the middle, over which a continuous column is spread.
    """
    steps = np.sqrt(first_primes(len(names)))
    values: Values = {}
    for position, (name, step) in enumerate(zip(names, steps, strict=True)):
        column = schema[name]
        if isinstance(column, Continuous):
            uniform = np.modf((np.arange(1, n + 1) + 0.5) * step)[0]
            share = fill if isinstance(fill, float) else fill.get(name, 1.0)
            values[name] = column.mid + share * column.half * (2 * uniform - 1)
        else:
            values[name] = _shuffled(n, position) % len(column.levels)
    return as_frame(schema, values)


def _shuffled(n: int, column: int) -> NDArray[np.int64]:
    """Return 0, .., n - 1 in a fixed order without pattern, another one for each column (splitmix64, Steele 2014)."""
    z = np.arange(1, n + 1, dtype=np.uint64) + np.uint64(column + 1) * np.uint64(2**32)
    z *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")


def first_primes(count: int) -> list[int]:
    """Return the first primes; their square roots are steps without common periods."""
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found
