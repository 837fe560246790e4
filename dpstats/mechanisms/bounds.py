"""Private bounds: the ranges of undeclared numeric columns, bought with a share of the budget.

public    grids, noise scales, threshold, gate: the plan
private   columns -> exact counts of bins, twice: on the first grid, and on the second one that it leads to
release   Laplace or Gaussian noise on each count
public    hulls of the significant bins, widened: bounds
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpstats.errors import BudgetError, InfeasibleError
from dpstats.mechanisms.lattice import TINY, TOO_SMALL
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.records.bins import count_bins
from dpstats.records.source import Source
from dpstats.release.noise import TRANSFER_VARIANCE, NoiseSource, gaussian_scale, laplace_scale
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.bins import FIRST, UNKNOWN, Grid, bounds_of, second_grid, threshold
from dpstats.specification.schema import Continuous
from dpstats.specification.sensitivity import NoiseKind, Relation

SHARE = 0.15
"""Share of the budget for the bounds of all undeclared columns together."""
FINE = 2**10
"""Counts are multiplied by this, so that the noise is many integer steps wide."""
LARGEST_GATE, SAFE_GATE = 0.03, 0.01
"""Threshold over the number of rows: above the first the call is refused, above the second bounds may clip more."""


@dataclass(frozen=True, slots=True)
class BoundsPlan:
    """The release of some columns' bounds, fixed before a record is read (zone: public).

    Attributes
    ----------
    names : tuple of str
        The columns.
    law : {"laplace", "gaussian"}
        Law of the noise.
    scale : float
        Of one count, in integer steps of 1 / FINE rows.
    thresholds : tuple of float
        Rows above which a noisy count of the first, and of the second level is significant.
    n_rows : int or None
        Public length of the table, if it is public.
    relation : {"replace_one", "add_or_remove_one"}
        Neighbouring relation.
    budget : Budget
        Of which `cost` is a share.
    cost : Budget
        Of both levels: epsilon, or rho = mu^2 / 2.
    """

    names: tuple[str, ...]
    law: NoiseKind
    scale: float
    thresholds: tuple[float, float]
    n_rows: int | None
    relation: Relation
    budget: Budget
    cost: Budget

    @property
    def is_rough(self) -> bool:
        """True if there are so few rows that the bounds may clip one or two per cent of a column."""
        return self.n_rows is not None and self.thresholds[0] > SAFE_GATE * self.n_rows


def plan_bounds(
    names: Sequence[str],
    budget: Budget,
    law: NoiseKind,
    share: float,
    n_rows: int | None,
    relation: Relation = "replace_one",
) -> BoundsPlan:
    """Plan the release of bounds.

    Parameters
    ----------
    names : sequence of str
        Undeclared numeric columns.
    budget : Budget
        Of the whole fit.
    law : {"laplace", "gaussian"}
        Law of the noise.
    share : float
        Of epsilon (Laplace) or mu^2 (Gaussian).
    n_rows : int or None
        Public length of the table; None leaves the gate out.
    relation : {"replace_one", "add_or_remove_one"}
        Neighbouring relation.

    Raises
    ------
    InfeasibleError
        If there are too few rows for these columns and this budget.
    BudgetError
        If the budget is too small for any noise.

    Notes
    -----
    Each of the two levels gets half of the share. Replacing one record changes the counts of P columns by 2 P in L1 and
    sqrt(2 P) in L2 (`dpstats.specification.bins`), adding or removing one by P and sqrt(P).
    """
    size = len(names)
    strength = stage_strength(budget, law, share / 2)
    if strength < TINY:
        raise BudgetError(TOO_SMALL)
    reach = _reach(size, law, relation)
    target = np.array([reach * FINE / strength])
    scale = float((laplace_scale(target) if law == "laplace" else gaussian_scale(target))[0])
    levels = [threshold(size, level, scale / FINE, law) if budget.is_private else 0.0 for level in (0, 1)]
    level = levels[0]
    if n_rows is not None and level > LARGEST_GATE * n_rows:
        enough = math.floor(size * LARGEST_GATE * n_rows / level) if law == "laplace" else 0
        fewer = f", or declare all but {enough} of them" if 0 < enough < size else ""
        raise InfeasibleError(
            f"no bounds are declared for {', '.join(map(repr, names))}, and {n_rows} rows with {budget} are too little "
            "to find them privately: declare them, bounds={"
            + ", ".join(f"{name!r}: (lowest, highest)" for name in names)
            + "}"
            + f"{fewer}, or "
            "levels={...} for a number that is the code of a category. Nothing was spent"
        )
    if not scale < 2.0**50:
        raise BudgetError(TOO_SMALL)
    return BoundsPlan(
        tuple(names), law, scale, (levels[0], levels[1]), n_rows, relation, budget, _cost(budget, law, scale, reach)
    )


def _reach(size: int, law: NoiseKind, relation: Relation) -> float:
    """Return how far one record moves the counts of some columns at one level, in L1 or L2."""
    changed = (2.0 if relation == "replace_one" else 1.0) * size
    return changed if law == "laplace" else math.sqrt(changed)


def _cost(budget: Budget, law: NoiseKind, scale: float, reach: float) -> Budget:
    if not budget.is_private:
        return budget
    if law == "laplace":
        return Budget(epsilon=2 * reach * FINE / scale)
    return Budget(rho=(reach * FINE) ** 2 / (scale**2 - (TRANSFER_VARIANCE if budget.delta else 0.0)))


def release_bounds(plan: BoundsPlan, source: Source, noise: NoiseSource) -> dict[str, Continuous]:
    """Read the table twice and return bounds; (-1, 1) for a column of which nothing was found.

    Parameters
    ----------
    plan : BoundsPlan
        From `plan_bounds`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    grids = dict.fromkeys(plan.names, FIRST)
    first = _release_counts(plan, grids, source, noise)
    coarse, fine = plan.thresholds
    finer = {name: second_grid(first[name], coarse) for name in plan.names}
    second = _release_counts(plan, finer, source, noise)
    found = {
        name: bounds_of(bool((first[name] > coarse).any()), second[name], finer[name], fine) for name in plan.names
    }
    return {name: UNKNOWN if bounds is None else bounds for name, bounds in found.items()}


def _release_counts(
    plan: BoundsPlan, grids: Mapping[str, Grid], source: Source, noise: NoiseSource
) -> dict[str, np.ndarray]:
    total = sum(grid.n_bins for grid in grids.values())
    reach = _reach(len(grids), plan.law, plan.relation) * FINE
    noise_plan = NoisePlan(plan.law, np.full(total, plan.scale), np.full(total, reach))
    released = release_integers(lambda: count_bins(source, grids) * FINE, noise_plan, noise) / FINE
    ends = np.cumsum([grid.n_bins for grid in grids.values()])
    return dict(zip(grids, np.split(released, ends[:-1]), strict=True))
