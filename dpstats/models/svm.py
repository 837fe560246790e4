"""Private linear support vector machine."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.mechanisms.classifier_options import Objective
from dpstats.mechanisms.options import CLASSIFIERS, Classifier, as_mechanism
from dpstats.models.call import Sealed, Unit, account_of, check_infeasible, public_schema, table_of
from dpstats.models.classifier import ClassifierCall, check_design, fit_classifier
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.notions import budget_of
from dpstats.release.noise import noise_source
from dpstats.results.classifier import DPSVMResults
from dpstats.specification.losses import hinge_loss
from dpstats.specification.response import require_two_levels
from dpstats.specification.rules import Missing, row_rules
from dpstats.specification.schema import Schema
from dpstats.specification.sensitivity import Relation


def dp_svm(
    formula: str,
    data: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    bounds: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Sequence[Hashable]] | None = None,
    schema: Schema | None = None,
    loss: str = "huber",
    h: float = 0.5,
    mechanism: str | Classifier = "auto",
    infeasible: str = "refuse",
    neighboring_relation: Relation = "replace_one",
    contributions: int = 1,
    privacy_unit: str | None = None,
    missing: Missing = "drop",
    ledger: Ledger | None = None,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> DPSVMResults:
    """Fit a linear support vector machine with a smoothed hinge loss under differential privacy.

    Parameters
    ----------
    formula : str
        As in statsmodels. The outcome is a column of two declared levels, the last of which is the positive class, or a
        bool.
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
        Public levels of categorical columns; for the outcome [negative, positive].
    schema : Schema, optional
        Bounds and levels declared once; `bounds` and `levels` come before it.
    loss : {"huber", "quartic"}
        How the kink of the hinge loss is smoothed: by a parabola, or by a polynomial of degree four (twice
        differentiable).
    h : float
        Half width of the smoothed band, in units of the margin, from .05 to 1. Below .5 the Hessian sees few
        rows and much noise.
    mechanism : {"auto", "objective", "wkl-objective", "wkl-output"}, Objective, WKLObjective or WKLOutput
        As for `dp_logit`.
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
    DPSVMResults
        Coefficients of the decision function with standard errors and intervals, from a released score covariance.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, DataError, OptionError, InfeasibleError, BudgetExceeded
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    Minimises sum f(u x'beta) with u = -1 or +1 and f the smoothed hinge (Chapelle 2007; Chaudhuri et al. 2011), without
    a penalty: the ridge that privacy needs is taken out again. Needs several times the rows of `dp_logit`.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_svm("income ~ age + C(sex)", adult, epsilon=2, schema=schema)
    >>> list(fit.params.index)
    ['Intercept', 'C(sex)[T.Male]', 'age']
    """
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    hinge = hinge_loss(loss, h)
    budget = budget_of(epsilon, delta, rho)
    table = table_of(sealed, Unit(contributions, neighboring_relation, privacy_unit), progress)
    options = as_mechanism(mechanism, CLASSIFIERS)
    noise = noise_source(rng, private=budget.is_private)
    account = account_of(ledger, table, noise)
    budget = account.protection.of_row(budget)
    check_infeasible(infeasible)
    facts, source = table.facts, table.source
    declared = public_schema(formula, schema, bounds, levels, facts)
    rules = row_rules(missing, None, None, declared, facts)
    checked = check_design(formula, declared, facts, "dp_svm", rules, buys=isinstance(options, Objective))
    require_two_levels(checked.design.response)
    table.rows_for("dp_svm")
    call = ClassifierCall(checked, hinge, options, None, budget, source, noise, infeasible, account)
    return fit_classifier(call, DPSVMResults)
