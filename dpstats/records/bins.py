"""Private columns to exact counts of public bins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpstats.records.source import Partition, Source
from dpstats.specification.bins import ANYTHING, Grid
from dpstats.specification.coercion import coerce
from dpstats.specification.schema import Schema


def count_bins(source: Source, grids: Mapping[str, Grid]) -> NDArray[np.int64]:
    """Return the number of rows in each bin of each column, one column after the other (zone: PRIVATE).

    Parameters
    ----------
    source : Source
        The table.
    grids : mapping of str to Grid
        Bins of each column. A missing entry is in none.
    """

    def of(partition: Partition) -> NDArray[np.int64]:
        found = []
        for name, grid in grids.items():
            column = {name: partition.columns[name]}
            values, complete = coerce(Schema({name: ANYTHING}), column, partition.n_rows)
            numbers = grid.number(np.asarray(values[name], dtype=np.float64))
            found.append(np.bincount(numbers[complete], minlength=grid.n_bins + 1)[: grid.n_bins])
        return np.concatenate(found).astype(np.int64)

    counts: NDArray[np.int64] = source.map_reduce(tuple(grids), of, lambda a, b: a + b)
    return counts
