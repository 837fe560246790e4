"""Predictions for new, public rows, through the same row map as the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import DataError
from dpstats.specification.coding import Coding
from dpstats.specification.rowmap import RowMap


def predict_rows(coding: Coding, params: NDArray[np.float64], exog: Any) -> pd.Series:
    """Return the linear predictor of new rows.

    Parameters
    ----------
    coding : Coding
        The fit's coded columns.
    params : ndarray
        Coefficients of the model columns, shape (q,), in raw units.
    exog : pandas.DataFrame, pandas.Series (one row) or dict of array-like
        New rows.

    Raises
    ------
    DataError
        If a column is missing or the type is not supported.
    """
    frame = _as_frame(exog)
    row_map = RowMap(coding, with_response=False)
    for name in row_map.variables:
        if name not in frame.columns:
            raise DataError(f"column {name!r} is missing in the new data; predict needs {', '.join(row_map.variables)}")
    coded = row_map.code({name: frame[name].array for name in row_map.variables}, len(frame))
    values = np.where(coded.complete, coded.columns @ (coding.contrast.T @ params), np.nan)
    return pd.Series(values, index=frame.index)


def _as_frame(exog: Any) -> pd.DataFrame:
    if isinstance(exog, pd.DataFrame):
        return exog
    if isinstance(exog, pd.Series):
        return exog.to_frame().T
    if isinstance(exog, Mapping):
        return pd.DataFrame({name: np.atleast_1d(np.asarray(values)) for name, values in exog.items()})
    raise DataError(
        f"new data must be a pandas DataFrame, one row as a Series, or a dict of arrays, not {type(exog).__name__}"
    )
