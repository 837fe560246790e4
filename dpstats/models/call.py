"""What every model does with its arguments before a record is read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from dpstats.errors import OptionError, SchemaError, shown
from dpstats.forecast import PlannedMoments, Usable, require_feasible
from dpstats.mechanisms.option_checks import require_instance
from dpstats.mechanisms.options import HC0, HC1
from dpstats.privacy.charge import Charge
from dpstats.privacy.cost import PrivacyCost
from dpstats.privacy.ledger import Ledger, ledger_in_use, require_private, spending
from dpstats.privacy.notions import Budget
from dpstats.privacy.unit import Protection, protection_of
from dpstats.release.noise import NoiseSource
from dpstats.specification.schema import Schema, TableFacts, complete_schema


def public_schema(schema: Any, bounds: Any, levels: Any, facts: TableFacts) -> Schema:
    """Join what is declared in the three arguments, and the bool columns of the table.

    Raises
    ------
    SchemaError
        If a declaration cannot be read.
    """
    if schema is not None and not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a dpstats.Schema, not {type(schema).__name__}")
    declared = (schema or Schema({})).updated(Schema.from_declarations(bounds, levels))
    return complete_schema(declared, facts)


@dataclass(frozen=True, slots=True)
class Account:
    """Who is protected, and the ledger that a call is charged to, if any (zone: public)."""

    ledger: Ledger | None
    protection: Protection
    noise: Literal["real", "simulated", "none"]

    def spending(self, charge: Charge, what: str) -> AbstractContextManager[None]:
        """Reserve a row's charge for the whole unit, and commit it after the block."""
        return spending(self.ledger, charge.of_unit(self.protection.contributions), what)

    def cost(self, budget: Budget, parts: Mapping[str, Budget]) -> PrivacyCost:
        """Return what the whole unit is charged, as results show it.

        Parameters
        ----------
        budget : Budget
            Of one row.
        parts : mapping of str to Budget
            What each release costs one row.
        """
        whole = {name: self.protection.of_unit(part) for name, part in parts.items()}
        name = "" if self.ledger is None else self.ledger.name
        return PrivacyCost(budget.whole, whole, self.protection, self.noise, name)


def account_of(ledger: Any, contributions: Any, noise: NoiseSource) -> Account:
    """Return the account that a call names, or that of the surrounding ``with`` block.

    Raises
    ------
    OptionError
        If an argument is out of range, or the ledger cannot account for the fit because it is not private.
    """
    found = ledger_in_use(ledger)
    require_private(found, private=noise.label == "real")
    return Account(found, protection_of(contributions), noise.label)


def covariance_type(cov_type: Any) -> HC0 | None:
    """Return the options of robust standard errors, None for nonrobust ones.

    Raises
    ------
    OptionError
        If the argument is neither a known name nor such options.
    """
    if isinstance(cov_type, HC0):
        return cov_type
    require_instance("cov_type", cov_type, (HC0,))
    known = {"nonrobust": None, "HC0": HC0(), "HC1": HC1()}
    if not isinstance(cov_type, str) or cov_type not in known:
        raise OptionError(f"cov_type must be 'nonrobust', 'HC0', 'HC1' or dps.HC1(share=...), not {shown(cov_type)}")
    return known[cov_type]


def check_infeasible(infeasible: Any) -> None:
    """Check the argument that says what to do where nothing useful can come out.

    Raises
    ------
    OptionError
        If it is neither "refuse" nor "fit".
    """
    if not isinstance(infeasible, str) or infeasible not in ("refuse", "fit"):
        raise OptionError(f"infeasible must be 'refuse' or 'fit', not {shown(infeasible)}")


def refuse_if_hopeless(infeasible: str, plan: PlannedMoments, n_rows: int, usable: Usable | None = None) -> None:
    """Ask the forecast, unless the user goes on anyway.

    Raises
    ------
    InfeasibleError
        If nothing useful can come out.
    """
    if infeasible == "refuse":
        require_feasible(plan, n_rows, usable)
