"""What is publicly known of each column: bounds, levels, or that it is binary."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.errors import SchemaError, shown

LARGEST, SMALLEST_WIDTH = 1e60, 1e-60
"""Products of columns beyond these sizes leave the range of floats."""


@dataclass(frozen=True, slots=True)
class Continuous:
    """A numeric column with public bounds; values outside are clipped, ``-inf`` and ``inf`` included.

    Parameters
    ----------
    lower, upper : float
        Finite bounds in the column's own unit, ``lower < upper``. They must be public knowledge (a codebook, a
        top-code, common sense), never the minimum and maximum of the data.

    Raises
    ------
    SchemaError
        If the bounds are not two finite numbers in increasing order.

    Examples
    --------
    >>> Continuous(0, 100).mid
    50.0
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        try:
            lower, upper = (math.nan if isinstance(end, str) else float(end) for end in (self.lower, self.upper))
        except (TypeError, ValueError, OverflowError):
            raise SchemaError(f"bounds must be two numbers, not {shown(self.lower)} and {shown(self.upper)}") from None
        if isinstance(self.lower, str) or isinstance(self.upper, str):
            raise SchemaError(f"bounds must be two numbers, not {shown(self.lower)} and {shown(self.upper)}")
        if not (math.isfinite(lower) and math.isfinite(upper)):
            raise SchemaError(f"bounds ({lower:g}, {upper:g}) are not finite; declare a finite public range")
        if lower > upper:
            raise SchemaError(f"bounds ({lower:g}, {upper:g}) are reversed; write ({upper:g}, {lower:g})")
        if lower == upper:
            raise SchemaError(
                f"the declared range ({lower:g}, {upper:g}) is a single value, so the column duplicates the intercept; "
                "leave the column out or declare the range that it can take"
            )
        if not math.isfinite(upper - lower) or (upper - lower) / 2 == 0.0:
            raise SchemaError(f"the width of ({lower:g}, {upper:g}) is not a usable float; rescale the column")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def half(self) -> float:
        """Half the width of the range."""
        return (self.upper - self.lower) / 2

    @property
    def mid(self) -> float:
        """Middle of the range."""
        return self.lower + self.half


@dataclass(frozen=True, slots=True)
class Categorical:
    """A column with publicly declared levels; any other value counts as missing.

    Parameters
    ----------
    levels : sequence of str, int, float or bool
        All levels that the column can take, whether or not they occur. The first is the reference level of treatment
        contrasts.

    Raises
    ------
    SchemaError
        If there is no level, or one is missing or declared twice.

    Examples
    --------
    >>> Categorical(["low", "mid", "high"]).levels
    ('low', 'mid', 'high')
    """

    levels: Sequence[Hashable]

    def __post_init__(self) -> None:
        levels = self.levels
        if isinstance(levels, str | bytes) or not isinstance(levels, Sequence | np.ndarray):
            raise SchemaError(f"levels must be a list such as ['a', 'b'], not {shown(levels)}")
        plain = tuple(level.item() if isinstance(level, np.generic) else level for level in levels)
        if not plain:
            raise SchemaError("levels is empty; list the levels that the column can take")
        for level in plain:
            if not isinstance(level, str | int | float | bool):
                raise SchemaError(f"a level of type {type(level).__name__} is not a string, number or bool")
            if isinstance(level, str) and not is_unicode(level):
                raise SchemaError(f"the level {level!r} is no text: it holds half of a surrogate pair")
            if isinstance(level, float) and math.isnan(level):
                raise SchemaError("a level is nan; missing values need no level, their rows are dropped")
            if isinstance(level, int) and abs(level) > 2**53:
                raise SchemaError("a level beyond 2**53 is too large to be told from its neighbours; use text instead")
        if len(set(plain)) < len(plain):
            raise SchemaError("a level is declared twice; list each level once, from public knowledge")
        object.__setattr__(self, "levels", plain)


@dataclass(frozen=True, slots=True)
class Binary:
    """A column of zeros and ones, or of bools; any other value counts as missing.

    In a formula the bare name is the number 0 or 1, and ``C(name)`` is a factor with two levels.

    Parameters
    ----------
    levels : {(0, 1), (False, True)}
        How the two values are written in coefficient names; ``(False, True)`` for columns of dtype bool.

    Examples
    --------
    >>> Binary().levels
    (0, 1)
    """

    levels: tuple[int | bool, int | bool] = (0, 1)

    def __post_init__(self) -> None:
        if not isinstance(self.levels, tuple | list) or tuple(self.levels) != (0, 1):
            raise SchemaError("Binary stands for 0/1 or False/True; declare Categorical([...]) instead")


Column = Continuous | Categorical | Binary


@dataclass(frozen=True, slots=True)
class Schema:
    """The public description of a table's columns, declared once and used by every fit.

    Parameters
    ----------
    columns : mapping of str to Continuous, Categorical or Binary
        One entry for each column that formulas may use.

    Raises
    ------
    SchemaError
        If a value is not one of the three column types.

    Examples
    --------
    >>> schema = Schema({"wage": Continuous(0, 100), "region": Categorical(["n", "s"]), "union": Binary()})
    >>> "wage" in schema
    True
    """

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise SchemaError(f"columns must be a dict keyed by column name, not {type(self.columns).__name__}")
        for name, column in self.columns.items():
            if not isinstance(name, str):
                raise SchemaError(f"column names must be strings, not {shown(name)}")
            if not is_unicode(name):
                raise SchemaError(f"the column name {name!r} is no text: it holds half of a surrogate pair; rename it")
            if not isinstance(column, Column):
                raise SchemaError(f"column {name!r}: write Continuous(lower, upper), Categorical(levels) or Binary()")
        object.__setattr__(self, "columns", dict(self.columns))

    @classmethod
    def from_declarations(
        cls, bounds: Mapping[str, Sequence[float]] | None, levels: Mapping[str, Sequence[Hashable]] | None
    ) -> Schema:
        """Build a schema from ``bounds={"x": (0, 1)}`` and ``levels={"g": ["a", "b"]}``."""
        columns: dict[str, Column] = {}
        for name, pair in _mapping("bounds", bounds).items():
            columns[name] = _continuous(name, pair)
        for name, values in _mapping("levels", levels).items():
            if name in columns:
                raise SchemaError(f"column {name!r} is declared twice, in bounds= and in levels=; keep one of them")
            try:
                columns[name] = Categorical(values)
            except SchemaError as error:
                raise SchemaError(f"levels of {name!r}: {error}") from None
        return cls(columns)

    def updated(self, other: Schema) -> Schema:
        """Return a schema in which the entries of `other` come before one's own."""
        return Schema({**self.columns, **other.columns})

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise KeyError(f"{name!r} is not declared; declared are {', '.join(map(repr, self.columns))}")
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


def is_unicode(text: str) -> bool:
    """Tell whether a text can be encoded: half of a surrogate pair cannot, and breaks libraries below."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _mapping(argument: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError(f"{argument} must be a dict keyed by column name, not {type(value).__name__}")
    return value


def _continuous(name: str, pair: Any) -> Continuous:
    if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise SchemaError(
            f"bounds of {name!r}: write a pair such as (0, 100); for a category use levels={{{name!r}: [...]}}"
        )
    if any(isinstance(end, str) for end in pair):
        raise SchemaError(
            f"bounds of {name!r}: the ends must be numbers, not text; for a category use levels={{{name!r}: [...]}}, "
            "and turn a date into a number (days since a fixed day) first"
        )
    try:
        return Continuous(*pair)
    except SchemaError as error:
        raise SchemaError(f"bounds of {name!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The public facts of a table (zone: public): all that a call may know of it before it is read.

    Attributes
    ----------
    names : tuple of str
        Column names in table order; duplicates kept.
    kinds : dict of str to str
        Per name ``"number"``, ``"bool"``, ``"text"``, ``"category"``, ``"object"``, ``"datetime"`` or ``"other"``,
        from the dtype alone.

    Notes
    -----
    The length is no such fact: it is public only where neighbouring tables have the same one, and may have to be
    counted.
    """

    names: tuple[str, ...]
    kinds: Mapping[str, str]


def require_schema(schema: Any) -> None:
    """Refuse what is no schema.

    Raises
    ------
    SchemaError
        If it is neither one nor None.
    """
    if schema is not None and not isinstance(schema, Schema):
        raise SchemaError(
            f"schema must be a dpstats.Schema, not {type(schema).__name__}; write bounds= and levels=, or "
            "dps.Schema({'x': dps.Continuous(0, 100), 'g': dps.Categorical(['a', 'b'])})"
        )


def complete_schema(schema: Schema, facts: TableFacts) -> Schema:
    """Add the columns that need no declaration: a column of dtype bool is publicly binary."""
    known = {
        name: Binary((False, True))
        for name in facts.names
        if facts.kinds[name] == "bool" and not isinstance(schema.columns.get(name), Continuous | Categorical)
    }
    return schema.updated(Schema(known))


def check_table(schema: Schema, facts: TableFacts, used: Sequence[str]) -> None:
    """Refuse a table whose names or dtypes do not fit the declarations of the columns in `used`.

    Raises
    ------
    SchemaError
        If a dtype contradicts the declaration.
    """
    for name in used:
        kind, column = facts.kinds[name], schema[name]
        if kind == "datetime":
            raise SchemaError(
                f"column {name!r} is a datetime; turn it into a number first, such as days since a fixed day"
            )
        if kind == "other":
            raise SchemaError(f"column {name!r} has a dtype that dpstats cannot read; turn it into numbers or text")
        if isinstance(column, Continuous | Binary) and kind == "text":
            raise SchemaError(
                f"column {name!r} holds text but is declared numeric; convert it with pandas.to_numeric, or declare "
                f"levels={{{name!r}: [...]}}"
            )
        if isinstance(column, Continuous):
            size = max(abs(column.lower), abs(column.upper))
            if size > LARGEST or column.upper - column.lower < SMALLEST_WIDTH:
                raise SchemaError(
                    f"bounds of {name!r}: the range ({column.lower:g}, {column.upper:g}) is too large or too narrow "
                    "for floats; rescale the column"
                )
        if isinstance(column, Categorical):
            text = all(isinstance(level, str) for level in column.levels)
            numeric = not any(isinstance(level, str) for level in column.levels)
            if (text and kind in {"number", "bool"}) or (numeric and kind == "text"):
                raise SchemaError(
                    f"column {name!r} holds {'numbers' if text else 'text'} but its declared levels are "
                    f"{'text' if text else 'numbers'}; declare the levels as they stand in the column"
                )
