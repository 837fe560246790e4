"""What is protected: the neighbouring relation and the privacy unit, and what a unit of several rows costs.

Relations. "replace_one": neighbours have the same length, which is public, and differ in one row. "add_or_remove_one":
one has a row that the other has not; the length is private. With a column that tells persons apart, neighbours differ
in all rows of one person, however many: these are replaced by those of one other person, or added or removed as a
whole. The first k rows of each person are used, in the table's order. Which rows these are depends on that person's
rows alone, so that what is used differs in at most k rows that are added or removed, or k replacements among tables
padded with incomplete rows, which count as 0 in every sum. The length is private. A table of private length has fewer
than 2^31 rows: beyond that sums on the lattice might not fit into 64 bits.

Group privacy. Two tables that differ in all k rows of one person are k steps of one row apart. With a guarantee per
row: epsilon-DP gives k epsilon. rho-zCDP gives k^2 rho (Bun and Steinke 2016). mu-Gaussian-DP gives k mu (Dong, Roth
and Su 2022). (epsilon, delta)-DP gives (k epsilon, delta (1 + e^epsilon + .. + e^((k - 1) epsilon))), because each step
multiplies what the earlier ones added by e^epsilon at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpstats.errors import BudgetError, DataError, OptionError, shown
from dpstats.privacy.notions import Budget
from dpstats.specification.sensitivity import Relation

MOST = 10_000
LARGEST_EXPONENT = 700.0
MOST_ROWS = 2**30
"""Rows for which the lattice leaves room where the length is private; no table in use comes near it."""


RELATIONS = ("replace_one", "add_or_remove_one")


@dataclass(frozen=True, slots=True)
class Protection:
    """Neighbouring relation and privacy unit (zone: public).

    Attributes
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Which tables count as neighbours.
    contributions : int
        k, the largest number of rows of one unit.
    privacy_unit : str
        Raw column whose values tell persons apart, of whom the first k rows are used; empty where a unit is a row, or
        where k is believed.
    """

    neighboring_relation: Relation = "replace_one"
    contributions: int = 1
    privacy_unit: str = ""

    @property
    def relation(self) -> str:
        """The neighbouring relation in words."""
        verb, rows = ("replace", " of n rows") if self.neighboring_relation == "replace_one" else ("add or remove", "")
        if self.privacy_unit:
            return f"{verb} one person's rows"
        if self.contributions > 1:
            return f"{verb} up to {self.contributions}{rows or ' rows'}"
        return f"{verb} one{rows or ' row'}"

    @property
    def unit(self) -> str:
        """The privacy unit in words."""
        if self.privacy_unit:
            return f"one {self.privacy_unit}, {self.contributions} row{'s' * (self.contributions > 1)} kept"
        return "one row" if self.contributions == 1 else f"one person, up to {self.contributions} rows"

    @property
    def length_is_public(self) -> bool:
        """True if all neighbours of a table have its length."""
        return self.neighboring_relation == "replace_one" and not self.privacy_unit

    def of_row(self, budget: Budget) -> Budget:
        """Return what each row may cost for a whole unit to cost a budget.

        Parameters
        ----------
        budget : Budget
            Of the unit.

        Raises
        ------
        BudgetError
            If no delta is left for a row.
        """
        k = self.contributions
        if k == 1 or not budget.is_private:
            return budget
        if budget.rho is not None:
            return Budget(rho=budget.rho / k**2, asked=budget)
        epsilon = (budget.epsilon or 0.0) / k
        if budget.delta is None:
            return Budget(epsilon=epsilon, asked=budget)
        delta = budget.delta / growth(epsilon, k) * (1 - 1e-12)
        if not delta > 0:
            raise BudgetError(f"{budget} leaves no delta for each of {k} rows; give a smaller epsilon, or no delta")
        return Budget(epsilon=epsilon, delta=delta, asked=budget)

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
        delta = None if part.delta is None else min(1.0, part.delta * growth(epsilon, k))
        return Budget(epsilon=k * epsilon, delta=delta)


def growth(epsilon: float, k: int) -> float:
    """Return 1 + e^epsilon + .. + e^((k - 1) epsilon), rounded up; inf where floats end."""
    if k == 1:
        return 1.0
    if k * epsilon > LARGEST_EXPONENT:
        return math.inf
    exact = k * (1 + k * epsilon) if epsilon < 1e-12 else math.expm1(k * epsilon) / math.expm1(epsilon)
    return max(float(k), exact * (1 + 1e-9))


ONE_ROW = Protection()


@dataclass(frozen=True, slots=True)
class TableLength:
    """What is public about the number of rows (zone: public).

    Attributes
    ----------
    known : int or None
        By which forecasts and gates go; None skips them.
    at_most : int
        For which the lattice leaves room.
    """

    known: int | None
    at_most: int


def protection_of(
    contributions: Any, neighboring_relation: Any = "replace_one", privacy_unit: Any = None
) -> Protection:
    """Return the protection of a unit with at most some rows.

    Raises
    ------
    OptionError
        If `contributions` is not a whole number from 1 on, or another argument is not one of its kind.
    """
    whole = isinstance(contributions, int) and not isinstance(contributions, bool)
    if not whole or not 1 <= contributions <= MOST:
        raise OptionError(f"contributions must be a whole number from 1 to {MOST}, not {shown(contributions)}")
    if not isinstance(neighboring_relation, str) or neighboring_relation not in RELATIONS:
        raise OptionError(
            f"neighboring_relation must be 'replace_one' or 'add_or_remove_one', not {shown(neighboring_relation)}"
        )
    if privacy_unit is not None and (not isinstance(privacy_unit, str) or not privacy_unit):
        raise OptionError(
            f"privacy_unit must be the name of a column that tells persons apart, not {shown(privacy_unit)}"
        )
    return Protection(neighboring_relation, contributions, privacy_unit or "")  # type: ignore[arg-type]


def require_length(protection: Protection, n_public: Any) -> None:
    """Check what a call says about the length of its table.

    Parameters
    ----------
    protection : Protection
        Whether the length is public.
    n_public : object
        As the user wrote it.

    Raises
    ------
    OptionError
        If `n_public` is not a whole number above 0, or not needed.
    """
    whole = isinstance(n_public, int) and not isinstance(n_public, bool)
    if n_public is not None and (not whole or not 1 <= n_public <= MOST_ROWS):
        raise OptionError(f"n_public must be a whole number from 1 to {MOST_ROWS:,}, not {shown(n_public)}")
    if n_public is not None and protection.length_is_public:
        raise OptionError(
            "n_public goes with neighboring_relation='add_or_remove_one' or privacy_unit=; here the table's length is "
            "public. Leave it out"
        )


def table_length(protection: Protection, count: Callable[[], int], n_public: int | None = None) -> TableLength:
    """Return what is public about the length of a table.

    Parameters
    ----------
    protection : Protection
        Whether the length is public.
    count : callable
        Counts the rows; not called where their number is private.
    n_public : int, optional
        Length that the user declares to be publicly known, at least roughly.

    Raises
    ------
    DataError
        If the length is public and 0, or cannot be counted.
    """
    if not protection.length_is_public:
        return TableLength(n_public, MOST_ROWS)
    n_rows = count()
    if n_rows == 0:
        raise DataError("data has no rows")
    return TableLength(n_rows, n_rows)
