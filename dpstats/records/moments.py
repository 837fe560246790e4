"""Private rows to exact integer sums, one per atom."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from dpstats.records.rows import lattice_cells
from dpstats.records.source import Partition, Source
from dpstats.specification.atoms import Atoms
from dpstats.specification.blocks import Block
from dpstats.specification.rowmap import RowMap, is_wide

EXACT_ROWS = 8_192
"""Rows whose products of 20-bit entries a float64 matrix product adds up exactly: 2**13 * 2**40 = 2**53."""

MANY_COLUMNS = 16
"""From so many columns on a matrix product is quicker than products of a matrix and a vector."""

Factor = NDArray[np.float64] | None
"""Whole numbers of at most 20 bits, one a row; None for 2**bits in every row."""


@dataclass(frozen=True, slots=True, repr=False)
class MomentSums:
    """Exact sums over some rows (zone: PRIVATE).

    Attributes
    ----------
    products : ndarray of int64
        Shape (D, D), in units of 2**(-2 bits).
    n_complete : int
        Number of complete rows.
    """

    products: NDArray[np.int64]
    n_complete: int

    def __repr__(self) -> str:
        return f"MomentSums(shape={self.products.shape})"

    def __add__(self, other: MomentSums) -> MomentSums:
        return MomentSums(self.products + other.products, self.n_complete + other.n_complete)


def exact_products(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return rows' rows for whole numbers of at most 20 bits held as float64, exactly (zone: PRIVATE)."""
    products = np.zeros((rows.shape[1], rows.shape[1]), dtype=np.int64)
    for start in range(0, len(rows), EXACT_ROWS):
        columns = rows[start : start + EXACT_ROWS].T
        products += (columns @ columns.T if len(columns) >= MANY_COLUMNS else _by_column(columns)).astype(np.int64)
    return np.tril(products) + np.tril(products, -1).T


def _by_column(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower triangle of columns @ columns.T, without putting few columns in order for a matrix product."""
    lower = np.zeros((len(columns), len(columns)))
    for j, column in enumerate(columns):
        np.matmul(columns[: j + 1], column, out=lower[j, : j + 1])
    return lower


@dataclass(frozen=True, slots=True, repr=False)
class CellSums:
    """Exact sums over some rows, those of wide blocks by cell (zone: PRIVATE).

    Attributes
    ----------
    parts : dict of (int, int) to ndarray of int64
        Products of the columns of two groups, which `_groups` numbers; the second number is at most the first. Shape
        (columns of the first, columns of the second), but (cells,) for a wide block with itself: other products of two
        of its cells are 0.
    n_complete : int
        Number of complete rows.
    """

    parts: dict[tuple[int, int], NDArray[np.int64]]
    n_complete: int

    def __repr__(self) -> str:
        return f"CellSums({len(self.parts)} parts)"

    def __add__(self, other: CellSums) -> CellSums:
        parts = {groups: part + other.parts[groups] for groups, part in self.parts.items()}
        return CellSums(parts, self.n_complete + other.n_complete)

    def at(self, left: NDArray[np.intp], right: NDArray[np.intp], blocks: Sequence[Block]) -> NDArray[np.int64]:
        """Return the sums of products of pairs of coded columns.

        Parameters
        ----------
        left, right : ndarray of int
            Coded columns, shape (K,).
        blocks : sequence of Block
            All coded blocks, in order.

        Returns
        -------
        ndarray of int64
            Shape (K,).
        """
        group, place = _groups(blocks)
        swap = group[left] < group[right]
        first, second = np.where(swap, right, left), np.where(swap, left, right)
        values = np.zeros(len(left), dtype=np.int64)
        for (one, other), part in self.parts.items():
            found = (group[first] == one) & (group[second] == other)
            if part.ndim == 1:
                found &= first == second
                values[found] = part[place[first[found]]]
            else:
                values[found] = part[place[first[found]], place[second[found]]]
        return values


def _groups(blocks: Sequence[Block]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return of each coded column its group, 0 for narrow blocks and 1, 2, ... for wide ones, and its place there."""
    widths = [block.n_columns for block in blocks]
    wide = np.array([is_wide(block) for block in blocks])
    group = np.repeat(np.where(wide, np.cumsum(wide), 0), widths)
    place = np.empty(len(group), dtype=np.intp)
    for number in range(group.max(initial=0) + 1):
        place[group == number] = np.arange(np.count_nonzero(group == number))
    return group, place


def sum_cells(partition: Partition, row_map: RowMap, bits: int) -> CellSums:
    """Return the exact second moments of one partition."""
    rows = lattice_cells(partition, row_map, bits)
    sizes = [block.n_columns for block in row_map.blocks if is_wide(block)]
    wide = list(enumerate(zip(sizes, rows.entries, rows.cells, strict=True), start=1))
    parts = {(0, 0): exact_products(rows.dense)}
    for one, (size, entry, cell) in wide:
        parts[one, 0] = _sums_by_cell(cell, size, entry, rows.dense, bits)
        parts[one, one] = _counts(cell, size, (entry, entry), bits)
        for other, (width, factor, place) in wide[: one - 1]:
            joint = _counts(cell * width + place, size * width, (entry, factor), bits)
            parts[one, other] = joint.reshape(size, width)
    return CellSums(parts, rows.n_complete)


def _sums_by_cell(
    cells: NDArray[np.intp], n_cells: int, entry: Factor, rows: NDArray[np.float64], bits: int
) -> NDArray[np.int64]:
    """Add up entry x row by cell, exactly, as `_counts` does for one column; shape (n_cells, columns of `rows`)."""
    if rows.shape[1] == 1:
        return _counts(cells, n_cells, (entry, rows[:, 0]), bits)[:, None]
    factor = np.full(len(cells), 2.0**bits) if entry is None else entry
    total = np.zeros((n_cells, rows.shape[1]), dtype=np.int64)
    for start in range(0, len(cells), EXACT_ROWS):
        block = slice(start, start + EXACT_ROWS)
        part = np.ascontiguousarray(rows[block])
        one_a_row = np.arange(len(part) + 1)
        table = csc_array((factor[block], cells[block], one_a_row), shape=(n_cells + 1, len(part)))
        total += (table @ part)[:n_cells].astype(np.int64)
    return total


def _counts(cells: NDArray[np.intp], n_cells: int, factors: tuple[Factor, Factor], bits: int) -> NDArray[np.int64]:
    """Add up products of two numbers of at most 20 bits by cell, exactly; cells from `n_cells` on are left out."""
    known = [factor for factor in factors if factor is not None]
    if not known:
        return np.bincount(cells, minlength=n_cells)[:n_cells].astype(np.int64) << (2 * bits)
    product = functools.reduce(np.multiply, known)
    total = np.zeros(n_cells, dtype=np.int64)
    step = EXACT_ROWS if len(known) == 2 else max(len(cells), 1)
    for start in range(0, len(cells), step):
        block = slice(start, start + step)
        total += np.bincount(cells[block], product[block], minlength=n_cells)[:n_cells].astype(np.int64)
    return total << (bits * (2 - len(known)))


def sum_atoms(source: Source, row_map: RowMap, atoms: Atoms, bits: int) -> NDArray[np.int64]:
    """Return the exact integer sum of every atom (zone: PRIVATE).

    Parameters
    ----------
    source : Source
        The table.
    row_map : RowMap
        From raw to coded columns, the response included.
    atoms : Atoms
        Which products to keep.
    bits : int
        Lattice; at most 20, with n * 2**(2 bits) < 2**62, so that no sum overflows.

    Returns
    -------
    ndarray of int64
        Shape (K,), in units of 2**(-2 bits); the same integers for any order and any partition of the rows.
    """
    sums: CellSums = source.map_reduce(row_map.variables, lambda part: sum_cells(part, row_map, bits), operator.add)
    values = sums.at(atoms.left, atoms.right, row_map.blocks)
    return np.where(atoms.left < 0, np.int64(sums.n_complete) << (2 * bits), values)
