"""Private rows to exact integer sums, one per atom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.records.rows import lattice_rows
from dpstats.records.source import Partition, Source
from dpstats.specification.atoms import Atoms
from dpstats.specification.rowmap import RowMap

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
    sums = source.map_reduce(row_map.variables, lambda part: sum_partition(part, row_map, bits), lambda a, b: a + b)
    values = sums.products[atoms.left, atoms.right]
    return np.where(atoms.left < 0, np.int64(sums.n_complete) << (2 * bits), values)
