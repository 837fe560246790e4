"""Types and columns of Arrow as the kinds and arrays that `dpstats.specification.coercion` reads.

Which kind a column has, and how a cell is read, follows from the declared type alone. A column without a missing entry
may come as another class of array than one with, where both are read alike, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

_types = pa.types


def kind_of_arrow(dtype: pa.DataType) -> str:
    """Name the kind of a column from its type alone.

    Returns
    -------
    {"number", "bool", "text", "category", "object", "datetime", "other"}
    """
    if _types.is_dictionary(dtype):
        return "category" if kind_of_arrow(dtype.value_type) in {"number", "bool", "text", "object"} else "other"
    for kind, tests in _KINDS.items():
        if any(test(dtype) for test in tests):
            return kind
    return "other"


_KINDS = {
    "number": (_types.is_integer, _types.is_floating),
    "bool": (_types.is_boolean,),
    "text": (_types.is_string, _types.is_large_string, _types.is_string_view),
    "object": (_types.is_decimal, _types.is_null),
    "datetime": (_types.is_timestamp, _types.is_date, _types.is_duration),
}


class ColumnReader:
    """Turns columns of Arrow into arrays, sharing their memory where that is possible (zone: PRIVATE).

    It serves one reading of a table, during which it remembers each column's last dictionary: that of the next batch is
    mostly the same.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, _Dictionary] = {}

    def __repr__(self) -> str:
        return "ColumnReader()"

    def array(self, name: str, column: pa.Array) -> Any:
        """Return a column as an ndarray or pandas extension array.

        Parameters
        ----------
        name : str
            The column's name.
        column : pyarrow.Array
            PRIVATE, of a type that `kind_of_arrow` does not call "datetime" or "other".
        """
        if _types.is_dictionary(column.type):
            return self._categorical(name, column.indices, column.dictionary)
        if kind_of_arrow(column.type) == "text":
            encoded = column.cast(_bytes_of(column.type)).dictionary_encode()
            return self._categorical(name, encoded.indices, encoded.dictionary)
        return _plain_array(column)

    def _categorical(self, name: str, indices: pa.Array, values: pa.Array) -> pd.Categorical:
        last = self._last.get(name)
        if last is None or not last.cells.equals(values):
            last = self._last[name] = _read_dictionary(values)
        codes: NDArray[np.int64] = indices.cast(pa.int64()).fill_null(-1).to_numpy()
        return pd.Categorical.from_codes(last.table.take(codes), dtype=last.dtype)


@dataclass(frozen=True, slots=True, repr=False)
class _Dictionary:
    """The cells of a dictionary of Arrow (zone: PRIVATE).

    Attributes
    ----------
    cells : pyarrow.Array
        The dictionary, shape (m,); cells may be missing or stand there twice.
    table : ndarray of int64
        Shape (m + 1,): each cell's place among the categories, -1 for a missing one, and at last -1.
    dtype : CategoricalDtype
        The categories.
    """

    cells: pa.Array
    table: NDArray[np.int64]
    dtype: pd.CategoricalDtype

    def __repr__(self) -> str:
        return "_Dictionary()"


def _read_dictionary(values: pa.Array) -> _Dictionary:
    positions: dict[Any, int] = {}
    table = [
        -1 if cell is None or cell != cell else positions.setdefault(cell, len(positions)) for cell in _cells(values)
    ]
    categories = pd.CategoricalDtype(pd.Index(list(positions), dtype=object))
    return _Dictionary(values, np.array([*table, -1], dtype=np.int64), categories)


def _plain_array(column: pa.Array) -> Any:
    """Return a column that is neither coded nor text."""
    dtype = column.type
    if _types.is_decimal(dtype) or _types.is_null(dtype):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_pylist()
        return cells
    if _types.is_floating(dtype) or column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)
    mask = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(False if _types.is_boolean(dtype) else 0).to_numpy(zero_copy_only=False)
    return (pd.arrays.BooleanArray if _types.is_boolean(dtype) else pd.arrays.IntegerArray)(values, mask)


def _bytes_of(dtype: pa.DataType) -> pa.DataType:
    return pa.binary() if _types.is_string(dtype) else pa.large_binary()


def _cells(values: pa.Array) -> list[Any]:
    """Return cells one by one; bytes that are no text are a missing entry and nothing else."""
    dtype = values.type
    texts = values.cast(_bytes_of(dtype)) if kind_of_arrow(dtype) == "text" else values
    return [_decoded(cell) if isinstance(cell, bytes) else cell for cell in texts.to_pylist()]


def _decoded(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None
