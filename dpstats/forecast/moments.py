"""The public forecast: what a planned release would resolve on a table with well-spread columns (methods, 1.12 and 7).

No record is read. The reference table has independent columns: numbers uniform over a share of their declared range
about the middle, levels equally frequent; its moments per row are averages over public rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpstats.errors import InfeasibleError
from dpstats.inference.diagnostics import USABLE_SIGNAL
from dpstats.inference.estimates import ModelSpace, fit_least_squares
from dpstats.inference.moment_test import Contrast, contrasts
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.monte_carlo import share_bounded
from dpstats.privacy.notions import Budget
from dpstats.specification.atoms import Atoms
from dpstats.specification.coercion import array_of
from dpstats.specification.design import Design
from dpstats.specification.grids import spread_frame
from dpstats.specification.remember import remembered
from dpstats.specification.view import ModelView

UNIFORM_SD = 1 / math.sqrt(3)
LEAST_SIGNAL = 1 / 1.5
MANY_COLUMNS = 200
"""Beyond so many coded columns a further one adds fewer public rows to the reference table."""


class PlannedMoments(Protocol):
    """What the forecast needs of a plan, whatever the mechanism (zone: public)."""

    @property
    def view(self) -> ModelView:
        """The model's columns in the released space."""

    @property
    def space(self) -> ModelSpace:
        """The same with an orthonormal basis."""

    @property
    def atoms(self) -> Atoms:
        """Which products are released."""

    @property
    def variances(self) -> NDArray[np.float64]:
        """Noise variance per atom."""

    @property
    def law(self) -> Literal["laplace", "gaussian"]:
        """Law of the noise."""

    @property
    def budget(self) -> Budget:
        """What was asked for."""

    def code_public(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
        """Return public rows in the released space, without the response."""


Usable = Callable[[NoisyMoments], NoisyMoments]


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


def reference_contrasts(plan: PlannedMoments, reference: Reference, usable: Usable | None = None) -> list[Contrast]:
    """Return the inference that a plan's noise would allow on the reference table, for every coefficient.

    Parameters
    ----------
    plan : PlannedMoments
        A planned release.
    reference : Reference
        Guesses about the table.
    usable : callable, optional
        What the fit does with released moments before it uses them, such as reconciliation.
    """
    space = plan.space
    moments = reference_moments(plan, reference, space)
    moments = moments if usable is None else usable(moments)
    fit = fit_least_squares(moments, space)
    return contrasts(moments, space, fit, np.eye(space.n_params))


def reference_moments(plan: PlannedMoments, reference: Reference, space: ModelSpace) -> NoisyMoments:
    """Return the expected moments of the reference table, with the plan's noise variances."""
    gram = reference_gram(plan.view.design, len(plan.atoms.index), plan.code_public, reference)
    slopes = _equal_slopes(gram, space, reference)
    matrix = np.empty((len(gram) + 1, len(gram) + 1))
    matrix[:-1, :-1] = gram
    matrix[:-1, -1] = matrix[-1, :-1] = gram @ slopes
    matrix[-1, -1] = max(reference.sd_y**2, float(slopes @ gram @ slopes))
    left, right, weights = plan.atoms.left, plan.atoms.right, plan.view.design.rules.weights
    typical = 1.0 if weights is None else weights.bounds.mid / weights.bounds.upper
    values = reference.n * np.where(left < 0, 1.0, typical * matrix[left, right])
    return NoisyMoments(values, plan.variances, plan.law, plan.atoms.index, plan.atoms.count)


def reference_gram(
    design: Design, size: int, code: Callable[[Mapping[str, Any], int], NDArray[np.float64]], reference: Reference
) -> NDArray[np.float64]:
    """Return the second moments per row of coded columns of the reference table.

    Parameters
    ----------
    design : Design
        The model.
    size : int
        Number of coded columns, by which the number of public rows is chosen.
    code : callable
        Codes public rows.
    reference : Reference
        Guesses about the table.
    """
    sd = reference.sd_x
    fill = min(sd / UNIFORM_SD, 1.0) if isinstance(sd, float) else {k: min(v / UNIFORM_SD, 1.0) for k, v in sd.items()}
    rows = 200 + 20 * min(size, MANY_COLUMNS) + 5 * max(size - MANY_COLUMNS, 0)
    names = design.regressor_variables
    frame = spread_frame(design.schema, names, rows, fill)
    z = code({name: array_of(frame[name]) for name in names}, rows)
    if size > MANY_COLUMNS:  # cells of factors, of which a row has few
        sparse = csr_array(z)
        return np.asarray((sparse.T @ sparse).toarray() / rows)
    return np.asarray(z.T @ z / rows)


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


def require_feasible(plan: PlannedMoments, n_rows: int, usable: Usable | None = None) -> None:
    """Refuse a release from which nothing useful can come out, before it is made.

    Parameters
    ----------
    plan : PlannedMoments
        The planned release.
    n_rows : int
        Public length of the table.
    usable : callable, optional
        What the fit does with released moments before it uses them.

    Raises
    ------
    InfeasibleError
        If even on uniformly spread columns no coefficient but the intercept would rise above the noise; says which n,
        epsilon or rho would do.
    """
    if plan.budget.is_private:
        signal = _best_signal(plan, n_rows, usable)
        if signal < LEAST_SIGNAL:
            factor = USABLE_SIGNAL / signal if signal > 0 else math.inf
            raise InfeasibleError(hopeless(plan.view.design, plan.budget, n_rows, factor))


@remembered
def _best_signal(plan: PlannedMoments, n_rows: int, usable: Usable | None) -> float:
    """Return the signal-to-noise ratio of the clearest slope on the reference table."""
    return signal_of_slopes(plan.view.design, reference_contrasts(plan, Reference(float(n_rows)), usable))


def hopeless(design: Design, budget: Budget, n_rows: int, factor: float) -> str:
    """Say that a fit is hopeless, and what would do.

    Parameters
    ----------
    design : Design
        The model.
    budget : Budget
        What may be spent.
    n_rows : int
        Public length of the table.
    factor : float
        So many times the rows, or the budget, would do.
    """
    return (
        f"nothing useful can come out of {design.formula!r} with {n_rows} rows and {budget}: the "
        "noise would exceed the signal of every slope, even if all columns were spread evenly over their bounds. "
        f"To rise well above it takes about {round_up(n_rows * factor):,} rows, or {_larger(budget, factor)}, or "
        "fewer columns or tighter bounds. Nothing was spent; infeasible='fit' goes on anyway"
    )


def require_acceptance(plan: PlannedMoments, n_rows: int, least: float) -> None:
    """Refuse to draw noise until X'X is positive definite where that would take long on the reference table.

    Parameters
    ----------
    plan : PlannedMoments
        The planned release, of Laplace noise.
    n_rows : int
        Public length of the table.
    least : float
        Share of draws that must be accepted.

    Raises
    ------
    InfeasibleError
        If fewer draws would be accepted.
    """
    if not plan.budget.is_private:
        return
    accepted = share_bounded(reference_moments(plan, Reference(float(n_rows)), plan.space))
    if accepted < least:
        raise InfeasibleError(
            f"bounded='repeat' would accept about {accepted:.0%} of the draws for {plan.view.design.formula!r} with "
            f"{n_rows} rows and {plan.budget}, even if all columns were spread evenly over their bounds, and might not "
            "end. Use bounded='regularize+trim', more rows or a larger epsilon. Nothing was spent"
        )


def signal_of_slopes(design: Design, found: list[Contrast]) -> float:
    """Return the largest signal-to-noise ratio among the coefficients, the intercept left out if there is another."""
    terms = [column.term for column in design.columns]
    slopes = [c.signal_to_noise for c, term in zip(found, terms, strict=True) if term != "1"]
    return max(slopes or [c.signal_to_noise for c in found])


def _larger(budget: Budget, factor: float) -> str:
    budget = budget.whole
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
