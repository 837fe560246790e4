"""Predictions for new, public rows, coerced and clipped as the fit's rows were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import DataError
from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.moment_test import Contrast, contrasts
from dpstats.inference.moments import NoisyMoments
from dpstats.results.contrast_test import check_alpha
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
    rows = model_rows(design, exog)
    return pd.Series(np.where(rows.complete, rows.matrix @ params + rows.offset, np.nan), index=rows.index)


@dataclass(frozen=True, slots=True)
class ModelRows:
    """New rows as the model sees them (zone: public).

    Attributes
    ----------
    matrix : ndarray
        Model matrix, shape (n, q).
    complete : ndarray of bool
        Rows without a missing entry or an undeclared level, shape (n,).
    offset : ndarray
        What is added to the linear predictor, shape (n,); 0 without an offset.
    index : pandas.Index
        Of the rows.
    """

    matrix: NDArray[np.float64]
    complete: NDArray[np.bool_]
    offset: NDArray[np.float64]
    index: pd.Index


def model_rows(design: Design, exog: Any) -> ModelRows:
    """Coerce and clip new rows and build their model matrix.

    Raises
    ------
    DataError
        If a column is missing or the type is not supported.
    """
    frame = _as_frame(exog)
    names = design.regressor_variables
    if design.offset is not None:
        names = (*names, *design.offset.symbol.variables)
    for name in names:
        if name not in frame.columns:
            raise DataError(f"column {name!r} is missing in the new data; predict needs {', '.join(names)}")
    values, complete = coerce(design.schema, {name: array_of(frame[name]) for name in names}, len(frame))
    regressors = {name: values[name] for name in design.regressor_variables}
    matrix = design.model_matrix(as_frame(design.schema, regressors), len(frame))
    offset = np.zeros(len(frame)) if design.offset is None else design.offset.of(values, len(frame))
    return ModelRows(matrix, complete, offset, frame.index)


@dataclass(frozen=True, slots=True)
class LinearPredictions:
    """Linear predictors of new rows with their inference (zone: released).

    Attributes
    ----------
    found : tuple of Contrast or None
        Per row; None for a row that is not complete.
    index : pandas.Index
        Of the rows.
    """

    found: tuple[Contrast | None, ...]
    index: pd.Index

    @classmethod
    def of(
        cls, design: Design, exog: Any, moments: NoisyMoments, space: ModelSpace, fit: LeastSquares
    ) -> LinearPredictions:
        """Test one contrast per complete row.

        Raises
        ------
        DataError
            If a column is missing or the type is not supported.
        """
        rows = model_rows(design, exog)
        tested = iter(contrasts(moments, space, fit, rows.matrix[rows.complete]) if rows.complete.any() else [])
        return cls(tuple(next(tested) if complete else None for complete in rows.complete), rows.index)

    @property
    def estimates(self) -> NDArray[np.float64]:
        """Linear predictors, shape (n,)."""
        return np.array([np.nan if c is None else c.shown for c in self.found])

    @property
    def errors(self) -> NDArray[np.float64]:
        """Standard errors, shape (n,)."""
        return np.array([np.nan if c is None else c.sd for c in self.found])

    def intervals(self, alpha: float) -> NDArray[np.float64]:
        """Return confidence intervals of level 1 - alpha, shape (n, 2)."""
        level = check_alpha(alpha)
        return np.array([(np.nan, np.nan) if c is None else c.interval(level) for c in self.found]).reshape(-1, 2)


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
