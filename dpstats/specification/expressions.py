"""Read one factor of a formula: an allow-list over its syntax tree, before anything is evaluated.

Only row-wise arithmetic, a fixed list of elementwise functions and a few transforms whose state can be learned from
public bounds pass. Attributes, subscripts, methods, lambdas, keyword tricks and unknown names never reach an
evaluator.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from dataclasses import dataclass

from formulaic.utils.code import sanitize_variable_names

from dpstats.errors import FormulaError, SchemaError
from dpstats.specification import polynomials
from dpstats.specification.polynomials import Polynomial, Symbol
from dpstats.specification.schema import Binary, Categorical, Column, Continuous

ROWWISE = frozenset(
    "abs absolute fabs sign sqrt cbrt square exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan "
    "sinh cosh tanh arcsinh arccosh arctanh arctan2 hypot power float_power minimum maximum clip where floor ceil "
    "rint trunc mod remainder fmod logaddexp heaviside deg2rad rad2deg".split()
)
BARE_ROWWISE = frozenset({"log", "log2", "log10", "exp", "exp2"})
NUMPY_CONSTANTS = frozenset({"pi", "e"})
SCALAR_STATEFUL = frozenset({"center", "scale", "standardize"})
VECTOR_STATEFUL = frozenset({"bs", "cr", "cs", "cc", "poly"})
CONTRASTS = frozenset({"Treatment", "Sum", "Helmert", "Diff", "Poly"})
CONTRAST_METHODS = frozenset({"treatment", "SAS", "sum", "helmert", "diff", "poly", "custom"})
MAX_POWER = 8
MAX_EXPONENT = 64

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv)
_LOGIC = (ast.BitAnd, ast.BitOr)


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


def spell(name: str) -> str:
    """Spell a column's name inside a Python expression."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"Q({name!r})"


def read_name(name: str, columns: Mapping[str, Column]) -> Reading:
    """Read a bare column name."""
    column = columns[name]
    if isinstance(column, Categorical):
        return Factor(name)
    return Numeric(polynomials.single(Symbol(name, (name,))), spell(name))


def read_expression(expression: str, columns: Mapping[str, Column]) -> Reading:
    """Read a Python expression of a formula, such as ``np.log(x)``, ``C(g, Treatment('b'))`` or ``bs(x, df=5)``.

    Parameters
    ----------
    expression : str
        One factor as the formula parser cut it out.
    columns : mapping of str to Column
        The declared columns; the only names that may occur as values.

    Raises
    ------
    FormulaError
        If anything outside the allow-list occurs.
    SchemaError
        If a column is used against its declaration.
    """
    aliases: dict[str, str] = {}
    plain = sanitize_variable_names(expression, {}, aliases, template="quoted_{}")
    try:
        node = ast.parse(plain, mode="eval").body
    except SyntaxError:
        raise FormulaError(f"cannot read {expression!r}; it is not a valid expression") from None
    node = _Quotes(aliases).visit(node)
    return _Reader(ast.unparse(node), columns).read(node)


class _Quotes(ast.NodeTransformer):
    """Spell every name that is not an identifier as ``Q('name')``, so that one text means one expression."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self.aliases = aliases

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = self.aliases.get(node.id, node.id)
        return ast.parse(spell(name), mode="eval").body if name != node.id else node


@dataclass(frozen=True, slots=True)
class _Reader:
    """One walk over the syntax tree of one factor."""

    text: str
    columns: Mapping[str, Column]

    def read(self, node: ast.expr) -> Reading:
        name = self._call_name(node) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and name == "C":
            return self._factor(node)
        if isinstance(node, ast.Call) and name in VECTOR_STATEFUL:
            return self._vector(node, name)
        column = self._column(node)
        if column is not None:
            return read_name(column, self.columns)
        return Numeric(self.polynomial(node), self.text)

    def polynomial(self, node: ast.expr) -> Polynomial:
        """Return the polynomial of a numeric expression; what is no polynomial becomes a transform symbol."""
        column = self._column(node)
        if column is not None:
            return self._numeric_column(column)
        match node:
            case ast.Constant(value=value) if isinstance(value, int | float):
                return polynomials.constant(value)
            case ast.BinOp(op=ast.BitXor()):
                raise FormulaError(
                    f"'^' is not a power inside {self.text!r}; write {self.text.replace('^', '**').replace(' ** ', '**')!r}"
                )
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
                return polynomials.add({}, self.polynomial(operand), sign)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                sign = -1.0 if isinstance(node.op, ast.Sub) else 1.0
                return polynomials.add(self.polynomial(left), self.polynomial(right), sign)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return polynomials.multiply(self.polynomial(left), self.polynomial(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._quotient(node, left, right)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(node, left, right)
            case ast.Call() if self._call_name(node) == "I":
                return self.polynomial(self._only_argument(node))
            case ast.Call() if self._call_name(node) in {"np.square", "np.power"}:
                right = ast.Constant(2) if self._call_name(node) == "np.square" else self._arguments(node, 2)[1]
                return self._power(node, self._arguments(node)[0], right)
            case _:
                return self._transform(node)

    def _quotient(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Polynomial:
        denominator = self.polynomial(right)
        if polynomials.is_constant(denominator) and denominator:
            return polynomials.multiply(self.polynomial(left), polynomials.constant(1 / denominator[polynomials.ONE]))
        return self._transform(node)

    def _power(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Polynomial:
        exponent = self.polynomial(right)
        base = self.polynomial(left)
        if polynomials.is_constant(exponent):
            value = float(exponent.get(polynomials.ONE, 0))
            if abs(value) > MAX_EXPONENT:
                raise FormulaError(f"{self.text!r}: the power {value:g} is too large to be useful; at most {MAX_EXPONENT}")
            if value == int(value) and 0 <= value <= MAX_POWER:
                return polynomials.power(base, int(value))
        return self._transform(node)

    def _transform(self, node: ast.expr) -> Polynomial:
        variables: dict[str, None] = {}
        boolean = self._check(node, variables)
        if not variables:
            raise FormulaError(f"{self.text!r}: write the number instead of the constant expression {ast.unparse(node)!r}")
        form = "boolean" if boolean else "transform"
        return polynomials.single(Symbol(ast.unparse(node), tuple(variables), "boolean" if form == "boolean" else "transform"))

    def _check(self, node: ast.expr, variables: dict[str, None]) -> bool:
        """Walk an allowed row-wise expression, collect its columns, and tell whether its values are true or false."""
        column = self._column(node)
        if column is not None:
            self._numeric_column(column)
            variables[column] = None
            return False
        match node:
            case ast.Constant(value=value) if isinstance(value, int | float):
                return False
            case ast.BinOp(op=ast.BitXor()):
                self.polynomial(node)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                if isinstance(op, ast.Pow):
                    self._power_is_small(right)
                self._check(left, variables)
                self._check(right, variables)
                return False
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _LOGIC):
                if self._check(left, variables) and self._check(right, variables):
                    return True
                raise FormulaError(f"{self.text!r}: '&' and '|' join comparisons; put each in brackets, as in (x > 1) & (z < 2)")
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._check(operand, variables)
                return False
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                if self._check(operand, variables):
                    return True
                raise FormulaError(f"{self.text!r}: '~' negates a comparison in brackets, as in ~(x > 1)")
            case ast.Compare():
                return self._comparison(node, variables)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise FormulaError(f"{self.text!r}: write '&', '|' and '~' with brackets instead of 'and', 'or' and 'not'")
            case ast.Call():
                return self._call(node, variables)
            case ast.Attribute(value=ast.Name(id="np"), attr=attribute) if attribute in NUMPY_CONSTANTS:
                return False
        raise FormulaError(f"{self.text!r}: {ast.unparse(node)!r} is not a row-wise expression over declared columns")

    def _power_is_small(self, exponent: ast.expr) -> None:
        for part in ast.walk(exponent):
            if isinstance(part, ast.Constant) and isinstance(part.value, int | float) and abs(part.value) > MAX_EXPONENT:
                raise FormulaError(f"{self.text!r}: the power {part.value:g} is too large to be useful; at most {MAX_EXPONENT}")
            if isinstance(part, ast.Pow):
                raise FormulaError(f"{self.text!r}: write a power of a power as one number")

    def _comparison(self, node: ast.Compare, variables: dict[str, None]) -> bool:
        if len(node.ops) != 1:
            raise FormulaError(f"{self.text!r}: split the chain into (a < x) & (x < b)")
        if not isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.NotEq):
            raise FormulaError(f"{self.text!r}: only <, <=, >, >=, == and != compare values row by row")
        left, right = node.left, node.comparators[0]
        column = self._column(left)
        if column is not None and isinstance(self.columns[column], Categorical):
            levels = self.columns[column].levels  # type: ignore[union-attr]
            equality = isinstance(node.ops[0], ast.Eq | ast.NotEq)
            if not (equality and isinstance(right, ast.Constant) and right.value in levels):
                raise FormulaError(f"{self.text!r}: compare {column!r} by == or != with one of its levels {list(levels)!r}")
            variables[column] = None
            return True
        self._check(left, variables)
        self._check(right, variables)
        return True

    def _call(self, node: ast.Call, variables: dict[str, None]) -> bool:
        name = self._call_name(node)
        if name == "I":
            return self._check(self._only_argument(node), variables)
        if name in SCALAR_STATEFUL:
            first, *rest = self._arguments(node, keywords=True)
            self._check(first, variables)
            for argument in rest:
                self._literal(argument)
            return False
        if name is not None and (name in BARE_ROWWISE or (name.startswith("np.") and name[3:] in ROWWISE)):
            for argument in self._arguments(node):
                self._check(argument, variables)
            return False
        if name in VECTOR_STATEFUL or name == "C":
            raise FormulaError(f"{self.text!r}: {name}(...) gives several columns and cannot stand inside an expression")
        raise self._not_rowwise(node)

    def _not_rowwise(self, node: ast.Call) -> FormulaError:
        shown = ast.unparse(node.func)
        return FormulaError(
            f"{self.text!r}: {shown!r} is not a known row-wise function, and a function that looks at other rows would "
            f"be an unpaid release; use elementwise numpy functions (np.log, np.sqrt, np.exp, ...), and centre at a public "
            "constant, as in I(x - 50)"
        )

    def _vector(self, node: ast.Call, name: str) -> Vector:
        first, *rest = self._arguments(node, keywords=True)
        column = self._column(first)
        if column is None:
            raise FormulaError(f"{self.text!r}: the argument of {name}(...) must be a declared column, not an expression")
        self._numeric_column(column)
        for argument in rest:
            self._literal(argument)
        for pair in node.keywords:
            if pair.arg == "constraints":
                raise FormulaError(f"{self.text!r}: constraints= is not supported, its result depends on other rows")
            if pair.arg == "extrapolation":
                raise FormulaError(f"{self.text!r}: extrapolation= has no effect, values are clipped to the declared bounds")
        return Vector(Symbol(self.text, (column,), "vector"))

    def _factor(self, node: ast.Call) -> Factor:
        first, *rest = self._arguments(node, keywords=True)
        column = self._column(first)
        if column is None:
            raise FormulaError(f"{self.text!r}: the argument of C(...) must be a declared column")
        declared = self.columns[column]
        if isinstance(declared, Continuous):
            raise SchemaError(
                f"{self.text!r}: column {column!r} has declared bounds but no levels; declare levels={{{column!r}: [...]}} "
                "instead of its bounds"
            )
        for pair in node.keywords:
            if pair.arg not in {"contrasts", "levels"}:
                raise FormulaError(f"{self.text!r}: C(...) takes contrasts and levels= only")
        for argument in rest:
            self._contrast(argument)
        if isinstance(declared, Categorical) and len(declared.levels) == 1:
            raise SchemaError(
                f"{self.text!r}: one declared level ({declared.levels[0]!r}), nothing to estimate; drop the term or declare more levels"
            )
        return Factor(column)

    def _contrast(self, node: ast.expr) -> None:
        match node:
            case ast.Name(id=name) if name in CONTRASTS:
                return
            case ast.Call(func=ast.Name(id=name)) if name in CONTRASTS:
                pass
            case ast.Attribute(value=ast.Name(id="contr"), attr=name) if name in CONTRAST_METHODS:
                return
            case ast.Call(func=ast.Attribute(value=ast.Name(id="contr"), attr=name)) if name in CONTRAST_METHODS:
                pass
            case _:
                self._literal(node)
                return
        for argument in self._arguments(node, keywords=True, least=0):
            self._literal(argument)

    def _literal(self, node: ast.expr) -> None:
        try:
            ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            raise FormulaError(f"{self.text!r}: {ast.unparse(node)!r} must be written out as a constant") from None

    def _arguments(self, node: ast.expr, count: int | None = None, *, keywords: bool = False, least: int = 1) -> list[ast.expr]:
        assert isinstance(node, ast.Call)
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(pair.arg is None for pair in node.keywords):
            raise FormulaError(f"{self.text!r}: write the arguments out, without '*'")
        if node.keywords and not keywords:
            raise FormulaError(f"{self.text!r}: {ast.unparse(node.func)} takes no keyword arguments here")
        arguments = [*node.args, *(pair.value for pair in node.keywords)]
        if len(arguments) < least or (count is not None and len(arguments) != count):
            raise FormulaError(f"{self.text!r}: wrong number of arguments in {ast.unparse(node)!r}")
        return arguments

    def _only_argument(self, node: ast.expr) -> ast.expr:
        return self._arguments(node, 1)[0]

    def _call_name(self, node: ast.expr) -> str | None:
        match node:
            case ast.Call(func=ast.Name(id=name)):
                return name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name)):
                return f"np.{name}"
        return None

    def _column(self, node: ast.expr) -> str | None:
        """Return the column that a node names, bare or quoted; refuse unknown names."""
        match node:
            case ast.Name(id=name):
                pass
            case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))], keywords=[]):
                pass
            case ast.Call(func=ast.Name(id="Q")):
                raise FormulaError(f"{self.text!r}: write Q('column name')")
            case _:
                return None
        if name not in self.columns:
            raise FormulaError(f"{self.text!r}: {name!r} is not a declared column")
        return name

    def _numeric_column(self, name: str) -> Polynomial:
        column = self.columns[name]
        if isinstance(column, Categorical):
            raise SchemaError(f"{self.text!r}: column {name!r} has declared levels, so it is no number; use C({name}) or declare its bounds")
        assert isinstance(column, Continuous | Binary)
        return polynomials.single(Symbol(name, (name,)))


