"""The symbols of a formula in one block of rows, by pure functions in which no row sees another.

A column of few whole numbers, such as an age in years, is looked up: what becomes of each number that it can be is
public, and worked out once for all rows, by the same functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.blocks import Block
from dpstats.specification.coding import Coding, NoiseKind
from dpstats.specification.coercion import coerce
from dpstats.specification.design import Design
from dpstats.specification.grids import Values
from dpstats.specification.rules import RowRules
from dpstats.specification.schema import Column, Continuous, Schema
from dpstats.specification.symbols import ScalarSymbol, VectorSymbol

FEW = 2**11
"""A column of whole numbers is looked up if its bounds are at least 0 and below this."""
NARROW = 2.0**-900
"""Ranges half so wide are divided by: what a radius over them is may be too large for a float."""
Found = tuple[NDArray[Any], NDArray[np.bool_] | None]
"""A symbol at some numbers, and where it is finite; None for everywhere."""


@dataclass(frozen=True, slots=True, repr=False)
class Numbers:
    """A scalar symbol in raw units, clipped to its bounds (zone: as the rows).

    Attributes
    ----------
    found : ndarray
        Shape (n,); with `places`, one for each of the numbers 0, 1, ... that a column can be.
    symbol : ScalarSymbol or None
        None for the two levels of a factor, as 0 and 1.
    places : ndarray of int or None
        That column, shape (n,); a number beyond them counts as the nearest.
    """

    found: NDArray[np.generic]
    symbol: ScalarSymbol | None
    places: NDArray[np.integer[Any]] | None

    def __repr__(self) -> str:
        return "Numbers()"

    def coded(
        self, radius: float = 1.0, out: NDArray[np.float64] | None = None, *, whole: bool = False
    ) -> NDArray[np.float64]:
        """Return the symbol coded to [-radius, radius], rounded to whole numbers if asked for, shape (n,)."""
        if self.places is None:
            return code_scalar(self.found, self.symbol, radius, out, whole=whole)
        return code_scalar(self.found, self.symbol, radius, whole=whole).take(self.places, mode="clip", out=out)


@dataclass(frozen=True, slots=True, repr=False)
class RowSymbols:
    """What blocks are made of (zone: as the rows).

    Attributes
    ----------
    values : dict of str to ndarray
        Coerced columns, at least those that are factors.
    numbers : dict of str to Numbers
        Scalar symbols.
    scalars : dict of str to ndarray
        Those in [-1, 1], shape (n,), that a block needs which is more than the symbol itself.
    vectors : dict of str to ndarray
        Vector symbols, shape (n, width).
    scale : ndarray or None
        A factor for the whole row, at most 1, shape (n,).
    complete : ndarray of bool
        Shape (n,).
    """

    values: Values
    numbers: Mapping[str, Numbers]
    scalars: Mapping[str, NDArray[np.float64]]
    vectors: Mapping[str, NDArray[np.float64]]
    scale: NDArray[np.float64] | None
    complete: NDArray[np.bool_]

    def __repr__(self) -> str:
        return "RowSymbols()"

    def monomial(self, block: Block) -> list[NDArray[np.float64]]:
        """Return the block's monomial per row, in a list; an empty one stands for 1."""
        powers = [_chebyshev(self.scalars[symbol], degree) for symbol, degree in block.degrees]
        return [functools.reduce(np.multiply, powers)] if powers else []

    def entry(self, block: Block) -> NDArray[np.float64] | None:
        """Return the entry of each row in a block of cells, None for 1 everywhere."""
        factors = self.monomial(block) + ([] if self.scale is None else [self.scale])
        return functools.reduce(np.multiply, factors) if factors else None

    def cell(self, block: Block) -> NDArray[np.intp]:
        """Return the column of a block of cells in which each row has its entry."""
        codes = [np.asarray(self.values[factor], dtype=np.intp) for factor in block.factors]
        return codes[0] if len(codes) == 1 else np.asarray(np.ravel_multi_index(tuple(codes), block.shape))


def is_symbol(block: Block) -> bool:
    """Tell whether a block is one scalar symbol and nothing else."""
    return block.is_single and len(block.degrees) == 1 and block.degrees[0][1] == 1


@dataclass(frozen=True, slots=True)
class SymbolPlan:
    """Which symbols blocks are made of, and from which raw columns (zone: public).

    Attributes
    ----------
    design : Design
        Declarations, symbols and what is said of rows.
    noise : {"laplace", "gaussian"}
        Which norm of a vector symbol is limited.
    names : tuple of str
        Raw columns, without that of weights.
    variables : dict of str to tuple of str
        Raw columns of each symbol.
    factored : tuple of str
        Scalar symbols that a block needs which is more than the symbol itself.
    weighted : bool
        Whether rows have weights.
    tables : dict of str to dict of str to (ndarray, ndarray or None)
        By column that may be looked up, for each of its symbols what it is at the numbers 0, 1, ..., shape (m,) or (m,
        width), and where it is finite (None for everywhere).
    """

    design: Design
    noise: NoiseKind
    names: tuple[str, ...]
    variables: Mapping[str, tuple[str, ...]]
    factored: tuple[str, ...]
    weighted: bool
    tables: Mapping[str, Mapping[str, Found]]


def plan_symbols(coding: Coding, blocks: Sequence[Block], *, with_response: bool) -> SymbolPlan:
    """Find the symbols that blocks are made of, and look-up tables of those that depend on a single bounded column.

    Parameters
    ----------
    coding : Coding
        The coded columns.
    blocks : sequence of Block
        Blocks that are wanted.
    with_response : bool
        Whether they include the response, and rows have their weights.
    """
    design = coding.design
    names = design.variables if with_response else design.regressor_variables
    scalars = dict.fromkeys(name for block in blocks for name, _ in block.degrees)
    vectors = dict.fromkeys(name for block in blocks for name in block.vectors)
    variables = {name: _variables(design.scalars.get(name), name) for name in scalars}
    variables |= {name: design.vectors[name].symbol.variables for name in vectors}
    joint = {name for used in variables.values() if len(used) > 1 for name in used}
    joint |= {name for block in blocks for name in block.factors}
    sizes = {name: _how_many(design.schema[name]) for name in names if name not in joint}
    alone = {name: [symbol for symbol, used in variables.items() if used == (name,)] for name in sizes}
    return SymbolPlan(
        design=design,
        noise=coding.noise,
        names=names,
        variables=variables,
        factored=tuple(dict.fromkeys(name for block in blocks if not is_symbol(block) for name, _ in block.degrees)),
        weighted=with_response and design.rules.weights is not None,
        tables={name: _table(name, size, design, coding.noise, alone[name]) for name, size in sizes.items() if size},
    )


def _variables(symbol: ScalarSymbol | None, name: str) -> tuple[str, ...]:
    return (name,) if symbol is None else symbol.symbol.variables


def _how_many(column: Column) -> int:
    """Return how many of the numbers 0, 1, ... to look up, 0 for none."""
    if not isinstance(column, Continuous) or column.lower < 0 or column.upper >= FEW:
        return 0
    return math.ceil(column.upper) + 1


def _table(column: str, size: int, design: Design, noise: NoiseKind, symbols: Sequence[str]) -> dict[str, Found]:
    values, _ = coerce(design.schema, {column: np.arange(size)}, size)
    table: dict[str, Found] = {}
    for name in symbols:
        found, finite = _work_out(name, design, noise, values, size)
        found.flags.writeable = False
        table[name] = found, None if finite is None or finite.all() else finite
    return table


def row_symbols(plan: SymbolPlan, columns: Mapping[str, Any], n_rows: int) -> RowSymbols:
    """Work out symbols in one block of rows.

    Parameters
    ----------
    plan : SymbolPlan
        From `plan_symbols`.
    columns : mapping of str to array
        Raw columns of length `n_rows`, ndarrays or pandas extension arrays.
    n_rows : int
        Length of the block of rows.
    """
    design, rules = plan.design, plan.design.rules
    looked_up = {name for name in plan.tables if _is_whole(columns[name])}
    read = {name: columns[name] for name in plan.names if name not in looked_up}
    values, complete = coerce(design.schema, read, n_rows, rules.missing)
    numbers: dict[str, Numbers] = {}
    vectors: dict[str, NDArray[np.float64]] = {}
    for name, used in plan.variables.items():
        places = columns[used[0]] if used[0] in looked_up else None
        if places is None:
            found, finite = _work_out(name, design, plan.noise, values, n_rows)
        else:
            found, finite = plan.tables[used[0]][name]
        if name in design.vectors:
            vectors[name] = _looked_up(found, places)
        else:
            numbers[name] = Numbers(found, design.scalars.get(name), places)
        if finite is not None:
            complete = complete & _looked_up(finite, places)
    scalars = {name: numbers[name].coded() for name in plan.factored}
    scale = None
    if plan.weighted and rules.weights is not None:
        weight, known = read_weights(rules, columns, n_rows)
        scale, complete = np.sqrt(weight / rules.weights.bounds.upper), complete & known
    complete = complete if rules.missing == "drop" else np.ones(n_rows, dtype=bool)
    return RowSymbols(values, numbers, scalars, vectors, scale, complete)


def _is_whole(raw: Any) -> bool:
    """Tell from its dtype alone whether a column holds whole numbers, none missing, that can be places in a table."""
    return type(raw) is np.ndarray and raw.dtype.kind in "iu" and np.can_cast(raw.dtype, np.intp)


def _looked_up(found: NDArray[Any], places: NDArray[np.integer[Any]] | None) -> NDArray[Any]:
    """Return what was found of each row; a number below 0 counts as 0, one beyond the table as its last."""
    return found if places is None else found.take(places, axis=0, mode="clip")


def _work_out(name: str, design: Design, noise: NoiseKind, values: Values, n_rows: int) -> Found:
    """Return a symbol, and where it is finite (None for everywhere: raw columns are coerced)."""
    if name in design.vectors:
        return _vector(design.vectors[name], noise, values, n_rows)
    symbol = design.scalars.get(name)
    if symbol is None or symbol.evaluate is None:
        return values[name], None
    raw = symbol.evaluate(values, n_rows)
    finite = np.isfinite(raw)
    return np.clip(np.where(finite, raw, symbol.mid), symbol.lower, symbol.upper), finite


def _vector(symbol: VectorSymbol, noise: NoiseKind, values: Values, n_rows: int) -> Found:
    """Return a vector symbol in units of its radius, and where it is finite; rows beyond the radius become 0."""
    raw = symbol.evaluate(values, n_rows)
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(raw), axis=1)
    radius = symbol.radius_l1 if noise == "laplace" else symbol.radius_l2
    scaled = np.where(finite[:, None], raw, 0.0) / radius
    scaled[_row_norms(scaled, noise) > 1.0] = 0.0
    return scaled, finite


def read_weights(
    rules: RowRules, columns: Mapping[str, Any], n_rows: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the clipped weight of each row, 1 without weights, and where it is known; in the zone of the rows."""
    if rules.weights is None:
        return np.ones(n_rows), np.ones(n_rows, dtype=bool)
    name = rules.weights.column
    values, known = coerce(Schema({name: rules.weights.bounds}), {name: columns[name]}, n_rows, rules.missing)
    return np.asarray(values[name], dtype=np.float64), known


def _row_norms(rows: NDArray[np.float64], noise: NoiseKind) -> NDArray[np.float64]:
    """Return each row's L1 norm, or squared L2 norm, added up column by column in fixed order."""
    total = np.zeros(len(rows))
    for column in rows.T:
        total += np.abs(column) if noise == "laplace" else column * column
    return total


def code_scalar(
    numbers: NDArray[np.generic],
    symbol: ScalarSymbol | None,
    radius: float = 1.0,
    out: NDArray[np.float64] | None = None,
    *,
    whole: bool = False,
) -> NDArray[np.float64]:
    """Map raw values to [-radius, radius], clipping what is beyond the symbol's bounds; whole numbers if asked for.

    For radii that are powers of two the codes of a value are the same number times the radius, to the last bit: columns
    that share a sum rely on it.
    """
    if symbol is None or symbol.sign:
        radius = np.rint(radius) if whole else radius
        upper = np.greater(numbers, 0.5 if numbers.dtype.kind == "f" else 0)
        coded = np.multiply(upper.view(np.int8), 2.0 * radius, out=out)
        coded -= radius
        return np.asarray(coded)
    coded = np.subtract(numbers, symbol.mid, out=out, dtype=np.float64)
    if symbol.half < NARROW:
        coded /= symbol.half
        coded *= radius
    else:
        coded *= radius / symbol.half
    np.clip(coded, -abs(radius), abs(radius), out=coded)
    return np.asarray(np.rint(coded, out=coded) if whole else coded)


def _chebyshev(z: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """T_degree(z), clipped to [-1, 1] against rounding."""
    if degree == 1:
        return z
    previous, current = np.ones_like(z), z
    for _ in range(degree - 1):
        previous, current = current, 2 * z * current - previous
    return np.clip(current, -1.0, 1.0)
