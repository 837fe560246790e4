"""A table whose readings report how far they are: for tables of public length only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dpstats.records.source import Partition, Source
from dpstats.specification.schema import TableFacts

T = TypeVar("T")


class Watcher(Protocol):
    """What is told how far a reading is."""

    def begin(self, n_rows: int) -> None:
        """Start a reading of so many rows; 0 if none is under way."""

    def advance(self, n_rows: int) -> None:
        """Count rows of the reading."""


@dataclass(frozen=True, slots=True, repr=False)
class WatchedSource:
    """A table (zone: PRIVATE) that reports how many of its public number of rows were read."""

    source: Source
    watcher: Watcher

    def __repr__(self) -> str:
        return f"WatchedSource({self.source!r})"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the table."""
        return self.source.facts

    @property
    def n_rows(self) -> int:
        """Length of the table."""
        return self.source.n_rows

    @property
    def has_order(self) -> bool:
        """As the table's."""
        return self.source.has_order

    @property
    def is_distributed(self) -> bool:
        """As the table's."""
        return self.source.is_distributed

    def partitions(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Read some columns, one partition after the other."""
        return self.source.partitions(names)

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to every partition and add up; other processes, which have no watcher, report nothing."""
        if self.source.is_distributed:
            return self.source.map_reduce(names, function, add)
        watcher = self.watcher

        def watched(partition: Partition) -> T:
            watcher.advance(partition.n_rows)
            return function(partition)

        watcher.begin(self.n_rows)
        try:
            return self.source.map_reduce(names, watched, add)
        finally:
            watcher.begin(0)


def unwatched(source: Source) -> Source:
    """Return a table whose readings report nothing: how many of them an iteration takes is private."""
    return source.source if isinstance(source, WatchedSource) else source
