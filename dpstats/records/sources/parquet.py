"""Files of Parquet, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpstats.errors import DataError, shown
from dpstats.records.sources.arrow import BUFFER, ArrowSource, facts_of_arrow
from dpstats.records.sources.arrow_columns import kind_of_arrow
from dpstats.records.sources.partitions import BATCH_ROWS, Count, closed, one_ahead


def parquet_source(paths: Sequence[str | Path], partition_rows: int | None) -> ArrowSource:
    """Wrap the files of one table; only their metadata are read.

    Parameters
    ----------
    paths : sequence of str or Path
        The files, in the table's order.
    partition_rows : int or None
        Rows that are held in coded form at a time; None leaves it to `Partition.split`.

    Raises
    ------
    DataError
        If a path is no file of Parquet, or the files differ in their columns.
    """
    files = [Path(path) for path in paths]
    schemas, lengths = zip(*(_metadata(path) for path in files), strict=True)
    for i, schema in enumerate(schemas[1:], start=2):
        if not schema.equals(schemas[0]):
            raise DataError(f"{_difference(schemas[0], schema)} in file {i} than in file 1; write both with one schema")

    texts = [field.name for field in schemas[0] if kind_of_arrow(field.type) == "text"]  # mostly coded in the file

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        for path in files:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER, read_dictionary=texts) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False)

    count = Count(lambda: sum(lengths))
    return ArrowSource(facts_of_arrow(schemas[0]), count, lambda names: one_ahead(read(names)), partition_rows)


def _metadata(path: Path) -> tuple[pa.Schema, int]:
    """Return the schema and the number of rows that a file states."""
    name = shown(str(path))
    if path.is_dir():
        raise DataError(f"{name} is a folder; pass the list of its files, or pyarrow.dataset.dataset({name})")
    if not path.is_file():
        raise DataError(f"there is no file {name}; data is the path of a Parquet file, a list of them, or a table")

    def facts() -> tuple[pa.Schema, int]:
        with pq.ParquetFile(path) as file:
            return file.schema_arrow, int(file.metadata.num_rows)

    return closed(facts, f"{name} cannot be read as a Parquet file")


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    """Say in which column two schemas differ."""
    for name in (*first.names, *other.names):
        if first.get_all_field_indices(name) and not other.get_all_field_indices(name):
            return f"column {name!r} is missing"
        types = [[schema.field(i).type for i in schema.get_all_field_indices(name)] for schema in (first, other)]
        if types[0] != types[1]:
            return f"column {name!r} has another type"
    return "columns stand in another order"
