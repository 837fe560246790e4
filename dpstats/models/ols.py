"""Private ordinary least squares, from formula to publishable table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.errors import OptionError, SchemaError, shown
from dpstats.forecast import require_feasible
from dpstats.inference.estimates import fit_least_squares, model_space
from dpstats.inference.robust import robust_ratios, score_target
from dpstats.mechanisms.options import HC0, HC1, SSP, as_ssp
from dpstats.mechanisms.robust import release_scores, require_measurable
from dpstats.mechanisms.ssp import MomentPlan, plan_moments, release_moments
from dpstats.privacy.cost import PrivacyCost
from dpstats.privacy.notions import Budget, budget_of
from dpstats.records.source import Source, as_source
from dpstats.release.noise import NoiseSource, NoNoise, RealNoise, SimulatedNoise
from dpstats.results.fitted import RobustScale
from dpstats.results.release import MomentRelease
from dpstats.results.results import DPResults
from dpstats.specification.design import build_design
from dpstats.specification.schema import Schema, TableFacts, complete_schema
from dpstats.specification.sensitivity import row_norms


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
    mechanism: str | SSP = "auto",
    cov_type: str | HC0 = "nonrobust",
    infeasible: str = "refuse",
    rng: np.random.Generator | None = None,
) -> DPResults:
    """Fit a linear regression by least squares under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"wage ~ educ + exper + C(region)"``, with transforms, interactions, splines and contrasts.
        ``.`` stands for all declared columns. ``center``, ``scale``, ``standardize``, ``poly`` and spline knots learn
        their constants from the declared range, not from the data.
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
    mechanism : {"auto", "ssp"} or SSP
        ``"ssp"`` releases all second moments at once; the default chooses it.
    cov_type : {"nonrobust", "HC0", "HC1"} or HC0 or HC1
        Robust standard errors are bought with a share of the budget, a tenth unless ``HC1(share=...)`` says otherwise.
    infeasible : {"refuse", "fit"}
        What to do where the public forecast says that nothing useful can come out.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    DPResults
        With ``params, bse, pvalues, conf_int(), t_test(), predict(), summary()`` as in statsmodels, and ``privacy``.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError, InfeasibleError
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
    robust = _covariance(cov_type)
    budget = budget_of(epsilon, delta, rho)
    source = as_source(data)
    del data  # a traceback that shows local variables shows no record
    call = _prepare(formula, source, budget, bounds, levels, schema, mechanism, infeasible, rng, robust)
    moments = release_moments(call.plan, call.source, call.noise)
    parts = {"second moments": call.plan.cost}
    if robust is None:
        return call.wrap(moments, parts).fit()
    first = call.wrap(moments, parts)
    space = model_space(call.plan.view.contrast, call.plan.view.has_constant, call.plan.coding)
    usable = first.usable_moments()
    fit = fit_least_squares(usable, space)
    blocks = call.plan.coding.blocks
    row_size = row_norms(blocks, np.ones(len(blocks)), call.plan.coding.noise, call.plan.bits).r2
    target = score_target(usable, space, fit, blocks, row_size)
    second = release_scores(target, call.plan, call.source, call.n_rows, robust.share, call.noise)
    correction = usable.n_complete / fit.df_resid if isinstance(robust, HC1) else 1.0
    ratios = robust_ratios(target, second.scores, second.sd, max(correction, 1.0))
    both = call.wrap(moments, {**parts, f"{type(robust).__name__} squared scores": second.cost})
    return DPResults(both, call.plan.view, RobustScale(type(robust).__name__, ratios))


def dp_moments(
    formula: str,
    data: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    bounds: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Sequence[Hashable]] | None = None,
    schema: Schema | None = None,
    mechanism: str | SSP = "auto",
    infeasible: str = "refuse",
    rng: np.random.Generator | None = None,
) -> MomentRelease:
    """Release the second moments of a formula once, for any number of least-squares fits.

    Parameters
    ----------
    formula, data, epsilon, delta, rho, bounds, levels, schema, mechanism, infeasible, rng
        As for `dp_ols`. The formula's right-hand side should contain every column that later fits need.

    Returns
    -------
    MomentRelease
        ``release.fit(formula)`` and `fit_many` cost nothing more; it can be saved, sent and loaded.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError, InfeasibleError
        As for `dp_ols`.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> release = dps.dp_moments("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> list(release.fit("hours_per_week ~ age").params.index)
    ['Intercept', 'age']
    """
    budget = budget_of(epsilon, delta, rho)
    source = as_source(data)
    del data  # a traceback that shows local variables shows no record
    call = _prepare(formula, source, budget, bounds, levels, schema, mechanism, infeasible, rng, None)
    moments = release_moments(call.plan, call.source, call.noise)
    return call.wrap(moments, {"second moments": call.plan.cost})


@dataclass(frozen=True, slots=True)
class _Call:
    """A call whose public arguments are checked and whose release is planned; no record was read."""

    plan: MomentPlan
    source: Source
    n_rows: int
    noise: NoiseSource
    options: SSP

    def wrap(self, moments: Any, parts: dict[str, Budget]) -> MomentRelease:
        privacy = PrivacyCost(self.plan.budget, parts, noise=self.noise.label)
        return MomentRelease(self.plan.coding, moments, privacy, self.options.reconcile)


def _prepare(
    formula: str,
    source: Source,
    budget: Budget,
    bounds: Any,
    levels: Any,
    schema: Any,
    mechanism: Any,
    infeasible: Any,
    rng: Any,
    robust: HC0 | None,
) -> _Call:
    noise = _noise_source(rng, budget)
    options = as_ssp(mechanism)
    if not isinstance(infeasible, str) or infeasible not in ("refuse", "fit"):
        raise OptionError(f"infeasible must be 'refuse' or 'fit', not {shown(infeasible)}")
    facts = source.facts
    design = build_design(formula, _public_schema(schema, bounds, levels, facts), facts)
    share = 1.0 if robust is None else 1 - robust.share
    plan = plan_moments(design, budget, facts.n_rows, share=share, noise=options.noise)
    if robust is not None:
        require_measurable(plan, facts.n_rows, robust.share)
    if infeasible == "refuse":
        require_feasible(plan, facts.n_rows, options.reconcile)
    return _Call(plan, source, facts.n_rows, noise, options)


def _covariance(cov_type: Any) -> HC0 | None:
    if isinstance(cov_type, HC0):
        return cov_type
    known = {"nonrobust": None, "HC0": HC0(), "HC1": HC1()}
    if not isinstance(cov_type, str) or cov_type not in known:
        raise OptionError(f"cov_type must be 'nonrobust', 'HC0', 'HC1' or dps.HC1(share=...), not {shown(cov_type)}")
    return known[cov_type]


def _noise_source(rng: Any, budget: Budget) -> NoiseSource:
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise OptionError(f"rng must be a numpy Generator, as in numpy.random.default_rng(1), not {shown(rng)}")
    if not budget.is_private:
        return NoNoise()
    return RealNoise() if rng is None else SimulatedNoise(rng)


def _public_schema(schema: Any, bounds: Any, levels: Any, facts: TableFacts) -> Schema:
    if schema is not None and not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a dpstats.Schema, not {type(schema).__name__}")
    declared = (schema or Schema({})).updated(Schema.from_declarations(bounds, levels))
    return complete_schema(declared, facts)
