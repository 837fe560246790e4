"""The row map: one block of rows becomes coded columns, by pure functions in which no row sees another.

It is applied to private rows by ``records/`` and to public rows by the design check. Whatever a cell holds, the outcome
is a coded row or an incomplete one: nothing here raises or warns on a value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.blocks import Block
from dpstats.specification.coding import Coding
from dpstats.specification.row_symbols import RowSymbols, SymbolPlan, is_symbol, plan_symbols, row_symbols


@dataclass(frozen=True, slots=True, repr=False)
class CodedRows:
    """Coded rows, in the zone of the rows they were made from.

    Attributes
    ----------
    columns : ndarray
        Shape (n, D), the response last; an entry is at most its column's radius in absolute value, or the radius
        rounded where entries are whole. Rows that are not complete hold numbers without meaning.
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
        Columns of the other blocks, in order, shape (n, d): whole numbers, at most the radius in absolute value.
    entries : tuple of ndarray or None
        Per wide block each row's entry, shape (n,), in [-1, 1] and not rounded; None where it is 1 in every row. Blocks
        may share an array.
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


@dataclass(frozen=True)
class RowMap:
    """From raw columns to coded columns (zone: public; it holds no rows). One serves all partitions of a table.

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

    def code(
        self, columns: Mapping[str, Any], n_rows: int, radii: NDArray[np.float64] | float | None = None
    ) -> CodedRows:
        """Code one block of rows.

        Parameters
        ----------
        columns : mapping of str to array
            Raw columns of length `n_rows`, ndarrays or pandas extension arrays; at least `variables`.
        n_rows : int
            Length of the block.
        radii : ndarray or float, optional
            What 1 becomes in each coded column, shape (D,), or in all, before entries are rounded to whole numbers; a
            negative one turns the column's sign. By default entries are in [-1, 1] and not rounded.
        """
        symbols = row_symbols(self._plan, columns, n_rows)
        return CodedRows(self._columns(self.blocks, symbols, radii), symbols.complete)

    def code_cells(self, columns: Mapping[str, Any], n_rows: int, radius: float) -> CodedCells:
        """Code one block of rows, blocks of many cells as the cell of each row and its entry there.

        Parameters
        ----------
        columns, n_rows
            As for `code`.
        radius : float
            What 1 becomes in the columns of other blocks, a whole number, before their entries are rounded.
        """
        symbols = row_symbols(self._plan, columns, n_rows)
        dense = self._columns([block for block in self.blocks if not is_wide(block)], symbols, radius)
        entries = [symbols.entry(block) for block in self.blocks if is_wide(block)]
        cells = [symbols.cell(block) for block in self.blocks if is_wide(block)]
        return CodedCells(dense, tuple(entries), tuple(cells), symbols.complete)

    def _columns(
        self, blocks: Sequence[Block], symbols: RowSymbols, radii: NDArray[np.float64] | float | None
    ) -> NDArray[np.float64]:
        size = sum(block.n_columns for block in blocks)
        coded = np.empty((len(symbols.complete), size), order="F")
        each = np.broadcast_to(1.0 if radii is None else radii, size)
        whole = radii is not None and symbols.scale is None  # rounded while a column is in the processor's cache
        start = 0
        for block in blocks:
            stop = start + block.n_columns
            if is_symbol(block):
                [(name, _)] = block.degrees
                symbols.numbers[name].coded(each[start], coded[:, start], whole=whole)
            else:
                _fill(coded[:, start:stop], block, symbols, each[start:stop], whole=whole)
            start = stop
        if symbols.scale is not None:
            coded *= symbols.scale[:, None]
            if radii is not None:
                np.rint(coded, out=coded)
        return coded

    @cached_property
    def _plan(self) -> SymbolPlan:
        return plan_symbols(self.coding, self.blocks, with_response=self.with_response)


def _fill(
    target: NDArray[np.float64], block: Block, symbols: RowSymbols, radii: NDArray[np.float64], *, whole: bool
) -> None:
    """Write the columns of one block: monomial x cell indicator x vector column, in fixed order, x radius."""
    first = symbols.monomial(block)
    for j, (position, radius) in enumerate(zip(block.positions(), radii, strict=True)):
        cells = [symbols.values[factor] == level for factor, level in zip(block.factors, position, strict=False)]
        places = zip(block.vectors, position[len(block.factors) :], strict=True)
        columns = [symbols.vectors[vector][:, k] for vector, k in places]
        column = target[:, j]
        if first or cells or columns:
            np.multiply(functools.reduce(np.multiply, [*first, *cells, *columns]), radius, out=column)
        else:
            column[:] = radius
        if columns:  # within the unit ball up to rounding
            np.clip(column, -abs(radius), abs(radius), out=column)
        if whole:
            np.rint(column, out=column)
