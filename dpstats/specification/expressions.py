"""Read one factor of a formula: a number (as a polynomial in symbols), a spline, or a category."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from dpstats.errors import FormulaError, SchemaError
from dpstats.specification import polynomials
from dpstats.specification.allowlist import CONTRASTS, MAX_EXPONENT, VECTOR_STATEFUL, RowWise, call_name
from dpstats.specification.polynomials import Polynomial, Symbol
from dpstats.specification.schema import Categorical, Column, Continuous
from dpstats.specification.spelling import parse, spell

CONTRAST_METHODS = frozenset({"treatment", "SAS", "sum", "helmert", "diff", "poly", "custom"})
MAX_POWER, MAX_TERMS = 8, 500
"""Larger powers and products are transforms with bounds of their own instead of sums of monomials."""
MAX_BASIS, MAX_DEGREE = 200, 12
"""Largest number of columns or knots, and largest degree, of a spline or polynomial basis."""
SPLINE_OPTIONS = frozenset({"df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "raw"})


@dataclass(frozen=True, slots=True)
class Numeric:
    """A factor with one numeric column: a polynomial in symbols, and the expression that it was read from."""

    polynomial: Polynomial
    text: str


@dataclass(frozen=True, slots=True)
class Vector:
    """A factor with several numeric columns, such as a spline."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Factor:
    """A categorical factor over one declared column."""

    column: str


Reading = Numeric | Vector | Factor


def read_name(name: str, columns: Mapping[str, Column]) -> Reading:
    """Read a bare column name."""
    if isinstance(columns[name], Categorical):
        return _factor(name, name, columns)
    return Numeric(polynomials.single(Symbol(name, (name,))), spell(name))


def read_expression(expression: str, columns: Mapping[str, Column]) -> Reading:
    """Read a Python expression of a formula, such as ``np.log(x)``, ``C(g, Treatment('b'))`` or ``bs(x, df=5)``.

    Parameters
    ----------
    expression : str
        One factor as the formula parser cut it out.
    columns : mapping of str to Column
        The declared columns; the only names that may stand for values.

    Raises
    ------
    FormulaError
        If anything outside the allow-list occurs.
    SchemaError
        If a column is used against its declaration.
    """
    node = parse(expression)
    reading = _Reader(ast.unparse(node), columns).read(node)
    if isinstance(reading, Numeric) and polynomials.is_constant(reading.polynomial):
        raise FormulaError(
            f"{expression!r} is constant on the declared range; leave it out, or write 1 for an intercept"
        )
    return reading


def _factor(text: str, name: str, columns: Mapping[str, Column]) -> Factor:
    column = columns[name]
    if isinstance(column, Continuous):
        raise SchemaError(
            f"{text!r}: column {name!r} has declared bounds but no levels; declare levels={{{name!r}: [...]}} instead"
        )
    if len(column.levels) == 1:
        raise SchemaError(
            f"{text}: one declared level ({column.levels[0]!r}), nothing to estimate; drop it or declare more levels"
        )
    return Factor(name)


class _Reader(RowWise):
    """The walk that turns a factor into its reading."""

    def read(self, node: ast.expr) -> Reading:
        if isinstance(node, ast.Call) and call_name(node) == "C":
            return self._category(node)
        if isinstance(node, ast.Call) and call_name(node) in VECTOR_STATEFUL:
            return self._vector(node)
        column = self.column(node)
        if column is not None:
            return read_name(column, self.columns)
        return Numeric(self.polynomial(node), self.text)

    def polynomial(self, node: ast.expr) -> Polynomial:
        """Return the polynomial of a numeric expression; what is no polynomial becomes a transform symbol."""
        column = self.column(node)
        if column is not None:
            self.require_numeric(column)
            return polynomials.single(Symbol(column, (column,)))
        match node:
            case ast.Constant(value=int(value) | float(value)):
                self.require_usable(value)
                return polynomials.constant(value)
            case ast.BinOp(op=ast.BitXor()):
                raise self.refuse_caret()
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return polynomials.add({}, self.polynomial(operand), sign=-1)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.polynomial(operand)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return polynomials.add(self.polynomial(left), self.polynomial(right))
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return polynomials.add(self.polynomial(left), self.polynomial(right), sign=-1)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._product(node, self.polynomial(left), self.polynomial(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._quotient(node, left, right)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(node, left, right)
            case ast.Call() if call_name(node) == "I":
                return self.polynomial(self.arguments(node, 1)[0])
            case ast.Call() if call_name(node) == "np.square":
                return self._power(node, self.arguments(node, 1)[0], ast.Constant(2))
            case ast.Call() if call_name(node) == "np.power":
                return self._power(node, *self.arguments(node, 2))
            case _:
                return self._transform(node)

    def _product(self, node: ast.expr, left: Polynomial, right: Polynomial) -> Polynomial:
        if polynomials.degree(left) + polynomials.degree(right) > MAX_POWER or len(left) * len(right) > MAX_TERMS:
            return self._transform(node)
        return polynomials.multiply(left, right)

    def _quotient(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Polynomial:
        denominator = self.polynomial(right)
        if not denominator:
            raise self.refuse("a division by 0")
        if polynomials.is_constant(denominator):
            return polynomials.multiply(self.polynomial(left), polynomials.constant(1 / denominator[polynomials.ONE]))
        return self._transform(node)

    def _power(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Polynomial:
        base, exponent = self.polynomial(left), self.polynomial(right)
        if polynomials.is_constant(exponent):
            value = float(exponent.get(polynomials.ONE, 0))
            if abs(value) > MAX_EXPONENT:
                raise self.refuse_power(value)
            small = value * max(polynomials.degree(base), 1) <= MAX_POWER and len(base) ** max(value, 1) <= MAX_TERMS
            if value == int(value) and value >= 0 and small:
                return polynomials.power(base, int(value))
        return self._transform(node)

    def _transform(self, node: ast.expr) -> Polynomial:
        variables: dict[str, None] = {}
        boolean = self.check(node, variables)
        if not variables:
            raise self.refuse(f"write the number instead of the constant expression {ast.unparse(node)!r}")
        return polynomials.single(Symbol(ast.unparse(node), tuple(variables), "boolean" if boolean else "transform"))

    def _vector(self, node: ast.Call) -> Vector:
        name = call_name(node)
        first, *rest = self.arguments(node, keywords=True)
        column = self.column(first)
        if column is None:
            raise self.refuse(f"the argument of {name}(...) must be a declared column, not an expression")
        self.require_numeric(column)
        if not isinstance(self.columns[column], Continuous):
            raise SchemaError(
                f"{self.text!r}: {name}(...) needs a column with declared bounds, and {column!r} has none"
            )
        for argument in rest:
            self._require_numbers(argument)
        options = {str(pair.arg) for pair in node.keywords}
        if len(node.args) > 2 or not options <= SPLINE_OPTIONS:
            raise self.refuse(
                f"{name}(...) takes the column, at most one more argument, and the options "
                f"{', '.join(sorted(SPLINE_OPTIONS))} by name; the value of a row may not depend on other rows"
            )
        given = {"degree" if name == "poly" else "df": argument for argument in node.args[1:]}
        given |= {str(pair.arg): pair.value for pair in node.keywords}
        for option, limit in (("df", MAX_BASIS), ("knots", MAX_BASIS), ("degree", MAX_DEGREE)):
            value = ast.literal_eval(given[option]) if option in given else 0
            size = len(value) if isinstance(value, list | tuple) else value
            if isinstance(size, int | float) and size > limit:
                raise self.refuse(f"{option} of {name}(...) is at most {limit}")
        return Vector(Symbol(self.text, (column,), "vector"))

    def _require_numbers(self, node: ast.expr) -> None:
        """Refuse an option of a spline that is no number, True, False, None or flat list of numbers."""
        self.require_literal(node)
        value = ast.literal_eval(node)
        parts = value if isinstance(value, list | tuple) else [value]
        if not all(part is None or isinstance(part, int | float) for part in parts):
            raise self.refuse(f"{ast.unparse(node)!r} must be a number, True, False, None or a list of numbers")

    def _category(self, node: ast.Call) -> Factor:
        first, *rest = self.arguments(node, keywords=True)
        column = self.column(first)
        if column is None:
            raise self.refuse("the argument of C(...) must be a declared column")
        if any(pair.arg not in {"contrasts", "levels"} for pair in node.keywords):
            raise self.refuse("C(...) takes contrasts and levels= only")
        for argument in rest:
            self._require_contrast(argument)
        return _factor(self.text, column, self.columns)

    def _require_contrast(self, node: ast.expr) -> None:
        """Allow ``Treatment``, ``Treatment('b')``, ``contr.sum``, ``contr.sum()`` and constants."""
        function = node.func if isinstance(node, ast.Call) else node
        match function:
            case ast.Name(id=name) if name in CONTRASTS:
                pass
            case ast.Attribute(value=ast.Name(id="contr"), attr=name) if name in CONTRAST_METHODS:
                pass
            case _:
                self.require_literal(node)
                return
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            for argument in self.arguments(node, keywords=True):
                self.require_literal(argument)
