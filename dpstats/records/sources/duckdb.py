"""Relations of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb

from dpstats.records.sources.arrow import ArrowSource, facts_of_arrow
from dpstats.records.sources.partitions import BATCH_ROWS, Count, closed


def relation_source(relation: duckdb.DuckDBPyRelation, partition_rows: int | None) -> ArrowSource:
    """Wrap a query, which runs once for each reading, and once more to count its rows.

    Raises
    ------
    DataError
        If the query does not work any more.
    """
    schema = closed(lambda: relation.limit(0).to_arrow_table().schema, "the columns of the relation cannot be resolved")

    def read(names: tuple[str, ...]) -> Iterator[Any]:
        columns = [duckdb.ColumnExpression(name) for name in names]
        return iter(relation.select(*columns).to_arrow_reader(BATCH_ROWS))

    def count() -> int:
        return int(relation.aggregate("count(*)").fetchall()[0][0])

    return ArrowSource(facts_of_arrow(schema), Count(count), read, partition_rows, has_order=False)
