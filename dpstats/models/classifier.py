"""A classifier, from design to results: what `dp_logit` and `dp_svm` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from dpstats.errors import OptionError
from dpstats.forecast import PlannedClassifier, require_resolved
from dpstats.mechanisms.classifier_options import Objective, WKLObjective
from dpstats.mechanisms.objective import ClassifierPlan, ReleasedClassifier, plan_classifier, release_classifier
from dpstats.mechanisms.options import HC0, HC1, Classifier
from dpstats.mechanisms.wkl import WKLPlan, plan_wkl, release_wkl
from dpstats.models.call import Account
from dpstats.privacy.charge import charge_of
from dpstats.privacy.notions import Budget
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.results.classifier import DPClassifierResults
from dpstats.results.fitted import RobustScale
from dpstats.results.perturbed_release import PerturbedRelease
from dpstats.specification.design import Design
from dpstats.specification.losses import Loss

SCORES = 0.15
"""Share of the budget for squared scores where the loss is no likelihood."""
LOGIT_TARGET = "coefficients of the logit of the outcome on the clipped columns, complete cases"
HINGE_TARGET = (
    "minimiser of the expected {loss} loss (h = {h:g}) over the clipped columns, complete cases: not log-odds"
)
Results = TypeVar("Results", bound=DPClassifierResults)


@dataclass(frozen=True, slots=True)
class ClassifierCall:
    """A call whose public arguments are checked (zone: public but for the source, of which no record was read)."""

    design: Design
    loss: Loss
    options: Classifier
    robust: HC0 | None
    budget: Budget
    source: Source
    noise: NoiseSource
    infeasible: str
    account: Account


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
    n_rows = call.source.facts.n_rows
    if isinstance(call.options, Objective):
        share = call.robust.share if call.robust else None if call.loss.is_logistic else SCORES
        plan = plan_classifier(call.design, call.loss, call.options, call.budget, n_rows, share)
        _refuse_if_hopeless(call, plan)
        q = plan.predictors.n_columns
        correction = n_rows / max(n_rows - q, 1) if isinstance(call.robust, HC1) else 1.0
        with call.account.spending(plan.stages.reservation(plan.hessian.law), call.design.formula):
            released = release_classifier(plan, call.source, call.noise, correction)
        method = f"objective, block + {plan.hessian.law.capitalize()}"
        name = call.robust.name if call.robust else "HC0"
        scale = None if released.ratios is None else RobustScale(name, released.ratios)
        return results(_release(call, plan, released, method, _target(call.loss)), plan.predictors.view, scale)
    if call.robust is not None:
        raise OptionError(
            f"cov_type={call.robust.name!r} needs mechanism='objective'; the methods of Wang, Kifer and Lee always "
            "release the covariance of the gradient"
        )
    wkl = plan_wkl(call.design, call.loss, call.options, call.budget, n_rows)
    _refuse_if_hopeless(call, wkl)
    with call.account.spending(charge_of(call.budget, "spherical"), call.design.formula):
        released = release_wkl(wkl, call.source, call.noise)
    kind = "wkl-objective" if isinstance(call.options, WKLObjective) else "wkl-output"
    method = f"{kind}, {'Gaussian' if call.budget.rho is not None else 'spherical'}"
    return results(
        _release(call, wkl, released, method, _penalised_target(wkl)),
        wkl.predictors.view,
        RobustScale("gradient", None),
    )


def _refuse_if_hopeless(call: ClassifierCall, plan: PlannedClassifier) -> None:
    if call.infeasible == "refuse":
        require_resolved(plan, call.budget, call.source.facts.n_rows)


def _release(
    call: ClassifierCall, plan: ClassifierPlan | WKLPlan, released: ReleasedClassifier, method: str, target: str
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
