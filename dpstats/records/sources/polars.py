"""DataFrames and LazyFrames of polars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
import polars.selectors as cs

from dpstats.records.sources.arrow import ArrowSource
from dpstats.records.sources.arrow_columns import kind_of_arrow
from dpstats.records.sources.partitions import BATCH_ROWS, Count, closed
from dpstats.specification.schema import TableFacts


def frame_source(frame: pl.DataFrame, partition_rows: int | None) -> ArrowSource:
    """Wrap a table in memory; batches of numbers share its memory."""

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        for part in frame.select(cs.by_name(*names)).iter_slices(BATCH_ROWS):
            yield from part.to_arrow().to_batches()

    return ArrowSource(_facts(frame.schema), Count(lambda: frame.height), read, partition_rows)


def lazy_source(frame: pl.LazyFrame, partition_rows: int | None) -> ArrowSource:
    """Wrap a query, which runs once for each reading, and once more to count its rows.

    Raises
    ------
    DataError
        If the query has no schema.
    """
    facts = closed(lambda: _facts(frame.collect_schema()), "the columns of the LazyFrame cannot be resolved")

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        for part in frame.select(cs.by_name(*names)).collect_batches(chunk_size=BATCH_ROWS, maintain_order=False):
            yield from part.to_arrow().to_batches()

    # A join or a group-by gives its rows in an order that depends on how fast they came, and nobody can see it here.
    count = Count(lambda: int(frame.select(pl.len()).collect(engine="streaming").item()))
    return ArrowSource(facts, count, read, partition_rows, has_order=False)


def _facts(schema: Mapping[str, Any]) -> TableFacts:
    return TableFacts(tuple(schema), {name: _kind(dtype) for name, dtype in schema.items()})


def _kind(dtype: Any) -> str:
    """Name the kind of a column as that of the Arrow type it is handed over in; "other" if there is none."""
    try:
        return kind_of_arrow(pl.Series([], dtype=dtype).to_arrow().type)
    except Exception:  # a type that Arrow has not
        return "other"
