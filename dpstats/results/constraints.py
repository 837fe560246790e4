"""Linear constraints as statsmodels writes them: strings, arrays, or (array, values)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown


@dataclass(frozen=True, slots=True)
class Constraints:
    """R beta = tested (zone: public).

    Attributes
    ----------
    matrix : ndarray
        R, shape (m, q).
    tested : ndarray
        Right-hand sides, shape (m,).
    """

    matrix: NDArray[np.float64]
    tested: NDArray[np.float64]


def read_constraints(constraints: Any, names: Sequence[str]) -> Constraints:
    """Read constraints such as ``"x1 = x2"``, ``"C(g)[T.b] = 0, x = 1"``, an array R, or a pair (R, values).

    Raises
    ------
    OptionError
        If they cannot be read, or do not fit the number of coefficients.
    """
    if not isinstance(constraints, str | dict) and not _is_text_list(constraints):
        return _read_arrays(constraints, len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from patsy.design_info import DesignInfo
    try:
        found = DesignInfo(list(names)).linear_constraint(constraints)
    except Exception as error:
        raise OptionError(
            f"cannot read {constraints!r}; the coefficients are {', '.join(names)}. {_first_line(error)}"
        ) from None
    return Constraints(np.asarray(found.coefs, dtype=np.float64), np.asarray(found.constants, dtype=np.float64).ravel())


def _read_arrays(constraints: Any, width: int) -> Constraints:
    pair = isinstance(constraints, tuple) and len(constraints) == 2
    left, right = constraints if pair else (constraints, 0.0)
    try:
        matrix = np.atleast_2d(np.asarray(left, dtype=np.float64))
        values = np.broadcast_to(np.asarray(right, dtype=np.float64).ravel(), len(matrix)).copy()
    except (TypeError, ValueError):
        raise OptionError(
            "constraints must be text such as 'x1 = x2', an array with one row per constraint, or a pair (array, "
            f"values), not {shown(constraints)}"
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise OptionError(f"a constraint needs {width} entries, one per coefficient, not {matrix.shape[-1]}")
    return Constraints(matrix, values)


def _is_text_list(constraints: Any) -> bool:
    return (
        isinstance(constraints, list | tuple) and len(constraints) > 0 and all(isinstance(c, str) for c in constraints)
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
