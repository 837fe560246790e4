"""Tables and datasets of pyarrow, and whatever other libraries hand over as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from dpstats.errors import DataError
from dpstats.records.sources.arrow_columns import array_of_arrow, kind_of_arrow
from dpstats.records.sources.partitions import BATCH_ROWS, Count, Partition, SequentialSource, closed
from dpstats.specification.schema import TableFacts

BUFFER = 2**20
"""Bytes of each column that are read ahead, so that memory does not grow with the length of a row group."""


@dataclass(frozen=True, slots=True, repr=False)
class ArrowSource(SequentialSource):
    """A table (zone: PRIVATE) that gives Arrow batches of some columns as often as it is asked.

    Attributes
    ----------
    facts : TableFacts
        Public names and kinds of columns.
    count : Count
        Counts the rows.
    read : callable
        Takes names of columns and returns an iterator of record batches.
    partition_rows : int or None
        Rows that are held in coded form at a time; None leaves it to `Partition.split`.
    has_order : bool
        Whether the batches come in the same order each time.
    """

    facts: TableFacts
    count: Count
    read: Callable[[tuple[str, ...]], Iterator[Any]]
    partition_rows: int | None = None
    has_order: bool = True

    def __repr__(self) -> str:
        return f"ArrowSource({len(self.facts.names)} columns)"

    @property
    def n_rows(self) -> int:
        """Number of rows, counted once."""
        return self.count()

    def batches(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Read some columns; one partition without rows if the table has none."""
        total = 0
        for batch in self.read(names):
            yield Partition({name: array_of_arrow(batch.column(name)) for name in names}, batch.num_rows)
            total += batch.num_rows
        if total == 0:
            yield Partition({name: np.empty(0, dtype=object) for name in names}, 0)
        self.count.check(total)


def facts_of_arrow(schema: pa.Schema) -> TableFacts:
    """Return the public facts of a schema; of two columns of one name, which no formula can use, those of the last."""
    return TableFacts(tuple(schema.names), {field.name: kind_of_arrow(field.type) for field in schema})


def table_source(table: pa.Table, partition_rows: int | None) -> ArrowSource:
    """Wrap a table in memory; batches share its memory."""

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        return iter(table.select(list(names)).to_batches(max_chunksize=BATCH_ROWS))

    return ArrowSource(facts_of_arrow(table.schema), Count(lambda: table.num_rows), read, partition_rows)


def dataset_source(dataset: pyarrow.dataset.Dataset, partition_rows: int | None) -> ArrowSource:
    """Wrap a dataset of files, or of tables.

    Raises
    ------
    DataError
        If the dataset's files do not have the columns and types that it says.
    """
    if not closed(lambda: _agree(dataset), "a file of the dataset cannot be opened"):
        raise DataError(
            "a file of the dataset has a column of another type than the dataset; write the files with one schema"
        )

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        yield from dataset.scanner(columns=list(names), **_options(dataset)).to_batches()

    count = Count(lambda: int(dataset.count_rows()))
    return ArrowSource(facts_of_arrow(dataset.schema), count, read, partition_rows)


def _options(dataset: pyarrow.dataset.Dataset) -> dict[str, Any]:
    """Return how to scan, with as little read ahead as possible."""
    options: dict[str, Any] = {"batch_size": BATCH_ROWS, "fragment_readahead": 1, "batch_readahead": 1}
    if isinstance(getattr(dataset, "format", None), pyarrow.dataset.ParquetFileFormat):
        options["fragment_scan_options"] = pyarrow.dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=BUFFER, pre_buffer=False
        )
    return options


def _agree(dataset: pyarrow.dataset.Dataset) -> bool:
    """Tell from metadata whether the types of all files are those of the dataset; text files have none of their own."""
    kept = (pyarrow.dataset.ParquetFileFormat, pyarrow.dataset.IpcFileFormat)
    for fragment in dataset.get_fragments():
        if isinstance(getattr(fragment, "format", None), kept):
            schema = fragment.physical_schema
            declared = {field.name: field.type for field in dataset.schema}
            if any(declared.get(field.name, field.type) != field.type for field in schema):
                return False
    return True
