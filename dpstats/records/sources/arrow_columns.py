"""Types and columns of Arrow as the kinds and arrays that `dpstats.specification.coercion` reads.

Which kind a column has, and how a cell is read, follows from the declared type alone. A column without a missing entry
may come as another class of array than one with, where both are read alike, to the last bit.
"""

from __future__ import annotations

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


def array_of_arrow(column: pa.Array) -> Any:
    """Return a column as an ndarray or pandas extension array, sharing its memory where that is possible.

    Parameters
    ----------
    column : pyarrow.Array
        PRIVATE, of a type that `kind_of_arrow` does not call "datetime" or "other".
    """
    dtype = column.type
    if kind_of_arrow(dtype.value_type if _types.is_dictionary(dtype) else dtype) == "text":
        return pd.arrays.ArrowExtensionArray(_known_to_pandas(column))
    if _types.is_dictionary(dtype):
        return _categorical(column.indices, column.dictionary.to_pylist())
    if _types.is_decimal(dtype) or _types.is_null(dtype):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_pylist()
        return cells
    if _types.is_floating(dtype) or column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)
    mask = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(False if _types.is_boolean(dtype) else 0).to_numpy(zero_copy_only=False)
    return (pd.arrays.BooleanArray if _types.is_boolean(dtype) else pd.arrays.IntegerArray)(values, mask)


def _known_to_pandas(texts: pa.Array) -> pa.Array:
    """Return texts in a type that pandas has a name for, undecoded."""
    if _types.is_dictionary(texts.type):
        return pa.DictionaryArray.from_arrays(texts.indices, _known_to_pandas(texts.dictionary))
    is_view = _types.is_string_view(texts.type)
    return texts.cast(pa.large_binary()).view(pa.large_string()) if is_view else texts


def _categorical(indices: pa.Array, cells: list[Any]) -> pd.Categorical:
    """Return a column as codes of categories; Arrow's may be missing or stand there twice, those of pandas may not."""
    positions: dict[Any, int] = {}
    table = [-1 if cell is None or cell != cell else positions.setdefault(cell, len(positions)) for cell in cells]
    codes: NDArray[np.int64] = indices.cast(pa.int64()).fill_null(-1).to_numpy()
    categories = pd.Index(list(positions), dtype=object)
    return pd.Categorical.from_codes(
        np.array([*table, -1], dtype=np.int64)[codes], dtype=pd.CategoricalDtype(categories)
    )
