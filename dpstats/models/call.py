"""What every model does with its arguments before a record is read."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from dpstats.errors import OptionError, SchemaError, shown
from dpstats.forecast import PlannedMoments, Usable, require_feasible
from dpstats.mechanisms.option_checks import require_instance
from dpstats.mechanisms.options import HC0, HC1
from dpstats.privacy.charge import Charge
from dpstats.privacy.ledger import Ledger, ledger_in_use, require_private, spending
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
    """The ledger of a call, or none (zone: public)."""

    ledger: Ledger | None

    @property
    def name(self) -> str:
        """As results show it; empty for none."""
        return "" if self.ledger is None else self.ledger.name

    def spending(self, charge: Charge, what: str) -> AbstractContextManager[None]:
        """Reserve a charge before the block, and commit it after; see `dpstats.privacy.ledger.spending`."""
        return spending(self.ledger, charge, what)


def account_of(ledger: Any, noise: NoiseSource) -> Account:
    """Return the account that a call names, or that of the surrounding ``with`` block.

    Raises
    ------
    OptionError
        If the argument is no ledger, or the fit is not private.
    """
    found = ledger_in_use(ledger)
    require_private(found, private=noise.label == "real")
    return Account(found)


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
