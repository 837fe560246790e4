"""What every model does with its arguments before a record is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from dpstats.errors import DataError, OptionError, SchemaError, shown
from dpstats.forecast.moments import PlannedMoments, Usable, require_feasible
from dpstats.mechanisms.option_checks import require_instance
from dpstats.mechanisms.options import HC0, HC1
from dpstats.models.progress import Bar
from dpstats.privacy.charge import Charge
from dpstats.privacy.cost import PrivacyCost
from dpstats.privacy.ledger import Ledger, ledger_in_use, require_private, require_unit, spending
from dpstats.privacy.notions import Budget
from dpstats.privacy.unit import Protection, TableLength, protection_of, require_length, table_length
from dpstats.records.limited import LimitedSource
from dpstats.records.source import Source, as_source
from dpstats.records.watched import WatchedSource
from dpstats.release.noise import NoiseSource
from dpstats.specification.declarations import require_identities
from dpstats.specification.formula import undeclared_numbers
from dpstats.specification.schema import Schema, TableFacts, complete_schema, require_schema


def public_schema(formula: Any, schema: Any, bounds: Any, levels: Any, facts: TableFacts) -> Schema:
    """Join what is declared in the three arguments, and the bool columns of the table.

    Raises
    ------
    SchemaError
        If a declaration cannot be read, or names no column of the table while a number in the formula lacks one: that
        would be a misspelled name, and bounds bought unasked.
    """
    require_schema(schema)
    declared = complete_schema((schema or Schema({})).updated(Schema.from_declarations(bounds, levels)), facts)
    for argument, given in (("bounds", bounds), ("levels", levels)):
        unknown = [name for name in given or () if name not in facts.names]
        lacking = undeclared_numbers(formula, declared, facts) if unknown else ()
        if lacking:
            raise SchemaError(
                f"{argument}= names {shown(unknown[0])}, which is not a column of data, and {lacking[0]!r} has no "
                f"declaration; correct the name, or leave it out to have bounds of {lacking[0]!r} found privately"
            )
    return declared


@dataclass(frozen=True, slots=True)
class Unit:
    """Who is to be protected, as the user wrote it (zone: public)."""

    contributions: Any = 1
    neighboring_relation: Any = "replace_one"
    privacy_unit: Any = None
    n_public: Any = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table and who is protected in it (zone: public but for the source, of which no record was read).

    Attributes
    ----------
    source : Source
        What is read: the first rows of each person, if a column tells persons apart.
    facts : TableFacts
        Names and dtypes of the table.
    protection : Protection
        Neighbouring relation and privacy unit.
    n_public : int or None
        Length that the user declares, where the table's own is private.
    bar : Bar or None
        Shows how far a call is, if the user asked for it.
    """

    source: Source
    facts: TableFacts
    protection: Protection
    n_public: int | None
    bar: Bar | None

    @property
    def length(self) -> TableLength:
        """What is public about the number of rows, which may have to be counted: ask when all else is checked."""
        return table_length(self.protection, lambda: self.source.n_rows, self.n_public)

    def rows_for(self, method: str) -> int:
        """Return the number of rows for a method whose proof takes it as public.

        Raises
        ------
        DataError
            If there are none, or they cannot be counted.
        OptionError
            If their number is private.
        """
        if self.protection.length_is_public:
            return self.length.at_most
        argument = (
            f"privacy_unit={self.protection.privacy_unit!r}"
            if self.protection.privacy_unit
            else ("neighboring_relation='add_or_remove_one'")
        )
        raise OptionError(
            f"{method} is proved for replace-one neighbours and a public number of rows only, which {argument} makes "
            "private; use mechanism='ssp' in dp_ols, or limit the rows of each person yourself and give contributions="
        )


@dataclass(frozen=True, slots=True, repr=False)
class Sealed:
    """What a user passed as a table (zone: PRIVATE), so that no frame of a traceback shows it.

    The first line of every model: arguments that are checked before the table may be refused too.
    """

    data: Any

    def __repr__(self) -> str:
        return f"Sealed({type(self.data).__name__})"


def _opened(sealed: Sealed) -> Source | DataError:
    """Return the table, or the reason why it is none without the frames in which it was found."""
    try:
        return as_source(sealed.data)
    except DataError as error:
        return error.with_traceback(None)


def table_of(sealed: Sealed, unit: Unit, progress: Any = False) -> Table:
    """Wrap a table, with at most so many rows of each person if a column tells persons apart.

    Parameters
    ----------
    sealed : Sealed
        A table as `dpstats.records.source.as_source` takes it.
    unit : Unit
        Who is to be protected.
    progress : object
        Whether to show how far the call is, as the user wrote it.

    Raises
    ------
    DataError, OptionError, SchemaError
        If the table is not supported or an argument does not fit it.
    """
    if not isinstance(progress, bool):
        raise OptionError(f"progress must be True or False, not {shown(progress)}")
    source, bar = _opened(sealed), Bar() if progress else None
    if isinstance(source, DataError):
        raise source
    facts = source.facts
    if not facts.names:
        raise DataError("data has no columns")
    protection = protection_of(unit.contributions, unit.neighboring_relation, unit.privacy_unit)
    name = protection.privacy_unit
    if name:
        require_identities(name, facts)
        if not source.has_order:
            raise DataError(
                "privacy_unit= uses the first rows of each person, and data has no order of its own: it is a query, or "
                "was shuffled; write it to a Parquet file in the order you want, and pass the file's path"
            )
        source = LimitedSource(source, name, protection.contributions)
    require_length(protection, unit.n_public)
    if bar is not None and protection.length_is_public:
        source = WatchedSource(source, bar)
    return Table(source, facts, protection, unit.n_public, bar)


@dataclass(frozen=True, slots=True)
class Account:
    """Who is protected, the ledger that a call is charged to, and the bar that it shows, if any (zone: public)."""

    ledger: Ledger | None
    protection: Protection
    noise: Literal["real", "simulated", "none"]
    bar: Bar | None = None

    @contextmanager
    def spending(self, charge: Charge, what: str) -> Iterator[None]:
        """Reserve a row's charge for the whole unit, and commit it after the block; show how far the block is."""
        with (
            spending(self.ledger, charge.of_unit(self.protection.contributions), what),
            nullcontext() if self.bar is None else self.bar.shown(),
        ):
            yield

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


def account_of(ledger: Any, table: Table, noise: NoiseSource) -> Account:
    """Return the account that a call names, or that of the surrounding ``with`` block.

    Raises
    ------
    OptionError
        If it is no ledger, or cannot account for the fit: it is not private, or protects something else.
    """
    found = ledger_in_use(ledger)
    require_private(found, private=noise.label == "real")
    require_unit(found, table.protection)
    return Account(found, table.protection, noise.label, table.bar)


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


def check_columns(columns: Any) -> tuple[str, ...]:
    """Return the names in a list of columns, each once.

    Raises
    ------
    OptionError
        If it is no list of names.
    """
    listed = isinstance(columns, Sequence) and not isinstance(columns, str | bytes) and len(columns) > 0
    if not listed or not all(isinstance(name, str) for name in columns):
        instead = f"; write [{columns!r}]" if isinstance(columns, str) else ""
        raise OptionError(f"columns must be a list of column names, not {shown(columns)}{instead}")
    return tuple(dict.fromkeys(columns))


def check_infeasible(infeasible: Any) -> None:
    """Check the argument that says what to do where nothing useful can come out.

    Raises
    ------
    OptionError
        If it is neither "refuse" nor "fit".
    """
    if not isinstance(infeasible, str) or infeasible not in ("refuse", "fit"):
        raise OptionError(f"infeasible must be 'refuse' or 'fit', not {shown(infeasible)}")


def refuse_if_hopeless(infeasible: str, plan: PlannedMoments, n_rows: int | None, usable: Usable | None = None) -> None:
    """Ask the forecast, unless the user goes on anyway or the number of rows is private.

    Raises
    ------
    InfeasibleError
        If nothing useful can come out.
    """
    if infeasible == "refuse" and n_rows is not None:
        require_feasible(plan, n_rows, usable)
