"""Plans of calls that buy bounds: one to check the call with, and one for what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpstats.errors import DPStatsError
from dpstats.specification.bins import UNKNOWN, widened
from dpstats.specification.schema import Continuous, Schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Planned(Generic[T]):
    """A plan and the declarations that it was made for (zone: public, or released if they were bought)."""

    schema: Schema
    plan: T


def with_unknown(schema: Schema, names: tuple[str, ...]) -> Schema:
    """Return declarations with which a call is checked before bounds are bought: (-1, 1) for each such column."""
    return schema.updated(Schema(dict.fromkeys(names, UNKNOWN)))


def plan_for_bounds(
    checked: Planned[T], found: Mapping[str, Continuous], plan_for: Callable[[Schema], T]
) -> Planned[T]:
    """Return a plan for bounds that were found; no bounds can make this fail.

    Parameters
    ----------
    checked : Planned
        What the call was checked with.
    found : mapping of str to Continuous
        Bounds as released.
    plan_for : callable
        Makes a plan for declarations; raises if the formula cannot be coded with them.

    Notes
    -----
    Bounds that a formula cannot be coded with are widened, to include 0 and then to be symmetric about it, and in the
    last resort (-1, 1) stays, with which the call was checked before it spent anything. All this is computed from
    released numbers.
    """
    for chosen in zip(*map(widened, found.values()), strict=True):
        schema = checked.schema.updated(Schema(dict(zip(found, chosen, strict=True))))
        with suppress(DPStatsError):
            return Planned(schema, plan_for(schema))
    return checked
