"""Private rows to exact counts of the cells that occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.records.source import Partition, Source
from dpstats.specification.cells import CellGrid
from dpstats.specification.coercion import coerce


@dataclass(frozen=True, slots=True, repr=False)
class CellCounts:
    """Cells that occur, with their counts (zone: PRIVATE).

    Attributes
    ----------
    cells : ndarray of int64
        Shape (m,), increasing.
    counts : ndarray of int64
        Shape (m,), at least 1.
    """

    cells: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __repr__(self) -> str:
        return "CellCounts()"

    def __add__(self, other: CellCounts) -> CellCounts:
        cells, where = np.unique(np.concatenate([self.cells, other.cells]), return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, where, np.concatenate([self.counts, other.counts]))
        return CellCounts(cells, counts)


def count_cells(source: Source, grid: CellGrid) -> CellCounts:
    """Count the complete rows of each cell that occurs; one row moves at most two counts, by one each.

    Parameters
    ----------
    source : Source
        The table.
    grid : CellGrid
        The cells.
    """

    def partition_counts(partition: Partition) -> CellCounts:
        values, complete = coerce(grid.schema, partition.columns, partition.n_rows)
        return CellCounts(*np.unique(grid.number(values)[complete], return_counts=True))

    counts: CellCounts = source.map_reduce(grid.names, partition_counts, lambda a, b: a + b)
    return counts
