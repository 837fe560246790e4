"""What a call says about rows beyond its formula: missing entries, weights and an offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dpstats.errors import OptionError, SchemaError, shown
from dpstats.specification.declarations import require_declared
from dpstats.specification.schema import Continuous, Schema, TableFacts, check_table

Missing = Literal["drop", "none"]


@dataclass(frozen=True, slots=True)
class Weights:
    """A column of weights w >= 0 with public bounds (zone: public); a row enters as sqrt(w / upper) times itself.

    Attributes
    ----------
    column : str
        Raw column.
    bounds : Continuous
        Declared bounds, to which weights are clipped.
    """

    column: str
    bounds: Continuous


@dataclass(frozen=True, slots=True)
class RowRules:
    """How rows are read (zone: public).

    Attributes
    ----------
    missing : {"drop", "none"}
        ``"drop"`` leaves out rows with a missing entry; ``"none"`` says that there are none: a missing number becomes
        the middle of its range all the same, a missing level the first one.
    weights : Weights or None
        Column of weights, if rows have weights.
    offset : str
        Expression that is taken from the response and given back in predictions; empty for none.
    """

    missing: Missing = "drop"
    weights: Weights | None = None
    offset: str = ""

    def describe(self, estimand: str) -> str:
        """Return what is estimated, said for these rows."""
        return estimand if self.missing == "drop" else estimand.replace("complete cases", "all rows")


def row_rules(missing: Any, weights: Any, offset: Any, schema: Schema, facts: TableFacts) -> RowRules:
    """Check the arguments that say how rows are read.

    Parameters
    ----------
    missing, weights, offset : object
        As the user wrote them.
    schema : Schema
        Declarations.
    facts : TableFacts
        Of the table.

    Raises
    ------
    OptionError, FormulaError, SchemaError
        If an argument is not one of its kind, or the weights are not a column of numbers declared from 0 on.
    """
    if not isinstance(missing, str) or missing not in ("drop", "none"):
        raise OptionError(f"missing must be 'drop' or 'none', not {shown(missing)}")
    if offset is not None and (not isinstance(offset, str) or not offset):
        raise OptionError(f"offset must be a column or an expression, as in offset='log_exposure', not {shown(offset)}")
    if weights is None:
        return RowRules(missing, None, offset or "")  # type: ignore[arg-type]
    if not isinstance(weights, str) or not weights:
        raise OptionError(f"weights must be the name of a column, as in weights='w', not {shown(weights)}")
    require_declared([weights], schema, facts)
    check_table(schema, facts, [weights])
    column = schema[weights]
    if not isinstance(column, Continuous) or column.lower < 0:
        raise SchemaError(
            f"weights need bounds from 0 on: declare bounds={{{weights!r}: (lowest, highest)}} with lowest >= 0"
        )
    return RowRules(missing, Weights(weights, column), offset or "")  # type: ignore[arg-type]
