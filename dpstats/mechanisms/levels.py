"""Private levels: the values that occur often in a column whose levels are not publicly known.

public    noise scale, threshold, gate: the plan
private   columns -> exact counts of the values that occur
release   Laplace noise on each count; a value is shown if its noisy count reaches the threshold (Korolova et al. 2009)

Sensitivity, for one column and noise of scale s. A record adds 1 to the count of one value: replacing it moves c = 2
counts by 1, adding or removing it moves c = 1. Let a be the value that table D has and its neighbour D' has not, if
there is one; its count is 1. Unless a is shown, which has probability p = P(1 + Z >= threshold), whatever is shown
consists of values that both tables have and is at most e^(c / s) times as likely under D as under D': each count that
moves contributes e^(1 / s) at most, and a value that D' has alone, of count 1, stays hidden there with probability
1 - p >= e^(-1 / s), which the plan checks. So one column is (c / s, p)-private. P columns add up; the plan takes 2 p
for p. (The noise is OpenDP's, the threshold ours: `make_laplace_threshold` of OpenDP 0.16 states P(Z >= threshold) for
a value of count 1, which is less than P(1 + Z >= threshold).)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpstats.errors import BudgetError, InfeasibleError
from dpstats.mechanisms.lattice import TINY, TOO_SMALL
from dpstats.privacy.notions import Budget
from dpstats.records.levels import Level, count_levels
from dpstats.records.source import Source
from dpstats.release.noise import ROUNDING, NoiseSource
from dpstats.release.release import release_levels
from dpstats.specification.sensitivity import Relation

LARGEST_GATE = 0.1
"""Threshold over the number of rows above which a call is refused: no value of a tenth of the rows would be sure."""


@dataclass(frozen=True, slots=True)
class LevelsPlan:
    """The release of some columns' levels, fixed before a record is read (zone: public).

    Attributes
    ----------
    names : tuple of str
        The columns.
    scale : float
        Of the noise on a count, in rows.
    threshold : int
        Rows that a noisy count must reach; 1 without noise.
    cost : Budget
        epsilon and delta of all columns together.
    """

    names: tuple[str, ...]
    scale: float
    threshold: int
    cost: Budget


def plan_levels(names: Sequence[str], budget: Budget, n_rows: int | None, relation: Relation) -> LevelsPlan:
    """Plan the release of levels.

    Parameters
    ----------
    names : sequence of str
        Columns.
    budget : Budget
        epsilon and delta.
    n_rows : int or None
        Public length of the table, if it is public.
    relation : {"replace_one", "add_or_remove_one"}
        Neighbouring relation.

    Raises
    ------
    BudgetError
        If the budget is too small.
    InfeasibleError
        If there are so few rows that hardly any value would be found.
    """
    if not budget.is_private:
        return LevelsPlan(tuple(names), 1.0, 1, budget)
    epsilon, delta = budget.epsilon or 0.0, budget.delta or 0.0
    moved = 2.0 if relation == "replace_one" else 1.0
    if epsilon < TINY or delta < TINY:
        raise BudgetError(TOO_SMALL)
    scale = moved * len(names) / epsilon * ROUNDING
    odds = 2 * len(names) / (delta * (1 + math.exp(-1 / scale)))
    threshold = 2 + math.floor(scale * max(math.log(odds), 0.0) + 1e-6)
    slip = tail(threshold - 1, scale)
    if not threshold < 2.0**50 or slip > -math.expm1(-1 / scale) or 2 * len(names) * slip > delta:
        raise BudgetError(TOO_SMALL)
    if n_rows is not None and threshold > LARGEST_GATE * n_rows:
        raise InfeasibleError(
            f"{n_rows} rows and {budget} are too little to find the levels of {', '.join(map(repr, names))}: only "
            f"values of some {threshold} rows or more would be found. Declare levels={{...}}. Nothing was spent"
        )
    cost = Budget(epsilon=moved * len(names) / scale, delta=2 * len(names) * slip)
    return LevelsPlan(tuple(names), scale, threshold, cost)


def tail(t: int, scale: float) -> float:
    """Return P(Z >= t) for discrete Laplace noise Z of some scale and t >= 1."""
    return math.exp(-t / scale) / (1 + math.exp(-1 / scale))


def find_levels(plan: LevelsPlan, source: Source, noise: NoiseSource) -> dict[str, list[Level]]:
    """Read the table once and return the levels that were found, texts before numbers, each in increasing order.

    Parameters
    ----------
    plan : LevelsPlan
        From `plan_levels`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    found = release_levels(lambda: count_levels(source, plan.names), plan.scale, plan.threshold, noise)
    return {name: sorted(levels, key=_order) for name, levels in zip(plan.names, found, strict=True)}


def _order(level: Level) -> tuple[bool, Level]:
    return not isinstance(level, str), level
