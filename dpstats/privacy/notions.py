"""Privacy budgets and their conversion: pure epsilon, (epsilon, delta), rho-zCDP, and the Gaussian-DP mu."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr

from dpstats.errors import BudgetError, shown

SLACK = 1e-12
"""Relative amount of epsilon and delta set aside for the discrete Gaussian's transfer terms."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget in exactly one notion (zone: public).

    Attributes
    ----------
    epsilon : float or None
        Of pure DP, or of (epsilon, delta)-DP; ``inf`` means no privacy.
    delta : float or None
        Of (epsilon, delta)-DP.
    rho : float or None
        Of zero-concentrated DP.
    asked : Budget or None
        For the budget of one row of a person with several: the person's, which every print shows.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    asked: Budget | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "rho"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))

    @property
    def is_private(self) -> bool:
        """False for an infinite budget."""
        return self.epsilon != math.inf and self.rho != math.inf

    @property
    def notion(self) -> str:
        """The notion's name."""
        if self.rho is not None:
            return "rho-zCDP"
        return "pure epsilon-DP" if self.delta is None else "(epsilon, delta)-DP"

    @property
    def whole(self) -> Budget:
        """The budget that was asked for."""
        return self if self.asked is None else self.asked

    def __str__(self) -> str:
        if self.asked is not None:
            return str(self.asked)
        if self.rho is not None:
            return f"rho = {self.rho:g} (zCDP)"
        if self.delta is None:
            return f"epsilon = {self.epsilon:g} (pure)"
        return f"epsilon = {self.epsilon:g}, delta = {self.delta:g}"


def budget_of(epsilon: Any, delta: Any, rho: Any) -> Budget:
    """Check the three budget arguments of a fit and return the budget.

    Raises
    ------
    BudgetError
        If not exactly one notion is given, or a number is out of range.
    """
    if epsilon is not None and rho is not None:
        raise BudgetError("give either epsilon (with or without delta) or rho, not both")
    if epsilon is None and rho is None:
        if delta is not None:
            raise BudgetError("delta needs an epsilon beside it, as in epsilon=1, delta=1e-6")
        raise BudgetError("give a privacy budget: epsilon=1, or epsilon=1 with delta=1e-6, or rho=0.1")
    if rho is not None:
        if delta is not None:
            raise BudgetError("rho needs no delta; give rho alone, or epsilon with delta")
        return Budget(rho=_positive("rho", rho))
    checked = _positive("epsilon", epsilon)
    if delta is None:
        return Budget(epsilon=checked)
    checked_delta = _positive("delta", delta)
    if not checked_delta < 1:
        raise BudgetError(f"delta must be below 1, and should be far below 1/n; not {shown(delta)}")
    return Budget(epsilon=checked, delta=checked_delta)


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real | np.number):
        raise BudgetError(f"{name} must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise BudgetError(f"{name} is too large for a float; write float('inf') for no privacy") from None
    if math.isnan(number) or number <= 0:
        raise BudgetError(f"{name} must be above 0, not {shown(value)}")
    return number


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-Gaussian-DP implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, mu : float
        Non-negative; positive.

    Notes
    -----
    Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu); Balle and Wang 2018, exact. A bound on the floating
    point error is added, which matters only for epsilon far below 1e-3.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 0.236704) * 1e6, 3)
    1.0
    """
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    first = math.exp(log_first)
    second = math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return first - second + 16 * float(np.finfo(float).eps) * first * (2 - log_first)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian mechanism is exactly (epsilon, delta)-DP.

    Raises
    ------
    BudgetError
        If no mu can be told from 0.

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-6), 6)
    0.236704
    """
    lower, upper = 1e-9, 1e3
    while gaussian_delta(epsilon, upper) < delta:
        upper *= 10
    if gaussian_delta(epsilon, lower) >= delta:
        raise BudgetError(f"epsilon = {epsilon:g} with delta = {delta:g} is too small for Gaussian noise")
    return float(brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, lower, upper, xtol=1e-15, rtol=1e-14))


def zcdp_of_pure(epsilon: float) -> float:
    """Return the rho for which every epsilon-private release is rho-zCDP: epsilon tanh(epsilon / 2).

    Notes
    -----
    Among pairs of distributions with log ratio in [-epsilon, epsilon], randomised response is the worst for every Renyi
    order alpha: (g(alpha - 1/2) - g(1/2)) / (alpha - 1) with g(x) = log cosh(epsilon x). As tanh(z) / z falls, g is
    concave in x^2, so g(x) - g(1/2) <= epsilon tanh(epsilon / 2) (x^2 - 1/4), which at x = alpha - 1/2 gives alpha rho.

    Examples
    --------
    >>> round(zcdp_of_pure(1.0), 6)
    0.462117
    """
    return epsilon * math.tanh(epsilon / 2)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta for which rho-zCDP implies (epsilon, delta)-DP.

    Notes
    -----
    The minimum over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) (1 - 1 / alpha)^alpha; Canonne,
    Kamath and Steinke 2020. Any alpha is valid, so the search for the best one needs no accuracy.

    Examples
    --------
    >>> round(zcdp_delta(0.0208, 1.0) * 1e6, 2)
    0.15
    """

    def log_delta(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        return (order - 1) * (order * rho - epsilon) - math.log(order - 1) + order * math.log1p(-1 / order)

    found = minimize_scalar(log_delta, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-9})
    return min(1.0, math.exp(min(float(found.fun), 0.0)))


def rho_of_approximate(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zCDP guarantee is (epsilon, delta)-DP, rounded down.

    Examples
    --------
    >>> rho_of_approximate(1.0, 1e-6) < rho_of_approximate(1.0, 1e-5) < 0.5
    True
    """
    low, high = 0.0, epsilon
    while zcdp_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_delta(middle, epsilon) <= delta else (low, middle)
    return low * (1 - SLACK)


def pure_of_zcdp(rho: float, shares: Sequence[float]) -> float:
    """Return the epsilon of which parts, each released with its share of it, together cost rho.

    Parameters
    ----------
    rho : float
        Of the whole.
    shares : sequence of float
        Share of epsilon of each part.
    """

    def total(epsilon: float) -> float:
        return math.fsum(zcdp_of_pure(share * epsilon) for share in shares)

    lower = math.sqrt(2 * rho / math.fsum(share**2 for share in shares)) * (1 - 1e-6)
    upper = 2 * lower
    while total(upper) < rho:
        upper *= 2
    return float(brentq(lambda epsilon: total(epsilon) - rho, lower, upper, xtol=1e-300, rtol=1e-14)) * (1 - SLACK)


def stage_strength(budget: Budget, kind: Literal["laplace", "gaussian"], share: float = 1.0) -> float:
    """Return the epsilon (Laplace noise) or mu (Gaussian noise) that a share of a budget allows; 1 without a budget.

    Parameters
    ----------
    budget : Budget
        Of the whole fit.
    kind : {"laplace", "gaussian"}
        Law of the stage's noise.
    share : float
        Of epsilon, or of mu^2.

    Raises
    ------
    BudgetError
        If the budget does not allow the noise.

    Notes
    -----
    The transfer terms of discrete Gaussian noise (`dpstats.release.noise`) are covered by solving for mu at
    (epsilon (1 - 1e-12), delta (1 - 1e-12)); a rho budget allows mu = sqrt(2 rho).
    """
    if not budget.is_private:
        return 1.0
    if kind == "laplace":
        if budget.epsilon is None:
            raise BudgetError("Laplace noise needs a budget with epsilon")
        return share * budget.epsilon
    if budget.rho is not None:
        return math.sqrt(share * 2 * budget.rho)
    if budget.epsilon is None or budget.delta is None:
        raise BudgetError("Gaussian noise needs a budget with delta, or rho")
    return math.sqrt(share) * gaussian_mu(budget.epsilon * (1 - SLACK), budget.delta * (1 - SLACK))


def compose(budget: Budget, costs: Iterable[Budget]) -> Budget:
    """Return what several stages spend together, in the budget's notion.

    Parameters
    ----------
    budget : Budget
        Of the whole fit.
    costs : iterable of Budget
        epsilon of each pure stage, with delta where it has one; or rho, or mu^2 / 2, of each stage; not mixed.

    Notes
    -----
    epsilon and delta add; rho and mu^2 add; an (epsilon, delta) budget spent on Gaussian noise is reported as the delta
    of the total mu at the budget's epsilon.
    """
    parts = list(costs)
    if not budget.is_private:
        return budget
    if all(part.epsilon is not None for part in parts):
        delta = math.fsum(part.delta or 0.0 for part in parts)
        return Budget(epsilon=math.fsum(part.epsilon or 0.0 for part in parts), delta=delta or None)
    rho = math.fsum(part.rho or 0.0 for part in parts)
    if budget.epsilon is None:
        return Budget(rho=rho)
    return Budget(epsilon=budget.epsilon, delta=gaussian_delta(budget.epsilon, math.sqrt(2 * rho)))
