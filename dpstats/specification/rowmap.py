"""The row map: one block of rows becomes coded columns, by pure functions in which no row sees another.

It is applied to private rows by ``records/`` and to public rows by the design check. Whatever a cell holds, the outcome
is a coded row or an incomplete one: nothing here raises or warns on a value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.blocks import Block
from dpstats.specification.coding import Coding, NoiseKind
from dpstats.specification.coercion import coerce
from dpstats.specification.grids import Values
from dpstats.specification.rules import RowRules
from dpstats.specification.schema import Schema
from dpstats.specification.symbols import ScalarSymbol


@dataclass(frozen=True, slots=True, repr=False)
class CodedRows:
    """Coded rows, in the zone of the rows they were made from.

    Attributes
    ----------
    columns : ndarray
        Shape (n, D), the response last; an entry is at most its column's radius in absolute value. Rows that are not
        complete hold numbers without meaning.
    complete : ndarray of bool
        Shape (n,).
    """

    columns: NDArray[np.float64]
    complete: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"CodedRows({self.columns.shape[1]} columns)"


WIDE = 16
"""Blocks of at least so many cells are worth counting cell by cell instead of multiplying out."""


def is_wide(block: Block) -> bool:
    """Tell whether a block is one of many cells of factors."""
    return bool(block.factors) and not block.vectors and block.n_columns >= WIDE


@dataclass(frozen=True, slots=True, repr=False)
class CodedCells:
    """Coded rows with one entry for each block of many cells, in the zone of the rows they were made from.

    Attributes
    ----------
    dense : ndarray
        Columns of the other blocks, in order, shape (n, d); an entry is at most the radius in absolute value.
    entries : tuple of ndarray or None
        Per wide block each row's entry, shape (n,); None where it is 1 in every row. Blocks may share an array.
    cells : tuple of ndarray of int
        Per wide block the column, within the block, that holds it, shape (n,).
    complete : ndarray of bool
        Shape (n,); other rows hold numbers without meaning.
    """

    dense: NDArray[np.float64]
    entries: tuple[NDArray[np.float64] | None, ...]
    cells: tuple[NDArray[np.intp], ...]
    complete: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"CodedCells({self.dense.shape[1]} columns, {len(self.entries)} wide blocks)"


@dataclass(frozen=True, slots=True, repr=False)
class _Symbols:
    """What blocks are made of (zone: as the rows).

    Attributes
    ----------
    values : dict of str to ndarray
        Coerced columns.
    numbers : dict of str to ndarray
        Scalar symbols in raw units, clipped to their bounds.
    scalars : dict of str to ndarray
        Those in [-1, 1] that a block needs which is more than the symbol itself.
    vectors : dict of str to ndarray
        Vector symbols, shape (n, width).
    scale : ndarray or None
        A factor for the whole row, at most 1.
    complete : ndarray of bool
        Shape (n,).
    """

    values: Values
    numbers: Mapping[str, NDArray[np.generic]]
    scalars: Mapping[str, NDArray[np.float64]]
    vectors: Mapping[str, NDArray[np.float64]]
    scale: NDArray[np.float64] | None
    complete: NDArray[np.bool_]

    def __repr__(self) -> str:
        return "_Symbols()"

    def powers(self, block: Block) -> list[NDArray[np.float64]]:
        """Return the factors of the block's monomial per row."""
        return [_chebyshev(self.scalars[symbol], degree) for symbol, degree in block.degrees]

    def entry(self, block: Block) -> NDArray[np.float64] | None:
        """Return the entry of each row in a block of cells, None for 1 everywhere."""
        factors = self.powers(block) + ([] if self.scale is None else [self.scale])
        return functools.reduce(np.multiply, factors) if factors else None

    def cell(self, block: Block) -> NDArray[np.intp]:
        """Return the column of a block of cells in which each row has its entry."""
        codes = [np.asarray(self.values[factor], dtype=np.intp) for factor in block.factors]
        return codes[0] if len(codes) == 1 else np.asarray(np.ravel_multi_index(tuple(codes), block.shape))


@dataclass(frozen=True, slots=True)
class RowMap:
    """From raw columns to coded columns (zone: public; it holds no rows).

    Parameters
    ----------
    coding : Coding
        The coded columns wanted.
    with_response : bool
        False leaves the response and the weights out, for prediction.
    """

    coding: Coding
    with_response: bool = True

    @property
    def variables(self) -> tuple[str, ...]:
        """Raw columns that are read."""
        design = self.coding.design
        return design.read_variables if self.with_response else design.regressor_variables

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks that are coded, in order."""
        return self.coding.all_blocks if self.with_response else self.coding.blocks

    def code(self, columns: Mapping[str, Any], n_rows: int, radii: NDArray[np.float64] | float = 1.0) -> CodedRows:
        """Code one block of rows.

        Parameters
        ----------
        columns : mapping of str to array
            Raw columns of length `n_rows`, ndarrays or pandas extension arrays; at least `variables`.
        n_rows : int
            Length of the block.
        radii : ndarray or float, optional
            What 1 becomes in each coded column, shape (D,), or in all; a negative one turns the column's sign.
        """
        symbols = self._symbols(columns, n_rows)
        return CodedRows(self._columns(self.blocks, symbols, radii), symbols.complete)

    def code_cells(self, columns: Mapping[str, Any], n_rows: int, radius: float) -> CodedCells:
        """Code one block of rows, blocks of many cells as the cell of each row and its entry there.

        Parameters
        ----------
        columns, n_rows
            As for `code`.
        radius : float
            What 1 becomes in the columns of other blocks.
        """
        symbols = self._symbols(columns, n_rows)
        dense = self._columns([block for block in self.blocks if not is_wide(block)], symbols, radius)
        entries = [symbols.entry(block) for block in self.blocks if is_wide(block)]
        cells = [symbols.cell(block) for block in self.blocks if is_wide(block)]
        return CodedCells(dense, tuple(entries), tuple(cells), symbols.complete)

    def _columns(
        self, blocks: Sequence[Block], symbols: _Symbols, radii: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        size = sum(block.n_columns for block in blocks)
        coded, each = np.empty((len(symbols.complete), size), order="F"), np.broadcast_to(radii, size)
        start = 0
        for block in blocks:
            stop = start + block.n_columns
            if _is_symbol(block):
                [(name, _)] = block.degrees
                _code_scalar(symbols.numbers[name], self.coding.design.scalars.get(name), each[start], coded[:, start])
            else:
                _fill(coded[:, start:stop], block, symbols, each[start:stop])
            start = stop
        if symbols.scale is not None:
            coded *= symbols.scale[:, None]
        return coded

    def _symbols(self, columns: Mapping[str, Any], n_rows: int) -> _Symbols:
        design, missing = self.coding.design, self.coding.design.rules.missing
        names = design.variables if self.with_response else design.regressor_variables
        values, complete = coerce(design.schema, {name: columns[name] for name in names}, n_rows, missing)
        numbers: dict[str, NDArray[np.generic]] = {}
        for name in {symbol for block in self.blocks for symbol, _ in block.degrees}:
            numbers[name], finite = self._numbers(name, values, n_rows)
            complete = complete if finite is None else complete & finite
        factors = {symbol for block in self.blocks if not _is_symbol(block) for symbol, _ in block.degrees}
        scalars = {name: _code_scalar(numbers[name], design.scalars.get(name)) for name in factors}
        vectors: dict[str, NDArray[np.float64]] = {}
        for name in {vector for block in self.blocks for vector in block.vectors}:
            vectors[name], finite = self._vector(name, values, n_rows)
            complete = complete & finite
        scale = None
        if self.with_response and design.rules.weights is not None:
            weight, known = read_weights(design.rules, columns, n_rows)
            scale, complete = np.sqrt(weight / design.rules.weights.bounds.upper), complete & known
        complete = complete if missing == "drop" else np.ones(n_rows, dtype=bool)
        return _Symbols(values, numbers, scalars, vectors, scale, complete)

    def _numbers(self, name: str, values: Values, n_rows: int) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
        """Return a scalar symbol, clipped, and where it is finite (None for everywhere: raw columns are coerced)."""
        symbol = self.coding.design.scalars.get(name)
        if symbol is None or symbol.evaluate is None:
            return values[name], None
        raw = symbol.evaluate(values, n_rows)
        finite = np.isfinite(raw)
        return np.clip(np.where(finite, raw, symbol.mid), symbol.lower, symbol.upper), finite

    def _vector(self, name: str, values: Values, n_rows: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        symbol = self.coding.design.vectors[name]
        raw = symbol.evaluate(values, n_rows)
        finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(raw), axis=1)
        radius = symbol.radius_l1 if self.coding.noise == "laplace" else symbol.radius_l2
        scaled = np.where(finite[:, None], raw, 0.0) / radius
        scaled[_row_norms(scaled, self.coding.noise) > 1.0] = 0.0
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


def _is_symbol(block: Block) -> bool:
    """Tell whether a block is one scalar symbol and nothing else."""
    return block.is_single and [degree for _, degree in block.degrees] == [1]


def _code_scalar(
    numbers: NDArray[np.generic],
    symbol: ScalarSymbol | None,
    radius: float = 1.0,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Map clipped raw values to [-radius, radius]."""
    if symbol is None or symbol.sign:
        coded = np.multiply(np.greater(numbers, 0.5).view(np.int8), 2.0 * radius, out=out)
        coded -= radius
        return np.asarray(coded)
    coded = np.subtract(numbers, symbol.mid, out=out, dtype=np.float64)
    coded /= symbol.half
    coded *= radius
    return np.asarray(np.clip(coded, -abs(radius), abs(radius), out=coded))


def _fill(target: NDArray[np.float64], block: Block, symbols: _Symbols, radii: NDArray[np.float64]) -> None:
    """Write the columns of one block: monomial x cell indicator x vector column, in fixed order, x radius."""
    powers = symbols.powers(block)
    for j, (position, radius) in enumerate(zip(block.positions(), radii, strict=True)):
        cells = [symbols.values[factor] == level for factor, level in zip(block.factors, position, strict=False)]
        places = zip(block.vectors, position[len(block.factors) :], strict=True)
        columns = [symbols.vectors[vector][:, k] for vector, k in places]
        if not (powers or cells or columns):
            target[:, j] = radius
            continue
        np.multiply(functools.reduce(np.multiply, [*powers, *cells, *columns]), radius, out=target[:, j])
        if columns:  # within the unit ball up to rounding
            np.clip(target[:, j], -abs(radius), abs(radius), out=target[:, j])


def _chebyshev(z: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """T_degree(z), clipped to [-1, 1] against rounding."""
    if degree == 1:
        return z
    previous, current = np.ones_like(z), z
    for _ in range(degree - 1):
        previous, current = current, 2 * z * current - previous
    return np.clip(current, -1.0, 1.0)
