"""Any table as partitions of rows: the only way in which the private zone reads data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pandas as pd

from dpstats.errors import DataError
from dpstats.records.sources.pandas import ArraySource, FrameSource, dict_source
from dpstats.records.sources.partitions import Partition, silence
from dpstats.specification.schema import TableFacts

__all__ = ["ArraySource", "FrameSource", "Partition", "Source", "as_source", "silence"]

T = TypeVar("T")


class Source(Protocol):
    """A table that can be read in partitions, as often as a mechanism wants."""

    @property
    def facts(self) -> TableFacts:
        """Column names and dtypes; known without reading a record."""

    @property
    def n_rows(self) -> int:
        """Number of rows, which may have to be counted; not to be asked for where it is private."""

    @property
    def has_order(self) -> bool:
        """Whether `partitions` gives the rows in the same order each time."""

    @property
    def is_distributed(self) -> bool:
        """Whether `map_reduce` runs in other processes, which are sent its functions."""

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to every partition of some columns and add up the results, in any order."""

    def partitions(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Read some columns in this process, one partition after the other."""


FOREIGN = {
    ("polars", "DataFrame"): ("polars", "frame_source", "polars"),
    ("polars", "LazyFrame"): ("polars", "lazy_source", "polars"),
    ("pyarrow", "Table"): ("arrow", "table_source", "parquet"),
    ("pyarrow", "Dataset"): ("arrow", "dataset_source", "parquet"),
    ("duckdb", "DuckDBPyRelation"): ("duckdb", "relation_source", "duckdb"),
    ("dask", "DataFrame"): ("dask", "dask_source", "dask"),
}
"""Library and class of a table: the module here that reads it, its function, and the extra that installs what it needs.

Classes are told by name, so that no library is imported that the user did not import already.
"""
SUPPORTED = (
    "a DataFrame of pandas, polars or Dask, a LazyFrame, a Table or Dataset of pyarrow, a relation of DuckDB, the path "
    "of a Parquet file or a list of such paths, or a dict of arrays"
)


def as_source(data: Any, partition_rows: int | None = None) -> Source:
    """Wrap a table; no record is read.

    Parameters
    ----------
    data : table
        One row per record: a DataFrame of pandas, polars or Dask, a polars LazyFrame, a Table or Dataset of pyarrow, a
        relation of DuckDB, the path of a Parquet file or a list of such paths; or a dict of column names to numpy
        arrays, pandas Series or lists of equal length. A list has no dtype of its own and is read cell by cell.
    partition_rows : int, optional
        Rows that are held in coded form at a time; by default what is quick, which depends on the number of columns.

    Raises
    ------
    DataError
        If the type is not supported, a library is missing, files do not exist or do not fit together, or columns differ
        in length.
    """
    if isinstance(data, pd.DataFrame):
        return FrameSource(data, partition_rows)
    if isinstance(data, Mapping):
        return dict_source(data, partition_rows)
    if isinstance(data, str) and " ~ " in data:
        raise DataError("data is the text of a formula; the formula comes first, then the table: dp_ols(formula, data)")
    if isinstance(data, str | Path):
        return _foreign("parquet", "parquet_source", "parquet", [data], partition_rows)
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | Path) for path in data):
        return _foreign("parquet", "parquet_source", "parquet", data, partition_rows)
    for kind in type(data).__mro__:
        found = FOREIGN.get((kind.__module__.partition(".")[0].lstrip("_"), kind.__name__))
        if found is not None:
            return _foreign(*found, data, partition_rows)
    if hasattr(type(data), "__next__"):
        raise DataError(
            f"data of type {type(data).__name__} can be read only once, and a fit may read its table several times; "
            "pass the whole table, or the paths of Parquet files"
        )
    raise DataError(f"data must be {SUPPORTED}, not {type(data).__name__}")


def _foreign(module: str, function: str, extra: str, data: Any, partition_rows: int | None) -> Source:
    """Wrap a table by a module that needs an optional library."""
    try:
        found = import_module(f"dpstats.records.sources.{module}")
    except ImportError:
        found = None
    if found is None:
        raise DataError(f"reading this table needs a library that is missing: pip install 'dpstats[{extra}]'")
    source: Source = getattr(found, function)(data, partition_rows)
    return source
