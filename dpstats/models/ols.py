"""Private ordinary least squares, from formula to publishable table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpstats.errors import OptionError
from dpstats.inference.estimates import fit_least_squares
from dpstats.inference.robust import robust_sampling, score_target
from dpstats.mechanisms.adassp import fit_adassp, plan_adassp
from dpstats.mechanisms.functional import plan_objective
from dpstats.mechanisms.options import (
    HC0,
    HC1,
    LEAST_SQUARES_MECHANISMS,
    MOMENT_MECHANISMS,
    SSP,
    AdaSSP,
    Huber,
    Mechanism,
    as_mechanism,
)
from dpstats.mechanisms.robust import affordable, release_scores
from dpstats.mechanisms.ssp import release_moments
from dpstats.models.call import (
    Account,
    Sealed,
    Table,
    Unit,
    account_of,
    check_infeasible,
    covariance_type,
    public_schema,
    refuse_if_hopeless,
    table_of,
)
from dpstats.models.huber import fit_huber
from dpstats.models.moment_call import Declarations, MomentCall, prepare_moments
from dpstats.models.noisy_objective import refuse_hopeless_objective, released_objective
from dpstats.privacy.charge import charge_of
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.notions import Budget, budget_of
from dpstats.release.noise import NoiseSource, noise_source
from dpstats.results.fitted import RobustScale
from dpstats.results.objective_release import shrinkage
from dpstats.results.point import PointResults
from dpstats.results.release import PROJECTION, MomentRelease
from dpstats.results.results import DPResults
from dpstats.specification.design import Design, build_design
from dpstats.specification.objectives import LEAST_SQUARES
from dpstats.specification.rules import Missing, row_rules
from dpstats.specification.schema import Schema
from dpstats.specification.sensitivity import Relation, row_norms


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
    mechanism: str | Mechanism = "auto",
    cov_type: str | HC0 = "nonrobust",
    infeasible: str = "refuse",
    neighboring_relation: Relation = "replace_one",
    n_public: int | None = None,
    contributions: int = 1,
    privacy_unit: str | None = None,
    missing: Missing = "drop",
    weights: str | None = None,
    offset: str | None = None,
    ledger: Ledger | None = None,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> DPResults | PointResults:
    """Fit a linear regression by least squares under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels: ``"wage ~ educ + exper + C(region)"``, with transforms, interactions, splines and contrasts.
        ``.`` stands for all declared columns. ``center``, ``scale``, ``standardize``, ``poly`` and spline knots learn
        their constants from the declared range, not from the data.
    data : table
        One row per record: a DataFrame of pandas, polars or Dask, a polars LazyFrame, a Table or Dataset of pyarrow, a
        relation of DuckDB, the path of a Parquet file or a list of such paths, or a dict of arrays. A query is the
        table that it gives: one that filters on what others must not know makes the number of rows private.
    epsilon : float, optional
        Pure epsilon-DP budget; with `delta`, an (epsilon, delta) budget. ``float("inf")`` fits without noise, and
        every print of the result says NOT PRIVATE.
    delta : float, optional
        Needs `epsilon`.
    rho : float, optional
        zCDP budget, instead of `epsilon`.
    bounds : dict of str to (float, float), optional
        Public bounds of numeric columns, keyed by raw column. With ``"ssp"`` the bounds of numeric columns that nobody
        declared are bought with 15 % of the budget, which takes many rows; see `private_bounds`.
    levels : dict of str to list, optional
        Public levels of categorical columns, the reference level first.
    schema : Schema, optional
        Bounds and levels declared once; `bounds` and `levels` come before it.
    mechanism : {"auto", "ssp", "huber", "functional", "diff-lr", "adassp"} or an options object
        ``"ssp"`` releases all second moments at once; the default chooses it. ``"huber"`` fits one model with far less
        noise, by a loss for which residuals count up to a public threshold (Huber 1964). ``"functional"`` (Zhang et
        al. 2012) and ``"diff-lr"`` (Zheng and Zou 2016) add noise to the objective and keep it bounded by a ridge,
        which is part of the estimand; they need a pure epsilon. ``"adassp"`` (Wang 2018) needs delta or rho and has no
        inference.
        Options in `SSP`, `Huber`, `Functional`, `DiffLR`, `AdaSSP`.
    cov_type : {"nonrobust", "HC0", "HC1"} or HC0 or HC1
        Robust standard errors are bought with a share of the budget, a tenth unless ``HC1(share=...)`` says otherwise;
        with ``"ssp"`` and ``"huber"`` only.
    infeasible : {"refuse", "fit"}
        What to do where the public forecast says that nothing useful can come out.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Neighbouring tables have the same, public length and differ in one row, or one has a row that the other has not
        and the length is private; the second with ``"ssp"`` only.
    n_public : int, optional
        Publicly known length, at least roughly, where the table's own is private. Forecasts go by it; without it they
        are left out.
    contributions : int
        Most rows that one person has in the table; the guarantee is then per person, and each row gets less. It is
        believed, not enforced, unless `privacy_unit` is given.
    privacy_unit : str, optional
        Column of numbers or texts that tells persons apart, with ``"ssp"`` only. The first `contributions` rows of each
        are used, in the table's order, which a query or a shuffled table has not; rows that name nobody are not used.
        The guarantee is for a person with any number of rows, and the table's length is private.
    missing : {"drop", "none"}
        ``"drop"`` leaves out rows with a missing entry, and their number is private. ``"none"`` says that the columns
        used are complete, so that the number of rows is as public as the table's length; a missing number becomes the
        middle of its range all the same, a missing level the first one.
    weights : str, optional
        Column of weights, declared from 0 on, as in weighted least squares; with ``"ssp"`` only.
    offset : str, optional
        Column or expression, such as ``"np.log(exposure)"``, that is taken from the response before the fit and added
        to predictions.
    ledger : Ledger, optional
        Account that the fit is charged to before a record is read; the one of a surrounding ``with ledger:`` by
        default.
    progress : bool
        Show on stderr how far a call is that takes longer than a second or two: its time, and the share of rows that
        were read unless their number is private.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    DPResults
        With ``params, bse, pvalues, conf_int(), t_test(), predict(), summary()`` as in statsmodels, and ``privacy``.
        `DPHuberResults` for ``"huber"``; `PointResults`, without inference, for AdaSSP.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError, InfeasibleError, BudgetExceeded
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    ``"ssp"`` releases the vector of all second moments of coded columns, on an integer lattice, with discrete Laplace
    or discrete Gaussian noise. Estimates solve the noisy normal equations; intervals invert a test that knows the
    noise's law. ``"huber"`` releases the minimiser of a loss with a random linear term, the Hessian there and the sum
    of squared residuals; its intervals are about Huber's regression.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> list(fit.params.index)
    ['Intercept', 'C(sex)[T.Male]', 'age']
    """
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    robust = covariance_type(cov_type)
    budget = budget_of(epsilon, delta, rho)
    table = table_of(sealed, Unit(contributions, neighboring_relation, privacy_unit, n_public), progress)
    options = as_mechanism(mechanism, LEAST_SQUARES_MECHANISMS)
    noise = noise_source(rng, private=budget.is_private)
    account = account_of(ledger, table, noise)
    budget = account.protection.of_row(budget)
    if isinstance(options, SSP):
        declared = Declarations(schema, bounds, levels, missing, weights, offset)
        call = prepare_moments(formula, table, budget, declared, options, infeasible, account, noise, robust)
        with call.spending():
            return _fit_moments(call.with_bounds(), robust)
    if robust is not None and not isinstance(options, Huber):
        raise OptionError(f"cov_type={robust.name!r} needs mechanism='ssp' or 'huber', not {type(options).__name__}")
    if weights is not None:
        raise OptionError(f"weights= needs mechanism='ssp', not {type(options).__name__}")
    check_infeasible(infeasible)
    facts = table.facts
    complete = public_schema(formula, schema, bounds, levels, facts)
    design = build_design(formula, complete, facts, rules=row_rules(missing, None, offset, complete, facts))
    n_rows = table.rows_for(type(options).__name__)
    if isinstance(options, Huber):
        return fit_huber(design, options, robust, budget, table.source, noise, infeasible, account)
    if isinstance(options, AdaSSP):
        return _fit_adaptive(design, options, budget, table, noise, infeasible, account)
    plan = plan_objective(design, LEAST_SQUARES, options, budget, n_rows)
    refuse_hopeless_objective(infeasible, plan, n_rows)
    with account.spending(charge_of(budget, plan.law), formula):
        release = released_objective(plan, table.source, noise, account)
    return DPResults(release, plan.view)


def _fit_moments(call: MomentCall, robust: HC0 | None) -> DPResults:
    """Release second moments, and squared scores for robust standard errors, and fit."""
    moments = release_moments(call.plan, call.table.source, call.noise)
    parts = {"second moments": call.plan.cost}
    if robust is None:
        return call.wrap(moments, parts).fit()
    first = call.wrap(moments, parts)
    space = call.plan.space
    usable = first.usable_moments()
    fit = fit_least_squares(usable, space)
    blocks = call.plan.coding.blocks
    row_size = row_norms(blocks, np.ones(len(blocks)), call.plan.coding.noise, call.plan.bits).r2
    stage = call.robust_stage(robust)
    target = affordable(
        lambda whole: score_target(usable, space, fit, blocks, row_size, whole=whole), space.n_params, stage
    )
    second = release_scores(target, stage, call.squared_scores(target), call.noise)
    correction = usable.n_complete / fit.df_resid if isinstance(robust, HC1) else 1.0
    sampling = robust_sampling(target, second.scores, second.sd, max(correction, 1.0))
    both = call.wrap(moments, {**parts, f"{robust.name} squared scores": second.cost})
    return DPResults(both, call.plan.view, RobustScale(robust.name, sampling))


def _fit_adaptive(
    design: Design,
    options: AdaSSP,
    budget: Budget,
    table: Table,
    noise: NoiseSource,
    infeasible: str,
    account: Account,
) -> PointResults:
    n_rows = table.source.n_rows
    plan = plan_adassp(design, options, budget, n_rows)
    refuse_if_hopeless(infeasible, plan, n_rows)
    with account.spending(charge_of(budget, "gaussian"), design.formula):
        fit = fit_adassp(plan, table.source, noise)
    return PointResults(
        design,
        pd.Series(fit.params, index=design.exog_names),
        "adassp, Gaussian",
        account.cost(budget, {"X'X, X'y, smallest eigenvalue": plan.cost}),
        design.rules.describe(PROJECTION) + shrinkage(plan.features, fit.ridge, "a ridge"),
        "AdaSSP has no standard errors or intervals: its ridge is chosen from released numbers and biases towards 0. "
        "Use mechanism='ssp' for inference.",
    )


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
    neighboring_relation: Relation = "replace_one",
    n_public: int | None = None,
    contributions: int = 1,
    privacy_unit: str | None = None,
    missing: Missing = "drop",
    weights: str | None = None,
    offset: str | None = None,
    ledger: Ledger | None = None,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> MomentRelease:
    """Release the second moments of a formula once, for any number of least-squares fits.

    Parameters
    ----------
    formula, data, epsilon, delta, rho, bounds, levels, schema, mechanism, infeasible
        As for `dp_ols`. The formula's right-hand side should contain every column that later fits need.
    neighboring_relation, n_public, contributions, privacy_unit, missing, weights, offset, ledger, progress, rng
        As for `dp_ols`; they hold for all fits from the release.

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
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    budget = budget_of(epsilon, delta, rho)
    table = table_of(sealed, Unit(contributions, neighboring_relation, privacy_unit, n_public), progress)
    options = as_mechanism(mechanism, MOMENT_MECHANISMS)
    noise = noise_source(rng, private=budget.is_private)
    account = account_of(ledger, table, noise)
    budget = account.protection.of_row(budget)
    declared = Declarations(schema, bounds, levels, missing, weights, offset)
    call = prepare_moments(formula, table, budget, declared, options, infeasible, account, noise, None)
    with call.spending():
        call = call.with_bounds()
        moments = release_moments(call.plan, call.table.source, call.noise)
    return call.wrap(moments, {"second moments": call.plan.cost})
