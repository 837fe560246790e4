"""Private rows to exact integer sums, one per atom."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from dpstats.records.rows import lattice_cells, lattice_rows
from dpstats.records.source import Partition, Source
from dpstats.specification.atoms import Atoms
from dpstats.specification.blocks import Block
from dpstats.specification.rowmap import RowMap, is_wide

EXACT_ROWS = 8_192
"""Rows whose products of 20-bit entries a float64 matrix product adds up exactly: 2**13 * 2**40 = 2**53."""


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


def sum_partition(partition: Partition, row_map: RowMap, bits: int) -> MomentSums:
    """Return the exact second moments of one partition."""
    rows, n_complete = lattice_rows(partition, row_map, bits)
    return MomentSums(exact_products(rows), n_complete)


def exact_products(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return rows' rows for whole numbers of at most 20 bits held as float64, exactly (zone: PRIVATE)."""
    products = np.zeros((rows.shape[1], rows.shape[1]), dtype=np.int64)
    for start in range(0, len(rows), EXACT_ROWS):
        block = rows[start : start + EXACT_ROWS]
        products += (block.T @ block).astype(np.int64)
    return products


@dataclass(frozen=True, slots=True, repr=False)
class CellSums:
    """Exact sums over some rows, those of wide blocks counted cell by cell (zone: PRIVATE).

    Attributes
    ----------
    parts : tuple of ndarray of int64
        Products of the narrow columns with each other, shape (d, d); then for each wide block those with the narrow
        columns, shape (cells, d), its squares, shape (cells,), and those with each earlier wide block, shape
        (cells, cells of the earlier one).
    n_complete : int
        Number of complete rows.
    """

    parts: tuple[NDArray[np.int64], ...]
    n_complete: int

    def __repr__(self) -> str:
        return f"CellSums({len(self.parts)} parts)"

    def __add__(self, other: CellSums) -> CellSums:
        parts = tuple(one + two for one, two in zip(self.parts, other.parts, strict=True))
        return CellSums(parts, self.n_complete + other.n_complete)

    def spread(self, blocks: Sequence[Block]) -> MomentSums:
        """Return what `sum_partition` would give for the same rows.

        Parameters
        ----------
        blocks : sequence of Block
            All coded blocks, in order.
        """
        columns = np.arange(sum(block.n_columns for block in blocks))
        starts = np.cumsum([0, *(block.n_columns for block in blocks)])
        spans = [columns[start:stop] for start, stop in itertools.pairwise(starts)]
        wide = [span for span, block in zip(spans, blocks, strict=True) if is_wide(block)]
        narrow = np.concatenate([span for span, block in zip(spans, blocks, strict=True) if not is_wide(block)])
        products = np.zeros((len(columns), len(columns)), dtype=np.int64)
        parts = iter(self.parts)
        products[np.ix_(narrow, narrow)] = next(parts)
        for b, span in enumerate(wide):
            for other in (narrow, span, *wide[:b]):
                table = np.diag(next(parts)) if other is span else next(parts)
                products[np.ix_(span, other)], products[np.ix_(other, span)] = table, table.T
        return MomentSums(products, self.n_complete)


def sum_cells(partition: Partition, row_map: RowMap, bits: int) -> CellSums:
    """Return the exact second moments of one partition, those of wide blocks counted cell by cell."""
    rows = lattice_cells(partition, row_map, bits)
    sizes = [block.n_columns for block in row_map.blocks if is_wide(block)]
    parts = [exact_products(rows.dense)]
    for b, (size, entry, cell) in enumerate(zip(sizes, rows.entries, rows.cells, strict=True)):
        parts += [_sums_by_cell(cell, entry, rows.dense, size), _counts(cell, entry * entry, size)]
        for other, factor, place in zip(sizes[:b], rows.entries[:b], rows.cells[:b], strict=True):
            joint = _counts(cell * other + place, entry * factor, size * other)
            parts.append(joint.reshape(size, other))
    return CellSums(tuple(parts), rows.n_complete)


def _sums_by_cell(
    cells: NDArray[np.intp], entries: NDArray[np.float64], rows: NDArray[np.float64], n_cells: int
) -> NDArray[np.int64]:
    """Add up entry x row, products of at most 40 bits, by cell, exactly; shape (n_cells, columns of `rows`)."""
    total = np.zeros((n_cells, rows.shape[1]), dtype=np.int64)
    for start in range(0, len(cells), EXACT_ROWS):
        block = slice(start, start + EXACT_ROWS)
        part = np.ascontiguousarray(rows[block])
        one_a_row = np.arange(len(part) + 1)
        table = csc_array((entries[block], cells[block], one_a_row), shape=(n_cells, len(part)))
        total += (table @ part).astype(np.int64)
    return total


def _counts(cells: NDArray[np.intp], products: NDArray[np.float64], n_cells: int) -> NDArray[np.int64]:
    """Add up products of at most 40 bits by cell, exactly."""
    total = np.zeros(n_cells, dtype=np.int64)
    for start in range(0, len(cells), EXACT_ROWS):
        block = slice(start, start + EXACT_ROWS)
        total += np.bincount(cells[block], products[block], minlength=n_cells).astype(np.int64)
    return total


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
    if any(map(is_wide, row_map.blocks)):
        cells = source.map_reduce(row_map.variables, lambda part: sum_cells(part, row_map, bits), operator.add)
        sums = cells.spread(row_map.blocks)
    else:
        sums = source.map_reduce(row_map.variables, lambda part: sum_partition(part, row_map, bits), operator.add)
    values = sums.products[atoms.left, atoms.right]
    return np.where(atoms.left < 0, np.int64(sums.n_complete) << (2 * bits), values)
