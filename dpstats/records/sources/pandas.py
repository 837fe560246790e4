"""pandas DataFrames and dicts of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats.errors import DataError
from dpstats.records.sources.partitions import Partition, SequentialSource
from dpstats.specification.coercion import array_of, kind_of
from dpstats.specification.schema import TableFacts


@dataclass(frozen=True, slots=True, repr=False)
class FrameSource(SequentialSource):
    """A pandas DataFrame (zone: PRIVATE), read in blocks as `Partition.split` makes them."""

    frame: pd.DataFrame
    partition_rows: int | None = None

    def __repr__(self) -> str:
        return f"FrameSource({self.frame.shape[1]} columns)"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the frame."""
        return facts_of(self.frame)

    @property
    def n_rows(self) -> int:
        """Length of the frame."""
        return len(self.frame)

    def batches(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Return the whole frame, without copying it."""
        yield frame_partition(self.frame, names)


@dataclass(frozen=True, slots=True, repr=False)
class ArraySource(SequentialSource):
    """A dict of arrays (zone: PRIVATE), read in blocks as `Partition.split` makes them."""

    arrays: Mapping[str, Any]
    n_rows: int
    partition_rows: int | None = None

    def __repr__(self) -> str:
        return f"ArraySource({len(self.arrays)} columns)"

    @property
    def facts(self) -> TableFacts:
        """Public facts of the arrays."""
        return TableFacts(tuple(self.arrays), {name: kind_of(array.dtype) for name, array in self.arrays.items()})

    def batches(self, names: tuple[str, ...]) -> Iterator[Partition]:
        """Return the whole arrays, without copying them."""
        yield Partition({name: self.arrays[name] for name in names}, self.n_rows)


def facts_of(frame: Any) -> TableFacts:
    """Return the names and kinds of a DataFrame's columns, from its dtypes.

    Parameters
    ----------
    frame : DataFrame
        Of pandas or Dask.
    """
    names = tuple(map(str, frame.columns))
    return TableFacts(names, {name: kind_of(dtype) for name, dtype in zip(names, frame.dtypes, strict=True)})


def frame_partition(frame: pd.DataFrame, names: tuple[str, ...]) -> Partition:
    """Return some columns of a DataFrame as a partition, without copying them."""
    labels = frame.columns
    if labels.is_unique and labels.inferred_type == "string":  # each label is its own name, and quicker than a position
        return Partition({name: array_of(frame[name]) for name in names}, len(frame))
    positions = {str(label): i for i, label in enumerate(labels)}
    return Partition({name: array_of(frame.iloc[:, positions[name]]) for name in names}, len(frame))


def dict_source(data: Mapping[Any, Any], partition_rows: int | None) -> ArraySource:
    """Wrap a dict of arrays.

    Parameters
    ----------
    data : mapping of str to array-like
        Numpy arrays, pandas Series or lists of equal length.
    partition_rows : int or None
        Rows that are held in coded form at a time; None leaves it to `Partition.split`.

    Raises
    ------
    DataError
        If a column is no such thing, or the columns differ in length.
    """
    arrays = {str(name): _as_array(name, values) for name, values in data.items()}
    return ArraySource(arrays, _common_length(arrays), partition_rows)


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
