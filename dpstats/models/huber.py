"""Huber's regression, from design to results: what `dp_ols` does with ``mechanism="huber"``."""

from __future__ import annotations

from dataclasses import replace

from dpstats.forecast.losses import reference_kappa, require_resolved
from dpstats.inference.diagnostics import USABLE
from dpstats.mechanisms.huber import HESSIAN_SHARE, plan_huber, release_huber
from dpstats.mechanisms.options import HC0, Huber
from dpstats.mechanisms.perturbed import PerturbedPlan
from dpstats.models.call import Account
from dpstats.privacy.notions import Budget
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.results.fitted import RobustScale
from dpstats.results.huber import DPHuberResults, HuberRelease
from dpstats.specification.design import Design

LARGEST_SHARE = 0.28
"""For the Hessian, where the forecast asks for more than the usual share."""
TARGET = (
    "minimiser of the expected Huber loss with threshold {threshold:.4g} over the clipped columns, complete cases; the "
    "least-squares projection as far as residuals stay below it"
)


def fit_huber(
    design: Design,
    options: Huber,
    robust: HC0 | None,
    budget: Budget,
    source: Source,
    noise: NoiseSource,
    infeasible: str,
    account: Account,
) -> DPHuberResults:
    """Plan, ask the forecast, release and wrap.

    Parameters
    ----------
    design : Design
        Model columns and a numeric response.
    options : Huber
        Threshold, shares, law of noise.
    robust : HC0 or None
        Robust standard errors, if they are asked for.
    budget : Budget
        Of one row.
    source : Source
        The table; read only after all checks.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    infeasible : {"refuse", "fit"}
        What to do where the forecast says that nothing useful can come out.
    account : Account
        Who is protected, and the ledger.

    Raises
    ------
    BudgetError, DesignError, InfeasibleError
        From public facts only, before a record is read.
    """
    plan = planned_huber(design, options, budget, source.n_rows, robust)
    if infeasible == "refuse":
        require_resolved(plan, budget, source.n_rows)
    law = plan.hessian.law
    with account.spending(plan.stages.reservation(law), design.formula):
        released = release_huber(plan, source, noise, robust)
    response = design.response
    threshold = 2 * options.threshold * response.half
    fit = released.fit
    release = HuberRelease(
        plan.predictors.view,
        plan.space,
        fit.theta,
        fit.moments,
        fit.meat,
        plan.n_rows,
        plan.predictors.row_size,
        plan.ridge,
        f"huber, block + {law.capitalize()}",
        f"Huber, threshold {threshold:.4g}",
        TARGET.format(threshold=threshold),
        account.cost(budget, fit.costs),
        threshold=threshold,
        centre=response.mid / response.half,
        sigma2=released.sigma2,
        clamped=released.clamped,
    )
    name = robust.name if robust else "nonrobust"
    return DPHuberResults(release, plan.predictors.view, RobustScale(name, fit.sampling))


def planned_huber(
    design: Design, options: Huber, budget: Budget, n_rows: int, robust: HC0 | None = None
) -> PerturbedPlan:
    """Plan the releases, with the share for the Hessian that the forecast asks for; kappa falls about as 1 / share.

    Parameters
    ----------
    design, options, budget, n_rows, robust
        As for `dpstats.mechanisms.huber.plan_huber`.

    Raises
    ------
    BudgetError, DesignError
        As `dpstats.mechanisms.huber.plan_huber` does.
    """
    plan = plan_huber(design, options, budget, n_rows, robust)
    if options.hessian_share is not None or not budget.is_private:
        return plan
    wanted = HESSIAN_SHARE * reference_kappa(plan, n_rows) / USABLE
    if wanted <= HESSIAN_SHARE:
        return plan
    return plan_huber(design, replace(options, hessian_share=min(wanted, LARGEST_SHARE)), budget, n_rows, robust)
