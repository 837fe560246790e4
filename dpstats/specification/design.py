"""The public design: formula and schema become named model columns over bounded symbols."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import DesignError, FormulaError, SchemaError
from dpstats.specification import polynomials
from dpstats.specification.expressions import Numeric, Vector
from dpstats.specification.formula import ParsedFormula, columns_of, parse_formula
from dpstats.specification.grids import quoting, schema_frame
from dpstats.specification.model_columns import ModelColumn, model_columns
from dpstats.specification.offset import less_offset, read_offset
from dpstats.specification.polynomials import ONE, Monomial, Polynomial, Symbol
from dpstats.specification.remember import public_key, remembered
from dpstats.specification.response import binary_response, numeric_response, unit_response
from dpstats.specification.rules import RowRules
from dpstats.specification.schema import Categorical, Schema, TableFacts, check_table
from dpstats.specification.symbols import ScalarSymbol, VectorSymbol, scalar_symbol, vector_symbol

NO_RULES = RowRules()


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What the model matrix is, known before a record is read (zone: public).

    The same facts give the same object (`dpstats.specification.remember`), which is not to be changed.

    Attributes
    ----------
    formula : str
        As written.
    endog_name : str
        The response as printed.
    columns : tuple of ModelColumn
        In statsmodels' order.
    response : ScalarSymbol
        The response with its public bounds.
    scalars, vectors : dict
        Bounded symbols by their text, the response's included.
    variables : tuple of str
        Raw columns that are read.
    schema : Schema
        Their declarations.
    specification : object
        formulaic's specification of the right-hand side, learned on public rows; for checks only.
    rules : RowRules
        What else is said about rows.
    offset : ScalarSymbol or None
        What was taken from the response, and is given back in predictions.
    """

    formula: str
    endog_name: str
    columns: tuple[ModelColumn, ...]
    response: ScalarSymbol
    scalars: Mapping[str, ScalarSymbol]
    vectors: Mapping[str, VectorSymbol]
    variables: tuple[str, ...]
    schema: Schema
    specification: Any
    rules: RowRules = NO_RULES
    offset: ScalarSymbol | None = None

    @property
    def regressor_variables(self) -> tuple[str, ...]:
        """Raw columns that the right-hand side reads."""
        return tuple(name for name in self.variables if name not in self.response.symbol.variables)

    @property
    def prediction_variables(self) -> tuple[str, ...]:
        """Raw columns that predictions need: those of the right-hand side and of the offset."""
        offset = () if self.offset is None else self.offset.symbol.variables
        return (*self.regressor_variables, *offset)

    @property
    def read_variables(self) -> tuple[str, ...]:
        """Raw columns that a fit reads, the weights included."""
        weights = () if self.rules.weights is None else (self.rules.weights.column,)
        return tuple(dict.fromkeys((*self.variables, *weights)))

    @property
    def exog_names(self) -> list[str]:
        """Names of the model columns, in order."""
        return [column.name for column in self.columns]

    def model_matrix(self, frame: pd.DataFrame, n_rows: int) -> NDArray[np.float64]:
        """Return formulaic's model matrix of a public frame, shape (n_rows, q)."""
        if frame.empty:
            return np.ones((n_rows, len(self.columns)))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            matrix = self.specification.get_model_matrix(frame, context=quoting(frame))
        return np.asarray(matrix, dtype=np.float64)


def build_design(
    formula: str, schema: Schema, facts: TableFacts, *, binary: str = "", rules: RowRules = NO_RULES
) -> Design:
    """Build the design from public facts only.

    Parameters
    ----------
    formula : str
        Two-sided formula.
    schema : Schema
        Declarations, bool columns included.
    facts : TableFacts
        Names, dtypes and length of the table.
    binary : str
        Name of a model whose outcome has two levels; empty for a numeric outcome.
    rules : RowRules, optional
        What else is said about rows.

    Raises
    ------
    FormulaError, SchemaError, DesignError
        Whatever is wrong with formula or schema.
    """
    known = public_key(schema, facts) if type(formula) is str else None
    asked = _Asked((formula, known, binary, rules), formula, schema, facts, binary, rules)
    try:
        return _build(asked) if known is None else _remembered_design(asked)
    except (RecursionError, MemoryError):
        raise FormulaError("the formula is too long or too deeply nested to be read") from None


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of `build_design`, equal if their keys are."""

    key: Hashable
    formula: str = field(compare=False)
    schema: Schema = field(compare=False)
    facts: TableFacts = field(compare=False)
    binary: str = field(compare=False)
    rules: RowRules = field(compare=False)


@remembered
def _remembered_design(asked: _Asked) -> Design:
    return _build(asked)


def _build(asked: _Asked) -> Design:
    formula, schema, facts, binary, rules = asked.formula, asked.schema, asked.facts, asked.binary, asked.rules
    parsed = parse_formula(formula, schema, facts)
    outcome = binary_response(parsed, schema, binary) if binary else numeric_response(parsed, schema)
    offset = read_offset(rules.offset, parsed, schema, facts) if rules.offset else None
    variables = parsed.variables if offset is None else tuple(dict.fromkeys((*parsed.variables, *columns_of(offset))))
    check_table(schema, facts, variables)
    if not list(parsed.right_hand_side):
        raise FormulaError(f"{formula!r} has no terms on the right-hand side")
    used = Schema({name: schema[name] for name in variables})
    outcome = outcome if offset is None else less_offset(outcome, offset)
    response = scalar_symbol(_response_symbol(parsed.response, outcome), used)
    if binary:
        response = unit_response(response, binary)
    scalars, vectors = _bounded_symbols(parsed, used)
    specification = _learn_right_hand_side(parsed, used)
    columns = _merge_lone_products(model_columns(parsed, specification, vectors, used))
    for column in columns:
        for symbol in polynomials.symbols(column.polynomial):
            if symbol.text not in scalars:
                scalars[symbol.text] = scalar_symbol(symbol, used)
    scalars[response.symbol.text] = response
    _refuse_ambiguous(variables, [*scalars.values(), *vectors.values()])
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise DesignError(
                f"two columns of the model are called {name!r}; rename the column of data, or write '0 +'"
            )
    returned = None if offset is None else scalar_symbol(_response_symbol(rules.offset, offset), used)
    return Design(
        formula,
        parsed.response,
        columns,
        response,
        scalars,
        vectors,
        variables,
        used,
        specification,
        rules,
        returned,
    )


def _refuse_ambiguous(variables: Sequence[str], found: Sequence[ScalarSymbol | VectorSymbol]) -> None:
    for bounded in found:
        if bounded.symbol.form != "column" and bounded.symbol.text in variables:
            raise DesignError(f"{bounded.symbol.text!r} is both a column and a term of the formula; rename the column")


def _response_symbol(name: str, reading: Numeric) -> Symbol:
    """Return the response as one symbol, whatever its expression."""
    found = list(polynomials.symbols(reading.polynomial))
    if not found:
        raise FormulaError(f"{name!r} reads no column; the response must be a column of data")
    if reading.polynomial == polynomials.single(found[0]):
        return found[0]
    return _as_transform(reading.polynomial, reading.text)


def _bounded_symbols(parsed: ParsedFormula, schema: Schema) -> tuple[dict[str, ScalarSymbol], dict[str, VectorSymbol]]:
    scalars: dict[str, ScalarSymbol] = {}
    vectors: dict[str, VectorSymbol] = {}
    for expression, reading in parsed.readings.items():
        if isinstance(reading, Vector):
            vectors[reading.symbol.text] = vector_symbol(reading.symbol, schema)
        elif isinstance(reading, Numeric) and expression != parsed.response:
            for symbol in polynomials.symbols(reading.polynomial):
                scalars.setdefault(symbol.text, scalar_symbol(symbol, schema))
    return scalars, vectors


def _refuse_reserved_levels(parsed: ParsedFormula, schema: Schema) -> None:
    """Refuse levels that formulaic would take for notes of its own and leave out of the columns."""
    for name in parsed.variables:
        column = schema[name]
        for level in column.levels if isinstance(column, Categorical) else ():
            if isinstance(level, str) and level.startswith("__"):
                raise SchemaError(
                    f"column {name!r}: the level {level!r} begins with two underscores, which the formula library "
                    "keeps for itself; rename the level in the table and where it is declared"
                )


def _learn_right_hand_side(parsed: ParsedFormula, schema: Schema) -> Any:
    _refuse_reserved_levels(parsed, schema)
    frame = schema_frame(schema, parsed.variables)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            matrix = parsed.right_hand_side.get_model_matrix(
                frame, context=quoting(frame), output="numpy", na_action="ignore"
            )
    except Exception as error:
        raise FormulaError(f"cannot build {parsed.text!r}: {str(error).splitlines()[0]}") from None
    return matrix.model_spec


def _merge_lone_products(columns: Sequence[ModelColumn]) -> tuple[ModelColumn, ...]:
    """Turn products that share no part with the rest of the model into transforms with bounds of their own.

    ``x1:x2`` without ``x1`` and ``x2`` needs one coded column, not the closure x1*x2, x1, x2, 1.
    """
    lone = _lone_polynomials([column.polynomial for column in columns])
    transforms: dict[frozenset[tuple[Monomial, Fraction]], Symbol] = {}
    merged = []
    for column in columns:
        key = _key(column.polynomial)
        if key in lone:
            symbol = transforms.setdefault(key, _as_transform(column.polynomial, column.text))
            column = replace(column, polynomial=polynomials.single(symbol), expanded=column.polynomial)
        merged.append(column)
    return tuple(merged)


def _lone_polynomials(found: Sequence[Polynomial]) -> set[frozenset[tuple[Monomial, Fraction]]]:
    candidates = {_key(p): _support(p) for p in found if not _is_affine(p)}
    expanded: set[Monomial] = set()
    for polynomial in found:
        if _key(polynomial) not in candidates:
            expanded |= _support(polynomial)
    changed = True
    while changed:
        changed = False
        for key, support in list(candidates.items()):
            proper = set().union(*(polynomials.divisors(m) - {m} for m in support)) - {ONE}
            others = set().union(*(other for k, other in candidates.items() if k != key))
            several = support if len(support) > 1 else set()
            if (proper | several) & others or (proper | support) & expanded:
                expanded |= support | proper
                del candidates[key]
                changed = True
    return set(candidates)


def _key(polynomial: Polynomial) -> frozenset[tuple[Monomial, Fraction]]:
    return frozenset(polynomial.items())


def _support(polynomial: Polynomial) -> set[Monomial]:
    return set(polynomial) - {ONE}


def _is_affine(polynomial: Polynomial) -> bool:
    support = _support(polynomial)
    return not support or (len(support) == 1 and len(m := next(iter(support))) == 1 and m[0][1] == 1)


def _as_transform(polynomial: Polynomial, text: str) -> Symbol:
    variables = dict.fromkeys(name for symbol in sorted(polynomials.symbols(polynomial)) for name in symbol.variables)
    return Symbol(text, tuple(variables), "transform")


def is_two_level(schema: Schema, factor: str) -> bool:
    """Tell whether a factor has two levels, so that one -1/+1 column can carry it."""
    column = schema[factor]
    return not isinstance(column, Categorical) or len(column.levels) == 2
