"""Private columns to exact counts of the values that occur."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.records.source import Partition, Source
from dpstats.specification.coercion import LARGEST_WHOLE, kind_of, to_distinct

Level = str | int | float | bool


@dataclass(frozen=True, slots=True, repr=False)
class LevelCounts:
    """Values that occur in some columns, with their counts (zone: PRIVATE).

    Attributes
    ----------
    levels : tuple of list
        Per column, in no particular order.
    counts : tuple of ndarray of int64
        Per column, at least 1.
    """

    levels: tuple[list[Level], ...]
    counts: tuple[NDArray[np.int64], ...]

    def __repr__(self) -> str:
        return "LevelCounts()"


def count_levels(source: Source, names: tuple[str, ...]) -> LevelCounts:
    """Count the rows of each value that could be a level; a row has at most one in each column.

    Parameters
    ----------
    source : Source
        The table.
    names : tuple of str
        Columns.
    """

    def of(partition: Partition) -> tuple[Counter[Level], ...]:
        return tuple(_counts(partition.columns[name]) for name in names)

    found = source.map_reduce(names, of, lambda a, b: tuple(one + other for one, other in zip(a, b, strict=True)))
    return LevelCounts(
        tuple(list(counter) for counter in found),
        tuple(np.array(list(counter.values()), dtype=np.int64) for counter in found),
    )


def _counts(values: Any) -> Counter[Level]:
    found = to_distinct(values)
    totals = np.bincount(found.codes[found.codes >= 0], minlength=len(found.cells)).tolist()
    is_bool = kind_of(values.dtype) == "bool"
    counted = zip(found.cells, totals, strict=True)
    return Counter({bool(cell) if is_bool else cell: total for cell, total in counted if _is_level(cell)})


def _is_level(cell: Level) -> bool:
    return cell.isprintable() if isinstance(cell, str) else abs(cell) <= LARGEST_WHOLE
