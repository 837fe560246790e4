"""The first rows of each person: a table in which nobody has more than k rows, whatever the others have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.records.source import Partition, Source, silence
from dpstats.specification.coercion import to_distinct
from dpstats.specification.schema import TableFacts

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class LimitedSource:
    """A table (zone: PRIVATE) of which the first k rows of each person are read, in the table's order.

    Whether a row is read depends on the rows of its own person alone, those above it. A row that names no person is not
    read.
    """

    source: Source
    unit: str
    contributions: int

    def __repr__(self) -> str:
        return "LimitedSource()"

    is_distributed = False
    has_order = True

    @property
    def facts(self) -> TableFacts:
        """Public facts of the whole table."""
        return self.source.facts

    @property
    def n_rows(self) -> int:
        """Length of the whole table, which is private."""
        return self.source.n_rows

    def partitions(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Return what is read of every partition, one after the other."""
        seen: dict[Hashable, int] = {}
        for partition in self.source.partitions(tuple(dict.fromkeys((*names, self.unit)))):
            keep = first_rows(partition.columns[self.unit], self.contributions, seen)
            yield Partition({name: partition.columns[name][keep] for name in names}, int(keep.sum()))

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to what is read of every partition, one after the other in this process, and add up."""
        with silence():
            return reduce(add, map(function, self.partitions(names)))


def first_rows(identities: Any, contributions: int, seen: dict[Hashable, int]) -> NDArray[np.bool_]:
    """Mark the rows that are among the first k of their person (zone: PRIVATE).

    Parameters
    ----------
    identities : ndarray or pandas extension array
        The column that tells persons apart, shape (n,).
    contributions : int
        k.
    seen : dict
        Rows of each person in earlier partitions; brought up to date.

    Returns
    -------
    ndarray of bool
        Shape (n,).
    """
    found = to_distinct(identities)
    before = np.array([seen.get(person, 0) for person in found.cells], dtype=np.int64)
    totals = np.bincount(found.codes[found.codes >= 0], minlength=len(before))
    seen.update(zip(found.cells, (before + totals).tolist(), strict=True))
    codes = pd.Series(found.codes)
    rank = codes.groupby(codes).cumcount().to_numpy() + np.append(before, 0)[found.codes]
    return np.asarray((found.codes >= 0) & (rank < contributions))
