"""Checks of a coded design on public rows, before a record is read: L is right, and the columns are independent."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import DesignError
from dpstats.specification.coding import Coding
from dpstats.specification.grids import spread_frame
from dpstats.specification.rowmap import RowMap

MATCH = 1e-12
RANK = 1e-9


def check_coding(coding: Coding) -> bool:
    """Compare L Z with formulaic's model matrix and judge the rank, on public rows.

    Returns
    -------
    bool
        True if the constant lies in the span of the model columns.

    Raises
    ------
    DesignError
        If the two differ, or if model columns are linearly dependent whatever the data.
    """
    design = coding.design
    n_rows = 200 + 20 * coding.n_columns
    frame = spread_frame(design.schema, design.variables, n_rows)
    coded = RowMap(coding, with_response=False).code(_as_columns(frame), n_rows).columns
    expected = design.model_matrix(frame)
    gap = np.abs(coded @ coding.contrast.T - expected).max(axis=0)
    size = np.maximum(np.abs(expected).max(axis=0), np.finfo(float).tiny)
    if (gap > MATCH * size).any():
        name = design.exog_names[int(np.argmax(gap / size))]
        raise DesignError(
            f"column {name!r} of {design.formula!r} cannot be coded exactly; write the term in another way"
        )
    _require_rank(coding.contrast, coding)
    basis_q, basis_r = np.linalg.qr(coding.contrast.T)
    _require_rank((coded @ basis_q).T, coding, basis_r)
    return _spans_constant(coded @ basis_q)


def _as_columns(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {str(name): frame[name] for name in frame.columns}


def _require_rank(rows: NDArray[np.float64], coding: Coding, triangle: NDArray[np.float64] | None = None) -> None:
    """Refuse if the rows (one per basis vector or model column) are linearly dependent; name the terms involved."""
    scale = np.maximum(np.linalg.norm(rows, axis=1), np.finfo(float).tiny)
    left, singular, _ = np.linalg.svd(rows / scale[:, None], full_matrices=True)
    if len(singular) == len(rows) and singular[-1] > RANK * singular[0]:
        return
    null = left[:, -1] / scale
    beta = null if triangle is None else np.linalg.solve(triangle, null)
    weight = np.abs(beta) * np.linalg.norm(coding.contrast, axis=1)
    involved = weight > 1e-6 * weight.max()
    terms = dict.fromkeys(c.term for c, inside in zip(coding.design.columns, involved, strict=True) if inside)
    listed = ", ".join("Intercept" if term == "1" else term for term in terms)
    raise DesignError(f"the columns of {listed} are linearly dependent whatever the data; drop one of these terms")


def _spans_constant(columns: NDArray[np.float64]) -> bool:
    ones = np.ones(len(columns))
    fitted = columns @ np.linalg.lstsq(columns, ones, rcond=None)[0]
    return bool(np.abs(fitted - ones).max() < 1e-8)
