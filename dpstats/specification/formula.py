"""Parse a two-sided formula and read every factor of it, before a record is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formulaic import Formula
from formulaic.errors import FormulaicError
from formulaic.parser import DefaultFormulaParser, DefaultOperatorResolver
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import ASTNode, Operator, OrderedSet, Token
from formulaic.utils.code import format_expr

from dpstats.errors import DPStatsError, FormulaError, SchemaError
from dpstats.specification import polynomials
from dpstats.specification.allowlist import ARITY, CONTRASTS, SCALAR_STATEFUL, VECTOR_STATEFUL
from dpstats.specification.bins import UNKNOWN
from dpstats.specification.declarations import refuse_several_undeclared, require_declared
from dpstats.specification.expressions import (
    Factor,
    Numeric,
    Reading,
    Vector,
    read_expression,
    read_name,
)
from dpstats.specification.schema import Schema, TableFacts
from dpstats.specification.spelling import mentioned_names, without_backticks

MAX_LENGTH = 20_000
RESERVED = (
    {"np", "I", "C", "Q", "contr"}
    | {name for name in ARITY if "." not in name}
    | SCALAR_STATEFUL
    | VECTOR_STATEFUL
    | CONTRASTS
)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_ANSI = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")


class _Operators(DefaultOperatorResolver):  # type: ignore[misc]
    """formulaic's operators, with the terms of ``(a + b)**2`` in statsmodels' order: a, b, a:b."""

    @property
    def operators(self) -> list[Operator]:
        return [
            Operator(o.symbol, arity=2, precedence=o.precedence, associativity="right", to_terms=_power)
            if o.symbol in {"**", "^"}
            else o
            for o in super().operators
        ]


def _power(terms: Any, exponent: Any) -> Any:
    expressions = [factor.expr for term in exponent for factor in term.factors]
    if len(expressions) != 1 or not expressions[0].isdigit() or int(expressions[0]) < 1:
        raise FormulaError(f"the power in (...)**n must be a whole number from 1 on, not {':'.join(expressions)}")
    found = products = list(dict.fromkeys(terms))
    for _ in range(min(int(expressions[0]), len(found)) - 1):
        products = list(dict.fromkeys(left * right for left in terms for right in products))
        found = [*found, *products]
    return OrderedSet(found)


@dataclass(frozen=True, slots=True)
class ParsedFormula:
    """A formula whose factors all passed the allow-list (zone: public).

    Attributes
    ----------
    text : str
        The formula as written.
    right_hand_side : formulaic.Formula
        Terms in the order in which statsmodels prints them.
    response : str
        The response as a formula expression.
    readings : dict of str to Reading
        Each factor expression and what it stands for.
    variables : tuple of str
        Raw columns that the formula reads, the response's first.
    """

    text: str
    right_hand_side: Any
    response: str
    readings: Mapping[str, Reading]
    variables: tuple[str, ...]


def parse_formula(text: str, schema: Schema, facts: TableFacts) -> ParsedFormula:
    """Parse `text` and check each factor against the schema and the table's public facts.

    Parameters
    ----------
    text : str
        A formula such as ``"wage ~ educ + C(region)"``; ``.`` stands for all declared columns in table order.
    schema : Schema
        Declarations; columns of dtype bool included.
    facts : TableFacts
        Names and dtypes of the table.

    Raises
    ------
    FormulaError
        If the formula is not two-sided with one response, or contains something outside the allow-list.
    SchemaError
        If a column is not declared, or is used against its declaration.
    """
    spelled = _spelled(text)
    refuse_several_undeclared(_names_in(spelled), schema, facts)
    readings = _read_tokens(spelled, schema, facts)
    tree, formula = _parse(spelled, [name for name in dict.fromkeys(facts.names) if name in schema])
    if not (hasattr(formula, "lhs") and hasattr(formula, "rhs")):
        raise FormulaError(f"{text!r} has no response; write 'y ~ x'")
    _refuse_vanishing_powers(tree)
    response = _one_response(text, formula)
    variables: dict[str, None] = {}
    for side in (formula.lhs, formula.rhs):
        for factor in _factors(side):
            if factor.expr not in readings:
                readings[factor.expr] = _read(factor, schema, facts)
            variables.update(dict.fromkeys(columns_of(readings[factor.expr])))
    used = {factor.expr for side in (formula.lhs, formula.rhs) for factor in _factors(side)}
    readings = {expression: reading for expression, reading in readings.items() if expression in used}
    _refuse_function_names(variables)
    response_columns = set(columns_of(readings[response]))
    for factor in _factors(formula.rhs):
        shared = response_columns & set(columns_of(readings[factor.expr]))
        if shared:
            raise FormulaError(f"{text!r}: the response's column {min(shared)!r} also stands on the right")
    ordered = Formula(_in_printed_order(formula.rhs, readings), _ordering="none")
    return ParsedFormula(text, ordered, response, readings, tuple(variables))


def undeclared_numbers(text: str, schema: Schema, facts: TableFacts) -> tuple[str, ...]:
    """Return the numeric columns of a formula that nobody declared, if that is all that is wrong with it.

    Parameters
    ----------
    text : str
        The formula.
    schema : Schema
        Declarations.
    facts : TableFacts
        Names and dtypes of the table.

    Raises
    ------
    SchemaError
        If such a column stands inside a transform, which needs a declared range.
    """
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return ()
    try:
        mentioned = _names_in(_without_backticks(text))
        names = tuple(
            name
            for name in dict.fromkeys(facts.names)
            if name in mentioned and name not in schema and facts.kinds[name] == "number"
        )
        if not names:
            return ()
        parsed = parse_formula(text, schema.updated(Schema(dict.fromkeys(names, UNKNOWN))), facts)
    except (DPStatsError, RecursionError, MemoryError):
        return ()
    names = tuple(name for name in names if name in parsed.variables)
    for reading in parsed.readings.values():
        inside = [reading.symbol] if isinstance(reading, Vector) else []
        inside += polynomials.symbols(reading.polynomial) if isinstance(reading, Numeric) else []
        for symbol in inside:
            touched = [name for name in names if name in symbol.variables]
            if symbol.form != "column" and touched:
                raise SchemaError(
                    f"{symbol.text!r} needs a declared range of {touched[0]!r}; add bounds={{{touched[0]!r}: "
                    "(lowest, highest)} from public knowledge. Only plain columns, their products and powers can buy "
                    "their bounds with a share of the budget"
                )
    return names


def names_in(text: Any) -> tuple[str, ...]:
    """Return the names that a formula mentions, in order; columns or not.

    Raises
    ------
    FormulaError
        If it is no text that can be read.
    """
    return tuple(_names_in(_spelled(text)))


def _spelled(text: Any) -> str:
    """Return a formula as the parser takes it."""
    if not isinstance(text, str):
        raise FormulaError(f"formula must be a string such as 'y ~ x', not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"the formula has {len(text):,} characters; at most {MAX_LENGTH:,} can be read")
    return _without_backticks(text)


def _without_backticks(text: str) -> str:
    """Return the formula with backticks around whole terms only, none inside an expression."""
    if "``" in text:
        raise FormulaError(f"{text!r}: backticks enclose a name, as in `class`")
    parts, last = [], 0
    for token in _tokens(text):
        if token.kind is Token.Kind.PYTHON and "`" in token.token:
            start = text.index(token.token, token.source_start)
            parts += [text[last:start], without_backticks(token.token)]
            last = start + len(token.token)
    return "".join([*parts, text[last:]])


def _tokens(text: str) -> list[Token]:
    try:
        return list(tokenize(text))
    except FormulaicError as error:
        raise _unreadable(text, error) from None


def _read_tokens(text: str, schema: Schema, facts: TableFacts) -> dict[str, Reading]:
    """Put all Python in a formula through the allow-list before a parser sees it: the parser evaluates some of it."""
    readings: dict[str, Reading] = {}
    for token in _tokens(text):
        if token.kind is Token.Kind.PYTHON:
            if "`" in token.token:
                raise FormulaError(f"{text!r}: write Q('name') instead of a backtick inside an expression")
            require_declared(mentioned_names(token.token), schema, facts)
            reading = read_expression(token.token, schema.columns)
            readings[format_expr(token.token)] = reading
        elif token.kind is Token.Kind.NAME and token.token.replace(".", "", 1).isdigit():
            raise FormulaError(f"{text!r}: a column named {token.token!r} would be read as a number; rename it")
    return readings


def _names_in(text: str) -> list[str]:
    """Return the names that a formula mentions, in order; columns or not."""
    names: list[str] = []
    for token in _tokens(text):
        if token.kind is Token.Kind.PYTHON:
            names += mentioned_names(token.token)
        elif token.kind is Token.Kind.NAME:
            names.append(token.token.strip("`"))
    return list(dict.fromkeys(names))


def _parse(text: str, declared: Sequence[str]) -> tuple[Any, Any]:
    """Return the syntax tree and the terms of a formula."""
    context = {"__formulaic_variables_available__": list(declared)}
    parser = DefaultFormulaParser(operator_resolver=_Operators(), feature_flags={"TWOSIDED"})
    try:
        return parser.get_ast(text, context={}), Formula(text, _parser=parser, _ordering="none", _context=context)
    except (FormulaicError, SyntaxError, ValueError) as error:
        raise _unreadable(text, error) from None


def _unreadable(text: str, error: Exception) -> FormulaError:
    reason = _UNPRINTABLE.sub("?", _ANSI.sub("", str(error)).splitlines()[0])
    return FormulaError(f"cannot parse {text!r}: {reason}")


def _refuse_function_names(variables: Iterable[str]) -> None:
    for name in variables:
        if name in RESERVED:
            raise FormulaError(f"column {name!r} has the name of a function of formulas; rename the column")


def _in_printed_order(terms: Any, readings: Mapping[str, Reading]) -> list[Any]:
    """Order terms as patsy does: by their numeric factors (none first, then by appearance), then by degree."""
    buckets: dict[frozenset[str], list[Any]] = {frozenset(): []}
    for term in terms:
        literal = {f.expr for f in term.factors if f.eval_method.value == "literal"}
        numeric = frozenset(
            f.expr for f in term.factors if f.expr not in literal and not isinstance(readings[f.expr], Factor)
        )
        buckets.setdefault(numeric, []).append(term)
    return [term for bucket in buckets.values() for term in sorted(bucket, key=lambda term: term.degree)]


def columns_of(reading: Reading) -> tuple[str, ...]:
    """Return the raw columns that a factor reads."""
    if isinstance(reading, Factor):
        return (reading.column,)
    if isinstance(reading, Vector):
        return reading.symbol.variables
    found: dict[str, None] = {}
    for monomial in reading.polynomial:
        for symbol, _ in monomial:
            found.update(dict.fromkeys(symbol.variables))
    return tuple(found)


def _factors(side: Any) -> Iterator[Any]:
    for term in side:
        for factor in term.factors:
            if factor.eval_method.value != "literal":
                yield factor


def _one_response(text: str, formula: Any) -> str:
    terms = list(formula.lhs)
    if len(terms) != 1 or len(terms[0].factors) != 1 or terms[0].factors[0].eval_method.value == "literal":
        raise FormulaError(
            f"{text!r}: write one response on the left of '~', such as 'y' or 'np.log(y)', with I(...) for arithmetic"
        )
    return str(terms[0].factors[0].expr)


def _read(factor: Any, schema: Schema, facts: TableFacts) -> Reading:
    if factor.eval_method.value != "lookup":
        raise FormulaError(f"{factor.expr!r} cannot be read unambiguously; write its names as Q('name')")
    require_declared([factor.expr], schema, facts)
    return read_name(factor.expr, schema.columns)


def _refuse_vanishing_powers(tree: Any) -> None:
    """Refuse ``x**2``, ``x^2`` and ``x*x``, which mean ``x`` in a formula and are written by mistake."""

    def visit(node: Any, act: Callable[[Any], None]) -> None:
        if isinstance(node, ASTNode):
            act(node)
            for argument in node.args:
                visit(argument, act)

    def check(node: Any) -> None:
        symbol, arguments = node.operator.symbol, node.args
        if symbol in {"**", "^"} and isinstance(arguments[0], Token):
            shown = f"{arguments[0].token}{symbol}{getattr(arguments[1], 'token', '...')}"
            power = getattr(arguments[1], "token", "2")
        elif symbol in {"*", ":"} and all(isinstance(a, Token) for a in arguments) and arguments[0] == arguments[1]:
            shown, power = f"{arguments[0].token}{symbol}{arguments[1].token}", "2"
        else:
            return
        name = arguments[0].token
        raise FormulaError(f"{shown} is the same as {name} in a formula; write I({name}**{power})")

    visit(tree, check)
