"""Texts in the memory of Arrow, plain or coded by a dictionary: compared as bytes, which may be no text at all.

pyarrow is optional, and imported only where such a column is at hand.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.specification.threads import both

TWO_THREADS = 2**14
"""Texts that take longer to look up than a second thread takes to start."""


def is_arrow_text(dtype: Any) -> bool:
    """Tell whether a column is text in the memory of Arrow."""
    if isinstance(dtype, pd.StringDtype):
        return bool(dtype.storage == "pyarrow")
    if not isinstance(dtype, pd.ArrowDtype):
        return False
    from pyarrow import types

    kind = dtype.pyarrow_dtype
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def text_cells(values: Any) -> list[str | None]:
    """Return texts one by one, in the zone of the column; bytes that are no text are a missing cell and nothing else.

    Parameters
    ----------
    values : pandas extension array
        Texts of Arrow, shape (n,).
    """
    places, cells = _bytes_of(values)
    texts = [None if cell is None else _decoded(cell) for cell in cells.to_pylist()]
    if places is None:
        return texts
    table = [*texts, None]
    return [table[place] for place in places.tolist()]


def text_levels(levels: tuple[Hashable, ...]) -> tuple[Any, NDArray[np.int64]]:
    """Return what `text_codes` looks up: the levels that are texts, as an array of Arrow; their codes, then -1."""
    import pyarrow as pa

    texts = {level: code for code, level in enumerate(levels) if isinstance(level, str)}
    codes = np.array([*texts.values(), -1], dtype=np.int64)
    codes.flags.writeable = False
    return pa.array([text.encode() for text in texts], type=pa.large_binary()), codes


def text_codes(values: Any, texts: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the code of each text, in the zone of the column; -1 for what is not among the levels.

    Parameters
    ----------
    values : pandas extension array
        Texts of Arrow, shape (n,).
    texts, codes
        From `text_levels`.
    """
    import pyarrow.compute as pc

    places, cells = _bytes_of(values)
    found = np.empty(len(cells), dtype=np.int64)

    def look_up(part: slice) -> None:
        levels = pc.index_in(cells[part], value_set=texts).fill_null(-1).to_numpy()
        codes.take(levels, out=found[part], mode="wrap")

    if len(cells) < TWO_THREADS:
        look_up(slice(None))
    else:
        half = len(cells) // 2
        both(lambda: look_up(slice(half)), lambda: look_up(slice(half, None)))
    return found if places is None else np.append(found, -1).take(places)


def _bytes_of(values: Any) -> tuple[NDArray[np.int64] | None, Any]:
    """Return texts as an array of bytes; or each cell's place in such an array, -1 for a missing one, and the array."""
    import pyarrow as pa

    cells = pa.array(values)
    if not pa.types.is_dictionary(cells.type):
        return None, cells.cast(pa.large_binary())
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.unify_dictionaries().combine_chunks()
    places = cells.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    return places, cells.dictionary.cast(pa.large_binary())


def _decoded(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None
