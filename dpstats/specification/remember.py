"""What was worked out from public facts is remembered: checking a large design takes longer than reading a table.

Nothing remembered depends on a record, so that a call which is quick because an earlier one was alike tells nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

from dpstats.specification.schema import Categorical, Column, Continuous, Schema, TableFacts

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

KEPT = 32
"""Latest results of each function that are kept."""
_PLAIN = (str, int, float, bool)
_forget: list[Callable[[], None]] = []


def remembered(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function of public, hashable arguments so that equal ones give the same, unchangeable object again."""
    quick = lru_cache(maxsize=KEPT)(function)
    _forget.append(quick.cache_clear)
    return cast(Callable[Arguments, Result], quick)


def forget() -> None:
    """Forget everything: for tests that change how things are worked out."""
    for clear in _forget:
        clear()


def public_key(schema: Schema, facts: TableFacts) -> Hashable | None:
    """Return a key that differs where declarations or facts do: 1, 1.0 and True are three levels.

    None if something is of a class of the user's own, whose equality might be anything.
    """
    found = [(name, _column_key(column)) for name, column in schema.columns.items()]
    kinds = [(name, facts.kinds[name]) for name in facts.names]
    if any(type(name) is not str for name, _ in [*found, *kinds]) or any(key is None for _, key in found):
        return None
    return tuple(found), tuple(kinds)


def _column_key(column: Column) -> Hashable | None:
    if type(column) is Continuous:
        return column.lower.hex(), column.upper.hex()
    if isinstance(column, Continuous) or any(type(level) not in _PLAIN for level in column.levels):
        return None
    kind = "factor" if isinstance(column, Categorical) else "binary"
    return kind, tuple((type(level).__name__, repr(level)) for level in column.levels)
