"""Linear constraints as statsmodels writes them: strings, arrays, or (array, values)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import OptionError


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
        pair = isinstance(constraints, tuple) and len(constraints) == 2
        matrix = np.atleast_2d(np.asarray(constraints[0] if pair else constraints, dtype=np.float64))
        if matrix.shape[1] != len(names):
            raise OptionError(f"a constraint needs {len(names)} entries, one per coefficient, not {matrix.shape[1]}")
        values = np.broadcast_to(np.asarray(constraints[1] if pair else 0.0, dtype=np.float64).ravel(), len(matrix))
        return Constraints(matrix, values.copy())
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


def _is_text_list(constraints: Any) -> bool:
    return (
        isinstance(constraints, list | tuple) and len(constraints) > 0 and all(isinstance(c, str) for c in constraints)
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
