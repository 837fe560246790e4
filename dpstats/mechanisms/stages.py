"""How the budget of a classifier is shared among its releases, and what each is charged in the budget's notion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpstats.errors import BudgetError
from dpstats.mechanisms.lattice import TINY, TOO_SMALL
from dpstats.privacy.charge import Charge, charge_of
from dpstats.privacy.notions import Budget, gaussian_delta, pure_of_zcdp, zcdp_of_pure

OUTPUT = 0.01
"""Share of the budget for the distance to the exact minimiser."""
Law = Literal["laplace", "gaussian"]


@dataclass(frozen=True, slots=True)
class Stages:
    """Budgets of minimiser, Hessian and scores (zone: public).

    Attributes
    ----------
    budget : Budget
        Of the whole fit.
    epsilon : float
        All shares are of this pure epsilon; under rho, the one whose parts together cost rho.
    minimiser, hessian, scores, bounds : float
        Shares, which add up to 1; the minimiser's includes `OUTPUT`.
    """

    budget: Budget
    epsilon: float
    minimiser: float
    hessian: float
    scores: float
    bounds: float = 0.0

    @property
    def epsilon_exact(self) -> float:
        """For the exact minimiser."""
        return (self.minimiser - OUTPUT) * self.epsilon

    @property
    def epsilon_output(self) -> float:
        """For the distance to it."""
        return OUTPUT * self.epsilon

    @property
    def allowed(self) -> list[Law]:
        """Laws of noise that the later stages may have."""
        gaussian = self.budget.is_private and (self.budget.rho or self.budget.delta)
        return ["laplace", "gaussian"] if gaussian else ["laplace"]

    def later(self, law: Law, share: float) -> tuple[Budget, float]:
        """Return the budget of a later stage and the stage's share of it.

        Parameters
        ----------
        law : {"laplace", "gaussian"}
            Law of the stage's noise.
        share : float
            `hessian` or `scores`.
        """
        if not self.budget.is_private:
            return self.budget, 1.0
        if law == "laplace":
            return Budget(epsilon=self.epsilon), share
        if self.budget.delta is None:
            return Budget(rho=zcdp_of_pure(share * self.epsilon)), 1.0
        both = self.hessian + self.scores
        return Budget(epsilon=both * self.epsilon, delta=self.budget.delta), share / both

    def pure(self, epsilon: float) -> Budget:
        """Return the charge of a pure release."""
        if not self.budget.is_private:
            return self.budget
        return Budget(epsilon=epsilon) if self.budget.rho is None else Budget(rho=zcdp_of_pure(epsilon))

    def reservation(self, law: Law) -> Charge:
        """Return what the fit costs at most, for a ledger: later stages of Gaussian noise count as such.

        Parameters
        ----------
        law : {"laplace", "gaussian"}
            Law of the later stages.
        """
        if self.budget.rho is not None or law == "laplace":
            return charge_of(self.budget, "laplace")
        later, _ = self.later(law, self.hessian)
        pure = (self.minimiser + self.bounds) * self.epsilon
        return Charge(self.budget, pure, charge_of(later, law).rho)

    def charge(self, parts: dict[str, Budget]) -> dict[str, Budget]:
        """Return the charges of the later stages; Gaussian ones of an (epsilon, delta) budget become one charge.

        Parameters
        ----------
        parts : dict of str to Budget
            epsilon of Laplace noise, or rho = mu^2 / 2 of Gaussian noise, by name.
        """
        if not self.budget.is_private:
            return parts
        charged = {name: self.pure(part.epsilon) for name, part in parts.items() if part.epsilon is not None}
        gaussian = {name: part.rho for name, part in parts.items() if part.rho is not None}
        if self.budget.delta is None:
            return charged | {name: Budget(rho=rho) for name, rho in gaussian.items()}
        if gaussian:
            epsilon = (self.hessian + self.scores) * self.epsilon
            mu = math.sqrt(2 * math.fsum(gaussian.values()))
            charged[" and ".join(gaussian)] = Budget(epsilon=epsilon, delta=gaussian_delta(epsilon, mu))
        return charged


def split_budget(budget: Budget, minimiser: float, hessian: float, scores: float, bounds: float = 0.0) -> Stages:
    """Share a budget.

    Parameters
    ----------
    budget : Budget
        Of the whole fit.
    minimiser, hessian, scores, bounds : float
        Shares, which add up to 1.

    Raises
    ------
    BudgetError
        If the budget is too small to be shared, or the other shares leave nothing for the minimiser.

    Notes
    -----
    Pure: epsilon adds. (epsilon, delta): the minimiser is pure, later Gaussian stages together are (epsilon', delta)-
    private; basic composition. rho: each pure stage of epsilon' costs epsilon' tanh(epsilon' / 2), and a Gaussian stage
    gets as much rho as a Laplace one would.
    """
    if minimiser < 2 * OUTPUT:
        raise BudgetError(
            "the shares for the Hessian, for standard errors and for bounds leave nothing for the coefficients; make "
            "them smaller, so that they add up to less than 0.98"
        )
    if not budget.is_private:
        return Stages(budget, 1.0, minimiser, hessian, scores, bounds)
    if budget.rho is not None:
        if budget.rho < TINY:
            raise BudgetError(TOO_SMALL)
        shares = [share for share in (minimiser - OUTPUT, OUTPUT, hessian, scores, bounds) if share]
        return Stages(budget, pure_of_zcdp(budget.rho, shares), minimiser, hessian, scores, bounds)
    epsilon = budget.epsilon or 0.0
    if epsilon < TINY:
        raise BudgetError(TOO_SMALL)
    return Stages(budget, epsilon, minimiser, hessian, scores, bounds)
