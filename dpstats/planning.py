"""`plan`: the expected width of intervals before any budget is spent."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpstats.errors import OptionError, shown
from dpstats.forecast import Reference, reference_contrasts, round_up
from dpstats.inference.diagnostics import word_for_signal
from dpstats.inference.moment_test import Contrast
from dpstats.mechanisms.options import MOMENT_MECHANISMS, SSP, as_mechanism
from dpstats.mechanisms.ssp import MomentPlan, plan_moments
from dpstats.privacy.notions import Budget, budget_of
from dpstats.results.axes import axes_for, plain
from dpstats.specification.design import Design, build_design
from dpstats.specification.formula import names_in
from dpstats.specification.schema import Continuous, Schema, TableFacts, require_schema
from dpstats.specification.view import facts_of

SD_X, SD_Y, RSQUARED = 0.3, 0.25, 0.5
LARGEST_FACTOR = 1e6
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
    _options: SSP

    @property
    def tighter(self) -> pd.Series:
        """Median width of the slopes if the bounds of one column were half as wide, by column; all else equal."""
        planned = _plan(self._design, self.budget, self.n, self._options)
        return _tighter(planned, self._reference, self._options.reconcile)

    @property
    def width(self) -> float:
        """Median expected width of the slopes' intervals, relative to a non-private fit."""
        return _typical(self.table)

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
            return _typical(_table(planned, replace(self._reference, n=n), self._options.reconcile))

        return int(round_up(self.n * _smallest_factor(at, width)))

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
            return _typical(_table(planned, self._reference, self._options.reconcile))

        return scaled(_smallest_factor(at, width))

    def __str__(self) -> str:
        lines = [
            f"Plan for {self.formula!r}: n = {self.n:,}, {self.budget}, {self.mechanism}",
            f"Guesses: sd of columns {self._reference.sd_x} of half their range, sd of the outcome "
            f"{self._reference.sd_y}, R-squared {self._reference.rsquared}",
            "",
            self.table.to_string(float_format=lambda v: f"{v:.2f}"),
            "",
            f"Median width of the slopes: {self.width:.2f} times a non-private interval (about +-20 %)."
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
    mechanism: str | SSP = "auto",
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
    mechanism : {"auto", "ssp"} or SSP
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
    options = as_mechanism(mechanism, MOMENT_MECHANISMS)
    require_schema(schema)
    declared = (schema or Schema({})).updated(Schema.from_declarations(bounds, levels))
    design = build_design(formula, declared, _facts_of(formula, declared))
    reference = _guesses(n, sd_x, sd_y, rsquared, declared)
    planned = _plan(design, budget, n, options)
    table = _table(planned, reference, options.reconcile)
    return Plan(
        formula,
        n,
        budget,
        f"ssp, {planned.coding.noise.capitalize()}",
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


def _plan(design: Design, budget: Budget, n: float, options: SSP) -> MomentPlan:
    return plan_moments(design, budget, max(int(n), 1), noise=options.noise)


def _table(planned: MomentPlan, reference: Reference, reconciled: bool) -> pd.DataFrame:
    found = reference_contrasts(planned, reference, planned.reconcile if reconciled else None)
    rows = [(_width(c), c.signal_to_noise, word_for_signal(c.signal_to_noise)) for c in found]
    return pd.DataFrame(rows, columns=["width", "signal", "forecast"], index=planned.view.design.exog_names)


def _width(contrast: Contrast) -> float:
    """Return the expected width of the 95 % interval relative to one without noise."""
    low, high = contrast.interval(0.05)
    return (high - low) / (2 * 1.959964 * math.sqrt(contrast.sampling)) if contrast.sampling > 0 else math.inf


def _typical(table: pd.DataFrame) -> float:
    slopes = table["width"].drop("Intercept", errors="ignore")
    return float((slopes if len(slopes) else table["width"]).median())


def _tighter(planned: MomentPlan, reference: Reference, reconciled: bool) -> pd.Series:
    """Median width with one column's bounds halved, which doubles its spread in coded units (uniform at most)."""
    found = {}
    design = planned.coding.design
    continuous = [name for name in design.variables if isinstance(design.schema[name], Continuous)]
    for name in continuous:
        if name in design.response.symbol.variables:
            changed = replace(reference, sd_y=min(2 * reference.sd_y, 0.577))
        else:
            sd = {k: _sd_of(reference, k) * (2 if k == name else 1) for k in continuous}
            changed = replace(reference, sd_x=sd)
        found[name] = _typical(_table(planned, changed, reconciled))
    return pd.Series(found, dtype=float)


def _sd_of(reference: Reference, name: str) -> float:
    return reference.sd_x if isinstance(reference.sd_x, float) else reference.sd_x.get(name, SD_X)


def _smallest_factor(width_at: Any, wanted: float) -> float:
    """Return the smallest factor, to about 1 %, at which the width falls to what is wanted.

    Raises
    ------
    OptionError
        If no factor up to a million does.
    """
    if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not wanted > 1:
        raise OptionError(
            f"width is relative to a non-private interval and must be above 1, as in 1.25; not {shown(wanted)}"
        )
    low, high = 1e-6, 1.0
    while width_at(high) > wanted:
        low, high = high, high * 4
        if high > LARGEST_FACTOR:
            raise OptionError(f"no table or budget up to a million times larger gives a width of {wanted:g}")
    low = max(low, high / 4**10)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if width_at(middle) <= wanted else (middle, high)
    return high
