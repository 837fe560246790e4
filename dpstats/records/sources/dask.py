"""DataFrames of Dask: partitions are mapped where they are, and their results added up in a tree.

Workers are sent plans, and during an iteration its current point. What a partition gives is an exact sum, which goes
through the workers' memory to the client, and is forgotten there. Nothing is persisted; names of tasks are random; and
what goes wrong on a worker comes back as a mark without words, since Dask logs the arguments of a task that raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Generic, TypeVar
from uuid import uuid4

import dask
import pandas as pd
from dask.optimization import cull

from dpstats.errors import DataError
from dpstats.records.sources.pandas import facts_of, frame_partition
from dpstats.records.sources.partitions import Count, Partition, silence
from dpstats.specification.coercion import kind_of
from dpstats.specification.schema import TableFacts

FAN_IN = 8
"""Results that one task adds up."""
WHOLE = sys.maxsize
"""More rows than a partition has."""

_UNREADABLE = {"datetime", "other"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class DaskSource:
    """A DataFrame of Dask (zone: PRIVATE) on the scheduler that is in use.

    Attributes
    ----------
    frame : dask.dataframe.DataFrame
        The table.
    facts : TableFacts
        Public names and kinds of its columns.
    count : Count
        Counts its rows.
    partition_rows : int or None
        Rows that a worker holds in coded form at a time; None leaves it to `Partition.split`.
    graphs : dict
        The graphs of the columns that were read last, because an iteration reads them again.
    """

    frame: Any
    facts: TableFacts
    count: Count
    partition_rows: int | None
    graphs: dict[tuple[str, ...], list[Any]] = field(default_factory=dict)

    is_distributed = True

    def __repr__(self) -> str:
        return f"DaskSource({len(self.facts.names)} columns)"

    @property
    def n_rows(self) -> int:
        """Number of rows, counted once."""
        return self.count()

    @property
    def has_order(self) -> bool:
        """Whether each partition is made for itself: after a shuffle its rows stand in the order in which they came."""
        return all(isinstance(part, Sealed) for part in _parts(self.frame, self.facts.names))

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to every partition on the workers, add up in a tree, and fetch the sum."""
        run, job = uuid4().hex, Job(self._kinds(names), function, add, self.partition_rows)
        with silence():
            if names not in self.graphs:
                self.graphs.clear()
                self.graphs[names] = _parts(self.frame, names)
            level = [_task(job.read, f"{run}-{i}")(part) for i, part in enumerate(self.graphs[names])]
            while len(level) > 1:
                run = uuid4().hex
                groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
                level = [_task(job.join, f"{run}-{i}")(group) for i, group in enumerate(groups)]
            (result,) = dask.compute(level[0], optimize_graph=False)
        found: Found[T] = _found(result)
        self.count.check(found.n_rows)
        return found.value

    def _kinds(self, names: tuple[str, ...]) -> dict[str, str]:
        return {name: self.facts.kinds[name] for name in names}

    def partitions(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Fetch some columns of one partition after the other to this process, in the table's order."""
        job: Job[Partition] = Job(self._kinds(names), _itself, _itself, WHOLE)
        for i in range(self.frame.npartitions):
            (part,) = _parts(self.frame.partitions[i], names)
            (result,) = dask.compute(_task(job.read, uuid4().hex)(part), optimize_graph=False)
            fetched: Found[Partition] = _found(result)
            yield from fetched.value.split(self.partition_rows)


def dask_source(frame: Any, partition_rows: int | None) -> DaskSource:
    """Wrap a DataFrame of Dask; its graph runs once for each reading, and once more to count its rows."""
    facts = facts_of(frame)
    unread = DaskSource(frame, TableFacts(facts.names, dict.fromkeys(facts.names, "other")), Count(int), WHOLE)
    return DaskSource(frame, facts, Count(lambda: unread.map_reduce(facts.names[:1], _length, _sum)), partition_rows)


def _length(partition: Partition) -> int:
    return partition.n_rows


def _sum(a: int, b: int) -> int:
    return a + b


def _itself(partition: Any, *_: Any) -> Any:
    return partition


@dataclass(frozen=True, slots=True, repr=False)
class Found(Generic[T]):
    """What some partitions gave (zone: PRIVATE)."""

    value: T
    n_rows: int

    def __repr__(self) -> str:
        return "Found()"


class Sealed:
    """A partition's own graph, run inside the task that uses it, so that what it raises gets no further (PRIVATE).

    A plain class, as `Job`: Dask looks for its collections inside dataclasses.
    """

    __slots__ = ("graph", "key")

    def __init__(self, graph: Any, key: Any) -> None:
        self.graph, self.key = graph, key

    def __repr__(self) -> str:
        return "Sealed()"


class Job(Generic[T]):
    """What workers do with partitions (zone: public, but for the current point of an iteration).

    Parameters
    ----------
    kinds : dict of str to str
        Columns, and what they were declared to hold.
    function, add : callable
        From a partition to a result, and from two results to their sum.
    partition_rows : int or None
        Rows that are held in coded form at a time; None leaves it to `Partition.split`.
    """

    __slots__ = ("add", "function", "kinds", "partition_rows")

    def __init__(
        self,
        kinds: dict[str, str],
        function: Callable[[Partition], T],
        add: Callable[[T, T], T],
        partition_rows: int | None,
    ) -> None:
        self.kinds, self.function, self.add, self.partition_rows = kinds, function, add, partition_rows

    def __repr__(self) -> str:
        return "Job()"

    def read(self, source: Any) -> Found[T] | None:
        """Return the result of a partition, None if it could not be read."""
        try:
            with silence():
                frame = dask.get(source.graph, source.key) if isinstance(source, Sealed) else source
                partition = frame_partition(frame, tuple(self.kinds))
                _check_kinds(partition, self.kinds)
                blocks = map(self.function, partition.split(self.partition_rows))
                return Found(reduce(self.add, blocks), partition.n_rows)
        except Exception:
            return None

    def join(self, results: list[Found[T] | None]) -> Found[T] | None:
        """Return the sum of results, None if one is missing."""
        try:
            with silence():
                known = [result for result in results if result is not None]
                total = reduce(self.add, (result.value for result in known))
                rows = sum(result.n_rows for result in known)
                return Found(total, rows) if len(known) == len(results) else None
        except Exception:
            return None


def _check_kinds(partition: Partition, kinds: dict[str, str]) -> None:
    """Stop a reading where a partition holds what nobody could read in a column that was declared otherwise.

    All kinds but these are read cell by cell alike, so that a partition may hold objects where numbers were declared.

    Raises
    ------
    DataError
        If one does.
    """
    readable = [name for name, kind in kinds.items() if kind not in _UNREADABLE]
    if any(kind_of(partition.columns[name].dtype) in _UNREADABLE for name in readable):
        raise DataError("a partition does not have the types that the DataFrame declares")


def _parts(frame: Any, names: tuple[str, ...]) -> list[Any]:
    """Return some columns of each partition: sealed where its graph is its own, else as tasks of Dask."""
    wanted = set(names)
    chosen = frame[[label for label in frame.columns if str(label) in wanted]].optimize()
    graph = dict(chosen.__dask_graph__())
    own = [_own_graph(graph, key) for key in chosen.__dask_keys__()]
    if all(part is not None for part in own):
        return [Sealed(part, key) for part, key in zip(own, chosen.__dask_keys__(), strict=True)]
    return list(chosen.to_delayed(optimize_graph=False))


def _own_graph(graph: dict[Any, Any], key: Any) -> dict[Any, Any] | None:
    """Return the graph of a partition if it is one task on tables that the graph contains, else None."""
    part, _ = cull(graph, [key])
    return part if all(other == key or isinstance(_data(node), pd.DataFrame) for other, node in part.items()) else None


def _data(node: Any) -> Any:
    return node() if type(node).__name__ == "DataNode" else node


def _task(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that makes a task with a name which says nothing."""
    make = dask.delayed(function, pure=False)
    return lambda argument: make(argument, dask_key_name=f"dpstats-{name}")


def _found(result: Found[T] | None) -> Found[T]:
    """Return a result.

    Raises
    ------
    DataError
        If there is none: in the private zone, which it does not leave.
    """
    if result is None:
        raise DataError("a partition could not be read")
    return result
