"""Rows in partitions, and what every source that reads them one after the other shares."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from dpstats.errors import DataError

BATCH_ROWS = 65_536
"""Rows that are asked of a library at a time."""
PARTITION_CELLS = 2**19
"""So much of a table stays in the processor's cache while it is worked on."""
FEWEST_ROWS, MOST_ROWS = 2**15, 2**17
"""Of a partition: calls of few rows take longer to make than to run."""
FREED_BYTES = 31 * 2**20
"""An array that glibc's allocator, once it was freed, keeps twice the size of for reuse; it forgets larger ones."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Partition:
    """Some consecutive rows of the table (zone: PRIVATE).

    Attributes
    ----------
    columns : dict of str to array
        Raw columns, ndarrays or pandas extension arrays, each of length `n_rows`.
    n_rows : int
        Number of rows.
    """

    columns: Mapping[str, Any]
    n_rows: int

    def __repr__(self) -> str:
        return f"Partition({len(self.columns)} columns)"

    def split(self, step: int | None) -> Iterator[Partition]:
        """Return the rows in one block or more of at most `step` rows; None stands for `quick_rows`."""
        step = quick_rows(len(self.columns)) if step is None else step
        for start in range(0, max(self.n_rows, 1), step):
            columns = {name: array[start : start + step] for name, array in self.columns.items()}
            yield Partition(columns, min(step, self.n_rows - start))


def quick_rows(n_columns: int) -> int:
    """Return of how many rows a partition is quick to work on; coded to twice the columns it fits `FREED_BYTES`."""
    n_columns = max(n_columns, 1)
    most = max(min(FREED_BYTES // (2 * 8 * n_columns), MOST_ROWS), 1)
    return min(max(PARTITION_CELLS // n_columns, FEWEST_ROWS), most)


class SequentialSource(ABC):
    """A table that is read in this process, one partition after the other."""

    __slots__ = ()

    is_distributed = False
    has_order = True
    partition_rows: int | None

    @abstractmethod
    def batches(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Read some columns in the table's order, in pieces of any length, at least one."""

    def partitions(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Read some columns in the table's order, in pieces that are quick to work on."""
        np.empty(FREED_BYTES, dtype=np.int8)  # else each partition's memory is returned, and asked for again
        for batch in self.batches(names):
            yield from batch.split(self.partition_rows)

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to every partition of some columns and add up the results."""
        with silence():
            return reduce(add, map(function, self.partitions(names)))


class Count:
    """The number of rows of a table, counted when it is first asked for: only where it is public (zone: public)."""

    __slots__ = ("_count", "known")

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self.known: int | None = None

    def __call__(self) -> int:
        """Return the number.

        Raises
        ------
        DataError
            If counting failed; says no more than that.
        """
        if self.known is None:
            self.known = closed(self._count, "the rows of data could not be counted; nothing was spent")
        return self.known

    def check(self, found: int) -> None:
        """Stop a reading, in the private zone, that found another number of rows than was promised.

        Raises
        ------
        DataError
            If the number is public and another one.
        """
        if self.known not in (None, found):
            raise DataError("the table has changed since its rows were counted")


def closed(facts: Callable[[], T], message: str) -> T:
    """Return a public fact; what another library raises on the way may show cells or paths and does not get out.

    Parameters
    ----------
    facts : callable
        Asks another library.
    message : str
        What to say if it fails.

    Raises
    ------
    DataError
        If it failed.
    """
    found = _attempt(facts)
    if found is None:
        raise DataError(message)
    return found


def _attempt(facts: Callable[[], T]) -> T | None:
    try:
        with silence():
            return facts()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of polars is no Exception
        return None


class _Filters:
    """The state of Python's warnings, silenced while any thread wants it so; the module itself knows no threads."""

    def __init__(self) -> None:
        self.lock, self.depth = threading.Lock(), 0
        self.saved = warnings.catch_warnings()

    def enter(self) -> None:
        with self.lock:
            if self.depth == 0:
                self.saved = warnings.catch_warnings()
                self.saved.__enter__()
                warnings.simplefilter("ignore")
            self.depth += 1

    def leave(self) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.saved.__exit__(None, None, None)


_FILTERS = _Filters()


@contextmanager
def silence() -> Iterator[None]:
    """Keep numpy and warnings quiet: whether they would speak depends on private values."""
    _FILTERS.enter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _FILTERS.leave()
