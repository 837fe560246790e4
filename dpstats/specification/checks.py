"""Checks of a coded design on public rows, before a record is read: L is right, and the columns are independent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DesignError
from dpstats.specification.coding import Coding
from dpstats.specification.coercion import array_of
from dpstats.specification.design import Design
from dpstats.specification.grids import spread_frame
from dpstats.specification.rowmap import RowMap

MATCH = 1e-12
RANK = 1e-9
SAME = 1e-13


def check_columns(coding: Coding, design: Design, contrast: NDArray[np.float64]) -> bool:
    """Compare L Z with formulaic's model matrix and judge the rank, on public rows.

    Parameters
    ----------
    coding : Coding
        Coded columns Z.
    design : Design
        A model in their span.
    contrast : ndarray
        L, shape (q, D_x).

    Returns
    -------
    bool
        True if the constant lies in the span of the model columns.

    Raises
    ------
    DesignError
        If the two differ, or if model columns are linearly dependent whatever the data.
    """
    n_rows = 200 + 20 * coding.n_columns
    frame = spread_frame(coding.design.schema, coding.design.variables, n_rows)
    coded = (
        RowMap(coding, with_response=False).code({str(name): array_of(frame[name]) for name in frame}, n_rows).columns
    )
    expected = design.model_matrix(frame, n_rows)
    gap = np.abs(coded @ contrast.T - expected).max(axis=0)
    size = np.maximum(np.abs(expected).max(axis=0), np.finfo(float).tiny)
    if (gap > MATCH * size).any():
        name = design.exog_names[int(np.argmax(gap / size))]
        raise DesignError(
            f"column {name!r} of {design.formula!r} cannot be coded exactly; write the term in another way"
        )
    names = ["Intercept" if column.term == "1" else column.term for column in design.columns]
    basis_q, basis_r = np.linalg.qr(contrast.T)
    _require_independent(basis_r, contrast, names)
    orthonormal, columns_r = np.linalg.qr(coded @ basis_q)
    _require_rank(columns_r, basis_r, contrast, names)
    return _spans_constant(orthonormal)


def _require_independent(triangle: NDArray[np.float64], contrast: NDArray[np.float64], terms: list[str]) -> None:
    """Refuse a model column that is a combination of those before it, to the last digits of L.

    A cubic in calendar years has columns that differ by one part in 10^10 and is fine.
    """
    size = np.linalg.norm(contrast, axis=1)
    for j in range(len(contrast)):
        rest = abs(triangle[j, j]) if j < len(triangle) else 0.0
        if rest <= SAME * size[j]:
            before = np.linalg.lstsq((contrast[:j] / size[:j, None]).T, contrast[j], rcond=None)[0]
            involved = [*np.flatnonzero(np.abs(before) > 1e-6 * size[j]), j]
            _refuse(dict.fromkeys(terms[i] for i in involved))


def _require_rank(
    columns_r: NDArray[np.float64], basis_r: NDArray[np.float64], contrast: NDArray[np.float64], terms: list[str]
) -> None:
    """Refuse basis columns that are dependent on public rows.

    `columns_r` is the triangle of those columns' QR decomposition; `basis_r` maps model columns to the basis.
    """
    scale = np.maximum(np.linalg.norm(columns_r, axis=0), np.finfo(float).tiny)
    _, singular, right = np.linalg.svd(columns_r / scale)
    if singular[-1] > RANK * singular[0]:
        return
    beta = np.linalg.solve(basis_r, right[-1] / scale)
    weight = np.abs(beta) * np.linalg.norm(contrast, axis=1)
    involved = weight > 1e-6 * weight.max()
    _refuse(dict.fromkeys(term for term, inside in zip(terms, involved, strict=True) if inside))


def _refuse(terms: Iterable[str]) -> NoReturn:
    listed = ", ".join(terms)
    raise DesignError(f"the columns of {listed} are linearly dependent whatever the data; drop one of these terms")


def _spans_constant(orthonormal: NDArray[np.float64]) -> bool:
    fitted = orthonormal @ orthonormal.sum(axis=0)
    return bool(np.abs(fitted - 1.0).max() < 1e-8)
