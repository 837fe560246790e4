"""Cells to numbers or level codes, chosen by the column's dtype and a cell's exact type, never by other cells.

No code that a cell might carry is run: only built-in and numpy scalar types are converted or looked up, everything else
counts as missing. Nothing here raises on a value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.specification.arrow_text import is_arrow_text, text_cells, text_codes, text_levels
from dpstats.specification.remember import remembered
from dpstats.specification.rules import Missing
from dpstats.specification.schema import Binary, Continuous, Schema

T = TypeVar("T")

_MASKED = (
    *(pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype),
    *(pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype),
    *(pd.Float32Dtype, pd.Float64Dtype, pd.BooleanDtype),
)
_NUMPY_NUMBERS = frozenset(
    {np.bool_, np.float16, np.float32, np.float64}
    | {np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64}
)
_NUMBERS = frozenset({int, float, bool}) | _NUMPY_NUMBERS
_TEXTS = frozenset({str, np.str_})
_HARMLESS = frozenset({str, int, float, bool, type(None)})
LARGEST_WHOLE = 2**53
"""Up to here floats tell whole numbers apart."""
DIRECT_SPAN = 2**17
"""Whole levels within so wide a range are looked up in a table of the range, such as five-digit codes."""
_NUMERIC_TEXTS = frozenset({Decimal}) | _TEXTS


def kind_of(dtype: Any) -> str:
    """Name the kind of a column from its dtype alone.

    Returns
    -------
    {"number", "bool", "text", "category", "object", "datetime", "other"}
    """
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if isinstance(dtype, pd.StringDtype):
        return "text"
    if isinstance(dtype, pd.DatetimeTZDtype | pd.PeriodDtype):
        return "datetime"
    if isinstance(dtype, np.dtype):
        return _NUMPY_KINDS.get(dtype.kind, "other")
    if isinstance(dtype, pd.SparseDtype):
        return _NUMPY_KINDS[dtype.subtype.kind] if dtype.subtype.kind in "biuf" else "other"
    if isinstance(dtype, _MASKED):
        return _NUMPY_KINDS.get(dtype.kind, "other")
    if isinstance(dtype, pd.ArrowDtype):
        return "text" if dtype.type is str else _ARROW_KINDS.get(dtype.kind, "other")
    return "other"


_NUMPY_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number", "U": "text", "O": "object"} | dict.fromkeys(
    "mM", "datetime"
)
_ARROW_KINDS = {kind: name for kind, name in _NUMPY_KINDS.items() if kind in "biufmM"}


def array_of(column: pd.Series) -> Any:
    """Return a column's array without copying it."""
    return column.array if isinstance(column.dtype, pd.api.extensions.ExtensionDtype) else column.to_numpy()


def cells_of(values: Any) -> list[Any]:
    """Return a column's cells one by one; bytes that are no text are a missing one and nothing else."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        table = [*cells_of(values.categories.array), None]
        return [table[code] for code in values.codes.tolist()]
    if is_arrow_text(values.dtype):
        return text_cells(values)
    cells: list[Any] = np.asarray(values, dtype=object).tolist()
    return cells


def to_numbers(values: Any) -> NDArray[np.float64]:
    """Read a column as float64; what is no number becomes nan.

    Parameters
    ----------
    values : ndarray or pandas extension array
        Any dtype that `kind_of` does not call "other".
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        table = [*map(_to_number, cells_of(values.categories.array)), math.nan]
        return np.asarray(np.array(table)[values.codes], dtype=np.float64)
    if kind_of(values.dtype) in {"number", "bool"}:
        if isinstance(values.dtype, pd.SparseDtype):
            values = np.asarray(values, dtype=values.dtype.subtype)
        if isinstance(values, np.ndarray):
            return np.ascontiguousarray(values, dtype=np.float64)
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.array([_to_number(cell) for cell in cells_of(values)], dtype=np.float64)


def _to_number(cell: Any) -> float:
    if not _is_readable(cell):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan


def _is_readable(cell: Any) -> bool:
    """Tell whether converting and hashing a cell runs no code but that of built-in types."""
    if type(cell) is Fraction:
        return type(cell._numerator) is int and type(cell._denominator) is int  # type: ignore[attr-defined]
    return type(cell) in _NUMBERS or type(cell) in _NUMERIC_TEXTS


def to_codes(values: Any, levels: Sequence[Hashable]) -> NDArray[np.int64]:
    """Read a column as level codes 0, 1, ...; -1 for what is not a declared level.

    Parameters
    ----------
    values : ndarray or pandas extension array
        Any dtype that `kind_of` does not call "other".
    levels : sequence
        Declared levels; numbers among them are exact as float64.
    """
    if is_arrow_text(values.dtype) and _HARMLESS.issuperset(map(type, levels)):
        return text_codes(values, *_public(text_levels, tuple(levels)))
    if isinstance(values.dtype, pd.CategoricalDtype | pd.StringDtype):
        whole = isinstance(values.dtype, pd.CategoricalDtype)
        places, cells = (values.codes, values.categories.array) if whole else pd.factorize(values)
        is_text = whole and is_arrow_text(cells.dtype)
        table = to_codes(cells, levels) if is_text else np.array(_cell_codes(cells_of(cells), levels), dtype=np.int64)
        return np.asarray(np.append(table, -1).take(places, mode="wrap"))
    kind = kind_of(values.dtype)
    if kind in {"number", "bool"}:
        return _number_codes(to_numbers(values), *_public(_sorted_levels, tuple(levels), _own_dtype(values.dtype)))
    return np.array(_cell_codes(cells_of(values), levels), dtype=np.int64)


def _cell_codes(cells: list[Any], levels: Sequence[Hashable]) -> list[int]:
    """Look cells up one by one; quicker, with the same result, where all are of types that a dict may be asked for."""
    known = _public(_known, tuple(levels))
    if _HARMLESS.issuperset(map(type, cells)):
        return list(map(known.get, cells, itertools.repeat(-1)))
    return [_to_code(cell, known) for cell in cells]


def _public(function: Callable[..., T], levels: tuple[Hashable, ...], *rest: Hashable) -> T:
    """Return what a function makes of declared levels, remembered unless their equality is the user's own."""
    plain = _HARMLESS.issuperset(map(type, levels))
    return _remembered(function, levels, *rest) if plain else function(levels, *rest)


@remembered
def _remembered(function: Callable[..., T], *arguments: Hashable) -> T:
    return function(*arguments)


def _known(levels: tuple[Hashable, ...]) -> dict[Hashable, int]:
    """Return the code of each level."""
    return {level: code for code, level in enumerate(levels)}


def _own_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the precision at which a column holds its numbers."""
    own: np.dtype[Any] = np.dtype(
        dtype.subtype if isinstance(dtype, pd.SparseDtype) else getattr(dtype, "numpy_dtype", dtype)
    )
    return own


def _sorted_levels(levels: tuple[Hashable, ...], own: np.dtype[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the levels that are numbers at a column's own precision, ascending, and their codes; read-only."""
    places = {  # of levels that collide the last wins
        float(own.type(level)) if own.kind == "f" else float(level): code
        for level, code in _known(levels).items()
        if isinstance(level, int | float)
    }
    found = np.array(sorted(places))
    codes = np.array([places[level] for level in found.tolist()], dtype=np.int64)
    found.flags.writeable = codes.flags.writeable = False
    return found, codes


def _number_codes(
    numbers: NDArray[np.float64], levels: NDArray[np.float64], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Match numbers with ascending levels."""
    if not len(levels):
        return np.full(len(numbers), -1, dtype=np.int64)
    if levels[-1] - levels[0] < DIRECT_SPAN and (levels == np.rint(levels)).all():
        return _direct_codes(numbers, levels, codes)
    nearest = np.minimum(np.searchsorted(levels, numbers), len(levels) - 1)
    return np.where(levels[nearest] == numbers, codes[nearest], -1)


def _direct_codes(
    numbers: NDArray[np.float64], levels: NDArray[np.float64], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Match numbers with whole levels that lie close together: by a table with a place for every whole number."""
    table = np.full(int(levels[-1] - levels[0]) + 2, -1, dtype=np.int64)
    table[(levels - levels[0]).astype(np.intp)] = codes
    place = np.fmin(numbers - levels[0], len(table) - 1.0)  # fmin and fmax ignore nan
    whole = np.fmax(place, -1.0, out=place).astype(np.intp)
    return np.where(levels[0] + whole == numbers, table[whole], -1)


def _to_code(cell: Any, known: Mapping[Hashable, int]) -> int:
    if not _is_readable(cell):
        return -1
    try:
        return known.get(cell, -1)
    except (TypeError, ValueError, ZeroDivisionError):  # a signalling nan of Decimal has no hash
        return -1


@dataclass(frozen=True, slots=True, repr=False)
class Distinct:
    """The distinct numbers and texts of a column (zone: PRIVATE).

    Attributes
    ----------
    codes : ndarray of int64
        Position of the row's value in `cells`, -1 where it is missing or cannot be read; shape (n,).
    cells : list
        The distinct values, each in one spelling.
    """

    codes: NDArray[np.int64]
    cells: list[str | int | float]

    def __repr__(self) -> str:
        return "Distinct()"


def to_distinct(values: Any) -> Distinct:
    """Find the distinct values of a column; equal numbers are one value whatever their types.

    Parameters
    ----------
    values : ndarray or pandas extension array
        Any dtype that `kind_of` does not call "other" or "datetime".
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
        codes, distinct = pd.factorize(values)
        return Distinct(codes.astype(np.int64), [int(cell) for cell in distinct])
    positions: dict[str | int | float, int] = {}
    listed = [_position(_spelled(cell), positions) for cell in cells_of(values)]
    return Distinct(np.array(listed, dtype=np.int64), list(positions))


def _position(cell: str | int | float | None, positions: dict[str | int | float, int]) -> int:
    return -1 if cell is None else positions.setdefault(cell, len(positions))


def _spelled(cell: Any) -> str | int | float | None:
    """Return a cell as a built-in text or number in the spelling that all its equals have; None for any other cell.

    What is compared later is built-in and of one spelling, so that no cell decides what becomes of its equals: the
    equality of Decimal, Fraction and numpy's integers is not transitive, and may raise.
    """
    if not _is_readable(cell):
        return None
    plain = cell.item() if isinstance(cell, np.generic) else cell
    if type(plain) is str or (type(plain) is int and abs(plain) > LARGEST_WHOLE):
        return plain
    number = _to_number(plain)
    if math.isnan(number):
        return None
    return int(number) if abs(number) <= LARGEST_WHOLE and number == int(number) else number


def coerce(
    schema: Schema, columns: Mapping[str, Any], n_rows: int, missing: Missing = "drop"
) -> tuple[dict[str, NDArray[np.generic]], NDArray[np.bool_]]:
    """Coerce raw columns to their declarations, clip, and fill what is missing with a public value.

    Parameters
    ----------
    schema : Schema
        Declarations.
    columns : mapping of str to array
        Raw columns of length `n_rows`.
    n_rows : int
        Length of the block.
    missing : {"drop", "none"}
        Under ``"none"`` a missing number becomes the middle of its range, a missing level the first one, and every row
        counts as complete.

    Returns
    -------
    values : dict of str to ndarray
        Per column clipped numbers (float64), in which a zero may have either sign, or codes (int64).
    complete : ndarray of bool
        Shape (n_rows,): False where any column was missing, not convertible or at an undeclared level.
    """
    values: dict[str, NDArray[np.generic]] = {}
    complete = np.ones(n_rows, dtype=bool)
    with np.errstate(all="ignore"):  # a signalling nan speaks even where a nan is silent
        for name, raw in columns.items():
            column = schema[name]
            if isinstance(column, Continuous):
                numbers = to_numbers(raw)
                if _always_known(raw):  # of integers to_numbers has made a copy
                    values[name] = np.clip(numbers, column.lower, column.upper, out=numbers)
                    continue
                filled, unknown = np.clip(numbers, column.lower, column.upper), np.isnan(numbers)
                complete &= ~unknown
                np.copyto(filled, column.mid if missing == "none" else column.lower, where=unknown)
                values[name] = filled
            elif isinstance(column, Binary) and kind_of(raw.dtype) in {"number", "bool"}:
                numbers = raw if _always_known(raw) else to_numbers(raw)
                ones = np.equal(numbers, 1)
                complete &= np.logical_or(ones, np.equal(numbers, 0))
                values[name] = ones.view(np.int8)
            else:
                codes = to_codes(raw, column.levels)
                complete &= codes >= 0
                values[name] = np.maximum(codes, 0, out=codes)
    return values, complete if missing == "drop" else np.ones(n_rows, dtype=bool)


def _always_known(values: Any) -> bool:
    """Tell from the dtype alone whether no cell can be missing."""
    return type(values) is np.ndarray and values.dtype.kind in "biu"
