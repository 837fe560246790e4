"""The allow-list over a formula's Python expressions, walked on the syntax tree before anything is evaluated.

Only row-wise arithmetic, comparisons, a fixed list of elementwise functions and transforms whose state can be learned
from public bounds pass. Attributes, subscripts, methods, lambdas, keyword tricks and unknown names never reach an
evaluator.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from dpstats.errors import FormulaError, SchemaError
from dpstats.specification.schema import Categorical, Column

_UNARY = (
    *("abs", "absolute", "fabs", "sign", "sqrt", "cbrt", "square", "exp", "exp2", "expm1", "log", "log2", "log10"),
    *("log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh"),
    *("arctanh", "deg2rad", "rad2deg", "floor", "ceil", "rint", "trunc"),
)
_BINARY = (
    *("power", "float_power", "logaddexp", "arctan2", "hypot", "mod", "remainder", "fmod", "minimum", "maximum"),
    "heaviside",
)
ARITY = (
    {f"np.{name}": 1 for name in _UNARY}
    | {f"np.{name}": 2 for name in _BINARY}
    | {"np.where": 3, "np.clip": 3}
    | dict.fromkeys(("log", "log2", "log10", "exp", "exp2"), 1)
)
"""Elementwise functions as formulas call them, and their number of arguments; there are no others, such as ``out``."""
SCALAR_OPTIONS = {
    "center": frozenset[str](),
    "scale": frozenset({"center", "scale", "ddof"}),
    "standardize": frozenset({"center", "rescale", "ddof"}),
}
SCALAR_STATEFUL = frozenset(SCALAR_OPTIONS)
"""Transforms with one column whose state is learned from public bounds."""
VECTOR_STATEFUL = frozenset({"bs", "cr", "cs", "cc", "poly"})
"""Transforms with several columns whose state is learned from public bounds."""
CONTRASTS = frozenset({"Treatment", "Sum", "Helmert", "Diff", "Poly"})
"""Contrast codings of C(...)."""
NUMPY_CONSTANTS = frozenset({"pi", "e"})
MAX_EXPONENT = 64
LARGEST_CONSTANT = 1e100

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


@dataclass(frozen=True, slots=True)
class RowWise:
    """A walk over the syntax tree of one factor of a formula.

    Attributes
    ----------
    text : str
        The factor, for messages.
    columns : mapping of str to Column
        The declared columns; the only names that may stand for values.
    """

    text: str
    columns: Mapping[str, Column]

    def refuse(self, reason: str) -> FormulaError:
        """Return the error that says why the factor is refused."""
        return FormulaError(f"{self.text!r}: {reason}")

    def check(self, node: ast.expr, variables: dict[str, None]) -> bool:
        """Collect the columns of an allowed expression; tell whether its values are true or false.

        Raises
        ------
        FormulaError, SchemaError
            If any part is not allowed.
        """
        column = self.column(node)
        if column is not None:
            self.require_numeric(column)
            variables[column] = None
            return False
        match node:
            case ast.Constant(value=int(value) | float(value)):
                self.require_usable(value)
                return False
            case ast.Attribute(value=ast.Name(id="np"), attr=attribute) if attribute in NUMPY_CONSTANTS:
                return False
            case ast.BinOp(op=ast.BitXor()):
                raise self.refuse_caret()
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()) | ast.UnaryOp(op=ast.Invert()):
                return self._logic(node, variables)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                if isinstance(op, ast.Pow):
                    self._require_small_power(right)
                self.check(left, variables)
                self.check(right, variables)
                return False
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self.check(operand, variables)
                return False
            case ast.Compare():
                return self._comparison(node, variables)
            case ast.Call():
                return self._call(node, variables)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise self.refuse("write '&', '|' and '~' with brackets instead of 'and', 'or' and 'not'")
        shown = ast.unparse(node)
        hint = f"; for the column of that name write Q({shown!r})" if shown in self.columns else ""
        raise self.refuse(f"{shown!r} is not a row-wise expression over declared columns{hint}")

    def _logic(self, node: ast.BinOp | ast.UnaryOp, variables: dict[str, None]) -> bool:
        operands = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        if not all([self.check(operand, variables) for operand in operands]):
            raise self.refuse("'&', '|' and '~' take comparisons in brackets, as in (x > 1) & (z < 2)")
        return True

    def _comparison(self, node: ast.Compare, variables: dict[str, None]) -> bool:
        if len(node.ops) != 1:
            raise self.refuse("split the chain into (a < x) & (x < b)")
        if not isinstance(node.ops[0], _COMPARISONS):
            raise self.refuse("only <, <=, >, >=, == and != compare values row by row")
        left, right = node.left, node.comparators[0]
        column = self.column(left)
        declared = None if column is None else self.columns[column]
        if column is not None and isinstance(declared, Categorical):
            equality = isinstance(node.ops[0], ast.Eq | ast.NotEq)
            if not (equality and isinstance(right, ast.Constant) and right.value in declared.levels):
                levels = list(declared.levels)
                raise self.refuse(f"compare {column!r} by == or != with one of its levels {levels!r}")
            variables[column] = None
            return True
        self.check(left, variables)
        self.check(right, variables)
        return True

    def _call(self, node: ast.Call, variables: dict[str, None]) -> bool:
        name = call_name(node)
        if name == "I":
            return self.check(self.arguments(node, 1)[0], variables)
        if name in SCALAR_STATEFUL:
            self.check(self.arguments(node, keywords=True)[0], variables)
            self._require_options(node, name, SCALAR_OPTIONS[name])
            return False
        if name in ARITY:
            boolean = [self.check(argument, variables) for argument in self.arguments(node, ARITY[name])]
            if name == "np.where" and not boolean[0]:
                raise self.refuse("the first argument of np.where must be a comparison, as in np.where(x > 1, x, 1)")
            return False
        if name in VECTOR_STATEFUL or name == "C":
            raise self.refuse(f"{name}(...) gives several columns and cannot stand inside an expression")
        raise self.refuse(
            f"{ast.unparse(node.func)!r} is not a known row-wise function, and a function that looks at other rows "
            "would be an unpaid release; use elementwise numpy functions (np.log, np.sqrt, np.exp, ...), and centre at "
            "a public constant, as in I(x - 50)"
        )

    def _require_options(self, node: ast.Call, name: str, options: frozenset[str]) -> None:
        if len(node.args) != 1 or any(pair.arg not in options for pair in node.keywords):
            allowed = f" and the options {', '.join(sorted(options))} by name" if options else ""
            raise self.refuse(f"{name}(...) takes one expression{allowed}, written out as constants")
        for pair in node.keywords:
            if not (isinstance(pair.value, ast.Constant) and isinstance(pair.value.value, int | float)):
                raise self.refuse(f"{pair.arg} of {name}(...) must be a number, True or False")

    def column(self, node: ast.expr) -> str | None:
        """Return the column that a node names, bare or as ``Q('name')``; None for anything else."""
        match node:
            case ast.Name(id=name):
                pass
            case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))], keywords=[]):
                pass
            case ast.Call(func=ast.Name(id="Q")):
                raise self.refuse("write Q('column name')")
            case _:
                return None
        if name not in self.columns:
            raise self.refuse(f"{name!r} is not a declared column")
        return name

    def require_numeric(self, name: str) -> None:
        """Refuse a column with declared levels where a number is needed."""
        if isinstance(self.columns[name], Categorical):
            raise SchemaError(
                f"{self.text!r}: column {name!r} has declared levels, so it is no number; write C({name}), or declare "
                "bounds instead of levels"
            )

    def arguments(self, node: ast.Call, count: int | None = None, *, keywords: bool = False) -> list[ast.expr]:
        """Return a call's arguments, written out; keyword values last."""
        if any(isinstance(a, ast.Starred) for a in node.args) or any(pair.arg is None for pair in node.keywords):
            raise self.refuse("write the arguments out, without '*'")
        if node.keywords and not keywords:
            raise self.refuse(f"{ast.unparse(node.func)} takes no keyword arguments here")
        found = [*node.args, *(pair.value for pair in node.keywords)]
        if not found or (count is not None and len(found) != count):
            raise self.refuse(f"wrong number of arguments in {ast.unparse(node)!r}")
        return found

    def require_usable(self, value: float) -> None:
        """Refuse a constant that is no ordinary float."""
        if not abs(value) <= LARGEST_CONSTANT:
            raise self.refuse(f"the constant {str(value)[:20]} is too large")

    def require_literal(self, node: ast.expr) -> None:
        """Refuse an option that is not written out as a constant."""
        try:
            ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            raise self.refuse(f"{ast.unparse(node)!r} must be written out as a constant") from None

    def refuse_caret(self) -> FormulaError:
        """Return the error for ``x^2``."""
        meant = self.text.replace(" ^ ", "**").replace("^", "**")
        return FormulaError(f"'^' is not a power inside {self.text!r}; write {meant}")

    def refuse_power(self, exponent: float) -> FormulaError:
        """Return the error for an exponent that is too large."""
        return self.refuse(f"the power {exponent:g} is too large to be useful; at most {MAX_EXPONENT}")

    def _require_small_power(self, exponent: ast.expr) -> None:
        for part in ast.walk(exponent):
            if isinstance(part, ast.Pow):
                raise self.refuse("write a power of a power as one number")
            if isinstance(part, ast.Constant) and isinstance(part.value, int | float) and part.value > MAX_EXPONENT:
                raise self.refuse_power(part.value)


def call_name(node: ast.expr) -> str | None:
    """Return ``"f"`` for a call of f and ``"np.f"`` for a call of np.f, else None."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name)):
            return f"np.{name}"
    return None
