"""Any table as partitions of rows: the only way in which the private zone reads data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from dpstats.errors import DataError
from dpstats.specification.schema import TableFacts

PARTITION_ROWS = 65_536

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Partition:
    """Some consecutive rows of the table (zone: PRIVATE).

    Attributes
    ----------
    columns : dict of str to array-like
        Raw columns, each of length `n_rows`.
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


@dataclass(frozen=True, slots=True, repr=False)
class FrameSource:
    """A pandas DataFrame (zone: PRIVATE), read in partitions of `partition_rows` rows."""

    frame: pd.DataFrame
    partition_rows: int = PARTITION_ROWS

    def __repr__(self) -> str:
        return f"FrameSource(shape={self.frame.shape})"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the frame."""
        names = tuple(map(str, self.frame.columns))
        kinds = {name: _kind(self.frame.dtypes.iloc[i]) for i, name in enumerate(names)}
        return TableFacts(names, kinds, len(self.frame))

    def map_reduce(self, names: tuple[str, ...], function: Callable[[Partition], T], add: Callable[[T, T], T]) -> T:
        """Apply `function` to consecutive row blocks, so that memory does not grow with the table's length."""
        positions = {str(name): i for i, name in enumerate(self.frame.columns)}
        n_rows = len(self.frame)
        columns = {name: _values(self.frame.iloc[:, positions[name]]) for name in names}
        step = self.partition_rows
        parts = (
            Partition({name: array[start : start + step] for name, array in columns.items()}, min(step, n_rows - start))
            for start in range(0, n_rows, step)
        )
        total = function(next(parts))
        for part in parts:
            total = add(total, function(part))
        return total


def _values(column: pd.Series) -> Any:
    """Return a column's array without copying it."""
    return column.array if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) else column.to_numpy()


def _kind(dtype: Any) -> str:
    """Name the kind of a column from its dtype alone."""
    if pd.api.types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return "bool"
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if (
        pd.api.types.is_datetime64_any_dtype(dtype)
        or pd.api.types.is_timedelta64_dtype(dtype)
        or isinstance(dtype, pd.PeriodDtype)
    ):
        return "datetime"
    if pd.api.types.is_complex_dtype(dtype):
        return "other"
    if pd.api.types.is_numeric_dtype(dtype):
        return "number"
    if isinstance(dtype, pd.StringDtype) or getattr(dtype, "kind", "") in {"U", "S"}:
        return "text"
    return "object" if dtype == np.dtype(object) else "other"


def as_source(data: Any) -> Source:
    """Wrap a table.

    Parameters
    ----------
    data : pandas.DataFrame or dict of array-like
        One row per record; a dict maps column names to arrays of equal length.

    Raises
    ------
    DataError
        If the type is not supported, the columns differ in length, or there is no row.
    """
    if isinstance(data, Mapping):
        data = _frame_from_arrays(data)
    if not isinstance(data, pd.DataFrame):
        raise DataError(f"data must be a pandas DataFrame or a dict of arrays, not {type(data).__name__}")
    if len(data) == 0:
        raise DataError("data has no rows")
    return FrameSource(data)


def _frame_from_arrays(data: Mapping[Any, Any]) -> pd.DataFrame:
    series = {}
    for name, values in data.items():
        if isinstance(values, list | tuple):  # no dtype is inferred, since that would depend on the values
            values = pd.Series(values, dtype=object)
        array = values if hasattr(values, "dtype") else np.asarray(values)
        if array.ndim != 1:
            raise DataError(f"column {name!r} of data must be one-dimensional, not of shape {array.shape}")
        series[name] = pd.Series(array).reset_index(drop=True)
    lengths = {name: len(column) for name, column in series.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of data differ in length: {lengths}")
    return pd.DataFrame(series)
