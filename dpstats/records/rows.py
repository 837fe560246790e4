"""One partition of private rows, through the row map, onto the integer lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.records.source import Partition
from dpstats.specification.blocks import Block
from dpstats.specification.rowmap import RowMap, is_wide
from dpstats.specification.sensitivity import NoiseKind, lattice_radius


def lattice_rows(partition: Partition, row_map: RowMap, bits: int) -> tuple[NDArray[np.float64], int]:
    """Code a partition and round it to multiples of 2**-bits; incomplete rows become 0.

    Parameters
    ----------
    partition : Partition
        Private rows.
    row_map : RowMap
        From raw to coded columns.
    bits : int
        The lattice has step 2**-bits.

    Returns
    -------
    rows : ndarray
        PRIVATE, shape (n, D), whole numbers held as float64, at most 2**bits in absolute value.
    n_complete : int
        PRIVATE, number of complete rows.
    """
    coded = row_map.code(partition.columns, partition.n_rows, 2.0**bits)
    rows = coded.columns
    guard_vectors(rows, row_map.blocks, bits, row_map.coding.noise)
    rows[~coded.complete] = 0.0
    return rows, int(np.count_nonzero(coded.complete))


@dataclass(frozen=True, slots=True, repr=False)
class LatticeCells:
    """Rows on the lattice, blocks of many cells with one entry a row (zone: PRIVATE).

    Attributes
    ----------
    dense : ndarray
        Other columns, shape (n, d), whole numbers held as float64; 0 in incomplete rows.
    entries : tuple of ndarray or None
        Per wide block the row's entry, shape (n,), whole numbers held as float64; None for 2**bits in every row.
    cells : tuple of ndarray of int
        Per wide block the entry's column within the block, shape (n,); in incomplete rows one past the last.
    n_complete : int
        Number of complete rows.
    """

    dense: NDArray[np.float64]
    entries: tuple[NDArray[np.float64] | None, ...]
    cells: tuple[NDArray[np.intp], ...]
    n_complete: int

    def __repr__(self) -> str:
        return "LatticeCells()"


def lattice_cells(partition: Partition, row_map: RowMap, bits: int) -> LatticeCells:
    """Code a partition as `lattice_rows` does, to the same whole numbers.

    Parameters
    ----------
    partition, row_map, bits
        As for `lattice_rows`.
    """
    coded = row_map.code_cells(partition.columns, partition.n_rows, 2.0**bits)
    narrow = [block for block in row_map.blocks if not is_wide(block)]
    sizes = [block.n_columns for block in row_map.blocks if is_wide(block)]
    rows = coded.dense
    guard_vectors(rows, narrow, bits, row_map.coding.noise)
    rows[~coded.complete] = 0.0
    entries = [None if entry is None else np.rint(entry * 2.0**bits) for entry in coded.entries]
    cells = [np.where(coded.complete, cell, size) for cell, size in zip(coded.cells, sizes, strict=True)]
    return LatticeCells(rows, tuple(entries), tuple(cells), int(np.count_nonzero(coded.complete)))


def guard_vectors(rows: NDArray[np.float64], blocks: Sequence[Block], bits: int, noise: NoiseKind) -> None:
    """Set rows of a vector block to 0, in place, where their integer norm exceeds the public radius.

    The comparison is between whole numbers below 2**53, hence exact; it makes the radius hold whatever the
    floating-point errors of the spline were.
    """
    start = 0
    for block in blocks:
        part = rows[:, start : start + block.n_columns]
        if block.vectors:
            radius = lattice_radius(block.n_columns, bits, noise)
            np.clip(part, -radius, radius, out=part)
            sizes = [np.abs(column) if noise == "laplace" else column * column for column in part.T]
            norm = np.zeros(len(part))
            for size in sizes:
                norm += size
            part[norm > (radius if noise == "laplace" else radius**2)] = 0.0
        start += block.n_columns


def combine_columns(
    rows: NDArray[np.float64], weights: NDArray[np.float64], out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return rows @ weights by a loop over columns in fixed order, so that a row's value does not depend on others."""
    total = np.empty(len(rows)) if out is None else out
    used = np.flatnonzero(weights)
    if not len(used):
        total[:] = 0.0
        return total
    np.multiply(rows[:, used[0]], weights[used[0]], out=total)
    for j in used[1:]:
        total += weights[j] * rows[:, j]
    return total
