"""Any table as partitions of rows: the only way in which the private zone reads data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from dpstats.errors import DataError
from dpstats.specification.coercion import array_of, kind_of
from dpstats.specification.schema import TableFacts

PARTITION_ROWS = 65_536

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
        return f"Partition({len(self.columns)} columns, {self.n_rows} rows)"


class Source(Protocol):
    """A table that can be read in partitions."""

    @property
    def facts(self) -> TableFacts:
        """Column names, dtypes and length; known without reading a record."""

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to every partition of some columns and add up the results, in any order."""


@contextmanager
def silence() -> Iterator[None]:
    """Keep numpy and warnings quiet: whether they would speak depends on private values."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True, slots=True, repr=False)
class ArraySource:
    """Columns in memory (zone: PRIVATE), read in partitions so that memory does not grow with the table's length.

    Attributes
    ----------
    names : tuple of str
        Column names in table order, duplicates kept.
    arrays : tuple
        Their arrays, of one length.
    n_rows : int
        That length.
    partition_rows : int
        Rows of a partition.
    """

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    n_rows: int
    partition_rows: int = PARTITION_ROWS

    def __repr__(self) -> str:
        return f"ArraySource({len(self.names)} columns, {self.n_rows} rows)"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the table; dtypes are among them, values are not."""
        kinds = {name: kind_of(array.dtype) for name, array in zip(self.names, self.arrays, strict=True)}
        return TableFacts(self.names, kinds, self.n_rows)

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to consecutive row blocks and add up."""
        known = dict(zip(self.names, self.arrays, strict=True))
        step = self.partition_rows
        with silence():
            parts = (
                Partition({name: known[name][start : start + step] for name in names}, min(step, self.n_rows - start))
                for start in range(0, self.n_rows, step)
            )
            total = function(next(parts))
            for part in parts:
                total = add(total, function(part))
        return total


def as_source(data: Any, partition_rows: int = PARTITION_ROWS) -> Source:
    """Wrap a table.

    Parameters
    ----------
    data : pandas.DataFrame or dict of array-like
        One row per record; a dict maps column names to numpy arrays, pandas Series or lists of equal length. A list
        has no dtype of its own and is read cell by cell.
    partition_rows : int
        Rows that are held in coded form at a time.

    Raises
    ------
    DataError
        If the type is not supported, the columns differ in length, or there is no row.
    """
    if isinstance(data, pd.DataFrame):
        names = tuple(map(str, data.columns))
        arrays = tuple(array_of(data.iloc[:, i]) for i in range(data.shape[1]))
        n_rows = len(data)
    elif isinstance(data, Mapping):
        names = tuple(map(str, data))
        arrays = tuple(_as_array(name, values) for name, values in data.items())
        n_rows = _common_length(names, arrays)
    else:
        raise DataError(f"data must be a pandas DataFrame or a dict of arrays, not {type(data).__name__}")
    if n_rows == 0:
        raise DataError("data has no rows")
    return ArraySource(names, arrays, n_rows, partition_rows)


def _as_array(name: Any, values: Any) -> Any:
    """Return a column's array; no dtype is inferred, since that would depend on the values."""
    if isinstance(values, pd.Series):
        return array_of(values)
    if isinstance(values, list | tuple):
        cells = np.empty(len(values), dtype=object)
        for i, cell in enumerate(values):
            cells[i] = cell
        return cells
    if isinstance(values, np.ndarray | pd.api.extensions.ExtensionArray):
        if values.ndim != 1:
            raise DataError(f"column {name!r} of data must be one-dimensional, not of shape {values.shape}")
        return values
    raise DataError(
        f"column {name!r} of data must be a numpy array, a pandas Series or a list, not {type(values).__name__}"
    )


def _common_length(names: Sequence[str], arrays: Sequence[Any]) -> int:
    lengths = {name: len(array) for name, array in zip(names, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of data differ in length: {lengths}")
    return next(iter(lengths.values()), 0)
