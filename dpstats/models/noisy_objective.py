"""A noisy objective, released and wrapped with its cost: what `dp_ols` and `dp_logit` share."""

from __future__ import annotations

from dpstats.forecast.moments import require_acceptance
from dpstats.mechanisms.functional import ObjectivePlan, release_objective
from dpstats.mechanisms.options import DiffLR
from dpstats.models.call import Account, refuse_if_hopeless
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.results.objective_release import ObjectiveRelease

HALF, ONE_IN_A_HUNDRED = 0.5, 0.01
"""Draws that must be accepted: by default, and where the user goes on anyway."""
REPEATED = (
    "Noise was drawn until the objective was bounded, each draw at half the budget; std err and intervals take no "
    "account of the draws that were rejected."
)


def refuse_hopeless_objective(infeasible: str, plan: ObjectivePlan, n_rows: int) -> None:
    """Ask the forecast, unless the user goes on anyway; a loop that would not end is refused in any case.

    Raises
    ------
    InfeasibleError
        If nothing useful can come out, or drawing until the objective is bounded would take long.
    """
    refuse_if_hopeless(infeasible, plan, n_rows)
    if plan.options.bounded == "repeat":
        require_acceptance(plan, n_rows, HALF if infeasible == "refuse" else ONE_IN_A_HUNDRED)


def released_objective(plan: ObjectivePlan, source: Source, noise: NoiseSource, account: Account) -> ObjectiveRelease:
    """Release a planned objective.

    Parameters
    ----------
    plan : ObjectivePlan
        From `plan_objective`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    account : Account
        Who is protected, and the ledger.
    """
    moments = release_objective(plan, source, noise)
    name = "diff-lr" if isinstance(plan.options, DiffLR) else "functional"
    privacy = account.cost(plan.budget, {"noisy objective": plan.cost})
    remarks = (REPEATED,) if plan.options.bounded == "repeat" else ()
    return ObjectiveRelease(plan.features, moments, plan.ridge, name, plan.objective.binary, privacy, remarks)
