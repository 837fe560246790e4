"""An offset: a known part of the linear predictor, taken from the response before the fit."""

from __future__ import annotations

from dpstats.errors import FormulaError
from dpstats.specification import polynomials
from dpstats.specification.declarations import require_declared
from dpstats.specification.expressions import Numeric, read_expression, read_name
from dpstats.specification.formula import ParsedFormula, columns_of
from dpstats.specification.schema import Schema, TableFacts
from dpstats.specification.spelling import mentioned_names


def read_offset(text: str, parsed: ParsedFormula, schema: Schema, facts: TableFacts) -> Numeric:
    """Read an offset: a numeric column, or an expression such as ``np.log(exposure)``.

    Raises
    ------
    FormulaError, SchemaError
        If it is no such thing, is not declared, or reads a column that stands on the right-hand side.
    """
    names = [text] if text in facts.names else mentioned_names(text)
    require_declared(names, schema, facts)
    reading = read_name(text, schema.columns) if text in facts.names else read_expression(text, schema.columns)
    if not isinstance(reading, Numeric):
        raise FormulaError(f"offset={text!r} is no number")
    regressors = {
        name for expression, r in parsed.readings.items() if expression != parsed.response for name in columns_of(r)
    }
    shared = regressors & set(columns_of(reading))
    if shared:
        raise FormulaError(f"the offset's column {min(shared)!r} also stands on the right of {parsed.text!r}")
    return reading


def less_offset(outcome: Numeric, offset: Numeric) -> Numeric:
    """Return the response less the offset, as one transform with bounds of its own."""
    difference = polynomials.add(outcome.polynomial, offset.polynomial, -1.0)
    return Numeric(difference, f"{outcome.text} - ({offset.text})")
