"""Evaluate an allow-listed scalar expression on float64 columns, elementwise, without ever raising on a value.

Private rows are evaluated here and not by the formula library: integer and boolean columns of pandas would change
dtype, raise or round differently because of a single cell. Every intermediate is a float64 or boolean array.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.allowlist import SCALAR_STATEFUL, call_name

_BINARY: dict[type, Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Mod: np.mod,
    ast.FloorDiv: np.floor_divide,
}
ZEROS_OF_EITHER_SIGN = frozenset({"np.minimum", "np.maximum", "np.clip"})
"""numpy leaves open which zero they take of 0.0 and -0.0; adding 0.0 makes it 0.0, wherever a row stands."""
_COMPARE: dict[type, Callable[..., Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def without_sign_of_zero(numbers: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return a copy as float64 in which every zero is 0.0.

    Where a value is clipped at zero numpy takes either of 0.0 and -0.0, by a row's place in its loops; arctan2 and
    1 / x tell them apart.
    """
    return np.asarray(np.add(numbers, 0.0, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class RowEvaluator:
    """One scalar expression (zone: public; it holds no rows).

    Attributes
    ----------
    text : str
        The expression.
    levels : dict of str to sequence
        Declared levels of the categorical columns that it compares.
    states : dict of str to (float or None, float or None)
        Centre and scale of each stateful call, by its text, learned on public rows.
    """

    text: str
    levels: Mapping[str, Sequence[Hashable]]
    states: Mapping[str, tuple[float | None, float | None]]

    def __call__(self, values: Mapping[str, NDArray[np.generic]], n_rows: int) -> NDArray[np.float64]:
        """Return the expression's value per row, shape (n_rows,); not finite where the expression is not.

        Parameters
        ----------
        values : mapping of str to ndarray
            Coerced columns: numbers, or codes of binary and categorical columns.
        n_rows : int
            Number of rows.
        """
        with np.errstate(all="ignore"):
            found = _number(_evaluate(ast.parse(self.text, mode="eval").body, values, self))
            return np.ascontiguousarray(np.broadcast_to(found, (n_rows,)))


def _evaluate(node: ast.expr, values: Mapping[str, NDArray[np.generic]], rules: RowEvaluator) -> Any:
    column = _column(node)
    if column is not None:
        return without_sign_of_zero(values[column])
    match node:
        case ast.Constant(value=value):
            return float(value)  # type: ignore[arg-type]
        case ast.Attribute(attr=attribute):
            return float(getattr(np, attribute))
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return np.logical_and(_evaluate(left, values, rules), _evaluate(right, values, rules))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return np.logical_or(_evaluate(left, values, rules), _evaluate(right, values, rules))
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return np.logical_not(_evaluate(operand, values, rules))
        case ast.BinOp(left=left, op=operator, right=right):
            operands = (_number(_evaluate(part, values, rules)) for part in (left, right))
            return _BINARY[type(operator)](*operands)
        case ast.UnaryOp(op=operator, operand=operand):
            found = _number(_evaluate(operand, values, rules))
            return -found if isinstance(operator, ast.USub) else found
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compare(left, operator, right, values, rules)
        case ast.Call():
            return _call(node, values, rules)
    raise AssertionError(f"not on the allow-list: {ast.dump(node)}")  # pragma: no cover - checked before


def _compare(
    left: ast.expr, operator: ast.cmpop, right: ast.expr, values: Mapping[str, NDArray[np.generic]], rules: RowEvaluator
) -> Any:
    column = _column(left)
    if column is not None and column in rules.levels and isinstance(right, ast.Constant):
        code = list(rules.levels[column]).index(right.value)
        return _COMPARE[type(operator)](values[column], code)
    operands = (_number(_evaluate(part, values, rules)) for part in (left, right))
    return _COMPARE[type(operator)](*operands)


def _call(node: ast.Call, values: Mapping[str, NDArray[np.generic]], rules: RowEvaluator) -> Any:
    name = call_name(node) or ""
    if name == "I":
        return _evaluate(node.args[0], values, rules)
    if name in SCALAR_STATEFUL:
        centre, scale = rules.states[ast.unparse(node)]
        found = _number(_evaluate(node.args[0], values, rules))
        found = found if centre is None else found - centre
        return found if scale is None else found / scale
    arguments = [_evaluate(argument, values, rules) for argument in node.args]
    if name == "np.where":
        return np.where(arguments[0], _number(arguments[1]), _number(arguments[2]))
    found = getattr(np, name.removeprefix("np."))(*map(_number, arguments))
    return found + 0.0 if name in ZEROS_OF_EITHER_SIGN else found


def _number(found: Any) -> Any:
    """Turn true and false into 1.0 and 0.0."""
    return np.asarray(found, dtype=np.float64)


def _column(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))]):
            return name
    return None
