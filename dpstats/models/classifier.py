"""A classifier, from design to results: what `dp_logit` and `dp_svm` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from dpstats.errors import OptionError, SchemaError
from dpstats.forecast.losses import PlannedPerturbed, require_resolved
from dpstats.mechanisms.bounds import SHARE, BoundsPlan, plan_bounds, release_bounds
from dpstats.mechanisms.classifier_options import Objective, WKLObjective
from dpstats.mechanisms.objective import release_classifier
from dpstats.mechanisms.options import HC0, HC1, Classifier
from dpstats.mechanisms.perturbed import PerturbedPlan, ReleasedPerturbed, plan_perturbed
from dpstats.mechanisms.stages import Stages
from dpstats.mechanisms.wkl import WKLPlan, plan_wkl, release_wkl
from dpstats.models.bought import Planned, plan_for_bounds, with_unknown
from dpstats.models.call import Account
from dpstats.privacy.charge import charge_of
from dpstats.privacy.notions import Budget
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.results.bought import bought_remarks, bounds_part, declared_as
from dpstats.results.classifier import DPClassifierResults
from dpstats.results.fitted import RobustScale
from dpstats.results.perturbed_release import PerturbedRelease
from dpstats.specification.design import Design, build_design
from dpstats.specification.formula import parse_formula, undeclared_numbers
from dpstats.specification.losses import Loss
from dpstats.specification.rules import RowRules
from dpstats.specification.schema import Schema, TableFacts

SCORES = 0.15
"""Share of the budget for squared scores where the loss is no likelihood."""
LOGIT_TARGET = "coefficients of the logit of the outcome on the clipped columns, complete cases"
HINGE_TARGET = (
    "minimiser of the expected {loss} loss (h = {h:g}) over the clipped columns, complete cases: not log-odds"
)
Results = TypeVar("Results", bound=DPClassifierResults)


@dataclass(frozen=True, slots=True)
class CheckedDesign:
    """A design with what it was built from (zone: public).

    Attributes
    ----------
    formula : str
        As written.
    model : {"dp_logit", "dp_svm"}
        Name of the function.
    schema : Schema
        All declarations; (-1, 1) for the columns in `buying`.
    buying : tuple of str
        Columns whose bounds are still to be bought.
    design : Design
        Of these declarations.
    """

    formula: str
    model: str
    schema: Schema
    buying: tuple[str, ...]
    design: Design

    def under(self, schema: Schema, facts: TableFacts) -> Design:
        """Return the design under other declarations."""
        return build_design(self.formula, schema, facts, binary=self.model, rules=self.design.rules)


@dataclass(frozen=True, slots=True)
class ClassifierCall:
    """A call whose public arguments are checked (zone: public but for the source, of which no record was read)."""

    checked: CheckedDesign
    loss: Loss
    options: Classifier
    robust: HC0 | None
    budget: Budget
    source: Source
    noise: NoiseSource
    infeasible: str
    account: Account


def check_design(
    formula: str, schema: Schema, facts: TableFacts, model: str, rules: RowRules, *, buys: bool
) -> CheckedDesign:
    """Build a classifier's design, with the columns whose bounds are to be bought.

    Parameters
    ----------
    formula : str
        As written.
    schema : Schema
        Declarations.
    facts : TableFacts
        Of the table.
    model : str
        Name of the function.
    rules : RowRules
        How rows are read.
    buys : bool
        Whether the mechanism can buy bounds.

    Raises
    ------
    FormulaError, SchemaError, DesignError
        Whatever is wrong with formula or declarations; an outcome needs its two levels declared.
    """
    names = undeclared_numbers(formula, schema, facts) if buys else ()
    complete = with_unknown(schema, names)
    if names:
        response = parse_formula(formula, complete, facts).response
        if response in names:
            raise SchemaError(
                f"{model} needs the two levels of its outcome: add levels={{{response!r}: [failure, success]}}"
            )
    design = build_design(formula, complete, facts, binary=model, rules=rules)
    return CheckedDesign(formula, model, complete, names, design)


def fit_classifier(call: ClassifierCall, results: type[Results]) -> Results:
    """Plan, ask the forecast, release and wrap.

    Parameters
    ----------
    call : ClassifierCall
        The checked call.
    results : type
        Class of the results.

    Raises
    ------
    BudgetError, DesignError, OptionError, InfeasibleError
        From public facts only, before a record is read.
    """
    if isinstance(call.options, Objective):
        return _fit_objective(call, call.options, results)
    if call.robust is not None:
        raise OptionError(
            f"cov_type={call.robust.name!r} needs mechanism='objective'; the methods of Wang, Kifer and Lee always "
            "release the covariance of the gradient"
        )
    wkl = plan_wkl(call.checked.design, call.loss, call.options, call.budget, call.source.n_rows)
    _refuse_if_hopeless(call, wkl)
    with call.account.spending(charge_of(call.budget, "spherical"), call.checked.formula):
        released = release_wkl(wkl, call.source, call.noise)
    kind = "wkl-objective" if isinstance(call.options, WKLObjective) else "wkl-output"
    method = f"{kind}, {'Gaussian' if call.budget.rho is not None else 'spherical'}"
    return results(
        _release(call, wkl, released, method, _penalised_target(wkl)),
        wkl.predictors.view,
        RobustScale("gradient", None),
    )


def _fit_objective(call: ClassifierCall, options: Objective, results: type[Results]) -> Results:
    facts, n_rows, checked = call.source.facts, call.source.n_rows, call.checked
    plan = _plan_objective(call, options, checked.design)
    law, stages = plan.hessian.law, plan.stages
    buying = _plan_bounds(call, stages)
    _refuse_if_hopeless(call, plan)
    with call.account.spending(stages.reservation(law), checked.formula):
        costs, schema = {}, checked.schema
        if buying is not None:
            fixed = replace(options, noise=law)
            found = release_bounds(buying, call.source, call.noise)
            final = plan_for_bounds(
                Planned(schema, plan), found, lambda new: _plan_objective(call, fixed, checked.under(new, facts))
            )
            schema, plan = final.schema, final.plan
            costs = {bounds_part(buying.names): stages.pure(buying.cost.epsilon or 0.0)}
        q = plan.predictors.n_columns
        correction = n_rows / max(n_rows - q, 1) if isinstance(call.robust, HC1) else 1.0
        released = release_classifier(plan, call.source, call.noise, correction)
    released = replace(released, costs=costs | released.costs)
    name = call.robust.name if call.robust else "HC0"
    scale = None if released.sampling is None else RobustScale(name, released.sampling)
    release = _release(call, plan, released, f"objective, block + {law.capitalize()}", _target(call.loss))
    if buying is not None:
        remarks = bought_remarks(schema, buying.names, release.privacy.parts, rough=buying.is_rough)
        release = replace(release, declared=declared_as(buying.names), remarks=remarks)
    return results(release, plan.predictors.view, scale)


def _plan_objective(call: ClassifierCall, options: Objective, design: Design) -> PerturbedPlan:
    scores = call.robust.share if call.robust else None if call.loss.is_logistic else SCORES
    bounds = SHARE if call.checked.buying else 0.0
    return plan_perturbed(design, call.loss, options, call.budget, call.source.n_rows, scores, bounds)


def _plan_bounds(call: ClassifierCall, stages: Stages) -> BoundsPlan | None:
    if not call.checked.buying:
        return None
    pure = Budget(epsilon=stages.epsilon, asked=call.budget.whole) if call.budget.is_private else call.budget
    return plan_bounds(call.checked.buying, pure, "laplace", SHARE, call.source.n_rows)


def _refuse_if_hopeless(call: ClassifierCall, plan: PlannedPerturbed) -> None:
    if call.infeasible == "refuse":
        require_resolved(plan, call.budget, call.source.n_rows)


def _release(
    call: ClassifierCall, plan: PerturbedPlan | WKLPlan, released: ReleasedPerturbed, method: str, target: str
) -> PerturbedRelease:
    privacy = call.account.cost(call.budget, released.costs)
    return PerturbedRelease(
        plan.predictors.view,
        plan.space,
        released.theta,
        released.moments,
        released.meat,
        plan.n_rows,
        plan.predictors.row_size,
        plan.ridge,
        method,
        call.loss.name,
        target,
        privacy,
    )


def _target(loss: Loss) -> str:
    return LOGIT_TARGET if loss.is_logistic else HINGE_TARGET.format(loss=loss.name, h=loss.h)  # type: ignore[attr-defined]


def _penalised_target(plan: WKLPlan) -> str:
    """Say which coefficients the intervals are about."""
    target = _target(plan.loss)
    if plan.removes_penalty or not plan.budget.is_private:
        return target
    penalty = f"the penalty c ||theta||^2, c = {plan.penalty:.3g} on rows scaled to the unit ball"
    if plan.options.penalty is None and plan.loss.is_logistic:
        return f"{target}, with {penalty}, which is small beside the noise"
    return (
        f"{target}, WITH {penalty}: pulled towards 0, and the intervals are about these penalised coefficients, not "
        "about those without a penalty"
    )
