"""Private ordinary least squares, from formula to publishable table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.errors import OptionError, SchemaError
from dpstats.mechanisms.ssp import cost_of, plan_moments, release_moments
from dpstats.privacy.notions import Budget, budget_of
from dpstats.records.source import as_source
from dpstats.release.noise import NoiseSource, NoNoise, RealNoise, SimulatedNoise
from dpstats.results.model_info import ModelInfo
from dpstats.results.results import DPResults
from dpstats.specification.design import build_design
from dpstats.specification.schema import Schema, TableFacts, complete_schema

MECHANISMS = ("auto", "ssp")


def dp_ols(
    formula: str,
    data: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    bounds: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Sequence[Hashable]] | None = None,
    schema: Schema | None = None,
    mechanism: str = "auto",
    rng: np.random.Generator | None = None,
) -> DPResults:
    """Fit a linear regression by least squares under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"wage ~ educ + exper + C(region)"``, with transforms, interactions, splines and contrasts.
    data : pandas.DataFrame or dict of array-like
        One row per record.
    epsilon : float, optional
        Pure epsilon-DP budget; with `delta`, an (epsilon, delta) budget. ``float("inf")`` fits without noise, and
        every print of the result says NOT PRIVATE.
    delta : float, optional
        Needs `epsilon`.
    rho : float, optional
        zCDP budget, instead of `epsilon`.
    bounds : dict of str to (float, float), optional
        Public bounds of numeric columns, keyed by raw column.
    levels : dict of str to list, optional
        Public levels of categorical columns, the reference level first.
    schema : Schema, optional
        Bounds and levels declared once; `bounds` and `levels` come before it.
    mechanism : {"auto", "ssp"}
        ``"ssp"`` releases all second moments at once; the default chooses it.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    DPResults
        With ``params, bse, pvalues, conf_int(), t_test(), predict(), summary()`` as in statsmodels, and ``privacy``.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    Neighbouring tables differ in one row; the table's length is public. The release is the vector of all second
    moments of coded columns, on an integer lattice, with discrete Laplace or discrete Gaussian noise. Estimates solve
    the noisy normal equations; intervals invert a test that knows the noise's law.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> list(fit.params.index)
    ['Intercept', 'C(sex)[T.Male]', 'age']
    """
    budget = budget_of(epsilon, delta, rho)
    noise = _noise_source(rng, budget)
    if mechanism not in MECHANISMS:
        raise OptionError(f"mechanism must be one of {', '.join(map(repr, MECHANISMS))}, not {mechanism!r}")
    source = as_source(data)
    del data  # a traceback that shows local variables shows no record
    facts = source.facts
    design = build_design(formula, _public_schema(schema, bounds, levels, facts), facts)
    plan = plan_moments(design, budget, facts.n_rows)
    moments = release_moments(plan, source, noise)
    return DPResults(
        model=ModelInfo(formula, design.endog_name, design.exog_names),
        coding=plan.coding,
        has_constant=plan.has_constant,
        moments=moments,
        mechanism=f"ssp, {plan.noise.kind.capitalize()}",
        privacy=cost_of(plan, noise),
        declared="declared",
    )


def _noise_source(rng: Any, budget: Budget) -> NoiseSource:
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise OptionError(f"rng must be a numpy Generator, as in numpy.random.default_rng(1), not {rng!r}")
    if not budget.is_private:
        return NoNoise()
    return RealNoise() if rng is None else SimulatedNoise(rng)


def _public_schema(schema: Any, bounds: Any, levels: Any, facts: TableFacts) -> Schema:
    if schema is not None and not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a dpstats.Schema, not {type(schema).__name__}")
    declared = (schema or Schema({})).updated(Schema.from_declarations(bounds, levels))
    return complete_schema(declared, facts)
