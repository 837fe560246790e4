"""The errors that dpstats raises, one small tree under :class:`DPStatsError`.

Every message is made of public facts only: the formula, names, types, the schema, the budget and the options.
"""

from __future__ import annotations


def shown(value: object) -> str:
    """Show an argument in a message: a number or short text as written, anything else by its type alone.

    A table or column that is passed in the place of an option by mistake must not end up in a message.
    """
    if value is None or type(value) in (bool, int, float, str):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"{type(value).__name__}"


class DPStatsError(Exception):
    """Base class of all errors raised on purpose by dpstats.

    Examples
    --------
    >>> import dpstats as dps
    >>> try:
    ...     dps.Continuous(5, 5)
    ... except dps.DPStatsError as error:
    ...     print(type(error).__name__)
    SchemaError
    """


class SchemaError(DPStatsError, ValueError):
    """What is publicly known of a column is missing, contradictory or impossible."""


class FormulaError(DPStatsError, ValueError):
    """The formula cannot be parsed, or contains something that is not a row-wise term over declared columns."""


class DesignError(DPStatsError, ValueError):
    """Formula and schema together do not give a usable design (unbounded term, redundant columns, names twice)."""


class DataError(DPStatsError, ValueError):
    """The table does not fit the call, judged by its column names, column types and length alone."""


class BudgetError(DPStatsError, ValueError):
    """The privacy budget is missing, contradictory or unusable."""


class BudgetExceeded(BudgetError):  # noqa: N818 - the name that users expect beside BudgetError
    """A ledger has not enough left; nothing was read or spent."""


class ReleaseError(DPStatsError, RuntimeError):
    """Reading the records failed; the message says nothing about them."""


class InfeasibleError(BudgetError):
    """The public forecast says that nothing useful can come out; nothing was spent."""


class OptionError(DPStatsError, ValueError):
    """An option has a value that it cannot take."""


class NotReleasedError(DPStatsError, AttributeError):
    """The quantity was not released; an ``AttributeError``, so that ``hasattr`` and ``getattr(..., default)`` work."""


class NotPrivateError(DPStatsError, TypeError):
    """What holds exact properties of confidential data was about to be stored or copied."""
