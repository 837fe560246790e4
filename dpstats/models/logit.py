"""Private logistic regression."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.errors import OptionError
from dpstats.mechanisms.classifier_options import Objective
from dpstats.mechanisms.functional import plan_objective
from dpstats.mechanisms.options import HC0, LOGIT_MECHANISMS, Classifier, Functional, as_mechanism
from dpstats.models.call import Sealed, Unit, account_of, check_infeasible, covariance_type, public_schema, table_of
from dpstats.models.classifier import ClassifierCall, check_design, fit_classifier
from dpstats.models.noisy_objective import refuse_hopeless_objective, released_objective
from dpstats.privacy.charge import charge_of
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.notions import budget_of
from dpstats.release.noise import noise_source
from dpstats.results.classifier import DPLogitResults
from dpstats.results.logit import DPTaylorLogitResults
from dpstats.specification.losses import LOGISTIC
from dpstats.specification.objectives import TAYLOR_LOGISTIC
from dpstats.specification.rules import Missing, row_rules
from dpstats.specification.schema import Schema
from dpstats.specification.sensitivity import Relation


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
    mechanism: str | Classifier | Functional = "auto",
    cov_type: str | HC0 = "nonrobust",
    infeasible: str = "refuse",
    neighboring_relation: Relation = "replace_one",
    contributions: int = 1,
    privacy_unit: str | None = None,
    missing: Missing = "drop",
    ledger: Ledger | None = None,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> DPLogitResults | DPTaylorLogitResults:
    """Fit a logistic regression under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels. The outcome is a column of two declared levels, the last of which is success, a bool, or a
        number declared from 0 to 1.
    data : table
        One row per record; any kind that `dp_ols` takes.
    epsilon : float, optional
        Pure epsilon-DP budget; with `delta`, an (epsilon, delta) budget. ``float("inf")`` fits without noise, and every
        print of the result says NOT PRIVATE.
    delta : float, optional
        Needs `epsilon`.
    rho : float, optional
        zCDP budget, instead of `epsilon`.
    bounds : dict of str to (float, float), optional
        Public bounds of numeric columns, keyed by raw column. With ``"objective"`` the bounds of numeric columns that
        nobody declared are bought with 15 % of the budget, which takes many rows; see `private_bounds`.
    levels : dict of str to list, optional
        Public levels of categorical columns; for the outcome [failure, success].
    schema : Schema, optional
        Bounds and levels declared once; `bounds` and `levels` come before it.
    mechanism : {"auto", "objective", "wkl-objective", "wkl-output", "functional"} or an options object
        ``"objective"``, the default: objective perturbation with noise that fits the shape of a row, and intervals
        about the logit's coefficients. ``"wkl-objective"`` and ``"wkl-output"``: the methods of Wang, Kifer and Lee
        (2019), for epsilon or rho. ``"functional"``: noise on the second-order Taylor expansion of the loss (Zhang et
        al. 2012), for epsilon alone; not a logit's coefficients. Options in `Objective`, `WKLObjective`, `WKLOutput`,
        `Functional`.
    cov_type : {"nonrobust", "HC0", "HC1"} or HC0 or HC1
        Standard errors that hold if the logit is misspecified, or if the outcome is a share, are bought with a share of
        the budget; with ``"objective"`` only.
    infeasible : {"refuse", "fit"}
        What to do where the public forecast says that nothing useful can come out.
    neighboring_relation : {"replace_one"}
        Neighbouring tables have the same, public length and differ in one row. ``"add_or_remove_one"`` is refused:
        there is no proof for it yet.
    contributions : int
        Most rows that one person has in the table; the guarantee is then per person, and each row gets less. It is
        believed, not enforced.
    privacy_unit : None
        A column that tells persons apart is refused here, because it makes the table's length private.
    missing : {"drop", "none"}
        ``"drop"`` leaves out rows with a missing entry. ``"none"`` says that the columns used are complete; a missing
        number becomes the middle of its range all the same, a missing level the first one.
    ledger : Ledger, optional
        Account that the fit is charged to before a record is read; the one of a surrounding ``with ledger:`` by
        default.
    progress : bool
        Show on stderr how far a call is, as for `dp_ols`.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    DPLogitResults
        With ``params, bse, pvalues, conf_int(), t_test(), predict(), get_prediction(), summary()`` as in statsmodels.
        `DPTaylorLogitResults`, about the Taylor objective's minimiser, for the functional mechanism.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError, InfeasibleError, BudgetExceeded
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    The minimiser of sum loss + (lam / 2) ||theta||^2 + b'theta with a random b is published, then the Hessian at it
    with noise. One Newton step takes lam and b's expectation out; intervals invert a test that knows the law of b and
    of the Hessian's noise (`dpstats.specification.perturbation` has the privacy proof). Neighbouring tables differ in
    one row; the table's length is public.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_logit("income ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> list(fit.params.index)
    ['Intercept', 'C(sex)[T.Male]', 'age']
    """
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    robust = covariance_type(cov_type)
    budget = budget_of(epsilon, delta, rho)
    table = table_of(sealed, Unit(contributions, neighboring_relation, privacy_unit), progress)
    options = as_mechanism(mechanism, LOGIT_MECHANISMS)
    noise = noise_source(rng, private=budget.is_private)
    account = account_of(ledger, table, noise)
    budget = account.protection.of_row(budget)
    check_infeasible(infeasible)
    facts, source = table.facts, table.source
    declared = public_schema(formula, schema, bounds, levels, facts)
    rules = row_rules(missing, None, None, declared, facts)
    checked = check_design(formula, declared, facts, "dp_logit", rules, buys=isinstance(options, Objective))
    n_rows = table.rows_for("dp_logit")
    if not isinstance(options, Functional):
        call = ClassifierCall(checked, LOGISTIC, options, robust, budget, source, noise, infeasible, account)
        return fit_classifier(call, DPLogitResults)
    if robust is not None:
        raise OptionError(f"cov_type={robust.name!r} needs mechanism='objective', not Functional")
    plan = plan_objective(checked.design, TAYLOR_LOGISTIC, options, budget, n_rows)
    refuse_hopeless_objective(infeasible, plan, n_rows)
    with account.spending(charge_of(budget, plan.law), formula):
        release = released_objective(plan, source, noise, account)
    return DPTaylorLogitResults(release, plan.view)
