"""The public forecast: what a planned release would resolve on a table with well-spread columns (methods, 1.12 and 7).

No record is read. The reference table has independent columns: numbers uniform over a share of their declared range
about the middle, levels equally frequent; its moments per row are averages over public rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InfeasibleError
from dpstats.inference.diagnostics import USABLE_SIGNAL
from dpstats.inference.estimates import ModelSpace, fit_least_squares, model_space
from dpstats.inference.moment_test import Contrast, contrasts
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.reconcile import reconcile
from dpstats.mechanisms.ssp import MomentPlan
from dpstats.privacy.notions import Budget
from dpstats.specification.coercion import array_of
from dpstats.specification.grids import spread_frame
from dpstats.specification.identities import find_identities
from dpstats.specification.rowmap import RowMap

UNIFORM_SD = 1 / math.sqrt(3)
LEAST_SIGNAL = 1 / 1.5


@dataclass(frozen=True, slots=True)
class Reference:
    """Guesses about a table that is not read (zone: public).

    Attributes
    ----------
    n : float
        Complete rows.
    sd_x : float or dict of str to float
        Standard deviation of a continuous column in units of half its range; uniform over the range is .577.
    sd_y : float
        The same for the response.
    rsquared : float
        R-squared of the model, its slopes of equal size in coded units.
    """

    n: float
    sd_x: float | Mapping[str, float] = UNIFORM_SD
    sd_y: float = 0.25
    rsquared: float = 0.5


def reference_contrasts(plan: MomentPlan, reference: Reference, reconciled: bool) -> list[Contrast]:
    """Return the inference that a plan's noise would allow on the reference table, for every coefficient."""
    space = model_space(plan.view.contrast, plan.view.has_constant, plan.coding)
    moments = reference_moments(plan, reference, space)
    if reconciled:
        blocks = plan.coding.all_blocks
        moments = reconcile(moments, find_identities(blocks, plan.atoms, plan.coding.signs))
    fit = fit_least_squares(moments, space)
    return contrasts(moments, space, fit, np.eye(space.n_params))


def reference_moments(plan: MomentPlan, reference: Reference, space: ModelSpace) -> NoisyMoments:
    """Return the expected moments of the reference table, with the plan's noise variances."""
    design = plan.coding.design
    sd = reference.sd_x
    fill = min(sd / UNIFORM_SD, 1.0) if isinstance(sd, float) else {k: min(v / UNIFORM_SD, 1.0) for k, v in sd.items()}
    rows = 200 + 20 * plan.coding.n_columns
    names = design.regressor_variables
    frame = spread_frame(design.schema, names, rows, fill)
    z = RowMap(plan.coding, with_response=False).code({name: array_of(frame[name]) for name in names}, rows).columns
    gram = z.T @ z / rows
    slopes = _equal_slopes(gram, space, reference)
    matrix = np.empty((len(gram) + 1, len(gram) + 1))
    matrix[:-1, :-1] = gram
    matrix[:-1, -1] = matrix[-1, :-1] = gram @ slopes
    matrix[-1, -1] = max(reference.sd_y**2, float(slopes @ gram @ slopes))
    left, right = plan.atoms.left, plan.atoms.right
    values = reference.n * np.where(left < 0, 1.0, matrix[left, right])
    return NoisyMoments(values, plan.variances, plan.coding.noise, plan.atoms.index, plan.atoms.count)


def _equal_slopes(gram: NDArray[np.float64], space: ModelSpace, reference: Reference) -> NDArray[np.float64]:
    """Coefficients on coded columns, in the model's span and without a constant part, that explain R-squared."""
    projector = space.q @ space.q.T
    direction = projector @ (np.ones(len(gram)) - space.constant)
    total = float(space.constant @ gram @ direction)
    direction = direction - total * space.constant if space.has_constant else direction
    explained = float(direction @ gram @ direction)
    if explained <= 0:
        return np.zeros(len(gram))
    return direction * math.sqrt(reference.rsquared * reference.sd_y**2 / explained)


def require_feasible(plan: MomentPlan, n_rows: int, reconciled: bool) -> None:
    """Refuse a release from which nothing useful can come out, before it is made.

    Parameters
    ----------
    plan : MomentPlan
        The planned release.
    n_rows : int
        Public length of the table.
    reconciled : bool
        Whether redundant sums would be reconciled.

    Raises
    ------
    InfeasibleError
        If even on uniformly spread columns no coefficient but the intercept would rise above the noise; says which n,
        epsilon or rho would do.
    """
    if not plan.budget.is_private:
        return
    found = reference_contrasts(plan, Reference(float(n_rows)), reconciled)
    signal = signal_of_slopes(plan, found)
    if signal >= LEAST_SIGNAL:
        return
    factor = USABLE_SIGNAL / signal if signal > 0 else math.inf
    raise InfeasibleError(
        f"nothing useful can come out of {plan.coding.design.formula!r} with {n_rows} rows and {plan.budget}: the "
        "noise would exceed the signal of every slope, even if all columns were spread evenly over their bounds. "
        f"Bounded 95 % intervals need about {round_up(n_rows * factor):,} rows, or {_larger(plan.budget, factor)}, or "
        "fewer columns or tighter bounds. Nothing was spent; infeasible='fit' goes on anyway"
    )


def signal_of_slopes(plan: MomentPlan, found: list[Contrast]) -> float:
    """Return the largest signal-to-noise ratio among the coefficients, the intercept left out if there is another."""
    terms = [column.term for column in plan.view.design.columns]
    slopes = [c.signal_to_noise for c, term in zip(found, terms, strict=True) if term != "1"]
    return max(slopes or [c.signal_to_noise for c in found])


def _larger(budget: Budget, factor: float) -> str:
    if budget.rho is not None:
        return f"rho = {round_up(budget.rho * factor**2):g}"
    return f"epsilon = {round_up((budget.epsilon or 0.0) * factor):g}"


def round_up(number: float) -> float:
    """Round up to two significant digits."""
    if not math.isfinite(number) or number <= 0:
        return number
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    rounded = math.ceil(number / unit - 1e-9) * unit
    return int(rounded) if rounded >= 100 else round(rounded, 12)
