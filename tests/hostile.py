"""Cells and columns for fuzzing: hostile values in every container, chosen by a seeded generator.

Shared by ``generators.py``, ``test_fuzz.py`` and ``benchmarks/fuzz.py``.
"""

from __future__ import annotations

import datetime
import random
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd

SENTINEL, SENTINEL_TEXT = 0.3141592653589, "sentinel-7c1f"
"""A number inside all bounds, and a text that is no level; neither may be found in anything that is shown."""


class Boom(BaseException):
    """Not even an Exception."""


def _explode(*_args, **_options):
    raise Boom(SENTINEL_TEXT)


def _complain(*_args, **_options):
    warnings.warn(SENTINEL_TEXT, stacklevel=1)
    return 0.5


class Hostile:
    """Every question raises, and says a private text."""

    __float__ = __int__ = __index__ = __bool__ = __len__ = __iter__ = __hash__ = __eq__ = _explode
    __repr__ = __str__ = __format__ = __array__ = __lt__ = __add__ = __getattr__ = _explode


class Warns:
    """Reading it warns."""

    __float__ = __array__ = _complain

    def __eq__(self, other):
        _complain()
        return True

    def __hash__(self):
        _complain()
        return hash("a")


class Liar(str):
    """A text that equals everything."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("a")


class HostileFloat(float):
    """A number whose methods raise."""

    __float__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __repr__ = __hash__ = _explode


class HostileInt(int):
    """A whole number whose methods raise."""

    __float__ = __index__ = __int__ = __eq__ = __repr__ = __hash__ = _explode


class HostileText(str):
    """A text whose methods raise."""

    __slots__ = ()
    __eq__ = __hash__ = __str__ = __repr__ = __len__ = encode = strip = _explode


NUMBERS = [0.0, 1.0, -1.0, 0.5, SENTINEL, -0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 2.0, 1e16]
WHOLE = [0, 1, -1, 2, 100, -128, 127]
TEXTS = [
    "a",
    "b",
    "c",
    "",
    " a",
    "A",
    "0",
    "1",
    "nan",
    "None",
    SENTINEL_TEXT,
    "\x00",
    "\u00e9",
    "\U0001d4ea",
    "a" * 300,
    "a\nb",
]
OBJECTS = [
    *NUMBERS,
    *TEXTS,
    None,
    pd.NA,
    pd.NaT,
    True,
    False,
    1,
    2**70,
    10**400,
    -(10**400),
    Decimal("0.5"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1e999"),
    Fraction(1, 3),
    1j,
    b"a",
    b"\xff",
    bytearray(b"x"),
    "\ud800",
    [1],
    [],
    (),
    {},
    {1},
    ...,
    object(),
    NotImplemented,
    int,
    len,
    range(3),
    np.float32(0.1),
    np.int8(1),
    np.bool_(True),
    np.complex128(1j),
    np.str_("a"),
    np.datetime64("2020-01-01"),
    np.datetime64("NaT"),
    np.array(0.5),
    np.array([0.5]),
    np.array([1, 2]),
    np.void(b"ab"),
    np.ma.masked,
    pd.Timestamp("2020-01-01"),
    pd.Timedelta(1, "D"),
    pd.Interval(0, 1),
    pd.Period("2020-01", "M"),
    datetime.date(2020, 1, 1),
    datetime.timedelta(1),
    pd.Series([1.0]),
    Hostile(),
    Warns(),
    Liar("z"),
    HostileFloat(0.5),
    HostileInt(1),
    HostileText("a"),
]


def objects(cells):
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def _masked(cells):
    return np.ma.MaskedArray(np.array(cells), mask=[bool(cell == 1.0) for cell in cells])


def _nullable(values):
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in values]


def _arrow(kind):
    def make(cells):
        import pyarrow as pa

        return pd.array(_nullable(cells), dtype=pd.ArrowDtype(getattr(pa, kind)()))

    return make


CONTAINERS = {
    "objects": (OBJECTS, objects),
    "a list": (OBJECTS, list),
    "a tuple": (OBJECTS, tuple),
    "a series of objects": (OBJECTS, lambda cells: pd.Series(objects(cells), dtype=object)),
    "masked objects": (
        OBJECTS,
        lambda cells: np.ma.MaskedArray(objects(cells), mask=[i == 0 for i in range(len(cells))]),
    ),
    "float64": (NUMBERS, lambda cells: np.array(cells, dtype=np.float64)),
    "float32": ([0.0, 1.0, -1.0, 0.5, np.nan, np.inf, 3e38], lambda cells: np.array(cells, dtype=np.float32)),
    "float16": ([0.0, 1.0, 0.5, np.nan, np.inf], lambda cells: np.array(cells, dtype=np.float16)),
    "int64": ([*WHOLE, 2**62, -(2**62)], lambda cells: np.array(cells, dtype=np.int64)),
    "uint64": ([0, 1, 2**64 - 1], lambda cells: np.array(cells, dtype=np.uint64)),
    "int8": (WHOLE, lambda cells: np.array(cells, dtype=np.int8)),
    "bool": ([True, False], lambda cells: np.array(cells, dtype=bool)),
    "masked floats": (NUMBERS, _masked),
    "Int64": ([0, 1, 2, None], lambda cells: pd.array(cells, dtype="Int64")),
    "Float64": ([0.0, 1.0, 0.5, SENTINEL, None, np.inf], lambda cells: pd.array(cells, dtype="Float64")),
    "boolean": ([True, False, None], lambda cells: pd.array(cells, dtype="boolean")),
    "text": ([t for t in TEXTS if len(t) < 20], lambda cells: np.array(cells, dtype="U20")),
    "string[python]": ([*TEXTS, None], lambda cells: pd.array(cells, dtype=pd.StringDtype("python"))),
    "string[pyarrow]": ([*TEXTS, None], lambda cells: pd.array(cells, dtype=pd.StringDtype("pyarrow"))),
    "category of texts": (
        ["a", "b", "c", "z", None],
        lambda cells: pd.Categorical(cells, categories=["z", "c", "a", "b"]),
    ),
    "category of numbers": ([0, 1, 2.5, None], lambda cells: pd.Categorical(cells, categories=[2.5, 0, 1])),
    "sparse": ([0.0, 1.0, 0.5, np.nan], lambda cells: pd.arrays.SparseArray(cells, fill_value=0.0)),
    "arrow float64": ([0.0, 1.0, 0.5, SENTINEL, None], _arrow("float64")),
    "arrow string": ([*TEXTS, None], _arrow("string")),
    "arrow bool": ([True, False, None], _arrow("bool_")),
    "dates": ([np.datetime64("2020-01-01"), np.datetime64("NaT")], lambda cells: np.array(cells, dtype="M8[s]")),
    "spans": ([np.timedelta64(1, "D")], lambda cells: np.array(cells, dtype="m8[s]")),
    "complex": ([0j, 1j], lambda cells: np.array(cells, dtype=complex)),
    "bytes": ([b"a", b"b"], lambda cells: np.array(cells, dtype="S1")),
    "zoned times": (
        [pd.Timestamp("2020-01-01", tz="UTC"), pd.NaT],
        lambda cells: pd.array(cells, dtype="datetime64[ns, UTC]"),
    ),
}
FOR_NUMBERS = ("objects", "a list", "float64", "float32", "int64", "masked floats", "Int64", "Float64", "arrow float64")
FOR_LEVELS = ("objects", "a list", "text", "string[python]", "string[pyarrow]", "category of texts", "arrow string")


def container_for(chance: random.Random, role: str) -> str:
    """Choose a container, most often one that fits the role."""
    if chance.random() < 0.08:
        return chance.choice(list(CONTAINERS))
    return chance.choice(FOR_LEVELS if role == "levels" else FOR_NUMBERS)


def column_pair(chance: random.Random, name: str, n_rows: int, place: int, *, added: bool):
    """Return a column of two tables that differ in the row at one place, which the second lacks if `added`."""
    pool, make = CONTAINERS[name]
    cells = [chance.choice(pool) for _ in range(n_rows)]
    if added:
        return make(cells), make(cells[:place] + cells[place + 1 :])
    other = list(cells)
    other[place] = chance.choice(pool)
    return make(cells), make(other)
