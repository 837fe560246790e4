"""The audit of a fit function by its custodian."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.audits.events import choose_event
from dpstats.audits.loss import claimed_mu, distance_bound, epsilon_of, epsilons_of, mus_of, rho_of
from dpstats.audits.outcomes import ERROR, Outcome, observe
from dpstats.audits.report import AuditReport
from dpstats.errors import BudgetError, OptionError, shown
from dpstats.privacy.notions import Budget, budget_of

FEWEST = 40


def audit_fit(
    fit_function: Callable[[Any], Any],
    data: Any,
    neighbour: Any,
    claimed: float | Mapping[str, float] | Budget,
    *,
    runs: int = 400,
    statistic: Callable[[Any], Any] | None = None,
    alpha: float = 0.001,
) -> AuditReport:
    """Call a fit function many times on two neighbouring tables, and bound what it shows of their difference.

    For custodians, on made-up tables: choose the pair that differs most, such as two records at opposite ends of all
    bounds in a short table. The calls are charged to no one unless the function does so, and the report is private only
    if the tables are not confidential.

    Parameters
    ----------
    fit_function : callable
        Takes a table and returns any result, with real noise: ``lambda table: dps.dp_ols("y ~ x", table, 1, ...)``.
        Errors and warnings are outcomes like any other.
    data, neighbour : object
        Two tables that differ in one row, or in one person's rows; passed on as they are, in turns.
    claimed : float, mapping or Budget
        What the function is said to cost: an epsilon, ``{"epsilon": 1, "delta": 1e-6}``, ``{"rho": 0.1}``, or the
        `budget` of a result's ``privacy``.
    runs : int
        Calls on each table, at least 40. The largest epsilon that can be shown is about log(runs) - 3 for the default
        alpha.
    statistic : callable, optional
        What to look at in a result, numbers or words. All of it by default: everything that it holds, its
        coefficients, standard errors and intervals, and the words and length of its summary.
    alpha : float
        The verdict "violates" is wrong with this probability at most.

    Returns
    -------
    AuditReport
        With ``passed``, the bounds, and a printed page.

    Raises
    ------
    OptionError, BudgetError
        If an argument cannot be used, before the function is called.

    Notes
    -----
    Half of the calls train scores and choose an event, the other half count it on both tables; Clopper-Pearson bounds p
    and q of its probabilities give epsilon >= log((p - delta) / q) and rho >= D_a(Bern(p) || Bern(q)) / a for all a >
    1. If the result holds sums with Gaussian noise, a score that is linear in them is normal on both tables, and a t
    statistic bounds mu, the distance of its means in standard deviations; both tests share alpha.

    Examples
    --------
    >>> import dpstats as dps
    >>> one = {"x": [1.0] * 20, "y": [1.0] + [0.0] * 19}
    >>> other = {"x": [1.0] * 20, "y": [0.0] * 20}
    >>> bounds = {"x": (0, 1), "y": (0, 1)}
    >>> report = dps.audit_fit(
    ...     lambda table: dps.dp_moments("y ~ x", table, rho=0.5, bounds=bounds, infeasible="fit"),
    ...     one,
    ...     other,
    ...     claimed={"rho": 0.5},
    ...     runs=60,
    ... )
    >>> report.passed
    True
    >>> print(report.verdict)
    What was seen is consistent with rho = 0.5 (zCDP).
    """
    budget = _claim(claimed)
    _check(fit_function, statistic, runs, alpha)
    first, second = [], []
    for _ in range(runs):
        first.append(observe(fit_function, data, statistic))
        second.append(observe(fit_function, neighbour, statistic))
    half, every = runs // 2, (*first, *second)
    mu, level = _normal_bound(first, second, half, alpha / 2), alpha
    if mu is not None:
        level = alpha / 2
    delta = budget.delta or 0.0
    loss = mus_of if budget.rho is not None else lambda p, q: epsilons_of(p, q, delta)
    event = choose_event(first[:half], second[:half], loss)
    counted = event.count(first[half:], second[half:])
    p, q = counted.probabilities(level)
    return AuditReport(
        budget,
        runs,
        alpha,
        f"{event.words} {'>' if event.above else '<'} {event.cut:.3g}",
        counted,
        epsilon_of(p, q, delta),
        rho_of(p, q),
        mu,
        claimed_mu(budget),
        tuple(dict.fromkeys(outcome.endings[0] for outcome in every if outcome.endings[0].startswith(ERROR))),
        tuple(dict.fromkeys(outcome.endings[1] for outcome in every if outcome.endings[1])),
    )


def _claim(claimed: Any) -> Budget:
    """Return the budget that is claimed.

    Raises
    ------
    BudgetError
        If it is none, or infinite.
    """
    if isinstance(claimed, Budget):
        budget = claimed.whole
    elif isinstance(claimed, Mapping):
        if not set(claimed) <= {"epsilon", "delta", "rho"}:
            raise BudgetError(
                'claimed takes the keywords of a fit, as in {"epsilon": 1, "delta": 1e-6} or {"rho": 0.1}'
            )
        budget = budget_of(claimed.get("epsilon"), claimed.get("delta"), claimed.get("rho"))
    else:
        budget = budget_of(claimed, None, None)
    if not budget.is_private:
        raise BudgetError("claimed must be a finite budget: without one there is nothing to audit")
    return budget


def _check(fit_function: Any, statistic: Any, runs: Any, alpha: Any) -> None:
    """Check the other arguments.

    Raises
    ------
    OptionError
        If one of them cannot be used.
    """
    for name, value in (("fit_function", fit_function), ("statistic", statistic)):
        if not (callable(value) or (name == "statistic" and value is None)):
            raise OptionError(f"{name} must be a function of one argument, not {shown(value)}")
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < FEWEST:
        raise OptionError(f"runs must be a whole number from {FEWEST}, not {shown(runs)}")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise OptionError(f"alpha must lie between 0 and 1, not {shown(alpha)}")


def _normal_bound(first: Sequence[Outcome], second: Sequence[Outcome], half: int, alpha: float) -> float | None:
    """Return a lower bound of mu from sums with Gaussian noise: a direction from one half, a t statistic of the other.

    None if not all results have such sums.
    """
    found = [[outcome.normal for outcome in outcomes] for outcomes in (first, second)]
    shapes = {None if normal is None else normal.shape for normals in found for normal in normals}
    if len(shapes) != 1 or None in shapes or shapes == {(0,)}:
        return None
    a, b = (np.array(normals, dtype=np.float64) for normals in found)
    variances = (a[:half].var(axis=0, ddof=1) + b[:half].var(axis=0, ddof=1)) / 2
    gap = a[:half].mean(axis=0) - b[:half].mean(axis=0)
    still = variances <= 0
    weights = np.where(still, np.sign(gap) * 1e6, gap / np.where(still, 1.0, variances))
    return distance_bound(a[half:] @ weights, b[half:] @ weights, alpha)
