"""Predictions for new, public rows, coerced and clipped as the fit's rows were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import DataError
from dpstats.specification.coercion import array_of, coerce
from dpstats.specification.design import Design
from dpstats.specification.grids import as_frame


def predict_rows(design: Design, params: NDArray[np.float64], exog: Any) -> pd.Series:
    """Return the linear predictor of new rows.

    Parameters
    ----------
    design : Design
        The model.
    params : ndarray
        Its coefficients, shape (q,), in raw units.
    exog : pandas.DataFrame, pandas.Series (one row) or dict of array-like
        New rows.

    Raises
    ------
    DataError
        If a column is missing or the type is not supported.
    """
    frame = _as_frame(exog)
    names = design.regressor_variables
    for name in names:
        if name not in frame.columns:
            raise DataError(f"column {name!r} is missing in the new data; predict needs {', '.join(names)}")
    values, complete = coerce(design.schema, {name: array_of(frame[name]) for name in names}, len(frame))
    matrix = design.model_matrix(as_frame(design.schema, values), len(frame))
    return pd.Series(np.where(complete, matrix @ params, np.nan), index=frame.index)


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
