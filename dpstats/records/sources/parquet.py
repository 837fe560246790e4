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
from dpstats.records.sources.partitions import BATCH_ROWS, Count, closed
from dpstats.specification.threads import one_ahead

CODED = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
"""Encodings of text that pyarrow can read as codes of a dictionary."""


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
    schemas, lengths, texts = zip(*(_metadata(path) for path in files), strict=True)
    for i, schema in enumerate(schemas[1:], start=2):
        if not schema.equals(schemas[0]):
            raise DataError(f"{_difference(schemas[0], schema)} in file {i} than in file 1; write both with one schema")

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        for path, coded in zip(files, texts, strict=True):
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER, read_dictionary=coded) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False)

    count = Count(lambda: sum(lengths))
    return ArrowSource(facts_of_arrow(schemas[0]), count, lambda names: one_ahead(read(names)), partition_rows)


def _metadata(path: Path) -> tuple[pa.Schema, int, list[str]]:
    """Return the schema and the number of rows that a file states, and `_coded_texts`."""
    name = shown(str(path))
    if path.is_dir():
        raise DataError(f"{name} is a folder; pass the list of its files, or pyarrow.dataset.dataset({name})")
    if not path.is_file():
        raise DataError(f"there is no file {name}; data is the path of a Parquet file, a list of them, or a table")

    def facts() -> tuple[pa.Schema, int, list[str]]:
        with pq.ParquetFile(path) as file:
            return file.schema_arrow, int(file.metadata.num_rows), _coded_texts(file)

    return closed(facts, f"{name} cannot be read as a Parquet file")


def _coded_texts(file: pq.ParquetFile) -> list[str]:
    """Return the columns of text that are read as codes of a dictionary: to the same cells, and quicker.

    That is where nearly all cells are written so: of others pyarrow would make a dictionary that takes time and memory,
    or fail. Written out, a text takes four bytes for its length alone.
    """
    texts = {field.name for field in file.schema_arrow if kind_of_arrow(field.type) == "text"}
    places = {file.schema.column(j).path: j for j in range(len(file.schema)) if file.schema.column(j).path in texts}
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    return [name for name, j in places.items() if all(_is_coded(group.column(j)) for group in groups)]


def _is_coded(chunk: pq.ColumnChunkMetaData) -> bool:
    return CODED.issuperset(chunk.encodings) and chunk.total_uncompressed_size < 4 * chunk.num_values


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    """Say in which column two schemas differ."""
    for name in (*first.names, *other.names):
        if first.get_all_field_indices(name) and not other.get_all_field_indices(name):
            return f"column {name!r} is missing"
        types = [[schema.field(i).type for i in schema.get_all_field_indices(name)] for schema in (first, other)]
        if types[0] != types[1]:
            return f"column {name!r} has another type"
    return "columns stand in another order"
