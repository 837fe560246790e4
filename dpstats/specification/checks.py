"""Checks of a coded design on public rows, before a record is read: L is right, and the columns are independent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpstats.errors import DesignError
from dpstats.specification.coding import Coding
from dpstats.specification.coercion import array_of
from dpstats.specification.design import Design
from dpstats.specification.grids import spread_frame
from dpstats.specification.rowmap import RowMap

MATCH = 1e-12
RANK = 1e-9
SAME = 1e-13


def check_columns(coding: Coding, design: Design, contrast: NDArray[np.float64]) -> NDArray[np.float64] | None:
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
    ndarray or None
        Coefficients of the model columns that add up to 1 in every row, shape (q,); None if there are none.

    Raises
    ------
    DesignError
        If the two differ, or if model columns are linearly dependent whatever the data.
    """
    n_rows = public_rows(coding)
    frame = spread_frame(coding.design.schema, coding.design.variables, n_rows)
    coded = (
        RowMap(coding, with_response=False).code({str(name): array_of(frame[name]) for name in frame}, n_rows).columns
    )
    expected = design.model_matrix(frame, n_rows)
    gap = np.abs((csr_array(contrast) @ coded.T).T - expected).max(axis=0)
    size = np.maximum(np.abs(expected).max(axis=0), np.finfo(float).tiny)
    if (gap > MATCH * size).any():
        name = design.exog_names[int(np.argmax(gap / size))]
        raise DesignError(
            f"column {name!r} of {design.formula!r} cannot be coded exactly; write the term in another way"
        )
    names = ["Intercept" if column.term == "1" else column.term for column in design.columns]
    basis_q, basis_r = np.linalg.qr(contrast.T)
    _require_independent(basis_r, contrast, names)
    _require_rank(np.linalg.qr(coded, mode="r") @ basis_q, basis_r, contrast, names)
    intercept = np.array([float(column.term == "1") for column in design.columns])  # a column may have its name
    if intercept.any():
        return intercept
    ones = _constant_in(coded @ basis_q)
    return None if ones is None else np.asarray(np.linalg.solve(basis_r, ones), dtype=np.float64)


def public_rows(coding: Coding) -> int:
    """Return how many public rows check a coding: 20 for a column, 6 for a level alone, of which none is left out."""
    alone = sum(b.n_columns for b in coding.blocks if len(b.factors) == 1 and not b.degrees and not b.vectors)
    return 200 + 20 * coding.n_columns - 14 * alone


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

    `columns_r` is those columns in an orthonormal basis of theirs; `basis_r` maps model columns to the basis.
    """
    scale = np.maximum(np.linalg.norm(columns_r, axis=0), np.finfo(float).tiny)
    singular = np.linalg.svd(columns_r / scale, compute_uv=False)
    if len(singular) == len(scale) and singular[-1] > RANK * singular[0]:
        return
    right = np.linalg.svd(columns_r / scale)[2]
    beta = np.linalg.solve(basis_r, right[-1] / scale)
    weight = np.abs(beta) * np.linalg.norm(contrast, axis=1)
    involved = weight > 1e-6 * weight.max()
    _refuse(dict.fromkeys(term for term, inside in zip(terms, involved, strict=True) if inside))


def _refuse(terms: Iterable[str]) -> NoReturn:
    listed = ", ".join(terms)
    raise DesignError(f"the columns of {listed} are linearly dependent whatever the data; drop one of these terms")


def _constant_in(columns: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the coefficients of independent columns that add up to 1 in every row, if there are such."""
    orthonormal, triangle = np.linalg.qr(columns)
    parts = orthonormal.sum(axis=0)
    spanned = np.abs(orthonormal @ parts - 1.0).max() < 1e-8
    return np.asarray(np.linalg.solve(triangle, parts), dtype=np.float64) if spanned else None
