"""A persistent account of what was spent on a data set: a write-ahead filter that cannot be overspent.

The account is kept in one additive currency, fixed when the file is made: epsilon, or rho of zCDP. Costs are whole
numbers of 10^-15, rounded up; the total is rounded down; decimals count as they were typed. A fit reserves its cost,
which is on disk before a record is read, then releases, then commits. Whatever happens after the reservation, the cost
stays spent: there is no refund. That a stream of releases, each chosen after the ones before, stays within the total is
the privacy filter for pure and concentrated DP (Rogers et al. 2016; Whitehouse et al. 2023).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpstats.errors import BudgetError, BudgetExceeded, OptionError, shown
from dpstats.privacy.charge import Charge
from dpstats.privacy.ledger_file import FORMAT, LedgerFile, total_spent
from dpstats.privacy.notions import Budget, budget_of, rho_of_approximate, zcdp_of_pure
from dpstats.privacy.unit import Protection, protection_of
from dpstats.specification.sensitivity import Relation

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 15
UNIT = 10**DIGITS
DELTA_UNIT = 10**18
"""Costs in delta are whole numbers of 10^-18, rounded up."""
LARGEST = 9_000
"""Largest total, in units of the currency, that 64-bit integers hold."""
Currency = Literal["epsilon", "rho"]

_blocks: ContextVar[tuple[Ledger, ...]] = ContextVar("ledgers", default=())
_open_blocks = 0
_counting = threading.Lock()


class Ledger:
    """The account of a data set's privacy budget, in a file.

    Parameters
    ----------
    path : str or Path
        File, made if it does not exist. Keep it on a local disk: network file systems do not lock reliably.
    epsilon : float, optional
        Total; alone, the account is kept in epsilon and Gaussian fits are refused.
    delta : float, optional
        With it the account is kept in rho: the largest rho whose zCDP guarantee is (epsilon, delta)-DP. Pure fits are
        charged epsilon tanh(epsilon / 2). Releases of levels may fail with a probability that adds to delta, so that
        they need a part of it that is set aside.
    levels_delta : float
        Part of delta that is set aside for `private_levels`; the rest is converted to rho.
    rho : float, optional
        Total of a zCDP account, instead of epsilon.
    dataset : str
        Name of the data set, as histories show it.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Of all fits that are charged: what fits cost under one relation does not add up with what they cost under
        another.
    contributions : int
        The unit of the account is a person with at most so many rows; fits that assume fewer are refused.
    privacy_unit : str, optional
        The unit of the account is a person, told apart by this column, with any number of rows; fits with any other
        unit are refused.

    Raises
    ------
    BudgetError
        If the file was made under other terms, is no ledger, or cannot be used.

    Examples
    --------
    >>> import tempfile, dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = dps.Ledger(f"{folder}/adult.budget", epsilon=3, dataset="adult")
    ...     fit = dps.dp_ols("hours_per_week ~ age", adult, epsilon=0.5, schema=schema, ledger=ledger)
    ...     print(ledger.spent(), "|", ledger.remaining())
    epsilon = 0.5 (pure) | epsilon = 2.5 (pure)
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        levels_delta: float = 0.0,
        rho: float | None = None,
        dataset: str = "",
        neighboring_relation: Relation = "replace_one",
        contributions: int = 1,
        privacy_unit: str | None = None,
    ) -> None:
        terms = budget_of(epsilon, delta, rho)
        if not terms.is_private:
            raise BudgetError("a ledger needs a finite budget")
        if not isinstance(dataset, str):
            raise OptionError(f"dataset must be a text, not {shown(dataset)}")
        if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
            raise OptionError(f"path must name a file, not {shown(path)}")
        self.path = Path(path).resolve()
        self.dataset = _printable(dataset)
        self.protection = protection_of(contributions, neighboring_relation, privacy_unit)
        self.budget = terms
        self.currency: Currency = "epsilon" if terms.delta is None and terms.rho is None else "rho"
        self.levels_delta = _levels_delta(levels_delta, terms)
        self._total = math.floor(_total(terms, self.levels_delta) * UNIT)
        self._total_delta = math.floor(_typed(self.levels_delta) * DELTA_UNIT)
        if not 0 < self._total <= LARGEST * UNIT:
            raise BudgetError(f"a ledger's total must lie between 1e-{DIGITS} and {LARGEST}, not {terms}")
        self._file = LedgerFile(self.path, self._terms())
        self._file.open()

    def spent(self) -> Budget:
        """Return what is spent, reservations that were never committed included, in the ledger's currency."""
        with self._file.connected() as connection:
            return self._budget(total_spent(connection))

    def remaining(self) -> Budget:
        """Return what is left, in the ledger's currency."""
        with self._file.connected() as connection:
            return self._budget(self._total - total_spent(connection))

    def affordable(self, k: int) -> Budget:
        """Return the budget of each of `k` further fits that are equally expensive, in the ledger's currency.

        Raises
        ------
        OptionError
            If `k` is not a whole number above 0.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise OptionError(f"k must be a whole number above 0, not {shown(k)}")
        with self._file.connected() as connection:
            return self._budget((self._total - total_spent(connection)) // k)

    def history(self) -> pd.DataFrame:
        """Return all spends, oldest first: public facts only.

        Returns
        -------
        pandas.DataFrame
            ``time`` (UTC), ``what``, ``budget`` as asked for, ``cost`` in the ledger's currency, ``state``: a reserved
            spend was never committed, because the fit failed or was interrupted; it counts.
        """
        import pandas as pd

        with self._file.connected() as connection:
            rows = connection.execute("SELECT time, what, budget, cost, state FROM spends ORDER BY id").fetchall()
        table = pd.DataFrame(rows, columns=["time", "what", "budget", "cost", "state"])
        return table.assign(cost=[int(cost) / UNIT for cost in table["cost"]])

    def reserve(self, charge: Charge, what: str) -> int:
        """Write a cost to disk before anything is read, and return its number.

        Parameters
        ----------
        charge : Charge
            What the fit costs at most.
        what : str
            What it is spent on, as `history` shows it.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing is spent then.
        BudgetError
            If the account is in epsilon and the fit's noise is Gaussian, or the file cannot be used.
        """
        cost, delta = math.ceil(self._price(charge) * UNIT), math.ceil(_typed(charge.delta) * DELTA_UNIT)
        with self._file.connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._file.check(connection)
            spent = total_spent(connection)
            left_delta = self._total_delta - total_spent(connection, "delta")
            if delta > left_delta:
                connection.execute("ROLLBACK")
                if not self._total_delta:
                    raise BudgetError(
                        f"the ledger {self.name} has set nothing aside for levels; make it with a delta and "
                        "levels_delta=, or declare the levels"
                    )
                raise BudgetExceeded(
                    f"the ledger {self.name} has {left_delta / DELTA_UNIT:.3g} left of levels_delta = "
                    f"{self.levels_delta:g}; {charge.budget} would cost {charge.delta:.3g}. Nothing was read or spent"
                )
            if spent + cost > self._total:
                connection.execute("ROLLBACK")
                left, total = self._budget(self._total - spent), self._budget(self._total)
                raise BudgetExceeded(
                    f"the ledger {self.name} has {left} left of {total}; {charge.budget} would cost "
                    f"{self._budget(cost)}. Nothing was read or spent"
                )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            row = connection.execute(
                "INSERT INTO spends (time, what, budget, cost, delta, state) VALUES (?, ?, ?, ?, ?, 'reserved')",
                (now, _printable(what), str(charge.budget), cost, delta),
            )
            connection.execute("COMMIT")
            return int(row.lastrowid or 0)

    def commit(self, number: int) -> None:
        """Mark a reservation as released; it is spent either way, so a file that cannot be written loses no result."""
        with suppress(BudgetError), self._file.connected() as connection:
            connection.execute("UPDATE spends SET state = 'committed' WHERE id = ?", (number,))

    @property
    def name(self) -> str:
        """The data set's name, or the file's."""
        return repr(self.dataset or self.path.name)

    def __enter__(self) -> Ledger:
        """Make this the ledger of all fits inside the block, in the same thread or task, that name no other."""
        global _open_blocks
        _blocks.set((*_blocks.get(), self))
        with _counting:
            _open_blocks += 1
        return self

    def __exit__(self, *exception: object) -> None:
        global _open_blocks
        _blocks.set(_blocks.get()[:-1])
        with _counting:
            _open_blocks -= 1

    def __repr__(self) -> str:
        return f"<Ledger {self.name}: {self.spent()} of {self._budget(self._total)} spent>"

    def _terms(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "currency": self.currency,
            "total": str(self._total),
            "budget": f"{self.budget.epsilon!r} {self.budget.delta!r} {self.budget.rho!r}",
            "dataset": self.dataset,
            "levels_delta": repr(self.levels_delta),
            "neighboring_relation": self.protection.neighboring_relation,
            "contributions": str(self.protection.contributions),
            "privacy_unit": self.protection.privacy_unit,
        }

    def _price(self, charge: Charge) -> Fraction:
        if self.currency == "epsilon":
            if charge.rho:
                raise BudgetError(
                    f"the ledger {self.name} is kept in epsilon and takes pure fits only; {charge.budget} means "
                    "Gaussian noise. Give epsilon alone, or make the ledger with a delta or rho"
                )
            return _typed(charge.pure)
        pure = zcdp_of_pure(charge.pure) * (1 + 1e-12)
        return _typed(charge.rho) if not pure else Fraction(pure) + Fraction(charge.rho)

    def _budget(self, units: int) -> Budget:
        number = float(Fraction(units, UNIT))
        return Budget(epsilon=number) if self.currency == "epsilon" else Budget(rho=number)


def _total(terms: Budget, levels_delta: float) -> Fraction:
    if terms.rho is not None:
        return _typed(terms.rho)
    epsilon = terms.epsilon or 0.0
    if terms.delta is None:
        return _typed(epsilon)
    return Fraction(rho_of_approximate(epsilon, (terms.delta - levels_delta) * (1 - 1e-12)))


def _levels_delta(levels_delta: Any, terms: Budget) -> float:
    """Return the part of delta that is set aside.

    Raises
    ------
    OptionError
        If it is not a part of a delta that the terms have.
    """
    usable = isinstance(levels_delta, int | float) and not isinstance(levels_delta, bool)
    if not usable or not 0 <= levels_delta < (terms.delta or 1e-300):
        raise OptionError(
            f"levels_delta is the part of delta for private_levels, from 0 to below delta; not {shown(levels_delta)}"
        )
    return float(levels_delta)


def _typed(number: float) -> Fraction:
    """Return the shortest decimal that reads as this float: what the user typed."""
    return Fraction(repr(float(number)))


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def ledger_in_use(ledger: Any) -> Ledger | None:
    """Return the ledger that a call names, or that of the surrounding ``with`` block.

    Raises
    ------
    OptionError
        If the argument is neither a Ledger nor None, or only another thread is inside a block.
    """
    if ledger is None:
        blocks = _blocks.get()
        if not blocks and _open_blocks:
            raise OptionError(
                "a ledger's block is open in another thread or task, which this one does not inherit; pass ledger= here"
            )
        return blocks[-1] if blocks else None
    if not isinstance(ledger, Ledger):
        raise OptionError(
            f"ledger must be a dpstats.Ledger, as in dps.Ledger('data.budget', epsilon=3), not {shown(ledger)}"
        )
    return ledger


@contextmanager
def spending(ledger: Ledger | None, charge: Charge, what: str) -> Iterator[None]:
    """Reserve a charge, let the block read and release, and commit; an interrupted block stays spent.

    Raises
    ------
    BudgetExceeded, BudgetError
        As `Ledger.reserve`, before the block is entered.
    """
    if ledger is None:
        yield
        return
    number = ledger.reserve(charge, what)
    yield
    ledger.commit(number)


def require_unit(ledger: Ledger | None, protection: Protection) -> None:
    """Refuse a fit that protects something else than the account does.

    Raises
    ------
    OptionError
        If the fit has other neighbours or another unit, or assumes fewer rows of a person.
    """
    if ledger is None:
        return
    kept = ledger.protection
    pairs = {
        name: (getattr(kept, name), getattr(protection, name)) for name in ("neighboring_relation", "privacy_unit")
    }
    if not kept.privacy_unit and not protection.privacy_unit and protection.contributions < kept.contributions:
        pairs["contributions"] = (kept.contributions, protection.contributions)
    for name, (account, fit) in pairs.items():
        if account != fit:
            raise OptionError(
                f"the ledger {ledger.name} is kept with {name}={account!r} and the fit has {name}={fit!r}; what they "
                f"cost does not add up. Give the fit the ledger's {name}, or use another ledger"
            )


def require_private(ledger: Ledger | None, *, private: bool) -> None:
    """Refuse to enter a fit without privacy into an account.

    Raises
    ------
    OptionError
        If the budget is infinite or the noise simulated.
    """
    if ledger is not None and not private:
        raise OptionError(
            "a fit with rng= or an infinite budget is not private, so no ledger can account for it; leave out ledger="
        )
