"""How results speak of bounds that were bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpstats.privacy.notions import Budget
from dpstats.specification.bins import UNKNOWN
from dpstats.specification.schema import Continuous, Schema


def bounds_part(names: Sequence[str]) -> str:
    """Return how a cost names the release of bounds."""
    return f"bounds of {', '.join(names)}"


def declared_as(names: Sequence[str]) -> str:
    """Return where bounds came from, for the head of a summary."""
    return f"private: {', '.join(names)}" if names else "declared"


def bought_remarks(
    schema: Schema, names: Sequence[str], parts: Mapping[str, Budget], *, rough: bool
) -> tuple[str, ...]:
    """Return what a reader should know of bought bounds: nothing, or one remark.

    Parameters
    ----------
    schema : Schema
        With the bounds.
    names : sequence of str
        Columns whose bounds were bought.
    parts : mapping of str to Budget
        What the fit has spent, by part.
    rough : bool
        True if there were few rows for it.
    """
    if not names:
        return ()
    found = ", ".join(f"{name} {_shown(schema, name)}" for name in names)
    few = " With so few rows they may clip one or two per cent of a column." if rough else ""
    return (f"Bounds bought for {parts[bounds_part(names)]}: {found}.{few}",)


def _shown(schema: Schema, name: str) -> str:
    column = schema[name]
    assert isinstance(column, Continuous)  # noqa: S101 - only the bounds of numbers are bought
    nothing = ", of which nothing was found" if column == UNKNOWN else ""
    return f"({column.lower:g}, {column.upper:g}){nothing}"
