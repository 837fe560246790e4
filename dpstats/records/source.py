"""Any table as partitions of rows: the only way in which the private zone reads data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from dpstats.errors import DataError
from dpstats.specification.coercion import array_of, kind_of
from dpstats.specification.schema import TableFacts

PARTITION_ROWS = 16_384
"""Small enough for the coded rows of some twenty columns to stay in the processor's cache."""

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
class FrameSource:
    """A pandas DataFrame (zone: PRIVATE), read in partitions of `partition_rows` rows."""

    frame: pd.DataFrame
    partition_rows: int = PARTITION_ROWS

    def __repr__(self) -> str:
        return f"FrameSource({self.frame.shape[1]} columns)"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the frame."""
        names = tuple(map(str, self.frame.columns))
        kinds = {name: kind_of(dtype) for name, dtype in zip(names, self.frame.dtypes, strict=True)}
        return TableFacts(names, kinds, len(self.frame))

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to consecutive row blocks and add up."""
        positions = {str(name): i for i, name in enumerate(self.frame.columns)}
        with silence():
            columns = {name: array_of(self.frame.iloc[:, positions[name]]) for name in names}
            return reduce_blocks(columns, len(self.frame), self.partition_rows, function, add)


@dataclass(frozen=True, slots=True, repr=False)
class ArraySource:
    """A dict of arrays (zone: PRIVATE), read in partitions of `partition_rows` rows."""

    arrays: Mapping[str, Any]
    n_rows: int
    partition_rows: int = PARTITION_ROWS

    def __repr__(self) -> str:
        return f"ArraySource({len(self.arrays)} columns)"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the arrays."""
        return TableFacts(
            tuple(self.arrays), {name: kind_of(array.dtype) for name, array in self.arrays.items()}, self.n_rows
        )

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to consecutive row blocks and add up."""
        with silence():
            columns = {name: self.arrays[name] for name in names}
            return reduce_blocks(columns, self.n_rows, self.partition_rows, function, add)


def reduce_blocks(
    columns: Mapping[str, Any],
    n_rows: int,
    step: int,
    function: Callable[[Partition], T],
    add: Callable[[T, T], T],
) -> T:
    """Apply `function` to blocks of `step` rows, so that memory does not grow with the table's length, and add up."""
    blocks = (
        Partition({name: array[start : start + step] for name, array in columns.items()}, min(step, n_rows - start))
        for start in range(0, max(n_rows, 1), step)
    )
    return reduce(add, map(function, blocks))


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
        If the type is not supported, or the columns differ in length.
    """
    if isinstance(data, pd.DataFrame):
        source: Source = FrameSource(data, partition_rows)
    elif isinstance(data, Mapping):
        arrays = {str(name): _as_array(name, values) for name, values in data.items()}
        source = ArraySource(arrays, _common_length(arrays), partition_rows)
    else:
        raise DataError(f"data must be a pandas DataFrame or a dict of arrays, not {type(data).__name__}")
    return source


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
        return _without_mask(values) if isinstance(values, np.ma.MaskedArray) else values
    raise DataError(
        f"column {name!r} of data must be a numpy array, a pandas Series or a list, not {type(values).__name__}"
    )


def _without_mask(values: np.ma.MaskedArray[Any, Any]) -> Any:
    """Return a masked array as an array that marks missing cells itself, chosen by dtype alone."""
    cells, mask = np.asarray(values.data), np.array(np.ma.getmaskarray(values), dtype=bool)
    kind = kind_of(cells.dtype)
    if kind == "bool":
        return pd.arrays.BooleanArray(cells, mask)
    if kind == "number":
        single = cells.dtype == np.float32
        return pd.arrays.FloatingArray(cells.astype(np.float32 if single else np.float64), mask)
    if kind in {"text", "object"}:
        cells = cells.astype(object)
        cells[mask] = None
    return cells


def _common_length(arrays: Mapping[str, Any]) -> int:
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        longest, shortest = max(lengths, key=lengths.__getitem__), min(lengths, key=lengths.__getitem__)
        raise DataError(f"the columns of data differ in length: {longest!r} is longer than {shortest!r}")
    return next(iter(lengths.values()), 0)
