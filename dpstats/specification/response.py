"""The response of a formula: one column of numbers, or an outcome of two levels."""

from __future__ import annotations

from dataclasses import replace

from dpstats.errors import FormulaError, SchemaError
from dpstats.specification.expressions import Factor, Numeric, Vector, read_expression
from dpstats.specification.formula import ParsedFormula
from dpstats.specification.schema import Categorical, Schema
from dpstats.specification.spelling import spell
from dpstats.specification.symbols import WIDENING, ScalarSymbol


def numeric_response(parsed: ParsedFormula, schema: Schema) -> Numeric:
    """Return the response's reading; dp_ols needs one column of numbers.

    Raises
    ------
    SchemaError, FormulaError
        If the response is a category, or has several columns.
    """
    reading = parsed.readings[parsed.response]
    if isinstance(reading, Factor):
        column = schema[reading.column]
        text = isinstance(column, Categorical) and isinstance(column.levels[0], str)
        raise SchemaError(
            f"dp_ols needs a numeric outcome; {parsed.response!r} is {'text' if text else 'a category'}. Declare its "
            "bounds, or use a 0/1 column"
        )
    if isinstance(reading, Vector):
        raise FormulaError(f"dp_ols needs one outcome; {parsed.response!r} has several columns")
    return reading


def binary_response(parsed: ParsedFormula, schema: Schema, model: str) -> Numeric:
    """Return the reading of an outcome with two levels, as a number from 0 (first level) to 1 (last).

    Raises
    ------
    SchemaError, FormulaError
        If the response has not two declared levels and is not a number between 0 and 1.
    """
    reading = parsed.readings[parsed.response]
    if isinstance(reading, Vector):
        raise FormulaError(f"{model} needs one outcome; {parsed.response!r} has several columns")
    if isinstance(reading, Factor):
        column = schema[reading.column]
        if isinstance(column, Categorical) and len(column.levels) != 2:
            raise SchemaError(
                f"{model} needs an outcome of two levels; {parsed.response!r} has {len(column.levels)}. Write a "
                f"comparison such as I({spell(reading.column)} == {column.levels[-1]!r}) as the outcome"
            )
        text = spell(reading.column)
        if isinstance(column, Categorical):
            text += f" == {column.levels[-1]!r}"
        reading = read_expression(text, schema.columns)
    if not isinstance(reading, Numeric):  # pragma: no cover - a comparison and a bool column are numbers
        raise FormulaError(f"{model} cannot use {parsed.response!r} as an outcome")
    return reading


def unit_response(symbol: ScalarSymbol, model: str) -> ScalarSymbol:
    """Return an outcome with the bounds 0 and 1, which a transform's grid gives up to its widening.

    Raises
    ------
    SchemaError
        If the outcome is declared to leave [0, 1].
    """
    if max(abs(symbol.lower), abs(symbol.upper - 1)) > 2 * WIDENING:
        text = symbol.symbol.text
        cure = (
            "Declare its two levels, levels={"
            + f"{text!r}: [failure, success]"
            + ("}" if model == "dp_svm" else "}, or bounds (0, 1)")
            if symbol.symbol.form == "column"
            else "Write a comparison, such as I(x > 0), as the outcome"
        )
        raise SchemaError(
            f"{model} needs an outcome between 0 and 1; {text!r} reaches from {symbol.lower:g} to {symbol.upper:g}. "
            f"{cure}"
        )
    return replace(symbol, lower=0.0, upper=1.0)


def require_two_levels(symbol: ScalarSymbol) -> None:
    """Refuse an outcome that may lie between its two levels.

    Raises
    ------
    SchemaError
        If the outcome is a number that is not declared by its two levels.
    """
    if not symbol.sign:
        text = symbol.symbol.text
        raise SchemaError(
            f"dp_svm needs an outcome of two levels; {text!r} is declared as a number. Declare its two levels, "
            "levels={" + f"{text!r}: [negative, positive]" + "}, or write a comparison, such as I(x > 0)"
        )
