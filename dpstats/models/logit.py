"""Private logistic regression."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.errors import BudgetError
from dpstats.mechanisms.functional import plan_objective
from dpstats.mechanisms.options import LOGIT_MECHANISMS, Functional, as_mechanism
from dpstats.models.call import check_infeasible, public_schema
from dpstats.models.objective import refuse_hopeless_objective, released_objective
from dpstats.privacy.notions import budget_of
from dpstats.records.source import as_source
from dpstats.release.noise import noise_source
from dpstats.results.logit import DPTaylorLogitResults
from dpstats.specification.design import build_design
from dpstats.specification.objectives import TAYLOR_LOGISTIC
from dpstats.specification.schema import Schema


def dp_logit(
    formula: str,
    data: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    bounds: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Sequence[Hashable]] | None = None,
    schema: Schema | None = None,
    mechanism: str | Functional = "functional",
    infeasible: str = "refuse",
    rng: np.random.Generator | None = None,
) -> DPTaylorLogitResults:
    """Fit a logistic regression under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels. The outcome is a column of two declared levels, the last of which is success, a bool, or a
        number declared from 0 to 1.
    data : pandas.DataFrame or dict of array-like
        One row per record.
    epsilon : float
        Pure epsilon-DP budget. ``float("inf")`` fits without noise, and every print says NOT PRIVATE.
    delta, rho : None
        As for `dp_ols`; no mechanism of this model takes them yet.
    bounds : dict of str to (float, float), optional
        Public bounds of numeric columns, keyed by raw column.
    levels : dict of str to list, optional
        Public levels of categorical columns; for the outcome [failure, success].
    schema : Schema, optional
        Bounds and levels declared once; `bounds` and `levels` come before it.
    mechanism : {"functional"} or Functional
        The functional mechanism (Zhang et al. 2012): noise on the second-order Taylor expansion of the logistic loss.
    infeasible : {"refuse", "fit"}
        What to do where the public forecast says that nothing useful can come out.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    DPTaylorLogitResults
        Coefficients, and intervals about the Taylor objective's minimiser.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError, InfeasibleError
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    The Taylor objective sum (x'w)^2 / 8 + (1/2 - y) x'w is minimised by 4 x least squares of y - 1/2, whatever the
    data: a linear probability model on the scale of log-odds, close to a logit only where all probabilities are near
    1/2. Neighbouring tables differ in one row; the table's length is public.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_logit("income ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> list(fit.params.index)
    ['Intercept', 'C(sex)[T.Male]', 'age']
    """
    if epsilon is None and delta is None and rho is None:
        raise BudgetError("give a privacy budget, as in epsilon=1")
    budget = budget_of(epsilon, delta, rho)
    source = as_source(data)
    del data  # a traceback that shows local variables shows no record
    options = as_mechanism(mechanism, LOGIT_MECHANISMS)
    noise = noise_source(rng, private=budget.is_private)
    check_infeasible(infeasible)
    facts = source.facts
    design = build_design(formula, public_schema(schema, bounds, levels, facts), facts, binary=True)
    plan = plan_objective(design, TAYLOR_LOGISTIC, options, budget, facts.n_rows)
    refuse_hopeless_objective(infeasible, plan, facts.n_rows)
    return DPTaylorLogitResults(released_objective(plan, source, noise), plan.view)
