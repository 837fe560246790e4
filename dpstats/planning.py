"""`plan`: the expected width of intervals before any budget is spent."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpstats.errors import OptionError, shown
from dpstats.forecast.losses import reference_residual_contrasts
from dpstats.forecast.moments import Reference, reference_contrasts, round_up
from dpstats.forecast.widths import SD_X, Planned, smallest_factor, tighter_widths, typical_width, width_table
from dpstats.mechanisms.options import MOMENT_MECHANISMS, SSP, Huber, as_mechanism
from dpstats.mechanisms.ssp import plan_moments
from dpstats.models.huber import planned_huber
from dpstats.privacy.notions import Budget, budget_of
from dpstats.results.axes import axes_for, plain
from dpstats.specification.design import Design, build_design
from dpstats.specification.formula import names_in
from dpstats.specification.schema import Schema, TableFacts, require_schema
from dpstats.specification.view import facts_of

SD_Y, RSQUARED = 0.25, 0.5
PLANNED_MECHANISMS: dict[str, SSP | Huber] = {**MOMENT_MECHANISMS, "huber": Huber()}
MANY_COEFFICIENTS = 30
"""Larger plans leave `Plan.tighter` out of the print: it repeats the forecast once per column."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A forecast from public facts and guesses; no record was read and nothing was spent.

    Attributes
    ----------
    formula : str
        As written.
    n : int
        Rows.
    budget : Budget
        What would be spent.
    mechanism : str
        What would be released, and with which noise.
    table : pandas.DataFrame
        One row per coefficient: ``width`` (expected interval width relative to a non-private fit, inf where the
        interval would be unbounded), ``signal`` (forecast SNR) and ``forecast`` (good,
        usable, weak).

    Examples
    --------
    >>> import dpstats as dps
    >>> _, schema = dps.datasets.load_adult()
    >>> forecast = dps.plan("hours_per_week ~ age + C(sex)", n=50_000, epsilon=1, schema=schema)
    >>> 1 < forecast.width < 1.5
    True
    """

    formula: str
    n: int
    budget: Budget
    mechanism: str
    table: pd.DataFrame
    _design: Design
    _reference: Reference
    _options: SSP | Huber

    @property
    def tighter(self) -> pd.Series:
        """Median width of the slopes if the bounds of one column were half as wide, by column; all else equal."""
        planned = _plan(self._design, self.budget, self.n, self._options)
        return tighter_widths(self._design, planned, self._reference)

    @property
    def width(self) -> float:
        """Median expected width of the slopes' intervals, relative to a non-private fit."""
        return typical_width(self.table)

    def n_for(self, width: float) -> int:
        """Return the number of rows, to two digits, for which the median width falls to `width`.

        Parameters
        ----------
        width : float
            Wanted width relative to a non-private fit; above 1.
        """

        def at(factor: float) -> float:
            n = self.n * factor
            planned = _plan(self._design, self.budget, n, self._options)
            return typical_width(width_table(self._design, planned, replace(self._reference, n=n)))

        return int(round_up(self.n * smallest_factor(at, width)))

    def budget_for(self, width: float) -> Budget:
        """Return the budget, to two digits, for which the median width falls to `width`: epsilon or rho is raised.

        Parameters
        ----------
        width : float
            Wanted width relative to a non-private fit; above 1.
        """

        def scaled(factor: float) -> Budget:
            if self.budget.rho is not None:
                return replace(self.budget, rho=round_up(self.budget.rho * factor))
            return replace(self.budget, epsilon=round_up((self.budget.epsilon or 1.0) * factor))

        def at(factor: float) -> float:
            planned = _plan(self._design, scaled(factor), self.n, self._options)
            return typical_width(width_table(self._design, planned, self._reference))

        return scaled(smallest_factor(at, width))

    def __str__(self) -> str:
        lines = [
            f"Plan for {self.formula!r}: n = {self.n:,}, {self.budget}, {self.mechanism}",
            f"Guesses: sd of columns {self._reference.sd_x} of half their range, sd of the outcome "
            f"{self._reference.sd_y}, R-squared {self._reference.rsquared};",
            "columns uncorrelated, levels equally frequent: where they are not, intervals are wider",
            "",
            self.table.to_string(float_format=lambda v: f"{v:.2f}"),
            "",
            f"Median width of the slopes: {self.width:.2f} times a non-private interval (+-20 % if the guesses hold)."
            if self.width < math.inf
            else "The intervals of most slopes would be unbounded.",
        ]
        tighter = self.tighter if len(self.table) <= MANY_COEFFICIENTS else pd.Series(dtype=float)
        if len(tighter) and tighter.min() < math.inf:
            best = tighter.idxmin()
            lines.append(f"With the bounds of {best!r} half as wide: {tighter[best]:.2f}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the expected width of each coefficient's interval; needs the ``plot`` extra.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            Without matplotlib.
        OptionError
            If `ax` is something else.
        """
        ax = axes_for(ax, "plot", 6.0, 0.4 * len(self.table) + 1.2)
        finite = self.table["width"].where(self.table["width"] < math.inf)
        positions = range(len(finite))
        ax.barh(positions, finite.fillna(0.0), color="0.6")
        ax.axvline(1.0, color="black", linewidth=1, linestyle="--")
        for position in positions:
            if math.isnan(finite.iloc[position]):
                ax.text(1.05, position, "unbounded", va="center")
        ax.set_yticks(positions, list(map(plain, self.table.index)))
        ax.set_ylim(len(finite) - 0.5, -0.5)
        ax.set_xlim(0.0, max(2.0, 1.05 * finite.max()) if finite.notna().any() else 2.0)
        ax.set_xlabel("expected interval width / non-private width")
        ax.set_title(f"{self.budget}, n = {self.n:,}")
        return ax


def plan(
    formula: str,
    n: int,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    bounds: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Sequence[Hashable]] | None = None,
    schema: Schema | None = None,
    mechanism: str | SSP | Huber = "auto",
    sd_x: float | Mapping[str, float] = SD_X,
    sd_y: float = SD_Y,
    rsquared: float = RSQUARED,
) -> Plan:
    """Forecast the intervals of `dp_ols` before any budget is spent; it can see no data.

    Parameters
    ----------
    formula : str
        As for `dp_ols`.
    n : int
        Number of rows.
    epsilon, delta, rho : float, optional
        As for `dp_ols`.
    bounds, levels, schema
        As for `dp_ols`; every column of the formula must be declared.
    mechanism : {"auto", "ssp", "huber"} or SSP or Huber
        As for `dp_ols`.
    sd_x : float or dict of str to float
        Guess of a continuous column's standard deviation in units of half its range; spread evenly it would be .577.
    sd_y : float
        The same for the outcome.
    rsquared : float
        Guess of R-squared.

    Returns
    -------
    Plan
        With a small table, ``width``, ``n_for(width)``, ``budget_for(width)`` and ``plot()``.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, OptionError
        As for `dp_ols`.

    Examples
    --------
    >>> import dpstats as dps
    >>> p = dps.plan("y ~ x + C(g)", n=20_000, epsilon=1, bounds={"x": (0, 1), "y": (0, 1)}, levels={"g": ["a", "b"]})
    >>> list(p.table.index)
    ['Intercept', 'C(g)[T.b]', 'x']
    """
    budget = budget_of(epsilon, delta, rho)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise OptionError(f"n must be the number of rows, as in n=10_000 (plan reads no table); not {shown(n)}")
    options = as_mechanism(mechanism, PLANNED_MECHANISMS)
    require_schema(schema)
    declared = (schema or Schema({})).updated(Schema.from_declarations(bounds, levels))
    design = build_design(formula, declared, _facts_of(formula, declared))
    reference = _guesses(n, sd_x, sd_y, rsquared, declared)
    planned = _plan(design, budget, n, options)
    table = width_table(design, planned, reference)
    return Plan(
        formula,
        n,
        budget,
        planned.method,
        table,
        design,
        reference,
        options,
    )


def _facts_of(formula: str, declared: Schema) -> TableFacts:
    """Return the facts of a table that has all columns of a formula, so that it is declarations that may lack."""
    known = facts_of(declared.columns)
    named = (name for name in names_in(formula) if name.replace(".", "") and not name.replace(".", "").isdigit())
    others = [name for name in named if name not in declared]
    return TableFacts((*known.names, *others), {**known.kinds, **dict.fromkeys(others, "object")})


def _guesses(n: int, sd_x: Any, sd_y: Any, rsquared: Any, schema: Schema) -> Reference:
    """Check the guesses about the table.

    Raises
    ------
    OptionError
        If a standard deviation is not in (0, 1], R-squared not in [0, 1), or a column of `sd_x` is not declared.
    """
    spreads = dict(sd_x) if isinstance(sd_x, Mapping) else {"sd_x": sd_x}
    if isinstance(sd_x, Mapping) and not set(spreads) <= set(schema.columns):
        unknown = next(name for name in spreads if name not in schema.columns)
        raise OptionError(f"sd_x names {shown(unknown)}, which is not declared")
    for name, sd in {**spreads, "sd_y": sd_y}.items():
        if isinstance(sd, bool) or not isinstance(sd, int | float) or not 0 < sd <= 1:
            raise OptionError(
                f"{name}: a standard deviation in units of half the declared range lies in (0, 1]; not {shown(sd)}"
            )
    if isinstance(rsquared, bool) or not isinstance(rsquared, int | float) or not 0 <= rsquared < 1:
        raise OptionError(f"rsquared must lie in [0, 1), as in rsquared=0.5; not {shown(rsquared)}")
    floats = {name: float(sd) for name, sd in spreads.items()}
    return Reference(float(n), floats if isinstance(sd_x, Mapping) else floats["sd_x"], float(sd_y), float(rsquared))


def _plan(design: Design, budget: Budget, n: float, options: SSP | Huber) -> Planned:
    n_rows = max(int(n), 1)
    if isinstance(options, Huber):
        perturbed = planned_huber(design, options, budget, n_rows)
        method = f"huber, block + {perturbed.hessian.law.capitalize()}"
        return Planned(method, lambda reference: reference_residual_contrasts(perturbed, reference))
    moments = plan_moments(design, budget, n_rows, noise=options.noise)
    usable = moments.reconcile if options.reconcile else None
    method = f"ssp, {moments.coding.noise.capitalize()}"
    return Planned(method, lambda reference: reference_contrasts(moments, reference, usable))
