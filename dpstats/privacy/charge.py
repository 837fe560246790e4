"""What a fit will cost at most, for an account that is charged before a record is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstats.privacy.notions import Budget, gaussian_mu
from dpstats.privacy.unit import growth


@dataclass(frozen=True, slots=True)
class Charge:
    """What a fit will cost at most, known before a record is read (zone: public).

    Attributes
    ----------
    budget : Budget
        As asked for.
    pure : float
        epsilon of the pure releases together.
    rho : float
        Of the Gaussian releases together.
    delta : float
        With which a pure release may show what it must not.
    """

    budget: Budget
    pure: float
    rho: float
    delta: float = 0.0

    def of_unit(self, contributions: int) -> Charge:
        """Return what it costs a unit of several rows, from what it costs one row."""
        delta = self.delta * growth(self.pure, contributions) if self.delta else 0.0
        return Charge(self.budget.whole, contributions * self.pure, contributions**2 * self.rho, delta)


def charge_of(budget: Budget, law: str) -> Charge:
    """Return the charge of a fit whose noise has one law.

    Parameters
    ----------
    budget : Budget
        As asked for.
    law : str
        ``"gaussian"`` for Gaussian noise; any other law is pure.
    """
    if not budget.is_private:
        return Charge(budget, math.inf, 0.0)
    if budget.rho is not None:
        return Charge(budget, 0.0, budget.rho)
    epsilon = budget.epsilon or 0.0
    if law != "gaussian":
        return Charge(budget, epsilon, 0.0)
    return Charge(budget, 0.0, gaussian_mu(epsilon, budget.delta or 0.0) ** 2 / 2)
