"""What is protected: the neighbouring relation and the privacy unit, and what a unit of several rows costs.

Group privacy. Two tables that differ in all k rows of one person are k steps of one row apart. With a guarantee per
row: epsilon-DP gives k epsilon. rho-zCDP gives k^2 rho (Bun and Steinke 2016). mu-Gaussian-DP gives k mu (Dong, Roth
and Su 2022). (epsilon, delta)-DP gives (k epsilon, delta (1 + e^epsilon + .. + e^((k - 1) epsilon))), because each step
multiplies what the earlier ones added by e^epsilon at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpstats.errors import OptionError, shown
from dpstats.privacy.notions import Budget

MOST = 10_000


@dataclass(frozen=True, slots=True)
class Protection:
    """Neighbouring relation and privacy unit (zone: public).

    Attributes
    ----------
    relation : str
        Which tables count as neighbours.
    unit : str
        Whose data differ between neighbours.
    contributions : int
        k, the largest number of rows of one unit.
    """

    relation: str = "replace one of n rows"
    unit: str = "one row"
    contributions: int = 1

    def of_row(self, budget: Budget) -> Budget:
        """Return what each row may cost for a whole unit to cost a budget.

        Parameters
        ----------
        budget : Budget
            Of the unit.
        """
        k = self.contributions
        if k == 1 or not budget.is_private:
            return budget
        if budget.rho is not None:
            return Budget(rho=budget.rho / k**2, asked=budget)
        epsilon = (budget.epsilon or 0.0) / k
        if budget.delta is None:
            return Budget(epsilon=epsilon, asked=budget)
        return Budget(epsilon=epsilon, delta=budget.delta / _growth(epsilon, k) * (1 - 1e-12), asked=budget)

    def of_unit(self, part: Budget) -> Budget:
        """Return what a release costs a whole unit, from what it costs one row.

        Parameters
        ----------
        part : Budget
            epsilon, (epsilon, delta) or rho of one row.
        """
        k = self.contributions
        if k == 1 or not part.is_private:
            return part
        if part.rho is not None:
            return Budget(rho=k**2 * part.rho)
        epsilon = part.epsilon or 0.0
        delta = None if part.delta is None else min(1.0, part.delta * _growth(epsilon, k))
        return Budget(epsilon=k * epsilon, delta=delta)


def _growth(epsilon: float, k: int) -> float:
    """Return 1 + e^epsilon + .. + e^((k - 1) epsilon)."""
    return float(k) if epsilon < 1e-12 else math.expm1(min(k * epsilon, 700.0)) / math.expm1(epsilon)


def protection_of(contributions: Any) -> Protection:
    """Return the protection of a unit with at most some rows.

    Raises
    ------
    OptionError
        If `contributions` is not a whole number from 1 on.
    """
    whole = isinstance(contributions, int) and not isinstance(contributions, bool)
    if not whole or not 1 <= contributions <= MOST:
        raise OptionError(f"contributions must be a whole number from 1 to {MOST}, not {shown(contributions)}")
    if contributions == 1:
        return Protection()
    return Protection(
        f"replace up to {contributions} of n rows", f"one person, up to {contributions} rows", contributions
    )
